//! What is kept of an answer: its parts without secrets, its bytes in a blob, and what its provider
//! wants back.

use std::collections::BTreeMap;

use glasshouse_log::Log;
use glasshouse_model::body::{self, BlobRef, ModelCompleted, WrittenCall};
use glasshouse_model::event::MAX_BODY_BYTES;
use glasshouse_provider::{Carry, Completion, Finish, TokenUsage};
use glasshouse_tools::REPLACED;
use glasshouse_tools::sanitise::Masker;

use crate::plans::plainly;
use crate::{Error, Result};

/// What is kept of a raw answer that held a secret.
const WITHHELD: &[u8] = b"[withheld: the answer held a masked secret]";
/// Most bytes of one call's arguments that an event holds; a larger file is written in parts.
const MAX_INLINE_ARGUMENTS_BYTES: usize = 256 * 1024;

/// Largest body of an answer: what an event holds, less what is still added to it.
const MAX_ANSWER_BYTES: usize = MAX_BODY_BYTES - (4 << 10);

/// Most bytes of signed blocks that an event holds; a request without them is still a request.
const MAX_CARRY_BYTES: usize = 256 * 1024;

/// Arguments that fit an event; others become a text that no tool accepts and that says why.
fn bounded(arguments: String) -> String {
    if arguments.len() <= MAX_INLINE_ARGUMENTS_BYTES {
        return arguments;
    }
    format!("\"{}{REPLACED}{MAX_INLINE_ARGUMENTS_BYTES}\"", arguments.len())
}

/// Most bytes of what a model thought aloud that an event holds; the raw answer has all of it.
const MAX_REASONING_BYTES: usize = 256 * 1024;

/// As much of a text as fits, and what was left out.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let left_out = text.len() - most;
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("… ({left_out} bytes more)"));
    }
    text
}

/// Masks words as they were written and, where letters of them are escapes of JSON, as these are read: a plan
/// is an answer in JSON.
pub(super) fn mask_words(masker: &Masker, written: &str) -> String {
    let masked = masker.mask_str(written);
    if !masked.contains('\\') {
        return masked;
    }
    let plain = plainly(&masked);
    let masked_plain = masker.mask_str(&plain);
    if masked_plain == plain { masked } else { masked_plain }
}

/// Keeps answers.
pub(super) struct Keeper<'a> {
    pub(super) masker: &'a Masker,
    pub(super) log: &'a Log,
}

impl Keeper<'_> {
    /// The body of the event that tells of an answer, its bytes stored.
    ///
    /// # Errors
    /// `provider_response_too_large` for an answer that no event can hold; its bytes are stored. The
    /// log's errors.
    pub(super) fn completed(
        &self,
        completion: Completion,
        ordinal: u64,
        duration_us: u64,
    ) -> Result<ModelCompleted> {
        // A secret that arrives in pieces or escaped is whole only in the decoded text.
        let raw = if self.holds_secret(&completion) {
            WITHHELD.to_vec()
        } else {
            self.masker.mask(&completion.raw)
        };
        let bytes = raw.len() as u64;
        let blob = self.log.put_blob(&raw)?;
        let calls = completion.calls.into_iter().map(|call| {
            let arguments = self.mask_arguments(&call.arguments);
            WrittenCall {
                id: self.masker.mask_str(&call.id),
                tool: self.masker.mask_str(&call.tool),
                masked: arguments != call.arguments,
                arguments: bounded(arguments),
            }
        });
        let body = ModelCompleted {
            ordinal,
            text: mask_words(self.masker, &completion.text),
            reasoning: cut(mask_words(self.masker, &completion.reasoning), MAX_REASONING_BYTES),
            calls: calls.collect(),
            finish: finish_word(completion.finish).to_owned(),
            tokens: counted(completion.usage),
            raw: BlobRef { blob, bytes },
            duration_us,
            carry: self.kept(completion.carry),
            cost_micros: None,
            summary: false,
        };
        let bytes = serde_json::to_vec(&body).map_or(usize::MAX, |body| body.len());
        if bytes > MAX_ANSWER_BYTES {
            let code = glasshouse_provider::codes::PROVIDER_RESPONSE_TOO_LARGE;
            return Err(Error::new(code, "the answer is too large to go on with")
                .why(format!("{bytes} bytes, at most {MAX_ANSWER_BYTES}")));
        }
        Ok(body)
    }

    /// What the provider wants back. A signed block must not change, so one that holds a secret is
    /// not masked but left out, and all with it; so is what an event has no room for.
    fn kept(&self, carry: Option<Carry>) -> Option<body::Carry> {
        let Carry { dialect, model, blocks } = carry?;
        let bytes: usize = blocks.iter().map(String::len).sum();
        let clean = |block: &String| !self.gives_away(block);
        let fits = bytes <= MAX_CARRY_BYTES;
        (fits && blocks.iter().all(clean)).then_some(body::Carry { dialect, model, blocks })
    }

    /// Whether a secret stands in a block. What the provider encrypted or signed is left out: it holds
    /// no text of ours, and its letters look like a token by chance.
    fn gives_away(&self, block: &str) -> bool {
        let Ok(mut value) = serde_json::from_str(block) else { return true };
        without_ciphers(&mut value);
        let text = value.to_string();
        self.mask_arguments(&text) != text
    }

    /// Masks arguments in the form they were written, and in the text they stand for: escapes can
    /// hide a secret from the one, but not from the other.
    fn mask_arguments(&self, written: &str) -> String {
        let masked = self.masker.mask_str(written);
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(&masked) else {
            return masked;
        };
        if mask_texts(self.masker, &mut value) { value.to_string() } else { masked }
    }

    fn holds_secret(&self, completion: &Completion) -> bool {
        let masked = |text: &str| self.masker.mask_str(text) != text;
        let carried = completion.carry.iter().flat_map(|carry| &carry.blocks);
        mask_words(self.masker, &completion.text) != completion.text
            || mask_words(self.masker, &completion.reasoning) != completion.reasoning
            || carried.into_iter().any(|block| self.gives_away(block))
            || completion.calls.iter().any(|call| {
                self.mask_arguments(&call.arguments) != call.arguments || masked(&call.tool)
            })
    }
}

/// Token counts by kind, without those that are zero.
fn counted(usage: TokenUsage) -> BTreeMap<String, u64> {
    [
        ("input_uncached", usage.input_uncached),
        ("cache_read", usage.cache_read),
        ("cache_write", usage.cache_write),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
    ]
    .into_iter()
    .filter(|(_, tokens)| *tokens > 0)
    .map(|(kind, tokens)| (kind.to_owned(), tokens))
    .collect()
}

const fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Refusal => "refusal",
        Finish::ContentFilter => "content_filter",
        Finish::Paused => "paused",
    }
}

/// Members whose text a provider encrypted or signed.
const CIPHERS: [&str; 4] =
    ["signature", "encrypted_content", "thoughtSignature", "thought_signature"];

fn without_ciphers(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Array(items) => items.iter_mut().for_each(without_ciphers),
        serde_json::Value::Object(members) => {
            // The encrypted text of a redacted thought goes by a common name.
            let redacted = members.get("type").is_some_and(|kind| kind == "redacted_thinking");
            members.retain(|name, _| {
                !(CIPHERS.contains(&name.as_str()) || redacted && name == "data")
            });
            members.values_mut().for_each(without_ciphers);
        }
        _ => {}
    }
}

/// Masks every text of a value, keys included; true when one was changed.
pub(super) fn mask_texts(masker: &Masker, value: &mut serde_json::Value) -> bool {
    use serde_json::Value;
    let mask = |text: &mut String| {
        let masked = masker.mask_str(text);
        let changed = masked != *text;
        *text = masked;
        changed
    };
    match value {
        Value::String(text) => mask(text),
        Value::Array(items) => {
            let mut any = false;
            for item in items {
                any |= mask_texts(masker, item);
            }
            any
        }
        Value::Object(fields) => {
            let mut any = false;
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(mut key, mut value)| {
                    any |= mask(&mut key) | mask_texts(masker, &mut value);
                    (key, value)
                })
                .collect();
            any
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use glasshouse_tools::sanitise::Secret;

    use super::*;

    /// A log of its own, and a mask that knows a secret.
    struct Place {
        log: Log,
        masker: Masker,
        _directory: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let log = Log::open(directory.path(), &glasshouse_model::TenantId::local()).unwrap();
            let secret = Secret::new("db", b"zq9-correct-horse").unwrap();
            Self { log, masker: Masker::new(&[secret], &[]).unwrap(), _directory: directory }
        }

        fn keeper(&self) -> Keeper<'_> {
            Keeper { masker: &self.masker, log: &self.log }
        }
    }

    /// An answer of words alone.
    fn said(text: String, raw: Vec<u8>) -> Completion {
        let (reasoning, calls, carry) = (String::new(), Vec::new(), None);
        let (usage, finish) = (TokenUsage::default(), Finish::Stop);
        Completion { text, reasoning, calls, usage, finish, carry, raw }
    }

    /// The failure: a secret with one letter of it as an escape stood in the log as the model had written it.
    #[test]
    fn law_9_escapes_hide_no_secret_in_the_words_of_an_answer() {
        let place = Place::new();
        let keeper = place.keeper();
        let check = |written: &str, expected: &str| {
            assert_eq!(mask_words(keeper.masker, written), expected, "{written}");
            let held = keeper.holds_secret(&said(written.to_owned(), Vec::new()));
            assert_eq!(held, written != expected, "{written}");
            let thought =
                Completion { reasoning: written.to_owned(), ..said(String::new(), Vec::new()) };
            assert_eq!(keeper.completed(thought, 0, 1).unwrap().reasoning, expected, "{written}");
        };
        check("it is zq9-correct-horse", "it is [secret:db]");
        check(r#"{"a":"zq9\u002dcorrect-hors\u0065\n"}"#, r#"{"a":"[secret:db]\n"}"#);
        check(
            r#"Here: ```{"a":"zq9-correct\u002dhorse"}```"#,
            r#"Here: ```{"a":"[secret:db]"}```"#,
        );
        // What holds none stays as it was written.
        check(r#"{"a":"\u0061\/b"}"#, r#"{"a":"\u0061\/b"}"#);
        check("a\\", "a\\");
    }

    /// The failure: a signed block is masked inside, and every later request is refused.
    #[test]
    fn h8_signed_blocks_are_kept_whole_or_not_at_all() {
        let place = Place::new();
        let keeper = place.keeper();
        let check = |block: &str, kept: bool| {
            let carry = Carry {
                dialect: "anthropic".to_owned(),
                model: "m".to_owned(),
                blocks: vec![block.to_owned()],
            };
            let got = keeper.kept(Some(carry)).map(|carry| carry.blocks);
            assert_eq!(got, kept.then(|| vec![block.to_owned()]), "{block}");
        };
        check(r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#, true);
        check(
            r#"{"type":"thinking","thinking":"it is zq9-correct-horse","signature":"c2ln"}"#,
            false,
        );
        check(r#"{"type":"thinking","thinking":"it is zq9-correct\u002dhorse"}"#, false);
        check(r#"{"input":{"a":[{"b":"zq9-correct-horse"}]}}"#, false);
        // Letters of a cipher that look like a token of an issuer.
        let cipher = "gAAA-sk-Zx9Qw8Er7Ty6Ui5Op4As3Df2";
        assert!(
            place.masker.mask_str(cipher).contains("[secret"),
            "the control: elsewhere it is masked"
        );
        check(&format!(r#"{{"type":"reasoning","encrypted_content":"{cipher}"}}"#), true);
        check(&format!(r#"{{"type":"redacted_thinking","data":"{cipher}"}}"#), true);
        check(&format!(r#"{{"type":"text","text":"{cipher}"}}"#), false);
        check("no json", false);
        let most = "x".repeat(MAX_CARRY_BYTES);
        check(&format!(r#"{{"text":"{most}"}}"#), false);
    }

    /// An answer that no event holds ended the turn without an end of its request.
    #[test]
    fn an_answer_that_is_too_large_is_an_error_and_its_bytes_are_kept() {
        let place = Place::new();
        let keeper = place.keeper();
        let check = |text_bytes: usize, code: Option<&str>| {
            let text = "y".repeat(text_bytes);
            let raw = format!("raw {text_bytes}").into_bytes();
            let kept = keeper.completed(said(text, raw.clone()), 0, 1);
            assert_eq!(kept.err().map(|error| error.code()), code, "{text_bytes}");
            assert_eq!(place.log.blob(&glasshouse_model::Digest::of(&raw)).unwrap(), raw);
        };
        check(10, None);
        check(MAX_ANSWER_BYTES - 1_000, None);
        check(MAX_ANSWER_BYTES, Some("provider_response_too_large"));
        check(2 * MAX_BODY_BYTES, Some("provider_response_too_large"));
    }
}
