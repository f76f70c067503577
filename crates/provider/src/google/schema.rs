//! JSON Schema in the words of this dialect, which knows a part of OpenAPI's.
//!
//! What it does not know is left out: the server would refuse the whole request for it, and the
//! arguments are checked against the full schema here anyway.

use serde_json::{Map, Value, json};

/// Most levels that are followed; the server's own limit is lower.
const MAX_DEPTH: usize = 32;
/// Most references inside one another that are followed. A schema that holds itself has no end
/// otherwise, and grows with each level by all its choices.
const MAX_REFERENCES: usize = 4;

/// Members that mean the same in both.
const SAME: [&str; 13] = [
    "description",
    "title",
    "format",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "required",
    "nullable",
    "propertyOrdering",
];

/// Rewrites a schema.
pub(super) fn openapi(schema: &Value) -> Value {
    let definitions = ["$defs", "definitions"].iter().find_map(|name| schema.get(name));
    rewrite(schema, definitions, Level { depth: 0, references: 0 })
}

/// How far inside a schema something stands.
#[derive(Clone, Copy)]
struct Level {
    depth: usize,
    references: usize,
}

fn rewrite(schema: &Value, definitions: Option<&Value>, level: Level) -> Value {
    let ended = level.depth == MAX_DEPTH || level.references > MAX_REFERENCES;
    let deeper = Level { depth: level.depth + 1, ..level };
    let Some(members) = schema.as_object().filter(|_| !ended) else {
        // `true`, and what is too deep, allow anything.
        return json!({});
    };
    if let Some(target) = members.get("$ref").and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap_or_default();
        let found = definitions.and_then(|all| all.get(name)).unwrap_or(&Value::Null);
        return rewrite(found, definitions, Level { references: level.references + 1, ..deeper });
    }
    let inner = |schema: &Value| rewrite(schema, definitions, deeper);
    let mut out: Map<String, Value> = members
        .iter()
        .filter(|(name, _)| SAME.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    put_type(members, &mut out);
    if let Some(constant) = members.get("const") {
        out.insert("enum".to_owned(), json!([constant]));
    }
    if let Some(Value::Array(values)) = members.get("enum") {
        out.insert("enum".to_owned(), Value::Array(values.clone()));
    }
    keep_text_enum(&mut out);
    if let Some(items) = members.get("items") {
        out.insert("items".to_owned(), inner(items));
    }
    if let Some(Value::Object(properties)) = members.get("properties") {
        let all = properties.iter().map(|(name, schema)| (name.clone(), inner(schema)));
        out.insert("properties".to_owned(), Value::Object(all.collect()));
    }
    let choices = ["anyOf", "oneOf"].iter().find_map(|name| members.get(*name)?.as_array());
    if let Some(choices) = choices {
        put_choices(choices.iter().map(inner).collect(), &mut out);
    }
    Value::Object(out)
}

/// `type`, of which a list means one type and, with `null`, `nullable`.
fn put_type(members: &Map<String, Value>, out: &mut Map<String, Value>) {
    let name = |value: &Value| value.as_str().map(str::to_ascii_uppercase);
    let mut names: Vec<String> = match members.get("type") {
        Some(Value::Array(list)) => list.iter().filter_map(name).collect(),
        Some(one) => name(one).into_iter().collect(),
        None => return,
    };
    let count = names.len();
    names.retain(|name| name != "NULL");
    if names.len() < count {
        out.insert("nullable".to_owned(), Value::Bool(true));
    }
    match names.as_slice() {
        [] => {}
        [one] => {
            out.insert("type".to_owned(), Value::from(one.as_str()));
        }
        many => {
            let choices = many.iter().map(|name| json!({"type": name})).collect();
            out.insert("anyOf".to_owned(), Value::Array(choices));
        }
    }
}

/// Only texts can be enumerated.
fn keep_text_enum(out: &mut Map<String, Value>) {
    if let Some(Value::Array(values)) = out.get("enum") {
        if values.iter().all(Value::is_string) {
            out.entry("type").or_insert_with(|| Value::from("STRING"));
        } else {
            out.remove("enum");
        }
    }
}

/// Choices, of which one that is `null` alone means `nullable`.
fn put_choices(mut choices: Vec<Value>, out: &mut Map<String, Value>) {
    let count = choices.len();
    choices.retain(|choice| *choice != json!({"nullable": true}));
    if choices.len() < count {
        out.insert("nullable".to_owned(), Value::Bool(true));
    }
    match choices.pop() {
        Some(Value::Object(only)) if choices.is_empty() => {
            for (name, value) in only {
                out.entry(name).or_insert(value);
            }
        }
        Some(last) => {
            choices.push(last);
            out.insert("anyOf".to_owned(), Value::Array(choices));
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_and_their_openapi_forms() {
        let check = |schema: Value, expected: Value| assert_eq!(openapi(&schema), expected);
        check(json!({"type": "string"}), json!({"type": "STRING"}));
        check(
            json!({"$schema": "x", "type": "object", "additionalProperties": false,
                "properties": {"a": {"type": ["integer", "null"], "default": 1}}, "required": ["a"]}),
            json!({"type": "OBJECT", "required": ["a"],
                "properties": {"a": {"type": "INTEGER", "nullable": true}}}),
        );
        check(json!({"const": "x"}), json!({"type": "STRING", "enum": ["x"]}));
        check(json!({"type": "integer", "enum": [1, 2]}), json!({"type": "INTEGER"}));
        check(
            json!({"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "number"}]}}),
            json!({"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}}),
        );
        check(
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"type": "STRING", "nullable": true}),
        );
        check(
            json!({"type": ["string", "number"]}),
            json!({"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}),
        );
        check(
            json!({"$defs": {"n": {"type": "number"}}, "type": "array", "items": {"$ref": "#/$defs/n"}}),
            json!({"type": "ARRAY", "items": {"type": "NUMBER"}}),
        );
        check(json!(true), json!({}));
        // A schema that holds itself ends at the depth limit.
        let endless = json!({"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
            "$ref": "#/$defs/t"});
        assert!(openapi(&endless).to_string().len() < 1_000);
        // And one that branches does not grow without bound.
        let choices: Vec<Value> =
            (0..4).map(|_| json!({"type": "array", "items": {"$ref": "#/$defs/t"}})).collect();
        let bushy = json!({"$defs": {"t": {"oneOf": choices}}, "$ref": "#/$defs/t"});
        assert!(openapi(&bushy).to_string().len() < 100_000);
    }
}
