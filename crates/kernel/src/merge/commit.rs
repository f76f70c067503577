//! Recording a merge in git, by plumbing alone.
//!
//! The tree is `HEAD`'s with only the merged paths replaced, built in an index of its own. The commit
//! is recorded in the operation log before the branch moves, and the branch moves only from the commit
//! the merge was planned on. The user's index then learns the merged paths and nothing else.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use glasshouse_model::CanonicalPath;
use glasshouse_sandbox::workspace::Entry;
use glasshouse_sandbox::workspace::git::{Git, GitOutput};

use super::apply::Interrupt;
use super::oplog::{Fact, Operation, OperationDir};
use crate::codes;
use crate::{Error, Result};

/// What git leaves in its directory while it is in the middle of something.
const IN_PROGRESS: &[&str] =
    &["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer"];

/// Whose name a commit carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Name.
    pub name: String,
    /// Mail address.
    pub email: String,
}

/// What to commit.
#[derive(Debug, Clone, Copy)]
pub struct CommitRequest<'a> {
    /// The merge whose paths are committed.
    pub operation: &'a OperationDir,
    /// The message.
    pub message: &'a str,
    /// Author and committer.
    pub author: &'a Author,
    /// Time of the commit, seconds since 1970; an input, so that a retry makes the same commit.
    pub time_s: u64,
}

/// What [`commit`] answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// The branch is at the new commit.
    Commit {
        /// Commit id.
        id: String,
        /// Full branch name; none when `HEAD` is detached.
        branch: Option<String>,
    },
    /// The merged paths are already as the last commit has them.
    NothingToCommit,
    /// The project is in no repository: the merge stands, there is no commit.
    NoRepository,
}

/// Commits exactly the paths of an applied merge. A second call finds the first one's commit.
///
/// # Errors
/// `operation_invalid` when the merge was not applied, `head_moved` when the branch is not where the
/// merge found it, `repository_busy` in the middle of a merge or rebase or under a lock, `git_failed`.
pub fn commit(project: &Path, request: CommitRequest<'_>) -> Result<Committed> {
    commit_with(project, request, &mut |_| Ok(()))
}

pub(super) fn commit_with(
    project: &Path,
    request: CommitRequest<'_>,
    interrupt: Interrupt<'_>,
) -> Result<Committed> {
    let Some(mut operation) = Operation::open(request.operation)?
        .filter(|operation| operation.facts().contains(&Fact::Applied))
    else {
        let what = format!("cannot commit operation `{}`", request.operation.id());
        return Err(Error::new(codes::OPERATION_INVALID, what).why("it is no applied merge"));
    };
    let (Some(git), Some(head)) = (Git::discover(project)?, operation.record.head.clone()) else {
        return Ok(Committed::NoRepository);
    };
    let made = operation.facts().iter().find_map(|fact| match fact {
        Fact::Commit { id, parent, branch } => Some((id.clone(), parent.clone(), branch.clone())),
        _ => None,
    });
    let (id, parent, branch) = match made {
        Some(made) => made,
        None => {
            let (branch, parent) = head;
            expect_head(&git, &branch, &parent)?;
            refuse_in_progress(&git)?;
            interrupt("build commit")?;
            let Some(id) = build(&git, &operation, request, parent.as_deref())? else {
                return Ok(Committed::NothingToCommit);
            };
            interrupt("note commit")?;
            let fact =
                Fact::Commit { id: id.clone(), parent: parent.clone(), branch: branch.clone() };
            operation.note(fact)?;
            (id, parent, branch)
        }
    };
    if !operation.facts().contains(&Fact::Committed) {
        interrupt("move branch")?;
        move_branch(&git, request, &id, parent.as_deref(), branch.as_deref())?;
        interrupt("refresh index")?;
        refresh_index(&git, &operation, &id)?;
        interrupt("note committed")?;
        operation.note(Fact::Committed)?;
    }
    Ok(Committed::Commit { id, branch })
}

fn expect_head(git: &Git, branch: &Option<String>, commit: &Option<String>) -> Result<()> {
    let now = git.head()?;
    if now == (branch.clone(), commit.clone()) {
        return Ok(());
    }
    let show = |(branch, commit): &(Option<String>, Option<String>)| {
        let branch = branch.as_deref().unwrap_or("no branch");
        format!("{branch} at {}", commit.as_deref().unwrap_or("no commit"))
    };
    Err(Error::new(codes::HEAD_MOVED, "the merged files were not committed").why(format!(
        "the merge was planned on {}, now it is {}",
        show(&(branch.clone(), commit.clone())),
        show(&now)
    )))
}

fn refuse_in_progress(git: &Git) -> Result<()> {
    let directory = git.directory()?;
    match IN_PROGRESS.iter().find(|name| directory.join(name).exists()) {
        None => Ok(()),
        Some(name) => {
            Err(Error::new(codes::REPOSITORY_BUSY, "the merged files were not committed")
                .why(format!("a git operation is in progress ({name})")))
        }
    }
}

/// A directory inside git's own, where git can read contents and keep an index whoever it runs as.
struct Scratch(PathBuf);

impl Scratch {
    fn new(git: &Git, id: &str) -> Result<Self> {
        let dir = git.directory()?.join(format!("glasshouse-{id}"));
        let io = |e: std::io::Error| {
            Error::new(codes::OPERATION_DAMAGED, format!("cannot use `{}`", dir.display())).why(e)
        };
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).map_err(io)?;
        if let Some(owner) = git.run_as() {
            chown(&dir, Some(owner.uid), Some(owner.gid)).map_err(io)?;
        }
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes objects and the commit; none when the tree would be the parent's.
fn build(
    git: &Git,
    operation: &Operation,
    request: CommitRequest<'_>,
    parent: Option<&str>,
) -> Result<Option<String>> {
    let scratch = Scratch::new(git, &operation.record.id)?;
    let index = scratch.0.join("index");
    let env = [("GIT_INDEX_FILE", index.as_os_str())];
    let run = |args: &[&str], input: &[u8]| -> Result<GitOutput> {
        let output = git.run(args, input, &env)?;
        Ok(git.expect_ok(args.first().copied().unwrap_or_default(), output)?)
    };
    if let Some(parent) = parent {
        run(&["read-tree", parent], b"")?;
    }
    let blobs = write_blobs(git, operation, &scratch.0)?;
    let info = index_info(git, blobs.iter().map(|(path, mode)| (path, mode.as_ref())))?;
    run(&["update-index", "-z", "--add", "--replace", "--index-info"], &info)?;
    let tree = run(&["write-tree"], b"")?.line();
    if let Some(parent) = parent {
        let old = run(&["rev-parse", "--verify", &format!("{parent}^{{tree}}")], b"")?.line();
        if old == tree {
            return Ok(None);
        }
    }
    let mut args = vec!["commit-tree", tree.as_str()];
    if let Some(parent) = parent {
        args.extend(["-p", parent]);
    }
    args.extend(["-F", "-"]);
    let date = format!("@{} +0000", request.time_s);
    let output = git.run(&args, request.message.as_bytes(), &identity(request, &date))?;
    Ok(Some(git.expect_ok("commit-tree", output)?.line()))
}

fn identity<'a>(request: CommitRequest<'a>, date: &'a str) -> [(&'static str, &'a OsStr); 6] {
    let (name, email) = (OsStr::new(&request.author.name), OsStr::new(&request.author.email));
    [
        ("GIT_AUTHOR_NAME", name),
        ("GIT_AUTHOR_EMAIL", email),
        ("GIT_AUTHOR_DATE", OsStr::new(date)),
        ("GIT_COMMITTER_NAME", name),
        ("GIT_COMMITTER_EMAIL", email),
        ("GIT_COMMITTER_DATE", OsStr::new(date)),
    ]
}

type IndexEntry = (CanonicalPath, Option<(&'static str, String)>);

/// Stores the merged contents, filters off, and answers mode and object of each path; none to remove.
fn write_blobs(git: &Git, operation: &Operation, scratch: &Path) -> Result<Vec<IndexEntry>> {
    let io = |e: std::io::Error| {
        Error::new(codes::OPERATION_DAMAGED, format!("cannot use `{}`", scratch.display())).why(e)
    };
    let mut names = Vec::new();
    let mut paths = Vec::new();
    for (number, (path, entry)) in operation.record.results.iter().enumerate() {
        let mode = entry.as_ref().and_then(Entry::git_mode);
        if let (Some(entry), Some(_)) = (entry, mode) {
            let bytes = match entry {
                Entry::Symlink { target } => target.clone().into_bytes(),
                _ => operation.content(entry)?,
            };
            let file = scratch.join(format!("content-{number}"));
            std::fs::write(&file, bytes).map_err(io)?;
            if let Some(owner) = git.run_as() {
                chown(&file, Some(owner.uid), Some(owner.gid)).map_err(io)?;
            }
            names.extend_from_slice(file.as_os_str().as_encoded_bytes());
            names.push(b'\n');
        }
        paths.push((git.repository_path(path)?, mode));
    }
    if scratch.as_os_str().as_encoded_bytes().contains(&b'\n') {
        return Err(Error::new(codes::REPOSITORY_BUSY, "cannot commit in this repository")
            .why("the name of its directory holds a line feed"));
    }
    let output = git.run(&["hash-object", "-w", "--no-filters", "--stdin-paths"], &names, &[])?;
    let output = git.expect_ok("hash-object", output)?.line();
    let mut objects = output.lines().map(str::to_owned);
    let mut entries = Vec::new();
    for (path, mode) in paths {
        let entry = match mode {
            None => None,
            Some(mode) => Some((
                mode,
                objects.next().ok_or_else(|| {
                    Error::new(
                        codes::OPERATION_DAMAGED,
                        "git stored fewer contents than it was given",
                    )
                })?,
            )),
        };
        entries.push((path, entry));
    }
    Ok(entries)
}

/// Input of `update-index -z --index-info`, removals first so that a directory can take a file's place.
fn index_info<'a>(
    git: &Git,
    entries: impl Iterator<Item = (&'a CanonicalPath, Option<&'a (&'static str, String)>)>,
) -> Result<Vec<u8>> {
    let format = git.run(&["rev-parse", "--show-object-format"], b"", &[])?;
    let zeros = "0".repeat(if format.line() == "sha256" { 64 } else { 40 });
    let (mut removals, mut additions) = (Vec::new(), Vec::new());
    for (path, entry) in entries {
        match entry {
            None => removals.extend_from_slice(format!("0 {zeros}\t{path}\0").as_bytes()),
            Some((mode, object)) => {
                additions.extend_from_slice(format!("{mode} {object}\t{path}\0").as_bytes());
            }
        }
    }
    removals.extend(additions);
    Ok(removals)
}

/// Moves the branch from `parent` to the commit, unless it is there, or beyond, already.
fn move_branch(
    git: &Git,
    request: CommitRequest<'_>,
    id: &str,
    parent: Option<&str>,
    branch: Option<&str>,
) -> Result<()> {
    let name = branch.unwrap_or("HEAD");
    let now = git.run(&["rev-parse", "-q", "--verify", &format!("{name}^{{commit}}")], b"", &[])?;
    let now = (now.code == 0).then(|| now.line());
    if let Some(now) = &now
        && git.run(&["merge-base", "--is-ancestor", id, now], b"", &[])?.code == 0
    {
        return Ok(());
    }
    let zeros = "0".repeat(id.len());
    let date = format!("@{} +0000", request.time_s);
    let subject = request.message.lines().next().unwrap_or_default();
    let note = format!("glasshouse merge: {subject}");
    let mut args = vec!["update-ref", "-m", note.as_str()];
    if branch.is_none() {
        args.push("--no-deref");
    }
    args.extend([name, id, parent.unwrap_or(&zeros)]);
    let output = git.run(&args, b"", &identity(request, &date))?;
    if output.code == 0 {
        return Ok(());
    }
    if now.as_deref() == parent {
        // The branch did not move, so something held it.
        return Err(Error::new(codes::REPOSITORY_BUSY, format!("cannot move {name}"))
            .why(output.stderr.trim()));
    }
    Err(Error::new(codes::HEAD_MOVED, "the merged files were not committed")
        .why(format!("{name} is at {}", now.as_deref().unwrap_or("no commit")))
        .with("commit", id))
}

/// Tells the user's index the merged paths as the commit has them; other entries stay.
fn refresh_index(git: &Git, operation: &Operation, id: &str) -> Result<()> {
    let output = git.run(&["ls-tree", "-r", "-z", "--full-tree", id], b"", &[])?;
    let listing = git.expect_ok("ls-tree", output)?.stdout;
    // Lines of `mode type object<tab>path`.
    let committed: HashMap<&[u8], &[u8]> = listing
        .split(|byte| *byte == 0)
        .filter_map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            Some((&line[tab + 1..], line[..tab].rsplit(|byte| *byte == b' ').next()?))
        })
        .collect();
    let mut entries: Vec<IndexEntry> = Vec::new();
    for (path, entry) in &operation.record.results {
        let path = git.repository_path(path)?;
        let mode = entry.as_ref().and_then(Entry::git_mode);
        let object = committed.get(path.as_str().as_bytes());
        let object = object.map(|object| String::from_utf8_lossy(object).into_owned());
        entries.push((path, mode.zip(object)));
    }
    let info = index_info(git, entries.iter().map(|(path, entry)| (path, entry.as_ref())))?;
    let args = ["update-index", "-z", "--add", "--replace", "--index-info"];
    let output = git.run(&args, &info, &[])?;
    if output.code != 0 {
        return Err(Error::new(
            codes::REPOSITORY_BUSY,
            "the commit is made, the index is not refreshed",
        )
        .why(output.stderr.trim())
        .with("commit", id));
    }
    Ok(())
}
