//! Files that a person names on the command line: bounded, and never something that has no end.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::Error;
use glasshouse_kernel::codes;

/// Largest policy file, in bytes; as large as a project's own may be.
pub(crate) const MAX_POLICY_BYTES: u64 = glasshouse_policy::limits::MAX_SOURCE_BYTES as u64;
/// Largest scenario file, in bytes; the scenario's own limit is lower.
pub(crate) const MAX_SCENARIO_BYTES: u64 = 16 << 20;
/// Largest plan file or model answer, in bytes; the profile's own limit is lower.
pub(crate) const MAX_PLAN_BYTES: u64 = 16 << 20;
/// Largest signed head, in bytes: a head has some 400 bytes, a witness adds 150.
pub(crate) const MAX_HEAD_BYTES: u64 = 256 << 10;

/// The mark of the byte order.
const BOM: char = '\u{feff}';

/// An input that could not be read.
pub(crate) fn unreadable(file: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(codes::INPUT_UNREADABLE, format!("cannot read {}", file.display())).why(why)
}

/// Whether something has the name of a file that is read unasked. What cannot be looked at counts as there:
/// reading it tells why, and it is not taken for none.
pub(crate) fn is_there(file: &Path) -> bool {
    let is_absent = |error: std::io::Error| {
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
    };
    !std::fs::symlink_metadata(file).is_err_and(is_absent)
}

/// Opens a regular file, or stdin for `-`, to be read as it comes, up to one byte more than the limit.
pub(crate) fn open(file: &Path, max_bytes: u64) -> Result<Box<dyn Read>, Error> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock().take(max_bytes + 1)));
    }
    // A pipe without a writer must not hold the command before it is seen to be one.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(file, flags, Mode::empty()).map_err(|e| unreadable(file, e))?;
    let opened = File::from(opened);
    let found = opened.metadata().map_err(|e| unreadable(file, e))?;
    if !found.is_file() {
        return Err(unreadable(file, "it is no regular file"));
    }
    if found.len() > max_bytes {
        return Err(unreadable(file, too_large(found.len(), max_bytes)));
    }
    Ok(Box::new(opened.take(max_bytes + 1)))
}

/// Reads a whole file, or stdin for `-`.
pub(crate) fn bytes(file: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    open(file, max_bytes)?.read_to_end(&mut bytes).map_err(|e| unreadable(file, e))?;
    let length = bytes.len() as u64;
    if length > max_bytes {
        return Err(unreadable(file, too_large(length, max_bytes)));
    }
    Ok(bytes)
}

/// Reads a whole file of text, or stdin for `-`.
pub(crate) fn text(file: &Path, max_bytes: u64) -> Result<String, Error> {
    let text = String::from_utf8(bytes(file, max_bytes)?);
    let mut text = text.map_err(|e| {
        let why = format!("it is not UTF-8 text: {}", e.utf8_error());
        unreadable(file, why).fix("name a file of text in UTF-8")
    })?;
    if text.starts_with(BOM) {
        // Some editors begin a file with it; it says nothing about UTF-8.
        text.drain(..BOM.len_utf8());
    }
    Ok(text)
}

fn too_large(bytes: u64, max_bytes: u64) -> String {
    format!("it has {bytes} bytes or more; the limit is {max_bytes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure: a file that could not be looked at was taken for none.
    #[test]
    fn only_what_is_surely_absent_is_not_there() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink("nothing", at("dangling")).unwrap();
        let check =
            |name: &str, expected: bool| assert_eq!(is_there(&at(name)), expected, "{name}");
        check("file", true);
        check("dangling", true);
        check("nothing", false);
        check("nothing/file", false);
        check("file/file", false);
        // An error that does not say that nothing is there, as one of permissions does not.
        check(&"x".repeat(300), true);
    }
}
