//! Policies and the past: what is tried on it, learned from it, and told of it.

use std::path::{Path, PathBuf};

use glasshouse_model::Digest;
use serde_json::Value;

use crate::harness::{Place, Ran, git};

/// Runs `policy` on a session with a file of this text.
struct Trial<'a> {
    place: &'a Place,
    session: String,
}

impl Trial<'_> {
    fn file(&self, text: &str) -> String {
        let file = self.place.path("candidate.yaml");
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    fn simulate(&self, text: &str) -> Value {
        let file = self.file(text);
        let arguments = ["policy", "simulate", &file, "--session", &self.session, "--json"];
        self.place.run(&arguments).expect_status(0).last()
    }

    fn learn(&self, status: i32) -> Value {
        self.place.run(&["policy", "learn", &self.session, "--json"]).expect_status(status).last()
    }
}

fn shipped_with(place: &Place, rule: &str) -> String {
    let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
    format!("{}\n  - {rule}\n", shipped.trim_end())
}

const NO_READS: &str = "{ name: no-reads, match: { syscall: fs.read }, action: deny }";

/// The failure: eight reads on a fork were not looked at; a file that denies them broke nothing, was accepted
/// without its phrase, and a learned one did not allow them. Now: all branches count, what they share once.
#[test]
fn e2e_all_branches_of_a_session_are_tried_and_learned_from() {
    let reads = |first: usize| {
        let calls = (0..8).map(|n| {
            format!("{{ call: {{ id: r{n}, tool: fs.read, args: {{ path: src/tool.sh, offset_line: {} }} }} }}", n + first)
        });
        format!(
            "- emit: [ {} ]\n  - emit: [ {{ text: done }} ]\n",
            calls.collect::<Vec<_>>().join(", ")
        )
    };
    let hello = "- emit: [ { text: hi } ]\n  ";
    let check = |first: &str, breaking: u64| {
        let place = Place::new();
        let project = place.shell_project();
        let yaml = format!("version: 1\nsteps:\n  {first}{}", reads(1));
        let ran = place.scenario(&project, &yaml).expect_status(0).last();
        let id = ran["session"].as_str().unwrap().to_owned();
        place.run(&["session", "fork", &id]).expect_status(0);
        place.run(&["session", "fork", &id, "--branch", "fork-1", "--name", "next"]);
        if first == hello {
            place.run(&["session", "resume", &id, "go on", "--branch", "next"]).expect_status(0);
        }
        let trial = Trial { place: &place, session: id };
        let harsh = shipped_with(&place, NO_READS);
        assert_eq!(trial.simulate(&harsh)["breaking"], breaking, "{first}");
        assert_eq!(
            trial.simulate(&shipped_with(
                &place,
                "{ name: x, match: { syscall: fs.read, label: none }, action: deny }"
            ))["changed"],
            0
        );
        let learned = trial.learn(0);
        assert!(
            learned["policy"].as_str().unwrap().contains(r#""syscall":"fs.read""#),
            "{learned}"
        );
        assert_eq!(trial.simulate(learned["policy"].as_str().unwrap())["changed"], 0, "{learned}");
        let (file, digest) = (trial.file(&harsh), Digest::of(harsh.as_bytes()).to_string());
        let update = ["policy", "update", &file, "--digest", &digest, "--json"];
        let refused = place.run_in(&project, &update).expect_status(4);
        let needs = &refused.last()["error"]["context"];
        let phrase = format!("accept {breaking} breaking changes");
        assert_eq!(
            (&needs["phrase"], &needs["breaking"], &needs["digest"]),
            (&phrase.as_str().into(), &breaking.into(), &digest.as_str().into())
        );
        let shown: Value = serde_json::from_str(refused.stdout.lines().next().unwrap()).unwrap();
        assert_eq!(shown["differ"].as_array().unwrap().len() as u64, breaking, "{shown}");
        assert!(shown["diff"].as_str().unwrap().contains("+  - { name: no-reads"), "{shown}");
        let told = place.run_in(&project, &update[..5]).expect_status(4).stderr;
        assert!(told.contains("+  - { name: no-reads") && told.contains("[BREAKING]"), "{told}");
        let accept = [&update[..], &["--confirm", &phrase]].concat();
        place.run_in(&project, &accept).expect_status(0);
    };
    check(hello, 8);
    // The control, and what branches share counts once.
    check("", 8);
}

/// A scenario that reads one file so often, one call a step.
fn reads(statuses: &[&str]) -> String {
    let mut yaml = "version: 1\nsteps:\n".to_owned();
    let mut before = String::new();
    for (n, status) in statuses.iter().enumerate() {
        yaml.push_str(&format!(
            "  - emit: [ {{ call: {{ id: r{n}, tool: fs.read, args: {{ path: src/tool.sh }} }} }} ]\n{before}"
        ));
        before = format!("    expect: {{ results: {{ r{n}: {status} }} }}\n");
    }
    yaml + "  - emit: [ { text: done } ]\n" + &before
}

/// A project whose policy allows looking with this demand, and nothing else that reads.
fn demanding(place: &Place, demand: &str) -> (PathBuf, String) {
    let project = place.shell_project();
    let shipped = place.run(&["policy", "show", "--shipped"]).stdout;
    let text = format!(
        "{}\n  - {{ name: m, match: {{ syscall: fs.read }}, action: allow, constraints: {{ {demand} }} }}\n",
        shipped.trim_end()
    );
    place.accept_policy(&project, &text);
    (project, text)
}

fn session_of(ran: &Ran) -> String {
    ran.last()["session"].as_str().unwrap().to_owned()
}

/// The failure: `rate: 2/h` denied the third read, the trial said nothing was decided, and what was learned allowed all
/// three. So with each demand that the kernel holds calls to. Now: a trial holds them to it too, and a rule that was
/// learned demands it.
#[test]
fn e2e_what_the_kernel_denied_for_a_demand_is_tried_and_not_opened() {
    let check = |demand: &str, statuses: &[&str]| {
        let place = Place::new();
        let (project, text) = demanding(&place, demand);
        let ran = place.scenario(&project, &reads(statuses)).expect_status(0);
        let trial = Trial { place: &place, session: session_of(&ran) };
        let denied = statuses.iter().filter(|status| **status == "denied").count();
        // The same file changes nothing; one without the demand opens what was denied.
        let same = trial.simulate(&text);
        assert_eq!((&same["changed"], &same["left_out"]), (&0.into(), &serde_json::json!({})));
        let open = trial.simulate(&shipped_with(
            &place,
            "{ name: m, match: { syscall: fs.read }, action: allow }",
        ));
        assert_eq!((&open["changed"], &open["breaking"]), (&denied.into(), &0.into()), "{demand}");
        let learned = trial.learn(0);
        let learned = learned["policy"].as_str().unwrap();
        assert_eq!(trial.simulate(learned)["changed"], 0, "{learned}");
        // A candidate that demands the same of what was free breaks as much.
        let place = Place::new();
        let project = place.shell_project();
        let free = reads(&vec!["completed"; statuses.len()]);
        let ran = place.scenario(&project, &free).expect_status(0);
        let trial = Trial { place: &place, session: session_of(&ran) };
        assert_eq!(trial.simulate(&text)["breaking"], denied, "{demand}");
    };
    check("rate: 2/h", &["completed", "completed", "denied"]);
    check("require_sandbox: code-executor", &["denied", "denied"]);
    check("min_isolation: full", &["denied"]);
    // The control.
    check("max_duration: 30s", &["completed", "completed"]);
}

/// What a fork shares with its parent counts for a rate on it too, and what it does not share does not: a trial counts
/// as the session did.
#[test]
fn e2e_a_trial_counts_on_each_branch_what_counted_there() {
    let place = Place::new();
    let (project, text) = demanding(&place, "rate: 1/h");
    let read = |id: &str| {
        let call = format!("{{ id: {id}, tool: fs.read, args: {{ path: src/tool.sh }} }}");
        format!("  - emit: [ {{ call: {call} }} ]\n  - emit: [ {{ text: done }} ]\n")
    };
    let yaml = format!("version: 1\nsteps:\n{}{}", read("one"), read("two"));
    let session = session_of(&place.scenario(&project, &yaml).expect_status(0));
    let received = place.events().1.into_iter().find(|it| it.kind().as_str() == "message.received");
    let before = (received.unwrap().seq() - 1).to_string();
    let fork = |name: &str, more: &[&str]| {
        let fork = ["session", "fork", &session, "--name", name];
        place.run(&[&fork[..], more].concat()).expect_status(0);
        let resume = ["session", "resume", &session, "go on", "--branch", name, "--json"];
        place.run(&resume);
        let log = place.log();
        let rows = log.branches(&session.parse().unwrap()).unwrap();
        let row = rows.iter().find(|row| row.name == name).unwrap();
        let own = log.read(&row.branch, row.base().seq + 1, 10_000).unwrap();
        own.iter().any(|event| event.body.to_string().contains("rate-limited"))
    };
    assert!(fork("shares", &[]));
    assert!(!fork("alone", &["--at", &before]), "the control");
    let trial = Trial { place: &place, session: session.clone() };
    assert_eq!(trial.simulate(&text)["changed"], 0);
    let open = "{ name: m, match: { syscall: fs.read }, action: allow }";
    assert_eq!(trial.simulate(&shipped_with(&place, open))["changed"], 1);
    let harsh = trial.simulate(&shipped_with(&place, NO_READS));
    assert_eq!(harsh["breaking"], 2, "what is shared counts once: {harsh}");
}

/// The failure: what a session denies for what a rule demands was "allowed" to `policy check`.
#[test]
fn e2e_check_explain_and_test_hold_a_call_to_what_its_rules_demand() {
    let place = Place::new();
    let project = place.shell_project();
    let check = |syscall: &str, more: &str, demand: &str, name: Option<&str>| {
        let text = format!(
            "capabilities:\n  - {{ name: m, match: {{ syscall: {syscall} }}, action: allow, constraints: {{ {demand} }} }}\n"
        );
        std::fs::write(project.join("p.yaml"), text).unwrap();
        let call = format!(r#"{{"syscall":"{syscall}"{more}}}"#);
        let ask = |verb: &str| {
            let arguments = ["policy", verb, "--policy", "p.yaml", "--call", &call, "--json"];
            place.run_in(&project, &arguments)
        };
        let status = if name.is_some() { 3 } else { 0 };
        let decided = ask("check").expect_status(status).last();
        let denied =
            decided["rules"].as_array().unwrap().iter().find(|rule| rule["layer"] == "built_in");
        assert_eq!(denied.and_then(|rule| rule["name"].as_str()), name, "{call} {demand}");
        let explained = ask("explain").expect_status(0).last();
        assert_eq!(explained["decision"], decided["decision"]);
        if name.is_some() {
            assert!(explained["other_rules"].is_null(), "{explained}");
            let words = ["policy", "explain", "--policy", "p.yaml", "--call", &call];
            let words = place.run_in(&project, &words).stdout;
            assert!(words.contains("what a rule demands holds"), "{words}");
        }
        let expect = if name.is_some() { "deny" } else { "allow" };
        let tests = format!("tests:\n  - {{ name: a, call: {call}, expect: {expect} }}\n");
        std::fs::write(project.join("t.yaml"), tests).unwrap();
        let test = ["policy", "test", "t.yaml", "--policy", "p.yaml", "--json"];
        assert_eq!(place.run_in(&project, &test).expect_status(0).last()["passed"], 1);
    };
    let agent = r#","caller":"agent""#;
    let ls = r#","caller":"agent","argv":["ls"]"#;
    let sandbox = "require_sandbox: code-executor";
    check("fs.read", r#","path":"src/tool.sh""#, sandbox, Some("sandbox-demanded"));
    check("git.diff", agent, "require_sandbox: L2", Some("sandbox-demanded"));
    check(
        "fs.write",
        r#","path":"a.txt""#,
        "require_sandbox: integration-test",
        Some("sandbox-demanded"),
    );
    check("fs.write", r#","path":"a.txt""#, sandbox, None);
    check("shell.run", ls, sandbox, None);
    check("fs.list", r#","path":".""#, "min_isolation: full", Some("isolation-too-weak"));
    check("shell.run", ls, "min_isolation: full", None);
    check("model.call", agent, "rate: 100/h", Some("rate-limited"));
    check("shell.run", r#","argv":["ls"]"#, "rate: 100/h", Some("rate-limited"));
    check("shell.run", ls, "rate: 100/h", None);
    check("fs.read", r#","path":"src/tool.sh""#, "rate: 100/h", None);
}

/// The failure: `explain` said "allowed" of a call that was denied after it was decided, and offered of a call that a
/// rate had denied what would deny it.
#[test]
fn e2e_a_recorded_call_is_explained_with_how_it_ended() {
    let check = |demand: &str, status: &str, words: &[&str], never: &[&str]| {
        let place = Place::new();
        let (project, _) = demanding(&place, demand);
        let statuses =
            if demand.contains("rate") { vec!["completed", status] } else { vec![status] };
        let session = session_of(&place.scenario(&project, &reads(&statuses)).expect_status(0));
        let events = place.events().1;
        let last = events.iter().rfind(|event| event.kind().as_str() == "tool.proposed");
        let at = last.unwrap().seq().to_string();
        let explain = ["policy", "explain", "--session", &session, "--at", &at];
        let told = place.run(&explain).expect_status(0).stdout;
        for word in words {
            assert!(told.contains(word), "{word}: {told}");
        }
        for word in never {
            assert!(!told.contains(word), "{word}: {told}");
        }
        // The end of the call is of the same decision.
        let end = events.iter().rfind(|event| event.kind().ends_call()).unwrap().seq().to_string();
        let of_end = ["policy", "explain", "--session", &session, "--at", &end];
        assert_eq!(place.run(&of_end).expect_status(0).stdout, told);
        let json = place.run(&[&explain[..], &["--json"]].concat()).last();
        assert_eq!(json["denied_later"].is_object(), words[0].contains("denied all the same"));
    };
    check(
        "min_isolation: full",
        "denied",
        &[
            "a rule demands the isolation `full`",
            "isolation-too-weak",
            "change `min_isolation` of ",
        ],
        &["it would be denied", "denied all the same"],
    );
    check(
        "rate: 1/h",
        "denied",
        &["change `rate` of ", ", or wait", "rate-limited", "once an hour; the next one in 1 hour"],
        &["it would be denied", "denied all the same"],
    );
    check("max_duration: 30s", "completed", &["allowed"], &["denied all the same"]);
}

/// The failure: `echo ""` in a session, and nothing could be learned from it.
#[test]
fn e2e_a_call_that_no_rule_can_name_is_told_and_the_rest_is_learned() {
    let check = |word: &str, status: i32| {
        let place = Place::new();
        let project = place.shell_project();
        let policy = shipped_with(&place, "{ name: x, match: { syscall: x.y }, action: deny }");
        let policy = format!("{policy}secret_patterns: {{ shop: 'shop_[a-z0-9]{{20,40}}' }}\n");
        std::fs::write(project.join(".glasshouse/policy.yaml"), policy).unwrap();
        let yaml = format!(
            "
version: 1
steps:
  - emit:
      - {{ call: {{ id: a, tool: shell.run, args: {{ argv: [echo, {word}] }} }} }}
      - {{ call: {{ id: b, tool: fs.read, args: {{ path: src/tool.sh }} }} }}
  - expect: {{ results: {{ a: completed, b: completed }} }}
    emit: [ {{ text: done }} ]
"
        );
        let session = session_of(&place.scenario(&project, &yaml).expect_status(0));
        let trial = Trial { place: &place, session };
        let learned = trial.learn(status);
        let left_out = if status == 0 {
            serde_json::json!({})
        } else {
            serde_json::json!({ "no-rule-can-name": 1 })
        };
        assert_eq!(
            (&learned["left_out"], &learned["unequal"]),
            (&left_out, &0.into()),
            "{learned}"
        );
        assert!(learned["policy"].as_str().unwrap().contains("/src/tool.sh"), "{learned}");
        let told = place.run(&["policy", "learn", &trial.session]).stderr;
        assert_eq!(
            told.contains("left out: 1 decision: no rule can name the call"),
            status != 0,
            "{told}"
        );
    };
    check(r#""""#, 5);
    // A secret is not in the record, so a rule for what is recorded would never match.
    check("shop_abcdefghij0123456789", 5);
    check("hi", 0);
}

/// The failure: `--policy FILE` left out the rules of the workflow, and answered otherwise than the session would.
#[test]
fn e2e_a_file_that_is_tried_stands_where_the_accepted_one_would() {
    let place = Place::new();
    let project = place.shell_project();
    let text = "capabilities: [{ name: all, match: { path_glob: '**' }, action: allow }]\n";
    place.accept_policy(&project, text);
    let call = r#"{"syscall":"fs.write","path":"src/a.sh","caller":"agent"}"#;
    let check = |dir: &Path, state: &str, file: &str, status: i32| {
        let here = ["policy", "check", "--call", call, "--state", state, "--json"];
        let decided = place.run_in(dir, &here).expect_status(status).last();
        let tried = [&here[..], &["--policy", file]].concat();
        let tried = place.run_in(dir, &tried).expect_status(status).last();
        assert_eq!(tried["reasons"], decided["reasons"], "{state}");
    };
    check(&project, "planning", ".glasshouse/policy.yaml", 3);
    check(&project, "code_writing", ".glasshouse/policy.yaml", 0);
    // A file that is called as the workflow's rules are is no less a file.
    std::fs::write(project.join("workflow.yaml"), text).unwrap();
    check(&project, "planning", "workflow.yaml", 3);
    let unknown = ["policy", "check", "--call", call, "--state", "plan"];
    assert!(place.run_in(&project, &unknown).expect_status(2).stderr.contains("test_writing"));
}

/// The failure: an accepted file that is gone left the shipped policy in force, and nobody said so.
#[test]
fn e2e_an_accepted_file_that_is_gone_is_told() {
    let place = Place::new();
    let project = place.shell_project();
    let text = shipped_with(&place, NO_READS);
    place.accept_policy(&project, &text);
    let file = project.join(".glasshouse/policy.yaml");
    let call = r#"{"syscall":"fs.read","path":"src/tool.sh"}"#;
    let asks: [&[&str]; 3] =
        [&["policy", "check", "--call", call], &["policy", "show"], &["policy", "update"]];
    let told = |ask: &[&str]| place.run_in(&project, ask).stderr;
    for ask in asks {
        assert!(!told(ask).contains("not there any more"), "the control: {ask:?}");
    }
    std::fs::remove_file(&file).unwrap();
    for ask in asks {
        let told = told(ask);
        assert!(told.contains("was accepted here and is not there any more"), "{ask:?}: {told}");
    }
    let hello = "version: 1\nsteps: [ { emit: [ { text: hi } ] } ]\n";
    let ran = place.scenario(&project, hello).expect_status(0);
    assert!(ran.stderr.contains("was accepted here and is not there any more"), "{ran:?}");
    // What is said brings it back.
    let digest = Digest::of(text.as_bytes()).to_string();
    let back = place.run(&["audit", "blob", &digest]).expect_status(0).stdout;
    assert_eq!(back, text);
    // Where nothing was accepted there is nothing to tell.
    let other = place.path("other");
    std::fs::create_dir_all(&other).unwrap();
    git(&other, &["init", "-q"]);
    assert!(!place.run_in(&other, asks[1]).stderr.contains("not there any more"));
}

#[test]
fn e2e_the_shipped_policy_is_printed_as_data() {
    let place = Place::new();
    let told = place.run(&["policy", "show", "--shipped", "--json"]).expect_status(0).last();
    let plain = place.run(&["policy", "show", "--shipped"]).stdout;
    assert_eq!((&told["source"], &told["text"]), (&"default.yaml".into(), &plain.into()));
}

/// The failure: a rate denied the second file of a kind that the workflow's rules allow, and what was learned counted the
/// first one alone: under it the second was written. Now: what was denied for its rate alone and would be open is counted.
#[test]
fn e2e_what_a_rate_denied_is_not_opened_by_what_is_learned() {
    let check = |rule: &str, statuses: [&str; 2], is_counted: bool| {
        let place = Place::new();
        let project = place.shell_project();
        place.accept_rule(&project, rule);
        let writes = (1..=2).map(|n| {
            format!(
                "  - emit: [ {{ call: {{ id: w{n}, tool: fs.write, args: {{ path: tests/r{n}, content: x }} }} }} ]\n"
            )
        });
        let writes = writes.collect::<String>();
        let plan = "  - emit: [ { call: { id: p, tool: plan.complete, args: { summary: s } } } ]\n";
        let yaml = format!("version: 1\nsteps:\n{plan}{writes}  - emit: [ {{ text: done }} ]\n");
        // Its work is not finished, and nothing more is said.
        let session = session_of(&place.scenario(&project, &yaml).expect_status(6));
        let ends: Vec<_> = place.events().1;
        let ends = ends.iter().filter(|event| event.kind().ends_call());
        let ends: Vec<_> = ends.map(|event| event.kind().as_str()).collect();
        assert_eq!(ends[1..], statuses.map(|status| format!("tool.{status}")), "{rule}");
        let trial = Trial { place: &place, session };
        let learned = trial.learn(0);
        let learned = learned["policy"].as_str().unwrap();
        assert_eq!(trial.simulate(learned)["changed"], 0, "{learned}");
        let names_both = learned.contains("/tests/r1") && learned.contains("/tests/r2");
        assert_eq!(names_both, is_counted, "{learned}");
    };
    let rule = |demand: &str| {
        format!(
            "{{ name: w, match: {{ syscall: fs.write, path_glob: 'tests/r*' }}, action: allow{demand} }}"
        )
    };
    check(&rule(", constraints: { rate: 1/h }"), ["completed", "denied"], true);
    // The controls: a rate that is not reached, and no rate.
    check(&rule(", constraints: { rate: 9/h }"), ["completed", "completed"], true);
    check(&rule(""), ["completed", "completed"], false);
}

/// The failure: decisions of an imported session counted for the project whose path it names, under the rules that it
/// recorded as the workflow's. Now: they are tried where the session is named, under the workflow's rules of here.
#[test]
fn e2e_what_another_log_decided_counts_only_where_it_is_named() {
    let place = Place::new();
    let project = place.shell_project();
    let session = session_of(&place.scenario(&project, &reads(&["completed"; 8])).expect_status(0));
    let out = place.path("out.jsonl").display().to_string();
    place.run(&["session", "export", &session, "--out", &out]).expect_status(0);
    let harsh = shipped_with(&place, NO_READS);
    let file = place.path("candidate.yaml");
    std::fs::write(&file, &harsh).unwrap();
    let file = file.display().to_string();
    let elsewhere = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("GLASSHOUSE_HOME", place.path("home-2")).current_dir(&project);
        Ran::new(&command.output().unwrap())
    };
    elsewhere(&["session", "import", &out]).expect_status(0);
    let simulate = ["policy", "simulate", &file, "--json"];
    let none = elsewhere(&simulate).expect_status(0).last();
    assert_eq!((&none["decisions"], &none["changed"]), (&0.into(), &0.into()), "{none}");
    let digest = Digest::of(harsh.as_bytes()).to_string();
    elsewhere(&["policy", "update", &file, "--digest", &digest, "--json"]).expect_status(0);
    // The controls: by its name, and in the log that it is of.
    let named = [&simulate[..], &["--session", &session]].concat();
    assert_eq!(elsewhere(&named).expect_status(0).last()["breaking"], 8);
    assert_eq!(place.run_in(&project, &simulate).expect_status(0).last()["breaking"], 8);
}
