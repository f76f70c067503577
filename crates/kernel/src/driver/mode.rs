//! Another mode than strict: asked for by the person who starts a session, decided like any call.
//!
//! What follows from the decision and from an answer is logic ([`consequences`](crate::session::consequences));
//! here the question is put. Without a yes the session works strictly.

use glasshouse_model::body::PolicyDecided;
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Draft, Kind, Mode, Principal};
use tokio::task::JoinSet;

use super::Session;
use super::approvals::Asked;
use super::demands::{Place, decide_uncounted};
use super::turning::{LISTEN_EVERY, RENEW_EVERY};
use crate::Result;

impl Session {
    /// Asks the policy, and a person where it says so.
    pub(super) async fn ask_for_mode(&mut self, to: Mode, by: Principal) -> Result<()> {
        let mut call = Call::new(name::SESSION_SET_MODE, by);
        call.session = Some(self.id().clone());
        call.state = Some(self.state().workflow().to_string());
        call.argv = Some(vec![to.to_string()]);
        let decision = self.unless_locked(decide_uncounted(&self.policy, &call, Place::Kernel), to);
        let body = PolicyDecided::new(None, call, Some(to.to_string()), decision);
        self.recorder.record(vec![Draft::new(Kind::PolicyDecided, &body)]).await
    }

    /// Waits for a person's answer, if a mode is asked for and not answered.
    pub(super) async fn await_mode(&mut self) -> Result<()> {
        let (mut tasks, mut asked) = (JoinSet::new(), Asked::new());
        let mut elsewhere = tokio::time::interval(LISTEN_EVERY);
        let mut renew = tokio::time::interval(RENEW_EVERY);
        while let Some(approval) = self.state().mode_question() {
            if self.ask(&mut tasks, &mut asked, approval).await? {
                continue;
            }
            tokio::select! {
                Some(answer) = asked.answers.recv() => self.resolve(&mut asked, answer).await?,
                _ = elsewhere.tick() => self.take_answers(&mut asked).await?,
                _ = renew.tick() => self.lease.renew()?,
            }
        }
        Ok(())
    }
}
