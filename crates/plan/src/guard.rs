//! Guards: whether a JSON value has the form the RuntimePlan contract asks for.
//!
//! Each guard answers for one part and names the first place that is wrong. Guards look at form
//! only; what a profile allows is decided by [`check`](crate::check).

use crate::codes;
use crate::error::Error;
use crate::json::{Json, Kind, Members};
use crate::limits::MAX_NODES;
use crate::path;
use crate::suggest::nearest;
use crate::tree::Tree;

/// Lanes that `capabilities.executionProfile` may name.
pub const LANES: [&str; 5] =
    ["standard", "isolated-vm", "sandbox-worker", "sandbox-iframe", "sandbox-shadowrealm"];

/// Members of each object that has no others, for who looks for misspelt ones.
pub(crate) const PLAN: &[&str] = &[
    "specVersion",
    "id",
    "version",
    "root",
    "capabilities",
    "state",
    "imports",
    "moduleManifest",
    "source",
    "metadata",
    "ext",
];
pub(crate) const CAPABILITIES: &[&str] = &[
    "domWrite",
    "timers",
    "networkHosts",
    "allowedModules",
    "storage",
    "executionProfile",
    "maxImports",
    "maxComponentInvocations",
    "maxExecutionMs",
];
pub(crate) const STATE: &[&str] = &["initial", "transitions"];
pub(crate) const SOURCE: &[&str] = &["code", "language", "exportName", "runtime"];
pub(crate) const DESCRIPTOR: &[&str] = &["resolvedUrl", "integrity", "version", "signer", "type"];
pub(crate) const EVENT: &[&str] = &["type", "payload"];
pub(crate) const REFERENCE: &[&str] = &["$from"];

/// Members of an action of this type.
pub(crate) fn action_members(kind: &str) -> &'static [&'static str] {
    match kind {
        "increment" => &["type", "path", "by"],
        "toggle" => &["type", "path"],
        _ => &["type", "path", "value"],
    }
}

/// A member that has to be there and is not as it should be: when it is missing and another stands there that may be meant, that
/// one is named.
fn lacking(value: Json<'_>, known: &[&str], at: &str, key: &str, why: &str) -> Error {
    let misspelt = || {
        let mut others = value.as_object()?.map(|(name, _)| name);
        others.find(|name| !known.contains(name) && nearest(name, known) == Some(key))
    };
    let other = if value.get(key).is_none() { misspelt() } else { None };
    match other {
        Some(other) => {
            let other: String = other.chars().take(64).collect();
            let why = format!("{why}; {other:?} is no member: did you mean `{key}`?");
            flaw(&join(at, key), &why)
        }
        None => flaw(&join(at, key), why),
    }
}

/// Answer of a guard.
pub type Checked = Result<(), Error>;

pub(crate) fn flaw(pointer: &str, why: &str) -> Error {
    let place = if pointer.is_empty() { "the document" } else { pointer };
    Error::new(codes::SHAPE_INVALID, format!("{place} is not as a plan needs it"))
        .why(why)
        .at(pointer)
}

/// Appends one reference token to a JSON Pointer.
pub(crate) fn join(pointer: &str, token: &str) -> String {
    let escaped = token.replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{escaped}")
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn members<'a>(value: Json<'a>, pointer: &str) -> Result<Members<'a>, Error> {
    value.as_object().ok_or_else(|| flaw(pointer, "an object is expected"))
}

/// A member that is a text; one that has to be there comes with all that its object may have.
fn text_member(value: Json<'_>, pointer: &str, key: &str, required_of: Option<&[&str]>) -> Checked {
    const EXPECTED: &str = "a string that is not blank is expected";
    match (value.get(key), required_of) {
        (None, None) => Ok(()),
        (Some(member), _) if member.as_text().is_some_and(|text| !is_blank(text)) => Ok(()),
        (_, known) => Err(lacking(value, known.unwrap_or_default(), pointer, key, EXPECTED)),
    }
}

fn strings(value: Json<'_>, pointer: &str) -> Checked {
    let all = value.as_array().is_some_and(|mut items| items.all(|item| item.as_text().is_some()));
    if all { Ok(()) } else { Err(flaw(pointer, "an array of strings is expected")) }
}

/// A whole plan.
///
/// # Errors
///
/// `plan_shape_invalid` at the first member that is wrong, `plan_too_large` above the most nodes.
pub fn plan(value: Json<'_>) -> Checked {
    envelope(value)?;
    let root = value.get("root").ok_or_else(|| no_root(value))?;
    Tree::read(root, "/root", MAX_NODES).map(|_| ())
}

/// The flaw of a plan without a root.
pub(crate) fn no_root(value: Json<'_>) -> Error {
    lacking(value, PLAN, "", "root", "a node is expected")
}

/// The members of a plan besides its tree.
pub(crate) fn envelope(value: Json<'_>) -> Checked {
    members(value, "")?;
    text_member(value, "", "specVersion", None)?;
    text_member(value, "", "id", Some(PLAN))?;
    match value.get("version").map(Json::kind) {
        Some(Kind::Int(1..)) => {}
        _ => return Err(lacking(value, PLAN, "", "version", "a whole number from 1 is expected")),
    }
    for (key, member) in members(value, "")? {
        match key {
            "capabilities" => capabilities(member)?,
            "state" => state_model(member)?,
            "imports" => imports(member)?,
            "moduleManifest" => manifest(member)?,
            "source" => source(member)?,
            "metadata" => metadata(member)?,
            "ext" => extensions(member)?,
            _ => {}
        }
    }
    Ok(())
}

/// `imports`: modules that a plan loads.
///
/// # Errors
///
/// See [`capabilities`].
pub fn imports(value: Json<'_>) -> Checked {
    strings(value, "/imports")
}

/// `capabilities`: what a plan asks for.
///
/// # Errors
///
/// `plan_shape_invalid` at the first member that is wrong; so for every guard here.
pub fn capabilities(value: Json<'_>) -> Checked {
    const AT: &str = "/capabilities";
    for (key, member) in members(value, AT)? {
        let texts_are = |known: &[&str]| {
            let is = |item: Json<'_>| item.as_text().is_some_and(|text| known.contains(&text));
            member.as_array().is_some_and(|mut items| items.all(is))
        };
        let at_least = |least: f64| member.as_number().is_some_and(|number| number >= least);
        let (valid, expected) = match key {
            "domWrite" | "timers" => {
                (matches!(member.kind(), Kind::Bool(_)), "true or false is expected")
            }
            "networkHosts" | "allowedModules" => {
                strings(member, &join(AT, key))?;
                continue;
            }
            "storage" => (
                texts_are(&["localStorage", "sessionStorage"]),
                "localStorage or sessionStorage is expected",
            ),
            "executionProfile" => (
                member.as_text().is_some_and(|lane| LANES.contains(&lane)),
                "one of standard, isolated-vm, sandbox-worker, sandbox-iframe and sandbox-shadowrealm is expected",
            ),
            "maxImports" | "maxComponentInvocations" => {
                (at_least(0.0), "a number from 0 is expected")
            }
            "maxExecutionMs" => (at_least(1.0), "a number from 1 is expected"),
            _ => continue,
        };
        if !valid {
            return Err(flaw(&join(AT, key), expected));
        }
    }
    Ok(())
}

/// `state`: initial values and transitions.
///
/// # Errors
///
/// See [`capabilities`].
pub fn state_model(value: Json<'_>) -> Checked {
    members(value, "/state")?;
    if value.get("initial").and_then(Json::as_object).is_none() {
        return Err(lacking(value, STATE, "/state", "initial", "an object is expected"));
    }
    let Some(transitions) = value.get("transitions") else { return Ok(()) };
    for (event, actions) in members(transitions, "/state/transitions")? {
        let at = join("/state/transitions", event);
        if is_blank(event) {
            return Err(flaw(&at, "an event needs a name"));
        }
        let Some(actions) = actions.as_array() else {
            return Err(flaw(&at, "an array of actions is expected"));
        };
        for (index, action) in actions.enumerate() {
            action_at(action, &join(&at, &index.to_string()))?;
        }
    }
    Ok(())
}

/// One action of a transition: set, push, increment or toggle.
///
/// # Errors
///
/// See [`capabilities`].
pub fn action(value: Json<'_>) -> Checked {
    action_at(value, "")
}

fn action_at(value: Json<'_>, at: &str) -> Checked {
    members(value, at)?;
    let kind = value.get("type").and_then(Json::as_text);
    let known = action_members(kind.unwrap_or_default());
    text_member(value, at, "path", Some(known))?;
    match kind {
        Some("set" | "push") => {
            let Some(operand) = value.get("value") else {
                return Err(lacking(value, known, at, "value", "a value is expected"));
            };
            match operand.get("$from") {
                Some(from) if !from.as_text().is_some_and(path::is_template_path) => {
                    Err(flaw(&join(at, "value/$from"), "a path is expected"))
                }
                _ => Ok(()),
            }
        }
        Some("increment") => match value.get("by") {
            Some(by) if by.as_number().is_none() => {
                Err(flaw(&join(at, "by"), "a number is expected"))
            }
            _ => Ok(()),
        },
        Some("toggle") => Ok(()),
        _ => Err(lacking(value, known, at, "type", "set, push, increment or toggle is expected")),
    }
}

/// `moduleManifest`: where each module comes from.
///
/// # Errors
///
/// See [`capabilities`].
pub fn manifest(value: Json<'_>) -> Checked {
    for (name, entry) in members(value, "/moduleManifest")? {
        let at = join("/moduleManifest", name);
        if is_blank(name) {
            return Err(flaw(&at, "a module needs a name"));
        }
        descriptor_at(entry, &at)?;
    }
    Ok(())
}

/// One entry of `moduleManifest`.
///
/// # Errors
///
/// See [`capabilities`]; the pointer starts at the value.
pub fn descriptor(value: Json<'_>) -> Checked {
    descriptor_at(value, "")
}

fn descriptor_at(value: Json<'_>, at: &str) -> Checked {
    members(value, at)?;
    text_member(value, at, "resolvedUrl", Some(DESCRIPTOR))?;
    for key in ["integrity", "version", "signer"] {
        text_member(value, at, key, None)?;
    }
    Ok(())
}

/// An event: a name, and perhaps an object as payload.
///
/// # Errors
///
/// See [`capabilities`]; the pointer starts at the value.
pub fn event(value: Json<'_>) -> Checked {
    members(value, "")?;
    text_member(value, "", "type", Some(EVENT))?;
    value.get("payload").map_or(Ok(()), |payload| members(payload, "/payload").map(|_| ()))
}

/// A value of `$from`: an object that takes its value from a path.
///
/// # Errors
///
/// See [`capabilities`]; the pointer starts at the value.
pub fn reference(value: Json<'_>) -> Checked {
    match value.get("$from").and_then(Json::as_text) {
        Some(from) if path::is_template_path(from) => Ok(()),
        _ => Err(flaw("/$from", "a path is expected")),
    }
}

/// `source`: a module of code.
///
/// # Errors
///
/// See [`capabilities`].
pub fn source(value: Json<'_>) -> Checked {
    const AT: &str = "/source";
    members(value, AT)?;
    text_member(value, AT, "code", Some(SOURCE))?;
    text_member(value, AT, "exportName", None)?;
    if !matches!(value.get("language").and_then(Json::as_text), Some("js" | "jsx" | "ts" | "tsx")) {
        return Err(lacking(value, SOURCE, AT, "language", "js, jsx, ts or tsx is expected"));
    }
    match value.get("runtime").map(Json::as_text) {
        None | Some(Some("renderify" | "preact")) => Ok(()),
        _ => Err(flaw(
            "/source/runtime",
            "renderify or preact is expected; code for React runs as preact",
        )),
    }
}

/// A node with all its descendants.
///
/// # Errors
///
/// See [`capabilities`]; the pointer starts at the value.
pub fn node(value: Json<'_>) -> Checked {
    Tree::read(value, "", MAX_NODES).map(|_| ())
}

/// `metadata`: where a plan came from.
///
/// # Errors
///
/// See [`capabilities`].
pub fn metadata(value: Json<'_>) -> Checked {
    for (key, member) in members(value, "/metadata")? {
        match key {
            "sourcePrompt" | "sourceModel" if member.as_text().is_none() => {
                return Err(flaw(&join("/metadata", key), "a string is expected"));
            }
            "tags" => strings(member, "/metadata/tags")?,
            _ => {}
        }
    }
    Ok(())
}

fn extensions(value: Json<'_>) -> Checked {
    for (key, member) in members(value, "/ext")? {
        match key {
            "requires" | "uses" => strings(member, &join("/ext", key))?,
            "fallback" if member.as_text().is_none() => {
                return Err(flaw("/ext/fallback", "a string is expected"));
            }
            _ => {}
        }
    }
    Ok(())
}
