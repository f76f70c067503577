//! Answers about profiles, in the words of the cases.

use std::collections::BTreeMap;

use glasshouse_plan::json::Document;
use glasshouse_plan::{Limits, Profile, ProfileName, Report, check_text};
use serde_json::{Value, json};

use super::decode;
use super::deviations::Deviations;

/// The profile that a case names, with its overrides.
pub(crate) fn profile(input: &Value) -> Option<Profile> {
    let name: ProfileName = input["profile"].as_str().unwrap_or("balanced").parse().ok()?;
    match input.get("overrides") {
        Some(overrides) => Profile::named(name).with_overrides(overrides).ok(),
        None => Some(Profile::named(name)),
    }
}

/// A plan of a case over the members that every plan of the cases has.
pub(crate) fn whole(plan: &Value, raw: bool) -> Option<Value> {
    if raw {
        return decode::json(plan);
    }
    let mut whole = json!({"specVersion": "runtime-plan/v1", "id": "case", "version": 1,
        "root": {"type": "text", "value": ""}, "capabilities": {}});
    for (key, value) in plan.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    decode::json(&whole)
}

/// Codes of a text that is no plan.
const NO_PLAN: [&str; 4] =
    ["plan_json_invalid", "plan_key_duplicate", "plan_number_not_finite", "plan_shape_invalid"];

/// `checkPlan`: whether it is safe, how many issues there are, and of which kinds. Issues of rules
/// that only this product has are left out where the deviations say so.
pub(crate) fn check_plan(input: &Value, deviations: &Deviations) -> Value {
    let answer = |count: usize, codes: &[&str]| json!({"safe": count == 0, "issueCount": count, "codes": codes});
    let Some(profile) = profile(input) else { return json!({"error": true}) };
    let Some(plan) = whole(&input["plan"], input["raw"] == true) else {
        return answer(1, &["SECURITY_PLAN_INVALID"]);
    };
    let report = check_text(&plan.to_string(), &Limits::default(), &profile);
    if report.issues.iter().any(|issue| NO_PLAN.contains(&issue.code)) {
        return answer(1, &["SECURITY_PLAN_INVALID"]);
    }
    let count = report.issue_count - extra(&report, &plan, &profile, deviations);
    let asked = report.counts.contains_key("plan_capability_denied");
    match (count, asked) {
        (0, _) => answer(0, &[]),
        (_, true) => answer(count, &["SECURITY_CAPABILITY_REJECTED", "SECURITY_POLICY_VIOLATION"]),
        (_, false) => answer(count, &["SECURITY_POLICY_VIOLATION"]),
    }
}

/// How many issues come from rules that only this product has.
fn extra(report: &Report, plan: &Value, profile: &Profile, deviations: &Deviations) -> usize {
    let by_code: usize = report
        .counts
        .iter()
        .filter(|(code, _)| deviations.is_stricter(code))
        .map(|(_, count)| count)
        .sum();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_place = 0;
    for issue in &report.issues {
        let value = plan.pointer(&issue.pointer).unwrap_or(&Value::Null);
        match issue.code {
            "plan_tag_denied" => {
                let tag = value["tag"].as_str().unwrap_or_default().to_ascii_lowercase();
                let ours = deviations.has("tags-by-table") && !profile.blocked_tags.contains(&tag);
                by_place += usize::from(ours);
            }
            "plan_url_denied" | "plan_host_denied" | "plan_attribute_denied" => {
                *places.entry(&issue.pointer).or_default() += 1;
            }
            "plan_module_denied" | "plan_capability_denied" => {
                let name = value.as_str().unwrap_or_default();
                let hidden = name.starts_with("//") || name.contains('\\');
                by_place += usize::from(hidden && deviations.has("two-slashes-name-a-host"));
            }
            "plan_too_large" | "plan_state_limit" => {
                let bound = issue.pointer.ends_with("/props") || issue.pointer == "/state/initial";
                let ours = bound && deviations.has("bounded");
                by_place += usize::from(ours);
            }
            _ => {}
        }
    }
    let rules = [
        "addresses-in-one-reading",
        "addresses-filled-in",
        "images-from-listed-hosts",
        "attributes-by-table",
    ];
    if rules.iter().all(|rule| deviations.has(rule)) {
        for (place, ours) in places {
            let name = place.rsplit('/').next().unwrap_or_default().replace("~1", "/");
            let value = plan.pointer(place).and_then(Value::as_str);
            by_place += ours.saturating_sub(value.map_or(0, |it| widely(&name, it, profile)));
        }
    }
    by_code + by_place
}

/// How many faults the wide reading of addresses finds, which others read by.
fn widely(name: &str, value: &str, profile: &Profile) -> usize {
    if !glasshouse_plan::is_url_attribute(name) {
        return 0;
    }
    // A name before the host changes nothing for a reader that takes the address apart.
    let plain = match value.split_once("//") {
        Some((scheme, rest)) if rest.split('/').next().is_some_and(|host| host.contains('@')) => {
            format!("{scheme}//{}", rest.split_once('@').map_or(rest, |(_, rest)| rest))
        }
        _ => value.to_owned(),
    };
    let host = plain.split_once("//").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
    if host.contains("{{") && plain.starts_with("http") {
        return usize::from(!profile.allow_arbitrary_network);
    }
    match glasshouse_plan::inspect_url_attribute(name, &plain) {
        None => 1,
        Some(_) if profile.allow_arbitrary_network => 0,
        Some(found) => found.remote.iter().filter(|it| !profile.allows_address(it)).count(),
    }
}

/// How many issues another implementation finds that this product, on purpose, does not.
pub(crate) fn missing(input: &Value, deviations: &Deviations) -> usize {
    let Some(profile) = profile(input) else { return 0 };
    let Some(plan) = whole(&input["plan"], input["raw"] == true) else { return 0 };
    let mut count = 0;
    let mut specifier = |value: &Value| {
        let name = value.as_str().unwrap_or_default();
        let entry = plan["moduleManifest"].get(name);
        let place = entry.and_then(|entry| entry["resolvedUrl"].as_str()).unwrap_or(name);
        if is_bare_and_accepted(place, &profile) {
            count += 1;
        }
    };
    plan["imports"].as_array().into_iter().flatten().for_each(&mut specifier);
    let asked = plan["capabilities"]["allowedModules"].as_array();
    asked.into_iter().flatten().for_each(&mut specifier);
    let source = |key: &str| plan["source"][key].as_str().unwrap_or_default();
    for name in glasshouse_plan::source::scan(source("code"), source("language")).imports {
        specifier(&json!(name));
    }
    let manifest = plan["moduleManifest"].as_object();
    manifest.into_iter().flatten().for_each(|(_, entry)| specifier(&entry["resolvedUrl"]));
    let mut words = 0;
    let mut images = 0;
    let mut open = vec![&plan["root"]];
    while let Some(node) = open.pop() {
        if node["type"] == "component" {
            specifier(&node["module"]);
        }
        let handlers = node["props"].as_object().into_iter().flatten().filter(|(name, value)| {
            name.to_ascii_lowercase().starts_with("on") && is_word(name, value)
        });
        words += handlers.count();
        let image = node["props"]["src"].as_str().filter(|it| it.starts_with("data:image/"));
        images += image.map_or(0, |image| usize::from(is_shown_image(&node["tag"], image)));
        open.extend(node["children"].as_array().into_iter().flatten());
    }
    if !deviations.has("bare-names-where-no-manifest-is-asked") {
        count = 0;
    }
    if !profile.allow_inline_event_handlers && deviations.has("words-that-begin-with-on") {
        count += words;
    }
    if deviations.has("allowed-addresses-are-shown") {
        count += images;
    }
    count + bare_sources(&plan, deviations)
}

/// Whether an image as data is shown.
fn is_shown_image(tag: &Value, source: &str) -> bool {
    let plan = json!({"specVersion": "runtime-plan/v1", "id": "x", "version": 1,
        "root": {"type": "element", "tag": tag, "props": {"src": source}}});
    let strict = Profile::named(ProfileName::Strict);
    check_text(&plan.to_string(), &Limits::default(), &strict).safe
}

/// Whether a name is accepted only because the profile asks for no manifest.
pub(crate) fn is_bare_and_accepted(name: &str, profile: &Profile) -> bool {
    !profile.require_module_manifest_for_bare_specifiers
        && profile.allows_specifier(name)
        && !profile.allowed_modules.iter().any(|prefix| name.starts_with(prefix.as_str()))
        && !name.contains("://")
        && name != "this-plan-source"
}

/// Whether a property begins with `on` and is neither a binding nor a handler of HTML.
fn is_word(name: &str, value: &Value) -> bool {
    let plan = json!({"specVersion": "runtime-plan/v1", "id": "x", "version": 1,
        "root": {"type": "element", "tag": "b", "props": {name: value}}});
    let strict = Profile::named(ProfileName::Strict);
    let ours = check_text(&plan.to_string(), &Limits::default(), &strict);
    let bound = Document::parse(&value.to_string(), &Limits::default())
        .is_ok_and(|value| glasshouse_plan::event_binding(name, value.root()).is_some());
    ours.safe && !bound
}

/// `$from` without a named place, which means the state.
fn bare_sources(plan: &Value, deviations: &Deviations) -> usize {
    if !deviations.has("bare-from-means-the-state") {
        return 0;
    }
    let named = ["state.", "event.", "context.", "vars."];
    let transitions = plan["state"]["transitions"].as_object().into_iter().flatten();
    let actions = transitions.flat_map(|(_, actions)| actions.as_array().into_iter().flatten());
    actions
        .filter(|action| {
            let from = action["value"]["$from"].as_str();
            let reads = action["type"] == "set" || action["type"] == "push";
            reads && from.is_some_and(|from| !named.iter().any(|name| from.starts_with(name)))
        })
        .count()
}
