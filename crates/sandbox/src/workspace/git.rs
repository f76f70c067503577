//! Git plumbing that runs nothing of the repository: no hook, filter, monitor, editor or helper.
//!
//! The environment is emptied, system and user configuration are off, the repository is named
//! outright (so no search and no `core.worktree` from its own file), and each key of the
//! repository's configuration that plumbing could execute is overridden. Only plumbing commands
//! are used, and contents enter with filters off. Two look-ups see the user's configuration, since
//! what `git status` says of a merge depends on it: [`Git::setting`] and [`Git::attributes`].

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use glasshouse_model::CanonicalPath;

use super::Owner;
use super::beneath::io_failed;
use crate::codes;
use crate::error::{Error, Result};
use crate::host::end_with_parent;

/// Where programs are looked for; the user's own `PATH` may name directories the project controls.
const SAFE_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Longest run of one git command. Plumbing on a large repository takes seconds.
const GIT_TIMEOUT: Duration = Duration::from_secs(120);
/// Most bytes read from one git command: about four million paths.
const MAX_GIT_OUTPUT_BYTES: u64 = 512 << 20;
/// Most bytes of git's error text that an error carries.
const MAX_GIT_ERROR_CHARS: usize = 500;

/// Configuration that wins over the repository's own. Each line is a key that could start a program
/// or change what plumbing reads.
const OVERRIDES: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.excludesFile=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.alternateRefsCommand=",
    "core.quotePath=false",
    "core.fsync=all",
    "core.logAllRefUpdates=true",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "diff.external=",
    "protocol.allow=never",
    "advice.detachedHead=false",
];

/// Settings of the user that no command may convert contents by; only the look-ups see them.
const CONVERSION: &[&str] = &["core.attributesFile=/dev/null", "core.autocrlf=false"];

/// Most files of a repository that are looked at for links.
const MAX_REPOSITORY_ENTRIES: usize = 1 << 20;
/// Most bytes of the list of repositories that one borrows from.
const MAX_ALTERNATES_BYTES: u64 = 64 << 10;

/// What a git command answered.
#[derive(Debug)]
pub struct GitOutput {
    /// Exit code; a command killed by a signal is an error instead.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
}

impl GitOutput {
    /// The output as one trimmed line.
    #[must_use]
    pub fn line(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }
}

/// The repository that a project directory belongs to.
#[derive(Debug, Clone)]
pub struct Git {
    work_tree: PathBuf,
    git_dir: PathBuf,
    prefix: Option<CanonicalPath>,
    run_as: Option<Owner>,
}

impl Git {
    /// Finds the repository of a directory, which may be below the repository's root. A `.git` that
    /// is a link, or belongs to another user than the project, is not trusted and not used.
    ///
    /// # Errors
    /// `git_failed` when the project's own `.git` is not trusted, `workspace_io` when the directory cannot be read, `path_unrepresentable` when the way from the
    /// repository's root to it has no canonical form.
    pub fn discover(project: &Path) -> Result<Option<Self>> {
        let fail = |path: &Path, e: &std::io::Error| {
            io_failed("cannot look at", &path.display().to_string(), e)
        };
        let project = project.canonicalize().map_err(|e| fail(project, &e))?;
        let owner = project.metadata().map_err(|e| fail(&project, &e))?;
        for dir in project.ancestors() {
            let git_dir = dir.join(".git");
            let Ok(found) = git_dir.symlink_metadata() else { continue };
            if found.is_symlink() || (found.uid() != owner.uid() && found.uid() != 0) {
                // Above the project it may be anyone's; in the project it is a repository whose ignore
                // rules would be lost, so that what they keep out would be taken.
                if dir != project {
                    continue;
                }
                return Err(failed("rev-parse", "`.git` is a link or belongs to another user")
                    .fix("give `.git` to the owner of the project directory"));
            }
            refuse_special_files(&git_dir)?;
            let below = project.strip_prefix(dir).expect("an ancestor is a prefix");
            let prefix = match below.to_str() {
                Some("") => None,
                Some(text) => Some(CanonicalPath::parse(text).map_err(|e| {
                    Error::new(codes::PATH_UNREPRESENTABLE, format!("cannot use `{text}`")).why(e)
                })?),
                None => {
                    return Err(Error::new(
                        codes::PATH_UNREPRESENTABLE,
                        format!("cannot use `{}`", below.display()),
                    )
                    .why("the name is not UTF-8"));
                }
            };
            let root = rustix::process::geteuid().is_root();
            let run_as =
                (root && owner.uid() != 0).then_some(Owner { uid: owner.uid(), gid: owner.gid() });
            return Ok(Some(Self { work_tree: dir.to_owned(), git_dir, prefix, run_as }));
        }
        Ok(None)
    }

    /// The repository's root directory.
    #[must_use]
    pub fn work_tree(&self) -> &Path {
        &self.work_tree
    }

    /// Where the project is below the repository's root; none when it is the root.
    #[must_use]
    pub fn prefix(&self) -> Option<&CanonicalPath> {
        self.prefix.as_ref()
    }

    /// A project path as the repository names it.
    ///
    /// # Errors
    /// `path_unrepresentable` when both together are too long.
    pub fn repository_path(&self, path: &CanonicalPath) -> Result<CanonicalPath> {
        let Some(prefix) = &self.prefix else { return Ok(path.clone()) };
        prefix.join(path.as_str()).map_err(|e| {
            Error::new(codes::PATH_UNREPRESENTABLE, format!("cannot use `{path}`")).why(e)
        })
    }

    /// The user that git runs as when it is not our own: what git writes must stay the project's.
    #[must_use]
    pub const fn run_as(&self) -> Option<Owner> {
        self.run_as
    }

    /// The same repository for commands that only read, run as ourselves: the project's owner may have
    /// no way into our own directories.
    #[must_use]
    pub fn for_reading(self) -> Self {
        Self { run_as: None, ..self }
    }

    /// The directory that holds this work tree's `HEAD` and index; differs from `.git` in a linked
    /// work tree.
    ///
    /// # Errors
    /// `git_failed`.
    pub fn directory(&self) -> Result<PathBuf> {
        let output = self.run(&["rev-parse", "--absolute-git-dir"], b"", &[])?;
        Ok(PathBuf::from(self.expect_ok("rev-parse", output)?.line()))
    }

    /// Whether every place on disk that it is made of is inside: its work tree, its own directory, the one that it
    /// shares with other work trees, where links in these lead, and those whose objects it borrows. What is not inside is
    /// not looked at.
    ///
    /// # Errors
    /// `git_failed`, also for a repository that is larger than can be looked through; `workspace_io`.
    pub fn stays_inside(&self, is_inside: &dyn Fn(&Path) -> bool) -> Result<bool> {
        let output = self.run(&["rev-parse", "--git-common-dir"], b"", &[])?;
        let common = PathBuf::from(self.expect_ok("rev-parse", output)?.line());
        // Relative to where git runs.
        let base = self
            .prefix
            .as_ref()
            .map_or_else(|| self.work_tree.clone(), |prefix| self.work_tree.join(prefix.as_str()));
        if !is_inside(&self.work_tree) {
            return Ok(false);
        }
        let mut places = vec![self.directory()?, base.join(common)];
        let (mut seen, mut left) = (HashSet::new(), MAX_REPOSITORY_ENTRIES);
        while let Some(place) = places.pop() {
            // A link that leads nowhere may lead anywhere later.
            let Some(place) = place.canonicalize().ok().filter(|place| is_inside(place)) else {
                return Ok(false);
            };
            if place.is_dir() && seen.insert(place.clone()) {
                links_below(&place, &mut left, &mut places)?;
                // Of the repository, or of one whose objects it borrows.
                for objects in [place.join("objects"), place] {
                    places.extend(borrowed(&objects)?);
                }
            }
        }
        Ok(true)
    }

    /// The current branch (`refs/heads/...`), none when detached, and the current commit, none before
    /// the first.
    ///
    /// # Errors
    /// `git_failed`.
    pub fn head(&self) -> Result<(Option<String>, Option<String>)> {
        let branch = self.run(&["symbolic-ref", "-q", "HEAD"], b"", &[])?;
        let commit = self.run(&["rev-parse", "-q", "--verify", "HEAD^{commit}"], b"", &[])?;
        let some = |output: &GitOutput| (output.code == 0).then(|| output.line());
        Ok((some(&branch), some(&commit)))
    }

    /// Runs a plumbing command in the project directory with `stdin` as input and `env` added to the
    /// otherwise fixed environment. A non-zero exit is an answer, not an error.
    ///
    /// # Errors
    /// `git_failed` when git is missing, is killed, runs too long or answers too much.
    pub fn run(&self, args: &[&str], stdin: &[u8], env: &[(&str, &OsStr)]) -> Result<GitOutput> {
        self.run_on(&self.work_tree, args, stdin, env)
    }

    /// As [`Git::run`], with another directory in place of the work tree's root.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn run_on(
        &self,
        work_tree: &Path,
        args: &[&str],
        stdin: &[u8],
        env: &[(&str, &OsStr)],
    ) -> Result<GitOutput> {
        let mut command = self.command(work_tree);
        command.env("HOME", "/nonexistent");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_ATTR_NOSYSTEM", "1");
        command.envs(env.iter().copied());
        for setting in CONVERSION {
            command.args(["-c", setting]);
        }
        self.finish(command, args, stdin)
    }

    /// What git converts contents by: a setting as the user's git sees it, system, user and repository
    /// files together. Reading it starts nothing.
    ///
    /// # Errors
    /// `git_failed`.
    pub fn setting(&self, key: &str) -> Result<Option<String>> {
        let command = Self::as_the_user(self.command(&self.work_tree));
        let output = self.finish(command, &["config", "--get", key], b"")?;
        // Exit 1 means that nothing sets it.
        if output.code == 1 {
            return Ok(None);
        }
        Ok(Some(self.expect_ok("config", output)?.line()))
    }

    /// The values of `attributes` for paths of the project, `unspecified` where nothing sets one, in
    /// the order asked: as the user's git sees them, with the `.gitattributes` of `work_tree`. Looking
    /// them up starts nothing.
    ///
    /// # Errors
    /// `git_failed`.
    pub fn attributes(
        &self,
        work_tree: &Path,
        attributes: &[&str],
        paths: &[&CanonicalPath],
    ) -> Result<Vec<Vec<String>>> {
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path.as_str().as_bytes());
            input.push(0);
        }
        let mut args = vec!["check-attr", "-z", "--stdin"];
        args.extend(attributes);
        let command = Self::as_the_user(self.command(work_tree));
        let output = self.expect_ok("check-attr", self.finish(command, &args, &input)?)?.stdout;
        // Path, attribute and value, each ended by a NUL.
        let values: Vec<_> = output
            .split(|byte| *byte == 0)
            .skip(2)
            .step_by(3)
            .map(|value| String::from_utf8_lossy(value).into_owned())
            .collect();
        if values.len() != paths.len() * attributes.len() {
            return Err(failed("check-attr", "it answered for other paths than were asked for"));
        }
        Ok(values.chunks(attributes.len().max(1)).map(<[String]>::to_vec).collect())
    }

    /// A command on this repository with an empty environment, nothing of the user's in it.
    fn command(&self, work_tree: &Path) -> Command {
        let directory = match &self.prefix {
            Some(prefix) => work_tree.join(prefix.as_str()),
            None => work_tree.to_owned(),
        };
        let mut command = Command::new("git");
        command.env_clear().current_dir(directory);
        command.env("PATH", SAFE_PATH).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1");
        command.env("GIT_NO_REPLACE_OBJECTS", "1");
        command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", work_tree);
        command.arg("--no-pager");
        for setting in OVERRIDES {
            command.args(["-c", setting]);
        }
        command
    }

    /// Lets a command that only looks something up see the user's own configuration.
    fn as_the_user(mut command: Command) -> Command {
        for name in ["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    fn finish(&self, mut command: Command, args: &[&str], stdin: &[u8]) -> Result<GitOutput> {
        command.arg("-c").arg(format!("safe.directory={}", self.work_tree.display()));
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(Owner { uid, gid }) = self.run_as {
            command.uid(uid).gid(gid);
        }
        let name = args.first().copied().unwrap_or("");
        // One that waits, for a pipe where it reads a file, does not outlast us.
        end_with_parent(&mut command);
        let child = command.spawn().map_err(|e| failed(name, &e.to_string()))?;
        converse(child, stdin).map_err(|why| failed(name, &why))
    }

    /// Turns a non-zero exit into `git_failed`.
    ///
    /// # Errors
    /// `git_failed` with git's own words.
    pub fn expect_ok(&self, name: &str, output: GitOutput) -> Result<GitOutput> {
        if output.code == 0 { Ok(output) } else { Err(failed(name, output.stderr.trim())) }
    }
}

/// Most bytes of a file that names a directory or a branch.
const MAX_NAME_BYTES: u64 = 4_096;

/// Whether a directory is what git takes for a git directory, whatever its name is: its `HEAD` names a branch or a
/// commit, and `objects` and `refs` are directories, here or in the directory that it shares with other work trees.
#[must_use]
pub fn is_git_directory(dir: &Path) -> bool {
    let first = |name: &str| -> Option<String> {
        let file = dir.join(name);
        // Whoever opens a pipe waits for its other end.
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let opened = std::fs::File::open(file).ok()?;
        opened.take(MAX_NAME_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned())
    };
    let leads_to = |name: &str| {
        let link = dir.join(name).read_link().ok();
        link.is_some_and(|target| target.starts_with("refs"))
    };
    let names_something = |text: &str| match text.strip_prefix("ref:") {
        Some(branch) => branch.trim_start().starts_with("refs/"),
        None => text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
    };
    let is_head = leads_to("HEAD") || first("HEAD").is_some_and(|text| names_something(&text));
    let shared = first("commondir").map_or_else(|| dir.to_owned(), |other| dir.join(other));
    is_head && ["objects", "refs"].iter().all(|name| shared.join(name).is_dir())
}

/// Refuses a repository in which git would wait for ever, or read without end, where it expects a
/// file. `git_dir` may itself be a file that names a linked work tree's directory.
fn refuse_special_files(git_dir: &Path) -> Result<()> {
    for name in ["HEAD", "index", "config", "packed-refs", "shallow", "info/exclude"] {
        let Ok(found) = git_dir.join(name).metadata() else { continue };
        if !found.is_file() {
            return Err(failed("rev-parse", &format!("`.git/{name}` is no regular file"))
                .fix("repair the repository, or work on a clone of it"));
        }
    }
    Ok(())
}

/// The links below a directory.
fn links_below(directory: &Path, left: &mut usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let mut waiting = vec![directory.to_owned()];
    while let Some(at) = waiting.pop() {
        let fail = |e: &std::io::Error| io_failed("cannot look at", &at.display().to_string(), e);
        for entry in std::fs::read_dir(&at).map_err(|e| fail(&e))? {
            *left = left.checked_sub(1).ok_or_else(|| {
                failed("rev-parse", &format!("it has more than {MAX_REPOSITORY_ENTRIES} files"))
                    .fix("run `git gc` in it, which packs them")
            })?;
            let entry = entry.map_err(|e| fail(&e))?;
            let kind = entry.file_type().map_err(|e| fail(&e))?;
            if kind.is_symlink() {
                found.push(entry.path());
            } else if kind.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// The directories of objects that a directory of objects borrows from.
fn borrowed(objects: &Path) -> Result<Vec<PathBuf>> {
    let file = objects.join("info/alternates");
    let Ok(meta) = file.symlink_metadata() else { return Ok(Vec::new()) };
    if !meta.is_file() || meta.len() > MAX_ALTERNATES_BYTES {
        return Err(failed("rev-parse", "`objects/info/alternates` is no small regular file"));
    }
    let text = std::fs::read_to_string(&file)
        .map_err(|e| io_failed("cannot read", &file.display().to_string(), &e))?;
    Ok(text.lines().filter(|line| !line.starts_with('#')).map(|line| objects.join(line)).collect())
}

fn failed(name: &str, why: &str) -> Error {
    let why: String = why.chars().take(MAX_GIT_ERROR_CHARS).collect();
    Error::new(codes::GIT_FAILED, format!("`git {name}` failed")).why(why).with("command", name)
}

/// Feeds and drains a child at once, within the time and size limits.
fn converse(mut child: Child, input: &[u8]) -> Result<GitOutput, String> {
    let (mut stdin, stdout, stderr) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let drain = |pipe: Option<&mut dyn std::io::Read>| {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // A read error is an end: the exit code tells whether the answer is whole.
            let _ = pipe.take(MAX_GIT_OUTPUT_BYTES + 1).read_to_end(&mut bytes);
        }
        bytes
    };
    std::thread::scope(|scope| {
        let (done, finished) = mpsc::channel();
        scope.spawn(move || {
            if let Some(pipe) = stdin.as_mut() {
                // A child that stops reading early says so by its exit code.
                let _ = pipe.write_all(input);
            }
        });
        let errors = scope.spawn(move || {
            let mut pipe = stderr;
            drain(pipe.as_mut().map(|pipe| pipe as &mut dyn std::io::Read))
        });
        let output = scope.spawn(move || {
            let mut pipe = stdout;
            let bytes = drain(pipe.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
            let _ = done.send(());
            bytes
        });
        let in_time = finished.recv_timeout(GIT_TIMEOUT).is_ok();
        if !in_time {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|e| e.to_string())?;
        let stdout = output.join().map_err(|_| "the reader of its output failed")?;
        let stderr = errors.join().map_err(|_| "the reader of its errors failed")?;
        if !in_time {
            return Err(format!("it ran longer than {} s", GIT_TIMEOUT.as_secs()));
        }
        if stdout.len() as u64 > MAX_GIT_OUTPUT_BYTES {
            return Err(format!("it answered more than {MAX_GIT_OUTPUT_BYTES} bytes"));
        }
        let code = status.code().ok_or_else(|| format!("it was killed ({status})"))?;
        Ok(GitOutput { code, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
    })
}
