//! Checks a dialect's reader on streams as servers send them: each read whole, cut in two at every
//! byte and byte by byte; and each truncated at every byte, which must never look whole.

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
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::CallStarted { index, id, tool } => {
                assert_eq!(*index, calls.len());
                calls.push((id.clone(), tool.clone(), String::new()));
            }
            Delta::CallArguments { index, fragment } => calls[*index].2.push_str(fragment),
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
        assert_eq!(calls, whole);
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
