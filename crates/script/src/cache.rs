//! Compiled modules by what they were made from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{Context, SHA256};

use crate::compile::{Faults, Module, Source, compile};

/// Most modules that are kept.
const MAX_MODULES: usize = 256;

/// Compiles, and remembers what it compiled. Faults are not kept: they are told once, and found
/// again in less time than a model needs to mend them.
#[derive(Debug, Default)]
pub struct Compiler {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    modules: HashMap<[u8; 32], (u64, Arc<Module>)>,
    /// Counts uses; what was used longest ago goes first.
    uses: u64,
}

impl Compiler {
    /// The module of a source.
    ///
    /// # Errors
    /// Those of [`compile`].
    pub fn compile(&self, source: &Source<'_>) -> Result<Arc<Module>, Faults> {
        let key = key(source);
        if let Some(module) = self.known(&key) {
            return Ok(module);
        }
        let module = Arc::new(compile(source)?);
        self.keep(key, &module);
        Ok(module)
    }

    fn known(&self, key: &[u8; 32]) -> Option<Arc<Module>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let now = kept.uses;
        let (used, module) = kept.modules.get_mut(key)?;
        *used = now;
        Some(Arc::clone(module))
    }

    fn keep(&self, key: [u8; 32], module: &Arc<Module>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.modules.len() >= MAX_MODULES {
            let oldest = kept.modules.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                kept.modules.remove(&key);
            }
        }
        let now = kept.uses;
        kept.modules.insert(key, (now, Arc::clone(module)));
    }
}

/// Everything that the result depends on.
fn key(source: &Source<'_>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    let mut part = |text: &str| {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::compile::{Language, Runtime};

    #[test]
    fn the_same_source_is_compiled_once_and_another_is_another() {
        let compiler = Compiler::default();
        let empty = BTreeMap::new();
        let pinned =
            BTreeMap::from([("x".to_owned(), "https://ga.jspm.io/npm:x@1.0.0".to_owned())]);
        let of = |code, language, manifest| {
            let source = Source { code, language, runtime: Runtime::Preact, manifest };
            compiler.compile(&source).unwrap()
        };
        let first = of("import a from 'x'; export default a", Language::Js, &empty);
        let again = of("import a from 'x'; export default a", Language::Js, &empty);
        assert!(Arc::ptr_eq(&first, &again));
        for (language, manifest) in [(Language::Ts, &empty), (Language::Js, &pinned)] {
            let other = of("import a from 'x'; export default a", language, manifest);
            assert_ne!(other.digest, first.digest);
        }
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let compiler = Compiler::default();
        let manifest = BTreeMap::new();
        let of = |number: usize| {
            let code = format!("export default {number}");
            let source = Source {
                code: &code,
                language: Language::Js,
                runtime: Runtime::Renderify,
                manifest: &manifest,
            };
            compiler.compile(&source).unwrap()
        };
        let kept = of(0);
        let lost = of(1);
        for number in 2..MAX_MODULES {
            of(number);
        }
        of(0);
        of(MAX_MODULES);
        assert!(Arc::ptr_eq(&kept, &of(0)));
        assert!(!Arc::ptr_eq(&lost, &of(1)));
    }
}
