//! Plans from the command line: streamed, registered, stepped, rolled back, replayed.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Place, Ran};

fn counter(version: i64, title: &str) -> String {
    json!({
        "specVersion": "runtime-plan/v1", "id": "counter", "version": version,
        "state": {"initial": {"count": 0, "name": ""}, "transitions": {
            "add": [{"type": "increment", "path": "count"}],
            "typed": [{"type": "set", "path": "name", "value": {"$from": "event.input.fields.name"}}],
            "name": [{"type": "set", "path": "name", "value": {"$from": "event.payload.name"}}]}},
        "root": {"type": "element", "tag": "p", "children": [
            {"type": "text", "value": format!("{title} {{{{state.count}}}}{{{{state.name}}}}")}]},
    })
    .to_string()
}

fn file(place: &Place, name: &str, text: &str) -> String {
    let path = place.path(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn e2e_a_plan_becomes_a_page_that_a_browser_opens() {
    let place = Place::new();
    let one = file(&place, "1.json", &counter(1, "one"));
    let check = |words: &[&str], markup: &str| {
        let page = place.run(words).expect_status(0).stdout;
        assert!(page.starts_with("<!doctype html>\n"), "{words:?}: {page}");
        assert!(page.contains("default-src 'none'"), "{words:?}: {page}");
        assert!(page.contains("<title>counter</title>"), "{words:?}: {page}");
        assert!(page.contains(markup), "{words:?}: {page}");
    };
    check(&["ui", "render-plan", &one, "--page", "--no-register"], "<p>one 0</p>");
    check(&["ui", "render-plan", &one, "--page"], "<p>one 0</p>");
    check(&["ui", "event", "counter", "add", "--page"], "<p>one 1</p>");
    check(&["ui", "rollback", "counter", "1", "--page"], "<p>one 1</p>");
    place.run(&["ui", "render-plan", &one, "--page", "--json"]).expect_status(2);
    // The plan itself is no page.
    let ran = place.run(&["ui", "plan", "a table", "--page"]).expect_status(2);
    assert!(ran.stderr.contains("ui run"), "{ran:?}");
}

#[test]
fn e2e_a_plan_is_registered_stepped_rolled_back_and_replayed() {
    let place = Place::new();
    let (one, two) =
        (file(&place, "1.json", &counter(1, "one")), file(&place, "2.json", &counter(1, "two")));
    let ran = place.run(&["ui", "render-plan", &one, "--json", "--timings"]).expect_status(0);
    let first = ran.last();
    assert_eq!((&first["version"], &first["markup"]), (&json!(1), &json!("<p>one 0</p>")));
    assert!(ran.stderr.contains("check") && ran.stderr.contains(" us"), "{ran:?}");
    let event = place.run(&["ui", "event", "counter", "add", "--json"]).expect_status(0).last();
    assert_eq!((&event["revision"], &event["handled"]), (&json!(1), &json!(true)));
    assert_eq!(event["patches"][0]["value"], "one 1");
    place.run(&["ui", "event", "counter", "name", r#"{"name":" <Ada>"}"#]).expect_status(0);
    let typed = ["ui", "event", "counter", "typed", "--input", r#"{"fields":{"name":"Bo"}}"#];
    place.run(&typed).expect_status(0);
    let state = place.run(&["ui", "state", "counter", "--json"]).expect_status(0).last();
    assert_eq!(state["state"]["name"], "Bo");
    place.run(&["ui", "event", "counter", "name", r#"{"name":" <Ada>"}"#]).expect_status(0);
    let state = place.run(&["ui", "state", "counter", "--json"]).expect_status(0).last();
    assert_eq!(state["state"], json!({"count": 1, "name": " <Ada>"}));

    assert_eq!(place.run(&["ui", "render-plan", &two]).expect_status(0).stdout, "<p>two 0</p>\n");
    let back = place.run(&["ui", "rollback", "counter", "1"]).expect_status(0);
    assert_eq!(back.stdout, "<p>one 1 &lt;Ada&gt;</p>\n");

    let history = place.run(&["ui", "history", "--json"]).expect_status(0).last();
    assert_eq!(history["plans"][0]["current"], 1);
    let modes: Vec<&str> = history["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["mode"].as_str().unwrap())
        .collect();
    assert_eq!(modes, ["rollback", "plan", "event", "event", "event", "event", "plan"]);
    for run in history["runs"].as_array().unwrap() {
        let run = run["run"].to_string();
        let replayed = place.run(&["ui", "replay", &run, "--json"]).expect_status(0).last();
        assert_eq!(replayed["equal"], true, "{replayed}");
    }
    let cleared = place.run(&["ui", "clear-history", "--json"]).expect_status(0).last();
    assert_eq!((&cleared["cleared"], &cleared["plans"]), (&json!(true), &json!(1)));
    place.run(&["ui", "state", "counter"]).expect_status(10);
    place.run(&["audit", "verify", "--json"]).expect_status(0);
}

#[test]
fn e2e_plan_commands_refuse_what_they_must() {
    let place = Place::new();
    let bad = file(&place, "bad.json", &counter(1, "x").replace("\"p\"", "\"script\""));
    let refused = place.run(&["ui", "render-plan", &bad]).expect_status(3);
    assert_eq!(refused.stdout, "");
    assert!(refused.stderr.contains("plan_tag_denied"), "{refused:?}");
    let history = place.run(&["ui", "history", "--json"]).expect_status(0).last();
    assert_eq!(
        (history["plans"].as_array().unwrap().len(), &history["runs"][0]["status"]),
        (0, &json!("rejected"))
    );
    place.run(&["ui", "event", "none", "add"]).expect_status(10);
    place.run(&["ui", "event", "none", "add", "[1]"]).expect_status(2);
    place.run(&["ui", "rollback", "none", "1"]).expect_status(10);
    place.run(&["ui", "replay", "1"]).expect_status(10);
    let good = file(&place, "good.json", &counter(1, "x"));
    place.run(&["ui", "render-plan", &good]).expect_status(0);
    let stale = ["ui", "event", "counter", "add", "--expect-revision", "7", "--json"];
    assert_eq!(place.run(&stale).expect_status(8).last()["error"]["code"], "plan_conflict");
}

#[test]
fn e2e_law_1_nothing_is_shown_where_nothing_can_be_recorded() {
    let place = Place::new();
    let plan = file(&place, "1.json", &counter(1, "one"));
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("GLASSHOUSE_HOME", "/dev/null/home");
        Ran::new(&command.output().unwrap())
    };
    let ran = run(&["ui", "render-plan", &plan]).expect_status(9);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("--no-register"), "{ran:?}");
    let ran = run(&["ui", "render-plan", &plan, "--no-register"]).expect_status(0);
    assert_eq!(ran.stdout, "<p>one 0</p>\n");
    let bad = file(&place, "bad.json", &counter(1, "x").replace("\"p\"", "\"script\""));
    let ran = run(&["ui", "render-plan", &bad, "--no-register"]).expect_status(3);
    assert_eq!(ran.stdout, "");
    run(&["ui", "event", "counter", "add"]).expect_status(9);
}

#[test]
fn e2e_a_stream_shows_patches_and_ends_as_it_must() {
    let place = Place::new();
    let plan = counter(1, "hello");
    let answer = file(&place, "a.md", &format!("Here you are:\n```json\n{plan}\n```\nBye"));
    let ran = place.run(&["ui", "stream", &answer, "--json", "--chunk-bytes", "9", "--timings"]);
    let ran = ran.expect_status(0);
    let last = ran.last();
    assert_eq!((&last["end"], &last["plan"]["id"]), (&json!("complete"), &json!("counter")));
    assert_eq!((&last["before"], &last["after"]), (&json!("Here you are:"), &json!("Bye")));
    assert!(
        last["timings"]["first_node_bytes"].as_u64().unwrap() < plan.len() as u64 + 40,
        "{last}"
    );
    let first: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["run"], &first["seq"], &first["patches"][0]["op"]),
        (&json!(1), &json!(0), &json!("ins"))
    );

    assert_eq!(place.run(&["ui", "stream", &answer]).expect_status(0).stdout, "<p>hello 0</p>\n");
    let cut = file(&place, "cut.json", &plan[..plan.len() - 30]);
    let cut = place.run(&["ui", "stream", &cut, "--json"]).expect_status(2).last();
    assert_eq!(
        (&cut["end"], &cut["error"]["code"]),
        (&json!("incomplete"), &json!("plan_incomplete"))
    );
    let bad = file(&place, "bad.json", &plan.replace("\"p\"", "\"script\""));
    assert_eq!(place.run(&["ui", "stream", &bad]).expect_status(3).stdout, "");

    let lines = concat!(
        r#"{"op":"add","path":"/root","value":{"type":"element","tag":"ul","children":[]}}"#,
        "\n",
        "{\"op\":\"add\",\n",
        r#"{"op":"add","path":"/root/children/-","value":{"type":"element","tag":"li"}}"#,
        "\n",
    );
    let lines = file(&place, "l.jsonl", lines);
    let ran = place.run(&["ui", "stream", &lines, "--lines", "--json"]).expect_status(0).last();
    assert_eq!((&ran["nodes"], &ran["left_out"][0]["line"]), (&json!(2), &json!(2)));
}

#[test]
fn e2e_an_event_is_for_the_version_and_under_the_profile_that_are_shown() {
    let place = Place::new();
    let wide: Value = serde_json::from_str(&counter(1, "wide")).unwrap();
    // Ten levels: more than the profile strict shows, which is the default for a new plan.
    let deep = (0..10).fold(
        wide["root"].clone(),
        |inner, _| json!({"type": "element", "tag": "div", "children": [inner]}),
    );
    let text = json!({"specVersion": "runtime-plan/v1", "id": "wide", "version": 1,
        "state": wide["state"], "root": deep});
    let wide = file(&place, "wide.json", &text.to_string());
    place.run(&["ui", "render-plan", &wide]).expect_status(3);
    place.run(&["ui", "render-plan", &wide, "--profile", "balanced"]).expect_status(0);
    place.run(&["ui", "event", "wide", "add"]).expect_status(0);
    place.run(&["ui", "event", "wide", "add", "--profile", "strict"]).expect_status(3);
    place.run(&["ui", "rollback", "wide", "1"]).expect_status(0);

    let (one, two) =
        (file(&place, "1.json", &counter(1, "one")), file(&place, "2.json", &counter(2, "two")));
    place.run(&["ui", "render-plan", &one]).expect_status(0);
    place.run(&["ui", "render-plan", &two]).expect_status(0);
    let event = |version: &str, revision: &str| {
        let expect = ["--expect-version", version, "--expect-revision", revision];
        place.run(&[&["ui", "event", "counter", "add", "--json"], &expect[..]].concat())
    };
    assert_eq!(event("1", "0").expect_status(8).last()["error"]["code"], "plan_conflict");
    event("2", "0").expect_status(0);
    assert_eq!(event("2", "0").expect_status(8).last()["error"]["code"], "plan_conflict");
    let none = place.run(&["ui", "rollback", "counter", "9", "--json"]).expect_status(10).last();
    assert_eq!(none["error"]["context"]["versions"], json!([1, 2]));
}

#[test]
fn e2e_what_cannot_be_read_and_what_is_refused_are_told_apart() {
    let place = Place::new();
    let check = |text: &str, status: i32| {
        let name = file(&place, "plan.json", text);
        let commands = ["check", "render-plan", "probe-plan", "stream"];
        for command in commands {
            place.run(&["ui", command, &name, "--profile", "relaxed"]).expect_status(status);
            place
                .run(&["ui", command, &name, "--profile", "relaxed", "--json"])
                .expect_status(status);
        }
    };
    check("{\"specVersion\": ", 2);
    let plan = |more: &str| {
        format!(
            r#"{{"specVersion":"runtime-plan/v1","id":"t","version":1,{more}
            "root":{{"type":"text","value":"x"}}}}"#
        )
    };
    check(&plan(""), 0);
    check(&format!("\u{feff}{}", plan("")), 0);
    // All of them have the same engine.
    check(&plan(r#""source":{"code":"export default 1","language":"js"},"#), 0);
    check(&plan(r#""source":{"code":"x","language":"js"},"#), 3);
    check(&plan(r#""capabilities":{"executionProfile":"isolated-vm"},"#), 0);
    check(&plan(r#""capabilities":{"executionProfile":"sandbox-worker"},"#), 3);

    let one = file(&place, "1.json", &counter(1, "one"));
    place.run(&["ui", "render-plan", &one]).expect_status(0);
    for (option, text) in [
        ("payload", r#"{"a":1,"a":2}"#),
        ("payload", r#"{"a":1e400}"#),
        ("payload", "[1]"),
        ("input", r#"{"value":"a","value":"b"}"#),
        ("input", r#"{"value":{"a":1}}"#),
        ("input", r#"{"x":1}"#),
    ] {
        let given: &[&str] = if option == "input" { &["--input", text] } else { &[text] };
        place.run(&[&["ui", "event", "counter", "add"], given].concat()).expect_status(2);
    }
}

/// What a plan holds goes to a terminal as data: nothing in it moves the cursor or hides text.
#[test]
fn e2e_no_control_of_a_terminal_is_in_json() {
    let place = Place::new();
    let text = json!({"specVersion": "runtime-plan/v1", "id": "c", "version": 1,
        "state": {"initial": {"x": "a\u{1b}[2J\u{9b}31m\u{202e}b"}},
        "root": {"type": "text", "value": "{{state.x}}"}});
    let name = file(&place, "c.json", &text.to_string());
    let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    for arguments in [
        &["ui", "render-plan", &name, "--json"][..],
        &["ui", "state", "c"],
        &["ui", "stream", &name, "--json"],
        &["ui", "history", "--json"],
    ] {
        let ran = place.run(arguments).expect_status(0);
        assert!(!ran.stdout.contains(bad), "{arguments:?}: {:?}", ran.stdout);
    }
    let state = place.run(&["ui", "state", "c"]).expect_status(0).last();
    assert_eq!(state["state"]["x"], "a\u{1b}[2J\u{9b}31m\u{202e}b", "it says the same");
}

/// The failure: what a model wrote for the case that its plan is refused, and the modules it names, reached
/// the terminal as they were; and where the plan was to be registered its fallback was not told at all.
/// Now: they are text, told by every way of showing a plan.
#[test]
fn e2e_what_a_refused_plan_says_is_told_as_text() {
    let place = Place::new();
    let odd = "sorry \u{1b}]0;title\u{7}\u{9b}2J\u{202e}\u{61c}";
    let refused = json!({
        "specVersion": "runtime-plan/v1", "id": "x", "version": 1,
        "ext": {"fallback": odd}, "imports": [format!("npm:{odd}")],
        "root": {"type": "element", "tag": "script"},
    });
    let refused = file(&place, "refused.json", &refused.to_string());
    let check = |words: &[&str], is_told: bool| {
        let ran = place.run(words).expect_status(3);
        assert_eq!(ran.stderr.contains("fallback: sorry "), is_told, "{words:?}: {ran:?}");
        let all = ran.stdout + &ran.stderr;
        let obeyed = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{61c}".contains(c);
        assert!(!all.contains(obeyed), "{words:?}: {all:?}");
    };
    check(&["ui", "render-plan", &refused], true);
    check(&["ui", "render-plan", &refused, "--no-register"], true);
    check(&["ui", "probe-plan", &refused], false);
    check(&["ui", "check", &refused], false);
}

/// The failure: a plan with code was told to be rendered with `--no-register`, which failed in the same way, because what
/// runs is recorded first; where the data directory cannot be made, `ui check` named no path and spoke of open files; and a
/// `HOME` that is not there was made.
/// Now: each is told what it can do, and what is not there stays so.
#[test]
fn e2e_a_place_for_data_that_cannot_be_had_is_named_with_what_helps() {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        std::fs::write(place.path(name), text).unwrap();
        place.path(name).display().to_string()
    };
    let plain = file("plain.json", &plan_of(r#""root":{"type":"text","value":"x"}"#));
    let code = file(
        "code.json",
        &plan_of(
            r#""root":{"type":"text","value":"x"},"source":{"language":"js","code":"export default null"}"#,
        ),
    );
    let blocked = file("blocked", "no directory");
    let (none, home) = (place.path("none"), place.path("none").display().to_string());
    let check = |homeless: bool, arguments: &[&str], status: i32, words: &[&str], not: &str| {
        let mut command = place.command(arguments);
        if homeless {
            command.env_remove("GLASSHOUSE_HOME").env_remove("XDG_STATE_HOME").env("HOME", &home);
        } else {
            command.env("GLASSHOUSE_HOME", &blocked);
        }
        let ran = Ran::new(&command.output().unwrap());
        assert_eq!(ran.status, Some(status), "{arguments:?}: {ran:?}");
        for words in words {
            assert!(ran.stderr.contains(words), "{arguments:?}: {words}: {ran:?}");
        }
        assert!(not.is_empty() || !ran.stderr.contains(not), "{arguments:?}: {not}: {ran:?}");
    };
    let render = |file| ["ui", "render-plan", file, "--profile", "trusted"];
    let alone = |file| ["ui", "render-plan", file, "--profile", "trusted", "--no-register"];
    for homeless in [true, false] {
        let own = "set GLASSHOUSE_HOME to";
        check(homeless, &render(&plain), 9, &["[storage_failed]", "pass `--no-register`"], "");
        check(homeless, &alone(&plain), 0, &[], "");
        check(homeless, &render(&code), 9, &["[storage_failed]", "GLASSHOUSE_HOME"], "or pass");
        check(homeless, &alone(&code), 9, &["[storage_failed]", "recorded first"], "or pass");
        let place = if homeless { home.as_str() } else { blocked.as_str() };
        check(homeless, &["session", "list"], 9, &["[storage_failed]", own, place], "");
        assert!(!none.exists(), "no home is made");
    }
    let checked = ["ui", "check", &code, "--profile", "trusted"];
    check(false, &checked, 9, &["[workspace_io]", &blocked, "GLASSHOUSE_HOME"], "open files");
}

fn plan_of(more: &str) -> String {
    format!(r#"{{"specVersion":"runtime-plan/v1","id":"p","version":1,{more}}}"#)
}
