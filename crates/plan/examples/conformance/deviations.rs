//! Deviations: where this product answers otherwise on purpose.
//!
//! Each is recorded in a file with the defect, law or section it rests on. A single case names the
//! answer we give; a rule says how every case of its kind differs, and is checked here against the
//! case. What no record explains is a failure.

use std::collections::BTreeMap;

use glasshouse_plan::{Profile, inspect_url_attribute};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Input, Means, markup, operations, policy, reference};

/// Why something deviates.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    /// The defect, law or section that asks for it.
    cites: String,
    /// What we do instead.
    why: String,
}

/// One case with another answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    ours: Value,
    #[serde(flatten)]
    reason: BTreeMap<String, String>,
}

/// The recorded deviations.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Deviations {
    /// Codes of issues that only this product has.
    stricter: BTreeMap<String, Reason>,
    /// Kinds of differences, by name.
    rules: BTreeMap<String, Reason>,
    /// Single cases.
    cases: BTreeMap<String, Other>,
}

/// What a comparison came to.
pub(crate) enum Verdict {
    /// The same value.
    Equal,
    /// Another one, for a recorded reason.
    Deviates(String),
    /// Another one.
    Differs,
}

/// What a record may rest on.
const GROUNDS: [&str; 4] = ["defect ", "law ", "section ", "case "];

impl Deviations {
    /// Reads the records; each needs its grounds and a reason.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let read: Self =
            serde_json::from_str(text).map_err(|error| format!("deviations: {error}"))?;
        let reasons = read.stricter.iter().chain(&read.rules);
        let mut all: Vec<(&String, &str, &str)> =
            reasons.map(|(name, it)| (name, it.cites.as_str(), it.why.as_str())).collect();
        let part = |other: &'_ Other, key: &str| other.reason.get(key).cloned().unwrap_or_default();
        let own: Vec<(String, String)> =
            read.cases.values().map(|it| (part(it, "cites"), part(it, "why"))).collect();
        all.extend(read.cases.keys().zip(&own).map(|(id, (cites, why))| (id, &**cites, &**why)));
        for (name, cites, why) in all {
            if !GROUNDS.iter().any(|ground| cites.contains(ground)) || why.len() < 10 {
                return Err(format!("the deviation {name} gives no grounds"));
            }
        }
        Ok(read)
    }

    /// Whether a rule is recorded.
    pub(crate) fn has(&self, rule: &str) -> bool {
        self.rules.contains_key(rule)
    }

    /// Whether issues with a code belong to this product alone.
    pub(crate) fn is_stricter(&self, code: &str) -> bool {
        self.stricter.contains_key(code)
    }

    /// Compares an answer with what is expected.
    pub(crate) fn compare(&self, id: &str, input: &Value, got: &Value, want: &Value) -> Verdict {
        if got == want {
            return Verdict::Equal;
        }
        if let Some(other) = self.cases.get(id) {
            let same = *got == other.ours;
            return if same { Verdict::Deviates(format!("case {id}")) } else { Verdict::Differs };
        }
        match self.explained(input, got, want) {
            Some(rules) if !rules.is_empty() && rules.iter().all(|rule| self.has(rule)) => {
                Verdict::Deviates(rules[0].to_owned())
            }
            _ => Verdict::Differs,
        }
    }

    /// The rules that explain a difference.
    fn explained(&self, input: &Value, got: &Value, want: &Value) -> Option<Vec<&'static str>> {
        match input["op"].as_str()? {
            "html" => html(got, want),
            "execute" => execute(got, want),
            "event" => event(input, got, want),
            "event@early" => early(input, got, want),
            "set" => {
                let path = input["path"].as_str()?;
                let ours = reference::set(&input["target"], path, &input["value"]);
                (ours.as_ref() == Some(got) || *got == input["target"])
                    .then(|| vec!["arrays-are-kept"])
            }
            "sequence" => sequence(self, input, got),
            "text" => {
                same_members(got.as_str()?, want.as_str()?).then(|| vec!["members-are-sorted"])
            }
            "templateProblems" => prices(input, got, want),
            "checkPlan" => check(self, input, got, want),
            "checkSpecifier" => specifier(input, got, want),
            "isSafePath" | "isTemplatePath" => {
                let escaped = input["path"].as_str()?.contains(['%', '~']);
                (escaped && *got == json!(false)).then(|| vec!["escaped-names-of-prototypes"])
            }
            _ => None,
        }
    }
}

fn html(got: &Value, want: &Value) -> Option<Vec<&'static str>> {
    match got.as_str() {
        Some(markup) => markup::explain(markup, want.as_str()?),
        // Where others blank a part, nothing of the plan is shown.
        None => {
            let codes = got["issues"].as_array()?.iter();
            codes.map(|code| refused_part(code.as_str()?)).collect()
        }
    }
}

/// Diagnostics with which an execution is refused.
const REFUSALS: [&str; 4] = [
    "error:RUNTIME_SPEC_VERSION_UNSUPPORTED",
    "error:RUNTIME_SOURCE_EXECUTION_DISABLED",
    "error:RUNTIME_ISOLATION_UNAVAILABLE",
    "error:RUNTIME_MANIFEST_MISSING",
];

fn execute(got: &Value, want: &Value) -> Option<Vec<&'static str>> {
    let (ours, theirs) = (got["diagnostics"].as_array()?, want["diagnostics"].as_array()?);
    let nothing = got["html"] == "";
    let refused = |text: &Value| REFUSALS.iter().any(|refusal| text == refusal);
    // The check also says which rule of the profile is broken.
    let own = |text: &&Value| !text.as_str().is_some_and(|text| text.starts_with("refused:"));
    let said: Vec<&Value> = ours.iter().filter(own).collect();
    if nothing
        && ours.iter().any(refused)
        && theirs.iter().filter(|it| refused(it)).eq(said.iter().copied())
    {
        return Some(vec!["a-refused-plan-shows-nothing"]);
    }
    if nothing
        && theirs.iter().any(|it| it == "warning:RUNTIME_ISOLATION_FALLBACK")
        && ours.iter().any(|it| it == "error:RUNTIME_ISOLATION_UNAVAILABLE")
    {
        return Some(vec!["no-weaker-isolation-than-asked"]);
    }
    if nothing && !ours.is_empty() {
        // An issue of our own check is told with this prefix.
        let refused = |text: &Value| refused_part(text.as_str()?.strip_prefix("refused:")?);
        if let Some(rules) = ours.iter().map(refused).collect() {
            return Some(rules);
        }
    }
    if ours != theirs {
        return None;
    }
    markup::explain(got["html"].as_str()?, want["html"].as_str()?)
}

/// The rule by which a plan is refused for a part that others leave out or write down unchecked.
fn refused_part(code: &str) -> Option<&'static str> {
    Some(match code {
        "plan_tag_denied" => "an-element-refused",
        "plan_url_denied" => "an-address-refused",
        "plan_host_denied" => "a-host-refused",
        "plan_attribute_denied" => "an-attribute-refused",
        "plan_style_denied" => "a-style-refused",
        "plan_nesting_invalid" => "a-nesting-refused",
        "plan_module_denied" => "a-module-refused",
        _ => return None,
    })
}

fn event(input: &Value, got: &Value, want: &Value) -> Option<Vec<&'static str>> {
    let infinite = want["state"].to_string().contains("$number");
    match got["error"].as_str() {
        Some("plan_state_number_invalid") if infinite => return Some(vec!["numbers-are-finite"]),
        Some("plan_path_unsafe") => {
            let unsafe_path = json!("error:RUNTIME_ACTION_PATH_UNSAFE");
            let said = want["diagnostics"].as_array()?.contains(&unsafe_path);
            return said.then(|| vec!["one-event-is-one-step"]);
        }
        Some("plan_state_path_invalid") => {
            let ours = reference::replay(&input["state"], want["applied"].as_array()?);
            return ours.is_none().then(|| vec!["arrays-are-kept"]);
        }
        Some(_) => return None,
        None => {}
    }
    let ours = reference::replay(&input["state"], got["applied"].as_array()?)?;
    let same = ours == got["state"] && got["diagnostics"] == want["diagnostics"];
    (same && input["state"].to_string().contains('[')).then(|| vec!["arrays-are-kept"])
}

/// The earlier behaviour of toggle made everything true that was no boolean.
fn early(input: &Value, got: &Value, want: &Value) -> Option<Vec<&'static str>> {
    let kind = input["event"]["type"].as_str()?;
    let actions = input["transitions"][kind].as_array()?;
    let toggles = actions.iter().any(|action| action["type"] == "toggle");
    let ours = reference::replay(&input["state"], actions)?;
    let same = ours == got["state"] && got["appliedCount"] == want["appliedCount"];
    (toggles && same).then(|| vec!["toggle-negates-by-truth"])
}

/// Each version of a plan is shown as if the others did not exist.
fn sequence(deviations: &Deviations, input: &Value, got: &Value) -> Option<Vec<&'static str>> {
    let steps = input["steps"].as_array()?;
    let key = |step: &Value| (step["plan"]["id"].clone(), step["plan"]["version"].clone());
    let mut versions: Vec<_> = steps.iter().map(key).collect();
    versions.dedup();
    for version in &versions {
        let own: Vec<(usize, &Value)> =
            steps.iter().enumerate().filter(|(_, step)| key(step) == *version).collect();
        let alone: Vec<&Value> = own.iter().map(|(_, step)| *step).collect();
        let input = json!({"op": "sequence", "steps": alone});
        let input = Input { value: &input, ordered: None };
        let means = Means { deviations, coder: None };
        let Answer::Value(shown) = operations::answer(&input, &means) else { return None };
        if own.iter().zip(shown.as_array()?).any(|((at, _), shown)| got.get(*at) != Some(shown)) {
            return None;
        }
    }
    (versions.len() > 1).then(|| vec!["a-state-belongs-to-one-version"])
}

fn same_members(got: &str, want: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    read(got).is_some_and(|ours| ours.is_object() && read(want) == Some(ours))
}

/// A dollar sign before braces without a name in them.
fn prices(input: &Value, got: &Value, want: &Value) -> Option<Vec<&'static str>> {
    let text = input["plan"].to_string();
    let price = |(at, _): (usize, &str)| {
        !text[at + 2..].trim_start().starts_with(|c: char| c.is_alphabetic() || c == '_')
    };
    let prices = text.match_indices("${").filter(|found| price(*found)).count() as u64;
    (prices > 0 && got.as_u64()? + prices == want.as_u64()?).then(|| vec!["a-price-is-text"])
}

fn check(
    deviations: &Deviations,
    input: &Value,
    got: &Value,
    want: &Value,
) -> Option<Vec<&'static str>> {
    let missing = policy::missing(input, deviations) as u64;
    let (ours, theirs) = (got["issueCount"].as_u64()?, want["issueCount"].as_u64()?);
    if missing > 0 && ours + missing == theirs {
        return Some(vec!["accepted-where-others-misread"]);
    }
    // The look at source tells code from comments and strings, so it finds other words.
    let code = input["plan"]["source"]["code"].as_str()?;
    let words = [
        "eval",
        "Function",
        "import",
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "importScripts",
        "cookie",
        "localStorage",
        "sessionStorage",
        "indexedDB",
        "sendBeacon",
        "env",
        "child_process",
    ];
    let spoken = words.iter().any(|word| code.to_lowercase().contains(&word.to_lowercase()));
    let quoted = code.contains(['"', '\'', '`']) || code.contains("//") || code.contains("/*");
    (spoken && quoted && ours < theirs).then(|| vec!["words-in-comments-and-strings"])
}

fn specifier(input: &Value, got: &Value, want: &Value) -> Option<Vec<&'static str>> {
    let name = input["specifier"].as_str()?;
    let profile: Profile = policy::profile(input)?;
    if *got == json!(true) {
        return policy::is_bare_and_accepted(name, &profile)
            .then(|| vec!["bare-names-where-no-manifest-is-asked"]);
    }
    let hidden = name.starts_with("//") || name.contains('\\');
    let odd_address = inspect_url_attribute("src", name).is_none() && name.contains("//");
    let empty = profile.allowed_modules.is_empty();
    match (*want == json!(true), hidden, odd_address, empty) {
        (true, true, ..) => Some(vec!["two-slashes-name-a-host"]),
        (true, _, true, _) => Some(vec!["addresses-in-one-reading"]),
        (true, _, _, true) => Some(vec!["an-empty-list-allows-nothing"]),
        _ => None,
    }
}
