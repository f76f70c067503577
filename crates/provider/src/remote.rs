//! A model server asked over HTTP, in any dialect.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use hyper::HeaderMap;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, LOCATION,
    USER_AGENT,
};
use tokio::time::{Instant, timeout_at};

use crate::http::{self, Endpoint, Timeouts, Transport};
use crate::line::{Line, Lines};
use crate::peer::Peer;
use crate::retry_after::retry_after_ms;
use crate::wire::{self, Reader};
use crate::{
    Cancel, Completion, Delta, Dialect, Error, ModelRequest, Prices, Provider, Secret, TokenUsage,
    codes,
};

/// How much of an error's body is read, in bytes: reasons are short, the rest is decoration.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// Asks one server in one dialect.
///
/// ```
/// use glasshouse_provider::{Dialect, Provider, Remote};
/// let url = "http://127.0.0.1:11434/v1";
/// let local = Remote::builder(Dialect::Chat, url, "qwen3", None).build().unwrap();
/// assert_eq!(local.name(), "chat 127.0.0.1:11434");
/// assert!(Remote::builder(Dialect::Chat, "http://203.0.113.9/v1", "m", None).build().is_err());
/// ```
pub struct Remote {
    name: String,
    model: String,
    peer: Peer,
    transport: Transport,
    dialect: Dialect,
    line: Arc<Line>,
    prices: Arc<Prices>,
}

/// Sets an [`Remote`] up.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    dialect: Dialect,
    base_url: String,
    model: String,
    key: Option<Secret>,
    timeouts: Timeouts,
    allow_public_plain_http: bool,
    roots_pem: Vec<String>,
    lines: Lines,
    prices: Arc<Prices>,
}

impl Builder {
    /// Shares the line to the endpoint with every provider of the same `lines`: one gate and one
    /// breaker for all sessions of a process.
    pub fn lines(mut self, lines: &Lines) -> Self {
        self.lines = lines.clone();
        self
    }

    /// Sets what tokens cost.
    pub fn prices(mut self, prices: Arc<Prices>) -> Self {
        self.prices = prices;
        self
    }

    /// Replaces the time limits.
    pub const fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Allows `http://` to public addresses. The key and every prompt then travel readable.
    pub const fn allow_public_plain_http(mut self, allow: bool) -> Self {
        self.allow_public_plain_http = allow;
        self
    }

    /// Trusts the certificates of a PEM text besides the public authorities, for servers with a
    /// private authority. May be called more than once.
    pub fn trust_pem(mut self, pem: impl Into<String>) -> Self {
        self.roots_pem.push(pem.into());
        self
    }

    /// Checks everything and makes the provider; nothing is sent yet.
    ///
    /// # Errors
    /// `provider_config` for a bad base URL or certificate, `provider_insecure` for `http://` to a
    /// public address.
    pub fn build(self) -> Result<Remote, Error> {
        let endpoint = Endpoint::parse(&self.base_url, self.dialect.known_operation())?;
        if !endpoint.secure && !self.allow_public_plain_http && endpoint.is_public_literal() {
            return Err(endpoint.insecure());
        }
        let line = self.lines.to(&endpoint.authority);
        Ok(Remote {
            name: format!("{} {}", self.dialect.name(), endpoint.authority),
            model: self.model,
            peer: Peer::new(endpoint.authority.clone(), self.key),
            transport: Transport::new(
                endpoint,
                &self.roots_pem,
                self.timeouts,
                self.allow_public_plain_http,
            )?,
            dialect: self.dialect,
            line,
            prices: self.prices,
        })
    }
}

impl Remote {
    /// Starts the set-up. `base_url` usually ends in the version (`/v1`); `model` is what
    /// [`Self::model`] answers; local servers need no key.
    pub fn builder(
        dialect: Dialect,
        base_url: impl Into<String>,
        model: impl Into<String>,
        key: impl Into<Option<Secret>>,
    ) -> Builder {
        Builder {
            dialect,
            base_url: base_url.into(),
            model: model.into(),
            key: key.into(),
            timeouts: Timeouts::default(),
            allow_public_plain_http: false,
            roots_pem: Vec::new(),
            lines: Lines::default(),
            prices: Arc::default(),
        }
    }

    /// The model that sessions ask for unless told otherwise; a request names its own.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        let host = HeaderValue::from_str(&self.transport.endpoint().authority).map_err(|_| {
            Error::new(codes::PROVIDER_CONFIG, "the request's headers cannot be written")
                .why("the host holds a character that a header cannot")
        })?;
        headers.insert(HOST, host);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let agent = concat!("glasshouse/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        self.dialect.announce(&mut headers);
        if let Some(key) = self.peer.key() {
            self.dialect.authorize(&mut headers, key)?;
        }
        Ok(headers)
    }

    /// Asks when it is this request's turn. What is wrong with the request itself, and what time it
    /// waits for its turn, say nothing of the endpoint: the line learns only of what was tried.
    async fn ask_in_line(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Completion, Error> {
        let message = Outgoing {
            body: self.dialect.body(request, &self.transport.endpoint().host)?,
            operation: self.dialect.operation(&request.model)?,
            headers: self.headers()?,
        };
        let total_ms = self.transport.timeouts().total_ms;
        let by = Instant::now() + Duration::from_millis(total_ms);
        let late = |what: &str| self.transport.timed_out(what, total_ms);
        let _place = timeout_at(by, self.line.enter(&self.name))
            .await
            .map_err(|_| late("no other request ended"))??;
        let answer = timeout_at(by, self.ask(&request.model, message, sink))
            .await
            .unwrap_or_else(|_| Err(late("the answer was not whole")));
        self.line.ended(&answer);
        answer
    }

    async fn ask(
        &self,
        model: &str,
        message: Outgoing,
        sink: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Completion, Error> {
        let Outgoing { operation, headers, body } = message;
        let mut response = self.transport.post(&operation, headers, body).await?;
        if response.status != 200 {
            return Err(self.error_of(response).await);
        }
        self.check_form(&response.headers)?;
        let mut reader = Reader::new(self.dialect, model, self.peer.clone());
        while !reader.is_done() {
            match self.transport.next_piece(&mut response).await? {
                Some(piece) => reader.push(&piece, sink)?,
                None => break,
            }
        }
        reader.finish(sink)
    }

    /// Refuses what the reader could only misunderstand: web pages and compressed bodies.
    fn check_form(&self, headers: &HeaderMap) -> Result<(), Error> {
        let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let refuse = |why: String| {
            Err(Error::new(
                codes::PROVIDER_INVALID_RESPONSE,
                format!("the answer of {} cannot be used", self.peer.name()),
            )
            .why(why))
        };
        if let Some(coding) = text(CONTENT_ENCODING).filter(|c| !c.eq_ignore_ascii_case("identity"))
        {
            let coding = self.peer.quote(&coding);
            return refuse(format!("it is compressed (`{coding}`) although that was ruled out"));
        }
        let Some(kind) = text(CONTENT_TYPE) else { return Ok(()) };
        let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "" | "text/event-stream" | "application/json" | "application/x-ndjson" => Ok(()),
            _ => refuse(format!(
                "its content type is `{}`, not text/event-stream or application/json",
                self.peer.quote(&kind)
            )),
        }
    }

    /// The error that a response other than 200 stands for.
    async fn error_of(&self, mut response: http::Response) -> Error {
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BODY_BYTES {
            // The status has decided already; a body that breaks only shortens the reason.
            let Ok(Some(piece)) = self.transport.next_piece(&mut response).await else { break };
            let room = MAX_ERROR_BODY_BYTES - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        let now_unix_s =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let wait_ms = retry_after_ms(&response.headers, now_unix_s);
        let error = wire::from_status(&self.peer, response.status, wait_ms, &body);
        match response.headers.get(LOCATION).filter(|_| error.is(codes::PROVIDER_REDIRECTED)) {
            Some(location) => {
                let location = String::from_utf8_lossy(location.as_bytes());
                // What follows a `?` may be a credential of somebody.
                let place = location.split(['?', '#']).next().unwrap_or_default();
                error.why(format!("it points to {}", self.peer.quote(place)))
            }
            None => error,
        }
    }
}

/// A request in the words of its dialect.
struct Outgoing {
    operation: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("name", &self.name)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Provider for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn cost_micros(&self, model: &str, usage: &TokenUsage) -> Option<u64> {
        self.prices.cost_micros(model, usage)
    }

    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Completion, Error>> {
        Box::pin(cancel.or_cancelled(&self.name, self.ask_in_line(request, sink)))
    }
}
