//! The description of the API for programs: OpenAPI 3.1, made from the table of routes and from the types
//! that handlers read and write.

use std::sync::OnceLock;

use hyper::Method;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::problem::{MEDIA_TYPE, Problem};
use crate::route::{IF_MATCH, IF_NONE_MATCH, ROUTES, Route};
use crate::shapes;

/// Makes the schema of a type; names of types are references into the document.
pub(crate) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// The schema of a type.
pub(crate) fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What is read and what is written have schemas of their own: a member that may be left out of a request is always
/// in an answer. No name stands for both, unless both are the same.
struct Generators {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Generators {
    fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        let answers = settings.clone().for_serialize().into_generator();
        Self { requests: settings.for_deserialize().into_generator(), answers }
    }

    fn definitions(mut self) -> Map<String, Value> {
        let mut all = self.requests.take_definitions(true);
        all.extend(self.answers.take_definitions(true));
        all
    }
}

/// The whole document.
pub(crate) fn document() -> Value {
    let mut generators = Generators::new();
    let problem = generators.answers.subschema_for::<Problem>();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut generators);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    let schemas = generators.definitions();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Glasshouse",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [ { "url": "/" } ],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "Problem": {
                "description": "Why it was not done",
                "content": { MEDIA_TYPE: { "schema": problem } },
            } },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// The document as it is served and published.
pub(crate) fn text() -> &'static str {
    // Whoever asks for it needs no token, so it is made once.
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| serde_json::to_string_pretty(&document()).unwrap_or_default() + "\n")
}

fn operation(route: &Route, generators: &mut Generators) -> Value {
    let Route { method, path, is_open, summary, told, .. } = route;
    let mut parameters: Vec<Value> = parts(path)
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    if let Some(query) = told.query {
        parameters.extend(query_parameters(query, &mut generators.requests));
    }
    parameters.extend(told.headers.iter().map(|(name, what)| {
        json!({ "name": name, "in": "header", "description": what, "schema": { "type": "string" } })
    }));
    let answer = told.answer.unwrap_or(shapes::text)(&mut generators.answers);
    let mut content = json!({ told.media_type: { "schema": answer } });
    if let Some(text) = told.or_text {
        content[text] = json!({ "schema": shapes::text(&mut generators.answers) });
    }
    let mut operation = json!({
        "operationId": operation_id(method.as_str(), path),
        "summary": summary,
        "parameters": parameters,
        "responses": {
            told.status.to_string(): {
                "description": summary,
                "content": content.clone(),
            },
        },
        "security": if *is_open { json!([]) } else { json!([{ "token": [] }]) },
    });
    for status in refusals(route) {
        operation["responses"][status.to_string()] = json!({ "$ref": PROBLEM });
    }
    if told.may_be_asked {
        operation["responses"]["202"] =
            json!({ "description": "A person is asked first", "content": content });
    }
    if told.may_be_nothing {
        operation["responses"]["204"] = json!({ "description": "There is nothing" });
    }
    if told.headers.iter().any(|(name, _)| *name == IF_NONE_MATCH.0) {
        operation["responses"]["304"] = json!({ "description": "The client has it" });
    }
    if let Some(body) = told.body {
        operation["requestBody"] = json!({
            "required": told.needs_body,
            "content": { "application/json": { "schema": body(&mut generators.requests) } },
        });
    }
    operation
}

/// Statuses of errors that any route may answer: the gate's, those of bodies that come too slowly or are too large, and
/// faults of ours.
const OF_ALL: [u16; 7] = [403, 408, 413, 429, 431, 500, 503];
/// Where the description says what an error is.
const PROBLEM: &str = "#/components/responses/Problem";

/// Statuses of the errors that a route may answer, in order.
pub(crate) fn refusals(route: &Route) -> Vec<u16> {
    let Route { method, path, is_open, told, .. } = route;
    let changes = *method != Method::GET;
    let names_something = parts(path).next().is_some();
    let reads = told.query.is_some() || told.body.is_some() || !told.headers.is_empty();
    let mut all: Vec<u16> = OF_ALL.to_vec();
    let mut may = |is_so: bool, statuses: &[u16]| {
        all.extend(statuses.iter().filter(|_| is_so));
    };
    may(!is_open, &[401, 507]);
    may(reads || names_something, &[400]);
    may(names_something, &[404]);
    // What a deleted or archived session said is gone.
    may(path.contains("{session}"), &[410]);
    may(changes, &[400, 409]);
    may(told.body.is_some(), &[415, 422]);
    may(told.headers.iter().any(|(name, _)| *name == IF_MATCH), &[412]);
    may(true, told.refuses);
    all.sort_unstable();
    all.dedup();
    all
}

/// Names of the parts of a path.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Each member of a query's type is a parameter of its own.
fn query_parameters(query: Shape, generator: &mut SchemaGenerator) -> Vec<Value> {
    let reference = query(generator);
    let whole = resolve(&reference, generator);
    let required = whole["required"].as_array().cloned().unwrap_or_default();
    let members = whole["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, schema): (String, Value)| {
        let mut parameter = json!({
            "name": name, "in": "query", "required": required.contains(&json!(name)),
        });
        // A text, where there is one: the format knows no `null` here.
        if schema["description"].is_string() {
            parameter["description"] = schema["description"].clone();
        }
        parameter["schema"] = without_null(schema);
        parameter
    };
    members.into_iter().map(parameter).collect()
}

/// The schema that a reference names.
fn resolve(schema: &Schema, generator: &SchemaGenerator) -> Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    match name.and_then(|name| generator.definitions().get(name)) {
        Some(found) => found.clone(),
        None => schema.clone().into(),
    }
}

/// A parameter is absent, never null.
fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array().cloned() {
        let others: Vec<Value> = types.into_iter().filter(|one| one != "null").collect();
        schema["type"] = match others.as_slice() {
            [one] => one.clone(),
            _ => Value::Array(others),
        };
    }
    schema
}

/// A name for a client's function: `get_sessions_events_stream`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.trim_start_matches("/v1").split('/').skip(1).map(|part| {
        let name = part.trim_matches(['{', '}']);
        let name = name.replace('.', "_");
        if part.starts_with('{') { format!("by_{name}") } else { name }
    });
    let words: Vec<String> = words.collect();
    format!("{}_{}", method.to_lowercase(), words.join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_description_is_this_one() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference/openapi.json");
        let made = text();
        if std::env::var_os("GLASSHOUSE_BLESS").is_some() {
            std::fs::write(&file, made).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == made, "GLASSHOUSE_BLESS=1 writes it anew");
    }

    /// The failure: parameters without a comment had the description `null`, which no tool reads.
    #[test]
    fn every_text_of_the_description_is_one() {
        fn texts(value: &Value, at: &str) {
            for (key, value) in value.as_object().into_iter().flatten() {
                let is_text = ["description", "summary", "operationId", "$ref", "title"]
                    .contains(&key.as_str());
                // Members of a schema may have any name; what they are is an object.
                assert!(!is_text || value.is_string() || value.is_object(), "{at}/{key}: {value}");
                texts(value, &format!("{at}/{key}"));
            }
            for value in value.as_array().into_iter().flatten() {
                texts(value, at);
            }
        }
        texts(&document(), "");
    }

    #[test]
    fn every_reference_names_a_schema_and_every_operation_has_a_name_of_its_own() {
        let document = document();
        let text = document.to_string();
        for (at, _) in text.match_indices("#/components/schemas/") {
            let rest = &text[at + "#/components/schemas/".len()..];
            let name = rest.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
        assert!(!text.contains("nullable") && !text.contains("$defs"));
        let operations = document["paths"].as_object().unwrap().values();
        let ids = operations.flat_map(|path| path.as_object().unwrap().values());
        let mut ids: Vec<_> = ids.map(|operation| operation["operationId"].to_string()).collect();
        assert_eq!(ids.len(), ROUTES.len());
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
    }

    #[test]
    fn every_answer_has_a_schema_and_no_name_stands_for_two() {
        let document = document();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let responses = operation["responses"].as_object().unwrap();
                let good = responses.iter().filter(|(status, _)| status.starts_with('2'));
                for (status, answer) in good.filter(|(status, _)| *status != "204") {
                    let contents = answer["content"].as_object().unwrap();
                    for (media, content) in contents {
                        let schema = content["schema"].as_object();
                        let says = schema.is_some_and(|schema| !schema.is_empty());
                        assert!(says, "{method} {path} {status} {media}");
                    }
                }
            }
        }
        let mut generators = Generators::new();
        for route in ROUTES {
            operation(route, &mut generators);
        }
        let answers = generators.answers.take_definitions(true);
        for (name, schema) in generators.requests.take_definitions(true) {
            assert_eq!(answers.get(&name).unwrap_or(&schema), &schema, "{name}");
        }
    }

    /// The failure: each route said that it answers anything else as an error, so no answer was ever wrong.
    #[test]
    fn a_route_says_which_errors_it_may_answer() {
        let check = |method: Method, path: &str, expected: &[u16]| {
            let route = ROUTES.iter().find(|one| one.method == method && one.path == path);
            let own = refusals(route.unwrap()).into_iter().filter(|one| !OF_ALL.contains(one));
            assert_eq!(own.collect::<Vec<_>>(), expected, "{method} {path}");
        };
        check(Method::GET, "/v1/health", &[]);
        check(Method::GET, "/v1/whoami", &[401, 507]);
        check(Method::GET, "/v1/grants", &[400, 401, 507]);
        // Both refuse what is understood and cannot be done, though nothing is sent that could be malformed.
        check(Method::GET, "/v1/sessions/{session}/diff", &[400, 401, 404, 410, 422, 507]);
        let replay = "/v1/plans/runs/{run}/replay";
        check(Method::POST, replay, &[400, 401, 404, 409, 422, 507]);
        check(Method::GET, "/v1/sessions/{session}", &[400, 401, 404, 410, 507]);
        // The failure: the sandboxes of a deleted session answered what was not told.
        check(Method::GET, "/v1/sandboxes", &[400, 401, 404, 410, 507]);
        check(Method::GET, "/v1/sandboxes/{sandbox}", &[400, 401, 404, 410, 507]);
        check(Method::PUT, "/v1/tenants/{tenant}", &[400, 401, 404, 409, 412, 415, 422, 507]);
        let document = document();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let responses = operation["responses"].as_object().unwrap();
                assert!(!responses.contains_key("default"), "{method} {path}");
                let problems = responses.iter().filter(|(_, told)| told["$ref"] == PROBLEM);
                assert!(problems.count() >= OF_ALL.len(), "{method} {path}");
            }
        }
        assert!(document["components"]["responses"]["Problem"].is_object());
    }

    #[test]
    fn a_query_is_told_member_by_member() {
        let document = document();
        let list = &document["paths"]["/v1/sessions"]["get"]["parameters"];
        let names: Vec<_> = list.as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, [&json!("all"), &json!("cursor"), &json!("limit")]);
        assert_eq!(list[2]["schema"]["type"], "integer");
        assert_eq!(list[2]["required"], false);
    }
}
