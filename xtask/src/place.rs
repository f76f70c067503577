//! Where things are: the repository, the build folders, the cache outside the clone.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{Doing, Failure, capture};

/// The repository this command works on.
pub(crate) struct Place {
    root: PathBuf,
}

impl Place {
    /// The repository whose `xtask` is running.
    pub(crate) fn find() -> Result<Self, Failure> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .ok_or_else(|| Failure::new("start this as `cargo xtask`, it needs cargo's help"))?;
        let root = Path::new(&manifest).join("..");
        let root = root.canonicalize().doing("could not find the repository")?;
        Ok(Self { root })
    }

    /// The top folder of the repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The target folder that cargo uses for this repository.
    pub(crate) fn target(&self) -> PathBuf {
        match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => self.root.join(target),
            None => self.root.join("target"),
        }
    }

    /// Where CI keeps what is worth keeping between clones, always outside the clone.
    pub(crate) fn cache(&self) -> Result<PathBuf, Failure> {
        let cache = if let Some(target) = std::env::var_os("GLASSHOUSE_CI_TARGET") {
            let target = self.root.join(target);
            target.parent().unwrap_or(Path::new("/")).to_owned()
        } else if let Some(cache) = std::env::var_os("XDG_CACHE_HOME") {
            PathBuf::from(cache).join("glasshouse-ci")
        } else if let Some(home) = std::env::var_os("HOME") {
            PathBuf::from(home).join(".cache/glasshouse-ci")
        } else {
            return Err(Failure::new("set XDG_CACHE_HOME: there is no HOME to keep a cache in"));
        };
        if cache.starts_with(&self.root) {
            return Err(Failure::new(format!(
                "the cache folder {} is inside the clone; name one outside with \
                 GLASSHOUSE_CI_TARGET",
                cache.display()
            )));
        }
        Ok(cache)
    }

    /// Every file that git tracks or would track, as paths from the top with `/`, sorted. Links and
    /// files that are gone from the work tree are left out.
    pub(crate) fn files(&self) -> Result<Vec<String>, Failure> {
        let mut git = self.git();
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let mut names: Vec<String> = capture(&mut git)?
            .split_terminator('\0')
            .filter(|name| self.root.join(name).symlink_metadata().is_ok_and(|data| data.is_file()))
            .map(str::to_owned)
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// A cargo command for this repository.
    pub(crate) fn cargo(&self) -> Command {
        cargo(&self.root)
    }

    /// A git command for this repository.
    pub(crate) fn git(&self) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.root);
        without(&mut command, is_left_by_git);
        command
    }
}

/// A cargo command in a folder, free of what the outer cargo and git left in the environment: build
/// scripts that look at those variables would be run again and again, and tests that use git would
/// act on this repository when a hook runs them.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    without(&mut command, |name| is_left_by_cargo(name) || is_left_by_git(name));
    command
}

/// Removes the variables of our own environment that a predicate names.
pub(crate) fn without(command: &mut Command, unwanted: impl Fn(&str) -> bool) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(&unwanted) {
            command.env_remove(name);
        }
    }
}

fn is_left_by_cargo(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || matches!(name, "CARGO_BIN_NAME" | "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE")
}

fn is_left_by_git(name: &str) -> bool {
    matches!(name, "GIT_DIR" | "GIT_WORK_TREE" | "GIT_INDEX_FILE" | "GIT_PREFIX" | "GIT_COMMON_DIR")
}

/// A private folder that is removed when the value is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a new one; an existing folder is never taken over.
    pub(crate) fn new(purpose: &str) -> Result<Self, Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("glasshouse-{purpose}-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .doing(format_args!("could not make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("warning: {} was left behind: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_is_private_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new("test").expect("makes a folder");
        let path = scratch.path().to_owned();
        let mode = path.metadata().expect("exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_cargo_and_git_leave_behind_is_removed_and_nothing_else() {
        for (name, removed) in [
            ("CARGO_PKG_NAME", true),
            ("CARGO_MANIFEST_DIR", true),
            ("GIT_DIR", true),
            ("GIT_INDEX_FILE", true),
            ("CARGO_TARGET_DIR", false),
            ("CARGO_HOME", false),
            ("GIT_SSH_COMMAND", false),
            ("PATH", false),
        ] {
            assert_eq!(is_left_by_cargo(name) || is_left_by_git(name), removed, "{name}");
        }
    }
}
