//! Branches: list, fork, merge, compare.

use std::collections::BTreeMap;

use glasshouse_kernel::driver::{NewFork, NewMerge};
use glasshouse_log::BranchRow;
use glasshouse_model::body::MergeSide;
use glasshouse_model::{BranchId, CanonicalPath, Digest, Seq};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::ask::{Ask, invalid, no_session};
use crate::page::{self, MOST, Order, Wanted};
use crate::quota::check_stored;
use crate::reply::Reply;
use crate::service::Service;

/// Longest reason of a fork.
const MAX_REASON_BYTES: usize = 1_024;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Branch")]
pub(crate) struct View {
    branch: BranchId,
    name: String,
    parent: Option<BranchId>,
    /// The last event that it shares with its parent.
    fork_seq: Option<Seq>,
    /// `open`, `merged` or `closed`.
    state: &'static str,
    is_imported: bool,
    head: Seq,
    head_hash: Digest,
    created_us: u64,
    last_us: u64,
}

impl From<BranchRow> for View {
    fn from(row: BranchRow) -> Self {
        Self {
            parent: row.fork.as_ref().map(|fork| fork.parent.clone()),
            fork_seq: row.fork.as_ref().map(|fork| fork.seq),
            state: row.state.as_str(),
            branch: row.branch,
            name: row.name,
            is_imported: row.is_imported,
            head: row.head.seq,
            head_hash: row.head.hash,
            created_us: row.created_us,
            last_us: row.last_us,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Branches")]
pub(crate) struct List {
    branches: Vec<View>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "BranchesQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most items of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

/// Branches of a session, oldest first.
pub(crate) fn list(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let rows = service.kernel.log().branches(&session)?;
    if rows.is_empty() {
        return Err(no_session(session.as_str()));
    }
    let Listed { cursor, limit } = ask.query()?;
    let wanted = Wanted { cursor: cursor.as_deref(), limit };
    let place = |row: &BranchRow| (row.created_us, row.branch.to_string());
    let page = page::page(rows, &wanted, Order::Rising, place)?;
    let branches = page.items.into_iter().map(View::from).collect();
    Ok(Reply::ok(&List { branches, next: page.next }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewFork")]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// Branch to leave; the main one unless it is given.
    from: Option<String>,
    /// Last event that both share; the newest unless it is given.
    at: Option<Seq>,
    name: Option<String>,
    reason: Option<String>,
}

impl Fork {
    /// Refuses what is more than a reason: it is kept for good.
    fn check(&self) -> Result<()> {
        let bytes = self.reason.as_ref().map_or(0, String::len);
        if bytes <= MAX_REASON_BYTES {
            return Ok(());
        }
        Err(invalid("the reason of the fork cannot be used")
            .why(format!("it has {bytes} bytes, at most {MAX_REASON_BYTES}")))
    }
}

/// Forks a branch.
pub(crate) fn fork(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let asked: Fork = ask.json_or_default()?;
    asked.check()?;
    let Fork { from, at, name, reason } = asked;
    let new = NewFork {
        session: session.clone(),
        branch: from,
        at,
        name,
        reason,
        by: Some(ask.principal()?.clone()),
    };
    let forked = service.kernel.fork(&new)?;
    let view = View::from(service.kernel.branch(&session, Some(forked.branch.as_str()))?);
    Ok(Reply::json(StatusCode::CREATED, &view))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewMerge")]
#[serde(deny_unknown_fields)]
pub(crate) struct Merge {
    /// Branch that goes on; the main one unless it is given.
    into: Option<String>,
    /// Whose version of a path is taken where two do not go together; an empty path stands for all.
    #[serde(default)]
    take: BTreeMap<String, MergeSide>,
    /// Only tell what would be done.
    #[serde(default)]
    dry_run: bool,
}

/// Merges a branch. Where a rule wants a person, the answer names the question, and whoever says yes makes the merge.
pub(crate) fn merge(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let source: String = ask.part("branch", no_session)?;
    let Merge { into, take, dry_run } = ask.json_or_default()?;
    let new = NewMerge {
        session,
        source,
        into,
        take: take.into_iter().collect(),
        by: Some(ask.principal()?.clone()),
    };
    if !dry_run {
        check_stored(service, ask)?;
    }
    let merging = match dry_run {
        true => service.kernel.preview_merge(&new)?,
        false => service.kernel.request_merge(&new)?,
    };
    let is_asked = merging.approval.is_some();
    let status = if is_asked { StatusCode::ACCEPTED } else { StatusCode::OK };
    let reply = Reply::json(status, &merging);
    Ok(match &merging.approval {
        Some(name) => reply.header("location", &format!("/v1/approvals/{name}")),
        None => reply,
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "DiffQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Sides {
    /// Branch to compare, by id or name; the main one unless it is given.
    branch: Option<String>,
    /// Event of it; the newest unless it is given.
    from: Option<Seq>,
    /// The other branch; the same unless it is given.
    with: Option<String>,
    /// Event of that; the newest unless it is given.
    to: Option<Seq>,
    /// Whether patches are left out.
    #[serde(default)]
    names: bool,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most items of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChangedFile")]
struct Changed {
    path: CanonicalPath,
    /// The old path of a rename.
    from: Option<CanonicalPath>,
    change: &'static str,
    /// Unified; `null` where only names were asked for.
    patch: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Diff")]
pub(crate) struct Differences {
    old: BranchId,
    new: BranchId,
    /// The last event that both share.
    shared: Seq,
    /// In order of their paths.
    changes: Vec<Changed>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Files that differ.
pub(crate) fn diff(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let Sides { branch, from, with, to, names, cursor, limit } = ask.query()?;
    let old = service.kernel.branch(&session, branch.as_deref())?;
    let new = service.kernel.branch(&session, with.as_deref().or(branch.as_deref()))?;
    let shared = service.kernel.log().last_shared(&old.branch, &new.branch)?;
    let before = service.kernel.past_files(&old.branch, from)?;
    let after = service.kernel.past_files(&new.branch, to)?;
    let mut changes = Vec::new();
    let wanted = Wanted { cursor: cursor.as_deref(), limit };
    let found = before.changes(&after);
    let page = page::page(found, &wanted, Order::Rising, |one| (0, one.path.to_string()))?;
    for change in page.items {
        let patch = if names { None } else { Some(before.unified(&after, &change)?) };
        let from = change.paths().find(|path| **path != change.path).cloned();
        let kind = change.kind.as_str();
        changes.push(Changed { path: change.path.clone(), from, change: kind, patch });
    }
    let (old, new, next) = (old.branch, new.branch, page.next);
    Ok(Reply::ok(&Differences { old, new, shared, changes, next }))
}
