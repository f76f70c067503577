//! One answer for each operation of the cases.

use std::collections::BTreeMap;

use glasshouse_plan::json::Document;
use glasshouse_plan::module::Resolver;
use glasshouse_plan::quota::{Quota, RUN_TTL_US, Usage};
use glasshouse_plan::registry::free_version;
use glasshouse_plan::state::{Host, State, StateLimits, apply};
use glasshouse_plan::template::{Scope, problems, resolve_text, resolve_value};
use glasshouse_plan::{
    Context, Error, Event, Limits, Plan, Profile, ProfileName, event_binding, guard, hash,
    inspect_url_attribute, intake, is_url_attribute, normalise, parse, path, render,
};
use serde_json::{Map, Value, json};

use super::decode;
use super::policy;
use super::{Answer, Input, Means};

/// Answers one input.
pub(crate) fn answer(given: &Input<'_>, means: &Means<'_>) -> Answer {
    let input = given.value;
    let text = |key: &str| input[key].as_str().unwrap_or_default();
    Answer::Value(match text("op") {
        "guard" => guarded(text("name"), &input["value"]),
        "splitPath" => json!(path::split(text("path")).collect::<Vec<_>>()),
        "isSafePath" => json!(path::is_safe(text("path"))),
        "isTemplatePath" => json!(path::is_template_path(text("path"))),
        "get" => path::get_in(&plain(&input["source"]), text("path"))
            .map_or_else(decode::undefined, |found| found.to_value()),
        "set" => set(input),
        "text" => json!(resolve_text(text("template"), &Reading::of(input).scope())),
        "prop" => property(input),
        "templateProblems" => match plan_of(&input["plan"], false) {
            Ok(plan) => json!(problems(&plan).len()),
            Err(error) => json!({"error": error.code()}),
        },
        "event" => event(input, false),
        "event@early" => event(input, true),
        "sequence" => sequence(given),
        "registry@early" => registry(input),
        "tenant@early" => tenants(input),
        "normalizeNode" => {
            let node = decode::json(&input["value"]).and_then(|value| normalise::node(&value));
            node.unwrap_or_else(decode::undefined)
        }
        "normalizePlan" => {
            let id = input["fallbackId"].as_str().unwrap_or("fallback");
            let plan =
                decode::json(&input["value"]).and_then(|value| normalise::plan(&value, Some(id)));
            plan.unwrap_or_else(decode::undefined)
        }
        "checkPlan" => policy::check_plan(input, means.deviations),
        "initPolicy" => match policy::profile(input) {
            Some(profile) => camel(&json!(profile)),
            None => json!({"error": true}),
        },
        "checkSpecifier" => {
            let profile = policy::profile(input);
            json!(profile.is_some_and(|profile| profile.allows_specifier(text("specifier"))))
        }
        "hostAllowed" => {
            let allowed = serde_json::from_value(input["allowed"].clone()).unwrap_or_default();
            let strict = Profile::named(ProfileName::Strict);
            let profile = Profile { allowed_network_hosts: allowed, ..strict };
            json!(profile.allows_address(text("url")))
        }
        "urlAttr" => addresses(text("name"), text("value")),
        "eventBinding" => binding(text("prop"), &input["value"]),
        "html" => html(given),
        "execute" => return execute(given, means),
        "resolve" => {
            let resolver = Resolver::new(input["options"]["cdnBaseUrl"].as_str().unwrap_or(""));
            let map = input["options"]["importMap"].as_object().cloned().unwrap_or_default();
            let resolved = resolver.with_map(map).resolve(text("specifier"));
            resolved.map_or_else(|_| json!({"error": true}), Value::from)
        }
        "generate" => generate(text("prompt"), text("text")),
        "componentModules" => match plan_of(&json!({"root": input["root"]}), false) {
            Ok(plan) => json!(plan.component_modules()),
            Err(error) => json!({"error": error.code()}),
        },
        "fnv1a64" | "hash64" => json!(hash::fnv1a_64(text("text"))),
        "fnv1a32" | "hash32" => json!(hash::fnv1a_32_base36(text("text"))),
        "sourceImports" => json!(glasshouse_plan::source::scan(text("code"), "js").imports),
        _ => return Answer::Skip("an operation that this suite does not know"),
    })
}

fn plain(value: &Value) -> Value {
    decode::json(value).unwrap_or(Value::Null)
}

fn plan_of(plan: &Value, raw: bool) -> Result<Plan, Error> {
    let plan = policy::whole(plan, raw).unwrap_or(Value::Null);
    parse(&plan.to_string(), &Limits::default())
}

/// A plan whose tree is written in the order of the case.
fn ordered_plan(plan: &Value, root: Option<String>) -> Result<Plan, Error> {
    let plan = policy::whole(plan, false).unwrap_or(Value::Null);
    let Some(root) = root else { return parse(&plan.to_string(), &Limits::default()) };
    let members = plan.as_object().into_iter().flatten().filter(|(key, _)| *key != "root");
    let members: Vec<String> =
        members.map(|(key, value)| format!("{}:{value}", json!(key))).collect();
    parse(&format!("{{{},\"root\":{root}}}", members.join(",")), &Limits::default())
}

fn guarded(name: &str, value: &Value) -> Value {
    let data = matches!(name, "isJsonValue" | "isRuntimeStateSnapshot");
    let absent = data && value.to_string().contains("\"$undefined\"");
    let Some(value) = decode::json(value).filter(|_| !absent) else { return json!(false) };
    let Ok(document) = Document::parse(&value.to_string(), &Limits::default()) else {
        return json!(false);
    };
    let value = document.root();
    let is = |words: &[&str]| value.as_text().is_some_and(|text| words.contains(&text));
    json!(match name {
        "isRuntimePlan" => guard::plan(value).is_ok(),
        "isRuntimeNode" => guard::node(value).is_ok(),
        "isRuntimeAction" => guard::action(value).is_ok(),
        "isRuntimeCapabilities" => guard::capabilities(value).is_ok(),
        "isRuntimeSourceModule" => guard::source(value).is_ok(),
        "isRuntimeStateModel" => guard::state_model(value).is_ok(),
        "isRuntimeModuleManifest" => guard::manifest(value).is_ok(),
        "isRuntimeModuleDescriptor" => guard::descriptor(value).is_ok(),
        "isRuntimePlanMetadata" => guard::metadata(value).is_ok(),
        "isRuntimeEvent" => guard::event(value).is_ok(),
        "isRuntimeValueFromPath" => guard::reference(value).is_ok(),
        "isRuntimeStateSnapshot" => value.as_object().is_some(),
        "isRuntimeSourceLanguage" => is(&["js", "jsx", "ts", "tsx"]),
        "isRuntimeSourceRuntime" => is(&["renderify", "preact"]),
        "isJsonValue" => true,
        _ => return json!({"error": "unknown guard"}),
    })
}

/// The target after a write; a refused write changes nothing.
fn set(input: &Value) -> Value {
    let mut target = plain(&input["target"]).as_object().cloned().unwrap_or_default();
    let path = input["path"].as_str().unwrap_or_default();
    // Refused or not, the target is the answer.
    let _ = path::set(&mut target, path, plain(&input["value"]));
    Value::Object(target)
}

/// What templates of a case read.
struct Reading {
    state: Map<String, Value>,
    variables: Map<String, Value>,
    user_id: String,
    event: Option<Event>,
}

impl Reading {
    fn of(input: &Value) -> Self {
        let object = |value: &Value| plain(value).as_object().cloned().unwrap_or_default();
        let context = &input["context"];
        let variables = ["vars", "variables"].iter().find_map(|key| input.get(*key));
        Self {
            state: object(&input["state"]),
            variables: object(variables.unwrap_or(&context["variables"])),
            user_id: context["userId"].as_str().unwrap_or("anonymous").to_owned(),
            event: happened(&input["event"]),
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            state: &self.state,
            event: self.event.as_ref(),
            user_id: &self.user_id,
            variables: &self.variables,
        }
    }
}

fn happened(event: &Value) -> Option<Event> {
    let payload = plain(&event["payload"]).as_object().cloned();
    Event::new(event["type"].as_str()?, payload).ok()
}

fn property(input: &Value) -> Value {
    let template = plain(&input["template"]).to_string();
    let Ok(document) = Document::parse(&template, &Limits::default()) else {
        return json!({"error": true});
    };
    resolve_value(document.root(), &Reading::of(input).scope()).unwrap_or(json!({"error": true}))
}

fn event(input: &Value, early: bool) -> Value {
    let mut model = json!({"initial": input["state"]});
    if let Some(transitions) = input.get("transitions") {
        model["transitions"] = transitions.clone();
    }
    let stepped = plan_of(&json!({"state": model}), false).and_then(|plan| {
        let limits = StateLimits::default();
        let state = State::initial(&plan, &limits)?;
        let reading = Reading::of(input);
        let host = Host { user_id: &reading.user_id, variables: &reading.variables };
        let Some(event) = &reading.event else { return Ok((state, Vec::new(), true)) };
        let applied = apply(&state, &plan, event, &host, &limits)?;
        Ok((applied.state, applied.actions, applied.handled))
    });
    let (state, actions, handled) = match stepped {
        Ok(stepped) => stepped,
        Err(error) => return json!({"error": error.code()}),
    };
    if !early {
        return json!({"state": state.values, "applied": actions, "diagnostics": []});
    }
    let diagnostics = match (handled, input.get("transitions")) {
        (true, _) => json!([]),
        (false, None) => json!(["warning:RUNTIME_EVENT_IGNORED"]),
        (false, Some(_)) => json!(["warning:RUNTIME_EVENT_NO_HANDLER"]),
    };
    json!({"state": state.values, "appliedCount": actions.len(), "diagnostics": diagnostics})
}

/// A host that keeps one state for each plan and version, and shows each step.
fn sequence(given: &Input<'_>) -> Value {
    let input = given.value;
    let mut kept: BTreeMap<(String, i64), State> = BTreeMap::new();
    let limits = StateLimits::default();
    let steps = input["steps"].as_array().into_iter().flatten();
    steps
        .map(|step| {
            let shown = plan_of(&step["plan"], false).and_then(|plan| {
                let key = (plan.id().to_owned(), plan.version());
                let mut state = match kept.remove(&key) {
                    Some(state) => state,
                    None => State::initial(&plan, &limits)?,
                };
                let reading = Reading::of(step);
                let host = Host { user_id: &reading.user_id, variables: &reading.variables };
                if let Some(event) = &reading.event {
                    state = apply(&state, &plan, event, &host, &limits)?.state;
                }
                let mut context = Context::new(SURFACE)?.state(&state);
                if let Some(event) = &reading.event {
                    context = context.event(event);
                }
                let html = render(&plan, &open_profile(), &context)?;
                kept.insert(key, state);
                Ok(html.markup)
            });
            shown.map_or_else(|error| json!({"error": error.code()}), Value::from)
        })
        .collect()
}

/// Surface that ids of rendered cases are prefixed with.
pub(crate) const SURFACE: &str = "s";

/// The least careful profile without its limits of size, so that what is refused is refused for
/// what it is.
fn open_profile() -> Profile {
    let relaxed = Profile::named(ProfileName::Relaxed);
    Profile { max_tree_depth: 100, max_node_count: 10_000, ..relaxed }
}

fn registry(input: &Value) -> Value {
    let mut taken = BTreeMap::new();
    let asked = input["versions"].as_array().into_iter().flatten();
    let assigned: Vec<i64> = asked
        .map(|asked| {
            // Numbers start at 1.
            let version = free_version(&taken, asked.as_i64().unwrap_or(1).max(1));
            taken.insert(version, ());
            version
        })
        .collect();
    let versions: Vec<i64> = taken.keys().copied().collect();
    let latest = versions.last();
    let list = if versions.is_empty() {
        json!([])
    } else {
        json!([{"planId": "case", "latestVersion": latest, "versions": versions}])
    };
    json!({"assigned": assigned, "latest": latest, "list": list})
}

fn tenants(input: &Value) -> Value {
    let limit = |key: &str, default: u32| {
        let limit = input["policy"][key].as_u64().and_then(|limit| u32::try_from(limit).ok());
        limit.unwrap_or(default)
    };
    let default = Quota::default();
    let quota = Quota {
        runs_per_minute: limit("maxExecutionsPerMinute", default.runs_per_minute),
        concurrent: limit("maxConcurrentExecutions", default.concurrent),
    };
    let mut tenants: BTreeMap<&str, Usage> = BTreeMap::new();
    let mut leases: Vec<Option<&str>> = Vec::new();
    let mut now_us = 0;
    let steps = input["steps"].as_array().into_iter().flatten();
    let results: Vec<Value> = steps
        .map(|step| {
            let wait = ["advanceMs", "wait", "advance"].iter().find_map(|key| step[*key].as_u64());
            if let Some(wait) = wait {
                now_us += wait * 1_000;
                return json!("advanced");
            }
            if let Some(tenant) = step["acquire"].as_str() {
                // A caller without a name is a tenant as well.
                let name = if tenant.trim().is_empty() { "anonymous" } else { tenant.trim() };
                let usage = tenants.entry(name).or_default();
                // Here a run ends only when it is told to.
                let later_us = now_us + RUN_TTL_US;
                usage.running.values_mut().for_each(|expires_us| *expires_us = later_us);
                let granted = usage.take(quota, &leases.len().to_string(), now_us).is_ok();
                if granted {
                    leases.push(Some(name));
                }
                return json!(if granted { "granted" } else { "throttled" });
            }
            let lease = step["release"].as_u64().and_then(|index| usize::try_from(index).ok());
            if let Some((lease, name)) =
                lease.and_then(|at| Some((at, leases.get_mut(at)?.take()?)))
                && let Some(usage) = tenants.get_mut(name)
            {
                usage.give_back(&lease.to_string());
            }
            json!("released")
        })
        .collect();
    let snapshots: Vec<Value> = tenants
        .iter()
        .map(|(tenant, usage)| {
            json!({"tenantId": tenant, "executionsInWindow": usage.runs_in_window,
                "concurrentExecutions": usage.running.len()})
        })
        .collect();
    json!({"results": results, "snapshots": snapshots})
}

fn addresses(name: &str, value: &str) -> Value {
    let found = inspect_url_attribute(name, value);
    let safe = found.is_some();
    let found = found.unwrap_or_default();
    json!({"isUrlAttribute": is_url_attribute(name), "safe": safe, "remote": found.remote.len(),
        "relative": found.relative.len(), "other": found.contact.len()})
}

fn binding(prop: &str, value: &Value) -> Value {
    let value = plain(value).to_string();
    let Ok(document) = Document::parse(&value, &Limits::default()) else {
        return decode::undefined();
    };
    match event_binding(prop, document.root()) {
        Some((dom_event, event)) => json!({"domEvent": dom_event, "runtimeEvent": event}),
        None => decode::undefined(),
    }
}

/// Stands for two braces where no template is meant.
const BRACES: &str = "\u{e000}\u{e001}";

fn html(given: &Input<'_>) -> Value {
    // The tree of such a case is resolved already, so braces in it are text.
    let text = given.text(&["node"]).unwrap_or_else(|| given.value["node"].to_string());
    let rendered = ordered_plan(&json!({}), Some(text.replace("{{", BRACES)))
        .and_then(|plan| render(&plan, &open_profile(), &Context::new(SURFACE)?));
    match rendered {
        Ok(html) => html.markup.replace(BRACES, "{{").into(),
        Err(error) => json!({"error": error.code(), "issues": issue_codes(&error)}),
    }
}

/// The codes for which a plan was refused.
fn issue_codes(error: &Error) -> Vec<String> {
    let report = error.report();
    let issues = report.context.get("issues").and_then(Value::as_array);
    match issues {
        Some(issues) => {
            issues.iter().filter_map(|issue| issue["code"].as_str()).map(str::to_owned).collect()
        }
        None => vec![error.code().to_owned()],
    }
}

/// What the product says of a plan it does not run or not fully run, in the words of the cases.
const DIAGNOSTICS: [(&str, &str); 14] = [
    ("plan_spec_version", "error:RUNTIME_SPEC_VERSION_UNSUPPORTED"),
    ("plan_code_unsupported", "error:RUNTIME_SOURCE_EXECUTION_DISABLED"),
    ("plan_lane_unavailable", "error:RUNTIME_ISOLATION_UNAVAILABLE"),
    ("plan_manifest_missing", "error:RUNTIME_MANIFEST_MISSING"),
    ("plan_import_unresolved", "warning:RUNTIME_LOADER_MISSING"),
    ("plan_import_limit", "warning:RUNTIME_IMPORT_LIMIT_EXCEEDED"),
    ("plan_component_unresolved", "warning:RUNTIME_COMPONENT_SKIPPED"),
    ("plan_component_limit", "error:RUNTIME_COMPONENT_LIMIT_EXCEEDED"),
    ("plan_path_unsafe", "error:RUNTIME_ACTION_PATH_UNSAFE"),
    ("script_output_invalid", "error:RUNTIME_SOURCE_OUTPUT_INVALID"),
    ("script_failed", "error:RUNTIME_SOURCE_EXEC_FAILED"),
    ("script_limit", "error:RUNTIME_TIMEOUT"),
    ("script_export_missing", "error:RUNTIME_SOURCE_EXPORT_MISSING"),
    (BY_DEFAULT, "warning:RUNTIME_SOURCE_EXPORT_FALLBACK_DEFAULT"),
];

/// Not a code of ours: the record of a run has a member of its own for it.
const BY_DEFAULT: &str = "export_missing";

fn execute(given: &Input<'_>, means: &Means<'_>) -> Answer {
    let input = given.value;
    let options = &input["options"];
    let runs =
        options["allowRuntimeSourceExecution"] == true && input["plan"].get("source").is_some();
    if runs && means.coder.is_none() {
        return Answer::Skip("execute with source: no engine is here");
    }
    let mut of_code: Vec<String> = Vec::new();
    let profile = Profile {
        require_module_manifest_for_bare_specifiers: options["enforceModuleManifest"] != false,
        ..open_profile()
    };
    let said = |code: &str| {
        DIAGNOSTICS.iter().find(|(ours, _)| *ours == code).map(|(_, theirs)| json!(theirs))
    };
    let root = given.text(&["plan", "root"]);
    let run = ordered_plan(&input["plan"], root).and_then(|mut plan| {
        let reading = Reading::of(input);
        let limits = StateLimits::default();
        let mut state = State::initial(&plan, &limits)?;
        if input.get("state").is_some() {
            state.values = reading.state.clone();
        }
        if let Some(event) = &reading.event {
            let host = Host { user_id: &reading.user_id, variables: &reading.variables };
            state = apply(&state, &plan, event, &host, &limits)?.state;
        }
        let mut context = Context::new(SURFACE)?
            .state(&state)
            .user(&reading.user_id)
            .variables(&reading.variables);
        if let Some(event) = &reading.event {
            context = context.event(event);
        }
        if let Some(coder) = means.coder.filter(|_| runs) {
            let event = &reading.event;
            let coded = coder(
                &plan,
                json!({"state": state.values, "event": event,
                "context": {"userId": reading.user_id, "variables": reading.variables}}),
            );
            of_code.extend(coded.by_default.then(|| BY_DEFAULT.to_owned()));
            of_code.extend(coded.made.as_ref().err().cloned());
            plan = plan.after_code(coded.made.as_ref().ok(), &Limits::default())?;
        }
        render(&plan, &profile, &context)
    });
    Answer::Value(match run {
        Ok(html) => {
            let diagnostics: Vec<Value> = of_code
                .iter()
                .map(String::as_str)
                .chain(html.notes.iter().map(|note| note.code))
                .filter_map(said)
                .collect();
            json!({"html": html.markup, "diagnostics": diagnostics})
        }
        Err(error) => {
            let codes = issue_codes(&error);
            let diagnostics: Vec<Value> = codes
                .iter()
                .map(|code| said(code).unwrap_or_else(|| json!(format!("refused:{code}"))))
                .collect();
            json!({"html": "", "diagnostics": diagnostics})
        }
    })
}

fn generate(prompt: &str, answer: &str) -> Value {
    let intake = intake::read(prompt, answer, "generated");
    let plan = &intake.plan;
    let root = &plan["root"];
    let tag = if root["type"] == "element" { &root["tag"] } else { &root["type"] };
    let mut shown = json!({"textFallback": intake.kind == intake::Kind::Text,
        "specVersion": plan["specVersion"], "version": plan["version"], "rootTag": tag,
        "imports": plan["imports"]});
    if let Some(manifest) = plan["moduleManifest"].as_object() {
        let places =
            manifest.iter().map(|(name, entry)| (name.clone(), entry["resolvedUrl"].clone()));
        shown["manifest"] = Value::Object(places.collect());
    }
    if let Some(source) = plan.get("source") {
        shown["source"] = json!({"language": source["language"], "runtime": source["runtime"],
            "exportName": source["exportName"]});
    }
    if let Some(tags) = plan["metadata"].get("tags") {
        shown["tags"] = tags.clone();
    }
    shown
}

/// Field names in the spelling of the cases.
fn camel(value: &Value) -> Value {
    let members = value.as_object().into_iter().flatten();
    let rename = |name: &str| {
        let mut parts = name.split('_');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (first, rest) = part.split_at(1);
            out.push_str(&first.to_ascii_uppercase());
            out.push_str(rest);
        }
        out
    };
    Value::Object(members.map(|(name, value)| (rename(name), value.clone())).collect())
}
