//! How the repository stores a file of the work tree: its line endings, and what is beyond us.
//!
//! Git converts line endings when a file enters the repository, by `text`, `eol` and `crlf` attributes
//! and `core.autocrlf`. That needs no program, so it is done here, by git's rules. Filters (`git-lfs`
//! among them), `ident` and other encodings would need programs or rules that a merge must not run;
//! a change to such a file's content is refused before anything is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use glasshouse_model::CanonicalPath;
use glasshouse_sandbox::workspace::beneath::Root;
use glasshouse_sandbox::workspace::git::Git;
use serde::{Deserialize, Serialize};

use crate::codes;
use crate::{Error, Result};

/// What is asked of git for each path.
const ATTRIBUTES: &[&str] = &["text", "crlf", "eol", "filter", "ident", "working-tree-encoding"];
/// Name of the files that set attributes.
const FILE: &str = ".gitattributes";

/// How a path's content enters the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    /// As it is.
    #[default]
    AsIs,
    /// With line feeds for every CR LF.
    Text,
    /// As [`Form::Text`], if it looks like text and the stored version has no CR LF.
    Auto,
    /// By something that a merge does not run; the attribute's name and value.
    Foreign(String),
}

impl Form {
    /// The bytes as the repository stores them beside the version it has.
    pub(super) fn stored(&self, bytes: &[u8], beside: Option<&[u8]>) -> Vec<u8> {
        let statistics = Statistics::of(bytes);
        let convert = match self {
            Self::AsIs | Self::Foreign(_) => false,
            Self::Text => statistics.crlf > 0,
            Self::Auto => {
                let kept = |beside: &[u8]| {
                    let beside = Statistics::of(beside);
                    beside.crlf > 0 && !beside.is_binary()
                };
                statistics.crlf > 0 && !statistics.is_binary() && !beside.is_some_and(kept)
            }
        };
        if !convert {
            return bytes.to_vec();
        }
        let follows = |at: usize| bytes.get(at + 1) == Some(&b'\n');
        let kept = bytes.iter().enumerate().filter(|(at, byte)| **byte != b'\r' || !follows(*at));
        kept.map(|(_, byte)| *byte).collect()
    }
}

/// What git counts to tell text from other content.
#[derive(Default)]
struct Statistics {
    nul: usize,
    lone_cr: usize,
    crlf: usize,
    printable: usize,
    other: usize,
}

impl Statistics {
    fn of(bytes: &[u8]) -> Self {
        let mut counted = Self::default();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\r' if bytes.get(at + 1) == Some(&b'\n') => {
                    counted.crlf += 1;
                    at += 1;
                }
                b'\r' => counted.lone_cr += 1,
                b'\n' => {}
                0 => {
                    counted.nul += 1;
                    counted.other += 1;
                }
                // Backspace, tab, form feed and escape are text.
                0x08 | 0x09 | 0x0c | 0x1b => counted.printable += 1,
                0x01..=0x1f | 0x7f => counted.other += 1,
                _ => counted.printable += 1,
            }
            at += 1;
        }
        // An end-of-file mark of old systems, at the end, is no sign of binary content.
        if bytes.last() == Some(&0x1a) {
            counted.other -= 1;
        }
        counted
    }

    const fn is_binary(&self) -> bool {
        self.lone_cr > 0 || self.nul > 0 || (self.printable >> 7) < self.other
    }
}

/// The form of each path once the merge is made. `changed` are the `.gitattributes` files that the
/// change set itself writes (or, without bytes, deletes).
///
/// # Errors
/// `git_failed`, `workspace_io`.
pub(super) fn forms(
    git: &Git,
    project: &Root,
    paths: &[&CanonicalPath],
    changed: &BTreeMap<CanonicalPath, Option<Vec<u8>>>,
) -> Result<Vec<Form>> {
    let values = if changed.is_empty() {
        git.attributes(git.work_tree(), ATTRIBUTES, paths)?
    } else {
        let after = After::new(git, project, paths, changed)?;
        git.attributes(&after.0, ATTRIBUTES, paths)?
    };
    let mut default = None;
    values
        .iter()
        .map(|values| {
            let [text, crlf, eol, filter, ident, encoding] = values.as_slice() else {
                return Err(Error::new(codes::OPERATION_DAMAGED, "git named no attributes"));
            };
            let form = form([text, crlf, eol, filter, ident, encoding]);
            if form.is_none() && default.is_none() {
                default = Some(converts_by_default(git)?);
            }
            let unsaid = if default == Some(true) { Form::Auto } else { Form::AsIs };
            Ok(form.unwrap_or(unsaid))
        })
        .collect()
}

/// Whether a path's form is beyond a merge, or how it is stored; none when no attribute says.
fn form([text, crlf, eol, filter, ident, encoding]: [&String; 6]) -> Option<Form> {
    let off = |value: &str| matches!(value, "unspecified" | "unset");
    let foreign = [("filter", filter), ("ident", ident), ("working-tree-encoding", encoding)];
    if let Some((name, value)) = foreign.into_iter().find(|(_, value)| !off(value)) {
        return Some(Form::Foreign(format!("{name}={value}")));
    }
    let said = if text == "unspecified" { crlf } else { text };
    let has_eol = matches!(eol.as_str(), "lf" | "crlf");
    match said.as_str() {
        "unset" => Some(Form::AsIs),
        "auto" => Some(Form::Auto),
        "set" | "input" => Some(Form::Text),
        _ if has_eol => Some(Form::Text),
        _ => None,
    }
}

/// Whether `core.autocrlf` converts what no attribute speaks of.
fn converts_by_default(git: &Git) -> Result<bool> {
    let value = git.setting("core.autocrlf")?.map(|value| value.to_ascii_lowercase());
    // A key without a value is true.
    Ok(matches!(value.as_deref(), Some("true" | "yes" | "on" | "1" | "input" | "")))
}

/// A directory with only the `.gitattributes` that the project has once the merge is made.
struct After(PathBuf);

impl After {
    fn new(
        git: &Git,
        project: &Root,
        paths: &[&CanonicalPath],
        changed: &BTreeMap<CanonicalPath, Option<Vec<u8>>>,
    ) -> Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("glasshouse-attributes-{}-{number}", std::process::id());
        let top = std::env::temp_dir().join(name);
        let io = |e: std::io::Error| {
            Error::new(codes::OPERATION_DAMAGED, "cannot look up the attributes to come").why(e)
        };
        // Fails when the name is taken, so nobody else's directory is ever written to.
        std::fs::create_dir(&top).map_err(io)?;
        let after = Self(top);
        let base = git.prefix().map_or_else(|| after.0.clone(), |dir| after.0.join(dir.as_str()));
        let write = |path: &CanonicalPath, bytes: &[u8]| -> Result<()> {
            let file = base.join(path.as_str());
            std::fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).map_err(io)?;
            std::fs::write(file, bytes).map_err(io)
        };
        std::fs::create_dir_all(&base).map_err(io)?;
        for path in paths {
            for dir in std::iter::successors(path.parent(), CanonicalPath::parent) {
                let Ok(file) = dir.join(FILE) else { continue };
                if let (false, (_, Some(bytes))) =
                    (changed.contains_key(&file), project.find_with_bytes(&file)?)
                {
                    write(&file, &bytes)?;
                }
            }
        }
        for (path, bytes) in changed {
            // Git would look for a missing one in the index; an empty one says nothing.
            write(path, bytes.as_deref().unwrap_or_default())?;
        }
        Ok(after)
    }
}

impl Drop for After {
    fn drop(&mut self) {
        let _ = glasshouse_sandbox::remove_tree(&self.0);
    }
}

/// Whether a path is a file that sets attributes.
pub(super) fn sets_attributes(path: &CanonicalPath) -> bool {
    path.file_name() == Some(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings_are_stored_as_git_stores_them() {
        let check = |form: Form, bytes: &str, beside: Option<&str>, expected: &str| {
            let stored = form.stored(bytes.as_bytes(), beside.map(str::as_bytes));
            assert_eq!(String::from_utf8(stored).unwrap(), expected, "{form:?} {bytes:?}");
        };
        check(Form::AsIs, "a\r\n", None, "a\r\n");
        check(Form::Text, "a\r\nb\rc\n\r", None, "a\nb\rc\n\r");
        check(Form::Auto, "a\r\nb\n", None, "a\nb\n");
        check(Form::Auto, "a\r\n", Some("x\n"), "a\n");
        check(Form::Auto, "a\r\n", Some("x\r\n"), "a\r\n");
        check(Form::Auto, "a\r\n", Some("x\r\n\0"), "a\n");
        check(Form::Auto, "a\rb\r\n", None, "a\rb\r\n");
        check(Form::Auto, "a\0\r\n", None, "a\0\r\n");
        check(Form::Auto, "a\r\n\u{1a}", None, "a\n\u{1a}");
        check(Form::Text, "a\0\r\n", None, "a\0\n");
    }
}
