//! A root that code made: its addresses count as filled in, and its templates are those of its source.
//!
//! Code puts together what it likes, so an address that it made is one that a template filled in, unless
//! its whole text stands in the plan. And what it shows of the state is data: were all of it read again,
//! whoever wrote into the state would write templates. So a template counts only where the source has it.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::codes;
use crate::error::Error;
use crate::guard::join;
use crate::limits::Limits;
use crate::plan::{Plan, parse};
use crate::profile::Profile;
use crate::report::{Issue, Report};
use crate::rules::attribute::{self, Kind};
use crate::rules::element;
use crate::rules::value::{self, Verdict};
use crate::rules::{Refusal, Scalar};
use crate::size;
use crate::template::{
    MAX_RESOLVED_BYTES, Piece, Scope, is_templated, pieces, resolve_string, resolve_text,
};

/// Longest text that can be an address.
const MAX_ADDRESS_BYTES: usize = 4096;
/// Longest inside of a template that a source may have.
const MAX_EXPRESSION_BYTES: usize = 512;
/// What a text in a source stands between.
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// What is known of a root that did not stand in the plan.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    /// Texts that stand in the plan that was written.
    written: HashSet<String>,
    /// What stands between the braces of templates in its source.
    expressions: HashSet<String>,
    templates: Templates,
    /// What was left out when templates were filled in before code ran.
    pub(crate) notes: Vec<Issue>,
}

/// Which texts of a made root are templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Templates {
    /// Those that look like it: a plugin changed a root that had them.
    All,
    /// Those that the source has.
    OfSource,
    /// None: those of the plan are filled in.
    None,
}

/// Whether a text is a template of a root that code made, or of any other.
pub(crate) fn is_template(made: Option<&Made>, text: &str) -> bool {
    is_templated(text) && made.is_none_or(|made| made.reads(text))
}

impl Made {
    fn reads(&self, text: &str) -> bool {
        match self.templates {
            Templates::All => true,
            Templates::None => false,
            Templates::OfSource => all_are(&self.expressions, text),
        }
    }

    /// Whether code of the plan made the root, and not the plan or a plugin.
    pub(crate) fn is_of_code(&self) -> bool {
        self.templates == Templates::OfSource
    }

    /// Whether an address is one that was put together.
    pub(crate) fn fills_in(&self, text: &str) -> bool {
        !self.written.contains(text)
    }
}

/// Every text that stands whole in a plan: its values, and what stands between quotes in its source.
fn written(plan: &Plan) -> HashSet<String> {
    let mut texts = HashSet::new();
    let mut open = vec![plan.json().to_value()];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if text.len() <= MAX_ADDRESS_BYTES && !is_templated(&text) => {
                texts.insert(text);
            }
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
    let code = plan.source().and_then(|source| source.get("code")?.as_text());
    for text in code.unwrap_or_default().split(QUOTES).filter(|it| it.len() <= MAX_ADDRESS_BYTES) {
        texts.insert(text.to_owned());
        // As markup writes it.
        if text.contains("&amp;") {
            texts.insert(text.replace("&amp;", "&"));
        }
    }
    texts
}

/// What stands between the braces of every template in a text, wherever one could begin.
fn expressions(code: &str) -> impl Iterator<Item = String> + '_ {
    let begins = code.match_indices("{{").map(|(at, _)| &code[at + 2..]);
    let inside = begins.filter_map(|rest| rest.find("}}").map(|end| rest[..end].trim()));
    inside.filter(|it| it.len() <= MAX_EXPRESSION_BYTES).map(str::to_owned)
}

/// Whether each template in a text is one of these.
fn all_are(known: &HashSet<String>, text: &str) -> bool {
    pieces(text).all(|piece| match piece {
        Piece::Literal(_) => true,
        Piece::Expression(expression) => known.contains(expression.trim()),
    })
}

/// The templates that modules have as they stand: what a component makes may hold those, and no others.
#[derive(Debug, Clone, Default)]
pub struct Written(HashSet<String>);

impl Written {
    /// Those of these texts.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self(texts.into_iter().flat_map(expressions).collect())
    }

    /// Fills them in, in every text of a value, while there is `room` for bytes.
    pub fn fill(&self, value: &mut Value, scope: &Scope<'_>, room: &mut usize) {
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text)
                    if is_templated(text) && all_are(&self.0, text) && *room > 0 =>
                {
                    let filled = resolve_string(text, scope);
                    *room = room.saturating_sub(size::of(&filled).bytes);
                    *value = filled;
                }
                Value::Array(items) => open.extend(items.iter_mut()),
                Value::Object(members) => open.extend(members.values_mut()),
                _ => {}
            }
        }
    }
}

impl Plan {
    /// Whether any string of its root could be a template.
    pub(crate) fn may_hold_templates(&self) -> bool {
        let none = |made: &Made| made.templates == Templates::None;
        !self.made().is_some_and(none) && self.document().may_hold_templates()
    }

    /// How templates are read in what a plugin makes of this root.
    fn templates(&self) -> Templates {
        self.made().map_or(Templates::All, |made| made.templates)
    }

    /// The plan with a root that a plugin answered. Its addresses are judged as if templates had filled them in; its
    /// templates are read where those of the root before it were.
    ///
    /// # Errors
    ///
    /// As [`Plan::after_code`].
    pub fn with_root(&self, root: &Value, limits: &Limits) -> Result<Self, Error> {
        Ok(self.with_made(self.after_code(Some(root), limits)?, self.templates()))
    }

    /// The plan with all templates of its root filled in, before components run: what they make is then told
    /// from what the plan says. A root that code made stays as it is. `None` when more than
    /// [`MAX_RESOLVED_BYTES`] would be filled in.
    ///
    /// # Errors
    ///
    /// Those of [`parse`], for a root that is then beyond the limits.
    pub fn filled(
        &self,
        scope: &Scope<'_>,
        profile: &Profile,
        limits: &Limits,
    ) -> Result<Option<Self>, Error> {
        if !self.may_hold_templates() {
            return Ok(Some(self.with_made(self.clone(), Templates::None)));
        }
        let mut members = members_of(self);
        let (made, left, report) = (self.made(), MAX_RESOLVED_BYTES, Report::new());
        let mut fill = Fill { scope, profile, made, left, report };
        if let Some(root) = members.get_mut("root")
            && fill.root(root).is_none()
        {
            return Ok(None);
        }
        let plan = parse(&Value::Object(members).to_string(), limits)?;
        let mut plan = self.with_made(plan, Templates::None);
        if let Some(made) = plan.made_mut() {
            made.notes.append(&mut fill.report.notes);
        }
        Ok(Some(plan))
    }

    /// The plan with what its components made, and without the imports that are `here`. Templates are those that
    /// the modules have.
    ///
    /// # Errors
    ///
    /// Those of [`parse`]: components make what they like.
    pub fn after_components(
        &self,
        root: Value,
        (here, modules): (&[&str], &Written),
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mut members = members_of(self);
        members.insert("root".to_owned(), root);
        if let Some(Value::Array(imports)) = members.get_mut("imports") {
            imports.retain(|import| !here.iter().any(|name| *import == *name));
        }
        let parsed = parse(&Value::Object(members).to_string(), limits);
        let plan = parsed.map_err(|error| error.made_by("a component of the plan"))?;
        let mut plan = self.with_made(plan, Templates::OfSource);
        if let Some(made) = plan.made_mut() {
            made.expressions.clone_from(&modules.0);
        }
        Ok(plan)
    }

    /// Another reading of this plan, whose root is made.
    pub(crate) fn with_made(&self, mut plan: Self, templates: Templates) -> Self {
        let made = match self.made() {
            Some(made) => Made { templates, ..made.clone() },
            None => {
                let code = self.source().and_then(|source| source.get("code")?.as_text());
                let expressions = code.into_iter().flat_map(expressions).collect();
                let written = written(self);
                Made { written, expressions, templates, notes: Vec::new() }
            }
        };
        plan.set_made(made);
        plan
    }
}

fn members_of(plan: &Plan) -> Map<String, Value> {
    match plan.json().to_value() {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Fills templates in.
struct Fill<'s> {
    scope: &'s Scope<'s>,
    profile: &'s Profile,
    made: Option<&'s Made>,
    /// Bytes that may still be filled in.
    left: usize,
    report: Report,
}

impl Fill<'_> {
    fn root(&mut self, root: &mut Value) -> Option<()> {
        let mut open = vec![(root, "/root".to_owned())];
        while let Some((node, at)) = open.pop() {
            let Some(members) = node.as_object_mut() else { continue };
            let text = |key: &str| members.get(key).and_then(Value::as_str).map(str::to_owned);
            let (kind, tag) = (text("type"), text("tag"));
            if let Some(Value::String(value)) = members.get_mut("value")
                && kind.as_deref() == Some("text")
                && is_template(self.made, value)
            {
                let filled = resolve_text(value, self.scope).into_owned();
                self.left = self.left.checked_sub(filled.len())?;
                *value = filled;
            }
            if let Some(Value::Object(props)) = members.get_mut("props") {
                self.props(tag.as_deref(), props, &format!("{at}/props"))?;
            }
            if let Some(Value::Array(children)) = members.get_mut("children") {
                let at = format!("{at}/children");
                let children = children.iter_mut().enumerate();
                open.extend(children.map(|(index, child)| (child, format!("{at}/{index}"))));
            }
        }
        Some(())
    }

    /// Of an element, or of a component, which has no tag.
    fn props(&mut self, tag: Option<&str>, props: &mut Map<String, Value>, at: &str) -> Option<()> {
        let row = tag.and_then(element::find);
        for (name, value) in props.iter_mut() {
            // The name of an event is not read for templates.
            let is_event =
                row.is_some() && name.get(..2).is_some_and(|it| it.eq_ignore_ascii_case("on"));
            if is_event {
                if let Some(payload) = value.get_mut("payload") {
                    self.value(payload)?;
                }
                continue;
            }
            let was_template = value.as_str().is_some_and(|text| is_template(self.made, text));
            self.value(value)?;
            let attribute = row.and_then(|row| attribute::find(row, name));
            let Some(attribute) = attribute.filter(|_| was_template) else { continue };
            // A template that gives nothing leaves a flag out, and a text without a template does not.
            if attribute.kind == Kind::Flag && value == "" {
                *value = Value::Bool(false);
            }
            let judged =
                value::judge(&attribute, Scalar::of_value(value.clone()), true, self.profile);
            if let Verdict::Refuse(refusal) = judged {
                self.report.note_at(|| join(at, name), refusal);
                *value = Value::Null;
            }
        }
        Some(())
    }

    fn value(&mut self, value: &mut Value) -> Option<()> {
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) if is_template(self.made, text) => {
                    let filled = resolve_string(text, self.scope);
                    self.left = self.left.checked_sub(size::of(&filled).bytes)?;
                    *value = filled;
                }
                Value::Array(items) => open.extend(items.iter_mut()),
                Value::Object(members) => open.extend(members.values_mut()),
                _ => {}
            }
        }
        Some(())
    }
}

/// How an address of a made root is judged: as it stands, and then as one that was filled in. What only a
/// filled-in address may not do is left out, as it is for a template.
pub(crate) fn judge<'a>(
    made: Option<&Made>,
    attribute: &attribute::Attribute<'_>,
    scalar: Scalar<'a>,
    templated: bool,
    profile: &Profile,
) -> Verdict<'a> {
    let is_made = match (made, &scalar) {
        (Some(made), Scalar::Text(text)) if matches!(attribute.kind, Kind::Link | Kind::Image) => {
            made.fills_in(text)
        }
        _ => false,
    };
    if !is_made || templated {
        return value::judge(attribute, scalar, templated, profile);
    }
    match value::judge(attribute, scalar.clone(), false, profile) {
        Verdict::Write(_) => match value::judge(attribute, scalar, true, profile) {
            Verdict::Refuse(refusal) => Verdict::Ignore(of_code(refusal)),
            verdict => verdict,
        },
        verdict => verdict,
    }
}

fn of_code(refusal: Refusal) -> Refusal {
    if refusal.code == codes::URL_DENIED {
        let why = "an image address that code put together could carry data away: write it whole in the plan";
        return Refusal::new(codes::URL_DENIED, why);
    }
    refusal
}
