//! From a change set to what the commit has to hold, checked against the repository as it is now.

use std::collections::BTreeMap;
use std::path::Path;

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::workspace::beneath::Root;
use glasshouse_sandbox::workspace::git::Git;
use glasshouse_sandbox::workspace::{Change, ChangeKind, Entry};

use super::conflict::Conflict;
use super::plan::Input;
use super::repository::{Edit, Side, resolve};
use super::stored::{Form, forms, sets_attributes};
use crate::codes;
use crate::{Error, Result};

/// The repository that a commit will go to, and where it stands.
pub(super) struct Repository {
    pub(super) git: Git,
    /// Branch and commit, as [`Git::head`] answers.
    pub(super) head: (Option<String>, Option<String>),
}

impl Repository {
    /// None when no commit follows, or the project is in no repository.
    pub(super) fn of(project: &Path, input: Input<'_>) -> Result<Option<Self>> {
        if !input.commits || input.base.git.is_none() {
            return Ok(None);
        }
        let Some(git) = Git::discover(project)? else { return Ok(None) };
        let head = git.head()?;
        Ok(Some(Self { git, head }))
    }
}

/// Works out the edits and whether the last commit and the index take them. Contents that they name
/// are added to `contents`.
///
/// # Errors
/// `attributes_unsupported` naming the paths, and what reading answers.
pub(super) fn edits(
    repository: &Repository,
    project: &Root,
    input: Input<'_>,
    held: &[CanonicalPath],
    contents: &mut BTreeMap<Digest, Vec<u8>>,
) -> Result<Result<Vec<Edit>, Vec<Conflict>>> {
    let mut edits: Vec<_> =
        input.set.changes.iter().filter_map(|change| edit(change, held)).collect();
    for edit in &edits {
        let source = edit.from.as_ref().unwrap_or(&edit.path);
        if let Some(digest) = edit.base.as_ref().and_then(Entry::file_digest) {
            contents.insert(*digest, input.base.read(source)?);
        }
        if let Some((entry, digest)) = edit.new.as_ref().and_then(|e| Some((e, e.file_digest()?))) {
            contents.insert(*digest, input.bytes(entry)?);
        }
    }
    set_forms(repository, project, input, &mut edits)?;
    let content = |entry: &Entry| -> Result<Vec<u8>> {
        let found = entry.file_digest().and_then(|digest| contents.get(digest));
        Ok(found.cloned().unwrap_or_default())
    };
    for side in [Side::Commit(repository.head.1.as_deref()), Side::Index] {
        if let Err(conflicts) = resolve(&repository.git, side, &edits, &content)? {
            return Ok(Err(conflicts));
        }
    }
    Ok(Ok(edits))
}

/// A change as the repository sees it; none when it changes nothing there.
fn edit(change: &Change, held: &[CanonicalPath]) -> Option<Edit> {
    let from = match &change.kind {
        ChangeKind::Renamed { from } => Some(from.clone()),
        _ => None,
    };
    // A directory is nothing of its own.
    let file = |entry: &Option<Entry>| entry.clone().filter(|entry| *entry != Entry::Dir);
    let (base, new) = (file(&change.old), file(&change.new));
    if new.is_none() && (base.is_none() || held.contains(&change.path)) {
        return None;
    }
    let from_goes = from.as_ref().is_some_and(|from| !held.contains(from));
    Some(Edit { path: change.path.clone(), from, from_goes, base, new, form: Form::AsIs })
}

/// Finds out how each content is stored; what only a program could store is refused.
fn set_forms(
    repository: &Repository,
    project: &Root,
    input: Input<'_>,
    edits: &mut [Edit],
) -> Result<()> {
    let mut attributes = BTreeMap::new();
    for edit in edits.iter() {
        let gone = edit.removed().filter(|path| sets_attributes(path));
        attributes.extend(gone.map(|path| (path.clone(), None)));
        if let Some(new) = edit.new.as_ref().filter(|_| sets_attributes(&edit.path)) {
            attributes.insert(edit.path.clone(), Some(input.bytes(new)?));
        }
    }
    let paths: Vec<_> = edits.iter().map(|edit| &edit.path).collect();
    let found = forms(&repository.git, project, &paths, &attributes)?;
    let mut refused = Vec::new();
    for (edit, form) in edits.iter_mut().zip(found) {
        let digest = |entry: &Option<Entry>| entry.as_ref().and_then(Entry::file_digest).copied();
        let changes = digest(&edit.base) != digest(&edit.new);
        if let (Form::Foreign(attribute), true) = (&form, changes) {
            refused.push(format!("`{}` ({attribute})", edit.path));
        }
        edit.form = form;
    }
    if refused.is_empty() {
        return Ok(());
    }
    let what = format!("cannot commit {}", refused.join(", "));
    Err(Error::new(codes::ATTRIBUTES_UNSUPPORTED, what)
        .why("the repository stores these files by a conversion that a merge does not run")
        .with("paths", refused))
}
