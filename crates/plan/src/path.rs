//! Dotted paths into plain data: `user.name`, `items.0.done`.
//!
//! Paths read own members only. The three names by which a script could reach a prototype are
//! refused here although this language has none: the same plan runs in browsers.

use serde_json::{Map, Value};

use crate::codes;
use crate::error::Error;

/// Most elements that a written path may give an array through [`set`].
const MAX_ITEMS: usize = 10_000;
/// Segments that reach a prototype in a script.
const UNSAFE_SEGMENTS: [&str; 3] = ["__proto__", "prototype", "constructor"];

/// The segments of a path: split at dots, trimmed, blank ones dropped.
///
/// ```
/// let segments: Vec<&str> = glasshouse_plan::path::split(" a . . b.. c ").collect();
/// assert_eq!(segments, ["a", "b", "c"]);
/// ```
pub fn split(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').map(str::trim).filter(|segment| !segment.is_empty())
}

/// Whether a path has a segment and none of them reaches a prototype.
///
/// Percent and JSON Pointer escapes are decoded before the comparison, so that no later reader
/// which decodes them finds what was refused here.
#[must_use]
pub fn is_safe(path: &str) -> bool {
    let mut any = false;
    for segment in split(path) {
        any = true;
        if reaches_prototype(segment) {
            return false;
        }
    }
    any
}

/// Whether one segment, as it is or behind escapes, is a name by which a script reaches a prototype.
pub(crate) fn reaches_prototype(segment: &str) -> bool {
    let escaped = segment.contains(['%', '~']);
    UNSAFE_SEGMENTS.contains(&segment.trim())
        || (escaped && UNSAFE_SEGMENTS.contains(&decode(segment).trim()))
}

/// Undoes percent escapes and `~0`, `~1`, twice, as a chain of two careless decoders would.
fn decode(segment: &str) -> String {
    let mut text = segment.to_owned();
    for _ in 0..2 {
        let mut out = Vec::with_capacity(text.len());
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let escaped = match byte {
                b'%' => text
                    .get(at + 1..at + 3)
                    .and_then(|hex| u8::from_str_radix(hex, 16).ok())
                    .map(|value| (value, 3)),
                b'~' if bytes.get(at + 1) == Some(&b'0') => Some((b'~', 2)),
                b'~' if bytes.get(at + 1) == Some(&b'1') => Some((b'/', 2)),
                _ => None,
            };
            let (value, width) = escaped.unwrap_or((byte, 1));
            out.push(value);
            at += width;
        }
        text = String::from_utf8_lossy(&out).into_owned();
    }
    text
}

/// Whether a text is a path that a template may name: safe, ASCII, each segment an identifier or
/// an index.
#[must_use]
pub fn is_template_path(path: &str) -> bool {
    let path = path.trim();
    let segment = |segment: &str| {
        let bytes = segment.as_bytes();
        match bytes.first() {
            Some(b'0'..=b'9') => bytes.iter().all(u8::is_ascii_digit),
            Some(b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$') => bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-')),
            _ => false,
        }
    };
    path.split('.').all(segment) && is_safe(path)
}

/// An array index: digits only, without leading zeros.
pub(crate) fn index(segment: &str) -> Option<usize> {
    let canonical = segment == "0" || !segment.starts_with('0');
    let digits = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    if digits && canonical { segment.parse().ok() } else { None }
}

/// What a path found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found<'a> {
    /// A value inside the source.
    Value(&'a Value),
    /// The length of an array.
    Length(usize),
}

impl Found<'_> {
    /// A copy of what was found.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Length(length) => Value::from(length),
        }
    }
}

/// Reads a path; `None` when it is unsafe or leads nowhere.
#[must_use]
pub fn get<'a>(source: &'a Map<String, Value>, path: &str) -> Option<Found<'a>> {
    if !is_safe(path) {
        return None;
    }
    let mut segments = split(path);
    follow(source.get(segments.next()?)?, segments)
}

/// Reads a path inside any value; see [`get`].
#[must_use]
pub fn get_in<'a>(source: &'a Value, path: &str) -> Option<Found<'a>> {
    if is_safe(path) { follow(source, split(path)) } else { None }
}

fn follow<'a, 'p>(source: &'a Value, segments: impl Iterator<Item = &'p str>) -> Option<Found<'a>> {
    let mut found = Found::Value(source);
    for segment in segments {
        found = match found {
            Found::Value(Value::Object(map)) => Found::Value(map.get(segment)?),
            Found::Value(Value::Array(items)) if segment == "length" => Found::Length(items.len()),
            Found::Value(Value::Array(items)) => Found::Value(items.get(index(segment)?)?),
            _ => return None,
        };
    }
    Some(found)
}

/// Writes a value at a path. Objects are made for missing members and replace scalars; arrays keep
/// their elements and grow only at their end.
///
/// # Errors
///
/// `plan_path_unsafe` for a path that [`is_safe`] refuses, `plan_state_path_invalid` for a segment
/// that names no element of an array; then nothing has changed.
///
/// ```
/// let mut state = serde_json::Map::new();
/// glasshouse_plan::path::set(&mut state, "user.name", "Ada".into())?;
/// assert_eq!(state["user"]["name"], "Ada");
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
pub fn set(target: &mut Map<String, Value>, path: &str, value: Value) -> Result<(), Error> {
    if !is_safe(path) {
        return Err(unsafe_write(path));
    }
    *slot(target, path, MAX_ITEMS)? = value;
    Ok(())
}

pub(crate) fn unsafe_write(path: &str) -> Error {
    let path: String = path.chars().take(128).collect();
    Error::new(codes::PATH_UNSAFE, "a write goes to an unsafe path").why(format!("{path:?}"))
}

/// The place a safe path names, made where it is missing; see [`set`]. Nothing is made on the way
/// to an array that has no such element, because what is made is never an array.
pub(crate) fn slot<'v>(
    values: &'v mut Map<String, Value>,
    path: &str,
    max_items: usize,
) -> Result<&'v mut Value, Error> {
    let mut segments = split(path);
    let first = segments.next().unwrap_or_default();
    let mut place = values.entry(first).or_insert(Value::Null);
    for segment in segments {
        if !place.is_array() && !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = match place {
            Value::Array(items) => element(items, segment, max_items)?,
            Value::Object(members) => members.entry(segment).or_insert(Value::Null),
            // Replaced by an object just above.
            other => other,
        };
    }
    Ok(place)
}

fn element<'v>(
    items: &'v mut Vec<Value>,
    segment: &str,
    max_items: usize,
) -> Result<&'v mut Value, Error> {
    let len = items.len();
    match index(segment) {
        Some(index) if index < len => Ok(&mut items[index]),
        Some(index) if index == len && len >= max_items => Err(too_many(max_items)),
        Some(index) if index == len => {
            items.push(Value::Null);
            Ok(&mut items[index])
        }
        _ => Err(Error::new(codes::STATE_PATH_INVALID, "an action names no element of an array")
            .why(format!("{segment:?}, the array has {len} elements"))),
    }
}

pub(crate) fn too_many(limit: usize) -> Error {
    Error::new(codes::STATE_LIMIT, "an array has too many elements")
        .why(format!("limit {limit}"))
        .with("limit", "items")
        .with("max", limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn safe_paths() {
        for (path, want) in [
            ("a", true),
            ("a.b.0", true),
            ("", false),
            (" . ", false),
            ("a.__proto__", false),
            ("a. __proto__ .b", false),
            ("a.__proto__x", true),
            ("Constructor", true),
            ("constructor.prototype", false),
            ("a.%5f%5fproto%5F%5F", false),
            ("a.%255f%255fproto__", false),
            ("toString", true),
            ("a~0b", true),
        ] {
            assert_eq!(is_safe(path), want, "{path:?}");
        }
    }

    #[test]
    fn reads_own_members_and_indexes() {
        let source = json!({"a": {"b": [1, {"c": 2}]}, "s": "abc"});
        let source = source.as_object().unwrap();
        for (path, want) in [
            ("a.b.0", Some(json!(1))),
            ("a.b.1.c", Some(json!(2))),
            ("a.b.length", Some(json!(2))),
            ("a.b.00", None),
            ("a.b.2", None),
            ("s.length", None),
            ("a.toString", None),
        ] {
            assert_eq!(get(source, path).map(Found::to_value), want, "{path:?}");
        }
    }
}
