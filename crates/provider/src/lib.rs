//! Model adapters in one normal form.
//!
//! A [`ModelRequest`] is a value with a digest; a [`Provider`] turns it into a [`Completion`] and
//! shows [`Delta`]s on the way; [`parse_completion`] makes the same completion of the recorded
//! bytes later, without a network. [`Remote`] asks a server in one of the [`Dialect`]s, [`Scripted`]
//! answers from a file. Both go through the same reader.
//!
//! Nothing here retries or decides: [`retry`] is a pure policy that the kernel drives.
#![forbid(unsafe_code)]

mod anthropic;
mod cancel;
mod chat;
pub mod codes;
mod completion;
mod dialect;
mod error;
mod google;
mod http;
pub mod line;
mod ollama;
mod peer;
mod price;
mod remote;
mod request;
mod responses;
pub mod retry;
mod retry_after;
mod scripted;
mod secret;
mod sse;
mod wire;

pub use cancel::Cancel;
pub use completion::{Completion, Delta, Finish, TokenUsage};
pub use dialect::{Dialect, parse_completion, parse_pieces};
pub use error::Error;
pub use futures_util::future::BoxFuture;
pub use http::Timeouts;
pub use peer::excerpt_of;
pub use price::Prices;
pub use remote::{Builder, Remote};
pub use request::{Carry, Effort, Image, Message, ModelCall, ModelRequest, OutputFormat, ToolSpec};
pub use scripted::{ReviewAnswer, Scripted, ScriptedReview};
pub use secret::Secret;

/// Something that answers requests.
pub trait Provider: Send + Sync {
    /// A short name for logs and messages, without secrets.
    fn name(&self) -> &str;

    /// What an answer cost in micro-units of the price file's currency; `None` when the model's
    /// price is not known.
    fn cost_micros(&self, _model: &str, _usage: &TokenUsage) -> Option<u64> {
        None
    }

    /// Asks, gives `sink` the pieces as they come, and answers with the whole. Dropping the future
    /// or setting `cancel` ends the request and its connection.
    ///
    /// # Errors
    /// A code of [`codes`]; after an error the pieces already shown are void.
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Completion, Error>>;
}
