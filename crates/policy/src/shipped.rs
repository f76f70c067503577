//! Policy texts that come with the program: the default file, and the rules of the workflow.

use std::fmt::Write as _;

/// The default policy of a session, as a commented YAML file that a project can copy and change.
/// It allows no writes in the states of the strict workflow: those come from [`workflow_source`].
#[must_use]
pub const fn default_source() -> &'static str {
    include_str!("../policies/default.yaml")
}

/// States in which nothing may be written.
const FROZEN: &str = "[idle, planning, validating, reviewing, committing]";
const WRITES: &str = "[fs.write, fs.edit, fs.delete]";

/// The rules of the strict workflow, made from the project's `test.globs` and `source.globs`:
/// tests are written in `test_writing`, sources in `code_writing`, nothing in the other strict
/// states.
///
/// What lies outside is denied, not only left unallowed, so that no `allow` of a user's file opens
/// it. Without test globs only inline tests may be written in `test_writing`. Globs that can not be read
/// are an error of [`Policy::compile`](crate::Policy::compile).
#[must_use]
pub fn workflow_source(tests: &[String], sources: &[String]) -> String {
    let mut out = String::from("version: 1\ncapabilities:\n");
    let mut rule = |name: &str, action: &str, conditions: &str, rest: &str| {
        let _ = writeln!(
            out,
            "  - name: {name}\n    match: {{ syscall: {WRITES}, {conditions} }}\n    action: \
             {action}\n{rest}"
        );
    };
    rule(
        "workflow-frozen",
        "deny",
        &format!("state_machine_state: {FROZEN}"),
        "    except: [{ change: ignored }]\n    reason: nothing is written in this state of the workflow",
    );
    // Build outputs that the repository ignores: no part of any change set.
    rule("workflow-ignored", "allow", "change: ignored", "");
    // An empty list must not become `except: []` with a pattern that matches nothing.
    let except = if tests.is_empty() {
        "    except: [{ change: [test, ignored] }]\n".to_owned()
    } else {
        format!("    except: [{{ path_glob: {} }}, {{ change: [test, ignored] }}]\n", list(tests))
    };
    rule(
        "workflow-tests-only",
        "deny",
        "state_machine_state: [test_writing, retroactive_testing]",
        &format!("{except}    reason: only tests are written in this state of the workflow"),
    );
    // Rust keeps tests inside source files; the kernel tells them by content.
    rule(
        "workflow-inline-tests",
        "allow",
        "state_machine_state: [test_writing, retroactive_testing], change: test",
        "",
    );
    rule(
        "workflow-inline-tests-stay",
        "deny",
        "state_machine_state: code_writing, change: [test, mixed]",
        "    reason: tests inside a file of code stay as they are while it is written",
    );
    if !tests.is_empty() {
        rule(
            "workflow-tests",
            "allow",
            &format!(
                "state_machine_state: [test_writing, retroactive_testing], path_glob: {}",
                list(tests)
            ),
            "",
        );
        rule(
            "workflow-tests-stay",
            "deny",
            &format!("state_machine_state: code_writing, path_glob: {}", list(tests)),
            "    reason: the tests stay as they are while the code is written",
        );
    }
    if !sources.is_empty() {
        rule(
            "workflow-sources",
            "allow",
            &format!("state_machine_state: code_writing, path_glob: {}", list(sources)),
            "",
        );
    }
    out
}

/// A list of quoted texts; JSON is YAML, and quotes every character that YAML would read.
fn list(texts: &[String]) -> String {
    serde_json::Value::from(texts).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Protected, Source};

    fn globs(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn generated_rules_load_whatever_the_globs() {
        let check = |tests: &[&str], sources: &[&str], rules: usize| {
            let text = workflow_source(&globs(tests), &globs(sources));
            let policy = Policy::compile(&[Source::new("workflow", &text)], &Protected::default());
            let policy = policy.unwrap_or_else(|error| panic!("{error}\n{text}"));
            let built_in = Policy::compile(&[], &Protected::default()).unwrap().rules().count();
            assert_eq!(policy.rules().count() - built_in, rules, "{text}");
            assert!(policy.warnings().is_empty(), "{:?}", policy.warnings());
        };
        check(&[], &[], 5);
        check(&["tests/**"], &["src/**"], 8);
        check(&["tests/**"], &[], 7);
        check(&["**/*.{test,spec}.ts", "a b/\"q\": #x/*", "\\!x"], &["[a-z]*"], 8);
    }

    #[test]
    fn a_glob_can_not_smuggle_yaml_in() {
        let text = workflow_source(
            &globs(&["x\"] }\n    action: allow\n  - { name: y"]),
            &globs(&["src/**"]),
        );
        let sources = [Source::new("workflow", &text)];
        let error = Policy::compile(&sources, &Protected::default()).unwrap_err();
        assert_eq!(error.code(), "policy_bad_glob");
    }
}
