//! Sessions that are started for clients, each once where its request has a name.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use glasshouse_kernel::{Config, Elsewhere, NewSession};
use glasshouse_model::body::NamedRequest;
use glasshouse_model::{Digest, Principal, SessionId};

use super::{ANSWER_WITHIN, Ahead, Desk, Done, reused};
use crate::Result;
use crate::models::{Connected, Wanted};

/// In front of the key from which a session's id is made.
const SESSION_TAG: &[u8] = b"glasshouse/session-request/v1\0";
/// Ids that are tried for a named request.
const ATTEMPTS: u8 = 8;

/// A session to start.
pub(crate) struct New {
    /// What its creator says; the rest comes from files.
    pub(crate) config: Config,
    /// Scenario of the scripted provider.
    pub(crate) scenario: Option<Vec<u8>>,
    /// The request, where its sender named it.
    pub(crate) request: Option<NamedRequest>,
    /// Who asks.
    pub(crate) by: Principal,
}

impl Desk {
    /// Starts a session; durable when it returns. Its lease is given back, so that anybody may work on it.
    /// A named request gets an id that follows from its name, so a repeated one finds what it made.
    ///
    /// # Errors
    /// `key_reused`; as `room`, which is asked where one is made; as [`Kernel::start`](glasshouse_kernel::Kernel::start) and [`Models`](crate::models::Models).
    pub(crate) fn create(
        &self,
        project: &Path,
        new: New,
        room: impl FnOnce(Ahead) -> Result<()>,
    ) -> Result<Done<SessionId>> {
        let Some(request) = new.request.clone() else {
            room(self.ahead())?;
            return self.found(project, new, None).map(Done::Now);
        };
        let _founding = self.founding.lock().unwrap_or_else(PoisonError::into_inner);
        for attempt in 0..ATTEMPTS {
            let id = session_of(&request.key, attempt);
            let rows = self.kernel.log().branches(&id)?;
            let Some(main) = rows.iter().find(|row| row.fork.is_none()) else {
                room(self.ahead())?;
                return self.found(project, new, Some((id, request))).map(Done::Now);
            };
            let created = self.kernel.state_of(&main.branch)?.created;
            match created.and_then(|created| created.request) {
                Some(known) if known == request => return Ok(Done::Before(id)),
                Some(known) if known.key == request.key => return Err(reused(&request)),
                // A server that was killed left an empty one, or an id of another name.
                _ => {}
            }
        }
        Err(reused(&request).why("as many of its sessions were never finished as are looked at"))
    }

    fn found(
        &self,
        project: &Path,
        new: New,
        request: Option<(SessionId, NamedRequest)>,
    ) -> Result<SessionId> {
        let New { config, scenario, by, .. } = new;
        let settings = self.settings(config, project)?;
        let Connected { provider, secrets, .. } = self.model(Wanted {
            provider: settings.config.provider.as_deref(),
            base_url: settings.config.base_url.as_deref(),
            model: settings.config.model.as_deref(),
            scenario: scenario.as_deref(),
            own_server: settings.own_server,
        })?;
        let new = NewSession {
            project: project.to_owned(),
            config: settings.config,
            provider,
            reviewer: Arc::new(Elsewhere { limit: ANSWER_WITHIN }),
            observer: Arc::new(()),
            scenario,
            own_server: settings.own_server,
            secrets,
            request,
            by: Some(by),
        };
        // Nobody waits here for an answer about its mode.
        let session = self.runtime.block_on(self.kernel.found(new))?;
        Ok(session.id().clone())
    }
}

/// The id that the session of a named request gets.
fn session_of(key: &str, attempt: u8) -> SessionId {
    let digest = Digest::of_parts(&[SESSION_TAG, &[attempt], key.as_bytes()]);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    SessionId::from_random(bytes)
}
