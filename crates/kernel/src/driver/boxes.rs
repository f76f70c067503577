//! Sandboxes as the log tells of them.

use glasshouse_model::body::SandboxEvent;
use glasshouse_model::{BranchId, Draft, Kind, Seq, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

use super::Kernel;
use crate::Result;
use crate::session::State;

/// State of a sandbox whose end was told.
const ENDED: &str = "destroyed";
/// Code of an end that came with the end of the process around the sandbox.
pub(super) const LOST: &str = glasshouse_sandbox::codes::SANDBOX_LOST.name;

/// The end of a sandbox as an event.
pub(super) fn ended(made: &SandboxEvent, code: Option<&str>) -> Draft {
    let (sandbox, template) = (made.sandbox.clone(), made.template.clone());
    let code = code.map(str::to_owned);
    let body = SandboxEvent { sandbox, template, isolation: None, code, attestation: None };
    Draft::new(Kind::SandboxDestroyed, &body)
}

/// The end of a sandbox that an earlier process made and told no end of: it ended with that process.
pub(super) fn lost(state: &State) -> Option<Draft> {
    state.sandbox.as_ref().map(|made| ended(made, Some(LOST)))
}

/// What is still to be told of a branch's sandboxes when nothing of them is left: `told` is what happened since
/// the last append. Whatever was given up on the way, each that was made ends once.
pub(super) fn last_told(open: Option<&SandboxEvent>, told: Vec<Draft>) -> Vec<Draft> {
    let mut open = open.cloned();
    let mut last = Vec::with_capacity(told.len() + 1);
    for draft in told {
        let body = serde_json::from_value::<SandboxEvent>(draft.body.clone()).ok();
        match draft.kind {
            Kind::SandboxCreated => {
                last.extend(open.take().map(|made| ended(&made, None)));
                open = body;
            }
            Kind::SandboxDestroyed if open.take().is_none() => continue,
            _ => {}
        }
        last.push(draft);
    }
    last.extend(open.map(|made| ended(&made, None)));
    last
}

/// A sandbox that a branch made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Sandbox")]
pub struct SandboxRow {
    /// Its name.
    pub sandbox: String,
    /// The session that made it.
    pub session: SessionId,
    /// The branch.
    pub branch: BranchId,
    /// Sequence of the event that tells of it.
    pub seq: Seq,
    /// When it was made, microseconds since 1970.
    pub created_us: u64,
    /// Template of limits.
    pub template: String,
    /// Isolation that was measured from inside.
    pub isolation: Option<String>,
    /// `live`; `failed`, when it could not be made; `destroyed`; `gone`, with the process that ran the branch.
    pub state: &'static str,
    /// What was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attestation: Option<serde_json::Value>,
}

impl Kernel {
    /// The sandboxes of a session, oldest first; without one those of every branch that a process runs now.
    ///
    /// # Errors
    /// `session_not_found`; what reading the log answers.
    pub fn sandboxes(&self, session: Option<&SessionId>) -> Result<Vec<SandboxRow>> {
        let sessions = match session {
            Some(session) => {
                self.main_branch(session)?;
                vec![session.clone()]
            }
            None => self.log.sessions()?.into_iter().map(|row| row.session).collect(),
        };
        let mut rows = Vec::new();
        for id in sessions {
            for branch in self.log.branches(&id)? {
                let is_run = self.log.is_owned(&branch.branch)?;
                if !is_run && session.is_none() {
                    continue;
                }
                let first = rows.len();
                for event in self.log.events_from(&branch.branch, branch.base().seq + 1) {
                    let event = event?;
                    fold(&mut rows, first, &event, (&id, &branch.branch));
                }
                for row in rows.iter_mut().skip(first).filter(|row| !is_run && row.state == "live")
                {
                    row.state = "gone";
                }
            }
        }
        if session.is_none() {
            rows.retain(|row: &SandboxRow| row.state == "live");
        }
        Ok(rows)
    }
}

fn fold(
    rows: &mut Vec<SandboxRow>,
    first: usize,
    event: &glasshouse_model::Event,
    (session, branch): (&SessionId, &BranchId),
) {
    let state = match event.kind() {
        Kind::SandboxCreated => "live",
        Kind::SandboxFailed => "failed",
        Kind::SandboxDestroyed => ENDED,
        _ => return,
    };
    // A body that was erased tells nothing any more.
    let Ok(body) = event.body_as::<SandboxEvent>() else { return };
    if state == ENDED {
        let is_lost = body.code.as_deref() == Some(LOST);
        let known = rows.iter_mut().skip(first).rev().find(|row| row.sandbox == body.sandbox);
        if let Some(row) = known {
            row.state = if is_lost { "gone" } else { state };
        }
        return;
    }
    rows.push(SandboxRow {
        sandbox: body.sandbox,
        session: session.clone(),
        branch: branch.clone(),
        seq: event.seq(),
        created_us: event.header.time_us,
        template: body.template,
        isolation: body.isolation,
        state,
        attestation: body.attestation,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_given_up_each_sandbox_that_was_made_ends_once() {
        let made = || SandboxEvent {
            sandbox: "b_1".to_owned(),
            template: "code-executor".to_owned(),
            isolation: None,
            code: None,
            attestation: None,
        };
        let draft = |word: &&str| match *word {
            "made" => Draft::new(Kind::SandboxCreated, &made()),
            "ended" => ended(&made(), None),
            _ => Draft::new(Kind::PolicyDecided, &serde_json::json!({})),
        };
        let word = |draft: &Draft| match draft.kind {
            Kind::SandboxCreated => "made",
            Kind::SandboxDestroyed => "ended",
            _ => "other",
        };
        let check = |is_open: bool, told: &[&str], expected: &[&str]| {
            let open = is_open.then(made);
            let last = last_told(open.as_ref(), told.iter().map(draft).collect());
            let words: Vec<_> = last.iter().map(word).collect();
            assert_eq!(words, expected, "{is_open} {told:?}");
        };
        check(false, &[], &[]);
        check(true, &[], &["ended"]);
        check(true, &["ended"], &["ended"]);
        check(false, &["other", "made", "ended"], &["other", "made", "ended"]);
        check(true, &["ended", "made", "ended"], &["ended", "made", "ended"]);
        // What a task that nobody waited for had to tell is missing.
        check(true, &["made", "ended"], &["ended", "made", "ended"]);
        check(false, &["ended"], &[]);
        check(false, &["made"], &["made", "ended"]);
    }
}
