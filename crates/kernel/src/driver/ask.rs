//! A question to a model by a person, outside any agent's session: decided and recorded like one of
//! an agent.

use std::path::Path;
use std::time::Instant;

use glasshouse_model::body::{ModelCompleted, ModelFailed, ModelRequested, PolicyDecided};
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Draft, Kind};
use glasshouse_policy::Policy;
use glasshouse_provider::{Cancel, Completion, Delta, ModelRequest, Provider, Secret};
use glasshouse_tools::sanitise::Masker;

use super::answer::Keeper;
use super::decide::decide_uncounted;
use super::journal::{Journal, local_user};
use super::model::elapsed_us;
use super::{Kernel, rules};
use crate::{Error, Result, codes};

/// Questions of one person to one provider, in a session of their own.
pub struct Questions<'a> {
    journal: Journal<'a>,
    policy: Policy,
    masker: Masker,
    kernel: &'a Kernel,
    provider: &'a dyn Provider,
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
        let own = self.project_policy(project)?;
        let policy = self.compile(&rules::project_texts(own.as_ref()))?;
        let secrets = secrets.iter().map(|(name, secret)| {
            glasshouse_tools::sanitise::Secret::new(name, secret.expose().as_bytes())
        });
        let masker = Masker::new(&secrets.collect::<std::result::Result<Vec<_>, _>>()?, &[])?;
        let journal = Journal::open(self)?;
        Ok(Questions { journal, policy, masker, kernel: self, provider, ordinal: 0 })
    }
}

impl Questions<'_> {
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
        let answer = self.provider.stream(&request, sink, cancel).await;
        self.ordinal += 1;
        let kept = answer.map_err(Error::from).and_then(|completion| {
            let keeper = Keeper { masker: &self.masker, log: &self.kernel.log };
            let cost_micros = self.provider.cost_micros(&request.model, &completion.usage);
            let body =
                keeper.completed(completion.clone(), request.ordinal, elapsed_us(started))?;
            Ok((ModelCompleted { cost_micros, ..body }, completion))
        });
        // Whatever came of it, the request has its one end.
        let draft = match &kept {
            Ok((body, _)) => Draft::new(Kind::ModelCompleted, body),
            Err(error) => Draft::new(
                Kind::ModelFailed,
                &ModelFailed {
                    ordinal: request.ordinal,
                    attempt: 1,
                    code: error.code().to_owned(),
                    message: self.masker.mask_str(&error.to_string()),
                    retry_in_ms: None,
                    next_model: None,
                    answered: true,
                },
            ),
        };
        self.journal.append(vec![draft])?;
        self.kernel.log.sign_head()?;
        Ok(kept?.1)
    }

    fn decide(&self, request: &ModelRequest) -> Result<()> {
        let mut call = Call::new(name::MODEL_CALL, local_user());
        call.session = Some(self.journal.session.clone());
        let decision = decide_uncounted(&self.policy, &call);
        let allowed = decision.is_allowed();
        let reasons = decision.reasons.join("; ");
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
        self.journal.append(drafts)?;
        if allowed {
            return Ok(());
        }
        Err(Error::new(codes::POLICY_DENIED, "the model may not be asked").why(reasons))
    }
}
