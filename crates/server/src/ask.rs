//! A request as handlers see it: who asks, the parts of the path, and typed access to the rest.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::extract::Query;
use glasshouse_kernel::driver::{TenantRow, access_session, real_path};
use glasshouse_log::own_session;
use glasshouse_model::body::NamedRequest;
use glasshouse_model::{Digest, Principal, SessionId, TenantId};
use glasshouse_plan::ProfileName;
use hyper::header::{HeaderMap, IF_MATCH, IF_NONE_MATCH};
use hyper::{Method, Uri};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::body;
use crate::caller::Caller;
use crate::quota::Exhausted;
use crate::reply::is_json;
use crate::rights::{HOST, MANAGE, PROVE, Rights};
use crate::route::Route;
use crate::shared::Shared;
use crate::{Error, Result, codes};

/// Header with the name of a request.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest name.
const MAX_KEY_BYTES: usize = 128;

/// One request.
pub(crate) struct Ask {
    /// Who asks; `None` on the few routes that are open.
    pub(crate) caller: Option<Caller>,
    /// What the caller's tenant may do.
    pub(crate) tenant: Arc<TenantRow>,
    /// All tenants, for those who may see them.
    pub(crate) shared: Option<Arc<Shared>>,
    /// The route that it is on.
    pub(crate) route: &'static Route,
    /// Parts of the path by name.
    pub(crate) parts: BTreeMap<String, String>,
    /// The address.
    pub(crate) uri: Uri,
    /// Headers.
    pub(crate) headers: HeaderMap,
    /// Body.
    pub(crate) body: Bytes,
    /// The method.
    pub(crate) method: Method,
    /// Ends when its client leaves.
    pub(crate) leaving: Leaving,
    /// What a handler refused and the tenant's log is to be told of.
    pub(crate) refusal: OnceLock<Refusal>,
}

/// A refusal that the log is told of.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The caller has none of these rights.
    Role(Rights),
    /// A quota is used up.
    Quota(Exhausted),
}

/// Whether a client still waits for its answer.
#[derive(Debug, Clone)]
pub(crate) struct Leaving(watch::Receiver<()>);

impl Leaving {
    /// The client's side, which is dropped when it leaves, and the handler's.
    pub(crate) fn new() -> (watch::Sender<()>, Self) {
        let (here, seen) = watch::channel(());
        (here, Self(seen))
    }

    /// Waits until the client has left.
    pub(crate) async fn left(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

/// A request that cannot be understood.
pub(crate) fn invalid(what: impl Into<String>) -> Error {
    Error::new(codes::REQUEST_INVALID, what)
}

impl Ask {
    /// As whom the caller acts.
    ///
    /// # Errors
    /// `unauthorized` on a route that is open.
    pub(crate) fn principal(&self) -> Result<&Principal> {
        let caller = self.caller.as_ref().map(Caller::principal);
        caller.ok_or_else(|| Error::new(codes::UNAUTHORIZED, "the request names nobody"))
    }

    /// A part of the path. What cannot be an id is not there: who asks learns no more than that.
    ///
    /// # Errors
    /// `missing`, as for one that does not exist.
    pub(crate) fn part<T: FromStr>(&self, name: &str, missing: fn(&str) -> Error) -> Result<T> {
        let text = self.parts.get(name).map_or("", String::as_str);
        text.parse().map_err(|_| missing(text))
    }

    /// The session of the path.
    ///
    /// # Errors
    /// `session_not_found`.
    pub(crate) fn session(&self) -> Result<SessionId> {
        let session = self.part("session", no_session)?;
        self.check_session(&session)?;
        Ok(session)
    }

    /// Refuses a session of the log itself: what it tells of keys and tenants is not for everybody who sees
    /// sessions, and nobody adds to it. Who may not see it learns nothing.
    ///
    /// # Errors
    /// `session_not_found`; `request_invalid` for anything but a look.
    pub(crate) fn check_session(&self, session: &SessionId) -> Result<()> {
        let is_access = *session == access_session();
        if !is_access && *session != own_session() {
            return Ok(());
        }
        // The installation's tells of every tenant.
        let of_all = is_access && self.tenant.tenant == TenantId::local();
        let needed = if of_all { HOST } else { MANAGE.or(PROVE) };
        if !self.has_one_of(needed) {
            return Err(no_session(session.as_str()));
        }
        if self.method != Method::GET {
            return Err(invalid(format!("session {session} cannot be used"))
                .why("it is the log's own, which alone writes it"));
        }
        Ok(())
    }

    /// Whether the caller has one of some rights.
    pub(crate) fn has_one_of(&self, needed: Rights) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.rights.has_one_of(needed))
    }

    /// Refuses a caller without one of some rights, where a route needs other ones for other things. The
    /// tenant's log is told.
    ///
    /// # Errors
    /// `role_forbidden`.
    pub(crate) fn check_rights(&self, needed: Rights) -> Result<()> {
        if self.has_one_of(needed) {
            return Ok(());
        }
        let _ = self.refusal.set(Refusal::Role(needed));
        Err(Error::new(codes::ROLE_FORBIDDEN, "this is not open to the caller"))
    }

    /// The refusal of what a quota has no room for. The tenant's log is told.
    pub(crate) fn exhausted(&self, exhausted: Exhausted) -> Error {
        let error = exhausted.error();
        let _ = self.refusal.set(Refusal::Quota(exhausted));
        error
    }

    /// The directory of a project that the caller may name: any one, for the installation itself; one below
    /// its own directories, for a tenant.
    ///
    /// # Errors
    /// `request_invalid` for a path that is not absolute; `tenant_restricted`, whether there is such a directory
    /// or not.
    pub(crate) fn project(&self, project: PathBuf) -> Result<PathBuf> {
        if !project.is_absolute() {
            return Err(invalid("the project cannot be used").why("its path is not absolute"));
        }
        if self.tenant.tenant == TenantId::local() {
            return Ok(project);
        }
        let is_below = |path: &Path| {
            let is_plain = path.components().all(|part| !matches!(part, Component::ParentDir));
            is_plain && self.tenant.roots.iter().any(|root| path.starts_with(root))
        };
        // Before anything is looked up on the disk: who asks learns nothing of what lies elsewhere.
        if is_below(&project) {
            let real = real_path(&project);
            if is_below(&real) {
                return Ok(real);
            }
        }
        Err(Error::new(codes::TENANT_RESTRICTED, "the project cannot be used")
            .why("it does not lie below a directory of the tenant"))
    }

    /// The profile for plans: the one that was asked for, unless the tenant's is more careful.
    ///
    /// # Errors
    /// `tenant_restricted`.
    pub(crate) fn profile(&self, asked: ProfileName) -> Result<ProfileName> {
        let most = self.tenant.profile.as_ref().and_then(|profile| profile.parse().ok());
        match most {
            Some(most) if asked > most => {
                Err(Error::new(codes::TENANT_RESTRICTED, "the plan cannot be shown so")
                    .why(format!("the tenant's plans are shown under `{most}` at most")))
            }
            _ => Ok(asked),
        }
    }

    /// Refuses what only whoever runs the server chooses.
    ///
    /// # Errors
    /// `tenant_restricted`.
    pub(crate) fn check_host(&self, what: &str) -> Result<()> {
        if self.has_one_of(HOST) {
            return Ok(());
        }
        Err(Error::new(codes::TENANT_RESTRICTED, format!("`{what}` cannot be chosen"))
            .why("the server's own keys would go wherever a client says"))
    }

    /// The query, which has no keys but those of the type.
    ///
    /// # Errors
    /// `request_invalid`.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T> {
        let Query(query) = Query::try_from_uri(&self.uri)
            .map_err(|e| invalid("the query cannot be used").why(causes(&e)))?;
        Ok(query)
    }

    /// The body as a JSON object, which has no members but those of the type, and none twice.
    ///
    /// # Errors
    /// `media_unsupported`, `request_invalid`.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        // A page of another site can send a body of any other type without being asked.
        if !is_json(&self.headers) {
            return Err(Error::new(codes::MEDIA_UNSUPPORTED, "the body is not said to be JSON"));
        }
        body::read(&self.body).map_err(|e| {
            let why = e.to_string();
            let is_deep = why.starts_with("recursion limit exceeded");
            invalid("the body cannot be used")
                .why(if is_deep { "it nests too deeply".to_owned() } else { why })
                .with("line", e.line())
                .with("column", e.column())
        })
    }

    /// As [`Ask::json`]; no body at all is the empty object.
    ///
    /// # Errors
    /// As [`Ask::json`].
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T> {
        if self.body.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// A header as text.
    pub(crate) fn header(&self, name: impl hyper::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// What the client has already.
    pub(crate) fn if_none_match(&self) -> Option<&str> {
        self.header(IF_NONE_MATCH)
    }

    /// Refuses a name and a condition that the route does not look at: who sends one relies on it.
    ///
    /// # Errors
    /// `request_invalid`.
    pub(crate) fn check_heard(&self) -> Result<()> {
        let is_unheard = |name: &str| self.headers.contains_key(name) && !self.route.knows(name);
        if self.method == Method::POST && is_unheard(IDEMPOTENCY_KEY) {
            return Err(invalid("an Idempotency-Key is of no use here")
                .why("this request is done as often as it is sent")
                .fix(
                    "leave the key out, and look what is there before you send the request again",
                ));
        }
        if self.method != Method::GET && is_unheard(IF_MATCH.as_str()) {
            return Err(invalid("an If-Match is of no use here")
                .why("what the request changes has no entity tag")
                .fix(
                    "leave the condition out, and look what is there before you send the request",
                ));
        }
        Ok(())
    }

    /// The request's name, where its sender gave it one: the same one is done once.
    ///
    /// # Errors
    /// `request_invalid`.
    pub(crate) fn named(&self) -> Result<Option<NamedRequest>> {
        let Some(value) = self.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
        let key = value.to_str().unwrap_or_default();
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(invalid("the Idempotency-Key cannot be used")
                .why(format!("it is 1 to {MAX_KEY_BYTES} visible ASCII characters")));
        }
        let digest = Digest::of_parts(&[self.uri.path().as_bytes(), b"\0", &self.body]);
        Ok(Some(NamedRequest { key: key.to_owned(), digest }))
    }

    /// Whether the sender says what it knew.
    pub(crate) fn is_conditional(&self) -> bool {
        self.headers.contains_key(IF_MATCH)
    }

    /// Holds the request to what its sender knew.
    ///
    /// # Errors
    /// `precondition_failed`.
    pub(crate) fn check_match(&self, tag: &str) -> Result<()> {
        let quoted = format!("\"{tag}\"");
        // A tag that is no ASCII is none of ours, but its sender did set a condition.
        let lines =
            self.headers.get_all(IF_MATCH).iter().map(|line| line.to_str().unwrap_or_default());
        let mut wanted = lines.flat_map(|line| line.split(',')).map(str::trim).peekable();
        if wanted.peek().is_none() || wanted.any(|one| one == quoted || one == "*") {
            return Ok(());
        }
        Err(changed().why(format!("its entity tag is {quoted}")))
    }
}

/// What a request is refused with whose sender knew something else.
pub(crate) fn changed() -> Error {
    Error::new(codes::PRECONDITION_FAILED, "it has changed")
}

/// A session that is not there, or not the caller's: both in the same words.
pub(crate) fn no_session(text: &str) -> Error {
    Error::new(glasshouse_kernel::codes::SESSION_NOT_FOUND, format!("there is no session {text}"))
}

/// An error with what led to it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
