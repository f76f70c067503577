//! The first messages of a TLS handshake, read only as far as they tell for whom they are.
//!
//! Nothing is decrypted. A tunnel is for one host, and the server behind it may serve many: which
//! one is meant stands in this message, so it is compared before a byte of it goes out.

use super::Denial;

/// Largest handshake message; those with post-quantum keys are below 2 KiB.
pub(crate) const MAX_HELLO_BYTES: usize = 16 << 10;

/// Largest record of TLS.
const MAX_RECORD_BYTES: usize = 1 << 14;
const HANDSHAKE_RECORD: u8 = 22;
const CHANGE_CIPHER_RECORD: u8 = 20;
const DATA_RECORD: u8 = 23;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// What a server's hello has in place of its random bytes when it wants another one of the client:
/// SHA-256 of `HelloRetryRequest`.
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Encrypted client hello, its drafts, and encrypted server names. The dummies that some clients
/// send (GREASE) look the same to whoever has no key; that is what they are for.
const HIDING: [std::ops::RangeInclusive<u16>; 2] = [0xfe08..=0xfe0d, 0xffce..=0xffce];

/// The alert with which a tunnel is refused: fatal, access denied; or an error of ours when it is not
/// the tunnel that is at fault.
pub(crate) const fn alert(denial: Denial) -> [u8; 7] {
    let code = match denial {
        Denial::Unreachable | Denial::Unresolvable | Denial::TimedOut => 80,
        _ => 49,
    };
    [21, 3, 3, 0, 2, 2, code]
}

/// Whom the client wants to talk to, and how many bytes say so; `None` while the message is not
/// complete.
///
/// # Errors
/// [`Denial::NotTls`], [`Denial::Malformed`], [`Denial::TooLarge`], [`Denial::NoSni`],
/// [`Denial::Ech`].
pub(crate) fn server_name(bytes: &[u8]) -> Result<Option<(String, usize)>, Denial> {
    match message(bytes, CLIENT_HELLO)? {
        // A second message behind the first, before the server has answered.
        Some(found) if found.more => Err(Denial::Malformed),
        Some(found) => client_hello(&found.message).map(|name| Some((name, found.bytes))),
        None => Ok(None),
    }
}

/// As [`server_name`] for the hello that a client sends when it was asked for another one. Data that
/// it sent early, in vain, may stand before it.
pub(crate) fn second_server_name(bytes: &[u8]) -> Result<Option<(String, usize)>, Denial> {
    let mut at = 0;
    while let Some([CHANGE_CIPHER_RECORD | DATA_RECORD, 3, _, high, low]) = bytes.get(at..at + 5) {
        at += 5 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    match bytes.get(at..) {
        Some([CHANGE_CIPHER_RECORD | DATA_RECORD, rest @ ..]) if rest.len() < 4 => Ok(None),
        Some(rest) if !rest.is_empty() => {
            Ok(server_name(rest)?.map(|(name, count)| (name, at + count)))
        }
        _ => Ok(None),
    }
}

/// Whether a server asks for another hello; `None` while that is not known. A server that breaks the
/// protocol asks for nothing.
pub(crate) fn asks_again(bytes: &[u8]) -> Option<bool> {
    match message(bytes, SERVER_HELLO) {
        Ok(found) => found.map(|found| found.message.get(6..38) == Some(&RETRY[..])),
        Err(_) => Some(false),
    }
}

/// A handshake message.
struct Found {
    message: Vec<u8>,
    /// Bytes of the records that hold it.
    bytes: usize,
    /// Whether another one begins in its last record.
    more: bool,
}

/// Puts the first handshake message together from its records; it must be of this kind.
fn message(bytes: &[u8], kind: u8) -> Result<Option<Found>, Denial> {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        // What is there must be right even before the rest is: nobody waits for nonsense to end.
        if rest.first().is_some_and(|kind| *kind != HANDSHAKE_RECORD)
            || rest.get(1).is_some_and(|major| *major != 3)
        {
            let nothing_yet = message.is_empty();
            return Err(if nothing_yet { Denial::NotTls } else { Denial::Malformed });
        }
        let Some((header, after)) = rest.split_at_checked(5) else { return Ok(None) };
        let record = usize::from(u16::from_be_bytes([header[3], header[4]]));
        // An empty record would let a client go on for ever.
        if record == 0 || record > MAX_RECORD_BYTES {
            return Err(Denial::Malformed);
        }
        let whole_record = after.len() >= record;
        message.extend_from_slice(&after[..record.min(after.len())]);
        if message.first().is_some_and(|found| *found != kind) {
            return Err(Denial::NotTls);
        }
        if let [_, a, b, c, ..] = message[..] {
            let length = 4 + usize::from(a) * 65_536 + usize::from(b) * 256 + usize::from(c);
            if length > MAX_HELLO_BYTES {
                return Err(Denial::TooLarge);
            }
            let more = message.len() > length;
            if more || (message.len() == length && whole_record) {
                message.truncate(length);
                let left = after.len().saturating_sub(record);
                return Ok(Some(Found { message, bytes: bytes.len() - left, more }));
            }
        }
        if !whole_record {
            return Ok(None);
        }
        rest = &after[record..];
    }
}

/// A cursor over one message; every read beyond its end is an error.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Denial> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Denial::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u16, Denial> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A field behind its length of one byte.
    fn short(&mut self) -> Result<&'a [u8], Denial> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }

    /// A field behind its length of two bytes.
    fn long(&mut self) -> Result<&'a [u8], Denial> {
        let length = self.number()?;
        self.take(usize::from(length))
    }

    fn end(&self) -> Result<(), Denial> {
        if self.0.is_empty() { Ok(()) } else { Err(Denial::Malformed) }
    }
}

fn client_hello(message: &[u8]) -> Result<String, Denial> {
    let mut hello = Fields(message);
    let _kind_and_length = hello.take(4)?;
    let version = hello.number()?;
    if version >> 8 != 3 {
        return Err(Denial::Malformed);
    }
    let _random = hello.take(32)?;
    let _session = hello.short()?;
    let _suites = hello.long()?;
    let _compressions = hello.short()?;
    if hello.0.is_empty() {
        return Err(Denial::NoSni);
    }
    let mut extensions = Fields(hello.long()?);
    hello.end()?;
    let (mut name, mut hides, mut seen) = (None, false, Vec::new());
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let data = extensions.long()?;
        if seen.contains(&kind) {
            return Err(Denial::Malformed);
        }
        seen.push(kind);
        hides |= HIDING.iter().any(|kinds| kinds.contains(&kind));
        if kind == SERVER_NAME {
            name = Some(one_name(data)?);
        }
    }
    if hides {
        return Err(Denial::Ech);
    }
    name.ok_or(Denial::NoSni)
}

/// The extension may list several names; it has only ever been one host name.
fn one_name(data: &[u8]) -> Result<String, Denial> {
    let mut extension = Fields(data);
    let mut list = Fields(extension.long()?);
    extension.end()?;
    if list.take(1)? != [HOST_NAME] {
        return Err(Denial::Malformed);
    }
    let name = list.long()?;
    list.end()?;
    String::from_utf8(name.to_vec()).map_err(|_| Denial::Malformed)
}

#[cfg(test)]
#[path = "hello_tests.rs"]
mod tests;
