//! Modules that the program carries: Preact as the alias table of plans pins it, what renders it,
//! and our own few lines around both.
//!
//! Each has the address that an import of it is rewritten to, so that a plan whose manifest names
//! the same address gets the same bytes without any network.

/// A module with its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried {
    /// Where it comes from; ours have a scheme of their own, which no plan can write.
    pub(crate) address: &'static str,
    /// Its text.
    pub(crate) text: &'static str,
    /// Addresses of what it imports.
    imports: &'static [&'static str],
    /// SHA-256 of the text, for what is not ours.
    #[cfg(test)]
    pub(crate) sha256: Option<&'static str>,
}

/// What addresses of our own modules begin with.
pub(crate) const SCHEME: &str = "glasshouse:";
/// The functions that markup of plans' own nodes calls.
pub(crate) const NODES: &str = "glasshouse:renderify/jsx-runtime";
/// Sets the engine up.
pub(crate) const START: &str = "glasshouse:start";
/// The storage that code of browsers expects, in memory.
pub(crate) const STORAGE: &str = "glasshouse:storage";
/// Renders what a source with Preact exports.
pub(crate) const PREACT: &str = "glasshouse:preact";
/// Shows in a page what a source with Preact exports.
pub(crate) const MOUNT: &str = "glasshouse:mount";
const RENDER: &str = "https://ga.jspm.io/npm:preact-render-to-string@6.6.7/dist/index.module.js";

/// Preact itself.
pub(crate) const CORE: &str = "https://ga.jspm.io/npm:preact@10.28.3/dist/preact.module.js";
const HOOKS: &str = "https://ga.jspm.io/npm:preact@10.28.3/hooks/dist/hooks.module.js";

macro_rules! preact {
    ($file:literal, $at:literal, $digest:literal, $imports:expr) => {
        Carried {
            address: concat!("https://ga.jspm.io/npm:preact@10.28.3/", $at, $file),
            text: include_str!(concat!("../vendor/preact/", $file)),
            imports: $imports,
            #[cfg(test)]
            sha256: Some($digest),
        }
    };
}

const CARRIED: [Carried; 10] = [
    preact!(
        "preact.module.js",
        "dist/",
        "d7c6f46c783f60680e3027fe06251dcfb1075e3e492d69e8bf103b89c7ea8860",
        &[]
    ),
    preact!(
        "hooks.module.js",
        "hooks/dist/",
        "9295b344df14b5395a612fed63350619d029e91cc2e80e9a2a5f920e38b88972",
        &[CORE]
    ),
    preact!(
        "compat.module.js",
        "compat/dist/",
        "9a9bdffa914d8bb8b69aa23fc36779bd1a4c2235fbcbb0afa20a7cb0f37e775f",
        &[CORE, HOOKS]
    ),
    preact!(
        "jsxRuntime.module.js",
        "jsx-runtime/dist/",
        "43af8eff4027c4d275700d867a65943353e8003dae2681c1632c4a12012db3f3",
        &[CORE]
    ),
    Carried {
        address: RENDER,
        text: include_str!("../vendor/preact-render-to-string/index.module.js"),
        imports: &[CORE],
        #[cfg(test)]
        sha256: Some("cc3bafff07a5da6e2fdd147e15e7a1bb64e742daebb382e846b2a190a867e1c2"),
    },
    Carried {
        address: NODES,
        text: include_str!("../js/nodes.js"),
        imports: &[],
        #[cfg(test)]
        sha256: None,
    },
    Carried {
        address: START,
        text: include_str!("../js/start.js"),
        imports: &[],
        #[cfg(test)]
        sha256: None,
    },
    Carried {
        address: STORAGE,
        text: include_str!("../js/storage.js"),
        imports: &[],
        #[cfg(test)]
        sha256: None,
    },
    Carried {
        address: PREACT,
        text: include_str!("../js/preact.js"),
        imports: &[CORE, RENDER],
        #[cfg(test)]
        sha256: None,
    },
    Carried {
        address: MOUNT,
        text: include_str!("../js/mount.js"),
        imports: &[CORE],
        #[cfg(test)]
        sha256: None,
    },
];

/// The module at an address.
pub(crate) fn carried(address: &str) -> Option<&'static Carried> {
    CARRIED.iter().find(|carried| carried.address == address)
}

/// Whether the program carries the module at an address, so that no network and no lock is needed for it.
#[must_use]
pub fn is_carried(address: &str) -> bool {
    carried(address).is_some() && !is_inner(address)
}

/// Whether a module is of use to the program only, so that no source can import it.
pub(crate) fn is_inner(address: &str) -> bool {
    [START, PREACT, MOUNT].contains(&address)
}

/// Modules with all that they import, each once.
pub(crate) fn closure(wanted: &[&'static str]) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    let mut open = wanted.to_vec();
    while let Some(address) = open.pop() {
        if !found.contains(&address) {
            found.push(address);
            open.extend(carried(address).into_iter().flat_map(|carried| carried.imports));
        }
    }
    found
}

/// Every address.
#[cfg(test)]
pub(crate) fn addresses() -> impl Iterator<Item = &'static str> {
    CARRIED.iter().map(|carried| carried.address)
}

/// The address of a name that is not in the alias table of plans and that the program carries.
pub(crate) fn own_address(specifier: &str) -> Option<&'static str> {
    match specifier {
        "renderify/jsx-runtime" => Some(NODES),
        "preact-render-to-string" => Some(RENDER),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use glasshouse_model::Digest;

    use super::*;

    #[test]
    fn what_is_not_ours_is_as_it_was_published() {
        for Carried { address, text, sha256, .. } in CARRIED {
            let Some(want) = sha256 else { continue };
            let got = Digest::of(text.as_bytes()).to_string();
            assert_eq!(got, format!("sha256:{want}"), "{address}");
        }
    }

    #[test]
    fn what_each_imports_is_what_the_table_says() {
        for Carried { address, imports, .. } in CARRIED {
            let module = crate::compile::carried(address).unwrap();
            let found: Vec<&str> = module.imports.iter().map(String::as_str).collect();
            assert_eq!(found, imports, "{address}");
        }
    }

    #[test]
    fn every_alias_of_preact_is_carried() {
        for (name, address) in glasshouse_plan::module::aliases() {
            // A chart library is loaded, not carried.
            assert_eq!(carried(&address).is_some(), name != "recharts", "{name}");
        }
    }
}
