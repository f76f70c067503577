//! What code made, as one node of a plan.

use serde_json::{Value, json};

/// Makes one node of what code answered: a node is one, a text or a number is a text node, a list
/// is an element around its nodes. Whether the node may be shown is not decided here.
pub(crate) fn node(made: Value) -> Result<Value, String> {
    match made {
        Value::String(text) => Ok(text_node(&text)),
        Value::Number(number) => Ok(text_node(&number.to_string())),
        Value::Object(node) if node.contains_key("type") => Ok(Value::Object(node)),
        Value::Array(parts) => fragment(parts),
        Value::Object(_) => Err("an object without a `type` is no node".to_owned()),
        Value::Null => Err("nothing came back".to_owned()),
        Value::Bool(_) => Err("a truth value is no node".to_owned()),
    }
}

/// One node around several; one alone stays alone.
pub(crate) fn fragment(mut parts: Vec<Value>) -> Result<Value, String> {
    parts.retain(|part| !matches!(part, Value::Null | Value::Bool(_)));
    if parts.len() == 1 {
        return node(parts.remove(0));
    }
    let children: Vec<Value> = parts.into_iter().map(node).collect::<Result<_, _>>()?;
    let props = json!({"data-renderify-fragment": ""});
    Ok(json!({"type": "element", "tag": "div", "props": props, "children": children}))
}

fn text_node(text: &str) -> Value {
    json!({"type": "text", "value": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_a_node_or_nothing() {
        let text = |value: &str| json!({"type": "text", "value": value});
        let around = |children: Vec<Value>| {
            json!({"type": "element", "tag": "div", "props": {"data-renderify-fragment": ""},
                "children": children})
        };
        for (made, want) in [
            (json!("a"), Some(text("a"))),
            (json!(1.5), Some(text("1.5"))),
            (json!({"type": "x"}), Some(json!({"type": "x"}))),
            (json!(["a", null, true, 2]), Some(around(vec![text("a"), text("2")]))),
            (json!(["a"]), Some(text("a"))),
            (json!([]), Some(around(vec![]))),
            (
                json!([["a", "b"], "c"]),
                Some(around(vec![around(vec![text("a"), text("b")]), text("c")])),
            ),
            (json!({}), None),
            (json!(null), None),
            (json!(true), None),
            (json!(["a", {}]), None),
        ] {
            assert_eq!(node(made.clone()).ok(), want, "{made}");
        }
    }
}
