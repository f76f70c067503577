//! Reading a model's habits: common ways of writing nodes and plans become the one the contract has.
//!
//! Nothing is guessed. A value that could mean two things, or that is present and wrong, is not
//! repaired; the model is told instead.

use serde_json::{Map, Number, Value};

use crate::build;
use crate::guard::{self, Checked};
use crate::json::{Document, Json, to_text};
use crate::limits::Limits;
use crate::plan::{self, SPEC_VERSION};
use crate::template;
use crate::tree::Tree;

/// Deepest node that is repaired. It also bounds how often the repair calls itself.
pub const MAX_DEPTH: usize = 512;
/// Most nodes that are repaired.
pub const MAX_NODES: usize = 10_000;

/// Members that move into the properties of their node, unless the property is already there.
const TEXT_MEMBERS: [&str; 5] = ["id", "title", "role", "for", "class"];
/// Members that do so under another name.
const RENAMED_MEMBERS: [(&str, &str); 2] = [("className", "class"), ("htmlFor", "for")];

/// Makes a node of a value that means one; `None` when it means none, or more than one.
///
/// ```
/// use glasshouse_plan::normalise;
/// let value = serde_json::json!({"type": "p", "className": "c", "nodes": ["Hi"]});
/// let node = normalise::node(&value).expect("one meaning");
/// assert_eq!(node["tag"], "p");
/// assert_eq!(node["props"]["class"], "c");
/// assert_eq!(node["children"][0]["value"], "Hi");
/// ```
#[must_use]
pub fn node(value: &Value) -> Option<Value> {
    if is_bounded_node(value) {
        return Some(value.clone());
    }
    Repair { nodes: 0 }.node(value, 0)
}

/// Makes a plan of a value that is one in all but form, and whose templates can be resolved.
///
/// A plan without an id gets `fallback_id`; without one there it is no plan.
///
/// ```
/// use glasshouse_plan::normalise;
/// let value = serde_json::json!({"version": "runtime-plan/v1", "nodes": [{"type": "p"}]});
/// let plan = normalise::plan(&value, Some("answer")).expect("a plan");
/// assert_eq!((&plan["id"], &plan["version"]), (&"answer".into(), &1.into()));
/// assert_eq!(plan["root"]["tag"], "div");
/// ```
#[must_use]
pub fn plan(value: &Value, fallback_id: Option<&str>) -> Option<Value> {
    let members = value.as_object()?;
    let plain = members.get("root").is_some_and(is_bounded_node) && !members.contains_key("nodes");
    if plain && holds(value, guard::plan) {
        return resolvable(value).then(|| value.clone());
    }
    let candidate = Value::Object(Envelope { members }.repaired(fallback_id)?);
    (holds(&candidate, guard::plan) && resolvable(&candidate)).then_some(candidate)
}

/// Whether a guard accepts a value.
pub(crate) fn holds(value: &Value, guard: impl Fn(Json<'_>) -> Checked) -> bool {
    Document::parse(&value.to_string(), &Limits::default())
        .is_ok_and(|document| guard(document.root()).is_ok())
}

fn resolvable(plan: &Value) -> bool {
    plan::parse(&plan.to_string(), &Limits::default())
        .is_ok_and(|plan| template::problems(&plan).is_empty())
}

fn is_bounded_node(value: &Value) -> bool {
    holds(value, |value| Tree::read(value, "", MAX_NODES).map(|_| ()))
}

fn text_of(value: &Value) -> Option<&str> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty())
}

struct Repair {
    nodes: usize,
}

impl Repair {
    fn node(&mut self, value: &Value, depth: usize) -> Option<Value> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return None;
        }
        let members = match value {
            Value::String(text) => return Some(build::text(text)),
            Value::Number(number) => return Some(build::text(&number_text(number))),
            Value::Bool(value) => return Some(build::text(if *value { "true" } else { "false" })),
            Value::Object(members) => members,
            Value::Null | Value::Array(_) => return None,
        };
        let kind = members.get("type")?.as_str()?;
        if !members.keys().all(|key| is_member(kind, key)) {
            return None;
        }
        if kind == "text" {
            return text(members);
        }
        if members.contains_key("text") {
            return None;
        }
        let children = self.children(members, depth)?;
        let props = props(members)?;
        let mut node = match kind {
            "component" => component(members)?,
            _ => Map::from_iter([
                ("type".to_owned(), "element".into()),
                ("tag".to_owned(), tag(kind, members)?.into()),
            ]),
        };
        node.insert("children".to_owned(), Value::Array(children));
        if !props.is_empty() {
            node.insert("props".to_owned(), Value::Object(props));
        }
        Some(Value::Object(node))
    }

    fn children(&mut self, members: &Map<String, Value>, depth: usize) -> Option<Vec<Value>> {
        let given = match (members.get("children"), members.get("nodes")) {
            (Some(_), Some(_)) => return None,
            (Some(children), None) | (None, Some(children)) => children.as_array()?,
            (None, None) => return Some(Vec::new()),
        };
        given.iter().map(|child| self.node(child, depth + 1)).collect()
    }
}

fn number_text(number: &Number) -> String {
    to_text(number.as_f64().unwrap_or(0.0))
}

/// Whether a node of a kind may have a member on its way to the contract's form.
fn is_member(kind: &str, key: &str) -> bool {
    let own = match kind {
        "text" => matches!(key, "value" | "props" | "children"),
        "component" => matches!(key, "module" | "exportName" | "props" | "children"),
        "element" | "container" => matches!(key, "tag" | "props" | "children"),
        _ if is_tag(kind) => matches!(key, "tag" | "props" | "children"),
        _ => return false,
    };
    own || matches!(key, "type" | "nodes" | "text" | "style")
        || TEXT_MEMBERS.contains(&key)
        || RENAMED_MEMBERS.iter().any(|(name, _)| *name == key)
}

fn is_tag(text: &str) -> bool {
    let letter = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    letter
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn text(members: &Map<String, Value>) -> Option<Value> {
    if members.contains_key("children") || members.contains_key("nodes") {
        return None;
    }
    if !props(members)?.is_empty() {
        return None;
    }
    let read = |key: &str| members.get(key).map(|value| value.as_str());
    match (read("value"), read("text")) {
        (Some(None), _) | (_, Some(None)) | (None, None) => None,
        (Some(value), Some(text)) if value != text => None,
        (Some(Some(text)), _) | (None, Some(Some(text))) => Some(build::text(text)),
    }
}

fn component(members: &Map<String, Value>) -> Option<Map<String, Value>> {
    let module = text_of(members.get("module")?)?;
    let export = match members.get("exportName") {
        Some(export) => text_of(export)?,
        None => "default",
    };
    Some(Map::from_iter([
        ("type".to_owned(), "component".into()),
        ("module".to_owned(), module.into()),
        ("exportName".to_owned(), export.into()),
    ]))
}

/// The tag that a node's kind and its own `tag` agree on.
fn tag<'v>(kind: &'v str, members: &'v Map<String, Value>) -> Option<&'v str> {
    let explicit = match members.get("tag") {
        Some(tag) => Some(text_of(tag)?),
        None => None,
    };
    match (kind, explicit) {
        ("element", tag) => tag,
        ("container", tag) => Some(tag.unwrap_or("div")),
        (_, None) => Some(kind),
        (_, Some(tag)) => tag.eq_ignore_ascii_case(kind).then_some(kind),
    }
}

/// The properties of a node, with those that were written beside them.
fn props(members: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut props = match members.get("props") {
        Some(props) => props.as_object()?.clone(),
        None => Map::new(),
    };
    if let Some(style) = members.get("style") {
        if !style.is_string() && !style.is_object() {
            return None;
        }
        props.entry("style").or_insert_with(|| style.clone());
    }
    let plain = TEXT_MEMBERS.iter().map(|name| (*name, *name));
    for (name, prop) in plain.chain(RENAMED_MEMBERS) {
        if let Some(value) = members.get(name) {
            let text = value.as_str()?;
            props.entry(prop).or_insert_with(|| text.into());
        }
    }
    Some(props)
}

/// A plan that is not in the contract's form.
struct Envelope<'v> {
    members: &'v Map<String, Value>,
}

impl<'v> Envelope<'v> {
    fn get(&self, key: &str) -> Option<&'v Value> {
        self.members.get(key)
    }

    fn repaired(&self, fallback_id: Option<&str>) -> Option<Map<String, Value>> {
        if !self.is_plan() || (self.get("nodes").is_some() && self.get("root").is_some()) {
            return None;
        }
        let id = match self.get("id") {
            Some(id) => text_of(id)?,
            None => fallback_id.map(str::trim).filter(|id| !id.is_empty())?,
        };
        let (spec_version, version) = self.versions()?;
        let mut plan = Map::from_iter([
            ("specVersion".to_owned(), spec_version.into()),
            ("id".to_owned(), id.into()),
            ("version".to_owned(), version),
            ("root".to_owned(), self.root()?),
            ("capabilities".to_owned(), self.capabilities()?),
        ]);
        type Part = (&'static str, fn(Json<'_>) -> Checked);
        let parts: [Part; 5] = [
            ("imports", guard::imports),
            ("moduleManifest", guard::manifest),
            ("state", guard::state_model),
            ("source", guard::source),
            ("metadata", guard::metadata),
        ];
        for (key, guard) in parts {
            if let Some(value) = self.get(key) {
                if !holds(value, guard) {
                    return None;
                }
                plan.insert(key.to_owned(), value.clone());
            }
        }
        Some(plan)
    }

    /// Whether enough of a plan is there to call it one.
    fn is_plan(&self) -> bool {
        let marked = |key: &str| {
            let text = self.get(key).and_then(Value::as_str);
            text.is_some_and(|text| text.trim().starts_with("runtime-plan/"))
        };
        if marked("specVersion") || marked("version") {
            return true;
        }
        let parts = [
            self.get("id").is_some_and(|id| text_of(id).is_some()),
            self.get("version").is_some_and(is_version),
            self.get("capabilities").is_some_and(|asked| holds(asked, guard::capabilities)),
        ];
        match parts.into_iter().filter(|there| *there).count() {
            0 => false,
            1 => self.get("root").is_some_and(|root| holds(root, guard::node)),
            _ => true,
        }
    }

    fn versions(&self) -> Option<(&'v str, Value)> {
        let named = match self.get("specVersion") {
            Some(spec_version) => Some(text_of(spec_version)?),
            None => None,
        };
        match self.get("version") {
            None => Some((named.unwrap_or(SPEC_VERSION), 1.into())),
            Some(version) if is_version(version) => {
                Some((named.unwrap_or(SPEC_VERSION), version.clone()))
            }
            // The two versions of a plan are easily taken for one.
            Some(version) => {
                let old = text_of(version).filter(|text| text.starts_with("runtime-plan/"))?;
                named.is_none_or(|named| named == old).then(|| (old, 1.into()))
            }
        }
    }

    fn root(&self) -> Option<Value> {
        if let Some(root) = self.get("root") {
            return if root.is_object() { node(root) } else { None };
        }
        let nodes = self.get("nodes")?;
        nodes.as_array()?;
        let container =
            [("type".to_owned(), "container".into()), ("nodes".to_owned(), nodes.clone())];
        node(&Value::Object(Map::from_iter(container)))
    }

    fn capabilities(&self) -> Option<Value> {
        match self.get("capabilities") {
            None => Some(serde_json::json!({"domWrite": true, "allowedModules": []})),
            Some(asked) => holds(asked, guard::capabilities).then(|| asked.clone()),
        }
    }
}

fn is_version(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number >= 1.0 && number.fract() == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: Value, want: Option<Value>) {
        assert_eq!(node(&value), want, "{value}");
    }

    #[test]
    fn nodes() {
        check(json!("x"), Some(build::text("x")));
        check(json!(1.5), Some(build::text("1.5")));
        check(json!(true), Some(build::text("true")));
        check(json!(null), None);
        check(json!([]), None);
        check(json!({"type": "text", "text": "a"}), Some(build::text("a")));
        check(json!({"type": "text", "text": "a", "value": "a"}), Some(build::text("a")));
        check(json!({"type": "text", "text": "a", "value": "b"}), None);
        check(json!({"type": "text", "value": "b", "id": "x"}), None);
        check(json!({"type": "p", "text": "a"}), None);
        check(json!({"type": "P"}), None);
        check(json!({"type": " "}), None);
        check(
            json!({"type": "p", "tag": "P"}),
            Some(json!({"type": "element", "tag": "p", "children": []})),
        );
        check(json!({"type": "p", "tag": "div"}), None);
        check(json!({"type": "p", "children": [null]}), None);
        check(json!({"type": "p", "children": [], "nodes": []}), None);
        check(json!({"type": "p", "what": 1}), None);
        check(
            json!({"type": "p", "class": "a", "props": {"class": "b"}}),
            Some(json!({"type": "element", "tag": "p", "children": [], "props": {"class": "b"}})),
        );
        check(
            json!({"type": "component", "module": " m ", "title": "t"}),
            Some(json!({"type": "component", "module": "m", "exportName": "default",
                "children": [], "props": {"title": "t"}})),
        );
    }

    #[test]
    fn deep_values_are_an_answer_not_a_crash() {
        let mut value = json!("x");
        for _ in 0..100 {
            value = json!({"type": "p", "nodes": [value]});
        }
        assert!(node(&value).is_some());
    }

    #[test]
    fn plans() {
        for (value, want) in [
            (json!({"id": "a", "version": 1, "root": {"type": "p"}}), true),
            (json!({"id": "a", "root": {"type": "p"}}), false),
            (json!({"id": "a", "root": {"type": "text", "value": "x"}}), true),
            (json!({"root": {"type": "p"}}), false),
            (json!({"specVersion": "runtime-plan/v1", "root": {"type": "p"}}), true),
            (
                json!({"specVersion": "runtime-plan/v1", "root": {"type": "p"}, "imports": [1]}),
                false,
            ),
            (
                json!({"version": "runtime-plan/v1", "specVersion": "x", "root": {"type": "p"}}),
                false,
            ),
            (json!({"id": "", "version": 1, "root": {"type": "p"}}), false),
            (json!({"id": "a", "version": 0, "capabilities": {}, "root": {"type": "p"}}), false),
            (
                json!({"id": "a", "version": 1, "root": {"type": "p", "children": ["{{1+1}}"]}}),
                false,
            ),
        ] {
            assert_eq!(plan(&value, Some("f")).is_some(), want, "{value}");
        }
    }
}
