//! Merges and commits of the program on real repositories: beside people and other sessions, on
//! disks and in repositories that do not play along.

use std::path::Path;

use glasshouse_model::{Event, Kind};

use crate::harness::{Place, assert_each_ended_once, count, git};

/// A scenario that adds a test and then makes it pass by one edit of `file`.
fn story(test: &str, expects: &str, file: &str, old: &str, new: &str) -> String {
    format!(
        r#"
version: 1
steps:
  - emit: [ {{ call: {{ id: p, tool: plan.complete, args: {{ summary: "change {file}" }} }} }} ]
  - emit:
      - {{ call: {{ id: w, tool: fs.write, args: {{ path: tests/{test}.sh, content: "{expects}\n" }} }} }}
      - {{ call: {{ id: red, tool: test.run, args: {{}} }} }}
  - expect: {{ results: {{ red: completed }} }}
    emit:
      - {{ call: {{ id: e, tool: fs.edit, args: {{ path: {file}, old: "{old}", new: "{new}" }} }} }}
      - {{ call: {{ id: green, tool: test.run, args: {{}} }} }}
  - expect: {{ results: {{ green: completed }} }}
    emit: [ {{ call: {{ id: c, tool: git.commit, args: {{ message: "Change {file}" }} }} }} ]
  - expect: {{ results: {{ c: completed }} }}
    emit: [ {{ text: "done" }} ]
"#
    )
}

fn two_words() -> String {
    story(
        "t_two",
        "sh src/tool.sh | grep -q two",
        "src/tool.sh",
        "echo one\\n",
        "echo one\\necho two\\n",
    )
}

fn evidence(events: &[Event]) -> Vec<bool> {
    let all = events.iter().filter(|event| *event.kind() == Kind::TestEvidence);
    all.map(|event| event.body["passed"].as_bool().unwrap()).collect()
}

/// The failure: in a repository whose lock file is written by every test run (a library that ignores
/// none, an old format), the run was rolled back as an edit out of scope, and no test was ever seen failing.
/// Now: the lock file alone goes back, the runs count, and the commit does not hold it.
#[test]
fn e2e_a_lock_file_written_by_the_tests_does_not_void_them() {
    let check = |tracked: bool| {
        let place = Place::new();
        let run = "echo resolved >> Cargo.lock\nfor t in tests/t_*.sh; do sh $t || exit 1; done\n";
        let mut files = vec![
            ("src/tool.sh", "echo one\n"),
            ("tests/run.sh", run),
            ("tests/t_one.sh", "[ \"$(sh src/tool.sh | head -1)\" = one ]\n"),
            (
                ".glasshouse/config.yaml",
                "test: { command: [sh, tests/run.sh], globs: [\"tests/**\"] }\nsource: { globs: [\"src/**\"] }\n",
            ),
        ];
        if tracked {
            files.push(("Cargo.lock", "pinned\n"));
        }
        let project = place.project(&files);
        let ran = place.scenario(&project, &two_words()).expect_status(0);
        assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
        let (_, events) = place.events();
        assert_eq!(evidence(&events), [false, true], "tracked: {tracked}");
        assert_eq!(count(&events, &Kind::WorkspaceRolledBack), 2);
        assert_each_ended_once(&events);
        let paths = git(&project, &["diff", "--name-only", "HEAD~1", "HEAD"]);
        assert_eq!(paths, "src/tool.sh\ntests/t_two.sh\n");
        assert_eq!(git(&project, &["status", "--porcelain"]), "");
    };
    check(true);
    check(false);
}

/// The other side of it: a test run that changes what is no lock file still loses everything.
#[test]
fn e2e_a_source_written_by_the_tests_still_voids_them() {
    let place = Place::new();
    let project = place.project(&[
        ("src/tool.sh", "echo one\n"),
        ("tests/run.sh", "echo x >> Cargo.lock\necho two >> src/tool.sh\nexit 1\n"),
        (
            ".glasshouse/config.yaml",
            "test: { command: [sh, tests/run.sh], globs: [\"tests/**\"] }\nsource: { globs: [\"src/**\"] }\n",
        ),
    ]);
    place.scenario(&project, &two_words());
    assert_eq!(evidence(&place.events().1), Vec::<bool>::new());
}

fn committed(project: &Path, path: &str) -> String {
    git(project, &["show", &format!("HEAD:{path}")])
}

/// The failure: text that the user had not committed went into the agent's commit.
/// Now: it stays in the work tree, and where it cannot be told apart, the program ends with exit 8.
#[test]
fn e2e_a_commit_holds_the_agents_lines_alone() {
    let place = Place::new();
    let project = place.shell_project();
    let file = project.join("src/tool.sh");
    std::fs::write(&file, "echo one\necho 2\necho 3\necho 4\n").unwrap();
    git(&project, &["commit", "-q", "-a", "-m", "more"]);
    std::fs::write(&file, "echo one\necho 2\necho 3\necho of the user\n").unwrap();
    let ran = place.scenario(&project, &two_words()).expect_status(0);
    assert_eq!(ran.last()["outcome"], "committed");
    assert_eq!(committed(&project, "src/tool.sh"), "echo one\necho two\necho 2\necho 3\necho 4\n");
    assert!(std::fs::read_to_string(&file).unwrap().ends_with("echo of the user\n"));
    assert_eq!(git(&project, &["status", "--porcelain"]), " M src/tool.sh\n");

    let place = Place::new();
    let project = place.shell_project();
    let file = project.join("src/tool.sh");
    std::fs::write(&file, "echo one\necho of the user\n").unwrap();
    let head = git(&project, &["rev-parse", "HEAD"]);
    let ran = place.scenario(&project, &two_words());
    assert_eq!(git(&project, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&project, &["status", "--porcelain"]), " M src/tool.sh\n");
    let (_, events) = place.events();
    let told = serde_json::to_string(&events).unwrap();
    assert!(told.contains("src/tool.sh: not_in_head"), "{ran:?}");
    assert_ne!(ran.status, Some(0));
}

/// The failure: two sessions on one project that ended at once; one found the branch moved and left its
/// files behind, in no commit.
/// Now: both commit.
#[test]
fn e2e_two_sessions_commit_on_one_project() {
    let place = Place::new();
    let project = place.project(&[
        ("src/a.sh", "echo a\n"),
        ("src/b.sh", "echo b\n"),
        ("tests/run.sh", "for t in tests/t_*.sh; do sh $t || exit 1; done\n"),
        ("tests/t_one.sh", "true\n"),
        (
            ".glasshouse/config.yaml",
            "test: { command: [sh, tests/run.sh], globs: [\"tests/**\"] }\nsource: { globs: [\"src/**\"] }\n",
        ),
    ]);
    let scenario = |name: &str| {
        let test = format!("sh src/{name}.sh | grep -q more");
        let file = format!("src/{name}.sh");
        let (old, new) = (format!("echo {name}\\n"), format!("echo {name}\\necho more\\n"));
        let yaml = story(&format!("t_{name}"), &test, &file, &old, &new);
        let path = place.path(&format!("{name}.yaml"));
        std::fs::write(&path, yaml).unwrap();
        let path = path.display().to_string();
        let mut command =
            place.command(&["do it", "--provider", "scripted", "--scenario", &path, "--json"]);
        command.current_dir(&project).output().unwrap()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| scenario("b"));
        let outputs = [scenario("a"), other.join().unwrap()];
        for output in outputs {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
            assert!(text.contains(r#""outcome":"committed""#), "{text}");
        }
    });
    assert_eq!(git(&project, &["rev-list", "--count", "HEAD"]).trim(), "3");
    assert_eq!(committed(&project, "src/a.sh"), "echo a\necho more\n");
    assert_eq!(committed(&project, "src/b.sh"), "echo b\necho more\n");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
}

/// The failure: files were written although the commit could not follow.
/// Now: the program says that the repository is busy (exit 8), and changes nothing; once it is free, the
/// session carries on.
#[test]
fn e2e_a_busy_repository_is_left_alone() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join(".git/MERGE_HEAD"), git(&project, &["rev-parse", "HEAD"])).unwrap();
    let ran = place.scenario(&project, &two_words());
    let (_, events) = place.events();
    assert_eq!(count(&events, &Kind::MergeFailed), 1, "{ran:?}");
    assert_eq!(ran.status, Some(8), "{ran:?}");
    assert_eq!(std::fs::read_to_string(project.join("src/tool.sh")).unwrap(), "echo one\n");
    assert!(!project.join("tests/t_two.sh").exists());
    assert_each_ended_once(&events);
}

/// A message that git does not take is refused before anything is merged.
#[test]
fn e2e_a_commit_message_must_say_something() {
    let check = |message: &str, code: &str| {
        let place = Place::new();
        let project = place.shell_project();
        let yaml = two_words().replace("\"Change src/tool.sh\"", &format!("\"{message}\""));
        let yaml = yaml.replace("{ c: completed }", "{ c: failed }");
        let ran = place.scenario(&project, &yaml).expect_status(0);
        let (_, events) = place.events();
        let failed: Vec<_> = events
            .iter()
            .filter(|event| *event.kind() == Kind::ToolFailed)
            .map(|event| event.body["code"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(failed, [code], "{message:?}: {ran:?}");
        // The model was told, and went on; what is committed has the plan's words.
        assert_eq!(git(&project, &["log", "-1", "--format=%s"]), "change src/tool.sh\n");
    };
    check("", "invalid_arguments");
    check("  \\n\\t", "message_invalid");
    check("a\\0b", "message_invalid");
}

/// The failure: a process killed while it copied the project must not lose what the user asked for.
/// Now: the message is in the log before anything that takes time, and resuming works on it.
#[test]
fn e2e_the_task_survives_a_kill_during_the_freeze() {
    let place = Place::new();
    let project = place.shell_project();
    for number in 0..2000 {
        std::fs::write(project.join(format!("src/{number}.txt")), vec![b'x'; 4096]).unwrap();
    }
    let mut running = place.spawn(place.scenario_command(&project, &two_words()));
    let session = place.wait_for("the message", |events| {
        count(events, &Kind::MessageReceived) == 1 && count(events, &Kind::WorkspaceFrozen) == 0
    });
    running.kill_9();
    let (_, events) = place.events();
    let frozen = count(&events, &Kind::WorkspaceFrozen);
    let message = events.iter().find(|event| *event.kind() == Kind::MessageReceived).unwrap();
    assert_eq!(message.body["text"], "do it");
    let resumed = place.run(&["session", "resume", session.as_str(), "--json"]);
    assert_eq!(resumed.last()["outcome"], "committed", "{frozen} {resumed:?}");
    let paths = git(&project, &["diff", "--name-only", "HEAD~1", "HEAD"]);
    assert_eq!(paths, "src/tool.sh\ntests/t_two.sh\n");
}
