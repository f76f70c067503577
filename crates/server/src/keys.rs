//! API keys of a tenant, as its log says. A key that is revoked, here or by another process, is refused from
//! the next request on.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use glasshouse_kernel::Kernel;
use glasshouse_kernel::driver::{Access, KEY_PREFIX, KeyRow, access_branch, access_of};
use glasshouse_log::Log;
use glasshouse_model::{Digest, TenantId};
use subtle::ConstantTimeEq;

use crate::Result;
use crate::clock::now_us;

/// The parts of a key's text. Nothing of it is proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) tenant: TenantId,
    pub(crate) key: String,
}

/// What a text that looks like a key claims.
pub(crate) fn claimed(text: &str) -> Option<Claimed> {
    let mut parts = text.strip_prefix(KEY_PREFIX)?.split('.');
    let (tenant, key, secret) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || secret.is_empty() {
        return None;
    }
    Some(Claimed { tenant: tenant.parse().ok()?, key: key.to_owned() })
}

/// Keys and tenants of a log, read again when its log went on.
pub(crate) struct Keys {
    kernel: Arc<Kernel>,
    known: RwLock<Arc<Access>>,
}

impl Keys {
    pub(crate) fn new(kernel: Arc<Kernel>) -> Self {
        Self { kernel, known: RwLock::default() }
    }

    /// What the log says now.
    ///
    /// # Errors
    /// The log's errors.
    pub(crate) fn access(&self) -> Result<Arc<Access>> {
        let known = Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner));
        let head = match self.kernel.log().head(&access_branch()) {
            Err(error) if error.is(glasshouse_log::codes::BRANCH_NOT_FOUND) => 0,
            head => head?.seq,
        };
        if known.head == head {
            return Ok(known);
        }
        let fresh = Arc::new(self.kernel.access_since((*known).clone())?);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&fresh);
        Ok(fresh)
    }

    /// The key of a text, if it is one of this log's that may be used.
    ///
    /// # Errors
    /// The log's errors.
    pub(crate) fn check(&self, claimed: &Claimed, text: &str) -> Result<Option<KeyRow>> {
        Ok(proved(&*self.access()?, claimed, text))
    }

    /// When a key ends; `None` when it has ended.
    ///
    /// # Errors
    /// The log's errors.
    pub(crate) fn end_of(&self, key: &str) -> Result<Option<u64>> {
        let access = self.access()?;
        let row = access.keys.get(key).filter(|row| row.is_live(now_us()));
        Ok(row.map(|row| row.expires_us.unwrap_or(u64::MAX)))
    }
}

/// The key of a text in a log that this process has not opened, if it may be used. The log is only read, and none is made:
/// nobody has proved anything yet.
///
/// # Errors
/// The log's errors.
pub(crate) fn check_closed(home: &Path, claimed: &Claimed, text: &str) -> Result<Option<KeyRow>> {
    let log = match Log::open_read_only(home, &claimed.tenant) {
        Err(error) if error.is(glasshouse_log::codes::NOTHING_RECORDED) => return Ok(None),
        log => log?,
    };
    Ok(proved(&access_of(&log, Access::default())?, claimed, text))
}

fn proved(access: &Access, claimed: &Claimed, text: &str) -> Option<KeyRow> {
    let sent = Digest::of(text.as_bytes());
    let row = access.keys.get(&claimed.key);
    // Digests of equal length, compared also where there is no such key.
    let kept = row.map_or(Digest::ZERO, |row| row.digest);
    let is_equal = bool::from(sent.as_bytes().ct_eq(kept.as_bytes()));
    row.filter(|row| is_equal && row.is_live(now_us())).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_key_claims_anything() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = claimed(text);
            let found = found.as_ref().map(|it| (it.tenant.as_str(), it.key.as_str()));
            assert_eq!(found, expected, "{text}");
        };
        check("glasshouse_key.acme.k1.00ff", Some(("acme", "k1")));
        check("glasshouse_key.acme.k1", None);
        check("glasshouse_key.acme.k1.", None);
        check("glasshouse_key.acme.k1.00.ff", None);
        check("glasshouse_key.../../x.k1.00", None);
        check("glasshouse_key.ACME.k1.00", None);
        check("glasshouse_00ff", None);
        check("", None);
    }
}
