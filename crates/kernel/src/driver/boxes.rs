//! Sandboxes as the log tells of them.

use glasshouse_model::body::SandboxEvent;
use glasshouse_model::{BranchId, Kind, Seq, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

use super::Kernel;
use crate::Result;

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
        Kind::SandboxDestroyed => "destroyed",
        _ => return,
    };
    // A body that was erased tells nothing any more.
    let Ok(body) = event.body_as::<SandboxEvent>() else { return };
    if state == "destroyed" {
        let known = rows.iter_mut().skip(first).rev().find(|row| row.sandbox == body.sandbox);
        if let Some(row) = known {
            row.state = state;
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
