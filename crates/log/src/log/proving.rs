//! What proves a log to others: its signed heads, a verification, proofs of single events.

use glasshouse_model::{BranchId, Digest, Seq};

use super::opening::unvouched;
use super::{Inner, Log};
use crate::checkpoint::SignedHead;
use crate::codes;
use crate::error::{Error, Result};
use crate::keys::PublicKey;
use crate::proof::{self, Consistency, EventProof, proves_inclusion};
use crate::verify::{self, Reach, Verification, verify};

impl Log {
    /// Signs the head of everything committed so far and writes it beside the database. Happens by
    /// itself each second while events arrive and when the log is closed.
    ///
    /// # Errors
    /// Why nothing may be written, or a storage error.
    pub fn sign_head(&self) -> Result<SignedHead> {
        self.inner.may_write()?;
        let signer = self.inner.signer.as_ref().expect("a log that may be written signs");
        signer.sign()
    }

    /// The key that signed heads are checked with.
    ///
    /// # Errors
    /// `head_key_invalid`.
    pub fn public_key(&self) -> Result<PublicKey> {
        self.inner.public_key.clone()
    }

    /// Proves the whole log against its signed heads. Reads every event.
    ///
    /// # Errors
    /// A storage error; what does not prove itself is no error but the result.
    pub fn verify(&self) -> Result<Verification> {
        let Inner { store, blobs, heads, public_key, .. } = &*self.inner;
        verify(store.as_ref(), blobs, heads, public_key, Reach::Whole)
    }

    /// The newest signed head.
    ///
    /// # Errors
    /// `head_key_invalid`, `log_corrupt` when there is no valid head, or a storage error.
    pub fn signed_head(&self) -> Result<SignedHead> {
        let key = self.public_key()?;
        let note = self.inner.heads.latest()?.ok_or_else(|| unvouched("it has no signed head"))?;
        SignedHead::open(&note, &key).map_err(unvouched)
    }

    /// Proves to others that an event is in the log. Signs a head first when the newest does not
    /// cover the event. Reads the whole tree.
    ///
    /// # Errors
    /// `branch_not_found`, `event_not_found`; `head_not_signed` when the log is read only and no
    /// head covers the event; `log_corrupt`, or a storage error.
    pub fn prove(&self, branch: &BranchId, seq: Seq) -> Result<EventProof> {
        let no_event = || {
            let what = format!("branch {branch} has no event {seq}");
            Error::new(codes::EVENT_NOT_FOUND, what)
        };
        // The event before it is read too, so that the proof can name its hash.
        let from = seq.checked_sub(1).ok_or_else(no_event)?;
        let before = if from == 0 { Vec::new() } else { self.records(branch, from, 1)? };
        let prev = before.first().map_or(Digest::ZERO, |record| record.hash);
        let record = self.records(branch, seq, 1)?.pop().ok_or_else(no_event)?;
        let mut head = self.signed_head()?;
        if head.tree.size <= record.position && self.inner.signer.is_some() {
            head = self.sign_head()?;
        }
        if head.tree.size <= record.position {
            return Err(Error::new(codes::HEAD_NOT_SIGNED, "could not prove the event").why(
                format!("it is event {}, and the head covers {}", record.position, head.tree.size),
            ));
        }
        let store = self.inner.store.as_ref();
        let path = proof::inclusion(store, record.position, head.tree.size)?;
        if !proves_inclusion(&record.hash, record.position, head.tree.size, &path, &head.tree.root)
        {
            return Err(unvouched("the tree over its events is another"));
        }
        Ok(EventProof {
            branch: self.chain(branch)?.owner(seq).clone(),
            seq,
            index: record.position,
            path,
            checkpoint: head.note,
            key: self.public_key()?.to_string(),
            event: record.into_proved(prev),
        })
    }

    /// Proves that this log extends an earlier signed head and a later one, or the newest, extends
    /// that. Both are texts that [`Log::sign_head`] gave at some time. Reads the whole tree.
    ///
    /// # Errors
    /// A storage error; what does not prove itself is no error but the result.
    pub fn check_extension(&self, old: &str, new: Option<&str>) -> Result<Consistency> {
        let Inner { store, heads, public_key, .. } = &*self.inner;
        let newest = if new.is_none() { heads.latest()? } else { None };
        let new = new.or(newest.as_deref()).unwrap_or_default();
        verify::check_extension(store.as_ref(), heads, public_key, old, new)
    }
}
