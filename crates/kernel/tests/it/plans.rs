//! Plans in the log: versions, states, quotas, replay.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use glasshouse_kernel::Kernel;
use glasshouse_kernel::plans::{Expected, Hook, Plans, Plugin, Plugins, Quota};
use glasshouse_log::Append;
use glasshouse_model::body::{PlanShown, RunMode, RunStatus};
use glasshouse_model::{BranchId, Digest, Draft, Kind, SessionId};
use glasshouse_plan::patch::{Live, View};
use glasshouse_plan::{Context, Event, Limits, Profile, ProfileName, parse};
use serde_json::{Value, json};

const WIDE: Quota = Quota { runs_per_minute: 100_000, concurrent: 64 };

fn open(home: &Path, quota: Quota) -> Plans {
    Kernel::open(home, Path::new("/glasshouse")).unwrap().plans(home, quota).unwrap()
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A form with a counter; `fields` are its texts.
fn form(version: i64, title: &str, fields: &[&str]) -> String {
    let initial: serde_json::Map<String, Value> = fields
        .iter()
        .map(|field| ((*field).to_owned(), json!("")))
        .chain([("count".to_owned(), json!(0))])
        .collect();
    let transitions: serde_json::Map<String, Value> = fields
        .iter()
        .map(|field| {
            let set =
                json!([{"type": "set", "path": field, "value": {"$from": "event.payload.value"}}]);
            (format!("set-{field}"), set)
        })
        .chain([("add".to_owned(), json!([{"type": "increment", "path": "count"}]))])
        .collect();
    json!({
        "specVersion": "runtime-plan/v1", "id": "form", "version": version,
        "state": {"initial": initial, "transitions": transitions},
        "root": {"type": "element", "tag": "p", "children": [
            {"type": "text", "value": format!("{title} {{{{state.count}}}} {{{{state.name}}}}")}]},
    })
    .to_string()
}

fn show(plans: &mut Plans, text: &str) -> i64 {
    plans.show(text, RunMode::Plan, false, ProfileName::Strict).unwrap().version
}

fn event(plans: &mut Plans, name: &str, value: &str) -> glasshouse_kernel::plans::Run {
    let payload = json!({"value": value}).as_object().cloned();
    plans
        .event("form", Event::new(name, payload).unwrap(), Expected::default(), ProfileName::Strict)
        .unwrap()
}

#[test]
fn versions_are_immutable_and_the_same_content_is_one_version() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    assert_eq!(show(&mut plans, &form(1, "one", &["name"])), 1);
    assert_eq!(show(&mut plans, &form(1, "one", &["name"])), 1, "the same content");
    assert_eq!(show(&mut plans, &form(1, "two", &["name"])), 2, "a taken number");
    assert_eq!(show(&mut plans, &form(1, "two", &["name"])), 2, "bumped before");
    assert_eq!(show(&mut plans, &form(7, "seven", &["name"])), 7);
    assert_eq!(show(&mut plans, &form(2, "again", &["name"])), 8);
    for _ in 0..3 {
        event(&mut plans, "add", "");
    }
    let history = open(home.path(), WIDE).history(100).unwrap();
    let versions: Vec<i64> = history.plans[0].versions.iter().map(|it| it.version).collect();
    assert_eq!(versions, [1, 2, 7, 8], "no event makes a version");
    assert_eq!(history.plans[0].current, 8);
    assert_eq!(history.runs.len(), 9);
    assert!(history.usage.running.is_empty(), "each run gave its place back");
}

#[test]
fn l1_rollback_moves_a_pointer_and_keeps_what_was_entered() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    show(&mut plans, &form(1, "good", &["name", "mail"]));
    event(&mut plans, "set-name", "Ada");
    event(&mut plans, "add", "");
    show(&mut plans, &form(2, "bad", &["name", "phone"]));
    assert_eq!(plans.state("form").unwrap().values["name"], "", "a version has its own state");
    event(&mut plans, "set-name", "Ada L");
    event(&mut plans, "set-phone", "1");
    let run = plans.rollback("form", 1, ProfileName::Strict).unwrap();
    assert_eq!(run.html.markup, "<p>good 1 Ada L</p>");
    assert_eq!(
        (run.carried.kept, run.carried.dropped),
        (vec!["/name".into()], vec!["/phone".into()])
    );
    // The other version is as it was left.
    let run = plans.rollback("form", 2, ProfileName::Strict).unwrap();
    assert_eq!(run.state.values["phone"], "1");
    assert_eq!(plans.history(1).unwrap().plans[0].versions.len(), 2);
    let error = plans.rollback("form", 3, ProfileName::Strict).unwrap_err();
    assert_eq!(error.code(), "plan_not_found");
}

#[test]
fn b15_a_new_version_keeps_input_when_it_is_asked_to() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    show(&mut plans, &form(1, "a", &["name", "mail", "street"]));
    for (field, value) in [("name", "Ada"), ("mail", "a@b"), ("street", "S")] {
        event(&mut plans, &format!("set-{field}"), value);
    }
    let text = form(2, "b", &["name", "mail", "city"]);
    let run = plans.show(&text, RunMode::Prompt, true, ProfileName::Strict).unwrap();
    assert_eq!(run.state.values["name"], "Ada");
    assert_eq!(run.carried.kept, ["/mail", "/name"]);
    assert_eq!(run.carried.dropped, ["/street"]);
}

/// The failure: to show an earlier content again and keep what was entered kept nothing, and said nothing.
/// Now: the way back keeps input as a rollback does, where that is asked.
#[test]
fn b15_an_earlier_content_keeps_input_when_it_is_asked_to() {
    let check = |keep_input: bool, expected: &str| {
        let home = home();
        let mut plans = open(home.path(), WIDE);
        show(&mut plans, &form(1, "a", &["name"]));
        show(&mut plans, &form(2, "b", &["name"]));
        event(&mut plans, "set-name", "Ada");
        let text = form(1, "a", &["name"]);
        let run = plans.show(&text, RunMode::Plan, keep_input, ProfileName::Strict).unwrap();
        assert_eq!((run.version, &run.state.values["name"]), (1, &json!(expected)));
        assert_eq!(run.carried.kept.is_empty(), !keep_input);
        assert!(plans.replay(run.seq).unwrap().equal);
    };
    check(true, "Ada");
    check(false, "");
}

/// The failure: a plan whose numbers are longer as they are kept than as they were written was registered,
/// and from then on was too large for its profile.
/// Now: it is refused before it is registered.
#[test]
fn a_plan_that_grows_when_it_is_kept_is_measured_as_it_is_kept() {
    let check = |numbers: usize, expected: bool| {
        let home = home();
        let mut plans = open(home.path(), WIDE);
        let many = vec!["1e20"; numbers].join(",");
        let text = form(1, "a", &["name"]).replacen('{', &format!("{{\"x\":[{many}],"), 1);
        let shown = plans.show(&text, RunMode::Plan, false, ProfileName::Strict);
        assert_eq!(shown.is_ok(), expected, "{numbers}: {:?}", shown.err());
        assert_eq!(plans.history(9).unwrap().plans.len(), usize::from(expected), "{numbers}");
    };
    // Both texts are within the profile's 512 KiB.
    check(10, true);
    check(90_000, false);
}

#[test]
fn l2_a_run_is_replayed_from_what_stood_before_it() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    let text = form(1, "v", &["name"]);
    let mut runs = vec![plans.show(&text, RunMode::Plan, false, ProfileName::Strict).unwrap().seq];
    for _ in 0..3 {
        runs.push(event(&mut plans, "add", "").seq);
    }
    show(&mut plans, &form(2, "w", &["name"]));
    runs.push(plans.rollback("form", 1, ProfileName::Strict).unwrap().seq);
    let before = plans.state("form").unwrap();
    let script = text.replace("\"p\"", "\"script\"");
    plans.show(&script, RunMode::Plan, false, ProfileName::Strict).unwrap_err();
    runs.push(plans.history(1).unwrap().runs[0].run);
    for run in &runs {
        let replayed = plans.replay(*run).unwrap();
        assert!(replayed.equal, "{replayed:?}");
        assert!(!replayed.renderer_changed);
    }
    assert_eq!(plans.state("form").unwrap(), before, "a replay changes nothing");
    let last = plans.history(1).unwrap().runs[0].clone();
    assert_eq!((last.mode, last.of), (RunMode::Replay, runs.last().copied()));
    assert_eq!(plans.replay(last.run).unwrap_err().code(), "plan_run_not_replayable");
    assert_eq!(plans.replay(1).unwrap_err().code(), "plan_run_not_found");
    assert_eq!(plans.replay(9_999).unwrap_err().code(), "plan_run_not_found");
    // Also after the history was cleared: the log is the truth.
    plans.clear_history().unwrap();
    assert!(plans.history(9).unwrap().plans.is_empty());
    assert!(plans.replay(runs[2]).unwrap().equal);
    assert_eq!(plans.state("form").unwrap_err().code(), "plan_not_found");
}

#[test]
fn a_throttled_run_registers_nothing() {
    let home = home();
    let quota = Quota { runs_per_minute: 2, concurrent: 4 };
    let mut plans = open(home.path(), quota);
    show(&mut plans, &form(1, "a", &["name"]));
    event(&mut plans, "add", "");
    // Another process of the same tenant has the same quota.
    let mut plans = open(home.path(), quota);
    let text = form(1, "another", &["name"]);
    let error = plans.show(&text, RunMode::Plan, false, ProfileName::Strict).unwrap_err();
    assert_eq!((error.code(), error.report().retryable), ("plan_throttled", true));
    assert!(error.report().context["retry_after_ms"].as_u64().unwrap() <= 60_000);
    let history = plans.history(10).unwrap();
    assert_eq!(history.plans[0].versions.len(), 1);
    assert_eq!(history.runs[0].status, RunStatus::Throttled);
    assert_eq!(plans.replay(history.runs[0].run).unwrap_err().code(), "plan_run_not_replayable");
    let error = plans.event(
        "form",
        Event::new("add", None).unwrap(),
        Expected::default(),
        ProfileName::Strict,
    );
    assert_eq!(error.unwrap_err().code(), "plan_throttled");
    assert_eq!(plans.state("form").unwrap().revision, 1);
}

/// Runs read plans within the reader's own limits, so a text that the profile is too small for was
/// registered and shown. Each run is held to the profile that it is made under.
#[test]
fn a_run_is_held_to_the_sizes_of_its_profile() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    let large = form(1, &"y".repeat(300_000), &["name"]);
    let shown = plans.show(&large, RunMode::Plan, false, ProfileName::Strict);
    assert_eq!(shown.unwrap_err().code(), "plan_refused");
    assert!(plans.history(1).unwrap().plans.is_empty(), "nothing is registered");
    plans.show(&large, RunMode::Plan, false, ProfileName::Relaxed).unwrap();
    for (profile, code) in
        [(ProfileName::Relaxed, None), (ProfileName::Strict, Some("plan_refused"))]
    {
        let add = Event::new("add", None).unwrap();
        let ran = plans.event("form", add, Expected::default(), profile);
        assert_eq!(ran.err().map(|error| error.code()), code);
        let back = plans.rollback("form", 1, profile);
        assert_eq!(back.err().map(|error| error.code()), code);
    }
}

#[test]
fn a_refused_plan_leaves_its_reasons_and_nothing_else() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    for (text, code, status) in [
        (
            form(1, "a", &["name"]).replace("\"p\"", "\"script\""),
            "plan_refused",
            RunStatus::Rejected,
        ),
        ("{".to_owned(), "plan_unreadable", RunStatus::Failed),
    ] {
        let error = plans.show(&text, RunMode::Plan, false, ProfileName::Strict).unwrap_err();
        assert_eq!(error.code(), code);
        let history = plans.history(1).unwrap();
        assert_eq!((history.runs[0].status, history.plans.len()), (status, 0));
    }
    let error = plans.event(
        "none",
        Event::new("x", None).unwrap(),
        Expected::default(),
        ProfileName::Strict,
    );
    assert_eq!(error.unwrap_err().code(), "plan_not_found");
}

#[test]
fn a_writer_that_expects_another_revision_is_told() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    show(&mut plans, &form(1, "a", &["name"]));
    let add = || Event::new("add", None).unwrap();
    plans
        .event("form", add(), Expected { revision: Some(0), version: None }, ProfileName::Strict)
        .unwrap();
    let error = plans
        .event("form", add(), Expected { revision: Some(0), version: None }, ProfileName::Strict)
        .unwrap_err();
    assert_eq!((error.code(), error.exit().status()), ("plan_conflict", 8));
    // What was expected is not kept, so the run cannot be made again.
    let refused = plans.history(1).unwrap().runs[0].run;
    assert_eq!(plans.replay(refused).unwrap_err().code(), "plan_run_not_replayable");
    let unknown = event(&mut plans, "nothing", "");
    assert!(!unknown.handled);
    assert_eq!(unknown.state.revision, 1);
}

#[test]
fn parallel_events_are_all_counted() {
    let home = home();
    show(&mut open(home.path(), WIDE), &form(1, "a", &["name"]));
    let (writers, each) = (8, 125);
    std::thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                let mut plans = open(home.path(), WIDE);
                for _ in 0..each {
                    event(&mut plans, "add", "");
                }
            });
        }
    });
    let state = open(home.path(), WIDE).state("form").unwrap();
    assert_eq!((state.values["count"].as_i64(), state.revision), (Some(1_000), 1_000));
}

#[test]
fn an_event_carries_what_was_entered() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    let text = form(1, "n", &["name"]).replace("event.payload.value", "event.input.fields.name");
    show(&mut plans, &text);
    let input = json!({"value": "x", "fields": {"name": "<Ada>", "other": [1]}});
    let members = |value: &Value| value.as_object().unwrap().clone();
    let error = Event::new("set-name", None).unwrap().with_input(members(&input)).unwrap_err();
    assert_eq!(error.code(), "plan_state_event_invalid");
    let input = json!({"value": "x", "fields": {"name": "<Ada>"}});
    let sent = Event::new("set-name", None).unwrap().with_input(members(&input)).unwrap();
    let run = plans.event("form", sent, Expected::default(), ProfileName::Strict).unwrap();
    assert_eq!(run.html.markup, "<p>n 0 &lt;Ada&gt;</p>");
    assert!(plans.replay(run.seq).unwrap().equal, "the log has what was entered");
}

/// The policy of the project decides how a plan is shown, and a replay decides as it did then.
#[test]
fn a_decision_tightens_the_profile() {
    let (home, project) = (home(), tempfile::tempdir().unwrap());
    let place = project.path().join(".glasshouse");
    std::fs::create_dir(&place).unwrap();
    let rule = |demand: &str| {
        let text = format!(
            "capabilities:\n  - {{ name: ui, match: {{ syscall: ui.render }}, action: allow, \
             constraints: {{ {demand} }} }}\n"
        );
        std::fs::write(place.join("policy.yaml"), text).unwrap();
        let kernel = Kernel::open(home.path(), Path::new("/glasshouse")).unwrap();
        kernel.plans(project.path(), WIDE).unwrap()
    };
    let text = form(1, "n", &["name"]);
    let mut runs = Vec::new();
    let mut refused = |demand: &str, code: &str| {
        let mut plans = rule(demand);
        let error = plans.show(&text, RunMode::Plan, false, ProfileName::Trusted).unwrap_err();
        assert_eq!(error.report().context["issues"][0]["code"], code, "{demand}: {error:?}");
        runs.push(plans.history(1).unwrap().runs[0].run);
    };
    refused("ui_limits: { max_node_count: 1 }", "plan_too_large");
    refused("ui_limits: { max_tree_depth: 0 }", "plan_too_deep");
    let mut plans = rule("ui_profile: strict");
    let shown = plans.show(&text, RunMode::Plan, false, ProfileName::Trusted).unwrap();
    runs.push(shown.seq);
    let mut plans = open(home.path(), WIDE);
    for run in runs {
        assert!(plans.replay(run).unwrap().equal, "{run}");
    }
}

/// What the log says of another renderer is told, whether or not it matters.
#[test]
fn l2_a_replay_names_another_renderer() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    let run = plans.show(&form(1, "v", &["name"]), RunMode::Plan, false, ProfileName::Strict);
    let run = run.unwrap().seq;
    let kernel = Kernel::open(home.path(), Path::new("/glasshouse")).unwrap();
    let log = kernel.log();
    let (session, branch) = plans_branch(&kernel);
    let written = log.read(&branch, run, 1).unwrap().remove(0);
    for (markup, differences) in [(None, vec![]), (Some(Digest::of(b"other")), vec!["markup"])] {
        let mut body: PlanShown = written.body_as().unwrap();
        let old = body.run.as_mut().unwrap();
        old.renderer = "0.0.1".to_owned();
        old.markup = markup.or(old.markup);
        let draft = Draft::new(Kind::PlanRendered, &body);
        let append = Append::new(session.clone(), branch.clone(), vec![draft]);
        let seq = log.append(append).unwrap().head.seq;
        let replayed = plans.replay(seq).unwrap();
        assert!(replayed.renderer_changed);
        assert_eq!((replayed.equal, replayed.differences), (differences.is_empty(), differences));
    }
}

/// Two runs that both failed are not equal when they failed for different reasons.
#[test]
fn a_replay_names_another_reason() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    let refused = form(1, "v", &["name"]).replace(r#""tag":"p""#, r#""tag":"script""#);
    let shown = plans.show(&refused, RunMode::Plan, false, ProfileName::Strict);
    assert_eq!(shown.unwrap_err().code(), "plan_refused");
    let run = plans.history(1).unwrap().runs[0].run;
    let kernel = Kernel::open(home.path(), Path::new("/glasshouse")).unwrap();
    let (session, branch) = plans_branch(&kernel);
    let written = kernel.log().read(&branch, run, 1).unwrap().remove(0);
    for (code, differences) in [("plan_refused", vec![]), ("plan_hook_failed", vec!["code"])] {
        let mut body: PlanShown = written.body_as().unwrap();
        body.run.as_mut().unwrap().code = Some(code.to_owned());
        let draft = Draft::new(Kind::PlanRefused, &body);
        let append = Append::new(session.clone(), branch.clone(), vec![draft]);
        let seq = kernel.log().append(append).unwrap().head.seq;
        let replayed = plans.replay(seq).unwrap();
        assert_eq!((replayed.equal, replayed.differences), (differences.is_empty(), differences));
    }
}

fn plans_branch(kernel: &Kernel) -> (SessionId, BranchId) {
    let cell = kernel.log().cell("plans", "branch").unwrap().unwrap();
    let home: Value = serde_json::from_slice(&cell.bytes).unwrap();
    let part = |name: &str| home[name].clone();
    (
        serde_json::from_value(part("session")).unwrap(),
        serde_json::from_value(part("branch")).unwrap(),
    )
}

/// Two tenants have a log each: the same plan, version and event meet nothing of the other's.
#[test]
fn a_state_belongs_to_a_tenant_a_plan_and_a_version() {
    let (one, other) = (home(), home());
    let (mut one, mut other) = (open(one.path(), WIDE), open(other.path(), WIDE));
    for plans in [&mut one, &mut other] {
        show(plans, &form(1, "n", &["name"]));
    }
    event(&mut one, "add", "");
    assert_eq!(one.state("form").unwrap().values["count"], 1);
    assert_eq!(other.state("form").unwrap().values["count"], 0);
    show(&mut one, &form(2, "m", &["name"]));
    assert_eq!(one.state("form").unwrap().values["count"], 0, "nothing comes over unasked");
}

#[test]
fn an_event_answers_the_patches_that_it_makes() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    show(&mut plans, &form(1, "n", &["name"]));
    let run = event(&mut plans, "add", "");
    let patches = serde_json::to_value(&run.patches).unwrap();
    assert_eq!(patches, json!([{"op": "text", "id": 1, "append": false, "value": "n 1 "}]));
}

/// The failure: a plan that shows its event was patched as if no event had been before, so a view that
/// held `a` was told to append `b`.
/// Now: such a view is made anew.
#[test]
fn patches_fit_a_view_that_shows_its_event() {
    let home = home();
    let mut plans = open(home.path(), WIDE);
    let set = json!([{"type": "set", "path": "n", "value": 1}]);
    let text = json!({
        "specVersion": "runtime-plan/v1", "id": "form", "version": 1,
        "state": {"initial": {"n": 0}, "transitions": {"a": set, "b": set}},
        "root": {"type": "element", "tag": "p", "children": [
            {"type": "text", "value": "last: {{event.type}}"}]},
    });
    let text = text.to_string();
    show(&mut plans, &text);
    let (plan, context) =
        (parse(&text, &Limits::default()).unwrap(), Context::new("plan").unwrap());
    let live = Live::new(plan, &Profile::named(ProfileName::Strict), &context).unwrap();
    let mut view = View::default();
    view.apply(&live.first(&context).unwrap()).unwrap();
    for name in ["a", "b", "b", "a"] {
        let run = event(&mut plans, name, "");
        view.apply(&run.patches).unwrap();
        assert_eq!(view.markup(), run.html.markup, "after {name}");
        assert_eq!(view.markup(), format!("<p>last: {name}</p>"));
    }
}

/// Does something else on the branch of the plans, once, when a run is nearly done, and counts how often it was asked.
struct Meddler {
    other: Mutex<Option<Plans>>,
    act: fn(&mut Plans),
    asked: AtomicUsize,
}

impl Plugin for Meddler {
    fn name(&self) -> &str {
        "meddler"
    }

    fn digest(&self) -> Digest {
        Digest::of(b"meddler")
    }

    fn wants(&self, hook: Hook) -> bool {
        hook == Hook::AfterRender
    }

    fn call(&self, _: Hook, _: Value) -> Result<Option<Value>, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some(mut other) = self.other.lock().unwrap().take() {
            (self.act)(&mut other);
        }
        Ok(None)
    }
}

/// The failure: an endless loop of five seconds took ten beside one other render, and a minute beside many.
/// A run that lost the race for its record was made again, with all its code, whoever had won.
/// Now: it is made again only where versions or states of its plan changed; otherwise its record is.
#[test]
fn a_run_is_made_again_only_when_its_own_plan_changed() {
    let check = |what: &str, act: fn(&mut Plans), expected: usize| {
        let home = home();
        let mut other = open(home.path(), Quota::default());
        show(&mut other, &form(1, "Once", &["name"]));
        let meddler =
            Arc::new(Meddler { other: Mutex::new(Some(other)), act, asked: AtomicUsize::new(0) });
        let plugins = Plugins::new(vec![meddler.clone()]).unwrap();
        let mut plans = open(home.path(), Quota::default()).with_plugins(plugins);
        let run = event(&mut plans, "add", "");
        assert_eq!(meddler.asked.load(Ordering::SeqCst), expected, "{what}");
        let replayed = plans.replay(run.seq).unwrap();
        assert!(replayed.equal, "{what}: {replayed:?}");
    };
    let other_plan = |plans: &mut Plans| {
        show(plans, &form(1, "Another", &["name"]).replace("\"form\"", "\"other\""));
    };
    check("nothing", |_| {}, 1);
    check("another plan", other_plan, 1);
    let refused = |plans: &mut Plans| {
        plans.show("{}", RunMode::Plan, false, ProfileName::Strict).unwrap_err();
    };
    check("a plan that is refused", refused, 1);
    check("the same plan, shown again", |plans| _ = show(plans, &form(1, "Once", &["name"])), 1);
    check("another version", |plans| _ = show(plans, &form(2, "Twice", &["name"])), 2);
    check("another state", |plans| _ = event(plans, "add", ""), 2);
}
