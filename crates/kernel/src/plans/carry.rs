//! What goes over from the state of one version to the state of another.

use glasshouse_plan::state::{State, StateLimits, value_bytes};
use serde::Serialize;
use serde_json::{Map, Value};

/// Most paths that are named; the rest goes over, or not, without a name.
const MAX_PATHS: usize = 500;

/// What came over, and what had no place. Paths are JSON Pointers into the state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// Values that were entered and are in the new state.
    pub kept: Vec<String>,
    /// Values that were entered and have no place in the new state.
    pub dropped: Vec<String>,
}

/// Puts into `to` every value of `from` that is not as `initial` was: what a person entered. A value
/// has a place where `to` has one of the same kind at the same path, and where the state stays within
/// what a state may hold.
pub(super) fn carry(from: &State, initial: &Map<String, Value>, to: &mut State) -> Carried {
    let room = StateLimits::default().bytes.saturating_sub(to.bytes());
    let mut over = Over { room, carried: Carried::default() };
    for (key, value) in &from.values {
        let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        over.value(&path, value, initial.get(key), to.values.get_mut(key));
    }
    over.carried
}

/// What is going over.
struct Over {
    /// Bytes by which the state may still grow.
    room: usize,
    carried: Carried,
}

impl Over {
    /// Calls itself once a level; a state has at most 32.
    fn value(
        &mut self,
        path: &str,
        value: &Value,
        initial: Option<&Value>,
        place: Option<&mut Value>,
    ) {
        if initial == Some(value) {
            return;
        }
        match (value, place) {
            (Value::Object(members), Some(Value::Object(places))) => {
                for (key, value) in members {
                    let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                    let initial = initial.and_then(|initial| initial.get(key));
                    self.value(&path, value, initial, places.get_mut(key));
                }
            }
            (value, Some(place)) if same_kind(value, place) && self.fits(value, place) => {
                value.clone_into(place);
                name(&mut self.carried.kept, path);
            }
            _ => name(&mut self.carried.dropped, path),
        }
    }

    /// Whether a value may take a place; then its room is taken.
    fn fits(&mut self, value: &Value, place: &Value) -> bool {
        let left = (self.room + value_bytes(place)).checked_sub(value_bytes(value));
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }
}

fn name(paths: &mut Vec<String>, path: &str) {
    if paths.len() < MAX_PATHS {
        paths.push(path.to_owned());
    }
}

/// Nothing yet (`null`) takes any value that is no container.
fn same_kind(value: &Value, place: &Value) -> bool {
    matches!(
        (value, place),
        (Value::Bool(_), Value::Bool(_))
            | (Value::Number(_), Value::Number(_))
            | (Value::String(_), Value::String(_))
            | (Value::Array(_), Value::Array(_))
            | (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), Value::Null)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(values: Value) -> State {
        let Value::Object(values) = values else { panic!("a state is an object") };
        State { plan_id: "p".into(), plan_version: 1, revision: 0, values }
    }

    fn check(from: Value, initial: Value, to: Value, want: Value, kept: &[&str], dropped: &[&str]) {
        let mut to = state(to);
        let carried = carry(&state(from), initial.as_object().unwrap(), &mut to);
        assert_eq!(Value::Object(to.values), want);
        assert_eq!(
            (carried.kept, carried.dropped),
            (
                kept.iter().map(|path| (*path).to_owned()).collect(),
                dropped.iter().map(|path| (*path).to_owned()).collect(),
            )
        );
    }

    #[test]
    fn what_was_entered_goes_over_where_there_is_a_place() {
        check(
            json!({"name": "Ada", "age": 3, "mail": "a@b", "n": 1}),
            json!({"name": "", "age": 0, "mail": "", "n": 1}),
            json!({"name": "", "age": "", "city": "", "n": 7}),
            json!({"name": "Ada", "age": "", "city": "", "n": 7}),
            &["/name"],
            &["/age", "/mail"],
        );
        check(
            json!({"form": {"a/b": "x", "gone": {"deep": 1}}, "list": [1, 2]}),
            json!({"form": {"a/b": "", "gone": {"deep": 0}}, "list": []}),
            json!({"form": {"a/b": "", "new": 1}, "list": [9]}),
            json!({"form": {"a/b": "x", "new": 1}, "list": [1, 2]}),
            &["/form/a~1b", "/list"],
            &["/form/gone"],
        );
        check(json!({"a": "x"}), json!({}), json!({"a": null}), json!({"a": "x"}), &["/a"], &[]);
        // The failure: two versions filled one after the other made a state that no event accepted.
        // Now: what the state has no room for is named among what did not go over.
        let (large, small) = ("x".repeat(600_000), "y".repeat(10));
        check(
            json!({"a": large, "b": small}),
            json!({"a": "", "b": ""}),
            json!({"a": "", "b": "", "c": large}),
            json!({"a": "", "b": small, "c": large}),
            &["/b"],
            &["/a"],
        );
    }
}
