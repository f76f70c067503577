//! Style: a list of properties that change how a thing looks where it is, nothing that moves it
//! over other things, loads an address or reads an attribute.

use std::borrow::Cow;
use std::fmt::Write;

use super::value::Verdict;
use super::{Refusal, Scalar};
use crate::codes;
use crate::template::{Piece, pieces};

/// Longest value of one declaration.
const MAX_VALUE_BYTES: usize = 512;

#[rustfmt::skip]
const PROPERTIES: &[&str] = &[
    "accent-color", "align-content", "align-items", "align-self", "aspect-ratio", "background",
    "background-color", "border", "border-block", "border-bottom", "border-bottom-color",
    "border-bottom-left-radius", "border-bottom-right-radius", "border-bottom-style",
    "border-bottom-width", "border-collapse", "border-color", "border-inline", "border-left",
    "border-left-color", "border-left-style", "border-left-width", "border-radius", "border-right",
    "border-right-color", "border-right-style", "border-right-width", "border-spacing",
    "border-style", "border-top", "border-top-color", "border-top-left-radius",
    "border-top-right-radius", "border-top-style", "border-top-width", "border-width",
    "box-shadow", "box-sizing", "break-inside", "caption-side", "color", "column-count",
    "column-gap", "column-width", "columns", "cursor", "direction", "display", "dominant-baseline",
    "empty-cells", "fill", "fill-opacity",
    "flex", "flex-basis", "flex-direction", "flex-flow", "flex-grow", "flex-shrink", "flex-wrap",
    "font", "font-family", "font-size", "font-style", "font-variant", "font-variant-numeric",
    "font-weight", "gap", "grid", "grid-area", "grid-auto-columns", "grid-auto-flow",
    "grid-auto-rows", "grid-column", "grid-column-end", "grid-column-start", "grid-row",
    "grid-row-end", "grid-row-start", "grid-template", "grid-template-areas",
    "grid-template-columns", "grid-template-rows", "height", "hyphens", "justify-content",
    "justify-items", "justify-self", "letter-spacing", "line-height", "list-style",
    "list-style-position", "list-style-type", "margin", "margin-block", "margin-bottom",
    "margin-inline", "margin-left", "margin-right", "margin-top", "max-height", "max-width",
    "min-height", "min-width", "object-fit", "object-position", "opacity", "order", "outline",
    "outline-color", "outline-style", "outline-width", "overflow", "overflow-wrap", "overflow-x",
    "overflow-y", "padding", "padding-block", "padding-bottom", "padding-inline", "padding-left",
    "padding-right", "padding-top", "place-content", "place-items", "place-self", "resize",
    "row-gap", "stop-color", "stop-opacity", "stroke", "stroke-dasharray", "stroke-dashoffset",
    "stroke-linecap", "stroke-linejoin", "stroke-opacity", "stroke-width", "tab-size", "table-layout", "text-align", "text-anchor", "text-decoration",
    "text-decoration-color", "text-decoration-line", "text-decoration-style", "text-indent",
    "text-overflow", "text-transform", "text-wrap", "user-select", "vertical-align", "visibility",
    "white-space", "width", "word-break", "word-spacing", "writing-mode",
];

/// Properties whose plain numbers are not lengths.
#[rustfmt::skip]
const UNITLESS: &[&str] = &[
    "aspect-ratio", "column-count", "columns", "flex", "flex-grow", "flex-shrink", "font-weight",
    "grid-area", "grid-column", "grid-column-end", "grid-column-start", "grid-row", "grid-row-end",
    "grid-row-start", "fill-opacity", "line-height", "opacity", "order", "stop-opacity",
    "stroke-dasharray", "stroke-dashoffset", "stroke-opacity", "stroke-width", "tab-size",
];

/// Functions that compute a colour, a length or a gradient.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch", "color-mix", "calc", "min",
    "max", "clamp", "minmax", "repeat", "fit-content", "linear-gradient", "radial-gradient",
    "conic-gradient",
];

/// Functions that load something or run something.
#[rustfmt::skip]
const LOADERS: &[&str] = &[
    "url", "src", "image", "image-set", "-webkit-image-set", "cross-fade", "-webkit-cross-fade",
    "element", "-moz-element", "paint", "expression", "attr",
];

/// Declarations that may be written, and what happened to the others.
#[derive(Debug, Default)]
pub(crate) struct Style {
    kept: String,
    dropped: Option<String>,
    refused: Option<Refusal>,
}

impl Style {
    pub(crate) fn into_verdict(self) -> Verdict<'static> {
        if let Some(refusal) = self.refused {
            return Verdict::Refuse(refusal);
        }
        let dropped = self.dropped.map(|what| Refusal::new(codes::STYLE_IGNORED, what));
        match (self.kept.is_empty(), dropped) {
            (true, None) => Verdict::Omit,
            (true, Some(refusal)) => Verdict::Ignore(refusal),
            (false, None) => Verdict::Write(Cow::Owned(self.kept)),
            (false, Some(refusal)) => Verdict::Partly(Cow::Owned(self.kept), refusal),
        }
    }

    fn refuse(&mut self, why: &'static str) {
        self.refused.get_or_insert(Refusal::new(codes::STYLE_DENIED, why));
    }

    fn declare(&mut self, name: &str, value: &str) {
        let value = value.trim();
        if matches!(name, "behavior" | "-moz-binding" | "-ms-behavior") {
            return self.refuse("this property runs code");
        }
        if let Err(why) = harmless(value) {
            return self.refuse(why);
        }
        if value.is_empty() {
            return;
        }
        if PROPERTIES.binary_search(&name).is_err() || !shown(name, value) {
            let name: String = name.chars().take(64).collect();
            self.dropped.get_or_insert(format!("the declaration of {name:?} is not shown"));
            return;
        }
        // Writing to a string cannot fail.
        let _ = write!(self.kept, "{name}:{value};");
    }
}

/// Judges declarations as text. What is shown whole is shown as it was written.
pub(crate) fn text(text: &str) -> Style {
    let mut style = Style::default();
    if let Err(why) = plain(text) {
        style.refuse(why);
        return style;
    }
    for declaration in text.split(';') {
        match declaration.split_once(':') {
            Some((name, value)) => style.declare(&name.trim().to_ascii_lowercase(), value),
            None if declaration.trim().is_empty() => {}
            None => {
                style
                    .dropped
                    .get_or_insert("a declaration without a value is not shown".to_owned());
            }
        }
    }
    if style.dropped.is_none() && style.refused.is_none() && !style.kept.is_empty() {
        style.kept.clear();
        style.kept.push_str(text.trim());
    }
    style
}

/// Judges declarations as an object: names in camel case, plain numbers as pixels.
pub(crate) fn object<'a>(members: impl Iterator<Item = (&'a str, Scalar<'a>)>) -> Style {
    let mut style = Style::default();
    for (name, value) in members {
        let name = kebab(name);
        let value = match value {
            Scalar::Text(text) => text,
            Scalar::Number(number) if number == "0" || UNITLESS.contains(&name.as_str()) => {
                Cow::Owned(number)
            }
            Scalar::Number(number) => Cow::Owned(format!("{number}px")),
            Scalar::Null | Scalar::Bool(false) => continue,
            Scalar::Bool(true) | Scalar::Container => {
                style.dropped.get_or_insert(format!("the value of {name:?} has the wrong form"));
                continue;
            }
        };
        if let Err(why) = plain(&value) {
            style.refuse(why);
        } else if value.contains(';') {
            style.refuse("one value holds several declarations");
        } else {
            style.declare(&name, &value);
        }
    }
    style
}

/// Judges a text with templates: each stands for a plain value, which is judged when it is known.
pub(crate) fn template(text: &str) -> Result<(), Refusal> {
    match self::text(&literal(text)).refused {
        Some(refusal) => Err(refusal),
        None => Ok(()),
    }
}

/// A text with a plain number in the place of each template.
pub(crate) fn literal(text: &str) -> String {
    pieces(text)
        .map(|piece| match piece {
            Piece::Literal(text) => text,
            Piece::Expression(_) => "0",
        })
        .collect()
}

fn kebab(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for character in name.trim().chars() {
        if character.is_ascii_uppercase() {
            out.push('-');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}

/// Escapes and comments would let a browser read another text than was judged.
fn plain(text: &str) -> Result<(), &'static str> {
    if text.contains('\\') || text.contains("/*") {
        return Err("a style holds no escapes and no comments");
    }
    if text.contains(['<', '>', '@', '{', '}'])
        || text.contains(|c: char| c.is_control() && !c.is_whitespace())
    {
        return Err("a style holds declarations only");
    }
    Ok(())
}

/// Whether a value could load or run something.
fn harmless(value: &str) -> Result<(), &'static str> {
    if value.contains(':') {
        return Err("a style value holds no address");
    }
    for (at, _) in value.match_indices('(') {
        if LOADERS.contains(&function_before(value, at).to_ascii_lowercase().as_str()) {
            return Err("a style value loads nothing");
        }
    }
    Ok(())
}

fn function_before(value: &str, at: usize) -> &str {
    // A space before the bracket changes nothing for a reader that skips it.
    let head = value[..at].trim_end();
    let start = head
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
        .map_or(0, |before| before + 1);
    // The character before may be wider than one byte.
    head.get(start..).unwrap_or_default()
}

/// Whether a value is simple enough to be shown.
fn shown(name: &str, value: &str) -> bool {
    let known_function = |(at, _): (usize, &str)| {
        let function = function_before(value, at).to_ascii_lowercase();
        function.is_empty() || FUNCTIONS.contains(&function.as_str())
    };
    let balanced = value.matches('(').count() == value.matches(')').count()
        && value.matches('"').count().is_multiple_of(2)
        && value.matches('\'').count().is_multiple_of(2);
    let outward = name.starts_with("margin") && value.contains('-');
    value.len() <= MAX_VALUE_BYTES
        && value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'!')
        && value.match_indices('(').all(known_function)
        && balanced
        && !outward
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, want: &str) {
        let got = match text(given).into_verdict() {
            Verdict::Write(text) => text.into_owned(),
            Verdict::Partly(text, _) => format!("~{text}"),
            Verdict::Refuse(_) => "REFUSED".to_owned(),
            Verdict::Ignore(_) => "IGNORED".to_owned(),
            Verdict::Omit | Verdict::Bare => String::new(),
        };
        assert_eq!(got, want, "{given:?}");
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(PROPERTIES.is_sorted());
    }

    #[test]
    fn declarations() {
        check(" color: red; ", "color: red;");
        check("color:red", "color:red");
        check("COLOR:RED", "COLOR:RED");
        check("padding: 1px;margin:0 auto", "padding: 1px;margin:0 auto");
        check("width: calc((1px + 2px) * 3)", "width: calc((1px + 2px) * 3)");
        check("color: red; position: fixed", "~color:red;");
        check("position:fixed;inset:0;z-index:99999", "IGNORED");
        check("--x: red", "IGNORED");
        check("color: red !important", "IGNORED");
        check("margin-top: -100vh", "IGNORED");
        check("color: var(--host)", "IGNORED");
        check("", "");
    }

    #[test]
    fn attacks() {
        for given in [
            "background: url(https://evil.example/x)",
            "background: URL (x)",
            "background: u\\72l(x)",
            "width: exp/**/ression(1)",
            "width: expression(alert(1))",
            "background: image-set('x' 1x)",
            "background:-webkit-image-set(url(x) 1x)",
            "color: red; behavior: url(x)",
            "-moz-binding: none",
            "@import 'x'",
            "color: red}body{display:none",
            "background: javascript:alert(1)",
            "color: red</style><script>",
            "x: attr(title)",
        ] {
            check(given, "REFUSED");
        }
    }

    #[test]
    fn objects() {
        let members = [
            ("fontSize", Scalar::Number("12".into())),
            ("lineHeight", Scalar::Number("1.5".into())),
            ("marginTop", Scalar::Number("0".into())),
            ("color", Scalar::Text("red".into())),
            ("opacity", Scalar::Null),
        ];
        let verdict = object(members.into_iter()).into_verdict();
        let want = "font-size:12px;line-height:1.5;margin-top:0;color:red;";
        assert_eq!(verdict, Verdict::Write(want.into()));
    }
}
