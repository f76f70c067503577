//! Source code, looked at without running it.

use super::{Names, refuse};
use crate::codes;
use crate::json::Json;
use crate::module;
use crate::plan::Plan;
use crate::profile::{Profile, is_of_every_profile};
use crate::report::{Issue, Report};
use crate::source::{self, Scan};

const AT: &str = "/source";
const CODE: &str = "/source/code";

/// Names that reach outside the code's own task wherever they stand.
const GLOBALS: &[&str] = &[
    "fetch",
    "XMLHttpRequest",
    "WebSocket",
    "importScripts",
    "localStorage",
    "sessionStorage",
    "indexedDB",
];
/// Names that make code out of text.
const EVALUATORS: &[&str] = &["eval", "Function"];
/// Members that reach outside, by the object they belong to.
const MEMBERS: &[(&str, &str)] =
    &[("document", "cookie"), ("navigator", "sendBeacon"), ("process", "env")];

pub(super) fn check(
    plan: &Plan,
    profile: &Profile,
    (scan, names): (&Scan, Names),
    report: &mut Report,
) {
    let Some(source) = plan.source() else { return };
    let code = source.get("code").and_then(Json::as_text).unwrap_or_default();
    if !profile.allow_runtime_source_modules {
        return refuse(report, codes::SOURCE_DENIED, AT, "the profile accepts no source");
    }
    let preact = source.get("runtime").and_then(Json::as_text) == Some("preact");
    if preact && !profile.allow_preact_source_runtime {
        refuse(report, codes::SOURCE_DENIED, "/source/runtime", "the profile accepts no Preact");
    }
    let max = profile.max_runtime_source_bytes;
    if code.len() > max {
        let why = format!("{} bytes, the profile allows {max}", code.len());
        refuse(report, codes::SOURCE_DENIED, CODE, why);
    }
    imports(plan, profile, (code, scan), report);
    words(profile, (scan, names), report);
}

fn imports(plan: &Plan, profile: &Profile, (code, scan): (&str, &Scan), report: &mut Report) {
    let max = profile.max_source_import_specifiers;
    if scan.imports.len() > max {
        let why = format!("{} imports, the profile allows {max}", scan.imports.len());
        refuse(report, codes::SOURCE_DENIED, CODE, why);
    }
    for specifier in &scan.imports {
        let entry = plan.manifest_entry(specifier);
        for fault in profile.specifier_faults(entry.unwrap_or(specifier)) {
            refuse(report, codes::MODULE_DENIED, CODE, format!("{specifier:?}: {fault}"));
        }
        if profile.require_module_manifest_for_bare_specifiers
            && module::is_bare(specifier)
            && entry.is_none()
        {
            let why = format!("{specifier:?} is imported and the manifest does not cover it");
            refuse(report, codes::MANIFEST_MISSING, CODE, why);
        }
        // A path of the host's own machine is no module of the plan.
        if entry.is_none() && specifier.starts_with('/') {
            let why = format!("{specifier:?} is a path of the host");
            refuse(report, codes::MODULE_UNSUPPORTED, CODE, why);
        }
    }
    if scan.dynamic_import && !profile.allow_dynamic_source_imports {
        let plain = source::calls_import(code);
        let code = if plain { codes::SOURCE_DENIED } else { codes::SOURCE_DISGUISED };
        report.refuse_for(Issue {
            code: code.name,
            pointer: CODE.to_owned(),
            message: "the profile accepts no import while code runs".to_owned(),
            fix: "import at the head of the source: `import name from 'module'`".to_owned(),
        });
    }
}

fn words(profile: &Profile, (scan, names): (&Scan, Names), report: &mut Report) {
    let patterns = match profile.banned_patterns() {
        Ok(patterns) => patterns,
        // A profile that cannot be read lets nothing through.
        Err(error) => return refuse(report, codes::PROFILE_INVALID, AT, error.to_string()),
    };
    let strings = &profile.source_banned_pattern_strings;
    let mut hit = vec![false; strings.len()];
    for (index, pattern) in patterns.iter().enumerate() {
        if names == Names::LeftToCompiler && is_of_every_profile(&strings[index]) {
            continue;
        }
        hit[index] = pattern.is_match(&scan.code);
        if hit[index] {
            let why = format!("the code matches the banned pattern {}", strings[index]);
            refuse(report, codes::SOURCE_DENIED, CODE, why);
        }
    }
    if names == Names::LeftToCompiler {
        return;
    }
    let bans = |word: &str| {
        let word = word.to_ascii_lowercase();
        strings.iter().any(|pattern| pattern.to_ascii_lowercase().contains(&word))
    };
    let used = |word: &str| scan.names.iter().any(|name| name.eq_ignore_ascii_case(word));
    for word in GLOBALS.iter().filter(|word| bans(word) && used(word)) {
        refuse(report, codes::SOURCE_DENIED, CODE, format!("the code uses {word}"));
    }
    for word in EVALUATORS.iter().filter(|word| bans(word) && scan.names.contains(**word)) {
        let named = |pattern: &String| pattern.contains(word);
        if !strings.iter().zip(&hit).any(|(pattern, hit)| *hit && named(pattern)) {
            refuse(report, codes::SOURCE_DISGUISED, CODE, format!("the code reaches {word}"));
        }
    }
    for (object, member) in MEMBERS.iter().filter(|(object, member)| bans(object) && bans(member)) {
        if scan
            .members
            .iter()
            .any(|(on, name)| on.eq_ignore_ascii_case(object) && name.eq_ignore_ascii_case(member))
        {
            let why = format!("the code uses {object}.{member}");
            refuse(report, codes::SOURCE_DENIED, CODE, why);
        }
    }
}
