//! Names that file systems may take for `.git` or `.glasshouse`, however they are spelled.
//!
//! A workspace can lie on a file system that ignores case (APFS, NTFS, ext4 with case folding),
//! that drops invisible characters (HFS+, ext4 with case folding), that drops trailing dots and
//! spaces or reads a stream name after a colon (NTFS), or that knows short names (`GIT~1`). What
//! any of them would open as the protected directory is the protected directory.

use glasshouse_model::CanonicalPath;

/// A directory that nothing writes to through a workspace path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// `.git`: directory, or the file that points to one.
    Git,
    /// `.glasshouse`: policy, configuration, and whatever lies beside them.
    Glasshouse,
}

/// Whether a path leads to or into a directory that nothing writes to, in any spelling.
#[must_use]
pub fn is_reserved(path: &CanonicalPath) -> bool {
    path.as_str().split('/').any(|component| reserved(component).is_some())
}

/// What a path component stands for, if it is reserved.
pub(crate) fn reserved(component: &str) -> Option<Reserved> {
    if component.is_ascii() {
        // Nearly every component ends here.
        if !matches!(component.as_bytes().first(), Some(b'.' | b'g' | b'G')) {
            return None;
        }
        return reserved_folded(&component.to_ascii_lowercase());
    }
    reserved_folded(&fold(component))
}

fn reserved_folded(folded: &str) -> Option<Reserved> {
    let name = folded.split(':').next().unwrap_or(folded).trim_end_matches(['.', ' ']);
    match name {
        ".git" => Some(Reserved::Git),
        ".glasshouse" => Some(Reserved::Glasshouse),
        _ => match name.split_once('~') {
            Some(("git", digits)) if is_number(digits) => Some(Reserved::Git),
            Some(("glassh", digits)) if is_number(digits) => Some(Reserved::Glasshouse),
            _ => None,
        },
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Folds case as widely as any file system does and drops characters that some ignore.
pub(crate) fn fold(text: &str) -> String {
    text.chars()
        .filter(|c| !is_ignorable(*c))
        // Through upper case first: the long s and the sharp s only fold that way.
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Unicode's default-ignorable code points, a superset of what HFS+ drops.
const fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_seen() {
        let check = |names: &[&str], expected: Option<Reserved>| {
            for name in names {
                assert_eq!(reserved(name), expected, "{name:?}");
            }
        };
        check(
            &[
                ".git",
                ".GIT",
                ".Git",
                ".git.",
                ".git ",
                ".git. .",
                ".git::$INDEX_ALLOCATION",
                ".git:x",
                "git~1",
                "GIT~2",
                ".g\u{200c}it",
                "\u{feff}.git",
                ".gi\u{ad}t",
                ".g\u{e0001}it",
                ".g\u{131}t",
            ],
            Some(Reserved::Git),
        );
        check(
            &[
                ".glasshouse",
                ".GlassHouse",
                ".gla\u{17f}\u{17f}house",
                ".gla\u{df}house",
                "GLASSH~1",
                ".glasshouse.",
                ".glass\u{200d}house",
            ],
            Some(Reserved::Glasshouse),
        );
        check(
            &[
                "git",
                ".gitignore",
                ".github",
                ".gitmodules",
                "glasshouse",
                ".glasshouses",
                "x.git",
                ".gi",
                "",
                "git~",
                "git~x",
                "...",
                ".gít",
            ],
            None,
        );
    }
}
