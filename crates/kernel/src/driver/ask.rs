//! A question to a model by a person, outside any agent's session: decided and recorded like one of
//! an agent.

use std::path::Path;
use std::time::Instant;

use glasshouse_log::CellWrite;
use glasshouse_model::body::{ModelCompleted, ModelFailed, ModelRequested, PolicyDecided};
use glasshouse_model::syscall::name;
use glasshouse_model::{BranchId, Call, Draft, Kind, Principal, SessionId};
use glasshouse_plan::{Issue, Plan, Profile};
use glasshouse_policy::Policy;
use glasshouse_provider::{Cancel, Completion, Delta, ModelCall, ModelRequest, Provider, Secret};
use glasshouse_tools::sanitise::{MaskStream, Masker};
use serde::{Deserialize, Serialize};

use super::Kernel;
use super::answer::Keeper;
use super::demands::{Place, decide_uncounted};
use super::journal::Journal;
use super::model::elapsed_us;
use crate::{Error, Result, codes};

/// Cells of the requests that have no end yet, by branch: an index, so that a process that was killed
/// leaves none behind for long.
const OPEN_SPACE: &str = "question.open";
/// Most requests of killed processes that are ended at once; the next start ends others.
const MAX_ENDED: usize = 64;

/// Content of a cell in [`OPEN_SPACE`].
#[derive(Serialize, Deserialize)]
struct Open {
    session: SessionId,
    ordinal: u64,
}

/// Questions of one person to one provider, in a session of their own.
pub struct Questions<'a> {
    /// Owned, so that others see that what is open here is not left behind.
    journal: Journal<'a>,
    policy: Policy,
    masker: Masker,
    kernel: &'a Kernel,
    provider: &'a dyn Provider,
    /// Who asks.
    by: Principal,
    ordinal: u64,
}

impl Kernel {
    /// Makes ready to ask. The policy of the project decides each question.
    ///
    /// # Errors
    /// The policy's load errors, the log's errors, `secret_unusable`.
    pub fn questions<'a>(
        &'a self,
        project: &Path,
        provider: &'a dyn Provider,
        secrets: &[(String, Secret)],
    ) -> Result<Questions<'a>> {
        let policy = self.project_rules(project)?;
        let masker = self.masker(&policy, secrets)?;
        self.end_interrupted_questions()?;
        let journal = Journal::open(self)?.owned()?;
        let by = self.person();
        Ok(Questions { journal, policy, masker, kernel: self, provider, by, ordinal: 0 })
    }

    /// Ends the requests of processes that ended without it.
    pub(super) fn end_interrupted_questions(&self) -> Result<()> {
        for (key, cell) in self.log.cells(OPEN_SPACE, "", MAX_ENDED)? {
            let (Ok(branch), Ok(open)) =
                (key.parse::<BranchId>(), serde_json::from_slice::<Open>(&cell.bytes))
            else {
                continue;
            };
            let message = "the process that asked ended".to_owned();
            let body = failed(open.ordinal, codes::INTERRUPTED.name, message);
            let mut closed = closed(&branch);
            // Of two processes that find it one ends it.
            closed.expected_version = Some(cell.version);
            let journal = match Journal::of(self, open.session, branch).owned() {
                Err(error) if error.is(glasshouse_log::codes::SESSION_OWNED) => continue,
                journal => journal?,
            };
            match journal.append_with(vec![Draft::new(Kind::ModelFailed, &body)], vec![closed]) {
                Err(error) if !error.is(glasshouse_log::codes::CELL_CONFLICT) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Questions<'_> {
    /// Asks for somebody else than the person at this machine.
    #[must_use]
    pub fn by(self, by: Principal) -> Self {
        Self { by, ..self }
    }

    /// What is wrong with the code of a plan that a model made.
    ///
    /// # Errors
    /// Those of the sandbox in which it is compiled.
    pub fn inspect(&self, plan: &Plan, profile: &Profile) -> Result<Vec<Issue>> {
        let cancel = glasshouse_sandbox::Cancel::new()?;
        Ok(self.kernel.coder.inspect(plan, profile, &cancel)?.issues)
    }

    /// Asks once; nothing is tried again.
    ///
    /// # Errors
    /// `policy_denied`; the provider's errors; the log's errors.
    pub async fn ask(
        &mut self,
        mut request: ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &Cancel,
    ) -> Result<Completion> {
        request.ordinal = self.ordinal;
        self.decide(&request)?;
        let started = Instant::now();
        let answer = self.stream(&request, sink, cancel).await;
        self.ordinal += 1;
        let kept = answer.map_err(Error::from).and_then(|completion| {
            let keeper = Keeper { masker: &self.masker, log: &self.kernel.log };
            let cost_micros = self.provider.cost_micros(&request.model, &completion.usage);
            let body =
                keeper.completed(completion.clone(), request.ordinal, elapsed_us(started))?;
            let told = as_kept(completion, &body);
            Ok((ModelCompleted { cost_micros, ..body }, told))
        });
        // Whatever came of it, the request has its one end.
        let draft = match &kept {
            Ok((body, _)) => Draft::new(Kind::ModelCompleted, body),
            Err(error) => {
                let message = self.masker.mask_str(&error.to_string());
                Draft::new(Kind::ModelFailed, &failed(request.ordinal, error.code(), message))
            }
        };
        self.journal.append_with(vec![draft], vec![closed(&self.journal.branch)])?;
        self.kernel.log.sign_head()?;
        Ok(kept?.1)
    }

    /// Asks, and tells of the answer's words without secrets. What comes of calls is told with the answer.
    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &Cancel,
    ) -> Result<Completion, glasshouse_provider::Error> {
        let (mut text, mut reasoning) = (self.masker.stream(), self.masker.stream());
        let mut masked = |delta: Delta| match delta {
            Delta::Text(more) => tell(sink, Delta::Text, &text.push(more.as_bytes())),
            Delta::Reasoning(more) => {
                tell(sink, Delta::Reasoning, &reasoning.push(more.as_bytes()));
            }
            _ => {}
        };
        let answer = self.provider.stream(request, &mut masked, cancel).await;
        tell(sink, Delta::Reasoning, &reasoning.finish());
        tell(sink, Delta::Text, &text.finish());
        answer
    }

    /// Masks a text that is made of an answer while it comes.
    pub(crate) fn masking(&self) -> MaskStream {
        self.masker.stream()
    }

    /// Masks the texts of a value that was made of an answer: an escape can hide a secret from whoever looks at
    /// the answer as it was written.
    pub(crate) fn mask_value(&self, value: &mut serde_json::Value) {
        super::answer::mask_texts(&self.masker, value);
    }

    fn decide(&self, request: &ModelRequest) -> Result<()> {
        let mut call = Call::new(name::MODEL_CALL, self.by.clone());
        call.session = Some(self.journal.session.clone());
        let decision = decide_uncounted(&self.policy, &call, Place::Kernel);
        let allowed = decision.is_allowed();
        let reasons = decision.why();
        let body = PolicyDecided::new(None, call, Some(request.model.clone()), decision);
        let mut drafts = vec![Draft::new(Kind::PolicyDecided, &body)];
        if allowed {
            let body = ModelRequested {
                ordinal: request.ordinal,
                attempt: 1,
                request: request.digest(),
                provider: self.provider.name().to_owned(),
                model: request.model.clone(),
                summary: false,
            };
            drafts.push(Draft::new(Kind::ModelRequested, &body));
        }
        if allowed {
            self.journal.append_with(drafts, vec![self.opened(request.ordinal)?])?;
            return Ok(());
        }
        let seq = self.journal.append(drafts)?;
        Err(self.journal.denied(seq, "the model may not be asked", reasons))
    }

    fn opened(&self, ordinal: u64) -> Result<CellWrite> {
        let open = Open { session: self.journal.session.clone(), ordinal };
        let bytes = serde_json::to_vec(&open)
            .map_err(|e| Error::new(codes::TURN_FAILED, "a request cannot be noted").why(e))?;
        Ok(CellWrite { bytes: Some(bytes), ..closed(&self.journal.branch) })
    }
}

fn tell(sink: &mut (dyn FnMut(Delta) + Send), delta: fn(String) -> Delta, bytes: &[u8]) {
    if !bytes.is_empty() {
        sink(delta(String::from_utf8_lossy(bytes).into_owned()));
    }
}

/// An answer as its event tells it: what a secret stood in goes no further than the log.
fn as_kept(completion: Completion, body: &ModelCompleted) -> Completion {
    let calls = completion.calls.into_iter().zip(&body.calls).map(|(call, kept)| ModelCall {
        id: kept.id.clone(),
        tool: kept.tool.clone(),
        // What an event has no room for is whole here.
        arguments: if kept.masked { kept.arguments.clone() } else { call.arguments },
    });
    Completion {
        calls: calls.collect(),
        text: body.text.clone(),
        reasoning: body.reasoning.clone(),
        carry: completion.carry.filter(|_| body.carry.is_some()),
        raw: Vec::new(),
        ..completion
    }
}

/// The cell of a branch without an open request.
fn closed(branch: &BranchId) -> CellWrite {
    CellWrite {
        space: OPEN_SPACE.to_owned(),
        key: branch.as_str().to_owned(),
        expected_version: None,
        bytes: None,
    }
}

/// The end of a request that is not tried again.
fn failed(ordinal: u64, code: &str, message: String) -> ModelFailed {
    ModelFailed {
        ordinal,
        attempt: 1,
        code: code.to_owned(),
        message,
        retry_in_ms: None,
        next_model: None,
        answered: true,
    }
}
