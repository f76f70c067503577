//! The attributes of one element as they are shown: one reading for whole pages and for patches.

use std::borrow::Cow;

use serde_json::Value;

use crate::codes;
use crate::error::Error;
use crate::event::Event;
use crate::json::{Json, Members};
use crate::made::{self, Made};
use crate::profile::Profile;
use crate::rules::attribute::{Attribute, Kind};
use crate::rules::element::ElementId;
use crate::rules::event::Binding;
use crate::rules::property::{self, Property};
use crate::rules::value::{self, Verdict};
use crate::rules::{Refusal, Scalar, style, url};
use crate::size;
use crate::template::{self, Scope};

/// Slot of an attribute that follows from the others, behind every property of the plan.
const FORCED_SLOT: u16 = u16::MAX;
/// See [`FORCED_SLOT`].
const ROLE_SLOT: u16 = u16::MAX - 2;
const TAB_SLOT: u16 = u16::MAX - 1;

/// Where shown attributes go. A slot is the position of the property in its element.
pub(crate) trait Output {
    /// One attribute; without a value the name stands alone.
    fn attribute(&mut self, slot: u16, name: &str, value: Option<&str>) -> Result<(), Error>;
    /// One event binding and the size of its payload.
    fn binding(
        &mut self,
        slot: u16,
        dom_event: String,
        event: Event,
        payload_bytes: usize,
    ) -> Result<(), Error>;
    /// An image will be loaded from this origin.
    fn image_origin(&mut self, origin: String);
    /// A property of this name is not shown.
    fn note(&mut self, property: &str, refusal: Refusal);
}

/// What properties are shown with.
#[derive(Clone, Copy)]
pub(crate) struct Showing<'p> {
    pub(crate) profile: &'p Profile,
    /// Prefix of ids.
    pub(crate) surface: &'p str,
    /// What templates read; `None` while the state is not known, and then they wait.
    pub(crate) scope: Option<Scope<'p>>,
    /// Whether any string of the document could hold a template.
    pub(crate) templates: bool,
    /// What is known of the root, if code made it.
    pub(crate) made: Option<&'p Made>,
}

/// What a link's relations depend on.
#[derive(Default)]
struct Link<'a> {
    relations: Option<Cow<'a, str>>,
    leaves: bool,
    /// It leads somewhere.
    leads: bool,
    /// Something happens when it is pressed.
    acts: bool,
    /// The plan says itself what it is, and whether a keyboard reaches it.
    has_role: bool,
    has_tabindex: bool,
}

/// A property value with its templates resolved.
enum Resolved<'a> {
    Plain(Scalar<'a>),
    Templated(Scalar<'a>),
    /// It has a template and nothing to read from yet.
    Waits,
}

impl Showing<'_> {
    /// Shows the properties of an element that was checked. Answers whether all are shown: false
    /// when one waits for the state.
    ///
    /// # Errors
    ///
    /// `plan_output_too_large`, and what the output answers.
    pub(crate) fn show(
        &self,
        element: ElementId,
        properties: Option<Members<'_>>,
        out: &mut impl Output,
    ) -> Result<bool, Error> {
        let mut link = Link::default();
        let mut complete = true;
        if let Some(properties) = properties {
            for (slot, (name, value)) in (0u16..).zip(properties.clone()) {
                match property::read(element, &properties, name, value, self.profile) {
                    Property::Event(binding) => {
                        link.acts |= binding.dom_event == "click";
                        complete &= self.binding(slot, binding, out)?;
                    }
                    Property::Attribute(attribute) => match self.judge(&attribute, value) {
                        None => complete = false,
                        Some(Verdict::Write(text)) => {
                            self.write(slot, &attribute, text, &mut link, out)?;
                        }
                        Some(Verdict::Partly(text, refusal)) => {
                            out.note(name, refusal);
                            self.write(slot, &attribute, text, &mut link, out)?;
                        }
                        Some(Verdict::Bare) => out.attribute(slot, &attribute.name, None)?,
                        Some(Verdict::Ignore(refusal) | Verdict::Refuse(refusal)) => {
                            out.note(name, refusal);
                        }
                        Some(Verdict::Omit) => {}
                    },
                    Property::Ignored(_) | Property::Refused(_) => {}
                }
            }
        }
        forced(element, &link, out)?;
        Ok(complete)
    }

    /// Whether a text is a template.
    pub(crate) fn reads(&self, text: &str) -> bool {
        self.templates && made::is_template(self.made, text)
    }

    fn judge<'a>(&self, attribute: &Attribute<'_>, value: Json<'a>) -> Option<Verdict<'a>> {
        if attribute.kind == Kind::Style
            && let Some(members) = value.as_object()
        {
            let mut scalars = Vec::with_capacity(members.len());
            for (name, value) in members {
                match self.resolve(value) {
                    Resolved::Plain(scalar) | Resolved::Templated(scalar) => {
                        scalars.push((name, scalar));
                    }
                    Resolved::Waits => return None,
                }
            }
            return Some(style::object(scalars.into_iter()).into_verdict());
        }
        let (scalar, templated) = match self.resolve(value) {
            Resolved::Plain(scalar) => (scalar, false),
            Resolved::Templated(scalar) => (scalar, true),
            Resolved::Waits => return None,
        };
        Some(made::judge(self.made, attribute, scalar, templated, self.profile))
    }

    fn resolve<'a>(&self, value: Json<'a>) -> Resolved<'a> {
        match value.as_text() {
            Some(text) if self.reads(text) => match &self.scope {
                Some(scope) => {
                    Resolved::Templated(Scalar::of_value(template::resolve_string(text, scope)))
                }
                None => Resolved::Waits,
            },
            _ => Resolved::Plain(Scalar::of(value)),
        }
    }

    fn write<'a>(
        &self,
        slot: u16,
        attribute: &Attribute<'_>,
        text: Cow<'a, str>,
        link: &mut Link<'a>,
        out: &mut impl Output,
    ) -> Result<(), Error> {
        link.has_role |= attribute.name == "role";
        link.has_tabindex |= attribute.name == "tabindex";
        match attribute.kind {
            Kind::Relation => {
                link.relations = Some(text);
                return Ok(());
            }
            Kind::Key => return out.attribute(slot, "data-glasshouse-key", Some(&text)),
            Kind::Id | Kind::Ids => {
                let ids = self.prefixed(&text, attribute.kind);
                return out.attribute(slot, &attribute.name, Some(&ids));
            }
            Kind::Link => {
                link.leads |= attribute.name == "href";
                if let Some(fragment) = text.strip_prefix('#').filter(|rest| !rest.is_empty()) {
                    let fragment = format!("#{}-{fragment}", self.surface);
                    return out.attribute(slot, &attribute.name, Some(&fragment));
                }
                link.leaves |= text.contains("//");
            }
            Kind::Paint => {
                if let Some(name) = value::fragment(&text) {
                    let reference = format!("url(#{}-{name})", self.surface);
                    return out.attribute(slot, &attribute.name, Some(&reference));
                }
            }
            Kind::Image => {
                if let Some(origin) = url::image_origin(&text) {
                    out.image_origin(origin);
                }
            }
            Kind::Words(_) if attribute.name == "target" => link.leaves |= text == "_blank",
            _ => {}
        }
        out.attribute(slot, &attribute.name, Some(&text))
    }

    fn prefixed(&self, text: &str, kind: Kind) -> String {
        let most = if kind == Kind::Id { 1 } else { usize::MAX };
        let mut prefixed = String::new();
        for id in text.split_ascii_whitespace().take(most) {
            if !prefixed.is_empty() {
                prefixed.push(' ');
            }
            prefixed.push_str(self.surface);
            prefixed.push('-');
            prefixed.push_str(id);
        }
        prefixed
    }

    fn binding(
        &self,
        slot: u16,
        binding: Binding<'_>,
        out: &mut impl Output,
    ) -> Result<bool, Error> {
        let mut payload = None;
        let mut payload_bytes = 0;
        if let Some(given) = binding.payload {
            let Some(scope) = &self.scope else {
                if template::any_text(given, |text| self.reads(text)) {
                    return Ok(false);
                }
                let Value::Object(members) = given.to_value() else { return Ok(true) };
                payload_bytes = size::of_members(&members).bytes;
                let event = Event::new(binding.kind, Some(members))?;
                out.binding(slot, binding.dom_event, event, payload_bytes)?;
                return Ok(true);
            };
            let filled = template::resolve_where(given, scope, |text| self.reads(text));
            let Some(Value::Object(members)) = filled else {
                return Err(Error::new(codes::OUTPUT_TOO_LARGE, "a payload is too large"));
            };
            payload_bytes = size::of_members(&members).bytes;
            payload = Some(members);
        }
        out.binding(slot, binding.dom_event, Event::new(binding.kind, payload)?, payload_bytes)?;
        Ok(true)
    }
}

/// Attributes that a plan cannot choose.
fn forced(element: ElementId, link: &Link<'_>, out: &mut impl Output) -> Result<(), Error> {
    match element.name() {
        // What is pressed and leads nowhere is a button, for a screen reader and for a keyboard.
        "a" if link.acts && !link.leads => {
            if !link.has_role {
                out.attribute(ROLE_SLOT, "role", Some("button"))?;
            }
            if link.has_tabindex { Ok(()) } else { out.attribute(TAB_SLOT, "tabindex", Some("0")) }
        }
        "a" if link.leaves || link.relations.is_some() => {
            let given = link.relations.as_deref().unwrap_or_default();
            let relations = value::relations(given, link.leaves);
            if !relations.is_empty() {
                out.attribute(FORCED_SLOT, "rel", Some(&relations))?;
            }
            Ok(())
        }
        // Sends the form to nobody: a submit event is all that happens.
        "form" => out.attribute(FORCED_SLOT, "method", Some("dialog")),
        "img" => out.attribute(FORCED_SLOT, "referrerpolicy", Some("no-referrer")),
        _ => Ok(()),
    }
}
