//! What was made of sources, by what it was made from.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{Context, SHA256};

use crate::compile::{COMPILER, Source};
use crate::graph::Found;

/// Most values that are kept.
const MAX_KEPT: usize = 256;

/// Digest of everything that a module depends on.
pub(crate) type Key = [u8; 32];

/// Values by their key; what was used longest ago goes first. Faults are not kept: they are told once,
/// and found again in less time than a model needs to mend them.
#[derive(Debug)]
pub(crate) struct Kept<T>(Mutex<Values<T>>);

#[derive(Debug)]
struct Values<T> {
    values: HashMap<Key, (u64, Arc<T>)>,
    /// Counts uses.
    uses: u64,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(Values { values: HashMap::new(), uses: 0 }))
    }
}

impl<T> Kept<T> {
    pub(crate) fn known(&self, key: &Key) -> Option<Arc<T>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let now = kept.uses;
        let (used, value) = kept.values.get_mut(key)?;
        *used = now;
        Some(Arc::clone(value))
    }

    pub(crate) fn keep(&self, key: Key, value: &Arc<T>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.values.len() >= MAX_KEPT {
            let oldest = kept.values.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                kept.values.remove(&key);
            }
        }
        kept.uses += 1;
        let now = kept.uses;
        kept.values.insert(key, (now, Arc::clone(value)));
    }
}

/// The key of a source.
pub(crate) fn key(source: &Source<'_>) -> Key {
    let mut context = Context::new(&SHA256);
    let mut part = |text: &str| {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    };
    part(COMPILER);
    part(source.language.as_str());
    part(source.runtime.as_str());
    part(source.code);
    for (name, address) in source.manifest {
        part(name);
        part(address);
    }
    let mut key = [0; 32];
    key.copy_from_slice(context.finish().as_ref());
    key
}

/// The key of a module of others.
pub(crate) fn module_key(found: &Found, manifest: &BTreeMap<String, String>) -> Key {
    let mut context = Context::new(&SHA256);
    let mut part = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    part(COMPILER.as_bytes());
    part(b"module");
    part(found.kind.as_str().as_bytes());
    part(found.address.as_bytes());
    part(&found.bytes);
    for (name, address) in manifest {
        part(name.as_bytes());
        part(address.as_bytes());
    }
    let mut key = [0; 32];
    key.copy_from_slice(context.finish().as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Language, Runtime};

    #[test]
    fn a_key_differs_when_anything_does() {
        let empty = BTreeMap::new();
        let pinned = BTreeMap::from([("x".to_owned(), "y".to_owned())]);
        let of =
            |code, language, runtime, manifest| key(&Source { code, language, runtime, manifest });
        let keys = [
            of("a", Language::Js, Runtime::Preact, &empty),
            of("b", Language::Js, Runtime::Preact, &empty),
            of("a", Language::Ts, Runtime::Preact, &empty),
            of("a", Language::Js, Runtime::Renderify, &empty),
            of("a", Language::Js, Runtime::Preact, &pinned),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(at));
        }
        assert_eq!(keys[0], of("a", Language::Js, Runtime::Preact, &empty));
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let kept = Kept::default();
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            key
        };
        for number in 0..MAX_KEPT {
            kept.keep(key(number), &Arc::new(number));
        }
        assert_eq!(kept.known(&key(0)).as_deref(), Some(&0));
        kept.keep(key(MAX_KEPT), &Arc::new(MAX_KEPT));
        for (number, known) in [(0, true), (1, false), (2, true), (MAX_KEPT, true)] {
            assert_eq!(kept.known(&key(number)).is_some(), known, "{number}");
        }
    }
}
