//! The review queue and grants: asked by one process, answered and taken back by another.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glasshouse_kernel::driver::{ApprovalName, PendingApproval};
use glasshouse_kernel::{Answer, Kernel, Wider};
use glasshouse_log::{Append, CellWrite, NewBranch};
use glasshouse_model::body::{ApprovalAnswered, GrantScope};
use glasshouse_model::{
    Actor, BranchId, Draft, Event, Kind, Principal, PrincipalKind, SessionId, TenantId,
};
use serde_json::{Value, json};

use crate::harness::{Place, Running, assert_each_ended_once, count, statuses};

const PATIENCE: Duration = Duration::from_secs(60);

/// A project whose accepted policy asks a person about each read of `ask*.txt`.
pub(crate) fn asking_project(place: &Place) -> PathBuf {
    let project = place.shell_project();
    for n in 1..=7 {
        std::fs::write(project.join(format!("ask{n}.txt")), format!("secret {n}\n")).unwrap();
    }
    place.accept_rule(
        &project,
        "{ name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }",
    );
    project
}

pub(crate) fn start(place: &Place, project: &Path, yaml: &str) -> Running {
    let mut command = place.scenario_command(project, yaml);
    command.args(["--wait-for-review", "60s"]);
    place.spawn(command)
}

fn kernel(place: &Place) -> Kernel {
    Kernel::open(&place.home(), Path::new(env!("CARGO_BIN_EXE_glasshouse"))).unwrap()
}

/// Waits until so many questions wait that nobody has answered.
pub(crate) fn pending(place: &Place, wanted: usize) -> Vec<PendingApproval> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if place.home().join("log.db").exists() {
            let mut found = kernel(place).pending_approvals().unwrap();
            found.retain(|one| !one.answered);
            if found.len() == wanted {
                return found;
            }
        }
        let stderr = std::fs::read_to_string(place.path("stderr")).unwrap_or_default();
        assert!(Instant::now() < deadline, "{wanted} questions did not come in time\n{stderr}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The one question behind another, which may still be listed while its answer is taken over.
fn next_after(place: &Place, before: &PendingApproval) -> PendingApproval {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = pending(place, 1).remove(0);
        if found.approval.to_string() != before.approval.to_string() {
            return found;
        }
        assert!(Instant::now() < deadline, "the next question did not come in time");
    }
}

/// Events of the sessions in which an agent worked.
pub(crate) fn events(place: &Place) -> Vec<Event> {
    let log = place.log();
    let mut all = Vec::new();
    for row in log.sessions().unwrap() {
        let events = log.read(&row.main, 1, 100_000).unwrap();
        if events.first().is_some_and(|event| *event.kind() == Kind::SessionCreated) {
            all.extend(events);
        }
    }
    all
}

fn answer(place: &Place, arguments: &[&str]) -> Value {
    place.run(&[&["review"], arguments, &["--json"]].concat()).expect_status(0).last()
}

/// F11: a second question does not overwrite the first; each is answered, in any order.
#[test]
fn f11_seven_questions_wait_at_once_and_are_answered_in_any_order() {
    let place = Place::new();
    let project = asking_project(&place);
    let calls: Vec<String> = (1..=7)
        .map(|n| format!("{{ call: {{ id: c{n}, tool: fs.read, args: {{ path: ask{n}.txt }} }} }}"))
        .collect();
    let results: Vec<String> = (1..=7)
        .map(|n| format!("c{n}: {}", if n % 2 == 0 { "denied" } else { "completed" }))
        .collect();
    let yaml = format!(
        "version: 1\nsteps:\n  - emit: [ {} ]\n  - expect: {{ results: {{ {} }} }}\n    emit: [ {{ text: done }} ]\n",
        calls.join(", "),
        results.join(", ")
    );
    let mut running = start(&place, &project, &yaml);
    let listed = pending(&place, 7);
    assert!(listed.iter().all(|one| one.running && one.request.reasons == ["ask first"]));
    // Backwards, and every other one with a no.
    for one in listed.iter().rev() {
        let name = one.approval.to_string();
        let number: u32 = one.request.shown.chars().find_map(|c| c.to_digit(10)).unwrap();
        let verb = if number.is_multiple_of(2) { "reject" } else { "approve" };
        let digest = one.request.args_digest.to_string();
        let told = answer(&place, &[verb, &name, "--digest", &digest]);
        assert_eq!(told["running"], true, "{told}");
    }
    assert_eq!(running.wait(PATIENCE), Some(0));
    let events = events(&place);
    assert_each_ended_once(&events);
    assert_eq!(count(&events, &Kind::ApprovalResolved), 7);
    assert!(kernel(&place).pending_approvals().unwrap().is_empty());
    place.run(&["audit", "verify"]).expect_status(0);
}

/// A wider answer that would be good for no use is an answer for its call alone: the next one is asked for
/// again. With a use it is not: the control.
#[test]
fn a_wider_answer_without_a_use_grants_nothing() {
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: c1, tool: fs.read, args: { path: ask1.txt } } } ]
  - expect: { results: { c1: completed } }
    emit: [ { call: { id: c2, tool: fs.read, args: { path: ask2.txt } } } ]
  - expect: { results: { c2: SECOND } }
    emit: [ { text: done } ]
";
    let check = |max_uses: u64, second: &str, scope: &str, grants: usize| {
        let place = Place::new();
        let project = asking_project(&place);
        let mut running = start(&place, &project, &yaml.replace("SECOND", second));
        let first = pending(&place, 1).remove(0);
        let rule = json!({ "syscall": "fs.read", "path_glob": "ask*.txt" });
        let wider = Wider {
            scope: GrantScope::Session,
            rule: Some(rule),
            lifetime_us: None,
            max_uses: Some(max_uses),
        };
        let ada = Principal::new(PrincipalKind::User, "ada", TenantId::local());
        kernel(&place)
            .answer_approval(&first.approval, Answer::ApproveFor(wider), None, &ada)
            .unwrap();
        if second == "denied" {
            let again = next_after(&place, &first).approval.to_string();
            answer(&place, &["reject", &again]);
        }
        assert_eq!(running.wait(PATIENCE), Some(0));
        let events = events(&place);
        let resolved = events.iter().find(|event| *event.kind() == Kind::ApprovalResolved).unwrap();
        assert_eq!(resolved.body["scope"].as_str().unwrap_or("call"), scope);
        assert_eq!(count(&events, &Kind::GrantIssued), grants);
    };
    check(0, "denied", "call", 0);
    check(1, "completed", "session", 1);
}

/// F12: calls that are done show as completed while another one waits for a person.
#[test]
fn f12_finished_calls_are_not_held_up_by_one_that_waits() {
    let place = Place::new();
    let project = asking_project(&place);
    let yaml = "
version: 1
steps:
  - emit:
      - { call: { id: a, tool: fs.read, args: { path: ask1.txt } } }
      - { call: { id: b, tool: fs.read, args: { path: src/tool.sh } } }
      - { call: { id: c, tool: fs.list, args: { path: . } } }
  - expect: { results: { a: completed, b: completed, c: completed } }
    emit: [ { text: done } ]
";
    let mut running = start(&place, &project, yaml);
    let asked = pending(&place, 1).remove(0);
    let deadline = Instant::now() + PATIENCE;
    while count(&events(&place), &Kind::ToolCompleted) < 2 {
        assert!(Instant::now() < deadline, "{:?}", statuses(&events(&place)));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(count(&events(&place), &Kind::ApprovalResolved), 0, "still waiting");
    answer(&place, &["approve", &asked.approval.to_string()]);
    assert_eq!(running.wait(PATIENCE), Some(0));
}

const ONE_QUESTION: &str = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - expect: { results: { a: STATUS } }
    emit: [ { text: done } ]
";

/// F8 and F6: an agent, a plugin, the kernel and another tenant never answer; neither does an answer to
/// something else. The question stays open for the person, whose answer is the control.
#[test]
fn f8_only_a_person_of_the_tenant_answers_what_was_asked() {
    let place = Place::new();
    let project = asking_project(&place);
    let mut running = start(&place, &project, &ONE_QUESTION.replace("STATUS", "completed"));
    let name = pending(&place, 1).remove(0).approval;
    let kernel = kernel(&place);
    let refused = |kind, tenant: &str, name: &ApprovalName, digest| {
        let principal = Principal::new(kind, "agent", tenant.parse().unwrap());
        let answered = kernel.answer_approval(name, Answer::Approve, digest, &principal);
        answered.unwrap_err().code().to_owned()
    };
    for kind in [PrincipalKind::Agent, PrincipalKind::Plugin, PrincipalKind::Kernel] {
        assert_eq!(refused(kind, "local", &name, None), "approval_forbidden");
    }
    assert_eq!(refused(PrincipalKind::User, "other", &name, None), "approval_unknown");
    let zero = glasshouse_model::Digest::ZERO;
    assert_eq!(refused(PrincipalKind::User, "local", &name, Some(&zero)), "approval_mismatch");
    let other = ApprovalName { seq: name.seq + 1, ..name.clone() };
    assert_eq!(refused(PrincipalKind::User, "local", &other, None), "approval_unknown");
    // A forged answer in the place of a person's is none.
    for (kind, tenant) in [(PrincipalKind::Agent, "local"), (PrincipalKind::User, "other")] {
        forge(&place, &name, 0, kind, tenant);
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(count(&events(&place), &Kind::ApprovalResolved), 0, "{kind:?} {tenant}");
        clear(&place, &name);
    }
    answer(&place, &["approve", &name.to_string()]);
    assert_eq!(running.wait(PATIENCE), Some(0));
    let gone =
        place.run(&["review", "approve", &name.to_string(), "--json"]).expect_status(10).last();
    assert_eq!(gone["error"]["code"], "approval_unknown");
}

/// The agent that asks for an exemption, a plugin and another tenant cannot grant it, not by a forged answer
/// either; the person's answer is the control, and what it grants is over when the work begins anew.
#[test]
fn f8_an_exemption_is_granted_by_a_person_alone() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: workflow.request_exemption, args: { category: documentation, affected_paths: [README.md], reason: r } } } ]
  - expect: { results: { a: completed } }
    emit: [ { text: done } ]
";
    let mut running = start(&place, &project, yaml);
    let asked = pending(&place, 1).remove(0);
    assert!(asked.request.offer.is_none(), "no wider answer is offered: {:?}", asked.request.offer);
    let name = asked.approval;
    let agent = Principal::new(PrincipalKind::Agent, "agent", "local".parse().unwrap());
    let answered = kernel(&place).answer_approval(&name, Answer::Approve, None, &agent);
    assert_eq!(answered.unwrap_err().code(), "approval_forbidden");
    for (kind, tenant) in [
        (PrincipalKind::Agent, "local"),
        (PrincipalKind::Plugin, "local"),
        (PrincipalKind::User, "other"),
    ] {
        forge(&place, &name, 0, kind, tenant);
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(count(&events(&place), &Kind::WorkflowExemptionDecided), 0, "{kind:?} {tenant}");
        clear(&place, &name);
    }
    // A wider answer is none: the next request is asked for again.
    let wider = ["review", "approve", &name.to_string(), "--scope", "session", "--json"];
    assert_eq!(place.run(&wider).expect_status(2).last()["error"]["code"], "grant_narrow");
    answer(&place, &["approve", &name.to_string()]);
    assert_eq!(running.wait(PATIENCE), Some(0));
    let events = events(&place);
    let decided =
        events.iter().find(|event| *event.kind() == Kind::WorkflowExemptionDecided).unwrap();
    assert_eq!((&decided.body["granted"], count(&events, &Kind::GrantIssued)), (&json!(true), 0));
    let session = asked.session.to_string();
    place.run(&["session", "replay", &session]).expect_status(0);
}

/// An approval that nobody used in time grants no exemption.
#[test]
fn f14_an_expired_approval_grants_no_exemption() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: workflow.request_exemption, args: { category: documentation, affected_paths: [README.md], reason: r } } } ]
  - expect: { results: { a: denied } }
    emit: [ { text: done } ]
";
    let mut running = start(&place, &project, yaml);
    let asked = pending(&place, 1).remove(0);
    let now_us = glasshouse_kernel::driver::now_us();
    forge(&place, &asked.approval, now_us - 11 * 60 * 1_000_000, PrincipalKind::User, "local");
    assert_eq!(running.wait(PATIENCE), Some(0));
    let events = events(&place);
    let decided =
        events.iter().find(|event| *event.kind() == Kind::WorkflowExemptionDecided).unwrap();
    assert_eq!(decided.body["granted"], false);
    let end = events.iter().find(|event| event.kind().ends_call()).unwrap();
    assert_eq!(end.body["code"], "approval_expired");
}

/// Writes an answer into the queue as only the log's owner could.
fn forge(place: &Place, name: &ApprovalName, answered_us: u64, kind: PrincipalKind, tenant: &str) {
    let shown = kernel(place).pending_approval(name).unwrap().request;
    let body = ApprovalAnswered {
        branch: name.branch.clone(),
        approval: name.seq,
        args_digest: shown.args_digest,
        approved: true,
        approver: Actor { kind, id: "local".to_owned() },
        tenant: tenant.parse().unwrap(),
        scope: GrantScope::Call,
        rule: None,
        lifetime_us: None,
        max_uses: None,
        answered_us,
    };
    write(place, name, &body, Some(serde_json::to_vec(&body).unwrap()));
}

fn clear(place: &Place, name: &ApprovalName) {
    let body = json!({ "cleared": true });
    write(place, name, &body, None);
}

fn write(place: &Place, name: &ApprovalName, body: &impl serde::Serialize, bytes: Option<Vec<u8>>) {
    let log = place.log();
    let (session, branch) = (SessionId::from_random(rand()), BranchId::from_random(rand()));
    log.create_branch(NewBranch {
        session: session.clone(),
        branch: branch.clone(),
        name: "main".to_owned(),
        parent: None,
    })
    .unwrap();
    let mut append = Append::new(session, branch, vec![Draft::new(Kind::Heartbeat, &body)]);
    append.cells = vec![CellWrite {
        space: "approval.answers".to_owned(),
        key: name.to_string(),
        expected_version: None,
        bytes,
    }];
    log.append(append).unwrap();
}

fn rand() -> [u8; 8] {
    glasshouse_model::Digest::of(format!("{:?}", Instant::now()).as_bytes()).as_bytes()[..8]
        .try_into()
        .unwrap()
}

/// F14: an approval that nobody used in time is no approval, and is not asked for in silence: the call
/// ends with a code of its own.
#[test]
fn f14_an_expired_approval_does_not_run_the_call() {
    let check = |answered_us: u64, status: &str, code: Value| {
        let place = Place::new();
        let project = asking_project(&place);
        let mut running = start(&place, &project, &ONE_QUESTION.replace("STATUS", status));
        let name = pending(&place, 1).remove(0).approval;
        forge(&place, &name, answered_us, PrincipalKind::User, "local");
        assert_eq!(running.wait(PATIENCE), Some(0));
        let events = events(&place);
        let end = events.iter().find(|event| event.kind().ends_call()).unwrap();
        assert_eq!(end.body["code"], code, "{}", end.body);
    };
    let now_us = glasshouse_kernel::driver::now_us();
    check(now_us - 11 * 60 * 1_000_000, "denied", json!("approval_expired"));
    // The control: the same answer in time.
    check(now_us, "completed", Value::Null);
}

/// F10: without anybody to ask the answer is no, at once.
#[test]
fn f10_nobody_to_ask_is_a_denial_at_once() {
    let place = Place::new();
    let project = asking_project(&place);
    let begun = Instant::now();
    place.scenario(&project, &ONE_QUESTION.replace("STATUS", "denied")).expect_status(4);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let events = events(&place);
    let resolved = events.iter().find(|event| *event.kind() == Kind::ApprovalResolved).unwrap();
    assert_eq!(resolved.body["code"], "no_approver");
}

/// A session that ended while it asked is answered, and goes on with the answer when it is resumed.
#[test]
fn an_answer_waits_for_a_session_that_nobody_runs() {
    let place = Place::new();
    let project = asking_project(&place);
    let mut running = start(&place, &project, &ONE_QUESTION.replace("STATUS", "completed"));
    let asked = pending(&place, 1).remove(0);
    running.kill_9();
    let name = asked.approval.to_string();
    let told = answer(&place, &["approve", &name]);
    assert_eq!(told["running"], false, "{told}");
    // What is refused leaves nothing behind.
    let sessions = || place.log().sessions().unwrap().len();
    let before = sessions();
    for verb in ["approve", "reject"] {
        let again = place.run(&["review", verb, &name, "--json"]).expect_status(8).last();
        assert_eq!(again["error"]["code"], "approval_answered");
    }
    let unknown = format!("{}:9999", asked.approval.branch);
    place.run(&["review", "reject", &unknown]).expect_status(10);
    assert_eq!(sessions(), before);
    let session = asked.session.to_string();
    // The number that the list shows is one that explains.
    let at = asked.approval.seq.to_string();
    let explain = ["policy", "explain", "--session", &session, "--at", &at, "--json"];
    let explained = place.run(&explain).expect_status(0).last();
    assert_eq!(explained["decision"], "require_review", "{explained}");
    let none = ["policy", "explain", "--session", &session, "--at", "1", "--json"];
    assert_eq!(place.run(&none).last()["error"]["code"], "event_not_decided", "the control");
    place.run(&["session", "resume", &session, "--no-approver", "--json"]).expect_status(0);
    assert_each_ended_once(&events(&place));
    place.run(&["session", "replay", &session]).expect_status(0);
}

/// A rule that leaves out what the offer names is told with its calls, and with what it leaves open.
fn approved_by_an_open_rule(place: &Place, name: &str) {
    let open = r#"{"syscall":"fs.read","path_glob":"ask1.txt"}"#;
    let arguments =
        ["review", "approve", name, "--scope", "session", "--match", open, "--expires", "1h"];
    let told = place.run(&arguments).expect_status(0).stderr;
    for line in
        ["yes   fs.read ask1.txt", "no    fs.read other", "about one `caller`; this holds for any"]
    {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert!(!told.contains("about one `path_glob`"), "{told}");
}

/// F4, F5 and what ends a grant: approved for a session it is not asked for again, it is listed with its
/// rule, scope, end and examples, its uses count, and taken back in the middle of the turn it is gone.
#[test]
fn f4_f5_a_session_grant_sticks_is_listed_and_ends_in_the_middle_of_a_turn() {
    let place = Place::new();
    let project = asking_project(&place);
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - expect: { results: { a: completed } }
    emit: [ { call: { id: b, tool: fs.read, args: { path: ask1.txt } } } ]
  - expect: { results: { b: completed } }
    emit: [ { call: { id: c, tool: fs.read, args: { path: ask2.txt } } } ]
  - expect: { results: { c: denied } }
    emit: [ { call: { id: d, tool: fs.read, args: { path: ask1.txt } } } ]
  - expect: { results: { d: denied } }
    emit: [ { text: done } ]
";
    let mut running = start(&place, &project, yaml);
    let first = pending(&place, 1).remove(0);
    let offer = first.request.offer.clone().unwrap();
    assert_eq!(offer.matches, ["fs.read ask1.txt"]);
    assert_eq!(offer.not_matches, ["fs.read other", "fs.read elsewhere/file"]);
    // A rule that does not match the call at hand is refused, and asks for nothing.
    let name = first.approval.to_string();
    let other = r#"{"syscall":"fs.read","path_glob":"ask2.txt"}"#;
    let narrow =
        place.run(&["review", "approve", &name, "--scope", "session", "--match", other, "--json"]);
    assert_eq!(narrow.expect_status(2).last()["error"]["code"], "grant_narrow");
    approved_by_an_open_rule(&place, &name);

    // The second read needs nobody; another path does, and meanwhile the grant is taken back.
    let other = next_after(&place, &first);
    assert!(other.request.shown.contains("ask2.txt"), "{:?}", other.request);
    let listed = place.run(&["grants", "list", "--json"]).expect_status(0).last();
    assert_eq!((&listed["scope"], &listed["uses"]), (&json!("session"), &json!(1)), "{listed}");
    assert_eq!(listed["rule"]["matches"], json!(["fs.read ask1.txt"]));
    let words = place.run(&["grants", "list"]).expect_status(0).stdout;
    for line in ["session s_", "1 use,", "ends in", "yes   fs.read ask1.txt", "no    fs.read other"]
    {
        assert!(words.contains(line), "{line}: {words}");
    }
    let grant = listed["grant"].as_str().unwrap();
    let revoked = place.run(&["grants", "revoke", grant, "--json"]).expect_status(0).last();
    assert_eq!(revoked["changed"], true);
    let revoked = place.run(&["grants", "revoke", grant, "--json"]).expect_status(0).last();
    assert_eq!(revoked["changed"], false);
    answer(&place, &["reject", &other.approval.to_string()]);

    let last = next_after(&place, &other);
    assert!(
        last.request.reasons.iter().any(|why| why.contains("was revoked")),
        "{:?}",
        last.request
    );
    answer(&place, &["reject", &last.approval.to_string()]);
    assert_eq!(running.wait(PATIENCE), Some(0));
    let events = events(&place);
    assert_eq!(count(&events, &Kind::GrantIssued), 1);
    assert_eq!(count(&events, &Kind::GrantUsed), 2, "the approval, and one use of the grant");
    assert!(place.run(&["grants", "list", "--json"]).expect_status(0).stdout.is_empty());
    let all = place.run(&["grants", "list", "--all", "--json"]).expect_status(0).last();
    assert_eq!(all["state"], "revoked");
    let unknown = format!("g_{}", "0".repeat(32));
    place.run(&["grants", "revoke", &unknown]).expect_status(10);
    place.run(&["audit", "verify"]).expect_status(0);
}

/// A grant for the workspace holds in later sessions of this project, for its uses, and nowhere else.
#[test]
fn a_workspace_grant_holds_in_other_sessions_of_the_project_only() {
    let place = Place::new();
    let project = asking_project(&place);
    let mut running = start(&place, &project, &ONE_QUESTION.replace("STATUS", "completed"));
    let name = pending(&place, 1).remove(0).approval.to_string();
    let wide = r#"{"syscall":"fs.read","caller":"agent","path_glob":"ask?.txt"}"#;
    answer(&place, &["approve", &name, "--scope", "workspace", "--match", wide, "--uses", "1"]);
    assert_eq!(running.wait(PATIENCE), Some(0));

    let twin = place.path("twin");
    std::fs::create_dir_all(twin.join("tests")).unwrap();
    std::fs::write(twin.join("ask1.txt"), "x").unwrap();
    std::fs::write(twin.join("tests/run.sh"), "true\n").unwrap();
    std::fs::create_dir_all(twin.join(".glasshouse")).unwrap();
    std::fs::copy(project.join(".glasshouse/policy.yaml"), twin.join(".glasshouse/policy.yaml"))
        .unwrap();
    place.scenario(&twin, &ONE_QUESTION.replace("STATUS", "denied")).expect_status(4);
    place.scenario(&project, &ONE_QUESTION.replace("STATUS", "completed")).expect_status(0);
    // It had one use.
    place.scenario(&project, &ONE_QUESTION.replace("STATUS", "denied")).expect_status(4);
}

/// A scenario that was not met ended with exit 4 when a question before it had found nobody: what the
/// scenario asserts was hidden behind something that may well have been meant.
/// The exit is that of how the turn ended; for want of an approver it stays 4.
#[test]
fn regression_a_scenario_that_is_not_met_exits_6_behind_an_unanswered_question() {
    let check = |status: &str, exit: i32, code: &str| {
        let place = Place::new();
        let project = asking_project(&place);
        let ran = place.scenario(&project, &ONE_QUESTION.replace("STATUS", status));
        let told = ran.expect_status(exit).stdout;
        assert!(told.contains(&format!(r#""code":"{code}""#)), "{told}");
    };
    check("completed", 6, "scenario_mismatch");
    check("denied", 4, "no_approver");
}

/// A session that waits told only the name of its question: whoever was to answer saw neither what was
/// asked nor how. The notice now says both, as `review show` does.
#[test]
fn regression_a_session_that_waits_tells_what_it_asks_and_how_to_answer() {
    let place = Place::new();
    let project = asking_project(&place);
    std::fs::write(place.path("s.yaml"), ONE_QUESTION.replace("STATUS", "completed")).unwrap();
    let file = place.path("s.yaml").display().to_string();
    let mut command = place.command(&["do it", "--scenario", &file, "--wait-for-review", "60s"]);
    command.current_dir(&project);
    let mut running = place.spawn(command);
    let name = pending(&place, 1).remove(0).approval.to_string();
    let shown = place.run(&["review", "show", &name]).expect_status(0).stdout;
    answer(&place, &["approve", &name]);
    assert_eq!(running.wait(PATIENCE), Some(0));
    let told = std::fs::read_to_string(place.path("stderr")).unwrap();
    let asked: Vec<&str> = shown.lines().filter(|line| line.starts_with("  | ")).collect();
    assert!(asked.contains(&"  | path: ask1.txt"), "{shown}");
    let approve = format!("glasshouse review approve {name}");
    let reject = format!("glasshouse review reject {name}");
    for line in asked.iter().chain(&[approve.as_str(), &reject, "within 60 s"]) {
        assert!(told.contains(line), "{line}: {told}");
    }
}

/// A grant that another policy had outlived was listed as one that lives, one that was taken back as
/// never used, and each question named every dead grant of the workspace.
/// A list tells what became of it and how often it was used; a question names the last one alone.
#[test]
fn regression_a_grant_that_a_change_of_policy_ended_is_told_as_dead() {
    let place = Place::new();
    let project = asking_project(&place);
    let scenario = |status: &str| ONE_QUESTION.replace("STATUS", status);
    let rows = || {
        let all = place.run(&["grants", "list", "--all", "--json"]).expect_status(0);
        let rows = all.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.collect::<Vec<_>>()
    };
    let mut reasons = Vec::new();
    for round in 0..3 {
        let rule = format!(
            "{{ name: ask-{round}, match: {{ syscall: fs.read, path_glob: 'ask*.txt' }}, action: require_review, reason: ask {round} }}"
        );
        place.accept_rule(&project, &rule);
        let mut running = start(&place, &project, &scenario("completed"));
        let asked = pending(&place, 1).remove(0);
        reasons = asked.request.reasons;
        let name = asked.approval.to_string();
        answer(&place, &["approve", &name, "--scope", "workspace"]);
        assert_eq!(running.wait(PATIENCE), Some(0));
        place.scenario(&project, &scenario("completed")).expect_status(0);
    }
    assert_eq!(reasons.iter().filter(|why| why.contains("another policy")).count(), 1);
    let told: Vec<_> =
        rows().iter().map(|row| (row["state"].clone(), row["uses"].clone())).collect();
    let dead = (json!("policy_changed"), json!(1));
    assert_eq!(told, [(json!("live"), json!(1)), dead.clone(), dead]);
    let words = place.run(&["grants", "list", "--all"]).expect_status(0).stdout;
    assert_eq!(words.matches("1 use, dead: policy changed").count(), 2, "{words}");
    let live = place.run(&["grants", "list"]).expect_status(0);
    assert!(live.stderr.contains("2 more ended with a change of the policy"), "{live:?}");

    let grant = rows()[0]["grant"].as_str().unwrap().to_owned();
    place.run(&["grants", "revoke", &grant]).expect_status(0);
    let row = rows().remove(0);
    assert_eq!((&row["state"], &row["uses"]), (&json!("revoked"), &json!(1)), "{row}");
    // The cell that keeps the uses is what the events say.
    let audit = place.run(&["audit", "verify", "--json"]).expect_status(0);
    assert!(!audit.stdout.contains("grant_uses"), "{audit:?}");
}

/// The failure: with `--json` a session that waited for an answer from elsewhere said nothing of the question nor of its name.
#[test]
fn e2e_a_program_that_waits_is_told_what_for() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { argv: [rm, -rf, nothing] } } } ]
  - emit: [ { text: done } ]
";
    let mut running = start(&place, &project, yaml);
    let asked = pending(&place, 1).remove(0);
    let name = asked.approval.to_string();
    let approve = ["review", "approve", &name, "--scope", "session", "--json"];
    let answered = place.run(&approve).expect_status(0).last();
    assert_eq!(answered["scope"], "session");
    assert_eq!(answered["rule"]["matching"], asked.request.offer.unwrap().matching);
    assert_eq!(running.wait(PATIENCE), Some(0));
    let stdout = std::fs::read_to_string(place.path("stdout")).unwrap();
    let lines = stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let told: Vec<_> = lines.filter(|line| line.get("review").is_some()).collect();
    assert_eq!(told.len(), 1, "{stdout}");
    let review = &told[0]["review"];
    assert_eq!((&review["approval"], &review["tool"]), (&name.into(), &"shell.run".into()));
    assert!(review["shown"].as_str().unwrap().contains("nothing"), "{review}");
    assert_eq!(review["digest"], asked.request.args_digest.to_string());
}
