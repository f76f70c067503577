//! `glasshouse policy test`.

use std::path::{Path, PathBuf};

use glasshouse_kernel::Config;
use glasshouse_kernel::driver::{PROJECT_POLICY, Tried, test_setup_or_none};
use glasshouse_model::{Call, Exit};
use glasshouse_policy::{Suite, Tested};

use super::{AsAccepted, has_file, load, tell_warnings, to_decide};
use crate::error::Error;
use crate::output::counted;
use crate::{home, input, output};

/// The tests that stand beside a policy file: `policy.test.yaml` for `policy.yaml`.
fn tests_beside(policy: &Path) -> PathBuf {
    policy.with_extension("test.yaml")
}

pub(super) fn test(file: Option<&Path>, policy: Option<&Path>, json: bool) -> Result<u8, Error> {
    let here = home::here()?;
    let of_file = has_file(policy, &here);
    // Loading tries the examples. What is tested is what the file will decide, so it counts as accepted.
    let beside = policy.map_or_else(|| tests_beside(&here.join(PROJECT_POLICY)), tests_beside);
    let policy = match load(policy, &here, AsAccepted(true)).and_then(to_decide) {
        Err(error) if error.is(glasshouse_policy::codes::EXAMPLE_FAILED) => {
            if json {
                output::json_line(&serde_json::json!({ "error": error.report() }));
            } else {
                output::data(&output::visible(&format!("failed: {error}"), false));
            }
            return Ok(Exit::Mismatch.status());
        }
        loaded => loaded?,
    };
    tell_warnings(&policy);
    let file = file.or_else(|| input::is_there(&beside).then_some(beside.as_path()));
    let tested = match file {
        Some(file) => {
            let text = input::text(file, input::MAX_POLICY_BYTES)?;
            let setup = test_setup_or_none(&here, &home::config(Config::default(), &here)?)?;
            let decided = |call: &Call| {
                Tried::of_call(call.clone(), &here, &setup).map(|it| it.decide(&policy))
            };
            Suite::read(&file.display().to_string(), &text)?.run_with(decided)?
        }
        None => Vec::new(),
    };
    let failed: Vec<_> = tested.iter().filter(|test| !test.passed).collect();
    failed.iter().for_each(|test| tell(test, json));
    let (examples, passed) = (policy.example_count(), tested.len() - failed.len());
    if json {
        output::json_line(&serde_json::json!({
            "examples": examples, "passed": passed, "failed": failed.len(),
        }));
    } else {
        output::note(&format!(
            "{} of the rules hold{}; of the file's tests {passed} passed, {} failed",
            counted(examples, "example"),
            if of_file { "" } else { " (of the shipped policy: there is no file of the project)" },
            failed.len()
        ));
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::Mismatch }.status())
}

fn tell(test: &Tested, json: bool) {
    if json {
        output::json_line(test);
        return;
    }
    let silent = match test.silent.as_slice() {
        [] => String::new(),
        silent => format!("; {} did not speak", silent.join(", ")),
    };
    let text = format!(
        "failed: {} (line {}): expected {}, decided {} by {}{silent}",
        test.test,
        test.line,
        test.expected.as_str(),
        test.decision.as_str(),
        test.rules.join(", "),
    );
    output::data(&output::visible(&text, false));
}
