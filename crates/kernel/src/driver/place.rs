//! Which directory a path means, whatever links and mounts it is reached through.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A path without links, as far as it exists; the rest as it was named.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|at| {
            let rest = path.strip_prefix(at).ok()?;
            let real = at.canonicalize().ok()?;
            // Joining nothing would add a slash.
            Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
        })
        .unwrap_or_else(|| path.to_owned())
}

/// Whether `inner` is the directory `outer` or lies below it, by what the directories are: two paths of
/// one directory that a mount shows in two places count as the same.
///
/// # Errors
/// When a directory cannot be looked at; a caller takes that for what is safe.
pub(super) fn is_within(inner: &Path, outer: &Path) -> io::Result<bool> {
    let identity = |path: &Path| path.metadata().map(|meta| (meta.dev(), meta.ino()));
    let wanted = identity(outer)?;
    for at in inner.canonicalize()?.ancestors() {
        if identity(at)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(at.join("home/run/deep")).unwrap();
        symlink("home", at.join("link")).unwrap();
        symlink(at.join("link"), at.join("home/run/back")).unwrap();
        symlink("nowhere", at.join("dangling")).unwrap();
        (dir, at)
    }

    #[test]
    fn a_real_path_has_no_links_as_far_as_it_exists() {
        let (_dir, at) = tree();
        let check = |path: &str, expected: &str| {
            assert_eq!(real_path(&at.join(path)), at.join(expected), "{path}");
        };
        check("home", "home");
        check("link", "home");
        check("link/run/back/run", "home/run");
        check("link/none/deeper", "home/none/deeper");
        check("none", "none");
        check("dangling/x", "dangling/x");
        assert_eq!(real_path(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn a_directory_is_within_another_through_any_link() {
        let (_dir, at) = tree();
        let check = |inner: &str, outer: &str, expected: bool| {
            let within = is_within(&at.join(inner), &at.join(outer)).ok();
            assert_eq!(within, Some(expected), "{inner} in {outer}");
        };
        for outer in ["home", "link", "home/run/back"] {
            check("home", outer, true);
            check("link/run/deep", outer, true);
            check("home/run/back/run", outer, true);
        }
        check("home", "link/run", false);
        check(".", "home", false);
        assert!(is_within(&at.join("none"), &at).is_err());
        assert!(is_within(&at, &at.join("none")).is_err());
    }
}
