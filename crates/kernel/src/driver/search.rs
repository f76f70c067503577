//! Words in what was said and done: a scan of the log, newest sessions first, with limits.
//!
//! There is no index: what is found is what the log holds now, so nothing that was erased can be found, and nothing has
//! to be repaired. A scan reads some hundred thousand events a second.

use std::fmt;
use std::str::FromStr;

use glasshouse_log::{SessionRow, own_session};
use glasshouse_model::body::{
    CallEnd, CommitCreated, MessageReceived, ModelCompleted, ObservationExtracted, ToolProposed,
};
use glasshouse_model::{BranchId, Event, Kind, Seq, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

use super::Kernel;
use crate::Result;

/// Events that are read before a search ends.
const MAX_EVENTS: u64 = 500_000;
/// Characters around a find that are shown.
const AROUND_CHARS: usize = 80;

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Search {
    /// Words; all must stand in one text, in any order and case.
    pub words: String,
    /// Only in this session.
    pub session: Option<SessionId>,
    /// Where an earlier search ended.
    pub after: Option<SearchPlace>,
    /// Most finds.
    pub limit: usize,
}

/// The last event that a search read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPlace {
    /// When its session was made: those that come meanwhile are not looked at.
    created_us: u64,
    session: SessionId,
    branch: BranchId,
    seq: Seq,
}

impl fmt::Display for SearchPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.created_us, self.session, self.branch, self.seq)
    }
}

impl FromStr for SearchPlace {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let mut parts = text.splitn(4, '.');
        let mut part = || parts.next().ok_or(());
        Ok(Self {
            created_us: part()?.parse().map_err(drop)?,
            session: part()?.parse().map_err(drop)?,
            branch: part()?.parse().map_err(drop)?,
            seq: part()?.parse().map_err(drop)?,
        })
    }
}

/// Where words were found.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Find {
    /// Session.
    pub session: SessionId,
    /// Branch.
    pub branch: BranchId,
    /// Sequence of the event.
    pub seq: Seq,
    /// What the event is.
    pub kind: Kind,
    /// When, microseconds since 1970.
    pub time_us: u64,
    /// The text around the first word.
    pub text: String,
}

/// What a search came to.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "SearchFound")]
pub struct Found {
    /// Finds, newest session first, each session's in order.
    pub finds: Vec<Find>,
    /// Events that were read.
    pub events: u64,
    /// Whether everything was looked at.
    pub is_whole: bool,
    /// Where another search goes on; `null` where everything was looked at.
    pub next: Option<String>,
}

impl Kernel {
    /// Looks for words in messages, answers, calls, outputs, commits and observations.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn search(&self, search: &Search) -> Result<Found> {
        let words: Vec<String> = search.words.split_whitespace().map(str::to_lowercase).collect();
        let mut found = Found { finds: Vec::new(), events: 0, is_whole: true, next: None };
        let mut rows = self.log.sessions()?;
        rows.retain(|row| row.session != own_session());
        rows.retain(|row| search.session.as_ref().is_none_or(|session| *session == row.session));
        let order = |row: &SessionRow| (row.created_us, row.session.clone());
        rows.sort_by_key(|row| std::cmp::Reverse(order(row)));
        if let Some(after) = &search.after {
            rows.retain(|row| order(row) <= (after.created_us, after.session.clone()));
        }
        for row in rows {
            let after = search.after.as_ref().filter(|after| after.session == row.session);
            let branches = self.log.branches(&row.session)?;
            let first = after
                .and_then(|after| branches.iter().position(|branch| branch.branch == after.branch));
            for branch in branches.into_iter().skip(first.unwrap_or(0)) {
                // What a fork shares with its parent is found there.
                let mut from = branch.fork.as_ref().map_or(1, |fork| fork.seq + 1);
                if let Some(after) = after.filter(|after| after.branch == branch.branch) {
                    from = from.max(after.seq + 1);
                }
                for event in self.log.events_from(&branch.branch, from) {
                    let event = event?;
                    if found.events >= MAX_EVENTS || found.finds.len() >= search.limit {
                        found.is_whole = false;
                        found.next = Some(
                            SearchPlace {
                                created_us: row.created_us,
                                session: row.session.clone(),
                                branch: branch.branch.clone(),
                                seq: event.seq() - 1,
                            }
                            .to_string(),
                        );
                        return Ok(found);
                    }
                    found.events += 1;
                    found.finds.extend(find(&event, &words));
                }
            }
        }
        Ok(found)
    }
}

fn find(event: &Event, words: &[String]) -> Option<Find> {
    let text = text_of(event)?;
    let lower = text.to_lowercase();
    let first = words.first()?;
    if !words.iter().all(|word| lower.contains(word.as_str())) {
        return None;
    }
    let at = lower.find(first.as_str())?;
    Some(Find {
        session: event.header.session.clone(),
        branch: event.header.branch.clone(),
        seq: event.seq(),
        kind: event.kind().clone(),
        time_us: event.header.time_us,
        text: around(&text, lower[..at].chars().count()),
    })
}

/// The text near a character.
fn around(text: &str, at: usize) -> String {
    let skipped = at.saturating_sub(AROUND_CHARS);
    let shown: String = text.chars().skip(skipped).take(2 * AROUND_CHARS).collect();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What can be found of an event. A body that was erased has nothing.
fn text_of(event: &Event) -> Option<String> {
    Some(match event.kind() {
        Kind::MessageReceived => event.body_as::<MessageReceived>().ok()?.text,
        Kind::ModelCompleted => event.body_as::<ModelCompleted>().ok()?.text,
        Kind::ToolProposed => {
            let body: ToolProposed = event.body_as().ok()?;
            format!("{} {}", body.tool, body.arguments)
        }
        Kind::CommitCreated => event.body_as::<CommitCreated>().ok()?.subject,
        Kind::ObservationExtracted => event.body_as::<ObservationExtracted>().ok()?.text,
        kind if kind.ends_call() => event.body_as::<CallEnd>().ok()?.text,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_around_a_find_is_short_and_whole() {
        let long = format!("{}needle{}", "ä ".repeat(200), " ö".repeat(200));
        let shown = around(&long, 400);
        assert!(shown.contains("needle") && shown.chars().count() <= 2 * AROUND_CHARS, "{shown}");
        assert_eq!(around("a\n  b", 0), "a b");
    }
}
