//! Models as people use them: tried, paid for, summarised by, and asked for interfaces.

use std::time::Duration;

use glasshouse_model::Kind;
use serde_json::{Value, json};

use crate::harness::{Place, count};
use crate::repositories::{calls, says, serve, serve_then_cut, serve_then_hang};

/// Writes the user's own price file.
fn prices(place: &Place, yaml: &str) -> std::path::PathBuf {
    let config = place.path("config");
    std::fs::create_dir_all(config.join("glasshouse")).unwrap();
    std::fs::write(config.join("glasshouse/prices.yaml"), yaml).unwrap();
    config
}

#[test]
fn e2e_provider_test_tries_everything() {
    let place = Place::new();
    let project = place.shell_project();
    let (url, requests) = serve(vec![
        says("ready"),
        calls(&[("test.echo", json!({ "text": "ping" }))]),
        says("It said ping."),
        says(r#"{"sum":5}"#),
        says("one two three"),
    ]);
    let arguments = ["--provider", "openai-compatible", "--base-url", &url, "--model", "m"];
    let ran = place.run_in(&project, &[&["provider", "test", "--json"][..], &arguments].concat());
    let ran = ran.expect_status(0);
    let lines: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let checks: Vec<_> = lines.iter().filter_map(|line| line["check"].as_str()).collect();
    assert_eq!(checks, ["text", "tool_call", "tool_result", "structured", "cancel"]);
    assert!(lines.iter().all(|line| line["ok"] == true), "{lines:?}");
    let asked: Vec<_> = requests.try_iter().collect();
    assert_eq!(asked[1]["tools"][0]["function"]["name"], "test--echo");
    assert_eq!(asked[2]["messages"][3]["content"], "ping");
    assert_eq!(asked[3]["response_format"]["type"], "json_schema");
    // Each was decided and recorded before it was sent.
    let (_, events) = place.events();
    assert_eq!(count(&events, &Kind::PolicyDecided), 5);
    assert_eq!(count(&events, &Kind::ModelRequested), 5);
    assert_eq!(
        count(&events, &Kind::ModelCompleted) + count(&events, &Kind::ModelFailed),
        5,
        "each ended once"
    );
    place.run(&["audit", "verify"]).expect_status(0);
}

/// The failure: an answer that nobody waits for goes on, and is paid for.
#[test]
fn e2e_provider_test_closes_a_running_stream() {
    let place = Place::new();
    let project = place.shell_project();
    let (url, gone) = serve_then_hang(vec![
        says("ready"),
        calls(&[("test.echo", json!({ "text": "ping" }))]),
        says("It said ping."),
        says(r#"{"sum":5}"#),
    ]);
    let arguments = ["--provider", "openai-compatible", "--base-url", &url, "--model", "m"];
    let ran = place.run_in(&project, &[&["provider", "test", "--json"][..], &arguments].concat());
    let ran = ran.expect_status(0);
    let cancel = ran.stdout.lines().rev().nth(1).unwrap();
    assert!(cancel.contains("\"cancel\"") && cancel.contains("closed within"), "{ran:?}");
    let closed_after = gone.recv_timeout(Duration::from_secs(10)).expect("it was never closed");
    assert!(closed_after < Duration::from_millis(200), "{closed_after:?}");
    let (_, events) = place.events();
    assert_eq!(count(&events, &Kind::ModelFailed), 1, "the cancelled one");
}

/// What arrived of an answer that was cut is kept, and no secret in it, also none that has a letter as an escape.
#[test]
fn e2e_c7_what_arrived_of_an_answer_is_kept_and_masked() {
    let place = Place::new();
    let project = place.shell_project();
    let token = "0123456789abcdefghijABCDEFGHIJ456789";
    let url = serve_then_cut(&format!("half of it, {{\"a\": \"gh\\u0070_{token}\"}} and"));
    let arguments = ["--provider", "openai-compatible", "--base-url", &url, "--model", "m"];
    let ran = place.run_in(&project, &[&["say something", "--json"][..], &arguments].concat());
    assert!(!ran.stdout.contains(token), "{ran:?}");
    let (_, events) = place.events();
    let mut partial = events.iter().filter(|event| *event.kind() == Kind::ModelPartial);
    let body = &partial.next().unwrap_or_else(|| panic!("{ran:?}")).body;
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("half of it") && text.ends_with(" and"), "{body}");
    assert!(text.contains("[secret:") && !text.contains(token), "{body}");
}

/// A file plays the model for an interface too, as for a task.
#[test]
fn e2e_a_scenario_makes_an_interface() {
    let place = Place::new();
    let project = place.shell_project();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios/counter.yaml");
    let page = place.run_in(&project, &["ui", "run", "a counter", "--scenario", file, "--page"]);
    let page = page.expect_status(0).stdout;
    assert!(page.contains("<!doctype html>") && page.contains("Count: 0"), "{page}");
    let log = place.log();
    let asked = log
        .sessions()
        .unwrap()
        .into_iter()
        .filter(|row| count(&log.read(&row.main, 1, 100).unwrap(), &Kind::ModelCompleted) == 1);
    assert_eq!(asked.count(), 1, "it is recorded as any question");
    drop(log);
    let other = place.run_in(&project, &["ui", "run", "a table", "--scenario", file, "--json"]);
    assert_eq!(other.expect_status(6).last()["error"]["code"], "scenario_mismatch");
    let both = ["ui", "run", "a counter", "--scenario", file, "--model", "m", "--json"];
    assert_eq!(place.run_in(&project, &both).expect_status(2).last()["error"]["code"], "usage");
}

/// The failure: a request of a process that was killed has no end for ever.
#[test]
fn e2e_a_request_of_a_killed_process_is_ended_at_the_next_start() {
    let place = Place::new();
    let project = place.shell_project();
    let ask = |url: &str| {
        let mut command = place.command(&["ui", "run", "greet me"]);
        command.args(["--provider", "openai-compatible", "--base-url", url, "--model", "m"]);
        command.current_dir(&project);
        command
    };
    // It may be killed before it sends what it recorded, or while it is answered: neither has an end.
    let (url, _gone) = serve_then_hang(Vec::new());
    let mut running = place.spawn(ask(&url));
    let killed = place.wait_for("the request", |events| count(events, &Kind::ModelRequested) == 1);
    running.kill_9();
    let ends = || {
        let log = place.log();
        let main =
            log.sessions().unwrap().into_iter().find(|row| row.session == killed).unwrap().main;
        let events = log.read(&main, 1, 1_000).unwrap();
        let ended = events.into_iter().filter(|event| *event.kind() == Kind::ModelFailed);
        ended.map(|event| event.body["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(ends().is_empty(), "the control: it is open");
    let (url, _requests) = serve(vec![says(&plan("hello", "p"))]);
    assert!(ask(&url).output().unwrap().status.success());
    assert_eq!(ends(), ["interrupted"]);
    let (url, _requests) = serve(vec![says(&plan("hello", "p"))]);
    assert!(ask(&url).output().unwrap().status.success());
    assert_eq!(ends(), ["interrupted"], "once");
    place.run(&["audit", "verify"]).expect_status(0);
}

/// The failure: a secret whose issuer nobody knows goes to the log, the screen and the model.
#[test]
fn e2e_h7_what_a_policy_says_secrets_look_like_is_masked() {
    let check = |policy: &str, is_masked: bool| {
        let place = Place::new();
        let project = place.shell_project();
        std::fs::create_dir_all(project.join(".glasshouse")).unwrap();
        std::fs::write(project.join(".glasshouse/policy.yaml"), policy).unwrap();
        std::fs::write(project.join("src/token"), "key: acme_q7w3e9r1t5y2\n").unwrap();
        let expected =
            if is_masked { "result_contains: { t1: 'secret:acme' }" } else { "message_count: 3" };
        let scenario = format!(
            "
version: 1
steps:
  - emit: [ {{ call: {{ id: t1, tool: fs.read, args: {{ path: src/token }} }} }} ]
  - expect: {{ {expected} }}
    emit: [ {{ text: 'It is acme_q7w3e9r1t5y2.' }} ]
    chunk_bytes: 3
"
        );
        let ran = place.scenario(&project, &scenario).expect_status(0);
        let session = ran.last()["session"].as_str().unwrap().to_owned();
        let shown = place.run(&["session", "show", &session, "--json"]).expect_status(0);
        for text in [&ran.stdout, &shown.stdout] {
            assert_eq!(text.contains("acme_q7w3e9r1t5y2"), !is_masked, "{text}");
        }
        place.run(&["session", "replay", &session]).expect_status(0);
    };
    // Nobody has accepted this policy; what it masks it masks all the same.
    let all = "capabilities: [ { name: all, match: { syscall: [fs.read, model.call] }, action: allow } ]\n";
    check(all, false);
    check(&format!("{all}secret_patterns: {{ acme: 'acme_[a-z0-9]{{12}}' }}\n"), true);
    let place = Place::new();
    let bad = place.path("bad.yaml");
    std::fs::write(&bad, "secret_patterns:\n  acme: 'acme_.*'\n").unwrap();
    let ran = place.run(&["policy", "lint", bad.to_str().unwrap(), "--json"]).expect_status(2);
    assert!(ran.stdout.contains("invalid_pattern") && ran.stdout.contains("bad.yaml:2"), "{ran:?}");
}

#[test]
fn e2e_provider_test_stops_at_a_model_that_says_nothing() {
    let place = Place::new();
    let project = place.shell_project();
    let (url, requests) = serve(vec![says(" ")]);
    let arguments = ["--provider", "openai-compatible", "--base-url", &url, "--model", "m"];
    let ran = place.run_in(&project, &[&["provider", "test", "--json"][..], &arguments].concat());
    let ran = ran.expect_status(6);
    assert_eq!(ran.last()["ok"], false);
    assert_eq!(requests.try_iter().count(), 1);
    let listed = place.run(&["provider", "list"]).expect_status(0).stdout;
    assert!(listed.contains("scripted"), "{listed}");
    place
        .run_in(&project, &["provider", "test", "--provider", "nobody", "--model", "m"])
        .expect_status(2);
}

/// The failure: without a key a session asked five times, and then said that the provider pauses.
/// Now: nothing is asked of a public server without one.
#[test]
fn e2e_a_public_server_needs_a_key() {
    let place = Place::new();
    let project = place.shell_project();
    let check = |provider: &str, variable: &str| {
        let mut command =
            place.command(&["do it", "--provider", provider, "--model", "m", "--json"]);
        let output = command.env_remove(variable).current_dir(&project).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("provider_key_missing") && told.contains(variable), "{told}");
        assert_eq!(output.status.code(), Some(2), "{told}");
    };
    check("openai", "OPENAI_API_KEY");
    check("anthropic", "ANTHROPIC_API_KEY");
    check("google", "GEMINI_API_KEY");
}

const QUESTION: &str = "
version: 1
steps:
  - emit: [ { call: { id: t1, tool: fs.read, args: { path: src/tool.sh } } } ]
    usage: { input: 1000, cached: 400, output: 100 }
  - emit: [ { text: It prints one. } ]
    usage: { input: 1200, output: 10 }
";

/// 600 x 3 + 400 x 0.3 + 100 x 15, then 1200 x 3 + 10 x 15, in millionths.
const COSTS: [u64; 2] = [1_800 + 120 + 1_500, 3_600 + 150];

#[test]
fn e2e_costs_are_counted_by_answer_turn_session_and_tenant() {
    let place = Place::new();
    let project = place.shell_project();
    let config = prices(&place, "models: { m: { input: 3, cache_read: 0.3, output: 15 } }");
    let mut command = place.scenario_command(&project, QUESTION);
    command.args(["--model", "m"]).env("XDG_CONFIG_HOME", &config);
    assert!(command.output().unwrap().status.success());
    let (session, events) = place.events();
    let recorded: Vec<_> = events
        .iter()
        .filter(|event| *event.kind() == Kind::ModelCompleted)
        .map(|event| event.body["cost_micros"].as_u64())
        .collect();
    assert_eq!(recorded, COSTS.map(Some));
    let all = place.run(&["session", "costs", &session.to_string(), "--json"]).expect_status(0);
    let lines: Vec<Value> =
        all.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    let sum: u64 = COSTS.iter().sum();
    assert_eq!(lines[2]["total"]["cost_micros"], sum, "the turn");
    assert_eq!(lines[3]["total"]["cost_micros"], sum, "the session");
    assert_eq!(lines[3]["total"]["unpriced"], 0);
    assert_eq!(lines[3]["total"]["tokens"]["cache_read"], 400);
    let tenant = place.run(&["session", "costs", "--json"]).expect_status(0);
    assert_eq!(tenant.last()["total"]["cost_micros"], sum);
    let shown = place.run(&["session", "costs"]).expect_status(0);
    assert!(shown.stdout.contains("0.007170"), "{shown:?}");
    place.run(&["session", "replay", &session.to_string()]).expect_status(0);
}

#[test]
fn e2e_a_cost_limit_stops_before_the_next_request() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::create_dir_all(project.join(".glasshouse")).unwrap();
    let limit = "budget: { cost: \"0.003\" }\n";
    std::fs::write(project.join(".glasshouse/config.yaml"), limit).unwrap();
    let config = prices(&place, "models: { m: { input: 3, cache_read: 0.3, output: 15 } }");
    let run = |model: &str| {
        let mut command = place.scenario_command(&project, QUESTION);
        command.args(["--model", model]).env("XDG_CONFIG_HOME", &config);
        crate::harness::Ran::new(&command.output().unwrap())
    };
    let ran = run("m").expect_status(6);
    assert!(ran.stdout.contains("budget_exhausted"), "{ran:?}");
    let (_, events) = place.events();
    assert_eq!(count(&events, &Kind::ModelRequested), 1, "the second was never sent");
    // Without a price the limit could not be kept, so nothing starts.
    let ran = run("unknown").expect_status(2);
    assert!(ran.stdout.contains("price_unknown"), "{ran:?}");
}

/// The failure: a long conversation is cut off, and with it what the task was.
#[test]
fn e2e_a_long_conversation_is_summarised_and_replayed() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::create_dir_all(project.join(".glasshouse")).unwrap();
    let config = "window_tokens: 8000\n";
    std::fs::write(project.join(".glasshouse/config.yaml"), config).unwrap();
    let scenario = "
version: 1
steps:
  - emit: [ { call: { id: t1, tool: fs.read, args: { path: src/tool.sh } } } ]
    usage: { input: 3000, output: 100 }
  - emit: [ { call: { id: t2, tool: fs.list, args: { path: src } } } ]
    usage: { input: 6000, output: 100 }
  - expect: { system_contains: summarise, user_contains: [ do it, fs.read ], tools_exclude: fs.read }
    emit: [ { text: The file src/tool.sh was read; it prints one. } ]
  - expect:
      user_contains: [ it prints one, do it, Completed calls ]
      tools_include: fs.read
      results: { t2: completed }
    emit: [ { text: It prints one. } ]
";
    let mut command = place.scenario_command(&project, scenario);
    let ran = crate::harness::Ran::new(&command.output().unwrap()).expect_status(0);
    let (session, events) = place.events();
    assert_eq!(count(&events, &Kind::ContextCompacted), 1, "{ran:?}");
    assert_eq!(count(&events, &Kind::ModelRequested), 4);
    assert!(!ran.stdout.contains("was read; it prints one"), "a summary is no message: {ran:?}");
    let replayed = place.run(&["session", "replay", &session.to_string(), "--json"]);
    assert_eq!(replayed.expect_status(0).last()["model_requests"], 4);
    // All of it can still be read.
    let shown = place.run(&["session", "show", &session.to_string(), "--json"]).expect_status(0);
    assert!(shown.stdout.contains("src/tool.sh"));
}

/// The schemas of tools above a limit wait until the model asks for them.
#[test]
fn e2e_schemas_of_a_large_set_are_loaded_by_a_call() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::create_dir_all(project.join(".glasshouse")).unwrap();
    let limit = |tokens: u64| {
        let config = format!("schema_tokens: {tokens}\n");
        std::fs::write(project.join(".glasshouse/config.yaml"), config).unwrap();
    };
    let scenario = "
version: 1
steps:
  - expect: { tools_include: [ tools.load, fs.read ] }
    emit: [ { call: { id: t1, tool: tools.load, args: { names: [ fs.read, fs.reed ] } } } ]
  - expect:
      tools_include: [ tools.load, fs.read ]
      results: { t1: completed }
      result_contains: { t1: offset_line }
    emit: [ { call: { id: t2, tool: fs.read, args: { path: src/tool.sh } } } ]
  - expect: { results: { t2: completed } }
    emit: [ { text: read } ]
";
    limit(300);
    let ran = place.scenario(&project, scenario).expect_status(0);
    let session = ran.last()["session"].as_str().unwrap().to_owned();
    let replayed = place.run(&["session", "replay", &session, "--json"]).expect_status(0);
    assert_eq!(replayed.last()["model_requests"], 3);
    // The control: where everything fits there is nothing to load.
    limit(100_000);
    place.scenario(&project, scenario).expect_status(6);
}

/// The failure: forks spend beside the budget of their session.
#[test]
fn e2e_g10_a_fork_spends_from_the_budget_of_its_session() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::create_dir_all(project.join(".glasshouse")).unwrap();
    let check = |tokens: u64, requests_of_the_fork: usize| {
        let config = format!("budget: {{ tokens: {tokens} }}\n");
        std::fs::write(project.join(".glasshouse/config.yaml"), config).unwrap();
        let ran = place.scenario(&project, QUESTION).expect_status(0);
        let session = ran.last()["session"].as_str().unwrap().to_owned();
        // Before anything was asked: the fork has spent nothing of its own.
        let fork = place.run(&["session", "fork", &session, "--at", "4", "--name", "again"]);
        fork.expect_status(0);
        place.run(&["session", "resume", &session, "do it again", "--branch", "again", "--json"]);
        let shown = place.run(&["session", "show", &session, "--branch", "again", "--json"]);
        let kinds: Vec<Value> =
            shown.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let count = |kind: &str| kinds.iter().filter(|event| event["kind"] == kind).count();
        assert_eq!(count("model.requested"), requests_of_the_fork, "{tokens}: {shown:?}");
        assert_eq!(count("budget.exhausted"), usize::from(requests_of_the_fork == 0));
        place.run(&["session", "replay", &session, "--branch", "again"]).expect_status(0);
    };
    // The main branch spends 2310 tokens.
    check(2_300, 0);
    check(100_000, 2);
}

/// The failure: half a call is run when the stream breaks inside it.
#[test]
fn e2e_g8_a_stream_cut_inside_a_call_runs_nothing_and_is_asked_once_more() {
    let place = Place::new();
    let project = place.shell_project();
    let scenario = "
version: 1
steps:
  - emit:
      - { call: { id: t1, tool: fs.read, args: { path: src/tool.sh } } }
      - { error: { after_bytes: 260 } }
  - expect: { message_count: 1 }
    emit: [ { text: It prints one. } ]
";
    place.scenario(&project, scenario).expect_status(0);
    let (_, events) = place.events();
    assert_eq!(count(&events, &Kind::ModelFailed), 1);
    assert_eq!(count(&events, &Kind::ModelCompleted), 1);
    assert_eq!(count(&events, &Kind::ToolProposed), 0, "nothing of the broken call");
}

/// The failure: a secret is masked in one piece of text, and kept when a stream splits it.
#[test]
fn e2e_h7_a_secret_that_a_model_repeats_is_kept_nowhere() {
    const KEY: &str = "zq9kf83hx7w2m5n1";
    let place = Place::new();
    let project = place.shell_project();
    let (head, tail) = KEY.split_at(7);
    let piece =
        |field: &str, text: &str| json!({ "choices": [{ "index": 0, "delta": { field: text } }] });
    let answer = vec![
        piece("reasoning_content", &format!("the key is {head}")),
        piece("reasoning_content", tail),
        piece("content", &format!("It is {head}")),
        piece("content", &format!("{tail}, in base64 enE5a2Y4M2h4N3cybTVuMQ==.")),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
    ];
    let (url, requests) = serve(vec![answer]);
    let output = place
        .command(&[
            "what is the key?",
            "--provider",
            "openai-compatible",
            "--base-url",
            &url,
            "--model",
            "m",
            "--json",
        ])
        .current_dir(&project)
        .env("OPENAI_API_KEY", KEY)
        .output()
        .unwrap();
    let ran = crate::harness::Ran::new(&output).expect_status(0);
    assert_eq!(requests.recv().unwrap()["authorization"], format!("Bearer {KEY}"));
    assert!(ran.stdout.contains("[secret:OPENAI_API_KEY]"), "{ran:?}");
    let (session, _) = place.events();
    let shown = place.run(&["session", "show", &session.to_string(), "--json"]).expect_status(0);
    for text in [&ran.stdout, &ran.stderr, &shown.stdout] {
        assert!(!text.contains(KEY) && !text.contains("enE5a2Y4M2h4N3cybTVuMQ"), "{text}");
    }
    let raw = shown.stdout.lines().find_map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["body"]["raw"]["blob"].as_str().map(str::to_owned)
    });
    let blob = place.run(&["audit", "blob", &raw.unwrap()]).expect_status(0);
    assert!(!blob.stdout.contains(tail), "not even split over two chunks: {blob:?}");
}

#[test]
fn e2e_a_pinned_text_goes_with_the_next_request() {
    let place = Place::new();
    let project = place.shell_project();
    let scenario = "
version: 1
steps:
  - emit: [ { text: Done. } ]
  - expect: { system_contains: \"tabs,  never spaces\" }
    emit: [ { text: Done again. } ]
";
    place.scenario(&project, scenario).expect_status(0);
    let (session, _) = place.events();
    let session = session.to_string();
    place.run(&["session", "pin", &session, "style", "tabs,  never spaces"]).expect_status(0);
    place.run(&["session", "pin", &session, "a/b", "x"]).expect_status(2);
    place.run(&["session", "pin", &session, "nothing", "--remove"]).expect_status(2);
    let ran = place.run(&["session", "resume", &session, "go on", "--json"]).expect_status(0);
    assert!(ran.stdout.contains("Done again."), "{ran:?}");
    place.run(&["session", "pin", &session, "style", "--remove"]).expect_status(0);
    place.run(&["session", "replay", &session]).expect_status(0);
}

fn plan(id: &str, tag: &str) -> String {
    json!({ "specVersion": "runtime-plan/v1", "id": id, "version": 1,
        "root": { "type": "element", "tag": tag, "children": [{ "type": "text", "value": "Hi" }] },
        "capabilities": {} })
    .to_string()
}

#[test]
fn e2e_a_model_makes_an_interface() {
    let check = |answers: &[&str], then: &str, status: i32, stdout: &str, stderr: &str| {
        let place = Place::new();
        let project = place.shell_project();
        let (url, requests) = serve(answers.iter().map(|text| says(text)).collect());
        let arguments = ["--provider", "openai-compatible", "--base-url", &url, "--model", "m"];
        let then: Vec<&str> = then.split(' ').collect();
        let ran = place.run_in(&project, &[&["ui"][..], &then, &["greet me"], &arguments].concat());
        let ran = ran.expect_status(status);
        assert!(ran.stdout.contains(stdout), "{ran:?}");
        assert!(ran.stderr.contains(stderr), "{ran:?}");
        assert!(status == 0 || ran.stdout.is_empty(), "a refused plan prints nothing: {ran:?}");
        requests.try_iter().collect::<Vec<_>>()
    };
    let good = plan("hello", "p");
    let asked = check(&[&good], "run", 0, "<p", "");
    let schema = &asked[0]["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["title"], "RuntimePlan");
    let system = asked[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("levels deep"), "it teaches the profile in force");
    check(&[&format!("Here it is:\n```json\n{good}\n```\n")], "plan", 0, "\"hello\"", "");
    // Refused once, repaired once; the model is told what is wrong where.
    let asked = check(&[&plan("bad", "iframe"), &good], "run", 0, "<p", "its second");
    let told = asked[1]["messages"][3]["content"].as_str().unwrap();
    assert!(told.contains("/root") && told.contains("iframe"), "{told}");
    let bad = plan("bad", "iframe");
    assert_eq!(check(&[&bad, &bad], "run", 3, "", "unsafe").len(), 2, "one repair, no more");
    // So are faults of its code, by the names that it does not have: the case is H5.
    let code = |code: &str| {
        let mut plan: Value = serde_json::from_str(&good).unwrap();
        plan["source"] = json!({"code": code, "language": "tsx"});
        plan.to_string()
    };
    let missing = code("export default <div><Missing/><Chart/></div>");
    let mended = code("export default <p>from code</p>");
    let asked = check(&[&missing, &mended], "run --profile trusted", 0, "from code", "its second");
    let told = asked[1]["messages"][3]["content"].as_str().unwrap();
    assert!(told.contains("/source/code") && told.contains("`Missing`"), "{told}");
    assert!(told.contains("`Chart`"), "{told}");
    // No plan at all, twice: the text is shown, and it is said that it is text.
    check(&["Hello you!", "Hello again!"], "run", 0, "Hello you!", "without a plan");
}

/// The failure: a plan whose end is missing is repaired into one that means something else.
#[test]
fn ui_a12_a_plan_that_is_cut_is_refused() {
    let place = Place::new();
    let project = place.shell_project();
    let good = plan("hello", "p");
    let mut cut = says(&good[..good.len() - 30]);
    cut[1] = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "length" }] });
    let (url, _requests) = serve(vec![cut]);
    let ran = place
        .run_in(
            &project,
            &[
                "ui",
                "run",
                "greet me",
                "--provider",
                "openai-compatible",
                "--base-url",
                &url,
                "--model",
                "m",
            ],
        )
        .expect_status(6);
    assert!(ran.stdout.is_empty(), "{ran:?}");
    assert!(ran.stderr.contains("answer_length"), "{ran:?}");
}

/// The failure: what a model streams cannot be shown before it is whole.
#[test]
fn e2e_a_plan_is_shown_while_it_arrives() {
    let place = Place::new();
    let project = place.shell_project();
    let good = plan("hello", "p");
    let mut answer: Vec<Value> = good
        .as_bytes()
        .chunks(10)
        .map(|piece| {
            let text = String::from_utf8(piece.to_vec()).unwrap();
            json!({ "choices": [{ "index": 0, "delta": { "content": text } }] })
        })
        .collect();
    answer.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }));
    let (url, _requests) = serve(vec![answer]);
    let ran = place
        .run_in(
            &project,
            &[
                "ui",
                "run",
                "greet me",
                "--json",
                "--preview",
                "--provider",
                "openai-compatible",
                "--base-url",
                &url,
                "--model",
                "m",
            ],
        )
        .expect_status(0);
    let previews = ran.stdout.lines().filter(|line| line.contains("\"preview\"")).count();
    assert!(previews >= 1, "{ran:?}");
    assert!(ran.last()["html"].is_string() || ran.last()["markup"].is_string(), "{ran:?}");
}
