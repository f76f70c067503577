//! JSON from a model: one value, no key twice, every error with its place.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is not one JSON value.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) why: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Parses exactly one value. Depth is bounded by the parser's own limit of 128.
pub(super) fn parse(text: &str) -> Result<Value, Broken> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Strict::deserialize(&mut deserializer)
        .and_then(|Strict(value)| deserializer.end().map(|()| value))
        .map_err(|error| Broken {
            why: error.to_string(),
            line: error.line(),
            column: error.column(),
        })
}

/// A value as compact text with sorted keys, whatever map type `serde_json` was built with.
pub(super) fn canonical_text(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            let members: Vec<String> = keys
                .into_iter()
                .map(|key| format!("{}:{}", Value::from(key.as_str()), canonical_text(&map[key])))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical_text).collect();
            format!("[{}]", items.join(","))
        }
        plain => plain.to_string(),
    }
}

/// A [`Value`] that refuses repeated keys: two readers could take different ones for the truth.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` is given twice")));
            }
            let Strict(value) = access.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_or_a_place() {
        let check = |text: &str, expected: Option<(usize, usize)>| {
            let place = parse(text).err().map(|broken| (broken.line, broken.column));
            assert_eq!(place, expected, "{text:?}");
        };
        check(r#"{"a":[1,-2,3.5,null,true,"x"]}"#, None);
        check(r#"{"path":"a"#, Some((1, 10)));
        check("{\n \"a\": 1,\n \"a\": 2}", Some((3, 4)));
        check(r#"{"a":1}{"b":2}"#, Some((1, 8)));
        check(r#"{"a":{"b":1,"b":1}}"#, Some((1, 15)));
        check("{'a':1}", Some((1, 2)));
        check("{\"a\":\"\n\"}", Some((2, 0)));
        check(r#""\ud800""#, Some((1, 8)));
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse("1e999").is_err());
    }

    #[test]
    fn canonical_text_sorts_keys_and_keeps_values() {
        let value = parse(r#"{ "b" : [ 1 , { "d":null , "c":"\n" } ] , "a" : 0.5 }"#).unwrap();
        assert_eq!(canonical_text(&value), r#"{"a":0.5,"b":[1,{"c":"\n","d":null}]}"#);
    }
}
