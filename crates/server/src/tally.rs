//! What a tenant used, by day: a fold over every branch of its log, so that it survives a restart and can be
//! audited. What quotas look at and what `/v1/usage` tells is the same fold.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use glasshouse_kernel::driver::now_us;
use glasshouse_kernel::session::{Charge, Total};
use glasshouse_log::{Follower, Log};
use glasshouse_model::body::{ModelCompleted, ModelRequested, Spent};
use glasshouse_model::{BranchId, Event, Kind, Seq};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;

/// Days that are looked at, today included.
pub(crate) const DAYS: u64 = 31;
/// Microseconds of a day.
pub(crate) const DAY_US: u64 = 24 * 3_600 * 1_000_000;

/// What was used on one day, in UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "UsageOfDay")]
pub(crate) struct Day {
    /// Days since 1970.
    pub(crate) day: u64,
    /// Turns that began.
    pub(crate) turns: u64,
    /// Answers of models, their tokens and their cost.
    pub(crate) total: Total,
    /// The same by model.
    pub(crate) models: BTreeMap<String, Total>,
}

/// Counts.
#[derive(Debug)]
pub(crate) struct Tally {
    log: Log,
    counted: Mutex<Option<Counted>>,
}

#[derive(Debug)]
struct Counted {
    follower: Follower,
    /// What was read of each branch: its last event, and the model that was asked.
    read: HashMap<BranchId, (Seq, String)>,
    days: BTreeMap<u64, Day>,
    erased: Erased,
}

/// What one erasure kept of the answers that it erased: those of a session were erased by few.
#[derive(Debug, Default)]
struct Erased {
    /// Position of the erasure.
    by: Option<u64>,
    spent: HashMap<(BranchId, Seq), Spent>,
}

impl Tally {
    /// Of a log; nothing is read before it is asked for.
    pub(crate) fn new(log: &Log) -> Self {
        Self { log: log.clone(), counted: Mutex::new(None) }
    }

    /// What was used on the last days, oldest first, up to what is stored now.
    ///
    /// # Errors
    /// What reading the log answers.
    pub(crate) fn days(&self, days: u64) -> Result<Vec<Day>> {
        let today = now_us() / DAY_US;
        let from = (today + 1).saturating_sub(days.min(DAYS));
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut counted, today)?;
        let days = counted.iter().flat_map(|counted| counted.days.range(from..));
        Ok(days.map(|(_, day)| day.clone()).collect())
    }

    /// What was used today.
    ///
    /// # Errors
    /// What reading the log answers.
    pub(crate) fn today(&self) -> Result<Day> {
        let day = now_us() / DAY_US;
        let last = self.days(1)?.pop().filter(|last| last.day == day);
        Ok(last.unwrap_or(Day { day, ..Day::default() }))
    }

    fn refresh(&self, counted: &mut Option<Counted>, today: u64) -> Result<()> {
        let oldest = (today + 1).saturating_sub(DAYS);
        // Half of a count is none: one that fails begins anew.
        let mut now = match counted.take() {
            Some(counted) => counted,
            None => self.begin(oldest)?,
        };
        loop {
            let news = now.follower.next(Duration::ZERO)?;
            if news.is_empty() {
                break;
            }
            for branch in news.into_keys() {
                now.read_on(&self.log, &branch)?;
            }
        }
        now.days = now.days.split_off(&oldest);
        *counted = Some(now);
        Ok(())
    }

    /// Reads what was stored before anybody asked. What comes meanwhile the follower hears of.
    fn begin(&self, oldest: u64) -> Result<Counted> {
        let follower = self.log.follow()?;
        let (read, days, erased) = (HashMap::new(), BTreeMap::new(), Erased::default());
        let mut counted = Counted { follower, read, days, erased };
        for row in self.log.sessions()? {
            if row.last_us / DAY_US >= oldest {
                for branch in self.log.branches(&row.session)? {
                    counted.read_on(&self.log, &branch.branch)?;
                }
            }
        }
        Ok(counted)
    }
}

impl Counted {
    fn read_on(&mut self, log: &Log, branch: &BranchId) -> Result<()> {
        if !self.read.contains_key(branch) {
            // What it shares with its parent is the parent's.
            let base = log.branch(branch)?.base().seq;
            self.read.insert(branch.clone(), (base, String::new()));
        }
        let Some((last, model)) = self.read.get_mut(branch) else { return Ok(()) };
        for event in log.events_from(branch, *last + 1) {
            let event = match event {
                // One damaged branch hides no other; what it used is not known.
                Err(error) if error.is(glasshouse_log::codes::LOG_CORRUPT) => break,
                event => event?,
            };
            *last = event.seq();
            let charge = charge(log, &mut self.erased, model, &event)?;
            count(&mut self.days, &event, charge.as_ref());
        }
        Ok(())
    }
}

impl Erased {
    /// What an answer used whose body is gone; `None` where its erasure does not say.
    fn of(&mut self, log: &Log, event: &Event) -> Result<Option<Spent>> {
        let (branch, seq) = (&event.header.branch, event.seq());
        let record = log.records(branch, seq, 1)?.pop();
        let Some(by) = record.and_then(|record| record.erased_by()) else { return Ok(None) };
        if self.by != Some(by) {
            let said = log.erasure(by)?.map(|said| said.spent).unwrap_or_default();
            let said = said.into_iter().map(|spent| ((spent.branch.clone(), spent.seq), spent));
            (self.by, self.spent) = (Some(by), said.collect());
        }
        Ok(self.spent.get(&(branch.clone(), seq)).cloned())
    }
}

/// What an event says that a model used, whether its body is there or was erased.
fn charge(
    log: &Log,
    erased: &mut Erased,
    model: &mut String,
    event: &Event,
) -> Result<Option<Charge>> {
    match event.kind() {
        Kind::ModelRequested => {
            if let Ok(asked) = event.body_as::<ModelRequested>() {
                *model = asked.model;
            }
            return Ok(None);
        }
        Kind::ModelCompleted => {}
        _ => return Ok(None),
    }
    let (summary, tokens, cost_micros) = if event.body.is_null() {
        let Some(spent) = erased.of(log, event)? else { return Ok(None) };
        if let Some(name) = spent.model {
            *model = name;
        }
        (spent.summary, spent.tokens, spent.cost_micros)
    } else {
        let Ok(answer) = event.body_as::<ModelCompleted>() else { return Ok(None) };
        (answer.summary, answer.tokens, answer.cost_micros)
    };
    let (seq, model) = (event.seq(), model.clone());
    Ok(Some(Charge { seq, turn: None, model, summary, tokens, cost_micros }))
}

fn count(days: &mut BTreeMap<u64, Day>, event: &Event, charge: Option<&Charge>) {
    let is_turn = *event.kind() == Kind::TurnStarted;
    if !is_turn && charge.is_none() {
        return;
    }
    let at = event.header.time_us / DAY_US;
    let day = days.entry(at).or_insert_with(|| Day { day: at, ..Day::default() });
    day.turns += u64::from(is_turn);
    if let Some(charge) = charge {
        day.total.add(charge);
        day.models.entry(charge.model.clone()).or_default().add(charge);
    }
}
