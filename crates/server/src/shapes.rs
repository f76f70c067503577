//! Schemas of what other crates write that know nothing of schemas, or that is put together as JSON. A test of the
//! command compares them with real answers, member by member.
#![expect(dead_code, reason = "only their schemas are used")]

use std::collections::BTreeSet;

use glasshouse_model::{BranchId, Event, Seq, SessionId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// A body of text.
pub(crate) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

/// Any JSON object.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// A document of a branch: one, a list of them, or nothing.
pub(crate) fn document(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["object", "array", "null"] })
}

/// A page of events.
#[derive(JsonSchema)]
#[schemars(rename = "Events")]
pub(crate) struct EventsPage {
    session: SessionId,
    branch: BranchId,
    /// Sequence of the branch's newest event.
    head: Seq,
    /// Sequence to go on with; `null` on the last page.
    next: Option<Seq>,
    /// In order.
    events: Vec<Event>,
}

/// A message of a chat, as the AI SDK has it.
#[derive(JsonSchema)]
#[schemars(rename = "ChatMessage")]
pub(crate) struct ChatMessage {
    id: String,
    /// `user` or `assistant`.
    role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Map<String, Value>>,
    parts: Vec<Map<String, Value>>,
}

/// Something that is wrong with a plan, or that is not shown.
#[derive(JsonSchema)]
#[schemars(rename = "PlanIssue")]
pub(crate) struct Issue {
    code: String,
    /// JSON Pointer of the place in the plan.
    pointer: String,
    message: String,
    fix: String,
}

/// The page of a plan.
#[derive(JsonSchema)]
#[schemars(rename = "PlanHtml")]
pub(crate) struct Html {
    /// The markup.
    markup: String,
    /// The bindings that the markup names, in order.
    events: Vec<EventBinding>,
    /// Origins of the images in the markup.
    image_origins: BTreeSet<String>,
    /// Parts that were left out, and what the check remarks.
    notes: Vec<Issue>,
}

/// What an attribute of the markup stands for.
#[derive(JsonSchema)]
#[schemars(rename = "PlanEventBinding")]
pub(crate) struct EventBinding {
    /// Value of the attribute.
    id: String,
    /// The browser's event, such as `click`.
    dom_event: String,
    /// The plan's event.
    event: Happened,
}

/// An event of a plan.
#[derive(JsonSchema)]
#[schemars(rename = "PlanBoundEvent")]
pub(crate) struct Happened {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Map<String, Value>>,
}

/// What was done to a plan's state.
#[derive(JsonSchema)]
#[schemars(rename = "PlanAction")]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Action {
    /// Wrote a value.
    Set { path: String, value: Value },
    /// Appended a value.
    Push { path: String, value: Value },
    /// Added to a number.
    Increment { path: String, by: Value },
    /// Negated.
    Toggle { path: String },
}

/// One change of a view.
#[derive(JsonSchema)]
#[schemars(rename = "PlanPatch")]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Patch {
    /// A node appears.
    Ins {
        id: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<u32>,
        node: Content,
    },
    /// A node and everything below it disappear.
    Del { id: u32 },
    /// A node moves among its siblings.
    Mov {
        id: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<u32>,
    },
    /// A text grows at its end, or is replaced.
    Text { id: u32, append: bool, value: String },
    /// An attribute gets a value or goes away.
    Attr { id: u32, slot: u16, name: String, value: AttributeValue },
    /// An event binding is made or goes away.
    Prop { id: u32, slot: u16, dom_event: String, event: Option<Happened> },
    /// The node is complete.
    Ready { id: u32 },
}

/// What a node is.
#[derive(JsonSchema)]
#[schemars(rename = "PlanNode")]
#[serde(rename_all = "snake_case")]
pub(crate) enum Content {
    /// An element with this tag.
    Tag(String),
    /// A text.
    Text(String),
}

/// Value of an attribute: a text, `true` for a name alone, `null` for none.
#[derive(JsonSchema)]
#[schemars(rename = "PlanAttributeValue")]
#[serde(untagged)]
pub(crate) enum AttributeValue {
    Text(String),
    Bare(bool),
    Removed(()),
}

/// What a probe of a plan found.
#[derive(JsonSchema)]
#[schemars(rename = "PlanProbed")]
pub(crate) struct Probed {
    /// The plan, where the text is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_id: Option<String>,
    /// Whether it would be shown and every module can be had.
    ok: bool,
    /// Whether the profile accepts it.
    safe: bool,
    /// The first reasons why not.
    issues: Vec<Issue>,
    /// How many reasons there are.
    issue_count: u64,
    /// Parts that are harmless and will not be shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Issue>,
    /// The modules that it names.
    dependencies: Vec<Dependency>,
    /// The modules that its code would run with, where it has code.
    #[serde(skip_serializing_if = "Option::is_none")]
    modules: Option<Vec<Preflight>>,
}

/// A module that code of a plan would run with.
#[derive(JsonSchema)]
#[schemars(rename = "PlanModule")]
pub(crate) struct Preflight {
    /// Its address.
    address: String,
    /// What it is.
    kind: String,
    /// From the plan to it.
    chain: Vec<String>,
}

/// One module that a plan names.
#[derive(JsonSchema)]
#[schemars(rename = "PlanDependency")]
pub(crate) struct Dependency {
    usage: Usage,
    specifier: String,
    /// Where it would come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved: Option<String>,
    /// How far it is supported: `a`, `b` or `c`.
    tier: String,
    /// Whether it is supported and has a place.
    ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Where a plan names a module.
#[derive(JsonSchema)]
#[schemars(rename = "PlanModuleUsage")]
#[serde(rename_all = "snake_case")]
pub(crate) enum Usage {
    Import,
    Component,
    Source,
}
