//! What a model answers, in one form for every provider.

use serde::{Deserialize, Serialize};

use crate::{Carry, Error, ModelCall, codes};

/// A piece of an answer while it streams. Pieces are for showing; what counts is the
/// [`Completion`], and when that does not come the pieces are void.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta {
    /// More of the answer's words.
    Text(String),
    /// More of what the model thinks aloud; never part of the answer's text.
    Reasoning(String),
    /// A call begins.
    CallStarted {
        /// Position among the completion's calls.
        index: usize,
        /// Its id.
        id: String,
        /// Tool name.
        tool: String,
    },
    /// More of a call's argument text.
    CallArguments {
        /// Position among the completion's calls.
        index: usize,
        /// The next piece.
        fragment: String,
    },
    /// Token counts so far; the last one stands.
    Usage(TokenUsage),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The words; may be empty.
    pub text: String,
    /// What the model thought aloud, as far as its provider shows it.
    pub reasoning: String,
    /// The calls to make, in order; empty unless `finish` is [`Finish::ToolCalls`], because an
    /// answer that was stopped runs nothing.
    pub calls: Vec<ModelCall>,
    /// Token counts; all zero when the server gave none.
    pub usage: TokenUsage,
    /// Why it ended.
    pub finish: Finish,
    /// What the provider wants back unchanged with the next request.
    pub carry: Option<Carry>,
    /// Every byte of the response body; [`parse_completion`](crate::parse_completion) makes this
    /// same value of it.
    pub raw: Vec<u8>,
}

impl Completion {
    /// The error that an answer amounts to when the model or a filter said no; `None` for the
    /// other ends.
    #[must_use]
    pub fn refused(&self) -> Option<Error> {
        let code = match self.finish {
            Finish::Refusal => codes::REFUSAL,
            Finish::ContentFilter => codes::CONTENT_FILTER,
            Finish::Stop | Finish::ToolCalls | Finish::Length | Finish::Paused => return None,
        };
        Some(
            Error::new(code, "the model did not do what it was asked")
                .why(crate::peer::excerpt(&self.text)),
        )
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model is done and waits for nothing.
    Stop,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The output limit cut it.
    Length,
    /// The model declined; the text says why.
    Refusal,
    /// A filter of the provider cut it.
    ContentFilter,
    /// The provider paused in the middle of work with tools of its own.
    Paused,
}

/// Token counts with one meaning for every provider: `input_uncached`, `cache_read` and
/// `cache_write` are disjoint and sum to the whole input; `output` is the whole output and
/// `reasoning` a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Input tokens that no cache held.
    pub input_uncached: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
}

impl TokenUsage {
    /// All tokens of the request and its answer, saturating.
    ///
    /// ```
    /// use glasshouse_provider::TokenUsage;
    /// let usage = TokenUsage { input_uncached: 10, cache_read: 90, output: 7, reasoning: 5, ..TokenUsage::default() };
    /// assert_eq!(usage.total(), 107);
    /// ```
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input_uncached
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.output)
    }
}
