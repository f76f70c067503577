//! From a model's answer to a plan.
//!
//! An answer is prose with a plan somewhere in it: in a fence, between sentences, as one node, or as
//! source code in a fence that says so. What is found first in that order is taken; an answer that
//! holds none of it is shown as text. Nothing is run, and no broken JSON is mended.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::build;
use crate::guard;
use crate::json::Document;
use crate::limits::Limits;
use crate::module::{self, Resolver};
use crate::normalise::{self, holds};
use crate::plan::SPEC_VERSION;
use crate::source;

mod fence;

/// Names by which a root stands for the plan's own source.
const SOURCE_NAMES: [&str; 6] = ["main", "app", "root", "default", "source", "this-plan-source"];
/// Who is named as the origin of manifest entries that are filled in here.
const SIGNER: &str = "glasshouse-intake";

/// What a plan was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A plan.
    Plan,
    /// One node.
    Node,
    /// Source code in a fence.
    Source,
    /// Nothing of that kind: the answer is shown as text.
    Text,
}

/// A plan made of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Intake {
    /// The plan, not yet judged by a profile.
    pub plan: Value,
    /// What it was made of.
    pub kind: Kind,
}

/// Makes a plan of a model's answer. `id` names a plan that has no id of its own.
///
/// ```
/// use glasshouse_plan::intake::{Kind, read};
/// let answer = "Here it is:\n```json\n{\"type\":\"p\",\"children\":[\"Hi\"]}\n```";
/// let intake = read("Greet me", answer, "p1");
/// assert_eq!(intake.kind, Kind::Node);
/// assert_eq!(intake.plan["root"]["tag"], "p");
/// assert_eq!(read("Greet me", "Hello!", "p1").kind, Kind::Text);
/// ```
#[must_use]
pub fn read(prompt: &str, answer: &str, id: &str) -> Intake {
    let parts = |root: Value| Parts { prompt, id, root, given: Map::new(), source: None };
    if let Some(plan) = find(answer, &|value| plan_of(value, prompt, id)) {
        return Intake { plan, kind: Kind::Plan };
    }
    if let Some(source) = fence::source(answer) {
        let language = source["language"].as_str().unwrap_or_default().to_owned();
        let runtime = source["runtime"].as_str().unwrap_or_default().to_owned();
        let mut parts = parts(prepared_root(prompt, &language));
        let tags = json!(["source-module", language, format!("runtime:{runtime}")]);
        parts.given.insert("metadata".to_owned(), json!({"tags": tags}));
        parts.source = Some(source);
        return Intake { plan: parts.plan(), kind: Kind::Source };
    }
    if let Some(root) = find(answer, &|value| normalise::node(value)) {
        return Intake { plan: parts(root).plan(), kind: Kind::Node };
    }
    Intake { plan: parts(text_root(prompt, answer)).plan(), kind: Kind::Text }
}

/// The first JSON in an answer of which something can be made.
fn find(answer: &str, make: &dyn Fn(&Value) -> Option<Value>) -> Option<Value> {
    let mut seen = BTreeSet::new();
    for candidate in fence::candidates(answer) {
        let whole = std::iter::once(candidate).filter(|text| text.starts_with(['{', '[']));
        for text in whole.chain(fence::regions(candidate)) {
            if !seen.insert(text) {
                continue;
            }
            let Ok(document) = Document::parse(text, &Limits::default()) else { continue };
            if let Some(made) = make(&document.root().to_value()) {
                return Some(made);
            }
        }
    }
    None
}

fn plan_of(value: &Value, prompt: &str, id: &str) -> Option<Value> {
    let members = value.as_object()?;
    let source = members.get("source").filter(|source| holds(source, guard::source));
    let candidate = match (normalise::plan(value, Some(id)), source) {
        (Some(plan), _) => plan,
        (None, Some(source)) => around_source(members, source, prompt, id)?,
        (None, None) => return None,
    };
    let mut given = candidate.as_object()?.clone();
    let root = given.remove("root")?;
    let source = given.remove("source").map(|source| fence::ready(&source));
    let own = source.as_ref().filter(|_| names_source(&root));
    let language = own.and_then(|source| source["language"].as_str());
    let root = language.map_or(root.clone(), |language| prepared_root(prompt, language));
    Some(Parts { prompt, id, root, given, source }.plan())
}

/// A plan whose root is missing, or is a component without a module, because its source is meant.
fn around_source(
    members: &Map<String, Value>,
    source: &Value,
    prompt: &str,
    id: &str,
) -> Option<Value> {
    let language = source["language"].as_str()?;
    let own_root = members.get("root").is_none_or(|root| {
        root["type"] == "component" && root.get("module").is_none() && root.is_object()
    });
    if !own_root {
        return None;
    }
    let mut candidate = members.clone();
    candidate.insert("root".to_owned(), prepared_root(prompt, language));
    candidate.entry("version").or_insert(1.into());
    normalise::plan(&Value::Object(candidate), Some(id))
}

fn names_source(root: &Value) -> bool {
    let module = root["module"].as_str().unwrap_or_default().trim().to_ascii_lowercase();
    root["type"] == "component"
        && (module::is_own_source(&module) || SOURCE_NAMES.contains(&module.as_str()))
}

fn text_root(prompt: &str, answer: &str) -> Value {
    let or = |text: &str, other: &str| {
        let text = text.trim();
        build::text(if text.is_empty() { other } else { text })
    };
    let children = vec![
        build::element("h1", None, vec![or(prompt, "Untitled")]),
        build::element("p", None, vec![or(answer, "The answer is empty")]),
    ];
    section("glasshouse-answer", children)
}

/// What is shown where source is not run.
fn prepared_root(prompt: &str, language: &str) -> Value {
    let text = format!("Source code ({language}) is ready to run");
    let children = vec![
        build::element("h2", None, vec![build::text(prompt)]),
        build::element("p", None, vec![build::text(&text)]),
    ];
    section("glasshouse-source", children)
}

fn section(class: &str, children: Vec<Value>) -> Value {
    let props = Map::from_iter([("class".to_owned(), class.into())]);
    build::element("section", Some(props), children)
}

/// What a plan is put together from.
struct Parts<'v> {
    prompt: &'v str,
    id: &'v str,
    root: Value,
    /// Members that the answer gave.
    given: Map<String, Value>,
    source: Option<Value>,
}

impl Parts<'_> {
    fn plan(mut self) -> Value {
        let asked = self.given.remove("capabilities").unwrap_or_else(|| json!({}));
        let requested = self.usable(texts(&asked["allowedModules"]));
        let imports = self.imports(&requested);
        let manifest = self.manifest(&imports);
        let mut capabilities = json!({"domWrite": true});
        for (key, value) in asked.as_object().into_iter().flatten() {
            capabilities[key] = value.clone();
        }
        capabilities["allowedModules"] = json!(imports);
        let mut metadata = self.given.remove("metadata").unwrap_or_else(|| json!({}));
        if !self.prompt.trim().is_empty() {
            metadata["sourcePrompt"] = self.prompt.trim().into();
        }
        let mut plan = self.given;
        plan.entry("specVersion").or_insert_with(|| SPEC_VERSION.into());
        plan.entry("id").or_insert_with(|| self.id.into());
        plan.entry("version").or_insert_with(|| 1.into());
        plan.insert("root".to_owned(), self.root);
        plan.insert("imports".to_owned(), json!(imports));
        plan.insert("capabilities".to_owned(), capabilities);
        plan.insert("metadata".to_owned(), metadata);
        plan.remove("moduleManifest");
        if !manifest.is_empty() {
            plan.insert("moduleManifest".to_owned(), Value::Object(manifest));
        }
        if let Some(source) = self.source {
            plan.insert("source".to_owned(), source);
        }
        Value::Object(plan)
    }

    /// Every module of the plan once: named, pinned, imported by source, used by a component.
    fn imports(&self, requested: &[String]) -> Vec<String> {
        let given = |key: &str| self.given.get(key);
        let mut all = self.usable(given("imports").map(texts).unwrap_or_default());
        let pinned = given("moduleManifest").and_then(Value::as_object);
        all.extend(self.usable(pinned.into_iter().flat_map(Map::keys).cloned().collect()));
        if let Some(source) = &self.source {
            let text = |key: &str| source[key].as_str().unwrap_or_default();
            all.extend(source::scan(text("code"), text("language")).imports);
        }
        all.extend(component_modules(&self.root));
        all.extend(requested.iter().cloned());
        let mut seen = BTreeSet::new();
        all.retain(|name| seen.insert(name.clone()));
        all
    }

    /// Names without those of the plan's own source and without wildcards.
    fn usable(&self, names: Vec<String>) -> Vec<String> {
        let own = |name: &str| {
            self.source.is_some()
                && (module::is_own_source(name)
                    || SOURCE_NAMES.contains(&name.to_lowercase().as_str()))
        };
        let trimmed = names.into_iter().map(|name| name.trim().to_owned());
        trimmed.filter(|name| !name.is_empty() && !name.contains('*') && !own(name)).collect()
    }

    /// The manifest that was given, with the place of every other import that has one.
    fn manifest(&self, imports: &[String]) -> Map<String, Value> {
        let mut manifest = Map::new();
        let resolver = Resolver::default();
        for name in imports {
            let local = name.starts_with(['/', '.']);
            let place = if local { Ok(name.clone()) } else { resolver.resolve(name) };
            let Ok(place) = place else { continue };
            let mut entry = json!({"resolvedUrl": place, "signer": SIGNER});
            let version = name.strip_prefix("npm:").and_then(|name| name.rsplit_once('@'));
            if let Some((package, version)) = version
                && !package.is_empty()
                && !version.is_empty()
                && !version.contains('/')
            {
                entry["version"] = version.into();
            }
            manifest.insert(name.clone(), entry);
        }
        let given = self.given.get("moduleManifest").and_then(Value::as_object);
        for (name, entry) in given.into_iter().flatten() {
            if manifest.contains_key(name.trim()) {
                manifest.insert(name.trim().to_owned(), entry.clone());
            }
        }
        manifest
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn component_modules(root: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        if node["type"] == "component"
            && let Some(module) = node["module"].as_str()
        {
            found.push(module.to_owned());
        }
        open.extend(node["children"].as_array().into_iter().flatten().rev());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_all_kinds() {
        let plan = r#"{"specVersion":"runtime-plan/v1","id":"p","version":4,"root":{"type":"text","value":"x"}}"#;
        for (answer, kind) in [
            (plan.to_owned(), Kind::Plan),
            (format!("Sure {{not json}} then {plan} done"), Kind::Plan),
            (format!("```json\n{plan}\n```"), Kind::Plan),
            (format!("```\n{plan}\n```"), Kind::Plan),
            (r#"{"type":"h1","children":["x"]}"#.to_owned(), Kind::Node),
            ("```tsx\nexport default () => <b/>\n```".to_owned(), Kind::Source),
            ("```\nexport default 1\n```".to_owned(), Kind::Text),
            ("words".to_owned(), Kind::Text),
            (String::new(), Kind::Text),
            (plan[..plan.len() - 1].to_owned(), Kind::Text),
            (plan.replace("\"x\"", "\"x\","), Kind::Text),
        ] {
            assert_eq!(read("p", &answer, "f").kind, kind, "{answer}");
        }
    }

    #[test]
    fn a_plan_of_an_answer_passes_the_guards() {
        for answer in [
            "words",
            "{\"type\":\"component\",\"module\":\"npm:acme-chart@2.0.0\"}",
            "```tsx\nimport {useState} from 'react';\nexport function App() { return <b/>; }\n```",
            "{\"id\":\"a\",\"source\":{\"code\":\"export default 1\",\"language\":\"js\"}}",
        ] {
            let plan = read("p", answer, "f").plan;
            assert!(holds(&plan, guard::plan), "{plan}");
        }
    }

    #[test]
    fn modules_are_collected_and_pinned() {
        let answer = r#"{"type":"component","module":"npm:acme-chart@2.0.0","children":[
            {"type":"component","module":"react"},{"type":"component","module":"fs"}]}"#;
        let plan = read("p", answer, "f").plan;
        assert_eq!(plan["imports"], json!(["npm:acme-chart@2.0.0", "react", "fs"]));
        let manifest = &plan["moduleManifest"];
        assert_eq!(manifest["npm:acme-chart@2.0.0"]["version"], "2.0.0");
        assert_eq!(manifest["react"]["resolvedUrl"], module::alias("react").unwrap());
        assert_eq!(manifest.get("fs"), None);
    }
}
