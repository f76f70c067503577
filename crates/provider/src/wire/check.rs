//! Checks a dialect's reader on streams as servers send them: each read whole, cut in two at every
//! byte and byte by byte; and each truncated at every byte, which must never look whole.

use std::collections::BTreeMap;

use super::Reader;
use crate::peer::Peer;
use crate::{Completion, Delta, Dialect, Error, Finish, codes};

/// The normal form that a stream should be read as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want<'a> {
    pub(crate) text: &'a str,
    pub(crate) reasoning: &'a str,
    /// `(id, tool, arguments)`.
    pub(crate) calls: &'a [(&'a str, &'a str, &'a str)],
    pub(crate) finish: Finish,
    /// Input that no cache held, cache read, cache write, output, reasoning.
    pub(crate) usage: [u64; 5],
    /// What goes back with the next request.
    pub(crate) carry: &'a [&'a str],
}

impl Want<'_> {
    pub(crate) const NOTHING: Self = Self {
        text: "",
        reasoning: "",
        calls: &[],
        finish: Finish::Stop,
        usage: [0; 5],
        carry: &[],
    };
}

pub(crate) type Read = Result<(Completion, Vec<Delta>), Error>;

pub(crate) fn read(dialect: Dialect, pieces: &[&[u8]]) -> Read {
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let mut reader = Reader::new(dialect, "m", Peer::new("the server", None));
    for piece in pieces {
        reader.push(piece, &mut sink)?;
    }
    let completion = reader.finish(&mut sink)?;
    Ok((completion, deltas))
}

/// Chunks as an event stream.
pub(crate) fn events(chunks: &[&str]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

pub(crate) fn check(dialect: Dialect, body: &str, want: &Want<'_>) {
    let raw = body.as_bytes();
    let (completion, deltas) =
        read(dialect, &[raw]).unwrap_or_else(|error| panic!("{error}\n{body}"));
    let calls: Vec<_> = completion
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.tool.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(completion.text, want.text, "{body}");
    assert_eq!(calls, want.calls, "{body}");
    assert_eq!(completion.finish, want.finish, "{body}");
    let usage = completion.usage;
    let counts =
        [usage.input_uncached, usage.cache_read, usage.cache_write, usage.output, usage.reasoning];
    assert_eq!(counts, want.usage, "{body}");
    let carry = completion.carry.as_ref().map_or(&[][..], |carry| &carry.blocks);
    assert_eq!(carry, want.carry, "{body}");
    assert_eq!(completion.reasoning, want.reasoning, "{body}");
    assert_eq!(completion.raw, raw);
    deltas_add_up(&completion, &deltas);
    same_in_any_pieces(dialect, raw, &completion, &deltas);
    truncated_is_cut_or_whole(dialect, raw, &completion);
}

pub(crate) fn check_error(dialect: Dialect, body: &str, code: glasshouse_model::Code, words: &str) {
    let error = read(dialect, &[body.as_bytes()]).map(|(completion, _)| completion).unwrap_err();
    assert_eq!(error.code(), code.name, "{error}\n{body}");
    assert!(error.to_string().contains(words), "{error} lacks {words:?}");
    let bytes: Vec<_> = body.as_bytes().chunks(1).collect();
    let again = read(dialect, &bytes).map(|(completion, _)| completion).unwrap_err();
    assert_eq!(again.to_string(), error.to_string(), "{body}");
}

fn same_in_any_pieces(dialect: Dialect, raw: &[u8], completion: &Completion, deltas: &[Delta]) {
    let shown = String::from_utf8_lossy(raw);
    for cut in 0..=raw.len() {
        let (left, right) = raw.split_at(cut);
        let (again, same_deltas) = read(dialect, &[left, right]).unwrap();
        assert_eq!(again, *completion, "cut at {cut}: {shown}");
        assert_eq!(same_deltas, deltas, "cut at {cut}: {shown}");
    }
    let bytes: Vec<_> = raw.chunks(1).collect();
    let (again, same_deltas) = read(dialect, &bytes).unwrap();
    assert_eq!((&again, same_deltas.as_slice()), (completion, deltas), "{shown}");
}

/// What was shown is what was answered.
pub(crate) fn deltas_add_up(completion: &Completion, deltas: &[Delta]) {
    let (mut text, mut reasoning) = (String::new(), String::new());
    // A call whose name comes late starts behind those after it.
    let mut calls: BTreeMap<usize, (String, String, String)> = BTreeMap::new();
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::CallStarted { index, id, tool } => {
                let begun = (id.clone(), tool.clone(), String::new());
                assert_eq!(calls.insert(*index, begun), None);
            }
            Delta::CallArguments { index, fragment } => {
                calls.get_mut(index).unwrap().2.push_str(fragment)
            }
            Delta::Reasoning(piece) => reasoning.push_str(piece),
            Delta::Usage(_) => {}
        }
    }
    assert_eq!(text, completion.text);
    assert_eq!(reasoning, completion.reasoning);
    if completion.finish == Finish::ToolCalls {
        let whole: Vec<_> = completion
            .calls
            .iter()
            .map(|c| (c.id.clone(), c.tool.clone(), c.arguments.clone()))
            .collect();
        assert_eq!(calls.into_values().collect::<Vec<_>>(), whole);
    }
}

/// A body that stops early is either an error that may be retried, or its end mark had come and
/// nothing of text and calls is missing.
fn truncated_is_cut_or_whole(dialect: Dialect, raw: &[u8], whole: &Completion) {
    for end in 0..raw.len() {
        match read(dialect, &[&raw[..end]]) {
            Err(error) => assert!(error.is(codes::STREAM_CUT), "{error} at {end}"),
            Ok((part, _)) => {
                let same = (&part.text, &part.calls, part.finish)
                    == (&whole.text, &whole.calls, whole.finish);
                assert!(same, "half an answer passed as whole, cut at {end}: {part:?}");
            }
        }
    }
}

/// Documents of each dialect, good and bad, that a hostile server could send in any order.
fn documents(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Chat => &[
            "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}",
            "{\"choices\":[{\"delta\":{\"reasoning_content\":\"x\"}}]}",
            "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"a\",\"arguments\":\"{\"}}]}}]}",
            "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"}\"}}]}}]}",
            "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"w\",\"function\":{\"name\":\"multi_tool_use.parallel\",\"arguments\":\"{\\\"tool_uses\\\":[]}\"}}]}}]}",
            "{\"choices\":[{\"finish_reason\":\"tool_calls\"}]}",
            "{\"choices\":[{\"finish_reason\":\"stop\"}]}",
            "[DONE]",
        ],
        Dialect::Responses => &[
            "{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"a\"}}",
            "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"a\",\"arguments\":\"{}\"}}",
            "{\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"reasoning\",\"encrypted_content\":\"x\"}}",
            "{\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{\"}",
            "{\"type\":\"response.output_text.delta\",\"output_index\":2,\"delta\":\"x\"}",
            "{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}",
            "{\"type\":\"response.incomplete\",\"response\":{}}",
            "[DONE]",
        ],
        Dialect::Anthropic => &[
            "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":1}}}",
            "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
            "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"a\",\"input\":{}}}",
            "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}",
            "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"citations_delta\",\"citation\":{}}}",
            "{\"type\":\"content_block_stop\",\"index\":0}",
            "{\"type\":\"content_block_stop\",\"index\":1}",
            "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}",
            "{\"type\":\"message_stop\"}",
        ],
        Dialect::Google => &[
            "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]}}]}",
            "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"a\",\"args\":{}},\"thoughtSignature\":\"s\"}]}}]}",
            "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"b\",\"willContinue\":true}}]}}]}",
            "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.a[0]\",\"stringValue\":\"x\"}],\"willContinue\":true}}]}}]}",
            "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{}}]}}]}",
            "{\"candidates\":[{\"finishReason\":\"STOP\"}]}",
            "{\"promptFeedback\":{\"blockReason\":\"OTHER\"}}",
        ],
        Dialect::Ollama => &[
            "{\"message\":{\"content\":\"x\"}}",
            "{\"message\":{\"thinking\":\"x\"}}",
            "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"a\",\"arguments\":{}}}]}}",
            "{\"done\":true,\"done_reason\":\"stop\"}",
        ],
    }
}

/// Documents that fit no dialect.
const STRANGE: [&str; 6] = ["{}", "[", "null", "{\"error\":\"e\"}", "{\"type\":7}", "\u{0}"];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    /// Whatever comes in whatever order: an answer whose pieces add up and whose calls have ids of
    /// their own, or an error; and the same however it is cut.
    #[test]
    fn any_documents_in_any_order_and_any_pieces(
        which in 0..Dialect::ALL.len(),
        picks in proptest::collection::vec(0usize..15, 0..12),
        size in 1usize..40,
    ) {
        let dialect = Dialect::ALL[which];
        let pool: Vec<_> = documents(dialect).iter().chain(&STRANGE).collect();
        let picked: Vec<&str> = picks.iter().map(|pick| *pool[pick % pool.len()]).collect();
        let body = match dialect.is_lines() {
            true => picked.iter().map(|line| format!("{line}\n")).collect(),
            false => events(&picked),
        };
        let key = |read: Read| read.map_err(|error| error.to_string());
        let whole = key(read(dialect, &[body.as_bytes()]));
        if let Ok((completion, deltas)) = &whole {
            let wrapped = body.contains("multi_tool_use");
            if !wrapped {
                deltas_add_up(completion, deltas);
            }
            let mut ids: Vec<_> = completion.calls.iter().map(|call| &call.id).collect();
            ids.sort();
            ids.dedup();
            proptest::prop_assert_eq!(ids.len(), completion.calls.len());
            let runs = completion.finish == Finish::ToolCalls;
            proptest::prop_assert!(runs || completion.calls.is_empty());
        }
        let pieces: Vec<_> = body.as_bytes().chunks(size).collect();
        proptest::prop_assert_eq!(key(read(dialect, &pieces)), whole);
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(
        which in 0..Dialect::ALL.len(),
        start in proptest::sample::select(vec!["", "{", "data: {", "data: {\"type\":\""]),
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
        size in 1usize..9,
    ) {
        let dialect = Dialect::ALL[which];
        let body = [start.as_bytes(), &bytes].concat();
        let pieces: Vec<_> = body.chunks(size).collect();
        let key = |read: Read| read.map_err(|error| error.code());
        proptest::prop_assert_eq!(key(read(dialect, &pieces)), key(read(dialect, &[&body])));
    }
}
