//! The providers as their callers see them: scenarios, and HTTP against servers that these tests
//! start themselves on the loopback interface.
#![allow(clippy::unwrap_used, reason = "what cannot go on fails its test")]

mod codes;
mod hostile;
mod http;
mod line;
mod litellm;
mod real;
mod scripted;
mod server;
#[path = "../../../../tests/support/skips.rs"]
mod skips;
mod tls;

use skips::skipped;

use glasshouse_provider::{Cancel, Completion, Delta, Error, Message, ModelRequest, Provider};

/// A request with one user message.
fn request(text: &str) -> ModelRequest {
    ModelRequest {
        model: "test-model".to_owned(),
        system: "You are careful.".to_owned(),
        messages: vec![Message::user(text)],
        tools: Vec::new(),
        max_output_tokens: 256,
        ..ModelRequest::default()
    }
}

/// Asks and gathers what was shown.
async fn ask(
    provider: &dyn Provider,
    request: &ModelRequest,
) -> (Result<Completion, Error>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let answer = provider.stream(request, &mut sink, &Cancel::new()).await;
    (answer, deltas)
}
