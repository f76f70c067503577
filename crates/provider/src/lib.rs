//! Model adapters in one normal form.
//!
//! A [`ModelRequest`] is a value with a digest; a [`Provider`] turns it into a [`Completion`] and
//! shows [`Delta`]s on the way; [`parse_completion`] makes the same completion of the recorded
//! bytes later, without a network. [`Scripted`] answers from a file, [`OpenAiCompatible`] asks a
//! server that speaks Chat Completions. Both go through the same reader.
//!
//! Nothing here retries or decides: [`retry`] is a pure policy that the kernel drives.
#![forbid(unsafe_code)]

mod cancel;
mod chat;
pub mod codes;
mod completion;
mod error;
mod http;
mod openai_compatible;
mod peer;
mod request;
pub mod retry;
mod retry_after;
mod scripted;
mod secret;
mod sse;

pub use cancel::Cancel;
pub use chat::parse_completion;
pub use completion::{Completion, Delta, Finish, TokenUsage};
pub use error::Error;
pub use futures_util::future::BoxFuture;
pub use http::Timeouts;
pub use openai_compatible::{Builder, OpenAiCompatible};
pub use request::{Message, ModelCall, ModelRequest, ToolSpec};
pub use scripted::{ReviewAnswer, Scripted, ScriptedReview};
pub use secret::Secret;

/// Something that answers requests.
pub trait Provider: Send + Sync {
    /// A short name for logs and messages, without secrets.
    fn name(&self) -> &str;

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

/// The error of a request that its caller stopped.
pub(crate) fn cancelled(name: &str) -> Error {
    Error::new(codes::PROVIDER_CANCELLED, format!("the request to {name} was cancelled"))
}
