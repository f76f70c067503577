//! The Chat Completions dialect.

mod body;
mod calls;
mod carry;
mod chunk;
mod fold;

pub(crate) use body::{OutputLimit, request_body, tools};
pub(crate) use fold::Answer;

#[cfg(test)]
mod tests;
