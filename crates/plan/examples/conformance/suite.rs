//! The suite: every case is answered by its operation and compared with what is expected, or with
//! what a recorded deviation makes of it.

mod decode;
mod deviations;
mod markup;
mod operations;
mod policy;
mod reference;

use std::collections::BTreeMap;

use glasshouse_plan::json::{Document, Json};
use glasshouse_plan::{Limits, Plan};
use serde_json::Value;

use deviations::{Deviations, Verdict};

/// Prefix of the attributes that another implementation writes, and of ours.
const FOREIGN_PREFIX: &str = "data-renderify-";
const OUR_PREFIX: &str = "data-glasshouse-";

/// What a case gives to an operation.
#[derive(Clone, Copy)]
pub(crate) struct Input<'c> {
    /// Its members.
    pub(crate) value: &'c Value,
    /// The same with members in the order they are written in, where that can be had.
    pub(crate) ordered: Option<Json<'c>>,
}

impl Input<'_> {
    /// The text of a member, in its order.
    pub(crate) fn text(&self, path: &[&str]) -> Option<String> {
        let mut value = self.ordered?;
        for key in path {
            value = value.get(key)?;
        }
        serde_json::to_string(&value).ok().filter(|text| !text.contains("\"$undefined\""))
    }
}

/// What the code of a plan comes to.
pub(crate) struct Coded {
    /// What it made, or the code of the error for which it made nothing.
    pub(crate) made: Result<Value, String>,
    /// Whether its default made it in the place of an export that is not there.
    pub(crate) by_default: bool,
}

/// Runs the code of a plan with an input. Only a host with an engine has one.
pub(crate) type Coder<'c> = &'c dyn Fn(&Plan, Value) -> Coded;

/// What the operations answer with.
#[derive(Clone, Copy)]
pub(crate) struct Means<'m> {
    pub(crate) deviations: &'m Deviations,
    pub(crate) coder: Option<Coder<'m>>,
}

/// What an operation says to a case.
pub(crate) enum Answer {
    /// A value to compare.
    Value(Value),
    /// The case needs what is not built here.
    Skip(&'static str),
}

/// A case that failed.
pub(crate) struct Failure {
    /// Its name.
    pub(crate) id: String,
    /// What came out.
    pub(crate) got: Value,
    /// What should have.
    pub(crate) want: Value,
}

/// What came of a run.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Cases with the expected value, or with one that a deviation explains.
    pub(crate) passed: usize,
    /// The others.
    pub(crate) failed: Vec<Failure>,
    /// Cases that were not run, by reason.
    pub(crate) skipped: BTreeMap<String, usize>,
    /// Cases that passed by a deviation, by its name.
    pub(crate) by_rule: BTreeMap<String, usize>,
}

/// Runs every case of a text; without a coder the cases in which code runs are left out.
///
/// # Errors
///
/// A text that is no list of cases, and a deviation that names no known rule or gives no reason.
pub(crate) fn run(
    cases: &str,
    deviations: &str,
    coder: Option<Coder<'_>>,
) -> Result<Outcome, String> {
    let means = Means { deviations: &Deviations::read(deviations)?, coder };
    let mut outcome = Outcome::default();
    for text in decode::elements(cases)? {
        // Our own reader keeps the order of members and every digit of a number.
        match Document::parse(text, &Limits::default()) {
            Ok(document) => {
                let input = document.root().get("input");
                judge(&document.root().to_value(), input, &means, &mut outcome);
            }
            Err(error) => outcome.failed.push(Failure {
                id: text.chars().take(60).collect(),
                got: error.to_string().into(),
                want: "a case that can be read".into(),
            }),
        }
    }
    Ok(outcome)
}

fn judge(case: &Value, ordered: Option<Json<'_>>, means: &Means<'_>, outcome: &mut Outcome) {
    let id = case["id"].as_str().unwrap_or_default();
    let answer = if case["area"] == "mcp" {
        Answer::Skip("area mcp: this crate speaks no tool protocol")
    } else {
        operations::answer(&Input { value: &case["input"], ordered }, means)
    };
    let got = match answer {
        Answer::Skip(reason) => {
            *outcome.skipped.entry(reason.to_owned()).or_default() += 1;
            return;
        }
        Answer::Value(got) => got,
    };
    let want = ours(&case["expected"]);
    match means.deviations.compare(id, &case["input"], &got, &want) {
        Verdict::Equal => outcome.passed += 1,
        Verdict::Deviates(rule) => {
            outcome.passed += 1;
            *outcome.by_rule.entry(rule).or_default() += 1;
        }
        Verdict::Differs => outcome.failed.push(Failure { id: id.to_owned(), got, want }),
    }
}

/// An expected value with our attribute prefix, and numbers in their canonical form.
fn ours(value: &Value) -> Value {
    match value {
        Value::String(text) => text.replace(FOREIGN_PREFIX, OUR_PREFIX).into(),
        Value::Array(items) => items.iter().map(ours).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), ours(value))).collect()
        }
        Value::Number(number) => canonical(number.as_f64().unwrap_or_default()),
        other => other.clone(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "guarded: whole and within 2^53")]
fn canonical(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        (number as i64).into()
    } else {
        number.into()
    }
}
