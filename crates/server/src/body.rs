//! Bodies that have one reading.

use std::collections::HashSet;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};

/// Reads an object in which no key stands twice, at any depth. Of two that are equal one reader takes the first and
/// another the last, so what a person was shown need not be what counts.
///
/// # Errors
/// What is wrong, with its place.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    // First, so that what is told of a text that is no JSON is about the type that was wanted.
    let value = serde_json::from_slice(bytes)?;
    serde_json::from_slice::<Object>(bytes)?;
    Ok(value)
}

/// A whole body: a list of values would be taken for an object whose keys are left out.
struct Object;

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys).map(|()| Self)
    }
}

/// Anything inside.
struct Part;

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Parts).map(|()| Self)
    }
}

/// Goes through an object.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!("the key `{key}` stands twice")));
            }
            seen.insert(key);
            map.next_value::<Part>()?;
        }
        Ok(())
    }
}

/// Goes through a value of any kind.
struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<Part>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        Keys.visit_map(map)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        #[allow(dead_code)]
        approved: bool,
        #[allow(dead_code)]
        rule: Option<Value>,
    }

    /// The failure: of two equal keys of a rule the last one counted.
    #[test]
    fn a_body_has_one_reading() {
        let check = |text: &str, expected: Option<&str>| match (
            read::<Answer>(text.as_bytes()),
            expected,
        ) {
            (Ok(_), None) => {}
            (Err(error), Some(words)) => {
                assert!(error.to_string().contains(words), "{text}: {error}")
            }
            (read, expected) => panic!("{text}: {read:?} for {expected:?}"),
        };
        let twice = Some("stands twice");
        check(r#"{"approved":true,"rule":{"argv":"ls","argv":"rm"}}"#, twice);
        check(r#"{"approved":true,"rule":{"argv":"ls","argv":"ls"}}"#, twice);
        check(r#"{"approved":true,"rule":{"argv":"ls","\u0061rgv":"rm"}}"#, twice);
        check(r#"{"approved":true,"rule":[{"a":1},{"b":[{"a":1,"b":2,"a":3}]}]}"#, twice);
        check(r#"{"approved":true,"rule":{"a":{"x":1},"b":{"x":1},"a":1}}"#, twice);
        check(r#"{"approved":true,"approved":false}"#, Some("duplicate field"));
        check(r#"[true,{"argv":"ls"}]"#, Some("expected an object"));
        check(r#"{"approved":true,"rules":1}"#, Some("unknown field"));
        check("", Some("EOF"));
        check("null", Some("expected"));
        // The control: equal keys of different objects, and every kind of value.
        check(
            r#"{"approved":true,"rule":{"a":{"x":1},"b":{"x":[null,-1,1.5,"t",false,1e400]}}}"#,
            Some("out of range"),
        );
        check(
            r#"{"approved":true,"rule":{"a":{"x":1},"b":{"x":[null,-1,1.5,"t",false,18446744073709551615]}}}"#,
            None,
        );
        check(r#"{"approved":true,"rule":{"Argv":1,"argv":2,"":3}}"#, None);
        let error =
            read::<Answer>(b"{\"approved\":true,\n\"rule\":{\"a\":1,\"a\":2}}").unwrap_err();
        assert_eq!(error.line(), 2);
    }
}
