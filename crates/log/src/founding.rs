//! How a log comes into being, and how one that was taken away is told from one that never was.
//!
//! The pieces are made in an order in which each proves those before it: database, secret key,
//! first signed head, public key. A crash leaves a beginning that the next opening goes on with;
//! any other set of pieces is what somebody left of a log, and no new log is made over it.

use glasshouse_model::TenantId;

use crate::checkpoint::SignedHead;
use crate::codes;
use crate::error::{Error, Result};
use crate::heads::Heads;
use crate::home::Home;
use crate::keys::HeadKey;
use crate::store::Store;

/// Refuses to make a database where a log was.
///
/// # Errors
/// `missing_log`.
pub(crate) fn refuse_replacing(home: &Home) -> Result<()> {
    match home.trace()? {
        None => Ok(()),
        Some(trace) => {
            Err(Error::new(codes::MISSING_LOG, format!("no log in {}", home.root().display()))
                .why(format!("{} is there, so there was one", trace.display())))
        }
    }
}

/// The answer of a home that never had a log.
pub(crate) fn nothing_recorded(home: &Home) -> Error {
    Error::new(
        codes::NOTHING_RECORDED,
        format!("nothing is recorded yet in {}", home.root().display()),
    )
}

/// Finishes what makes a log of an empty database; does nothing for any other.
pub(crate) fn finish(
    home: &Home,
    tenant: &TenantId,
    store: &dyn Store,
    heads: &Heads,
) -> Result<()> {
    let is_begun = !home.public_key().exists()
        && store.tree()?.size == 0
        && store.branches(None)?.is_empty()
        && heads.kept()?.is_empty()
        && !home.has_blobs()?;
    if !is_begun {
        return Ok(());
    }
    let key = match HeadKey::load(&home.secret_key()) {
        Ok(key) => key,
        Err(_) if home.secret_key().exists() => return Ok(()),
        Err(_) => {
            let key = HeadKey::generate(tenant)?;
            key.save_secret(&home.secret_key())?;
            key
        }
    };
    match heads.latest()? {
        None => heads.publish(&SignedHead::sign(store.tree()?, &key), key.public())?,
        Some(note) => match SignedHead::open(&note, key.public()) {
            Ok(head) if head.tree.size == 0 => {}
            _ => return Ok(()),
        },
    }
    key.save_public(&home.public_key())
}
