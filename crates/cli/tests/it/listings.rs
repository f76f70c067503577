//! What a person reads of sessions: a table with a header, a line for each event, and help.

use crate::harness::Place;

#[test]
fn e2e_sessions_are_listed_and_shown_for_people() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { script: 'cat src/tool.sh' } } } ]
  - emit: [ { text: 'It prints one.' } ]
";
    place.scenario(&project, yaml).expect_status(0);
    let (session, events) = place.events();
    place.run(&["sandbox", "run", "--", "echo", "aside"]).expect_status(0);

    let table = place.run(&["session", "list"]).expect_status(0);
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{table:?}");
    let columns = ["SESSION", "CREATED (UTC)", "STATE", "EVENTS", "PROJECT", "TASK"];
    assert_eq!(
        lines[0].split("  ").filter(|it| !it.is_empty()).map(str::trim).collect::<Vec<_>>(),
        columns
    );
    let row: Vec<_> = lines[1].split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
    let head = events.len().to_string();
    assert_eq!(
        [row[0], row[2], row[3], row[4], row[5]],
        [session.as_str(), "answered", &head, "project", "do it"]
    );
    assert!(row[1].starts_with("20") && row[1].len() == "2000-01-01 00:00".len(), "{}", row[1]);
    assert!(table.stderr.contains("--all"), "{table:?}");
    let all = place.run(&["session", "list", "--all"]).expect_status(0).stdout;
    assert!(all.contains("sandbox run: echo aside"), "{all}");
    assert_eq!(place.run(&["session", "list", "--json"]).stdout.lines().count(), 2);

    let shown = place.run(&["session", "show", session.as_str()]).expect_status(0).stdout;
    let (_, branch) = shown.lines().next().unwrap().split_once("branch b_").unwrap();
    assert!(!branch.is_empty());
    for words in
        ["completed exit 0, ", " bytes written: shell.run cat src/tool.sh", "answered", "do it"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert_eq!(shown.lines().count(), events.len() + 2);
    assert!(!shown.contains("{\""), "raw JSON: {shown}");
    let json = place.run(&["session", "show", session.as_str(), "--json"]).expect_status(0).stdout;
    assert_eq!(json.lines().count(), events.len());
    let logged = place.run(&["audit", "log"]).expect_status(0).stdout;
    assert!(logged.contains("shell.run echo aside") && !logged.contains("{\""), "{logged}");
}

/// The failure that this keeps away: one event of one session is damaged, and no session is listed at all.
#[test]
fn e2e_a_damaged_session_hides_no_other() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "version: 1\nsteps: [ { emit: [ { text: 'It prints one.' } ] } ]\n";
    place.scenario(&project, yaml).expect_status(0);
    place.scenario(&project, yaml).expect_status(0);
    let states = || {
        let listed = place.run(&["session", "list", "--json"]).expect_status(0).stdout;
        let states = listed.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["state"].as_str().unwrap().to_owned()
        });
        states.collect::<Vec<_>>()
    };
    assert_eq!(states(), ["answered", "answered"]);
    place.damage_a_task();
    let mut found = states();
    found.sort();
    assert_eq!(found, ["answered", "damaged"]);
    let table = place.run(&["session", "list"]).expect_status(0).stdout;
    assert_eq!(table.lines().count(), 3, "{table}");
    place.run(&["audit", "verify", "--json"]).expect_status(5);
}

/// What the parser of arguments refuses is told like every other error, with code, why and fix.
#[test]
fn e2e_a_command_line_that_is_none_is_answered_with_what_was_meant() {
    let place = Place::new();
    let check = |arguments: &[&str], meant: &str| {
        let ran = place.run(arguments).expect_status(2);
        for words in ["[usage]", "\n  why: ", "\n  fix: ", meant] {
            assert!(ran.stderr.contains(words), "{words}: {ran:?}");
        }
    };
    check(&["sesion", "list"], "`glasshouse session list`");
    check(&["show", "s_1"], "`glasshouse session show s_1`");
    check(&["handle", "empty", "input"], "`glasshouse \"handle empty input\"`");
    check(&["fix the tests", "now"], "`glasshouse \"fix the tests now\"`");
    check(&["session", "show"], "usage: glasshouse session show <ID>");
    check(&["version"], "`glasshouse --version`");
    let page = place.run(&["help", "--help"]).expect_status(0);
    assert!(page.stdout.contains("glasshouse demo"), "{page:?}");
    // What follows `--` is another program's.
    let told =
        place.run(&["sandbox", "run", "--timout", "2s", "--", "x", "--json"]).expect_status(2);
    assert!(
        told.stdout.is_empty() && told.stderr.contains("did you mean `--timeout`?"),
        "{told:?}"
    );
}
