//! A sandbox is made, is what it says it is, and is gone.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use glasshouse_sandbox::{
    Level, Privilege, ReadOnlyMount, SandboxSpec, Status, TemplateName, WritableMount, codes,
};

use crate::support::*;

#[test]
fn a_sandbox_runs_commands_on_its_layers() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let check = |script: &str, expected: &str| {
        assert_eq!(shell(&sandbox, script).ok(), expected, "{script}");
    };
    check("cat base.txt dir/deep.txt", "base\ndeep\n");
    check(
        "id -u; id -g; hostname; pwd; echo $HOME",
        "1000\n1000\nglasshouse\n/workspace\n/home/agent\n",
    );
    check("echo new > n; echo more >> base.txt; rm dir/deep.txt; mv n dir/m; cat dir/m", "new\n");
    check("mkdir -p a/b && mv a c && ls", "base.txt\nc\ndir\n");
    check(
        "echo x > /tmp/x; echo y > ~/y; echo z > /dev/shm/z; cat /tmp/x ~/y /dev/shm/z",
        "x\ny\nz\n",
    );
    check("ls /home; ls -A /run; ls /etc/shadow 2>&1 | grep -c 'No such'", "agent\n1\n");
    sandbox.destroy().unwrap();

    // Only the upper layer changed, and it belongs to the owner on disk.
    let layers = home.path("s1");
    assert_eq!(fs::read_to_string(layers.join("base/base.txt")).unwrap(), "base\n");
    assert!(layers.join("base/dir/deep.txt").exists());
    let upper = layers.join("upper/base.txt");
    assert_eq!(fs::read_to_string(&upper).unwrap(), "base\nmore\n");
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(fs::metadata(upper).unwrap().uid(), rustix::process::geteuid().as_raw());
}

#[test]
fn a_sandbox_goes_on_where_the_last_one_stopped() {
    let home = Home::new();
    let spec = home.spec("s1");
    for round in 1..=3 {
        let sandbox = home.host.create(&spec).unwrap();
        let lines = shell(&sandbox, "echo line >> grows; wc -l < grows").ok();
        assert_eq!(lines.trim(), round.to_string());
        sandbox.destroy().unwrap();
    }
    // The old upper becomes a frozen layer of a fork.
    let mut fork = home.spec("fork");
    let old = spec.overlay.unwrap();
    fork.overlay.as_mut().unwrap().lowers = vec![old.upper.clone(), old.lowers[0].clone()];
    let sandbox = home.host.create(&fork).unwrap();
    assert_eq!(shell(&sandbox, "cat grows >> base.txt; wc -l < base.txt").ok().trim(), "4");
    assert!(!old.upper.join("base.txt").exists());
}

/// How often this kernel said that two overlays lie over one layer; none where its words cannot be read.
fn shared_layers() -> Option<usize> {
    let said = std::process::Command::new("dmesg").output().ok()?;
    let text = String::from_utf8_lossy(&said.stdout);
    said.status.success().then(|| text.matches("upperdir is in-use").count())
}

/// The failure: the mounts of an ended sandbox are taken down while nobody waits, so the next one of a branch was
/// laid over the same layer before the last one had let go of it.
#[test]
fn a_layer_is_let_go_of_before_the_next_sandbox_has_it() {
    let name = "a_layer_is_let_go_of_before_the_next_sandbox_has_it";
    let Some(before) = shared_layers() else {
        return skipped(name, "the kernel's messages cannot be read");
    };
    let home = Home::new();
    let spec = home.spec("s1");
    // The control: two that live at a time.
    let other = SandboxSpec { id: "other".to_owned(), ..spec.clone() };
    let both = [&spec, &other].map(|spec| home.host.create(spec).unwrap());
    if shared_layers() == Some(before) {
        return skipped(name, "this kernel says nothing of layers that are shared");
    }
    both.into_iter().for_each(|sandbox| sandbox.destroy().unwrap());
    // Other tests may share layers meanwhile, so one quiet round is enough; it never was.
    let is_quiet = || {
        let before = shared_layers();
        for _ in 0..20 {
            let sandbox = home.host.create(&spec).unwrap();
            shell(&sandbox, "echo line >> grows").ok();
            sandbox.destroy().unwrap();
        }
        shared_layers() == before
    };
    assert!((0..5).any(|_| is_quiet()));
}

/// I2: a sibling's reset removes the other's untracked files.
/// Here each has a tree of its own, and the base they share is nobody's to change.
#[test]
fn i2_a_siblings_reset_leaves_other_trees_alone() {
    let home = Home::new();
    let shared = home.layers("base").lowers[0].clone();
    let on_it = |name: &str| {
        let mut spec = home.spec(name);
        spec.overlay.as_mut().unwrap().lowers = vec![shared.clone()];
        home.host.create(&spec).unwrap()
    };
    let (mine, theirs) = (on_it("mine"), on_it("theirs"));
    let digest = "find . -type f -exec sha256sum {} + | sort";
    shell(&mine, "echo untracked > new; mkdir -p build; echo x > build/out; echo y >> base.txt")
        .ok();
    let before = (shell(&mine, digest).ok(), shell(&theirs, digest).ok());
    shell(&theirs, "rm -rf ./* ./.[!.]*; mkdir dir; echo other > dir/deep.txt").ok();
    assert_eq!(shell(&mine, digest).ok(), before.0);
    assert_ne!(shell(&theirs, digest).ok(), before.1, "the control: it did remove its own");
    assert_eq!(fs::read_to_string(shared.join("dir/deep.txt")).unwrap(), "deep\n");
}

#[test]
fn what_is_enforced_is_read_back() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let found = sandbox.attestation();
    assert_eq!(found.missing(), None);
    assert!(found.no_new_privs && found.seccomp_mode == 2 && found.capabilities_left.is_empty());
    assert_eq!(found.namespaces.len(), 7);
    assert!(found.namespaces_shared.is_empty() && found.layered);
    if is_root() {
        assert_eq!(found.privilege, Privilege::Root);
        assert_eq!(found.uid_map, "1000 100000 1");
        assert_eq!(found.level(), Level::Full, "{found:?}");
        assert_eq!(found.to_string(), "native:full");
    } else {
        assert_eq!(found.privilege, Privilege::Rootless);
        assert_eq!(found.level(), Level::NoCgroup, "{found:?}");
    }
}

/// A project ignored `.venv`, so no layer had a place to mount it on.
/// Made through the overlay, root was refused it (`EOVERFLOW`) and anyone else had it as an edit.
/// The place is there already: what is mounted is seen, and the layer of changes stays empty.
#[test]
fn a_mount_in_the_workspace_is_no_change_of_it() {
    let home = Home::new();
    fs::create_dir(home.path("tools")).unwrap();
    fs::write(home.path("tools/tool"), "tool\n").unwrap();
    let source = home.path("tools").canonicalize().unwrap();
    let check = |id: &str, name: &str, target: &str, seen: &str| {
        let mut spec = home.spec(id);
        let source = if name.is_empty() { source.clone() } else { source.join(name) };
        let mount = ReadOnlyMount { source, target: Path::new("/workspace").join(target) };
        spec.mounts = vec![mount];
        for round in 1..=2 {
            let sandbox = home.host.create(&spec).unwrap();
            let found = shell(&sandbox, &format!("cat {seen} base.txt dir/deep.txt")).ok();
            assert_eq!(found, "tool\nbase\ndeep\n", "{target}, round {round}");
            let gone = shell(&sandbox, &format!("rm -r {target}"));
            assert_ne!(gone.result.status, Status::Exited(0), "{target}");
            sandbox.destroy().unwrap();
            let upper = fs::read_dir(spec.overlay.as_ref().unwrap().upper.as_path()).unwrap();
            let changes: Vec<_> = upper.map(|item| item.unwrap().file_name()).collect();
            assert!(changes.is_empty(), "{target}, round {round}: {changes:?}");
        }
    };
    check("absent", "", ".venv", ".venv/tool");
    check("deep", "", "web/app/node_modules", "web/app/node_modules/tool");
    check("there", "", "dir/below", "dir/below/tool");
    check("file", "tool", "bin/tool", "bin/tool");
}

#[test]
fn many_sandboxes_live_beside_each_other() {
    let home = Home::new();
    let sandboxes: Vec<_> = (0..4).map(|n| home.sandbox(&format!("s{n}"))).collect();
    std::thread::scope(|scope| {
        for (n, sandbox) in sandboxes.iter().enumerate() {
            scope.spawn(move || {
                let script =
                    format!("echo {n} > mine; sleep 0.1; cat mine; ps 2>/dev/null | wc -l");
                assert!(shell(sandbox, &script).ok().starts_with(&n.to_string()));
            });
        }
    });
    let twice = home.host.create(&home.spec("s0")).unwrap_err();
    assert!(twice.is(codes::SPEC_INVALID), "{twice}");
}

#[test]
fn mounts_are_what_was_named_and_nothing_else() {
    let home = Home::new();
    // A directory that the commands' user could never traverse on the host.
    let private = home.path("private");
    fs::create_dir_all(private.join("toolchain")).unwrap();
    fs::write(private.join("toolchain/tool"), "tool\n").unwrap();
    fs::create_dir_all(home.path("cache")).unwrap();
    let restrict = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&private, fs::Permissions::from_mode(mode)).unwrap();
    };
    restrict(0o700);
    let mut spec = home.spec("s1");
    let canonical = private.canonicalize().unwrap();
    let mount = |source: &str, target: &str| ReadOnlyMount {
        source: canonical.join(source),
        target: target.into(),
    };
    spec.mounts = vec![mount("toolchain", "/opt/tools"), mount("toolchain/tool", "/opt/bin/tool")];
    spec.caches = vec![glasshouse_sandbox::WritableMount {
        source: home.path("cache").canonicalize().unwrap(),
        target: "/home/agent/.cache/build".into(),
    }];
    let sandbox = home.host.create(&spec).unwrap();
    assert_eq!(shell(&sandbox, "cat /opt/tools/tool /opt/bin/tool").ok(), "tool\ntool\n");
    let ran = shell(&sandbox, "echo x > /opt/tools/tool");
    assert!(ran.err.contains("Read-only") || ran.err.contains("Permission"), "{ran:?}");
    shell(&sandbox, "echo kept > /home/agent/.cache/build/file").ok();
    assert_eq!(fs::read_to_string(home.path("cache/file")).unwrap(), "kept\n");

    std::os::unix::fs::symlink(&private, home.path("link")).unwrap();
    let check = |source: &str| {
        let mut spec = SandboxSpec::new("s2", TemplateName::Script.template());
        spec.mounts = vec![ReadOnlyMount { source: source.into(), target: "/opt/x".into() }];
        let error = home.host.create(&spec).unwrap_err();
        assert!(error.is(codes::MOUNT_REFUSED), "{source}: {error}");
    };
    let at = home.directory.path().canonicalize().unwrap();
    check(at.join("link/toolchain").to_str().unwrap());
    check(at.join("link").to_str().unwrap());
    check(at.join("absent").to_str().unwrap());
}

/// The failure: a cache was mounted over what belongs into it, so a repository with dependencies had a
/// registry that was not there.
/// The attack on what mends it: a link in the cache, which commands write to, where the owner makes the
/// place for the mount.
#[test]
fn a_mount_inside_a_cache_is_seen_and_a_link_on_its_way_leads_nowhere() {
    let home = Home::new();
    let at = |name: &str| {
        fs::create_dir(home.path(name)).unwrap();
        home.path(name).canonicalize().unwrap()
    };
    let (tools, cache, outside) = (at("tools"), at("cache"), at("outside"));
    fs::write(tools.join("file"), "tool\n").unwrap();
    let mut plain = home.spec("s1");
    plain.caches = vec![WritableMount { source: cache.clone(), target: "/cache".into() }];
    let mut spec = plain.clone();
    spec.mounts = vec![ReadOnlyMount { source: tools, target: "/cache/deep/tools".into() }];
    let sandbox = home.host.create(&spec).unwrap();
    let script = "cat /cache/deep/tools/file; echo x > /cache/deep/own && cat /cache/deep/own; \
                  echo x > /cache/deep/tools/x 2>/dev/null || echo refused";
    assert_eq!(shell(&sandbox, script).ok(), "tool\nx\nrefused\n");
    sandbox.destroy().unwrap();

    let sandbox = home.host.create(&plain).unwrap();
    let link = format!("rm -r /cache/deep && ln -s {} /cache/deep", outside.display());
    shell(&sandbox, &link).ok();
    sandbox.destroy().unwrap();
    let refused = home.host.create(&spec).unwrap_err();
    assert_eq!(refused.code(), "sandbox_mount_refused", "{refused}");
    assert!(!outside.join("tools").exists());
    // The control: made by its path, it is made outside.
    fs::create_dir_all(cache.join("deep/tools")).unwrap();
    assert!(outside.join("tools").exists());
}

/// Layers lie on disk as their owner's; inside they are the commands' user's, and a file of anybody else
/// is nobody's.
#[test]
fn owners_are_shifted_into_the_sandbox_and_back() {
    let home = Home::new();
    let spec = home.spec("s1");
    let others = home.path("s1/base/others.txt");
    fs::write(&others, "others\n").unwrap();
    if is_root() {
        std::os::unix::fs::chown(&others, Some(12_345), Some(12_345)).unwrap();
    }
    let sandbox = home.host.create(&spec).unwrap();
    let script = "echo new > new; echo more >> base.txt; \
                  stat -c '%n %u %g' new base.txt dir dir/deep.txt others.txt";
    let nobody = if is_root() { 65_534 } else { 1000 };
    let expected = format!(
        "new 1000 1000\nbase.txt 1000 1000\ndir 1000 1000\ndir/deep.txt 1000 1000\n\
         others.txt {nobody} {nobody}\n"
    );
    assert_eq!(shell(&sandbox, script).ok(), expected);
    sandbox.destroy().unwrap();
    let own = rustix::process::geteuid().as_raw();
    for name in ["new", "base.txt"] {
        assert_eq!(fs::metadata(home.path("s1/upper").join(name)).unwrap().uid(), own, "{name}");
    }
    assert_eq!(fs::read_to_string(home.path("s1/base/base.txt")).unwrap(), "base\n");
}
