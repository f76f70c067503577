//! Which programs run under which profile, what no profile allows, and profiles of one's own.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use glasshouse_sandbox::{
    CallList, Command, Profile, ReadOnlyMount, Sandbox, Status, codes, system_calls,
};

use crate::support::*;

const PROBE: &str = "/opt/probe";

fn sandbox(home: &Home, profile: Profile, calls: Option<CallList>) -> Sandbox {
    let mut spec = home.spec("s1");
    spec.template.seccomp = profile;
    spec.calls = calls;
    spec.mounts = vec![ReadOnlyMount { source: probe(), target: PROBE.into() }];
    home.host.create(&spec).unwrap()
}

/// A program is in the host's directories.
fn is_installed(program: &str) -> bool {
    program.starts_with("/opt/")
        || ["/usr/bin", "/usr/local/bin", "/bin"]
            .iter()
            .any(|at| Path::new(at).join(program).exists())
}

/// Rows: a program, its arguments, and whether it ends well under strict, standard, standard-net.
type Row = (&'static [&'static str], [bool; 3]);

#[test]
fn each_program_runs_where_the_matrix_says() {
    const ALL: [bool; 3] = [true; 3];
    const BUILDING: [bool; 3] = [false, true, true];
    let rows: [Row; 18] = [
        (&[PROBE, "show", "base.txt"], ALL),
        (&["cat", "base.txt"], ALL),
        (&["sh", "-c", "read line < base.txt; echo $line"], ALL),
        (&["sh", "-c", "echo a | cat"], BUILDING),
        (&["sh", "-c", "echo a > file"], BUILDING),
        (&["touch", "file"], BUILDING),
        (&["perl", "-e", "print 1 + 1"], ALL),
        (&["python3", "-c", "import json, threading; print(json.dumps([1]))"], ALL),
        (&["python3", "-c", "import subprocess; subprocess.run(['true'], check=True)"], BUILDING),
        (&["python3", "-c", "import socket; socket.socket()"], BUILDING),
        (
            &[
                "python3",
                "-c",
                "import os; os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0))",
            ],
            BUILDING,
        ),
        (&["node", "-e", "console.log([1, 2].map(x => x * 2))"], ALL),
        (&["node", "-e", "new (require('worker_threads').Worker)('1', {eval: true})"], ALL),
        (&["node", "-e", "require('child_process').execSync('true')"], BUILDING),
        (
            &[
                "node",
                "-e",
                "require('net').createServer().listen(0, function () { this.close() })",
            ],
            BUILDING,
        ),
        (&["node", "-e", "require('fs').watch('.').close()"], BUILDING),
        (&["git", "--version"], BUILDING),
        (&["git", "init", "-q", "repository"], BUILDING),
    ];
    let profiles = [Profile::Strict, Profile::Standard, Profile::StandardNet];
    for (column, profile) in profiles.into_iter().enumerate() {
        let home = Home::new();
        let sandbox = sandbox(&home, profile, None);
        for (argv, expected) in rows {
            if !is_installed(argv[0]) {
                skipped(argv[0], "not installed");
                continue;
            }
            let ran = run(&sandbox, &Command::new(argv.iter().copied()));
            let ended_well = ran.result.status == Status::Exited(0);
            assert_eq!(ended_well, expected[column], "{argv:?} under {profile:?}: {ran:?}");
        }
    }
}

#[test]
fn every_call_of_the_forbidden_core_is_refused_in_every_profile() {
    // Decided by their arguments: some of them are harmless.
    let by_argument = ["setresuid", "setresgid"];
    let core: Vec<(&str, i64)> =
        system_calls::forbidden().filter(|(name, _)| !by_argument.contains(name)).collect();
    assert!(core.len() > 60, "the core has got small: {}", core.len());
    for profile in [Profile::Strict, Profile::Standard, Profile::StandardNet] {
        let home = Home::new();
        let sandbox = sandbox(&home, profile, None);
        let numbers = core.iter().map(|(_, number)| number.to_string());
        let argv = [PROBE, "numbers"].map(str::to_owned).into_iter().chain(numbers);
        let out = run(&sandbox, &Command::new(argv)).ok();
        let answers: Vec<&str> = out.lines().filter(|line| line.contains(' ')).collect();
        assert_eq!(answers.len(), core.len());
        for ((name, number), answer) in core.iter().zip(answers) {
            let expected = match *name {
                "clone3" => libc::ENOSYS,
                "fallocate" => libc::EOPNOTSUPP,
                _ => libc::EPERM,
            };
            assert_eq!(answer, format!("{number} {expected}"), "{name} under {profile:?}");
        }
    }
}

#[test]
fn a_list_of_calls_adds_and_takes_away() {
    let check = |text: &str, argv: &[&str], ends_well: bool, says: &str| {
        let home = Home::new();
        let list = CallList::parse(text).unwrap();
        let sandbox = sandbox(&home, Profile::Standard, Some(list.clone()));
        assert_eq!(sandbox.attestation().calls.as_ref(), Some(&list));
        let ran = run(&sandbox, &Command::new(argv.iter().copied()));
        let found = ran.result.status == Status::Exited(0);
        assert_eq!(found, ends_well, "{text}: {ran:?}");
        assert!(format!("{}{}", ran.out, ran.err).contains(says), "{text}: {ran:?}");
    };
    let child = ["sh", "-c", "(exit 0) && echo child"];
    check("base: strict", &child, false, "");
    check("base: strict\nallow: [clone, fork, vfork, wait4]", &child, true, "child");
    check("base: standard\ndeny: [unlinkat, unlink]", &["rm", "base.txt"], false, "not permitted");
    check("base: standard", &["rm", "base.txt"], true, "");
    let queue = [PROBE, "named-queue", "/none"];
    check("base: standard", &queue, false, "not implemented");
    check("base: standard\nallow: [mq_open]", &queue, false, "No such file");
    // What is allowed by name is still decided by its arguments.
    let namespace = [PROBE, "calls", "clone"];
    check("base: strict\nallow: [clone]", &namespace, false, "not permitted");
}

/// D9: a profile that lies in a file can be exchanged before it is loaded.
/// Here it goes through a socket, and nobody inside or outside finds a file of it.
#[test]
fn d9_no_file_holds_a_profile_that_somebody_could_exchange() {
    let home = Home::new();
    let watcher = home.sandbox("watcher");
    let list = CallList::parse("base: standard\nallow: [mq_timedreceive]").unwrap();
    let mut spec = home.spec("s1");
    spec.calls = Some(list);
    let sandbox = home.host.create(&spec).unwrap();
    let finds = "grep -rls mq_timedreceive /tmp /dev/shm /home /run /var /etc /workspace; true";
    assert_eq!(shell(&watcher, finds).ok(), "");
    assert_eq!(shell(&sandbox, finds).ok(), "");
    let output = std::process::Command::new("grep")
        .args(["-rls", "mq_timedreceive"])
        .arg(home.directory.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    // The control: this search does find one.
    std::fs::write(home.path("control"), "mq_timedreceive").unwrap();
    let output = std::process::Command::new("grep")
        .args(["-rls", "mq_timedreceive"])
        .arg(home.directory.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("control"));
}

/// An unpacked image with one program.
fn image(at: &Path, busybox: &Path) -> PathBuf {
    for directory in ["bin", "etc", "var/lib/app", "proc", "opt/app", "root", "run"] {
        std::fs::create_dir_all(at.join(directory)).unwrap();
    }
    std::fs::copy(busybox, at.join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "ls", "id", "touch", "readlink"] {
        symlink("busybox", at.join("bin").join(name)).unwrap();
    }
    symlink("bin", at.join("sbin")).unwrap();
    for (name, text) in [
        ("etc/passwd", "root:x:0:0::/root:/bin/sh\nimage:x:1000:1000::/:/bin/sh\n"),
        ("etc/motd", "of the image\n"),
        ("var/lib/app/data", "data\n"),
        ("root/secret", "secret\n"),
        ("run/left", "left\n"),
    ] {
        std::fs::write(at.join(name), text).unwrap();
    }
    std::fs::set_permissions(at.join("root"), std::fs::Permissions::from_mode(0o700)).unwrap();
    at.canonicalize().unwrap()
}

#[test]
fn an_unpacked_image_takes_the_place_of_the_hosts_programs() {
    let busybox = Path::new("/bin/busybox");
    if !busybox.exists() {
        return skipped("an_unpacked_image", "no static busybox");
    }
    let home = Home::new();
    let root = image(&home.path("image"), busybox);
    let mut spec = home.spec("s1");
    spec.root = Some(root.clone());
    let sandbox = home.host.create(&spec).unwrap();
    let check = |script: &str, expected: &str| {
        assert_eq!(shell(&sandbox, script).ok(), expected, "{script}");
    };
    check("cat /etc/motd /var/lib/app/data base.txt", "of the image\ndata\nbase\n");
    check("id -un; ls /usr /lib 2>/dev/null; readlink /sbin", "agent\nbin\n");
    check("echo x > /tmp/t; cat /var/tmp/t; ls -A /run; ls /root 2>/dev/null || true", "x\n");
    check("cat /etc/hostname", "glasshouse\n");
    check("touch /bin/x /etc/x /opt/x /var/x 2>/dev/null || echo refused", "refused\n");
    check("touch file && ls", "base.txt\ndir\nfile\n");
    assert_eq!(sandbox.attestation().missing(), None);
    assert!(!root.join("bin/x").exists() && !root.join("etc/x").exists());
    // The next one, which was prepared meanwhile, has the host's programs again.
    let plain = home.sandbox("s2");
    assert_ne!(shell(&plain, "cat /etc/motd").result.status, Status::Exited(0));
    shell(&plain, "test -d /usr/bin").ok();

    symlink(&root, home.path("link")).unwrap();
    for wrong in ["link", "absent", "image/bin/busybox"] {
        let mut spec = home.spec("s3");
        spec.root = Some(home.directory.path().canonicalize().unwrap().join(wrong));
        let error = home.host.create(&spec).unwrap_err();
        let expected = error.is(codes::MOUNT_REFUSED);
        assert!(expected, "{wrong}: {error}");
    }
}
