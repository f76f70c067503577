//! A probe: what a plan would need and whether it can be had, found without loading or running
//! anything.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::check::check_to_run;
use crate::json::Json;
use crate::module::{self, Resolver, Tier};
use crate::plan::Plan;
use crate::profile::Profile;
use crate::report::Report;
use crate::source;

/// Where a plan names a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Usage {
    /// Under `imports`.
    Import,
    /// In a component node.
    Component,
    /// In the plan's source.
    Source,
}

/// One module that a plan names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dependency {
    /// Where it is named.
    pub usage: Usage,
    /// Its name.
    pub specifier: String,
    /// Where it would come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// How far it is supported: `a`, `b` or `c`.
    pub tier: &'static str,
    /// Whether it is supported and has a place.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// The plan.
    pub plan_id: String,
    /// Whether it would be shown and every module can be had.
    pub ok: bool,
    /// What the profile says.
    #[serde(flatten)]
    pub report: Report,
    /// The modules it names, each use once.
    pub dependencies: Vec<Dependency>,
}

/// Probes a plan.
///
/// ```
/// use glasshouse_plan::{Profile, ProfileName, parse, probe};
/// let text = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,"imports":["react","fs"],
///                "root":{"type":"text","value":"x"}}"#;
/// let probe = probe(&parse(text, &Default::default())?, &Profile::named(ProfileName::Relaxed));
/// let ok: Vec<bool> = probe.dependencies.iter().map(|module| module.ok).collect();
/// assert_eq!(ok, [true, false]);
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[must_use]
pub fn probe(plan: &Plan, profile: &Profile) -> Probe {
    probe_to_run(plan, profile, &[])
}

/// Probes a plan for a host with these lanes.
#[must_use]
pub fn probe_to_run(plan: &Plan, profile: &Profile, lanes: &[&str]) -> Probe {
    let report = check_to_run(plan, profile, lanes);
    let text = |key: &str| {
        plan.source().and_then(|source| source.get(key)).and_then(Json::as_text).unwrap_or_default()
    };
    let sources = source::scan(text("code"), text("language")).imports;
    let imports = plan.imports().map(|name| (Usage::Import, name));
    let components = plan.component_modules().into_iter().map(|name| (Usage::Component, name));
    let sources = sources.iter().map(|name| (Usage::Source, name.as_str()));
    let mut seen = BTreeSet::new();
    let dependencies: Vec<Dependency> = imports
        .chain(components)
        .chain(sources)
        .filter(|named| seen.insert(*named))
        .map(|(usage, specifier)| dependency(plan, usage, specifier))
        .collect();
    let ok = report.safe && dependencies.iter().all(|module| module.ok);
    Probe { plan_id: plan.id().to_owned(), ok, report, dependencies }
}

fn dependency(plan: &Plan, usage: Usage, specifier: &str) -> Dependency {
    let place = plan.manifest_entry(specifier);
    let resolved = match place {
        Some(place) => Ok(place.to_owned()),
        None if specifier.starts_with('/') => Ok(specifier.to_owned()),
        None => Resolver::default().resolve(specifier),
    };
    let tier = match (place, module::tier(specifier)) {
        // A pinned place makes a browser package of a name that a server's runtime also has.
        (Some(_), Tier::C) | (_, Tier::B) => "b",
        (_, Tier::A) => "a",
        (None, Tier::C) => "c",
    };
    let (resolved, message) = match resolved {
        Ok(place) => (Some(place), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let specifier = specifier.to_owned();
    Dependency { usage, specifier, ok: resolved.is_some(), resolved, tier, message }
}
