//! What leaves a tool: first without secrets, then fit to be read by a model.
//!
//! The order is fixed. [`Masker`] comes first and sees every byte before anything is stored, logged
//! or streamed. [`model_text`] comes last and makes a bounded, readable text of what was stored;
//! what it leaves out stays addressable by the digest it names.

mod finder;
mod forms;
mod mask;
mod patterns;
mod text;
mod tokens;

pub(crate) use patterns::fault as regex_fault;

pub use mask::{MAX_SECRET_BYTES, MIN_SECRET_BYTES, MaskStream, Masker, Secret};
pub use patterns::MAX_PATTERN_MATCH_BYTES;
pub use text::{MIN_TEXT_LIMIT_BYTES, ModelText, Strategy, model_text};
