//! The ways to open a log, and whether what is there may be written to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use glasshouse_model::TenantId;

use super::{Inner, Log, Teller};
use crate::blobs::Blobs;
use crate::care;
use crate::checkpoint::SignedHead;
use crate::clock::{Clock, SystemClock};
use crate::codes;
use crate::error::{Error, Result};
use crate::founding;
use crate::heads::Heads;
use crate::home::{FileLock, Home};
use crate::keys::{HeadKey, PublicKey};
use crate::memory::Memory;
use crate::observe::Observed;
use crate::owner::Owner;
use crate::projection::Snapshots;
use crate::restore;
use crate::signer::Signer;
use crate::sqlite::{FileState, Sqlite};
use crate::store::{Flaw, Store};
use crate::verify::{Broken, cut_below};

/// How a log is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the log reads the time.
    pub clock: Arc<dyn Clock>,
    /// Name of a registered SQLite file layer; `None` is the operating system's. Lets tests put a
    /// failing disk under the log.
    pub vfs: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), vfs: None }
    }
}

/// What the ways to open a log find or make.
struct Opened {
    store: Arc<dyn Store>,
    blobs: Blobs,
    heads: Arc<Heads>,
    public_key: Result<PublicKey>,
    refusal: Option<Error>,
    home: Option<Home>,
    signer: Option<Signer>,
    snapshots: Option<PathBuf>,
    in_use: Option<FileLock>,
}

impl Log {
    /// Opens the log of a tenant, or makes it.
    ///
    /// A log that is less than its signed head says, or whose signed head is no longer valid, opens
    /// for reading only.
    ///
    /// # Errors
    /// `missing_log`, `tenant_mismatch`, `log_format_unknown`, `head_key_invalid`, or a storage
    /// error.
    pub fn open(home: &Path, tenant: &TenantId) -> Result<Self> {
        Self::open_with(home, tenant, Options::default())
    }

    /// As [`Log::open`], with another clock or disk.
    ///
    /// # Errors
    /// See [`Log::open`].
    pub fn open_with(home: &Path, tenant: &TenantId, options: Options) -> Result<Self> {
        let Options { clock, vfs } = options;
        let home = Home::new(home);
        home.create()?;
        let _opening = home.lock_opening()?;
        let set_aside = match home.lock_unused()? {
            // Nobody is writing, and nobody begins to while this one opens.
            Some(_unused) => care::quarantine(&home, clock.as_ref())?,
            None => None,
        };
        let in_use = Some(home.lock_in_use()?);
        if !Sqlite::exists(&home.database(), vfs.as_deref())? {
            founding::refuse_replacing(&home)?;
        }
        let store: Arc<dyn Store> =
            Arc::new(Sqlite::open(&home.database(), tenant, Arc::clone(&clock), vfs)?);
        let heads = Arc::new(Heads::new(home.heads()));
        founding::finish(&home, tenant, store.as_ref(), &heads)?;
        let public_key = PublicKey::load(&home.public_key());
        let (refusal, signer) = match vouch(store.as_ref(), &heads, &home, &public_key) {
            Ok(key) => (None, Some(Signer::start(Arc::clone(&store), Arc::clone(&heads), key)?)),
            Err(error) if error.is(codes::LOG_CORRUPT) || error.is(codes::HEAD_KEY_INVALID) => {
                (Some(error), None)
            }
            Err(error) => return Err(error),
        };
        let blobs = Blobs::new(home.blobs());
        let (at, home) = (home.clone(), Some(home));
        let snapshots = Some(at.snapshots());
        let opened =
            Opened { store, blobs, heads, public_key, refusal, home, signer, snapshots, in_use };
        let log = Self::of(tenant, clock, opened);
        if log.inner.refusal.is_none() {
            restore::finish(&at, &log)?;
            match log.inner.delete_erased_blobs() {
                // It is named in the log, so the next opening does it; this one lets room be made.
                Err(error) if error.is(codes::STORAGE_FULL) => {}
                other => other?,
            }
            // What cannot be told on a full or damaged disk keeps nobody from reading the log.
            let _ = log.tell_of_care(set_aside);
        }
        Ok(log)
    }

    /// Opens a log for reading only, also in a home that cannot be written. Makes nothing; every
    /// write is refused with `log_read_only`.
    ///
    /// # Errors
    /// `nothing_recorded` or `missing_log` where no log is, `tenant_mismatch`,
    /// `log_format_unknown`, or a storage error.
    pub fn open_read_only(home: &Path, tenant: &TenantId) -> Result<Self> {
        let home = Home::new(home);
        let is_there = FileState::of(&home.database())? != FileState::Missing;
        let store = if is_there { Sqlite::open_reading(&home.database(), tenant)? } else { None };
        let Some(store) = store else {
            founding::refuse_replacing(&home)?;
            return Err(founding::nothing_recorded(&home));
        };
        let opened = Opened {
            blobs: Blobs::new(home.blobs()),
            store: Arc::new(store),
            heads: Arc::new(Heads::new(home.heads())),
            public_key: PublicKey::load(&home.public_key()),
            refusal: Some(
                Error::new(codes::LOG_READ_ONLY, "could not write to the log")
                    .why("it was opened for reading only"),
            ),
            home: None,
            signer: None,
            snapshots: Some(home.snapshots()),
            in_use: None,
        };
        Ok(Self::of(tenant, Arc::new(SystemClock), opened))
    }

    /// A log in memory, for tests and simulations: it does all that a log does, except that nothing
    /// of it survives.
    ///
    /// # Errors
    /// `storage_failed` when the system gives no random bytes for its key, or no thread.
    pub fn in_memory(tenant: &TenantId, clock: Arc<dyn Clock>) -> Result<Self> {
        let store: Arc<dyn Store> = Arc::new(Memory::new(tenant.clone(), Arc::clone(&clock)));
        let heads = Arc::new(Heads::in_memory());
        let key = HeadKey::generate(tenant)?;
        let public_key = Ok(key.public().clone());
        heads.publish(&SignedHead::sign(store.tree()?, &key), key.public())?;
        let signer = Some(Signer::start(Arc::clone(&store), Arc::clone(&heads), key)?);
        let blobs = Blobs::in_memory();
        let (refusal, home, snapshots, in_use) = (None, None, None, None);
        let opened =
            Opened { store, blobs, heads, public_key, refusal, home, signer, snapshots, in_use };
        Ok(Self::of(tenant, clock, opened))
    }

    fn of(tenant: &TenantId, clock: Arc<dyn Clock>, opened: Opened) -> Self {
        let Opened { store, blobs, heads, public_key, refusal, home, signer, snapshots, in_use } =
            opened;
        let inner = Inner {
            tenant: tenant.clone(),
            store,
            blobs,
            heads,
            public_key,
            clock,
            owner: Owner::current(),
            refusal,
            proved: Mutex::new(HashSet::new()),
            teller: Teller::new(signer.as_ref()),
            observed: Observed::default(),
            home,
            signer,
            snapshots: snapshots.map(Snapshots::new),
            _in_use: in_use,
        };
        Self { inner: Arc::new(inner) }
    }
}

/// Checks that the signed head vouches for no more than the log holds, and gives the key that may
/// sign it further.
fn vouch(
    store: &dyn Store,
    heads: &Heads,
    home: &Home,
    public_key: &Result<PublicKey>,
) -> Result<HeadKey> {
    if let Some(Flaw { expected, found }) = store.flaw(false)? {
        return Err(unvouched("its database is not as the log makes it")
            .with("expected", expected)
            .with("found", found));
    }
    let secret_key = HeadKey::load(&home.secret_key())?;
    let public_key = public_key.as_ref().map_err(Clone::clone)?;
    if secret_key.public() != public_key {
        return Err(Error::new(codes::HEAD_KEY_INVALID, "could not use the log's key")
            .why("the public key is not that of the secret key"));
    }
    let tree = store.tree()?;
    let note = heads.latest()?.ok_or_else(|| unvouched("it has no signed head"))?;
    let signed = SignedHead::open(&note, public_key).map_err(unvouched)?;
    if signed.tree.size > tree.size {
        let Broken { kind, branch, seq, expected, found } = cut_below(&signed, &tree, store)?;
        return Err(unvouched("events that the signed head covers are missing")
            .with("kind", kind)
            .with("branch", branch.map(String::from))
            .with("seq", seq)
            .with("expected", expected)
            .with("found", found));
    }
    Ok(secret_key)
}

pub(super) fn unvouched(why: &str) -> Error {
    Error::new(codes::LOG_CORRUPT, "the log does not match its signed head")
        .why(why)
        .fix("run `glasshouse audit verify`; restore the log or its heads from a backup")
}
