//! A scratch project, an in-memory blob store, an overlay mount.

pub(crate) use crate::skips::skipped;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::Error;
use glasshouse_sandbox::codes;
use glasshouse_sandbox::workspace::{
    BlobStore, Entry, FrozenBase, Manifest, Marks, Owner, Workspace, freeze,
};
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

pub(crate) fn path(text: &str) -> CanonicalPath {
    CanonicalPath::parse(text).unwrap()
}

pub(crate) fn file(text: &str) -> Entry {
    Entry::File {
        executable: false,
        digest: Digest::of(text.as_bytes()),
        size_bytes: text.len() as u64,
    }
}

/// The test's own user: what it may give files to without being root.
pub(crate) fn own() -> Owner {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    Owner { uid: user.as_raw(), gid: group.as_raw() }
}

#[derive(Default)]
pub(crate) struct Blobs {
    pub(crate) map: RefCell<HashMap<Digest, Vec<u8>>>,
    pub(crate) puts: RefCell<usize>,
}

impl BlobStore for Blobs {
    fn put(&self, bytes: &[u8]) -> Result<Digest, Error> {
        *self.puts.borrow_mut() += 1;
        let digest = Digest::of(bytes);
        self.map.borrow_mut().insert(digest, bytes.to_vec());
        Ok(digest)
    }

    fn get(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        let found = self.map.borrow().get(digest).cloned();
        found.ok_or_else(|| Error::new(codes::WORKSPACE_DAMAGED, format!("no blob {digest}")))
    }
}

/// A project directory with a cache beside it.
pub(crate) struct Project {
    pub(crate) dir: TempDir,
}

impl Project {
    pub(crate) fn plain(files: &[(&str, &str)]) -> Self {
        let project = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(project.root()).unwrap();
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    pub(crate) fn git(files: &[(&str, &str)]) -> Self {
        let project = Self::plain(files);
        project.run_git(&["init", "-q", "-b", "main"]);
        project.run_git(&["config", "user.name", "T"]);
        project.run_git(&["config", "user.email", "t@example.org"]);
        project.run_git(&["add", "-A"]);
        project.run_git(&["commit", "-q", "--allow-empty", "-m", "start"]);
        project
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        write(&self.root(), name, text);
    }

    pub(crate) fn run_git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.root())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn freeze(&self) -> FrozenBase {
        self.try_freeze().unwrap()
    }

    pub(crate) fn try_freeze(&self) -> Result<FrozenBase, Error> {
        freeze(&self.root(), &self.dir.path().join("cache"), own())
    }

    pub(crate) fn workspace(&self) -> Workspace {
        self.workspace_with(Marks::Trusted)
    }

    pub(crate) fn workspace_with(&self, marks: Marks) -> Workspace {
        Workspace::create(Arc::new(self.freeze()), &self.dir.path().join("ws"), marks).unwrap()
    }
}

pub(crate) fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

pub(crate) fn names(manifest: &Manifest) -> Vec<&str> {
    manifest.iter().map(|(path, _)| path.as_str()).collect()
}

/// What a directory really holds, read with the standard library: the model to compare with.
pub(crate) fn snapshot(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, dir: &Path, out: &mut BTreeMap<String, String>) {
        let mut empty = true;
        for item in std::fs::read_dir(dir).unwrap() {
            empty = false;
            let path = item.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                walk(root, &path, out);
            } else if meta.is_symlink() {
                out.insert(name, format!("-> {}", std::fs::read_link(&path).unwrap().display()));
            } else {
                let mode = meta.permissions().mode() & 0o100;
                out.insert(name, format!("{mode:o} {}", std::fs::read_to_string(&path).unwrap()));
            }
        }
        if empty && dir != root {
            out.insert(dir.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), "dir".into());
        }
    }
    let mut out = BTreeMap::new();
    walk(root, root, &mut out);
    out
}

/// An overlay mounted for a test; unmounted on drop.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Mounts, or says why not.
    pub(crate) fn new(workspace: &Workspace, at: PathBuf) -> Result<Self, String> {
        let dirs = workspace.overlay_dirs();
        std::fs::create_dir_all(&at).unwrap();
        let lowers: Vec<_> = dirs.lowers.iter().map(|dir| dir.display().to_string()).collect();
        let options = format!(
            "lowerdir={},upperdir={},workdir={},{}",
            lowers.join(":"),
            dirs.upper.display(),
            dirs.work.display(),
            workspace.marks().mount_options(),
        );
        let options = CString::new(options).unwrap();
        rustix::mount::mount("overlay", &at, "overlay", MountFlags::empty(), options.as_c_str())
            .map_err(|e| e.to_string())?;
        Ok(Self(at))
    }

    pub(crate) fn at(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}
