//! The JSON of one chunk, read leniently where servers differ and strictly where a guess could
//! change what is run.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::TokenUsage;

/// One chunk of a stream, or the whole answer of a server that does not stream.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default, deserialize_with = "null_is_default")]
    pub(super) choices: Vec<Choice<'a>>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// One choice; only the first (index 0) is asked for.
#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) index: u64,
    /// Present in a stream.
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    /// Present in a whole answer.
    #[serde(borrow, default)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

/// What a chunk adds.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(default)]
    pub(super) content: Option<Content>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    /// What the model thinks aloud; some servers send both spellings with the same text.
    #[serde(default)]
    pub(super) reasoning_content: Option<String>,
    #[serde(default)]
    pub(super) reasoning: Option<String>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<Fragment<'a>>>,
}

/// Text, or a list of typed parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// One part; only those of type `text` carry the answer's words.
#[derive(Debug, Deserialize)]
pub(super) struct Part {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

/// A piece of a call. Which call it belongs to is `calls`' business.
#[derive(Debug, Deserialize)]
pub(super) struct Fragment<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
    /// What some servers want back with the call, for instance a signed thought.
    #[serde(default)]
    pub(super) extra_content: Option<Value>,
}

/// Name and argument text of a call. The arguments stay raw: usually a JSON string with a piece
/// of text, from some servers the object itself.
#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// Token counts as servers spell them.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// Where some servers count cache hits instead.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl Content {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => {
                parts.into_iter().filter(|p| p.kind == "text").filter_map(|p| p.text).collect()
            }
        }
    }
}

impl Usage {
    /// Counts are totals so far, so a later report replaces an earlier one; a report that leaves a
    /// count out keeps it.
    pub(super) fn or(self, earlier: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.or(earlier.prompt_tokens),
            completion_tokens: self.completion_tokens.or(earlier.completion_tokens),
            total_tokens: self.total_tokens.or(earlier.total_tokens),
            prompt_tokens_details: self.prompt_tokens_details.or(earlier.prompt_tokens_details),
            completion_tokens_details: self
                .completion_tokens_details
                .or(earlier.completion_tokens_details),
            prompt_cache_hit_tokens: self
                .prompt_cache_hit_tokens
                .or(earlier.prompt_cache_hit_tokens),
        }
    }

    /// The normal form. Here cached tokens are a part of the prompt's; reasoning is a part of the
    /// completion's, except where a server's own total shows that it counts it beside.
    pub(super) fn normal(self) -> TokenUsage {
        let details = self.prompt_tokens_details.unwrap_or_default();
        let prompt = self.prompt_tokens.unwrap_or(0);
        let completion = self.completion_tokens.unwrap_or(0);
        let cache_read =
            details.cached_tokens.or(self.prompt_cache_hit_tokens).unwrap_or(0).min(prompt);
        let cache_write = details.cache_write_tokens.unwrap_or(0).min(prompt - cache_read);
        let reasoning = self.completion_tokens_details.unwrap_or_default().reasoning_tokens;
        let reasoning = reasoning.unwrap_or(0);
        let beside = prompt.saturating_add(completion).saturating_add(reasoning);
        let output = if reasoning > 0 && self.total_tokens == Some(beside) {
            completion.saturating_add(reasoning)
        } else {
            completion
        };
        TokenUsage {
            input_uncached: prompt - cache_read - cache_write,
            cache_read,
            cache_write,
            output,
            reasoning: reasoning.min(output),
        }
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the reports of one stream in order; expects
    /// `[input_uncached, cache_read, cache_write, output, reasoning]`.
    fn check(reports: &[&str], expected: [u64; 5]) {
        let usage = reports
            .iter()
            .map(|text| serde_json::from_str::<Usage>(text).unwrap())
            .fold(Usage::default(), |earlier, later| later.or(earlier))
            .normal();
        let got = [
            usage.input_uncached,
            usage.cache_read,
            usage.cache_write,
            usage.output,
            usage.reasoning,
        ];
        assert_eq!(got, expected, "{reports:?}");
    }

    #[test]
    fn usage_in_every_spelling() {
        check(&[], [0, 0, 0, 0, 0]);
        check(&["{}"], [0, 0, 0, 0, 0]);
        check(&[r#"{"prompt_tokens":27,"completion_tokens":47}"#], [27, 0, 0, 47, 0]);
        // Cached tokens are a part of the prompt.
        check(
            &[r#"{"prompt_tokens":100,"completion_tokens":5,
                "prompt_tokens_details":{"cached_tokens":90}}"#],
            [10, 90, 0, 5, 0],
        );
        check(
            &[r#"{"prompt_tokens":100,"completion_tokens":5,"prompt_cache_hit_tokens":90,
                "prompt_cache_miss_tokens":10}"#],
            [10, 90, 0, 5, 0],
        );
        check(
            &[r#"{"prompt_tokens":100,"completion_tokens":5,
                "prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30}}"#],
            [10, 60, 30, 5, 0],
        );
        // More cached than asked for cannot be: the prompt's count bounds it.
        check(
            &[r#"{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":99}}"#],
            [0, 10, 0, 0, 0],
        );
        // Reasoning inside the completion, and beside it.
        check(
            &[r#"{"prompt_tokens":10,"completion_tokens":30,"total_tokens":40,
                "completion_tokens_details":{"reasoning_tokens":20}}"#],
            [10, 0, 0, 30, 20],
        );
        check(
            &[r#"{"prompt_tokens":10,"completion_tokens":30,"total_tokens":60,
                "completion_tokens_details":{"reasoning_tokens":20}}"#],
            [10, 0, 0, 50, 20],
        );
        check(&[r#"{"prompt_tokens":5,"prompt_tokens_details":null}"#], [5, 0, 0, 0, 0]);
    }

    #[test]
    fn repeated_reports_replace_and_never_add() {
        check(
            &[
                r#"{"prompt_tokens":27,"completion_tokens":1}"#,
                r#"{"prompt_tokens":27,"completion_tokens":47}"#,
            ],
            [27, 0, 0, 47, 0],
        );
        check(
            &[
                r#"{"prompt_tokens":43,"completion_tokens":1}"#,
                r#"{"prompt_tokens":61,"completion_tokens":9}"#,
            ],
            [61, 0, 0, 9, 0],
        );
        check(
            &[r#"{"prompt_tokens":27,"completion_tokens":1}"#, r#"{"completion_tokens":47}"#],
            [27, 0, 0, 47, 0],
        );
    }
}
