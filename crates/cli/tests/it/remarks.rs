//! What a person is told of a plan that is shown and does less than it says, or that is not shown for a small mistake.

use serde_json::json;

use crate::code::plan;
use crate::harness::Place;

/// Checks what is told of a source by a check, a probe and a run, and what helps.
fn told(name: &str, (runtime, code): (&str, &str), wants: [&str; 3], fix: &str) {
    let place = Place::new();
    let source = json!({"code": code, "language": "jsx", "runtime": runtime});
    let plan = plan(&place, "told", &source, &json!({}));
    for (command, want) in ["check", "probe-plan", "render-plan"].into_iter().zip(wants) {
        let ran = place.run(&["ui", command, &plan, "--profile", "trusted"]).expect_status(0);
        match want {
            "" => assert!(!ran.stderr.contains("fix: "), "{name}: {ran:?}"),
            want => assert!(ran.stderr.contains(want), "{name}, {command}: {ran:?}"),
        }
        if command == "render-plan" {
            assert!(ran.stderr.contains(fix), "{name}: {ran:?}");
        }
    }
}

/// The failures: a handler that is a function, an export that was forgotten and hooks under the wrong runtime were left out
/// without a remark, or for a reason that was another's.
#[test]
fn e2e_what_code_loses_is_told_with_what_helps() {
    const HANDLER: &str = "export default () => <button onClick={() => 1}>0</button>";
    const DATA: &str = "export default () => <button onClick='add'>0</button>";
    let hook =
        "import { useState } from 'preact/hooks'; export default () => <b>{useState(1)[0]}</b>";
    let raw = "export default () => <p dangerouslySetInnerHTML={{ __html: '<img src=x>' }}/>";
    // What the check says, what the run says, and what helps.
    for (name, runtime, code, checked, run, fix) in [
        (
            "handler",
            "renderify",
            HANDLER,
            "plan_handler_lost",
            "plan_handler_lost",
            "onClick=\"add\"",
        ),
        ("alive", "preact", HANDLER, "plan_handler_lost", "plan_handler_lost", "`mount`"),
        (
            "handed",
            "preact",
            "const B = (p) => <i {...p}/>; export default () => <B onClick={() => 1}/>",
            "",
            "plan_handler_lost",
            "onClick=\"add\"",
        ),
        ("data", "renderify", DATA, "", "", ""),
        (
            "forgotten",
            "renderify",
            "const App = () => <p>a</p>",
            "script_export_missing",
            "script_export_missing",
            "`export default` in front",
        ),
        (
            "named",
            "preact",
            "export const App = () => <p>a</p>",
            "script_export_missing",
            "script_export_missing",
            "such as `App`",
        ),
        (
            "locale",
            "renderify",
            "export default () => <p>{(1.5).toLocaleString('de')}</p>",
            "script_locale_ignored",
            "",
            "",
        ),
        ("hook", "renderify", hook, "", "script_failed", "\"runtime\": \"preact\""),
        (
            "its own",
            "renderify",
            "export default () => null.x",
            "",
            "script_failed",
            "correct the code at line 1",
        ),
        ("raw", "preact", raw, "", "script_output_invalid", "instead of `dangerouslySetInnerHTML`"),
    ] {
        told(name, (runtime, code), [checked, checked, run], fix);
    }
}

/// The failure: a remark came without what helps, and a misspelt member of a member without any.
#[test]
fn e2e_a_misspelt_member_is_told_with_the_one_that_is_meant() {
    let place = Place::new();
    let source = json!({"code": "export default 'a'", "language": "js"});
    let misspelt =
        json!({"capabilities": {"executionprofile": "sandbox-worker"}, "capabilites": {}});
    let plan = plan(&place, "misspelt", &source, &misspelt);
    for command in ["check", "probe-plan", "render-plan"] {
        let ran = place.run(&["ui", command, &plan, "--profile", "trusted"]).expect_status(0);
        for part in [
            "/capabilities/executionprofile",
            "did you mean `executionProfile`?",
            "did you mean `capabilities`?",
            "fix: correct its name",
        ] {
            assert!(ran.stderr.contains(part), "{command}: {ran:?}");
        }
    }
}

/// The failures: the profile that accepts no source was the default of the command that takes nothing else, and a run without a plan
/// had no name.
#[test]
fn e2e_a_bundle_is_written_without_a_word_about_profiles() {
    let place = Place::new();
    let source = json!({"code": "export default 'a'", "language": "js"});
    let good = plan(&place, "good", &source, &json!({}));
    let told = place.run(&["ui", "bundle", &good]).expect_status(0).last();
    assert_eq!(told["requested"], "standard", "{told}");
    let refused = place.run(&["ui", "bundle", &good, "--profile", "strict"]);
    assert_eq!(refused.status, Some(3), "the control: {refused:?}");
}

/// The failures: without a network the advice was to leave the import out, and who pinned was told to pin.
#[test]
fn e2e_a_pinning_that_fails_says_what_helps() {
    let pin = |module: &str, more: &[&str]| {
        let place = Place::new();
        let code = format!("import x from '{module}'; export default x");
        let plan = plan(&place, "pin", &json!({"code": code, "language": "js"}), &json!({}));
        let ran = place.run(&[&["ui", "pin", &plan], more].concat());
        assert_eq!(ran.status, Some(3), "{ran:?}");
        assert!(!ran.stderr.contains("ui pin PLAN"), "{ran:?}");
        ran.stderr
    };
    const NOWHERE: &str = "https://nowhere.invalid/x.js";
    for (module, more, parts) in [
        (
            NOWHERE,
            &["--profile", "relaxed"][..],
            &["nowhere.invalid: the name has no address", "`--fallback https://HOST`"][..],
        ),
        (NOWHERE, &["--profile", "relaxed", "--offline"], &["once without `--offline`"]),
        (NOWHERE, &["--profile", "trusted"], &["host of the module", "ga.jspm.io, "]),
        ("./x.ts", &["--profile", "trusted"], &["no files beside it", "into its source"]),
    ] {
        let told = pin(module, more);
        for part in parts {
            assert!(told.contains(part), "{module} {more:?}: {told}");
        }
        assert!(told.matches("script_module_unavailable").count() <= 1, "said once: {told}");
    }
}
