//! What a merge would do: each changed path, three-way against the frozen base and the project now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::workspace::beneath::{Found, Root};
use glasshouse_sandbox::workspace::freeze::is_git_internal;
use glasshouse_sandbox::workspace::git::{Git, is_git_directory};
use glasshouse_sandbox::workspace::{
    BlobStore, Change, ChangeKind, ChangeSet, Entry, FrozenBase, lines,
};
use serde::{Deserialize, Serialize};

use super::conflict::{Conflict, ConflictKind};
use super::edits::{Repository, edits};
use super::patch::{Version, unified};
use super::repository::Edit;
use super::three_way::{kind_of_types, texts};
use crate::codes;
use crate::{Error, Result};

/// Most user files that are read to find out where a missing file was renamed to.
const MAX_RENAME_SEARCH: usize = 2_000;

/// What is merged: a change set, the base it is against, and where contents are.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The frozen base.
    pub base: &'a FrozenBase,
    /// The changes.
    pub set: &'a ChangeSet,
    /// Contents of the changes.
    pub blobs: &'a dyn BlobStore,
    /// Whether a commit follows: then each path must go with the last commit and the index as well.
    pub commits: bool,
}

impl Input<'_> {
    /// The bytes of a changed file; none for a link.
    pub(super) fn bytes(&self, entry: &Entry) -> Result<Vec<u8>> {
        let Some(digest) = entry.file_digest() else { return Ok(Vec::new()) };
        let bytes = self.blobs.get(digest)?;
        if Digest::of(&bytes) == *digest {
            return Ok(bytes);
        }
        Err(Error::new(codes::OPERATION_DAMAGED, format!("cannot read content {digest}"))
            .why("the blob store answered other bytes"))
    }
}

/// What an approval binds to: merging anything else is refused as stale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Digest of the frozen base's tree.
    pub base: Digest,
    /// Digest of the patch text.
    pub patch: Digest,
    /// What the project held at each path the merge would write, when it was proposed.
    pub targets: BTreeMap<CanonicalPath, Option<Entry>>,
}

/// A merge for review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// What an approval of it binds to.
    pub binding: Binding,
    /// What would change in the project as it is now.
    pub patch: String,
    /// Paths that would be deleted; they need an approval of their own.
    pub deletions: Vec<CanonicalPath>,
    /// Lines the patch adds and removes together: the size that policy looks at.
    pub lines_changed: u64,
}

/// What [`propose`] answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposed {
    /// It can be merged so.
    Clean(Proposal),
    /// It cannot be merged.
    Conflict(Vec<Conflict>),
}

/// Works out a merge and writes it as a patch. Nothing is changed.
///
/// # Errors
/// `attributes_unsupported` naming the paths, `repository_busy` when the index has conflicts, and what
/// reading the project, the base or the contents answers.
pub fn propose(project: &Path, input: Input<'_>) -> Result<Proposed> {
    let repository = Repository::of(project, input)?;
    let plan = match make(project, input, repository.as_ref(), true)? {
        Ok(plan) => plan,
        Err(conflicts) => return Ok(Proposed::Conflict(conflicts)),
    };
    Ok(Proposed::Clean(Proposal {
        binding: plan.binding(input.base.digest),
        deletions: plan
            .steps
            .iter()
            .filter(|s| s.after.is_none())
            .map(|s| s.path.clone())
            .collect(),
        lines_changed: input.set.changes.iter().map(|c| c.lines_added + c.lines_removed).sum(),
        patch: plan.patch,
    }))
}

/// One path to write or delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) path: CanonicalPath,
    /// What must be there before.
    pub(super) before: Option<Entry>,
    /// What is there after.
    pub(super) after: Option<Entry>,
    /// An emptied directory is where the file goes.
    pub(super) replaces_directory: bool,
}

/// A merge without conflicts.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Deletions first, then the rest, each by path.
    pub(super) steps: Vec<Step>,
    /// Deletions that were not permitted.
    pub(super) held: Vec<CanonicalPath>,
    /// What is committed, also where no file has to be written; none when no commit follows.
    pub(super) edits: Option<Vec<Edit>>,
    /// Contents by digest, of both sides of every step and of every edit.
    pub(super) contents: BTreeMap<Digest, Vec<u8>>,
    pub(super) patch: String,
}

impl Plan {
    pub(super) fn binding(&self, base: Digest) -> Binding {
        let targets = self.steps.iter().map(|s| (s.path.clone(), s.before.clone())).collect();
        Binding { base, patch: Digest::of(self.patch.as_bytes()), targets }
    }
}

/// Plans a merge. `deletions` says whether it may delete; else deletions are held back.
pub(super) fn make(
    project: &Path,
    input: Input<'_>,
    repository: Option<&Repository>,
    deletions: bool,
) -> Result<Result<Plan, Vec<Conflict>>> {
    let mut planner = Planner {
        root: Root::open(project)?,
        project,
        input,
        deletions,
        deleted: input
            .set
            .changes
            .iter()
            .filter_map(|change| match &change.kind {
                ChangeKind::Deleted => Some(change.path.clone()),
                ChangeKind::Renamed { from } => Some(from.clone()),
                _ => None,
            })
            .collect(),
        plan: Plan::default(),
        conflicts: Vec::new(),
    };
    for change in &input.set.changes {
        planner.change(change)?;
    }
    if let (true, Some(repository)) = (planner.conflicts.is_empty(), repository) {
        let Planner { root, input, plan, .. } = &mut planner;
        match edits(repository, root, *input, &plan.held, &mut plan.contents)? {
            Ok(edits) => plan.edits = Some(edits),
            Err(conflicts) => planner.conflicts = conflicts,
        }
    }
    if !planner.conflicts.is_empty() {
        return Ok(Err(planner.conflicts));
    }
    let mut plan = planner.plan;
    plan.steps.sort_by(|a, b| (a.after.is_some(), &a.path).cmp(&(b.after.is_some(), &b.path)));
    plan.patch = patch_of(&plan);
    Ok(Ok(plan))
}

fn patch_of(plan: &Plan) -> String {
    let version = |path, entry: &'_ Option<Entry>| -> Option<(CanonicalPath, Entry, Vec<u8>)> {
        let entry: Entry = entry.clone()?;
        let bytes =
            entry.file_digest().and_then(|d| plan.contents.get(d)).cloned().unwrap_or_default();
        Some((path, entry, bytes))
    };
    let mut steps: Vec<_> = plan.steps.iter().collect();
    steps.sort_by(|a, b| a.path.cmp(&b.path));
    let mut text = String::new();
    for step in steps {
        let old = version(step.path.clone(), &step.before);
        let new = version(step.path.clone(), &step.after);
        fn side(owned: &Option<(CanonicalPath, Entry, Vec<u8>)>) -> Option<Version<'_>> {
            owned.as_ref().map(|(path, entry, bytes)| Version { path, entry, bytes })
        }
        text.push_str(&unified(side(&old), side(&new)));
    }
    text
}

/// What the project holds at a path, as far as a merge can use it.
struct Current {
    entry: Option<Entry>,
    bytes: Vec<u8>,
    replaces_directory: bool,
}

struct Planner<'a> {
    root: Root,
    project: &'a Path,
    input: Input<'a>,
    deletions: bool,
    deleted: BTreeSet<CanonicalPath>,
    plan: Plan,
    conflicts: Vec<Conflict>,
}

impl Planner<'_> {
    fn change(&mut self, change: &Change) -> Result<()> {
        for path in change.paths() {
            if is_git_internal(path) || self.is_in_git_directory(path) || self.makes_one(path) {
                self.conflict(path, ConflictKind::GitInternal, None);
                return Ok(());
            }
            if let Some(inner) =
                self.input.base.submodules.iter().find(|dir| is_at_or_below(path, dir))
            {
                self.conflict(path, ConflictKind::Submodule, Some(format!("in `{inner}`")));
                return Ok(());
            }
        }
        let new = match &change.new {
            Some(Entry::Special { .. }) => {
                self.conflict(&change.path, ConflictKind::Special, None);
                return Ok(());
            }
            Some(Entry::Dir) | None => return self.delete(&change.path, change.old.as_ref(), true),
            Some(new) => new,
        };
        match (&change.kind, &change.old) {
            (ChangeKind::Renamed { from }, Some(old)) => self.rename(from, &change.path, old, new),
            (_, None | Some(Entry::Dir)) => self.add(&change.path, new),
            (_, Some(old)) => self.modify(&change.path, old, new),
        }
    }

    /// Whether a directory on the way to a path is the git directory of some repository, which may have any name. The
    /// top is none: what is in its `.git` counts there.
    fn is_in_git_directory(&self, path: &CanonicalPath) -> bool {
        let above = std::iter::successors(path.parent(), CanonicalPath::parent);
        let mut below = above.filter(|dir| !dir.is_root());
        below.any(|dir| is_git_directory(&self.project.join(dir.as_str())))
    }

    /// Whether a change is a part of a git directory that is not there yet: git would take it for one, and run its
    /// hooks, wherever it lies below the top.
    fn makes_one(&self, path: &CanonicalPath) -> bool {
        let text = path.as_str();
        let places = ["/HEAD", "/objects/", "/refs/"].into_iter();
        let mut dirs = places.flat_map(|part| {
            let ends = part.ends_with('/');
            text.match_indices(part)
                .filter(move |(at, part)| ends || at + part.len() == text.len())
                .map(|(at, _)| &text[..at])
        });
        // The changes are sorted by path.
        let changes = &self.input.set.changes;
        let is_made = |whole: &str| {
            let begin = changes.partition_point(|change| change.path.as_str() < whole);
            let mut there =
                changes[begin..].iter().take_while(|it| it.path.as_str().starts_with(whole));
            there.any(|change| change.new.is_some())
        };
        let will_be = |dir: &str, name: &str| {
            let whole = format!("{dir}/{name}");
            let is_dir = name != "HEAD";
            self.project.join(&whole).exists()
                || is_made(&if is_dir { format!("{whole}/") } else { whole })
        };
        dirs.any(|dir| ["HEAD", "objects", "refs"].iter().all(|name| will_be(dir, name)))
    }

    fn add(&mut self, path: &CanonicalPath, new: &Entry) -> Result<()> {
        let Some(current) = self.current(path)? else { return Ok(()) };
        let kind = match &current.entry {
            None => {
                self.write(path, current, new.clone(), self.bytes(new)?);
                return Ok(());
            }
            // The project already holds the result; it is committed with the rest.
            Some(entry) if entry == new => return Ok(()),
            Some(entry) => match (entry, new) {
                (Entry::File { digest: a, .. }, Entry::File { digest: b, .. }) if a == b => {
                    ConflictKind::Mode
                }
                (Entry::File { .. }, Entry::File { .. }) => {
                    if lines::is_binary(&current.bytes) {
                        ConflictKind::Binary
                    } else {
                        ConflictKind::AddAdd
                    }
                }
                _ => kind_of_types(entry, new),
            },
        };
        self.conflict(path, kind, None);
        Ok(())
    }

    fn modify(&mut self, path: &CanonicalPath, old: &Entry, new: &Entry) -> Result<()> {
        let Some(current) = self.current(path)? else { return Ok(()) };
        match current.entry.clone() {
            Some(entry) if entry == *new => Ok(()),
            Some(entry) if entry == *old => {
                self.write(path, current, new.clone(), self.bytes(new)?);
                Ok(())
            }
            Some(entry) => {
                let merged = self.merged(path, path, old, &entry, &current.bytes, new)?;
                if let Some((after, bytes)) = merged {
                    self.write(path, current, after, bytes);
                }
                Ok(())
            }
            None => {
                let detail = self.renamed_to(old)?.map(|to| format!("renamed to `{to}`"));
                self.conflict(path, ConflictKind::DeleteModify, detail);
                Ok(())
            }
        }
    }

    fn rename(
        &mut self,
        from: &CanonicalPath,
        to: &CanonicalPath,
        old: &Entry,
        new: &Entry,
    ) -> Result<()> {
        let (Some(source), Some(target)) = (self.current(from)?, self.current(to)?) else {
            return Ok(());
        };
        match (&source.entry, &target.entry) {
            // The user made the same rename.
            (None, Some(there)) if there == new => Ok(()),
            (None, _) => {
                match self.renamed_to(old)? {
                    Some(other) => {
                        let detail = format!("to `{to}` here, to `{other}` in the project");
                        self.conflict(from, ConflictKind::RenameRename, Some(detail));
                    }
                    None => self.conflict(from, ConflictKind::RenameDelete, None),
                }
                Ok(())
            }
            (Some(_), Some(there)) if there != new => {
                self.conflict(to, ConflictKind::AddAdd, Some(format!("renamed from `{from}`")));
                Ok(())
            }
            (Some(entry), _) => {
                let result = if entry == old {
                    Some((new.clone(), self.bytes(new)?))
                } else {
                    self.merged(from, from, old, entry, &source.bytes, new)?
                };
                let Some((after, bytes)) = result else { return Ok(()) };
                self.write(to, target, after, bytes);
                let entry = entry.clone();
                self.delete(from, Some(&entry), false)
            }
        }
    }

    /// `strict`: the file must still be what the base had.
    fn delete(&mut self, path: &CanonicalPath, old: Option<&Entry>, strict: bool) -> Result<()> {
        let Some(current) = self.current(path)? else { return Ok(()) };
        match &current.entry {
            None => {}
            Some(_) if !self.deletions => self.plan.held.push(path.clone()),
            Some(entry) if strict && Some(entry) != old => {
                self.conflict(path, ConflictKind::ModifyDelete, None);
            }
            Some(_) => {
                let step = Step {
                    path: path.clone(),
                    before: current.entry.clone(),
                    after: None,
                    replaces_directory: false,
                };
                self.keep_content(step.before.as_ref(), current.bytes);
                self.plan.steps.push(step);
            }
        }
        Ok(())
    }

    fn write(&mut self, path: &CanonicalPath, current: Current, after: Entry, bytes: Vec<u8>) {
        if current.entry.as_ref() == Some(&after) {
            return;
        }
        self.keep_content(current.entry.as_ref(), current.bytes);
        self.keep_content(Some(&after), bytes);
        self.plan.steps.push(Step {
            path: path.clone(),
            before: current.entry,
            after: Some(after),
            replaces_directory: current.replaces_directory,
        });
    }

    fn keep_content(&mut self, entry: Option<&Entry>, bytes: Vec<u8>) {
        if let Some(digest) = entry.and_then(Entry::file_digest) {
            self.plan.contents.insert(*digest, bytes);
        }
    }

    fn bytes(&self, entry: &Entry) -> Result<Vec<u8>> {
        self.input.bytes(entry)
    }

    /// Merges the user's and the change set's edits of one file; a conflict is noted and answers none.
    fn merged(
        &mut self,
        path: &CanonicalPath,
        base_path: &CanonicalPath,
        old: &Entry,
        current: &Entry,
        current_bytes: &[u8],
        new: &Entry,
    ) -> Result<Option<(Entry, Vec<u8>)>> {
        let (
            Entry::File { executable: was, digest: old_digest, .. },
            Entry::File { executable: users, digest: current_digest, .. },
            Entry::File { executable: ours, digest: new_digest, .. },
        ) = (old, current, new)
        else {
            self.conflict(path, kind_of_types(current, new), None);
            return Ok(None);
        };
        let executable = if ours == was { *users } else { *ours };
        let bytes = if current_digest == old_digest {
            self.bytes(new)?
        } else if new_digest == old_digest || new_digest == current_digest {
            current_bytes.to_vec()
        } else {
            let (base, theirs) = (self.input.base.read(base_path)?, self.bytes(new)?);
            match texts(&base, current_bytes, &theirs) {
                Ok(bytes) => bytes,
                Err((kind, detail)) => {
                    self.conflict(path, kind, detail);
                    return Ok(None);
                }
            }
        };
        let digest = Digest::of(&bytes);
        Ok(Some((Entry::File { executable, digest, size_bytes: bytes.len() as u64 }, bytes)))
    }

    /// What is at a path now; a way that is blocked is noted as a conflict and answers none.
    fn current(&mut self, path: &CanonicalPath) -> Result<Option<Current>> {
        let (found, bytes) = self.root.find_with_bytes(path)?;
        let current =
            |entry, bytes, replaces_directory| Some(Current { entry, bytes, replaces_directory });
        Ok(match found {
            Found::Absent => current(None, Vec::new(), false),
            Found::Entry(Entry::Special { .. }) => {
                self.conflict(path, ConflictKind::Special, None);
                None
            }
            Found::Entry(entry) => current(Some(entry), bytes.unwrap_or_default(), false),
            Found::Directory if self.empties(path)? => current(None, Vec::new(), true),
            // The file in the way goes first, when this change set deletes it.
            Found::BehindFile if self.deletions && self.file_above_goes(path) => {
                current(None, Vec::new(), false)
            }
            Found::Directory | Found::BehindFile => {
                self.conflict(path, ConflictKind::DirectoryFile, None);
                None
            }
            Found::BehindLink => {
                self.conflict(
                    path,
                    ConflictKind::Symlink,
                    Some("a directory above it is a link".into()),
                );
                None
            }
        })
    }

    fn file_above_goes(&self, path: &CanonicalPath) -> bool {
        std::iter::successors(path.parent(), CanonicalPath::parent)
            .any(|dir| self.deleted.contains(&dir))
    }

    /// Whether the change set deletes everything in a directory of the project.
    fn empties(&self, dir: &CanonicalPath) -> Result<bool> {
        if !self.deletions {
            return Ok(false);
        }
        let mut pending = vec![dir.clone()];
        while let Some(at) = pending.pop() {
            let fd = self.root.holder(&at.join("x").map_err(|e| unusable(&at, e))?)?;
            let fail = |e: rustix::io::Errno| self.root.error("cannot read", &at, e);
            for item in rustix::fs::Dir::read_from(&fd).map_err(fail)? {
                let item = item.map_err(fail)?;
                let Ok(name) = item.file_name().to_str() else { return Ok(false) };
                if matches!(name, "." | "..") {
                    continue;
                }
                let Ok(path) = at.join(name) else { return Ok(false) };
                if self.root.find(&path)? == Found::Directory {
                    pending.push(path);
                } else if !self.deleted.contains(&path) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Where the user moved a file of the base: an equal file that the base did not have.
    fn renamed_to(&self, old: &Entry) -> Result<Option<CanonicalPath>> {
        let Some(git) = Git::discover(self.project)? else { return Ok(None) };
        let args = ["ls-files", "-z", "-c", "-o", "--exclude-standard", "--deduplicate"];
        let output = git.expect_ok("ls-files", git.run(&args, b"", &[])?)?;
        let names = output
            .stdout
            .split(|byte| *byte == 0)
            .filter_map(|name| CanonicalPath::parse(std::str::from_utf8(name).ok()?).ok());
        let is_new = |path: &CanonicalPath| self.input.base.manifest.get(path.as_str()).is_none();
        for path in names.filter(is_new).take(MAX_RENAME_SEARCH) {
            if self.root.find(&path)? == Found::Entry(old.clone()) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    fn conflict(&mut self, path: &CanonicalPath, kind: ConflictKind, detail: Option<String>) {
        self.conflicts.push(Conflict { path: path.clone(), kind, detail });
    }
}

pub(super) fn is_at_or_below(path: &CanonicalPath, dir: &CanonicalPath) -> bool {
    path == dir
        || path.as_str().strip_prefix(dir.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

fn unusable(path: &CanonicalPath, why: impl std::fmt::Display) -> Error {
    Error::new(codes::OPERATION_DAMAGED, format!("cannot use `{path}`")).why(why)
}
