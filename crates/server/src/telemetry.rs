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

use std::collections::HashMap;
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
/// Events of one read.
const PAGE_EVENTS: usize = 512;
/// Events that one message of the log may tell of at once.
const AT_ONCE: Seq = 4_096;
/// Most branches that are remembered; beyond them the quiet ones are forgotten.
const MAX_BRANCHES: usize = 4_096;

/// What is known of a branch.
struct Followed {
    next: Seq,
    tracer: Tracer,
}

/// Follows the log for as long as it lives.
#[derive(Debug)]
pub(crate) struct Watcher {
    tally: Arc<Mutex<Tally>>,
    /// What has no event; only where spans are sent.
    boundaries: Option<Arc<Boundaries>>,
}

impl Watcher {
    /// Begins to follow, and sends spans where that is asked for.
    ///
    /// # Errors
    /// `telemetry_invalid`; an error of the log; `server_failed` when there is no thread for it.
    pub(crate) fn new(log: &Log, telemetry: Option<Telemetry>) -> Result<Self> {
        let exporter = telemetry.map(Exporter::new).transpose()?;
        let tally = Arc::<Mutex<Tally>>::default();
        let seen = Arc::downgrade(&tally);
        let boundaries = exporter.is_some().then(Arc::<Boundaries>::default);
        if let Some(boundaries) = &boundaries {
            log.observe(Arc::clone(boundaries) as Arc<dyn glasshouse_log::Observer>);
        }
        let mut follower = log.follow()?;
        let log = log.clone();
        let since_us = glasshouse_kernel::driver::now_us();
        let told = boundaries.clone();
        let mut watch = Watch { log, since_us, branches: HashMap::new(), exporter, told };
        let follow = move || {
            while seen.strong_count() > 0 {
                // A log that cannot be read now is read later: nothing is forgotten.
                let news = follower.next(LOOK_EVERY).unwrap_or_default();
                let Some(tally) = seen.upgrade() else { return };
                for (branch, head) in news {
                    watch.take(&branch, head, &tally);
                }
                watch.send(&tally);
            }
        };
        std::thread::Builder::new().name(SENDER.to_owned()).spawn(follow).map_err(|e| {
            Error::new(codes::SERVER_FAILED, "no thread is left for telemetry").why(e)
        })?;
        Ok(Self { tally, boundaries })
    }

    /// Tells of a request, where spans are sent.
    pub(crate) fn answered(&self, answered: &Answered<'_>) {
        if let Some(boundaries) = &self.boundaries {
            boundaries.answered(answered);
        }
    }

    /// The counters as Prometheus reads them.
    pub(crate) fn text(&self) -> String {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).text()
    }
}

struct Watch {
    log: Log,
    /// What was stored before is not counted.
    since_us: u64,
    branches: HashMap<BranchId, Followed>,
    exporter: Option<Exporter>,
    told: Option<Arc<Boundaries>>,
}

impl Watch {
    fn take(&mut self, branch: &BranchId, head: Seq, tally: &Mutex<Tally>) {
        if self.branches.len() >= MAX_BRANCHES && !self.branches.contains_key(branch) {
            self.branches.retain(|_, followed| followed.tracer.is_open());
        }
        let content = self.exporter.as_ref().is_some_and(Exporter::tells_content);
        let first = head.saturating_sub(AT_ONCE).max(1);
        let new = || Followed { next: first, tracer: Tracer::new(branch.clone(), content) };
        let followed = self.branches.entry(branch.clone()).or_insert_with(new);
        loop {
            let Ok(events) = self.log.read(branch, followed.next, PAGE_EVENTS) else { return };
            let Some(last) = events.last().map(Event::seq) else { return };
            let is_new = |event: &&Event| event.header.time_us >= self.since_us;
            for event in events.iter().filter(is_new) {
                tally.lock().unwrap_or_else(PoisonError::into_inner).take(event);
                let spans = followed.tracer.take(event);
                if let Some(exporter) = &mut self.exporter {
                    exporter.push(spans);
                }
            }
            followed.next = last + 1;
        }
    }

    fn send(&mut self, tally: &Mutex<Tally>) {
        if let Some(exporter) = &mut self.exporter {
            if let Some(told) = &self.told {
                let (spans, dropped) = told.take(|branch, seq| {
                    self.branches.get(branch).and_then(|followed| followed.tracer.turn_of(seq))
                });
                exporter.push(spans);
                exporter.drop_more(dropped);
            }
            let (sent, dropped) = exporter.flush();
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.spans(sent, dropped);
        }
    }
}
