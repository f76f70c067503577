//! One turn from its message to its end: effects are started, and what they give back is appended.

use std::time::Duration;

use glasshouse_model::body::{CallStatus, NamedRequest, TurnStarted};
use glasshouse_model::{Actor, Draft, Kind, Principal, PrincipalKind};
use tokio::task::JoinSet;

use super::answer::mask_words;
use super::approvals::Asked;
use super::model::Arrived;
use super::network::Said;
use super::people::Cancel;
use super::{Session, TaskEnd, TurnReport, in_place, lock, rates};
use crate::session::{CallPhase, Effect, State, next};
use crate::session::{refused, turn_cancelled, turn_failed};
use crate::{Error, Result, codes};

/// How often text that is still streaming is kept in the log.
const PARTIAL_EVERY: Duration = Duration::from_secs(2);
/// How long running work may take to notice that the turn was cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// How often answers of other processes are looked for while one is waited for.
pub(super) const LISTEN_EVERY: Duration = Duration::from_millis(200);
/// How often the lease is renewed while a turn runs; well below its time to live.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(10);

impl Session {
    /// Runs one turn to rest: with a message, or carrying on where the last turn stopped.
    ///
    /// # Errors
    /// Only when the log itself fails; whatever goes wrong in the work ends the turn with an event
    /// and is told by the report.
    pub async fn turn(&mut self, message: Option<&str>, cancel: &Cancel) -> Result<TurnReport> {
        self.turn_of(message, None, None, cancel).await
    }

    /// The same, started by somebody else than the person at this machine, and by a request that its sender
    /// named: [`State::requests`] then tells of it.
    ///
    /// # Errors
    /// As [`Session::turn`].
    pub async fn turn_of(
        &mut self,
        message: Option<&str>,
        request: Option<NamedRequest>,
        by: Option<&Principal>,
        cancel: &Cancel,
    ) -> Result<TurnReport> {
        // The message is kept before anything that takes time.
        let stale = self.state().base_is_stale();
        self.begin(message, request, by).await?;
        let stale = stale || self.state().base_is_stale();
        let mut tasks = JoinSet::new();
        let ran = match self.freeze_if(stale).await {
            Ok(()) => self.run(&mut tasks, cancel).await,
            Err(error) => Err(error),
        };
        tasks.abort_all();
        if let Err(error) = ran {
            // A fault that no event explains still ends the turn, if the log takes it.
            let report = error.report();
            let message = match report.why.as_str() {
                "" => report.what.clone(),
                why => format!("{}: {why}", report.what),
            };
            let drafts = self.close(CallStatus::Failed, &report.code, &report.what, |state| {
                turn_failed(state, &report.code, &message)
            });
            self.recorder.record(drafts).await.map_err(|_| error)?;
        }
        self.recorder.log().sign_head()?;
        // A copy that cannot be made is no fault of the turn; the next one tries again.
        let _ = in_place(|| self.recorder.log().back_up_if_due());
        TurnReport::of(self.state())
    }

    async fn begin(
        &mut self,
        message: Option<&str>,
        request: Option<NamedRequest>,
        by: Option<&Principal>,
    ) -> Result<()> {
        let continues = match message {
            Some(_) => None,
            None => self.state().last_turn.as_ref().map(|end| end.turn),
        };
        let local = || Actor { kind: PrincipalKind::User, id: "local".to_owned() };
        let user = by.map_or_else(local, Principal::actor);
        let started = TurnStarted { continues, request };
        let mut drafts = vec![Draft::new(Kind::TurnStarted, &started).by(user.clone())];
        if let Some(text) = message {
            let body = glasshouse_model::body::MessageReceived { text: self.masker.mask_str(text) };
            drafts.push(Draft::new(Kind::MessageReceived, &body).by(user).label("user"));
        }
        self.recorder.record(drafts).await
    }

    async fn run(&mut self, tasks: &mut JoinSet<TaskEnd>, cancel: &Cancel) -> Result<()> {
        let mut asked = Asked::new();
        let mut partial = tokio::time::interval(PARTIAL_EVERY);
        let mut renew = tokio::time::interval(RENEW_EVERY);
        let mut elsewhere = tokio::time::interval(LISTEN_EVERY);
        loop {
            if cancel.is_cancelled() {
                return self.cancelled(tasks, cancel.by()).await;
            }
            self.take_steering().await?;
            let progressed = self.start_effects(tasks, &mut asked, cancel).await?;
            if self.state().turn.is_none() {
                return Ok(());
            }
            if progressed {
                continue;
            }
            if tasks.is_empty() && !asked.waits() {
                let drafts = turn_failed(
                    self.state(),
                    codes::STUCK.name,
                    "nothing is under way and nothing is wanted",
                );
                return self.recorder.record(drafts).await;
            }
            tokio::select! {
                Some(end) = tasks.join_next() => self.record_end(task_drafts(end)?).await?,
                Some(said) = self.said.recv() => self.record_said(said).await?,
                Some(answer) = asked.answers.recv() => self.resolve(&mut asked, answer).await?,
                _ = elsewhere.tick() => self.take_answers(&mut asked).await?,
                () = cancel.cancelled() => {}
                _ = partial.tick() => self.record_partial().await?,
                _ = renew.tick() => self.lease.renew()?,
            }
        }
    }

    /// Starts what the state wants. True when that changed the state, so that it must be asked again.
    async fn start_effects(
        &mut self,
        tasks: &mut JoinSet<TaskEnd>,
        asked: &mut Asked,
        cancel: &Cancel,
    ) -> Result<bool> {
        let mut progressed = false;
        for effect in next(self.state()) {
            match effect {
                Effect::Record(drafts) => self.recorder.record(drafts).await?,
                Effect::RequestModel { .. } if self.learn_spending().await? => {}
                Effect::RequestModel { attempt, delay_ms } => {
                    self.request_model(tasks, attempt, delay_ms, cancel).await?;
                }
                Effect::Decide(call) => match self.decide_call(tasks, call, cancel).await {
                    // A grant was used or taken back in between: decide on what is true now.
                    Err(error) if error.is(glasshouse_log::codes::CELL_CONFLICT) => {
                        let branch = self.recorder.branch();
                        *lock(&self.rates) = rates::Rates::of(self.recorder.log(), branch)?;
                    }
                    decided => decided?,
                },
                Effect::ProposeMerge => self.propose_merge(None).await?,
                Effect::ApplyMerge(merge) => self.apply_merge(merge).await?,
                Effect::Commit(merge) => self.commit(merge).await?,
                Effect::AskApproval(approval) => {
                    if !self.ask(tasks, asked, approval).await? {
                        continue;
                    }
                }
            }
            progressed = true;
            // Any of these may have changed what is wanted next.
            if self.state().turn.is_none() {
                break;
            }
        }
        Ok(progressed)
    }

    /// Waits for what runs to notice the cancellation, then closes what is open.
    async fn cancelled(&mut self, tasks: &mut JoinSet<TaskEnd>, by: Option<&Actor>) -> Result<()> {
        self.record_partial().await?;
        let deadline = tokio::time::Instant::now() + CANCEL_GRACE;
        while self.has_running_work() {
            tokio::select! {
                end = tasks.join_next() => match end {
                    Some(end) => self.recorder.record(task_drafts(end)?).await?,
                    None => break,
                },
                Some(said) = self.said.recv() => self.record_said(said).await?,
                () = tokio::time::sleep_until(deadline) => break,
            }
            if self.state().turn.is_none() {
                return Ok(());
            }
        }
        let drafts = self.close(
            CallStatus::Cancelled,
            "cancelled",
            "the turn was cancelled",
            turn_cancelled,
        );
        let of = |draft: Draft| match by {
            Some(by) if draft.kind == Kind::TurnCancelled => draft.by(by.clone()),
            _ => draft,
        };
        self.recorder.record(drafts.into_iter().map(of).collect()).await
    }

    async fn record_said(&mut self, said: Said) -> Result<()> {
        self.recorder.record(said.drafts).await?;
        // Who said it may have given up waiting.
        let _ = said.done.try_send(());
        Ok(())
    }

    fn has_running_work(&self) -> bool {
        let state = self.state();
        state.model == crate::session::ModelPhase::Requested
            || state.open_calls.iter().any(|call| {
                state.calls.get(call).is_some_and(|record| record.phase == CallPhase::Started)
            })
    }

    /// Ends every open call and then the turn.
    fn close(
        &self,
        status: CallStatus,
        code: &str,
        text: &str,
        turn_end: impl Fn(&State) -> Vec<Draft>,
    ) -> Vec<Draft> {
        let state = self.state();
        let mut drafts: Vec<Draft> = state
            .open_calls
            .iter()
            .map(|call| refused(*call, status, code, text.to_owned()))
            .collect();
        drafts.extend(turn_end(state));
        drafts
    }

    /// Records what a task gave back. Of an answer that did not come whole, who watched may have seen more
    /// than the log has: that comes first.
    async fn record_end(&mut self, drafts: TaskEnd) -> Result<()> {
        if drafts.iter().any(|draft| draft.kind == Kind::ModelFailed) {
            self.record_partial().await?;
        }
        self.recorder.record(drafts).await
    }

    async fn record_partial(&mut self) -> Result<()> {
        let Arrived { text, reasoning } = std::mem::take(&mut *lock(&self.partial));
        if text.is_empty() && reasoning.is_empty()
            || self.state().model != crate::session::ModelPhase::Requested
        {
            return Ok(());
        }
        let ordinal = self.state().ordinal;
        // What came in pieces was masked as it was written; escapes are read in the whole.
        let [text, reasoning] = [text, reasoning].map(|words| mask_words(&self.masker, &words));
        let body = glasshouse_model::body::ModelPartial { ordinal, text, reasoning };
        self.recorder.observe(Draft::new(Kind::ModelPartial, &body)).await
    }
}

/// A task that panicked is a fault of ours; it ends the turn, not the process.
fn task_drafts(end: std::result::Result<TaskEnd, tokio::task::JoinError>) -> Result<TaskEnd> {
    end.map_err(|e| Error::new(codes::TURN_FAILED, "a task of the turn broke down").why(e))
}
