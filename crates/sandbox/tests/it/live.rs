//! Commands that somebody is at: input as it comes, a terminal, orders.

use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use glasshouse_sandbox::live::input;
use glasshouse_sandbox::{
    Cancel, Command, Limit, Live, Order, Orders, RunResult, Sandbox, Status, Window, codes,
};

use crate::support::*;

const PATIENCE: Duration = Duration::from_secs(20);
const WINDOW: Window = Window { rows: 30, columns: 100 };

/// A command that runs on a thread of its own.
struct Running<'a> {
    output: Receiver<Vec<u8>>,
    seen: String,
    end: std::thread::ScopedJoinHandle<'a, RunResult>,
}

impl Running<'_> {
    /// Waits until the output so far holds a text.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            let left = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{text:?} did not come ({error}): {:?}", self.seen),
            }
        }
    }

    /// The end, and all output.
    fn end(self) -> (RunResult, String) {
        let result = self.end.join().unwrap();
        let rest = self.output.try_iter().flatten().collect::<Vec<_>>();
        (result, self.seen + &String::from_utf8_lossy(&rest))
    }
}

/// What a test of a live command works with.
struct Scene {
    home: Home,
    orders: Orders,
    cancel: Cancel,
}

impl Scene {
    fn new() -> Self {
        Self { home: Home::new(), orders: Orders::new().unwrap(), cancel: Cancel::new().unwrap() }
    }

    fn run(&self, command: &Command, window: Option<Window>, act: impl FnOnce(Running<'_>, File)) {
        let sandbox: Sandbox = self.home.sandbox("s1");
        std::thread::scope(|scope| {
            let (end, start) = input().unwrap();
            let (told, output) = channel();
            let sandbox = &sandbox;
            let run = scope.spawn(move || {
                let live = Live { input: Some(end), terminal: window, orders: Some(&self.orders) };
                let mut sink = |_, bytes: &[u8]| drop(told.send(bytes.to_vec()));
                sandbox.run_live(command, live, &mut sink, &self.cancel).unwrap()
            });
            act(Running { output, seen: String::new(), end: run }, start);
        });
        assert_eq!(shell(&sandbox, "echo alive").ok(), "alive\n");
    }
}

#[test]
fn input_comes_while_the_command_runs() {
    let command = sh("while read line; do echo \"got $line\"; done; echo end");
    Scene::new().run(&command, None, |mut running, mut input| {
        for word in ["one", "two"] {
            writeln!(input, "{word}").unwrap();
            running.wait_for(&format!("got {word}\n"));
        }
        drop(input);
        let (result, seen) = running.end();
        assert_eq!((result.status, &*seen), (Status::Exited(0), "got one\ngot two\nend\n"));
    });
    // A command does not have to read, and the writer is told when it has ended.
    Scene::new().run(&sh("exit 3"), None, |running, mut input| {
        assert_eq!(running.end().0.status, Status::Exited(3));
        assert!(input.write_all(&[0; 1 << 20]).is_err());
    });
}

#[test]
fn nothing_but_a_pipe_is_handed_in() {
    let scene = Scene::new();
    let sandbox = scene.home.sandbox("s1");
    let file = scene.home.path("secret");
    std::fs::write(&file, "x").unwrap();
    for path in [file.to_str().unwrap(), "/dev/null", "/dev/ptmx", "/"] {
        let live = Live { input: Some(File::open(path).unwrap().into()), ..Live::default() };
        let refused = sandbox.run_live(&sh("cat"), live, &mut |_, _| {}, &scene.cancel);
        assert!(refused.unwrap_err().is(codes::COMMAND_INVALID), "{path}");
    }
}

#[test]
fn a_terminal_is_one() {
    let script = "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo all; echo error >&2; \
                  trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.01; done";
    let scene = Scene::new();
    scene.run(&sh(script), Some(WINDOW), |mut running, _input| {
        running.wait_for("/dev/pts/0\r\n30 100\r\nall\r\nerror\r\nready\r\n");
        scene.orders.give(Order::Resize(Window { rows: 41, columns: 7 }));
        let (result, seen) = running.end();
        assert!(seen.ends_with("41 7\r\n"), "{seen}");
        assert_eq!((result.status, result.stderr_bytes), (Status::Exited(7), 0));
    });
    // Keys mean what they mean at a terminal: interrupt, echo, end of input.
    let scene = Scene::new();
    scene.run(&sh("echo ready; exec sleep 300"), Some(WINDOW), |mut running, mut input| {
        running.wait_for("ready");
        input.write_all(b"\x03").unwrap();
        assert_eq!(running.end().0.status, Status::Signaled(2));
    });
    let scene = Scene::new();
    scene.run(&Command::new(["cat"]), Some(WINDOW), |mut running, mut input| {
        input.write_all(b"line\n").unwrap();
        running.wait_for("line\r\nline\r\n");
        drop(input);
        assert_eq!(running.end().0.status, Status::Exited(0), "the end of input is typed");
    });
}

#[test]
fn d10_d11_a_terminal_ends_with_its_command() {
    let scene = Scene::new();
    let script = "trap '' HUP; (trap '' HUP TERM; sleep 300) & echo done";
    scene.run(&sh(script), Some(WINDOW), |running, _input| {
        let (result, seen) = running.end();
        assert_eq!(result.status, Status::Exited(0));
        let ended = result.background_processes >= 1 && seen.contains("done\r\n");
        assert!(ended, "{result:?} {seen}");
    });
    let mut flood = sh("yes");
    flood.output_limit_bytes = 1 << 20;
    Scene::new().run(&flood, Some(WINDOW), |running, _input| {
        let (result, seen) = running.end();
        assert_eq!((result.status, seen.len()), (Status::LimitExceeded(Limit::Output), 1 << 20));
    });
    let mut slow = sh("trap '' TERM INT HUP; sleep 300");
    slow.timeout_ms = 300;
    Scene::new().run(&slow, Some(WINDOW), |running, _input| {
        assert_eq!(running.end().0.status, Status::TimedOut);
    });
}

/// A descriptor of the owner's, the first process's or the terminal's other side, left open by mistake, is
/// a way out. The fourth that `ls` shows is the list itself.
#[test]
fn a_command_at_a_terminal_has_nothing_but_the_terminal() {
    let shown = |seen: &str| -> Vec<String> {
        let targets = seen.lines().filter_map(|line| Some(line.split_once(" -> ")?.1.trim()));
        targets.filter(|target| !target.starts_with("/proc/")).map(str::to_owned).collect()
    };
    Scene::new().run(&sh("exec ls -l /proc/self/fd"), Some(WINDOW), |running, _input| {
        let (_, seen) = running.end();
        assert_eq!(shown(&seen), ["/dev/pts/0"; 3], "{seen}");
    });
    // The control: what is left open is seen.
    let left = sh("exec 7</etc/passwd; exec ls -l /proc/self/fd");
    Scene::new().run(&left, Some(WINDOW), |running, _input| {
        let (_, seen) = running.end();
        assert!(shown(&seen).contains(&"/etc/passwd".to_owned()), "{seen}");
    });
}

/// TIOCSTI types into a terminal: with one that is shared, into the shell of whoever started us.
#[test]
fn nothing_is_typed_into_a_terminal() {
    let attack = "import fcntl, termios\n\
                  for byte in b'id': fcntl.ioctl(0, termios.TIOCSTI, bytes([byte]))\n\
                  print('typed')";
    let command = Command::new(["python3", "-c", attack]);
    Scene::new().run(&command, Some(WINDOW), |running, _input| {
        let (_, seen) = running.end();
        assert!(seen.contains("Operation not permitted") && !seen.contains("typed"), "{seen}");
    });
    let control = format!("import pty\npty.spawn(['python3', '-c', {attack:?}])");
    let control = std::process::Command::new("python3").args(["-c", &control]).output().unwrap();
    if !String::from_utf8_lossy(&control.stdout).contains("typed") {
        skipped("nothing_is_typed_into_a_terminal", "this kernel has TIOCSTI switched off");
    }
}

/// Prints a line every few milliseconds, and what it is told.
const LOOP: &str = "
import os, signal, time
signal.signal(signal.SIGTSTP, lambda *_: os.write(1, b'warned\\n'))
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b'goes on\\n'))
while True:
    os.write(1, b'.\\n')
    time.sleep(0.005)
";

#[test]
fn a_paused_command_stands_still_and_so_does_its_time() {
    let scene = Scene::new();
    let mut command = Command::new(["python3", "-c", LOOP]);
    command.timeout_ms = 4000;
    scene.run(&command, None, |mut running, _input| {
        running.wait_for(".");
        scene.orders.give(Order::Pause);
        running.wait_for("warned\n");
        // It has a second more; then nothing comes.
        while running.output.recv_timeout(Duration::from_millis(700)).is_ok() {}
        let silent = running.output.recv_timeout(Duration::from_millis(4500));
        assert_eq!(silent, Err(RecvTimeoutError::Timeout), "beyond its time limit");
        scene.orders.give(Order::Resume);
        running.wait_for("goes on\n");
        let (result, _) = running.end();
        assert_eq!(result.status, Status::TimedOut);
        assert!(result.paused_us > 4_000_000, "{result:?}");
        let active = result.duration_us - result.paused_us;
        assert!((3_900_000..6_000_000).contains(&active), "{result:?}");
    });
}

/// A command that nobody resumes would hold its memory for good.
#[test]
fn a_pause_that_nobody_ends_ends_the_command() {
    let scene = Scene::new();
    let mut command = Command::new(["python3", "-c", LOOP]);
    (command.timeout_ms, command.pause_limit_ms) = (60_000, 300);
    scene.run(&command, None, |mut running, _input| {
        running.wait_for(".");
        let asked = Instant::now();
        scene.orders.give(Order::Pause);
        let (result, _) = running.end();
        assert_eq!(result.status, Status::TimedOut);
        assert!(result.paused_us >= 300_000, "{result:?}");
        assert!(asked.elapsed() < Duration::from_secs(20), "long before its time limit");
    });
}

#[test]
fn a_paused_command_can_be_ended() {
    let scene = Scene::new();
    let mut command = Command::new(["python3", "-c", LOOP]);
    command.timeout_ms = 60_000;
    scene.run(&command, None, |mut running, _input| {
        running.wait_for(".");
        scene.orders.give(Order::Pause);
        while running.output.recv_timeout(Duration::from_millis(700)).is_ok() {}
        let asked = Instant::now();
        scene.cancel.cancel();
        let (result, seen) = running.end();
        assert_eq!(result.status, Status::Cancelled);
        assert!(asked.elapsed() < Duration::from_secs(1) && !seen.contains("goes on"), "{seen}");
    });
}
