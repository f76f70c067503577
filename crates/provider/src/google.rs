//! The Google generateContent dialect.

mod body;
mod fold;
mod partial;
mod schema;

pub(crate) use body::{operation, request_body};
pub(crate) use fold::Answer;

#[cfg(test)]
mod tests;
