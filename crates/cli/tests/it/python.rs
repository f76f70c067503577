//! Python repositories with environments of their own, and what of them an agent's work shows.

use std::path::{Path, PathBuf};
use std::process::Command;

use glasshouse_model::{Event, Kind};

use crate::harness::{Place, Ran, count, git, skipped, statuses};

/// A package with one pytest test that passes; `.venv` is ignored, what pytest leaves is not.
fn package(place: &Place) -> PathBuf {
    place.project(&[
        (".gitignore", ".venv/\nnode_modules/\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = [\".\"]\naddopts = \"--ff\"\n"),
        ("src/__init__.py", ""),
        ("src/sums.py", "def add(a, b):\n    return a + b\n"),
        (
            "tests/test_sums.py",
            "from src.sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        ),
    ])
}

/// Makes the package's own environment, without pytest; false when this machine cannot.
fn own_environment(name: &str, project: &Path) -> bool {
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip", ".venv"])
        .current_dir(project)
        .output();
    let made = made.is_ok_and(|output| output.status.success());
    if !made {
        skipped(name, "python3 with venv is not installed");
    }
    made
}

/// The model adds a test of a function that is not there, sees it fail, writes it and sees it pass.
const TASK: &str = "
version: 1
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: x } } } ]
  - emit:
      - call:
          id: test
          tool: fs.write
          args:
            path: tests/test_twice.py
            content: \"from src.sums import twice\\n\\n\\ndef test_twice():\\n    assert twice(2) == 4\\n\"
      - { call: { id: red, tool: test.run, args: {} } }
  - emit:
      - call:
          id: code
          tool: fs.write
          args:
            path: src/sums.py
            content: \"def add(a, b):\\n    return a + b\\n\\n\\ndef twice(a):\\n    return add(a, a)\\n\"
      - { call: { id: green, tool: test.run, args: {} } }
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
";

fn evidence(events: &[Event]) -> Vec<(bool, bool)> {
    let told = events.iter().filter(|event| *event.kind() == Kind::TestEvidence);
    told.map(|event| (event.body["ran"] == true, event.body["passed"] == true)).collect()
}

fn assert_done(place: &Place, project: &Path, ran: &Ran) {
    let (_, events) = place.events();
    let found = evidence(&events);
    assert_eq!(found, [(true, false), (true, true)], "{ran:?}");
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
    assert_eq!(count(&events, &Kind::WorkspaceRolledBack), 0, "{ran:?}");
    assert_eq!(git(project, &["status", "--porcelain"]), "");
    let changed = git(project, &["show", "--name-only", "--format=", "HEAD"]);
    assert_eq!(changed, "src/sums.py\ntests/test_twice.py\n");
}

/// An ignored environment is mounted where no layer of the workspace has a place for it.
/// The place was made as an edit, or could not be made, and nothing at all could be run.
/// It is there, it is used, and the command changed nothing.
#[test]
fn e2e_an_ignored_environment_is_there_and_is_no_change() {
    let place = Place::new();
    let project = package(&place);
    if !own_environment("e2e_an_ignored_environment_is_there_and_is_no_change", &project) {
        return;
    }
    std::fs::create_dir_all(project.join("node_modules/a")).unwrap();
    std::fs::write(project.join("node_modules/a/index.js"), "").unwrap();
    std::fs::write(project.join("package.json"), "{}").unwrap();
    let run = |argv: &[&str]| {
        let mut arguments = vec!["sandbox", "run", "--workspace", ".", "--json", "--"];
        arguments.extend(argv);
        let ran = place.run_in(&project, &arguments).expect_status(0);
        assert_eq!(ran.last()["changes"], serde_json::json!([]), "{argv:?}: {ran:?}");
    };
    run(&["ls", ".venv/pyvenv.cfg", "node_modules/a/index.js"]);
    run(&["python3", "-c", "import sys; assert sys.prefix == '/workspace/.venv', sys.prefix"]);
}

/// Without pytest `python3 -m pytest` exits 1, like a test that fails.
/// It was taken for one, and the sources were open although no test had ever run.
/// The run proves nothing, the sources stay closed, and the model is told what is missing.
#[test]
fn e2e_a_missing_pytest_is_no_failing_test() {
    let place = Place::new();
    let project = package(&place);
    if !own_environment("e2e_a_missing_pytest_is_no_failing_test", &project) {
        return;
    }
    let ran = place.scenario(&project, TASK);
    let (_, events) = place.events();
    assert_eq!(evidence(&events), [(false, false), (false, false)], "{ran:?}");
    let code = statuses(&events).into_iter().find(|(id, _)| id == "code").unwrap();
    assert_eq!(code.1, "denied", "{ran:?}");
    let told = events.iter().any(|event| {
        let text = event.body["text"].as_str().unwrap_or_default();
        text.contains("pytest is not installed for /workspace/.venv/bin/python3")
    });
    assert!(told, "{ran:?}");
}

/// A stand-in for pytest that lies only in the package's own environment runs the tests.
/// Another interpreter was found before the environment's, and its place voided every run.
/// The whole task is done with it, and nothing but the two files is committed.
#[test]
fn e2e_the_environment_of_the_package_runs_its_tests() {
    let place = Place::new();
    let project = package(&place);
    if !own_environment("e2e_the_environment_of_the_package_runs_its_tests", &project) {
        return;
    }
    let library = std::fs::read_dir(project.join(".venv/lib")).unwrap().next().unwrap().unwrap();
    let stand_in = library.path().join("site-packages/pytest");
    std::fs::create_dir_all(&stand_in).unwrap();
    std::fs::write(stand_in.join("__init__.py"), "").unwrap();
    std::fs::write(stand_in.join("__main__.py"), STAND_IN).unwrap();
    let ran = place.scenario(&project, TASK);
    assert_done(&place, &project, &ran);
}

/// Calls every test of every test file; 2 with pytest's words when one cannot be imported.
const STAND_IN: &str = "
import glob, runpy, sys
sys.path.insert(0, '.')
failed = 0
for file in sorted(glob.glob('tests/test_*.py')):
    try:
        names = runpy.run_path(file)
    except ImportError:
        print('!!! Interrupted: 1 error during collection !!!')
        sys.exit(2)
    for name, test in names.items():
        if name.startswith('test_'):
            try:
                test()
            except AssertionError:
                failed = 1
sys.exit(failed)
";

/// The real pytest, of the environment that is activated or of this machine's Python.
/// Its caches are not ignored by the package, and an option of the package's needs one of them.
/// The whole task is done with it, and nothing but the two files is committed.
#[test]
fn e2e_a_package_with_the_real_pytest() {
    let has_pytest = |python: &Path| {
        let asked = Command::new(python).args(["-c", "import pytest"]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    let activated = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let python = activated.as_ref().map_or("python3".into(), |dir| dir.join("bin/python3"));
    if !has_pytest(&python) {
        skipped("e2e_a_package_with_the_real_pytest", "pytest is not installed");
        return;
    }
    let place = Place::new();
    let project = package(&place);
    if activated.is_some() {
        // An environment of the package's own, which does not hold it, stays behind.
        own_environment("e2e_a_package_with_the_real_pytest", &project);
    }
    let mut command = place.scenario_command(&project, TASK);
    command.envs(activated.map(|dir| ("VIRTUAL_ENV", dir)));
    let ran = Ran::new(&command.output().unwrap());
    assert_done(&place, &project, &ran);
}
