//! What a sandbox is made of: limits, workspace layers, mounts. Immutable after creation.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{CallList, Error, Result, Template, codes};

/// Longest sandbox id: it becomes part of a cgroup's name.
pub const MAX_ID_BYTES: usize = 64;

/// Most workspace layers: overlay options must fit one page, and lookups walk every layer.
pub const MAX_LAYERS: usize = 64;

/// Most additional mounts, far above what a repository's toolchains need.
pub const MAX_MOUNTS: usize = 128;

/// Where commands see the workspace.
pub const WORKSPACE: &str = "/workspace";

/// The home directory of commands: temporary, never the user's.
pub const HOME: &str = "/home/agent";

/// The workspace's overlay layers. All on disk belong to the user that runs Glasshouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverlayDirs {
    /// Read-only layers, top first; at least one.
    pub lowers: Vec<PathBuf>,
    /// Directory that takes every change.
    pub upper: PathBuf,
    /// Scratch directory of the overlay on the same file system as `upper`; what is in it is
    /// removed. One live sandbox at a time may use a pair of `upper` and `work`.
    pub work: PathBuf,
}

/// A host file or directory that commands may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadOnlyMount {
    /// Absolute host path in which no component is a symbolic link, so that what was decided on
    /// is what gets mounted.
    pub source: PathBuf,
    /// Absolute path inside.
    pub target: PathBuf,
}

/// A host directory that commands may change: caches and build outputs of one branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WritableMount {
    /// As [`ReadOnlyMount::source`]; owned by the user that runs Glasshouse.
    pub source: PathBuf,
    /// Absolute path inside.
    pub target: PathBuf,
}

/// Everything a sandbox is created from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Name, unique among live sandboxes: letters, digits, `-` and `_`.
    pub id: String,
    /// Limits.
    pub template: Template,
    /// Unpacked image whose programs commands use, instead of the host's; as
    /// [`ReadOnlyMount::source`].
    pub root: Option<PathBuf>,
    /// System calls of commands, instead of those of the template's profile.
    pub calls: Option<CallList>,
    /// Workspace layers; without them `/workspace` is an empty temporary directory.
    pub overlay: Option<OverlayDirs>,
    /// Read-only mounts, in order.
    pub mounts: Vec<ReadOnlyMount>,
    /// Writable mounts, after the read-only ones.
    pub caches: Vec<WritableMount>,
    /// Environment of every command; a command's own entries win.
    pub env: Vec<(String, String)>,
}

impl SandboxSpec {
    /// A sandbox with these limits, an empty workspace and no mounts.
    #[must_use]
    pub fn new(id: impl Into<String>, template: Template) -> Self {
        Self {
            id: id.into(),
            template,
            root: None,
            calls: None,
            overlay: None,
            mounts: Vec::new(),
            caches: Vec::new(),
            env: Vec::new(),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |what: String, why: &str| Err(Error::new(codes::SPEC_INVALID, what).why(why));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if self.id.is_empty() || self.id.len() > MAX_ID_BYTES || !self.id.bytes().all(plain) {
            return refuse(
                format!("`{}` is no sandbox id", self.id.escape_debug()),
                "an id is 1 to 64 letters, digits, `-` and `_`",
            );
        }
        if let Some(root) = self.root.as_ref().filter(|root| !is_plain_absolute(root)) {
            return refuse(
                format!("{} cannot be the root", root.display()),
                "an image's directory is an absolute path without `.` and `..`",
            );
        }
        if self.mounts.len() + self.caches.len() > MAX_MOUNTS {
            return refuse("too many mounts".into(), "at most 128 fit one sandbox");
        }
        let layers = self.overlay.as_ref().map_or(1, |overlay| overlay.lowers.len());
        if layers == 0 || layers > MAX_LAYERS {
            return refuse("wrong number of layers".into(), "a workspace has 1 to 64 layers");
        }
        let mounts = self.mounts.iter().map(|mount| (&mount.source, &mount.target));
        let caches = self.caches.iter().map(|mount| (&mount.source, &mount.target));
        for (source, target) in mounts.chain(caches) {
            if !is_plain_absolute(source) {
                return refuse(
                    format!("cannot mount {}", source.display()),
                    "a mount source is an absolute path without `.` and `..`",
                );
            }
            if !is_plain_absolute(target) || RESERVED.iter().any(|at| target.starts_with(at)) {
                return refuse(
                    format!("cannot mount at {}", target.display()),
                    "a target is an absolute path outside /proc, /dev, /etc and not the root, \
                     the workspace or the home directory itself",
                );
            }
            if [Path::new(WORKSPACE), Path::new(HOME), Path::new("/tmp")].contains(&&**target) {
                return refuse(
                    format!("cannot mount at {}", target.display()),
                    "the workspace, home and temporary directories are made by the sandbox",
                );
            }
        }
        Ok(())
    }
}

/// What a mount may not cover: the kernel's views and the identity files.
const RESERVED: [&str; 3] = ["/proc", "/dev", "/etc"];

fn is_plain_absolute(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir)
        && path.as_os_str().len() > 1
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TemplateName;

    #[test]
    fn specs_that_would_surprise_are_refused() {
        let check = |change: &dyn Fn(&mut SandboxSpec), ok: bool| {
            let mut spec = SandboxSpec::new("s1", TemplateName::CodeExecutor.template());
            change(&mut spec);
            let outcome = spec.check();
            assert_eq!(outcome.is_ok(), ok, "{spec:?}: {outcome:?}");
        };
        let at = |source: &str, target: &str| ReadOnlyMount {
            source: source.into(),
            target: target.into(),
        };
        check(&|_| {}, true);
        check(&|s| s.id = String::new(), false);
        check(&|s| s.id = "../x".into(), false);
        check(&|s| s.id = "x".repeat(65), false);
        check(&|s| s.mounts = vec![at("/opt/a", "/opt/a")], true);
        check(&|s| s.mounts = vec![at("/opt/a", "/workspace/node_modules")], true);
        check(&|s| s.root = Some("/srv/image".into()), true);
        check(&|s| s.root = Some("image".into()), false);
        check(&|s| s.root = Some("/srv/../image".into()), false);
        check(&|s| s.root = Some("/".into()), false);
        check(&|s| s.mounts = vec![at("opt/a", "/opt/a")], false);
        check(&|s| s.mounts = vec![at("/opt/../root", "/opt/a")], false);
        check(&|s| s.mounts = vec![at("/opt/a", "/")], false);
        check(&|s| s.mounts = vec![at("/opt/a", "/proc/self")], false);
        check(&|s| s.mounts = vec![at("/opt/a", "/dev/null")], false);
        check(&|s| s.mounts = vec![at("/opt/a", "/etc/passwd")], false);
        check(&|s| s.mounts = vec![at("/opt/a", "/workspace")], false);
        check(&|s| s.mounts = vec![at("/opt/a", "/home/agent")], false);
        check(&|s| s.mounts = vec![at("/opt/a", "/home/agent/../../x")], false);
        check(&|s| s.mounts = vec![at("/opt/a", "/opt/a"); 129], false);
    }
}
