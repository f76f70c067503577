//! The JSON Schema of a policy file, for editors. It refuses nothing that loads, and accepts a little more: patterns
//! of paths, examples, and what two keys say together are tried only by the program.

use std::collections::BTreeSet;

use glasshouse_model::ChangeClass;
use glasshouse_model::syscall::name;
use glasshouse_model::workflow::State;
use serde_json::{Map, Value, json};

use crate::limits::{
    MAX_EXAMPLES, MAX_EXCEPTS, MAX_EXTENSION_BYTES, MAX_LIST_ITEMS, MAX_NAME_BYTES,
    MAX_REASON_BYTES, MAX_RULES, MAX_SECRET_NAME_BYTES, MAX_SECRET_PATTERN_BYTES,
    MAX_SECRET_PATTERNS,
};
use crate::rule::{ISOLATION_LEVELS, KNOWN_SYSCALLS, UI_LIMITS, UI_PROFILES};

/// Calls and a time, neither of which is zero.
const RATE: &str = "^0*[1-9][0-9]*/(0*[1-9][0-9]*)?(ms|s|m|h|d)$";

/// The schema, as JSON Schema 2020-12.
#[must_use]
pub fn policy_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Policy of Glasshouse",
        "description": "Rules that decide what agents, plugins and people may do; see docs/policy.md",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "version": { "const": 1, "description": "Version of the format; 1 when left out" },
            "capabilities": {
                "type": ["array", "null"], "maxItems": MAX_RULES, "items": { "$ref": "#/$defs/rule" },
            },
            "network_whitelist": {
                "type": ["object", "null"],
                "description": "Named groups of hosts that net.connect may reach",
                "additionalProperties": { "$ref": "#/$defs/words" },
            },
            "secret_patterns": {
                "type": ["object", "null"], "maxProperties": MAX_SECRET_PATTERNS,
                "description": "Regular expressions of texts that are masked like secrets, by name",
                "propertyNames": {
                    "pattern": "^[A-Za-z0-9_.-]+$", "maxLength": MAX_SECRET_NAME_BYTES,
                },
                "additionalProperties": {
                    "type": "string", "minLength": 1, "maxLength": MAX_SECRET_PATTERN_BYTES,
                },
            },
            "extension": {
                "type": "string", "minLength": 1, "maxLength": MAX_EXTENSION_BYTES,
                "description": "Rules in TypeScript: a program that exports evaluate(call)",
            },
        },
        "$defs": {
            "rule": rule(),
            "conditions": conditions(),
            "constraints": constraints(),
            "examples": examples(),
            "call": call(),
            "word": { "type": "string", "minLength": 1 },
            "words": { "oneOf": [
                { "$ref": "#/$defs/word" },
                { "type": "array", "maxItems": MAX_LIST_ITEMS, "items": { "$ref": "#/$defs/word" } },
            ] },
            "commands": { "oneOf": [
                { "$ref": "#/$defs/word" },
                { "type": "array", "maxItems": MAX_LIST_ITEMS, "items": { "oneOf": [
                    { "$ref": "#/$defs/word" },
                    { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/word" } },
                ] } },
            ] },
            "syscall": syscall(),
            "syscalls": { "oneOf": [
                { "$ref": "#/$defs/syscall" },
                { "type": "array", "maxItems": MAX_LIST_ITEMS, "items": { "$ref": "#/$defs/syscall" } },
            ] },
            "size": {
                "type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+(KiB|MiB|GiB|KB|MB|GB)?$",
            },
            "time": { "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" },
        },
    })
}

/// One of ours, or a name in a namespace that is none of ours.
fn syscall() -> Value {
    let spaces: BTreeSet<&str> =
        KNOWN_SYSCALLS.iter().filter_map(|name| name.split('.').next()).collect();
    let ours = spaces.into_iter().collect::<Vec<_>>().join("|");
    json!({ "anyOf": [
        { "enum": KNOWN_SYSCALLS },
        {
            "type": "string", "pattern": "^[A-Za-z0-9_-]*[.:/][A-Za-z0-9._:/-]*$",
            "not": { "pattern": format!("^(({ours})[.:/]|{}$)", name::WEB_FETCH.replace('.', "[.]")) },
        },
    ] })
}

fn rule() -> Value {
    json!({
        "type": "object",
        "if": { "properties": { "action": { "const": "deny" } }, "required": ["action"] },
        "then": { "properties": { "constraints": false } },
        "additionalProperties": false,
        "required": ["name", "match", "action"],
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES },
            "match": { "$ref": "#/$defs/conditions" },
            "action": { "enum": ["allow", "deny", "require_review"] },
            "except": {
                "type": ["array", "null"], "maxItems": MAX_EXCEPTS,
                "description": "The rule is silent where one of these holds",
                "items": { "allOf": [{ "$ref": "#/$defs/conditions" }], "minProperties": 1 },
            },
            "reason": { "type": "string", "minLength": 1, "maxLength": MAX_REASON_BYTES },
            "constraints": { "$ref": "#/$defs/constraints" },
            "examples": { "$ref": "#/$defs/examples" },
        },
    })
}

fn word_or_list(words: &[&str]) -> Value {
    json!({ "oneOf": [
        { "enum": words },
        { "type": "array", "maxItems": MAX_LIST_ITEMS, "items": { "enum": words } },
    ] })
}

fn conditions() -> Value {
    let words = || json!({ "$ref": "#/$defs/words" });
    let states: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
    let described = |mut schema: Value, text: &str| {
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), json!(text));
        }
        schema
    };
    let properties = json!({
        "syscall": { "$ref": "#/$defs/syscalls", "description": "Name of the syscall, exactly" },
        "path_glob": described(words(), "Patterns of workspace paths"),
        "state_machine_state": described(word_or_list(&states), "State of the workflow"),
        "caller": described(words(), "user, agent, plugin, kernel, or one by name: plugin:fs-tool"),
        "caller_tag": described(words(), "A tag on the caller"),
        "plugin": described(words(), "Name of the plugin that asks"),
        "tenant": described(words(), "Tenant"),
        "label": described(words(), "Taint: where the request comes from"),
        "host": described(words(), "example.org, *.example.org, *"),
        "method": described(words(), "HTTP method"),
        "port": described(
            json!({ "oneOf": [port(), { "type": "array", "maxItems": MAX_LIST_ITEMS, "items": port() }] }),
            "Port of a connection",
        ),
        "http_path": described(words(), "Path of an HTTP request; * at its end matches what follows"),
        "argv_prefix": {
            "$ref": "#/$defs/commands",
            "description": "First words of a command, each as it is: no pattern, nothing of a shell, no quotes",
        },
        "argv": { "$ref": "#/$defs/commands", "description": "All words of a command, each as it is" },
        "change": described(
            word_or_list(&ChangeClass::ALL.map(ChangeClass::as_str)), "What a write changes",
        ),
        "size_over": { "$ref": "#/$defs/size", "description": "More would be written" },
    });
    json!({
        "type": "object",
        "description": "All keys have to hold; of a list one item is enough",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn port() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": u16::MAX })
}

fn constraints() -> Value {
    let limits: Map<String, Value> = UI_LIMITS
        .iter()
        .map(|name| ((*name).to_owned(), json!({ "type": "integer", "minimum": 0 })))
        .collect();
    json!({
        "type": "object",
        "description": "How an allowed act is done",
        "additionalProperties": false,
        "properties": {
            "require_sandbox": { "type": "string", "pattern": "^[A-Za-z0-9-]+$" },
            "require_capability_token": { "type": "boolean" },
            "max_file_size": { "$ref": "#/$defs/size" },
            "max_duration": { "$ref": "#/$defs/time" },
            "min_isolation": { "enum": ISOLATION_LEVELS },
            "rate": { "type": "string", "pattern": RATE },
            "ui_profile": { "enum": UI_PROFILES },
            "ui_limits": { "type": "object", "additionalProperties": false, "properties": limits },
            "ui_hosts": {
                "type": "array", "maxItems": MAX_LIST_ITEMS, "items": { "type": "string" },
            },
        },
    })
}

fn examples() -> Value {
    let calls = || json!({ "type": ["array", "null"], "maxItems": MAX_EXAMPLES, "items": { "$ref": "#/$defs/call" } });
    json!({
        "type": "object",
        "description": "Calls that are tried when the file loads",
        "additionalProperties": false,
        "properties": { "match": calls(), "not_match": calls() },
    })
}

fn call() -> Value {
    let text = || json!({ "type": "string" });
    let words = || json!({ "oneOf": [text(), { "type": "array", "items": text() }] });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["syscall"],
        "properties": {
            "syscall": text(), "path": text(), "host_path": text(),
            "state_machine_state": text(), "state": text(),
            "caller": text(), "caller_tag": words(), "tenant": text(),
            "host": text(), "port": port(), "method": text(), "http_path": text(), "argv": words(),
            "change": { "enum": ChangeClass::ALL.map(ChangeClass::as_str) },
            "label": words(), "size": { "$ref": "#/$defs/size" }, "sandbox": text(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::conditions::MATCH_KEYS;
    use crate::source::{CONSTRAINT_KEYS, EXAMPLE_KEYS, RULE_KEYS, TOP_KEYS};

    #[test]
    fn the_schema_knows_the_keys_that_the_reader_knows() {
        let schema = policy_schema();
        let check = |pointer: &str, known: &[&str]| {
            let mut found: Vec<&str> = schema
                .pointer(pointer)
                .and_then(Value::as_object)
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            let mut known = known.to_vec();
            found.sort_unstable();
            known.sort_unstable();
            assert_eq!(found, known, "{pointer}");
        };
        check("/properties", TOP_KEYS);
        check("/$defs/rule/properties", RULE_KEYS);
        check("/$defs/conditions/properties", MATCH_KEYS);
        check("/$defs/constraints/properties", CONSTRAINT_KEYS);
        check("/$defs/examples/properties", EXAMPLE_KEYS);
        // Every key of a call is one that a sketch takes.
        for key in
            schema.pointer("/$defs/call/properties").and_then(Value::as_object).unwrap().keys()
        {
            let value = match key.as_str() {
                "change" => json!("test"),
                "size" => json!(1),
                "port" => json!(443),
                _ => json!("x"),
            };
            let call = json!({ key.as_str(): value, "syscall": "x" });
            if let Err(error) = crate::CallSketch::from_json(&call.to_string()) {
                panic!("{key}: {error}");
            }
        }
    }
}
