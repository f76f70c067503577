//! What goes on, told to others: counters for Prometheus and spans for OpenTelemetry.
//!
//! Both are folds over the events of the log, made by one thread that follows it. So they tell of every process that
//! works on this log, they need no code at the places that they tell of, and they say nothing that is not in the log.
//! What has no event, requests and what the log's store did in this process, is told by spans of its own (`boundaries`).
//! What a turn said or did is no part of a span unless whoever runs the server says so.

mod boundaries;
mod export;
mod spans;
mod tally;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glasshouse_log::Log;
use glasshouse_model::{BranchId, Event, Seq};

pub(crate) use boundaries::Answered;
pub use export::Telemetry;
pub(crate) use tally::{Histogram, Tally};

use crate::{Error, Result, codes};
use boundaries::{Boundaries, SENDER};
use export::Exporter;
use spans::Tracer;

/// How often the thread looks whether it is still wanted, and sends what it has.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Wait after a read that failed.
const PAUSE: Duration = Duration::from_millis(200);
/// Events of one read.
const PAGE_EVENTS: usize = 512;
/// Events that one message of the log may tell of at once.
const AT_ONCE: Seq = 4_096;
/// Most branches of which it is remembered what goes on. Those beyond them are counted and have no spans.
const MAX_BRANCHES: usize = 4_096;
/// How far a branch was read is kept for each one that was ever heard of while the server runs: these 24 bytes and
/// the text of its id, with what a table leaves free some 70 bytes a branch.
const _: () = assert!(size_of::<(BranchId, Seq)>() == 24, "each branch has one");

/// Follows the log for as long as it lives.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Its thread goes on for as long as this is held.
    _wanted: Arc<()>,
    /// What has no event; only where spans are sent.
    boundaries: Option<Arc<Boundaries>>,
}

impl Watcher {
    /// Begins to follow, counts into `tally`, and sends spans where that is asked for.
    ///
    /// # Errors
    /// `telemetry_invalid`; an error of the log; `server_failed` when there is no thread for it.
    pub(crate) fn new(
        log: &Log,
        telemetry: Option<Telemetry>,
        tally: Arc<Mutex<Tally>>,
    ) -> Result<Self> {
        let exporter = telemetry.map(Exporter::new).transpose()?;
        let boundaries = exporter.is_some().then(Arc::<Boundaries>::default);
        if let Some(boundaries) = &boundaries {
            log.observe(Arc::clone(boundaries) as Arc<dyn glasshouse_log::Observer>);
        }
        let wanted = Arc::new(());
        let seen = Arc::downgrade(&wanted);
        let mut follower = log.follow()?;
        let log = log.clone();
        let since_us = glasshouse_kernel::driver::now_us();
        let told = boundaries.clone();
        let tracers = Tracers { most: MAX_BRANCHES, of: HashMap::new() };
        let mut watch = Watch { log, since_us, next: HashMap::new(), tracers, exporter, told };
        let follow = move || {
            while seen.strong_count() > 0 {
                // A log that cannot be read now is read later: nothing is forgotten.
                let news = follower.next(LOOK_EVERY).unwrap_or_else(|_| {
                    std::thread::sleep(PAUSE);
                    BTreeMap::new()
                });
                for (branch, head) in news {
                    watch.take(&branch, head, &tally);
                }
                watch.send(&tally);
            }
        };
        std::thread::Builder::new().name(SENDER.to_owned()).spawn(follow).map_err(|e| {
            Error::new(codes::SERVER_FAILED, "no thread is left for telemetry").why(e)
        })?;
        Ok(Self { _wanted: wanted, boundaries })
    }

    /// Tells of a request, where spans are sent.
    pub(crate) fn answered(&self, answered: &Answered<'_>) {
        if let Some(boundaries) = &self.boundaries {
            boundaries.answered(answered);
        }
    }
}

/// What goes on on branches, of so many at most.
struct Tracers {
    most: usize,
    of: HashMap<BranchId, Tracer>,
}

impl Tracers {
    /// What is remembered of a branch, if that can be. Where too much is, what was remembered of quiet branches goes.
    fn of(&mut self, branch: &BranchId, content: bool) -> Option<&mut Tracer> {
        if self.of.len() >= self.most && !self.of.contains_key(branch) {
            self.of.retain(|_, tracer| tracer.is_open());
            if self.of.len() >= self.most {
                return None;
            }
        }
        let new = || Tracer::new(branch.clone(), content);
        Some(self.of.entry(branch.clone()).or_insert_with(new))
    }
}

struct Watch {
    log: Log,
    /// What was stored before is not counted.
    since_us: u64,
    /// The sequence that each branch is read from next. It stays, so that nothing is counted twice.
    next: HashMap<BranchId, Seq>,
    tracers: Tracers,
    exporter: Option<Exporter>,
    told: Option<Arc<Boundaries>>,
}

impl Watch {
    fn take(&mut self, branch: &BranchId, head: Seq, tally: &Mutex<Tally>) {
        let content = self.exporter.as_ref().is_some_and(Exporter::tells_content);
        let next = match self.next.entry(branch.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                // What it shares with its parent is the parent's.
                let Ok(row) = self.log.branch(branch) else { return };
                let next = head.saturating_sub(AT_ONCE).max(row.base().seq + 1);
                new.insert(next)
            }
        };
        let mut tracer = self.tracers.of(branch, content);
        loop {
            let Ok(events) = self.log.read(branch, *next, PAGE_EVENTS) else { return };
            let Some(last) = events.last().map(Event::seq) else { return };
            let is_new = |event: &&Event| event.header.time_us >= self.since_us;
            for event in events.iter().filter(is_new) {
                tally.lock().unwrap_or_else(PoisonError::into_inner).take(event);
                let spans = tracer.as_mut().map(|tracer| tracer.take(event));
                if let Some(exporter) = &mut self.exporter {
                    exporter.push(spans.unwrap_or_default());
                }
            }
            *next = last + 1;
        }
    }

    fn send(&mut self, tally: &Mutex<Tally>) {
        if let Some(exporter) = &mut self.exporter {
            if let Some(told) = &self.told {
                let (spans, dropped) =
                    told.take(|branch, seq| self.tracers.of.get(branch)?.turn_of(seq));
                exporter.push(spans);
                exporter.drop_more(dropped);
            }
            let (sent, dropped) = exporter.flush();
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.spans(sent, dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use glasshouse_log::{Append, NewBranch};
    use glasshouse_model::{Draft, Kind, SessionId, TenantId};

    use super::*;

    /// Where too many branches are remembered, quiet ones are forgotten, but not how far they were read.
    #[test]
    fn what_was_forgotten_is_not_counted_again() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), &TenantId::local()).unwrap();
        let [one, other, third] = [1, 2, 3].map(|byte| BranchId::from_random([byte; 8]));
        let session_of = |branch: &BranchId| {
            let at = [&one, &other, &third].into_iter().position(|known| known == branch);
            SessionId::from_random([u8::try_from(at.unwrap()).unwrap(); 8])
        };
        for branch in [&one, &other, &third] {
            let (session, name) = (session_of(branch), "main".to_owned());
            let new = NewBranch { session, branch: branch.clone(), name, parent: None };
            log.create_branch(new).unwrap();
        }
        let tally = Mutex::<Tally>::default();
        let mut watch = Watch {
            log: log.clone(),
            since_us: 0,
            next: HashMap::new(),
            tracers: Tracers { most: 1, of: HashMap::new() },
            exporter: None,
            told: None,
        };
        let mut commits = 0;
        let mut check = |branch: &BranchId, kind: Kind, remembered: &BranchId| {
            let draft = Draft::new(kind.clone(), &serde_json::json!({}));
            log.append(Append::new(session_of(branch), branch.clone(), vec![draft])).unwrap();
            watch.take(branch, log.head(branch).unwrap().seq, &tally);
            commits += u64::from(kind == Kind::CommitCreated);
            let text = tally.lock().unwrap().text();
            let line = format!("glasshouse_commits_total {commits}\n");
            assert!(text.contains(&line), "{commits}: {text}");
            let known: Vec<_> = watch.tracers.of.keys().collect();
            assert_eq!(known, [remembered], "{branch} {kind:?}");
        };
        check(&one, Kind::CommitCreated, &one);
        // As many as can be: the quiet one is forgotten, and heard of again.
        check(&other, Kind::CommitCreated, &other);
        check(&one, Kind::CommitCreated, &one);
        // Something goes on there: what has no room is counted all the same.
        check(&one, Kind::TurnStarted, &one);
        check(&other, Kind::CommitCreated, &one);
        check(&third, Kind::CommitCreated, &one);
        check(&other, Kind::CommitCreated, &one);
    }

    /// The failure: whatever was stored after a turn was told as a part of it.
    #[test]
    fn an_append_after_the_end_of_a_turn_is_in_none() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), &TenantId::local()).unwrap();
        let (session, branch) = (SessionId::from_random([1; 8]), BranchId::from_random([1; 8]));
        let (name, of) = ("main".to_owned(), branch.clone());
        let new = NewBranch { session: session.clone(), branch: of, name, parent: None };
        log.create_branch(new).unwrap();
        let mut tracer = Tracer::new(branch.clone(), false);
        let mut append = |kind: Kind, body: serde_json::Value| {
            let draft = Draft::new(kind, &body);
            log.append(Append::new(session.clone(), branch.clone(), vec![draft])).unwrap();
            let seq = log.head(&branch).unwrap().seq;
            for event in log.read(&branch, seq, 1).unwrap() {
                tracer.take(&event);
            }
            // The one before, this one, and one that comes.
            [seq - 1, seq, seq + 1].map(|seq| tracer.turn_of(seq).map(|(trace, _)| trace))
        };
        let commit = |append: &mut dyn FnMut(Kind, serde_json::Value) -> [Option<String>; 3]| {
            append(Kind::CommitCreated, serde_json::json!({}))
        };
        assert_eq!(commit(&mut append), [None, None, None]);
        let [before, first, next] = append(Kind::TurnStarted, serde_json::json!({}));
        assert_eq!((before, &first), (None, &next));
        assert!(first.is_some());
        let turn = log.head(&branch).unwrap().seq;
        assert_eq!(commit(&mut append), [first.clone(), first.clone(), first.clone()]);
        let end = serde_json::json!({ "turn": turn, "outcome": "answered" });
        let ended = append(Kind::TurnCompleted, end);
        assert_eq!(ended, [first.clone(), first.clone(), None]);
        assert_eq!(commit(&mut append), [first, None, None]);
    }
}
