//! The JSON schemas of the tools, made from [`Arguments`](super::Arguments), and a checker for the
//! part of JSON Schema that they use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{Arguments, Problem};

static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(generate);

/// The schema of a tool's arguments.
pub(crate) fn of(tool: &str) -> Option<&'static Value> {
    SCHEMAS.get(tool)
}

/// Every tool's name, sorted.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SCHEMAS.keys().map(String::as_str)
}

/// The keys that an object schema requires.
pub(super) fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Takes the per-tool schemas out of the schema of the whole enum, whose variants are objects of
/// the form `{tool: NAME, arguments: SCHEMA}`.
fn generate() -> BTreeMap<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let whole = settings.into_generator().into_root_schema_for::<Arguments>().to_value();
    let variants = whole["oneOf"].as_array().cloned().unwrap_or_default();
    variants
        .into_iter()
        .map(|mut variant| {
            let properties = &mut variant["properties"];
            let name = properties["tool"]["const"].as_str().unwrap_or_default().to_owned();
            let mut schema = properties["arguments"].take();
            strip(&mut schema);
            schema["additionalProperties"] = Value::Bool(false);
            (name, schema)
        })
        .collect()
}

/// Removes what says nothing to a model and is refused by some providers.
fn strip(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("format");
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Removes optional keys that are `null`.
pub(super) fn drop_optional_nulls(schema: &Value, value: &mut Value) {
    let Value::Object(map) = value else { return };
    map.retain(|key, member| {
        !member.is_null()
            || schema["properties"].get(key).is_none()
            || required(schema).any(|name| name == key)
    });
}

/// Checks a value against a schema.
pub(super) fn check(schema: &Value, value: &Value) -> Result<(), Problem> {
    check_at(schema, value, "")
}

fn check_at(schema: &Value, value: &Value, pointer: &str) -> Result<(), Problem> {
    let fail = |why: String| Err(Problem { pointer: pointer.to_owned(), why });
    let expected = schema["type"].as_str();
    match (expected, value) {
        (Some("object"), Value::Object(map)) => check_object(schema, map, pointer),
        (Some("array"), Value::Array(items)) => {
            check_count(schema, "Items", "items", items.len(), pointer)?;
            items.iter().enumerate().try_for_each(|(i, item)| {
                check_at(&schema["items"], item, &format!("{pointer}/{i}"))
            })
        }
        (Some("string"), Value::String(text)) => {
            check_count(schema, "Length", "characters", text.chars().count(), pointer)
        }
        (Some("integer"), Value::Number(number)) => match number.as_u64() {
            None => fail(format!("expected a whole number, found {number}")),
            Some(n) if schema["minimum"].as_u64().is_some_and(|least| n < least) => {
                fail(format!("{n} is less than {}", schema["minimum"]))
            }
            Some(n) if schema["maximum"].as_u64().is_some_and(|most| n > most) => {
                fail(format!("{n} is more than {}", schema["maximum"]))
            }
            Some(_) => Ok(()),
        },
        (Some("boolean"), Value::Bool(_)) | (None, _) => Ok(()),
        (Some(expected), found) => {
            fail(format!("expected {}, found {}", with_article(expected), name_of(found)))
        }
    }
}

fn check_object(
    schema: &Value,
    map: &serde_json::Map<String, Value>,
    pointer: &str,
) -> Result<(), Problem> {
    let properties = schema["properties"].as_object();
    for name in required(schema) {
        if !map.contains_key(name) {
            let pointer = pointer.to_owned();
            return Err(Problem { pointer, why: format!("`{name}` is missing") });
        }
    }
    for (key, member) in map {
        let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        match properties.and_then(|properties| properties.get(key)) {
            Some(schema) => check_at(schema, member, &pointer)?,
            None if schema["additionalProperties"] == Value::Bool(false) => {
                let known: Vec<&str> =
                    properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem {
                    pointer,
                    why: format!("`{key}` is not a known field; fields: {known}"),
                });
            }
            None => {}
        }
    }
    Ok(())
}

/// Checks `min<suffix>` and `max<suffix>` of a schema.
fn check_count(
    schema: &Value,
    suffix: &str,
    unit: &str,
    count: usize,
    pointer: &str,
) -> Result<(), Problem> {
    let bound = |prefix: &str| schema[format!("{prefix}{suffix}")].as_u64();
    let count = count as u64;
    let why = match (bound("min"), bound("max")) {
        (Some(least), _) if count < least => format!("fewer than {least} {unit}"),
        (_, Some(most)) if count > most => format!("more than {most} {unit}"),
        _ => return Ok(()),
    };
    Err(Problem { pointer: pointer.to_owned(), why })
}

fn with_article(type_name: &str) -> &'static str {
    match type_name {
        "object" => "an object",
        "array" => "a list",
        "integer" => "a whole number",
        "boolean" => "true or false",
        _ => "a text",
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
