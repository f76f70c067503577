//! Modules: imports, the manifest that says where they come from, and their integrity.

use std::collections::HashSet;

use super::refuse;
use crate::codes;
use crate::guard::join;
use crate::json::Json;
use crate::module;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::report::Report;
use crate::source::Scan;
use crate::tree::Node;

pub(super) fn check(plan: &Plan, profile: &Profile, scan: &Scan, report: &mut Report) {
    manifest_entries(plan, profile, report);
    let uses = Uses::of(plan, scan);
    if profile.require_module_manifest_for_bare_specifiers || profile.require_module_integrity {
        coverage(plan, profile, &uses, report);
    }
    for (specifier, at) in &uses.loaded {
        let at = || at.pointer();
        let place = plan.manifest_entry(specifier).unwrap_or(specifier);
        for fault in profile.specifier_faults(place) {
            report.refuse(codes::MODULE_DENIED, || (at(), fault.to_owned()));
        }
        let built_in = plan.manifest_entry(specifier).is_none() && module::is_builtin(specifier);
        if built_in {
            let why = "this module belongs to a server's runtime";
            report.refuse(codes::MODULE_UNSUPPORTED, || (at(), why.to_owned()));
        }
    }
    let max = profile.max_allowed_imports;
    let imports = plan.imports().count();
    if imports > max {
        let why = format!("{imports} imports, the profile allows {max}");
        refuse(report, codes::IMPORT_LIMIT, "/imports", why);
    }
}

/// Where a specifier stands.
enum Place<'p> {
    Import(usize),
    Component(Node<'p>),
    Capability(usize),
    Source,
}

impl Place<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Import(index) => format!("/imports/{index}"),
            Self::Component(node) => format!("{}/module", node.pointer()),
            Self::Capability(index) => format!("/capabilities/allowedModules/{index}"),
            Self::Source => "/source/code".to_owned(),
        }
    }
}

/// Every specifier of a plan.
struct Uses<'p> {
    /// What the plan itself loads, each use of it.
    loaded: Vec<(&'p str, Place<'p>)>,
    /// What capabilities and source name besides.
    named: Vec<(&'p str, Place<'p>)>,
}

impl<'p> Uses<'p> {
    fn of(plan: &'p Plan, scan: &'p Scan) -> Self {
        let imports = plan.imports().enumerate();
        let mut loaded: Vec<_> =
            imports.map(|(index, specifier)| (specifier, Place::Import(index))).collect();
        for node in plan.walk() {
            if let Node::Component(component) = node {
                loaded.push((component.module(), Place::Component(node)));
            }
        }
        let asked = plan.capabilities().and_then(|asked| asked.get("allowedModules"));
        let asked = asked.and_then(Json::as_array).into_iter().flatten().enumerate();
        let mut named: Vec<_> = asked
            .map(|(index, item)| (item.as_text().unwrap_or_default(), Place::Capability(index)))
            .collect();
        named.extend(scan.imports.iter().map(|specifier| (specifier.as_str(), Place::Source)));
        Self { loaded, named }
    }
}

/// Every specifier, once, has the manifest entry and the integrity that the profile asks for.
fn coverage(plan: &Plan, profile: &Profile, uses: &Uses<'_>, report: &mut Report) {
    let mut seen = HashSet::new();
    for (specifier, at) in uses.loaded.iter().chain(&uses.named) {
        if !seen.insert(*specifier) {
            continue;
        }
        let entry = plan.manifest_entry(specifier);
        let bare = module::is_bare(specifier);
        let mut miss = |code, why: &str| {
            report.refuse(code, || (at.pointer(), format!("{specifier:?}: {why}")));
        };
        if bare && entry.is_none() {
            if profile.require_module_manifest_for_bare_specifiers {
                // What the source imports is told with the source.
                if matches!(at, Place::Source) {
                    continue;
                }
                miss(codes::MANIFEST_MISSING, "the manifest does not cover this module");
            } else {
                miss(codes::INTEGRITY_MISSING, "without an entry the module has no integrity");
            }
        } else if profile.require_module_integrity && module::is_address(specifier) {
            match entry {
                None => miss(codes::INTEGRITY_MISSING, "this address has no entry with integrity"),
                Some(address) if !same_address(address, specifier) => {
                    miss(codes::INTEGRITY_MISSING, "the entry of this address names another one");
                }
                Some(_) => {}
            }
        }
    }
}

/// Whether two addresses are one after scheme, host and default port are written the same way.
fn same_address(left: &str, right: &str) -> bool {
    let normal = |text: &str| -> Option<String> {
        let remote = crate::host::absolute(text.trim())?;
        let rest = text.trim().split_once("://")?.1;
        let path = rest.find(['/', '?', '#']).map_or("/", |at| &rest[at..]);
        let slash = if path.starts_with('/') { "" } else { "/" };
        Some(format!("{}{slash}{path}", remote.origin()))
    };
    normal(left).is_some_and(|left| normal(right) == Some(left))
}

fn manifest_entries(plan: &Plan, profile: &Profile, report: &mut Report) {
    const AT: &str = "/moduleManifest";
    let Some(entries) = plan.manifest() else { return };
    let max = profile.max_allowed_imports;
    if entries.len() > max {
        let why = format!("{} modules, the profile allows {max}", entries.len());
        refuse(report, codes::MODULE_DENIED, AT, why);
    }
    for (name, descriptor) in entries {
        let at = || join(AT, name);
        let address = address_of(descriptor);
        let integrity = descriptor.get("integrity").and_then(Json::as_text).unwrap_or_default();
        if profile.require_module_integrity
            && module::is_address(address)
            && !is_integrity(integrity)
        {
            let why = "a remote module needs integrity";
            report.refuse(codes::INTEGRITY_MISSING, || (at(), why.to_owned()));
        }
        for fault in profile.specifier_faults(address) {
            let at = || format!("{}/resolvedUrl", at());
            report.refuse(codes::MODULE_DENIED, || (at(), fault.to_owned()));
        }
    }
}

fn address_of(descriptor: Json<'_>) -> &str {
    descriptor.get("resolvedUrl").and_then(Json::as_text).unwrap_or_default()
}

/// Whether a text holds a well-formed hash. A loader takes the strongest of several.
fn is_integrity(text: &str) -> bool {
    text.split_ascii_whitespace().any(|token| {
        let (hash, body) = token.split_once('-').unwrap_or_default();
        let (digits, padding) = match hash {
            "sha256" => (43, "="),
            "sha384" => (64, ""),
            "sha512" => (86, "=="),
            _ => return false,
        };
        let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        body.strip_suffix(padding)
            .is_some_and(|body| body.len() == digits && body.bytes().all(base64))
    })
}

#[cfg(test)]
mod tests {
    use super::{is_integrity, same_address};

    #[test]
    fn integrity_values() {
        let of = |hash: &str, digits: usize, padding: &str| {
            format!("{hash}-{}{padding}", "A".repeat(digits))
        };
        for (text, want) in [
            (of("sha256", 43, "="), true),
            (of("sha384", 64, ""), true),
            (of("sha512", 86, "=="), true),
            (format!("{} {}", of("sha256", 43, "="), of("sha384", 64, "")), true),
            (of("sha256", 43, ""), false),
            (of("sha384", 63, ""), false),
            (of("md5", 22, "=="), false),
            (String::new(), false),
            (format!("md5-x {}", of("sha384", 64, "")), true),
        ] {
            assert_eq!(is_integrity(&text), want, "{text}");
        }
    }

    #[test]
    fn addresses_are_compared_in_one_spelling() {
        for (left, right, want) in [
            ("https://a.example/x", "HTTPS://A.example:443/x", true),
            ("https://a.example", "https://a.example/", true),
            ("https://a.example/x", "https://a.example/y", false),
            ("https://a.example/x", "http://a.example/x", false),
            ("a", "a", false),
        ] {
            assert_eq!(same_address(left, right), want, "{left} {right}");
        }
    }
}
