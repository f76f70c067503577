//! Elements that may be shown: HTML, and the part of SVG that draws. No MathML, no custom elements,
//! nothing that loads a document, runs code, moves by itself, repeats other elements, changes the
//! page's head or switches the parser's mode.

use super::attribute::{SVG_ATTRIBUTES, mask};
use super::lookup::Index;

/// Row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ElementId(u8);

/// Has no children and no end tag.
pub(crate) const VOID: u16 = 1;
/// Its start tag ends an open `p`.
pub(crate) const ENDS_PARAGRAPH: u16 = 1 << 1;
/// Text inside would be moved out by a parser (parts of tables and lists of options).
pub(crate) const NO_TEXT: u16 = 1 << 2;
/// Only text inside.
pub(crate) const TEXT_ONLY: u16 = 1 << 3;
/// A parser drops the first line break inside.
pub(crate) const DROPS_LINE_BREAK: u16 = 1 << 4;
/// A control; controls do not nest.
pub(crate) const CONTROL: u16 = 1 << 5;
/// A control that holds other content.
pub(crate) const CONTROL_WITH_CONTENT: u16 = 1 << 6;
/// A heading; headings do not nest.
pub(crate) const HEADING: u16 = 1 << 7;
/// Hides an open `p` outside it from the parser.
pub(crate) const PARAGRAPH_BARRIER: u16 = 1 << 8;

/// Belongs to SVG.
pub(crate) const DRAWING: u16 = 1 << 9;

/// What may be shown about one element.
pub(crate) struct ElementRule {
    pub(crate) name: &'static str,
    pub(crate) flags: u16,
    /// Elements it may be directly inside; empty for all.
    pub(crate) parents: &'static [&'static str],
    /// Elements that may be directly inside it; empty for all.
    pub(crate) children: &'static [&'static str],
    /// Attributes besides those that every element has.
    pub(crate) attributes: u128,
}

/// A row of SVG: its own attributes on every element, and no HTML inside.
const fn draw(name: &'static str, flags: u16) -> ElementRule {
    let flags = flags | DRAWING;
    ElementRule { name, flags, parents: &[], children: &[], attributes: SVG_ATTRIBUTES }
}

const fn row(name: &'static str, flags: u16, attributes: &[&str]) -> ElementRule {
    ElementRule { name, flags, parents: &[], children: &[], attributes: mask(attributes) }
}

impl ElementRule {
    const fn inside(mut self, parents: &'static [&'static str]) -> Self {
        self.parents = parents;
        self
    }

    const fn around(mut self, children: &'static [&'static str]) -> Self {
        self.children = children;
        self
    }
}

const BLOCK: u16 = ENDS_PARAGRAPH;
const FIELD: u16 = CONTROL;
const SECTIONS: &[&str] = &["thead", "tbody", "tfoot"];
const CELL: u16 = PARAGRAPH_BARRIER;
const LISTS: &[&str] = &["ul", "ol", "menu"];
const TERMS: &[&str] = &["dl", "div"];

#[rustfmt::skip]
static TABLE: [ElementRule; COUNT] = [
    row("div", BLOCK, &[]), row("span", 0, &[]), row("p", BLOCK, &[]),
    row("section", BLOCK, &[]), row("article", BLOCK, &[]), row("aside", BLOCK, &[]),
    row("header", BLOCK, &[]), row("footer", BLOCK, &[]), row("main", BLOCK, &[]),
    row("nav", BLOCK, &[]), row("search", BLOCK, &[]), row("address", BLOCK, &[]),
    row("hgroup", BLOCK, &[]), row("hr", BLOCK | VOID, &[]),
    row("h1", BLOCK | HEADING, &[]), row("h2", BLOCK | HEADING, &[]),
    row("h3", BLOCK | HEADING, &[]), row("h4", BLOCK | HEADING, &[]),
    row("h5", BLOCK | HEADING, &[]), row("h6", BLOCK | HEADING, &[]),
    row("pre", BLOCK | DROPS_LINE_BREAK, &[]), row("blockquote", BLOCK, &["cite"]),
    row("figure", BLOCK, &[]), row("figcaption", BLOCK, &[]).inside(&["figure"]),
    row("ul", BLOCK, &[]), row("menu", BLOCK, &[]),
    row("ol", BLOCK, &["start", "reversed", "type"]),
    row("li", BLOCK, &["value"]).inside(LISTS),
    row("dl", BLOCK, &[]), row("dt", BLOCK, &[]).inside(TERMS), row("dd", BLOCK, &[]).inside(TERMS),
    row("a", CONTROL_WITH_CONTENT, &["href", "target", "rel", "hreflang"]),
    row("b", 0, &[]), row("i", 0, &[]), row("em", 0, &[]), row("strong", 0, &[]),
    row("small", 0, &[]), row("s", 0, &[]), row("u", 0, &[]), row("mark", 0, &[]),
    row("sub", 0, &[]), row("sup", 0, &[]), row("code", 0, &[]), row("kbd", 0, &[]),
    row("samp", 0, &[]), row("var", 0, &[]), row("cite", 0, &[]), row("dfn", 0, &[]),
    row("abbr", 0, &[]), row("bdi", 0, &[]), row("bdo", 0, &[]), row("q", 0, &["cite"]),
    row("ins", 0, &["cite", "datetime"]), row("del", 0, &["cite", "datetime"]),
    row("time", 0, &["datetime"]), row("data", 0, &["value"]),
    row("br", VOID, &[]), row("wbr", VOID, &[]),
    row("ruby", 0, &[]), row("rt", 0, &[]).inside(&["ruby"]), row("rp", 0, &[]).inside(&["ruby"]),
    row("img", VOID, &["src", "alt", "width", "height", "loading", "decoding"]),
    row("table", BLOCK | NO_TEXT, &[]).around(&["caption", "colgroup", "thead", "tbody", "tfoot"]),
    row("caption", CELL, &[]).inside(&["table"]),
    row("colgroup", NO_TEXT, &["span"]).inside(&["table"]).around(&["col"]),
    row("col", VOID, &["span"]).inside(&["colgroup"]),
    row("thead", NO_TEXT, &[]).inside(&["table"]).around(&["tr"]),
    row("tbody", NO_TEXT, &[]).inside(&["table"]).around(&["tr"]),
    row("tfoot", NO_TEXT, &[]).inside(&["table"]).around(&["tr"]),
    row("tr", NO_TEXT, &[]).inside(SECTIONS).around(&["td", "th"]),
    row("td", CELL, &["colspan", "rowspan", "headers"]).inside(&["tr"]),
    row("th", CELL, &["colspan", "rowspan", "headers", "scope", "abbr"]).inside(&["tr"]),
    row("form", BLOCK, &["autocomplete", "novalidate", "name"]),
    row("fieldset", BLOCK, &["disabled", "name"]),
    row("legend", 0, &[]).inside(&["fieldset"]),
    row("label", CONTROL_WITH_CONTENT, &["for"]),
    row("input", FIELD | VOID, &["type", "name", "value", "checked", "placeholder", "disabled",
        "readonly", "required", "min", "max", "step", "minlength", "maxlength", "size", "multiple",
        "list", "autocomplete", "inputmode"]),
    row("button", CONTROL_WITH_CONTENT | PARAGRAPH_BARRIER, &["type", "name", "value", "disabled"]),
    row("select", FIELD | NO_TEXT, &["name", "multiple", "size", "disabled", "required",
        "autocomplete"]).around(&["option", "optgroup"]),
    row("datalist", NO_TEXT, &[]).around(&["option"]),
    row("optgroup", NO_TEXT, &["label", "disabled"]).inside(&["select"]).around(&["option"]),
    row("option", TEXT_ONLY, &["value", "label", "selected", "disabled"])
        .inside(&["select", "datalist", "optgroup"]),
    row("textarea", FIELD | TEXT_ONLY | DROPS_LINE_BREAK, &["name", "rows", "cols", "placeholder",
        "disabled", "readonly", "required", "minlength", "maxlength", "wrap", "autocomplete",
        "inputmode"]),
    row("output", 0, &["for", "name"]), row("progress", 0, &["value", "max"]),
    row("meter", 0, &["value", "min", "max", "low", "high", "optimum"]),
    row("details", BLOCK, &["open", "name"]), row("summary", BLOCK, &[]).inside(&["details"]),
    draw("svg", NO_TEXT), draw("g", NO_TEXT), draw("defs", NO_TEXT),
    draw("title", TEXT_ONLY), draw("desc", TEXT_ONLY),
    draw("path", NO_TEXT), draw("rect", NO_TEXT), draw("circle", NO_TEXT),
    draw("ellipse", NO_TEXT), draw("line", NO_TEXT), draw("polyline", NO_TEXT),
    draw("polygon", NO_TEXT), draw("text", 0).around(&["tspan", "title", "desc"]),
    draw("tspan", 0).inside(&["text", "tspan"]).around(&["tspan", "title", "desc"]),
    draw("linearGradient", NO_TEXT).around(STOPS), draw("radialGradient", NO_TEXT).around(STOPS),
    draw("stop", NO_TEXT).inside(&["linearGradient", "radialGradient"]).around(&["title", "desc"]),
    draw("clipPath", NO_TEXT),
];

const STOPS: &[&str] = &["stop", "title", "desc"];
const COUNT: usize = 106;

static NAMES: [&str; COUNT] = {
    let mut names = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        names[at] = TABLE[at].name;
        at += 1;
    }
    names
};

static INDEX: Index = Index::build(&NAMES);

/// The row for a tag; tags compare without case, nothing is trimmed.
pub(crate) fn find(tag: &str) -> Option<ElementId> {
    let found = INDEX.find(&NAMES, tag);
    if found.is_some() {
        return found.map(ElementId);
    }
    // Names of SVG keep their capitals.
    let position = NAMES.iter().position(|name| name.eq_ignore_ascii_case(tag))?;
    u8::try_from(position).ok().map(ElementId)
}

/// The element that keeps the place of a component.
pub(crate) const fn placeholder() -> ElementId {
    // The first row.
    ElementId(0)
}

impl ElementId {
    pub(crate) fn rule(self) -> &'static ElementRule {
        &TABLE[self.0 as usize]
    }

    pub(crate) fn name(self) -> &'static str {
        self.rule().name
    }

    pub(crate) fn has(self, flag: u16) -> bool {
        self.rule().flags & flag != 0
    }
}

/// Every tag that may be shown, in the order of the table.
#[must_use]
pub fn allowed_tags() -> &'static [&'static str] {
    &NAMES
}
