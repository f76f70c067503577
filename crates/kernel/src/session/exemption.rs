//! Exemptions: named files that a person lets be changed without a failing test first.
//!
//! A call asks, a person answers, and only for files of a kind that no test of the project fails for. What
//! was granted holds in strict mode alone, for these files, until its time is over, the work is committed
//! or another cycle begins; what was changed under it is merged by a person.

use std::collections::BTreeSet;

use glasshouse_model::body::{CallEnd, CallStatus, ExemptionDecided, ExemptionRequested};
use glasshouse_model::syscall::name;
use glasshouse_model::{CallId, CanonicalPath, ExemptionCategory, Mode, Seq, State as Workflow};
use glasshouse_policy::{PathPatterns, is_reserved};
use glasshouse_tools::{Arguments, parse_arguments};
use serde::{Deserialize, Serialize};

use super::State;

/// How long an exemption outlives the approval that granted it, which is good for ten minutes: an hour
/// after the answer it is over.
const AFTER_APPROVAL_US: u64 = 50 * 60 * 1_000_000;

/// An exemption that was granted for the work under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exemption {
    /// Sequence of `workflow.exemption_requested`.
    pub request: Seq,
    /// What kind of work it is.
    pub category: ExemptionCategory,
    /// The files, and no others.
    pub paths: BTreeSet<CanonicalPath>,
    /// First moment at which it is over, microseconds since 1970. Work that was exempt stays so afterwards.
    pub expires_us: u64,
}

/// What may be written while strict work explores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confines {
    /// The files.
    pub paths: BTreeSet<CanonicalPath>,
    /// First moment at which none may be written any more.
    pub expires_us: u64,
}

impl Confines {
    /// Why a path may not be written now; `None` where it may.
    #[must_use]
    pub fn refusal(&self, path: Option<&CanonicalPath>, now_us: u64) -> Option<String> {
        if now_us >= self.expires_us {
            return Some(
                "the exemption is over; ask again, or go on with plan.complete".to_owned(),
            );
        }
        match path {
            Some(path) if self.paths.contains(path) => None,
            Some(path) => Some(format!("the exemption does not name `{path}`")),
            None => Some("the exemption names files, and this is none".to_owned()),
        }
    }
}

/// Globs of the files that a category may name.
const fn globs(category: ExemptionCategory) -> &'static [&'static str] {
    match category {
        ExemptionCategory::ConfigChange => {
            &["*.json", "*.yaml", "*.yml", "*.toml", "*.env", "Dockerfile", "/.github/**"]
        }
        ExemptionCategory::TypeRefactor => &["*.d.ts"],
        ExemptionCategory::Documentation => &["*.md", "*.txt", "LICENSE", "CHANGELOG"],
        ExemptionCategory::AssetUpdate => &["*.png", "*.svg", "*.css", "*.scss"],
    }
}

/// Why a request cannot be granted by anybody, if it cannot.
#[must_use]
pub fn misfit(state: &State, request: &Arguments) -> Option<String> {
    let Arguments::RequestExemption { category, affected_paths, .. } = request else { return None };
    if state.mode() != Mode::Strict {
        return Some("only strict work asks for a failing test first".to_owned());
    }
    let Ok(category) = category.parse::<ExemptionCategory>() else {
        return Some("there is no such category".to_owned());
    };
    let tests = state.created.as_ref().map(|created| created.test.test_globs.as_slice());
    Wanted {
        workflow: Some(state.workflow()),
        category: Some(category),
        paths: affected_paths.iter().map(String::as_str).collect(),
    }
    .misfit(tests.unwrap_or_default())
}

/// A request in strict mode, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// State of the workflow.
    pub workflow: Option<Workflow>,
    /// What kind of work it is; where it is not known, it is whichever fits.
    pub category: Option<ExemptionCategory>,
    /// The files.
    pub paths: Vec<&'a str>,
}

impl Wanted<'_> {
    /// Why nobody can grant it in a project whose tests are these, if so.
    #[must_use]
    pub fn misfit(&self, test_globs: &[String]) -> Option<String> {
        if let Some(workflow) = self.workflow.filter(|workflow| !may_begin(*workflow)) {
            return Some(format!("no exemption begins in {workflow}"));
        }
        let categories =
            self.category.as_ref().map_or(ExemptionCategory::ALL, std::slice::from_ref);
        let fitting = categories.iter().flat_map(|category| globs(*category)).copied();
        let (Ok(fits), Ok(tests)) = (
            PathPatterns::parse(fitting),
            PathPatterns::parse(test_globs.iter().map(String::as_str)),
        ) else {
            return Some("the globs of the tests cannot be read".to_owned());
        };
        self.paths.iter().find_map(|text| match CanonicalPath::parse(text) {
            Err(why) => Some(format!("`{text}`: {why}")),
            Ok(path) if is_reserved(&path) => Some(format!("nothing writes to `{path}`")),
            Ok(path) if tests.matches(&path) => Some(format!("`{path}` is a test")),
            Ok(path) if fits.matches(&path) => None,
            Ok(path) => Some(match self.category {
                Some(category) => {
                    format!("`{path}` is no {category}: that is {}", globs(category).join(", "))
                }
                None => format!("`{path}` is of no kind that can be exempt from tests first"),
            }),
        })
    }
}

/// Whether strict work may turn to exempt files in a state.
pub(super) const fn may_begin(workflow: Workflow) -> bool {
    matches!(
        workflow,
        Workflow::Planning
            | Workflow::TestWriting
            | Workflow::CodeWriting
            | Workflow::Exploring
            | Workflow::Reviewing
    )
}

/// The event that a call asks for an exemption, if it does and can be read.
pub(super) fn requested(call: CallId, tool: &str, arguments: &str) -> Option<ExemptionRequested> {
    if tool != name::WORKFLOW_REQUEST_EXEMPTION {
        return None;
    }
    let Ok(Arguments::RequestExemption { category, affected_paths, reason }) =
        parse_arguments(tool, arguments)
    else {
        return None;
    };
    let category = category.parse().ok()?;
    Some(ExemptionRequested { call, category, paths: affected_paths, reason })
}

/// What became of a request when its call is over: granted by an approval of a person, or not at all.
pub(super) fn decided(state: &State, end: &CallEnd) -> Option<ExemptionDecided> {
    let (request, _) = state.exemption_requests.get(&end.call)?;
    let mut answers = state.granted.values();
    let approval = answers
        .find(|(asked, _)| asked.call == Some(end.call))
        .filter(|_| end.status == CallStatus::Completed && may_begin(state.workflow()));
    Some(ExemptionDecided {
        request: *request,
        granted: approval.is_some(),
        approver: approval.map(|(_, resolved)| resolved.approver.clone()),
        expires_us: approval
            .map(|(_, resolved)| resolved.expires_us.saturating_add(AFTER_APPROVAL_US)),
    })
}

impl State {
    /// What may be written where strict work explores; `None` where this is not so. Without an exemption
    /// that is nothing.
    #[must_use]
    pub fn confines(&self) -> Option<Confines> {
        if self.mode() != Mode::Strict || self.workflow() != Workflow::Exploring {
            return None;
        }
        Some(match &self.exemption {
            Some(exemption) => {
                Confines { paths: exemption.paths.clone(), expires_us: exemption.expires_us }
            }
            None => Confines { paths: BTreeSet::new(), expires_us: 0 },
        })
    }

    pub(super) fn exemption_requested(&mut self, seq: Seq, request: ExemptionRequested) {
        self.exemption_requests.insert(request.call, (seq, request));
    }

    pub(super) fn exemption_decided(&mut self, decided: &ExemptionDecided) {
        let call = self.exemption_requests.iter().find(|(_, (seq, _))| *seq == decided.request);
        let Some(call) = call.map(|(call, _)| *call) else { return };
        let Some((request, asked)) = self.exemption_requests.remove(&call) else { return };
        if decided.granted {
            self.exemption = Some(Exemption {
                request,
                category: asked.category,
                paths: asked.paths.iter().filter_map(|p| CanonicalPath::parse(p).ok()).collect(),
                expires_us: decided.expires_us.unwrap_or(0),
            });
        }
    }

    /// Ends the right; what was changed under it stays marked.
    pub(super) fn end_exemption(&mut self) {
        if let Some(exemption) = &mut self.exemption {
            exemption.expires_us = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(category: &str, paths: &[&str]) -> Arguments {
        Arguments::RequestExemption {
            category: category.to_owned(),
            affected_paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            reason: "r".to_owned(),
        }
    }

    #[test]
    fn a_request_fits_its_category_and_its_state_or_nobody_is_asked() {
        let created = serde_json::from_value(serde_json::json!({
            "mode": "strict", "project": "/p", "provider": "x", "model": "m", "budget": {},
            "test": { "argv": [], "kind": "shell", "test_globs": ["tests/**"], "source_globs": [] },
            "policy": [], "max_auto_merge_lines": 1, "program_version": "1",
        }))
        .unwrap();
        let mut state = State { created: Some(created), ..State::default() };
        let mut check = |mode, workflow, category, paths: &[&str], why: &str| {
            (state.mode, state.workflow) = (Some(mode), Some(workflow));
            let found = misfit(&state, &asks(category, paths)).unwrap_or_default();
            assert!(
                found.contains(why) && found.is_empty() == why.is_empty(),
                "{found}: {paths:?}"
            );
        };
        let (strict, planning) = (Mode::Strict, Workflow::Planning);
        check(strict, planning, "documentation", &["README.md", "docs/a/b.txt", "LICENSE"], "");
        check(strict, planning, "documentation", &["docs/../README.md"], "");
        check(
            strict,
            planning,
            "documentation",
            &["README.md", "src/a.rs"],
            "`src/a.rs` is no doc",
        );
        check(strict, planning, "documentation", &["docs/../../README.md"], "../README.md");
        check(strict, planning, "documentation", &["README.md.rs"], "is no documentation");
        for nobody in
            [".git/x.md", ".glasshouse/x.md", "docs/.GIT/x.md", "sub/.glasshouse/docs/x.md"]
        {
            check(strict, planning, "documentation", &[nobody], "nothing writes to");
        }
        check(strict, planning, "documentation", &[".github/x.md"], "");
        check(strict, planning, "documentation", &["tests/expected.txt"], "is a test");
        check(
            strict,
            planning,
            "config_change",
            &["a.toml", ".github/w/ci.yml", "x/Dockerfile"],
            "",
        );
        check(strict, planning, "config_change", &["sub/.github/run.sh"], "is no config_change");
        check(strict, planning, "type_refactor", &["src/a.d.ts"], "");
        check(strict, planning, "type_refactor", &["src/a.ts"], "is no type_refactor");
        check(strict, planning, "asset_update", &["a.svg", "b/c.scss"], "");
        check(strict, planning, "asset_update", &["a.js"], "is no asset_update");
        check(strict, planning, "anything", &["a.md"], "no such category");
        for workflow in Workflow::ALL {
            let begins = ["planning", "test_writing", "code_writing", "exploring", "reviewing"];
            let why = if begins.contains(&workflow.as_str()) { "" } else { "no exemption begins" };
            check(strict, *workflow, "documentation", &["a.md"], why);
            check(Mode::Explore, *workflow, "documentation", &["a.md"], "only strict");
            check(Mode::Debug, *workflow, "documentation", &["a.md"], "only strict");
        }
    }

    #[test]
    fn strict_work_explores_what_is_named_and_only_so_long() {
        let path = |text: &str| CanonicalPath::parse(text).unwrap();
        let named = |expires_us: u64| Exemption {
            request: 1,
            category: ExemptionCategory::Documentation,
            paths: BTreeSet::from([path("a.md")]),
            expires_us,
        };
        let check = |mode, workflow, exemption, at: &str, now_us: u64, may: bool| {
            let state =
                State { mode: Some(mode), workflow: Some(workflow), exemption, ..State::default() };
            let refused = state.confines().and_then(|own| own.refusal(Some(&path(at)), now_us));
            assert_eq!(refused.is_none(), may, "{mode} {workflow} {at} {now_us}: {refused:?}");
        };
        let (strict, exploring) = (Mode::Strict, Workflow::Exploring);
        check(strict, exploring, Some(named(9)), "a.md", 8, true);
        check(strict, exploring, Some(named(9)), "a.md", 9, false);
        check(strict, exploring, Some(named(9)), "b.md", 8, false);
        check(strict, exploring, Some(named(9)), "a.md/b", 8, false);
        // A state without a right confines to nothing, however it came about.
        check(strict, exploring, None, "a.md", 8, false);
        // Elsewhere the rules of the workflow say what is written.
        check(strict, Workflow::CodeWriting, Some(named(9)), "b.md", 8, true);
        check(Mode::Explore, exploring, None, "b.md", 8, true);
    }
}
