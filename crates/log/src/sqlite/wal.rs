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

/// What is behind the last whole transaction of a write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    None,
    /// The beginning of a transaction: what every process leaves that is killed while it writes. Nobody
    /// was told that anything in it is stored.
    Begun,
    /// A whole transaction by its length, of which only the last frame is not as it should be. It was cut
    /// short as well, unless it was damaged afterwards.
    Torn,
    /// Bytes that no end of a process leaves: power went, or the file was changed.
    Damaged,
}

/// The bytes of a write-ahead log that belong to no whole transaction, and what they are. Nobody may be
/// writing to it.
pub(crate) fn torn_tail(wal: &Path) -> Result<(Tail, Vec<u8>)> {
    let mut bytes = match fs::read(wal) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            return Ok((Tail::None, Vec::new()));
        }
        other => other.map_err(|cause| Error::file("read", wal, &cause))?,
    };
    let (tail, from, upto) = torn_part(&bytes);
    bytes.truncate(upto);
    Ok((tail, bytes.split_off(from)))
}

/// What frames are that SQLite does not read, from where, and to where.
fn torn_part(bytes: &[u8]) -> (Tail, usize, usize) {
    let damaged = (Tail::Damaged, 0, bytes.len());
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        // The file was being made.
        return (if bytes.is_empty() { Tail::None } else { Tail::Begun }, 0, bytes.len());
    };
    let is_big_endian = match word(header, 0) {
        MAGIC => false,
        magic if magic == MAGIC | 1 => true,
        // A file that was only made, or never a write-ahead log.
        0 => return (Tail::None, 0, 0),
        _ => return damaged,
    };
    let mut sum = checksum((0, 0), &header[..24], is_big_endian);
    if sum != (word(header, 24), word(header, 28)) {
        return damaged;
    }
    let page_bytes = usize::try_from(word(header, 8)).unwrap_or(0);
    if !PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
        return damaged;
    }
    let frame_bytes = FRAME_HEADER_BYTES + page_bytes;
    let salts = &header[16..24];
    let (mut whole, mut upto) = (HEADER_BYTES, HEADER_BYTES);
    let (mut tail, mut is_bad) = (Tail::None, false);
    for frame in bytes[HEADER_BYTES..].chunks(frame_bytes) {
        // Frames with other salts are left from before the log was begun anew.
        if frame.get(8..16).is_some_and(|found| found != salts) || frame.len() < 16 {
            break;
        }
        upto += frame.len();
        if is_bad {
            // A process writes one frame after the other, so the bad one was whole once.
            tail = Tail::Damaged;
            continue;
        }
        sum = checksum(sum, &frame[..8], is_big_endian);
        sum = checksum(sum, &frame[FRAME_HEADER_BYTES.min(frame.len())..], is_big_endian);
        let is_sound = frame.len() == frame_bytes && sum == (word(frame, 16), word(frame, 20));
        let commits = word(frame, 4) > 0;
        is_bad = !is_sound;
        tail = match (is_sound, commits) {
            (true, true) => Tail::None,
            (false, true) => Tail::Torn,
            _ => Tail::Begun,
        };
        if tail == Tail::None {
            whole = upto;
        }
    }
    (tail, whole, upto)
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
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: (Tail, usize, usize)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            let (tail, from, upto) = torn_part(&bytes);
            assert_eq!((tail, from, upto - from), expected);
        };
        let end = whole.len();
        check(&|_| (), (Tail::None, end, 0));
        check(&|bytes| bytes.clear(), (Tail::None, 0, 0));
        check(&|bytes| bytes.fill(0), (Tail::None, 0, 0));
        check(&|bytes| bytes.truncate(9), (Tail::Begun, 0, 9));
        check(&|bytes| bytes.truncate(HEADER_BYTES), (Tail::None, HEADER_BYTES, 0));
        // The last frame ends a transaction.
        check(&|bytes| bytes.truncate(end - 1), (Tail::Torn, end - frame, frame - 1));
        check(&|bytes| bytes.truncate(end - 4_000), (Tail::Torn, end - frame, frame - 4_000));
        check(&|bytes| bytes.truncate(end - 4_096 - 6), (Tail::Torn, end - frame, 18));
        check(&|bytes| bytes[end - 9] ^= 1, (Tail::Torn, end - frame, frame));
        // What comes after a bad frame is not read either.
        let all = frames * frame;
        check(&|bytes| bytes[HEADER_BYTES + 30] ^= 1, (Tail::Damaged, HEADER_BYTES, all));
        // Left from before.
        let older = |bytes: &mut Vec<u8>| {
            let mut old = bytes[end - frame..].to_vec();
            old[8] ^= 1;
            bytes.extend(old);
        };
        check(&older, (Tail::None, end, 0));
        // Begun, and never committed: a whole frame, one whose page is another's, and part of one.
        let begun = |bytes: &mut Vec<u8>, last: usize| {
            let (sum, is_big_endian) = last_sum(bytes);
            bytes.extend(next_frame(&bytes[16..24], sum, is_big_endian));
            bytes.truncate(end + last);
        };
        check(&|bytes| begun(bytes, frame), (Tail::Begun, end, frame));
        check(&|bytes| (begun(bytes, frame), bytes[end + 99] ^= 1).1, (Tail::Begun, end, frame));
        check(&|bytes| begun(bytes, 2_000), (Tail::Begun, end, 2_000));
        let more = |bytes: &mut Vec<u8>| {
            begun(bytes, frame);
            bytes[end + 99] ^= 1;
            bytes.extend_from_within(end..);
        };
        check(&more, (Tail::Damaged, end, 2 * frame));
        check(&|bytes| bytes[20] ^= 1, (Tail::Damaged, 0, end));
    }

    fn last_sum(bytes: &[u8]) -> ((u32, u32), bool) {
        let header = &bytes[bytes.len() - FRAME_HEADER_BYTES - 4_096..];
        ((word(header, 16), word(header, 20)), word(bytes, 0) & 1 == 1)
    }

    /// A frame that ends no transaction.
    fn next_frame(salts: &[u8], sum: (u32, u32), is_big_endian: bool) -> Vec<u8> {
        let (page, start) = ([7; 4_096], [0, 0, 0, 2, 0, 0, 0, 0]);
        let sum = checksum(checksum(sum, &start, is_big_endian), &page, is_big_endian);
        let sums = [sum.0.to_be_bytes(), sum.1.to_be_bytes()].concat();
        [&start[..], salts, &sums, &page].concat()
    }
}
