//! What every store decides alike: who may write where, and what is refused with which words.

use glasshouse_model::{BranchId, Seq, SessionId};

use crate::append::{CellWrite, Head};
use crate::branch::BranchRow;
use crate::codes;
use crate::erase;
use crate::error::{Error, Result};
use crate::own::is_own;
use crate::record::Record;
use crate::store::Merge;

pub(crate) fn no_branch(branch: &BranchId) -> Error {
    Error::new(codes::BRANCH_NOT_FOUND, format!("no branch {branch}"))
}

/// Checks that a branch is the session's.
pub(crate) fn check_session(row: &BranchRow, session: &SessionId) -> Result<()> {
    if row.session == *session {
        return Ok(());
    }
    Err(no_branch(&row.branch).why(format!("it belongs to another session than {session}")))
}

/// Checks that an event of a session may erase events of a branch: its own, or, of the log's own
/// session, any.
pub(crate) fn check_erased_session(row: &BranchRow, session: &SessionId) -> Result<()> {
    if is_own(session) { Ok(()) } else { check_session(row, session) }
}

/// Checks that a branch takes events, and that its head is where the writer expects it.
pub(crate) fn check_open(row: &BranchRow, expected_head: Option<Seq>) -> Result<()> {
    let BranchRow { branch, head, .. } = row;
    if let Some(why) = row.why_ended() {
        return Err(
            Error::new(codes::BRANCH_READ_ONLY, format!("could not write to {branch}")).why(why)
        );
    }
    match expected_head {
        Some(expected) if expected != head.seq => Err(moved(branch, expected, *head)),
        _ => Ok(()),
    }
}

/// Checks that a source may be merged into a target.
pub(crate) fn check_merge(target: &BranchRow, source: &BranchRow, merge: &Merge) -> Result<()> {
    if source.session != target.session || source.branch == target.branch {
        return Err(Error::new(codes::APPEND_INVALID, "could not merge")
            .why("source and target are two branches of one session"));
    }
    if let Some(why) = source.why_ended() {
        let what = format!("could not merge {}", source.branch);
        return Err(Error::new(codes::BRANCH_READ_ONLY, what).why(why));
    }
    if source.head != merge.source_head {
        return Err(moved(&source.branch, merge.source_head.seq, source.head));
    }
    Ok(())
}

/// Checks the version that a write expects against the stored one (0: there was never a cell) and
/// whether there is a cell now. Answers the version after the write.
pub(crate) fn next_version(write: &CellWrite, version: u64, exists: bool) -> Result<u64> {
    let visible = if exists { version } else { 0 };
    match write.expected_version {
        Some(expected) if expected != visible => Err(Error::new(
            codes::CELL_CONFLICT,
            format!("could not change cell {}/{}", write.space, write.key),
        )
        .why(format!("its version is {visible}, not {expected}"))
        .with("version", visible)),
        _ => Ok(version + 1),
    }
}

/// Checks that an event may be erased. Answers whether there is still something to erase.
pub(crate) fn check_erase(branch: &BranchId, seq: Seq, record: Option<&Record>) -> Result<bool> {
    let record = record.ok_or_else(|| {
        Error::new(codes::EVENT_NOT_FOUND, format!("branch {branch} stores no event {seq}"))
    })?;
    if erase::is_kept(record) {
        return Err(Error::new(codes::APPEND_INVALID, format!("could not erase event {seq}"))
            .why("other events and branches are proved by what it says"));
    }
    Ok(record.erased_by().is_none())
}

/// Checks that a session may be forked: `archive` is the cell that names its archive. Its bodies go once
/// there is one, and what was forked meanwhile would be in no archive.
pub(crate) fn check_kept(session: &SessionId, archive: Option<&[u8]>) -> Result<()> {
    if archive.is_none() {
        return Ok(());
    }
    Err(Error::new(codes::SESSION_ARCHIVED, format!("could not fork session {session}"))
        .why("its events are in an archive, or about to be"))
}

pub(crate) fn is_taken(branch: &BranchId) -> Error {
    Error::new(codes::BRANCH_EXISTS, format!("could not create {branch}"))
        .why("a branch with this id exists")
}

pub(crate) fn session_exists(session: &SessionId) -> Error {
    Error::new(codes::SESSION_EXISTS, format!("could not import {session}"))
        .why("a session with this id and other events exists")
}

/// What of a new branch is taken.
pub(crate) struct Taken {
    /// Its id, by any session.
    pub(crate) id: bool,
    /// Its name, within its session.
    pub(crate) name: bool,
    /// The place of its session's first branch.
    pub(crate) root: bool,
}

/// Checks that an id and a name are free.
pub(crate) fn check_new_branch(
    branch: &BranchId,
    name: &str,
    is_root: bool,
    taken: &Taken,
) -> Result<()> {
    let exists = |why: &str| {
        Err(Error::new(codes::BRANCH_EXISTS, format!("could not create {branch}")).why(why))
    };
    if taken.id {
        return Err(is_taken(branch));
    }
    if taken.name {
        return exists(&format!("the session has a branch named `{name}`"));
    }
    if is_root && taken.root {
        return exists("the session has its first branch");
    }
    Ok(())
}

fn moved(branch: &BranchId, expected: Seq, head: Head) -> Error {
    Error::new(codes::HEAD_CONFLICT, format!("could not write to {branch}"))
        .why(format!("its head is {}, not {expected}", head.seq))
        .with("head", head.seq)
        .with("hash", head.hash.to_string())
        .with("expected_head", expected)
}
