//! Explaining, checking and testing a policy from the command line.

use glasshouse_model::Kind;
use glasshouse_model::body::CallEnd;

use crate::harness::{Place, git};

const RULES: &str = "
capabilities:
  - { name: docs, match: { syscall: fs.write, path_glob: 'docs/**' }, action: allow }
  - { name: web, match: { syscall: fs.write, label: web }, action: deny }
";

#[test]
fn e2e_policy_explain_names_lines_and_what_would_change_the_answer() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join("p.yaml"), RULES).unwrap();
    let call = r#"{"syscall":"fs.write","path":"docs/a","label":"web"}"#;
    let explain = ["policy", "explain", "--policy", "p.yaml", "--call", call];
    let words = place.run_in(&project, &explain).expect_status(0);
    for line in ["deny    web (p.yaml:4)", "without the label web", "be allowed without web"] {
        assert!(words.stdout.contains(line), "{line}: {words:?}");
    }
    let json =
        place.run_in(&project, &[&explain[..], &["--json"]].concat()).expect_status(0).last();
    assert_eq!(json["decision"], "deny");
    assert_eq!(json["rules"][1]["line"], 4, "{json}");
    assert_eq!(json["other_call"][0]["set"][0]["to"], "without web");
    assert_eq!(json["other_rules"]["without"][0], "web");
    // Outside the workspace no rule is asked.
    let call = r#"{"syscall":"fs.read","path":"../x"}"#;
    let outside = place.run_in(&project, &["policy", "explain", "--call", call, "--json"]).last();
    assert_eq!(outside["rules"][0]["name"], "workspace-boundary");
    assert!(outside["other_rules"].is_null());
}

#[test]
fn e2e_policy_lint_and_test_answer_by_status() {
    let place = Place::new();
    let project = place.shell_project();
    let write = |name: &str, text: &str| std::fs::write(project.join(name), text).unwrap();
    write("p.yaml", RULES);
    let lint = |file: &str| place.run_in(&project, &["policy", "lint", file, "--json"]);
    assert_eq!(lint("p.yaml").expect_status(0).last()["warnings"], 0);
    write(
        "q.yaml",
        &format!("{RULES}  - {{ name: all, match: {{ path_glob: '**' }}, action: deny }}\n"),
    );
    let found = lint("q.yaml").expect_status(5);
    assert!(found.stdout.contains("unreachable_rule"), "{found:?}");
    // What is shipped is clean, and it is said that this was looked at.
    for command in ["lint", "test"] {
        let said = place.run_in(&project, &["policy", command]).expect_status(0).stderr;
        assert!(said.contains("shipped policy"), "{command}: {said}");
        let own = ["policy", command, if command == "lint" { "p.yaml" } else { "--policy=p.yaml" }];
        let said = place.run_in(&project, &own).expect_status(0).stderr;
        assert!(!said.contains("shipped policy"), "the control: {said}");
    }

    let test = |arguments: &[&str]| {
        place.run_in(
            &project,
            &[&["policy", "test", "--json", "--policy", "p.yaml"], arguments].concat(),
        )
    };
    assert_eq!(test(&[]).expect_status(0).last()["passed"], 0);
    let told = |file: &str| place.run_in(&project, &["policy", "test", "--policy", file]).stderr;
    write("empty.yaml", "version: 1\n");
    assert!(told("empty.yaml").contains("warning: empty.yaml:1: the file holds no rule"));
    assert!(!told("p.yaml").contains("warning"), "the control");
    let tests =
        "tests:\n  - { name: a, call: { syscall: fs.write, path: docs/a }, expect: EXPECT }\n";
    // The tests of the project's file are no tests of another one; those that stand beside it are.
    write(".glasshouse/policy.test.yaml", &tests.replace("EXPECT", "allow"));
    assert_eq!(test(&[]).expect_status(0).last()["passed"], 0);
    write("p.test.yaml", &tests.replace("EXPECT", "allow"));
    assert_eq!(test(&[]).expect_status(0).last()["passed"], 1);
    write("t.yaml", &tests.replace("EXPECT", "deny"));
    let failed = test(&["t.yaml"]).expect_status(5);
    assert!(failed.stdout.contains(r#""test":"a""#), "{failed:?}");
    assert_eq!(failed.last()["failed"], 1);
    // An example that does not hold is a failed test, and no misuse of the command.
    write(
        "x.yaml",
        "capabilities:\n  - { name: a, match: { syscall: fs.read }, action: allow, examples: { match: [{ syscall: fs.list }] } }\n",
    );
    let broken = place.run_in(&project, &["policy", "test", "--json", "--policy", "x.yaml"]);
    assert_eq!(broken.expect_status(5).last()["error"]["code"], "policy_example_failed");
    // A fresh clone, where nobody has accepted anything, tests what the file will decide.
    write(".glasshouse/policy.yaml", RULES);
    let cloned = place.run_in(&project, &["policy", "test", "--json"]);
    assert_eq!(cloned.expect_status(0).last()["passed"], 1);
    write("t.yaml", "test: []");
    assert_eq!(test(&["t.yaml"]).expect_status(2).last()["error"]["code"], "policy_unknown_key");
}

/// The least policy of a session decides the same session in the same way, and nothing else.
#[test]
fn e2e_a_learned_policy_decides_the_session_as_it_was() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit:
      - { call: { id: a, tool: fs.read, args: { path: src/tool.sh } } }
      - { call: { id: b, tool: fs.write, args: { path: src/tool.sh, content: x } } }
  - expect: { results: { a: completed, b: denied } }
    emit: [ { call: { id: c, tool: shell.run, args: { argv: [ls, src] } } } ]
  - expect: { results: { c: completed } }
    emit: [ { text: done } ]
";
    place.scenario(&project, yaml).expect_status(0);
    let session = place.events().0.to_string();
    let learned = place.path("learned.yaml").display().to_string();
    let told = place.run(&["policy", "learn", &session, "--out", &learned, "--json"]);
    assert_eq!(told.expect_status(0).last()["unequal"], 0);
    let same = ["policy", "simulate", &learned, "--session", &session, "--json"];
    let same = place.run(&same).expect_status(0).last();
    assert!(same["decisions"].as_u64() >= Some(4) && same["changed"] == 0, "{same}");
    let check = |call: &str, status: i32| {
        let arguments = ["policy", "check", "--policy", &learned, "--call", call];
        place.run_in(&project, &arguments).expect_status(status);
    };
    let state = r#""state":"planning","caller":"agent""#;
    check(&format!(r#"{{"syscall":"fs.read","path":"src/tool.sh",{state}}}"#), 0);
    check(&format!(r#"{{"syscall":"fs.read","path":"src","{}}}"#, &state[1..]), 3);
    check(&format!(r#"{{"syscall":"shell.run","argv":["ls","src"],{state}}}"#), 0);
    check(&format!(r#"{{"syscall":"shell.run","argv":["ls","src","/"],{state}}}"#), 3);
    place.run(&["policy", "learn", "s_p0rcd7dq0ctn"]).expect_status(10);
}

/// The failure: looks whose answers said that entries were withheld became rules for every path, no trial told the
/// difference, and under what was learned the same looks told everything.
#[test]
fn e2e_what_a_look_kept_back_is_learned_and_tried() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::create_dir_all(project.join("hidden")).unwrap();
    for file in [".env", "hidden/a.txt"] {
        std::fs::write(project.join(file), "key\n").unwrap();
    }
    let accept = |text: &str| {
        std::fs::write(project.join(".glasshouse/policy.yaml"), text).unwrap();
        let digest = glasshouse_model::Digest::of(text.as_bytes()).to_string();
        place.run_in(&project, &["policy", "update", "--digest", &digest]).expect_status(0);
    };
    let shipped = place.run(&["policy", "show", "--shipped"]).stdout;
    accept(&format!(
        "{shipped}\n  - {{ name: no-env, match: {{ path_glob: ['.env', 'hidden/**', hidden] }}, action: deny }}\n"
    ));
    let yaml = "
version: 1
steps:
  - emit:
      - { call: { id: a, tool: fs.list, args: { path: ., recursive: true } } }
      - { call: { id: b, tool: search.glob, args: { pattern: '**' } } }
      - { call: { id: c, tool: search.grep, args: { pattern: key } } }
  - expect: { results: { a: completed, b: completed, c: completed } }
    emit: [ { text: done } ]
";
    let looks = || {
        let session = place.scenario(&project, yaml).expect_status(0).last()["session"].clone();
        let session = session.as_str().unwrap().to_owned();
        let log = place.log();
        let rows = log.sessions().unwrap();
        let row = rows.iter().find(|row| row.session.as_str() == session).unwrap();
        let events = log.read(&row.main, 1, 100_000).unwrap();
        let ends = events.iter().filter(|event| *event.kind() == Kind::ToolCompleted);
        let ends: Vec<CallEnd> = ends.map(|event| event.body_as().unwrap()).collect();
        (session, ends)
    };
    let (session, before) = looks();
    assert_eq!(before.len(), 3);
    for end in &before {
        assert!(end.text.contains("withheld by policy") && !end.text.contains("hidden"), "{end:?}");
        assert!(end.withheld.as_ref().unwrap().entries.len() >= 2, "{end:?}");
    }
    let simulate = |file: &str| {
        let arguments = ["policy", "simulate", file, "--session", &session, "--json"];
        place.run(&arguments).expect_status(0).last()
    };
    let learned = place.path("learned.yaml").display().to_string();
    let told = place.run(&["policy", "learn", &session, "--out", &learned, "--json"]);
    assert_eq!(told.expect_status(0).last()["unequal"], 0);
    assert_eq!(simulate(&learned)["changed"], 0);
    // The control: a policy without the denial tells what was kept back, and the trial says so.
    let wide = place.path("wide.yaml");
    std::fs::write(&wide, &shipped).unwrap();
    assert_eq!(simulate(&wide.display().to_string())["changed"], 7);
    accept(&std::fs::read_to_string(&learned).unwrap());
    for end in looks().1 {
        assert!(!end.text.contains(".env") && !end.text.contains("hidden"), "{end:?}");
    }
}

/// A policy is put in the place of another one whole, after its changes were seen; many breaking changes
/// need a phrase.
#[test]
fn e2e_an_update_is_atomic_and_breaking_changes_need_a_phrase() {
    let place = Place::new();
    let project = place.shell_project();
    let reads: Vec<String> = (0..7)
        .map(|n| format!("{{ call: {{ id: r{n}, tool: fs.read, args: {{ path: src/tool.sh, offset_line: {} }} }} }}", n + 1))
        .collect();
    let yaml = format!(
        "version: 1\nsteps:\n  - emit: [ {} ]\n  - emit: [ {{ text: done }} ]\n",
        reads.join(", ")
    );
    place.scenario(&project, &yaml).expect_status(0);
    let shipped = place.run(&["policy", "show", "--shipped"]).stdout;
    let update = |text: &str, more: &[&str]| {
        std::fs::write(place.path("new.yaml"), text).unwrap();
        let digest = glasshouse_model::Digest::of(text.as_bytes()).to_string();
        let file = place.path("new.yaml").display().to_string();
        let arguments = [&["policy", "update", &file, "--json", "--digest", &digest][..], more];
        place.run_in(&project, &arguments.concat())
    };
    let target = project.join(".glasshouse/policy.yaml");
    // Nothing breaks: the digest is enough, and the file is in its place.
    let gentle = format!("# ours\n{shipped}");
    assert_eq!(update(&gentle, &[]).expect_status(0).last()["breaking"], 0);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), gentle);
    assert_eq!(update(&gentle, &[]).expect_status(0).last()["changed"], false);
    // It denies what seven reads were allowed.
    let harsh = "capabilities: []\n";
    let refused = update(harsh, &[]).expect_status(4).last();
    let fix = refused["error"]["fix"].as_str().unwrap().to_owned();
    let phrase = fix.split('\'').nth(1).unwrap();
    assert!(phrase.starts_with("accept ") && phrase.ends_with(" breaking changes"), "{fix}");
    update(harsh, &["--confirm", "yes"]).expect_status(4);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), gentle, "nothing was written");
    assert_eq!(update(harsh, &["--confirm", phrase]).expect_status(0).last()["changed"], true);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), harsh);
    let left: Vec<_> = std::fs::read_dir(project.join(".glasshouse")).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".policy.")));
    // A file that does not load is not put there, and a link leads nowhere.
    update("capabilities: [{ name: x }]\n", &[]).expect_status(2);
    // What is wrong with a candidate stands in the candidate, not in the file that it would replace.
    let candidate = place.path("new.yaml").display().to_string();
    for text in ["capabilities: [{ name: x }]\n", "a: [\n", "extension: 'throw new Error()'\n"] {
        let error = update(text, &[]).expect_status(2).last()["error"].clone();
        assert_eq!(error["context"]["source"], candidate, "{error}");
    }
    let odd =
        format!("{shipped}  - {{ name: odd, match: {{ caller_tag: nobody }}, action: deny }}\n");
    std::fs::write(place.path("new.yaml"), odd).unwrap();
    let other = glasshouse_model::Digest::of(b"another text").to_string();
    let unmet = ["policy", "update", &candidate, "--digest", &other];
    let warned = place.run_in(&project, &unmet).expect_status(8).stderr;
    assert!(warned.contains(&format!("warning: {candidate}:")), "{warned}");
    let elsewhere = place.path("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::remove_dir_all(project.join(".glasshouse")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, project.join(".glasshouse")).unwrap();
    update(&gentle, &[]).expect_status(2);
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    let log = place.run(&["audit", "log", "--kind", "policy.updated", "--json"]).last();
    let digest = |text: &str| glasshouse_model::Digest::of(text.as_bytes()).to_string();
    assert_eq!(log["body"]["previous"], digest(&gentle).as_str());
    assert_eq!(log["body"]["text"]["blob"], digest(harsh).as_str());
}

/// The failure: where nobody could be asked, the digest was told, and the phrase only after a second try.
#[test]
fn e2e_what_a_breaking_policy_needs_is_told_at_once() {
    let place = Place::new();
    let project = place.shell_project();
    let reads = (1..8).map(|n| {
        format!("{{ call: {{ id: r{n}, tool: fs.read, args: {{ path: src/tool.sh, offset_line: {n} }} }} }}")
    });
    let reads = reads.collect::<Vec<_>>().join(", ");
    let yaml =
        format!("version: 1\nsteps:\n  - emit: [ {reads} ]\n  - emit: [ {{ text: done }} ]\n");
    place.scenario(&project, &yaml).expect_status(0);
    let shipped = place.run(&["policy", "show", "--shipped"]).stdout;
    let fix = |text: &str| {
        std::fs::write(place.path("new.yaml"), text).unwrap();
        let file = place.path("new.yaml").display().to_string();
        let ran = place.run_in(&project, &["policy", "update", &file, "--json"]);
        ran.expect_status(4).last()["error"]["fix"].as_str().unwrap().to_owned()
    };
    let harsh = fix("version: 1\n");
    assert!(harsh.contains("--digest sha256:") && harsh.contains("--confirm 'accept "), "{harsh}");
    let gentle = fix(&format!("# ours\n{shipped}"));
    assert!(gentle.contains("--digest sha256:") && !gentle.contains("--confirm"), "{gentle}");
}

#[test]
fn e2e_policy_schema_is_the_published_one() {
    let place = Place::new();
    let printed = place.run(&["policy", "schema"]).expect_status(0).stdout;
    assert_eq!(printed, include_str!("../../../../docs/reference/policy.schema.json"));
}

/// `policy check` let a person be asked about exemptions that a session denies whoever is asked: for a test,
/// for sources, in a state in which none begins. Both now ask the same judgement.
#[test]
fn regression_an_exemption_is_judged_by_check_as_by_a_session() {
    let place = Place::new();
    let project = place.shell_project();
    let check = |path: &str, state: &str, status: i32, why: &str| {
        let call = format!(
            r#"{{"syscall":"workflow.request_exemption","caller":"agent","path":"{path}","state":"{state}"}}"#
        );
        let said = place.run_in(&project, &["policy", "check", "--call", &call, "--json"]);
        let said = said.expect_status(status).last();
        assert!(said["reasons"].to_string().contains(why), "{said}");
        if status == 3 {
            let why = place.run_in(&project, &["policy", "explain", "--call", &call]).stdout;
            assert!(why.contains("no rule of a file can change this: exemption-scope"), "{why}");
        }
    };
    check("README.md", "planning", 4, "a person decides");
    check("tests/run.sh", "planning", 3, "`tests/run.sh` is a test");
    check("src/a.sh", "planning", 3, "`src/a.sh` is of no kind");
    check("README.md", "committing", 3, "no exemption begins in committing");
}

/// Calls as their fields, what is decided, and the rule that speaks.
const DERIVED: &[(&str, &str, &str)] = &[
    (r#""syscall":"fs.write","path":"tests/a.sh""#, "require_review", "test"),
    (r#""syscall":"fs.edit","path":"tests/a.sh""#, "require_review", "test"),
    (r#""syscall":"fs.delete","path":"tests/../tests/a.sh""#, "require_review", "test"),
    (r#""syscall":"fs.write","path":"src/a.sh""#, "deny", "source"),
    (r#""syscall":"fs.write","path":"out/a.sh""#, "allow", "ignored"),
    (r#""syscall":"fs.write","path":"lib.rs""#, "deny", "source"),
    // What the call says is what counts.
    (r#""syscall":"fs.write","path":"lib.rs","change":"test""#, "require_review", "test"),
    (r#""syscall":"fs.write","path":"tests/a.sh","change":"ignored""#, "allow", "ignored"),
    // Of a file that goes away everything is known.
    (r#""syscall":"fs.delete","path":"lib.rs""#, "require_review", "mixed"),
    (r#""syscall":"test.run""#, "allow", "tests-run"),
    (r#""syscall":"test.run","argv":["make"]"#, "deny", ""),
    (r#""syscall":"fs.read","path":"tests/a.sh""#, "deny", ""),
];

/// The failure: a rule about `change` did not speak where a session heard it: what a write changes was left out, and
/// `check` and `test` said "allowed" where the session asked a person.
/// Now: what a session finds out about a call is found out in the same way, unless the call says it.
#[test]
fn e2e_policy_check_and_test_derive_what_a_session_derives() {
    let place = Place::new();
    let project = place.shell_project();
    git(&project, &["init", "-q"]);
    let write = |name: &str, text: &str| std::fs::write(project.join(name), text).unwrap();
    write(".gitignore", "out/\n");
    let inline = "fn f() {}\n#[cfg(test)] mod tests { #[test] fn t() { super::f() } }\n";
    write("lib.rs", inline);
    let rule = |class: &str, action: &str| {
        format!(
            "  - {{ name: {class}, match: {{ syscall: [fs.write, fs.edit, fs.delete], change: {class} }}, action: {action} }}\n"
        )
    };
    let rules = [
        ("test", "require_review"),
        ("source", "deny"),
        ("ignored", "allow"),
        ("mixed", "require_review"),
    ];
    let rules: String = rules.iter().map(|(class, action)| rule(class, action)).collect();
    write(
        "p.yaml",
        &format!(
            "capabilities:\n{rules}  - {{ name: tests-run, match: {{ syscall: test.run, argv_prefix: sh }}, action: allow }}\n"
        ),
    );
    let mut tests = "tests:\n".to_owned();
    for (fields, effect, rule) in DERIVED {
        let call = format!("{{{fields}}}");
        for command in ["check", "explain"] {
            let arguments = ["policy", command, "--policy", "p.yaml", "--json", "--call", &call];
            let ran = place.run_in(&project, &arguments);
            let said = ran.last();
            assert_eq!(said["decision"], *effect, "{command} {call}: {said}");
            if !rule.is_empty() {
                assert!(
                    said["rules"].to_string().contains(&format!(r#""name":"{rule}""#)),
                    "{call}: {said}"
                );
            }
            let supposed = ran.stderr.contains("taken for a source");
            assert_eq!(
                supposed,
                *fields == r#""syscall":"fs.write","path":"lib.rs""#,
                "{call}: {ran:?}"
            );
        }
        let rules = if rule.is_empty() { "[]" } else { rule };
        tests.push_str(
            &format!("  - {{ name: x, call: {call}, expect: {effect}, rules: {rules} }}\n")
                .replace("\":\"", "\": \"")
                .replace("\":[", "\": ["),
        );
    }
    write("t.yaml", &tests);
    let ran = place.run_in(&project, &["policy", "test", "t.yaml", "--policy", "p.yaml", "--json"]);
    assert_eq!(ran.expect_status(0).last()["passed"], DERIVED.len());
}

#[test]
fn e2e_a_misspelt_syscall_of_a_call_is_named() {
    let place = Place::new();
    let project = place.shell_project();
    let check = |syscall: &str, suggestion: Option<&str>| {
        let call = format!(r#"{{"syscall":"{syscall}","path":"a"}}"#);
        let ran = place.run_in(&project, &["policy", "check", "--call", &call, "--json"]);
        let error = ran.expect_status(2).last()["error"].clone();
        assert_eq!(error["code"], "call_malformed", "{error}");
        assert!(error["what"].as_str().unwrap().contains(syscall), "{error}");
        assert_eq!(error["context"]["suggestion"].as_str(), suggestion, "{error}");
    };
    check("fs.writ", Some("fs.write"));
    check("web.fetch", Some("net.connect"));
    check("fs.paint", None);
    check("write", None);
    let tests = "tests: [{ name: a, call: { syscall: fs.writ }, expect: deny }]";
    std::fs::write(project.join("t.yaml"), tests).unwrap();
    let tested = place.run_in(&project, &["policy", "test", "t.yaml", "--json"]).expect_status(2);
    assert_eq!(tested.last()["error"]["context"]["suggestion"], "fs.write");
    // What a plugin brings has a name of its own.
    let call = r#"{"syscall":"tool.paint"}"#;
    place.run_in(&project, &["policy", "check", "--call", call]).expect_status(3);
    let state = r#"{"syscall":"fs.read","path":"a","state":"exploreing"}"#;
    let ran = place.run_in(&project, &["policy", "check", "--call", state, "--json"]);
    let error = ran.expect_status(2).last()["error"].clone();
    assert_eq!(
        (&error["code"], &error["context"]["suggestion"]),
        (&"call_malformed".into(), &"exploring".into())
    );
}

/// The failure: a call without `caller` was decided as a user's, and `--state` took the place of its state, without a word.
#[test]
fn e2e_what_check_takes_for_granted_is_said() {
    let place = Place::new();
    let project = place.shell_project();
    let check = |call: &str, more: &[&str], said: Option<&str>| {
        let arguments = [&["policy", "check", "--call", call][..], more].concat();
        let stderr = place.run_in(&project, &arguments).stderr;
        let notes: Vec<&str> = stderr.lines().filter(|line| line.starts_with("note: ")).collect();
        assert_eq!(notes.len(), usize::from(said.is_some()), "{stderr}");
        assert!(said.is_none_or(|said| notes[0].contains(said)), "{stderr}");
    };
    let agent = r#"{"syscall":"fs.read","path":"a","caller":"agent","state":"planning"}"#;
    check(r#"{"syscall":"fs.read","path":"a"}"#, &[], Some("one of a user"));
    check(agent, &[], None);
    check(agent, &["--state", "planning"], None);
    check(agent, &["--state", "idle"], Some("`--state idle` counts, and not the state `planning`"));
}

/// Whoever accepts a policy while somebody else is at it and does not end is told so, and nothing is changed.
#[test]
fn e2e_an_acceptance_waits_for_another_one_and_not_for_ever() {
    let place = Place::new();
    let project = place.shell_project();
    place.accept_policy(&project, "capabilities: []\n");
    let text = "capabilities: [ { name: a, match: { syscall: fs.read }, action: allow } ]\n";
    std::fs::write(project.join(".glasshouse/policy.yaml"), text).unwrap();
    let digest = glasshouse_model::Digest::of(text.as_bytes()).to_string();
    let update = ["policy", "update", "--digest", &digest, "--json"];
    let lock = std::fs::File::open(place.home().join("run/policy.lock")).unwrap();
    lock.lock().unwrap();
    let busy = place.run_in(&project, &update).expect_status(8);
    let error = busy.last()["error"].clone();
    assert_eq!((&error["code"], &error["retryable"]), (&"policy_busy".into(), &true.into()));
    drop(lock);
    place.run_in(&project, &update).expect_status(0);
}
