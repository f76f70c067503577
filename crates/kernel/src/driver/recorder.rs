//! Appending: an event, everything that follows from it, one transaction, then the world may know.

use std::collections::VecDeque;
use std::sync::Arc;

use glasshouse_log::{Append, CellWrite, Durability, Later, Log, durability};
use glasshouse_model::event::EVENT_VERSION;
use glasshouse_model::{BranchId, Digest, Draft, Event, Header, Seq, SessionId, TenantId};

use super::in_place;
use super::people::{Notice, Observer};
use crate::session::{State, consequences};
use crate::{Error, Result, codes};

/// Most events of one transaction; consequences that do not end are a fault of ours.
const MAX_EVENTS_PER_APPEND: usize = 4_096;

/// Most appends that wait for the next one: their events are held in memory.
const MAX_WAITING: usize = 16;

/// Owns the state of a branch and is its only writer.
pub(crate) struct Recorder {
    log: Log,
    session: SessionId,
    branch: BranchId,
    tenant: TenantId,
    epoch: u64,
    state: State,
    observer: Arc<dyn Observer>,
    /// Appends that the next one takes along; watchers have not heard of them.
    waiting: Vec<Later>,
}

impl Recorder {
    /// Folds the branch as it is in the log.
    pub(crate) fn open(
        log: Log,
        session: SessionId,
        branch: BranchId,
        epoch: u64,
        observer: Arc<dyn Observer>,
    ) -> Result<Self> {
        let state = fold(&log, &branch)?;
        let (tenant, waiting) = (log.tenant().clone(), Vec::new());
        Ok(Self { log, session, branch, tenant, epoch, state, observer, waiting })
    }

    /// The state after the last append.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Where the events go.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The session.
    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    /// The branch.
    pub(crate) fn branch(&self) -> &BranchId {
        &self.branch
    }

    /// Appends drafts with their consequences. Durable when it returns; watchers hear it after that.
    pub(crate) async fn record(&mut self, drafts: Vec<Draft>) -> Result<()> {
        self.record_with(drafts, Vec::new()).await
    }

    /// The same with cells of the same transaction.
    pub(crate) async fn record_with(
        &mut self,
        drafts: Vec<Draft>,
        cells: Vec<CellWrite>,
    ) -> Result<()> {
        self.append(drafts, cells)
    }

    /// The same where nothing can wait.
    pub(crate) fn append(&mut self, drafts: Vec<Draft>, cells: Vec<CellWrite>) -> Result<()> {
        if drafts.is_empty() {
            return Ok(());
        }
        let append = self.prepare(drafts, cells)?;
        let outcome = in_place(|| self.log.append(append));
        let told = self.tell_waiting();
        match told.and(outcome.map_err(Error::from)) {
            Ok(appended) => {
                for event in &appended.events {
                    self.observer.notice(Notice::Event(event));
                }
                Ok(())
            }
            Err(error) => {
                // The state ran ahead of the log; the log is the truth.
                if let Ok(state) = fold(&self.log, &self.branch) {
                    self.state = state;
                }
                Err(error)
            }
        }
    }

    /// Appends what merely observes. It is durable, and watchers hear it, with the next append.
    pub(crate) async fn observe(&mut self, draft: Draft) -> Result<()> {
        if self.waiting.len() >= MAX_WAITING {
            return self.record(vec![draft]).await;
        }
        let append = self.prepare(vec![draft], Vec::new())?;
        let is_committed = |draft: &Draft| durability(&draft.kind) == Durability::Committed;
        debug_assert!(!append.events.iter().any(is_committed), "observing implies nothing");
        let later = in_place(|| self.log.append_later(append));
        match later {
            Ok(later) => {
                self.waiting.push(later);
                Ok(())
            }
            Err(error) => {
                self.state = fold(&self.log, &self.branch)?;
                Err(error.into())
            }
        }
    }

    /// Tells watchers of what waited for the append that has just been stored.
    fn tell_waiting(&mut self) -> Result<()> {
        for later in std::mem::take(&mut self.waiting) {
            for event in in_place(|| later.wait())?.events {
                self.observer.notice(Notice::Event(&event));
            }
        }
        Ok(())
    }

    /// Drafts with their consequences, folded into the state, as an append.
    fn prepare(&mut self, drafts: Vec<Draft>, cells: Vec<CellWrite>) -> Result<Append> {
        let before = self.state.head;
        match self.expand(drafts) {
            Ok(events) => Ok(Append {
                session: self.session.clone(),
                branch: self.branch.clone(),
                events,
                expected_head: Some(before),
                idempotency_key: None,
                epoch: Some(self.epoch),
                cells,
            }),
            Err(error) => {
                self.state = fold(&self.log, &self.branch)?;
                Err(error)
            }
        }
    }

    fn expand(&mut self, drafts: Vec<Draft>) -> Result<Vec<Draft>> {
        let place = (&self.tenant, &self.session, &self.branch);
        expand(&mut self.state, place, drafts)
    }

    pub(crate) fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }
}

/// Folds drafts into a state one by one, each followed at once by what it implies.
pub(super) fn expand(
    state: &mut State,
    place: (&TenantId, &SessionId, &BranchId),
    drafts: Vec<Draft>,
) -> Result<Vec<Draft>> {
    let mut queue = VecDeque::from(drafts);
    let mut all = Vec::with_capacity(queue.len());
    while let Some(draft) = queue.pop_front() {
        let event = provisional(draft, place, state.head + 1);
        state.apply(&event);
        for implied in consequences(state, &event).into_iter().rev() {
            queue.push_front(implied);
        }
        all.push(draft_of(event));
        if let Some(seq) = state.unreadable {
            return Err(Error::new(codes::LOG_UNREADABLE, format!("event {seq} cannot be folded")));
        }
        if all.len() > MAX_EVENTS_PER_APPEND {
            return Err(Error::new(codes::LOG_UNREADABLE, "an event has too many consequences"));
        }
    }
    Ok(all)
}

/// The event that a draft will become, without what only the log knows (time, salt, hashes);
/// folding looks at none of those.
fn provisional(
    draft: Draft,
    (tenant, session, branch): (&TenantId, &SessionId, &BranchId),
    seq: Seq,
) -> Event {
    let header = Header {
        v: EVENT_VERSION,
        tenant: tenant.clone(),
        session: session.clone(),
        branch: branch.clone(),
        seq,
        time_us: 0,
        kind: draft.kind,
        actor: draft.actor,
        cause: draft.cause,
        trace: draft.trace,
        labels: draft.labels,
        body_hash: Digest::ZERO,
    };
    Event { header, body: draft.body, prev: Digest::ZERO, hash: Digest::ZERO }
}

/// What a provisional event was made of.
fn draft_of(event: Event) -> Draft {
    let Header { kind, actor, cause, trace, labels, .. } = event.header;
    Draft { kind, actor, cause, trace, labels, body: event.body }
}

/// Folds a branch from its first event.
pub(crate) fn fold(log: &Log, branch: &BranchId) -> Result<State> {
    fold_to(log, branch, Seq::MAX)
}

/// Folds a branch as it was after an event, from its first one.
pub(crate) fn fold_to(log: &Log, branch: &BranchId, to: Seq) -> Result<State> {
    readable(branch, log.project_afresh(branch, to)?)
}

/// A state in which every body could be read.
pub(super) fn readable(branch: &BranchId, state: State) -> Result<State> {
    let Some(seq) = state.unreadable else { return Ok(state) };
    Err(Error::new(codes::LOG_UNREADABLE, format!("event {seq} of {branch} cannot be folded"))
        .why("its body was erased, or is not what its kind promises")
        .with("seq", seq))
}
