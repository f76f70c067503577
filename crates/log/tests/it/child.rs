//! Other processes: the test program runs itself with one of these jobs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use glasshouse_log::{Append, Log};
use glasshouse_model::TenantId;

use crate::support::{branch, numbered};

const JOB: &str = "GLASSHOUSE_LOG_TEST_JOB";
const HOME: &str = "GLASSHOUSE_LOG_TEST_HOME";

/// A process that is killed when the test ends.
pub(crate) struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(job: &str, home: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child::job", "--nocapture", "--quiet"])
            .env(JOB, job)
            .env(HOME, home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that the job reports; `None` when it has ended.
    pub(crate) fn report(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some((_, report)) = line.split_once("report ") {
                return line.ends_with('\n').then(|| report.trim_end().to_owned());
            }
        }
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// SIGKILL; the process stays in the table of processes until it is waited for.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub(crate) fn wait(&mut self) {
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::print_stdout, reason = "the child's only way to speak to its test")]
fn report(text: &str) {
    println!("report {text}");
    std::io::stdout().flush().unwrap();
}

#[test]
#[ignore = "a part of other tests, which run it in a process of its own"]
fn job() {
    let (Ok(job), Ok(home)) = (std::env::var(JOB), std::env::var(HOME)) else { return };
    let log = Log::open(Path::new(&home), &TenantId::local()).unwrap();
    match job.as_str() {
        "append until killed" => loop {
            let head = log.append(numbered("b_main", 0)).unwrap().head;
            report(&head.seq.to_string());
        },
        "append 200" => {
            for n in 0..200 {
                log.append(numbered("b_main", n)).unwrap();
            }
            report("done");
        }
        "own the session" => own(&log),
        other => panic!("unknown job {other}"),
    }
}

/// Takes the lease, then appends each time it is told to.
fn own(log: &Log) {
    let lease = log.acquire_lease(&branch("b_main")).unwrap();
    report(&lease.epoch().to_string());
    for line in std::io::stdin().lines() {
        assert_eq!(line.unwrap(), "append");
        let epoch = Some(lease.epoch());
        let appended = log.append(Append { epoch, ..numbered("b_main", 1) });
        report(appended.as_ref().map_or_else(|error| error.code(), |_| "appended"));
    }
}
