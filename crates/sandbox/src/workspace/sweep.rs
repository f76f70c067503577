//! Removing frozen bases that no workspace is above any more.
//!
//! A base is made once per content and used by every session that starts from it, so one is kept a
//! while after its last use: the next session on an unchanged project then copies nothing. What
//! workspaces are above is read from their records; what is being frozen right now is kept by a lock
//! and by its age.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Hold;
use super::beneath::io_failed;
use super::seal::base_dir_of;
use crate::error::Result;
use crate::tree::{remove_tree, used_bytes};

/// What unused bases may take.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// Kept at least this long after the last use: a workspace above it may just be being made.
    pub at_least: Duration,
    /// Kept no longer than this.
    pub at_most: Duration,
    /// Bytes on disk that all of them together may take; those unused the longest go first.
    pub bytes: u64,
}

impl Default for Keep {
    /// An hour, a week, 8 GiB.
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self { at_least: HOUR, at_most: HOUR * 24 * 7, bytes: 8 << 30 }
    }
}

/// Removes bases below `cache` that no workspace below `run` is above, within `keep`; with `dry_run`
/// only names them. Also what a process left that died while it made one.
///
/// # Errors
/// `workspace_io` when a directory or a workspace's record cannot be read: then nothing is removed.
pub fn sweep_bases(cache: &Path, run: &Path, keep: Keep, dry_run: bool) -> Result<Vec<PathBuf>> {
    if !cache.is_dir() {
        return Ok(Vec::new());
    }
    let in_use = in_use(run)?;
    let now = SystemTime::now();
    let mut unused = Vec::new();
    for path in children(cache)? {
        let Ok(meta) = path.symlink_metadata() else { continue };
        let age = meta.modified().ok().and_then(|time| now.duration_since(time).ok());
        // A time in the future, or none, says nothing: it counts as just used.
        let age = age.unwrap_or(Duration::ZERO);
        if meta.is_dir() && !in_use.has(&path, &meta) && age >= keep.at_least {
            unused.push((age, path));
        }
    }
    unused.sort();
    let (mut kept_bytes, mut removed) = (0_u64, Vec::new());
    for (age, path) in unused {
        let unfinished = !path.join("tree").is_dir() || !path.join("manifest.json").is_file();
        kept_bytes = kept_bytes.saturating_add(used_bytes(&path));
        if age < keep.at_most && kept_bytes <= keep.bytes && !unfinished {
            continue;
        }
        if dry_run || remove(cache, &path, keep)? {
            removed.push(path);
        }
    }
    Ok(removed)
}

/// Takes a base out of its place under the lock that [`super::freeze()`] looks it up under, then
/// removes it. `false`: it was used meanwhile.
fn remove(cache: &Path, path: &Path, keep: Keep) -> Result<bool> {
    let Some(lock) = Hold::alone(cache)? else { return Ok(false) };
    let modified = path.metadata().and_then(|meta| meta.modified());
    let age = modified.ok().and_then(|time| time.elapsed().ok()).unwrap_or(Duration::ZERO);
    if age < keep.at_least {
        return Ok(false);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("removing-{}-{name}", std::process::id()));
    let fail = |e: std::io::Error| io_failed("cannot remove", &path.display().to_string(), &e);
    let gone = if name.starts_with("removing-") { path } else { &aside };
    if gone == aside {
        std::fs::rename(path, &aside).map_err(fail)?;
    }
    drop(lock);
    remove_tree(gone).map_err(fail)?;
    Ok(true)
}

/// Bases that something is above. A record names its base by the path that its writer used, which may
/// lead through links, or be that of a data directory that has been moved since; so a base is known by
/// what it is and by its own name, which tells its content.
#[derive(Default)]
struct InUse {
    names: BTreeSet<OsString>,
    identities: BTreeSet<(u64, u64)>,
}

impl InUse {
    fn add(&mut self, base: &Path) {
        self.names.extend(base.file_name().map(ToOwned::to_owned));
        self.identities.extend(base.metadata().ok().map(|meta| (meta.dev(), meta.ino())));
    }

    fn has(&self, path: &Path, meta: &Metadata) -> bool {
        path.file_name().is_some_and(|name| self.names.contains(name))
            || self.identities.contains(&(meta.dev(), meta.ino()))
    }
}

/// The bases that workspaces below `run` are above.
fn in_use(run: &Path) -> Result<InUse> {
    let mut bases = InUse::default();
    for branch in children(run)? {
        for layer in children(&branch)? {
            if let Some(base) = base_dir_of(&layer)?.as_deref().and_then(Path::parent) {
                bases.add(base);
            }
        }
    }
    Ok(bases)
}

/// The directories in a directory, also behind links; none when it is gone.
fn children(dir: &Path) -> Result<Vec<PathBuf>> {
    let fail = |e: std::io::Error| io_failed("cannot read", &dir.display().to_string(), &e);
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fail)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fail)?;
        let path = entry.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::*;
    use crate::workspace::{FrozenBase, Marks, Owner, Workspace, freeze};

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn cache(&self) -> PathBuf {
            self.dir.path().join("cache")
        }

        fn run(&self) -> PathBuf {
            self.dir.path().join("run")
        }

        fn freeze(&self, text: &str) -> FrozenBase {
            let project = self.dir.path().join("project");
            std::fs::create_dir_all(&project).unwrap();
            std::fs::write(project.join("a"), text).unwrap();
            let me = std::fs::metadata("/proc/self").unwrap();
            freeze(&project, &self.cache(), Owner { uid: me.uid(), gid: me.gid() }).unwrap()
        }

        /// Makes it look as if it was last used so long ago.
        fn age(base: &FrozenBase, hours: u64) {
            let then = SystemTime::now() - Duration::from_secs(3600 * hours);
            let home = std::fs::File::open(base.dir.parent().unwrap()).unwrap();
            home.set_modified(then).unwrap();
        }

        fn sweep(&self, keep: Keep) -> usize {
            let named = sweep_bases(&self.cache(), &self.run(), keep, true).unwrap();
            let removed = sweep_bases(&self.cache(), &self.run(), keep, false).unwrap();
            assert_eq!(named, removed, "a dry run names what goes");
            removed.len()
        }
    }

    /// The failure: bases of projects that changed since stayed for ever, gigabytes of them.
    /// Now: what nothing is above goes by age and by size, and nothing else does.
    #[test]
    fn unused_bases_go_by_age_and_size() {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        let keep = Keep::default();
        let used_one = Arc::new(place.freeze("used"));
        let layer = place.run().join("b_x/layer-3");
        Workspace::create(used_one.clone(), &layer, Marks::User).unwrap();
        let (fresh, day, week) = (place.freeze("1"), place.freeze("2"), place.freeze("3"));
        for (base, hours) in [(&*used_one, 1000), (&fresh, 0), (&day, 24), (&week, 24 * 8)] {
            Place::age(base, hours);
        }
        let half_made = place.cache().join("building-1-0");
        std::fs::create_dir(&half_made).unwrap();
        assert_eq!(place.sweep(keep), 1);
        assert!(used_one.dir.exists() && fresh.dir.exists() && day.dir.exists());
        assert!(!week.dir.exists() && half_made.exists());
        let file = std::fs::File::open(&half_made).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
        assert_eq!(place.sweep(keep), 1);
        assert!(!half_made.exists());
        assert_eq!(place.sweep(Keep { bytes: 0, ..keep }), 1);
        assert!(used_one.dir.exists() && fresh.dir.exists() && !day.dir.exists());
        // Using a base makes it young again.
        Place::age(&fresh, 24 * 8);
        place.freeze("1");
        assert_eq!(place.sweep(keep), 0);
        std::fs::remove_dir_all(place.run()).unwrap();
        assert_eq!(place.sweep(keep), 1);
        assert!(!used_one.dir.exists());
    }

    /// The failure: a base was known by its path alone, so a sweep that came to the data directory by
    /// another path removed what unfinished work is above. Now: every way to a base keeps it.
    #[test]
    fn a_base_in_use_stays_whatever_path_leads_to_it() {
        type Change = fn(&Path, &FrozenBase) -> FrozenBase;
        let check = |what: &str, kept: bool, behind_link: bool, change: Change| {
            let place = Place { dir: tempfile::tempdir().unwrap() };
            let base = place.freeze("used");
            let above = Arc::new(change(place.dir.path(), &base));
            Workspace::create(above, &place.run().join("b_x/layer-3"), Marks::User).unwrap();
            if behind_link {
                let elsewhere = place.dir.path().join("elsewhere");
                std::fs::rename(place.run().join("b_x"), &elsewhere).unwrap();
                symlink(&elsewhere, place.run().join("b_x")).unwrap();
            }
            Place::age(&base, 1000);
            assert_eq!(place.sweep(Keep::default()), usize::from(!kept), "{what}");
            assert_eq!(base.dir.is_dir(), kept, "{what}");
        };
        check("the same path", true, false, |_, base| base.clone());
        check("a branch behind a link", true, true, |_, base| base.clone());
        check("a link to the data directory", true, false, |dir, base| {
            symlink(dir, dir.join("link")).unwrap();
            let below = base.dir.strip_prefix(dir).unwrap();
            FrozenBase { dir: dir.join("link").join(below), ..base.clone() }
        });
        check("a link to the base itself", true, false, |dir, base| {
            symlink(base.dir.parent().unwrap(), dir.join("alias")).unwrap();
            FrozenBase { dir: dir.join("alias/tree"), ..base.clone() }
        });
        check("a data directory that was moved", true, false, |_, base| {
            let name = base.dir.parent().unwrap().file_name().unwrap();
            let dir = Path::new("/nonexistent/cache").join(name).join("tree");
            FrozenBase { dir, ..base.clone() }
        });
        check("another base", false, false, |dir, base| FrozenBase {
            dir: dir.join("other/tree"),
            ..base.clone()
        });
    }

    #[test]
    fn a_record_that_cannot_be_read_stops_the_sweep() {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        let base = place.freeze("1");
        Place::age(&base, 1000);
        let layer = place.run().join("b_x/layer-3");
        std::fs::create_dir_all(&layer).unwrap();
        std::fs::write(layer.join("workspace.json"), "{").unwrap();
        sweep_bases(&place.cache(), &place.run(), Keep::default(), false).unwrap_err();
        assert!(base.dir.exists());
    }

    /// Two processes that sweep and freeze at once: a base is whole or absent, and what was just
    /// frozen is there.
    #[test]
    fn sweeping_and_freezing_at_once() {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        let keep = Keep { bytes: 0, ..Keep::default() };
        std::thread::scope(|scope| {
            let sweeper = scope.spawn(|| {
                for _ in 0..200 {
                    let _ = sweep_bases(&place.cache(), &place.run(), keep, false);
                }
            });
            while !sweeper.is_finished() {
                let base = place.freeze("same");
                assert_eq!(std::fs::read(base.dir.join("a")).unwrap(), b"same");
                Place::age(&base, 24);
            }
        });
    }
}
