//! Sealed grants: a right for one sandbox, checked in constant time instead of by rules.
//!
//! A grant is a fixed sequence of bytes under an HMAC-SHA256 tag. It names no algorithm, so there
//! is none to negotiate down. It is bound to a sandbox, a syscall, optionally a path pattern, a
//! number of uses, an expiry and a policy version: a changed policy ends every grant made under
//! the old one. A holder's part can be split off as a narrower grant, which ends with each grant above it.
//!
//! The seal is checked once, when the bytes come in: a [`SealedGrant`] can not exist without a
//! valid one. Everything that may change between two uses is checked at each use, in the
//! decision. Each use carries a counter above the stored one, and the caller commits the new
//! counter together with the event that the use authorises, so a copied request is worth nothing.

use std::fmt;

use glasshouse_model::{Call, Digest};
use hmac::{Hmac, KeyInit, Mac};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;

use crate::codes;
use crate::error::{Error, Result};
use crate::glob::{Components, Glob};
use crate::limits::{MAX_GRANT_DEPTH, MAX_GRANT_FIELD_BYTES, MAX_PATTERN_BYTES};
use crate::relation::glob_covers;

/// Name of a grant, unique by its 128 random bits; the key of its use counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId([u8; 16]);

impl GrantId {
    /// Makes a name from random bytes that the caller drew.
    #[must_use]
    pub const fn from_random(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// The bytes, as the key of a stored counter.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One write: a formatted number for each byte costs more than the whole check of a grant.
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'_'; 34];
        text[0] = b'g';
        for (pair, byte) in text[2..].chunks_exact_mut(2).zip(self.0) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for GrantId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::new(codes::GRANT_MALFORMED, format!("grant id `{text}`"))
                .why("expected `g_` and 32 lower-case hex digits")
        };
        let hex = text.strip_prefix("g_").ok_or_else(bad)?;
        let digits = hex.len() == 32
            && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !digits {
            return Err(bad());
        }
        let value = u128::from_str_radix(hex, 16).map_err(|_| bad())?;
        Ok(Self(value.to_be_bytes()))
    }
}

impl JsonSchema for GrantId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GrantId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^g_[0-9a-f]{32}$" })
    }
}

impl Serialize for GrantId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GrantId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The key that seals grants. Drawn at every start and kept in memory only, so grants end with
/// the process. It does not print and can not be read back.
pub struct SealingKey(Hmac<Sha256>);

impl SealingKey {
    /// Makes a key from 32 random bytes that the caller drew.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        // Expanding the key once here saves two hash blocks at every check.
        Self(Hmac::new_from_slice(bytes).expect("HMAC takes a key of any length"))
    }

    fn mac(&self, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(body);
        mac
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(..)")
    }
}

/// What a sealed grant permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantTerms {
    /// Its name; also what makes two grants of equal terms different.
    pub id: GrantId,
    /// Sandbox that may use it, as in [`Call::sandbox`].
    pub sandbox: String,
    /// The one syscall.
    pub syscall: String,
    /// Pattern of workspace paths; `None` does not look at the path.
    pub path_glob: Option<String>,
    /// Highest use counter, at least 1.
    pub max_uses: u64,
    /// First moment at which it is void, in microseconds.
    pub expires_us: u64,
    /// Policy in force when it was issued.
    pub policy_version: Digest,
    /// Grants that it was split off from, the first one first; it ends with any of them.
    pub ancestors: Vec<GrantId>,
}

/// A grant whose seal holds. `Debug` leaves the tag out.
#[derive(Clone)]
pub struct SealedGrant {
    terms: GrantTerms,
    globs: Vec<Glob>,
    body: Vec<u8>,
    tag: [u8; TAG_BYTES],
}

const TAG_BYTES: usize = 32;
const LAYOUT_VERSION: u8 = 3;
/// Room for the terms of most grants.
const USUAL_BYTES: usize = 136;
/// Length that stands for "no path pattern".
const NO_GLOB: u16 = u16::MAX;

impl fmt::Debug for SealedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SealedGrant").field(&self.terms).finish()
    }
}

impl SealedGrant {
    /// Seals terms.
    ///
    /// # Errors
    /// `grant_malformed` when a text is empty or too long, the pattern can not be read, or no use
    /// is allowed.
    pub fn seal(key: &SealingKey, terms: GrantTerms) -> Result<Self> {
        let globs = check(&terms)?;
        let body = encode(&terms)?;
        let tag = key.mac(&body).finalize().into_bytes().into();
        Ok(Self { terms, globs, body, tag })
    }

    /// What it permits.
    #[must_use]
    pub const fn terms(&self) -> &GrantTerms {
        &self.terms
    }

    /// Splits a narrower grant off. Its uses are taken from this one's: the answer's second part is
    /// to be stored in the transaction that issues the new grant, `stored` being the counter found.
    ///
    /// # Errors
    /// `grant_wider` naming the first term that is not narrower; `grant_malformed`, also when there are
    /// [`MAX_GRANT_DEPTH`] grants above it already.
    pub fn split(
        &self,
        key: &SealingKey,
        terms: GrantTerms,
        stored: u64,
    ) -> Result<(Self, GrantUse)> {
        let mine = &self.terms;
        let uses = terms.max_uses;
        let ancestors: Vec<_> = mine.ancestors.iter().copied().chain([mine.id]).collect();
        let child = Self::seal(key, GrantTerms { ancestors, ..terms })?;
        let narrow = &child.terms;
        let counter = stored.checked_add(uses).filter(|counter| *counter <= mine.max_uses);
        let inside = mine.path_glob.is_none()
            || (narrow.path_glob.is_some()
                && child.globs.iter().all(|glob| self.globs.iter().any(|g| glob_covers(g, glob))));
        let kept = [
            (!narrow.ancestors.contains(&narrow.id), "id"),
            (narrow.syscall == mine.syscall, "syscall"),
            (inside, "path_glob"),
            (narrow.expires_us <= mine.expires_us, "expires_us"),
            (narrow.policy_version == mine.policy_version, "policy_version"),
            (counter.is_some(), "max_uses"),
        ];
        match (kept.into_iter().find(|(holds, _)| !holds), counter) {
            (None, Some(counter)) => Ok((child, GrantUse { id: mine.id, stored, counter })),
            (term, _) => {
                let term = term.map_or("max_uses", |(_, term)| term);
                Err(Error::new(codes::GRANT_WIDER, "a grant cannot be split off")
                    .why(format!("its `{term}` is wider than that of {}", mine.id))
                    .with("term", term))
            }
        }
    }

    /// The bytes to hand to the sandbox.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.body.as_slice(), &self.tag].concat()
    }

    /// Reads what a sandbox handed back. Nothing of it is looked at before the seal holds, and
    /// the tag is compared in constant time, so that a forger learns nothing.
    ///
    /// # Errors
    /// `grant_forged` when the seal does not belong to the bytes and the key, `grant_malformed`
    /// for sealed bytes of another layout. Decide the call without the grant then.
    pub fn open(key: &SealingKey, bytes: &[u8]) -> Result<Self> {
        let forged =
            || Error::new(codes::GRANT_FORGED, "a sealed grant").why("its seal does not hold");
        let (body, tag) = bytes.split_last_chunk::<TAG_BYTES>().ok_or_else(forged)?;
        key.mac(body).verify_slice(tag).map_err(|_| forged())?;
        let terms = decode(body).ok_or_else(malformed)?;
        let globs = check(&terms)?;
        Ok(Self { terms, globs, body: body.to_vec(), tag: *tag })
    }
}

fn malformed() -> Error {
    Error::new(codes::GRANT_MALFORMED, "a sealed grant").why("the bytes have another layout")
}

fn check(terms: &GrantTerms) -> Result<Vec<Glob>> {
    let bad = |what: &str, why: &str| Error::new(codes::GRANT_MALFORMED, what).why(why);
    for (what, text, most) in [
        ("sandbox of a grant", Some(terms.sandbox.as_str()), MAX_GRANT_FIELD_BYTES),
        ("syscall of a grant", Some(terms.syscall.as_str()), MAX_GRANT_FIELD_BYTES),
        ("path pattern of a grant", terms.path_glob.as_deref(), MAX_PATTERN_BYTES),
    ] {
        if text.is_some_and(|text| text.is_empty() || text.len() > most) {
            return Err(bad(what, "it is empty or too long").with("limit_bytes", most));
        }
    }
    if terms.ancestors.len() > MAX_GRANT_DEPTH {
        return Err(bad("a grant", "it was split off too often").with("limit", MAX_GRANT_DEPTH));
    }
    if terms.max_uses == 0 || terms.max_uses == REVOKED {
        return Err(bad("uses of a grant", "there is at least one, and a finite number"));
    }
    match &terms.path_glob {
        None => Ok(Vec::new()),
        Some(pattern) => Glob::parse(pattern).map_err(|why| bad("path pattern of a grant", &why)),
    }
}

fn encode(terms: &GrantTerms) -> Result<Vec<u8>> {
    let length = |text: &str| u16::try_from(text.len()).map_err(|_| malformed());
    let mut body = Vec::with_capacity(USUAL_BYTES);
    body.push(LAYOUT_VERSION);
    body.extend(terms.id.0);
    body.extend(terms.expires_us.to_be_bytes());
    body.extend(terms.max_uses.to_be_bytes());
    body.extend(terms.policy_version.as_bytes());
    body.push(u8::try_from(terms.ancestors.len()).map_err(|_| malformed())?);
    body.extend(terms.ancestors.iter().flat_map(|ancestor| ancestor.0));
    body.extend(length(&terms.sandbox)?.to_be_bytes());
    body.extend(length(&terms.syscall)?.to_be_bytes());
    let glob = terms.path_glob.as_deref();
    body.extend(glob.map_or(Ok(NO_GLOB), length)?.to_be_bytes());
    body.extend(terms.sandbox.bytes());
    body.extend(terms.syscall.bytes());
    body.extend(glob.unwrap_or_default().bytes());
    Ok(body)
}

fn decode(body: &[u8]) -> Option<GrantTerms> {
    let (version, rest) = body.split_first()?;
    if *version != LAYOUT_VERSION {
        return None;
    }
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (expires, rest) = rest.split_first_chunk::<8>()?;
    let (uses, rest) = rest.split_first_chunk::<8>()?;
    let (policy, rest) = rest.split_first_chunk::<32>()?;
    let (count, rest) = rest.split_first()?;
    let (ancestors, rest) = rest.split_at_checked(usize::from(*count) * 16)?;
    let (ancestors, _) = ancestors.as_chunks::<16>();
    let (sandbox, rest) = rest.split_first_chunk::<2>()?;
    let (syscall, rest) = rest.split_first_chunk::<2>()?;
    let (glob, rest) = rest.split_first_chunk::<2>()?;
    let text = |rest: &mut &[u8], length: u16| -> Option<String> {
        let (text, after) = rest.split_at_checked(length.into())?;
        *rest = after;
        String::from_utf8(text.to_vec()).ok()
    };
    let mut rest = rest;
    let sandbox = text(&mut rest, u16::from_be_bytes(*sandbox))?;
    let syscall = text(&mut rest, u16::from_be_bytes(*syscall))?;
    let path_glob = match u16::from_be_bytes(*glob) {
        NO_GLOB => None,
        length => Some(text(&mut rest, length)?),
    };
    rest.is_empty().then(|| GrantTerms {
        id: GrantId(*id),
        sandbox,
        syscall,
        path_glob,
        max_uses: u64::from_be_bytes(*uses),
        expires_us: u64::from_be_bytes(*expires),
        policy_version: Digest::from_bytes(*policy),
        ancestors: ancestors.iter().copied().map(GrantId).collect(),
    })
}

/// Stored counter of a revoked grant: above every counter there can be.
pub const REVOKED: u64 = u64::MAX;

/// Reads the stored use counters. A plain function `GrantId -> u64` is one.
pub trait UseCounters {
    /// Highest counter used so far: 0 before the first use, [`REVOKED`] after revocation. What can
    /// not be read is answered as [`REVOKED`].
    fn stored(&self, id: GrantId) -> u64;
}

impl<F: Fn(GrantId) -> u64> UseCounters for F {
    fn stored(&self, id: GrantId) -> u64 {
        self(id)
    }
}

/// No counters at hand: every grant counts as revoked.
#[derive(Debug, Clone, Copy)]
pub struct NoCounters;

impl UseCounters for NoCounters {
    fn stored(&self, _: GrantId) -> u64 {
        REVOKED
    }
}

/// A sealed grant as presented with a call.
#[derive(Debug, Clone, Copy)]
pub struct TokenUse<'a> {
    /// The grant.
    pub grant: &'a SealedGrant,
    /// Number of this use: above the stored one, at most [`GrantTerms::max_uses`].
    pub counter: u64,
}

/// A counter that the caller writes together with the event of the decision. The write expects
/// `stored`; when it is no longer that, another use came first and this one is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantUse {
    /// Grant.
    pub id: GrantId,
    /// Counter found.
    pub stored: u64,
    /// Counter to store.
    pub counter: u64,
}

/// Why a sealed grant did not count. The call is then decided as if it had none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    /// It had expired when the evaluation began.
    Expired,
    /// It was issued under another policy.
    OtherPolicy,
    /// The counter is not above the stored one: a repetition, or the grant was revoked.
    Replayed,
    /// The counter is above the number of uses.
    UsedUp,
    /// Another sandbox asks, or none.
    OtherSandbox,
    /// It is for another syscall.
    OtherSyscall,
    /// The path lies outside its pattern, or the call has none.
    OtherPath,
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the grant has expired",
            Self::OtherPolicy => "the grant was issued under another policy",
            Self::Replayed => "the grant's counter was used before, or the grant was revoked",
            Self::UsedUp => "the grant is used up",
            Self::OtherSandbox => "the grant belongs to another sandbox",
            Self::OtherSyscall => "the grant is for another syscall",
            Self::OtherPath => "the path lies outside the grant",
        })
    }
}

impl TokenUse<'_> {
    /// Checks in time that depends on nothing but the lengths of the grant's and the call's path.
    pub(crate) fn check(
        &self,
        call: &Call,
        now_us: u64,
        policy_version: &Digest,
        counters: &dyn UseCounters,
    ) -> std::result::Result<GrantUse, TokenRefusal> {
        let SealedGrant { terms, globs, .. } = self.grant;
        if now_us >= terms.expires_us {
            return Err(TokenRefusal::Expired);
        }
        if terms.policy_version != *policy_version {
            return Err(TokenRefusal::OtherPolicy);
        }
        let stored = counters.stored(terms.id);
        if self.counter <= stored {
            return Err(TokenRefusal::Replayed);
        }
        if terms.ancestors.iter().any(|ancestor| counters.stored(*ancestor) == REVOKED) {
            return Err(TokenRefusal::Replayed);
        }
        if self.counter > terms.max_uses {
            return Err(TokenRefusal::UsedUp);
        }
        if call.sandbox.as_deref() != Some(&terms.sandbox) {
            return Err(TokenRefusal::OtherSandbox);
        }
        if call.syscall != terms.syscall {
            return Err(TokenRefusal::OtherSyscall);
        }
        let inside = terms.path_glob.is_none()
            || call
                .path
                .as_ref()
                .is_some_and(|path| globs.iter().any(|glob| glob.matches(Components::of(path))));
        if !inside {
            return Err(TokenRefusal::OtherPath);
        }
        Ok(GrantUse { id: terms.id, stored, counter: self.counter })
    }
}
