//! The OpenAI Responses dialect.

mod body;
mod fold;

pub(crate) use body::request_body;
pub(crate) use fold::Answer;

#[cfg(test)]
mod tests;
