//! `session costs`: what models cost, by answer, turn and session, and for all sessions together.

use std::collections::BTreeMap;

use glasshouse_kernel::Kernel;
use glasshouse_kernel::session::{Ledger, Total};
use glasshouse_log::BranchRow;
use glasshouse_model::{Exit, SessionId};
use serde_json::json;

use crate::error::Error;
use crate::event_line::money;
use crate::output;

/// Tells what one session cost, or all of them.
pub(super) fn run(kernel: &Kernel, id: Option<&SessionId>, json: bool) -> Result<u8, Error> {
    match id {
        Some(id) => of_session(kernel, id, json),
        None => of_all(kernel, json),
    }
}

/// What one session cost, all branches counted.
fn of_session(kernel: &Kernel, id: &SessionId, json: bool) -> Result<u8, Error> {
    let mut sum = Total::default();
    for row in branches(kernel, id)? {
        let ledger = ledger(kernel, &row)?;
        let mut turns: BTreeMap<_, Total> = BTreeMap::new();
        for charge in &ledger.charges {
            turns.entry(charge.turn).or_default().add(charge);
            if json {
                output::json_line(&json!({ "branch": row.branch, "answer": charge }));
            } else {
                let model = output::visible(&charge.model, false);
                let cost = charge.cost_micros.map_or_else(|| "unpriced".to_owned(), money);
                let what = if charge.summary { " (summary)" } else { "" };
                let tokens = tokens(&charge.tokens);
                output::data(&format!("{:>8}  {cost:>12}  {tokens}  {model}{what}", charge.seq));
            }
        }
        for (turn, total) in &turns {
            if json {
                output::json_line(&json!({ "branch": row.branch, "turn": turn, "total": total }));
            } else {
                let turn = turn
                    .map_or_else(|| "no turn".to_owned(), |turn| format!("turn at event {turn}"));
                output::data(&format!("{turn} of {}: {}", row.name, told(total)));
            }
        }
        sum.merge(&ledger.total());
    }
    end("session", &sum, json)
}

/// What all sessions cost.
fn of_all(kernel: &Kernel, json: bool) -> Result<u8, Error> {
    let mut sum = Total::default();
    for row in kernel.log().sessions()? {
        let mut total = Total::default();
        for branch in kernel.log().branches(&row.session)? {
            total.merge(&ledger(kernel, &branch)?.total());
        }
        if total.answers == 0 {
            continue;
        }
        if json {
            output::json_line(&json!({ "session": row.session, "total": total }));
        } else {
            output::data(&format!("{}: {}", row.session, told(&total)));
        }
        sum.merge(&total);
    }
    end("tenant", &sum, json)
}

fn end(of: &str, total: &Total, json: bool) -> Result<u8, Error> {
    if json {
        output::json_line(&json!({ "of": of, "total": total }));
    } else {
        let of = if of == "tenant" { "all sessions" } else { of };
        output::data(&format!("{of}: {}", told(total)));
    }
    Ok(Exit::Done.status())
}

fn branches(kernel: &Kernel, id: &SessionId) -> Result<Vec<BranchRow>, Error> {
    // Tells that there is no such session.
    kernel.main_branch(id)?;
    Ok(kernel.log().branches(id)?)
}

fn ledger(kernel: &Kernel, row: &BranchRow) -> Result<Ledger, Error> {
    let mut ledger = Ledger::new(row.branch.clone());
    for event in kernel.log().events(&row.branch) {
        ledger.apply(&event?);
    }
    Ok(ledger)
}

fn told(total: &Total) -> String {
    let cost = match (total.unpriced, total.answers) {
        (0, _) => money(total.cost_micros),
        (unpriced, answers) if unpriced == answers => "unpriced".to_owned(),
        (unpriced, _) => format!("at least {}, {unpriced} unpriced", money(total.cost_micros)),
    };
    format!("{cost}, {} answers, {}", total.answers, tokens(&total.tokens))
}

fn tokens(by_kind: &BTreeMap<String, u64>) -> String {
    let count = |kind: &str| by_kind.get(kind).copied().unwrap_or(0);
    let input = count("input_uncached")
        .saturating_add(count("cache_read"))
        .saturating_add(count("cache_write"));
    format!("{input} in ({} cached), {} out", count("cache_read"), count("output"))
}
