//! The check: whether a profile lets a plan be rendered.

mod access;
mod members;
mod modules;
mod source;
mod tree;

use crate::codes;
use crate::error::Code;
use crate::guard::join;
use crate::host;
use crate::json::Json;
use crate::limits::Limits;
use crate::module;
use crate::path;
use crate::plan::{self, LANE_WITHOUT_CODE, Plan, SPEC_VERSION};
use crate::profile::Profile;
use crate::report::{Issue, Report};
use crate::rules::Refusal;
use crate::size;
use crate::source::Scan;
use crate::template;

pub(crate) use tree::{NodeRules, too_many};

/// Extensions that are built; a plan that requires another is refused.
const EXTENSIONS: &[&str] = &[];
/// Lanes that a browser has, and the one that nobody has.
const OF_BROWSERS: &[&str] = &["sandbox-worker", "sandbox-iframe"];
const LANE_OF_NOBODY: &str = "sandbox-shadowrealm";
/// Longest id of a plan. Ids are written on command lines and in lists.
pub const MAX_ID_BYTES: usize = 256;

/// Checks a plan against a profile.
///
/// ```
/// use glasshouse_plan::{Profile, ProfileName, check, parse};
/// let text = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,
///                "root":{"type":"element","tag":"script"}}"#;
/// let report = check(&parse(text, &Default::default())?, &Profile::named(ProfileName::Strict));
/// assert!(!report.safe);
/// assert_eq!(report.issues[0].code, "plan_tag_denied");
/// assert_eq!(report.issues[0].pointer, "/root");
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[must_use]
pub fn check(plan: &Plan, profile: &Profile) -> Report {
    checked(plan, profile, Names::LookedAt)
}

/// Who tells which names a source uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// The look at its text, which takes a word of markup for a name.
    LookedAt,
    /// Who compiles it, before anything of it runs.
    LeftToCompiler,
}

fn checked(plan: &Plan, profile: &Profile, names: Names) -> Report {
    let mut report = Report::new();
    identity(plan, &mut report);
    members::check(plan, &mut report);
    specification(plan, profile, &mut report);
    let scan = plan.source().map(scan).unwrap_or_default();
    modules::check(plan, profile, &scan, &mut report);
    capabilities(plan, profile, &mut report);
    tree::check(plan, profile, &mut report);
    state(plan, profile, &mut report);
    source::check(plan, profile, (&scan, names), &mut report);
    access::check(plan, &mut report);
    for problem in template::problems(plan) {
        report.note(problem);
    }
    report
}

/// Checks a plan and whether this host can show it: there is no engine for source here, and no lane
/// but the one without code. [`render`](crate::render) shows what this accepts.
///
/// ```
/// use glasshouse_plan::{Profile, ProfileName, check, check_to_show, parse};
/// let text = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,
///     "root":{"type":"text","value":"x"},"source":{"code":"1","language":"js"}}"#;
/// let (plan, profile) = (parse(text, &Default::default())?, Profile::named(ProfileName::Relaxed));
/// assert!(check(&plan, &profile).safe);
/// assert_eq!(check_to_show(&plan, &profile).issues[0].code, "plan_code_unsupported");
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[must_use]
pub fn check_to_show(plan: &Plan, profile: &Profile) -> Report {
    check_to_run(plan, profile, &[])
}

/// Checks a plan and whether a host with these lanes can show it. A plan with source runs on the lane it
/// asks for, or on any when it asks for none or for the one without code; never on a weaker one. Where there is a
/// lane the source is compiled before it runs, and who compiles knows its names; patterns that only this profile
/// bans are looked for here all the same.
///
/// ```
/// use glasshouse_plan::{Profile, ProfileName, check_to_run, parse};
/// let text = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,
///     "root":{"type":"text","value":"x"},"source":{"code":"1","language":"js"}}"#;
/// let (plan, profile) = (parse(text, &Default::default())?, Profile::named(ProfileName::Trusted));
/// assert!(check_to_run(&plan, &profile, &["isolated-vm"]).safe);
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[must_use]
pub fn check_to_run(plan: &Plan, profile: &Profile, lanes: &[&str]) -> Report {
    let names = if lanes.is_empty() { Names::LookedAt } else { Names::LeftToCompiler };
    let mut report = checked(plan, profile, names);
    if !report.safe {
        return report;
    }
    let lane = plan.lane();
    if plan.source().is_some() && lane == LANE_WITHOUT_CODE && !lanes.is_empty()
        || lanes.contains(&lane)
    {
        return report;
    }
    if plan.source().is_some() && lanes.is_empty() {
        let why = "the plan carries source, and no engine for source is here";
        refuse(&mut report, codes::CODE_UNSUPPORTED, "/source", why);
    } else if lane != LANE_WITHOUT_CODE {
        report.refuse_for(without_lane(lane, lanes));
    }
    report
}

/// The refusal of a lane, with the way on for a plan that asks for it.
fn without_lane(lane: &str, lanes: &[&str]) -> Issue {
    let (message, fix) = match lane {
        LANE_OF_NOBODY => (
            "no engine has the lane sandbox-shadowrealm".to_owned(),
            "ask for another lane, or for none".to_owned(),
        ),
        _ if lanes.iter().any(|here| OF_BROWSERS.contains(here)) => (
            format!("the lane {lane} is not one of a browser"),
            format!(
                "ask for no lane, or for one of {}; a server shows the plan as it is",
                lanes.join(", ")
            ),
        ),
        _ => {
            (format!("the lane {lane} is not on this host"), codes::LANE_UNAVAILABLE.fix.to_owned())
        }
    };
    let pointer = "/capabilities/executionProfile".to_owned();
    Issue { code: codes::LANE_UNAVAILABLE.name, pointer, message, fix }
}

/// Reads and checks a text; one that is no plan, or that is above the limits of the profile, gives
/// a report with that one issue.
#[must_use]
pub fn check_text(text: &str, limits: &Limits, profile: &Profile) -> Report {
    match plan::parse(text, &limits.within(&profile.limits())) {
        Ok(plan) => check(&plan, profile),
        Err(error) => Report::of(&error),
    }
}

fn refuse(report: &mut Report, code: Code, pointer: &str, why: impl Into<String>) {
    report.refuse(code, || (pointer.to_owned(), why.into()));
}

fn identity(plan: &Plan, report: &mut Report) {
    if plan.id().len() > MAX_ID_BYTES {
        let why = format!("{} bytes, at most {MAX_ID_BYTES}", plan.id().len());
        refuse(report, codes::TOO_LARGE, "/id", why);
    }
    if plan.id().contains(char::is_control) {
        let why = "an id that holds control characters cannot be named";
        refuse(report, codes::SHAPE_INVALID, "/id", why);
    }
}

fn specification(plan: &Plan, profile: &Profile, report: &mut Report) {
    let named = plan.spec_version().map(str::trim);
    if named.is_none() && profile.require_spec_version {
        refuse(report, codes::SPEC_VERSION, "", "the plan names no specification version");
    }
    let version = named.unwrap_or(SPEC_VERSION);
    if !profile.supported_spec_versions.iter().any(|supported| supported == version) {
        refuse(report, codes::SPEC_VERSION, "/specVersion", "this version is not supported");
    }
    for (index, extension) in plan.required_extensions().enumerate() {
        if !EXTENSIONS.contains(&extension) {
            let at = format!("/ext/requires/{index}");
            refuse(report, codes::EXTENSION_UNSUPPORTED, &at, "this extension is not built");
        }
    }
}

fn capabilities(plan: &Plan, profile: &Profile, report: &mut Report) {
    let Some(capabilities) = plan.capabilities() else { return };
    let list = |key: &str| capabilities.get(key).and_then(Json::as_array).into_iter().flatten();
    let mut deny = |at: String, why: String| {
        report.refuse(codes::CAPABILITY_DENIED, || (format!("/capabilities/{at}"), why));
    };
    if !profile.allow_arbitrary_network {
        for (index, requested) in list("networkHosts").enumerate() {
            let requested = requested.as_text().unwrap_or_default();
            if !host::allows_request(&profile.allowed_network_hosts, requested) {
                deny(format!("networkHosts/{index}"), "this host is not allowed".to_owned());
            }
        }
    }
    for (index, specifier) in list("allowedModules").enumerate() {
        let specifier = specifier.as_text().unwrap_or_default();
        let entry = plan.manifest_entry(specifier);
        for fault in profile.specifier_faults(entry.unwrap_or(specifier)) {
            deny(format!("allowedModules/{index}"), fault.to_owned());
        }
        if profile.require_module_manifest_for_bare_specifiers
            && module::is_bare(specifier)
            && entry.is_none()
        {
            let why = "a module that is not pinned is not granted";
            deny(format!("allowedModules/{index}"), why.to_owned());
        }
    }
    if let Some(lane) = capabilities.get("executionProfile").and_then(Json::as_text)
        && !profile.allowed_execution_profiles.iter().any(|allowed| allowed == lane)
    {
        let why = "the profile does not allow this lane";
        deny("executionProfile".to_owned(), why.to_owned());
    }
    for (key, max) in [
        ("maxImports", profile.max_allowed_imports),
        ("maxComponentInvocations", profile.max_allowed_component_invocations),
        ("maxExecutionMs", profile.max_allowed_execution_ms),
    ] {
        let asked = capabilities.get(key).and_then(Json::as_number).unwrap_or(0.0);
        // Every bound of a profile is far below 2^32, where doubles are exact.
        if asked > f64::from(u32::try_from(max).unwrap_or(u32::MAX)) {
            deny(key.to_owned(), format!("the profile allows {max}"));
        }
    }
    for (key, why) in UNGRANTED {
        let asked = capabilities.get(key);
        let is_asked = asked.is_some_and(|asked| asked.to_value() == true)
            || asked.and_then(Json::as_array).is_some_and(|mut hosts| hosts.next().is_some());
        if is_asked {
            let refusal = Refusal::new(codes::CAPABILITY_UNGRANTED, why);
            report.note_at(|| format!("/capabilities/{key}"), refusal);
        }
    }
}

/// What may be asked for and is granted in no lane, with the reason.
const UNGRANTED: [(&str, &str); 2] = [
    (
        "timers",
        "no lane grants it: code runs once for an event and its clock stands, so that a replay shows the same",
    ),
    (
        "networkHosts",
        "no lane grants it: code has no network, so that nothing that it reads can leave",
    ),
];

fn state(plan: &Plan, profile: &Profile, report: &mut Report) {
    const AT: &str = "/state/transitions";
    if let Some(initial) = plan.initial_state() {
        let bytes = size::of(&initial.to_value()).bytes;
        if bytes > profile.max_state_bytes {
            let why = format!("{bytes} bytes, the profile allows {}", profile.max_state_bytes);
            refuse(report, codes::STATE_LIMIT, "/state/initial", why);
        }
    }
    let Some(transitions) = plan.transitions() else { return };
    let max = profile.max_transitions_per_plan;
    if transitions.len() > max {
        let why = format!("{} events, the profile allows {max}", transitions.len());
        refuse(report, codes::STATE_LIMIT, AT, why);
    }
    for (event, actions) in transitions {
        let Some(actions) = actions.as_array() else { continue };
        let at = join(AT, event);
        let max = profile.max_actions_per_transition;
        if actions.len() > max {
            let why = format!("{} actions, the profile allows {max}", actions.len());
            refuse(report, codes::STATE_LIMIT, &at, why);
        }
        for (index, action) in actions.enumerate() {
            let target = action.get("path").and_then(Json::as_text).unwrap_or_default();
            if !path::is_safe(target) {
                let at = format!("{at}/{index}/path");
                refuse(report, codes::PATH_UNSAFE, &at, "this path reaches outside plain data");
            }
        }
    }
}

fn scan(source: Json<'_>) -> Scan {
    let text = |key: &str| source.get(key).and_then(Json::as_text).unwrap_or_default();
    crate::source::scan(text("code"), text("language"))
}
