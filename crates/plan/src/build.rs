//! Nodes made in code, as the JSON that a plan is written in.

use serde_json::{Map, Value};

/// A text node.
///
/// ```
/// use glasshouse_plan::{build, guard, json::Document};
/// let card = build::element("p", None, vec![build::text("Hello")]);
/// let document = Document::parse(&card.to_string(), &Default::default())?;
/// assert!(guard::node(document.root()).is_ok());
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[must_use]
pub fn text(value: &str) -> Value {
    let mut node = Map::new();
    node.insert("type".to_owned(), "text".into());
    node.insert("value".to_owned(), value.into());
    Value::Object(node)
}

/// An element node; `children` is left out where it is empty.
#[must_use]
pub fn element(tag: &str, props: Option<Map<String, Value>>, children: Vec<Value>) -> Value {
    let mut node = Map::new();
    node.insert("type".to_owned(), "element".into());
    node.insert("tag".to_owned(), tag.into());
    finish(node, props, children)
}

/// A component node; without a name, the default export is meant.
#[must_use]
pub fn component(
    module: &str,
    export: Option<&str>,
    props: Option<Map<String, Value>>,
    children: Vec<Value>,
) -> Value {
    let mut node = Map::new();
    node.insert("type".to_owned(), "component".into());
    node.insert("module".to_owned(), module.into());
    node.insert("exportName".to_owned(), export.unwrap_or("default").into());
    finish(node, props, children)
}

fn finish(
    mut node: Map<String, Value>,
    props: Option<Map<String, Value>>,
    children: Vec<Value>,
) -> Value {
    if let Some(props) = props {
        node.insert("props".to_owned(), Value::Object(props));
    }
    if !children.is_empty() {
        node.insert("children".to_owned(), Value::Array(children));
    }
    Value::Object(node)
}
