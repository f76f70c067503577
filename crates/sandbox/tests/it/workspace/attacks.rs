//! Commands in a sandbox attack the layer that their changes lie in: what they leave there must mean
//! nothing to the overlay that is mounted next, and nothing to the owner who reads it outside.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use glasshouse_sandbox::workspace::{Entry, Marks, SpecialKind, Workspace, materialise};
use glasshouse_sandbox::{Sandbox, SandboxSpec, TemplateName};

use super::util::{Blobs, Project, skipped, snapshot};
use crate::support::{Home, is_root, shell};

fn marks() -> Marks {
    if is_root() { Marks::Trusted } else { Marks::User }
}

/// A workspace with some files, and a sandbox that works in it.
struct Scene {
    home: Home,
    project: Project,
    workspace: Workspace,
}

impl Scene {
    fn new() -> Self {
        let project = Project::plain(&[("base.txt", "base\n"), ("dir/deep.txt", "deep\n")]);
        let workspace = project.workspace_with(marks());
        Self { home: Home::new(), project, workspace }
    }

    fn sandbox(&self) -> Sandbox {
        let mut spec = SandboxSpec::new("layer", TemplateName::CodeExecutor.template());
        spec.overlay = Some(self.workspace.overlay_dirs());
        self.home.host.create(&spec).unwrap()
    }

    fn base(&self) -> PathBuf {
        self.workspace.overlay_dirs().lowers[0].clone()
    }
}

/// Whiteouts and the attributes of layers hide and redirect what lies below. Made through the overlay
/// they would rewrite what the next mount and the next seal see.
#[test]
fn marks_of_a_layer_cannot_be_made_inside() {
    let name = "marks_of_a_layer_cannot_be_made_inside";
    if !Path::new("/usr/bin/python3").exists() {
        return skipped(name, "no python3 to make attributes with");
    }
    let scene = Scene::new();
    let attack = "/usr/bin/python3 - <<'P'\n\
        import os, stat\n\
        def attempt(what, act):\n\
        \x20try: act(); print('made', what)\n\
        \x20except OSError: print('refused', what)\n\
        open('dir/new.txt', 'w').close()\n\
        for space in ('user', 'trusted'):\n\
        \x20for mark, value in (('opaque', b'y'), ('redirect', b'/etc'), ('metacopy', b''), ('whiteout', b'y')):\n\
        \x20\x20attempt(space, lambda: os.setxattr('dir', f'{space}.overlay.{mark}', value))\n\
        attempt('whiteout', lambda: os.mknod('base.txt.away', stat.S_IFCHR | 0o600, 0))\n\
        P";
    let sandbox = scene.sandbox();
    let told = shell(&sandbox, attack).ok();
    sandbox.destroy().unwrap();
    assert!(!told.contains("made trusted") && !told.contains("made whiteout"), "{told}");

    // Whatever was made, files of the base are where they were: for the next sandbox and for the seal.
    let next = scene.sandbox();
    assert_eq!(
        shell(&next, "cat base.txt dir/deep.txt; ls dir").ok(),
        "base\ndeep\ndeep.txt\nnew.txt\n"
    );
    next.destroy().unwrap();
    let seal = scene.workspace.seal(&Blobs::default(), &scene.workspace.unchanged()).unwrap();
    let changed: Vec<&str> = seal.changed.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(changed, ["dir/new.txt"]);

    // The control: the same mark, made on the layer itself, hides the directory's files.
    let space = if is_root() { "trusted.overlay.opaque" } else { "user.overlay.opaque" };
    let upper = scene.workspace.overlay_dirs().upper.join("dir");
    rustix::fs::setxattr(upper, space, b"y", rustix::fs::XattrFlags::empty()).unwrap();
    let hidden = scene.sandbox();
    assert_eq!(shell(&hidden, "ls dir").ok(), "new.txt\n");
}

/// A second name for a file of the base, and a write through it.
#[test]
fn a_hard_link_does_not_reach_the_base() {
    let scene = Scene::new();
    let before = snapshot(&scene.base());
    let sandbox = scene.sandbox();
    shell(&sandbox, "ln base.txt twin && echo changed > twin && chmod 777 twin && cat twin").ok();
    sandbox.destroy().unwrap();
    assert_eq!(snapshot(&scene.base()), before);
    // The control: in a copy that shares files instead of layers the same write arrives.
    let shared = scene.project.dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(scene.project.dir.path().join("original"), "base\n").unwrap();
    fs::hard_link(scene.project.dir.path().join("original"), shared.join("base.txt")).unwrap();
    let script = "ln base.txt twin && echo changed > twin";
    let ran = std::process::Command::new("sh").args(["-c", script]).current_dir(&shared).status();
    assert!(ran.unwrap().success());
    let original = fs::read_to_string(scene.project.dir.path().join("original")).unwrap();
    assert_eq!(original, "changed\n");
}

/// Programs that give rights, devices, pipes and sockets stay in the layer: files that are taken out of
/// it, into a fork or a directory of the host, are plain.
#[test]
fn rights_and_devices_do_not_leave_the_layer() {
    let scene = Scene::new();
    let sandbox = scene.sandbox();
    let told = shell(
        &sandbox,
        "cp /bin/sh rights && chmod 6755 rights && mkdir -m 3777 shared && echo x > shared/file && \
         mkfifo pipe; mknod memory c 1 1 2>/dev/null && echo made; true",
    )
    .ok();
    sandbox.destroy().unwrap();
    assert_eq!(told, "", "a device was made");
    // The control: in the layer the program does carry the bits, and belongs to the layer's owner.
    let upper = scene.workspace.overlay_dirs().upper;
    assert_eq!(fs::metadata(upper.join("rights")).unwrap().mode() & 0o7777, 0o6755);
    assert!(fs::symlink_metadata(upper.join("pipe")).unwrap().file_type().is_fifo());

    let blobs = Blobs::default();
    let seal = scene.workspace.seal(&blobs, &scene.workspace.unchanged()).unwrap();
    let entry = |name: &str| {
        let found = seal.changed.iter().find(|change| change.path.as_str() == name);
        found.and_then(|change| change.new.clone())
    };
    assert!(matches!(entry("rights"), Some(Entry::File { executable: true, .. })));
    assert_eq!(entry("pipe"), Some(Entry::Special { what: SpecialKind::Fifo }));
    let out = scene.project.dir.path().join("out");
    materialise(scene.workspace.base(), &seal.manifest, &blobs, &out).unwrap();
    let at = scene.project.dir.path().join("fork");
    let fork = Workspace::create(scene.workspace.base().clone(), &at, marks()).unwrap();
    fork.rollback(&seal.manifest, &blobs).unwrap();
    for place in [out, fork.overlay_dirs().upper] {
        let mode = |name: &str| fs::metadata(place.join(name)).unwrap().permissions().mode();
        assert_eq!(mode("rights") & 0o7000, 0, "{}", place.display());
        assert_eq!(mode("shared") & 0o7022, 0, "{}", place.display());
        assert!(fs::symlink_metadata(place.join("pipe")).is_err(), "{}", place.display());
    }
}
