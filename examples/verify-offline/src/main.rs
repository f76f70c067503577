//! Checks proofs of a Glasshouse log from their files and the log's verifier key alone.
//!
//! `verify-offline KEY FILE...`: KEY is the text of `keys/head.pub`; each file is what
//! `glasshouse audit checkpoint`, `prove` or `check` printed. Everything here is written from
//! `docs/format.md`; nothing of Glasshouse is used.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints its findings")]

use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

type Hash = [u8; 32];
/// Why a file does not hold, or cannot be read at all.
#[derive(Debug)]
enum Refusal {
    Unreadable(String),
    False(String),
}
type Checked<T> = Result<T, Refusal>;

/// Largest file that is read: an event has at most a mebibyte, and JSON may need more for it.
const MAX_FILE_BYTES: u64 = 16 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((key, files)) = arguments.split_first().filter(|(_, files)| !files.is_empty()) else {
        eprintln!("usage: verify-offline KEY FILE...");
        return ExitCode::from(2);
    };
    let Some(key) = Key::parse(key) else {
        eprintln!("error: the first argument is no verifier key");
        return ExitCode::from(2);
    };
    let mut status = 0;
    for file in files {
        match check_file(&key, file) {
            Ok(found) => println!("ok: {file}: {found}"),
            Err(Refusal::False(why)) => {
                println!("FALSE: {file}: {why}");
                status = status.max(1);
            }
            Err(Refusal::Unreadable(why)) => {
                eprintln!("error: {file}: {why}");
                status = 2;
            }
        }
    }
    ExitCode::from(status)
}

fn check_file(key: &Key, argument: &str) -> Checked<String> {
    let (path, leaf) = argument.split_once('@').unwrap_or((argument, ""));
    let unreadable = |cause: std::io::Error| Refusal::Unreadable(cause.to_string());
    if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE_BYTES {
        return Err(Refusal::Unreadable("it is too large".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    if text.starts_with("c2sp.org/tlog-proof@v1\n") {
        return check_text_proof(key, &text, leaf);
    }
    if !text.starts_with('{') {
        return Ok(format!("head of {} events", Head::open(key, &text)?.size));
    }
    let json: Value =
        serde_json::from_str(&text).map_err(|cause| Refusal::Unreadable(cause.to_string()))?;
    if json.get("event").is_some() {
        check_event(key, &json)
    } else if json.get("old").is_some() {
        check_growth(key, &json)
    } else {
        Ok(format!("head of {} events", Head::open(key, text_of(&json, "note")?)?.size))
    }
}

/// A verifier key of a signed note: `<name>+<id>+<base64 of 1 and the key>`.
struct Key {
    name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

impl Key {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().splitn(3, '+');
        let (name, id, encoded) = (parts.next()?, parts.next()?, parts.next()?);
        let bytes = BASE64.decode(encoded).ok()?;
        let key = VerifyingKey::from_bytes(bytes.strip_prefix(&[1])?.try_into().ok()?).ok()?;
        let hash = sha256(&[name.as_bytes(), b"\n", &bytes]);
        let [a, b, c, d, ..] = hash;
        let is_its_id = format!("{a:02x}{b:02x}{c:02x}{d:02x}") == id;
        is_its_id.then(|| Self { name: name.to_owned(), id: [a, b, c, d], key })
    }
}

/// A signed head: size and root of the tree.
struct Head {
    size: u64,
    root: Hash,
}

impl Head {
    fn open(key: &Key, note: &str) -> Checked<Self> {
        let end = note.find("\n\n").ok_or_else(|| unreadable("it is no signed note"))?;
        let (text, signatures) = (&note[..=end], &note[end + 2..]);
        let is_signed = signatures.lines().any(|line| {
            let encoded = line.strip_prefix("\u{2014} ").and_then(|rest| {
                rest.strip_prefix(key.name.as_str()).and_then(|rest| rest.strip_prefix(' '))
            });
            let bytes = encoded.and_then(|encoded| BASE64.decode(encoded).ok());
            let signature = bytes.as_deref().and_then(|bytes| bytes.strip_prefix(&key.id));
            signature.and_then(|bytes| bytes.try_into().ok()).is_some_and(|bytes| {
                key.key.verify_strict(text.as_bytes(), &Signature::from_bytes(bytes)).is_ok()
            })
        });
        if !is_signed {
            return Err(wrong("the head is not signed by this key"));
        }
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(key.name.as_str());
        let size = lines.next().and_then(|line| line.parse().ok());
        let root = lines.next().and_then(|line| BASE64.decode(line).ok()?.try_into().ok());
        match (is_ours, size, root) {
            (true, Some(size), Some(root)) => Ok(Self { size, root }),
            _ => Err(unreadable("the signed text is no head of this log")),
        }
    }
}

/// An event with its way to the root of a signed head.
fn check_event(key: &Key, json: &Value) -> Checked<String> {
    let head = Head::open(key, text_of(json, "checkpoint")?)?;
    let event = &json["event"];
    let (prev, hash) = (hex_of(event, "prev")?, hex_of(event, "hash")?);
    let header = text_of(event, "header")?;
    if sha256(&[b"glasshouse/event/v1\0", &prev, header.as_bytes()]) != hash {
        return Err(wrong("the header does not have the event's hash"));
    }
    let named: Value =
        serde_json::from_str(header).map_err(|cause| unreadable(&format!("header: {cause}")))?;
    let mut erased = "";
    match (event["salt"].as_str(), event["body"].as_str()) {
        (Some(salt), Some(body)) => {
            let salt = unhex(salt).ok_or_else(|| unreadable("the salt is no hexadecimal"))?;
            let found = sha256(&[b"glasshouse/body/v1\0", &salt, body.as_bytes()]);
            if found != hex_of(&named, "body_hash")? {
                return Err(wrong("the body does not have the hash in the header"));
            }
        }
        (None, None) => erased = ", its body erased",
        _ => return Err(unreadable("a body has a salt, and a salt a body")),
    }
    let (branch, seq) = (text_of(json, "branch")?, number_of(json, "seq")?);
    if named["branch"] != branch || named["seq"] != seq {
        return Err(wrong("the header names another event"));
    }
    let index = number_of(json, "index")?;
    if !leads_to_root(&hash, index, head.size, &path_of(json)?, &head.root) {
        return Err(wrong("the path does not lead from the event to the head"));
    }
    Ok(format!("event {seq} of {branch} is number {index} of {}{erased}", head.size))
}

/// A proof in the text form, which leaves the event's hash to who checks.
fn check_text_proof(key: &Key, text: &str, leaf: &str) -> Checked<String> {
    let bytes = unhex(leaf.strip_prefix("sha256:").unwrap_or(leaf));
    let hash: Hash = bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| unreadable("give the event's hash as FILE@HASH"))?;
    let (proof, note) = text.split_once("\n\n").ok_or_else(|| unreadable("it has no head"))?;
    let head = Head::open(key, note)?;
    let mut lines = proof.lines().skip(1).filter(|line| !line.starts_with("extra "));
    let index = lines.next().and_then(|line| line.strip_prefix("index ")?.parse().ok());
    let index = index.ok_or_else(|| unreadable("it names no index"))?;
    let path: Option<Vec<Hash>> =
        lines.map(|line| BASE64.decode(line).ok()?.try_into().ok()).collect();
    let path = path.ok_or_else(|| unreadable("a line of its path is no hash"))?;
    if !leads_to_root(&hash, index, head.size, &path, &head.root) {
        return Err(wrong("the path does not lead from the event to the head"));
    }
    Ok(format!("the event is number {index} of {}", head.size))
}

/// Two signed heads, the later of which extends the earlier.
fn check_growth(key: &Key, json: &Value) -> Checked<String> {
    if json["ok"] == false {
        return Err(wrong("it is no proof but a finding"));
    }
    let (old, new) =
        (Head::open(key, text_of(json, "old")?)?, Head::open(key, text_of(json, "new")?)?);
    if !extends(&old, &new, &path_of(json)?) {
        return Err(wrong("the path does not lead from one head to the other"));
    }
    Ok(format!("{} events extend {}", new.size, old.size))
}

/// RFC 9162, 2.1.3.2.
fn leads_to_root(hash: &Hash, index: u64, size: u64, path: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let (mut at, mut last, mut found) = (index, size - 1, sha256(&[&[0], hash]));
    for beside in path {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            found = node(beside, &found);
            while at % 2 == 0 && at != 0 {
                (at, last) = (at / 2, last / 2);
            }
        } else {
            found = node(&found, beside);
        }
        (at, last) = (at / 2, last / 2);
    }
    last == 0 && found == *root
}

/// RFC 9162, 2.1.4.2.
fn extends(old: &Head, new: &Head, path: &[Hash]) -> bool {
    if old.size == 0 {
        return path.is_empty() && old.root == sha256(&[]);
    }
    if old.size >= new.size {
        return old.size == new.size && path.is_empty() && old.root == new.root;
    }
    let own = old.size.is_power_of_two().then_some(&old.root);
    let mut path = own.into_iter().chain(path);
    let (mut at, mut last) = (old.size - 1, new.size - 1);
    while at % 2 == 1 {
        (at, last) = (at / 2, last / 2);
    }
    let Some(first) = path.next() else { return false };
    let (mut before, mut after) = (*first, *first);
    for beside in path {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            (before, after) = (node(beside, &before), node(beside, &after));
            while at % 2 == 0 && at != 0 {
                (at, last) = (at / 2, last / 2);
            }
        } else {
            after = node(&after, beside);
        }
        (at, last) = (at / 2, last / 2);
    }
    last == 0 && before == old.root && after == new.root
}

fn node(left: &Hash, right: &Hash) -> Hash {
    sha256(&[&[1], left, right])
}

fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

fn text_of<'a>(json: &'a Value, name: &str) -> Checked<&'a str> {
    json[name].as_str().ok_or_else(|| unreadable(&format!("it has no text `{name}`")))
}

fn number_of(json: &Value, name: &str) -> Checked<u64> {
    json[name].as_u64().ok_or_else(|| unreadable(&format!("it has no number `{name}`")))
}

fn hex_of(json: &Value, name: &str) -> Checked<Hash> {
    let text = text_of(json, name)?;
    let bytes = text.strip_prefix("sha256:").and_then(unhex);
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| unreadable(&format!("`{name}` is no digest")))
}

fn path_of(json: &Value) -> Checked<Vec<Hash>> {
    let nodes = json["path"].as_array().ok_or_else(|| unreadable("it has no `path`"))?;
    let path = nodes.iter().map(|node| BASE64.decode(node.as_str()?).ok()?.try_into().ok());
    path.collect::<Option<_>>().ok_or_else(|| unreadable("a node of `path` is no hash"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

fn unreadable(why: &str) -> Refusal {
    Refusal::Unreadable(why.to_owned())
}

fn wrong(why: &str) -> Refusal {
    Refusal::False(why.to_owned())
}
