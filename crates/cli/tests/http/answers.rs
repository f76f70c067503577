//! Every answer is as the description of the API says, member by member: what is not described is not told.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::client::Served;
use crate::harness::Place;
use crate::strangers::{described, house};
use crate::world::{As, check_covered, settled};

/// Reads values by the schemas of a document.
struct Schemas<'a> {
    document: &'a Value,
}

impl Schemas<'_> {
    /// What a schema says with its reference followed; the reference stands for the whole.
    fn followed<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str() {
            Some(path) => self.document.pointer(path.trim_start_matches('#')).unwrap(),
            None => schema,
        }
    }

    /// The schemas that a value must fit as well, and those of which it must fit one.
    fn parts<'s>(schema: &'s Value, word: &str) -> &'s [Value] {
        schema[word].as_array().map_or(&[], Vec::as_slice)
    }

    /// Whether a value fits a schema.
    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let schema = self.followed(schema);
        let any = |word: &str| {
            let parts = Self::parts(schema, word);
            parts.is_empty() || parts.iter().any(|part| self.fits(part, value))
        };
        fits_type(&schema["type"], value)
            && schema.get("const").is_none_or(|only| only == value)
            && schema["enum"].as_array().is_none_or(|all| all.contains(value))
            && any("anyOf")
            && any("oneOf")
            && Self::parts(schema, "allOf").iter().all(|part| self.fits(part, value))
            && value.as_object().is_none_or(|members| self.fits_members(schema, members))
            && value.as_array().is_none_or(|items| {
                let each = schema.get("items");
                each.is_none_or(|each| items.iter().all(|item| self.fits(each, item)))
            })
    }

    fn fits_members(&self, schema: &Value, members: &Map<String, Value>) -> bool {
        let needed = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let has = |name: &Value| members.contains_key(name.as_str().unwrap());
        let fits = |(name, value): (&String, &Value)| {
            let own = schema["properties"].get(name);
            let schema = own.or_else(|| schema.get("additionalProperties"));
            schema.is_none_or(|schema| *schema == json!(true) || self.fits(schema, value))
        };
        needed.iter().all(has) && members.iter().all(fits)
    }

    /// The members that a schema tells of, those of its parts among them; `None` where any may be there.
    fn members(&self, schema: &Value, value: &Value) -> Option<BTreeSet<String>> {
        let schema = self.followed(schema);
        let mut told: BTreeSet<String> = BTreeSet::new();
        if schema.get("additionalProperties").is_some_and(|more| *more != json!(false)) {
            return None;
        }
        told.extend(
            schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()),
        );
        for part in self.fitting(schema, value) {
            told.extend(self.members(part, value)?);
        }
        Some(told)
    }

    /// The parts of a schema that a value fits.
    fn fitting<'s>(&'s self, schema: &'s Value, value: &Value) -> Vec<&'s Value> {
        ["anyOf", "oneOf", "allOf"]
            .iter()
            .flat_map(|word| Self::parts(schema, word))
            .filter(|part| self.fits(part, value))
            .collect()
    }

    /// The first member that no schema tells of, as a path.
    fn undescribed(&self, schema: &Value, value: &Value) -> Option<String> {
        let whole = self.followed(schema);
        if let (Some(told), Some(members)) = (self.members(whole, value), value.as_object())
            && !told.is_empty()
            && let Some(name) = members.keys().find(|name| !told.contains(*name))
        {
            return Some(name.clone());
        }
        let below = |name: &str, schema: &Value, value: &Value| {
            self.undescribed(schema, value).map(|rest| format!("{name}.{rest}"))
        };
        let members = value.as_object().into_iter().flatten().find_map(|(name, value)| {
            let own = whole["properties"].get(name).or_else(|| whole.get("additionalProperties"));
            below(name, own?, value)
        });
        let items = value
            .as_array()
            .into_iter()
            .flatten()
            .find_map(|item| below("[]", whole.get("items")?, item));
        let parts =
            || {
                let fitting = self.fitting(whole, value);
                // What one part does not tell of another one may: the members of all were looked at above.
                fitting.iter().find_map(|part| {
                    let inner = self.followed(part);
                    value.as_object().into_iter().flatten().find_map(|(name, value)| {
                        below(name, inner["properties"].get(name)?, value)
                    })
                })
            };
        members.or(items).or_else(parts)
    }

    fn check(&self, schema: &Value, value: &Value, what: &str) {
        assert!(self.fits(schema, value), "{what}: {value}\nis not as\n{schema}");
        let more = self.undescribed(schema, value);
        assert_eq!(more, None, "{what} tells what is not described: {value}");
    }
}

fn fits_type(kind: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    };
    match kind {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    }
}

/// The control: a reader that takes whatever comes would find nothing.
#[test]
fn the_reader_of_schemas_finds_what_does_not_fit() {
    let document = json!({ "a": {
        "type": "object", "required": ["n"],
        "properties": { "n": { "type": ["integer", "null"] }, "list": { "type": "array", "items": { "$ref": "#/a" } } },
        "oneOf": [
            { "type": "object", "properties": { "op": { "const": "x" }, "x": { "type": "string" } }, "required": ["op", "x"] },
            { "type": "object", "properties": { "op": { "const": "y" } }, "required": ["op"] },
        ],
    } });
    let schemas = Schemas { document: &document };
    let schema = json!({ "$ref": "#/a" });
    let check = |value: Value, fits: bool, more: Option<&str>| {
        assert_eq!(schemas.fits(&schema, &value), fits, "{value}");
        if fits {
            assert_eq!(schemas.undescribed(&schema, &value).as_deref(), more, "{value}");
        }
    };
    check(json!({ "op": "y", "n": 1 }), true, None);
    check(json!({ "op": "x", "n": null, "x": "" }), true, None);
    check(json!({ "op": "x", "n": null }), false, None);
    check(json!({ "op": "y" }), false, None);
    check(json!({ "op": "z", "n": 1 }), false, None);
    check(json!({ "op": "y", "n": "1" }), false, None);
    check(json!([]), false, None);
    check(json!({ "op": "y", "n": 1, "more": 1 }), true, Some("more"));
    check(json!({ "op": "y", "n": 1, "x": "" }), true, Some("x"));
    let deep = json!({ "op": "y", "n": 1, "list": [ { "op": "y", "n": 2, "more": 1 } ] });
    check(deep, true, Some("list.[].more"));
    check(json!({ "op": "y", "n": 1, "list": [ { "op": "y" } ] }), false, None);
}

/// The real answers of a session's whole life, of plans, keys and tenants, each against its schema.
#[test]
fn every_answer_is_as_it_is_described_in_sandboxes() {
    let place = Place::new();
    let served = Served::new(&place);
    let world = house(&place, &served);
    let document = described(&served);
    let schemas = Schemas { document: &document };
    let calls = world.calls();
    check_covered(&document, &calls);
    let client = As { served: &served, key: served.token.clone() };
    for call in &calls {
        let answer = settled(&client, call);
        let (method, path) = call.route.split_once(' ').unwrap();
        let told = &document["paths"][path][method.to_lowercase()]["responses"];
        let content = &told[answer.status.to_string()]["content"];
        let media = answer.header("content-type").unwrap_or_default();
        let schema = &content[media.split(';').next().unwrap_or_default()]["schema"];
        assert!(
            schema.is_object() && answer.status < 300,
            "{} answers {} {media}: {}",
            call.line,
            answer.status,
            answer.text()
        );
        if media == "application/json" {
            schemas.check(schema, &answer.json(), &call.line);
        } else {
            assert_eq!(schema["type"], "string", "{}", call.line);
        }
    }
    // Problems have one shape, and a part that is not there is told as null or not at all.
    let problem = served.get("/v1/sessions/s_zzzzzzzz").expect(404).json();
    schemas.check(&json!({ "$ref": "#/components/schemas/Problem" }), &problem, "a problem");
}
