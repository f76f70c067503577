//! Arguments that arrive path by path.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Most steps in one path, and most elements that a path may add to a list at once: a path names the
/// next element, not one far away.
const MAX_STEPS: usize = 64;

/// One piece: a value, or more of one, at a path.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Piece {
    json_path: String,
    #[serde(default)]
    string_value: Option<String>,
    #[serde(default)]
    number_value: Option<Value>,
    #[serde(default)]
    bool_value: Option<bool>,
}

enum Step {
    Member(String),
    Element(usize),
}

/// Puts a piece where it belongs; text at a path that has text already goes on with it.
///
/// # Errors
/// Why it cannot be put there.
pub(super) fn put(arguments: &mut Value, piece: Piece) -> Result<(), String> {
    let steps = steps(&piece.json_path)?;
    let mut place = arguments;
    for step in steps {
        place = match step {
            Step::Member(name) => {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                let members = place.as_object_mut();
                members.ok_or("a path goes through a value")?.entry(name).or_insert(Value::Null)
            }
            Step::Element(number) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let items = place.as_array_mut().ok_or("a path goes through a value")?;
                if number == items.len() {
                    items.push(Value::Null);
                }
                items.get_mut(number).ok_or("a path leaves elements out")?
            }
        };
    }
    match (place, piece) {
        (Value::String(text), Piece { string_value: Some(more), .. }) => text.push_str(&more),
        (place @ Value::Null, Piece { string_value: Some(text), .. }) => *place = text.into(),
        (place @ Value::Null, Piece { number_value: Some(number), .. }) if number.is_number() => {
            *place = number;
        }
        (place @ Value::Null, Piece { bool_value: Some(value), .. }) => *place = value.into(),
        (Value::Null, _) => {}
        _ => return Err("a value is given twice".to_owned()),
    }
    Ok(())
}

/// Reads `$.a.b[0]['c']`.
fn steps(path: &str) -> Result<Vec<Step>, String> {
    let refuse = || format!("unreadable path `{path}`");
    let mut rest = path.strip_prefix('$').ok_or_else(refuse)?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_STEPS {
            return Err(refuse());
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            if name.is_empty() {
                return Err(refuse());
            }
            steps.push(Step::Member(name.to_owned()));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let quote = after.chars().next().filter(|c| matches!(c, '\'' | '"'));
            let (inside, after) = match quote {
                Some(quote) => after[1..].split_once(&format!("{quote}]")),
                None => after.split_once(']'),
            }
            .ok_or_else(refuse)?;
            steps.push(match quote {
                Some(_) => Step::Member(inside.to_owned()),
                None => Step::Element(inside.parse().map_err(|_| refuse())?),
            });
            rest = after;
        } else {
            return Err(refuse());
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_add_up() {
        let check = |pieces: &[Value], expected: Result<Value, &str>| {
            let mut arguments = json!({});
            let put_all = pieces.iter().try_for_each(|piece| {
                put(&mut arguments, serde_json::from_value(piece.clone()).unwrap())
            });
            match expected {
                Ok(expected) => assert_eq!((put_all, arguments), (Ok(()), expected), "{pieces:?}"),
                Err(words) => assert!(put_all.unwrap_err().contains(words), "{pieces:?}"),
            }
        };
        check(&[], Ok(json!({})));
        check(
            &[
                json!({"jsonPath": "$.path", "stringValue": "src/", "willContinue": true}),
                json!({"jsonPath": "$.path", "stringValue": "a.rs"}),
                json!({"jsonPath": "$.line", "numberValue": 7}),
                json!({"jsonPath": "$.all", "boolValue": false}),
                json!({"jsonPath": "$.none", "nullValue": null}),
            ],
            Ok(json!({"path": "src/a.rs", "line": 7, "all": false, "none": null})),
        );
        check(
            &[
                json!({"jsonPath": "$.edits[0].old", "stringValue": "a"}),
                json!({"jsonPath": "$.edits[1]['new']", "stringValue": "b"}),
            ],
            Ok(json!({"edits": [{"old": "a"}, {"new": "b"}]})),
        );
        check(&[json!({"jsonPath": "$.a[1]", "stringValue": "x"})], Err("leaves elements out"));
        check(&[json!({"jsonPath": "$.a[9999999999]", "stringValue": ""})], Err("leaves elements"));
        check(&[json!({"jsonPath": "a", "stringValue": "x"})], Err("unreadable path"));
        check(&[json!({"jsonPath": "$..a", "stringValue": "x"})], Err("unreadable path"));
        check(&[json!({"jsonPath": "$[0", "stringValue": "x"})], Err("unreadable path"));
        check(&[json!({"jsonPath": "$[0]", "stringValue": "x"})], Err("through a value"));
        let deep = format!("${}", ".a".repeat(65));
        check(&[json!({"jsonPath": deep, "stringValue": "x"})], Err("unreadable path"));
        let twice = json!({"jsonPath": "$.n", "numberValue": 1});
        check(&[twice.clone(), twice], Err("given twice"));
    }
}
