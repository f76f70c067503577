//! Functions of the program in a sandbox.

use std::time::{Duration, Instant};

use glasshouse_sandbox::{
    Cancel, Command, HostConfig, Limit, ReadOnlyMount, Sandbox, SandboxHost, SandboxSpec, Status,
    Stream, Task, TemplateName,
};

use crate::support::{probe, run};

struct Place {
    _directory: tempfile::TempDir,
    host: SandboxHost,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = HostConfig { program: probe(), home: directory.path().to_owned() };
        Self { host: SandboxHost::start(config).unwrap(), _directory: directory }
    }

    fn sandbox(&self) -> Sandbox {
        let spec = SandboxSpec::new("entry", TemplateName::Script.template());
        self.host.create(&spec).unwrap()
    }
}

fn task(entry: &str) -> Task {
    Task {
        entry: entry.to_owned(),
        input: Vec::new(),
        timeout_ms: 2_000,
        output_limit_bytes: 1 << 20,
    }
}

fn enter(sandbox: &Sandbox, task: &Task) -> (Status, String) {
    let mut out = Vec::new();
    let mut sink = |stream, bytes: &[u8]| {
        if stream == Stream::Stdout {
            out.extend_from_slice(bytes);
        }
    };
    let ran = sandbox.enter(task, &mut sink, &Cancel::new().unwrap()).unwrap();
    (ran.status, String::from_utf8(out).unwrap())
}

#[test]
fn a_function_reads_its_input_and_answers_and_another_can_follow() {
    let place = Place::new();
    let sandbox = place.sandbox();
    for size in [0, 5, 1 << 19] {
        let input = vec![b'x'; size];
        let (status, out) = enter(&sandbox, &Task { input: input.clone(), ..task("echo") });
        assert_eq!((status, out.as_bytes()), (Status::Exited(7), &input[..]));
    }
    let error = sandbox.enter(&task("none"), &mut |_, _| {}, &Cancel::new().unwrap()).unwrap_err();
    assert_eq!(error.code(), "sandbox_command_invalid");
    assert_eq!(enter(&sandbox, &task("panic")).0, Status::Exited(70));
    assert_eq!(enter(&sandbox, &task("echo")).0, Status::Exited(7));
}

#[test]
fn a_function_gets_nothing_but_computing() {
    let place = Place::new();
    let (status, out) = enter(&place.sandbox(), &task("attempts"));
    assert_eq!(status, Status::Exited(0));
    assert!(out.lines().count() > 10, "{out}");
    for line in out.lines() {
        assert!(line.ends_with(": refused"), "{line}");
    }
    // The same attempts as a command of a build reach everything but what no sandbox gives.
    let mut spec = SandboxSpec::new("control", TemplateName::CodeExecutor.template());
    let program = probe();
    let target = std::path::PathBuf::from("/opt/probe");
    spec.mounts = vec![ReadOnlyMount { source: program, target }];
    let control =
        run(&place.host.create(&spec).unwrap(), &Command::new(["/opt/probe", "attempts"]));
    for line in control.ok().lines() {
        assert!(line.ends_with(": reached"), "control: {line}");
    }
}

#[test]
fn a_function_ends_at_its_limits() {
    let place = Place::new();
    let sandbox = place.sandbox();
    let started = Instant::now();
    let (status, _) = enter(&sandbox, &Task { timeout_ms: 100, ..task("spin") });
    assert_eq!(status, Status::TimedOut);
    assert!(started.elapsed() < Duration::from_millis(1_000), "{:?}", started.elapsed());
    let input = vec![b'x'; 1 << 19];
    let (status, _) = enter(&sandbox, &Task { input, output_limit_bytes: 1 << 10, ..task("echo") });
    assert_eq!(status, Status::LimitExceeded(Limit::Output));
    if sandbox.attestation().cgroup.memory_bytes.is_some() {
        let (status, _) = enter(&sandbox, &Task { timeout_ms: 10_000, ..task("hog") });
        assert_eq!(status, Status::LimitExceeded(Limit::Memory));
    }
    assert_eq!(enter(&sandbox, &task("echo")).0, Status::Exited(7));
}

#[test]
fn a_cancelled_function_is_gone() {
    let place = Place::new();
    let sandbox = place.sandbox();
    let cancel = Cancel::new().unwrap();
    let later = cancel.clone();
    let canceller = std::thread::spawn(move || later.cancel());
    let ran = sandbox.enter(&task("spin"), &mut |_, _| {}, &cancel).unwrap();
    canceller.join().unwrap();
    assert_eq!(ran.status, Status::Cancelled);
    assert_eq!(enter(&sandbox, &task("echo")).0, Status::Exited(7));
}

/// Code of plans that never rested cost the runs of its neighbours 1.4 to 1.7 times their time.
#[test]
fn a_function_that_goes_on_leaves_the_processor_to_others() {
    let place = Place::new();
    let sandbox = place.sandbox();
    let spent_ms = |timeout_ms: u64| {
        let spin = Task { timeout_ms, ..task("spin") };
        let ran = sandbox.enter(&spin, &mut |_, _| {}, &Cancel::new().unwrap()).unwrap();
        assert_eq!(ran.status, Status::TimedOut);
        let took = ran.duration_us / 1_000;
        assert!((timeout_ms..timeout_ms + 1_000).contains(&took), "{took} of {timeout_ms} ms");
        ran.usage.cpu_us / 1_000
    };
    let long = spent_ms(2_000);
    assert!(long < 1_000, "{long} of 2,000 ms");
    // The control: it spins, and what is short has a processor, as far as a busy machine has one.
    let short = (0..10).map(|_| spent_ms(140)).max();
    assert!(short > Some(50), "{short:?} of 140 ms");
}
