//! The Anthropic Messages dialect.

mod body;
mod fold;

pub(crate) use body::request_body;
pub(crate) use fold::Answer;

/// Name of the tool by whose arguments a model answers in a form. No tool may be called so.
pub(crate) const FORM_TOOL: &str = "answer-in-form";

#[cfg(test)]
mod tests;
