//! What an argument vector may run.
//!
//! A permissive rule matches the words exactly as they will run, alone or as the commands of a shell's
//! script, of which each must match. A restrictive rule must not be
//! escaped by dressing the command up, so it is looked for wherever it could run: behind a
//! wrapper (`env`, `xargs`, `timeout`), in the script of a shell, under an absolute path, behind
//! quotes, options and escapes. What can not be read counts as a match: a false one asks a person, a
//! missed one lets the command through.

mod git;
mod programs;
mod sought;
#[cfg(test)]
mod tests;
mod values;
mod wrappers;

use std::cell::OnceCell;
use std::collections::HashMap;

use self::programs::{Kind, TRUSTED_SHELLS, WITH_SHELL, kind};
use self::sought::Sought;
use crate::limits::MAX_COMMAND_BYTES;
use crate::shell::{Script, Setting, ShellWord, Unreadable, is_script, is_shell_option, read};

/// What was read of one argument vector: once, however many rules ask about it. It belongs to the vector that it was
/// asked about first.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    script: OnceCell<Option<Script>>,
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
        let Some(script) = self.script.get_or_init(|| script_of(argv)) else { return false };
        // What a function of the script runs is among the commands.
        let mut programs = (0..).zip(&script.commands).filter(|(at, _)| !script.calls.contains(at));
        !script.sets
            && script.commands.len() > script.calls.len()
            && script.perhaps.iter().all(|name| begins(&[Some(name), None]))
            && programs.all(|(_, words)| {
                let words: Vec<_> = words.iter().map(ShellWord::text).collect();
                begins(&words)
            })
    }

    /// Whether running `argv` could run a command that begins with one of the prefixes.
    pub(crate) fn could_run(&self, argv: &[String], prefixes: &[Vec<Box<str>>]) -> bool {
        let commands = self.commands.get_or_init(|| Commands::of(argv));
        commands.anything || prefixes.iter().any(|prefix| commands.begin(prefix))
    }
}

/// The script that `argv` gives to a shell of the system which reads nothing else.
fn script_of(argv: &[String]) -> Option<Script> {
    let (shell, words) = argv.split_first()?;
    if !TRUSTED_SHELLS.contains(&shell.as_str()) {
        return None;
    }
    let words: Vec<ShellWord> = words.iter().cloned().map(ShellWord::Text).collect();
    let call = ShellCall::read(&words).ok()?;
    let setting = Setting { alone: call.alone, is_bash: is_bash(shell) };
    read(call.script?, setting, &mut MAX_COMMAND_BYTES.clone()).ok()
}

/// Whether a command is bash for sure, as the system has it.
fn is_bash(shell: &str) -> bool {
    TRUSTED_SHELLS.contains(&shell) && base_name(shell) == "bash"
}

/// What the words behind the name of a shell tell it.
struct ShellCall<'w> {
    /// The text behind `-c`; without it, a file is run.
    script: Option<&'w str>,
    /// No words stand behind it.
    alone: bool,
    /// Where the script or the file stands among the words.
    first_at: usize,
}

impl<'w> ShellCall<'w> {
    fn read(words: &'w [ShellWord]) -> Result<Self, Unreadable> {
        let many = words.len();
        let mut words = words.iter().map(|word| word.text().ok_or(Unreadable));
        let mut takes_script = false;
        // What stands behind the options; nothing is the input.
        let first = loop {
            let word = words.next().ok_or(Unreadable)??;
            match word {
                "-" | "--" => break words.next().ok_or(Unreadable)??,
                // What a login shell runs first no command can write.
                "--login" | "--noprofile" | "--norc" | "--posix" | "--verbose" => {}
                // They say something and end.
                "--help" | "--version" => break word,
                "--init-file" | "--rcfile" => _ = words.next().ok_or(Unreadable)??,
                _ if !word.starts_with(['-', '+']) => break word,
                _ => {
                    for letter in word[1..].chars() {
                        match letter {
                            'c' if word.starts_with('-') => takes_script = true,
                            'o' | 'O' => {
                                let name = words.next().ok_or(Unreadable)??;
                                if !is_shell_option(name) {
                                    return Err(Unreadable);
                                }
                            }
                            'C' | 'E' | 'T' | 'e' | 'f' | 'l' | 'n' | 'u' | 'v' | 'x' => {}
                            _ => return Err(Unreadable),
                        }
                    }
                }
            }
        };
        let only_tells = matches!(first, "--help" | "--version");
        let is_read = if only_tells { !takes_script } else { takes_script || is_script(first) };
        if !is_read {
            return Err(Unreadable);
        }
        let left = words.len();
        let script = takes_script.then_some(first);
        Ok(Self { script, alone: left == 0, first_at: many - left - 1 })
    }
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
                let name = word.file_name().filter(|_| *start != Start::None);
                let Some(name) = name else { continue };
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
            let found = self.starts[at] == wanted
                && sought.begins_with(&self.words[at], self.words.get(at + 1));
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
    /// No words stand behind its script.
    alone: bool,
    /// The shell is the system's bash.
    is_bash: bool,
    /// Commands to which words may be added that are not to be seen.
    values: Vec<String>,
    /// The same command as other words.
    alias: Option<Vec<ShellWord>>,
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
        let bytes = words.iter().map(|word| word.text().map_or(0, str::len) + 1).sum::<usize>();
        self.budget = self.budget.checked_sub(bytes).ok_or(Unreadable)?;
        let inner = Inner::of(words, open)?;
        for (place, open) in inner.starts {
            let start = if open { Start::Open } else { Start::Closed };
            let known = &mut line.starts[at + place];
            *known = start.max(*known);
        }
        self.todo.extend(inner.runners.iter().map(|(place, open)| (at_line, at + *place, *open)));
        inner.alias.into_iter().for_each(|mut words| {
            words.extend(open.then(|| ShellWord::Many(String::new())));
            self.add(words);
        });
        // Nothing set a variable before the command itself.
        let is_first = at_line == 0 && at == 0;
        let setting =
            Setting { alone: inner.alone && is_first, is_bash: inner.is_bash && is_first };
        for script in &inner.scripts {
            self.script(script, setting, false)?;
        }
        for value in &inner.values {
            self.script(value, Setting::default(), true)?;
        }
        Ok(())
    }

    /// The commands of a script; `more`: words may be added to each.
    fn script(&mut self, script: &str, setting: Setting, more: bool) -> Result<(), Unreadable> {
        if more && let Some(path) = path_with_blanks(script) {
            self.add(vec![ShellWord::Text(path.to_owned()), ShellWord::Many(String::new())]);
        }
        // Programs mark a command among other values.
        let script = if more { &format!("{} \"$@\"", unmarked(script)) } else { script };
        let script = read(script, setting, &mut self.budget)?;
        for mut words in script.commands {
            words.extend(more.then(|| ShellWord::Many(String::new())));
            self.add(words);
        }
        script.values.iter().try_for_each(|value| self.script(value, Setting::default(), true))
    }
}

impl Inner {
    /// What the command at the beginning of some words may run.
    fn of(words: &[ShellWord], open: bool) -> Result<Self, Unreadable> {
        let first = words[0].file_name().filter(|name| !is_filled_in(name)).ok_or(Unreadable)?;
        let mut inner = Self { starts: vec![(0, open)], ..Self::default() };
        let program = programs::known_name(first);
        // It tells what it is.
        let is_file = |word: &ShellWord| word.beginning().starts_with('@');
        let reads_options = programs::OPTION_FILES.contains(&program.as_str());
        if words.iter().any(values::is_of_java) || (reads_options && words.iter().any(is_file)) {
            return Err(Unreadable);
        }
        let told = matches!(words, [_, ShellWord::Text(word)] if word == "--version") && !open;
        match kind(&program) {
            Kind::Plain if matches!(first, "." | "source") && words.len() > 1 => {
                inner.starts.push((1, open));
            }
            Kind::Plain => {}
            Kind::Shell | Kind::Unreadable if told => {}
            Kind::Unreadable => return Err(Unreadable),
            Kind::Shell => {
                let call = ShellCall::read(&words[1..])?;
                inner.alone = call.alone && !open;
                inner.is_bash = words[0].text().is_some_and(is_bash);
                // A file's name is looked for where programs are.
                if call.script.is_none() {
                    inner.starts.push((call.first_at + 1, open));
                }
                inner.scripts.extend(call.script.map(str::to_owned));
            }
            Kind::Wrapper => {
                let open = open || program == "xargs";
                let only_looks = |word: &ShellWord| matches!(word.text(), Some("-v" | "-V"));
                if program == "command" && words.get(1).is_some_and(only_looks) {
                    return Ok(inner);
                }
                if let Some(options) = programs::command_options(&program) {
                    inner.option_values(&program, words, options, open)?;
                }
                let finds = matches!(program.as_str(), "fd" | "fdfind" | "find");
                let is_plain = !finds && inner.plainly_wrapped(&program, words, open)?;
                if !is_plain && open {
                    // The command may be among the words that are not to be seen.
                    return Err(Unreadable);
                } else if finds {
                    inner.found(words)?;
                } else if !is_plain {
                    inner.wrapped(words, 1, WITH_SHELL.contains(&program.as_str()))?;
                }
            }
            Kind::WithOptions(options) => {
                if let Some(command) = program.strip_prefix("git-") {
                    let name = ["git", command].map(|word| ShellWord::Text(word.to_owned()));
                    inner.alias =
                        Some(name.into_iter().chain(words[1..].iter().cloned()).collect());
                }
                if program == "git" {
                    inner.git(words, open)?;
                }
                inner.behind_words(&program, words, open)?;
                inner.own_values(&program, words, open)?;
                inner.option_values(&program, words, options, open)?;
            }
        }
        Ok(inner)
    }

    /// A command starts at a word, for sure or perhaps.
    fn start(&mut self, words: &[ShellWord], at: usize, open: bool) -> Result<(), Unreadable> {
        let name = words[at].file_name().filter(|name| !is_filled_in(name)).ok_or(Unreadable)?;
        self.starts.push((at, open));
        if kind(name) != Kind::Plain {
            self.runners.push((at, open));
        }
        Ok(())
    }

    /// Commands behind a word of their program: `npm exec`, `cmake -E`.
    fn behind_words(
        &mut self,
        program: &str,
        words: &[ShellWord],
        open: bool,
    ) -> Result<(), Unreadable> {
        let Some(before) = programs::words_before_commands(program) else { return Ok(()) };
        let begins = |word: &ShellWord| programs::is_before_command(program, word);
        let is_unknown = programs::may_hold_subcommand(words);
        match words.iter().skip(1).position(begins) {
            Some(at) if open => {
                // Words that are not to be seen may be the command, unless it stands there.
                let is_end = words.get(at + 2).is_some_and(|word| word.text() == Some("--"));
                let at = at + 2 + usize::from(is_end);
                let is_there =
                    |word: &&ShellWord| word.text().is_some_and(|it| !it.starts_with('-'));
                words.get(at).filter(is_there).ok_or(Unreadable)?;
                if programs::TAKE_PLACES.contains(&program) {
                    return Err(Unreadable);
                }
                self.start(words, at, open)
            }
            Some(at) => self.wrapped(words, at + 2, false),
            None if is_unknown && !before.iter().all(|word| word.starts_with('-')) => {
                Err(Unreadable)
            }
            // What it does stands there, and is something else.
            None if !open
                || words.iter().skip(1).any(|word| !word.beginning().starts_with('-')) =>
            {
                Ok(())
            }
            // It may be that word, or among those that are not to be seen.
            _ => Err(Unreadable),
        }
    }

    /// Values of options that are commands.
    fn option_values(
        &mut self,
        program: &str,
        words: &[ShellWord],
        options: &[&str],
        open: bool,
    ) -> Result<(), Unreadable> {
        for (at, word) in words.iter().enumerate().skip(1) {
            let Some(text) = word.text() else {
                // An option that names a command, or any option at all.
                let begin = word.beginning();
                let is_torn = matches!(begin, "-" | "--")
                    || !programs::option_values(begin, options).is_empty();
                if is_torn {
                    return Err(Unreadable);
                }
                continue;
            };
            // Options in a file.
            if programs::COMPILERS.contains(&program) && text.starts_with('@') {
                return Err(Unreadable);
            }
            // `tar cIf COMMAND`
            if at == 1 && program == "tar" && !text.starts_with('-') && text.contains(['F', 'I']) {
                return Err(Unreadable);
            }
            for value in programs::option_values(text, options) {
                let value = match (value, words.get(at + 1)) {
                    ("", Some(next)) => next.text().ok_or(Unreadable)?,
                    ("", None) if open => return Err(Unreadable),
                    ("", None) => continue,
                    _ => value,
                };
                if value.contains("{}") {
                    return Err(Unreadable);
                }
                self.values.extend(values::command_of(program, value)?);
            }
        }
        Ok(())
    }
}

/// A value that may be the path of one program, where a program of several words is read as well: not every program gives
/// it to a shell.
fn path_with_blanks(value: &str) -> Option<&str> {
    let value = value.trim();
    let (_, rest) = value.split_once(char::is_whitespace)?;
    rest.contains('/').then_some(value)
}

/// A command without the marks of programs that tell it from other values: `!x`, `:!x`, `|-x`.
fn unmarked(value: &str) -> &str {
    let value = value.strip_prefix(':').filter(|value| value.starts_with('!')).unwrap_or(value);
    let command = value.trim_start_matches(['!', '|', '@']);
    if command.len() < value.len() { command.trim_start_matches('-') } else { value }
}

/// Whether a name has a part, such as `%h`, in whose place a program puts something that is not known here.
fn is_filled_in(name: &str) -> bool {
    let is_mark = |(at, _): (usize, &str)| {
        name[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '{')
    };
    // `date +%F`
    !name.starts_with(['+', '-']) && name.match_indices('%').any(is_mark)
}

/// `-x`, `-xyz`; not `-`, `--long`.
fn is_short(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.starts_with("--")
}

pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}
