//! The table of diagnostics of code: it has every name of the baseline, only codes that exist, and examples that yield them.

use std::collections::BTreeSet;
use std::path::Path;

use glasshouse_kernel::plans::PinOptions;
use serde_json::{Value, json};

use crate::harness::Place;
use crate::modules::{AT, Cdn, Does, JS};

/// The names of the baseline; of those in braces one for each.
const BASELINE: &str = "RUNTIME_SPEC_VERSION_UNSUPPORTED RUNTIME_SOURCE_EXECUTION_DISABLED \
    RUNTIME_ISOLATION_{UNAVAILABLE,FALLBACK} RUNTIME_ABORTED RUNTIME_TIMEOUT RUNTIME_NODE_INVALID \
    RUNTIME_ACTION_{PATH_UNSAFE,INVALID,FAILED} RUNTIME_MANIFEST_{INVALID,MISSING} \
    RUNTIME_IMPORT_{LIMIT_EXCEEDED,FAILED} RUNTIME_LOADER_MISSING RUNTIME_NETWORK_POLICY_BLOCKED \
    RUNTIME_COMPONENT_{LIMIT_EXCEEDED,INVALID,OUTPUT_INVALID,EXEC_FAILED,SKIPPED} \
    RUNTIME_PREFLIGHT_{IMPORT_FAILED,COMPONENT_FAILED,SOURCE_IMPORT_FAILED,SOURCE_IMPORT_RELATIVE_UNRESOLVED,SKIPPED} \
    RUNTIME_SOURCE_{EXEC_FAILED,EXPORT_MISSING,OUTPUT_INVALID,SANDBOX_FAILED,EXPORT_FALLBACK_DEFAULT} \
    RUNTIME_SOURCE_{SANDBOX_FALLBACK,SANDBOX_EXECUTED,INTEGRITY_FAILED} \
    RUNTIME_SOURCE_IMPORT_{UNRESOLVED,BLOCKED,REDIRECT_BLOCKED,FALLBACK_USED,RETRY_SUCCEEDED,CYCLE,ASSET_PROXY,JSON_PARSE_FAILED} \
    RUNTIME_INTEGRITY_{MISMATCH,CONFLICT,LOADER_UNSUPPORTED} RUNTIME_MODULE_MATERIALIZATION_LIMIT_EXCEEDED \
    RUNTIME_PREACT_{UNAVAILABLE,EXPORT_INVALID,VNODE_FAILED} RUNTIME_EMOTION_CACHE_{UNAVAILABLE,FAILED} \
    RUNTIME_MANIFEST_AUTOPIN_{FAILED,BUDGET_EXCEEDED} PLAYGROUND_BROWSER_{PREPARE_FAILED,MOUNT_FAILED} \
    RUNTIME_EVENT_IGNORED RUNTIME_NO_HANDLER RUNTIME_SANDBOX_UNAVAILABLE";

/// What a row may name that is a member of an answer and no code.
const MEMBERS: &[&str] = &["export_missing", "effective", "type", "handled"];
/// Rows whose diagnostic needs a machine that tests do not have.
const ELSEWHERE: &[&str] = &["RUNTIME_SOURCE_SANDBOX_FAILED"];

struct Row {
    name: String,
    /// What is said.
    here: String,
    /// The first code or member of it.
    first: Option<String>,
    /// How it is tried, and with what.
    example: Option<(String, String)>,
}

/// What stands between the marks of code in a cell.
fn marked(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn rows() -> Vec<Row> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/diagnostics-of-code.md");
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let line = line.strip_prefix("| `")?.strip_suffix('|')?;
        let mut cells = line.splitn(3, '|');
        let name = cells.next()?.trim().trim_end_matches('`').to_owned();
        let here = cells.next()?.trim().to_owned();
        let mut example = marked(cells.next()?).into_iter();
        let example = example.next().zip(example.next());
        Some(Row { name, first: marked(&here).into_iter().next(), here, example })
    };
    text.split("## Rows").nth(1).unwrap().lines().filter_map(row).collect()
}

#[test]
fn every_name_of_the_baseline_has_a_row_and_every_row_a_code_that_exists() {
    let mut names = BTreeSet::new();
    for word in BASELINE.split_whitespace() {
        match word.split_once('{') {
            Some((start, ends)) => {
                names.extend(
                    ends.trim_end_matches('}').split(',').map(|end| format!("{start}{end}")),
                );
            }
            None => {
                names.insert(word.to_owned());
            }
        }
    }
    let rows = rows();
    let told: BTreeSet<String> = rows.iter().map(|row| row.name.clone()).collect();
    assert_eq!(told, names);
    assert_eq!(rows.len(), names.len(), "a name has two rows");
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    for row in &rows {
        for word in marked(&row.here) {
            let is_code = word.starts_with("plan_") || word.starts_with("script_");
            let has_page = pages.join(format!("{word}.md")).exists();
            assert!(!is_code || has_page, "{}: {word} is no code", row.name);
        }
        let is_none = row.here.starts_with("never: ") || row.here.starts_with("none: ");
        let is_known = row.first.as_ref().is_some_and(|first| {
            MEMBERS.contains(&first.as_str()) || pages.join(format!("{first}.md")).exists()
        });
        assert!(is_none || is_known, "{}: {}", row.name, row.here);
        let is_tried = row.example.is_some() || ELSEWHERE.contains(&row.name.as_str());
        assert_eq!(is_none, !is_tried, "{}: an example, or the reason why there is none", row.name);
    }
}

/// A host with modules, each of which is what its name says.
fn host() -> Cdn {
    let cdn = Cdn::start();
    let at = |name: &str| format!("{AT}x@1.0.0/{name}");
    for (name, code) in [
        ("good.js", "export default 'good'"),
        ("throws.js", "throw new Error('at once')"),
        ("fails.js", "export default () => { throw new Error('when it is called') }"),
        ("empty.js", "export const other = 1"),
        ("odd.js", "export default () => ({ type: 7 })"),
        ("two.js", "import './good.js'; export default 2"),
    ] {
        cdn.serve(&at(name), code);
    }
    cdn.set(&at("bad.json"), Does::Serve("application/json", b"{".to_vec()));
    cdn.set(&at("away.js"), Does::SendOn("http://127.0.0.1/x.js".to_owned()));
    cdn.set("127.0.0.1/x.js", Does::Serve(JS, b"export default 1".to_vec()));
    cdn
}

/// The smallest plan with more members.
fn over(members: &str) -> Value {
    let mut plan = json!({
        "specVersion": "runtime-plan/v1", "id": "d", "version": 1,
        "root": {"type": "text", "value": "own"},
    });
    let members: Value = serde_json::from_str(members).unwrap_or_else(|e| panic!("{members}: {e}"));
    for (key, value) in members.as_object().unwrap() {
        plan[key] = value.clone();
    }
    if let Some(source) = plan.get_mut("source") {
        source["language"] = json!("tsx");
    }
    plan
}

/// Everything that is said when an example is tried.
fn tried(how: &str, members: &str) -> String {
    let (place, cdn) = (Place::new(), host());
    let mut plan = over(members);
    let mut said = String::new();
    if how.starts_with("pin") {
        match cdn.pin(&place, &plan, &PinOptions::default()) {
            Ok(pinned) => {
                said += &pinned.text;
                plan = serde_json::from_str(&pinned.text).unwrap();
            }
            Err(error) => said += &serde_json::to_string(&error.report()).unwrap(),
        }
    }
    if how == "pin" {
        return said;
    }
    let file = place.path("d.json");
    std::fs::write(&file, plan.to_string()).unwrap();
    let file = file.display().to_string();
    let profile = if how == "balanced" { "balanced" } else { "trusted" };
    let command = if how == "probe" { "probe-plan" } else { "render-plan" };
    let mut run = |arguments: &[&str]| {
        let ran = place.run(arguments);
        said += &format!("{}{}", ran.stdout, ran.stderr);
    };
    run(&["ui", command, &file, "--profile", profile, "--json"]);
    if how == "event" {
        run(&["ui", "event", "d", "go", "--json"]);
    }
    said
}

#[test]
fn e2e_every_example_of_a_diagnostic_yields_it() {
    let sources = ["code.rs", "modules.rs", "components.rs", "hooks.rs"].map(|name| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(name);
        std::fs::read_to_string(path).unwrap()
    });
    let mut missing = Vec::new();
    for row in rows() {
        let (Some((how, members)), Some(first)) = (row.example, row.first) else { continue };
        if how == "test" {
            let head = format!("fn {members}()");
            assert!(sources.iter().any(|text| text.contains(&head)), "{}: {members}", row.name);
            continue;
        }
        let said = tried(&how, &members);
        // A member says the thing by its value; a code stands as it is.
        let is_said = match first.as_str() {
            "handled" => said.contains("\"handled\":false"),
            "export_missing" => said.contains("\"export_missing\":true"),
            "effective" => said.contains("\"effective\":\"isolated-vm\""),
            "type" => said.contains("\"type\": \"asset\""),
            code => said.contains(&format!("\"{code}\"")),
        };
        if !is_said {
            missing.push(format!("{} ({how} {members}): no {first} in {said}", row.name));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
