//! Recording a merge in git, by plumbing alone.
//!
//! The tree is the last commit's with the change set's edits brought onto it, built in an index of its
//! own. All of it happens under the index's lock, from reading the last commit until the index knows
//! the new one. The commit is recorded in the operation log before the branch moves. If the branch
//! moved meanwhile, the commit is built again on what it is at now. What cannot be committed is taken
//! out of the project again: nothing stays applied and not committed.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Instant;

use glasshouse_sandbox::workspace::git::{Git, GitOutput};
use glasshouse_sandbox::workspace::{Entry, Owner};

use super::apply::{Interrupt, take_back};
use super::busy::{self, IndexLock, expect_at_rest};
use super::conflict::conflict_error;
use super::oplog::{Fact, Operation, OperationDir};
use super::repository::{Resolved, Side, resolve};
use crate::codes;
use crate::{Error, Result};

/// Most times a commit is built because the branch moved while it was.
const MAX_ATTEMPTS: usize = 8;

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

/// Commits exactly the edits of an applied merge. A second call finds the first one's commit.
///
/// # Errors
/// `operation_invalid` when the merge was not applied. With the following ones the merge is taken back,
/// and a second call answers the same: `head_moved` when the project is on another branch,
/// `merge_conflict` when the last commit or the index has something else where the edits go,
/// `repository_busy` in the middle of a merge or rebase or under a lock that stays, `git_failed`.
/// `merge_incomplete` names files that could not be taken back; the same call tries it again.
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
    if let Some(cause) = operation.going_back() {
        return Err(take_back(project, operation, cause.into_error(), interrupt));
    }
    let (Some(git), Some((branch, _))) = (Git::discover(project)?, operation.record.head.clone())
    else {
        return Ok(Committed::NoRepository);
    };
    let mut work = Work { git, request, branch, operation: &mut operation, moved: false };
    match work.run(interrupt) {
        Ok(committed) => Ok(committed),
        Err(error) if work.moved => Err(error),
        Err(error) => Err(take_back(project, operation, error, interrupt)),
    }
}

/// A commit being made.
struct Work<'a> {
    git: Git,
    request: CommitRequest<'a>,
    branch: Option<String>,
    operation: &'a mut Operation,
    /// Whether the branch has the commit: from then on nothing goes back.
    moved: bool,
}

/// What trying to move the branch came to.
enum Move {
    Done,
    /// The branch is at another commit by now.
    Raced,
    /// Something holds the branch.
    Held(Error),
}

impl Work<'_> {
    fn run(&mut self, interrupt: Interrupt<'_>) -> Result<Committed> {
        let made = self.made();
        if self.operation.facts().contains(&Fact::Committed) {
            let branch = self.branch.clone();
            return Ok(
                made.map_or(Committed::NothingToCommit, |id| Committed::Commit { id, branch })
            );
        }
        let directory = self.git.directory()?;
        let scratch = Scratch::new(&self.git, &directory, &self.operation.record.tag)?;
        let mark = format!("glasshouse {}\n", self.operation.record.tag);
        let marked = scratch.write("mark", mark.as_bytes())?;
        let lock = IndexLock::take(&directory, &marked, &mark)?;
        let committed = self.locked(&directory, &scratch, interrupt);
        lock.release();
        committed
    }

    /// The commit that was recorded last, whether or not the branch has it.
    fn made(&self) -> Option<String> {
        let facts = self.operation.facts().iter().rev();
        facts.into_iter().find_map(|fact| match fact {
            Fact::Commit { id, .. } => Some(id.clone()),
            _ => None,
        })
    }

    fn locked(
        &mut self,
        directory: &Path,
        scratch: &Scratch,
        interrupt: Interrupt<'_>,
    ) -> Result<Committed> {
        if let Some(id) = self.made()
            && self.is_in_branch(&id)?
        {
            self.moved = true;
            // What the user staged since stays as it is.
            if let Ok(staged) = self.resolved(Side::Index)? {
                let index = self.new_index(directory, scratch, &staged)?;
                self.settle(directory, index.as_deref(), interrupt)?;
            } else {
                self.settle(directory, None, interrupt)?;
            }
            return Ok(Committed::Commit { id, branch: self.branch.clone() });
        }
        let deadline = busy::deadline();
        for _ in 0..MAX_ATTEMPTS {
            expect_at_rest(directory)?;
            let (branch, parent) = self.git.head()?;
            if branch != self.branch {
                return Err(self.on_another(branch.as_deref()));
            }
            let commit = Side::Commit(parent.as_deref());
            let committed =
                self.resolved(commit)?.map_err(|conflicts| conflict_error(&conflicts))?;
            let staged = self.resolved(Side::Index)?.map_err(|found| conflict_error(&found))?;
            interrupt("build commit")?;
            let index = self.new_index(directory, scratch, &staged)?;
            let Some(id) = self.build(scratch, parent.as_deref(), &committed)? else {
                self.settle(directory, index.as_deref(), interrupt)?;
                return Ok(Committed::NothingToCommit);
            };
            interrupt("note commit")?;
            let fact = Fact::Commit { id: id.clone(), parent: parent.clone(), branch };
            self.operation.note(fact)?;
            interrupt("move branch")?;
            match self.move_branch(&id, parent.as_deref(), deadline)? {
                Move::Raced => continue,
                Move::Held(error) => return Err(error),
                Move::Done => {}
            }
            self.moved = true;
            self.settle(directory, index.as_deref(), interrupt)?;
            return Ok(Committed::Commit { id, branch: self.branch.clone() });
        }
        Err(busy::busy(format!("the branch moved during each of {MAX_ATTEMPTS} attempts")))
    }

    /// Puts the new index in place and records the end.
    fn settle(
        &mut self,
        directory: &Path,
        index: Option<&Path>,
        interrupt: Interrupt<'_>,
    ) -> Result<()> {
        interrupt("refresh index")?;
        if let Some(index) = index {
            std::fs::rename(index, directory.join("index")).map_err(|e| {
                let error = Error::new(codes::REPOSITORY_BUSY, "the index cannot be written");
                error.why(e).fix("the commit is made; `git reset` brings the index up to it")
            })?;
        }
        interrupt("note committed")?;
        self.operation.note(Fact::Committed)
    }

    fn on_another(&self, now: Option<&str>) -> Error {
        let then = self.branch.as_deref().unwrap_or("no branch");
        Error::new(codes::HEAD_MOVED, "the project is on another branch")
            .why(format!("the merge began on {then}, now it is {}", now.unwrap_or("no branch")))
    }

    fn resolved(&self, side: Side<'_>) -> Result<Result<Resolved, Vec<super::Conflict>>> {
        let edits = self.operation.record.edits.as_deref().unwrap_or_default();
        resolve(&self.git, side, edits, &|entry: &Entry| self.operation.content(entry))
    }

    /// Whether the branch is at a commit, or beyond it.
    fn is_in_branch(&self, id: &str) -> Result<bool> {
        let name = self.branch.as_deref().unwrap_or("HEAD");
        let args = ["merge-base", "--is-ancestor", id, name];
        Ok(self.git.run(&args, b"", &[])?.code == 0)
    }

    /// The user's index with the edits; none when there is none and nothing to put into it.
    fn new_index(
        &self,
        directory: &Path,
        scratch: &Scratch,
        staged: &Resolved,
    ) -> Result<Option<PathBuf>> {
        let users = directory.join("index");
        let read = || std::fs::read(&users).and_then(|b| Ok((b, users.metadata()?.modified()?)));
        let index = match read() {
            Ok((bytes, modified)) => {
                let copy = scratch.write("index-of-user", &bytes)?;
                // Git takes a file that is no older than the index for possibly changed.
                let touched = File::options().write(true).open(&copy);
                let touched = touched.and_then(|file| file.set_modified(modified));
                touched.map_err(|e| unusable(&copy, &e))?;
                copy
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => scratch.0.join("index-of-user"),
            Err(e) => return Err(busy::busy(format!("cannot read the index: {e}"))),
        };
        self.fill(scratch, &index, staged)?;
        Ok(index.exists().then_some(index))
    }

    /// Writes the commit; none when its tree would be the parent's.
    fn build(
        &self,
        scratch: &Scratch,
        parent: Option<&str>,
        paths: &Resolved,
    ) -> Result<Option<String>> {
        let index = scratch.0.join("index-of-commit");
        let run = |args: &[&str]| -> Result<GitOutput> {
            let output = self.git.run(args, b"", &[("GIT_INDEX_FILE", index.as_os_str())])?;
            Ok(self.git.expect_ok(args.first().copied().unwrap_or_default(), output)?)
        };
        let _ = std::fs::remove_file(&index);
        if let Some(parent) = parent {
            run(&["read-tree", parent])?;
        }
        self.fill(scratch, &index, paths)?;
        let tree = run(&["write-tree"])?.line();
        if let Some(parent) = parent {
            let old = run(&["rev-parse", "--verify", &format!("{parent}^{{tree}}")])?.line();
            if old == tree {
                return Ok(None);
            }
        }
        let mut args = vec!["commit-tree", tree.as_str()];
        if let Some(parent) = parent {
            args.extend(["-p", parent]);
        }
        args.extend(["-F", "-"]);
        let date = format!("@{} +0000", self.request.time_s);
        let identity = identity(self.request, &date);
        let output = self.git.run(&args, self.request.message.as_bytes(), &identity)?;
        Ok(Some(self.git.expect_ok("commit-tree", output)?.line()))
    }

    /// Gives paths their contents in an index file, removals first so that a directory can take a
    /// file's place.
    fn fill(&self, scratch: &Scratch, index: &Path, paths: &Resolved) -> Result<()> {
        let objects = self.write_objects(scratch, paths)?;
        let format = self.git.run(&["rev-parse", "--show-object-format"], b"", &[])?;
        let zeros = "0".repeat(if format.line() == "sha256" { 64 } else { 40 });
        let (mut info, mut additions) = (Vec::new(), Vec::new());
        let mut objects = objects.iter();
        for (path, stored) in paths {
            let path = self.git.repository_path(path)?;
            match stored {
                None => info.extend_from_slice(format!("0 {zeros}\t{path}\0").as_bytes()),
                Some(stored) => {
                    let object = objects.next().ok_or_else(|| {
                        Error::new(codes::OPERATION_DAMAGED, "git stored fewer contents than given")
                    })?;
                    let line = format!("{} {object}\t{path}\0", stored.mode);
                    additions.extend_from_slice(line.as_bytes());
                }
            }
        }
        info.extend(additions);
        let args = ["update-index", "-z", "--add", "--replace", "--index-info"];
        let output = self.git.run(&args, &info, &[("GIT_INDEX_FILE", index.as_os_str())])?;
        self.git.expect_ok("update-index", output)?;
        Ok(())
    }

    /// Stores contents, filters off, and answers their objects in path order.
    fn write_objects(&self, scratch: &Scratch, paths: &Resolved) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for (number, stored) in paths.values().flatten().enumerate() {
            let file = scratch.write(&format!("content-{number}"), &stored.bytes)?;
            names.extend_from_slice(file.as_os_str().as_encoded_bytes());
            names.push(b'\n');
        }
        let args = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
        let output = self.git.expect_ok("hash-object", self.git.run(&args, &names, &[])?)?;
        Ok(output.line().lines().map(str::to_owned).collect())
    }

    /// Moves the branch from `parent` to the commit; a lock on it is waited for.
    fn move_branch(&self, id: &str, parent: Option<&str>, deadline: Instant) -> Result<Move> {
        let name = self.branch.as_deref().unwrap_or("HEAD");
        let zeros = "0".repeat(id.len());
        let date = format!("@{} +0000", self.request.time_s);
        let subject = self.request.message.lines().next().unwrap_or_default();
        let note = format!("glasshouse merge: {subject}");
        let mut args = vec!["update-ref", "-m", note.as_str()];
        if self.branch.is_none() {
            args.push("--no-deref");
        }
        args.extend([name, id, parent.unwrap_or(&zeros)]);
        loop {
            let output = self.git.run(&args, b"", &identity(self.request, &date))?;
            if output.code == 0 {
                return Ok(Move::Done);
            }
            if self.git.head()? != (self.branch.clone(), parent.map(str::to_owned)) {
                return Ok(Move::Raced);
            }
            // It is where it was, so something holds it.
            let held = || busy::busy(format!("cannot move {name}: {}", output.stderr.trim()));
            if let Err(error) = busy::wait(deadline, held) {
                return Ok(Move::Held(error));
            }
        }
    }
}

/// A directory inside git's own, where git can read contents and keep an index whoever it runs as.
struct Scratch(PathBuf, Option<Owner>);

impl Scratch {
    fn new(git: &Git, directory: &Path, tag: &str) -> Result<Self> {
        if directory.as_os_str().as_encoded_bytes().contains(&b'\n') {
            return Err(busy::busy("the name of its directory holds a line feed".to_owned()));
        }
        let dir = directory.join(format!("glasshouse-{tag}"));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).map_err(|e| unusable(&dir, &e))?;
        let scratch = Self(dir, git.run_as());
        scratch.give(&scratch.0)?;
        Ok(scratch)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let file = self.0.join(name);
        std::fs::write(&file, bytes).map_err(|e| unusable(&file, &e))?;
        self.give(&file)?;
        Ok(file)
    }

    fn give(&self, path: &Path) -> Result<()> {
        let Some(owner) = self.1 else { return Ok(()) };
        chown(path, Some(owner.uid), Some(owner.gid)).map_err(|e| unusable(path, &e))
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    busy::busy(format!("cannot use `{}`: {error}", path.display()))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
