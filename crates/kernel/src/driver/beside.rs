//! What people said and were asked about an agent's session without being in it: words to a turn that another process
//! runs, answers, questions about merges. Each stands in a session of its own, which a cell names beside the agent's,
//! so that what is taken from the one does not stay in the other.

use std::collections::BTreeSet;

use glasshouse_log::{CellWrite, Forget, Forgotten};
use glasshouse_model::body::MessageReceived;
use glasshouse_model::{Actor, Kind, SessionId};

use super::cells::decides_later;
use super::{Kernel, approvals, steering};
use crate::Result;

/// Cell space of these sessions, by the agent's and theirs.
const SPACE: &str = "session.beside";
/// Cells that are read at a time.
const PAGE: usize = 100;

/// The change that names a session beside an agent's.
pub(super) fn link(agents: &SessionId, beside: &SessionId) -> CellWrite {
    CellWrite {
        space: SPACE.to_owned(),
        key: format!("{}{beside}", prefix(agents)),
        expected_version: None,
        bytes: Some(Vec::new()),
    }
}

fn prefix(agents: &SessionId) -> String {
    format!("{agents}/")
}

impl Kernel {
    /// The keys of a space that begin with a text, without that.
    fn keys_under(&self, space: &str, prefix: &str) -> Result<Vec<String>> {
        let (mut found, mut after) = (Vec::new(), prefix.to_owned());
        loop {
            let page = self.log.cells(space, &after, PAGE)?;
            let is_last = page.len() < PAGE;
            for (key, _) in page {
                let Some(rest) = key.strip_prefix(prefix) else { return Ok(found) };
                found.push(rest.to_owned());
                after = key;
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    fn beside(&self, session: &SessionId) -> Result<Vec<SessionId>> {
        let keys = self.keys_under(SPACE, &prefix(session))?;
        Ok(keys.iter().filter_map(|key| key.parse().ok()).collect())
    }

    /// Deletes what stands beside a session that is being deleted and has ended.
    pub(super) fn forget_beside(&self, session: &SessionId, actor: &Actor) -> Result<Forgotten> {
        let mut all = Forgotten::default();
        for beside in self.beside(session)? {
            let forgotten = self.forget_one_beside(session, beside, actor)?;
            all.events += forgotten.events;
            all.kept += forgotten.kept;
        }
        Ok(all)
    }

    /// Deletes what was said to turns of a session in the words of messages that were erased from it.
    pub(super) fn forget_said(
        &self,
        session: &SessionId,
        erased: &BTreeSet<String>,
        actor: &Actor,
    ) -> Result<()> {
        if erased.is_empty() {
            return Ok(());
        }
        for beside in self.beside(session)? {
            let first = self.log.read(&self.stored_branch(&beside, None)?.branch, 1, 1)?;
            let said = first.first().filter(|event| *event.kind() == Kind::MessageReceived);
            let said = said.and_then(|event| event.body_as::<MessageReceived>().ok());
            if said.is_some_and(|said| erased.contains(&said.text)) {
                self.forget_one_beside(session, beside, actor)?;
            }
        }
        Ok(())
    }

    pub(super) fn forget_one_beside(
        &self,
        session: &SessionId,
        beside: SessionId,
        actor: &Actor,
    ) -> Result<Forgotten> {
        Ok(self.log.forget(&Forget {
            session: beside,
            reason: format!("it is about session {session}, which was deleted or erased from"),
            actor: actor.clone(),
            // It names none of its own.
            keep_blobs: true,
            is_kept: &decides_later,
        })?)
    }

    /// The changes that empty what waits for a session that has ended, and would be read from cells.
    pub(super) fn nothing_waits(&self, session: &SessionId) -> Result<Vec<CellWrite>> {
        let mut writes = Vec::new();
        for row in self.log.branches(session)? {
            let waiting = self.log.cell(steering::SPACE, row.branch.as_str())?;
            writes.extend(waiting.map(|_| emptied(steering::SPACE, row.branch.to_string(), None)));
            let prefix = format!("{}:", row.branch);
            for seq in self.keys_under(approvals::ANSWERS, &prefix)? {
                let closed = Some(approvals::CLOSED.to_vec());
                writes.push(emptied(approvals::ANSWERS, format!("{prefix}{seq}"), closed));
            }
        }
        Ok(writes)
    }
}

fn emptied(space: &str, key: String, bytes: Option<Vec<u8>>) -> CellWrite {
    CellWrite { space: space.to_owned(), key, expected_version: None, bytes }
}
