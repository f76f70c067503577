//! What was made of sources, by what it was made from.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use glasshouse_model::Digest;

use crate::compile::{COMPILER, Source};
use crate::graph::Found;

/// Most values that are kept.
const MAX_KEPT: usize = 256;
/// Most bytes of all together.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Values by the digest of everything that they depend on; what was used longest ago goes first. Faults
/// are not kept: they are told once, and found again in less time than a model needs to mend them.
#[derive(Debug)]
pub(crate) struct Kept<T>(Mutex<Values<T>>);

#[derive(Debug)]
struct Values<T> {
    values: HashMap<Digest, One<T>>,
    /// Bytes of all.
    bytes: usize,
    /// Counts uses.
    uses: u64,
}

#[derive(Debug)]
struct One<T> {
    value: Arc<T>,
    bytes: usize,
    /// When it was used last.
    used: u64,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(Values { values: HashMap::new(), bytes: 0, uses: 0 }))
    }
}

impl<T> Kept<T> {
    pub(crate) fn known(&self, key: &Digest) -> Option<Arc<T>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let now = kept.uses;
        let one = kept.values.get_mut(key)?;
        one.used = now;
        Some(Arc::clone(&one.value))
    }

    /// Keeps a value of so many bytes.
    pub(crate) fn keep(&self, key: Digest, value: &Arc<T>, bytes: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&key);
        while kept.values.len() >= MAX_KEPT || kept.bytes + bytes > MAX_KEPT_BYTES {
            let oldest = kept.values.iter().min_by_key(|(_, one)| one.used).map(|(key, _)| *key);
            let Some(oldest) = oldest else { return };
            kept.remove(&oldest);
        }
        kept.uses += 1;
        let used = kept.uses;
        kept.bytes += bytes;
        kept.values.insert(key, One { value: Arc::clone(value), bytes, used });
    }
}

impl<T> Values<T> {
    fn remove(&mut self, key: &Digest) {
        if let Some(one) = self.values.remove(key) {
            self.bytes -= one.bytes;
        }
    }
}

/// Digest of parts, each behind its length, so that no other parts have the same bytes.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let parts: Vec<([u8; 8], &[u8])> =
        parts.into_iter().map(|part| ((part.len() as u64).to_be_bytes(), part)).collect();
    let bytes: Vec<&[u8]> = parts.iter().flat_map(|(length, part)| [&length[..], *part]).collect();
    Digest::of_parts(&bytes)
}

/// The key of a source.
pub(crate) fn key(source: &Source<'_>) -> Digest {
    key_by(COMPILER, source)
}

/// What another compiler keeps the same source by.
fn key_by(compiler: &str, source: &Source<'_>) -> Digest {
    let Source { code, language, runtime, manifest, stores } = *source;
    let stores = stores.names().collect::<Vec<_>>().join(" ");
    let parts = [compiler, language.as_str(), runtime.as_str(), &stores, code];
    digest(parts.map(str::as_bytes).into_iter().chain(pairs(manifest)))
}

/// The key of a module of others.
pub(crate) fn module_key(found: &Found, manifest: &BTreeMap<String, String>) -> Digest {
    module_key_by(COMPILER, found, manifest)
}

/// What another compiler keeps the same module by.
fn module_key_by(compiler: &str, found: &Found, manifest: &BTreeMap<String, String>) -> Digest {
    let parts = [compiler, "module", found.kind.as_str(), found.address.as_str()];
    let parts = parts.map(str::as_bytes).into_iter().chain([&found.bytes[..]]);
    digest(parts.chain(pairs(manifest)))
}

fn pairs(manifest: &BTreeMap<String, String>) -> impl Iterator<Item = &[u8]> {
    manifest.iter().flat_map(|(name, address)| [name.as_bytes(), address.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Language, Runtime, Stores};

    #[test]
    fn a_key_differs_when_anything_does() {
        let empty = BTreeMap::new();
        let pinned = BTreeMap::from([("x".to_owned(), "y".to_owned())]);
        let stored = |code, language, runtime, manifest, stores| {
            key(&Source { code, language, runtime, manifest, stores })
        };
        let of = |code, language, runtime, manifest| {
            stored(code, language, runtime, manifest, Stores::default())
        };
        let named = BTreeMap::from([("localStorage".to_owned(), "sessionStorage".to_owned())]);
        let keys = [
            of("a", Language::Js, Runtime::Preact, &empty),
            of("b", Language::Js, Runtime::Preact, &empty),
            of("a", Language::Ts, Runtime::Preact, &empty),
            of("a", Language::Js, Runtime::Renderify, &empty),
            of("a", Language::Js, Runtime::Preact, &pinned),
            of("a", Language::Js, Runtime::Preact, &named),
            stored("a", Language::Js, Runtime::Preact, &empty, Stores::of(["localStorage"])),
            stored("a", Language::Js, Runtime::Preact, &empty, Stores::of(["sessionStorage"])),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(at));
        }
        assert_eq!(keys[0], of("a", Language::Js, Runtime::Preact, &empty));
    }

    /// The failure: everything that is kept was told apart by the compiler, and nothing noticed when it was not.
    #[test]
    fn d5_what_another_compiler_made_is_not_found() {
        let manifest = BTreeMap::new();
        let source = Source::new("export default 1", Language::Js, Runtime::Preact, &manifest);
        let found = Found {
            address: "https://x.example/a.js".to_owned(),
            kind: crate::Kind::Script,
            bytes: Arc::new(b"export default 1".to_vec()),
        };
        for (compiler, is_same) in [(COMPILER, true), ("oxc 0.147.0", false), ("", false)] {
            assert_eq!(key(&source) == key_by(compiler, &source), is_same, "{compiler}");
            let other = module_key_by(compiler, &found, &manifest);
            assert_eq!(module_key(&found, &manifest) == other, is_same, "{compiler}");
        }
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let kept = Kept::default();
        let key = |number: usize| Digest::of(&number.to_le_bytes());
        for number in 0..MAX_KEPT {
            kept.keep(key(number), &Arc::new(number), 1);
        }
        assert_eq!(kept.known(&key(0)).as_deref(), Some(&0));
        kept.keep(key(MAX_KEPT), &Arc::new(MAX_KEPT), 1);
        for (number, known) in [(0, true), (1, false), (2, true), (MAX_KEPT, true)] {
            assert_eq!(kept.known(&key(number)).is_some(), known, "{number}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let third = MAX_KEPT_BYTES / 3;
        let check = |sizes: &[usize], want: &[bool]| {
            let kept = Kept::default();
            let keys: Vec<Digest> =
                sizes.iter().enumerate().map(|(at, _)| Digest::of(&at.to_be_bytes())).collect();
            for (key, bytes) in keys.iter().zip(sizes) {
                kept.keep(*key, &Arc::new(()), *bytes);
                // The same once more takes no more room.
                kept.keep(*key, &Arc::new(()), *bytes);
            }
            let known: Vec<bool> = keys.iter().map(|key| kept.known(key).is_some()).collect();
            assert_eq!(known, want, "{sizes:?}");
        };
        check(&[third, third, third], &[true, true, true]);
        check(&[third, third, third, third], &[false, true, true, true]);
        check(&[third, third, MAX_KEPT_BYTES], &[false, false, true]);
        check(&[third, MAX_KEPT_BYTES + 1], &[false, false]);
    }
}
