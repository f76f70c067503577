//! How a test of any crate says that it cannot run here.

use std::io::Write as _;

/// Says why a test could not run: to the reader of its log, and to the suite, which fails for what
/// `tests/skips.txt` does not declare.
#[allow(clippy::print_stderr, reason = "the reader of a test log must see it")]
pub(crate) fn skipped(name: &str, reason: &str) {
    let line = format!("{name}: {reason}");
    eprintln!("skipped: {line}");
    let Some(log) = std::env::var_os("GLASSHOUSE_SKIP_LOG") else { return };
    let mut log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    // In one write: tests are processes that share the file.
    log.write_all(format!("{line}\n").as_bytes()).unwrap();
}
