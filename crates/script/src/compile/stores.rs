//! Storage of browsers, kept in memory: a source that was granted it finds what its name stands for, and
//! whatever it keeps there is gone when the run ends.

use serde::{Deserialize, Serialize};

use crate::vendor::STORAGE;

/// Names of storage, as plans ask for them and code finds them.
const NAMES: [&str; 2] = ["localStorage", "sessionStorage"];

/// Storage that a source may use.
///
/// ```
/// use glasshouse_script::Stores;
/// let stores = Stores::of(["localStorage", "indexedDB"]);
/// assert!(stores.has("localStorage"));
/// assert!(!stores.has("sessionStorage") && !stores.has("indexedDB"));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stores([bool; NAMES.len()]);

impl Stores {
    /// None at all.
    pub(super) const NONE: Self = Self([false; NAMES.len()]);

    /// Those of a list of names; names of anything else are left out.
    pub fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut stores = Self::default();
        names.into_iter().for_each(|name| stores.add(name));
        stores
    }

    /// Whether a name is one of them.
    #[must_use]
    pub fn has(self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    pub(super) fn add(&mut self, name: &str) {
        if let Some(at) = NAMES.iter().position(|known| *known == name) {
            self.0[at] = true;
        }
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().zip(self.0).filter_map(|(name, is_there)| is_there.then_some(name))
    }

    /// The import that defines them in a module; nothing when there are none.
    pub(super) fn import(self) -> Option<String> {
        let names: Vec<&str> = self.names().collect();
        (!names.is_empty())
            .then(|| format!("import {{ {} }} from \"{STORAGE}\";\n", names.join(", ")))
    }
}
