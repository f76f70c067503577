//! A log in a temporary home, and short ways to say what happens to it.

pub(crate) use crate::skips::skipped;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use glasshouse_log::{
    Append, Appended, Clock, Erase, Error, Head, Log, MergeBranch, NewBranch, Options, Record,
    Verification, verify_home,
};
use glasshouse_model::body::MergeStrategy;
use glasshouse_model::{Actor, BranchId, Digest, Draft, Kind, Seq, SessionId, TenantId};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

pub(crate) struct Fixture {
    pub(crate) home: TempDir,
    pub(crate) log: Option<Log>,
}

impl Fixture {
    /// A log with the session `s_1` and its branch `b_main`.
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open_with(home.path(), &TenantId::local(), options).unwrap();
        log.create_branch(root("s_1", "b_main")).unwrap();
        Self { home, log: Some(log) }
    }

    /// The same with so many events.
    pub(crate) fn of_events(events: u64) -> Self {
        let fixture = Self::new();
        for n in 1..=events {
            fixture.append(n);
        }
        fixture
    }

    pub(crate) fn log(&self) -> &Log {
        self.log.as_ref().unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn append(&self, n: u64) -> Appended {
        self.log().append(numbered("b_main", n)).unwrap()
    }

    pub(crate) fn close(&mut self) {
        self.log = None;
    }

    pub(crate) fn open(&mut self) -> &Log {
        self.close();
        self.log.insert(Log::open(self.path(), &TenantId::local()).unwrap())
    }

    /// The database without the log, in one file.
    pub(crate) fn database(&self) -> Connection {
        Connection::open(self.path().join("log.db")).unwrap()
    }

    /// Closes the log and proves the home: kind, branch, sequence, expected and found.
    pub(crate) fn verdict(&mut self) -> String {
        self.close();
        verdict(&verify_home(self.path(), &TenantId::local()).unwrap())
    }
}

pub(crate) fn verdict(verification: &Verification) -> String {
    match verification {
        Verification::Sound(sound) if sound.erased_events + sound.erased_blobs > 0 => {
            format!("ok {} erased {}+{}", sound.events, sound.erased_events, sound.erased_blobs)
        }
        Verification::Sound(sound) => format!("ok {}", sound.events),
        Verification::Broken(broken) => {
            let branch = broken.branch.as_ref().map_or("-", |branch| branch.as_str());
            let seq = broken.seq.map_or("-".to_owned(), |seq| seq.to_string());
            let short = |value: &serde_json::Value| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                if text.starts_with("sha256:") { "hash".to_owned() } else { text }
            };
            let (expected, found) = (short(&broken.expected), short(&broken.found));
            format!("{} {branch} {seq}: expected {expected}, found {found}", broken.kind)
        }
    }
}

pub(crate) fn session(id: &str) -> SessionId {
    id.parse().unwrap()
}

pub(crate) fn branch(id: &str) -> BranchId {
    id.parse().unwrap()
}

pub(crate) fn root(session_id: &str, branch_id: &str) -> NewBranch {
    NewBranch {
        session: session(session_id),
        branch: branch(branch_id),
        name: "main".into(),
        parent: None,
    }
}

pub(crate) fn fork(branch_id: &str, parent: &str, seq: Seq) -> NewBranch {
    NewBranch {
        session: session("s_1"),
        branch: branch(branch_id),
        name: branch_id.into(),
        parent: Some((branch(parent), seq)),
    }
}

pub(crate) fn draft(n: u64) -> Draft {
    Draft::new(Kind::Heartbeat, &json!({ "n": n }))
}

/// One event with a number, for a branch of `s_1`.
pub(crate) fn numbered(branch_id: &str, n: u64) -> Append {
    Append::new(session("s_1"), branch(branch_id), vec![draft(n)])
}

/// The numbers in a branch's events.
pub(crate) fn numbers(log: &Log, branch_id: &str) -> Vec<u64> {
    let events = log.events(&branch(branch_id)).map(Result::unwrap);
    events.map(|event| event.body["n"].as_u64().unwrap()).collect()
}

pub(crate) fn records(log: &Log, branch_id: &str) -> Vec<Record> {
    log.records(&branch(branch_id), 1, usize::MAX).unwrap()
}

/// The code of an error and what its context says of a key.
pub(crate) fn refusal<T>(outcome: Result<T, Error>, key: &str) -> String {
    let error = outcome.err().expect("it is refused");
    match error.report().context.get(key) {
        Some(value) => format!("{} {key}={value}", error.code()),
        None => error.code().to_owned(),
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub(crate) struct ManualClock {
    pub(crate) now_us: AtomicU64,
    pub(crate) uptime_us: AtomicU64,
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::SeqCst)
    }

    fn uptime_us(&self) -> u64 {
        self.uptime_us.load(Ordering::SeqCst)
    }
}

pub(crate) fn clocked(clock: &Arc<ManualClock>) -> Options {
    Options { clock: Arc::clone(clock) as Arc<dyn Clock>, ..Options::default() }
}

/// A small file system in memory, unmounted when dropped.
pub(crate) struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    pub(crate) fn new(at: &'a Path, bytes: u64) -> Option<Self> {
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at);
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self(at))
    }

    pub(crate) fn close_to_writing(&self) {
        let mut mount = Command::new("mount");
        mount.args(["-o", "remount,ro"]).arg(self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// The file that holds a blob.
pub(crate) fn blob_file(home: &Path, digest: &Digest) -> PathBuf {
    let hex = digest.hex();
    home.join("blobs").join(&hex[..2]).join(&hex[2..])
}

/// A manifest of a workspace in which these files are.
pub(crate) fn manifest_of(files: &[Digest]) -> String {
    let entry = |digest: &Digest| serde_json::json!({ "kind": "file", "executable": false, "digest": digest, "size_bytes": 1 });
    let entries: serde_json::Map<_, _> =
        files.iter().enumerate().map(|(n, digest)| (format!("f{n}"), entry(digest))).collect();
    serde_json::json!({ "base": Digest::ZERO, "removed": [], "entries": entries }).to_string()
}

/// Erasing events and blobs, told on the main branch.
pub(crate) fn erase(events: &[(&str, Seq)], blobs: &[Digest]) -> Erase {
    Erase {
        session: session("s_1"),
        branch: branch("b_main"),
        events: events.iter().map(|(id, seq)| (branch(id), *seq)).collect(),
        blobs: blobs.to_vec(),
        reason: "asked for by the person".into(),
        actor: Actor::kernel(),
        epoch: None,
    }
}

/// Merging one branch into another, three-way.
pub(crate) fn merge(
    source: &str,
    source_head: Head,
    target: &str,
    target_head: Seq,
) -> MergeBranch {
    MergeBranch {
        session: session("s_1"),
        target: branch(target),
        target_head,
        source: branch(source),
        source_head,
        strategy: MergeStrategy::ThreeWay,
        resolved: BTreeMap::new(),
        actor: Actor::kernel(),
        labels: BTreeSet::new(),
        before: Vec::new(),
        events: Vec::new(),
        epoch: None,
        source_epoch: None,
        cells: Vec::new(),
        idempotency_key: None,
    }
}
