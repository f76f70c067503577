//! The governor: how many runs a tenant may begin a minute, and have under way at once.
//!
//! What is used is a cell of the tenant's log, changed by compare-and-set, so it holds for all
//! processes and outlives each of them. The rules are `plan`'s.

use std::collections::VecDeque;

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::{PlanShown, PolicyDecided, RunMode};
use glasshouse_model::syscall::name;
use glasshouse_model::{Event, Kind};
use glasshouse_plan::quota::{Quota, RUN_TTL_US, Usage, WINDOW_US};

use super::tenant;
use crate::{Error, Result, codes};

pub(crate) const SPACE: &str = "plans.governor";

/// When runs began, and which of them are under way, as the events say.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    begun_us: Vec<u64>,
    open_us: VecDeque<u64>,
}

impl Runs {
    /// Folds the next event of the plans' branch.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event.kind() {
            Kind::PolicyDecided => {
                let decided = event.body_as::<PolicyDecided>();
                if decided.is_ok_and(|decided| decided.syscall == name::UI_RENDER) {
                    self.begun_us.push(event.header.time_us);
                    self.open_us.push_back(event.header.time_us);
                }
            }
            Kind::PlanRendered | Kind::PlanRefused => {
                let run = event.body_as::<PlanShown>().ok().and_then(|shown| shown.run);
                if run.is_some_and(|run| run.mode != RunMode::Replay) {
                    // Which one ended is not said, and does not matter: each gives one place back.
                    self.open_us.pop_front();
                }
            }
            _ => {}
        }
    }

    /// Whether a cell counts what these are.
    fn are(&self, usage: &Usage, now_us: u64) -> bool {
        let window_us = usage.window_started_us;
        let begun = self.begun_us.iter().filter(|begun| **begun >= window_us).count();
        let is_over = now_us.abs_diff(window_us) >= WINDOW_US;
        (is_over || begun == usage.runs_in_window as usize)
            && usage.running.len() == self.open(now_us).count()
    }

    fn open(&self, now_us: u64) -> impl Iterator<Item = u64> {
        let expires = self.open_us.iter().map(|begun| begun.saturating_add(RUN_TTL_US));
        expires.filter(move |expires_us| *expires_us > now_us)
    }

    fn usage(&self, now_us: u64) -> Usage {
        let in_window = |begun: &&u64| now_us.saturating_sub(**begun) < WINDOW_US;
        let recent: Vec<_> = self.begun_us.iter().filter(in_window).collect();
        let running = self.open(now_us).enumerate();
        Usage {
            window_started_us: recent.iter().min().map_or(0, |begun| **begun),
            runs_in_window: u32::try_from(recent.len()).unwrap_or(u32::MAX),
            running: running.map(|(n, expires_us)| (format!("again {n}"), expires_us)).collect(),
        }
    }
}

/// Key and bytes of the cell of what is used as the events say: of the one that is there, where it counts the
/// same; nothing where nothing ever ran.
pub(crate) fn expected(log: &Log, runs: &Runs, now_us: u64) -> Result<Option<(String, Vec<u8>)>> {
    let key = tenant(log).as_str().to_owned();
    let cell = log.cell(SPACE, &key)?;
    if runs.begun_us.is_empty() && cell.is_none() {
        return Ok(None);
    }
    if let Some(cell) = cell
        && let Ok(mut usage) = serde_json::from_slice::<Usage>(&cell.bytes)
    {
        usage.expire(now_us);
        if runs.are(&usage, now_us) {
            return Ok(Some((key, cell.bytes)));
        }
    }
    Ok(Some((key, bytes_of(&runs.usage(now_us))?)))
}

fn bytes_of(usage: &Usage) -> Result<Vec<u8>> {
    serde_json::to_vec(usage)
        .map_err(|e| Error::new(codes::LOG_UNREADABLE, "a quota cannot be written").why(e))
}

/// The right to one run.
pub(super) struct Ticket(String);

pub(super) struct Governor {
    log: Log,
    quota: Quota,
}

impl Governor {
    pub(super) fn new(log: Log, quota: Quota) -> Self {
        Self { log, quota }
    }

    /// How many runs may be under way at once.
    pub(super) const fn concurrent(&self) -> u32 {
        self.quota.concurrent
    }

    fn key(&self) -> String {
        tenant(&self.log).as_str().to_owned()
    }

    /// What is used now, and the version of the cell; 0 when there is none.
    fn read(&self, now_us: u64) -> Result<(Usage, u64)> {
        let Some(cell) = self.log.cell(SPACE, &self.key())? else {
            return Ok((Usage::default(), 0));
        };
        // A cell that cannot be read allows nothing.
        let mut usage: Usage = serde_json::from_slice(&cell.bytes).map_err(|e| {
            Error::new(codes::LOG_UNREADABLE, "the quota of the tenant cannot be read").why(e)
        })?;
        usage.expire(now_us);
        Ok((usage, cell.version))
    }

    pub(super) fn usage(&self, now_us: u64) -> Result<Usage> {
        Ok(self.read(now_us)?.0)
    }

    /// The right to one run and the change of the cell that takes it, for the transaction that
    /// begins the run; the inner error says why there is none now.
    pub(super) fn reserve(&self, now_us: u64) -> Result<Result<(Ticket, CellWrite), Error>> {
        let name: String =
            crate::driver::random::<8>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let (mut usage, version) = self.read(now_us)?;
        if let Err(error) = usage.take(self.quota, &name, now_us) {
            return Ok(Err(throttled(&error)));
        }
        let write = self.write(&usage, version)?;
        Ok(Ok((Ticket(name), write)))
    }

    /// The change that gives a right back; it belongs into the transaction that ends the run.
    pub(super) fn release(&self, ticket: &Ticket) -> Result<CellWrite> {
        let (mut usage, version) = self.read(super::now_us())?;
        usage.give_back(&ticket.0);
        self.write(&usage, version)
    }

    fn write(&self, usage: &Usage, version: u64) -> Result<CellWrite> {
        let bytes = bytes_of(usage)?;
        Ok(CellWrite {
            space: SPACE.to_owned(),
            key: self.key(),
            expected_version: Some(version),
            bytes: Some(bytes),
        })
    }
}

/// Why a replay does not begin: it runs code as any run does, and has a place as any run has.
pub(super) fn no_place(concurrent: u32) -> Error {
    Error::new(codes::PLAN_THROTTLED, "the replay did not begin")
        .why(format!("concurrent: limit {concurrent}"))
        .with("limit", "concurrent")
        .with("max", concurrent)
}

fn throttled(error: &glasshouse_plan::Error) -> Error {
    let report = error.report();
    let told = Error::new(codes::PLAN_THROTTLED, "the run did not begin")
        .why(format!("{}: {}", report.what, report.why));
    report.context.into_iter().fold(told, |error, (key, value)| error.with(&key, value))
}

#[cfg(test)]
mod tests {
    use glasshouse_model::Digest;
    use serde_json::{Value, json};

    use super::*;

    fn event(time_us: u64, kind: &str, body: &Value) -> Event {
        serde_json::from_value(json!({
            "v": 1, "tenant": "local", "session": "s_1", "branch": "b_1", "seq": 1,
            "time_us": time_us, "kind": kind, "actor": { "type": "user", "id": "local" },
            "body": body, "body_hash": Digest::ZERO, "prev": Digest::ZERO, "hash": Digest::ZERO,
        }))
        .unwrap()
    }

    /// The cell that the quota's own rules lead to is what the events say, at each moment; a cell that
    /// counts too much or too little is not.
    #[test]
    fn a_quota_is_counted_again_from_the_events() {
        let begin = json!({
            "syscall": "ui.render", "decision": "allow", "rules": [], "reasons": [],
            "policy_version": Digest::ZERO,
        });
        let end = |mode: &str| {
            let run = json!({ "mode": mode, "status": "succeeded", "first": 1, "renderer": "1", "duration_us": 1 });
            json!({ "profile": "strict", "run": run })
        };
        let (mut usage, mut runs, quota) = (Usage::default(), Runs::default(), Quota::default());
        let mut check = |at_us: u64, begins: Option<&str>, ends: Option<(&str, &str)>| {
            if let Some(name) = begins {
                usage.take(quota, name, at_us).unwrap();
                runs.apply(&event(at_us + 3, "policy.decided", &begin));
            }
            if let Some((name, mode)) = ends {
                usage.give_back(name);
                runs.apply(&event(at_us + 3, "plan.rendered", &end(mode)));
            }
            let now_us = at_us + 5;
            let mut seen = usage.clone();
            seen.expire(now_us);
            assert!(runs.are(&seen, now_us), "{at_us}: {seen:?} {runs:?}");
            let again = runs.usage(now_us);
            assert!(runs.are(&again, now_us), "{at_us}: {again:?}");
            let counted = Usage { runs_in_window: seen.runs_in_window + 1, ..seen.clone() };
            let is_over = now_us - seen.window_started_us >= WINDOW_US;
            assert_eq!(runs.are(&counted, now_us), is_over, "{at_us}");
            let mut held = seen;
            held.running.insert("nobody".to_owned(), now_us + 9);
            assert!(!runs.are(&held, now_us), "{at_us}");
        };
        let start = 5 * WINDOW_US;
        check(start, Some("a"), None);
        check(start + 10, Some("b"), None);
        check(start + 20, None, Some(("a", "plan")));
        check(start + 30, None, Some(("none", "replay")));
        check(start + 40, Some("c"), None);
        check(start + 50, None, Some(("b", "event")));
        // The process of `c` was killed; its place comes back by itself.
        check(start + RUN_TTL_US + 50, None, None);
        check(start + RUN_TTL_US + 60, Some("d"), None);
    }
}
