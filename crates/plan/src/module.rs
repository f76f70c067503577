//! Module names: what kind each is, where it points, and whether this product supports it at all.
//!
//! Nothing is loaded here. A name that can never work (a module of a server's own runtime, an
//! unknown scheme) is refused at once instead of failing later over the network.

use serde_json::{Map, Value};

use crate::codes;
use crate::error::Error;

/// Where packages come from unless a host says otherwise.
pub const DEFAULT_CDN: &str = "https://ga.jspm.io";
/// Longest module name; the longest real ones are addresses with a package, version and path.
pub const MAX_SPECIFIER_BYTES: usize = 2048;

/// Version of Preact that the aliases name.
const PREACT: &str = "preact@10.28.3";

/// Names with a pinned place: package and the file inside it.
const ALIASES: [(&str, &str, &str); 10] = [
    ("preact", PREACT, "dist/preact.module.js"),
    ("preact/hooks", PREACT, "hooks/dist/hooks.module.js"),
    ("preact/compat", PREACT, "compat/dist/compat.module.js"),
    ("preact/jsx-runtime", PREACT, "jsx-runtime/dist/jsxRuntime.module.js"),
    ("react", PREACT, "compat/dist/compat.module.js"),
    ("react-dom", PREACT, "compat/dist/compat.module.js"),
    ("react-dom/client", PREACT, "compat/dist/compat.module.js"),
    ("react/jsx-runtime", PREACT, "jsx-runtime/dist/jsxRuntime.module.js"),
    ("react/jsx-dev-runtime", PREACT, "jsx-runtime/dist/jsxRuntime.module.js"),
    ("recharts", "recharts@3.3.0", "es6/index.js"),
];

/// Modules of the Node.js runtime: none of them exists in a browser or in our engine.
#[rustfmt::skip]
const BUILTINS: [&str; 40] = [
    "assert", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram",
    "diagnostics_channel", "dns", "domain", "events", "fs", "http", "http2", "https", "inspector",
    "module", "net", "os", "path", "perf_hooks", "process", "punycode", "querystring", "readline",
    "repl", "stream", "string_decoder", "sys", "timers", "tls", "tty", "url", "util", "v8", "vm",
    "wasi", "worker_threads", "zlib",
];

/// How far a module is supported; `docs/reference/package-support-contract.md` is the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// A name of the alias table: pinned and tested.
    A,
    /// A package or an address of a pure browser module: best effort.
    B,
    /// A module of a server's runtime, an unknown scheme, no name at all: always an error.
    C,
}

/// The names of the alias table, with the addresses they stand for.
pub fn aliases() -> impl Iterator<Item = (&'static str, String)> {
    ALIASES.iter().map(|(name, package, file)| (*name, place(package, file)))
}

fn place(package: &str, file: &str) -> String {
    format!("{DEFAULT_CDN}/npm:{package}/{file}")
}

/// The address that a name of the alias table stands for; names are compared as they are.
///
/// ```
/// let url = glasshouse_plan::module::alias("react").expect("a row of the table");
/// assert_eq!(url, "https://ga.jspm.io/npm:preact@10.28.3/compat/dist/compat.module.js");
/// assert_eq!(glasshouse_plan::module::alias("react@18.2.0"), None);
/// ```
#[must_use]
pub fn alias(name: &str) -> Option<String> {
    let (_, package, file) = ALIASES.iter().find(|(alias, ..)| *alias == name)?;
    Some(place(package, file))
}

/// How far a module is supported.
#[must_use]
pub fn tier(specifier: &str) -> Tier {
    let name = specifier.trim();
    let package = name.strip_prefix("npm:").unwrap_or(name).trim();
    if alias(package).is_some() {
        return Tier::A;
    }
    let usable = is_address(name) || is_package_name(package) || name.starts_with('/');
    if !usable || is_builtin(name) || unknown_scheme(name).is_some() { Tier::C } else { Tier::B }
}

/// How names become addresses.
#[derive(Debug, Clone)]
pub struct Resolver {
    cdn: String,
    map: Map<String, Value>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(DEFAULT_CDN)
    }
}

impl Resolver {
    /// Takes packages from this place; a closing slash and a closing `/npm` are left out.
    #[must_use]
    pub fn new(cdn: &str) -> Self {
        let cdn = cdn.trim();
        let cdn = if cdn.is_empty() { DEFAULT_CDN } else { cdn };
        let cdn = cdn.strip_suffix('/').unwrap_or(cdn);
        Self { cdn: cdn.strip_suffix("/npm").unwrap_or(cdn).to_owned(), map: Map::new() }
    }

    /// Takes these names from these addresses before anything else.
    #[must_use]
    pub fn with_map(mut self, map: Map<String, Value>) -> Self {
        self.map = map;
        self
    }

    /// The address of a module.
    ///
    /// # Errors
    ///
    /// `plan_module_unsupported` for a blank name, a module of a server's runtime (also behind
    /// `npm:`), an unknown scheme, and a text that is no package name.
    ///
    /// ```
    /// use glasshouse_plan::module::Resolver;
    /// let resolver = Resolver::default();
    /// assert_eq!(resolver.resolve("npm:date-fns@3.6.0/format")?,
    ///            "https://ga.jspm.io/npm:date-fns@3.6.0/format");
    /// assert_eq!(resolver.resolve("node:fs").unwrap_err().code(), "plan_module_unsupported");
    /// # Ok::<(), glasshouse_plan::Error>(())
    /// ```
    pub fn resolve(&self, specifier: &str) -> Result<String, Error> {
        let name = specifier.trim();
        if name.is_empty() || name.len() > MAX_SPECIFIER_BYTES {
            return Err(unsupported(name, "a module has a name of 1 to 2,048 bytes"));
        }
        if let Some(mapped) = self.map.get(name).and_then(Value::as_str)
            && !mapped.is_empty()
        {
            return Ok(mapped.to_owned());
        }
        if is_address(name) {
            return Ok(name.to_owned());
        }
        if is_builtin(name) {
            return Err(unsupported(name, "it belongs to the Node.js runtime"));
        }
        if let Some(scheme) = unknown_scheme(name) {
            return Err(unsupported(name, &format!("the scheme {scheme:?} is not supported")));
        }
        let package = name.strip_prefix("npm:").map(str::trim);
        match package {
            Some("") => Err(unsupported(name, "a package has a name")),
            Some(package) => Ok(self.package(package)),
            None if is_package_name(name) => Ok(self.package(name)),
            None => Err(unsupported(name, "it is no package name and no address")),
        }
    }

    fn package(&self, name: &str) -> String {
        alias(name).unwrap_or_else(|| format!("{}/npm:{name}", self.cdn))
    }
}

/// The address that a module at `base` means by a reference, as browsers read it; `None` for a name of a
/// package, and for a step that is written in disguise.
///
/// ```
/// use glasshouse_plan::module::join;
/// let base = "https://a.example/lib/x/index.js?v=1";
/// assert_eq!(join(base, "./y.js").as_deref(), Some("https://a.example/lib/x/y.js"));
/// assert_eq!(join(base, "../../../z.js#a").as_deref(), Some("https://a.example/z.js"));
/// assert_eq!(join(base, "//b.example/z.js").as_deref(), Some("https://b.example/z.js"));
/// assert_eq!(join(base, "lodash-es"), None);
/// ```
#[must_use]
pub fn join(base: &str, reference: &str) -> Option<String> {
    let reference = reference.trim().split('#').next().unwrap_or_default();
    if is_address(reference) {
        return Some(reference.to_owned());
    }
    if !is_address(base) {
        return None;
    }
    let (scheme, rest) = base.split_once("://")?;
    if let Some(rest) = reference.strip_prefix("//") {
        let address = format!("{scheme}://{rest}");
        return is_address(&address).then_some(address);
    }
    let relative = ["./", "../", "/"].iter().any(|start| reference.starts_with(start));
    let coded = reference.to_ascii_lowercase();
    if !relative || coded.contains("%2e") || coded.contains("%2f") || reference.contains('\\') {
        return None;
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (reference, query) = match reference.split_once('?') {
        Some((reference, query)) => (reference, format!("?{query}")),
        None => (reference, String::new()),
    };
    let mut parts: Vec<&str> = Vec::new();
    if !reference.starts_with('/') {
        parts.extend(path.split('/'));
        parts.pop();
    }
    let mut last = "";
    for part in reference.trim_start_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
        last = part;
    }
    if matches!(last, "." | "..") {
        parts.push("");
    }
    Some(format!("{scheme}://{authority}/{}{query}", parts.join("/")))
}

/// Packages that must be in a page once, whatever brings them.
const RUNTIMES: [(&str, &str); 3] =
    [("preact", "preact"), ("react", "react"), ("react-dom", "react")];

/// The runtime for components, and its version, that an address belongs to. Copies that differ in either
/// do not know each other's components.
///
/// ```
/// use glasshouse_plan::module::runtime_of;
/// let of = |address| runtime_of(address);
/// assert_eq!(of("https://ga.jspm.io/npm:preact@10.28.3/dist/preact.module.js"),
///            Some(("preact", "10.28.3".to_owned())));
/// assert_eq!(of("https://esm.sh/v135/react-dom@19.2.2/es2022/client.mjs"), Some(("react", "19.2.2".to_owned())));
/// assert_eq!(of("https://ga.jspm.io/npm%3Apreact%409.0.0/x.js"), Some(("preact", "9.0.0".to_owned())));
/// assert_eq!(of("https://esm.sh/preact-iso@2.0.0"), None);
/// ```
#[must_use]
pub fn runtime_of(address: &str) -> Option<(&'static str, String)> {
    // A host reads a path with its signs written out, so `npm%3A` is `npm:` to it.
    let path = written_out(address.split_once("://")?.1.split(['?', '#']).next()?);
    path.split('/').skip(1).find_map(|part| {
        let part = part.strip_prefix("npm:").unwrap_or(part).trim_start_matches(['*', '~']);
        let (name, version) = part.split_once('@')?;
        let (_, family) = RUNTIMES.iter().find(|(package, _)| *package == name)?;
        Some((*family, version.to_owned()))
    })
}

/// A path without `%XX`.
fn written_out(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let sign = digits.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok());
        bytes.push(sign.unwrap_or(*first));
        rest = if sign.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The places of a package at hosts that may be asked when the first one does not answer. Each host
/// has its own way of writing them.
///
/// ```
/// use glasshouse_plan::module::at_host;
/// let place = "https://ga.jspm.io/npm:lodash-es@4.17.21/add.js";
/// assert_eq!(at_host(place, "https://unpkg.com").as_deref(),
///            Some("https://unpkg.com/lodash-es@4.17.21/add.js?module"));
/// assert_eq!(at_host("https://a.example/x.js", "https://unpkg.com"), None);
/// ```
#[must_use]
pub fn at_host(address: &str, host: &str) -> Option<String> {
    let (_, package) = address.split_once("/npm:")?;
    let host = host.strip_suffix('/').unwrap_or(host);
    let name = host.split_once("://")?.1.split('/').next()?;
    Some(match name {
        "esm.sh" => format!(
            "{host}/{package}?alias=react:preact/compat,react-dom:preact/compat&target=es2022"
        ),
        "cdn.jsdelivr.net" => format!("{host}/npm/{package}"),
        "unpkg.com" => format!("{host}/{package}?module"),
        _ => format!("{host}/npm:{package}"),
    })
}

fn unsupported(name: &str, why: &str) -> Error {
    let name: String = name.chars().take(128).collect();
    Error::new(codes::MODULE_UNSUPPORTED, format!("the module {name:?} is not supported")).why(why)
}

/// Whether a name is an absolute `http` or `https` address with a host.
pub(crate) fn is_address(name: &str) -> bool {
    let lower = name.get(..8).unwrap_or(name).to_ascii_lowercase();
    let rest = ["https://", "http://"].iter().find(|prefix| lower.starts_with(**prefix));
    rest.is_some_and(|prefix| {
        let authority = &name[prefix.len()..];
        !authority.is_empty() && !authority.starts_with(['/', '?', '#', ':']) && !name.contains(' ')
    })
}

/// Whether a specifier names a package, not a place: what needs a manifest entry. `npm:x` counts,
/// and so does every other scheme, because none of them is a place a plan may name.
pub(crate) fn is_bare(specifier: &str) -> bool {
    !is_own_source(specifier)
        && !["./", "../", "/", "http://", "https://", "data:", "blob:"]
            .iter()
            .any(|prefix| specifier.starts_with(prefix))
}

/// Whether a specifier names the plan's own source.
pub(crate) fn is_own_source(specifier: &str) -> bool {
    let name = specifier.trim().to_ascii_lowercase();
    name == "this-plan-source" || name.starts_with("inline://")
}

/// Whether a name, also behind `npm:` or with a version and a path, is one of Node.js's own.
pub(crate) fn is_builtin(name: &str) -> bool {
    if let Some(rest) = name.strip_prefix("node:") {
        return !rest.starts_with('/') && !rest.is_empty();
    }
    let name = name.strip_prefix("npm:").unwrap_or(name);
    let top = name.split('/').next().unwrap_or_default();
    // A scope begins with the sign that separates a version elsewhere.
    let top = top.split('@').next().unwrap_or_default();
    BUILTINS.contains(&top)
}

fn unknown_scheme(name: &str) -> Option<&str> {
    let (scheme, _) = name.split_once(':')?;
    let letter = scheme.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let plain = scheme
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    let known = ["http", "https", "npm"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    (letter && plain && !known).then_some(scheme)
}

/// Whether a text is a package name, perhaps with a scope, a version and a path.
pub(crate) fn is_package_name(name: &str) -> bool {
    let start =
        name.bytes().next().is_some_and(|byte| byte == b'@' || byte.is_ascii_alphanumeric());
    start
        && name.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'.' | b'_' | b'/' | b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(specifier: &str, want: &str) {
        let got = Resolver::default().resolve(specifier);
        let got = got.unwrap_or_else(|error| error.code().to_owned());
        assert_eq!(got, want, "{specifier:?}");
    }

    #[test]
    fn names_become_addresses() {
        check("lodash-es", "https://ga.jspm.io/npm:lodash-es");
        check("lodash-es@4.17.21/add.js", "https://ga.jspm.io/npm:lodash-es@4.17.21/add.js");
        check("@scope/name@1.0.0/x", "https://ga.jspm.io/npm:@scope/name@1.0.0/x");
        check("npm:@scope/name", "https://ga.jspm.io/npm:@scope/name");
        check(" HTTPS://x.example/a.js ", "HTTPS://x.example/a.js");
        check("http://x.example", "http://x.example");
        check("react@18.2.0", "https://ga.jspm.io/npm:react@18.2.0");
        check("preact/jsx-dev-runtime", "https://ga.jspm.io/npm:preact/jsx-dev-runtime");
        check("eventsource", "https://ga.jspm.io/npm:eventsource");
        check("@x/fs", "https://ga.jspm.io/npm:@x/fs");
    }

    #[test]
    fn what_cannot_work_fails_at_once() {
        for name in [
            "",
            "  ",
            "npm:",
            "fs",
            "fs/promises",
            "events@3",
            "npm:path",
            "npm:fs/promises",
            "node:fs",
            "node:anything",
            "file:///x",
            "jsr:@std/x",
            "data:text/javascript,1",
            "blob:x",
            "deno:x",
            "./x",
            "../x",
            "/x",
            "a b",
            "-x",
            "é",
        ] {
            check(name, "plan_module_unsupported");
        }
    }

    #[test]
    fn every_alias_is_tier_a_and_resolves_to_its_place() {
        for (name, address) in aliases() {
            assert_eq!(tier(name), Tier::A);
            assert_eq!(tier(&format!("npm:{name}")), Tier::A);
            check(name, &address);
            check(&format!("npm:{name}"), &address);
        }
        for (name, want) in [
            ("lodash-es", Tier::B),
            ("https://x.example/a.js", Tier::B),
            ("fs", Tier::C),
            ("jsr:@std/x", Tier::C),
            ("", Tier::C),
        ] {
            assert_eq!(tier(name), want, "{name}");
        }
    }
}
