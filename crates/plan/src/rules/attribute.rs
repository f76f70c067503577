//! Attributes that may be shown, each with the kind of value it takes.

use std::borrow::Cow;

use super::element::{self, ElementId};
use super::lookup::Index;
use super::{Refusal, Scalar, style, url};
use crate::codes;
use crate::profile::Profile;

/// What an attribute's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text or number.
    Text,
    /// Present or absent.
    Flag,
    /// One of a few words.
    Words(&'static [&'static str]),
    /// A number.
    Number,
    /// One id, which gets the surface's prefix.
    Id,
    /// Several ids.
    Ids,
    /// An address a person can follow.
    Link,
    /// An address a browser loads by itself.
    Image,
    /// Style declarations.
    Style,
    /// Relations of a link, kept back to be merged with those that are forced.
    Relation,
    /// A list key.
    Key,
    /// Text, where a boolean is written out: `aria-` attributes and a few like them.
    Aria,
    /// A free name, moved under a prefix so that no script of a host page reacts to it.
    Data,
    /// A colour, or a reference to a gradient or a clip path of the same plan.
    Paint,
    /// Numbers, lengths, words and transformations of a drawing.
    Drawn,
    /// What a browser may fill in by itself.
    Autofill,
    /// Never shown, and a reason to refuse the plan.
    Denied(&'static str),
}

/// Attributes every element has, or that are denied on every element.
const GLOBAL: &[(&str, Kind)] = &[
    ("class", Kind::Text),
    ("id", Kind::Id),
    ("title", Kind::Text),
    ("lang", Kind::Text),
    ("dir", Kind::Words(&["ltr", "rtl", "auto"])),
    ("hidden", Kind::Flag),
    ("role", Kind::Text),
    ("tabindex", Kind::Words(&["0", "-1"])),
    ("style", Kind::Style),
    ("translate", Kind::Words(&["yes", "no"])),
    ("spellcheck", Kind::Aria),
    ("autocapitalize", Kind::Words(&["none", "off", "on", "sentences", "words", "characters"])),
    ("enterkeyhint", Kind::Words(&["enter", "done", "go", "next", "previous", "search", "send"])),
    ("inert", Kind::Flag),
    ("key", Kind::Key),
    ("srcdoc", Kind::Denied("it holds a document")),
    ("innerhtml", Kind::Denied("it holds markup")),
    ("dangerouslysetinnerhtml", Kind::Denied("it holds markup")),
    ("srcset", Kind::Denied("it loads addresses")),
    ("imagesrcset", Kind::Denied("it loads addresses")),
    ("action", Kind::Denied("forms do not send by themselves")),
    ("formaction", Kind::Denied("forms do not send by themselves")),
    ("method", Kind::Denied("forms do not send by themselves")),
    ("formmethod", Kind::Denied("forms do not send by themselves")),
    ("formtarget", Kind::Denied("forms do not send by themselves")),
    ("ping", Kind::Denied("it reports clicks to an address")),
    ("attributionsrc", Kind::Denied("it reports to an address")),
    ("background", Kind::Denied("it loads an address")),
    ("poster", Kind::Denied("it loads an address")),
    ("data", Kind::Denied("it loads an address")),
    ("codebase", Kind::Denied("it loads an address")),
    ("archive", Kind::Denied("it loads an address")),
    ("classid", Kind::Denied("it loads an address")),
    ("dynsrc", Kind::Denied("it loads an address")),
    ("lowsrc", Kind::Denied("it loads an address")),
    ("longdesc", Kind::Denied("it is an address nothing shows")),
    ("manifest", Kind::Denied("it loads an address")),
    ("profile", Kind::Denied("it loads an address")),
    ("usemap", Kind::Denied("image maps are not shown")),
    ("xlink:href", Kind::Denied("it is an address in a foreign namespace")),
    ("xlinkhref", Kind::Denied("it is an address in a foreign namespace")),
    ("xml:base", Kind::Denied("it changes what addresses mean")),
    ("xmlbase", Kind::Denied("it changes what addresses mean")),
    ("http-equiv", Kind::Denied("it acts as a header")),
    ("nonce", Kind::Denied("it vouches for code")),
    ("is", Kind::Denied("it starts a custom element")),
    ("slot", Kind::Denied("it moves content in a host's component")),
    ("part", Kind::Denied("it exposes content to a host's style")),
    ("contenteditable", Kind::Denied("it takes rich text a plan cannot check")),
    ("autofocus", Kind::Denied("it takes the focus away from the person")),
    ("accesskey", Kind::Denied("it takes a key away from the host")),
    ("popover", Kind::Denied("it leaves the plan's own area")),
    ("popovertarget", Kind::Denied("it leaves the plan's own area")),
    ("pattern", Kind::Denied("a pattern can stop a browser for good")),
];

/// Attributes that some elements have.
const SPECIFIC: &[(&str, Kind)] = &[
    ("href", Kind::Link),
    ("src", Kind::Image),
    ("cite", Kind::Link),
    ("target", Kind::Words(&["_blank", "_self"])),
    ("rel", Kind::Relation),
    ("hreflang", Kind::Text),
    ("alt", Kind::Text),
    ("width", Kind::Number),
    ("height", Kind::Number),
    ("loading", Kind::Words(&["lazy", "eager"])),
    ("decoding", Kind::Words(&["async", "sync", "auto"])),
    ("datetime", Kind::Text),
    ("start", Kind::Number),
    ("reversed", Kind::Flag),
    ("type", Kind::Text),
    ("value", Kind::Text),
    ("colspan", Kind::Number),
    ("rowspan", Kind::Number),
    ("span", Kind::Number),
    ("headers", Kind::Ids),
    ("scope", Kind::Words(&["row", "col", "rowgroup", "colgroup"])),
    ("abbr", Kind::Text),
    ("autocomplete", Kind::Autofill),
    ("novalidate", Kind::Flag),
    ("name", Kind::Id),
    ("disabled", Kind::Flag),
    ("for", Kind::Ids),
    ("checked", Kind::Flag),
    ("placeholder", Kind::Text),
    ("readonly", Kind::Flag),
    ("required", Kind::Flag),
    ("min", Kind::Text),
    ("max", Kind::Text),
    ("step", Kind::Text),
    ("minlength", Kind::Number),
    ("maxlength", Kind::Number),
    ("size", Kind::Number),
    ("multiple", Kind::Flag),
    ("list", Kind::Id),
    (
        "inputmode",
        Kind::Words(&["none", "text", "decimal", "numeric", "tel", "search", "email", "url"]),
    ),
    ("label", Kind::Text),
    ("selected", Kind::Flag),
    ("rows", Kind::Number),
    ("cols", Kind::Number),
    ("wrap", Kind::Words(&["soft", "hard"])),
    ("low", Kind::Number),
    ("high", Kind::Number),
    ("optimum", Kind::Number),
    ("open", Kind::Flag),
    ("viewBox", Kind::Drawn),
    ("preserveAspectRatio", Kind::Drawn),
    ("x", Kind::Drawn),
    ("y", Kind::Drawn),
    ("x1", Kind::Drawn),
    ("y1", Kind::Drawn),
    ("x2", Kind::Drawn),
    ("y2", Kind::Drawn),
    ("cx", Kind::Drawn),
    ("cy", Kind::Drawn),
    ("r", Kind::Drawn),
    ("rx", Kind::Drawn),
    ("ry", Kind::Drawn),
    ("dx", Kind::Drawn),
    ("dy", Kind::Drawn),
    ("d", Kind::Drawn),
    ("points", Kind::Drawn),
    ("pathLength", Kind::Number),
    ("transform", Kind::Drawn),
    ("fill", Kind::Paint),
    ("fill-opacity", Kind::Drawn),
    ("fill-rule", Kind::Words(&["nonzero", "evenodd"])),
    ("stroke", Kind::Paint),
    ("stroke-width", Kind::Drawn),
    ("stroke-opacity", Kind::Drawn),
    ("stroke-linecap", Kind::Words(&["butt", "round", "square"])),
    ("stroke-linejoin", Kind::Words(&["miter", "round", "bevel"])),
    ("stroke-miterlimit", Kind::Number),
    ("stroke-dasharray", Kind::Drawn),
    ("stroke-dashoffset", Kind::Drawn),
    ("opacity", Kind::Number),
    ("clip-path", Kind::Paint),
    ("clip-rule", Kind::Words(&["nonzero", "evenodd"])),
    ("clipPathUnits", Kind::Words(UNITS)),
    ("gradientUnits", Kind::Words(UNITS)),
    ("gradientTransform", Kind::Drawn),
    ("spreadMethod", Kind::Words(&["pad", "reflect", "repeat"])),
    ("offset", Kind::Drawn),
    ("stop-color", Kind::Paint),
    ("stop-opacity", Kind::Number),
    ("text-anchor", Kind::Words(&["start", "middle", "end"])),
    ("dominant-baseline", Kind::Drawn),
    ("font-size", Kind::Drawn),
    ("font-family", Kind::Drawn),
    ("font-weight", Kind::Drawn),
    ("font-style", Kind::Words(&["normal", "italic", "oblique"])),
    ("letter-spacing", Kind::Drawn),
    ("vector-effect", Kind::Words(&["none", "non-scaling-stroke"])),
    ("shape-rendering", Kind::Drawn),
    ("visibility", Kind::Words(&["visible", "hidden", "collapse"])),
    ("fx", Kind::Drawn),
    ("fy", Kind::Drawn),
    ("fr", Kind::Drawn),
    ("rotate", Kind::Drawn),
    ("textLength", Kind::Drawn),
    ("lengthAdjust", Kind::Words(&["spacing", "spacingAndGlyphs"])),
    ("alignment-baseline", Kind::Drawn),
    ("baseline-shift", Kind::Drawn),
    ("text-decoration", Kind::Drawn),
    ("word-spacing", Kind::Drawn),
    ("font-variant", Kind::Drawn),
    ("writing-mode", Kind::Drawn),
    ("paint-order", Kind::Drawn),
    ("color", Kind::Paint),
    ("pointer-events", Kind::Words(&["none", "auto"])),
];

const UNITS: &[&str] = &["userSpaceOnUse", "objectBoundingBox"];

/// Attributes of every element of SVG: geometry and paint, in which nothing loads.
pub(crate) const SVG_ATTRIBUTES: u128 = behind("open") | mask(&["width", "height"]);

/// The set of all specific attributes behind one of them.
const fn behind(name: &str) -> u128 {
    let bit = mask(&[name]);
    let all = (1 << (SPECIFIC.len() - 1)) | ((1 << (SPECIFIC.len() - 1)) - 1);
    all & !(bit | (bit - 1))
}

/// Input types; a plan never asks for a password or a file.
const INPUT_TYPES: &[&str] = &[
    "text",
    "search",
    "tel",
    "url",
    "email",
    "date",
    "month",
    "week",
    "time",
    "datetime-local",
    "number",
    "range",
    "color",
    "checkbox",
    "radio",
    "hidden",
    "button",
    "submit",
    "reset",
];
const BUTTON_TYPES: &[&str] = &["button", "submit", "reset"];
const LIST_TYPES: &[&str] = &["1", "a", "A", "i", "I"];
/// `aria-` attributes that name other elements.
const ARIA_IDS: &[&str] = &[
    "aria-labelledby",
    "aria-describedby",
    "aria-controls",
    "aria-owns",
    "aria-flowto",
    "aria-details",
    "aria-errormessage",
    "aria-activedescendant",
];
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
/// Longest free attribute name.
const MAX_NAME_BYTES: usize = 48;

const COUNT: usize = GLOBAL.len() + SPECIFIC.len();

static NAMES: [&str; COUNT] = {
    let mut names = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        names[at] = entry(at).0;
        at += 1;
    }
    names
};

static INDEX: Index = Index::build(&NAMES);

const fn entry(at: usize) -> &'static (&'static str, Kind) {
    if at < GLOBAL.len() { &GLOBAL[at] } else { &SPECIFIC[at - GLOBAL.len()] }
}

/// The set of named attributes as bits, by their position among the specific ones.
pub(crate) const fn mask(names: &[&str]) -> u128 {
    let mut bits = 0;
    let mut at = 0;
    while at < names.len() {
        let mut position = 0;
        while !same(SPECIFIC[position].0.as_bytes(), names[at].as_bytes()) {
            position += 1;
        }
        bits |= 1 << position;
        at += 1;
    }
    bits
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// An attribute as it is written into HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) kind: Kind,
}

/// Finds the attribute that a property stands for on an element; `None` when it has no row.
pub(crate) fn find<'a>(element: ElementId, prop: &'a str) -> Option<Attribute<'a>> {
    let found = INDEX.find(&NAMES, prop).map(usize::from);
    let at = match found {
        Some(at) => at,
        None => return unusual(element, prop),
    };
    let (name, kind) = *entry(at);
    let attribute = Attribute { name: Cow::Borrowed(name), kind };
    if at < GLOBAL.len() {
        return Some(attribute);
    }
    if element.rule().attributes & (1 << (at - GLOBAL.len())) == 0 {
        return not_here(attribute);
    }
    if name == "transform" && element.name() == "svg" {
        // It would leave its place, as the style of this name does.
        return None;
    }
    Some(Attribute { kind: refine(element, name, kind), ..attribute })
}

/// An address on an element that has none is an attempt; other attributes just do nothing there.
fn not_here(attribute: Attribute<'_>) -> Option<Attribute<'_>> {
    match attribute.kind {
        Kind::Link | Kind::Image if attribute.name != "cite" => {
            Some(Attribute { kind: Kind::Denied("this element takes no address"), ..attribute })
        }
        _ => None,
    }
}

fn refine(element: ElementId, name: &str, kind: Kind) -> Kind {
    match (element.name(), name) {
        ("input", "type") => Kind::Words(INPUT_TYPES),
        ("button", "type") => Kind::Words(BUTTON_TYPES),
        ("ol", "type") => Kind::Words(LIST_TYPES),
        ("label", "for") => Kind::Id,
        (_, "width" | "height") if element.has(element::DRAWING) => Kind::Text,
        ("progress" | "meter" | "li", "value" | "min" | "max") => Kind::Number,
        _ => kind,
    }
}

/// Names in other case, two aliases, and the families `aria-` and `data-`.
fn unusual<'a>(element: ElementId, prop: &'a str) -> Option<Attribute<'a>> {
    if prop.len() > MAX_NAME_BYTES {
        return None;
    }
    let lower = match prop {
        "className" => Cow::Borrowed("class"),
        "htmlFor" => Cow::Borrowed("for"),
        _ if prop.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            Cow::Owned(prop.to_ascii_lowercase())
        }
        _ => Cow::Borrowed(prop),
    };
    if let Some(at) = INDEX.find(&NAMES, &lower) {
        return find(element, entry(usize::from(at)).0);
    }
    if element.has(element::DRAWING) {
        return drawn(element, prop, &lower);
    }
    family(lower)
}

/// Attributes of SVG in other spellings: `viewbox`, `strokeWidth`.
fn drawn<'a>(element: ElementId, prop: &str, lower: &str) -> Option<Attribute<'a>> {
    let mut kebab = String::with_capacity(prop.len() + 4);
    for character in prop.chars() {
        if character.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(character.to_ascii_lowercase());
    }
    let same = |name: &&&str| name.eq_ignore_ascii_case(lower) || **name == kebab;
    match NAMES.iter().find(same) {
        Some(name) => find(element, name),
        None => family(Cow::Owned(lower.to_owned())),
    }
}

/// The families `aria-` and `data-`.
fn family(lower: Cow<'_, str>) -> Option<Attribute<'_>> {
    if ARIA_IDS.contains(&lower.as_ref()) {
        return Some(Attribute { name: lower, kind: Kind::Ids });
    }
    if let Some(rest) = lower.strip_prefix("aria-") {
        let plain = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase());
        return plain.then_some(Attribute { name: lower, kind: Kind::Aria });
    }
    let rest = lower.strip_prefix("data-")?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if rest.is_empty() || !rest.bytes().all(plain) {
        return None;
    }
    Some(Attribute { name: Cow::Owned(format!("data-plan-{rest}")), kind: Kind::Data })
}

/// The name under which a property of this element is shown, if it may be shown at all.
///
/// ```
/// use glasshouse_plan::shown_attribute;
/// assert_eq!(shown_attribute("td", "colSpan").as_deref(), Some("colspan"));
/// assert_eq!(shown_attribute("p", "data-x").as_deref(), Some("data-plan-x"));
/// assert_eq!(shown_attribute("p", "srcdoc"), None);
/// ```
#[must_use]
pub fn shown_attribute(tag: &str, prop: &str) -> Option<String> {
    let attribute = find(element::find(tag)?, prop)?;
    let denied = matches!(attribute.kind, Kind::Denied(_));
    (!denied).then(|| attribute.name.into_owned())
}

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
    use super::super::element;
    use super::*;

    fn kind(tag: &str, prop: &str) -> Option<(String, Kind)> {
        let element = element::find(tag).unwrap();
        find(element, prop).map(|found| (found.name.into_owned(), found.kind))
    }

    #[test]
    fn finds_rows_by_element_alias_and_family() {
        for (tag, prop, want) in [
            ("p", "class", Some(("class", Kind::Text))),
            ("p", "className", Some(("class", Kind::Text))),
            ("label", "htmlFor", Some(("for", Kind::Id))),
            ("td", "colSpan", Some(("colspan", Kind::Number))),
            ("a", "HREF", Some(("href", Kind::Link))),
            ("p", "aria-label", Some(("aria-label", Kind::Aria))),
            ("p", "ARIA-labelledby", Some(("aria-labelledby", Kind::Ids))),
            ("p", "data-x-1", Some(("data-plan-x-1", Kind::Data))),
            ("p", "data-x y", None),
            ("p", "once", None),
            ("p", "$if", None),
            ("p", "checked", None),
        ] {
            let want = want.map(|(name, kind)| (name.to_owned(), kind));
            assert_eq!(kind(tag, prop), want, "{tag} {prop}");
        }
        for (tag, prop) in [("p", "href"), ("a", "ping"), ("form", "action"), ("img", "srcSet")] {
            assert!(matches!(kind(tag, prop), Some((_, Kind::Denied(_)))), "{tag} {prop}");
        }
    }

    #[test]
    fn relations_are_merged_and_filtered() {
        assert_eq!(relations("opener nofollow", true), "noopener noreferrer nofollow");
        assert_eq!(relations("NoOpener", true), "noopener noreferrer");
        assert_eq!(relations("stylesheet tag", false), "tag");
    }
}
