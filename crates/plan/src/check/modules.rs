//! Modules: imports, the manifest that says where they come from, and their integrity.

use std::collections::HashMap;

use super::refuse;
use crate::codes;
use crate::guard::join;
use crate::host;
use crate::json::Json;
use crate::plan::Plan;
use crate::profile::{self, Profile};
use crate::report::Report;
use crate::tree::Node;

pub(super) fn check(plan: &Plan, profile: &Profile, report: &mut Report) {
    let manifest: HashMap<&str, Json<'_>> = plan.manifest().into_iter().flatten().collect();
    manifest_entries(plan, profile, report);
    let checker = Checker { profile, manifest: &manifest };
    let mut imports = 0;
    for (index, specifier) in plan.imports().enumerate() {
        imports = index + 1;
        checker.reference(specifier, &format!("/imports/{index}"), report);
    }
    let max = profile.max_allowed_imports;
    if imports > max {
        let why = format!("{imports} imports, the profile allows {max}");
        refuse(report, codes::MODULE_DENIED, "/imports", why);
    }
    let asked = plan.capabilities().and_then(|asked| asked.get("allowedModules"));
    for (index, specifier) in asked.and_then(Json::as_array).into_iter().flatten().enumerate() {
        let specifier = specifier.as_text().unwrap_or_default();
        checker.reference(specifier, &format!("/capabilities/allowedModules/{index}"), report);
    }
    for node in plan.walk() {
        if let Node::Component(component) = node {
            checker.reference(component.module(), &format!("{}/module", node.pointer()), report);
        }
    }
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
        let at = join(AT, name);
        let address = address_of(descriptor);
        if !profile.allows_specifier(address) {
            let at = format!("{at}/resolvedUrl");
            refuse(report, codes::MODULE_DENIED, &at, "the profile does not allow this place");
        }
        let integrity = descriptor.get("integrity").and_then(Json::as_text).unwrap_or_default();
        if profile.require_module_integrity
            && host::absolute(address).is_some()
            && !is_integrity(integrity)
        {
            refuse(report, codes::INTEGRITY_MISSING, &at, "a remote module needs integrity");
        }
    }
}

fn address_of(descriptor: Json<'_>) -> &str {
    descriptor.get("resolvedUrl").and_then(Json::as_text).unwrap_or_default().trim()
}

/// Whether every token is a well-formed hash, and there is one.
fn is_integrity(text: &str) -> bool {
    let token = |token: &str| {
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
    };
    let mut tokens = text.split_ascii_whitespace().peekable();
    tokens.peek().is_some() && tokens.all(token)
}

struct Checker<'p> {
    profile: &'p Profile,
    manifest: &'p HashMap<&'p str, Json<'p>>,
}

impl Checker<'_> {
    /// Checks one use of a module; what the manifest says about it counts instead of its name.
    fn reference(&self, specifier: &str, at: &str, report: &mut Report) {
        let entry = self.manifest.get(specifier).map(|descriptor| address_of(*descriptor));
        if !self.profile.allows_specifier(entry.unwrap_or(specifier)) {
            refuse(report, codes::MODULE_DENIED, at, "the profile does not allow this module");
            return;
        }
        let bare = profile::is_bare(specifier);
        if bare && entry.is_none() && self.profile.require_module_manifest_for_bare_specifiers {
            refuse(report, codes::MANIFEST_MISSING, at, "the manifest does not cover this module");
        }
        let remote = host::absolute(specifier).is_some();
        if remote && self.profile.require_module_integrity && entry != Some(specifier.trim()) {
            let why = "a remote module needs an entry for exactly this address";
            refuse(report, codes::INTEGRITY_MISSING, at, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_integrity;

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
            (of("md5", 22, "=="), false),
            (String::new(), false),
            (format!("{} md5-x", of("sha384", 64, "")), false),
        ] {
            assert_eq!(is_integrity(&text), want, "{text}");
        }
    }
}
