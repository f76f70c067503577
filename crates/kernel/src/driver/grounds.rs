//! Where projects may lie, looked at whenever one is used and not only when a session begins: what stood
//! there then may lead elsewhere by now, and whoever gave a tenant its directories may have
//! taken them back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use glasshouse_model::CanonicalPath;
use glasshouse_sandbox::workspace::git::Git;

use super::Kernel;
use super::place::is_within;
use crate::{Error, Result, codes};

/// Tells below which directories projects may lie at the moment.
type Roots = dyn Fn() -> Vec<PathBuf> + Send + Sync;

/// The directories below which projects may lie; everywhere unless somebody tells.
#[derive(Clone, Default)]
pub(super) struct Grounds(Option<Arc<Roots>>);

impl Kernel {
    /// Lets projects lie only below the directories that `roots` tells, which is asked whenever a project is used. Its
    /// paths lead through no link.
    #[must_use]
    pub fn with_grounds(self, roots: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static) -> Self {
        Self { grounds: Grounds(Some(Arc::new(roots))), ..self }
    }
}

impl Grounds {
    /// Whether projects may lie in some places only.
    pub(super) const fn are_fenced(&self) -> bool {
        self.0.is_some()
    }

    /// Checks that a project is the directory it was when its session began, and that it and its
    /// repository lie where they may.
    ///
    /// # Errors
    /// `project_unreadable`, `project_elsewhere`; what git answers.
    pub(super) fn check(&self, project: &Path) -> Result<()> {
        let fail = |why: String| {
            Error::new(codes::PROJECT_UNREADABLE, format!("cannot work on {}", project.display()))
                .why(why)
        };
        let real = project.canonicalize().map_err(|e| fail(e.to_string()))?;
        if real != project {
            return Err(elsewhere(project, "a link stands in its way by now"));
        }
        let Some(roots) = &self.0 else { return Ok(()) };
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
