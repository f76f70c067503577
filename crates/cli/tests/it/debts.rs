//! Coverage debt: what explored work owes, from the report of the test run to the lock, and back.

use glasshouse_model::{Event, Kind};
use serde_json::Value;

use crate::harness::{Place, Ran, count};

/// Runs every test, then writes which lines of the sources have one: all of a file, or none.
const RUNS: &str = "\
for t in tests/t_*.sh; do sh $t || exit 1; done
mkdir -p coverage
for f in src/*.sh; do
  n=$(basename $f .sh); i=0; echo SF:/workspace/$f
  while read -r line; do
    i=$((i + 1)); [ -e tests/t_$n.sh ] && echo DA:$i,1 || echo DA:$i,0
  done < $f
  echo end_of_record
done > coverage/lcov.info
";
const YES: &str = "reviews: [ { tool: merge, answer: approve } ]\n";

struct Project {
    place: Place,
    dir: std::path::PathBuf,
}

impl Project {
    /// One source of one line, which its test covers.
    fn new(runs: &str) -> Self {
        let place = Place::new();
        let dir = place.project(&[
            ("src/one.sh", "echo one\n"),
            ("tests/run.sh", runs),
            ("tests/t_one.sh", "[ \"$(sh src/one.sh)\" = one ]\n"),
            (".gitignore", "coverage/\n"),
            (
                ".glasshouse/config.yaml",
                "test: { command: [sh, tests/run.sh], globs: [\"tests/**\"] }\nsource: { globs: [\"src/**\"] }\n",
            ),
        ]);
        Self { place, dir }
    }

    fn run(&self, mode: &str, steps: &str) -> (Ran, Vec<Event>) {
        let yaml = format!("\nversion: 1\nsteps:\n{steps}{YES}");
        let mut command = self.place.scenario_command(&self.dir, &yaml);
        let ran = Ran::new(&command.args(["--mode", mode]).output().unwrap());
        let log = self.place.log();
        let rows = log.sessions().unwrap();
        let row = rows.iter().max_by_key(|row| row.created_us).unwrap();
        let events = log.read(&row.main, 1, 100_000).unwrap();
        self.place.run(&["session", "replay", row.session.as_str()]).expect_status(0);
        (ran, events)
    }

    /// Test-first work on a source of one line.
    fn strict(&self, name: &str, word: &str) -> Vec<Event> {
        let steps = format!(
            "  - emit: [ {{ call: {{ id: p, tool: plan.complete, args: {{ summary: more }} }} }} ]
  - emit: [ {{ call: {{ id: t, tool: fs.write, args: {{ path: tests/t_{name}.sh, content: '[ \"$(sh src/{name}.sh)\" = {word} ]' }} }} }} ]
  - emit: [ {{ call: {{ id: r, tool: test.run, args: {{}} }} }} ]
  - emit: [ {{ call: {{ id: s, tool: fs.write, args: {{ path: src/{name}.sh, content: \"echo {word}\\n\" }} }} }} ]
  - expect: {{ results: {{ s: completed }} }}
    emit: [ {{ call: {{ id: g, tool: test.run, args: {{}} }} }} ]
  - emit: [ {{ text: done }} ]
"
        );
        let (ran, events) = self.run("strict", &steps);
        assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
        events
    }
}

/// Explores a source of one line without a test; what follows once its tests ran.
fn explores(status: &str, name: &str, rest: &str) -> String {
    format!(
        "  - emit: [ {{ call: {{ id: p, tool: plan.complete, args: {{ summary: more }} }} }} ]
  - emit: [ {{ call: {{ id: s, tool: fs.write, args: {{ path: src/{name}.sh, content: \"echo more\\n\" }} }} }} ]
  - expect: {{ results: {{ s: {status} }} }}
{rest}"
    )
}
const TESTED: &str = "    emit: [ { call: { id: r, tool: test.run, args: {} } } ]\n";
const ENDS: &str = "    emit: [ { text: done } ]\n";
const DONE: &str = "  - emit: [ { text: done } ]\n";

fn debts(events: &[Event]) -> Vec<&Value> {
    let found = events.iter().filter(|event| *event.kind() == Kind::DebtUpdated);
    found.map(|event| &event.body).collect()
}

fn reasons(events: &[Event]) -> String {
    let proposed = events.iter().find(|event| *event.kind() == Kind::MergeProposed).unwrap();
    proposed.body["review_reasons"].to_string()
}

/// The whole way: strict work sets the baseline, exploring falls far below it and is told so, nothing is
/// explored until strict work has brought the coverage back, and then it is again.
#[test]
fn e2e_exploring_owes_coverage_is_locked_and_strict_work_pays() {
    let project = Project::new(RUNS);
    let events = project.strict("two", "two");
    let set = debts(&events);
    assert_eq!(
        (set.len(), &set[0]["level"], &set[0]["baseline_permille"]),
        (1, &"none".into(), &1000.into())
    );

    let (ran, events) = project.run("explore", &(explores("completed", "three", TESTED) + DONE));
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
    let told = debts(&events);
    assert_eq!((told.len(), &told[0]["carried"]), (2, &true.into()), "{told:?}");
    assert_eq!((&told[1]["level"], &told[1]["owed_lines"]), (&"locked".into(), &1.into()));
    assert_eq!(told[1]["coverage_permille"], 666);
    assert!(reasons(&events).contains("66.6 % of the source lines"), "{}", reasons(&events));
    let session = events[0].header.session.to_string();
    let shown = project.place.run(&["session", "show", &session]).expect_status(0).stdout;
    assert!(shown.contains("locked: 66.6 %"), "{shown}");
    assert!(shown.contains("2 of 3 source lines covered"), "{shown}");

    // Locked: the session works strictly, and its write is denied.
    let (ran, events) = project.run("explore", &explores("denied", "four", ENDS));
    assert!(ran.stderr.contains("not allowed here"), "{ran:?}");
    assert_eq!(count(&events, &Kind::SessionModeChanged), 0);
    let decided = events.iter().find(|event| *event.kind() == Kind::PolicyDecided).unwrap();
    assert!(decided.body.to_string().contains("coverage-debt"), "{}", decided.body);

    // Strict work without the tests that are owed does not unlock, and does not lower the baseline.
    let still = project.strict("five", "five");
    let last = *debts(&still).last().unwrap();
    assert_eq!((&last["level"], &last["baseline_permille"]), (&"locked".into(), &1000.into()));

    let paid = project.strict("three", "third");
    let last = *debts(&paid).last().unwrap();
    assert_eq!((&last["level"], &last["owed_lines"]), (&"none".into(), &0.into()), "{last}");
    let (_, events) = project.run("explore", &explores("completed", "six", ENDS));
    assert_eq!(count(&events, &Kind::SessionModeChanged), 1);
    // The cells are what the events say.
    project.place.run(&["audit", "check-state"]).expect_status(0);
}

/// A test that is written after the code, in the same exploration, pays before anything is owed.
#[test]
fn e2e_retroactive_tests_pay_the_debt() {
    let project = Project::new(RUNS);
    project.strict("two", "two");
    let adds = "    emit: [ { call: { id: r, tool: test.run, args: {} } } ]
  - emit: [ { call: { id: again, tool: plan.complete, args: { summary: its test } } } ]
  - expect: { results: { again: completed } }
    emit: [ { call: { id: t, tool: fs.write, args: { path: tests/t_three.sh, content: '[ \"$(sh src/three.sh)\" = more ]' } } } ]
  - expect: { results: { t: completed } }
    emit: [ { call: { id: g, tool: test.run, args: {} } } ]
";
    let (ran, events) = project.run("explore", &(explores("completed", "three", adds) + DONE));
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
    let last = *debts(&events).last().unwrap();
    assert_eq!((&last["level"], &last["coverage_permille"]), (&"none".into(), &1000.into()));
    assert!(!reasons(&events).contains("owed"), "{}", reasons(&events));
}

/// A report is a file of this run beneath the workspace, of a bounded size and of a known form. Anything
/// else is told, counts as no coverage, and harms nothing.
#[test]
fn e2e_a_report_that_is_none_is_told_and_counts_for_nothing() {
    let check = |script: &str, said: &str| {
        let project =
            Project::new(&format!("sh tests/t_one.sh || exit 1\nmkdir -p coverage\n{script}\n"));
        let (ran, events) = project.run("explore", &(explores("completed", "two", TESTED) + DONE));
        let evidence = events.iter().find(|event| *event.kind() == Kind::TestEvidence);
        let evidence = evidence.unwrap_or_else(|| panic!("{script}: no evidence: {ran:?}"));
        assert_eq!(evidence.body["passed"], true, "{script}: {ran:?}");
        let coverage = &evidence.body["coverage"];
        assert_eq!(
            coverage.is_null(),
            !said.is_empty() || script == "rmdir coverage",
            "{script}: {coverage}"
        );
        let ends: Vec<_> = events.iter().filter(|event| event.kind().ends_call()).collect();
        let text = ends.last().unwrap().body["text"].as_str().unwrap_or_default();
        assert!(text.contains(said), "{script}: {text}");
        assert_eq!(debts(&events).len(), 0, "nothing is owed without a baseline");
    };
    let report = "printf 'SF:src/one.sh\\nDA:1,1\\nend_of_record\\n'";
    check(&format!("{report} > coverage/lcov.info"), "");
    check("rmdir coverage", "");
    check("echo '<html>' > coverage/lcov.info", "no coverage: coverage/lcov.info: line 1");
    check(
        "echo '{\"a\": 1}' > coverage/coverage-final.json",
        "no coverage: coverage/coverage-final.json",
    );
    check("head -c 17000000 /dev/zero > coverage/lcov.info", "17000000 bytes; the limit is");
    check(&format!("{report} > coverage/x; ln -s x coverage/lcov.info"), "it is a link to");
    check("ln -s /etc/hostname coverage/lcov.info", "no coverage: coverage/lcov.info");
    check("mkdir coverage/lcov.info", "no coverage: coverage/lcov.info");
    // A pipe has no end that anybody would write: whoever opens it and waits, waits for ever.
    check("mkfifo coverage/lcov.info", "no coverage: coverage/lcov.info");
    check("mkfifo coverage/coverage-final.json", "no coverage: coverage/coverage-final.json");
    check("mkfifo coverage/pipe; ln -s pipe coverage/lcov.info", "no coverage: coverage/lcov.info");
    check(
        "printf 'SF:/usr/lib/x.sh\\nDA:1,1\\nend_of_record\\n' > coverage/lcov.info",
        "names no line of a source",
    );
}

/// The report of an earlier run is not there when a run begins that counts: a command cannot lay one ready.
#[test]
fn e2e_a_report_laid_ready_by_a_command_does_not_count() {
    let project = Project::new("sh tests/t_one.sh\n");
    let lays = "    emit: [ { call: { id: l, tool: shell.run, args: { script: \"mkdir -p coverage; printf 'SF:src/one.sh\\\\nDA:1,1\\\\nend_of_record\\\\n' > coverage/lcov.info\" } } } ]
  - expect: { results: { l: completed } }
    emit: [ { call: { id: r, tool: test.run, args: {} } } ]
";
    let (ran, events) = project.run("explore", &(explores("completed", "two", lays) + DONE));
    let evidence = events.iter().find(|event| *event.kind() == Kind::TestEvidence).unwrap();
    assert_eq!(evidence.body["passed"], true, "{ran:?}");
    assert!(evidence.body["coverage"].is_null(), "{}", evidence.body);
}
