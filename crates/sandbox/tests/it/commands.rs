//! Commands: their end, their output, and that nothing of them is left.

use std::time::{Duration, Instant};

use glasshouse_model::CanonicalPath;
use glasshouse_sandbox::{Cancel, Command, Limit, Status, codes};

use crate::support::*;

#[test]
fn a_command_ends_as_a_shell_would_say() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let check = |argv: &[&str], status: Status, err: &str| {
        let ran = run(&sandbox, &Command::new(argv.iter().copied()));
        assert_eq!(ran.result.status, status, "{argv:?}: {ran:?}");
        assert!(ran.err.contains(err), "{argv:?}: {ran:?}");
    };
    check(&["true"], Status::Exited(0), "");
    check(&["false"], Status::Exited(1), "");
    check(&["sh", "-c", "exit 42"], Status::Exited(42), "");
    check(&["sh", "-c", "kill -TERM $$"], Status::Signaled(15), "");
    check(&["no-such-program"], Status::Exited(127), "not found");
    check(&["/workspace/absent"], Status::Exited(127), "not found");
    check(&["/workspace/base.txt"], Status::Exited(126), "cannot execute");
    check(&["/workspace"], Status::Exited(126), "cannot execute");
}

#[test]
fn environment_input_and_directory_are_the_given_ones() {
    let home = Home::new();
    let mut spec = home.spec("s1");
    spec.env = vec![("A".into(), "sandbox".into()), ("B".into(), "sandbox".into())];
    let sandbox = home.host.create(&spec).unwrap();
    let mut command = sh("echo $A $B; cat; pwd");
    command.env = vec![("B".into(), "command".into())];
    command.stdin = b"input\n".to_vec();
    command.cwd = CanonicalPath::parse("dir").unwrap();
    assert_eq!(run(&sandbox, &command).ok(), "sandbox command\ninput\n/workspace/dir\n");
    let names = shell(&sandbox, "env | cut -d= -f1 | sort | tr '\\n' ' '").ok();
    assert_eq!(names, "A B HOME LANG PATH PWD USER ");

    command = Command::new(["wc", "-c"]);
    command.stdin = vec![b'x'; 3 << 20];
    assert_eq!(run(&sandbox, &command).ok().trim(), (3 << 20).to_string());
}

#[test]
fn what_cannot_be_started_is_a_typed_error_and_the_sandbox_lives_on() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let check = |change: &dyn Fn(&mut Command)| {
        let mut command = Command::new(["true"]);
        change(&mut command);
        let outcome = sandbox.run(&command, &mut |_, _| {}, &Cancel::new().unwrap());
        let error = outcome.unwrap_err();
        assert!(error.is(codes::COMMAND_INVALID), "{command:?}: {error}");
    };
    check(&|command| command.argv.clear());
    check(&|command| command.argv = vec![String::new()]);
    check(&|command| command.argv.push("a\0b".into()));
    check(&|command| command.argv.push("x".repeat(200 << 10)));
    check(&|command| command.argv = vec!["true".into(); 5000]);
    check(&|command| command.env = vec![("A=B".into(), String::new())]);
    check(&|command| command.cwd = CanonicalPath::parse("absent").unwrap());
    check(&|command| command.cwd = CanonicalPath::parse("base.txt").unwrap());
    assert_eq!(shell(&sandbox, "echo alive").ok(), "alive\n");
}

#[test]
fn d10_a_background_process_does_not_hold_the_call() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let started = Instant::now();
    let ran = shell(&sandbox, "setsid sleep 300 & echo hi");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(ran.result.background_processes, 1, "{ran:?}");
    assert_eq!(ran.ok(), "hi\n");
    let ran = shell(&sandbox, "for i in 1 2 3; do (trap '' TERM HUP; sleep 300) & done");
    assert!(ran.result.background_processes >= 3, "{ran:?}");
    let left = shell(&sandbox, "ls /proc | grep -c '^[0-9]'").ok();
    // The first process, the shell, ls and grep.
    assert!(left.trim().parse::<u32>().unwrap() <= 4, "{left}");
}

#[test]
fn d11_a_time_limit_leaves_nothing_behind() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let mut command = sh(
        "trap '' TERM; echo before; (trap '' TERM; sleep 3; echo late > sentinel) & sleep 3; echo late > sentinel",
    );
    command.timeout_ms = 500;
    let started = Instant::now();
    let ran = run(&sandbox, &command);
    assert_eq!(ran.result.status, Status::TimedOut);
    assert_eq!(ran.out, "before\n");
    assert!(started.elapsed() < Duration::from_millis(2500), "{:?}", started.elapsed());
    std::thread::sleep(Duration::from_millis(3200).saturating_sub(started.elapsed()));
    let ran = shell(&sandbox, "ls sentinel");
    assert_eq!(ran.result.status, Status::Exited(2), "{ran:?}");
    assert!(!home.path("s1/upper/sentinel").exists());
}

#[test]
fn a_command_may_not_outlast_its_template() {
    let home = Home::new();
    let mut spec = home.spec("s1");
    spec.template.max_duration_ms = 300;
    let sandbox = home.host.create(&spec).unwrap();
    let mut command = sh("sleep 60");
    command.timeout_ms = 60_000;
    let ran = run(&sandbox, &command);
    assert_eq!(ran.result.status, Status::TimedOut);
    assert!((300_000..2_000_000).contains(&ran.result.duration_us), "{ran:?}");
}

#[test]
fn cancelling_ends_a_command_at_once() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let cancel = Cancel::new().unwrap();
    let other = cancel.clone();
    let started = Instant::now();
    let mut out = Vec::new();
    // The command itself says when it is running, so no time has to be guessed.
    let mut sink = |_, bytes: &[u8]| {
        out.extend_from_slice(bytes);
        other.cancel();
    };
    let result = sandbox.run(&sh("echo running; sleep 300"), &mut sink, &cancel).unwrap();
    assert_eq!(result.status, Status::Cancelled);
    assert_eq!(out, b"running\n");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let ran = run_with(&sandbox, &sh("sleep 300"), &cancel);
    assert_eq!(ran.result.status, Status::Cancelled, "a set flag stays set");
    assert_eq!(shell(&sandbox, "echo alive").ok(), "alive\n");
}

#[test]
fn h6_a_flood_of_output_is_bounded_and_waits_for_the_reader() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let mut command = sh("yes");
    command.output_limit_bytes = 1 << 20;
    let ran = run(&sandbox, &command);
    assert_eq!(ran.result.status, Status::LimitExceeded(Limit::Output));
    assert_eq!(ran.out.len(), 1 << 20, "up to the limit everything is kept");
    assert!(ran.result.stdout_bytes < 2 << 20, "{ran:?}", ran = ran.result);

    // A slow reader: what the command wrote is at most what was read plus what a pipe holds.
    command.output_limit_bytes = u64::MAX;
    command.timeout_ms = 700;
    let (mut read, mut pieces) = (0u64, 0u32);
    let mut sink = |_, bytes: &[u8]| {
        read += u64::try_from(bytes.len()).unwrap();
        pieces += 1;
        std::thread::sleep(Duration::from_millis(100));
    };
    let result = sandbox.run(&command, &mut sink, &Cancel::new().unwrap()).unwrap();
    assert_eq!(result.status, Status::TimedOut);
    assert_eq!(result.stdout_bytes, read);
    assert!(pieces < 14, "{pieces} pieces of at most 64 KiB in 0.7 s");
}

#[test]
fn both_streams_arrive_whole() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let ran = shell(
        &sandbox,
        "head -c 300000 /dev/zero | tr '\\0' a; head -c 200000 /dev/zero | tr '\\0' b >&2",
    );
    assert_eq!((ran.result.stdout_bytes, ran.result.stderr_bytes), (300_000, 200_000));
    assert!(ran.out.bytes().all(|byte| byte == b'a') && ran.err.bytes().all(|byte| byte == b'b'));
    assert!(
        ran.result.usage.cpu_us > 0 && ran.result.usage.memory_peak_bytes > 0,
        "{:?}",
        ran.result
    );
}
