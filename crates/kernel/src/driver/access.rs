//! Who may use the server: keys and tenants, as a fold over a session of their own.
//!
//! A tenant's log holds the keys of that tenant; the log of the installation, whose tenant is `local`, holds
//! the tenants as well. Of a key the log knows a digest: its secret is shown once and is nowhere.

mod tenants;

use std::collections::BTreeMap;
use std::fmt;

use glasshouse_log::{ACCESS, Append, Log, NewBranch};
use glasshouse_model::body::{KeyEvent, TenantEvent};
use glasshouse_model::{BranchId, Digest, Draft, Event, Kind, Principal, Seq, SessionId, TenantId};
use serde::{Deserialize, Serialize};

pub use self::tenants::{NewTenant, TenantRow};
use super::Kernel;
use super::decide::now_us;
use super::start::random;
use crate::{Error, Result, codes};

/// The roles that keys and tokens have.
pub const ROLES: [&str; 5] = ["viewer", "operator", "approver", "auditor", "admin"];
/// What a key begins with, so that scanners for secrets can know one.
pub const KEY_PREFIX: &str = "glasshouse_key.";
/// Random bytes of a secret and of a key's id.
const SECRET_BYTES: usize = 32;
const ID_BYTES: usize = 8;
/// Longest name of a key, and most keys of a tenant, revoked ones counted.
const MAX_NAME_BYTES: usize = 128;
const MAX_KEYS: usize = 10_000;
/// Events read at a time.
const ACCESS_PAGE: usize = 1_000;
/// How often an append is tried again while others append.
const ATTEMPTS: usize = 16;

/// The session in which a log tells who may use the server.
#[must_use]
pub fn access_session() -> SessionId {
    ACCESS.0.parse().expect("a constant in the shape of an id")
}

/// Its branch.
#[must_use]
pub fn access_branch() -> BranchId {
    ACCESS.1.parse().expect("a constant in the shape of an id")
}

/// Keys and tenants as the log says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Sequence of the last event.
    pub head: Seq,
    /// Keys by their ids.
    pub keys: BTreeMap<String, KeyRow>,
    /// Tenants by their names.
    pub tenants: BTreeMap<TenantId, TenantRow>,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Its id.
    pub key: String,
    /// What it is for.
    pub name: Option<String>,
    /// Roles.
    pub roles: Vec<String>,
    /// Whether an agent uses it.
    pub is_agent: bool,
    /// When it was made, microseconds since 1970.
    pub created_us: u64,
    /// When it ends, microseconds since 1970.
    pub expires_us: Option<u64>,
    /// When somebody took it back.
    pub revoked_us: Option<u64>,
    /// The key in whose place it was made.
    pub replaces: Option<String>,
    /// Digest of the secret.
    pub digest: Digest,
}

impl KeyRow {
    /// Whether it may be used.
    #[must_use]
    pub fn is_live(&self, now_us: u64) -> bool {
        self.expires_us.is_none_or(|end| now_us < end)
    }
}

impl Access {
    fn apply(&mut self, event: &Event) {
        self.head = event.seq();
        let at_us = event.header.time_us;
        match event.kind() {
            Kind::KeyCreated => {
                let Ok(body) = event.body_as::<KeyEvent>() else { return };
                self.created(body, at_us);
            }
            Kind::KeyRevoked => {
                let Ok(body) = event.body_as::<KeyEvent>() else { return };
                if let Some(key) = self.keys.get_mut(&body.key) {
                    let end = body.expires_us.unwrap_or(at_us);
                    key.revoked_us.get_or_insert(at_us);
                    key.expires_us = Some(key.expires_us.map_or(end, |before| before.min(end)));
                }
            }
            Kind::TenantCreated | Kind::TenantUpdated | Kind::TenantDisabled => {
                let Ok(body) = event.body_as::<TenantEvent>() else { return };
                let is_disabled = *event.kind() == Kind::TenantDisabled;
                let created_us = self.tenants.get(&body.tenant).map_or(at_us, |row| row.created_us);
                let TenantEvent { tenant, profile, quotas, roots, policy } = body;
                let row = TenantRow {
                    tenant: tenant.clone(),
                    profile,
                    quotas,
                    roots,
                    policy,
                    is_disabled,
                    created_us,
                    changed_seq: event.seq(),
                };
                self.tenants.insert(tenant, row);
            }
            _ => {}
        }
    }

    fn created(&mut self, body: KeyEvent, at_us: u64) {
        // Nothing can be compared with a key without a digest.
        let Some(digest) = body.digest else { return };
        let KeyEvent { key, roles, expires_us, name, is_agent, replaces, .. } = body;
        let row = KeyRow {
            key: key.clone(),
            name,
            roles,
            is_agent,
            created_us: at_us,
            expires_us,
            revoked_us: None,
            replaces,
            digest,
        };
        self.keys.entry(key).or_insert(row);
    }
}

/// What a new key may do, and for how long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyTerms {
    /// What it is for.
    pub name: Option<String>,
    /// Roles out of [`ROLES`].
    pub roles: Vec<String>,
    /// Whether an agent uses it.
    pub is_agent: bool,
    /// How long it is good for, in microseconds.
    pub lifetime_us: Option<u64>,
}

/// A key that was just made. Its text is here and nowhere else.
pub struct IssuedKey {
    /// The key as the log knows it.
    pub row: KeyRow,
    /// What its holder sends.
    pub text: String,
}

impl fmt::Debug for IssuedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IssuedKey({})", self.row.key)
    }
}

/// What becomes of the key that another one takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// How long the old one may still be used, in microseconds.
    pub grace_us: u64,
}

/// Keys and tenants as a log says, from what was known before: also of a log that was opened for reading only.
///
/// # Errors
/// The log's errors.
pub fn access_of(log: &Log, mut known: Access) -> Result<Access> {
    match log.branch(&access_branch()) {
        Err(error) if error.is(glasshouse_log::codes::BRANCH_NOT_FOUND) => return Ok(known),
        // Whoever made that log would say who may use this one.
        row if row.as_ref().is_ok_and(|row| row.is_imported || row.session != access_session()) => {
            return Err(Error::new(codes::LOG_UNREADABLE, "keys and tenants cannot be read")
                .why("what has their name came from another log"));
        }
        row => drop(row?),
    }
    loop {
        let page = log.read(&access_branch(), known.head + 1, ACCESS_PAGE)?;
        page.iter().for_each(|event| known.apply(event));
        if page.len() < ACCESS_PAGE {
            return Ok(known);
        }
    }
}

impl Kernel {
    /// Keys and tenants, from the first event on: a wrong snapshot would be a right that nobody gave.
    ///
    /// # Errors
    /// The log's errors.
    pub fn access(&self) -> Result<Access> {
        self.access_since(Access::default())
    }

    /// The same from what was known before.
    ///
    /// # Errors
    /// The log's errors.
    pub fn access_since(&self, known: Access) -> Result<Access> {
        access_of(&self.log, known)
    }

    /// Makes a key of this log's tenant.
    ///
    /// # Errors
    /// `key_invalid`; the log's errors.
    pub fn create_key(&self, terms: &KeyTerms, by: &Principal) -> Result<IssuedKey> {
        self.issue(by, |_| Ok((terms.clone(), None)))
    }

    /// Makes a key that takes the place of another one, with its roles; without `lifetime_us` it is good for as long as
    /// that one was when it was made.
    ///
    /// # Errors
    /// `key_not_found` for one that is not there or has ended; the log's errors.
    pub fn rotate_key(
        &self,
        key: &str,
        rotation: Rotation,
        lifetime_us: Option<u64>,
        by: &Principal,
    ) -> Result<IssuedKey> {
        let key = id_of(key);
        self.issue(by, |access| {
            // One that has another in its place is over, if with some grace.
            let is_whole = |row: &&KeyRow| row.is_live(now_us()) && row.revoked_us.is_none();
            let old = access.keys.get(key).filter(is_whole);
            let old = old.ok_or_else(|| no_key(key))?.clone();
            let terms = KeyTerms {
                name: old.name.clone(),
                roles: old.roles.clone(),
                is_agent: old.is_agent,
                lifetime_us: lifetime_us.or_else(|| term_us(&old)),
            };
            Ok((terms, Some((old, rotation))))
        })
    }

    /// Takes a key back. False when it had ended already.
    ///
    /// # Errors
    /// `key_not_found`; the log's errors.
    pub fn revoke_key(&self, key: &str, by: &Principal) -> Result<bool> {
        let (key, access) = (id_of(key), self.access()?);
        let row = access.keys.get(key).ok_or_else(|| no_key(key))?;
        if !row.is_live(now_us()) {
            return Ok(false);
        }
        let draft = Draft::new(Kind::KeyRevoked, &ended(row, None)).by(by.actor());
        self.tell_access(vec![draft], None)?;
        Ok(true)
    }

    /// Makes the key that `wanted` tells of keys and tenants as they are: of two that replace one at a time, one
    /// does.
    fn issue(
        &self,
        by: &Principal,
        wanted: impl Fn(&Access) -> Result<(KeyTerms, Option<(KeyRow, Rotation)>)>,
    ) -> Result<IssuedKey> {
        for _ in 0..ATTEMPTS {
            let access = self.access()?;
            let (terms, old) = wanted(&access)?;
            let (id, text, drafts) = self.new_key(&access, &terms, old, by)?;
            match self.tell_access(drafts, Some(access.head)) {
                Err(error) if error.is(glasshouse_log::codes::HEAD_CONFLICT) => {}
                told => {
                    told?;
                    let mut access = self.access_since(access)?;
                    let row = access.keys.remove(&id).ok_or_else(|| no_key(&id))?;
                    return Ok(IssuedKey { row, text });
                }
            }
        }
        Err(Error::new(codes::TURN_FAILED, "the key could not be told of"))
    }

    /// The id and the text of a key, and what tells of it.
    fn new_key(
        &self,
        access: &Access,
        terms: &KeyTerms,
        old: Option<(KeyRow, Rotation)>,
        by: &Principal,
    ) -> Result<(String, String, Vec<Draft>)> {
        let refuse = |why: String| Error::new(codes::KEY_INVALID, "no key was made").why(why);
        if terms.roles.is_empty() {
            return Err(refuse("it has no role".to_owned()));
        }
        if let Some(role) = terms.roles.iter().find(|role| !ROLES.contains(&role.as_str())) {
            return Err(refuse(format!("`{role}` is no role")));
        }
        // However often each is named, it is kept once.
        let mut roles: Vec<String> = Vec::new();
        for role in &terms.roles {
            if !roles.contains(role) {
                roles.push(role.clone());
            }
        }
        let name = terms.name.as_deref().unwrap_or_default();
        if name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(refuse(format!(
                "its name is longer than {MAX_NAME_BYTES} bytes, or no text"
            )));
        }
        if access.keys.len() >= MAX_KEYS {
            return Err(refuse(format!("there are {MAX_KEYS} keys")));
        }
        let now = now_us();
        let expires_us = terms.lifetime_us.map(|lifetime| now.saturating_add(lifetime));
        if expires_us.is_some_and(|end| end <= now) {
            return Err(refuse("it would end before it begins".to_owned()));
        }
        let (id, secret) =
            (format!("k{}", random_hex::<ID_BYTES>()?), random_hex::<SECRET_BYTES>()?);
        let text = format!("{KEY_PREFIX}{}.{id}.{secret}", self.log.tenant());
        let body = KeyEvent {
            key: id.clone(),
            roles,
            expires_us,
            name: terms.name.clone(),
            digest: Some(Digest::of(text.as_bytes())),
            is_agent: terms.is_agent,
            replaces: old.as_ref().map(|(old, _)| old.key.clone()),
        };
        let mut drafts = vec![Draft::new(Kind::KeyCreated, &body).by(by.actor())];
        drafts.extend(old.map(|(old, Rotation { grace_us })| {
            let body = ended(&old, (grace_us > 0).then(|| now.saturating_add(grace_us)));
            Draft::new(Kind::KeyRevoked, &body).by(by.actor())
        }));
        Ok((id, text, drafts))
    }

    /// Appends to the session of keys and tenants, which is made when it is missing.
    ///
    /// # Errors
    /// The log's errors.
    pub fn tell_access(&self, drafts: Vec<Draft>, head: Option<Seq>) -> Result<Seq> {
        let (session, branch) = (access_session(), access_branch());
        for _ in 0..ATTEMPTS {
            let append = Append::new(session.clone(), branch.clone(), drafts.clone());
            match self.log.append(Append { expected_head: head, ..append }) {
                Ok(appended) => {
                    self.log.sign_head()?;
                    return Ok(appended.head.seq);
                }
                Err(error) if error.is(glasshouse_log::codes::BRANCH_NOT_FOUND) => {
                    let name = "main".to_owned();
                    let (session, branch) = (session.clone(), branch.clone());
                    match self.log.create_branch(NewBranch { session, branch, name, parent: None })
                    {
                        // Another process was first.
                        Err(error) if !error.is(glasshouse_log::codes::BRANCH_EXISTS) => {
                            return Err(error.into());
                        }
                        _ => {}
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::new(codes::TURN_FAILED, "keys and tenants could not be told of"))
    }
}

fn ended(row: &KeyRow, until_us: Option<u64>) -> KeyEvent {
    KeyEvent {
        key: row.key.clone(),
        roles: row.roles.clone(),
        expires_us: until_us,
        name: None,
        digest: None,
        is_agent: row.is_agent,
        replaces: None,
    }
}

/// The id in the text of a whole key, or the id itself: whoever finds a key somewhere has its text, and it is told
/// to nobody again.
/// For how long a key was made, if it ends: in whole seconds, because its event is a moment younger than it is.
fn term_us(key: &KeyRow) -> Option<u64> {
    let term_us = key.expires_us?.saturating_sub(key.created_us);
    Some(term_us.next_multiple_of(1_000_000))
}

fn id_of(key: &str) -> &str {
    let whole = key.strip_prefix(KEY_PREFIX);
    whole.and_then(|rest| rest.split('.').nth(1)).unwrap_or(if whole.is_some() { "" } else { key })
}

fn no_key(key: &str) -> Error {
    Error::new(codes::KEY_NOT_FOUND, format!("there is no key {key}"))
}

fn random_hex<const N: usize>() -> Result<String> {
    let bytes: [u8; N] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
