//! The plan: a document that passed the guards, with typed views of its parts.

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::guard;
use crate::json::{Document, Json, Kind, Members};
use crate::limits::Limits;
use crate::made::{Made, Templates};
use crate::tree::{self, Node, Tree};

/// The one specification version there is.
pub const SPEC_VERSION: &str = "runtime-plan/v1";

/// The lane that runs no code.
pub const LANE_WITHOUT_CODE: &str = "standard";

/// A RuntimePlan: well-formed, not yet judged by a profile.
///
/// Serialising it gives the same members in the same order, in canonical spacing.
#[derive(Debug, Clone)]
pub struct Plan {
    document: Document,
    tree: Tree,
    /// What is known of its root, if code made it.
    made: Option<Box<Made>>,
}

/// Reads a plan from JSON text. Limits hold while reading; nothing recurses.
///
/// # Errors
///
/// `plan_json_invalid`, `plan_key_duplicate`, `plan_number_not_finite`, `plan_too_large`,
/// `plan_too_deep`, `plan_shape_invalid`.
///
/// ```
/// let text = r#"{"specVersion":"runtime-plan/v1","id":"hello","version":1,
///                "root":{"type":"text","value":"Hello"}}"#;
/// let plan = glasshouse_plan::parse(text, &Default::default())?;
/// assert_eq!((plan.id(), plan.version()), ("hello", 1));
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
pub fn parse(text: &str, limits: &Limits) -> Result<Plan, Error> {
    let limits = limits.clamped();
    Plan::of(Document::parse(text, &limits)?, &limits)
}

impl Plan {
    /// The plan that a document is.
    pub(crate) fn of(document: Document, limits: &Limits) -> Result<Self, Error> {
        guard::envelope(document.root())?;
        let root = document.root().get("root");
        let root = root.ok_or_else(|| guard::no_root(document.root()))?;
        let tree = Tree::read(root, "/root", limits.nodes)?;
        Ok(Self { document, tree, made: None })
    }

    /// The identifier as written.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text("id").unwrap_or_default()
    }

    /// The version, from 1.
    #[must_use]
    pub fn version(&self) -> i64 {
        match self.member("version").map(Json::kind) {
            Some(Kind::Int(version)) => version,
            _ => 1,
        }
    }

    /// The specification version as written.
    #[must_use]
    pub fn spec_version(&self) -> Option<&str> {
        self.text("specVersion")
    }

    /// The root of the tree.
    #[must_use]
    pub fn root(&self) -> Node<'_> {
        tree::node_at(&self.document, &self.tree, 0)
    }

    /// How many nodes the tree has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.tree.entries.len()
    }

    /// Every node, parents before children, siblings in order.
    pub fn walk(&self) -> impl Iterator<Item = Node<'_>> {
        (0u32..).take(self.node_count()).map(|at| tree::node_at(&self.document, &self.tree, at))
    }

    /// The modules that component nodes name, each once, in the order of the walk.
    #[must_use]
    pub fn component_modules(&self) -> Vec<&str> {
        let mut seen = std::collections::HashSet::new();
        let modules = self.walk().filter_map(|node| match node {
            Node::Component(component) => Some(component.module()),
            _ => None,
        });
        modules.filter(|module| seen.insert(*module)).collect()
    }

    /// What the plan asks for.
    #[must_use]
    pub fn capabilities(&self) -> Option<Json<'_>> {
        self.member("capabilities")
    }

    /// The initial state.
    #[must_use]
    pub fn initial_state(&self) -> Option<Json<'_>> {
        self.member("state")?.get("initial")
    }

    /// The transitions by event name.
    #[must_use]
    pub fn transitions(&self) -> Option<Members<'_>> {
        self.member("state")?.get("transitions")?.as_object()
    }

    /// The same to look names up in; nothing for a plan that has none.
    pub(crate) fn transition_table(&self) -> Option<Json<'_>> {
        let table = self.member("state")?.get("transitions")?;
        table.as_object().filter(|members| members.len() > 0).map(|_| table)
    }

    /// Modules to load before the tree is shown.
    pub fn imports(&self) -> impl Iterator<Item = &str> {
        self.member("imports")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_text)
    }

    /// Where modules come from.
    #[must_use]
    pub fn manifest(&self) -> Option<Members<'_>> {
        self.member("moduleManifest")?.as_object()
    }

    /// The address that the manifest gives a module; names are compared as they are.
    #[must_use]
    pub fn manifest_entry(&self, specifier: &str) -> Option<&str> {
        self.member("moduleManifest")?.get(specifier)?.get("resolvedUrl")?.as_text()
    }

    /// The lane that the plan asks for; without one, that without code.
    #[must_use]
    pub fn lane(&self) -> &str {
        let asked = self.capabilities().and_then(|asked| asked.get("executionProfile"));
        asked.and_then(Json::as_text).unwrap_or(LANE_WITHOUT_CODE)
    }

    /// Code, if the plan carries any.
    #[must_use]
    pub fn source(&self) -> Option<Json<'_>> {
        self.member("source")
    }

    /// The plan that is left when its code has run: what the code made is its root, and there is neither
    /// source nor a lane any more. Without a node that was made, its own root stays. It is read
    /// like any other text, but for two things: a template in it counts only if the source has it, and an
    /// address whose whole text does not stand in this plan is judged as one that a template filled in.
    ///
    /// # Errors
    ///
    /// Those of [`parse`], for a node that is none or beyond the limits.
    ///
    /// ```
    /// let text = r#"{"id":"x","version":1,"root":{"type":"text","value":"own"},
    ///     "source":{"code":"export default 'made'","language":"js"}}"#;
    /// let limits = Default::default();
    /// let plan = glasshouse_plan::parse(text, &limits)?;
    /// let made = plan.after_code(Some(&serde_json::json!({"type":"text","value":"made"})), &limits)?;
    /// assert!(made.source().is_none());
    /// assert_eq!(serde_json::to_value(&made).unwrap()["root"]["value"], "made");
    /// # Ok::<(), glasshouse_plan::Error>(())
    /// ```
    pub fn after_code(&self, made: Option<&Value>, limits: &Limits) -> Result<Self, Error> {
        let mut members = match self.json().to_value() {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        members.remove("source");
        if let Some(Value::Object(asked)) = members.get_mut("capabilities") {
            asked.remove("executionProfile");
        }
        if let Some(made) = made {
            members.insert("root".to_owned(), made.clone());
        }
        let parsed = parse(&Value::Object(members).to_string(), limits);
        let mut plan = parsed.map_err(|error| match made {
            Some(_) => error.made_by("the plan's code"),
            None => error,
        })?;
        plan.made.clone_from(&self.made);
        match made {
            Some(_) => Ok(self.with_made(plan, Templates::OfSource)),
            None => Ok(plan),
        }
    }

    /// Where the plan came from.
    #[must_use]
    pub fn metadata(&self) -> Option<Json<'_>> {
        self.member("metadata")
    }

    /// Extensions that the plan cannot be shown without.
    pub fn required_extensions(&self) -> impl Iterator<Item = &str> {
        let required = self.member("ext").and_then(|extensions| extensions.get("requires"));
        required.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_text)
    }

    /// Text to show where the plan itself cannot be shown.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        self.member("ext")?.get("fallback")?.as_text()
    }

    /// The whole document.
    #[must_use]
    pub fn json(&self) -> Json<'_> {
        self.document.root()
    }

    /// What is known of the root, if code made it.
    pub(crate) fn made(&self) -> Option<&Made> {
        self.made.as_deref()
    }

    pub(crate) fn made_mut(&mut self) -> Option<&mut Made> {
        self.made.as_deref_mut()
    }

    pub(crate) fn set_made(&mut self, made: Made) {
        self.made = Some(Box::new(made));
    }

    pub(crate) fn document(&self) -> &Document {
        &self.document
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    fn member(&self, key: &str) -> Option<Json<'_>> {
        self.document.root().get(key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.member(key)?.as_text()
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document.root().serialize(serializer)
    }
}
