//! A part of a message on its way out: made here, or a provider's own that must not change.

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// One block of a message.
#[derive(Debug)]
pub(crate) enum Block {
    Made(Value),
    /// Bytes as they came; they are never read into a value, which would write them anew.
    Kept(Box<RawValue>),
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Made(value) => value.serialize(serializer),
            Self::Kept(raw) => raw.serialize(serializer),
        }
    }
}

impl From<Value> for Block {
    fn from(value: Value) -> Self {
        Self::Made(value)
    }
}

impl Block {
    /// A block whose members are given, one of them as JSON text that stays as written.
    pub(crate) fn with_raw(members: &[(&str, &Value)], name: &str, raw: &str) -> Self {
        let mut text = String::from("{");
        for (member, value) in members {
            text.push_str(&format!("{}:{value},", Value::from(*member)));
        }
        text.push_str(&format!("{}:{raw}}}", Value::from(name)));
        match RawValue::from_string(text) {
            Ok(raw) => Self::Kept(raw),
            // Only `raw` can be no JSON; then it travels as text.
            Err(_) => {
                let mut made: serde_json::Map<String, Value> =
                    members.iter().map(|(k, v)| ((*k).to_owned(), (*v).clone())).collect();
                made.insert(name.to_owned(), Value::from(raw));
                Self::Made(Value::Object(made))
            }
        }
    }

    /// A carry's block; `None` when it is no JSON, which no carry of ours holds.
    pub(crate) fn kept(text: &str) -> Option<Self> {
        RawValue::from_string(text.to_owned()).ok().map(Self::Kept)
    }
}
