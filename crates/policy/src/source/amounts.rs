//! Sizes, times and rates of a policy.

use glasshouse_model::Rate;
use glasshouse_model::units::{UnitError, parse_size_bytes, parse_time_ms};

use crate::codes;
use crate::error::Result;
use crate::yaml::{Kind, Node, Reader};

/// A kind of amount that has a unit.
pub(super) struct Quantity {
    parse: fn(&str) -> std::result::Result<u64, UnitError>,
    what: &'static str,
    fix: &'static str,
}

pub(super) const SIZE: Quantity = Quantity {
    parse: parse_size_bytes,
    what: "a size, such as 100KiB",
    fix: "write a whole number with KiB, MiB, GiB, KB, MB or GB, or of bytes",
};
pub(super) const TIME: Quantity = Quantity {
    parse: parse_time_ms,
    what: "a time with its unit, such as 30s",
    fix: "write a whole number with ms, s, m, h or d, such as 30s",
};

pub(super) fn quantity(
    reader: &Reader<'_>,
    node: &Node,
    key: &str,
    kind: &Quantity,
) -> Result<u64> {
    let text = match &node.kind {
        Kind::Integer(number) => number.to_string(),
        Kind::Float(number) => number.to_string(),
        Kind::Text(text) => text.clone(),
        _ => return Err(reader.wrong_type(node, key, kind.what)),
    };
    (kind.parse)(&text).map_err(|error| {
        let what = format!("`{key}` cannot be read");
        reader.error(codes::BAD_UNIT, node, what).why(error).fix(kind.fix)
    })
}

/// `10/m`, `100/24h`: so many calls in so much time.
pub(super) fn rate(reader: &Reader<'_>, node: &Node) -> Result<Rate> {
    let text = match &node.kind {
        Kind::Integer(number) => number.to_string(),
        Kind::Text(text) => text.clone(),
        _ => return Err(reader.wrong_type(node, "rate", "calls and a time, such as 20/h")),
    };
    let bad = || {
        reader
            .error(codes::BAD_UNIT, node, format!("`{text}` is no rate"))
            .why("expected calls and a time, such as 10/m or 100/24h")
            .fix("write calls and a time, such as 20/h")
    };
    let (calls, within) = text.split_once('/').ok_or_else(bad)?;
    let whole = if within.starts_with(|c: char| c.is_ascii_digit()) {
        within.to_owned()
    } else {
        format!("1{within}")
    };
    // A sign is no part of a number here, as it is none in sizes and times.
    let digits = Some(calls).filter(|calls| calls.bytes().all(|byte| byte.is_ascii_digit()));
    let calls = digits.and_then(|digits| digits.parse().ok()).filter(|calls| *calls > 0);
    let calls = calls.ok_or_else(bad)?;
    let within_ms = parse_time_ms(&whole).ok().filter(|ms| *ms > 0).ok_or_else(bad)?;
    Ok(Rate { calls, within_ms })
}
