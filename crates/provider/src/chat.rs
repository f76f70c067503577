//! The Chat Completions dialect: how a request is written and how an answer is read.
//!
//! Everything here is a pure function of bytes. The HTTP adapter and the scripted provider feed
//! the same reader, and replay feeds it the recorded body.

mod answer;
mod body;
mod calls;
mod chunk;
mod failure;
mod name;

pub(crate) use answer::Answer;
pub(crate) use body::{OutputLimit, request_body};
pub(crate) use failure::from_status;
pub(crate) use name::to_wire;

use crate::peer::Peer;
use crate::{Completion, Error};

/// Makes the completion of a recorded response body: the same reader that ran while it streamed,
/// so equal bytes give an equal value whatever pieces they came in.
///
/// # Errors
/// `stream_cut` when the body stops before its end, `provider_invalid_response` when it is not
/// what the protocol allows, `provider_response_too_large` over a size limit, and the error that
/// the body itself reports.
///
/// ```
/// use glasshouse_provider::{Finish, parse_completion};
/// let raw = b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n\
///             data: [DONE]\n\n";
/// let completion = parse_completion(raw).unwrap();
/// assert_eq!((completion.text.as_str(), completion.finish), ("Hi", Finish::Stop));
/// assert!(parse_completion(&raw[..20]).unwrap_err().is(glasshouse_provider::codes::STREAM_CUT));
/// ```
pub fn parse_completion(raw: &[u8]) -> Result<Completion, Error> {
    let mut answer = Answer::new(Peer::new("the recorded answer", None));
    answer.push(raw, &mut |_| {})?;
    answer.finish(&mut |_| {})
}
