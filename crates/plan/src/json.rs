//! A JSON document as one flat tape: no allocation a value, no recursion, limits while reading.
//!
//! Strings are spans of one pool that starts with the text itself, so a string without escapes is
//! never copied on its own. Containers know where they end, so skipping one costs nothing.

mod number;
mod push;
mod read;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::limits::Limits;

pub(crate) use number::{canonical, to_text};
pub(crate) use push::{Interest, PushReader, Sink};

/// A parsed JSON document.
#[derive(Debug, Clone)]
pub struct Document {
    pool: String,
    tape: Vec<Slot>,
}

/// Place of a string in the pool, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    len: u32,
}

/// One entry of the tape. An object is followed by its members, key then value; `end` is the first
/// index behind the container.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Span),
    Array { len: u32, end: u32 },
    Object { len: u32, end: u32 },
}

impl Document {
    /// Reads one JSON text.
    ///
    /// # Errors
    ///
    /// `plan_json_invalid`, `plan_key_duplicate`, `plan_number_not_finite`, `plan_too_large` and
    /// `plan_too_deep`, with line and column in the context.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, Error> {
        read::document(text, &limits.clamped())
    }

    /// The outermost value.
    #[must_use]
    pub fn root(&self) -> Json<'_> {
        Json { document: self, at: 0 }
    }

    pub(crate) fn at(&self, at: u32) -> Json<'_> {
        Json { document: self, at }
    }

    /// Whether any string could hold a template; lets readers skip the search in most plans.
    pub(crate) fn may_hold_templates(&self) -> bool {
        self.pool.contains("{{") || self.pool.contains("${")
    }

    fn text(&self, span: Span) -> &str {
        let start = span.start as usize;
        &self.pool[start..start + span.len as usize]
    }

    fn after(&self, at: u32) -> u32 {
        match self.tape[at as usize] {
            Slot::Array { end, .. } | Slot::Object { end, .. } => end,
            _ => at + 1,
        }
    }
}

/// One value of a [`Document`].
#[derive(Debug, Clone, Copy)]
pub struct Json<'a> {
    document: &'a Document,
    at: u32,
}

/// What a value is.
#[derive(Debug, Clone)]
pub enum Kind<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number that a double holds exactly.
    Int(i64),
    /// Any other finite number.
    Float(f64),
    /// A string.
    Text(&'a str),
    /// An array.
    Array(Items<'a>),
    /// An object, members in the order of the text, each key once.
    Object(Members<'a>),
}

impl<'a> Json<'a> {
    /// What the value is.
    #[must_use]
    pub fn kind(self) -> Kind<'a> {
        match self.document.tape[self.at as usize] {
            Slot::Null => Kind::Null,
            Slot::Bool(value) => Kind::Bool(value),
            Slot::Int(value) => Kind::Int(value),
            Slot::Float(value) => Kind::Float(value),
            Slot::Text(span) => Kind::Text(self.document.text(span)),
            Slot::Array { len, .. } => {
                Kind::Array(Items { document: self.document, at: self.at + 1, left: len })
            }
            Slot::Object { len, .. } => {
                Kind::Object(Members { document: self.document, at: self.at + 1, left: len })
            }
        }
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_text(self) -> Option<&'a str> {
        match self.document.tape[self.at as usize] {
            Slot::Text(span) => Some(self.document.text(span)),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    #[must_use]
    pub fn as_array(self) -> Option<Items<'a>> {
        match self.kind() {
            Kind::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members, if it is an object.
    #[must_use]
    pub fn as_object(self) -> Option<Members<'a>> {
        match self.kind() {
            Kind::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "integers here are within 2^53")]
    pub fn as_number(self) -> Option<f64> {
        match self.kind() {
            Kind::Int(value) => Some(value as f64),
            Kind::Float(value) => Some(value),
            _ => None,
        }
    }

    /// The member of an object with this key.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Self> {
        self.as_object()?.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// A copy that outlives the document.
    #[must_use]
    pub fn to_value(self) -> Value {
        let document = self.document;
        let end = document.after(self.at);
        let mut open: Vec<Building> = Vec::new();
        let mut at = self.at;
        while at < end {
            if let Some(Building::Object { key: key @ None, left: 1.., .. }) = open.last_mut() {
                *key = document.at(at).as_text().map(str::to_owned);
                at += 1;
            }
            let mut value = match document.at(at).kind() {
                Kind::Null => Value::Null,
                Kind::Bool(value) => Value::Bool(value),
                Kind::Int(value) => Value::from(value),
                Kind::Float(value) => canonical(value).unwrap_or(Value::Null),
                Kind::Text(text) => Value::String(text.to_owned()),
                Kind::Array(items) => {
                    open.push(Building::Array { items: Vec::new(), left: items.left });
                    Value::Null
                }
                Kind::Object(members) => {
                    let map = Map::new();
                    open.push(Building::Object { map, key: None, left: members.left });
                    Value::Null
                }
            };
            let opened = matches!(
                document.tape[at as usize],
                Slot::Array { len: 1.., .. } | Slot::Object { len: 1.., .. }
            );
            let empty =
                matches!(document.tape[at as usize], Slot::Array { .. } | Slot::Object { .. });
            at += 1;
            if opened {
                continue;
            }
            if empty && let Some(building) = open.pop() {
                value = building.finish();
            }
            while let Some(mut building) = open.pop() {
                if building.add(value) {
                    value = building.finish();
                } else {
                    open.push(building);
                    value = Value::Null;
                    break;
                }
            }
            if open.is_empty() {
                return value;
            }
        }
        Value::Null
    }
}

/// A container that is being copied.
enum Building {
    Array { items: Vec<Value>, left: u32 },
    Object { map: Map<String, Value>, key: Option<String>, left: u32 },
}

impl Building {
    /// Adds a value; true when the container is complete.
    fn add(&mut self, value: Value) -> bool {
        match self {
            Self::Array { items, left } => {
                items.push(value);
                *left -= 1;
                *left == 0
            }
            Self::Object { map, key, left } => {
                map.insert(key.take().unwrap_or_default(), value);
                *left -= 1;
                *left == 0
            }
        }
    }

    fn finish(self) -> Value {
        match self {
            Self::Array { items, .. } => Value::Array(items),
            Self::Object { map, .. } => Value::Object(map),
        }
    }
}

/// The elements of an array.
#[derive(Debug, Clone)]
pub struct Items<'a> {
    document: &'a Document,
    at: u32,
    left: u32,
}

impl<'a> Iterator for Items<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        self.left = self.left.checked_sub(1)?;
        let item = self.document.at(self.at);
        self.at = self.document.after(self.at);
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The members of an object.
#[derive(Debug, Clone)]
pub struct Members<'a> {
    document: &'a Document,
    at: u32,
    left: u32,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = self.document.at(self.at).as_text().unwrap_or_default();
        let value = self.document.at(self.at + 1);
        self.at = self.document.after(self.at + 1);
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Members<'_> {}

impl Json<'_> {
    pub(crate) fn index(self) -> u32 {
        self.at
    }
}

/// Serde walks nested values by calling itself; the reader's depth ceiling bounds that.
impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.kind() {
            Kind::Null => serializer.serialize_unit(),
            Kind::Bool(value) => serializer.serialize_bool(value),
            Kind::Int(value) => serializer.serialize_i64(value),
            Kind::Float(value) => serializer.serialize_f64(value),
            Kind::Text(text) => serializer.serialize_str(text),
            Kind::Array(items) => {
                let mut out = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    out.serialize_element(&item)?;
                }
                out.end()
            }
            Kind::Object(members) => {
                let mut out = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    out.serialize_entry(key, &value)?;
                }
                out.end()
            }
        }
    }
}

/// Texts that are no JSON; every reader refuses them.
#[cfg(test)]
const NOT_JSON: &[&str] = &[
    "",
    " ",
    "{",
    "[",
    "[1,]",
    "{\"a\"}",
    "{\"a\":}",
    "{a:1}",
    "{\"a\":1,}",
    "01",
    "-",
    "1.",
    ".5",
    "1e",
    "+1",
    "tru",
    "nul",
    "'a'",
    "\"a",
    "\"\u{1}\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\ud800\"",
    "\"\\ud800\\u0041\"",
    "\"\\udc00\"",
    "1 2",
    "[1}",
    "{\"a\":1]",
    "NaN",
    "Infinity",
    "// c\n1",
    "\u{feff}1",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn same(text: &str) {
        let document = Document::parse(text, &Limits::default()).unwrap();
        let ours = document.root().to_value();
        assert_eq!(ours, serde_json::from_str::<Value>(text).unwrap(), "{text}");
        let again = serde_json::to_string(&document.root()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), ours, "{text}");
    }

    #[test]
    fn copies_are_equal_to_a_general_parser() {
        for text in [
            "null",
            "[]",
            "{}",
            "[[],{},[{}],0]",
            r#"{"a":{"b":[1,2,{"c":null}]},"d":[],"e":{}}"#,
            r#"[-1,0.5,123456789,"a\"\\\/\b\f\n\r\t\u0041\ud83d\ude00é"]"#,
            " { \"k\" : [ true , false ] } ",
        ] {
            same(text);
        }
    }

    #[test]
    fn members_keep_the_order_of_the_text() {
        let document = Document::parse(r#"{"b":1,"a":2}"#, &Limits::default()).unwrap();
        let keys: Vec<&str> = document.root().as_object().unwrap().map(|(key, _)| key).collect();
        assert_eq!(keys, ["b", "a"]);
    }
}
