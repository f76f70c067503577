//! Putting a backup in the place of the database.
//!
//! The backup is proved before anything changes, and what it replaces is set aside, not deleted. Events
//! that it lacks are given up only when the caller says so, and then an event says it: heads that
//! covered them are set aside too, so a roll-back that nobody accepted is still found out.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use glasshouse_model::body::LogRecovered;
use glasshouse_model::{BranchId, Digest, Draft, Kind, TenantId};
use serde::{Deserialize, Serialize};

use crate::blobs::Blobs;
use crate::chain::PAGE;
use crate::checkpoint::SignedHead;
use crate::codes;
use crate::error::{Error, Result};
use crate::heads::{self, Heads};
use crate::home::{self, Home};
use crate::keys::{HeadKey, PublicKey};
use crate::log::Log;
use crate::own::own_session;
use crate::sqlite::{Sqlite, beside};
use crate::store::{Store as _, TreeHead};
use crate::verify::{Broken, Reach, Verification, verify};
use crate::{backup, clock};

/// What a `log.recovered` event is about that says that events were given up.
const GIVEN_UP: &str = "events";

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Events in the log now, without the one that records the restore.
    pub events: u64,
    /// Events that were given up.
    pub lost_events: u64,
    /// Where the files are that were replaced.
    pub replaced: PathBuf,
}

/// The backups of a home, the oldest first.
///
/// # Errors
/// A storage error.
pub fn backups(home: &Path) -> Result<Vec<PathBuf>> {
    backup::list(&Home::new(home).backups())
}

/// Puts a backup in the place of the log's database.
///
/// # Errors
/// `log_busy` while a process has the log open; `backup_invalid`; `restore_loses_events` unless
/// `accept_loss`; `head_key_invalid`; or a storage error. Before `Ok` nothing but whole files were
/// exchanged: where it was cut short, restoring again finishes it.
pub fn restore(
    home: &Path,
    tenant: &TenantId,
    backup: &Path,
    accept_loss: bool,
) -> Result<Restored> {
    let place = Home::new(home);
    let opening = place.lock_opening()?;
    let Some(unused) = place.lock_unused()? else {
        return Err(
            Error::new(codes::LOG_BUSY, "could not restore the log").why("a process has it open")
        );
    };
    let coming = coming(&place);
    let tree = prove(&place, tenant, backup, &coming)?;
    let signed = signed_heads(&place)?;
    let newest_root = signed.iter().max_by_key(|head| head.tree.size).map(|head| head.tree.root);
    let earlier = given_up(&place).unwrap_or(None);
    let known = signed.iter().map(|head| head.tree.size).chain(present_size(&place, tenant));
    let known = known.chain(earlier.as_ref().map(|earlier| earlier.known)).max().unwrap_or(0);
    let lost_events = known.saturating_sub(tree.size);
    if lost_events > 0 && !accept_loss {
        let _ = fs::remove_file(&coming);
        return Err(Error::new(codes::RESTORE_LOSES_EVENTS, "could not restore the log")
            .why(format!("the backup lacks the last {lost_events} events"))
            .with("backup_events", tree.size)
            .with("lost_events", lost_events));
    }
    let key = HeadKey::load(&place.secret_key())?;
    if lost_events > 0 {
        let signed = earlier.and_then(|earlier| earlier.signed);
        let signed = signed.or(newest_root);
        let given_up = GivenUp { known, kept: tree.size, signed, root: tree.root };
        let bytes = serde_json::to_vec(&given_up).map_err(|cause| {
            Error::new(codes::STORAGE_FAILED, "could not record the restore").why(cause)
        })?;
        home::write_atomically(&marker(&place), &bytes)?;
    }
    let replaced = set_aside(&place, tree.size, lost_events > 0)?;
    home::rename_durably(&coming, &place.database())?;
    let heads = Heads::new(place.heads());
    heads.publish(&SignedHead::sign(tree.clone(), &key), key.public())?;
    drop((unused, opening));
    if lost_events > 0 {
        Log::open(home, tenant)?.sign_head()?;
    }
    Ok(Restored { events: tree.size, lost_events, replaced })
}

/// The backup on its way.
fn coming(place: &Home) -> PathBuf {
    place.root().join("log.db.restoring")
}

/// Removes what a restore that was cut short left of a backup. Nobody may be restoring.
pub(crate) fn forget(place: &Home) -> Result<()> {
    let coming = coming(place);
    for file in [coming.clone(), beside(&coming, "-wal"), beside(&coming, "-shm")] {
        match fs::remove_file(&file) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                return Err(Error::file("remove", &file, &cause));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Copies a backup beside the database and proves the copy.
fn prove(place: &Home, tenant: &TenantId, backup: &Path, coming: &Path) -> Result<TreeHead> {
    let invalid = |why: &dyn std::fmt::Display| {
        let _ = fs::remove_file(coming);
        Error::new(codes::BACKUP_INVALID, format!("could not restore {}", backup.display()))
            .why(why)
    };
    let mut from = File::open(backup).map_err(|cause| Error::file("read", backup, &cause))?;
    let _ = fs::remove_file(coming);
    let mut to = home::open_private(coming)?;
    io::copy(&mut from, &mut to).map_err(|cause| Error::file("copy", backup, &cause))?;
    let store = match Sqlite::open_reading(coming, tenant) {
        Ok(Some(store)) => store,
        Ok(None) => return Err(invalid(&"it has no tables")),
        Err(error) => return Err(invalid(&error)),
    };
    let (blobs, heads) = (Blobs::new(place.blobs()), Heads::new(place.heads()));
    let key = PublicKey::load(&place.public_key());
    match verify(&store, &blobs, &heads, &key, Reach::AsFarAsItGoes) {
        Ok(Verification::Sound(_)) => {}
        Ok(Verification::Broken(Broken { kind, expected, found, .. })) => {
            return Err(invalid(&format!("{kind}: {expected}, found {found}")));
        }
        Err(error) => return Err(invalid(&error)),
    }
    let tree = store.tree()?;
    drop(store);
    for side in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(coming, side));
    }
    Ok(tree)
}

/// Every head that the log's key vouches for: one of them may be damaged.
fn signed_heads(place: &Home) -> Result<Vec<SignedHead>> {
    let key = PublicKey::load(&place.public_key())?;
    let heads = Heads::new(place.heads());
    let notes = heads.kept()?.into_iter().map(|(_, note)| note).chain(heads.latest()?);
    Ok(notes.filter_map(|note| SignedHead::open(&note, &key).ok()).collect())
}

/// Events of the present database; `None` when there is none that can be read.
fn present_size(place: &Home, tenant: &TenantId) -> Option<u64> {
    let store = Sqlite::open_reading(&place.database(), tenant).ok()??;
    store.tree().ok().map(|tree| tree.size)
}

/// Moves what is replaced into a directory of its own.
fn set_aside(place: &Home, events: u64, gives_up: bool) -> Result<PathBuf> {
    use clock::Clock as _;
    let all = place.replaced();
    home::create_directory(&all)?;
    let aside = all.join(clock::SystemClock.now_us().to_string());
    home::create_directory(&aside)?;
    if gives_up {
        heads::give_up_beyond(&place.heads(), &aside.join("heads"), events)?;
        backup::give_up_beyond(&place.backups(), &aside.join("backups"), events)?;
    }
    // The side files first: a database without them is whole as of its last checkpoint, while they
    // beside another database would be taken for its own.
    for name in ["log.db-wal", "log.db-shm", "log.db"] {
        let path = place.root().join(name);
        if path.exists() {
            home::rename_durably(&path, &aside.join(name))?;
        }
    }
    home::sync_directory_of(&place.database())?;
    Ok(aside)
}

/// What a person gave up, kept from before the first file moves until an event says it.
#[derive(Serialize, Deserialize)]
struct GivenUp {
    /// Events that were known.
    known: u64,
    /// Events of the backup.
    kept: u64,
    /// Root that the newest signed head vouched for.
    signed: Option<Digest>,
    /// Root of the backup.
    root: Digest,
}

fn marker(place: &Home) -> PathBuf {
    place.root().join("restoring.json")
}

/// What an earlier restore that was cut short gave up.
fn given_up(place: &Home) -> Result<Option<GivenUp>> {
    let path = marker(place);
    match fs::read(&path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::file("read", &path, &cause)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|cause| {
            Error::new(codes::STORAGE_FAILED, "the record of a restore cannot be read")
                .why(cause)
                .fix("restore the log again")
        }),
    }
}

/// Says in the log what a restore gave up. Every opening for writing asks for it, so a restore that was
/// cut short is told of too.
pub(crate) fn finish(place: &Home, log: &Log) -> Result<()> {
    let Some(GivenUp { known, kept, signed, root }) = given_up(place)? else { return Ok(()) };
    let lost = known.saturating_sub(kept);
    let body = LogRecovered {
        what: GIVEN_UP.to_owned(),
        branch: None,
        seq: None,
        expected: signed,
        found: Some(root),
        detail: Some(format!(
            "a backup of {kept} events was restored; {lost} later events were given up"
        )),
    };
    log.note(Draft::new(Kind::LogRecovered, &body), None)?;
    let path = marker(place);
    fs::remove_file(&path).map_err(|cause| Error::file("remove", &path, &cause))?;
    home::sync_directory_of(&path)?;
    Ok(())
}

impl Log {
    /// Whether events were given up in a restore after a branch took its newest one: what was used up
    /// in them looks unused then.
    ///
    /// # Errors
    /// `branch_not_found`, `log_corrupt`, or a storage error.
    pub fn is_restored_since(&self, branch: &BranchId) -> Result<bool> {
        let Some(restored) = self.newest_restore()? else { return Ok(false) };
        let head = self.head(branch)?.seq;
        let newest = self.records(branch, head, 1)?.pop();
        Ok(newest.is_none_or(|record| record.position < restored))
    }

    /// Position of the newest event that says that events were given up.
    fn newest_restore(&self) -> Result<Option<u64>> {
        let (mut newest, mut next) = (None, 1);
        let Some(own) = self.branches(&own_session())?.pop() else { return Ok(None) };
        loop {
            let records = self.records(&own.branch, next, PAGE)?;
            let Some(last) = records.last() else { return Ok(newest) };
            next = last.seq + 1;
            for record in &records {
                let said: Option<LogRecovered> = record.body_of(&Kind::LogRecovered);
                if said.is_some_and(|said| said.what == GIVEN_UP) {
                    newest = Some(record.position);
                }
            }
        }
    }
}
