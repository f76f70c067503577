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

/// A text of JSON in which half a sign (`\\ud83d` without its other half) is the sign for what cannot be read: a cut of a text
/// may leave one, and no reader of JSON here takes it.
pub(crate) fn whole(json: String) -> String {
    if !json.contains("\\ud") {
        return json;
    }
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(json.len());
    let mut at = 0;
    while let Some(sign) = json[at..].chars().next() {
        let mut len = sign.len_utf8();
        if sign == '\\' {
            let high = unit(at).filter(|unit| (0xd800..0xdc00).contains(unit));
            let low = unit(at + 6).filter(|unit| (0xdc00..0xe000).contains(unit));
            let is_half = unit(at).is_some_and(|unit| (0xd800..0xe000).contains(&unit));
            // An escape is passed over whole: what follows a backslash begins nothing.
            len = match (high, low) {
                (Some(_), Some(_)) => 12,
                _ if unit(at).is_some() => 6,
                _ => 2,
            };
            if is_half && len == 6 {
                out.push('\u{fffd}');
                at += len;
                continue;
            }
        }
        let end = (at + len).min(json.len());
        out.push_str(&json[at..end]);
        at = end;
    }
    out
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
