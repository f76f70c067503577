//! What a session cost, why something was decided, whether it comes out the same again, and what another
//! policy would have said.

use std::collections::BTreeMap;

use glasshouse_kernel::driver::{Past, PolicyText};
use glasshouse_kernel::session::{Charge, Difference, Ledger, Replayed, Total};
use glasshouse_model::{BranchId, Seq, SessionId};
use glasshouse_policy::Consent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::{Ask, invalid};
use crate::page::{self, MOST, Order, Wanted};
use crate::reply::Reply;
use crate::service::Service;
use crate::tally::{DAYS, Day};
use crate::{Error, Result};

/// Decisions of all sessions that are tried unless the client says.
const LAST_DECISIONS: usize = 500;
/// Most answers of a branch whose costs are told one by one.
const MAX_COSTS: usize = 1_000;
/// Most of them.
const MAX_LAST_DECISIONS: usize = 10_000;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionCosts")]
pub(crate) struct Costs {
    session: SessionId,
    /// Of all branches.
    total: Total,
    /// Oldest first.
    branches: Vec<BranchCosts>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BranchCosts {
    branch: BranchId,
    name: String,
    total: Total,
    /// The newest ones, in order.
    turns: Vec<TurnCosts>,
    /// The newest ones, in order.
    answers: Vec<Charge>,
    /// How many older answers are in the totals alone.
    older_answers: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TurnCosts {
    /// Sequence of its first event; `null` for what was asked outside turns.
    turn: Option<Seq>,
    total: Total,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "CostsQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Costed {
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most items of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

/// The last items of a list, and how many there are before them.
fn newest<T>(mut all: Vec<T>) -> (Vec<T>, usize) {
    let older = all.len().saturating_sub(MAX_COSTS);
    (all.split_off(older), older)
}

/// What a session's models cost: by answer, turn, branch and in all.
pub(crate) fn costs(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    service.kernel.main_branch(&session)?;
    let Costed { cursor, limit } = ask.query()?;
    let (mut sum, mut branches) = (Total::default(), Vec::new());
    for row in service.kernel.log().branches(&session)? {
        let place = (row.created_us, row.branch.to_string());
        let mut ledger = Ledger::new(row.branch.clone());
        for event in service.kernel.log().events(&row.branch) {
            ledger.apply(&event?);
        }
        let mut turns: BTreeMap<Option<Seq>, Total> = BTreeMap::new();
        ledger.charges.iter().for_each(|charge| turns.entry(charge.turn).or_default().add(charge));
        let (branch, name, total) = (row.branch, row.name, ledger.total());
        sum.merge(&total);
        let turns = turns.into_iter().map(|(turn, total)| TurnCosts { turn, total });
        let (turns, _) = newest(turns.collect());
        let (answers, older_answers) = newest(ledger.charges);
        branches.push((place, BranchCosts { branch, name, total, turns, answers, older_answers }));
    }
    let wanted = Wanted { cursor: cursor.as_deref(), limit };
    let page = page::page(branches, &wanted, Order::Rising, |(place, _)| place.clone())?;
    let branches = page.items.into_iter().map(|(_, costs)| costs).collect();
    Ok(Reply::ok(&Costs { session, total: sum, branches, next: page.next }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "UsageQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Since {
    /// How many days are told, today included.
    days: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub(crate) struct Used {
    /// Oldest first.
    days: Vec<Day>,
    total: Total,
    stored_bytes: u64,
    running_turns: usize,
}

/// What all sessions used, by day and model, and what is stored.
pub(crate) fn usage(service: &Service, ask: &Ask) -> Result<Reply> {
    let days = ask.query::<Since>()?.days.unwrap_or(DAYS);
    if !(1..=DAYS).contains(&days) {
        return Err(invalid("the days cannot be told").why(format!("`days` is 1 to {DAYS}")));
    }
    let (days, bytes) = (service.tally.days(days)?, service.kernel.log().disk_bytes()?);
    let mut total = Total::default();
    days.iter().for_each(|day| total.merge(&day.total));
    let running_turns = service.desk.running();
    Ok(Reply::ok(&Used { days, total, stored_bytes: bytes, running_turns }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "BranchChoice")]
#[serde(deny_unknown_fields)]
pub(crate) struct OnBranch {
    /// Id or name; the main branch unless it is given.
    pub(crate) branch: Option<String>,
}

/// What a replay found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionReplay")]
#[serde(untagged)]
pub(crate) enum Replay {
    /// All came out the same.
    Same {
        #[serde(flatten)]
        same: Replayed,
        /// True.
        equal: bool,
    },
    /// The first thing that did not.
    Different {
        #[serde(flatten)]
        difference: Difference,
        /// False.
        equal: bool,
    },
}

/// Makes again what the kernel made of a branch's inputs. A difference is an answer, not an error.
pub(crate) fn replay(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let OnBranch { branch } = ask.json_or_default()?;
    let branch = service.kernel.branch(&session, branch.as_deref())?.branch;
    Ok(Reply::ok(&match service.kernel.replay(&branch, None)? {
        Ok(same) => Replay::Same { same, equal: true },
        Err(difference) => Replay::Different { difference, equal: false },
    }))
}

/// Why something was decided, and what would have made it another decision.
pub(crate) fn explain(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let seq: Seq = ask.part("seq", |text| {
        let what = format!("there is no event {text}");
        Error::new(glasshouse_log::codes::EVENT_NOT_FOUND, what)
    })?;
    let OnBranch { branch } = ask.query()?;
    let branch = service.kernel.branch(&session, branch.as_deref())?.branch;
    Ok(Reply::ok(&service.kernel.explain_decision(&branch, seq)?))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PolicyCandidate")]
#[serde(deny_unknown_fields)]
pub(crate) struct Candidate {
    /// The text of a policy file.
    policy: String,
    /// Only this session.
    session: Option<SessionId>,
    /// The last decisions of all sessions, where none is named.
    last: Option<usize>,
}

/// Decides again, under another policy, what was decided. Nothing is recorded.
pub(crate) fn simulate(service: &Service, ask: &Ask) -> Result<Reply> {
    let Candidate { policy, session, last } = ask.json()?;
    session.as_ref().map_or(Ok(()), |session| ask.check_session(session))?;
    let last = last.unwrap_or(LAST_DECISIONS);
    if !(1..=MAX_LAST_DECISIONS).contains(&last) {
        let why = format!("`last` is 1 to {MAX_LAST_DECISIONS}");
        return Err(invalid("the decisions cannot be tried").why(why));
    }
    let candidate =
        PolicyText { name: "candidate".to_owned(), text: policy, consent: Consent::Joint };
    let past = session.as_ref().map_or(Past::All, Past::Session);
    Ok(Reply::ok(&service.kernel.simulate(&candidate, past, last)?))
}
