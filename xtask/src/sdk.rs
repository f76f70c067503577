//! The client for TypeScript, written from the description of the API.
//!
//! One small generator of our own: what it makes is a file of types and one class, and reads like one that a
//! person wrote. What a client does with a connection is in `sdk/typescript/src/runtime.ts`, written by hand.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value};

use crate::models;
use crate::place::Place;
use crate::process::{Doing, Failure, run};

/// Where the description lies.
const DESCRIPTION: &str = "docs/reference/openapi.json";
/// What is written.
const CLIENT: &str = "sdk/typescript/src/api.ts";
/// Where the client's project is.
const PROJECT: &str = "sdk/typescript";

const HEAD: &str = "// Written by `cargo xtask sdk` from docs/reference/openapi.json.
import { type Connection, type Lines, type More, type Server, Transport } from './runtime.ts'

";

/// `cargo xtask sdk`: writes the client; with `--check` it only compares, and has the compiler look at it where
/// that is installed.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    let made = client(place.root())?;
    let file = place.root().join(CLIENT);
    match arguments.first().map(String::as_str) {
        None => std::fs::write(&file, made).doing("could not write the client"),
        Some("--check") => {
            let kept = std::fs::read_to_string(&file).unwrap_or_default();
            if kept != made {
                return Err(Failure::new(format!(
                    "{CLIENT} is old; `cargo xtask sdk` writes it anew"
                )));
            }
            compile(place)
        }
        Some(other) => Err(Failure::new(format!("`sdk` takes `--check`, not `{other}`"))),
    }
}

/// Has the TypeScript compiler of the tests look at the client.
fn compile(place: &Place) -> Result<(), Failure> {
    let installed = models::prepare_one(place, "client")?;
    let Some((_, folder)) = installed.into_iter().next() else {
        println!("skipped: sdk: the TypeScript compiler is not installed");
        return Ok(());
    };
    let mut compiler = Command::new("node");
    compiler.arg(folder.join("node_modules/typescript/bin/tsc"));
    compiler.args(["--project", PROJECT, "--noEmit", "--typeRoots"]);
    compiler.arg(folder.join("node_modules/@types")).current_dir(place.root());
    run(&mut compiler)
}

/// The text of the client.
fn client(root: &Path) -> Result<String, Failure> {
    let text =
        std::fs::read_to_string(root.join(DESCRIPTION)).doing("could not read the description")?;
    let document: Value = serde_json::from_str(&text).doing("the description is no JSON")?;
    let none = Map::new();
    let schemas = document["components"]["schemas"].as_object().unwrap_or(&none);
    let mut out = String::from(HEAD);
    for (name, schema) in schemas {
        comment(&mut out, "", schema);
        let _ = writeln!(out, "export type {name} = {}\n", type_of(schema, ""));
    }
    out.push_str("/** Every route of a server. */\nexport class Glasshouse {\n  readonly #transport: Transport\n\n");
    out.push_str(
        "  constructor(server: Server) {\n    this.#transport = new Transport(server)\n  }\n",
    );
    for (path, methods) in document["paths"].as_object().unwrap_or(&none) {
        for (method, operation) in methods.as_object().unwrap_or(&none) {
            out.push_str(&function(path, method, operation));
        }
    }
    out.push_str("}\n");
    Ok(out)
}

/// One operation as a method of the class.
fn function(path: &str, method: &str, operation: &Value) -> String {
    let empty = Vec::new();
    let parameters = operation["parameters"].as_array().unwrap_or(&empty);
    let within =
        |place: &str| parameters.iter().filter(move |one| one["in"] == place).collect::<Vec<_>>();
    let (parts, query) = (within("path"), within("query"));
    let mut takes: Vec<String> = parts
        .iter()
        .map(|part| format!("{}: string | number", part["name"].as_str().unwrap_or_default()))
        .collect();
    let mut gives = Vec::new();
    if !query.is_empty() {
        let is_needed = query.iter().any(|one| one["required"] == true);
        let default = if is_needed { "" } else { " = {}" };
        takes.push(format!("query: {}{default}", members(&query)));
        gives.push("query");
    }
    let body = &operation["requestBody"];
    if body.is_object() {
        let kind = type_of(&body["content"]["application/json"]["schema"], "  ");
        let default = if body["required"] == true { "" } else { " = {}" };
        takes.push(format!("body: {kind}{default}"));
        gives.push("body");
    }
    takes.push("more: More = {}".to_owned());
    gives.push("more");
    let (media, answer) = answer(operation);
    let (send, kind) = match media.as_str() {
        "text/event-stream" => ("stream", "Promise<Connection>".to_owned()),
        "application/json" => ("json", format!("Promise<{answer}>")),
        "application/x-ndjson" => ("lines", "Promise<Lines>".to_owned()),
        media if media.starts_with("text/") => ("text", "Promise<string>".to_owned()),
        _ => ("bytes", "Promise<Uint8Array>".to_owned()),
    };
    let place = path.replace('{', "${encodeURIComponent(").replace('}', ")}");
    let name = camel(operation["operationId"].as_str().unwrap_or_default());
    let summary = operation["summary"].as_str().unwrap_or_default();
    format!(
        "\n  /** {summary}. `{} {path}` */\n  {name}({}): {kind} {{\n    return this.#transport.{send}('{}', `{place}`, {{ {} }})\n  }}\n",
        method.to_uppercase(),
        takes.join(", "),
        method.to_uppercase(),
        gives.join(", "),
    )
}

/// Media type and type of an operation's answer; of several kinds JSON counts, and its type is either's.
fn answer(operation: &Value) -> (String, String) {
    const JSON: &str = "application/json";
    let none = Map::new();
    let responses = operation["responses"].as_object().unwrap_or(&none);
    let contents = responses.iter().filter(|(status, _)| status.starts_with('2'));
    let content = contents.filter_map(|(_, response)| response["content"].as_object()).next();
    let content = content.unwrap_or(&none);
    let media = match content.contains_key(JSON) {
        true => JSON,
        false => content.keys().next().map_or(JSON, String::as_str),
    };
    let mut kinds: Vec<String> =
        content.values().map(|told| type_of(&told["schema"], "  ")).collect();
    if responses.contains_key("204") && media == JSON {
        kinds.push("undefined".to_owned());
    }
    if kinds.is_empty() {
        kinds.push("unknown".to_owned());
    }
    (media.to_owned(), kinds.join(" | "))
}

/// Parameters of a query as the type of an object.
fn members(parameters: &[&Value]) -> String {
    let member = |one: &&Value| {
        let name = one["name"].as_str().unwrap_or_default();
        let optional = if one["required"] == true { "" } else { "?" };
        format!("{name}{optional}: {}", type_of(&one["schema"], "  "))
    };
    format!("{{ {} }}", parameters.iter().map(member).collect::<Vec<_>>().join("; "))
}

fn comment(out: &mut String, indent: &str, schema: &Value) {
    if let Some(text) = schema["description"].as_str() {
        let _ = writeln!(out, "{indent}/** {} */", text.replace('\n', " "));
    }
}

/// A schema as a type.
fn type_of(schema: &Value, indent: &str) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return name.to_owned();
    }
    for (word, sign) in [("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")] {
        if let Some(list) = schema[word].as_array() {
            let list: Vec<String> = list.iter().map(|one| type_of(one, indent)).collect();
            return list.join(sign);
        }
    }
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(literal).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let one = |kind: &Value| {
                let mut alone = schema.clone();
                alone["type"] = kind.clone();
                type_of(&alone, indent)
            };
            kinds.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
        Value::String(kind) => match kind.as_str() {
            "string" => "string".to_owned(),
            "integer" | "number" => "number".to_owned(),
            "boolean" => "boolean".to_owned(),
            "null" => "null".to_owned(),
            "array" => format!("Array<{}>", type_of(&schema["items"], indent)),
            _ => object(schema, indent),
        },
        _ => "unknown".to_owned(),
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

fn object(schema: &Value, indent: &str) -> String {
    let Some(properties) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
        let values = match &schema["additionalProperties"] {
            Value::Object(_) => type_of(&schema["additionalProperties"], indent),
            _ => "unknown".to_owned(),
        };
        return format!("Record<string, {values}>");
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let inner = format!("{indent}  ");
    let mut out = String::from("{\n");
    for (name, member) in properties {
        comment(&mut out, &inner, member);
        let optional = if required.contains(&Value::from(name.clone())) { "" } else { "?" };
        let _ = writeln!(out, "{inner}{name}{optional}: {}", type_of(member, &inner));
    }
    let _ = write!(out, "{indent}}}");
    out
}

/// `get_sessions_by_session` as `getSessionsBySession`.
fn camel(words: &str) -> String {
    let mut words = words.split(['_', '-', '.']).filter(|word| !word.is_empty());
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_become_types() {
        let check = |schema: Value, expected: &str| assert_eq!(type_of(&schema, ""), expected);
        check(json!({ "type": "string" }), "string");
        check(json!({ "type": ["integer", "null"] }), "number | null");
        check(json!({ "$ref": "#/components/schemas/Mode" }), "Mode");
        check(json!({ "anyOf": [ { "$ref": "#/x/A" }, { "type": "null" } ] }), "A | null");
        check(json!({ "type": "string", "enum": ["a", "b"] }), "'a' | 'b'");
        check(json!({ "oneOf": [ { "type": "string", "const": "a" } ] }), "'a'");
        check(json!({ "type": "array", "items": { "type": "boolean" } }), "Array<boolean>");
        check(json!({ "type": "object" }), "Record<string, unknown>");
        check(
            json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            "Record<string, string>",
        );
        check(
            json!({ "type": "object", "required": ["a"], "properties": {
                "a": { "type": "string", "description": "What it is" }, "b": {},
            }}),
            "{\n  /** What it is */\n  a: string\n  b?: unknown\n}",
        );
        check(json!({}), "unknown");
    }

    /// The failure: the stream of a plan came as one array of bytes, when all of it was there.
    #[test]
    fn what_an_operation_answers_decides_how_it_is_read() {
        let check = |media: &str, sends: &str, kind: &str| {
            let schema = json!({ "schema": { "type": "boolean" } });
            let operation = json!({
                "operationId": "get_it", "responses": { "200": { "content": { media: schema } } },
            });
            let made = function("/it", "get", &operation);
            assert!(made.contains(&format!("this.#transport.{sends}(")), "{media}: {made}");
            assert!(made.contains(&format!("): Promise<{kind}> {{")), "{media}: {made}");
        };
        check("application/json", "json", "boolean");
        check("text/event-stream", "stream", "Connection");
        check("application/x-ndjson", "lines", "Lines");
        check("text/html", "text", "string");
        check("application/octet-stream", "bytes", "Uint8Array");
    }

    #[test]
    fn operations_get_names() {
        let check = |id: &str, expected: &str| assert_eq!(camel(id), expected);
        check("get_sessions_by_session", "getSessionsBySession");
        check("get_", "get");
        check("get_openapi.json", "getOpenapiJson");
    }

    #[test]
    fn the_client_is_as_the_description_has_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let kept = std::fs::read_to_string(root.join(CLIENT)).expect("a file");
        assert!(kept == client(&root).expect("a client"), "`cargo xtask sdk` writes it anew");
    }
}
