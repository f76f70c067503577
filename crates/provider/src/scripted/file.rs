//! The scenario file: its shape, and the checks that shape alone cannot make.

use std::collections::BTreeSet;

use glasshouse_model::suggest::nearest;
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::expect::Expect;
use super::{ReviewAnswer, ScriptedReview, render};
use crate::request::write_canonical;
use crate::{Error, codes};

/// Largest scenario file in bytes; written by hand, they are below 100 KiB.
const MAX_SCENARIO_BYTES: usize = 4 << 20;
/// Most steps: more than any session's budget of requests.
const MAX_STEPS: usize = 10_000;
/// Longest `delay_ms`: ten minutes, beyond which a test only hangs.
const MAX_DELAY_MS: u64 = 600_000;

/// The statuses that a call's result can have.
const STATUSES: [&str; 5] = ["completed", "failed", "denied", "cancelled", "timed_out"];

/// A checked scenario.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) steps: Vec<Step>,
    pub(super) reviews: Vec<ScriptedReview>,
    pub(super) tasks: Vec<String>,
}

/// A checked step.
#[derive(Debug)]
pub(super) struct Step {
    /// Where it stands in the file, from 1.
    pub(super) line: u64,
    pub(super) expect: Expect,
    pub(super) says: Vec<Say>,
    pub(super) failure: Option<Failure>,
    pub(super) finish: StepFinish,
    pub(super) usage: Option<StepUsage>,
    pub(super) chunk_bytes: usize,
    pub(super) delay_ms: u64,
}

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Say {
    Text(String),
    Reasoning(String),
    Call { id: String, wire_name: String, arguments: String },
}

/// How a step fails instead of ending well.
#[derive(Debug, Clone, Copy)]
pub(super) enum Failure {
    /// An HTTP error in place of an answer.
    Status { status: u16, retry_after_ms: Option<u64> },
    /// An answer that stops.
    Cut { after_bytes: usize },
    /// An answer that turns into an error.
    InStream { after_bytes: usize, status: u16 },
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StepFinish {
    /// As the answer's content demands.
    #[default]
    #[serde(skip)]
    Natural,
    Length,
    ContentFilter,
    Refusal,
}

/// Token counts to report.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StepUsage {
    pub(super) input: Option<u64>,
    pub(super) cached: u64,
    pub(super) output: Option<u64>,
    pub(super) reasoning: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    #[serde(default)]
    version: Option<u64>,
    steps: Vec<Spanned<RawStep>>,
    #[serde(default)]
    reviews: Vec<RawReview>,
    #[serde(default)]
    tasks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReview {
    tool: String,
    answer: ReviewAnswer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    #[serde(default)]
    expect: Expect,
    emit: Vec<Spanned<RawEmit>>,
    #[serde(default)]
    chunk_bytes: Option<usize>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    finish: StepFinish,
    #[serde(default)]
    usage: Option<StepUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawEmit {
    Text(String),
    Reasoning(String),
    Call(RawCall),
    Error(RawError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    id: String,
    tool: String,
    #[serde(default)]
    args: Option<Map<String, Value>>,
    #[serde(default)]
    args_text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawError {
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(default)]
    after_bytes: Option<usize>,
}

/// Reads and checks a scenario.
///
/// # Errors
/// `scenario_invalid` naming the line.
pub(super) fn parse(yaml: &str, name: &str) -> Result<Scenario, Error> {
    let refuse = |line: Option<u64>, why: String| {
        let place = line.map(|line| format!(" at line {line}")).unwrap_or_default();
        let error =
            Error::new(codes::SCENARIO_INVALID, format!("scenario `{name}` cannot be used{place}"))
                .why(why);
        match line {
            Some(line) => error.with("line", line),
            None => error,
        }
    };
    if yaml.len() > MAX_SCENARIO_BYTES {
        return Err(refuse(None, format!("it is larger than {MAX_SCENARIO_BYTES} bytes")));
    }
    glasshouse_model::yaml::refuse_tags(yaml).map_err(|why| refuse(None, why))?;
    let options = serde_saphyr::options! { strict_booleans: true };
    let raw: RawScenario = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| refuse(error.location().map(|l| l.line()), explain(&error)))?;
    if let Some(version) = raw.version.filter(|version| *version != 1) {
        return Err(refuse(None, format!("version {version} is not known; write `version: 1`")));
    }
    if raw.steps.is_empty() || raw.steps.len() > MAX_STEPS {
        return Err(refuse(None, format!("it must have 1 to {MAX_STEPS} steps")));
    }
    let mut ids = BTreeSet::new();
    let steps = raw
        .steps
        .into_iter()
        .map(|step| {
            let line = step.referenced.line();
            check_step(step.value, line, &mut ids)
                .map_err(|Problem { line, why }| refuse(Some(line), why))
        })
        .collect::<Result<_, _>>()?;
    let reviews = raw
        .reviews
        .into_iter()
        .map(|RawReview { tool, answer }| ScriptedReview { tool, answer })
        .collect();
    Ok(Scenario { steps, reviews, tasks: raw.tasks })
}

/// What is wrong, and where.
struct Problem {
    line: u64,
    why: String,
}

/// Checks one step; `ids` are the calls of the steps before it and take in its own.
fn check_step(raw: RawStep, line: u64, ids: &mut BTreeSet<String>) -> Result<Step, Problem> {
    let refuse = |why: String| Err(Problem { line, why });
    if raw.chunk_bytes == Some(0) {
        return refuse("`chunk_bytes` must be at least 1".to_owned());
    }
    if raw.delay_ms > MAX_DELAY_MS {
        return refuse(format!("`delay_ms` is above {MAX_DELAY_MS}"));
    }
    check_expect(&raw.expect, ids).map_err(|why| Problem { line, why })?;
    let mut says = Vec::new();
    let mut failure = None;
    let count = raw.emit.len();
    if count == 0 {
        return refuse("`emit` is empty; for an empty answer write `{ text: \"\" }`".to_owned());
    }
    for (position, emit) in raw.emit.into_iter().enumerate() {
        let line = emit.referenced.line();
        let refuse = |why: String| Problem { line, why };
        match emit.value {
            RawEmit::Text(text) => says.push(Say::Text(text)),
            RawEmit::Reasoning(text) => says.push(Say::Reasoning(text)),
            RawEmit::Call(call) => says.push(check_call(call, ids).map_err(refuse)?),
            RawEmit::Error(error) => {
                if position + 1 != count {
                    return Err(refuse("nothing can follow an `error`".to_owned()));
                }
                failure = Some(check_error(&error, says.is_empty()).map_err(refuse)?);
            }
        }
    }
    if failure.is_some() && (raw.finish != StepFinish::Natural || raw.usage.is_some()) {
        return refuse("an answer that fails has no `finish` and no `usage`".to_owned());
    }
    Ok(Step {
        line,
        expect: raw.expect,
        says,
        failure,
        finish: raw.finish,
        usage: raw.usage,
        chunk_bytes: raw.chunk_bytes.unwrap_or(usize::MAX),
        delay_ms: raw.delay_ms,
    })
}

fn check_expect(expect: &Expect, ids: &BTreeSet<String>) -> Result<(), String> {
    let named = expect
        .results
        .keys()
        .chain(expect.result_contains.keys())
        .chain(expect.result_lacks.keys());
    for id in named {
        if !ids.contains(id) {
            let hint = did_you_mean(nearest(id, ids.iter().map(String::as_str)));
            return Err(format!("no earlier step makes a call `{id}`{hint}"));
        }
    }
    for status in expect.results.values() {
        if !STATUSES.contains(&status.as_str()) {
            let hint = did_you_mean(nearest(status, STATUSES));
            let known = STATUSES.join(", ");
            return Err(format!("`{status}` is no status of a result{hint}; there are {known}"));
        }
    }
    Ok(())
}

fn check_call(call: RawCall, ids: &mut BTreeSet<String>) -> Result<Say, String> {
    let RawCall { id, tool, args, args_text } = call;
    if id.is_empty() {
        return Err("a call's `id` is empty".to_owned());
    }
    if !ids.insert(id.clone()) {
        return Err(format!("the call id `{id}` is used twice"));
    }
    let arguments = match (args, args_text) {
        (Some(_), Some(_)) => return Err("a call has either `args` or `args_text`".to_owned()),
        (None, Some(text)) => text,
        (args, None) => {
            let mut text = String::new();
            write_canonical(&Value::Object(args.unwrap_or_default()), &mut text);
            text
        }
    };
    Ok(Say::Call { id, wire_name: render::wire_name(&tool)?, arguments })
}

fn check_error(error: &RawError, alone: bool) -> Result<Failure, String> {
    if let Some(status) = error.status.filter(|status| !(400..600).contains(status)) {
        return Err(format!("{status} is no HTTP error status; they are 400 to 599"));
    }
    match *error {
        RawError { status: Some(status), retry_after_ms, after_bytes: None } => {
            if alone {
                Ok(Failure::Status { status, retry_after_ms })
            } else {
                Err("an `error` with a `status` replaces the whole answer; take the other \
                     entries out or add `after_bytes`"
                    .to_owned())
            }
        }
        RawError { retry_after_ms: Some(_), .. } => {
            Err("`retry_after_ms` goes with a `status` and without `after_bytes`".to_owned())
        }
        RawError { status: Some(status), after_bytes: Some(after_bytes), .. } => {
            Ok(Failure::InStream { after_bytes, status })
        }
        RawError { after_bytes: Some(after_bytes), .. } => Ok(Failure::Cut { after_bytes }),
        RawError { .. } => Err("an `error` needs `status` or `after_bytes`".to_owned()),
    }
}

/// The parser's reason in one line, with what an unknown word was probably meant to be.
fn explain(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as Yaml;
    let unknown = |what: &str, word: &str, expected: &[&'static str]| {
        let hint = did_you_mean(nearest(word, expected.iter().copied()));
        format!("unknown {what} `{word}`{hint}; there are {}", expected.join(", "))
    };
    match error.without_snippet() {
        Yaml::SerdeUnknownField { field, expected, .. } => unknown("key", field, expected),
        Yaml::SerdeUnknownVariant { variant, expected, .. } => unknown("word", variant, expected),
        other => other.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

fn did_you_mean(word: Option<&str>) -> String {
    word.map(|word| format!(", did you mean `{word}`")).unwrap_or_default()
}
