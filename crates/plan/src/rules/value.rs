//! What becomes of the value of an attribute: written, left out, or a reason to refuse the plan.

use std::borrow::Cow;

use super::attribute::{Attribute, INPUT_TYPES, Kind, LIST_TYPES};
use super::{Refusal, Scalar, style, url};
use crate::codes;
use crate::profile::Profile;

/// What a browser may fill in: what a person writes on an envelope. No passwords, no cards.
const AUTOFILL: &[&str] = &[
    "on",
    "off",
    "name",
    "honorific-prefix",
    "given-name",
    "additional-name",
    "family-name",
    "honorific-suffix",
    "nickname",
    "organization",
    "organization-title",
    "street-address",
    "address-line1",
    "address-line2",
    "address-line3",
    "address-level1",
    "address-level2",
    "address-level3",
    "address-level4",
    "country",
    "country-name",
    "postal-code",
    "language",
    "bday",
    "bday-day",
    "bday-month",
    "bday-year",
    "url",
    "email",
    "tel",
    "tel-country-code",
    "tel-national",
    "tel-area-code",
    "tel-local",
    "tel-extension",
    "shipping",
    "billing",
    "home",
    "work",
    "mobile",
];
/// Functions that a colour may be written with. Others read what the host has, such as `var()`.
const COLOUR_FUNCTIONS: &[&str] =
    &["rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch", "color", "color-mix"];
/// Functions of a drawing's transformations.
const TRANSFORMATIONS: &[&str] =
    &["matrix", "translate", "scale", "rotate", "skewX", "skewY", "translateX", "translateY"];
/// Longest colour.
const MAX_PAINT_BYTES: usize = 128;

/// What to do with an attribute that has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// Write the name and this value.
    Write(Cow<'a, str>),
    /// Write the name and this value; another part of it is not shown.
    Partly(Cow<'a, str>, Refusal),
    /// Write the name alone.
    Bare,
    /// Absent by its value.
    Omit,
    /// Not shown: the value has the wrong form.
    Ignore(Refusal),
    /// Not shown, and the plan is refused.
    Refuse(Refusal),
}

/// Judges a value whose templates, if it had any, are resolved (`templated`).
pub(crate) fn judge<'a>(
    attribute: &Attribute<'_>,
    value: Scalar<'a>,
    templated: bool,
    profile: &Profile,
) -> Verdict<'a> {
    if let Kind::Denied(why) = attribute.kind {
        return Verdict::Refuse(Refusal::new(codes::ATTRIBUTE_DENIED, why));
    }
    let text = match value {
        Scalar::Null => return Verdict::Omit,
        Scalar::Bool(value) => return boolean(attribute.kind, value),
        Scalar::Container => return ignore("a text, a number or a boolean is expected"),
        Scalar::Number(_) if matches!(attribute.kind, Kind::Link | Kind::Image) => {
            return ignore("an address is a text");
        }
        Scalar::Number(number) => Cow::Owned(number),
        Scalar::Text(text) => text,
    };
    match attribute.kind {
        Kind::Flag if text == "false" || (templated && text.is_empty()) => Verdict::Omit,
        Kind::Flag => Verdict::Bare,
        Kind::Words(words) => {
            match words.iter().find(|word| {
                // List types differ by case only; everything else compares without it.
                if words == LIST_TYPES { **word == text } else { word.eq_ignore_ascii_case(&text) }
            }) {
                Some(word) => Verdict::Write(Cow::Borrowed(word)),
                None => not_a_word(words),
            }
        }
        Kind::Number => match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Verdict::Write(text),
            _ => ignore("a number is expected"),
        },
        Kind::Id | Kind::Ids if text.trim().is_empty() => Verdict::Omit,
        Kind::Link => address(url::link(text, templated, profile)),
        Kind::Image => address(url::image(text, templated, profile)),
        Kind::Style => style::text(&text).into_verdict(),
        Kind::Paint => paint(text),
        Kind::Drawn if !is_drawn(&text) => {
            ignore("numbers, words and transformations are expected")
        }
        Kind::Autofill
            if !text
                .split_ascii_whitespace()
                .all(|word| AUTOFILL.iter().any(|known| known.eq_ignore_ascii_case(word))) =>
        {
            ignore("a browser does not fill this in for a plan")
        }
        _ => Verdict::Write(text),
    }
}

/// A colour, a word, or `url(#name)`; an address of any other kind is an attempt.
fn paint(text: Cow<'_, str>) -> Verdict<'_> {
    let plain = text.len() <= MAX_PAINT_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" #%,.-_()/".contains(&byte));
    let lower = text.to_ascii_lowercase();
    if !lower.contains("url") {
        let colour = plain && calls_only(&text, COLOUR_FUNCTIONS);
        return if colour { Verdict::Write(text) } else { ignore("a colour is expected") };
    }
    match fragment(&text) {
        Some(_) => Verdict::Write(text),
        None => Verdict::Refuse(Refusal::new(
            codes::URL_DENIED,
            "paint comes from a colour or from url(#name)",
        )),
    }
}

/// Whether a value of a drawing can do nothing but draw.
fn is_drawn(text: &str) -> bool {
    let odd = |byte: u8| byte.is_ascii_control() && byte != b'\n' && byte != b'\t';
    let marks = |byte: u8| b";{}\\<>@*:".contains(&byte);
    !text.bytes().any(|byte| odd(byte) || marks(byte)) && calls_only(text, TRANSFORMATIONS)
}

/// Whether every function that is called is one of these.
fn calls_only(text: &str, functions: &[&str]) -> bool {
    text.match_indices('(').all(|(at, _)| {
        let name = text[..at].rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next();
        let name = name.unwrap_or_default();
        functions.iter().any(|function| function.eq_ignore_ascii_case(name))
    })
}

/// The name in `url(#name)`.
pub(crate) fn fragment(paint: &str) -> Option<&str> {
    let name = paint.trim().strip_prefix("url(#")?.strip_suffix(')')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

fn not_a_word(words: &[&str]) -> Verdict<'static> {
    // An unknown input type would fall back to a text field and show what it should not hide.
    if words == INPUT_TYPES {
        return Verdict::Refuse(Refusal::new(
            codes::ATTRIBUTE_DENIED,
            "this input type is not shown: a plan asks for no passwords and no files",
        ));
    }
    ignore("one of a few words is expected")
}

fn boolean(kind: Kind, value: bool) -> Verdict<'static> {
    match kind {
        Kind::Flag if value => Verdict::Bare,
        Kind::Flag => Verdict::Omit,
        Kind::Aria | Kind::Data => {
            Verdict::Write(Cow::Borrowed(if value { "true" } else { "false" }))
        }
        _ if !value => Verdict::Omit,
        _ => ignore("a text or a number is expected"),
    }
}

fn address(judged: Result<Cow<'_, str>, Refusal>) -> Verdict<'_> {
    match judged {
        Ok(text) => Verdict::Write(text),
        Err(refusal) => Verdict::Refuse(refusal),
    }
}

fn ignore(why: &'static str) -> Verdict<'static> {
    Verdict::Ignore(Refusal::new(codes::ATTRIBUTE_IGNORED, why))
}

/// Judges a value whose templates are not resolved yet by what is already certain about it.
pub(crate) fn judge_template(
    attribute: &Attribute<'_>,
    text: &str,
    profile: &Profile,
) -> Result<(), Refusal> {
    match attribute.kind {
        Kind::Denied(why) => Err(Refusal::new(codes::ATTRIBUTE_DENIED, why)),
        Kind::Link => url::link_template(text, profile),
        Kind::Image => url::image_template(text),
        Kind::Style => style::template(text),
        _ => Ok(()),
    }
}

/// Relations a plan may give a link; none of them opens or loads anything.
const RELATIONS: &[&str] = &[
    "nofollow",
    "noopener",
    "noreferrer",
    "external",
    "ugc",
    "sponsored",
    "help",
    "license",
    "tag",
    "author",
    "next",
    "prev",
    "bookmark",
    "search",
];

/// The relations of a link: those it may have, and those it must have.
pub(crate) fn relations(given: &str, leaves: bool) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let forced: &[&str] = if leaves { &["noopener", "noreferrer"] } else { &[] };
    let given = given.split_ascii_whitespace().filter_map(|word| {
        RELATIONS.iter().find(|known| known.eq_ignore_ascii_case(word)).copied()
    });
    for word in forced.iter().copied().chain(given) {
        if !kept.contains(&word) {
            kept.push(word);
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_merged_and_filtered() {
        assert_eq!(relations("opener nofollow", true), "noopener noreferrer nofollow");
        assert_eq!(relations("NoOpener", true), "noopener noreferrer");
        assert_eq!(relations("stylesheet tag", false), "tag");
    }
}
