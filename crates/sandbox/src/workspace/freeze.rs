//! Freezing a project: a read-only copy of what it holds now, made once per content.
//!
//! In a git repository the tree is what `git ls-files -co --exclude-standard` names: tracked files as
//! they are on disk, and untracked ones that are not ignored. Elsewhere it is the whole directory,
//! within tighter limits. `.git` is never part of it. The copy is built beside its place and renamed
//! into it, so it is whole or absent, whoever else makes the same one at the same time.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use glasshouse_model::{CanonicalPath, Digest};
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::beneath::{Found, Root, WriteHow, failed, io_failed};
use super::git::Git;
use super::{Entry, Hold, MAX_FILES, MAX_PLAIN_BYTES, MAX_PLAIN_FILES, MAX_TOTAL_BYTES, Manifest};
use crate::codes;
use crate::error::{Error, Result};
use crate::tree::remove_tree;

/// How often a copy that differs from what was listed is begun again before giving up.
const MAX_ATTEMPTS: usize = 4;
/// Deepest nesting of repositories inside the project.
const MAX_NESTED_REPOSITORIES: usize = 8;
/// Deepest directory of a project without git; deeper ones are a loop of mounts, not a project.
const MAX_DEPTH: usize = 128;

/// Names of the copy and of its manifest in a base's directory.
const TREE: &str = "tree";
const MANIFEST: &str = "manifest.json";

/// A user and group that files are given to: the identity a sandbox's root user has outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// User id outside the sandbox.
    pub uid: u32,
    /// Group id outside the sandbox.
    pub gid: u32,
}

/// Where git stood when the base was frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitState {
    /// Commit id of `HEAD`; none before the first commit.
    pub head: Option<String>,
    /// Full name of the current branch (`refs/heads/main`); none when detached.
    pub branch: Option<String>,
}

/// A frozen project. Its manifest is also the record of what the project held, by which a merge later
/// sees what the user changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenBase {
    /// The project directory, absolute and without links.
    pub project: PathBuf,
    /// The copy: the lowest layer of every workspace above it.
    pub dir: PathBuf,
    /// Digest of `manifest`.
    pub digest: Digest,
    /// What the project held.
    pub manifest: Manifest,
    /// Where git stood; none when the project is not in a repository.
    pub git: Option<GitState>,
    /// Directories that are repositories of their own (submodules and nested clones).
    pub submodules: BTreeSet<CanonicalPath>,
    /// Who owns the copy.
    pub owner: Owner,
    /// Sockets, pipes and devices, which no copy has; of a base that was found again none are named.
    #[serde(default)]
    pub left_out: Vec<CanonicalPath>,
}

impl FrozenBase {
    /// The bytes of a base file, checked against the manifest.
    ///
    /// # Errors
    /// `workspace_damaged` when the copy is not what was frozen, `workspace_io`.
    pub fn read(&self, path: &CanonicalPath) -> Result<Vec<u8>> {
        let expected = self.manifest.get(path.as_str());
        match (expected, Root::open(&self.dir)?.find_with_bytes(path)?) {
            (Some(expected), (Found::Entry(entry), Some(bytes))) if entry == *expected => Ok(bytes),
            _ => {
                Err(Error::new(codes::WORKSPACE_DAMAGED, format!("cannot read base file `{path}`"))
                    .why("the frozen copy does not hold what was frozen")
                    .with("path", path.as_str()))
            }
        }
    }

    /// Reads the whole copy and compares it with the manifest.
    ///
    /// # Errors
    /// `workspace_damaged` naming the first path that differs, `workspace_io`.
    pub fn verify(&self) -> Result<()> {
        let root = Root::open(&self.dir)?;
        let mut names = Vec::new();
        walk_plain(&root, None, &mut names, &[], MAX_FILES)?;
        let found: BTreeSet<_> = names.into_iter().collect();
        let expected: BTreeSet<_> = self.manifest.iter().map(|(path, _)| path.clone()).collect();
        let damaged = |path: &CanonicalPath| {
            Error::new(codes::WORKSPACE_DAMAGED, format!("the frozen base differs at `{path}`"))
                .with("path", path.as_str())
        };
        if let Some(path) = found.symmetric_difference(&expected).next() {
            return Err(damaged(path));
        }
        for (path, entry) in self.manifest.iter() {
            if look(&root, path)?.as_ref() != Some(entry) {
                return Err(damaged(path));
            }
        }
        Ok(())
    }

    /// Which of these paths the frozen ignore rules exclude. Tracked files are never ignored.
    ///
    /// # Errors
    /// `git_failed`.
    pub fn ignored<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a CanonicalPath>,
    ) -> Result<BTreeSet<CanonicalPath>> {
        let input = names_for_git(paths);
        if self.git.is_none() || input.is_empty() {
            return Ok(BTreeSet::new());
        }
        // Rules come from the frozen copy, so that an agent cannot hide a change by writing a rule.
        ask_ignored(&self.project, Some(&self.dir), &input)
    }
}

/// Which of these paths a project's ignore rules exclude as they stand now. Tracked files are never ignored.
///
/// # Errors
/// `git_failed`.
pub fn ignored_now<'a>(
    project: &Path,
    paths: impl IntoIterator<Item = &'a CanonicalPath>,
) -> Result<BTreeSet<CanonicalPath>> {
    ask_ignored(project, None, &names_for_git(paths))
}

fn names_for_git<'a>(paths: impl IntoIterator<Item = &'a CanonicalPath>) -> Vec<u8> {
    let mut input = Vec::new();
    for path in paths {
        // `./` keeps a leading colon from being read as pathspec magic.
        input.extend_from_slice(b"./");
        input.extend_from_slice(path.as_str().as_bytes());
        input.push(0);
    }
    input
}

fn ask_ignored(
    project: &Path,
    frozen: Option<&Path>,
    input: &[u8],
) -> Result<BTreeSet<CanonicalPath>> {
    let Some(git) = Git::discover(project)? else { return Ok(BTreeSet::new()) };
    let git = git.for_reading();
    let args = ["check-ignore", "-z", "--stdin"];
    // Below a repository's root a frozen copy holds only the project, not the rules above it.
    let output = match frozen {
        Some(dir) if git.prefix().is_none() => git.run_on(dir, &args, input, &[])?,
        _ => git.run(&args, input, &[])?,
    };
    // Exit 1 means "none of them".
    let output = if output.code == 1 { output } else { git.expect_ok("check-ignore", output)? };
    split_names(&output.stdout).map(|name| canonical(None, name)).collect()
}

/// Freezes a project into `cache`, giving the copy to `owner`.
///
/// # Errors
/// `path_unrepresentable` names a file whose name cannot be recorded, `workspace_too_large` a limit
/// that was hit, `project_changing` when the project never held still, `git_failed`, `workspace_io`.
pub fn freeze(project: &Path, cache: &Path, owner: Owner) -> Result<FrozenBase> {
    let text = project.display().to_string();
    let project =
        project.canonicalize().map_err(|e| io_failed("cannot find the project", &text, &e))?;
    let root = Root::open(&project)?;
    // A sweep removes no base while it is looked up.
    let _hold = Hold::take(cache)?;
    for _ in 0..MAX_ATTEMPTS {
        let listing = list(&project, &root, cache)?;
        let (manifest, left_out) = take(&root, &listing)?;
        let digest = manifest.digest();
        let home = home_of(cache, &digest, owner);
        let dir = home.join(TREE);
        let base = FrozenBase {
            project: project.clone(),
            dir,
            digest,
            manifest,
            git: listing.git,
            submodules: listing.submodules,
            owner,
            left_out,
        };
        if home.join(TREE).is_dir() || build(&root, &base, cache, &home)? {
            // When it was last used; see `sweep`.
            std::fs::File::open(&home)
                .and_then(|dir| dir.set_modified(SystemTime::now()))
                .map_err(|e| {
                    io_failed("cannot mark the use of", &home.display().to_string(), &e)
                })?;
            return Ok(base);
        }
    }
    Err(Error::new(codes::PROJECT_CHANGING, format!("cannot freeze `{text}`"))
        .why(format!("its files changed during each of {MAX_ATTEMPTS} attempts")))
}

/// Finds what a project was frozen to earlier: the copy in the cache, else the project itself while it
/// still holds the same. `head` is the commit it was at.
///
/// # Errors
/// `base_gone` when neither is there, and as [`freeze`].
pub fn recall(
    project: &Path,
    cache: &Path,
    owner: Owner,
    digest: &Digest,
    head: Option<String>,
) -> Result<FrozenBase> {
    let hold = Hold::take(cache)?;
    let home = home_of(cache, digest, owner);
    let Ok(bytes) = std::fs::read(home.join(MANIFEST)) else {
        drop(hold);
        return match freeze(project, cache, owner) {
            Ok(base) if base.digest == *digest => Ok(base),
            Ok(_) => Err(base_gone(digest).why("its copy was removed and the project has changed")),
            Err(error) => Err(base_gone(digest).why(error)),
        };
    };
    let text = project.display().to_string();
    let project =
        project.canonicalize().map_err(|e| io_failed("cannot find the project", &text, &e))?;
    let manifest: Manifest =
        serde_json::from_slice(&bytes).map_err(|error| base_gone(digest).why(error))?;
    if manifest.digest() != *digest {
        return Err(base_gone(digest).why("its manifest has another digest"));
    }
    let Listing { git, submodules, .. } = list(&project, &Root::open(&project)?, cache)?;
    let git = git.map(|now| GitState { head, branch: now.branch });
    let dir = home.join(TREE);
    Ok(FrozenBase {
        project,
        dir,
        digest: *digest,
        manifest,
        git,
        submodules,
        owner,
        left_out: Vec::new(),
    })
}

/// Where the copy of a base and its manifest lie.
fn home_of(cache: &Path, digest: &Digest, owner: Owner) -> PathBuf {
    cache.join(format!("{}-{}-{}", digest.hex(), owner.uid, owner.gid))
}

fn base_gone(digest: &Digest) -> Error {
    Error::new(codes::BASE_GONE, format!("the files of base {digest} are no longer there"))
}

/// What belongs to the base, by name only.
struct Listing {
    names: BTreeSet<CanonicalPath>,
    git: Option<GitState>,
    submodules: BTreeSet<CanonicalPath>,
    max_bytes: u64,
}

fn list(project: &Path, root: &Root, cache: &Path) -> Result<Listing> {
    let Some(git) = Git::discover(project)? else {
        let mut names = Vec::new();
        let cache = cache.canonicalize().ok();
        let inside = cache.as_deref().and_then(|cache| cache.strip_prefix(project).ok());
        let skip: Vec<_> = inside
            .and_then(Path::to_str)
            .and_then(|p| CanonicalPath::parse(p).ok())
            .into_iter()
            .collect();
        walk_plain(root, None, &mut names, &skip, MAX_PLAIN_FILES)?;
        return Ok(Listing {
            names: names.into_iter().collect(),
            git: None,
            submodules: BTreeSet::new(),
            max_bytes: MAX_PLAIN_BYTES,
        });
    };
    let (branch, head) = git.head()?;
    let mut listing = Listing {
        names: BTreeSet::new(),
        git: Some(GitState { head, branch }),
        submodules: BTreeSet::new(),
        max_bytes: MAX_TOTAL_BYTES,
    };
    list_repository(&git, root, None, &mut listing, 0)?;
    // A submodule that is not checked out has no directory to be noticed by.
    let output = git.expect_ok("ls-files", git.run(&["ls-files", "-z", "-s"], b"", &[])?)?;
    for line in split_names(&output.stdout).filter(|line| line.starts_with(b"160000 ")) {
        if let Some(tab) = line.iter().position(|byte| *byte == b'\t') {
            let path = canonical(None, &line[tab + 1..])?;
            listing.names.remove(&path);
            listing.submodules.insert(path);
        }
    }
    Ok(listing)
}

fn list_repository(
    git: &Git,
    root: &Root,
    below: Option<&CanonicalPath>,
    listing: &mut Listing,
    depth: usize,
) -> Result<()> {
    let args = ["ls-files", "-z", "-c", "-o", "--exclude-standard", "--deduplicate"];
    let output = git.expect_ok("ls-files", git.run(&args, b"", &[])?)?;
    for name in split_names(&output.stdout) {
        let path = canonical(below, name)?;
        if is_git_internal(&path) {
            continue;
        }
        // A directory in the list is a repository of its own: a submodule or a nested clone.
        if root.directory(path.as_str()).is_ok() {
            if depth >= MAX_NESTED_REPOSITORIES {
                return Err(too_large(format!(
                    "more than {MAX_NESTED_REPOSITORIES} nested repositories"
                )));
            }
            let nested =
                git.work_tree().join(git.repository_path(&canonical(None, name)?)?.as_str());
            let inner = Git::discover(&nested)?.filter(|inner| inner.prefix().is_none());
            listing.submodules.insert(path.clone());
            if let Some(inner) = inner {
                list_repository(&inner, root, Some(&path), listing, depth + 1)?;
            }
            continue;
        }
        listing.names.insert(path);
        if listing.names.len() > MAX_FILES {
            return Err(too_large(format!("more than {MAX_FILES} files")));
        }
    }
    Ok(())
}

/// Lists everything below a directory except `.git` and `skip`.
fn walk_plain(
    root: &Root,
    at: Option<&CanonicalPath>,
    names: &mut Vec<CanonicalPath>,
    skip: &[CanonicalPath],
    max_files: usize,
) -> Result<()> {
    let here = at.cloned().unwrap_or_else(CanonicalPath::root);
    if here.components().count() > MAX_DEPTH {
        return Err(too_large(format!("directories deeper than {MAX_DEPTH}")));
    }
    let fd = root.directory(here.as_str()).map_err(|e| root.error("cannot read", &here, e))?;
    let before = names.len();
    let found = children(&fd, &here)?;
    // None stays open on the way down.
    drop(fd);
    for (name, kind) in found {
        let path = canonical(at, &name)?;
        if is_git_internal(&path) || skip.contains(&path) {
            continue;
        }
        if kind == FileType::Directory {
            walk_plain(root, Some(&path), names, skip, max_files)?;
        } else {
            names.push(path);
        }
        if names.len() > max_files {
            return Err(too_large(format!("more than {max_files} files")));
        }
    }
    if let (Some(at), true) = (at, names.len() == before) {
        names.push(at.clone());
    }
    Ok(())
}

fn children(fd: &OwnedFd, at: &CanonicalPath) -> Result<Vec<(Vec<u8>, FileType)>> {
    let fail = |e| failed("cannot read the directory", at.as_str(), e);
    let mut found = Vec::new();
    for item in Dir::read_from(fd).map_err(fail)? {
        let item = item.map_err(fail)?;
        let name = item.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = match item.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
                FileType::from_raw_mode(stat.map_err(fail)?.st_mode)
            }
            known => known,
        };
        found.push((name.to_vec(), kind));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Hashes what was listed. What vanished, or lies behind a link, is not there; what is no content is named.
fn take(root: &Root, listing: &Listing) -> Result<(Manifest, Vec<CanonicalPath>)> {
    let names: Vec<_> = listing.names.iter().collect();
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(8);
    let chunk = names.len().div_ceil(workers).max(1);
    let total_bytes = AtomicU64::new(0);
    let hash = |names: &[&CanonicalPath]| {
        let mut found = Vec::new();
        for path in names {
            let Some(entry) = look_at(root, path)? else { continue };
            if let Entry::File { size_bytes, .. } = entry {
                let before = total_bytes.fetch_add(size_bytes, Ordering::Relaxed);
                if before.saturating_add(size_bytes) > listing.max_bytes {
                    return Err(too_large(format!("more than {} bytes", listing.max_bytes)));
                }
            }
            found.push(((*path).clone(), entry));
        }
        Ok(found)
    };
    let parts: Vec<Result<Vec<_>>> = std::thread::scope(|scope| {
        let handles: Vec<_> =
            names.chunks(chunk).map(|names| scope.spawn(|| hash(names))).collect();
        handles.into_iter().map(|h| h.join().expect("hashing does not panic")).collect()
    });
    let (mut manifest, mut left_out) = (Manifest::default(), Vec::new());
    for part in parts {
        for (path, entry) in part? {
            match entry {
                // A socket or pipe left by a program is no content; the copy goes without it.
                Entry::Special { .. } => left_out.push(path),
                entry => manifest.insert(path, entry),
            };
        }
    }
    Ok((manifest, left_out))
}

/// What a copy has of a path.
fn look(root: &Root, path: &CanonicalPath) -> Result<Option<Entry>> {
    Ok(look_at(root, path)?.filter(|entry| !matches!(entry, Entry::Special { .. })))
}

fn look_at(root: &Root, path: &CanonicalPath) -> Result<Option<Entry>> {
    Ok(match root.find(path)? {
        Found::Entry(entry) => Some(entry),
        Found::Directory => Some(Entry::Dir),
        Found::Absent | Found::BehindLink | Found::BehindFile => None,
    })
}

/// Copies the listed tree into `home`. `false`: a file was no longer what was hashed.
fn build(root: &Root, base: &FrozenBase, cache: &Path, home: &Path) -> Result<bool> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let text = cache.display().to_string();
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    let staging = cache.join(format!("building-{}-{unique}", std::process::id()));
    let _ = remove_tree(&staging);
    std::fs::create_dir_all(&staging).map_err(|e| io_failed("cannot write in", &text, &e))?;
    let whole = copy(root, base, &staging);
    let stored = whole.and_then(|whole| {
        let bytes = base.manifest.to_bytes();
        std::fs::write(staging.join(MANIFEST), bytes)
            .map_err(|e| io_failed("cannot write in", &text, &e))?;
        if !whole {
            return Ok(false);
        }
        sync_tree(&staging)?;
        match std::fs::rename(&staging, home) {
            Ok(()) => {}
            // Someone else made the same tree first.
            Err(_) if home.join(TREE).is_dir() => {}
            Err(e) => return Err(io_failed("cannot finish the base in", &text, &e)),
        }
        Root::open(cache).and_then(|dir| {
            rustix::fs::fsync(dir.fd()).map_err(|e| failed("cannot sync", &text, e))
        })?;
        Ok(true)
    });
    let _ = remove_tree(&staging);
    stored
}

/// A base must not be found half empty after a power loss: its name promises its content.
fn sync_tree(dir: &Path) -> Result<()> {
    let root = Root::open(dir)?;
    let text = dir.display().to_string();
    rustix::fs::syncfs(root.fd()).map_err(|e: Errno| failed("cannot sync", &text, e))
}

fn copy(root: &Root, base: &FrozenBase, staging: &Path) -> Result<bool> {
    let target = Root::open(staging)?;
    let how = WriteHow { owner: Some(base.owner), ..WriteHow::default() };
    target.write_new(target.fd(), TREE, &Entry::Dir, &[], how)?;
    let target = Root::open(&staging.join(TREE))?;
    for (path, entry) in base.manifest.iter() {
        let (found, bytes) = root.find_with_bytes(path)?;
        let same = match (&found, entry) {
            (Found::Entry(found), entry) => found == entry,
            (Found::Directory, Entry::Dir) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
        let (holder, _) = target.make_holder(path, Some(base.owner))?;
        let name = path.file_name().expect("an entry is never the root");
        target.write_new(&holder, name, entry, bytes.as_deref().unwrap_or(&[]), how)?;
    }
    Ok(true)
}

fn split_names(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|name| !name.is_empty())
}

/// The path of a raw name below a directory.
pub(crate) fn canonical(below: Option<&CanonicalPath>, name: &[u8]) -> Result<CanonicalPath> {
    let shown = Path::new(std::ffi::OsStr::from_bytes(name)).display().to_string();
    let fail = |why: String| {
        let place = below.map_or_else(String::new, |dir| format!(" in `{dir}`"));
        Error::new(
            codes::PATH_UNREPRESENTABLE,
            format!("cannot record the file `{}`{place}", shown.escape_debug()),
        )
        .why(why)
        .with("name", shown.clone())
    };
    let text = std::str::from_utf8(name).map_err(|_| fail("its name is not UTF-8".to_owned()))?;
    let parsed = match below {
        Some(dir) => dir.join(text),
        None => CanonicalPath::parse(text),
    };
    parsed.map_err(|e| fail(e.to_string()))
}

/// Whether a path is, or is inside, a `.git`. Letter case is ignored: some file systems do.
#[must_use]
pub fn is_git_internal(path: &CanonicalPath) -> bool {
    path.components().any(|part| part.eq_ignore_ascii_case(".git"))
}

fn too_large(why: String) -> Error {
    Error::new(codes::WORKSPACE_TOO_LARGE, "cannot take the whole tree").why(why)
}
