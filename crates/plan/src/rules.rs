//! The one rule table: which elements, attributes, addresses and styles may be shown.
//!
//! The checker and the renderer both ask here, so what one accepts the other shows, and what one
//! refuses the other never prints. Everything that has no row is not shown.

pub(crate) mod attribute;
pub(crate) mod element;
pub(crate) mod event;
pub(crate) mod inspect;
mod lookup;
pub(crate) mod nesting;
pub(crate) mod property;
pub(crate) mod style;
pub(crate) mod url;
pub(crate) mod value;

use std::borrow::Cow;

use crate::error::Code;
use crate::json::{Json, Kind, to_text};
use serde_json::Value;

/// Why a rule does not let something through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) why: Cow<'static, str>,
}

impl Refusal {
    pub(crate) fn new(code: Code, why: impl Into<Cow<'static, str>>) -> Self {
        Self { code, why: why.into() }
    }
}

/// A property value that is not a container, or the fact that it is one.
#[derive(Debug, Clone)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    /// A number, already in its canonical text.
    Number(String),
    Text(Cow<'a, str>),
    Container,
}

impl<'a> Scalar<'a> {
    pub(crate) fn of(value: Json<'a>) -> Self {
        match value.kind() {
            Kind::Null => Self::Null,
            Kind::Bool(value) => Self::Bool(value),
            Kind::Int(value) => Self::Number(value.to_string()),
            Kind::Float(value) => Self::Number(to_text(value)),
            Kind::Text(text) => Self::Text(Cow::Borrowed(text)),
            Kind::Array(_) | Kind::Object(_) => Self::Container,
        }
    }

    pub(crate) fn of_value(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(to_text(number.as_f64().unwrap_or(0.0))),
            Value::String(text) => Self::Text(Cow::Owned(text)),
            Value::Array(_) | Value::Object(_) => Self::Container,
        }
    }
}
