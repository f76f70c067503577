//! The operation log: a merge's plan, contents and progress, durable before each act.
//!
//! One directory per operation: `plan.json`, `content/<digest>` for both sides of every step, and
//! `progress`, one JSON line per fact, appended and synced. The directory appears whole by a rename,
//! so an operation either has a complete plan or does not exist.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::workspace::Entry;
use serde::{Deserialize, Serialize};

use super::conflict::{Conflict, conflict_error};
use super::plan::{Plan, Step};
use super::repository::Edit;
use crate::codes;
use crate::{Error, Result};

/// Version of `plan.json`.
const FORMAT: u32 = 2;
/// Characters of a record's tag: enough to tell the merges of one machine apart.
const TAG_CHARS: usize = 12;
/// Longest operation id.
const MAX_ID_BYTES: usize = 64;

/// Where a merge keeps its log: a directory of the session and the operation's id. The same id
/// resumes the same merge.
#[derive(Debug, Clone)]
pub struct OperationDir {
    parent: PathBuf,
    id: String,
}

impl OperationDir {
    /// Names an operation.
    ///
    /// # Errors
    /// `operation_invalid` unless the id is 1 to 64 letters, digits, `-` or `_`.
    pub fn new(parent: &Path, id: &str) -> Result<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if id.is_empty() || id.len() > MAX_ID_BYTES || !id.bytes().all(plain) {
            return Err(Error::new(
                codes::OPERATION_INVALID,
                format!("cannot use the operation id `{id}`"),
            )
            .why(format!("it is not 1 to {MAX_ID_BYTES} letters, digits, `-` or `_`")));
        }
        Ok(Self { parent: parent.to_owned(), id: id.to_owned() })
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn path(&self) -> PathBuf {
        self.parent.join(&self.id)
    }
}

/// The durable plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    format: u32,
    pub(super) id: String,
    pub(super) project: PathBuf,
    /// Digest of the change set, so that an id is never used for two merges.
    pub(super) set: Digest,
    /// Branch and commit the project was at.
    pub(super) head: Option<(Option<String>, Option<String>)>,
    /// Part of every name that the merge makes: two sessions may count their merges alike.
    pub(super) tag: String,
    pub(super) steps: Vec<Step>,
    pub(super) held: Vec<CanonicalPath>,
    /// What the commit has to hold; none when no commit follows.
    pub(super) edits: Option<Vec<Edit>>,
}

impl Record {
    pub(super) fn new(
        at: &OperationDir,
        project: &Path,
        set: Digest,
        head: Option<(Option<String>, Option<String>)>,
        plan: &Plan,
    ) -> Self {
        let place = at.path();
        let tag = Digest::of_parts(&[place.as_os_str().as_encoded_bytes(), b"\0", set.as_bytes()]);
        Self {
            format: FORMAT,
            id: at.id.clone(),
            tag: tag.hex().chars().take(TAG_CHARS).collect(),
            project: project.to_owned(),
            set,
            head,
            steps: plan.steps.clone(),
            held: plan.held.clone(),
            edits: plan.edits.clone(),
        }
    }
}

/// One line of `progress`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fact {
    /// A step is done.
    Done(usize),
    /// A directory was made for a step.
    MadeDirectory(CanonicalPath),
    /// The merge goes back.
    GoingBack(Cause),
    /// A step was undone, or had to be left because the user changed the file again.
    Undone(usize),
    /// Everything is as it was before.
    WentBack,
    /// All steps are done.
    Applied,
    /// The commit exists; the branch is moved next.
    Commit { id: String, parent: Option<String>, branch: Option<String> },
    /// The branch is at the commit and the index knows it.
    Committed,
}

/// Why a merge goes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cause {
    /// Paths that cannot be merged.
    Conflicts(Vec<Conflict>),
    /// Something failed.
    Fault { code: String, what: String, why: String, fix: String },
}

impl Cause {
    pub(super) fn fault(error: &Error) -> Self {
        let report = error.report();
        Self::Fault { code: report.code, what: report.what, why: report.why, fix: report.fix }
    }

    /// The error a fault is told by once everything is back.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Conflicts(conflicts) => conflict_error(&conflicts),
            Self::Fault { code, what, why, fix } => {
                let all = codes::ALL.iter().chain(glasshouse_sandbox::codes::ALL);
                let code = all.into_iter().find(|known| known.name == code);
                Error::new(*code.unwrap_or(&codes::OPERATION_DAMAGED), what)
                    .why(format!("{why}; every file is as it was before the merge"))
                    .fix(fix)
            }
        }
    }
}

/// An operation on disk.
#[derive(Debug)]
pub(super) struct Operation {
    dir: PathBuf,
    pub(super) record: Record,
    facts: Vec<Fact>,
    progress: File,
}

impl Operation {
    /// Opens an operation begun earlier.
    pub(super) fn open(at: &OperationDir) -> Result<Option<Self>> {
        let dir = at.path();
        let bytes = match std::fs::read(dir.join("plan.json")) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(damaged(&dir, &e)),
        };
        let record: Record = serde_json::from_slice(&bytes).map_err(|e| damaged(&dir, &e))?;
        if record.format != FORMAT || record.id != at.id {
            return Err(damaged(&dir, &"it is of another format or another operation"));
        }
        let text = std::fs::read(dir.join("progress")).map_err(|e| damaged(&dir, &e))?;
        let mut facts = Vec::new();
        let mut whole_bytes = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(fact) if line.ends_with(b"\n") => facts.push(fact),
                // Cut off by a crash: what it would have said was not relied on yet.
                _ if whole_bytes + line.len() == text.len() => break,
                Ok(_) => break,
                Err(e) => return Err(damaged(&dir, &e)),
            }
            whole_bytes += line.len();
        }
        let progress = OpenOptions::new()
            .append(true)
            .open(dir.join("progress"))
            .and_then(|file| file.set_len(whole_bytes as u64).map(|()| file))
            .map_err(|e| damaged(&dir, &e))?;
        Ok(Some(Self { dir, record, facts, progress }))
    }

    /// Writes a new operation durably.
    pub(super) fn begin(at: &OperationDir, record: Record, plan: &Plan) -> Result<Self> {
        let dir = at.path();
        let mut staging = dir.clone().into_os_string();
        staging.push(".new");
        let staging = PathBuf::from(staging);
        let write = || -> std::io::Result<()> {
            let _ = std::fs::remove_dir_all(&staging);
            // What a forgotten operation left.
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(staging.join("content"))?;
            for (digest, bytes) in &plan.contents {
                write_synced(&staging.join("content").join(digest.hex()), bytes)?;
            }
            write_synced(&staging.join("progress"), b"")?;
            let bytes = serde_json::to_vec(&record)?;
            write_synced(&staging.join("plan.json"), &bytes)?;
            File::open(staging.join("content"))?.sync_all()?;
            File::open(&staging)?.sync_all()?;
            std::fs::rename(&staging, &dir)?;
            File::open(&at.parent)?.sync_all()
        };
        write().map_err(|e| {
            let _ = std::fs::remove_dir_all(&staging);
            damaged(&dir, &e)
        })?;
        let progress = OpenOptions::new()
            .append(true)
            .open(dir.join("progress"))
            .map_err(|e| damaged(&dir, &e))?;
        Ok(Self { dir, record, facts: Vec::new(), progress })
    }

    /// Records a fact durably.
    pub(super) fn note(&mut self, fact: Fact) -> Result<()> {
        let mut line = serde_json::to_vec(&fact).map_err(|e| damaged(&self.dir, &e))?;
        line.push(b'\n');
        self.progress
            .write_all(&line)
            .and_then(|()| self.progress.sync_data())
            .map_err(|e| damaged(&self.dir, &e))?;
        self.facts.push(fact);
        Ok(())
    }

    /// Forgets the operation: the next call with its id begins a new one.
    pub(super) fn discard(&self) -> Result<()> {
        // Without its plan an operation does not exist; the rest goes as it can.
        std::fs::remove_file(self.dir.join("plan.json")).map_err(|e| damaged(&self.dir, &e))?;
        let _ = std::fs::remove_dir_all(&self.dir);
        Ok(())
    }

    /// Why the merge goes, or went, back.
    pub(super) fn going_back(&self) -> Option<Cause> {
        self.facts.iter().find_map(|fact| match fact {
            Fact::GoingBack(cause) => Some(cause.clone()),
            _ => None,
        })
    }

    pub(super) fn facts(&self) -> &[Fact] {
        &self.facts
    }

    pub(super) fn done(&self) -> BTreeSet<usize> {
        self.facts
            .iter()
            .filter_map(|f| if let Fact::Done(n) = f { Some(*n) } else { None })
            .collect()
    }

    /// Steps that were undone.
    pub(super) fn undone(&self) -> BTreeSet<usize> {
        self.facts
            .iter()
            .filter_map(|f| if let Fact::Undone(n) = f { Some(*n) } else { None })
            .collect()
    }

    /// A file's bytes for an entry, checked.
    pub(super) fn content(&self, entry: &Entry) -> Result<Vec<u8>> {
        let Some(digest) = entry.file_digest() else { return Ok(Vec::new()) };
        let bytes = std::fs::read(self.dir.join("content").join(digest.hex()))
            .map_err(|e| damaged(&self.dir, &e))?;
        if Digest::of(&bytes) != *digest {
            return Err(damaged(&self.dir, &format!("content {digest} is not what was stored")));
        }
        Ok(bytes)
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn damaged(dir: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::new(codes::OPERATION_DAMAGED, format!("cannot use the merge record `{}`", dir.display()))
        .why(why)
}
