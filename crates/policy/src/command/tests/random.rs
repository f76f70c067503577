//! What the reader says of a script against what the shells of this machine do with it.
//!
//! Scripts are put together from a corpus at random, the same ones in each run. Where the reader says that a script
//! can not run `zz`, or that it runs nothing but what is named, the shells are asked: a `zz` on their path leaves a
//! mark. They run as nobody where that can be had, in an empty directory, with nothing else on the path but programs
//! that change nothing.

#![allow(
    clippy::print_stderr,
    reason = "a long run tells what it finds while it goes on, and a skip is told"
)]

mod scripts;

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use self::scripts::{Dice, is_harmless, script, without_a_piece};
use super::*;

/// Scripts in a usual run, and in one that has hours.
const SCRIPTS: [usize; 2] = [4_000, 400_000];
/// Of the scripts that are denied, which is what they may be whatever they do, each of so many is run as a control.
const CONTROL_EVERY: usize = 30;
/// After so many different finds the search ends.
const MAX_FINDS: usize = 12;
/// A script that takes longer runs in a circle.
const LIMIT: Duration = Duration::from_millis(1_000);
const NOBODY: u32 = 65_534;

/// Programs beside `zz`, where the machine has them.
const PROGRAMS: &[&str] = &[
    "bash", "cat", "dash", "date", "env", "expr", "head", "nice", "nproc", "seq", "sh", "sort",
    "stdbuf", "tail", "tee", "timeout", "tr", "true", "uniq", "wc", "xargs",
];

/// What a policy allows that does not allow `zz`: programs, and commands of the shell, that run no others but those
/// that are read.
const ALLOWED: &str = ": [ [[ ]] break cat cd continue date declare dirs echo eval exit export expr false getopts \
    head let local mapfile nproc printf pwd read readonly return seq set shift shopt sort tail test times tr trap true \
    type typeset umask uniq unset wait wc a b f g x y";

/// So that a loop, a bomb or a flood ends by itself.
const LIMITS: &str = "ulimit -c 0; ulimit -t 1; ulimit -f 2000; ulimit -v 2000000; \
    read -r _ _ _ tasks _ < /proc/loadavg; tasks=$((${tasks#*/} + 200)); \
    ulimit -u $tasks 2>/dev/null || ulimit -p $tasks; \
    shell=$1; script=$2; shift 2; unset tasks _; exec \"$shell\" \"$@\" -c \"$script\"";

/// Shells of this machine, and a place to run them in.
struct Machine {
    base: PathBuf,
    shells: Vec<(PathBuf, &'static [&'static str])>,
    as_nobody: bool,
}

impl Machine {
    /// `None` where a shell is missing.
    fn open(name: &str) -> Option<Self> {
        let found = |program: &str| {
            ["/bin", "/usr/bin"]
                .map(|dir| Path::new(dir).join(program))
                .into_iter()
                .find(|path| path.exists())
        };
        let mut shells = vec![(found("bash")?, &[][..]), (found("dash")?, &[])];
        if is_soak() {
            shells.push((found("bash")?, &["--posix"]));
            shells.extend(found("busybox").map(|path| (path, &["ash"][..])));
        }
        let base = std::env::temp_dir().join(format!("glasshouse-{name}-{}", std::process::id()));
        let programs = base.join("programs");
        for dir in [&programs, &base.join("marks")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        for program in PROGRAMS {
            if let Some(path) = found(program) {
                symlink(path, programs.join(program)).unwrap();
            }
        }
        // One that leaves the mark, and one that runs what a variable says with its own words behind it.
        let mark = format!(": > {}", base.join("marks/zz").display());
        for (name, text) in [("zz", mark.as_str()), ("git", "eval \"${GIT_EDITOR:-:} \"'\"$@\"'")] {
            std::fs::write(programs.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(programs.join(name), PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        let is_root = std::fs::metadata(&base).unwrap().uid() == 0;
        let mut machine = Self { base, shells, as_nobody: is_root };
        if is_root {
            chown(machine.base.join("marks"), Some(NOBODY), Some(NOBODY)).unwrap();
            // Root of a small namespace has nobody to become.
            machine.as_nobody = machine.marks(0, "zz");
        }
        Some(machine)
    }

    /// The first shell in which a script leaves the mark.
    fn runs(&self, script: &str) -> Option<String> {
        let shell = |at: &usize| self.marks(*at, script);
        let (path, options) = &self.shells[(0..self.shells.len()).find(shell)?];
        Some(format!("{} {}", path.display(), options.join(" ")))
    }

    fn marks(&self, shell: usize, script: &str) -> bool {
        let (mark, work) = (self.base.join("marks/zz"), self.base.join("work"));
        std::fs::create_dir_all(&work).unwrap();
        if self.as_nobody {
            chown(&work, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let (path, options) = &self.shells[shell];
        let mut command = Command::new("/bin/sh");
        command.args(["-c", LIMITS, "sh"]).arg(path).arg(script).args(*options);
        command.current_dir(&work).env_clear();
        command.env("PATH", self.base.join("programs")).env("HOME", &work);
        if self.as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        // What goes on behind a shell's back may leave the mark of another script.
        let leaves = script.contains(['&', '(']) || script.contains("coproc");
        finished(&mut command, leaves);
        std::fs::remove_dir_all(&work).unwrap();
        std::fs::remove_file(mark).is_ok()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// Waits until the command and what it started let go of its output; ends what is late, or left.
fn finished(command: &mut Command, leaves: bool) {
    let (mut output, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
    command.process_group(0);
    let Ok(mut child) = command.spawn() else { return };
    // The command holds the ends that are written to.
    *command = Command::new("true");
    let (sender, ended) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut part = [0; 4096];
        while output.read(&mut part).is_ok_and(|bytes| bytes > 0) {}
        let _ = sender.send(());
    });
    let begin = Instant::now();
    let mut is_late = ended.recv_timeout(LIMIT).is_err();
    while !is_late && child.try_wait().is_ok_and(|status| status.is_none()) {
        is_late = begin.elapsed() > LIMIT;
        std::thread::sleep(Duration::from_micros(200));
    }
    if is_late || leaves {
        let group = format!("kill -KILL -- -{}", child.id());
        let _ = Command::new("/bin/sh").args(["-c", &group]).stderr(Stdio::null()).status();
    }
    let _ = child.wait();
    drop(reader);
}

fn is_soak() -> bool {
    std::env::var_os("GLASSHOUSE_SOAK").is_some()
}

/// What the reader promises of a script: that it does not run `zz`, or that it runs nothing else than what is named.
fn promises(script: &str) -> Vec<&'static str> {
    let words = argv(&["sh", "-c", script]);
    let allowed: Vec<_> = ALLOWED.split_whitespace().map(prefix).collect();
    let mut promises = Vec::new();
    if !could_run(&words, &[prefix("zz")]) {
        promises.push("not denied");
    }
    if runs_only(&words, &allowed, false) {
        promises.push("allowed");
    }
    promises
}

/// The smallest script that can be had of one by taking pieces away, and that still breaks what is promised.
fn smallest(script: &str, breaks: &dyn Fn(&str) -> bool) -> String {
    let mut script = script.to_owned();
    while let Some(smaller) = without_a_piece(&script).find(|smaller| breaks(smaller)) {
        script = smaller;
    }
    script
}

#[test]
fn corpus_of_scripts_no_shell_runs_what_the_reader_does_not_see() {
    let name = "command::tests::random";
    let Some(machine) = Machine::open("shells") else {
        return skipped(name, "dash is not installed");
    };
    assert!(
        machine.runs("zz").is_some() && machine.runs("echo zz").is_none(),
        "nothing leaves a mark"
    );
    let seed = std::env::var("GLASSHOUSE_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut dice = Dice::new(seed.unwrap_or(1));
    let (mut asked, mut controls, mut noticed) = (0, 0, 0);
    let mut finds: Vec<String> = Vec::new();
    for at in 0..SCRIPTS[usize::from(is_soak())] {
        let script = script(&mut dice);
        if !is_harmless(&script) {
            continue;
        }
        if promises(&script).is_empty() {
            // The control: among those that are denied are many that do run it.
            if at % CONTROL_EVERY == 0 {
                controls += 1;
                noticed += usize::from(machine.marks(0, &script));
            }
            continue;
        }
        asked += 1;
        let breaks = |script: &str| {
            is_harmless(script) && !promises(script).is_empty() && machine.runs(script).is_some()
        };
        if breaks(&script) {
            let script = smallest(&script, &breaks);
            let find =
                format!("{:?} by {:?}: {script:?}", promises(&script), machine.runs(&script));
            eprintln!("{find}");
            if !finds.contains(&find) {
                finds.push(find);
            }
            if finds.len() >= MAX_FINDS {
                break;
            }
        }
    }
    eprintln!("{asked} scripts asked about, {noticed} of {controls} denied ones run it");
    assert!(finds.is_empty(), "{}", finds.join("\n"));
    assert!(
        asked > 150 && noticed * 20 > controls,
        "{asked} asked, {noticed} of {controls} run it"
    );
}

fn skipped(name: &str, reason: &str) {
    eprintln!("skipped: {name}: {reason}");
    if let Some(path) = std::env::var_os("GLASSHOUSE_SKIP_LOG") {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{name}: {reason}").unwrap();
    }
}
