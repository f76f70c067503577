//! The escape suite: each file of `tests/escapes` is one attempt to get out of a sandbox.
//!
//! An attempt is refused by ours, and the same payload undefended succeeds, or its refusal proves
//! nothing. The same payloads run in bubblewrap: an independent sandbox that refuses many of
//! them too shows that the suite attacks, and does not merely miss.

mod attempt;
mod bait;
mod seat;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use glasshouse_sandbox::Sandbox;

use self::attempt::{Attempt, Sign};
use self::bait::Bait;
use self::seat::{Native, Outcome};
use crate::support::*;

/// What the documentation says is shown, by which file.
const THREAT_MODEL: &str = include_str!("../../../../docs/threat-model.md");

/// Fewest attempts that bubblewrap refuses, and fewest that it does not: with less of either, the
/// comparison says nothing about the suite.
const FEWEST_THEIRS: usize = 30;

/// How long after a command's end a process that outlived it would write.
const LATE: Duration = Duration::from_millis(700);

/// Where a second run as another user finds the attempts.
pub(crate) const ATTEMPTS: &str = "GLASSHOUSE_TEST_ATTEMPTS";

/// The directory of attempts.
pub(crate) fn directory() -> PathBuf {
    std::env::var_os(ATTEMPTS)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escapes"), PathBuf::from)
}

/// One line of the table.
struct Row {
    name: String,
    native: bool,
    bubblewrap: Option<bool>,
    control: bool,
    remark: String,
    /// What is wrong, if anything.
    complaint: Option<String>,
}

#[test]
fn no_attempt_gets_out() {
    let attempts = attempt::all(&directory());
    assert_eq!(
        attempts.iter().map(|attempt| &*attempt.name).collect::<BTreeSet<_>>(),
        documented(THREAT_MODEL),
        "each attempt is a file, and a name in the threat model's table"
    );
    let home = Home::new();
    if let Some(started) = seat::bubblewrap_starts(&Bait::lay(&["true".to_owned()], &probe())) {
        assert_eq!(started.status, Some(0), "bubblewrap does not start here: {started:?}");
    } else {
        skipped("no_attempt_gets_out", "bubblewrap is not installed, nothing checks the suite");
    }
    let queue = Mutex::new(attempts.iter());
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(attempt) = queue.lock().unwrap().next() else { break };
                    let row = measure(&home, attempt);
                    rows.lock().unwrap().push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    print(&rows);
    let theirs: Vec<bool> = rows.iter().filter_map(|row| row.bubblewrap).collect();
    let escaped = theirs.iter().filter(|escaped| **escaped).count();
    let refused = theirs.len() - escaped;
    let is_telling = theirs.is_empty() || refused.min(escaped) >= FEWEST_THEIRS;
    assert!(is_telling, "bubblewrap refused {refused} and let out {escaped}");
    let complaints: Vec<&String> = rows.iter().filter_map(|row| row.complaint.as_ref()).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// The names in the last column of the threat model's first table.
fn documented(text: &str) -> BTreeSet<&str> {
    let table = text.lines().skip_while(|line| !line.ends_with("| Shown by |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let shown = rows.filter_map(|row| row.trim_end_matches(['|', ' ']).rsplit_once("| "));
    // What stands between two marks: every second part.
    shown.flat_map(|(_, names)| names.split('`').skip(1).step_by(2)).collect()
}

/// Runs an attempt everywhere.
fn measure(home: &Home, attempt: &Attempt) -> Row {
    let fresh = || Bait::lay(&attempt.payload, &probe());

    let mut bait = fresh();
    let native = Native::new(home, attempt, &bait);
    let ours = native.run(attempt, &bait);
    let native_escaped = match attempt.sign {
        Sign::FirstProcess => !native.is_alive(),
        Sign::Late => {
            std::thread::sleep(LATE);
            native.late()
        }
        _ => escaped(attempt.sign, &ours, &mut bait),
    };
    drop((native, bait));

    let mut bait = fresh();
    let theirs = seat::bubblewrap(attempt, &bait);
    let bubblewrap = theirs.map(|outcome| match attempt.sign {
        Sign::FirstProcess => !outcome.out.contains("survived"),
        _ => escaped(attempt.sign, &outcome, &mut bait),
    });
    drop(bait);

    let mut bait = fresh();
    let undefended = seat::undefended(attempt, &bait);
    let control = match attempt.sign {
        Sign::FirstProcess => bait.victim_ended(),
        sign => escaped(sign, &undefended, &mut bait),
    };
    let (complaint, remark) = judge(attempt, &ours, native_escaped, control, &undefended);
    let name = attempt.name.clone();
    Row { name, native: native_escaped, bubblewrap, control, remark, complaint }
}

/// Whether the sign of success is there.
fn escaped(sign: Sign, outcome: &Outcome, bait: &mut Bait) -> bool {
    match sign {
        Sign::Status => outcome.status == Some(0),
        Sign::Token => bait.leaked(&outcome.out).0,
        Sign::Path => bait.leaked(&outcome.out).1,
        Sign::Planted => bait.planted(),
        Sign::Contact => bait.contacted(),
        Sign::Device => bait.device_touched(),
        Sign::FirstProcess => bait.victim_ended(),
        Sign::Late => {
            std::thread::sleep(LATE);
            bait.path("work/late").exists()
        }
    }
}

/// What is wrong with a measurement, and what the table remarks.
fn judge(
    attempt: &Attempt,
    ours: &Outcome,
    native: bool,
    control: bool,
    undefended: &Outcome,
) -> (Option<String>, String) {
    let name = &attempt.name;
    if native {
        return match attempt.remains(is_root()) {
            Some(why) => (None, format!("remains: {why}")),
            None => (Some(format!("{name} got out: {ours:?}")), String::new()),
        };
    }
    if !ours.is_measured() {
        return (Some(format!("{name} was not measured: {ours:?}")), String::new());
    }
    if let Some(why) = &attempt.refusal
        && !format!("{}{}", ours.out, ours.err).contains(why)
    {
        return (Some(format!("{name} was refused otherwise: {ours:?}")), String::new());
    }
    if control {
        return (None, String::new());
    }
    match attempt.declared_skip(is_root()) {
        Some(why) => (None, format!("no control: {why}")),
        None => {
            let why = "its control failed, so the attempt proves nothing";
            (Some(format!("{name}: {why}: {undefended:?}")), String::new())
        }
    }
}

/// Writes the table where a reader of the test finds it.
#[allow(clippy::print_stdout, reason = "the table is what the suite is read for")]
fn print(rows: &[Row]) {
    let word = |escaped: bool| if escaped { "ESCAPED" } else { "refused" };
    let mut table = String::new();
    for row in rows {
        let bubblewrap = row.bubblewrap.map_or("absent", word);
        let control = if row.control { "reached" } else { "skipped" };
        let columns = format!("{:8} {bubblewrap:8} {control:8}", word(row.native));
        writeln!(table, "escape {:36} {columns} {}", row.name, row.remark).unwrap();
    }
    let count = |found: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| found(row)).count();
    writeln!(
        table,
        "escape {} attempts: {} out of ours, {} out of bubblewrap, {} with a control",
        rows.len(),
        count(&|row| row.native),
        count(&|row| row.bubblewrap == Some(true)),
        count(&|row| row.control),
    )
    .unwrap();
    print!("{table}");
    if is_root() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("escapes-root.txt");
        fs::write(path, table).unwrap();
    }
}

#[test]
fn modes_and_owners_give_no_rights() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let check = |script: &str, expected: &str| {
        assert_eq!(shell(&sandbox, script).ok(), expected, "{script}");
    };
    check("cp /bin/sh s && chmod 6755 s && ./s -c 'id -u; id -ru'", "1000\n1000\n");
    check("chown 0 base.txt 2>/dev/null || echo refused", "refused\n");
    check("chgrp 0 base.txt 2>/dev/null || echo refused", "refused\n");
    check("chmod 777 /usr/bin/env 2>/dev/null || echo refused", "refused\n");
    check("su -c id root </dev/null 2>/dev/null || echo refused", "refused\n");
    check("grep -c '^Cap...:.0000000000000000$' /proc/self/status", "5\n");
    check("grep NoNewPrivs /proc/self/status | tr -d '\\t '", "NoNewPrivs:1\n");
    check("ls /sys /root /boot /srv /mnt 2>/dev/null | wc -l", "0\n");
}

/// D8: links in the workspace to places of the user, and the next call mounts what they lead to.
/// Here what is mounted is named by the owner, and links lead to what does not exist.
#[test]
fn d8_links_in_the_workspace_choose_no_mounts() {
    let home = Home::new();
    let secrets = home.path("keys");
    fs::create_dir(&secrets).unwrap();
    fs::write(secrets.join("key"), "secret").unwrap();
    let spec = home.spec("s1");
    let mounts = |sandbox: &Sandbox| shell(sandbox, "cut -d' ' -f5 /proc/self/mountinfo").ok();
    let first = home.host.create(&spec).unwrap();
    let before = mounts(&first);
    for name in [".venv", "node_modules", ".cargo", "keys"] {
        shell(&first, &format!("ln -s {} {name}", secrets.display())).ok();
    }
    first.destroy().unwrap();
    let next = home.host.create(&spec).unwrap();
    assert_eq!(mounts(&next), before);
    for name in [".venv", "node_modules", ".cargo", "keys"] {
        let ran = shell(&next, &format!("cat {name}/key"));
        assert!(ran.err.contains("No such file"), "{name}: {ran:?}");
        // The control: outside, the same link leads to the secret.
        let link = home.path("s1/upper").join(name).join("key");
        assert_eq!(fs::read_to_string(link).unwrap(), "secret");
    }
}

/// What a command does to the first process must end with the command, or a later one, the tests
/// for instance, starts with less than its share.
#[test]
fn the_next_command_starts_afresh() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let state = "nproc; nice; ulimit -n; ulimit -f; grep Cpus_allowed_list /proc/self/status";
    let before = shell(&sandbox, state).ok();
    let own = "python3 -c 'import os, resource; os.sched_setaffinity(1, {0}); os.nice(5); \
        resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))'";
    shell(&sandbox, own).ok();
    if std::thread::available_parallelism().unwrap().get() > 1 {
        let first = shell(&sandbox, "grep Cpus_allowed_list /proc/1/status | cut -f2").ok();
        assert_eq!(first, "0\n", "the control: it did reach the first process");
    }
    assert_eq!(shell(&sandbox, state).ok(), before);
}

#[test]
fn sandboxes_do_not_see_each_other() {
    let home = Home::new();
    let (one, other) = (home.sandbox("s1"), home.sandbox("s2"));
    shell(&other, "echo theirs > file; echo theirs > /tmp/file").ok();
    let ran = shell(&one, "cat file /tmp/file");
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
        let seen = shell(&one, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").ok();
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
    // Its own directory, by which it says that it lives, is one.
    let own = home.path("run").canonicalize().unwrap().join("host-").display().to_string();
    let known =
        ["/dev/null", "/sys/fs/cgroup/", "socket:", "anon_inode:[pidfd]", "pidfd:", "user:"];
    let ours: Vec<&str> = known.into_iter().chain([own.as_str()]).collect();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap();
        let target = target.to_string_lossy();
        assert!(ours.iter().any(|known| target.starts_with(known)), "inherited {target}");
    }
}
