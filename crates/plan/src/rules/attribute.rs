//! Attributes that may be shown, each with the kind of value it takes.

use std::borrow::Cow;

use super::element::{self, ElementId};
use super::lookup::Index;

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
pub(super) const INPUT_TYPES: &[&str] = &[
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
pub(super) const LIST_TYPES: &[&str] = &["1", "a", "A", "i", "I"];
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
        (_, "width" | "height") if element.has(element::DRAWING) => Kind::Drawn,
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
}
