//! What sessions leave on disk outside the log: nothing when they are over, all of it when not.

use std::path::{Path, PathBuf};

use glasshouse_model::Kind;

use crate::harness::{Place, count, git, skipped, statuses};

const TASK: &str = r#"
version: 1
steps:
  - emit: [ { call: { id: p, tool: plan.complete, args: { summary: "say two" } } } ]
  - emit:
      - { call: { id: w, tool: fs.write, args: { path: tests/t_two.sh, content: "sh src/tool.sh | grep -q two\n" } } }
      - { call: { id: red, tool: test.run, args: {} } }
  - expect: { results: { red: completed } }
    emit:
      - { call: { id: e, tool: fs.edit, args: { path: src/tool.sh, old: "echo one\n", new: "echo one\necho two\n" } } }
      - { call: { id: slow, tool: shell.run, args: { argv: [sh, -c, "sleep 2"] } } }
      - { call: { id: green, tool: test.run, args: {} } }
  - expect: { results: { green: completed } }
    emit: [ { call: { id: c, tool: git.commit, args: { message: "Say two" } } } ]
  - expect: { results: { c: completed } }
    emit: [ { text: "done" } ]
"#;

/// Directories of branches.
fn branches(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.home().join("run")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("b_")).collect()
}

/// The failure: every session left its layers, caches and merge records in the data directory, for ever.
/// Now: a session that ends at rest takes its own away, and can still be shown.
#[test]
fn e2e_an_ended_session_leaves_nothing_behind() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, TASK).expect_status(0);
    assert_eq!(branches(&place), Vec::<PathBuf>::new());
    let (session, _) = place.events();
    place.run(&["session", "show", session.as_str()]).expect_status(0);
    place.run(&["session", "resume", session.as_str(), "--json"]);
    place.run(&["audit", "verify"]).expect_status(0);
}

/// The failure: a sweep that takes too much. What a killed session has not finished is the only copy of
/// its workspace. Now: it stays, however old, until the session ends; what is held stays as well.
#[test]
fn e2e_a_sweep_leaves_unfinished_and_running_sessions_alone() {
    let place = Place::new();
    let project = place.shell_project();
    let mut running = place.spawn(place.scenario_command(&project, TASK));
    let session = place.wait_for("the slow command", |events| {
        events.iter().filter(|event| *event.kind() == Kind::ToolStarted).count() >= 5
    });
    let gc = |expected: usize| {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * 24 * 30);
        for path in branches(&place).into_iter().chain([place.home().join("cache/bases")]) {
            std::fs::File::open(&path).unwrap().set_modified(old).unwrap();
        }
        let found = place.run(&["sandbox", "gc", "--json"]).expect_status(0).last();
        let swept: Vec<_> = found["leftovers"].as_array().unwrap().clone();
        let of_branches = |path: &&serde_json::Value| path.as_str().unwrap().contains("/run/b_");
        assert_eq!(swept.iter().filter(of_branches).count(), expected, "{swept:?}");
    };
    gc(0);
    running.kill_9();
    gc(0);
    assert_eq!(branches(&place).len(), 1);
    let resumed = place.run(&["session", "resume", session.as_str(), "--json"]);
    assert_eq!(resumed.last()["outcome"], "committed", "{resumed:?}");
    assert_eq!(branches(&place), Vec::<PathBuf>::new());
    gc(0);
}

/// The failure: bases were compared by path, so a sweep that named the data directory otherwise than the
/// killed session took its base away, and the session could never be resumed. Now: whichever of them
/// comes through a link, the base stays and the session ends its work.
#[test]
fn e2e_a_sweep_through_a_link_keeps_what_an_unfinished_session_is_above() {
    for session_through_link in [true, false] {
        let place = Place::new();
        let project = place.shell_project();
        std::fs::create_dir(place.home()).unwrap();
        std::os::unix::fs::symlink(place.home(), place.path("link")).unwrap();
        let (by_session, by_sweep) = match session_through_link {
            true => (place.path("link"), place.home()),
            false => (place.home(), place.path("link")),
        };
        let mut command = place.scenario_command(&project, TASK);
        command.env("GLASSHOUSE_HOME", &by_session);
        let mut running = place.spawn(command);
        let session = place.wait_for("the slow command", |events| {
            events.iter().filter(|event| *event.kind() == Kind::ToolStarted).count() >= 5
        });
        running.kill_9();
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * 24 * 30);
        let bases = || std::fs::read_dir(place.home().join("cache/bases")).unwrap();
        for base in bases() {
            let base = std::fs::File::open(base.unwrap().path()).unwrap();
            base.set_modified(old).unwrap();
        }
        let through = |home: &Path, arguments: &[&str]| {
            let mut command = place.command(arguments);
            command.env("GLASSHOUSE_HOME", home).output().unwrap()
        };
        let swept = through(&by_sweep, &["sandbox", "gc", "--json"]);
        assert!(swept.status.success(), "{swept:?}");
        assert_eq!(bases().count(), 1, "{swept:?}");
        let resumed = through(&by_sweep, &["session", "resume", session.as_str(), "--json"]);
        let told = String::from_utf8_lossy(&resumed.stdout).into_owned();
        assert!(told.contains("\"outcome\":\"committed\""), "{resumed:?}");
    }
}

/// The failure: a command that nested directories deeper than any path made every later call of its
/// session fail, and nothing could remove what it had made. Now: that call is taken back with its code,
/// the calls after it work, and the end of the session leaves nothing, not even in the cache.
#[test]
fn e2e_a_tree_that_no_path_reaches_costs_one_call() {
    let place = Place::new();
    let project = place.shell_project();
    let nest =
        "n=$(printf %0200d 0); i=0; while [ $i -lt 300 ]; do mkdir $n; cd $n; i=$((i+1)); done";
    let spoils = [
        ("deep", format!("{nest}; touch here")),
        ("cache", format!("cd /cache; {nest}; touch here")),
        ("locked", format!("{nest}; touch here; chmod 000 .")),
        ("bytes", r"touch $(printf '\377\376')".to_owned()),
    ];
    let calls: String = spoils
        .iter()
        .map(|(id, script)| {
            format!("      - {{ call: {{ id: {id}, tool: shell.run, args: {{ script: {script:?} }} }} }}\n")
        })
        .collect();
    let yaml = TASK.replacen(
        "      - { call: { id: w, tool",
        &format!("{calls}      - {{ call: {{ id: w, tool"),
        1,
    );
    let yaml = yaml.replace("sleep 2", "true");
    let ended = place.scenario(&project, &yaml);
    assert_eq!(ended.last()["outcome"], "committed", "{ended:?}");
    let (_, events) = place.events();
    let statuses: std::collections::BTreeMap<_, _> = statuses(&events).into_iter().collect();
    let told: Vec<_> =
        ["deep", "cache", "locked", "bytes", "w", "green"].map(|id| statuses[id].as_str()).into();
    assert_eq!(told, ["failed", "completed", "failed", "failed", "completed", "completed"]);
    for event in events.iter().filter(|event| *event.kind() == Kind::ToolFailed) {
        assert_eq!(event.body["code"], "path_unrepresentable", "{:?}", event.body);
    }
    assert_eq!(branches(&place), Vec::<PathBuf>::new());
}

/// The failure: `chmod 000 .` was completed in a state in which nothing may be written, and every later command of the session
/// failed. Rights of an owner are no part of what is sealed, so nobody decides them, and the next command has them back.
#[test]
fn e2e_a_command_locks_nobody_out_but_itself() {
    let check = |lock: &str, look: &str| {
        let place = Place::new();
        let project = place.shell_project();
        let yaml = format!(
            "
version: 1
steps:
  - emit: [ {{ call: {{ id: lock, tool: shell.run, args: {{ script: {lock:?} }} }} }} ]
  - expect: {{ results: {{ lock: completed }} }}
    emit: [ {{ call: {{ id: look, tool: shell.run, args: {{ script: {look:?} }} }} }} ]
  - expect: {{ results: {{ look: completed }} }}
    emit: [ {{ call: {{ id: read, tool: fs.read, args: {{ path: src/tool.sh }} }} }} ]
  - expect: {{ results: {{ read: completed }} }}
    emit: [ {{ text: done }} ]
"
        );
        place.scenario(&project, &yaml).expect_status(0);
        let (_, events) = place.events();
        let ends = events.iter().filter(|event| event.kind().ends_call());
        let codes: Vec<_> = ends.map(|event| event.body["exit_code"].clone()).collect();
        assert_eq!(codes[..2], [0, 0], "{lock}: {codes:?}");
    };
    check("chmod 000 src", "cat src/tool.sh");
    check("chmod 000 .", "cat src/tool.sh");
    check("chmod 000 src/tool.sh", "cat src/tool.sh");
    check("chmod 000 src/tool.sh src .", "cat src/tool.sh");
    // The control: while it runs, the command itself is locked out.
    check("chmod 000 src; ! cat src/tool.sh", "true");
}

/// What a killed process left of finished work goes: a branch at rest, and one that the log does not know.
#[test]
fn e2e_a_sweep_takes_what_is_over() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, TASK).expect_status(0);
    let log = place.log();
    let branch = log.sessions().unwrap()[0].main.clone();
    let run = place.home().join("run");
    for name in [branch.as_str(), "b_unknown"] {
        std::fs::create_dir_all(run.join(name).join("layer-3/upper")).unwrap();
        std::fs::write(run.join(name).join("layer-3/upper/a"), "x").unwrap();
    }
    std::fs::create_dir(run.join("foreign")).unwrap();
    let named = place.run(&["sandbox", "gc", "--dry-run", "--json"]).expect_status(0).last();
    // Groups that others on this machine left may be named as well.
    let own = named["leftovers"].as_array().unwrap().iter();
    let own = own.filter(|path| path.as_str().unwrap().contains("/run/b_"));
    assert_eq!(own.count(), 2, "{named}");
    assert_eq!(branches(&place).len(), 2);
    place.run(&["sandbox", "gc"]).expect_status(0);
    assert_eq!(branches(&place), Vec::<PathBuf>::new());
    assert!(run.join("foreign").exists());
}

/// The failure: a process swept once, when it made its first sandbox, and a server that ran for weeks never
/// again. Now: it goes on sweeping, and what an earlier sweep could not know of goes by a later one.
#[test]
fn e2e_a_process_that_stays_sweeps_again_and_again() {
    let place = Place::new();
    let left = place.home().join("run/b_unknown");
    std::fs::create_dir_all(&left).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_glasshouse"));
    let kernel = glasshouse_kernel::Kernel::open(&place.home(), program).unwrap();
    let kernel = kernel.with_sweeps_every(std::time::Duration::from_millis(20));
    kernel.keep_swept();
    for round in ["first", "second", "third"] {
        let begun = std::time::Instant::now();
        while left.exists() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{round}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // As a process would leave it that is killed now.
        std::fs::create_dir_all(&left).unwrap();
    }
}

/// The sandbox's host process is killed in the middle of a command: the call ends with what happened,
/// nothing of it stays, and the session goes on with a new one.
#[test]
fn e2e_a_killed_sandbox_host_ends_the_command_and_nothing_else() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = TASK.replace("\"sleep 2\"", "\"echo half > src/tool.sh; touch src/half; sleep 20\"");
    let mut running = place.spawn(place.scenario_command(&project, &yaml));
    place.wait_for("the slow command", |events| {
        events.iter().filter(|event| *event.kind() == Kind::ToolStarted).count() >= 5
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    let Some(host) = child_of(running.child.id()) else {
        skipped(
            "e2e_a_killed_sandbox_host_ends_the_command_and_nothing_else",
            "no list of children",
        );
        return;
    };
    let killed = std::process::Command::new("kill").args(["-9", &host.to_string()]).status();
    assert!(killed.unwrap().success());
    let status = running.wait(std::time::Duration::from_secs(30));
    let (_, events) = place.events();
    let told = std::fs::read_to_string(place.path("stderr")).unwrap();
    assert_eq!(status, Some(0), "{told}");
    let failed: Vec<_> = events
        .iter()
        .filter(|event| *event.kind() == Kind::ToolFailed)
        .map(|event| event.body["code"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(failed, ["sandbox_lost"]);
    assert!(count(&events, &Kind::SandboxCreated) >= 2, "a new one");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    let text = std::fs::read_to_string(project.join("src/tool.sh")).unwrap();
    assert_eq!(text, "echo one\necho two\n");
    assert!(!project.join("src/half").exists());
}

fn child_of(pid: u32) -> Option<u32> {
    let task = Path::new("/proc").join(pid.to_string()).join("task");
    std::fs::read_dir(task).ok()?.flatten().find_map(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })
}
