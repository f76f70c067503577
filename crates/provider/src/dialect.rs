//! The dialects: what differs between them, in one table.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::chat::{self, OutputLimit};
use crate::peer::Peer;
use crate::wire::{Fold, Reader};
use crate::{Completion, Error, ModelRequest, Secret, anthropic, codes, google, ollama, responses};

/// The host whose models know only the newer name of the output limit.
const OPENAI_HOST: &str = "api.openai.com";
/// The version of Anthropic's protocol that is spoken here.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A language that model servers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// OpenAI's Chat Completions, and every server compatible with them.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's generateContent.
    Google,
    /// Ollama's own.
    Ollama,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Chat, Self::Responses, Self::Anthropic, Self::Google, Self::Ollama];

    /// Its name in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Google => "google",
            Self::Ollama => "ollama",
        }
    }

    /// Path of a request below the base URL.
    pub(crate) fn operation(self, model: &str) -> Result<String, Error> {
        Ok(match self {
            Self::Chat => "/chat/completions".to_owned(),
            Self::Responses => "/responses".to_owned(),
            Self::Anthropic => "/messages".to_owned(),
            Self::Google => google::operation(model)?,
            Self::Ollama => "/api/chat".to_owned(),
        })
    }

    /// Paths that people copy together with a base URL; they are taken off again.
    pub(crate) const fn known_operation(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Anthropic => "/messages",
            Self::Google => "/models",
            Self::Ollama => "/api/chat",
        }
    }

    /// Puts the key where the dialect wants it.
    pub(crate) fn authorize(self, headers: &mut HeaderMap, key: &Secret) -> Result<(), Error> {
        let (name, text) = match self {
            Self::Chat | Self::Responses | Self::Ollama => {
                (AUTHORIZATION, Zeroizing::new(format!("Bearer {}", key.expose())))
            }
            Self::Anthropic => {
                (HeaderName::from_static("x-api-key"), Zeroizing::new(key.expose().to_owned()))
            }
            Self::Google => {
                (HeaderName::from_static("x-goog-api-key"), Zeroizing::new(key.expose().to_owned()))
            }
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            Error::new(codes::PROVIDER_CONFIG, "the request's headers cannot be written")
                .why("the key holds a character that a header cannot")
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    }

    /// Puts in what every request of the dialect says beside the key.
    pub(crate) fn announce(self, headers: &mut HeaderMap) {
        if self == Self::Anthropic {
            let version = HeaderValue::from_static(ANTHROPIC_VERSION);
            headers.insert(HeaderName::from_static("anthropic-version"), version);
        }
    }

    /// The JSON body of a request to a host.
    pub(crate) fn body(self, request: &ModelRequest, host: &str) -> Result<Vec<u8>, Error> {
        match self {
            Self::Chat => {
                let limit = if host == OPENAI_HOST {
                    OutputLimit::MaxCompletionTokens
                } else {
                    OutputLimit::MaxTokens
                };
                chat::request_body(request, limit)
            }
            Self::Responses => responses::request_body(request),
            Self::Anthropic => anthropic::request_body(request),
            Self::Google => google::request_body(request),
            Self::Ollama => ollama::request_body(request),
        }
    }

    /// What adds an answer up.
    pub(crate) fn fold(self) -> Box<dyn Fold> {
        match self {
            Self::Chat => Box::new(chat::Answer::default()),
            Self::Responses => Box::new(responses::Answer::default()),
            Self::Anthropic => Box::new(anthropic::Answer::default()),
            Self::Google => Box::new(google::Answer::default()),
            Self::Ollama => Box::new(ollama::Answer::default()),
        }
    }

    /// Whether a body is a JSON object a line.
    pub(crate) const fn is_lines(self) -> bool {
        matches!(self, Self::Ollama)
    }
}

/// Makes the completion of a recorded response body: the same reader that ran while it streamed,
/// so equal bytes give an equal value whatever pieces they came in. `model` is the one that was
/// asked.
///
/// # Errors
/// `stream_cut` when the body stops before its end, `provider_invalid_response` when it is not
/// what the protocol allows, `provider_response_too_large` over a size limit, and the error that
/// the body itself reports.
///
/// ```
/// use glasshouse_provider::{Dialect, Finish, parse_completion};
/// let raw = b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n\
///             data: [DONE]\n\n";
/// let completion = parse_completion(Dialect::Chat, "m", raw).unwrap();
/// assert_eq!((completion.text.as_str(), completion.finish), ("Hi", Finish::Stop));
/// let cut = parse_completion(Dialect::Chat, "m", &raw[..20]).unwrap_err();
/// assert!(cut.is(glasshouse_provider::codes::STREAM_CUT));
/// ```
pub fn parse_completion(dialect: Dialect, model: &str, raw: &[u8]) -> Result<Completion, Error> {
    parse_pieces(dialect, model, std::iter::once(raw))
}

/// As [`parse_completion`], of a body in pieces.
///
/// # Errors
/// As [`parse_completion`].
pub fn parse_pieces<'a>(
    dialect: Dialect,
    model: &str,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Completion, Error> {
    let mut reader = Reader::new(dialect, model, Peer::new("the recorded answer", None));
    for piece in pieces {
        reader.push(piece, &mut |_| {})?;
    }
    reader.finish(&mut |_| {})
}
