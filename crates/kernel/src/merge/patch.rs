//! Patch text, in the form that `git apply` reads.

use std::fmt::Write as _;

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::workspace::{Entry, lines};
use similar::DiffOp;

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// One side of a difference: what is at a path, and its bytes when it is a file.
#[derive(Debug, Clone, Copy)]
pub struct Version<'a> {
    /// Where it is.
    pub path: &'a CanonicalPath,
    /// What it is.
    pub entry: &'a Entry,
    /// A file's bytes; nothing for anything else.
    pub bytes: &'a [u8],
}

impl Version<'_> {
    fn content(&self) -> &[u8] {
        match self.entry {
            Entry::Symlink { target } => target.as_bytes(),
            _ => self.bytes,
        }
    }

    fn mode(&self) -> &'static str {
        self.entry.git_mode().unwrap_or("040000")
    }
}

/// The unified difference of one path, or of one rename. Each part carries the SHA-256 of both
/// contents, so the digest of a patch binds contents that the text cannot show.
#[must_use]
pub fn unified(old: Option<Version<'_>>, new: Option<Version<'_>>) -> String {
    let mut out = String::new();
    let (Some(from), Some(to)) = (old.or(new), new.or(old)) else { return out };
    let _ = writeln!(out, "diff --git {} {}", quoted("a/", from.path), quoted("b/", to.path));
    match (old, new) {
        (None, Some(new)) => {
            let _ = writeln!(out, "new file mode {}", new.mode());
        }
        (Some(old), None) => {
            let _ = writeln!(out, "deleted file mode {}", old.mode());
        }
        (Some(old), Some(new)) => {
            if old.mode() != new.mode() {
                let _ = writeln!(out, "old mode {}\nnew mode {}", old.mode(), new.mode());
            }
            if old.path != new.path {
                let _ = writeln!(
                    out,
                    "rename from {}\nrename to {}",
                    quoted("", old.path),
                    quoted("", new.path)
                );
            }
        }
        (None, None) => {}
    }
    let before = old.map(|v| v.content().to_vec()).unwrap_or_default();
    let after = new.map(|v| v.content().to_vec()).unwrap_or_default();
    let name = |side: Option<Version<'_>>| {
        side.map_or_else(|| "0".repeat(64), |v| Digest::of(v.content()).hex())
    };
    let _ = writeln!(out, "index {}..{}", name(old), name(new));
    if before == after {
        return out;
    }
    let label = |side: Option<Version<'_>>, mark: &str| match side {
        Some(v) => {
            let text = quoted(mark, v.path);
            // As git does it: a tab ends a name that holds a space.
            if text.contains(' ') && !text.starts_with('"') { format!("{text}\t") } else { text }
        }
        None => "/dev/null".to_owned(),
    };
    let (from, to) = (label(old, "a/"), label(new, "b/"));
    if lines::is_binary(&before) || lines::is_binary(&after) {
        let _ = writeln!(out, "Binary files {} and {} differ", from.trim_end(), to.trim_end());
        return out;
    }
    let _ = writeln!(out, "--- {from}\n+++ {to}");
    hunks(&mut out, &lines::split(&before), &lines::split(&after));
    out
}

fn hunks(out: &mut String, old: &[&[u8]], new: &[&[u8]]) {
    for group in similar::group_diff_ops(lines::compare(old, new), CONTEXT_LINES) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_span = range_text(first.old_range().start, last.old_range().end);
        let new_span = range_text(first.new_range().start, last.new_range().end);
        let _ = writeln!(out, "@@ -{old_span} +{new_span} @@");
        for op in group {
            if let DiffOp::Equal { .. } = op {
                lines_of(out, ' ', &old[op.old_range()]);
            } else {
                lines_of(out, '-', &old[op.old_range()]);
                lines_of(out, '+', &new[op.new_range()]);
            }
        }
    }
}

/// A range as hunk headers write it: first line from 1 and count; an empty one names the line before.
fn range_text(start: usize, end: usize) -> String {
    let count = end - start;
    format!("{},{count}", if count == 0 { start } else { start + 1 })
}

fn lines_of(out: &mut String, mark: char, lines: &[&[u8]]) {
    for line in lines {
        out.push(mark);
        out.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// A name as git writes it: in quotes when it holds a quote or a backslash.
fn quoted(mark: &str, path: &CanonicalPath) -> String {
    let text = path.as_str();
    if text.contains(['"', '\\']) {
        format!("\"{mark}{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("{mark}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_git_writes() {
        let path = CanonicalPath::parse("a b").unwrap();
        let entry = |bytes: &[u8], executable| Entry::File {
            executable,
            digest: Digest::of(bytes),
            size_bytes: bytes.len() as u64,
        };
        let (one, two) = (entry(b"1\n2", false), entry(b"1\n3\n", true));
        let old = Version { path: &path, entry: &one, bytes: b"1\n2" };
        let new = Version { path: &path, entry: &two, bytes: b"1\n3\n" };
        let without_digests = |text: String| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("index ")).map(str::to_owned).collect()
        };
        assert_eq!(
            without_digests(unified(Some(old), Some(new))),
            [
                "diff --git a/a b b/a b",
                "old mode 100644",
                "new mode 100755",
                "--- a/a b\t",
                "+++ b/a b\t",
                "@@ -1,2 +1,2 @@",
                " 1",
                "-2",
                "\\ No newline at end of file",
                "+3",
            ]
        );
        assert_eq!(
            without_digests(unified(None, Some(new)))[1..],
            ["new file mode 100755", "--- /dev/null", "+++ b/a b\t", "@@ -0,0 +1,2 @@", "+1", "+3"]
        );
    }
}
