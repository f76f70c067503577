//! What a merge means for the repository: the change set's edits brought onto the last commit and onto
//! the index, path by path.
//!
//! The work tree may hold text of the user that no commit has; it stays there and goes into no commit
//! of ours. So what is committed is not the work tree's file but the last commit's, with the change
//! set's edits. Where these touch text that is only in the work tree, the paths conflict.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::CanonicalPath;
use glasshouse_sandbox::workspace::Entry;
use glasshouse_sandbox::workspace::git::Git;
use serde::{Deserialize, Serialize};

use super::conflict::{Conflict, ConflictKind};
use super::stored::Form;
use super::three_way::{Refusal, Version, versions};
use crate::codes;
use crate::{Error, Result};

/// Mode of a submodule in a tree.
const GITLINK: &str = "160000";

/// One path of the change set, for the repository. Contents are as in the work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    pub(super) path: CanonicalPath,
    /// Of a rename, the name before.
    pub(super) from: Option<CanonicalPath>,
    /// Whether that name goes; not when deletions are held back.
    pub(super) from_goes: bool,
    /// What the agent began with.
    pub(super) base: Option<Entry>,
    /// What the agent made of it.
    pub(super) new: Option<Entry>,
    pub(super) form: Form,
}

impl Edit {
    fn source(&self) -> &CanonicalPath {
        self.from.as_ref().unwrap_or(&self.path)
    }

    /// Paths that are gone afterwards.
    pub(super) fn removed(&self) -> impl Iterator<Item = &CanonicalPath> {
        let gone = self.new.is_none().then_some(&self.path);
        gone.into_iter().chain(self.from.as_ref().filter(|_| self.from_goes))
    }
}

/// Which version of the repository's paths is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side<'a> {
    /// A commit; none before the first.
    Commit(Option<&'a str>),
    /// What the user has staged.
    Index,
}

/// A path's content in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// Mode in octal.
    pub(super) mode: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// What the paths hold afterwards; none is "not there".
pub(super) type Resolved = BTreeMap<CanonicalPath, Option<Stored>>;

/// Where contents of the work tree's form are.
pub(super) type ContentOf<'a> = &'a dyn Fn(&Entry) -> Result<Vec<u8>>;

/// Brings the edits onto one side.
///
/// # Errors
/// `git_failed`, and what reading contents answers.
pub(super) fn resolve(
    git: &Git,
    side: Side<'_>,
    edits: &[Edit],
    content: ContentOf<'_>,
) -> Result<Result<Resolved, Vec<Conflict>>> {
    let listed = list(git, side)?;
    let removed: BTreeSet<_> = edits.iter().flat_map(Edit::removed).collect();
    let wanted = edits.iter().flat_map(|edit| [edit.source(), &edit.path]);
    let mut objects: BTreeSet<_> = wanted.filter_map(|path| listed.get(path.as_str())).collect();
    // A submodule's commit is in another repository.
    objects.retain(|(mode, _)| mode != GITLINK);
    let bytes = contents(git, objects.iter().map(|item| item.1.as_str()))?;
    let tree = Tree { listed: &listed, bytes: &bytes, removed: &removed };
    let kind = match side {
        Side::Commit(_) => ConflictKind::NotInHead,
        Side::Index => ConflictKind::NotInIndex,
    };
    let (mut resolved, mut conflicts) = (Resolved::new(), Vec::new());
    for edit in edits {
        match tree.bring(edit, content)? {
            Ok(paths) => resolved.extend(paths),
            Err((path, refusal)) => conflicts.push(told(kind, path, refusal)),
        }
    }
    Ok(if conflicts.is_empty() { Ok(resolved) } else { Err(conflicts) })
}

/// A refusal as a conflict that names the side it is about.
fn told(side: ConflictKind, path: CanonicalPath, (kind, detail): Refusal) -> Conflict {
    if matches!(kind, ConflictKind::Submodule | ConflictKind::DirectoryFile) {
        return Conflict { path, kind, detail };
    }
    let where_ = if side == ConflictKind::NotInHead { "the last commit" } else { "the index" };
    let why = match kind {
        ConflictKind::DeleteModify => format!("{where_} does not have the file"),
        ConflictKind::AddAdd => format!("{where_} has another file there"),
        ConflictKind::ModifyDelete => format!("{where_} has another version"),
        _ => format!("{where_} has other text there"),
    };
    let detail = detail.map_or(why.clone(), |detail| format!("{why}: {detail}"));
    Conflict { path, kind: side, detail: Some(detail) }
}

/// Mode and object of each path.
type Listing = BTreeMap<String, (String, String)>;

struct Tree<'a> {
    listed: &'a Listing,
    bytes: &'a BTreeMap<String, Vec<u8>>,
    removed: &'a BTreeSet<&'a CanonicalPath>,
}

type Brought = Result<Vec<(CanonicalPath, Option<Stored>)>, (CanonicalPath, Refusal)>;

impl Tree<'_> {
    fn bring(&self, edit: &Edit, content: ContentOf<'_>) -> Result<Brought> {
        let refuse = |path: &CanonicalPath, refusal: Refusal| Ok(Err((path.clone(), refusal)));
        if edit.new.is_some() && self.blocked(&edit.path) {
            return refuse(&edit.path, (ConflictKind::DirectoryFile, None));
        }
        let (source, target) = match (self.version(edit.source()), self.version(&edit.path)) {
            (Ok(source), Ok(target)) => (source, target),
            (Err(refusal), _) => return refuse(edit.source(), refusal),
            (_, Err(refusal)) => return refuse(&edit.path, refusal),
        };
        let beside = source.as_ref().map(|version| version.bytes.as_slice());
        let form = |entry: &Option<Entry>| -> Result<Option<Version>> {
            let Some(entry) = entry else { return Ok(None) };
            Ok(Some(match entry {
                Entry::File { executable, .. } => {
                    Version::file(*executable, edit.form.stored(&content(entry)?, beside))
                }
                other => Version { entry: other.clone(), bytes: Vec::new() },
            }))
        };
        let (base, new) = (form(&edit.base)?, form(&edit.new)?);
        let Some(from) = &edit.from else {
            return match versions(base.as_ref(), source.as_ref(), new.as_ref()) {
                Ok(result) => Ok(Ok(vec![(edit.path.clone(), stored(result))])),
                Err(refusal) => refuse(&edit.path, refusal),
            };
        };
        let made = match (&source, &target) {
            // Somebody made the same rename.
            (None, Some(_)) if target == new => target.clone(),
            (None, _) => return refuse(from, (ConflictKind::DeleteModify, None)),
            (Some(_), _) => match versions(base.as_ref(), source.as_ref(), new.as_ref()) {
                Ok(made) if target.is_none() || target == made => made,
                Ok(_) => return refuse(&edit.path, (ConflictKind::AddAdd, None)),
                Err(refusal) => return refuse(from, refusal),
            },
        };
        let mut paths = vec![(edit.path.clone(), stored(made))];
        if edit.from_goes {
            paths.push((from.clone(), None));
        }
        Ok(Ok(paths))
    }

    fn version(&self, path: &CanonicalPath) -> Result<Option<Version>, Refusal> {
        let Some((mode, object)) = self.listed.get(path.as_str()) else { return Ok(None) };
        let bytes = || self.bytes.get(object).cloned().unwrap_or_default();
        Ok(Some(match mode.as_str() {
            GITLINK => return Err((ConflictKind::Submodule, None)),
            "120000" => match String::from_utf8(bytes()) {
                Ok(target) => Version { entry: Entry::Symlink { target }, bytes: Vec::new() },
                Err(_) => return Err((ConflictKind::Symlink, None)),
            },
            mode => Version::file(mode == "100755", bytes()),
        }))
    }

    /// Whether a file at the path would push something out: a file above it or files below it.
    fn blocked(&self, path: &CanonicalPath) -> bool {
        let stays = |name: &str| !self.removed.iter().any(|gone| gone.as_str() == name);
        let above = std::iter::successors(path.parent(), CanonicalPath::parent);
        let mut above = above.filter(|dir| self.listed.contains_key(dir.as_str()));
        let below = format!("{path}/");
        let range = self.listed.range(below.clone()..);
        let mut below = range.take_while(|(name, _)| name.starts_with(&below));
        above.any(|dir| stays(dir.as_str())) || below.any(|(name, _)| stays(name))
    }
}

fn stored(version: Option<Version>) -> Option<Stored> {
    let version = version?;
    let mode = version.entry.git_mode()?;
    let bytes = match version.entry {
        Entry::Symlink { target } => target.into_bytes(),
        _ => version.bytes,
    };
    Some(Stored { mode, bytes })
}

/// Every path of a side below the project, relative to it. Unmerged paths are refused.
fn list(git: &Git, side: Side<'_>) -> Result<Listing> {
    let args = match side {
        Side::Commit(None) => return Ok(Listing::new()),
        Side::Commit(Some(commit)) => vec!["ls-tree", "-r", "-z", commit],
        Side::Index => vec!["ls-files", "-s", "-z"],
    };
    let output = git.expect_ok(args[0], git.run(&args, b"", &[])?)?.stdout;
    let mut listed = Listing::new();
    // `mode type object<tab>path` of a tree, `mode object stage<tab>path` of the index.
    for line in output.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let line = String::from_utf8_lossy(line);
        let Some((head, path)) = line.split_once('\t') else { continue };
        let fields: Vec<_> = head.split(' ').collect();
        let [mode, second, third] = fields[..] else { continue };
        let object = match side {
            Side::Commit(_) => third,
            Side::Index if third != "0" => {
                return Err(Error::new(codes::REPOSITORY_BUSY, "cannot merge into the project")
                    .why(format!("`{path}` has conflicts that are not settled"))
                    .with("path", path));
            }
            Side::Index => second,
        };
        listed.insert(path.to_owned(), (mode.to_owned(), object.to_owned()));
    }
    Ok(listed)
}

/// The bytes of objects by id.
fn contents<'a>(
    git: &Git,
    objects: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let input: String = objects.map(|object| format!("{object}\n")).collect();
    let mut found = BTreeMap::new();
    if input.is_empty() {
        return Ok(found);
    }
    let output = git.run(&["cat-file", "--batch"], input.as_bytes(), &[])?;
    let output = git.expect_ok("cat-file", output)?.stdout;
    let mut rest = output.as_slice();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let head = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 1..];
        let fields: Vec<_> = head.split(' ').collect();
        let parts = match fields[..] {
            [object, "blob", size] => size
                .parse()
                .ok()
                .and_then(|size| rest.split_at_checked(size))
                .map(|parts| (object, parts)),
            _ => None,
        };
        let Some((object, (bytes, after))) = parts else {
            return Err(Error::new(codes::GIT_OBJECT_MISSING, "cannot read what is committed")
                .why(format!("git answered `{head}`")));
        };
        found.insert(object.to_owned(), bytes.to_vec());
        rest = after.get(1..).unwrap_or_default();
    }
    Ok(found)
}
