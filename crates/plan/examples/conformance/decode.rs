//! Reading cases: a list of them, and the values that JSON cannot write.

use serde_json::{Map, Value};

/// The texts of the elements of a JSON array. Each is read on its own later, so that one that
/// cannot be read is one failed case.
pub(crate) fn elements(text: &str) -> Result<Vec<&str>, String> {
    let text = text.trim();
    let inside = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or("the file holds no list of cases")?;
    let mut found = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(inside[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(inside[start..].trim());
    found.retain(|text| !text.is_empty());
    Ok(found)
}

/// How a case writes that there is no value.
pub(crate) fn undefined() -> Value {
    serde_json::json!({"$undefined": true})
}

fn is_undefined(value: &Value) -> bool {
    value.get("$undefined") == Some(&Value::Bool(true))
}

/// A value of a case as JSON: absent members are left out. `None` when it holds something JSON
/// cannot, such as an infinite number or a missing element.
pub(crate) fn json(value: &Value) -> Option<Value> {
    plain(value, false)
}

/// Members whose content is free data, where a member without a value is a flaw.
const DATA: [&str; 4] = ["props", "initial", "payload", "value"];

fn plain(value: &Value, data: bool) -> Option<Value> {
    match value {
        Value::Array(items) => items.iter().map(|item| plain(item, data)).collect(),
        Value::Object(members) if members.contains_key("$number") => {
            let text = members["$number"].as_str()?;
            let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
            Some(number.into())
        }
        Value::Object(_) if is_undefined(value) => None,
        Value::Object(members) => {
            let mut kept = Map::new();
            for (key, member) in members {
                if is_undefined(member) && !data {
                    continue;
                }
                let inside = data || DATA.contains(&key.as_str());
                kept.insert(key.clone(), plain(member, inside)?);
            }
            Some(Value::Object(kept))
        }
        other => Some(other.clone()),
    }
}
