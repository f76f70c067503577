//! The JSON Schema of a RuntimePlan, generated from the tables that the guards and the check read.

use serde_json::{Value, json};

use crate::guard::LANES;
use crate::plan::SPEC_VERSION;
use crate::rules::element;

/// Makes the JSON Schema (draft 2020-12) of a plan: what the guards accept, in the order that a
/// model should write it. Tags are those that may be shown, which is stricter than the guards.
///
/// ```
/// let schema = glasshouse_plan::schema();
/// assert_eq!(schema["required"], serde_json::json!(["specVersion", "id", "version", "root"]));
/// ```
#[must_use]
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "RuntimePlan",
        "type": "object",
        "required": ["specVersion", "id", "version", "root"],
        "properties": {
            "specVersion": {"const": SPEC_VERSION},
            "id": filled(),
            "version": {"type": "integer", "minimum": 1},
            "root": {"$ref": "#/$defs/node"},
            "capabilities": {"$ref": "#/$defs/capabilities"},
            "state": {"$ref": "#/$defs/state"},
            "imports": strings(),
            "moduleManifest": {
                "type": "object",
                "propertyNames": {"pattern": r"\S"},
                "additionalProperties": {"$ref": "#/$defs/module"},
            },
            "source": {"$ref": "#/$defs/source"},
            "metadata": {
                "type": "object",
                "properties": {
                    "sourcePrompt": {"type": "string"},
                    "sourceModel": {"type": "string"},
                    "tags": strings(),
                },
            },
            "ext": {
                "type": "object",
                "properties": {
                    "requires": strings(),
                    "uses": strings(),
                    "fallback": {"type": "string"},
                },
            },
        },
        "$defs": definitions(),
    })
}

fn definitions() -> Value {
    json!({
        "node": {"oneOf": [
            {"$ref": "#/$defs/text"},
            {"$ref": "#/$defs/element"},
            {"$ref": "#/$defs/component"},
        ]},
        "text": node("text", json!({"value": {"type": "string"}}), &["value"]),
        "element": node("element", with_children(json!({"tag": {"enum": element::allowed_tags()}})), &["tag"]),
        "component": node(
            "component",
            with_children(json!({"module": filled(), "exportName": filled()})),
            &["module"],
        ),
        "capabilities": capabilities(),
        "state": {
            "type": "object",
            "required": ["initial"],
            "properties": {
                "initial": {"type": "object"},
                "transitions": {
                    "type": "object",
                    "propertyNames": {"pattern": r"\S"},
                    "additionalProperties": {
                        "type": "array",
                        "items": {"$ref": "#/$defs/action"},
                    },
                },
            },
        },
        "action": {"oneOf": [
            action("set", json!({"value": true}), &["value"]),
            action("push", json!({"value": true}), &["value"]),
            action("increment", json!({"by": {"type": "number"}}), &[]),
            action("toggle", json!({}), &[]),
        ]},
        "module": {
            "type": "object",
            "required": ["resolvedUrl"],
            "properties": {
                "resolvedUrl": filled(),
                "integrity": filled(),
                "version": filled(),
                "signer": filled(),
            },
        },
        "source": {
            "type": "object",
            "required": ["code", "language"],
            "properties": {
                "code": filled(),
                "language": {"enum": ["js", "jsx", "ts", "tsx"]},
                "exportName": filled(),
                "runtime": {"enum": ["renderify", "preact"]},
            },
        },
    })
}

/// A string that is not blank.
fn filled() -> Value {
    json!({"type": "string", "pattern": r"\S"})
}

fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn with_children(mut properties: Value) -> Value {
    properties["props"] = json!({"type": "object"});
    properties["children"] = json!({"type": "array", "items": {"$ref": "#/$defs/node"}});
    properties
}

fn node(kind: &str, mut properties: Value, required: &[&str]) -> Value {
    properties["type"] = json!({"const": kind});
    let required: Vec<&str> = ["type"].iter().chain(required).copied().collect();
    json!({"type": "object", "additionalProperties": false, "required": required,
        "properties": properties})
}

fn action(kind: &str, mut properties: Value, required: &[&str]) -> Value {
    properties["type"] = json!({"const": kind});
    properties["path"] = filled();
    let required: Vec<&str> = ["type", "path"].iter().chain(required).copied().collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn capabilities() -> Value {
    json!({
        "type": "object",
        "properties": {
            "domWrite": {"type": "boolean"},
            "timers": {"type": "boolean"},
            "networkHosts": strings(),
            "allowedModules": strings(),
            "storage": {"type": "array", "items": {"enum": ["localStorage", "sessionStorage"]}},
            "executionProfile": {"enum": LANES},
            "maxImports": {"type": "number", "minimum": 0},
            "maxComponentInvocations": {"type": "number", "minimum": 0},
            "maxExecutionMs": {"type": "number", "minimum": 1},
        },
    })
}
