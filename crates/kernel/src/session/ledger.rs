//! What a session's models cost: a fold over the events of one branch.

use std::collections::BTreeMap;

use glasshouse_model::body::{ModelCompleted, ModelRequested, TurnStarted};
use glasshouse_model::{BranchId, Event, Kind, Seq};
use schemars::JsonSchema;
use serde::Serialize;

/// One answer and what it cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Charge {
    /// Sequence of `model.completed`.
    pub seq: Seq,
    /// Sequence of the turn's `turn.started`; absent outside turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Seq>,
    /// The model that answered.
    pub model: String,
    /// Whether it was a summary of the conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// Tokens by kind.
    pub tokens: BTreeMap<String, u64>,
    /// Cost in micro-units; absent when no price was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// Sums of charges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Total {
    /// Answers.
    pub answers: u64,
    /// Tokens by kind.
    pub tokens: BTreeMap<String, u64>,
    /// Cost in micro-units of the answers whose price was known.
    pub cost_micros: u64,
    /// Answers without a known price; while there are any, the cost is a lower bound.
    pub unpriced: u64,
}

impl Total {
    /// Adds a charge.
    pub fn add(&mut self, charge: &Charge) {
        self.answers += 1;
        for (kind, tokens) in &charge.tokens {
            let sum = self.tokens.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(*tokens);
        }
        match charge.cost_micros {
            Some(cost) => self.cost_micros = self.cost_micros.saturating_add(cost),
            None => self.unpriced += 1,
        }
    }

    /// Adds another total.
    pub fn merge(&mut self, other: &Self) {
        self.answers += other.answers;
        for (kind, tokens) in &other.tokens {
            let sum = self.tokens.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(*tokens);
        }
        self.cost_micros = self.cost_micros.saturating_add(other.cost_micros);
        self.unpriced += other.unpriced;
    }
}

/// Reads the charges of one branch out of its events; what it shares with its parent is the parent's.
#[derive(Debug)]
pub struct Ledger {
    branch: BranchId,
    turn: Option<Seq>,
    model: String,
    /// The charges so far.
    pub charges: Vec<Charge>,
}

impl Ledger {
    /// An empty one.
    #[must_use]
    pub const fn new(branch: BranchId) -> Self {
        Self { branch, turn: None, model: String::new(), charges: Vec::new() }
    }

    /// Takes the next event. A body that cannot be read charges nothing.
    pub fn apply(&mut self, event: &Event) {
        match event.kind() {
            Kind::TurnStarted if event.body_as::<TurnStarted>().is_ok() => {
                self.turn = Some(event.seq());
            }
            kind if kind.ends_turn() => self.turn = None,
            Kind::ModelRequested => {
                if let Ok(requested) = event.body_as::<ModelRequested>() {
                    self.model = requested.model;
                }
            }
            Kind::ModelCompleted if event.header.branch == self.branch => {
                if let Ok(answer) = event.body_as::<ModelCompleted>() {
                    self.charges.push(Charge {
                        seq: event.seq(),
                        turn: self.turn,
                        model: self.model.clone(),
                        summary: answer.summary,
                        tokens: answer.tokens,
                        cost_micros: answer.cost_micros,
                    });
                }
            }
            _ => {}
        }
    }

    /// The sum of the charges.
    #[must_use]
    pub fn total(&self) -> Total {
        let mut total = Total::default();
        self.charges.iter().for_each(|charge| total.add(charge));
        total
    }
}
