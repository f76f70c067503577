//! Sizes and times in configuration and policy files.
//!
//! Sizes: `KiB MiB GiB` are powers of 1024, `KB MB GB` powers of 1000, a bare number is bytes.
//! Times: `ms s m h d`; a bare number is refused because nothing says which unit was meant.
//! Units are case-sensitive; anything else is an error, and an error stops the start.

use std::fmt;

/// Why a quantity could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitError {
    text: String,
    problem: Problem,
    expected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    NoNumber,
    Fraction,
    UnknownUnit(String),
    MissingUnit,
    Overflow,
}

const SIZE_UNITS: &str = "KiB, MiB, GiB, KB, MB, GB or no unit for bytes";
const TIME_UNITS: &str = "ms, s, m, h or d";

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, problem, expected } = self;
        match problem {
            Problem::NoNumber => write!(f, "`{text}` does not start with a whole number"),
            Problem::Fraction => {
                write!(f, "`{text}` is no whole number, and amounts are; take a smaller unit")
            }
            Problem::UnknownUnit(unit) => {
                write!(f, "`{text}` has the unknown unit `{unit}`; expected {expected}")
            }
            Problem::MissingUnit => write!(f, "`{text}` has no unit; expected {expected}"),
            Problem::Overflow => write!(f, "`{text}` is too large"),
        }
    }
}

impl std::error::Error for UnitError {}

/// Reads an amount of money such as `2.50` into millionths of its currency.
///
/// # Errors
/// Names the text and what is wrong with it: no digits, a sign, more than six places.
///
/// ```
/// use glasshouse_model::units::parse_money_micros;
/// assert_eq!(parse_money_micros("2.50").unwrap(), 2_500_000);
/// assert_eq!(parse_money_micros("0.000001").unwrap(), 1);
/// assert!(parse_money_micros("-1").is_err());
/// assert!(parse_money_micros("0.0000001").is_err());
/// ```
pub fn parse_money_micros(text: &str) -> Result<u64, UnitError> {
    const EXPECTED: &str = "a decimal number with at most six places";
    let fail = |problem| UnitError { text: text.to_owned(), problem, expected: EXPECTED };
    let (whole, places) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(places) {
        return Err(fail(Problem::NoNumber));
    }
    if places.len() > 6 {
        return Err(fail(Problem::UnknownUnit(places[6..].to_owned())));
    }
    let number = |part: &str| part.parse::<u64>().map_err(|_| fail(Problem::Overflow));
    let micros = number(&format!("{places:0<6}"))?;
    let whole = number(whole)?.checked_mul(1_000_000).ok_or_else(|| fail(Problem::Overflow))?;
    whole.checked_add(micros).ok_or_else(|| fail(Problem::Overflow))
}

/// Reads a size into bytes.
///
/// # Errors
/// Names the text and what is wrong with it.
///
/// ```
/// use glasshouse_model::units::parse_size_bytes;
/// assert_eq!(parse_size_bytes("256MiB").unwrap(), 256 << 20);
/// assert_eq!(parse_size_bytes("1KB").unwrap(), 1000);
/// assert!(parse_size_bytes("1kb").is_err());
/// ```
pub fn parse_size_bytes(text: &str) -> Result<u64, UnitError> {
    quantity(text, SIZE_UNITS, |unit| match unit {
        "" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        _ => None,
    })
}

/// Reads a time into milliseconds.
///
/// # Errors
/// Names the text and what is wrong with it; a bare number is an error.
///
/// ```
/// use glasshouse_model::units::parse_time_ms;
/// assert_eq!(parse_time_ms("2m").unwrap(), 120_000);
/// assert!(parse_time_ms("5").is_err());
/// ```
pub fn parse_time_ms(text: &str) -> Result<u64, UnitError> {
    quantity(text, TIME_UNITS, |unit| match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    })
}

fn quantity(
    text: &str,
    expected: &'static str,
    factor: impl Fn(&str) -> Option<u64>,
) -> Result<u64, UnitError> {
    let fail = |problem| UnitError { text: text.to_owned(), problem, expected };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(fail(Problem::NoNumber));
    }
    if unit
        .strip_prefix(['.', ','])
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return Err(fail(Problem::Fraction));
    }
    let Some(factor) = factor(unit) else {
        return Err(fail(if unit.is_empty() {
            Problem::MissingUnit
        } else {
            Problem::UnknownUnit(unit.to_owned())
        }));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .ok_or_else(|| fail(Problem::Overflow))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(parse_size_bytes(text).ok(), expected, "{text:?}");
        };
        check("0", Some(0));
        check("100KiB", Some(102_400));
        check("1GiB", Some(1 << 30));
        check("3GB", Some(3_000_000_000));
        for bad in [
            "", "KiB", "1kib", "1 KiB", "1KIB", "1K", "1.5MiB", "-1", "+1", "1B", "1TiB", " 1",
            "1 ",
        ] {
            check(bad, None);
        }
        check("99999999999999999999", None);
        check("18446744073709551615GiB", None);
    }

    #[test]
    fn times() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(parse_time_ms(text).ok(), expected, "{text:?}");
        };
        check("100ms", Some(100));
        check("300s", Some(300_000));
        check("1h", Some(3_600_000));
        check("90d", Some(7_776_000_000));
        check("99999999999999d", None);
        for bad in ["", "5", "1S", "1M", "1 s", "1D", "1sec", "0.5s", "-1s"] {
            check(bad, None);
        }
    }

    #[test]
    fn errors_name_the_text_and_the_choices() {
        let check = |error: UnitError, words: &[&str]| {
            let text = error.to_string();
            for word in words {
                assert!(text.contains(word), "{text}");
            }
        };
        check(parse_size_bytes("10Kib").unwrap_err(), &["10Kib", "`Kib`", "KiB"]);
        check(parse_time_ms("30").unwrap_err(), &["`30`", "no unit", "ms, s, m, h or d"]);
        check(parse_size_bytes("many").unwrap_err(), &["many", "whole number"]);
        for fraction in ["1.5MiB", "0.5", "1,5KB", "2.0MB"] {
            check(parse_size_bytes(fraction).unwrap_err(), &[fraction, "no whole number"]);
        }
        check(parse_time_ms("0.5s").unwrap_err(), &["`0.5s`", "no whole number"]);
        // The control: no fraction, and a unit that begins so.
        check(parse_size_bytes("1.MiB").unwrap_err(), &["unknown unit `.MiB`"]);
    }
}
