//! All events of a branch, page by page.

use std::fmt;

use glasshouse_model::{BranchId, Event, Seq};

use super::Log;
use crate::chain::PAGE;
use crate::error::{Error, Result};

/// Iterator over a branch's events; see [`Log::events`].
pub struct Events {
    log: Log,
    branch: BranchId,
    next: Seq,
    page: std::vec::IntoIter<Event>,
    /// Set at the end: the error that follows the last page, or nothing.
    end: Option<Option<Error>>,
}

impl Iterator for Events {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.page.next() {
                self.next = event.seq() + 1;
                return Some(Ok(event));
            }
            if let Some(end) = &mut self.end {
                return end.take().map(Err);
            }
            let page = self.log.chain(&self.branch).and_then(|chain| chain.read(self.next, PAGE));
            let (events, error) = page.unwrap_or_else(|error| (Vec::new(), Some(error)));
            if events.is_empty() || error.is_some() {
                self.end = Some(error);
            }
            self.page = events.into_iter();
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({} from {})", self.branch, self.next)
    }
}

impl Events {
    pub(super) fn new(log: Log, branch: BranchId, next: Seq) -> Self {
        Self { log, branch, next, page: Vec::new().into_iter(), end: None }
    }
}
