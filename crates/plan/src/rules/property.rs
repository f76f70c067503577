//! Properties of an element, told apart the same way for the checker and the renderer.

use super::Refusal;
use super::attribute::{self, Attribute};
use super::element::{self, ElementId};
use super::event::{self, Binding};
use crate::codes;
use crate::json::{Json, Members};
use crate::profile::Profile;

/// Most properties of one element.
pub(crate) const MAX_PROPERTIES: usize = 128;

/// What stands in the place of a handler that is a function: an object with this member.
const FUNCTION: &str = "$function";

/// What a property of an element is.
pub(crate) enum Property<'a> {
    /// It binds an event.
    Event(Binding<'a>),
    /// It stands for an attribute.
    Attribute(Attribute<'a>),
    /// It is not shown, and that is no reason to refuse.
    Ignored(Refusal),
    /// It is a reason to refuse.
    Refused(Refusal),
}

/// Reads one property of an element that has `all` of them.
pub(crate) fn read<'a>(
    element: ElementId,
    all: &Members<'a>,
    name: &'a str,
    value: Json<'a>,
    profile: &Profile,
) -> Property<'a> {
    if name.len() > 2 && name.as_bytes()[..2].eq_ignore_ascii_case(b"on") {
        if value.get(FUNCTION).is_some() {
            let why = "the handler is a function, which nobody calls here, so it is left out";
            return Property::Ignored(Refusal::new(codes::HANDLER_LOST, why));
        }
        match event::read(name, value) {
            event::Property::Binding(_) if is_bound_twice(all, name) => {
                let why = "the event is bound twice";
                return Property::Refused(Refusal::new(codes::EVENT_INVALID, why));
            }
            event::Property::Binding(binding) => return Property::Event(binding),
            event::Property::Handler(refusal) if profile.allow_inline_event_handlers => {
                return Property::Ignored(refusal);
            }
            event::Property::Handler(refusal) => return Property::Refused(refusal),
            event::Property::Other => {}
        }
    }
    let Some(attribute) = attribute::find(element, name) else {
        let why = "this element has no such attribute";
        return Property::Ignored(Refusal::new(codes::ATTRIBUTE_IGNORED, why));
    };
    if attribute.name == name {
        return Property::Attribute(attribute);
    }
    // Another spelling: no second property may stand for the same attribute.
    match has_twin(all, name, element.has(element::DRAWING)) {
        false => Property::Attribute(attribute),
        true if matches!(name, "className" | "htmlFor") => Property::Ignored(Refusal::new(
            codes::ATTRIBUTE_IGNORED,
            "the attribute is given twice",
        )),
        true => {
            Property::Refused(Refusal::new(codes::ATTRIBUTE_DENIED, "the attribute is given twice"))
        }
    }
}

/// Whether another property binds the same event of a browser: an element has one attribute for it.
fn is_bound_twice(all: &Members<'_>, name: &str) -> bool {
    let same = |other: &str| other != name && other.eq_ignore_ascii_case(name);
    all.clone().any(|(other, value)| {
        same(other) && matches!(event::read(other, value), event::Property::Binding(_))
    })
}

fn has_twin(all: &Members<'_>, name: &str, drawing: bool) -> bool {
    let (plain, alias) = match name {
        "className" => ("class", name),
        "htmlFor" => ("for", name),
        _ if name.eq_ignore_ascii_case("class") => (name, "className"),
        _ if name.eq_ignore_ascii_case("for") => (name, "htmlFor"),
        _ => (name, name),
    };
    // Names of SVG are also written in camel case, so hyphens do not tell two of them apart.
    let loose = |text: &'_ str| text.replace('-', "").to_ascii_lowercase();
    let same = |other: &str| {
        other == alias
            || other.eq_ignore_ascii_case(plain)
            || (drawing && loose(other) == loose(plain))
    };
    all.clone().any(|(other, _)| other != name && same(other))
}
