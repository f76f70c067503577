//! Any server that speaks Chat Completions over HTTP.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use hyper::HeaderMap;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue,
    LOCATION, USER_AGENT,
};
use tokio::time::timeout;

use crate::chat::{self, Answer, OutputLimit};
use crate::http::{self, Endpoint, Timeouts, Transport};
use crate::peer::Peer;
use crate::retry_after::retry_after_ms;
use crate::{Cancel, Completion, Delta, Error, ModelRequest, Provider, Secret, codes};

/// How much of an error's body is read, in bytes: reasons are short, the rest is decoration.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// The host whose models know only the newer name of the output limit.
const OPENAI_HOST: &str = "api.openai.com";

/// Asks a Chat Completions server: OpenAI itself, or Ollama, LM Studio, llama.cpp, vLLM and others.
///
/// ```
/// use glasshouse_provider::{OpenAiCompatible, Provider};
/// let local = OpenAiCompatible::builder("http://127.0.0.1:11434/v1", "qwen3", None).build().unwrap();
/// assert_eq!(local.name(), "openai-compatible 127.0.0.1:11434");
/// assert!(OpenAiCompatible::builder("http://203.0.113.9/v1", "m", None).build().is_err());
/// ```
pub struct OpenAiCompatible {
    name: String,
    model: String,
    peer: Peer,
    transport: Transport,
    output_limit: OutputLimit,
}

/// Sets an [`OpenAiCompatible`] up.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    base_url: String,
    model: String,
    key: Option<Secret>,
    timeouts: Timeouts,
    allow_public_plain_http: bool,
    roots_pem: Vec<String>,
}

impl Builder {
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
    pub fn build(self) -> Result<OpenAiCompatible, Error> {
        let endpoint = Endpoint::parse(&self.base_url)?;
        if !endpoint.secure && !self.allow_public_plain_http && endpoint.is_public_literal() {
            return Err(endpoint.insecure());
        }
        let output_limit = if endpoint.host == OPENAI_HOST {
            OutputLimit::MaxCompletionTokens
        } else {
            OutputLimit::MaxTokens
        };
        Ok(OpenAiCompatible {
            name: format!("openai-compatible {}", endpoint.authority),
            model: self.model,
            peer: Peer::new(endpoint.authority.clone(), self.key),
            transport: Transport::new(
                endpoint,
                &self.roots_pem,
                self.timeouts,
                self.allow_public_plain_http,
            )?,
            output_limit,
        })
    }
}

impl OpenAiCompatible {
    /// Starts the set-up. `base_url` usually ends in `/v1`; `model` is what [`Self::model`]
    /// answers; local servers need no key.
    pub fn builder(
        base_url: impl Into<String>,
        model: impl Into<String>,
        key: impl Into<Option<Secret>>,
    ) -> Builder {
        Builder {
            base_url: base_url.into(),
            model: model.into(),
            key: key.into(),
            timeouts: Timeouts::default(),
            allow_public_plain_http: false,
            roots_pem: Vec::new(),
        }
    }

    /// The model that sessions ask for unless told otherwise; a request names its own.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    fn headers(&self) -> Result<HeaderMap, Error> {
        let unusable = |_| {
            Error::new(codes::PROVIDER_CONFIG, "the request's headers cannot be written")
                .why("the host or the key holds a character that a header cannot")
        };
        let mut headers = HeaderMap::new();
        let host = HeaderValue::from_str(&self.transport.endpoint().authority).map_err(unusable)?;
        headers.insert(HOST, host);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let agent = concat!("glasshouse/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if let Some(key) = self.peer.key() {
            let bearer = zeroize::Zeroizing::new(format!("Bearer {}", key.expose()));
            let mut value = HeaderValue::from_str(&bearer).map_err(unusable)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Completion, Error> {
        let body = chat::request_body(request, self.output_limit)?;
        let mut response = self.transport.post(self.headers()?, body).await?;
        if response.status != 200 {
            return Err(self.error_of(response).await);
        }
        self.check_form(&response.headers)?;
        let mut answer = Answer::new(self.peer.clone());
        while !answer.is_done() {
            match self.transport.next_piece(&mut response).await? {
                Some(piece) => answer.push(&piece, sink)?,
                None => break,
            }
        }
        answer.finish(sink)
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
            "" | "text/event-stream" | "application/json" => Ok(()),
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
        let error = chat::from_status(&self.peer, response.status, wait_ms, &body);
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

impl std::fmt::Debug for OpenAiCompatible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAiCompatible")
            .field("name", &self.name)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Provider for OpenAiCompatible {
    fn name(&self) -> &str {
        &self.name
    }

    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Completion, Error>> {
        Box::pin(async move {
            let total_ms = self.transport.timeouts().total_ms;
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(crate::cancelled(&self.name)),
                answer = timeout(Duration::from_millis(total_ms), self.ask(request, sink)) => {
                    answer.unwrap_or_else(|_| {
                        Err(self.transport.timed_out("the answer was not whole", total_ms))
                    })
                }
            }
        })
    }
}
