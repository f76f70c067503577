//! An independent model of writes that keep arrays: small, slow, and only here.

use serde_json::{Map, Value, json};

/// Writes as the product does: arrays keep their elements; `None` where there is no such element.
pub(crate) fn set(target: &Value, path: &str, value: &Value) -> Option<Value> {
    let segments: Vec<&str> =
        path.split('.').map(str::trim).filter(|segment| !segment.is_empty()).collect();
    write(target, &segments, value)
}

fn write(target: &Value, segments: &[&str], value: &Value) -> Option<Value> {
    let Some((first, rest)) = segments.split_first() else { return Some(value.clone()) };
    if let Value::Array(items) = target {
        let index: usize =
            first.parse().ok().filter(|index: &usize| index.to_string() == *first)?;
        let mut items = items.clone();
        if index == items.len() {
            items.push(Value::Null);
        }
        let element = items.get(index)?;
        items[index] = write(element, rest, value)?;
        return Some(Value::Array(items));
    }
    let mut members = target.as_object().cloned().unwrap_or_default();
    let inner = members.get(*first).cloned().unwrap_or(Value::Null);
    members.insert((*first).to_owned(), write(&inner, rest, value)?);
    Some(Value::Object(members))
}

fn get(source: &Value, path: &str) -> Value {
    let mut place = source;
    for segment in path.split('.').map(str::trim).filter(|segment| !segment.is_empty()) {
        place = match place {
            Value::Object(members) => members.get(segment).unwrap_or(&Value::Null),
            Value::Array(items) => {
                let index = segment.parse::<usize>().ok();
                index.and_then(|index| items.get(index)).unwrap_or(&Value::Null)
            }
            _ => &Value::Null,
        };
    }
    place.clone()
}

/// The state after actions whose values are resolved already.
pub(crate) fn replay(state: &Value, applied: &[Value]) -> Option<Value> {
    let mut state = state.clone();
    if !state.is_object() {
        state = Value::Object(Map::new());
    }
    for action in applied {
        let path = action["path"].as_str()?;
        let now = get(&state, path);
        let next = match action["type"].as_str()? {
            "set" => action["value"].clone(),
            "push" => {
                let mut items = now.as_array().cloned().unwrap_or_default();
                items.push(action["value"].clone());
                Value::Array(items)
            }
            "increment" => super::canonical(now.as_f64().unwrap_or(0.0) + action["by"].as_f64()?),
            _ => json!(matches!(now, Value::Null | Value::Bool(false)) || now == "" || now == 0),
        };
        state = set(&state, path, &next)?;
    }
    Some(state)
}
