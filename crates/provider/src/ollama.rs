//! Ollama's own dialect: a JSON object a line.

mod body;
mod fold;

pub(crate) use body::request_body;
pub(crate) use fold::Answer;

#[cfg(test)]
mod tests;
