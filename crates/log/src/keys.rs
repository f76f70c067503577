//! The key that signs heads, in the textual forms of C2SP signed notes.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use glasshouse_model::{Digest, TenantId};

use crate::codes;
use crate::error::{Error, Result};
use crate::home;

/// Algorithm byte of Ed25519 in signed notes.
const ED25519: u8 = 1;
const PRIVATE_PREFIX: &str = "PRIVATE+KEY+";
/// Bytes of a key id.
pub(crate) const KEY_ID_BYTES: usize = 4;

/// The public half: verifies signed heads. Displays as a note verifier key,
/// `<name>+<key id>+<base64 of algorithm and key>`.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    name: String,
    key: VerifyingKey,
}

impl PublicKey {
    /// Name of the key and origin of the log: `glasshouse/<tenant>/<16 hex digits of the key>`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first bytes of SHA-256 over name, newline, algorithm and key.
    pub(crate) fn id(&self) -> [u8; KEY_ID_BYTES] {
        let parts = [self.name.as_bytes(), b"\n", &[ED25519], self.key.as_bytes()];
        let digest = Digest::of_parts(&parts);
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest.as_bytes()[..KEY_ID_BYTES]);
        id
    }

    /// Whether `signature` over `text` is this key's.
    pub(crate) fn verifies(&self, text: &[u8], signature: &[u8; 64]) -> bool {
        self.key.verify_strict(text, &Signature::from_bytes(signature)).is_ok()
    }

    /// Reads a note verifier key.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_end().splitn(3, '+');
        let (name, id, key) = (parts.next()?, parts.next()?, parts.next()?);
        let bytes = BASE64.decode(key).ok()?;
        let (algorithm, key) = bytes.split_first()?;
        let key = VerifyingKey::from_bytes(key.try_into().ok()?).ok()?;
        let public = Self { name: name.to_owned(), key };
        (*algorithm == ED25519 && hex(public.id()) == id).then_some(public)
    }

    /// Reads the public key of a home.
    ///
    /// # Errors
    /// `head_key_invalid`.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|cause| unusable(path, &cause))?;
        Self::parse(&text).ok_or_else(|| unusable(path, &"it is no note verifier key"))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: Vec<u8> = [ED25519].iter().chain(self.key.as_bytes()).copied().collect();
        write!(f, "{}+{}+{}", self.name, hex(self.id()), BASE64.encode(key))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// The secret half: signs heads. Never prints itself and is wiped from memory when dropped.
pub(crate) struct HeadKey {
    secret: SigningKey,
    public: PublicKey,
}

impl HeadKey {
    /// Draws a new key for a tenant's log.
    pub(crate) fn generate(tenant: &TenantId) -> Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|cause| {
            Error::new(codes::STORAGE_FAILED, "could not make a key")
                .why(format!("the operating system gave no random bytes: {cause}"))
        })?;
        let secret = SigningKey::from_bytes(&seed);
        seed.fill(0);
        let tag = Digest::of(secret.verifying_key().as_bytes()).hex();
        Ok(Self::named(format!("glasshouse/{tenant}/{}", &tag[..16]), secret))
    }

    fn named(name: String, secret: SigningKey) -> Self {
        let public = PublicKey { name, key: secret.verifying_key() };
        Self { secret, public }
    }

    /// The public half.
    pub(crate) const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs the text of a note.
    pub(crate) fn sign(&self, text: &[u8]) -> [u8; 64] {
        self.secret.sign(text).to_bytes()
    }

    /// Writes the secret half.
    pub(crate) fn save_secret(&self, path: &Path) -> Result<()> {
        let seed: Vec<u8> = [ED25519].iter().chain(self.secret.as_bytes()).copied().collect();
        let PublicKey { name, .. } = &self.public;
        let text =
            format!("{PRIVATE_PREFIX}{name}+{}+{}\n", hex(self.public.id()), BASE64.encode(seed));
        home::write_atomically(path, text.as_bytes())?;
        Ok(())
    }

    /// Writes the public half.
    pub(crate) fn save_public(&self, path: &Path) -> Result<()> {
        home::write_atomically(path, format!("{}\n", self.public).as_bytes())?;
        Ok(())
    }

    /// Reads the secret key of a home.
    ///
    /// # Errors
    /// `head_key_invalid`; the message never holds a part of the file.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|cause| unusable(path, &cause))?;
        Self::parse(&text).ok_or_else(|| unusable(path, &"it is no note signing key"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_end().strip_prefix(PRIVATE_PREFIX)?.splitn(3, '+');
        let (name, id, seed) = (parts.next()?, parts.next()?, parts.next()?);
        let bytes = BASE64.decode(seed).ok()?;
        let (algorithm, seed) = bytes.split_first()?;
        let key = Self::named(name.to_owned(), SigningKey::from_bytes(seed.try_into().ok()?));
        (*algorithm == ED25519 && hex(key.public.id()) == id).then_some(key)
    }
}

impl fmt::Debug for HeadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeadKey({}, secret)", self.public.name)
    }
}

fn hex(id: [u8; KEY_ID_BYTES]) -> String {
    format!("{:08x}", u32::from_be_bytes(id))
}

fn unusable(path: &Path, why: &dyn fmt::Display) -> Error {
    Error::new(codes::HEAD_KEY_INVALID, format!("could not use the key {}", path.display()))
        .why(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_survive_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, public) = (dir.path().join("s"), dir.path().join("p"));
        let key = HeadKey::generate(&TenantId::local()).unwrap();
        key.save_secret(&secret).unwrap();
        key.save_public(&public).unwrap();
        let read = PublicKey::load(&public).unwrap();
        assert_eq!(&read, key.public());
        let signature = HeadKey::load(&secret).unwrap().sign(b"text");
        assert!(read.verifies(b"text", &signature));
        assert!(!read.verifies(b"texu", &signature));
    }

    #[test]
    fn the_secret_is_never_printed() {
        let key = HeadKey::generate(&TenantId::local()).unwrap();
        let seed = key.secret.as_bytes();
        let printed = format!("{key:?} {key:#?} {:?}", key.public());
        let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
        for form in [hex, BASE64.encode(seed), format!("{seed:?}")] {
            assert!(!printed.contains(&form), "{printed}");
        }
    }

    #[test]
    fn texts_that_are_no_key_are_refused_without_quoting_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let key = HeadKey::generate(&TenantId::local()).unwrap();
        key.save_secret(&path).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        let middle = good.len() - 10;
        for bad in ["", "PRIVATE+KEY+", "hello", &good[..middle], &good.replacen('+', "-", 3)] {
            std::fs::write(&path, bad).unwrap();
            let error = HeadKey::load(&path).unwrap_err();
            assert_eq!(error.code(), "head_key_invalid");
            assert!(bad.len() < 20 || !error.to_string().contains(&bad[20..]), "{error}");
        }
    }
}
