//! Seals and rollbacks against what an overlay mount really shows.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use glasshouse_sandbox::workspace::{
    Change, ChangeKind, Entry, Marks, SealManifest, SpecialKind, Workspace, materialise,
};
use proptest::prelude::*;

use super::util::{Blobs, Mounted, Project, path, skipped, snapshot, write};

fn described(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|change| {
            let mut kind = serde_json::to_value(&change.kind).unwrap();
            let from = kind["from"].take();
            let from = from.as_str().map_or_else(String::new, |from| format!("{from} -> "));
            let (added, removed) = (change.lines_added, change.lines_removed);
            format!("{} {from}{} +{added} -{removed}", kind["kind"].as_str().unwrap(), change.path)
        })
        .collect()
}

fn upper(workspace: &Workspace) -> std::path::PathBuf {
    workspace.overlay_dirs().upper
}

#[test]
fn changes_are_told_by_kind() {
    let project = Project::plain(&[
        ("edited", "1\n2\n3\n"),
        ("touched", "same\n"),
        ("moved", "one\ntwo\nthree\n"),
        ("mode", "m\n"),
        ("to-link", "l\n"),
        ("bin", "a\0b"),
    ]);
    let workspace = project.workspace();
    let blobs = Blobs::default();
    let up = upper(&workspace);
    write(&up, "edited", "1\nx\n3\n");
    write(&up, "touched", "same\n");
    write(&up, "new/moved", "one\ntwo\nthree\n");
    write(&up, "mode", "m\n");
    std::fs::set_permissions(up.join("mode"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    symlink("mode", up.join("to-link")).unwrap();
    write(&up, "bin", "a\0c");
    write(&up, "brand", "n\n");
    let whiteout = rustix::fs::mknodat(
        rustix::fs::CWD,
        up.join("moved"),
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::empty(),
        0,
    );
    whiteout.unwrap();
    let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
    assert_eq!(
        described(&seal.changed),
        [
            "modified bin +0 -0",
            "added brand +1 -0",
            "modified edited +1 -1",
            "mode mode +0 -0",
            "renamed moved -> new/moved +0 -0",
            "symlink to-link +0 -1",
        ]
    );
    assert!(seal.changed[0].binary);
    let set = workspace.change_set(&seal.manifest, &blobs).unwrap();
    assert_eq!(set.changes, seal.changed);
    // Every content the seal names is stored, and nothing else was.
    for entry in seal.manifest.entries.values() {
        if let Some(digest) = entry.file_digest() {
            assert!(blobs.map.borrow().contains_key(digest));
        }
    }
    let text = serde_json::to_string(&seal).unwrap();
    assert_eq!(serde_json::from_str::<glasshouse_sandbox::workspace::Seal>(&text).unwrap(), seal);
    assert_eq!(SealManifest::unchanged(workspace.base().digest), workspace.unchanged());
}

#[test]
fn an_edited_file_under_a_new_name_is_a_rename() {
    let project = Project::plain(&[("old.rs", "a\nb\nc\nd\ne\n"), ("far", "1\n2\n3\n")]);
    let workspace = project.workspace();
    let (blobs, up) = (Blobs::default(), upper(&workspace));
    write(&up, "new.rs", "a\nb\nc\nd\nX\n");
    write(&up, "other", "x\ny\nz\n");
    for name in ["old.rs", "far"] {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            up.join(name),
            rustix::fs::FileType::CharacterDevice,
            rustix::fs::Mode::empty(),
            0,
        )
        .unwrap();
    }
    let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
    assert_eq!(
        described(&seal.changed),
        ["deleted far +0 -3", "renamed old.rs -> new.rs +1 -1", "added other +3 -0"]
    );
}

#[test]
fn ignored_files_are_sealed_and_never_merged() {
    let project = Project::git(&[(".gitignore", "__pycache__/\n"), ("a.py", "a\n")]);
    let workspace = project.workspace();
    let (blobs, up) = (Blobs::default(), upper(&workspace));
    write(&up, "__pycache__/a.pyc", "x\n");
    write(&up, "b.py", "b\n");
    // A rule written by the agent hides nothing.
    write(&up, ".gitignore", "__pycache__/\nb.py\n");
    let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
    let ignored: Vec<_> =
        seal.changed.iter().filter(|c| c.ignored).map(|c| c.path.as_str()).collect();
    assert_eq!(ignored, ["__pycache__/a.pyc"]);
    let set = workspace.change_set(&seal.manifest, &blobs).unwrap();
    assert_eq!(set.ignored, [path("__pycache__/a.pyc")]);
    let merged: Vec<_> = set.changes.iter().map(|c| c.path.as_str()).collect();
    assert_eq!(merged, [".gitignore", "b.py"]);
}

#[test]
fn special_files_are_reported() {
    let project = Project::plain(&[("a", "1")]);
    let workspace = project.workspace();
    let up = upper(&workspace);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        up.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(up.join("socket")).unwrap();
    let seal = workspace.seal(&Blobs::default(), &workspace.unchanged()).unwrap();
    let kinds: Vec<_> = seal.changed.iter().map(|c| (&c.kind, c.new.clone().unwrap())).collect();
    assert_eq!(
        kinds,
        [
            (&ChangeKind::Special, Entry::Special { what: SpecialKind::Fifo }),
            (&ChangeKind::Special, Entry::Special { what: SpecialKind::Socket }),
        ]
    );
}

/// Seals a layer whose directory `d` carries an attribute: the changes, or the error's code.
fn marked(marks: Marks, name: &str, value: &str) -> Option<Vec<String>> {
    let project = Project::plain(&[("d/a", "1"), ("d/b", "2"), ("e", "3")]);
    let workspace = project.workspace_with(marks);
    let dir = upper(&workspace).join("d");
    write(&dir, "b", "2");
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(e) = rustix::fs::setxattr(&dir, name, value.as_bytes(), flags) {
        skipped("marks", &format!("{name}: {e}"));
        return None;
    }
    let sealed = workspace.seal(&Blobs::default(), &workspace.unchanged());
    Some(sealed.map_or_else(|e| vec![e.code().to_owned()], |seal| described(&seal.changed)))
}

#[test]
fn marks_count_only_in_the_namespace_of_the_mount() {
    let check = |marks: Marks, name: &str, value: &str, expected: &[&str]| {
        if let Some(found) = marked(marks, name, value) {
            assert_eq!(found, expected, "{marks:?} {name}={value}");
        }
    };
    let gone = ["deleted d/a +0 -1"];
    check(Marks::Trusted, "trusted.overlay.opaque", "y", &gone);
    check(Marks::User, "user.overlay.opaque", "y", &gone);
    let refused = ["workspace_damaged"];
    check(Marks::Trusted, "trusted.overlay.redirect", "elsewhere", &refused);
    check(Marks::User, "user.overlay.redirect", "/elsewhere", &refused);
    check(Marks::User, "user.overlay.opaque", "x", &refused);
    // What an agent can write itself is no mark.
    check(Marks::Trusted, "user.overlay.opaque", "y", &[]);
    check(Marks::Trusted, "user.overlay.redirect", "/elsewhere", &[]);
    check(Marks::User, "user.overlay.overlay.opaque", "y", &[]);
}

#[test]
fn an_unchanged_file_is_read_once() {
    let project = Project::plain(&[("a", "1")]);
    let workspace = project.workspace();
    let (blobs, up) = (Blobs::default(), upper(&workspace));
    write(&up, "a", "2");
    write(&up, "b", "3");
    // Old enough that the file system's clock has moved on since.
    std::thread::sleep(std::time::Duration::from_millis(80));
    let first = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
    let puts = *blobs.puts.borrow();
    let second = workspace.seal(&blobs, &first.manifest).unwrap();
    assert_eq!((*blobs.puts.borrow(), second.changed.len()), (puts, 0));
    // Same size, same second: the change is still seen.
    write(&up, "a", "4");
    let third = workspace.seal(&blobs, &second.manifest).unwrap();
    assert_eq!(described(&third.changed), ["modified a +1 -1"]);
}

#[test]
fn a_workspace_is_opened_again_and_leftovers_are_removed() {
    let project = Project::git(&[("a", "1\n")]);
    let workspace = project.workspace();
    write(&upper(&workspace), "b", "2\n");
    let dir = project.dir.path().join("ws");
    std::fs::create_dir_all(dir.join("upper.spare/half")).unwrap();
    let again = Workspace::open(&dir).unwrap();
    assert_eq!(again.base(), workspace.base());
    assert!(!dir.join("upper.spare").exists());
    let seal = again.seal(&Blobs::default(), &again.unchanged()).unwrap();
    assert_eq!(described(&seal.changed), ["added b +1 -0"]);
    assert_eq!(
        Workspace::create(workspace.base().clone(), &dir, Marks::Trusted).unwrap_err().code(),
        "workspace_io"
    );
    std::fs::write(dir.join("workspace.json"), "{}").unwrap();
    assert_eq!(Workspace::open(&dir).unwrap_err().code(), "workspace_damaged");
}

#[test]
fn sibling_workspaces_do_not_see_each_other() {
    let project = Project::plain(&[("a", "1")]);
    let first = project.workspace();
    let second =
        Workspace::create(first.base().clone(), &project.dir.path().join("ws2"), Marks::Trusted)
            .unwrap();
    let blobs = Blobs::default();
    write(&upper(&first), "untracked", "1");
    write(&upper(&second), "other", "2");
    second.rollback(&second.unchanged(), &blobs).unwrap();
    assert!(upper(&first).join("untracked").exists());
    assert!(!upper(&second).join("other").exists());
    first.base().verify().unwrap();
}

#[test]
fn a_rollback_that_fails_leaves_the_layer_as_it_was() {
    let project = Project::plain(&[("a", "1")]);
    let workspace = project.workspace();
    let blobs = Blobs::default();
    write(&upper(&workspace), "a", "2");
    let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
    write(&upper(&workspace), "a", "3");
    let before = snapshot(&upper(&workspace));
    assert!(workspace.rollback(&seal.manifest, &Blobs::default()).is_err());
    assert_eq!(snapshot(&upper(&workspace)), before);
    workspace.rollback(&seal.manifest, &blobs).unwrap();
    workspace.rollback(&seal.manifest, &blobs).unwrap();
    assert_eq!(std::fs::read_to_string(upper(&workspace).join("a")).unwrap(), "2");
}

/// Nests directories of one name, however long the path becomes; answers the innermost.
fn nest(dir: &Path, name: &str, depth: usize) -> std::os::fd::OwnedFd {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let mode = rustix::fs::Mode::from_raw_mode(0o755);
    let mut fd = rustix::fs::open(dir, flags, mode).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&fd, name, mode).unwrap();
        fd = rustix::fs::openat(&fd, name, flags, mode).unwrap();
    }
    fd
}

/// The failure: a layer deeper than the longest path could not be removed, so that every later call of
/// the session failed. Now: what no recorded path can name is refused with its code, whatever a command
/// made; the layer goes back to its last state and the next seal is an ordinary one.
#[test]
fn what_cannot_be_recorded_is_refused_and_taken_back() {
    let check = |what: &str, expected: Option<&str>, spoil: &dyn Fn(&Path)| {
        let project = Project::plain(&[("a", "1")]);
        let workspace = project.workspace();
        let blobs = Blobs::default();
        spoil(&upper(&workspace));
        let sealed = workspace.seal(&blobs, &workspace.unchanged());
        assert_eq!(sealed.as_ref().err().map(glasshouse_sandbox::Error::code), expected, "{what}");
        if let Ok(seal) = &sealed {
            workspace.rollback(&seal.manifest, &blobs).unwrap();
            let again = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
            assert_eq!(again.digest, seal.digest, "{what}");
        }
        workspace.rollback(&workspace.unchanged(), &blobs).unwrap();
        write(&upper(&workspace), "b", "2\n");
        let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
        assert_eq!(described(&seal.changed), ["added b +1 -0"], "{what}");
    };
    let unnameable = Some("path_unrepresentable");
    // Deeper than a process usually has descriptors, longer than any path.
    check("1500 levels of the longest name", unnameable, &|up| {
        drop(nest(up, &"n".repeat(255), 1500));
    });
    check("a path one level too deep", unnameable, &|up| drop(nest(up, "d", 257)));
    check("the deepest path", None, &|up| drop(nest(up, "d", 256)));
    check("a path that is too long", unnameable, &|up| drop(nest(up, &"n".repeat(255), 17)));
    check("the longest path", None, &|up| drop(nest(up, &"n".repeat(255), 16)));
    check("a name that is not UTF-8", unnameable, &|up| {
        let name = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe");
        std::fs::write(up.join::<&std::ffi::OsStr>(name), "x").unwrap();
    });
    check("20,000 entries", None, &|up| {
        let fd = nest(up, "many", 1);
        for index in 0..20_000 {
            rustix::fs::symlinkat("target", &fd, format!("{index}")).unwrap();
        }
    });
}

/// The failure: the owner of a layer could not look into directories whose rights a command took away.
/// Now: rights are given back on the way, in a seal as in a rollback. Root would not notice.
#[test]
fn directories_without_rights_are_sealed_by_an_ordinary_user() {
    use std::os::unix::fs::PermissionsExt as _;
    let act = || {
        let project = Project::plain(&[("a", "1")]);
        let workspace = project.workspace_with(Marks::User);
        let blobs = Blobs::default();
        let up = upper(&workspace);
        let modes = [0o000, 0o100, 0o200, 0o300, 0o400, 0o500];
        for mode in modes {
            write(&up, &format!("d{mode:o}/f"), "1\n");
            let dir = up.join(format!("d{mode:o}"));
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        assert!(std::fs::read_dir(up.join("d0")).is_err(), "it can be read: this proves nothing");
        let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
        assert_eq!(seal.changed.len(), modes.len());
        workspace.rollback(&workspace.unchanged(), &blobs).unwrap();
        assert!(snapshot(&upper(&workspace)).is_empty());
        // The top, too.
        let up = upper(&workspace);
        write(&up, "f", "1\n");
        std::fs::set_permissions(&up, std::fs::Permissions::from_mode(0o000)).unwrap();
        let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
        assert_eq!(seal.changed.len(), 1);
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                let group = rustix::process::Gid::from_raw(65_534);
                // Of this thread alone.
                rustix::thread::set_thread_res_gid(group, group, group).unwrap();
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            act();
        });
        worker.join().unwrap();
    });
}

/// The failure: `chmod 000 .` is in no state, so nobody decided it, and every later command found a directory that it could not
/// enter. What a command takes away from itself it has back with the next seal, whoever is the owner.
#[test]
fn rights_that_a_command_took_away_are_back_after_a_seal() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::plain(&[("a", "1")]);
    let workspace = project.workspace_with(Marks::User);
    let blobs = Blobs::default();
    let up = upper(&workspace);
    let set = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    // Mode before, and after it.
    let directories =
        [(0o000, 0o700), (0o555, 0o755), (0o1500, 0o1700), (0o755, 0o755), (0o777, 0o777)];
    let files = [(0o000, 0o600), (0o444, 0o644), (0o111, 0o711), (0o644, 0o644), (0o755, 0o755)];
    for (before, _) in files {
        write(&up, &format!("f{before:o}"), "1\n");
        set(&up.join(format!("f{before:o}")), before);
    }
    for (before, _) in directories {
        write(&up, &format!("d{before:o}/inner/f"), "1\n");
        set(&up.join(format!("d{before:o}/inner")), before);
        set(&up.join(format!("d{before:o}")), before);
    }
    set(&up, 0o000);
    // A second seal finds the same: what was given back is no change.
    let first = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
    let second = workspace.seal(&blobs, &first.manifest).unwrap();
    assert_eq!((first.gave_back, second.gave_back), (true, false));
    assert_eq!(second.changed, []);
    assert_eq!(mode(&up), 0o700);
    for (before, after) in files {
        assert_eq!(mode(&up.join(format!("f{before:o}"))), after, "file {before:o}");
    }
    for (before, after) in directories {
        let dir = up.join(format!("d{before:o}"));
        assert_eq!((mode(&dir), mode(&dir.join("inner"))), (after, after), "directory {before:o}");
    }
}

/// What an agent may do to a merged tree.
#[derive(Debug, Clone)]
enum Act {
    Write(String, u8),
    Remove(String),
    MakeDir(String),
    Link(String),
    Move(String, String),
    Execute(String),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let name = || {
        prop::sample::select(vec![
            "a", "b", "d", "d/a", "d/b", "d/e", "d/e/x", "f/g/h", "f", "f/g", "n",
        ])
        .prop_map(str::to_owned)
    };
    let act = prop_oneof![
        4 => (name(), 0_u8..3).prop_map(|(n, v)| Act::Write(n, v)),
        3 => name().prop_map(Act::Remove),
        1 => name().prop_map(Act::MakeDir),
        1 => name().prop_map(Act::Link),
        2 => (name(), name()).prop_map(|(a, b)| Act::Move(a, b)),
        1 => name().prop_map(Act::Execute),
    ];
    prop::collection::vec(act, 1..14)
}

/// Does it if it is possible; what is not possible changes nothing.
fn perform(root: &Path, act: &Act) {
    match act {
        Act::Write(name, value) => {
            if let Some(parent) = root.join(name).parent() {
                let _ = std::fs::create_dir_all(parent);
            }
            let _ = std::fs::write(root.join(name), format!("{value}\n"));
        }
        Act::Remove(name) => {
            let path = root.join(name);
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
        Act::MakeDir(name) => {
            let _ = std::fs::create_dir(root.join(name));
        }
        Act::Link(name) => {
            let _ = symlink("a", root.join(name));
        }
        Act::Move(from, to) => {
            let _ = std::fs::rename(root.join(from), root.join(to));
        }
        Act::Execute(name) => {
            use std::os::unix::fs::PermissionsExt;
            let path = root.join(name);
            if path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(0o755));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Goal: a seal says exactly what the mounted workspace shows, and a layer built from the seal
    /// shows it again. Method: random acts on a real overlay, compared with plain directory reads.
    #[test]
    fn seals_and_rollbacks_are_what_the_overlay_shows(
        first in acts(),
        second in acts(),
        marks in prop::sample::select(vec![Marks::Trusted, Marks::User]),
    ) {
        let project = Project::plain(&[
            ("a", "0\n"), ("b", "1\n"), ("d/a", "0\n"), ("d/b", "2\n"), ("d/e/x", "1\n"), ("f/g/h", "0\n"),
        ]);
        std::fs::create_dir(project.root().join("void")).unwrap();
        let workspace = project.workspace_with(marks);
        let blobs = Blobs::default();
        let base = workspace.base().clone();
        let mount = || Mounted::new(&workspace, project.dir.path().join("merged"));
        let mut states: Vec<(SealManifest, BTreeMap<String, String>)> = Vec::new();
        let mut previous = workspace.unchanged();
        for acts in [&first, &second] {
            let mounted = match mount() {
                Ok(mounted) => mounted,
                Err(reason) => {
                    skipped("seals_and_rollbacks_are_what_the_overlay_shows", &reason);
                    return Ok(());
                }
            };
            for act in acts {
                perform(mounted.at(), act);
            }
            let seal = workspace.seal(&blobs, &previous).unwrap();
            let shown = snapshot(mounted.at());
            prop_assert_eq!(seal.changed.is_empty(), seal.manifest == previous);
            states.push((seal.manifest.clone(), shown));
            previous = seal.manifest;
        }
        for (number, (state, shown)) in states.iter().enumerate() {
            workspace.rollback(state, &blobs).unwrap();
            let mounted = mount().unwrap();
            prop_assert_eq!(&snapshot(mounted.at()), shown);
            drop(mounted);
            let again = workspace.seal(&blobs, state).unwrap();
            prop_assert_eq!(&again.manifest, state);
            let copy = project.dir.path().join(format!("copy{number}"));
            materialise(&base, state, &blobs, &copy).unwrap();
            prop_assert_eq!(&snapshot(&copy), shown);
        }
        base.verify().unwrap();
    }
}
