//! What a look at the source of a plan finds before anything of it runs.

use glasshouse_plan::{Issue, Plan, Report};
use glasshouse_script::{DEFAULT_EXPORT, Diagnostic};

use super::code::Preflight;
use crate::Result;

/// What a look at the source of a plan and at its modules found.
#[derive(Debug, Default)]
pub struct Inspected {
    /// The modules that it would run with.
    pub modules: Vec<Preflight>,
    /// What is wrong.
    pub issues: Vec<Issue>,
    /// What is no fault and will not do what its author thinks.
    pub notes: Vec<Issue>,
}

impl Inspected {
    /// Adds what was found to the report of the plan.
    pub fn tell(self, report: &mut Report) {
        self.issues.into_iter().for_each(|issue| report.refuse_for(issue));
        self.notes.into_iter().for_each(|note| report.note(note));
    }
}

/// Remarks on a source that can be compiled.
pub(super) fn remarks(plan: &Plan, module: &glasshouse_script::Module) -> Vec<Issue> {
    let of = |it: &Diagnostic| {
        let known = glasshouse_script::codes::ALL.iter().find(|code| code.name == it.code);
        Issue {
            code: known.map_or(glasshouse_plan::codes::HANDLER_LOST.name, |code| code.name),
            pointer: "/source/code".to_owned(),
            message: format!("{}:{}: {}", it.line, it.column, it.message),
            fix: it.fix.clone(),
        }
    };
    let mut notes: Vec<Issue> = module.notes.iter().map(of).collect();
    let asked = plan.source().and_then(|source| source.get("exportName")?.as_text());
    let has = |name: &str| module.exports.iter().any(|export| export == name || export == "*");
    if !has(DEFAULT_EXPORT) && !asked.is_some_and(has) {
        let error = glasshouse_script::no_export(asked.unwrap_or(DEFAULT_EXPORT), &module.exports);
        let told = error.report();
        notes.push(Issue {
            code: glasshouse_script::codes::EXPORT_MISSING.name,
            pointer: "/source/code".to_owned(),
            message: format!("{}; {}: the plan's own root would be shown", told.what, told.why),
            fix: told.fix,
        });
    }
    notes
}

/// What is wrong with a source, as a report of the plan tells it.
///
/// # Errors
/// The same error when it says nothing about the source.
pub(super) fn issues(error: glasshouse_script::Error) -> Result<Vec<Issue>> {
    let report = error.report();
    let known = |name: &str| glasshouse_script::codes::ALL.iter().find(|code| code.name == name);
    let Some(code) = known(report.code.as_ref()) else { return Err(error.into()) };
    let found: Vec<Diagnostic> = report
        .context
        .get("diagnostics")
        .and_then(|found| serde_json::from_value(found.clone()).ok())
        .unwrap_or_default();
    let at = |code: &'static str, message: String, fix: String| Issue {
        code,
        pointer: "/source/code".to_owned(),
        message,
        fix,
    };
    if found.is_empty() {
        let message = match report.why.is_empty() {
            true => report.what,
            false => format!("{}: {}", report.what, report.why),
        };
        return Ok(vec![at(code.name, message, report.fix)]);
    }
    let told = found.into_iter().map(|it| {
        let code = known(&it.code).map_or(code.name, |code| code.name);
        at(code, format!("{}:{}: {}", it.line, it.column, it.message), it.fix)
    });
    Ok(told.collect())
}
