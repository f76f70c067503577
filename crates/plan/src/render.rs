//! Rendering: a checked plan and its state become HTML. Equal input gives equal bytes.
//!
//! Nothing but escaped text and names from the rule table is ever written. Events become
//! `data-glasshouse-event-<event>` attributes that name a binding; a host listens once and looks the
//! binding up. No script is written, and no form sends anything by itself.

mod order;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use self::order::Finished;
use crate::attributes::{Output, Showing};
use crate::check::check_to_show;
use crate::codes;
use crate::error::Error;
use crate::escape;
use crate::event::Event;
use crate::guard::join;
use crate::json::Json;
use crate::made::Made;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::report::{Issue, MAX_NOTES, Report};
use crate::rules::Refusal;
use crate::rules::element::{self, ElementId};
use crate::state::State;
use crate::template::{self, Scope};
use crate::tree::{Entry, NodeKind};

/// Longest rendered text: templates may repeat a large state value many times.
pub const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// So many bytes of text and of values stay below [`MAX_OUTPUT_BYTES`] however they are escaped; of
/// more only rendering tells.
pub(crate) const SURELY_FITS_BYTES: usize = MAX_OUTPUT_BYTES / 8;
/// How many imports and components a plan may load and run if it asks for no number.
const DEFAULT_MAX_IMPORTS: usize = 50;
/// See [`DEFAULT_MAX_IMPORTS`].
const DEFAULT_MAX_INVOCATIONS: usize = 200;
/// Longest surface name.
const MAX_SURFACE_BYTES: usize = 32;

/// What a plan is rendered with.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    surface: String,
    state: Option<&'a State>,
    event: Option<&'a Event>,
    user_id: &'a str,
    variables: Cow<'a, Map<String, Value>>,
}

impl<'a> Context<'a> {
    /// A context for one surface. The surface's name prefixes every id, so that no plan can take
    /// the place of an element of its host or of another plan.
    ///
    /// # Errors
    ///
    /// `plan_surface_invalid` unless the name is a letter and up to 31 letters, digits or hyphens.
    pub fn new(surface: &str) -> Result<Self, Error> {
        let letter = surface.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        let plain = surface.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !letter || !plain || surface.len() > MAX_SURFACE_BYTES {
            return Err(Error::new(codes::SURFACE_INVALID, "the surface has no usable name"));
        }
        Ok(Self {
            surface: surface.to_owned(),
            state: None,
            event: None,
            user_id: "anonymous",
            variables: Cow::Owned(Map::new()),
        })
    }

    /// Renders this state; without it the plan's initial state is used.
    #[must_use]
    pub fn state(mut self, state: &'a State) -> Self {
        self.state = Some(state);
        self
    }

    /// Lets templates read the event that led here.
    #[must_use]
    pub fn event(mut self, event: &'a Event) -> Self {
        self.event = Some(event);
        self
    }

    /// Names who looks; `anonymous` otherwise.
    #[must_use]
    pub fn user(mut self, user_id: &'a str) -> Self {
        self.user_id = user_id;
        self
    }

    /// Lets templates read values of the host.
    #[must_use]
    pub fn variables(mut self, variables: &'a Map<String, Value>) -> Self {
        self.variables = Cow::Borrowed(variables);
        self
    }

    /// The state to render a plan with.
    pub(crate) fn values(&self, plan: &Plan) -> Result<Cow<'_, Map<String, Value>>, Error> {
        match self.state {
            Some(state) if state.plan_id != plan.id() || state.plan_version != plan.version() => {
                Err(Error::new(codes::STATE_PLAN_MISMATCH, "the state belongs to another plan"))
            }
            Some(state) => Ok(Cow::Borrowed(&state.values)),
            None => match plan.initial_state().map(Json::to_value) {
                Some(Value::Object(values)) => Ok(Cow::Owned(values)),
                _ => Ok(Cow::Owned(Map::new())),
            },
        }
    }

    /// What templates read, with this state.
    pub(crate) fn scope<'s>(&'s self, state: &'s Map<String, Value>) -> Scope<'s> {
        Scope { state, event: self.event, user_id: self.user_id, variables: &self.variables }
    }

    pub(crate) fn surface(&self) -> &str {
        &self.surface
    }
}

/// What a `data-glasshouse-event-<event>` attribute stands for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventBinding {
    /// Value of the attribute.
    pub id: String,
    /// The browser's event, such as `click`.
    pub dom_event: String,
    /// The plan's event.
    pub event: Event,
}

impl EventBinding {
    /// The event as it happened, with what a person had entered. Names of fields are given as the
    /// markup has them; the plan knows them without the surface's prefix.
    ///
    /// # Errors
    ///
    /// As [`Event::with_input`].
    pub fn happened(&self, surface: &str, input: Map<String, Value>) -> Result<Event, Error> {
        let own = |(member, value): (String, Value)| match (member.as_str(), value) {
            ("fields", Value::Object(fields)) => {
                let prefix = format!("{surface}-");
                let own = |(name, value): (String, Value)| {
                    name.strip_prefix(&prefix).map(|name| (name.to_owned(), value))
                };
                (member, Value::Object(fields.into_iter().filter_map(own).collect()))
            }
            (_, value) => (member, value),
        };
        self.event.clone().with_input(input.into_iter().map(own).collect())
    }
}

/// Rendered HTML: a fragment for the body of a document. A host puts it into a box that clips
/// (`contain: layout paint`), so that a wide or long plan stays in its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Html {
    /// The markup.
    pub markup: String,
    /// The bindings that the markup names, in order.
    pub events: Vec<EventBinding>,
    /// Origins of the images in the markup, for a content security policy.
    pub image_origins: BTreeSet<String>,
    /// The first parts that were left out, such as an address that a template filled in, and what the
    /// check remarks.
    pub notes: Vec<Issue>,
}

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.markup)
    }
}

/// Renders a plan that the profile accepts; from one that it refuses nothing is rendered.
///
/// # Errors
///
/// `plan_unsafe` with the report's issues in its context; `plan_code_unsupported` for a plan with
/// source and `plan_lane_unavailable` for a lane other than `standard`, because no engine is here;
/// `plan_state_plan_mismatch` for another plan's state; `plan_output_too_large`. The first three
/// carry the plan's `fallback` text, if it has one.
///
/// Imports are not loaded and components are not run: the notes name them, and a component's place
/// is kept by an element around its children.
///
/// ```
/// use glasshouse_plan::{Context, Profile, ProfileName, parse, render};
/// let text = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,
///     "state":{"initial":{"name":"<Ada>"}},
///     "root":{"type":"element","tag":"p","children":[{"type":"text","value":"Hi {{state.name}}"}]}}"#;
/// let plan = parse(text, &Default::default())?;
/// let html = render(&plan, &Profile::named(ProfileName::Strict), &Context::new("s1")?)?;
/// assert_eq!(html.markup, "<p>Hi &lt;Ada&gt;</p>");
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
pub fn render(plan: &Plan, profile: &Profile, context: &Context<'_>) -> Result<Html, Error> {
    let report = check_to_show(plan, profile);
    if !report.safe {
        return Err(refused(plan, &report));
    }
    let values = context.values(plan)?;
    let scope = context.scope(&values);
    let mut writer = Writer {
        plan,
        showing: Showing {
            profile,
            surface: &context.surface,
            scope: Some(scope),
            templates: plan.may_hold_templates(),
            made: plan.made(),
        },
        out: String::with_capacity(plan.node_count() * 48),
        events: Vec::new(),
        payload_bytes: 0,
        image_origins: BTreeSet::new(),
        report: Report::new(),
        index: 0,
        number: 0,
        line_break_dropped: false,
        bindings: Finished::bindings(plan),
        components: Finished::components(plan),
    };
    writer.imports();
    writer.run()?;
    let Writer { out: markup, events, image_origins, report: shown, .. } = writer;
    let mut notes = shown.notes;
    let before = plan.made().map(|made| made.notes.clone()).unwrap_or_default();
    for note in before.into_iter().chain(report.notes) {
        // What both saw is told once.
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(Html { markup, events, image_origins, notes })
}

pub(crate) fn refused(plan: &Plan, report: &Report) -> Error {
    let first = report.issues.first();
    let engine = [codes::CODE_UNSUPPORTED, codes::LANE_UNAVAILABLE]
        .into_iter()
        .find(|code| report.issue_count == 1 && first.is_some_and(|issue| issue.code == code.name));
    let issues: Vec<Value> = report
        .issues
        .iter()
        .map(|issue| {
            serde_json::json!({
                "code": issue.code, "pointer": issue.pointer, "message": issue.message,
                "fix": issue.fix,
            })
        })
        .collect();
    let what = match plan.made().is_some_and(Made::is_of_code) {
        // Its places are none of the plan.
        true => "what the plan's code made is not rendered",
        false => "the plan is not rendered",
    };
    let mut error = Error::new(engine.unwrap_or(codes::UNSAFE), what)
        .why(first.map(|issue| issue.message.as_str()).unwrap_or_default())
        .at(first.map(|issue| issue.pointer.as_str()).unwrap_or_default())
        .with("issues", issues)
        .with("issue_count", report.issue_count);
    if let Some(fallback) = plan.fallback() {
        error = error.with("fallback", fallback);
    }
    error
}

fn component_unresolved() -> Refusal {
    let why = "nothing came of the component here; its children are shown";
    Refusal::new(codes::COMPONENT_UNRESOLVED, why)
}

/// A number that a plan asks for, rounded up: where half a thing is asked for, one is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn count_asked(asked: Option<Json<'_>>, default: usize) -> usize {
    asked.and_then(Json::as_number).map_or(default, |asked| asked.ceil().clamp(0.0, 1e9) as usize)
}

struct Writer<'p> {
    plan: &'p Plan,
    showing: Showing<'p>,
    out: String,
    events: Vec<EventBinding>,
    payload_bytes: usize,
    image_origins: BTreeSet<String>,
    report: Report,
    /// Entry whose start tag is being written.
    index: u32,
    /// Number of the binding that was written last.
    number: u32,
    /// The next line break would be dropped by a parser, so it is written twice.
    line_break_dropped: bool,
    bindings: Option<Finished>,
    components: Option<Finished>,
}

/// An element whose end tag is not written yet.
struct OpenTag {
    /// First node behind its descendants.
    end: u32,
    element: ElementId,
    /// The component whose place it keeps.
    component: Option<u32>,
}

impl<'p> Writer<'p> {
    fn run(&mut self) -> Result<(), Error> {
        let plan = self.plan;
        let mut open: Vec<OpenTag> = Vec::new();
        let mut skipped = 0;
        for (index, entry) in (0u32..).zip(&plan.tree().entries) {
            if index < skipped {
                continue;
            }
            while let Some(tag) = open.pop_if(|tag| tag.end <= index) {
                self.close(&tag);
            }
            match (entry.kind, entry.element) {
                (NodeKind::Text, _) => self.text(entry.name_in(plan.document())),
                (NodeKind::Element, Some(element)) => {
                    self.start_tag(index, *entry, element)?;
                    if !element.has(element::VOID) {
                        open.push(OpenTag { end: entry.end, element, component: None });
                    }
                }
                (NodeKind::Component, _) => {
                    if self.component(index, *entry) {
                        let element = element::placeholder();
                        open.push(OpenTag { end: entry.end, element, component: Some(index) });
                    } else {
                        skipped = entry.end;
                    }
                }
                // The check refuses these; nothing is written for them in any case.
                (NodeKind::Element, None) => {}
            }
            self.within_limit()?;
        }
        while let Some(tag) = open.pop() {
            self.close(&tag);
        }
        Ok(())
    }

    fn close(&mut self, tag: &OpenTag) {
        if let Some(index) = tag.component {
            let at = || format!("{}/module", self.plan.tree().pointer(index, "/root"));
            self.report.note_at(at, component_unresolved());
        }
        self.end_tag(tag.element);
    }

    /// Imports are named, not loaded.
    fn imports(&mut self) {
        let asked = self.plan.capabilities().and_then(|asked| asked.get("maxImports"));
        let max = count_asked(asked, DEFAULT_MAX_IMPORTS);
        for (index, specifier) in self.plan.imports().enumerate() {
            let (code, why) = if index >= max {
                (codes::IMPORT_LIMIT, format!("{specifier:?} is behind the first {max} imports"))
            } else {
                (codes::IMPORT_UNRESOLVED, format!("{specifier:?} is not loaded"))
            };
            self.report.note_at(|| format!("/imports/{index}"), Refusal::new(code, why));
        }
    }

    /// Opens the place of a component; false when the plan may run no more of them, and a text
    /// says so instead.
    fn component(&mut self, index: u32, entry: Entry) -> bool {
        let module = entry.name_in(self.plan.document());
        let asked = self.plan.capabilities().and_then(|it| it.get("maxComponentInvocations"));
        let max = count_asked(asked, DEFAULT_MAX_INVOCATIONS);
        let before = self.components.as_ref().map_or(0, |order| order.before(index));
        let within = (before as usize) < max;
        self.out.push_str("<div");
        let name = if within { "missing-module" } else { "component-limit" };
        self.quoted(&format!("data-glasshouse-{name}"), module);
        self.out.push('>');
        self.line_break_dropped = false;
        if !within {
            self.out.push_str("Component invocation limit exceeded</div>");
            self.passed_over(index, entry, max);
        }
        within
    }

    /// Names a component that is one too many, and those inside it, which are not shown with it.
    fn passed_over(&mut self, index: u32, entry: Entry, max: usize) {
        let tree = self.plan.tree();
        let Some(order) = &self.components else { return };
        let component = |at: &u32| tree.entries[*at as usize].kind == NodeKind::Component;
        let mut inside: Vec<u32> = (index..entry.end).filter(component).collect();
        inside.sort_by_key(|at| order.before(*at));
        for at in inside {
            let refusal = if (order.before(at) as usize) < max {
                component_unresolved()
            } else {
                let why = format!("the plan may run {max} components");
                Refusal::new(codes::COMPONENT_LIMIT, why)
            };
            let pointer = || format!("{}/module", tree.pointer(at, "/root"));
            self.report.note_at(pointer, refusal);
        }
    }

    fn within_limit(&self) -> Result<(), Error> {
        if self.out.len() + self.payload_bytes > MAX_OUTPUT_BYTES {
            return Err(Error::new(codes::OUTPUT_TOO_LARGE, "the rendered text is too large")
                .why(format!("limit {MAX_OUTPUT_BYTES} bytes with the payloads of events"))
                .with("max", MAX_OUTPUT_BYTES));
        }
        Ok(())
    }

    fn end_tag(&mut self, element: ElementId) {
        self.out.push_str("</");
        self.out.push_str(element.name());
        self.out.push('>');
        self.line_break_dropped = false;
    }

    fn text(&mut self, text: &str) {
        let text = match &self.showing.scope {
            Some(scope) if self.showing.reads(text) => template::resolve_text(text, scope),
            _ => Cow::Borrowed(text),
        };
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.line_break_dropped) && text.starts_with('\n') {
            self.out.push('\n');
        }
        escape::push(&mut self.out, &text);
    }

    fn quoted(&mut self, name: &str, value: &str) {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        escape::push(&mut self.out, value);
        self.out.push('"');
    }

    fn start_tag(&mut self, index: u32, entry: Entry, element: ElementId) -> Result<(), Error> {
        self.out.push('<');
        self.out.push_str(element.name());
        self.index = index;
        self.number = self.bindings.as_ref().map_or(0, |order| order.before(index));
        let showing = self.showing;
        showing.show(element, entry.props_in(self.plan.document()), self)?;
        self.out.push('>');
        self.line_break_dropped = element.has(element::DROPS_LINE_BREAK);
        Ok(())
    }
}

impl Output for Writer<'_> {
    fn attribute(&mut self, _: u16, name: &str, value: Option<&str>) -> Result<(), Error> {
        match value {
            Some(value) => self.quoted(name, value),
            None => {
                self.out.push(' ');
                self.out.push_str(name);
            }
        }
        self.within_limit()
    }

    fn binding(
        &mut self,
        slot: u16,
        dom_event: String,
        event: Event,
        payload_bytes: usize,
    ) -> Result<(), Error> {
        self.number += 1;
        let id = format!("evt_{}", self.number);
        self.payload_bytes += payload_bytes;
        self.attribute(slot, &format!("data-glasshouse-event-{dom_event}"), Some(&id))?;
        self.events.push(EventBinding { id, dom_event, event });
        Ok(())
    }

    fn image_origin(&mut self, origin: String) {
        self.image_origins.insert(origin);
    }

    fn note(&mut self, property: &str, refusal: Refusal) {
        let index = self.index;
        let tree = self.plan.tree();
        let pointer = || join(&format!("{}/props", tree.pointer(index, "/root")), property);
        self.report.note_at(pointer, refusal);
    }
}
