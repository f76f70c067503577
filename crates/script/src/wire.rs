//! What crosses between the owner and the engine's process: one order in, one reply out.
//!
//! A text comes first, as JSON; modules follow as bytes. Lengths are checked against what is there,
//! because a reply comes from a process that ran foreign code.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compile::{Faults, Kind, Language, Module, Runtime, Stores};

/// A module's address and its bytecode.
pub(crate) type Bytecode = (String, Vec<u8>);

/// What the engine's process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Compile what the program carries and answer its bytecode.
    Carry { addresses: Vec<String> },
    /// Compile a source and answer the module and its bytecode.
    Compile {
        code: String,
        language: Language,
        runtime: Runtime,
        manifest: BTreeMap<String, String>,
        stores: Stores,
    },
    /// Compile a module of others, whose bytes follow, and answer the module and its bytecode.
    Module { address: String, kind: Kind, manifest: BTreeMap<String, String> },
    /// Write modules, as they were compiled, as bodies of functions.
    Bodies { codes: Vec<String> },
    /// Run the module at [`SOURCE`](super::engine::SOURCE); the modules that follow are all there are.
    Run(Box<Work>),
}

/// One run of a module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) runtime: Runtime,
    pub(crate) export: String,
    /// Whether the default is run where that export is not there.
    pub(crate) or_default: bool,
    pub(crate) makes: Makes,
    pub(crate) input: Value,
    pub(crate) now_ms: i64,
    pub(crate) seed: u32,
    pub(crate) time_ms: u64,
    pub(crate) memory_bytes: usize,
    pub(crate) jobs: u64,
    pub(crate) output_bytes: usize,
}

/// What code is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Makes {
    /// A node of a plan.
    Node,
    /// Any JSON value, as the code of a plugin or of a policy answers.
    Data,
}

/// What came of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Modules follow.
    Carried,
    /// The module; its bytecode follows.
    Compiled(Module),
    /// What is wrong with the source.
    Faulty(Faults),
    /// Bodies of functions, in the order of the modules.
    Bodies(Vec<String>),
    /// What the code made, and whether its default did because the export that was asked for is not
    /// there.
    Made(Value, bool),
    /// Why it made nothing.
    Failed(Failed),
}

/// Why code made nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failed {
    /// It threw, or never came to an end by itself: what was said, and the line and byte of the module where.
    Threw(String, Option<(u32, u32)>),
    /// It threw what the engine throws when memory is refused. Code can throw the same; whether
    /// memory was used up is for who measured it to say.
    MaybeMemory(String, Option<(u32, u32)>),
    /// It has no such export.
    NoExport(String),
    /// What it made is no part of a plan.
    NoNode(String),
    /// It reached a limit of the engine.
    Limit(Limit),
    /// The engine does not take what the compiler made.
    Refused(String),
}

/// A limit that code reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Time.
    Time,
    /// Memory.
    Memory,
    /// Steps of promises.
    Jobs,
    /// Bytes of what it made.
    Output,
}

impl Limit {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Jobs => "jobs",
            Self::Output => "output",
        }
    }
}

/// Writes a text and modules.
pub(crate) fn encode<T: Serialize>(text: &T, modules: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut part = |part: &[u8]| {
        // A part is far below four gigabytes: sandboxes hold less.
        let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(part);
    };
    // Our own types have names as keys and no maps that could fail.
    part(&serde_json::to_vec(text).unwrap_or_default());
    for (address, code) in modules {
        part(address.as_bytes());
        part(code);
    }
    bytes
}

/// Reads what [`encode`] wrote; `None` for anything else.
pub(crate) fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<(T, Vec<Bytecode>)> {
    let mut rest = bytes;
    let mut part = || {
        let (len, more) = rest.split_first_chunk::<4>()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        let (part, more) = more.split_at_checked(len)?;
        rest = more;
        Some(part)
    };
    let text = serde_json::from_slice(part()?).ok()?;
    let mut modules = Vec::new();
    while let Some(address) = part() {
        modules.push((String::from_utf8(address.to_vec()).ok()?, part()?.to_vec()));
    }
    rest.is_empty().then_some((text, modules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let order = Order::Carry { addresses: vec!["a".to_owned()] };
        let bytes = encode(&order, &[("x", b"1"), ("", b"")]);
        let (read, modules) = decode::<Order>(&bytes).unwrap();
        assert!(matches!(read, Order::Carry { addresses } if addresses == ["a"]));
        assert_eq!(modules, [("x".to_owned(), b"1".to_vec()), (String::new(), Vec::new())]);
        for cut in 1..bytes.len() {
            // A cut between two modules is a shorter list; no cut is anything else.
            if let Some((_, fewer)) = decode::<Order>(&bytes[..cut]) {
                assert!(fewer.len() < modules.len());
            }
        }
        assert!(decode::<Order>(&[0xff; 64]).is_none());
        assert!(decode::<Order>(&[]).is_none());
    }
}
