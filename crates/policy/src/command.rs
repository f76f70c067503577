//! What an argument vector may run.
//!
//! A permissive rule matches the words exactly as they will run, alone or as the commands of a shell's
//! script, of which each must match. A restrictive rule must not be
//! escaped by dressing the command up, so it is looked for wherever it could run: behind a
//! wrapper (`env`, `xargs`, `timeout`), in the script of a shell, under an absolute path, behind
//! quotes, options and escapes. What can not be read counts as a match: a false one asks a person, a
//! missed one lets the command through.

mod sought;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::HashMap;

use self::sought::Sought;
use crate::limits::MAX_COMMAND_BYTES;
use crate::shell::{Invocation, ShellWord, Unreadable, invocations, obeyed};

/// Programs that run the words behind them.
const WRAPPERS: &[&str] = &[
    "builtin",
    "bunx",
    "busybox",
    "bwrap",
    "choom",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "cpulimit",
    "dbus-run-session",
    "direnv",
    "doas",
    "eatmydata",
    "env",
    "exec",
    "fakeroot",
    "faketime",
    "find",
    "firejail",
    "flock",
    "gdb",
    "gosu",
    "i386",
    "i486",
    "i586",
    "i686",
    "ionice",
    "linux32",
    "linux64",
    "logsave",
    "ltrace",
    "mise",
    "nice",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pipenv",
    "pkexec",
    "poetry",
    "prlimit",
    "proot",
    "rlwrap",
    "runcon",
    "runuser",
    "rustup",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "sg",
    "ssh-agent",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su-exec",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "uname26",
    "unbuffer",
    "unshare",
    "uv",
    "valgrind",
    "watch",
    "x86_64",
    "xargs",
    "xvfb-run",
];

/// Wrappers that add words which are not to be seen here.
const WITH_MORE_WORDS: &[&str] = &["parallel", "xargs"];

/// Programs that read a script out of their arguments or their input.
const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "su", "zsh"];

/// Shells of another grammar, whose scripts are not read.
const OTHER_SHELLS: &[&str] = &["csh", "elvish", "fish", "nu", "pwsh", "tcsh", "xonsh"];

/// Options of programs whose value is a command.
const COMMAND_OPTIONS: &[&str] =
    &["--checkpoint-action=", "--filter=", "--rsh=", "--to-command=", "--use-compress-program="];

/// Shells whose scripts a permissive rule looks into: where the system has them, never a program of
/// that name that lies elsewhere.
const TRUSTED_SHELLS: &[&str] =
    &["sh", "bash", "dash", "/bin/sh", "/bin/bash", "/bin/dash", "/usr/bin/sh", "/usr/bin/bash"];
/// Options that change nothing about which commands a script runs.
const HARMLESS_OPTIONS: &str = "celuxf";

/// What was read of one argument vector: once, however many rules ask about it. It belongs to the vector that it was
/// asked about first.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    script: OnceCell<Option<Vec<Invocation>>>,
    commands: OnceCell<Commands>,
}

impl Seen {
    /// Whether running `argv` runs nothing but commands that begin exactly with one of the prefixes (`exact`:
    /// that are one of them): the words themselves, or every command of a shell's script. A variable that is set for
    /// a command can make another of it, so then the answer is no.
    pub(crate) fn runs_only(
        &self,
        argv: &[String],
        prefixes: &[Vec<Box<str>>],
        exact: bool,
    ) -> bool {
        let begins = |words: &[Option<&str>]| {
            prefixes.iter().any(|prefix| {
                (if exact { words.len() == prefix.len() } else { words.len() >= prefix.len() })
                    && words.iter().zip(prefix).all(|(word, want)| *word == Some(&**want))
            })
        };
        let words: Vec<_> = argv.iter().map(|word| Some(word.as_str())).collect();
        if begins(&words) {
            return true;
        }
        let Some(found) = self.script.get_or_init(|| script_of(argv)) else { return false };
        !found.is_empty()
            && found.iter().all(|invocation| {
                let words: Vec<_> = invocation.words.iter().map(text).collect();
                !invocation.assigns && begins(&words)
            })
    }

    /// Whether running `argv` could run a command that begins with one of the prefixes.
    pub(crate) fn could_run(&self, argv: &[String], prefixes: &[Vec<Box<str>>]) -> bool {
        let commands = self.commands.get_or_init(|| Commands::of(argv));
        commands.anything || prefixes.iter().any(|prefix| commands.begin(prefix))
    }
}

/// The commands of the script that `argv` gives to a shell of the system, and nothing else.
fn script_of(argv: &[String]) -> Option<Vec<Invocation>> {
    let [shell, options, script, ..] = argv else { return None };
    let reads_script = TRUSTED_SHELLS.contains(&shell.as_str())
        && options.strip_prefix('-').is_some_and(|letters| {
            letters.contains('c') && letters.chars().all(|c| HARMLESS_OPTIONS.contains(c))
        });
    if !reads_script {
        return None;
    }
    invocations(script, &mut MAX_COMMAND_BYTES.clone()).ok()
}

/// Every command that running an argument vector could run.
#[derive(Debug, Default)]
struct Commands {
    /// Some of it can not be read or is too long: it could be any command.
    anything: bool,
    lines: Vec<Line>,
    /// Lines on which a program of this name may start.
    by_name: HashMap<String, Vec<usize>>,
}

/// Words that stand behind one another.
#[derive(Debug)]
struct Line {
    words: Vec<ShellWord>,
    starts: Vec<Start>,
}

/// Whether a command may start at a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Start {
    None,
    Closed,
    /// One does, and words follow it that are not known.
    Open,
}

impl Commands {
    fn of(argv: &[String]) -> Self {
        let mut search = Search { lines: Vec::new(), todo: Vec::new(), budget: MAX_COMMAND_BYTES };
        search.add(argv.iter().cloned().map(ShellWord::Text).collect());
        if search.run().is_err() {
            return Self { anything: true, ..Self::default() };
        }
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, line) in search.lines.iter().enumerate() {
            for (word, start) in line.words.iter().zip(&line.starts) {
                let Some(text) = text(word).filter(|_| *start != Start::None) else { continue };
                let name = base_name(text);
                match by_name.get_mut(name) {
                    Some(lines) if lines.last() == Some(&at) => {}
                    Some(lines) => lines.push(at),
                    None => drop(by_name.insert(name.to_owned(), vec![at])),
                }
            }
        }
        Self { anything: false, lines: search.lines, by_name }
    }

    fn begin(&self, prefix: &[Box<str>]) -> bool {
        let Some((program, more)) = prefix.split_first() else { return false };
        let lines = self.by_name.get(base_name(program)).map_or(&[][..], Vec::as_slice);
        let line = |at: &usize| self.lines.get(*at);
        [false, true].into_iter().any(|open| {
            let mut sought = Sought::new(program, more, open);
            lines.iter().filter_map(line).any(|line| line.holds(&mut sought))
        })
    }
}

impl Line {
    fn holds(&self, sought: &mut Sought<'_>) -> bool {
        let wanted = if sought.is_open() { Start::Open } else { Start::Closed };
        if !self.starts.contains(&wanted) {
            return false;
        }
        sought.forget();
        (0..self.words.len()).rev().any(|at| {
            let found = self.starts[at] == wanted && sought.begins_with(&self.words[at]);
            sought.read(&self.words[at], self.words.get(at + 1));
            found
        })
    }
}

/// A way through everything that an argument vector could run.
struct Search {
    lines: Vec<Line>,
    /// Commands to follow: line, place on it, and whether unknown words follow.
    todo: Vec<(usize, usize, bool)>,
    /// Bytes that may still be looked at; none left counts as anything.
    budget: usize,
}

/// What a command may run, itself among it. Places are counted from its name.
#[derive(Default)]
struct Inner {
    /// Where a command may start, and whether unknown words follow it.
    starts: Vec<(usize, bool)>,
    /// Those of them that are to be followed in turn.
    runners: Vec<(usize, bool)>,
    scripts: Vec<String>,
}

impl Search {
    fn add(&mut self, words: Vec<ShellWord>) {
        if !words.is_empty() {
            self.todo.push((self.lines.len(), 0, false));
            let starts = vec![Start::None; words.len()];
            self.lines.push(Line { words, starts });
        }
    }

    fn run(&mut self) -> Result<(), Unreadable> {
        while let Some((line, at, open)) = self.todo.pop() {
            self.follow(line, at, open)?;
        }
        Ok(())
    }

    fn follow(&mut self, at_line: usize, at: usize, open: bool) -> Result<(), Unreadable> {
        let line = &mut self.lines[at_line];
        let words = &line.words[at..];
        let bytes = words.iter().map(|word| text(word).map_or(0, str::len) + 1).sum::<usize>();
        self.budget = self.budget.checked_sub(bytes).ok_or(Unreadable)?;
        let inner = Inner::of(words, open)?;
        for (place, open) in inner.starts {
            let start = if open { Start::Open } else { Start::Closed };
            let known = &mut line.starts[at + place];
            *known = start.max(*known);
        }
        self.todo.extend(inner.runners.iter().map(|(place, open)| (at_line, at + *place, *open)));
        for script in &inner.scripts {
            for invocation in invocations(script, &mut self.budget)? {
                self.add(invocation.words);
            }
        }
        Ok(())
    }
}

impl Inner {
    /// What the command at the beginning of some words may run.
    fn of(words: &[ShellWord], open: bool) -> Result<Self, Unreadable> {
        let first = text(&words[0]).ok_or(Unreadable)?;
        let mut inner = Self { starts: vec![(0, open)], ..Self::default() };
        let rest = &words[1..];
        let program = base_name(first).to_ascii_lowercase();
        if words.iter().filter_map(text).any(obeyed) {
            return Err(Unreadable);
        }
        match program.as_str() {
            shell if SHELLS.contains(&shell) => inner.shell(rest)?,
            shell if OTHER_SHELLS.contains(&shell) => return Err(Unreadable),
            // Later words mean something else than they say, or their words are commands.
            "alias" | "hash" | "compgen" | "complete" | "start-stop-daemon" if !rest.is_empty() => {
                return Err(Unreadable);
            }
            "mapfile" | "readarray"
                if rest.iter().filter_map(text).any(|it| it.starts_with("-C")) =>
            {
                return Err(Unreadable);
            }
            "." | "source"
                if !rest.first().is_some_and(|file| text(file).is_some_and(is_script)) =>
            {
                return Err(Unreadable);
            }
            // A value that is expanded later may be a command: as a prompt, or inside arithmetic.
            "export" | "declare" | "typeset" | "readonly" | "local"
                if rest.iter().filter_map(text).any(holds_substitution) =>
            {
                return Err(Unreadable);
            }
            "git" => inner.git(words)?,
            "eval" => {
                let texts: Option<Vec<&str>> = rest.iter().map(text).collect();
                inner.scripts.push(texts.ok_or(Unreadable)?.join(" "));
            }
            "trap" => {
                if let Some(word) = rest.iter().find(|word| text(word) != Some("--")) {
                    inner.scripts.push(text(word).ok_or(Unreadable)?.to_owned());
                }
            }
            wrapper if is_wrapper(wrapper) => {
                inner.wrapped(words, 1, open || WITH_MORE_WORDS.contains(&wrapper))?;
            }
            _ => {
                let options = rest.iter().filter_map(text).flat_map(|word| {
                    COMMAND_OPTIONS.iter().filter_map(|option| word.strip_prefix(option))
                });
                // `exec=` of an action.
                inner.scripts.extend(options.map(|it| it.trim_start_matches("exec=").to_owned()));
            }
        }
        Ok(inner)
    }

    /// Options of a wrapper are not told apart from its command: any word may start one, and one that
    /// holds blanks (`env -S`) is read as a script.
    fn wrapped(&mut self, words: &[ShellWord], from: usize, open: bool) -> Result<(), Unreadable> {
        if open && from >= words.len() {
            return Err(Unreadable);
        }
        for (at, word) in words.iter().enumerate().skip(from) {
            let text = text(word).ok_or(Unreadable)?;
            let name = base_name(text);
            self.starts.push((at, open));
            let is_shell = SHELLS.contains(&name) || OTHER_SHELLS.contains(&name);
            if is_shell && open {
                // Its script may be among the words that are not to be seen.
                return Err(Unreadable);
            }
            if is_shell || is_wrapper(name) || FOLLOWED.contains(&name) {
                self.runners.push((at, open));
            }
            let script = text.contains(char::is_whitespace).then_some(text);
            self.scripts.extend(joined_values(text).chain(script).map(|it| it.replace("\\_", " ")));
        }
        Ok(())
    }

    /// The commands of others that git runs: aliases given on the spot, and one for each step.
    fn git(&mut self, words: &[ShellWord]) -> Result<(), Unreadable> {
        let texts: Vec<&str> = words.iter().map(|word| text(word).unwrap_or_default()).collect();
        // The words behind an alias are behind what it stands for.
        if texts.iter().any(|text| text.contains("alias.") && text.contains('=')) {
            return Err(Unreadable);
        }
        let behind = |name: &str| texts.iter().position(|text| *text == name).map(|at| at + 1);
        let steps = texts.windows(2).filter(|pair| matches!(pair[0], "-x" | "--exec"));
        let scripts = texts
            .iter()
            // Settings name pagers, editors, helpers and ways to connect.
            .filter_map(|text| text.split_once('=').map(|(_, value)| value.trim_start_matches('!')))
            .chain(steps.map(|pair| pair[1]))
            .chain(texts.iter().filter_map(|text| text.strip_prefix("--exec=")));
        self.scripts.extend(scripts.map(str::to_owned));
        match behind("foreach").or_else(|| behind("bisect").and_then(|_| behind("run"))) {
            Some(at) => self.wrapped(words, at, false),
            None => Ok(()),
        }
    }

    /// Behind the name of a shell: every word after `-c` may be the script; without a file of a script it
    /// reads one from its input.
    fn shell(&mut self, words: &[ShellWord]) -> Result<(), Unreadable> {
        let takes_script = |word: &ShellWord| {
            text(word).is_none_or(|text| {
                text.starts_with("--c")
                    || text.starts_with("--session-c")
                    || (is_short(text) && text.contains('c'))
            })
        };
        let Some(at) = words.iter().position(takes_script) else {
            return if reads_file(words) { Ok(()) } else { Err(Unreadable) };
        };
        for word in &words[at..] {
            let text = text(word).ok_or(Unreadable)?;
            self.scripts.extend(joined_values(text).map(str::to_owned));
            let is_option = text.starts_with(['-', '+'])
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "-+_".contains(c));
            if !is_option {
                self.scripts.push(text.to_owned());
            }
        }
        Ok(())
    }
}

/// Names behind a wrapper that do more than run as they are called.
const FOLLOWED: &[&str] = &[
    ".",
    "alias",
    "compgen",
    "complete",
    "eval",
    "export",
    "git",
    "hash",
    "mapfile",
    "readarray",
    "source",
    "start-stop-daemon",
    "trap",
];

/// Whether a shell's words name a file of a script.
fn reads_file(words: &[ShellWord]) -> bool {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match text(word) {
            Some("-o" | "-O" | "+o" | "+O" | "--rcfile" | "--init-file") => _ = words.next(),
            // Letters of options that take the next word as value, or the input as script.
            Some(option) if is_short(option) && option.contains(['o', 'O', 's']) => return false,
            Some(option) if option.starts_with(['-', '+']) => {}
            Some(file) => return is_script(file),
            None => return false,
        }
    }
    false
}

/// Whether a word names a file that is no device and no place of a process.
fn is_script(file: &str) -> bool {
    !file.contains("dev/") && !file.contains("proc/") && !file.starts_with('-')
}

/// What may be the value of an option in the same word: `--split-string=V`, `-vSV`, `-qcV`.
fn joined_values(word: &str) -> impl Iterator<Item = &str> {
    let long = word.starts_with("--").then(|| word.split_once('=')).flatten();
    let letters = word.char_indices().take(4).filter(|(_, c)| matches!(c, 'S' | 'c'));
    let short = letters.map(|(at, _)| &word[at + 1..]).filter(|_| is_short(word));
    long.map(|(_, value)| value).into_iter().chain(short).filter(|value| !value.is_empty())
}

fn text(word: &ShellWord) -> Option<&str> {
    match word {
        ShellWord::Text(text) => Some(text),
        ShellWord::One | ShellWord::Many => None,
    }
}

/// `-x`, `-xyz`; not `-`, `--long`.
fn is_short(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.starts_with("--")
}

/// Whether a program runs the words behind its name. The system's loader does as well.
fn is_wrapper(name: &str) -> bool {
    WRAPPERS.contains(&name)
        || ["-", "ld-linux", "ld-musl", "ld.so"].iter().any(|start| name.starts_with(start))
}

/// Whether a text would run a command where it is expanded.
pub(crate) fn holds_substitution(text: &str) -> bool {
    text.contains("$(") || text.contains('`')
}

pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}
