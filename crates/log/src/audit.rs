//! Proving the log of a home that may be missing, damaged or closed to writing: what
//! `audit verify` asks. Makes and changes nothing.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use glasshouse_model::{Header, TenantId};

use crate::blobs::Blobs;
use crate::care;
use crate::checkpoint::SignedHead;
use crate::codes;
use crate::error::{Error, Result};
use crate::founding;
use crate::heads::Heads;
use crate::home::Home;
use crate::keeping::prove_archives;
use crate::keys::PublicKey;
use crate::sqlite::{FileState, Sqlite};
use crate::verify::{Broken, Reach, Sound, Verification, verify};

/// How every header begins. Where one stands in a file says that an event was there.
const HEADER_BEGIN: &[u8] = b"{\"v\":1,\"tenant\":\"";
/// Bytes of a file that are searched at a time.
const SCAN_BYTES: usize = 1 << 20;
/// Longer than any header: how far two parts of a searched file overlap.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Proves the log in a home.
///
/// # Errors
/// `nothing_recorded` for a home that never had a log; `log_format_unknown`, `tenant_mismatch` or a
/// storage error. A log that is missing, damaged or does not prove itself is no error but the
/// result.
pub fn verify_home(home: &Path, tenant: &TenantId) -> Result<Verification> {
    let home = Home::new(home);
    let heads = Heads::new(home.heads());
    let key = PublicKey::load(&home.public_key());
    let path = home.database();
    let state = FileState::of(&path)?;
    let missing = || missing(&home, &heads, &key);
    let prove = |store: Sqlite| prove(&store, &home, &heads, &key);
    let error = match state {
        FileState::Missing => return missing(),
        FileState::Unknown => Error::new(codes::LOG_CORRUPT, "the log's database is damaged")
            .why("the file does not begin as a database does"),
        FileState::Cut | FileState::Database => {
            let opened = Sqlite::open_reading(&path, tenant);
            match opened.and_then(|store| store.map(prove).transpose()) {
                Err(error) if error.is(codes::LOG_CORRUPT) => error,
                Ok(Some(Verification::Broken(broken))) if state == FileState::Cut => {
                    return Ok(Verification::Broken(Broken { kind: "truncated", ..broken }));
                }
                Ok(Some(Verification::Sound(sound))) => {
                    let quarantined = care::quarantined_names(&home)?;
                    return Ok(Verification::Sound(Sound { quarantined, ..sound }));
                }
                Ok(Some(verification)) => return Ok(verification),
                Ok(None) => return missing(),
                Err(error) => return Err(error),
            }
        }
    };
    if state == FileState::Cut
        && let Ok(Verification::Broken(broken)) = Sqlite::open_remains(&path).and_then(prove)
        && broken.seq.is_some()
    {
        return Ok(Verification::Broken(Broken { kind: "truncated", ..broken }));
    }
    let kind = if state == FileState::Cut { "truncated" } else { "hash_mismatch" };
    let first = first_event_in(&path)?;
    Ok(Verification::Broken(Broken::unreadable(kind, first, &error)))
}

/// Proves a log, and the archives of what left it.
fn prove(
    store: &Sqlite,
    home: &Home,
    heads: &Heads,
    key: &Result<PublicKey>,
) -> Result<Verification> {
    let found = verify(store, &Blobs::new(home.blobs()), heads, key, Reach::Whole)?;
    let Verification::Sound(sound) = found else { return Ok(found) };
    let archives = prove_archives(store, home)?;
    if let Some((file, why)) = archives.bad {
        let expected = format!("archive {file}");
        return Ok(Verification::Broken(Broken::of_log("hash_mismatch", expected, why)));
    }
    Ok(Verification::Sound(Sound { missing_archives: archives.missing, ..sound }))
}

fn missing(home: &Home, heads: &Heads, key: &Result<PublicKey>) -> Result<Verification> {
    let Some(trace) = home.trace()? else {
        return Err(founding::nothing_recorded(home));
    };
    let signed = match (heads.latest()?, key) {
        (Some(note), Ok(key)) => SignedHead::open(&note, key).ok(),
        _ => None,
    };
    let expected = signed.map_or_else(
        || format!("the log of {}", trace.strip_prefix(home.root()).unwrap_or(&trace).display()),
        |head| format!("{} events", head.tree.size),
    );
    Ok(Verification::Broken(Broken::missing_log(expected)))
}

/// The oldest event whose header can be made out in a file that cannot be read as a database.
fn first_event_in(path: &Path) -> Result<Option<Header>> {
    let failed = |cause: io::Error| Error::file("read", path, &cause);
    let mut file = File::open(path).map_err(failed)?;
    let mut part: Vec<u8> = Vec::new();
    let mut first: Option<Header> = None;
    loop {
        let kept = part.len().min(HEADER_BYTES_MAX);
        part.drain(..part.len() - kept);
        let limit = u64::try_from(SCAN_BYTES).unwrap_or(u64::MAX);
        let read = (&mut file).take(limit).read_to_end(&mut part).map_err(failed)?;
        if read == 0 {
            return Ok(first);
        }
        for at in memchr::memmem::find_iter(&part, HEADER_BEGIN) {
            let mut headers =
                serde_json::Deserializer::from_slice(&part[at..]).into_iter::<Header>();
            if let Some(Ok(header)) = headers.next()
                && first.as_ref().is_none_or(|first| order(&header) < order(first))
            {
                first = Some(header);
            }
        }
    }
}

fn order(header: &Header) -> (u64, u64) {
    (header.time_us, header.seq)
}
