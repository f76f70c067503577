//! What was found when this machine was examined counts wherever something is run on it, and what took a right away stays
//! said.

use std::path::Path;

use glasshouse_model::Kind;

use crate::harness::{Place, count};

/// Records what an examination of this host would have found.
fn examined_as(place: &Place, level: &str) {
    use glasshouse_sandbox::{BackendReport, DoctorReport, Level, Probe};
    let level: Level = serde_json::from_value(level.into()).unwrap();
    let made = Probe {
        name: "create".to_owned(),
        claim: String::new(),
        result: "held".to_owned(),
        remedy: String::new(),
        control: String::new(),
    };
    let native = BackendReport { name: "native".to_owned(), level, probes: vec![made] };
    let program = Path::new(env!("CARGO_BIN_EXE_glasshouse"));
    let kernel = glasshouse_kernel::Kernel::open(&place.home(), program).unwrap();
    kernel.record_examination(&DoctorReport { level, backends: vec![native] }).unwrap();
}

/// What an examination found lay in a file beside the log: whoever wrote a better level into it, or took
/// it away, bettered what every later event claimed, and nothing told of it.
#[test]
fn e2e_what_the_doctor_found_is_in_the_log_and_nothing_betters_it_unseen() {
    let place = Place::new();
    place.run(&["doctor"]).expect_status(0);
    let told = |kind: &str| {
        let said = place.run(&["audit", "log", "--kind", kind, "--json"]).expect_status(0);
        said.stdout.lines().count()
    };
    assert_eq!(told("sandbox.examined"), 1);
    let claimed = || {
        let ran = place.run(&["sandbox", "run", "--json", "--", "true"]).expect_status(0);
        ran.last()["isolation"].as_str().unwrap().to_owned()
    };
    assert_ne!(claimed(), "native:no-landlock");
    examined_as(&place, "no-landlock");
    assert_eq!(claimed(), "native:no-landlock");

    // By a file as there was one: nobody reads it.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let better = serde_json::json!({ "level": "full", "boot": boot.trim(), "failed": [] });
    std::fs::write(place.home().join("examination.json"), better.to_string()).unwrap();
    assert_eq!(claimed(), "native:no-landlock");

    // By the cell, with an event that says nothing of it: found, and made again from the events.
    let log = place.log();
    let (space, key) = ("sandbox.examined".to_owned(), "host".to_owned());
    let bytes = Some(better.to_string().into_bytes());
    let cell = glasshouse_log::CellWrite { space, key, expected_version: None, bytes };
    let rows = log.sessions().unwrap();
    let row = rows.into_iter().find(|row| row.session.as_str() != "s_log").unwrap();
    let event = glasshouse_model::Draft::new(Kind::Heartbeat, &1);
    let append = glasshouse_log::Append {
        cells: vec![cell],
        ..glasshouse_log::Append::new(row.session, row.main, vec![event])
    };
    log.append(append).unwrap();
    drop(log);
    assert_ne!(claimed(), "native:no-landlock", "the control: a sandbox believes the cell");
    place.run(&["audit", "check-state"]).expect_status(5);
    assert_eq!(claimed(), "native:no-landlock");
    assert_eq!(told("log.recovered"), 1);

    // An examination, and nothing else, finds better.
    place.run(&["doctor"]).expect_status(0);
    assert_ne!(claimed(), "native:no-landlock");
}

/// The failure: `sandbox run` told of a sandbox that was made and never of its end, so it counted as one that
/// its process had lost; and of one that could not be made nothing was told.
#[test]
fn e2e_every_sandbox_of_a_command_has_an_end_in_the_log() {
    let check = |examined: &str, argv: &[&str], expected: &[&str]| {
        let place = Place::new();
        examined_as(&place, examined);
        place.run(&[&["sandbox", "run", "--"][..], argv].concat());
        let (session, events) = place.events();
        let told: Vec<_> = events
            .iter()
            .map(|event| event.kind().as_str())
            .filter(|kind| {
                ["created", "failed", "destroyed"]
                    .map(|end| format!("sandbox.{end}"))
                    .contains(&(*kind).to_owned())
            })
            .collect();
        assert_eq!(told, expected, "{examined} {argv:?}");
        let program = Path::new(env!("CARGO_BIN_EXE_glasshouse"));
        let kernel = glasshouse_kernel::Kernel::open(&place.home(), program).unwrap();
        let rows = kernel.sandboxes(Some(&session)).unwrap();
        let states: Vec<_> = rows.iter().map(|row| format!("sandbox.{}", row.state)).collect();
        assert_eq!(states, [*expected.last().unwrap()], "{examined} {argv:?}");
        let failed = events.iter().find(|event| *event.kind() == Kind::SandboxFailed);
        let code = failed.map(|event| event.body["code"].as_str().unwrap());
        assert_eq!(code, (examined == "refused").then_some("isolation_unavailable"));
    };
    let whole = ["sandbox.created", "sandbox.destroyed"];
    check("full", &["true"], &whole);
    check("full", &["sh", "-c", "exit 7"], &whole);
    check("full", &["/no/such/program"], &whole);
    check("full", &["/etc/passwd"], &whole);
    check("refused", &["true"], &["sandbox.failed"]);
}

/// The failure: code of a plan that is streamed, or shown and not kept, ran in a sandbox that had heard of no
/// examination, also where an attack had succeeded.
#[test]
fn e2e_code_that_is_not_kept_runs_nowhere_where_an_attack_succeeded() {
    let place = Place::new();
    let plan = serde_json::json!({
        "specVersion": "runtime-plan/v1", "id": "made", "version": 1,
        "source": { "code": "export default () => <b>made</b>", "language": "tsx" },
        "root": { "type": "element", "tag": "p", "children": [] },
    });
    let file = place.path("plan.json");
    std::fs::write(&file, plan.to_string()).unwrap();
    let file = file.display().to_string();
    let stream = ["ui", "stream", &file, "--profile", "trusted"];
    let aside = ["ui", "render-plan", &file, "--profile", "trusted", "--no-register"];
    for arguments in [&stream[..], &aside] {
        // The control, with nothing recorded yet and after an examination that found nothing.
        assert_eq!(place.run(arguments).expect_status(0).stdout.trim_end(), "<b>made</b>");
    }
    examined_as(&place, "refused");
    for arguments in [&stream[..], &aside] {
        let ran = place.run(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(7), ""), "{arguments:?} {ran:?}");
    }
}

/// The failure: who erased the event that took a key back had the key again, and a session of keys that came from
/// elsewhere said who may use this server.
#[test]
fn e2e_a_right_that_was_taken_back_stays_so() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let made = place.run(&["keys", "create", "--role", "admin", "--json"]).expect_status(0).last();
    let id = made["key"].as_str().unwrap();
    place.run(&["keys", "revoke", id]).expect_status(0);
    let live = |place: &Place| {
        let listed = place.run(&["keys", "list", "--json"]).expect_status(0).stdout;
        listed.lines().filter(|line| line.contains("\"is_live\":true")).count()
    };
    for event in ["1", "2", "1-2"] {
        let erase =
            ["session", "erase", "s_access", "--event", event, "--reason", "no", "--yes", "--json"];
        let ran = place.run(&erase);
        assert_eq!(ran.status, Some(2), "{event}: {ran:?}");
        assert_eq!(live(&place), 0, "{event}");
    }
    place.run(&["keys", "create", "--role", "admin"]).expect_status(0);
    assert_eq!(live(&place), 1, "the control");
    let file = place.path("access.jsonl").display().to_string();
    place.run(&["session", "export", "s_access", "--out", &file]).expect_status(0);
    let ran = elsewhere.run(&["session", "import", &file]);
    assert!(ran.status != Some(0) && ran.stderr.contains("session_exists"), "{ran:?}");
    assert_eq!(live(&elsewhere), 0);
    elsewhere.run(&["keys", "create", "--role", "viewer"]).expect_status(0);
}

/// A tenant's log holds no examination of its own: its sandboxes claimed whatever the host could claim. What
/// was found in the installation's log counts for all its tenants, and a tenant without it starts nothing.
#[test]
fn e2e_what_the_doctor_found_counts_for_every_tenant() {
    use glasshouse_kernel::driver::{Hands, OneCommand};
    use glasshouse_kernel::{Kernel, NoReviewer};
    use glasshouse_sandbox::{Cancel, Live, TemplateName};
    let place = Place::new();
    place.run(&["doctor"]).expect_status(0);
    let program = Path::new(env!("CARGO_BIN_EXE_glasshouse"));
    let (home, tenant) = (place.path("acme"), "acme".parse().unwrap());
    let open = || Kernel::open_of(&home, program, &tenant).unwrap();
    let one = OneCommand {
        argv: vec!["true".to_owned()],
        workspace: None,
        root: None,
        calls: None,
        template: TemplateName::CodeExecutor,
        allow_hosts: Vec::new(),
        timeout_ms: None,
        env: Vec::new(),
        cwd: glasshouse_model::CanonicalPath::root(),
        merge: false,
    };
    let claimed = || {
        let kernel = open().within(&place.home()).unwrap();
        let cancel = Cancel::new().unwrap();
        let (live, sink) = (Live::default(), &mut |_, _: &[u8]| {});
        let hands = Hands { live, sink, cancel: &cancel, reviewer: &NoReviewer };
        kernel.run_once(&one, hands).unwrap().isolation
    };
    assert_ne!(claimed(), "native:no-landlock");
    examined_as(&place, "no-landlock");
    assert_eq!(claimed(), "native:no-landlock");
    assert!(open().within(&place.path("nothing")).is_err());
}

/// A host that isolates less than a rule demands runs nothing of what the rule allows.
#[test]
fn e2e_a_call_is_denied_where_the_host_isolates_too_weakly() {
    let check = |examined: &str, demanded: &str, status: &str| {
        let place = Place::new();
        let project = place.shell_project();
        examined_as(&place, examined);
        let rules = format!(
            "capabilities:\n  - {{ name: model, match: {{ syscall: model.call }}, action: allow }}\n  \
             - {{ name: run, match: {{ syscall: shell.run }}, action: allow, \
             constraints: {{ min_isolation: {demanded} }} }}\n"
        );
        std::fs::write(project.join(".glasshouse/policy.yaml"), rules).unwrap();
        let yaml = format!(
            "
version: 1
steps:
  - emit: [ {{ call: {{ id: a, tool: shell.run, args: {{ argv: [\"true\"] }} }} }} ]
  - expect: {{ results: {{ a: {status} }} }}
    emit: [ {{ text: done }} ]
"
        );
        place.scenario(&project, &yaml).expect_status(0);
        let (_, events) = place.events();
        let started = count(&events, &Kind::ToolStarted);
        assert_eq!(started, usize::from(status == "completed"), "{examined} {demanded}");
        // Denied for this reason and no other.
        let is_told = |event: &glasshouse_model::Event| {
            serde_json::to_string(&event.body).unwrap().contains("isolation_too_weak")
        };
        assert_eq!(events.iter().any(is_told), status == "denied", "{examined} {demanded}");
    };
    check("no-landlock", "no-landlock", "completed");
    check("no-landlock", "no-layers", "denied");
    check("no-layers", "no-layers", "completed");
    check("no-layers", "no-cgroup", "denied");
    check("no-cgroup", "full", "denied");
}
