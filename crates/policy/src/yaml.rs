//! YAML with places: a tree whose every node knows its line and column.
//!
//! The format is checked by walking this tree rather than by derived deserialisation, because a
//! policy error has to name the place, what was expected there and the word that was meant.

pub(crate) mod keys;
mod syntax;

use std::collections::HashMap;
use std::fmt;

use glasshouse_model::yaml::first_mark;
use glasshouse_model::{Code, suggest};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::codes;
use crate::error::{Error, Result};
use crate::limits::{MAX_SOURCE_BYTES, MAX_YAML_DEPTH};

/// A node and where it stands, both from 1.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) line: u64,
    pub(crate) column: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) text: String,
    line: u64,
    column: u64,
}

/// Names the source in every error about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a str,
}

impl Reader<'_> {
    /// Parses a text into its tree; an empty text is [`Kind::Null`].
    pub(crate) fn parse(&self, text: &str) -> Result<Node> {
        if text.len() > MAX_SOURCE_BYTES {
            return Err(Error::new(codes::LIMIT, format!("policy source `{}`", self.source))
                .why(format!("{} bytes, at most {MAX_SOURCE_BYTES} are read", text.len())));
        }
        if let Some(mark) = first_mark(text) {
            return Err(self
                .error_at(codes::SYNTAX, mark.line, mark.column, "unreadable YAML")
                .why(mark));
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_aliases: 0,
                max_anchors: 0,
                max_documents: 1,
                max_depth: MAX_YAML_DEPTH,
                max_merge_keys: 0,
            },
            with_snippet: false,
            // Both are seen by `node`, which can tell where the first one stands.
            duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::PassThrough,
            merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        };
        match serde_saphyr::from_str_with_options::<Option<Spanned<Tree>>>(text, options) {
            Ok(Some(tree)) => self.node(tree),
            Ok(None) => Ok(Node { kind: Kind::Null, line: 1, column: 1 }),
            Err(error) => {
                let fault = syntax::fault(text, &error);
                let error = self
                    .error_at(codes::SYNTAX, fault.line, fault.column, "unreadable YAML")
                    .why(fault.why);
                Err(fault.fix.into_iter().fold(error, Error::fix))
            }
        }
    }

    /// The tree with places, where no map has a key twice.
    fn node(&self, tree: Spanned<Tree>) -> Result<Node> {
        let (line, column) = (tree.referenced.line(), tree.referenced.column());
        let kind = match tree.value {
            Tree::Leaf(kind) => kind,
            Tree::List(items) => {
                Kind::List(items.into_iter().map(|item| self.node(item)).collect::<Result<_>>()?)
            }
            Tree::Map(entries) => {
                let mut lines = HashMap::new();
                let mut entry = |(key, node): (Spanned<String>, Spanned<Tree>)| {
                    let (line, column) = (key.referenced.line(), key.referenced.column());
                    let key = Key { text: key.value, line, column };
                    if let Some(first) = lines.insert(key.text.clone(), line) {
                        return Err(self.twice(&key, first));
                    }
                    Ok((key, self.node(node)?))
                };
                Kind::Map(entries.into_iter().map(&mut entry).collect::<Result<_>>()?)
            }
        };
        Ok(Node { kind, line, column })
    }

    fn twice(&self, key: &Key, first: u64) -> Error {
        self.error_at(codes::SYNTAX, key.line, key.column, "unreadable YAML")
            .why(format!("the key `{}` stands twice in one map", key.text))
            .fix(format!("remove one of the two; the first is in line {first}"))
    }

    /// An error about a node.
    pub(crate) fn error(&self, code: Code, node: &Node, what: impl fmt::Display) -> Error {
        self.error_at(code, node.line, node.column, what)
    }

    fn error_at(&self, code: Code, line: u64, column: u64, what: impl fmt::Display) -> Error {
        Error::new(code, format!("{}:{line}:{column}: {what}", self.source))
            .with("source", self.source)
            .with("line", line)
            .with("column", column)
    }

    /// The entries of a map; a key that is not `known` is an error with a suggestion.
    pub(crate) fn map<'n>(&self, node: &'n Node, what: &str, known: &[&str]) -> Result<Fields<'n>> {
        let entries = self.any_map(node, what)?;
        for (key, _) in entries {
            if !known.contains(&key.text.as_str()) {
                return Err(self.unknown_key(key, what, known));
            }
        }
        Ok(Fields { entries })
    }

    fn unknown_key(&self, key: &Key, what: &str, known: &[&str]) -> Error {
        let found = format!("unknown key `{}` in {what}", key.text);
        let error = self
            .error_at(codes::UNKNOWN_KEY, key.line, key.column, found)
            .why(format!("known keys are {}", known.join(", ")))
            .with("key", key.text.as_str());
        let meant = keys::habit(&key.text).unwrap_or(&key.text);
        let is_known = |word: &str| known.contains(&word);
        let meant = keys::of_call(&key.text).filter(|word| is_known(word)).unwrap_or(meant);
        if is_known(meant) {
            return error.fix(format!("did you mean `{meant}`?")).with("suggestion", meant);
        }
        // A key is not removed because it stands beside its place: without it the rule would match more.
        let place = |word: &str| keys::place(word).filter(|_| keys::PARTS.contains(&what));
        if let Some(place) = place(meant) {
            return error.fix(format!("`{meant}` belongs {place}")).with("suggestion", meant);
        }
        if let Some(word) = suggest::nearest(meant, known.iter().copied()) {
            return error.fix(format!("did you mean `{word}`?")).with("suggestion", word);
        }
        match suggest::nearest(meant, keys::all()).and_then(|word| Some((word, place(word)?))) {
            Some((word, place)) => error
                .fix(format!("did you mean `{word}`? it belongs {place}"))
                .with("suggestion", word),
            None => error,
        }
    }

    /// The entries of a map with free keys.
    pub(crate) fn any_map<'n>(&self, node: &'n Node, what: &str) -> Result<&'n [(Key, Node)]> {
        match &node.kind {
            Kind::Map(entries) => Ok(entries),
            _ => Err(self.wrong_type(node, what, "a map of keys and values")),
        }
    }

    /// A list; nothing at all is an empty one.
    pub(crate) fn list<'n>(&self, node: &'n Node, what: &str) -> Result<&'n [Node]> {
        match &node.kind {
            Kind::List(items) => Ok(items),
            Kind::Null => Ok(&[]),
            _ => Err(self.wrong_type(node, what, "a list")),
        }
    }

    /// A key that has to be there and is not. One that stands deeper, as a wrong indentation brings it about, is
    /// named; else `written` says what to add.
    pub(crate) fn missing(&self, node: &Node, what: &str, key: &str, written: &str) -> Error {
        let error = self.error(codes::MISSING_KEY, node, format!("{what} without `{key}`"));
        let entries = match &node.kind {
            Kind::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        let deeper = entries.iter().find_map(|(outer, inner)| match &inner.kind {
            Kind::Map(inner) => {
                inner.iter().find(|(own, _)| own.text == key).map(|(own, _)| (outer, own))
            }
            _ => None,
        });
        let fix = match deeper {
            Some((outer, own)) => format!(
                "`{key}` of line {} stands inside `{}`: indent it like `{}`",
                own.line, outer.text, outer.text
            ),
            None => format!("add {written}"),
        };
        error.fix(fix).with("key", key)
    }

    /// One text, or a list of texts.
    pub(crate) fn one_or_many<'n>(&self, node: &'n Node, what: &str) -> Result<Vec<&'n Node>> {
        match &node.kind {
            Kind::List(items) => Ok(items.iter().collect()),
            Kind::Text(_) => Ok(vec![node]),
            _ => Err(self.wrong_type(node, what, "a text or a list of texts")),
        }
    }

    /// A text that is not empty.
    pub(crate) fn text<'n>(&self, node: &'n Node, what: &str) -> Result<&'n str> {
        match &node.kind {
            Kind::Text(text) if !text.is_empty() => Ok(text),
            _ => Err(self.wrong_type(node, what, "a text")),
        }
    }

    /// A word out of a list; another one is an error with a suggestion.
    pub(crate) fn word<'k>(&self, node: &Node, what: &str, known: &[&'k str]) -> Result<&'k str> {
        let list = format!("write one of {}", known.join(", "));
        if !matches!(node.kind, Kind::Text(_)) {
            return Err(self.wrong_type(node, what, "a text").fix(list));
        }
        let text = self.text(node, what)?;
        if let Some(word) = known.iter().find(|word| **word == text) {
            return Ok(word);
        }
        let error = self
            .error(codes::BAD_VALUE, node, format!("unknown {what} `{text}`"))
            .why(format!("expected one of {}", known.join(", ")));
        // A part of a word is as near as a misspelt one: `review` is said where `require_review` is meant.
        let part = |word: &&&str| word.split('_').any(|part| part == text);
        let habit = keys::habit(text).filter(|word| known.contains(word));
        let meant = habit.or_else(|| known.iter().find(part).copied());
        Err(match meant.or_else(|| suggest::nearest(text, known.iter().copied())) {
            Some(word) => error.fix(format!("did you mean `{word}`?")).with("suggestion", word),
            None => error.fix(list),
        })
    }

    pub(crate) fn wrong_type(&self, node: &Node, what: &str, expected: &str) -> Error {
        let found = match &node.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "true or false",
            Kind::Integer(_) | Kind::Float(_) => "a number",
            Kind::Text(text) if text.is_empty() => "an empty text",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        };
        let error = self.error(codes::BAD_VALUE, node, format!("{what} has the wrong form"));
        let error = error.why(format!("expected {expected}, found {found}"));
        match &node.kind {
            _ if !expected.contains("a text") => error.fix(format!("write {expected}")),
            Kind::Bool(_) => error.fix(
                "quote it to make it a text: y, n, yes, no, on and off without quotes are true or false in YAML",
            ),
            Kind::Integer(_) | Kind::Float(_) => error.fix("quote it to make it a text"),
            _ => error.fix(format!("write {expected}")),
        }
    }
}

/// A map whose keys are all known.
pub(crate) struct Fields<'n> {
    entries: &'n [(Key, Node)],
}

impl<'n> Fields<'n> {
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(found, _)| found.text == key).map(|(_, node)| node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'n str, &'n Node)> {
        self.entries.iter().map(|(key, node)| (key.text.as_str(), node))
    }
}

impl Node {
    /// The same data as JSON.
    pub(crate) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => (*value).into(),
            Kind::Integer(value) => i64::try_from(*value)
                .map(Value::from)
                .or_else(|_| u64::try_from(*value).map(Value::from))
                .unwrap_or_else(|_| value.to_string().into()),
            Kind::Float(value) => (*value).into(),
            Kind::Text(text) => text.as_str().into(),
            Kind::List(items) => items.iter().map(Self::to_json).collect(),
            Kind::Map(entries) => {
                entries.iter().map(|(key, node)| (key.text.clone(), node.to_json())).collect()
            }
        }
    }
}

/// What the YAML library hands over; every node below it is spanned.
enum Tree {
    Leaf(Kind),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar, a list or a map")
    }

    fn visit_unit<E>(self) -> std::result::Result<Tree, E> {
        Ok(Tree::Leaf(Kind::Null))
    }

    fn visit_none<E>(self) -> std::result::Result<Tree, E> {
        Ok(Tree::Leaf(Kind::Null))
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Tree, E> {
        Ok(Tree::Leaf(Kind::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Tree, E> {
        Ok(Tree::Leaf(Kind::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Tree, E> {
        Ok(Tree::Leaf(Kind::Integer(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Tree, E> {
        Ok(Tree::Leaf(Kind::Float(value)))
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Tree, E> {
        Ok(Tree::Leaf(Kind::Text(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Tree, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Tree>>()? {
            out.push(item);
        }
        Ok(Tree::List(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Tree, A::Error> {
        let mut out: Vec<(Spanned<String>, Spanned<Tree>)> = Vec::new();
        while let Some(entry) = entries.next_entry::<Spanned<String>, Spanned<Tree>>()? {
            out.push(entry);
        }
        Ok(Tree::Map(out))
    }
}
