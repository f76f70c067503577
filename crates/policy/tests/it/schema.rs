//! What the published schema says of a file, and what loading it says.

use glasshouse_policy::policy_schema;
use proptest::prelude::*;
use regex_lite::Regex;
use serde_json::{Value, json};

use crate::support::{cases, compile};

/// Whether a schema accepts a value: as much of JSON Schema as the schema of policies uses.
fn accepts(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(rules) = schema.as_object() else { return schema == &Value::Bool(true) };
    let number = |name: &str| rules.get(name).and_then(Value::as_i64);
    let with = |schema: &Value, value: &Value| accepts(root, schema, value);
    let many =
        |key: &str| rules[key].as_array().unwrap().iter().filter(|one| with(one, value)).count();
    rules.iter().all(|(key, rule)| match key.as_str() {
        "$ref" => {
            with(root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(), value)
        }
        "type" => match rule {
            Value::Array(kinds) => kinds.iter().any(|kind| is_of(value, kind)),
            kind => is_of(value, kind),
        },
        "enum" => rule.as_array().unwrap().contains(value),
        "const" => rule == value,
        "pattern" => value
            .as_str()
            .is_none_or(|text| Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
        "minLength" => value.as_str().is_none_or(|text| text.len() as i64 >= number(key).unwrap()),
        "maxLength" => value.as_str().is_none_or(|text| text.len() as i64 <= number(key).unwrap()),
        "minimum" => value.as_i64().is_none_or(|found| found >= number(key).unwrap()),
        "maximum" => value.as_i64().is_none_or(|found| found <= number(key).unwrap()),
        "minItems" => value.as_array().is_none_or(|list| list.len() as i64 >= number(key).unwrap()),
        "maxItems" => value.as_array().is_none_or(|list| list.len() as i64 <= number(key).unwrap()),
        "minProperties" => {
            value.as_object().is_none_or(|map| map.len() as i64 >= number(key).unwrap())
        }
        "maxProperties" => {
            value.as_object().is_none_or(|map| map.len() as i64 <= number(key).unwrap())
        }
        "required" => value.as_object().is_none_or(|map| {
            rule.as_array().unwrap().iter().all(|name| map.contains_key(name.as_str().unwrap()))
        }),
        "items" => value.as_array().is_none_or(|list| list.iter().all(|item| with(rule, item))),
        "properties" => value.as_object().is_none_or(|map| {
            map.iter().all(|(name, value)| rule.get(name).is_none_or(|schema| with(schema, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known =
                |name: &str| rules.get("properties").is_some_and(|own| own.get(name).is_some());
            map.iter().all(|(name, value)| known(name) || with(rule, value))
        }),
        "propertyNames" => value
            .as_object()
            .is_none_or(|map| map.keys().all(|name| with(rule, &Value::from(name.as_str())))),
        "oneOf" => many(key) == 1,
        "anyOf" => many(key) > 0,
        "allOf" => many(key) == rule.as_array().unwrap().len(),
        "not" => !with(rule, value),
        "if" => !with(rule, value) || with(&rules["then"], value),
        "then" | "$schema" | "$defs" | "title" | "description" => true,
        other => panic!("the schema uses `{other}`, which is not looked at here"),
    })
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the kind `{other}`"),
    }
}

/// What both say of a policy of one rule: the schema, and loading. JSON is YAML too.
fn both(rule: &Value) -> (bool, bool) {
    let policy = json!({ "capabilities": [rule] });
    let schema = policy_schema();
    (accepts(&schema, &schema, &policy), compile(&policy.to_string()).is_ok())
}

fn rule(action: &str, constraints: &Value) -> Value {
    json!({ "name": "a", "match": {}, "action": action, "constraints": constraints })
}

fn about(syscall: &Value) -> Value {
    json!({ "name": "a", "match": { "syscall": syscall }, "action": "deny" })
}

/// The failure: an editor took for good what did not load.
#[test]
fn the_schema_refuses_what_does_not_load() {
    let check = |rule: &Value, good: bool| assert_eq!(both(rule), (good, good), "{rule}");
    let amount = |constraints: Value, good: bool| check(&rule("allow", &constraints), good);
    amount(json!({ "max_duration": 30 }), false);
    amount(json!({ "max_duration": "30" }), false);
    amount(json!({ "max_duration": "30s" }), true);
    amount(json!({ "max_duration": "1d" }), true);
    amount(json!({ "max_file_size": 10 }), true);
    amount(json!({ "max_file_size": "10" }), true);
    amount(json!({ "max_file_size": "10B" }), false);
    amount(json!({ "max_file_size": "1.5MiB" }), false);
    amount(json!({ "max_file_size": -1 }), false);
    amount(json!({ "max_file_size": "1MiB" }), true);
    amount(json!({ "rate": 20 }), false);
    amount(json!({ "rate": "0/h" }), false);
    amount(json!({ "rate": "1/0h" }), false);
    amount(json!({ "rate": "+1/h" }), false);
    amount(json!({ "rate": "1/h" }), true);
    amount(json!({ "rate": "100/24h" }), true);
    check(&rule("deny", &json!({ "max_duration": "30s" })), false);
    check(&rule("deny", &json!({})), false);
    check(&rule("require_review", &json!({ "max_duration": "30s" })), true);
    check(&json!({ "name": "a", "match": {}, "action": "deny" }), true);
    for wrong in
        ["fs.wirte", "fs.write2", "FS", "write", "web.fetch", "policy:update", "", "fs. write"]
    {
        check(&about(&json!(wrong)), false);
        check(&about(&json!(["fs.read", wrong])), false);
    }
    for right in ["fs.write", "ui.open", "mcp.weather", "mcp:tickets/read", "deploy.run", "x/y"] {
        check(&about(&json!(right)), true);
        check(&about(&json!(["fs.read", right])), true);
    }
}

/// What the repository itself writes as policies is good by both.
#[test]
fn the_schema_accepts_the_policies_that_are_shipped() {
    let schema = policy_schema();
    let starters = ["strict", "explore", "debug"].map(|name| {
        let path = format!("{}/../../examples/policies/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    });
    for text in starters.iter().map(String::as_str).chain([glasshouse_policy::default_source()]) {
        let policy: Value = serde_saphyr::from_str(text).unwrap();
        assert!(accepts(&schema, &schema, &policy), "{text}");
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Of amounts both say the same, as long as the number has its digits; of names the schema refuses nothing that
    /// loads.
    #[test]
    fn what_the_schema_refuses_does_not_load(
        time in "[0-9]{0,3}(ms|s|m|h|d|S|min)?",
        size in "[0-9]{0,3}[.]?[0-9]?(B|KiB|MiB|kb|KB|GB| MB)?",
        rate in "[+-]?[0-9]{0,2}/?[0-9]{0,2}(ms|s|m|h|d|y)?",
        name in "(fs|mcp|x|net|web|FS|)[.:/]?(read|wirte|connect|fetch|y)?[.:/]?",
        action in prop_oneof![Just("allow"), Just("deny"), Just("require_review")],
    ) {
        for constraints in [
            json!({ "max_duration": time }),
            json!({ "max_file_size": size }),
            json!({ "rate": rate }),
        ] {
            let (schema, loads) = both(&rule(action, &constraints));
            prop_assert_eq!(schema, loads, "{} {}", action, constraints);
        }
        let (schema, loads) = both(&about(&json!(name)));
        prop_assert!(schema || !loads, "{}", name);
    }
}
