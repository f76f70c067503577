//! Documents of a branch, and words that are found: as folds of the log, so that what was erased is in none.

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::Place;

/// A test that fails, what it wanted, and both committed.
const WORK: &str = "version: 1
steps:
  - emit:
      - { call: { id: a, tool: plan.complete, args: { summary: 'Print a second line', steps: ['a test', 'the line'] } } }
  - emit:
      - { call: { id: b, tool: fs.write, args: { path: tests/t_two.sh, content: '[ \"$(sh src/tool.sh | tail -1)\" = two ]' } } }
      - { call: { id: c, tool: test.run, args: {} } }
  - expect: { results: { c: completed } }
    emit:
      - { call: { id: d, tool: fs.write, args: { path: src/tool.sh, content: \"echo one\\necho two\\n\" } } }
      - { call: { id: e, tool: fs.read, args: { path: /etc/passwd } } }
      - { call: { id: f, tool: test.run, args: {} } }
  - emit: [ { text: The marmalade is ready. } ]
";

#[test]
fn views_are_served_and_laid_out_alike() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, WORK);
    let mut stream = served.events_of(&session);
    served.turn(&session, "print two");
    stream.until_end();
    let view = |name: &str| served.get(&format!("/v1/sessions/{session}/views/{name}")).expect(200);
    let manifest = view("manifest").json();
    assert_eq!((&manifest["session"], &manifest["mode"]), (&json!(session), &json!("strict")));
    assert_eq!(view("plan").json()["steps"], json!(["a test", "the line"]));
    let thread = view("thread");
    assert_eq!(thread.header("content-type"), Some("text/markdown; charset=utf-8"));
    for text in ["## User", "print two", "### test.run", "The marmalade is ready."] {
        assert!(thread.text().contains(text), "{text}: {}", thread.text());
    }
    let tools = view("tools").json();
    let report = |tool: &str, path: &str| -> Value {
        let list = tools.as_array().unwrap();
        let it = |one: &&Value| one["tool"] == tool && one["arguments"]["path"] == path;
        list.iter().find(it).unwrap_or_else(|| panic!("{tools}")).clone()
    };
    let written = report("fs.write", "src/tool.sh");
    assert_eq!(written["status"], "completed", "{written}");
    assert_eq!(written["decisions"][0]["decision"], "allow");
    assert_eq!(written["changed"][0]["path"], "src/tool.sh");
    assert_eq!(report("fs.read", "/etc/passwd")["status"], "denied");
    // Provenance is what the files really were.
    let observations = view("observations").json();
    let passes = observations
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["text"] == "the tests pass")
        .unwrap();
    let file = &passes["provenance"]["files"][0];
    let digest = glasshouse_model::Digest::of(b"echo one\necho two\n").to_string();
    assert_eq!((&file["path"], &file["sha256"]), (&json!("src/tool.sh"), &json!(digest)));
    assert!(passes["provenance"]["events"].as_array().unwrap().len() >= 3, "{passes}");
    let fails = observations[0]["text"].as_str().unwrap();
    assert!(fails.starts_with("the tests fail"), "{observations}");
    let missing = served.get(&format!("/v1/sessions/{session}/views/other"));
    assert_eq!((missing.status, missing.code()), (404, "route_unknown".to_owned()));
    // As files, with the same bytes.
    let out = place.path("layout");
    place
        .run(&["session", "export", &session, "--layout", "--out", out.to_str().unwrap()])
        .expect_status(0);
    let read = |path: &str| std::fs::read_to_string(out.join(path)).unwrap();
    assert_eq!(read("state/thread.md"), thread.text());
    assert_eq!(serde_json::from_str::<Value>(&read("manifest.json")).unwrap(), manifest);
    assert_eq!(
        read("memory/observations.jsonl").lines().count(),
        observations.as_array().unwrap().len()
    );
    let path = format!("tools/runs/{}/report.json", written["call"].as_str().unwrap());
    assert_eq!(serde_json::from_str::<Value>(&read(&path)).unwrap(), written);
    // It is there already.
    place
        .run(&["session", "export", &session, "--layout", "--out", out.to_str().unwrap()])
        .expect_status(2);
}

/// What differs from one machine or one edit of the shipped rules to the next, by the names of its members.
fn is_free(name: &str, value: &Value) -> bool {
    let is_time = (name.ends_with("_us") || name.ends_with("_ms")) && value.is_number();
    is_time || matches!(name, "line" | "program_version")
}

/// An id, a digest or a hash.
fn is_random(word: &str) -> bool {
    let is_hash = word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = ["s_", "b_"].iter().find_map(|prefix| word.strip_prefix(prefix));
    is_hash || id.is_some_and(|id| id.len() >= 8 && !id.contains('_'))
}

/// A text with numbers in the place of what is random; equal words get equal numbers.
fn numbered(text: &str, known: &mut Vec<String>) -> String {
    let mut out = String::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(length);
        if is_random(word) {
            let at = known.iter().position(|one| one == word).unwrap_or(known.len());
            if at == known.len() {
                known.push(word.to_owned());
            }
            out.push_str(&format!("<{at}>"));
        } else {
            out.push_str(word);
        }
        rest = after;
    }
    out
}

/// A document with what differs from run to run taken out.
fn normalised(value: &Value, known: &mut Vec<String>) -> Value {
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let value = match value.as_str() {
                    _ if is_free(name, value) => json!("FREE"),
                    Some(text) if name == "isolation" => {
                        json!(text.split(':').next().unwrap_or_default())
                    }
                    _ => normalised(value, known),
                };
                (name.clone(), value)
            };
            Value::Object(members.iter().map(member).collect())
        }
        Value::Array(items) => items.iter().map(|item| normalised(item, known)).collect(),
        Value::String(text) => Value::String(numbered(text, known)),
        other => other.clone(),
    }
}

/// Every document of one story, as it is kept beside this test. `GLASSHOUSE_BLESS=1` writes it anew.
#[test]
fn the_documents_of_a_branch_are_as_they_are_kept() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, WORK);
    let mut stream = served.events_of(&session);
    served.turn(&session, "print two");
    stream.until_end();
    // The sandbox of the turn ends behind it.
    stream.until("sandbox.destroyed");
    let names =
        ["manifest", "thread", "plan", "heartbeat", "checkpoints", "tools", "observations", "soul"];
    let mut known = Vec::new();
    let mut documents = serde_json::Map::new();
    for name in names {
        let answer = served.get(&format!("/v1/sessions/{session}/views/{name}")).expect(200);
        let document = match name {
            "thread" => json!(answer.text().lines().collect::<Vec<_>>()),
            _ => answer.json(),
        };
        let text = document.to_string().replace(&place.path("").display().to_string(), "PLACE/");
        let document: Value = serde_json::from_str(&text).unwrap();
        documents.insert(name.to_owned(), normalised(&document, &mut known));
    }
    let made = serde_json::to_string_pretty(&documents).unwrap() + "\n";
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/documents.json");
    if std::env::var_os("GLASSHOUSE_BLESS").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(made == kept, "{made}");
}

#[test]
fn words_are_found_until_they_are_erased() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(
        &project,
        "version: 1\nsteps:\n  - emit: [ { text: 'The Marmalade is ready.' } ]\n",
    );
    let mut stream = served.events_of(&session);
    served.turn(&session, "boil oranges and sugar");
    let frames = stream.until_end();
    let find = |query: &str| {
        let found = served.get(&format!("/v1/search?{query}")).expect(200).json();
        let kinds = found["finds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|find| find["kind"].as_str().unwrap().to_owned());
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(find("q=marmalade"), ["model.completed"]);
    assert_eq!(find("q=sugar%20ORANGES"), ["message.received"]);
    assert_eq!(find("q=sugar%20marmalade"), Vec::<String>::new());
    assert_eq!(find(&format!("q=oranges&session={session}")), ["message.received"]);
    assert_eq!(served.get("/v1/search?q=").status, 400);
    assert_eq!(served.get("/v1/search?q=a&limit=0").status, 400);
    assert_eq!(served.get("/v1/search").status, 400);
    assert_eq!(served.get("/v1/search?q=a&session=s_0000000000000000").status, 404);
    let listed = place.run(&["session", "search", "oranges", "--json"]).expect_status(0);
    assert_eq!(listed.last()["session"], json!(session));
    let said = frames.iter().find(|frame| frame.data["kind"] == "message.received").unwrap();
    let event = said.id.unwrap().to_string();
    let erase = ["session", "erase", &session, "--event", &event, "--reason", "asked for", "--yes"];
    place.run(&erase).expect_status(0);
    assert_eq!(find("q=oranges"), Vec::<String>::new());
    let thread = served.get(&format!("/v1/sessions/{session}/views/thread")).expect(200).text();
    assert!(!thread.contains("oranges") && thread.contains("Marmalade"), "{thread}");
}
