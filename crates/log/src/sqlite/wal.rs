//! The write-ahead log as bytes: what is behind its last whole transaction. SQLite passes over that
//! without a word.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// What a write-ahead log begins with; the last bit tells in which order its sums take bytes.
const MAGIC: u32 = 0x377f_0682;
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 512..=65_536;

/// Bytes of a write-ahead log that belong to no whole transaction; none when it ends with one. Nobody
/// may be writing to it.
pub(crate) fn torn_tail(wal: &Path) -> Result<Vec<u8>> {
    let mut bytes = match fs::read(wal) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|cause| Error::file("read", wal, &cause))?,
    };
    let (from, upto) = torn_part(&bytes);
    bytes.truncate(upto);
    Ok(bytes.split_off(from))
}

/// From where to where frames stand that SQLite does not read.
fn torn_part(bytes: &[u8]) -> (usize, usize) {
    let nothing = (0, 0);
    let Some(header) = bytes.get(..HEADER_BYTES) else { return (0, bytes.len()) };
    let is_big_endian = match word(header, 0) {
        MAGIC => false,
        magic if magic == MAGIC | 1 => true,
        // A file that was only made, or never a write-ahead log.
        0 => return nothing,
        _ => return (0, bytes.len()),
    };
    let mut sum = checksum((0, 0), &header[..24], is_big_endian);
    if sum != (word(header, 24), word(header, 28)) {
        return (0, bytes.len());
    }
    let page_bytes = usize::try_from(word(header, 8)).unwrap_or(0);
    if !PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
        return (0, bytes.len());
    }
    let frame_bytes = FRAME_HEADER_BYTES + page_bytes;
    let salts = &header[16..24];
    let (mut whole, mut upto, mut is_sound) = (HEADER_BYTES, HEADER_BYTES, true);
    for frame in bytes[HEADER_BYTES..].chunks(frame_bytes) {
        // Frames with other salts are left from before the log was begun anew.
        if frame.get(8..16).is_some_and(|found| found != salts) || frame.len() < 16 {
            break;
        }
        upto += frame.len();
        is_sound &= frame.len() == frame_bytes;
        if !is_sound {
            continue;
        }
        sum = checksum(sum, &frame[..8], is_big_endian);
        sum = checksum(sum, &frame[FRAME_HEADER_BYTES..], is_big_endian);
        is_sound = sum == (word(frame, 16), word(frame, 20));
        let commits = word(frame, 4) > 0;
        if is_sound && commits {
            whole = upto;
        }
    }
    (whole, upto)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
    four.map_or(0, u32::from_be_bytes)
}

/// The running sum of SQLite's format description.
fn checksum(before: (u32, u32), bytes: &[u8], is_big_endian: bool) -> (u32, u32) {
    let read = if is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    let mut words = bytes.chunks_exact(4).map(|four| read([four[0], four[1], four[2], four[3]]));
    let (mut one, mut two) = before;
    while let (Some(first), Some(second)) = (words.next(), words.next()) {
        one = one.wrapping_add(first).wrapping_add(two);
        two = two.wrapping_add(second).wrapping_add(one);
    }
    (one, two)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three transactions as SQLite writes them.
    fn written() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        for statement in
            ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"]
        {
            connection.execute_batch(statement).unwrap();
        }
        fs::read(dir.path().join("a.db-wal")).unwrap()
    }

    #[test]
    fn what_is_behind_the_last_transaction_is_found() {
        let frame = FRAME_HEADER_BYTES + 4_096;
        let whole = written();
        let frames = (whole.len() - HEADER_BYTES) / frame;
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: (usize, usize)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            let (from, upto) = torn_part(&bytes);
            assert_eq!((from, upto - from), expected);
        };
        let end = whole.len();
        check(&|_| (), (end, 0));
        check(&|bytes| bytes.clear(), (0, 0));
        check(&|bytes| bytes.fill(0), (0, 0));
        check(&|bytes| bytes.truncate(HEADER_BYTES), (HEADER_BYTES, 0));
        check(&|bytes| bytes.truncate(end - 1), (end - frame, frame - 1));
        check(&|bytes| bytes.truncate(end - 4_000), (end - frame, frame - 4_000));
        check(&|bytes| bytes[end - 9] ^= 1, (end - frame, frame));
        // What comes after a bad frame is not read either.
        check(&|bytes| bytes[HEADER_BYTES + 30] ^= 1, (HEADER_BYTES, frames * frame));
        // Left from before.
        let older = |bytes: &mut Vec<u8>| {
            let mut old = bytes[end - frame..].to_vec();
            old[8] ^= 1;
            bytes.extend(old);
        };
        check(&older, (end, 0));
        // Begun, and never committed.
        check(&|bytes| bytes.extend_from_within(end - frame..), (end, frame));
        check(&|bytes| bytes[20] ^= 1, (0, end));
    }
}
