//! Signed heads: a C2SP checkpoint (origin, size, root, one extension line) in a signed note.
//!
//! ```text
//! glasshouse/local/0123456789abcdef
//! 5
//! <base64 of the root>
//! newest b_3k9q 5 sha256:<hash>
//!
//! — glasshouse/local/0123456789abcdef <base64 of key id and signature>
//! ```

use std::str::FromStr as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use glasshouse_model::{BranchId, Digest, Seq};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::append::Head;
use crate::keys::{HeadKey, KEY_ID_BYTES, PublicKey};
use crate::store::TreeHead;

/// Largest note that is read: ours has some 400 bytes, and a witness adds about 150.
pub(crate) const MAX_NOTE_BYTES: usize = 64 << 10;
const NEWEST: &str = "newest ";
const SIGNATURE: &str = "\u{2014} ";

/// A head that the log's key vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// Name of the log and of the key.
    pub origin: String,
    /// How many events it covers, how they hash, and the newest of them.
    pub tree: TreeHead,
    /// The signed note as stored.
    pub note: String,
}

/// How a head is told.
#[derive(Serialize, JsonSchema)]
struct Shown<'a> {
    /// Name of the log and of the key.
    origin: &'a str,
    /// How many events it covers.
    size: u64,
    /// How they hash.
    root: Digest,
    /// The newest of them.
    newest: Option<NewestEvent<'a>>,
    /// The signed note as stored.
    note: &'a str,
}

/// The newest event that a head covers.
#[derive(Serialize, JsonSchema)]
struct NewestEvent<'a> {
    branch: &'a BranchId,
    seq: Seq,
    hash: Digest,
}

impl JsonSchema for SignedHead {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SignedHead".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Shown::json_schema(generator)
    }
}

impl Serialize for SignedHead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let newest = self.tree.newest.as_ref();
        Shown {
            origin: &self.origin,
            size: self.tree.size,
            root: self.tree.root,
            newest: newest.map(|(branch, head)| NewestEvent {
                branch,
                seq: head.seq,
                hash: head.hash,
            }),
            note: &self.note,
        }
        .serialize(serializer)
    }
}

impl SignedHead {
    /// Signs a tree head.
    pub(crate) fn sign(tree: TreeHead, key: &HeadKey) -> Self {
        let origin = key.public().name().to_owned();
        let mut text =
            format!("{origin}\n{}\n{}\n", tree.size, BASE64.encode(tree.root.as_bytes()));
        if let Some((branch, head)) = &tree.newest {
            text.push_str(&format!("{NEWEST}{branch} {} {}\n", head.seq, head.hash));
        }
        let signature = [key.public().id().as_slice(), &key.sign(text.as_bytes())].concat();
        let note = format!("{text}\n{SIGNATURE}{origin} {}\n", BASE64.encode(signature));
        Self { origin, tree, note }
    }

    /// Reads a note and checks the log's signature; signatures of others are passed over.
    ///
    /// # Errors
    /// Says what is wrong with the note.
    pub(crate) fn open(note: &str, key: &PublicKey) -> Result<Self, &'static str> {
        let end = note.find("\n\n").ok_or("it is no signed note")?;
        let (text, signatures) = (&note[..=end], &note[end + 2..]);
        let signed = signatures.lines().any(|line| is_signature_of(line, text, key));
        if !signed {
            return Err("no signature in it is valid for the log's key");
        }
        let tree = parse_text(text, key.name()).ok_or("its text is no checkpoint of this log")?;
        Ok(Self { origin: key.name().to_owned(), tree, note: note.to_owned() })
    }
}

fn is_signature_of(line: &str, text: &str, key: &PublicKey) -> bool {
    let encoded = line
        .strip_prefix(SIGNATURE)
        .and_then(|rest| rest.strip_prefix(key.name()))
        .and_then(|rest| rest.strip_prefix(' '));
    let Some(bytes) = encoded.and_then(|encoded| BASE64.decode(encoded).ok()) else { return false };
    let Some((id, signature)) = bytes.split_first_chunk::<KEY_ID_BYTES>() else { return false };
    let Ok(signature) = <&[u8; 64]>::try_from(signature) else { return false };
    *id == key.id() && key.verifies(text.as_bytes(), signature)
}

fn parse_text(text: &str, origin: &str) -> Option<TreeHead> {
    let mut lines = text.lines();
    if lines.next()? != origin {
        return None;
    }
    let size_text = lines.next()?;
    let size: u64 = size_text.parse().ok()?;
    let root: [u8; 32] = BASE64.decode(lines.next()?).ok()?.try_into().ok()?;
    let newest = match lines.next() {
        None => None,
        Some(line) => Some(parse_newest(line.strip_prefix(NEWEST)?)?),
    };
    let canonical = size.to_string() == size_text && (size == 0) == newest.is_none();
    (canonical && lines.next().is_none()).then(|| TreeHead {
        size,
        root: Digest::from_bytes(root),
        newest,
    })
}

fn parse_newest(text: &str) -> Option<(BranchId, Head)> {
    let mut words = text.split(' ');
    let branch = words.next()?.parse().ok()?;
    let seq = words.next()?.parse().ok()?;
    let hash = Digest::from_str(words.next()?).ok()?;
    words.next().is_none().then_some((branch, Head { seq, hash }))
}

#[cfg(test)]
mod tests {
    use glasshouse_model::TenantId;

    use super::*;

    fn tree() -> TreeHead {
        let head = Head { seq: 5, hash: Digest::of(b"e") };
        TreeHead {
            size: 9,
            root: Digest::of(b"root"),
            newest: Some(("b_3k9q".parse().unwrap(), head)),
        }
    }

    #[test]
    fn a_signed_head_reads_back_and_other_signatures_are_passed_over() {
        let key = HeadKey::generate(&TenantId::local()).unwrap();
        let empty = TreeHead { size: 0, root: Digest::of(b""), newest: None };
        for tree in [tree(), empty] {
            let signed = SignedHead::sign(tree.clone(), &key);
            assert_eq!(SignedHead::open(&signed.note, key.public()), Ok(signed.clone()));
            let witnessed = format!("{}\u{2014} witness.example AAAA\n", signed.note);
            assert_eq!(SignedHead::open(&witnessed, key.public()).unwrap().tree, tree);
        }
    }

    #[test]
    fn any_change_of_the_text_breaks_the_signature() {
        let key = HeadKey::generate(&TenantId::local()).unwrap();
        let note = SignedHead::sign(tree(), &key).note;
        let text_bytes = note.find("\n\n").unwrap();
        for at in 0..text_bytes {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(SignedHead::open(&changed, key.public()).is_err(), "{changed}");
        }
        let other = HeadKey::generate(&TenantId::local()).unwrap();
        assert!(SignedHead::open(&note, other.public()).is_err(), "another key");
        for cut in 0..note.len() - 1 {
            if let Some(cut) = note.get(..cut) {
                assert!(SignedHead::open(cut, key.public()).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn a_signed_text_that_is_no_checkpoint_is_refused() {
        let key = HeadKey::generate(&TenantId::local()).unwrap();
        let name = key.public().name().to_owned();
        let root = BASE64.encode([0; 32]);
        for text in [
            format!("{name}\n09\n{root}\n"),
            format!("{name}\n-1\n{root}\n"),
            format!("{name}\n0\n{root}x\n"),
            format!("{name}\n1\n{root}\n"),
            format!("{name}\n1\n{root}\nnewest b_1 1\n"),
            format!("{name}\n0\n{root}\nnewest b_1 1 {}\n", Digest::ZERO),
            format!("{name}\n1\n{root}\nnewest b_1 1 {}\nmore\n", Digest::ZERO),
            format!("other\n0\n{root}\n"),
        ] {
            let bytes = [key.public().id().as_slice(), &key.sign(text.as_bytes())].concat();
            let note = format!("{text}\n{SIGNATURE}{name} {}\n", BASE64.encode(bytes));
            let error = SignedHead::open(&note, key.public()).unwrap_err();
            assert_eq!(error, "its text is no checkpoint of this log", "{text}");
        }
    }
}
