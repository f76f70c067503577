//! What a state wants done in the world.

use glasshouse_model::body::{BudgetExhausted, CallStatus};
use glasshouse_model::{CallId, Draft, Kind, Seq};
use glasshouse_tools::{Arguments, parse_arguments};

use super::consequences::{merge_wanted, refused, rest, turn_failed};
use super::{CallPhase, Item, MergePhase, ModelPhase, State, compaction, repetition};
use crate::codes;

/// Something to do outside the pure half. Each ends in events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Append these events; nothing else is needed.
    Record(Vec<Draft>),
    /// Ask the model, after a wait.
    RequestModel {
        /// Number of the try, from 1.
        attempt: u32,
        /// Wait before it.
        delay_ms: u64,
    },
    /// Resolve a call's paths, decide it and, where it is allowed, start it.
    Decide(CallId),
    /// Ask a person; the sequence names the approval.
    AskApproval(Seq),
    /// Put the change set up for merging.
    ProposeMerge,
    /// Write an approved change set into the project.
    ApplyMerge(Seq),
    /// Commit an applied change set.
    Commit(Seq),
}

/// The effects wanted now. An effect that is under way shows in the state (a request that was
/// recorded, a call that was started), so asking again after every event starts nothing twice;
/// the driver only remembers which approvals it is already asking for.
#[must_use]
pub fn next(state: &State) -> Vec<Effect> {
    if state.turn.is_none() {
        return Vec::new();
    }
    if let Some(merge) = &state.merge {
        return match merge.phase {
            MergePhase::InReview(Some(approval)) => vec![Effect::AskApproval(approval)],
            MergePhase::InReview(None) => Vec::new(),
            MergePhase::Approved => vec![Effect::ApplyMerge(merge.seq)],
            MergePhase::Applied => vec![Effect::Commit(merge.seq)],
        };
    }
    if !state.open_calls.is_empty() {
        return stopped(state)
            .map_or_else(|| call_effects(state), |stop| stop.into_iter().collect());
    }
    if state.model == ModelPhase::Requested {
        return Vec::new();
    }
    if let Some(stop) = stopped(state) {
        return stop.into_iter().collect();
    }
    if at_rest(state) {
        // Only a turn that carries on an earlier one comes here: a new message is the last word.
        return vec![if merge_wanted(state) {
            Effect::ProposeMerge
        } else {
            Effect::Record(rest(state))
        }];
    }
    if compaction::want(state) == compaction::Want::Stuck {
        let message =
            "the conversation does not fit the model's window, and a summary does not shorten it";
        return vec![Effect::Record(turn_failed(state, codes::CONTEXT_FULL.name, message))];
    }
    let (attempt, delay_ms) = match state.model {
        ModelPhase::Retrying { attempt, delay_ms } => (attempt, delay_ms),
        ModelPhase::Idle | ModelPhase::Requested => (1, 0),
    };
    vec![Effect::RequestModel { attempt, delay_ms }]
}

/// Whether the last word is an answer without calls.
fn at_rest(state: &State) -> bool {
    matches!(state.conversation.last(), Some(Item::Answer { calls, .. }) if calls.is_empty())
}

/// `Some` when nothing more may start; holds the effect that ends the turn once nothing runs.
fn stopped(state: &State) -> Option<Option<Effect>> {
    let budget = state.created.as_ref().map(|created| created.budget).unwrap_or_default();
    let (code, message, exhausted) = match budget.exhausted(&state.spent()) {
        Some(item) => {
            let message = format!("the session's budget of {item} is used up");
            (codes::BUDGET_EXHAUSTED.name, message, Some(item))
        }
        None => (codes::CALL_REPEATED.name, repeated(state)?, None),
    };
    let running =
        |call| state.calls.get(call).is_some_and(|record| record.phase == CallPhase::Started);
    if state.open_calls.iter().any(running) {
        return Some(None);
    }
    let unstarted = |call: &CallId| refused(*call, CallStatus::Cancelled, code, message.clone());
    let mut drafts: Vec<Draft> = state.open_calls.iter().map(unstarted).collect();
    drafts.extend(
        exhausted.map(|item| {
            Draft::new(Kind::BudgetExhausted, &BudgetExhausted { item: item.to_owned() })
        }),
    );
    drafts.extend(turn_failed(state, code, &message));
    Some(Some(Effect::Record(drafts)))
}

/// Why the turn ends when a call of the last answer failed too often in the same way.
fn repeated(state: &State) -> Option<String> {
    let calls = state.conversation.iter().rev().find_map(|item| match item {
        Item::Answer { calls, .. } => Some(calls),
        Item::Message(_) => None,
    })?;
    calls.iter().filter_map(|call| state.calls.get(call)).find_map(|record| {
        let failed = repetition::failures(&state.failures, &record.proposed);
        let tool = &record.proposed.tool;
        (failed >= repetition::STOP_AT)
            .then(|| format!("`{tool}` failed {failed} times in the same way"))
    })
}

/// Calls run in parallel unless they conflict with one that was written before them and is not
/// over: then they wait, also with being decided, because that one may change the workflow.
fn call_effects(state: &State) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut earlier: Vec<Option<Arguments>> = Vec::new();
    // A call that is alone conflicts with none; its arguments may be long.
    let may_conflict = state.open_calls.len() > 1;
    for call in &state.open_calls {
        let Some(record) = state.calls.get(call) else { continue };
        let parse = || parse_arguments(&record.proposed.tool, &record.proposed.arguments).ok();
        let arguments = may_conflict.then(parse).flatten();
        let waits = earlier.iter().any(|before| match (before, &arguments) {
            (Some(before), Some(arguments)) => Arguments::conflicts(before, arguments),
            // An unreadable call never runs; nothing has to wait for it, nor it for others.
            _ => false,
        });
        if !waits {
            effects.extend(match record.phase {
                // A start is recorded with the decision that allows it, so a decision without one
                // stands for nothing that could be carried on.
                CallPhase::Proposed | CallPhase::Approved(_) | CallPhase::Allowed => {
                    Some(Effect::Decide(*call))
                }
                CallPhase::InReview(approval) => Some(Effect::AskApproval(approval)),
                CallPhase::Started | CallPhase::Ended(_) => None,
            });
        }
        earlier.push(arguments);
    }
    effects
}
