//! A call as a person writes it: in a rule's examples, and on the command line.

use std::collections::BTreeSet;
use std::fmt;

use glasshouse_model::http::check_path;
use glasshouse_model::syscall::name;
use glasshouse_model::{
    Call, CanonicalPath, ChangeClass, Principal, PrincipalKind, State, TenantId, suggest,
    units::parse_size_bytes,
};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::codes;
use crate::error::{Error, Result};
use crate::network::host_of_call;
use crate::rule::{KNOWN_SYSCALLS, NoSyscall, check_syscall};
use crate::yaml::{Node, Reader, keys};

/// A call in short form; what is left out is absent, and the caller is a user unless said.
///
/// ```
/// use glasshouse_policy::CallSketch;
/// let call = CallSketch::from_json(r#"{"syscall":"fs.write","path":"./src//a","size":"2KiB"}"#)
///     .and_then(CallSketch::into_call)
///     .unwrap();
/// assert_eq!(call.path.unwrap().as_str(), "src/a");
/// assert_eq!(call.size_bytes, Some(2048));
/// assert!(CallSketch::from_json(r#"{"sycall":"fs.write"}"#).is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CallSketch {
    /// Syscall name.
    pub syscall: String,
    /// Workspace path; canonicalised by its text.
    #[serde(default)]
    pub path: Option<String>,
    /// Absolute path outside the workspace.
    #[serde(default)]
    pub host_path: Option<String>,
    /// Workflow state.
    #[serde(default, alias = "state")]
    pub state_machine_state: Option<String>,
    /// `user`, `agent`, `plugin` or `kernel`, with a name if wanted: `plugin:fs-tool`.
    #[serde(default)]
    pub caller: Option<String>,
    /// Tags of the caller.
    #[serde(default)]
    pub caller_tag: OneOrMany,
    /// Tenant; `local` unless said.
    #[serde(default)]
    pub tenant: Option<String>,
    /// Network host: a name, or an address in any of its notations.
    #[serde(default)]
    pub host: Option<String>,
    /// Port; that of HTTPS for a connection that names none.
    #[serde(default)]
    pub port: Option<u16>,
    /// HTTP method.
    #[serde(default)]
    pub method: Option<String>,
    /// Path of an HTTP request.
    #[serde(default)]
    pub http_path: Option<String>,
    /// Command and arguments; one text is cut at blanks.
    #[serde(default)]
    pub argv: OneOrMany,
    /// What a write changes: `test`, `source`, `mixed` or `ignored`.
    #[serde(default)]
    pub change: Option<ChangeClass>,
    /// Taint labels.
    #[serde(default)]
    pub label: OneOrMany,
    /// Size that would be written: bytes, or a text with a unit.
    #[serde(default)]
    pub size: Option<Size>,
    /// Sandbox that asks.
    #[serde(default)]
    pub sandbox: Option<String>,
}

/// One text or several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// Left out.
    #[default]
    None,
    /// One text.
    One(String),
    /// A list.
    Many(Vec<String>),
}

/// A size in bytes or as a text with a unit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// For example `100KiB`.
    Text(String),
}

/// A map of keys, and no list in their order.
impl<'de> Deserialize<'de> for CallSketch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(SketchVisitor)
    }
}

struct SketchVisitor;

impl<'de> Visitor<'de> for SketchVisitor {
    type Value = CallSketch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<CallSketch, A::Error> {
        CallSketch::deserialize(MapAccessDeserializer::new(map))
    }
}

impl OneOrMany {
    fn into_set(self) -> BTreeSet<String> {
        match self {
            Self::None => BTreeSet::new(),
            Self::One(text) => BTreeSet::from([text]),
            Self::Many(texts) => texts.into_iter().collect(),
        }
    }

    fn into_words(self) -> Option<Vec<String>> {
        match self {
            Self::None => None,
            Self::One(text) => Some(text.split_whitespace().map(str::to_owned).collect()),
            Self::Many(words) => Some(words),
        }
    }
}

impl CallSketch {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// `call_malformed` for a text that is no JSON object, an unknown key or a wrong type.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            let why = error.to_string();
            let is_deep = why.starts_with("recursion limit exceeded");
            let meant = unknown_key(&why).and_then(meant_key);
            let why = if is_deep { "it nests too deeply".to_owned() } else { why };
            let error = Error::new(codes::CALL_MALFORMED, "the call cannot be read").why(why);
            match meant {
                Some(word) => error.fix(format!("did you mean `{word}`?")).with("suggestion", word),
                None => error,
            }
        })
    }

    /// Refuses what there cannot be: a syscall or a workflow state that is misspelt. No rule speaks about it, so the
    /// answer would say nothing about what was meant.
    ///
    /// # Errors
    /// `call_malformed`, with the word that was probably meant.
    pub fn check_names(&self) -> Result<()> {
        self.check_syscall()?;
        self.check_state()
    }

    fn check_state(&self) -> Result<()> {
        let Some(text) = &self.state_machine_state else { return Ok(()) };
        let known: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        if known.contains(&text.as_str()) {
            return Ok(());
        }
        let what = format!("`{text}` of the call is no workflow state");
        let error = Error::new(codes::CALL_MALFORMED, what)
            .why(format!("expected one of {}", known.join(", ")));
        let meant = keys::habit(text).filter(|word| known.contains(word));
        Err(match meant.or_else(|| suggest::nearest(text, known.iter().copied())) {
            Some(word) => error.fix(format!("did you mean `{word}`?")).with("suggestion", word),
            None => error.fix(format!("write one of {}", known.join(", "))),
        })
    }

    /// Refuses a syscall that there cannot be: no rule speaks about a misspelt one, and the answer would be
    /// a denial that says nothing about what was meant.
    ///
    /// # Errors
    /// `call_malformed`, with the name that was probably meant.
    fn check_syscall(&self) -> Result<()> {
        check_syscall(&self.syscall).map_err(|NoSyscall { why, meant }| {
            let what = format!("`{}` of the call is no syscall", self.syscall);
            let error = Error::new(codes::CALL_MALFORMED, what).why(why);
            match meant {
                Some(word) => error.fix(format!("did you mean `{word}`?")).with("suggestion", word),
                None => error.fix(format!("use one of {}", KNOWN_SYSCALLS.join(", "))),
            }
        })
    }

    /// Makes the call.
    ///
    /// # Errors
    /// `call_malformed`, naming the value: a path that leaves the workspace, an unknown kind of
    /// caller, a tenant, size or host that can not be read, the path of a request that nobody sends.
    pub fn into_call(self) -> Result<Call> {
        let bad = |key: &str, why: &dyn std::fmt::Display| {
            Error::new(codes::CALL_MALFORMED, format!("`{key}` of the call cannot be read"))
                .why(why)
        };
        if self.syscall.is_empty() {
            return Err(bad("syscall", &"it is empty"));
        }
        let path = self
            .path
            .map(|text| CanonicalPath::parse(&text))
            .transpose()
            .map_err(|error| bad("path", &error))?;
        let tenant = match self.tenant {
            Some(text) => text.parse().map_err(|error| bad("tenant", &error))?,
            None => TenantId::local(),
        };
        let (kind, id) = caller_words(self.caller.as_deref().unwrap_or("user"))
            .map_err(|why| bad("caller", &why))?;
        let size_bytes = match self.size {
            None => None,
            Some(Size::Bytes(bytes)) => Some(bytes),
            Some(Size::Text(text)) => {
                Some(parse_size_bytes(&text).map_err(|error| bad("size", &error))?)
            }
        };
        let host = self.host.as_deref().map(host_of_call).transpose();
        let host = host.map_err(|why| bad("host", &why))?;
        if let Some(path) = &self.http_path {
            check_path(path).map_err(|why| bad("http_path", &why))?;
        }
        let mut caller = Principal::new(kind, id.unwrap_or("someone"), tenant);
        caller.tags = self.caller_tag.into_set();
        let mut call = Call::new(&self.syscall, caller);
        call.path = path;
        call.host_path = self.host_path;
        call.state = self.state_machine_state;
        call.host = host;
        call.port = self.port.or_else(|| (call.syscall == name::NET_CONNECT).then_some(443));
        call.method = self.method;
        call.http_path = self.http_path;
        call.argv = self.argv.into_words();
        call.labels = self.label.into_set();
        call.change = self.change;
        call.size_bytes = size_bytes;
        call.sandbox = self.sandbox;
        Ok(call)
    }
}

/// What the names of a call in a file have to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// A workflow state that there is. An example may show that a rule is silent about another name of a syscall.
    OfStates,
    /// A syscall that there is, too.
    All,
}

/// A call in a file, and what is wrong with its names. `what` is said of one that cannot be read.
pub(crate) fn read_call(
    reader: &Reader<'_>,
    node: &Node,
    what: &str,
    names: Names,
) -> Result<(Call, Result<()>)> {
    reader.map(node, "a call", CALL_KEYS)?;
    let at_place = |what: &str| reader.error(codes::BAD_VALUE, node, what.to_owned());
    let form = "write it as { syscall: fs.write, path: src/a }";
    let sketch = serde_json::from_value::<CallSketch>(node.to_json())
        .map_err(|error| at_place(what).why(error).fix(form))?;
    let checked = match names {
        Names::OfStates => sketch.check_state(),
        Names::All => sketch.check_names(),
    };
    let misspelt = checked.map_err(|error| {
        let report = error.report();
        let fault = at_place(&report.what).why(&report.why).fix(&report.fix);
        match report.context.get("suggestion") {
            Some(word) => fault.with("suggestion", word.clone()),
            None => fault,
        }
    });
    let call = sketch.into_call().map_err(|error| {
        let report = error.report();
        at_place(&format!("{what}: {}", report.what)).why(&report.why).fix(form)
    })?;
    Ok((call, misspelt))
}

/// Keys of a call in short form.
pub(crate) const CALL_KEYS: &[&str] = &[
    "syscall",
    "path",
    "host_path",
    "state",
    "state_machine_state",
    "caller",
    "caller_tag",
    "tenant",
    "host",
    "port",
    "method",
    "http_path",
    "argv",
    "change",
    "label",
    "size",
    "sandbox",
];

/// The key that the reader of JSON does not know.
fn unknown_key(why: &str) -> Option<&str> {
    why.strip_prefix("unknown field `")?.split('`').next()
}

/// The key of a call that was meant.
fn meant_key(key: &str) -> Option<&'static str> {
    keys::of_call(key).or_else(|| suggest::nearest(key, CALL_KEYS.iter().copied()))
}

/// Words for the kinds of principal, in the order of [`PrincipalKind`].
pub(crate) const CALLER_KINDS: [&str; 4] = ["user", "agent", "plugin", "kernel"];

/// The word for a kind of principal.
pub(crate) const fn caller_word(kind: PrincipalKind) -> &'static str {
    match kind {
        PrincipalKind::User => CALLER_KINDS[0],
        PrincipalKind::Agent => CALLER_KINDS[1],
        PrincipalKind::Plugin => CALLER_KINDS[2],
        PrincipalKind::Kernel => CALLER_KINDS[3],
    }
}

/// Splits `kind` or `kind:name`.
pub(crate) fn caller_words(
    text: &str,
) -> std::result::Result<(PrincipalKind, Option<&str>), String> {
    let (kind, id) = match text.split_once(':') {
        Some((kind, id)) => (kind, Some(id)),
        None => (text, None),
    };
    let kind = match kind {
        "user" => PrincipalKind::User,
        "agent" => PrincipalKind::Agent,
        "plugin" => PrincipalKind::Plugin,
        "kernel" => PrincipalKind::Kernel,
        _ => return Err(format!("`{kind}` is none of {}", CALLER_KINDS.join(", "))),
    };
    if id == Some("") {
        return Err(format!("`{text}` has an empty name after the colon"));
    }
    Ok((kind, id))
}
