//! Where projects may lie, looked at whenever one is used and not only when a session begins: what stood
//! there then may lead elsewhere by now, and whoever gave a tenant its directories may have
//! taken them back. A policy file that appears above a project, and a git directory that comes to lie in
//! it, count from the next use on.

mod git_dir;
mod whose;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glasshouse_model::CanonicalPath;
use glasshouse_sandbox::workspace::git::Git;

use super::Kernel;
use super::place::{is_within, real_path};
use crate::{Error, Result, codes};

pub use whose::check_project;

/// Tells below which directories projects may lie at the moment.
type Roots = dyn Fn() -> Vec<PathBuf> + Send + Sync;

/// Where projects may lie.
#[derive(Clone)]
pub(super) struct Grounds {
    /// The directories below which they may; everywhere unless somebody tells.
    roots: Option<Arc<Roots>>,
    /// The data directory, which holds samples at most.
    data: PathBuf,
}

impl Kernel {
    /// Lets projects lie only below the directories that `roots` tells, which is asked whenever a project is used. Its
    /// paths lead through no link.
    #[must_use]
    pub fn with_grounds(self, roots: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static) -> Self {
        let grounds = Grounds { roots: Some(Arc::new(roots)), ..self.grounds };
        Self { grounds, ..self }
    }
}

impl Grounds {
    /// Everywhere but in the data directory.
    pub(super) fn beside(data: &Path) -> Self {
        Self { roots: None, data: real_path(data) }
    }

    /// Names another data directory.
    pub(super) fn set_data(&mut self, data: &Path) {
        self.data = real_path(data);
    }

    /// Whether projects may lie in some places only.
    pub(super) const fn are_fenced(&self) -> bool {
        self.roots.is_some()
    }

    /// Checks that a project may be worked on: that [`Grounds::check_there`] and [`Grounds::check_own`] hold, and that
    /// its git directory is not among the files that are worked on.
    ///
    /// # Errors
    /// As these two; `git_directory_exposed`.
    pub(super) fn check(&self, project: &Path) -> Result<()> {
        self.check_there(project)?;
        self.check_own(project)?;
        let owner = project.metadata().map_err(|e| {
            Error::new(codes::PROJECT_UNREADABLE, format!("cannot work on {}", project.display()))
                .why(e)
        })?;
        git_dir::check(project, owner.uid())
    }

    /// Checks that a project, named without links, is one of its own: no other one's policy decides in it.
    ///
    /// # Errors
    /// `project_inside`, `project_unreadable`.
    pub(super) fn check_own(&self, project: &Path) -> Result<()> {
        let roots = self.roots.as_ref().map(|roots| roots());
        let may_tell = |dir: &Path| {
            roots.as_ref().is_none_or(|roots| roots.iter().any(|root| dir.starts_with(root)))
        };
        whose::check(project, &self.data, &may_tell)
    }

    /// Checks that a project is the directory it was when its session began, and that it and its
    /// repository lie where they may.
    ///
    /// # Errors
    /// `project_unreadable`, `project_elsewhere`; what git answers.
    pub(super) fn check_there(&self, project: &Path) -> Result<()> {
        let fail = |why: String| {
            Error::new(codes::PROJECT_UNREADABLE, format!("cannot work on {}", project.display()))
                .why(why)
        };
        let real = project.canonicalize().map_err(|e| fail(e.to_string()))?;
        if real != project {
            return Err(elsewhere(project, "a link stands in its way by now"));
        }
        let Some(roots) = &self.roots else { return Ok(()) };
        let roots = roots();
        let root = roots.iter().find(|root| project.starts_with(root)).ok_or_else(|| {
            elsewhere(project, "it does not lie below a directory that is open to this tenant")
        })?;
        let is_inside = |place: &Path| is_within(place, root).unwrap_or(false);
        match Git::discover(project)? {
            Some(git) if !git.stays_inside(&is_inside)? => {
                let why =
                    "its git repository leads out of the directories that are open to this tenant";
                Err(elsewhere(project, why))
            }
            _ => Ok(()),
        }
    }
}

fn elsewhere(project: &Path, why: &str) -> Error {
    Error::new(codes::PROJECT_ELSEWHERE, format!("cannot work on {}", project.display())).why(why)
}

/// Whether a link may lead out of the project that it is in: through `..` beyond the top, or after a name,
/// where what the name leads to decides what is above it.
pub(super) fn may_lead_out(link: &CanonicalPath, target: &str) -> bool {
    let depth = link.as_str().split('/').count() - 1;
    let parts: Vec<&str> = target.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let up = parts.iter().take_while(|part| **part == "..").count();
    target.starts_with('/') || up > depth || parts[up..].contains(&"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_inside_whatever_the_links_on_its_way_are() {
        let check = |link: &str, target: &str, out: bool| {
            let link = CanonicalPath::parse(link).unwrap();
            assert_eq!(may_lead_out(&link, target), out, "{link} -> {target}");
        };
        check("a", "b", false);
        check("a", "b/c", false);
        check("a", "./b//c/", false);
        check("d/a", "../b", false);
        check("d/e/a", "../../b", false);
        check("a", ".", false);
        check("a", "..", true);
        check("a", "../b", true);
        check("d/a", "../../b", true);
        check("d/a", "./.././../b", true);
        check("a", "/etc/passwd", true);
        check("a", "//etc", true);
        // `b` may itself be a link to the top.
        check("a", "b/..", true);
        check("d/a", "../b/../c", true);
    }
}
