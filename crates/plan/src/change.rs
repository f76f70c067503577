//! Changes to a JSON document: the operations of RFC 6902, and one more that makes missing parents.
//!
//! The six standard operations keep their strict meaning; a model that adds below something that is
//! not there is told so, or says `upsert`. A failed change leaves the document as it was.

mod pointer;

use serde_json::{Map, Value};

use crate::codes;
use crate::error::Error;
use crate::json::{Document, Json};
use crate::limits::{Limits, MAX_DEPTH};

pub use pointer::Pointer;

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Adds a member, or inserts before an array index, or sets the whole document.
    Add,
    /// Takes away what is there.
    Remove,
    /// Sets what is there.
    Replace,
    /// Removes at `from` and adds at `path`.
    Move,
    /// Adds at `path` what is at `from`.
    Copy,
    /// Fails unless the value is there.
    Test,
    /// Adds, and makes the parents that are missing; not part of the RFC.
    Upsert,
}

const OPS: &[(&str, Op)] = &[
    ("add", Op::Add),
    ("remove", Op::Remove),
    ("replace", Op::Replace),
    ("move", Op::Move),
    ("copy", Op::Copy),
    ("test", Op::Test),
    ("upsert", Op::Upsert),
];

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What it does.
    pub op: Op,
    /// Where.
    pub path: Pointer,
    /// Where the value comes from, for `move` and `copy`.
    pub from: Pointer,
    /// The value, for `add`, `replace`, `test` and `upsert`.
    pub value: Value,
}

impl Change {
    /// A change that needs no `from`.
    #[must_use]
    pub fn new(op: Op, path: Pointer, value: Value) -> Self {
        Self { op, path, from: Pointer::default(), value }
    }

    /// Reads a change as it is written.
    ///
    /// # Errors
    ///
    /// As [`Document::parse`], `plan_line_invalid` when members are missing, `plan_path_unsafe`.
    ///
    /// ```
    /// use glasshouse_plan::change::{Change, Op};
    /// let change = Change::read(r#"{"op":"add","path":"/a~1b","value":1}"#)?;
    /// assert_eq!((change.op, change.path.tokens()), (Op::Add, &["a/b".to_owned()][..]));
    /// # Ok::<(), glasshouse_plan::Error>(())
    /// ```
    pub fn read(text: &str) -> Result<Self, Error> {
        let document = Document::parse(text, &Limits::default())?;
        let root = document.root();
        let word = |key: &str| root.get(key).and_then(Json::as_text);
        let op = word("op").and_then(|op| OPS.iter().find(|(name, _)| *name == op));
        let (name, op) = op.copied().ok_or_else(|| unreadable("op names no operation"))?;
        let pointer = |key: &str| {
            let text = word(key).ok_or_else(|| unreadable(&format!("{name} needs {key}")))?;
            Pointer::parse(text)
        };
        let path = pointer("path")?;
        let from = match op {
            Op::Move | Op::Copy => pointer("from")?,
            _ => Pointer::default(),
        };
        let value = match op {
            Op::Add | Op::Replace | Op::Test | Op::Upsert => root
                .get("value")
                .ok_or_else(|| unreadable(&format!("{name} needs a value")))?
                .to_value(),
            _ => Value::Null,
        };
        Ok(Self { op, path, from, value })
    }

    /// The change as it is written.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let name = OPS.iter().find(|(_, op)| *op == self.op).map_or("", |(name, _)| name);
        let mut members = Map::new();
        members.insert("op".to_owned(), name.into());
        members.insert("path".to_owned(), self.path.to_string().into());
        match self.op {
            Op::Move | Op::Copy => {
                members.insert("from".to_owned(), self.from.to_string().into());
            }
            Op::Add | Op::Replace | Op::Test | Op::Upsert => {
                members.insert("value".to_owned(), self.value.clone());
            }
            Op::Remove => {}
        }
        Value::Object(members)
    }
}

fn unreadable(why: &str) -> Error {
    Error::new(codes::LINE_INVALID, "a change cannot be read").why(why)
}

fn misplaced(path: &Pointer, why: &str) -> Error {
    Error::new(codes::CHANGE_INVALID, "a change does not fit the document")
        .why(why)
        .at(path.to_string())
}

/// Makes a change and answers the changes that undo it, in order.
///
/// # Errors
///
/// `plan_change_invalid` with the pointer, `plan_too_deep`; then nothing has changed.
///
/// ```
/// use glasshouse_plan::change::{Change, apply};
/// let mut document = serde_json::json!({});
/// let missing = Change::read(r#"{"op":"add","path":"/todos/-","value":1}"#)?;
/// assert_eq!(apply(&mut document, &missing).unwrap_err().code(), "plan_change_invalid");
/// let upsert = Change::read(r#"{"op":"upsert","path":"/todos/-","value":1}"#)?;
/// let undo = apply(&mut document, &upsert)?;
/// assert_eq!(document, serde_json::json!({"todos": [1]}));
/// for change in &undo {
///     apply(&mut document, change)?;
/// }
/// assert_eq!(document, serde_json::json!({}));
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
pub fn apply(document: &mut Value, change: &Change) -> Result<Vec<Change>, Error> {
    let path = &change.path;
    match change.op {
        Op::Add => add(document, path, change.value.clone()),
        Op::Upsert => upsert(document, path, change.value.clone()),
        Op::Remove => remove(document, path).map(|(_, undo)| vec![undo]),
        Op::Replace => {
            let place = find_mut(document, path)
                .ok_or_else(|| misplaced(path, "there is nothing to replace"))?;
            fits(path, &change.value)?;
            let old = std::mem::replace(place, change.value.clone());
            Ok(vec![Change::new(Op::Replace, path.clone(), old)])
        }
        Op::Test => match find(document, path) {
            Some(value) if *value == change.value => Ok(Vec::new()),
            Some(_) => Err(misplaced(path, "the value is another one")),
            None => Err(misplaced(path, "there is nothing to test")),
        },
        Op::Copy => {
            let value = find(document, &change.from);
            let value = value.ok_or_else(|| misplaced(&change.from, "there is nothing to copy"))?;
            add(document, path, value.clone())
        }
        Op::Move => {
            if path.is_inside(&change.from) {
                return Err(misplaced(path, "a value does not move into itself"));
            }
            let (value, back) = remove(document, &change.from)?;
            match add(document, path, value) {
                Ok(mut undo) => {
                    undo.push(back);
                    Ok(undo)
                }
                Err(error) => {
                    // What was taken away goes back to where it was; that place exists.
                    add(document, &back.path, back.value)?;
                    Err(error)
                }
            }
        }
    }
}

/// What is at a place.
#[must_use]
pub fn find<'v>(document: &'v Value, path: &Pointer) -> Option<&'v Value> {
    path.tokens().iter().try_fold(document, |value, token| match value {
        Value::Object(members) => members.get(token),
        Value::Array(items) => items.get(crate::path::index(token)?),
        _ => None,
    })
}

fn find_mut<'v>(document: &'v mut Value, path: &Pointer) -> Option<&'v mut Value> {
    path.tokens().iter().try_fold(document, |value, token| match value {
        Value::Object(members) => members.get_mut(token),
        Value::Array(items) => items.get_mut(crate::path::index(token)?),
        _ => None,
    })
}

/// A value may not make the document deeper than a plan can be.
fn fits(path: &Pointer, value: &Value) -> Result<(), Error> {
    if path.tokens().len() + crate::size::of(value).depth <= MAX_DEPTH {
        return Ok(());
    }
    Err(Error::new(codes::TOO_DEEP, "the document is nested too deeply").at(path.to_string()))
}

fn add(document: &mut Value, path: &Pointer, value: Value) -> Result<Vec<Change>, Error> {
    fits(path, &value)?;
    let Some((parent, last)) = path.split_last() else {
        let old = std::mem::replace(document, value);
        return Ok(vec![Change::new(Op::Replace, path.clone(), old)]);
    };
    let undo = match find_mut(document, &parent) {
        Some(Value::Object(members)) => match members.insert(last.to_owned(), value) {
            Some(old) => Change::new(Op::Replace, path.clone(), old),
            None => Change::new(Op::Remove, path.clone(), Value::Null),
        },
        Some(Value::Array(items)) => {
            let at = if last == "-" { Some(items.len()) } else { crate::path::index(last) };
            let at = at.filter(|at| *at <= items.len());
            let at = at.ok_or_else(|| misplaced(path, "there is no such place in the array"))?;
            items.insert(at, value);
            Change::new(Op::Remove, parent.join(&at.to_string()), Value::Null)
        }
        Some(_) => return Err(misplaced(path, "the parent holds nothing")),
        None => return Err(misplaced(path, "the parent is missing")),
    };
    Ok(vec![undo])
}

fn remove(document: &mut Value, path: &Pointer) -> Result<(Value, Change), Error> {
    let missing = || misplaced(path, "there is nothing to remove");
    let (parent, last) = path.split_last().ok_or_else(missing)?;
    let value = match find_mut(document, &parent).ok_or_else(missing)? {
        Value::Object(members) => members.remove(last),
        Value::Array(items) => {
            let at = crate::path::index(last).filter(|at| *at < items.len());
            at.map(|at| items.remove(at))
        }
        _ => None,
    };
    let value = value.ok_or_else(missing)?;
    Ok((value.clone(), Change::new(Op::Add, path.clone(), value)))
}

/// Adds, and makes the parents that are missing: an array where the next token is `-` or `0`.
fn upsert(document: &mut Value, path: &Pointer, value: Value) -> Result<Vec<Change>, Error> {
    fits(path, &value)?;
    let tokens = path.tokens();
    // The longest beginning of the path that is there.
    let there = (0..tokens.len()).take_while(|len| find(document, &path.first(*len)).is_some());
    let there = there.last().unwrap_or(0);
    let mut whole = value;
    for token in tokens.iter().skip(there + 1).rev() {
        whole = if token == "-" || token == "0" {
            Value::Array(vec![whole])
        } else {
            Value::Object(Map::from_iter([(token.clone(), whole)]))
        };
    }
    let top = path.first(tokens.len().min(there + 1));
    match (find(document, &top), top.split_last()) {
        // An existing array element is set, not pushed aside.
        (Some(_), Some((parent, _)))
            if matches!(find(document, &parent), Some(Value::Array(_))) =>
        {
            apply(document, &Change::new(Op::Replace, top, whole))
        }
        _ => add(document, &top, whole),
    }
}

/// Changes that make `from` equal to `to`. Arrays are compared element by element at the same place;
/// the ends are added or removed.
#[must_use]
pub fn diff(from: &Value, to: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut open = vec![(Pointer::default(), from, to)];
    while let Some((path, from, to)) = open.pop() {
        match (from, to) {
            (Value::Object(old), Value::Object(new)) => {
                for key in old.keys().filter(|key| !new.contains_key(*key)) {
                    changes.push(Change::new(Op::Remove, path.join(key), Value::Null));
                }
                for (key, value) in new {
                    match old.get(key) {
                        Some(before) => open.push((path.join(key), before, value)),
                        None => changes.push(Change::new(Op::Add, path.join(key), value.clone())),
                    }
                }
            }
            (Value::Array(old), Value::Array(new)) => {
                for at in (new.len()..old.len()).rev() {
                    let path = path.join(&at.to_string());
                    changes.push(Change::new(Op::Remove, path, Value::Null));
                }
                for (at, value) in new.iter().enumerate() {
                    match old.get(at) {
                        Some(before) => open.push((path.join(&at.to_string()), before, value)),
                        None => changes.push(Change::new(Op::Add, path.join("-"), value.clone())),
                    }
                }
            }
            _ if from != to => changes.push(Change::new(Op::Replace, path, to.clone())),
            _ => {}
        }
    }
    changes
}
