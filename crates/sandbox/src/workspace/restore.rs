//! Writing recorded states back: as an overlay layer, or as plain files.

use std::collections::BTreeSet;
use std::path::Path;

use glasshouse_model::CanonicalPath;
use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use rustix::io::Errno;

use super::beneath::{Root, WriteHow, failed, give_at, io_failed};
use super::change::Contents;
use super::freeze::FrozenBase;
use super::seal::make_owned;
use super::{BlobStore, Entry, SealManifest};
use crate::codes;
use crate::error::{Error, Result};
use crate::tree::remove_tree;

const UPPER: &str = "upper";
/// Where a new upper is built; after the exchange the old one lies there until it is deleted.
const SPARE: &str = "upper.spare";

/// Deletes what an interrupted [`replace_upper`] left. The spare is never the only copy of anything:
/// before the exchange it is unfinished, after it, it is what was to be replaced.
pub(super) fn clean_up(dir: &Path) -> Result<()> {
    let spare = dir.join(SPARE);
    match remove_tree(&spare) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(io_failed("cannot remove", &spare.display().to_string(), &e)),
    }
}

/// Builds the layer of a state beside the present one and exchanges the two.
pub(super) fn replace_upper(
    dir: &Path,
    base: &FrozenBase,
    state: &SealManifest,
    blobs: &dyn BlobStore,
) -> Result<()> {
    clean_up(dir)?;
    make_owned(dir, SPARE, base.owner)?;
    let spare = dir.join(SPARE);
    build_upper(&Root::open(&spare)?, base, state, blobs)?;
    let text = spare.display().to_string();
    rustix::fs::renameat_with(CWD, &spare, CWD, dir.join(UPPER), RenameFlags::EXCHANGE)
        .map_err(|e| failed("cannot exchange layers at", &text, e))?;
    clean_up(dir)
}

fn build_upper(
    target: &Root,
    base: &FrozenBase,
    state: &SealManifest,
    blobs: &dyn BlobStore,
) -> Result<()> {
    let how = WriteHow { owner: Some(base.owner), ..WriteHow::default() };
    for (path, entry) in &state.entries {
        write(target, path, entry, how, blobs)?;
    }
    for path in whiteouts(base, state) {
        let fail = |e: Errno| target.error("cannot hide", &path, e);
        let (holder, _) = target.make_holder(&path, how.owner)?;
        let name = path.file_name().expect("the root is never hidden");
        rustix::fs::mknodat(&holder, name, FileType::CharacterDevice, Mode::empty(), 0)
            .map_err(fail)?;
        give_at(&holder, name, how.owner).map_err(fail)?;
    }
    Ok(())
}

/// The fewest paths to hide so that the base shows exactly what the state says: the topmost directory
/// of which nothing is left, else the file itself. What a new file covers needs no hiding.
fn whiteouts(base: &FrozenBase, state: &SealManifest) -> BTreeSet<CanonicalPath> {
    let mut hidden = BTreeSet::new();
    for path in &state.removed {
        let mut ancestors: Vec<_> =
            std::iter::successors(Some(path.clone()), CanonicalPath::parent)
                .filter(|at| !at.is_root())
                .collect();
        ancestors.reverse();
        // In the base every ancestor is a directory; a file or link of the state covers all below it.
        let covered = ancestors.iter().any(
            |at| matches!(state.entries.get(at), Some(entry) if at != path && *entry != Entry::Dir),
        );
        // A directory that holds entries replaces a base file of the same name by being there.
        let replaced = super::manifest::below(&state.entries, path).next().is_some();
        if covered || replaced {
            continue;
        }
        if let Some(top) = ancestors.into_iter().find(|at| !state.occupies(&base.manifest, at)) {
            hidden.insert(top);
        }
    }
    hidden
}

fn write(
    target: &Root,
    path: &CanonicalPath,
    entry: &Entry,
    how: WriteHow,
    blobs: &dyn BlobStore,
) -> Result<()> {
    if matches!(entry, Entry::Special { .. }) {
        return Ok(());
    }
    let bytes = match entry {
        Entry::File { digest, .. } => {
            let bytes = blobs.get(digest)?;
            if glasshouse_model::Digest::of(&bytes) != *digest {
                return Err(Error::new(
                    codes::WORKSPACE_DAMAGED,
                    format!("cannot restore `{path}`"),
                )
                .why("the blob store answered other bytes than the digest names"));
            }
            bytes
        }
        _ => Vec::new(),
    };
    let (holder, _) = target.make_holder(path, how.owner)?;
    let name = path.file_name().expect("an entry is never the root");
    target.write_new(&holder, name, entry, &bytes, how)
}

/// Writes all files of a state, base included, into a new directory `dir`: whole, or not at all.
///
/// # Errors
/// `workspace_io` also when `dir` exists, `workspace_damaged`, and what the blob store answers.
pub fn materialise(
    base: &FrozenBase,
    state: &SealManifest,
    blobs: &dyn BlobStore,
    dir: &Path,
) -> Result<()> {
    let text = dir.display().to_string();
    let io = |e: std::io::Error| io_failed("cannot write the files to", &text, &e);
    if dir.symlink_metadata().is_ok() {
        return Err(io(std::io::ErrorKind::AlreadyExists.into()));
    }
    let mut staging = dir.as_os_str().to_owned();
    staging.push(".partial");
    let staging = Path::new(&staging);
    let _ = remove_tree(staging);
    std::fs::create_dir_all(staging).map_err(io)?;
    let target = Root::open(staging)?;
    let contents = Contents { base, blobs };
    for (path, entry) in state.whole(&base.manifest).iter() {
        if matches!(entry, Entry::Special { .. }) {
            continue;
        }
        let bytes = contents.read(state, path)?.unwrap_or_default();
        let (holder, _) = target.make_holder(path, None)?;
        let name = path.file_name().expect("an entry is never the root");
        target.write_new(&holder, name, entry, &bytes, WriteHow::default())?;
    }
    std::fs::rename(staging, dir).map_err(io)
}
