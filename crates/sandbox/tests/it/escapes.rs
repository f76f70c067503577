//! Attacks on the sandbox. Each has a control: outside, the same attack succeeds.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Stdio};

use glasshouse_sandbox::{Command, ReadOnlyMount, Sandbox, Status, host};

use crate::support::*;

const ATTACKER: &str = "/opt/attacker";
const REACHED: i32 = 0;
const REFUSED: i32 = 1;

/// A sandbox that contains the attack program, and things outside worth attacking.
struct Scene {
    home: Home,
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Self {
        let home = Home::new();
        let mut spec = home.spec("s1");
        spec.mounts = vec![ReadOnlyMount { source: program(), target: ATTACKER.into() }];
        let sandbox = home.host.create(&spec).unwrap();
        Self { home, sandbox }
    }

    /// Runs an attack inside: status and what it said.
    #[track_caller]
    fn inside(&self, attack: &[&str]) -> (i32, String) {
        let argv = [ATTACKER, host::ARGUMENT, "probe"].iter().chain(attack).copied();
        let ran = run(&self.sandbox, &Command::new(argv));
        match ran.result.status {
            Status::Exited(code @ (REACHED | REFUSED)) => (code, ran.out),
            _ => panic!("{attack:?} was not measured: {ran:?}"),
        }
    }

    /// The attack must succeed outside and be refused inside with a text that contains `why`.
    #[track_caller]
    fn check(&self, inside: &[&str], control: &[&str], why: &str) {
        let (status, text) = outside(control);
        assert_eq!(status, REACHED, "the control failed, so the attack proves nothing: {text}");
        let (status, text) = self.inside(inside);
        assert_eq!(status, REFUSED, "{inside:?} succeeded");
        assert!(text.contains(why), "{inside:?}: {text}");
    }
}

fn outside(attack: &[&str]) -> (i32, String) {
    outside_through(&[], attack)
}

/// The attack without a sandbox, perhaps below another program.
fn outside_through(wrapper: &[&str], attack: &[&str]) -> (i32, String) {
    let program = program();
    let argv: Vec<&str> = wrapper
        .iter()
        .copied()
        .chain([program.to_str().unwrap(), host::ARGUMENT, "probe"])
        .chain(attack.iter().copied())
        .collect();
    let output = std::process::Command::new(argv[0]).args(&argv[1..]).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A process outside; killed when dropped.
struct Victim(Child);

impl Victim {
    fn new() -> Self {
        Self(std::process::Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap())
    }
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn secrets_of_the_host_do_not_exist_inside() {
    let scene = Scene::new();
    let secret = scene.home.path("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let secret = secret.to_str().unwrap();
    let absent = "No such file";
    scene.check(&["read", secret], &["read", secret], absent);
    for prefix in ["/proc/self/root", "/proc/self/cwd/../../../..", "/workspace/../.."] {
        let path = format!("{prefix}{secret}");
        scene.check(&["read", &path], &["read", &format!("/proc/self/root{secret}")], absent);
    }
    // A link in the workspace leads to a place that does not exist inside.
    std::os::unix::fs::symlink(secret, scene.home.path("s1/base/link")).unwrap();
    let control = scene.home.path("s1/base/link");
    scene.check(&["read", "/workspace/link"], &["read", control.to_str().unwrap()], absent);
    let kept = scene.home.path("kept-link");
    scene.check(
        &["hard-link", secret, "/workspace/hard"],
        &["hard-link", secret, kept.to_str().unwrap()],
        absent,
    );
    // What the host process and its owner hold in memory and environment.
    let own = format!("/proc/{}/environ", std::process::id());
    for file in ["environ", "mem", "root/etc/passwd", "fd/0", "maps"] {
        scene.check(&["read", &format!("/proc/1/{file}")], &["read", &own], "denied");
    }
}

#[test]
fn nothing_is_written_outside() {
    let scene = Scene::new();
    let target = scene.home.path("target");
    let (planted, link) = (target.join("planted"), target.join("link"));
    let reset = || {
        let _ = fs::remove_dir_all(&target);
        fs::create_dir(&target).unwrap();
    };
    let planted_text = planted.to_str().unwrap();
    let check = |inside: &[&str], control: &[&str]| {
        reset();
        let (status, text) = outside(control);
        assert_eq!((status, planted.exists()), (REACHED, true), "control {control:?}: {text}");
        reset();
        assert_eq!(scene.inside(inside).0, REFUSED, "{inside:?}");
        assert!(!planted.exists(), "{inside:?}");
    };
    check(&["write", planted_text], &["write", planted_text]);
    let dotted = format!("/workspace/../../../../../..{planted_text}");
    check(&["write", &dotted], &["write", &format!("/tmp/..{planted_text}")]);
    let through = format!("/proc/self/root{planted_text}");
    check(&["write", &through], &["write", &through]);
    check(
        &["write-through-link", planted_text, "/workspace/link"],
        &["write-through-link", planted_text, link.to_str().unwrap()],
    );
    for path in ["/usr/bin/planted", "/etc/planted", "/planted", "/proc/sys/kernel/hostname"] {
        assert_eq!(scene.inside(&["write", path]).0, REFUSED, "{path}");
    }
}

#[test]
fn processes_outside_are_out_of_reach() {
    let scene = Scene::new();
    let victim = Victim::new();
    let pid = victim.pid();
    scene.check(&["signal", &pid], &["signal", &pid], "");
    scene.check(&["trace", &pid], &["trace", &pid], "not permitted");
    // Not even the first process, or a sibling.
    scene.check(&["trace", "1"], &["trace", &pid], "not permitted");
    let ran = shell(&scene.sandbox, "kill -9 1; kill -9 -1; echo survived");
    assert!(ran.result.status != Status::Exited(0) || ran.out == "survived\n", "{ran:?}");
    assert_eq!(shell(&scene.sandbox, "echo alive").ok(), "alive\n");
}

#[test]
fn the_network_ends_at_the_sandbox() {
    let scene = Scene::new();
    let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    scene.check(&["connect", &address], &["connect", &address], "refused");
    let name = format!("glasshouse-test-{}", std::process::id());
    let at = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&at).unwrap();
    scene.check(&["abstract", &name], &["abstract", &name], "refused");
    // A route does not exist either.
    let (status, text) = scene.inside(&["connect", "1.1.1.1:53"]);
    assert_eq!((status, text.contains("unreachable")), (REFUSED, true), "{text}");
    for (family, number) in [("vsock", "40"), ("packet", "17"), ("alg", "38"), ("bluetooth", "31")]
    {
        let (control, text) = outside(&["socket", number]);
        assert_eq!(scene.inside(&["socket", number]).0, REFUSED, "{family}");
        if control != REACHED {
            skipped(&format!("control of socket family {family}"), text.trim());
        }
    }
}

#[test]
fn kernel_interfaces_that_weaken_isolation_are_closed() {
    let scene = Scene::new();
    let calls = [
        "io_uring",
        "userfaultfd",
        "bpf",
        "keyctl",
        "perf",
        "open_by_handle",
        "unshare",
        "clone",
        "clone3",
        "setns",
    ];
    let mut controls = 0;
    for name in calls {
        assert_eq!(scene.inside(&["call", name]).0, REFUSED, "{name}");
        match outside(&["call", name]) {
            (REACHED, _) => controls += 1,
            (_, text) => skipped(&format!("control of {name}"), text.trim()),
        }
    }
    assert!(controls >= 4, "too few controls succeed here to prove anything");
    let wrapper: &[&str] = if is_root() { &["unshare", "-m"] } else { &["unshare", "-Urm"] };
    assert_eq!(outside_through(wrapper, &["mount"]).0, REACHED);
    assert_eq!(scene.inside(&["mount"]).0, REFUSED);
    let node = scene.home.path("node");
    match outside(&["device", node.to_str().unwrap()]) {
        (REACHED, _) => {}
        (_, text) => skipped("control of device", text.trim()),
    }
    assert_eq!(scene.inside(&["device", "/workspace/node"]).0, REFUSED);
    assert_eq!(scene.inside(&["device", "/tmp/node"]).0, REFUSED);
}

#[test]
fn commands_inherit_only_their_streams() {
    let scene = Scene::new();
    let leaky = ["sh", "-c", "exec 7</dev/null; exec \"$@\"", "sh"];
    assert_eq!(outside_through(&leaky, &["descriptors"]).0, REACHED);
    assert_eq!(scene.inside(&["descriptors"]).0, REFUSED);
    assert_eq!(
        shell(&scene.sandbox, "ls /proc/self/fd").ok(),
        "0\n1\n2\n3\n",
        "3 is the listing's own"
    );
}

#[test]
fn modes_and_owners_give_no_rights() {
    let scene = Scene::new();
    let check = |script: &str, expected: &str| {
        assert_eq!(shell(&scene.sandbox, script).ok(), expected, "{script}");
    };
    check("cp /bin/sh s && chmod 6755 s && ./s -c 'id -u; id -ru'", "1000\n1000\n");
    check("chown 0 base.txt 2>/dev/null || echo refused", "refused\n");
    check("chgrp 0 base.txt 2>/dev/null || echo refused", "refused\n");
    check("chmod 777 /usr/bin/env 2>/dev/null || echo refused", "refused\n");
    check("su -c id root </dev/null 2>/dev/null || echo refused", "refused\n");
    check("grep -c '^Cap...:.0000000000000000$' /proc/self/status", "5\n");
    check("grep NoNewPrivs /proc/self/status | tr -d '\\t '", "NoNewPrivs:1\n");
    check(
        "cat /proc/keys /proc/kmsg /proc/kcore /proc/timer_list 2>/dev/null | head -c 1 | wc -c",
        "0\n",
    );
    check("ls /sys /root /boot /srv /mnt 2>/dev/null | wc -l", "0\n");
}

#[test]
fn sandboxes_do_not_see_each_other() {
    let scene = Scene::new();
    let other = scene.home.sandbox("s2");
    shell(&other, "echo theirs > file; echo theirs > /tmp/file").ok();
    let ran = shell(&scene.sandbox, "cat file /tmp/file");
    assert_eq!(ran.out, "");
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = &other;
        scope.spawn(move || {
            let cancel = glasshouse_sandbox::Cancel::new().unwrap();
            let stop = cancel.clone();
            let mut sink = |_, _: &[u8]| sender.send(stop.clone()).unwrap();
            other.run(&sh("echo started; sleep 600"), &mut sink, &cancel).unwrap();
        });
        let cancel = receiver.recv().unwrap();
        let seen = shell(&scene.sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").ok();
        cancel.cancel();
        assert!(!seen.contains("sleep"), "{seen}");
    });
}

#[test]
fn the_host_process_inherits_no_environment_and_no_descriptor() {
    // What the owner carelessly leaves open across `exec`.
    let leak = fs::File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let home = Home::new();
    let _sandbox = home.sandbox("s1");
    let pid = home.host.pid();
    if !is_root() {
        // It is unreadable to other processes of the same user; that is the point.
        let error = fs::read(format!("/proc/{pid}/environ")).unwrap_err();
        return assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    }
    let mut environment = Vec::new();
    let mut file = fs::File::open(format!("/proc/{pid}/environ")).unwrap();
    file.read_to_end(&mut environment).unwrap();
    assert!(environment.is_empty(), "{}", String::from_utf8_lossy(&environment));
    let ours = ["/dev/null", "/sys/fs/cgroup/", "socket:", "anon_inode:[pidfd]", "pidfd:", "user:"];
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap();
        let target = target.to_string_lossy();
        assert!(ours.iter().any(|known| target.starts_with(known)), "inherited {target}");
    }
}
