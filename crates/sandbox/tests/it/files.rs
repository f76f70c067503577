//! File operations through a descriptor of the merged root.

use std::fs;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};

use glasshouse_sandbox::{Command, Sandbox, codes};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use crate::support::*;

/// As the workspace view opens: beneath the root, through no link.
fn open(sandbox: &Sandbox, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(sandbox.root(), path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn directory(sandbox: &Sandbox, path: &str) -> OwnedFd {
    open(sandbox, path, OFlags::PATH | OFlags::DIRECTORY).unwrap()
}

fn content(sandbox: &Sandbox, path: &str) -> String {
    let mut text = String::new();
    let file = open(sandbox, path, OFlags::RDONLY).unwrap();
    fs::File::from(file).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_owner_sees_and_changes_what_commands_see() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    assert_eq!(content(&sandbox, "base.txt"), "base\n");
    shell(&sandbox, "echo inside > dir/new").ok();
    assert_eq!(content(&sandbox, "dir/new"), "inside\n");

    let dir = directory(&sandbox, "dir");
    sandbox.write_file(dir.as_fd(), "tool", b"#!/bin/sh\necho ran\n", 0o755).unwrap();
    sandbox.write_file(dir.as_fd(), "deep.txt", b"replaced\n", 0o600).unwrap();
    sandbox.make_dir(dir.as_fd(), "sub", 0o755).unwrap();
    let sub = directory(&sandbox, "dir/sub");
    sandbox.write_file(sub.as_fd(), "empty", b"", 0o644).unwrap();
    assert_eq!(
        shell(
            &sandbox,
            "dir/tool; cat dir/deep.txt; stat -c '%a %U %s' dir/deep.txt dir/sub/empty"
        )
        .ok(),
        "ran\nreplaced\n600 agent 9\n644 agent 0\n"
    );
    sandbox.remove_file(dir.as_fd(), "tool").unwrap();
    assert_eq!(shell(&sandbox, "ls -A dir").ok(), "deep.txt\nnew\nsub\n");
    assert_eq!(fs::read(home.path("s1/base/dir/deep.txt")).unwrap(), b"deep\n");
}

#[test]
fn a_large_file_arrives_whole() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let bytes: Vec<u8> = (0..5 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    sandbox.write_file(sandbox.root(), "large", &bytes, 0o644).unwrap();
    assert_eq!(fs::read(home.path("s1/upper/large")).unwrap(), bytes);
}

#[test]
fn links_are_replaced_never_followed() {
    let home = Home::new();
    let outside = home.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("old"), "untouched").unwrap();
    let base = home.layers("s1").lowers[0].clone();
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(outside.join(target), base.join(name)).unwrap();
    };
    link("new", "dangling");
    link("old", "leading");
    // The control: an ordinary write through such a link does reach the outside.
    fs::write(base.join("dangling"), "control").unwrap();
    assert!(outside.join("new").exists());
    fs::remove_file(outside.join("new")).unwrap();

    let sandbox = home.sandbox("s1");
    for name in ["dangling", "leading"] {
        sandbox.write_file(sandbox.root(), name, b"inside", 0o644).unwrap();
        assert_eq!(content(&sandbox, name), "inside");
        assert!(
            shell(&sandbox, &format!("test -L {name}")).result.status
                != glasshouse_sandbox::Status::Exited(0)
        );
    }
    assert!(!outside.join("new").exists());
    assert_eq!(fs::read_to_string(outside.join("old")).unwrap(), "untouched");
    // Nor does the unfinished name lead out.
    shell(&sandbox, "ln -s /etc/passwd .glasshouse-unfinished").ok();
    sandbox.write_file(sandbox.root(), "next", b"inside", 0o644).unwrap();
    assert_eq!(content(&sandbox, "next"), "inside");
}

#[test]
fn names_that_are_no_names_and_impossible_acts_are_typed_errors() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    for name in ["", ".", "..", "a/b", "../x", "/x", "a\0b", &"x".repeat(256)] {
        let error = sandbox.write_file(sandbox.root(), name, b"x", 0o644).unwrap_err();
        assert!(error.is(codes::FILE_FAILED), "{name:?}: {error}");
    }
    let check = |outcome: glasshouse_sandbox::Result<()>| {
        assert!(outcome.as_ref().unwrap_err().is(codes::FILE_FAILED), "{outcome:?}");
    };
    check(sandbox.write_file(sandbox.root(), "dir", b"x", 0o644));
    check(sandbox.remove_file(sandbox.root(), "dir"));
    check(sandbox.remove_file(sandbox.root(), "absent"));
    check(sandbox.make_dir(sandbox.root(), "dir", 0o755));
    // A directory outside the sandbox is refused by the sandbox itself, whoever passes it.
    let outside = fs::File::open(home.directory.path()).unwrap();
    check(sandbox.write_file(outside.as_fd(), "planted", b"x", 0o644));
    assert!(!home.path("planted").exists());
    assert_eq!(shell(&sandbox, "ls -A").ok(), "base.txt\ndir\n");
}

/// The failure: where the sandbox is an ordinary user's, `/dev` belonged to the commands, which took away and
/// added what they liked for whoever came after them.
#[test]
fn of_devices_only_shared_memory_and_terminals_change() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    for script in ["rm /dev/fd", "echo x > /dev/new", "mkdir /dev/new", "mv /dev/zero /dev/full"] {
        let ran = shell(&sandbox, script);
        assert_ne!(ran.result.status, glasshouse_sandbox::Status::Exited(0), "{script}: {ran:?}");
    }
    let used = "echo x > /dev/shm/a && cat /dev/shm/a && echo y > /dev/null && head -c 1 /dev/zero | wc -c";
    assert_eq!(shell(&sandbox, used).ok(), "x\n1\n");
}

/// The failure: a login shell ran what an earlier command had written at home, under a grant for what it was
/// asked to run.
#[test]
fn what_a_login_shell_runs_first_is_nobodys_to_write() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    for name in [".profile", ".bash_profile", ".bash_login", ".bash_logout"] {
        for script in [
            format!("echo 'echo run' > ~/{name}"),
            format!("rm -f ~/{name}"),
            format!("echo 'echo run' > ~/a; mv ~/a ~/{name}"),
            format!("mkdir ~/b && mv ~/{name} ~/b/"),
        ] {
            shell(&sandbox, &script);
        }
    }
    for shell in ["sh", "bash"] {
        let ran = run(&sandbox, &Command::new([shell, "-lc", "echo only; exit"]));
        assert_eq!(ran.ok(), "only\n", "{shell}");
    }
    // The home directory itself is theirs.
    assert_eq!(shell(&sandbox, "echo x > ~/.other && cat ~/.other").ok(), "x\n");
}
