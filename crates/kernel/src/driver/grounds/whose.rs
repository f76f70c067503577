//! Whose a directory is. One policy file decides in a project, and paths in it are relative to the project's top:
//! a directory below the top is named as a project of its own only where no policy above it would be passed by.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use glasshouse_sandbox::workspace::git::is_git_directory;

use super::git_dir::is_top;
use crate::driver::place::real_path;
use crate::driver::rules::PROJECT_POLICY;
use crate::driver::start::canonical_project;
use crate::{Error, Result, codes};

/// Directories that nothing of a project writes to.
const RESERVED: [&str; 2] = [".git", ".glasshouse"];
/// Set where everybody may make files in a directory.
const WRITABLE_TO_ALL: u32 = 0o002;

/// Why a directory is no project of its own, and by which directory.
enum Inside<'a> {
    /// It is or lies in a directory of a reserved name.
    Reserved(&'a Path),
    /// It is or lies in a git directory of another name.
    Git(&'a Path),
    /// It lies below a directory with a policy file.
    Policy(&'a Path),
}

/// Checks that a directory, which leads through no link, is a project of its own: no part of a git directory or of
/// `.glasshouse`, and not below a directory whose policy file decides in it. The top of a git repository begins a
/// project whatever lies above. `data` is the data directory, which may have any name; `may_tell` says which
/// directories an error may name.
///
/// # Errors
/// `project_inside`, `project_unreadable`.
pub(super) fn check(project: &Path, data: &Path, may_tell: &dyn Fn(&Path) -> bool) -> Result<()> {
    let of_project = project.metadata().map_err(|e| {
        Error::new(codes::PROJECT_UNREADABLE, format!("cannot work on {}", project.display()))
            .why(e)
    })?;
    match inside(project, data, &of_project) {
        None => Ok(()),
        Some(inside) => Err(inside.told(project, may_tell)),
    }
}

fn inside<'a>(project: &'a Path, data: &Path, of_project: &Metadata) -> Option<Inside<'a>> {
    // Whether no top of a repository lies between.
    let mut is_one = true;
    // What the data directory holds are samples, and nothing else that is worked on.
    for dir in project.ancestors().take_while(|dir| !is_same(dir, data)) {
        if is_reserved(dir, of_project) {
            return Some(Inside::Reserved(dir));
        }
        // What is in `.git` counts where there is one, whatever lies beside it.
        let is_top = is_top(dir, of_project.uid());
        let head = dir.join("HEAD");
        let is_git = || is_git_directory(dir) && !is_a_strangers(dir, &head, of_project);
        if is_one && !is_top && is_git() {
            return Some(Inside::Git(dir));
        }
        if is_one && dir != project && has_policy(dir, data, of_project) {
            return Some(Inside::Policy(dir));
        }
        is_one = is_one && !is_top;
    }
    None
}

impl Inside<'_> {
    fn told(&self, project: &Path, may_tell: &dyn Fn(&Path) -> bool) -> Error {
        let (Self::Reserved(dir) | Self::Git(dir) | Self::Policy(dir)) = *self;
        let error =
            Error::new(codes::PROJECT_INSIDE, format!("cannot work on {}", project.display()));
        if !may_tell(dir) {
            return error
                .why("a directory above those that are open to this tenant decides there")
                .fix("whoever runs the server gives a tenant a directory that is a project of its own");
        }
        let shown = dir.display();
        match self {
            Self::Reserved(_) => error
                .why(format!("it is or lies in {shown}, which nothing of a project is written to"))
                .fix(format!("work in {}", dir.parent().unwrap_or(dir).display())),
            Self::Git(_) => error
                .why(format!("it is or lies in {shown}, which is a git directory"))
                .fix("work in a work tree of the repository"),
            Self::Policy(_) => error
                .why(format!(
                    "it lies below {shown}, and {PROJECT_POLICY} there is the policy that decides here, too"
                ))
                .fix(format!("work in {shown}: paths in its policy are relative to it")),
        }
    }
}

/// As [`Kernel`](crate::driver::Kernel) does, for whoever has none yet: whether a directory is a project of its own.
///
/// # Errors
/// `project_inside`, `project_unreadable`.
pub fn check_project(project: &Path, data: &Path) -> Result<()> {
    check(&canonical_project(project)?, &real_path(data), &|_| true)
}

/// Whether two paths lead to one directory, whatever links, mounts and spellings lie between.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Whether a directory has a reserved name, or stands where that name leads.
fn is_reserved(dir: &Path, of_project: &Metadata) -> bool {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return false };
    let leads_here =
        |reserved: &Path| is_same(dir, reserved) && !is_a_strangers(parent, reserved, of_project);
    RESERVED.iter().any(|reserved| name == *reserved || leads_here(&parent.join(reserved)))
}

/// Whether a directory above a project has a policy file, accepted or not. What cannot be looked at may be one.
fn has_policy(dir: &Path, data: &Path, of_project: &Metadata) -> bool {
    let is_missing = dir
        .join(PROJECT_POLICY)
        .symlink_metadata()
        .is_err_and(|e| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory));
    let own = dir.join(".glasshouse");
    // The data directory may have this name.
    !is_missing && !is_same(&own, data) && !is_a_strangers(dir, &own, of_project)
}

/// Whether anybody could have put this into a directory where everybody may, and nobody with a say in the project did.
fn is_a_strangers(dir: &Path, own: &Path, of_project: &Metadata) -> bool {
    let (Ok(above), Ok(own)) = (dir.metadata(), own.symlink_metadata()) else { return false };
    let with_a_say = [0, rustix::process::geteuid().as_raw(), of_project.uid(), above.uid()];
    above.mode() & WRITABLE_TO_ALL != 0 && !with_a_say.contains(&own.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn where_everybody_may_make_files_a_strangers_policy_decides_nothing() {
        // To give a file away takes the right to.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let check = |mode: u32, above: u32, own: u32, project: u32, refused: bool| {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().canonicalize().unwrap().join("top");
            let named = top.join("project");
            std::fs::create_dir_all(&named).unwrap();
            std::fs::create_dir(top.join(".glasshouse")).unwrap();
            std::fs::write(top.join(PROJECT_POLICY), "capabilities: []\n").unwrap();
            for (path, owner) in [(&top, above), (&top.join(".glasshouse"), own), (&named, project)]
            {
                chown(path, Some(owner), Some(owner)).unwrap();
            }
            std::fs::set_permissions(&top, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = check(&named, &dir.path().join("data"), &|_| true);
            let row = format!("{mode:o} {above} {own} {project}");
            let code = found.err().map(|error| error.code().to_owned());
            assert_eq!(code, refused.then(|| "project_inside".to_owned()), "{row}");
        };
        check(0o1777, 0, 1002, 1001, false);
        // Nor does what a stranger puts there lock a project.
        let locked = |owner: u32, make: &dyn Fn(&Path)| {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().canonicalize().unwrap().join("top");
            let named = top.join("project");
            std::fs::create_dir_all(&named).unwrap();
            make(&top);
            for entry in std::fs::read_dir(&top).unwrap() {
                std::os::unix::fs::lchown(entry.unwrap().path(), Some(owner), Some(owner)).unwrap();
            }
            chown(&named, Some(1001), Some(1001)).unwrap();
            std::fs::set_permissions(&top, std::fs::Permissions::from_mode(0o1777)).unwrap();
            super::check(&named, &dir.path().join("data"), &|_| true).is_err()
        };
        let link = |name: &'static str| {
            move |top: &Path| std::os::unix::fs::symlink("project", top.join(name)).unwrap()
        };
        let bare = |top: &Path| {
            std::fs::create_dir(top.join("objects")).unwrap();
            std::fs::create_dir(top.join("refs")).unwrap();
            std::fs::write(top.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        };
        for (owner, expected) in [(1002, false), (0, true), (1001, true)] {
            assert_eq!(locked(owner, &link(".git")), expected, ".git by {owner}");
            assert_eq!(locked(owner, &link(".glasshouse")), expected, ".glasshouse by {owner}");
            assert_eq!(locked(owner, &bare), expected, "a git directory by {owner}");
        }
        // The controls: it is the owner's of the directory or the project, or nobody else could have made it.
        check(0o1777, 0, 0, 1001, true);
        check(0o1777, 0, 1001, 1001, true);
        check(0o1777, 1002, 1002, 1001, true);
        check(0o755, 0, 1002, 1001, true);
        check(0o775, 0, 1002, 1001, true);
    }
}
