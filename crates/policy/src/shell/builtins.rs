//! Commands of the shell itself. A program can not change how the rest of a script is read; these can.
//!
//! Each is understood as far as it is listed here, and counts as anything beyond that.

use super::{Read, Reader, ShellWord, Target, Unreadable, Value, Word, is_name, variables};

/// They run nothing, and set nothing that matters.
pub(super) const FREE: &[&str] = &[
    ":", "bg", "break", "caller", "cd", "chdir", "continue", "dirs", "disown", "echo", "exit",
    "false", "fg", "help", "kill", "logout", "popd", "pushd", "pwd", "return", "shift", "suspend",
    "times", "true", "type", "ulimit", "umask",
];

/// Every command that bash, dash or busybox have in themselves. What is not read below counts as anything.
pub(super) const BUILTINS: &[&str] = &[
    ".",
    "[",
    "alias",
    "bind",
    "builtin",
    "command",
    "compgen",
    "complete",
    "compopt",
    "coproc",
    "declare",
    "enable",
    "eval",
    "exec",
    "export",
    "fc",
    "getopts",
    "hash",
    "history",
    "jobs",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "select",
    "set",
    "shopt",
    "source",
    "test",
    "trap",
    "typeset",
    "unalias",
    "unset",
    "wait",
];

/// Options of the shell that change nothing about which commands a script runs, by letter and by name.
const SHELL_OPTION_LETTERS: &str = "eufxvCET";
const SHELL_OPTIONS: &[&str] = &[
    "errexit",
    "errtrace",
    "functrace",
    "noclobber",
    "noglob",
    "nounset",
    "pipefail",
    "verbose",
    "xtrace",
];
/// The same of `shopt`.
const SHOPT_OPTIONS: &[&str] =
    &["dotglob", "failglob", "globstar", "inherit_errexit", "lastpipe", "nullglob"];

/// Operators of `test` between two words.
const BINARY: &[&str] = &[
    "!=", "-a", "-ef", "-eq", "-ge", "-gt", "-le", "-lt", "-ne", "-nt", "-o", "-ot", "<", "=",
    "==", ">",
];
/// Those for which `[[` counts.
const COUNTING: &[&str] = &["-eq", "-ge", "-gt", "-le", "-lt", "-ne"];

/// Commands that print one number.
const NUMBERS: &[&[&str]] =
    &[&["date", "+%s"], &["id", "-u"], &["nproc"], &["wc", "-c"], &["wc", "-l"], &["wc", "-w"]];

/// Whether an option of the shell (`set -o NAME`, `-O NAME`) is understood.
pub(crate) fn is_shell_option(name: &str) -> bool {
    SHELL_OPTIONS.contains(&name) || SHOPT_OPTIONS.contains(&name)
}

/// Whether a word names a file that is no device and no place of a process: what is in such a file is not read.
pub(crate) fn is_script(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    !["dev/", "proc/", "fd/"].iter().any(|part| file.contains(part))
        && !file.starts_with('-')
        && !matches!(name, "stdin" | "tty")
        && !name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a program of these words writes nowhere but where its output goes.
fn only_prints(words: &[ShellWord]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    let all = |is_fine: &dyn Fn(&str) -> bool| rest.iter().all(|it| it.text().is_some_and(is_fine));
    match name.text().unwrap_or_default() {
        "cat" | "cut" | "echo" | "grep" | "head" | "jq" | "ls" | "ps" | "tail" | "tr" => true,
        "find" => all(&|text| !["-exec", "-f", "-ok"].iter().any(|it| text.starts_with(it))),
        "git" => {
            let reads = ["branch", "diff", "log", "ls-files", "rev-list", "status", "tag"];
            let is_fine = |text: &str| text == "--oneline" || !text.contains("-o");
            rest.first().and_then(ShellWord::text).is_some_and(|it| reads.contains(&it))
                && all(&is_fine)
        }
        "sort" | "uniq" => all(&|text| text.starts_with('-') && !text.contains('o')),
        _ => false,
    }
}

impl Word {
    /// An option, as far as it is known; an error if only running would tell.
    fn option(&self) -> Read<Option<&str>> {
        match self.known() {
            Some(text) => Ok(text.starts_with(['-', '+']).then_some(text)),
            None if self.known_beginning().is_empty() => Err(Unreadable),
            None if self.known_beginning().starts_with(['-', '+']) => Err(Unreadable),
            None => Ok(None),
        }
    }
}

impl Reader<'_> {
    /// An assignment, for the command that follows it or for the rest of the script.
    pub(super) fn assign(&mut self, word: &Word, for_command: bool) -> Read<()> {
        let Some(Target { name, value_at, array, appends }) = &word.target else { return Ok(()) };
        let value = match word.held(*value_at) {
            _ if *array => Value::Unknown,
            Value::Text(_) if *appends => Value::Unknown,
            value => value,
        };
        if *array {
            self.variables.array(name);
        }
        if for_command {
            self.variables.export(name)?;
        }
        self.variables.set(name, value)
    }

    /// A word has to be a number wherever it is expanded.
    pub(super) fn number(&mut self, word: &Word) -> Read<()> {
        let Value::Number(names) = word.held(0) else { return Err(Unreadable) };
        names.iter().for_each(|name| self.variables.count(name));
        Ok(())
    }

    /// Whether no word of a command can fail while it is expanded, and nothing of the shell itself can fail then.
    pub(super) fn is_left(&self, words: &[Word]) -> bool {
        let is_plain = words[0].known().is_some_and(|name| {
            let is_known = name == "set" || FREE.contains(&name) || !BUILTINS.contains(&name);
            is_known && !self.functions.contains(name)
        });
        is_plain && words.iter().all(|word| !word.may_fail && !word.splits && !word.pattern)
    }

    /// A command of these words is run; `alone`: no assignments stand before it.
    pub(super) fn run(&mut self, words: Vec<Word>, alone: bool) -> Read<()> {
        self.builtin(&words, true)?;
        let number = self.found.len();
        if let Some(name) = words[0].known() {
            if alone && self.defined.contains(name) {
                self.calls.insert(number, name.to_owned());
            }
            if words.len() > 1 && is_name(&name.replace('-', "_")) {
                let values = words[1..].iter().map(|word| word.held(0)).collect();
                self.variables.behind(name, values);
            }
        }
        let counted = |(at, word): (usize, &Word)| Some((number, at, word.counted()?.to_vec()));
        self.numbers.extend(words.iter().enumerate().filter_map(counted));
        self.found.push(words.into_iter().map(Word::value).collect());
        Ok(())
    }

    /// Whether what was found from `begin` on, which `text` runs, prints numbers: it does if these variables hold some.
    pub(super) fn prints_number(&mut self, begin: usize, text: &str) -> Option<Vec<String>> {
        let (words, before) = self.found[begin..].split_last()?;
        // `|| true` prints nothing.
        let plain = text.strip_suffix("|| true").or_else(|| text.strip_suffix("|| :"));
        let (text, words, before) = match (plain, before) {
            (Some(text), [count]) if matches!(words[0].text(), Some("true" | ":")) => {
                (text, count, &before[1..])
            }
            _ => (text, words, before),
        };
        let at = begin + before.len();
        let names = self.counts(at, words)?;
        // A pipe, whose end alone comes out.
        let is_piped = !text.contains("||")
            && !text.contains(|c| ";&\n(){}`<>#".contains(c))
            && before.iter().all(|words| only_prints(words));
        if !before.is_empty() && !is_piped {
            return None;
        }
        let programs = self.found[begin..].iter().filter_map(|words| words[0].text());
        self.counting.extend(programs.map(str::to_owned));
        Some(names)
    }

    /// Variables that have to be numbers so that a command of these words prints numbers.
    fn counts(&self, number: usize, words: &[ShellWord]) -> Option<Vec<String>> {
        let texts: Option<Vec<&str>> = words.iter().map(ShellWord::text).collect();
        if words[0].text() == Some("seq") {
            let names = |at: usize| {
                let known = words[at].text().map(|text| variables::is_number(text).then(Vec::new));
                known.unwrap_or_else(|| {
                    let of = |it: &&(usize, usize, Vec<String>)| (it.0, it.1) == (number, at);
                    self.numbers.iter().rev().find(of).map(|(_, _, names)| names.clone())
                })
            };
            let names: Option<Vec<_>> = (1..words.len()).map(names).collect();
            return names.map(|names| names.concat());
        }
        let texts = texts?;
        let is_count = texts.strip_prefix(&["git", "rev-list", "--count"]).is_some_and(|rest| {
            rest.iter()
                .all(|text| !text.starts_with('-') || ["--all", "--no-merges"].contains(text))
        });
        // Of more than one file it prints their names.
        let is_grep = matches!(texts.as_slice(), ["grep", "-c", rest @ ..]
            if rest.len() == 2 && rest.iter().all(|text| !text.starts_with('-')));
        (is_count || is_grep || NUMBERS.contains(&texts.as_slice())).then(Vec::new)
    }

    /// Reads a command of the shell itself. `plain`: its name stands at the beginning, as it is.
    pub(super) fn builtin(&mut self, words: &[Word], plain: bool) -> Read<()> {
        let Some((first, rest)) = words.split_first() else { return Ok(()) };
        self.conditions(words)?;
        // A name that is not known is anything to whoever asks about it.
        let Some(name) = first.known() else { return Ok(()) };
        let name_is_plain = plain && !first.quoted;
        // What runs between other commands, what a file defines, and processes that can not be had.
        self.is_disturbed |= matches!(name, "." | "source" | "trap" | "ulimit");
        match name {
            name if FREE.contains(&name) => Ok(()),
            "[" | "test" => self.test(rest),
            "declare" | "export" | "local" | "readonly" | "typeset" => {
                self.declare(name, rest, name_is_plain)
            }
            "printf" => self.printf(rest),
            "command" | "builtin" => self.behind_options(rest),
            "read" => self.read_into(rest),
            "getopts" => match rest {
                [options, name, ..] if options.known().is_some_and(|it| !it.starts_with('-')) => {
                    self.variables.set(name.known().ok_or(Unreadable)?, Value::Unknown)
                }
                _ => Err(Unreadable),
            },
            "hash" | "jobs" | "let" | "mapfile" | "readarray" | "shopt" | "unset" | "wait" => {
                rest.iter().try_for_each(|word| self.operand(name, word))
            }
            "set" => self.set(rest),
            "trap" => self.trap(rest),
            "eval" => {
                let texts: Option<Vec<&str>> = rest.iter().map(Word::known).collect();
                let script = texts.ok_or(Unreadable)?.join(" ");
                if script.starts_with('-') { Err(Unreadable) } else { self.script(&script) }
            }
            "." | "source" => {
                let file = rest.first().and_then(|word| word.known().or_else(|| word.file_name()));
                file.filter(|file| is_script(file)).map(|_| ()).ok_or(Unreadable)
            }
            "exec" => Ok(()),
            name if BUILTINS.contains(&name) => Err(Unreadable),
            // A program, or a function of the script.
            _ => Ok(()),
        }
    }

    /// A word behind a command that takes each by itself.
    fn operand(&mut self, command: &str, word: &Word) -> Read<()> {
        match (command, word.known()) {
            ("hash", Some("-r"))
            // `-x` would run what follows.
            | ("jobs", Some("-l" | "-n" | "-p" | "-r" | "-s"))
            | ("mapfile" | "readarray", Some("-t"))
            | ("shopt", Some("-s" | "-u" | "-q"))
            | ("unset", Some("-v" | "-f"))
            | ("wait", Some("-n" | "-f")) => Ok(()),
            ("jobs" | "wait", Some(text)) if text.starts_with('%') => Ok(()),
            ("let", Some(text)) => self.within(&format!("{text})"), 1, |cursor| {
                cursor.arithmetic(")")?;
                if cursor.at + 1 == cursor.chars.len() { Ok(()) } else { Err(Unreadable) }
            }),
            ("mapfile" | "readarray", Some(name)) => {
                self.variables.array(name);
                self.variables.set(name, Value::Unknown)
            }
            ("shopt", Some(text)) if SHOPT_OPTIONS.contains(&text) => Ok(()),
            ("unset", Some(name)) => self.variables.unset(name),
            ("wait", _) => self.number(word),
            _ => Err(Unreadable),
        }
    }

    /// Behind `command` and `builtin`: options, and a command of the shell or a program.
    fn behind_options(&mut self, words: &[Word]) -> Read<()> {
        let is_skipped = |text: &str| {
            let letters = text.strip_prefix('-').unwrap_or_default();
            text == "--" || (!letters.is_empty() && letters.bytes().all(|c| c == b'p'))
        };
        let skipped = words.iter().take_while(|it| it.known().is_some_and(is_skipped));
        let rest = &words[skipped.count()..];
        match rest.first() {
            // They only tell what would be run.
            Some(word) if matches!(word.known(), Some("-v" | "-V")) => Ok(()),
            Some(word) if word.known_beginning().starts_with('-') => Err(Unreadable),
            _ => self.builtin(rest, false),
        }
    }

    /// `set`: options that are understood, and words for `$1` and on.
    fn set(&mut self, words: &[Word]) -> Read<()> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let option = word.option()?;
            let letters = option.map(|option| &option[1..]);
            if matches!(letters, None | Some("" | "-")) {
                let first = option.is_none().then_some(word);
                let values = first.into_iter().chain(words).map(|word| word.held(0));
                self.variables.parameters(values);
                return Ok(());
            }
            let letters = letters.unwrap_or_default();
            if !letters.chars().all(|c| c == 'o' || SHELL_OPTION_LETTERS.contains(c)) {
                return Err(Unreadable);
            }
            for _ in letters.matches('o') {
                let name = words.next().map(|word| word.known().ok_or(Unreadable)).transpose()?;
                if name.is_some_and(|name| !SHELL_OPTIONS.contains(&name)) {
                    return Err(Unreadable);
                }
            }
        }
        Ok(())
    }

    /// `printf`: `-v` names a variable and expands its index, `%n` sets one to a number.
    fn printf(&mut self, words: &[Word]) -> Read<()> {
        if let [option, name, rest @ ..] = words
            && option.known() == Some("-v")
        {
            self.variables.set(name.known().ok_or(Unreadable)?, Value::Unknown)?;
            return self.printf(rest);
        }
        let ends = words.first().is_some_and(|word| word.known() == Some("--"));
        let Some(format) = words.get(usize::from(ends)) else { return Ok(()) };
        let begin = format.known_beginning();
        if !ends && (begin.starts_with('-') || (begin.is_empty() && format.known().is_none())) {
            return Err(Unreadable);
        }
        let mut directives = format.text.replace("%%", "");
        directives.retain(|c| c == '%' || c.is_ascii_alphabetic() && !"hlLqjzt".contains(c));
        if format.known().is_none() || directives.contains("%n") {
            self.variables.set("_", Value::Number(Vec::new()))?;
        }
        Ok(())
    }

    /// `trap`: what it runs is read.
    fn trap(&mut self, words: &[Word]) -> Read<()> {
        let words =
            if words.first().and_then(Word::known) == Some("--") { &words[1..] } else { words };
        // The others are reset where output is taken for a number.
        let is_inherited = |word: &Word| {
            let name = word.known().map(str::to_ascii_uppercase);
            name.is_none_or(|name| ["DEBUG", "ERR", "RETURN"].iter().any(|it| name.contains(it)))
        };
        self.is_trapped |= words.iter().skip(1).any(is_inherited);
        match words.first().map(|word| word.known().ok_or(Unreadable)).transpose()? {
            None | Some("-" | "-l" | "-p") => Ok(()),
            Some(script) => self.script(script),
        }
    }

    /// `read`: names of variables behind options that are understood.
    fn read_into(&mut self, words: &[Word]) -> Read<()> {
        let mut words = words.iter();
        let (mut array, mut named) = (false, false);
        while let Some(word) = words.next() {
            let text = word.known().ok_or(Unreadable)?;
            let Some(letters) = text.strip_prefix('-') else {
                named = true;
                self.variables.set(text, Value::Unknown)?;
                if array {
                    self.variables.array(text);
                }
                continue;
            };
            let letters = letters.trim_start_matches(['r', 's']);
            match letters.chars().next() {
                None => {}
                // The value is the rest, or the next word.
                Some('d' | 'n' | 'N' | 'p' | 't' | 'u') => {
                    let value = if letters.len() == 1 { words.next() } else { Some(word) };
                    value.filter(|value| !value.splits).ok_or(Unreadable)?;
                }
                Some('a') if letters == "a" => array = true,
                Some(_) => return Err(Unreadable),
            }
        }
        if named { Ok(()) } else { self.variables.set("REPLY", Value::Unknown) }
    }

    /// `export` and the like: names, with values or without.
    fn declare(&mut self, command: &str, words: &[Word], plain: bool) -> Read<()> {
        let (mut exports, mut array, mut named) = (command == "export", false, false);
        for word in words {
            if named && let Some(name) = word.known_beginning().split('=').next() {
                self.variables.name_places(name.trim_end_matches('+'));
            }
            if let Some(target) = word.target.as_ref() {
                // Elsewhere a shell splits the value into words, and each would be a name.
                if (word.splits && !plain) || (array && !target.array) {
                    return Err(Unreadable);
                }
                if !target.array {
                    self.variables.declare(&target.name);
                }
                self.assign(word, exports)?;
            } else if let Some(option) = word.option()? {
                match option {
                    "--" | "-p" | "-r" | "-g" => {}
                    "-x" if command != "export" => exports = true,
                    "-a" | "-A" if command != "export" => {
                        named |= option == "-A";
                        array = true;
                    }
                    _ => return Err(Unreadable),
                }
            } else {
                self.declare_quoted(word, exports, array)?;
            }
        }
        Ok(())
    }

    /// A name alone, or `"name=value"`.
    fn declare_quoted(&mut self, word: &Word, exports: bool, array: bool) -> Read<()> {
        let Some((name, value)) = word.known_beginning().split_once('=') else {
            let name = word.known().filter(|name| is_name(name)).ok_or(Unreadable)?;
            if array {
                self.variables.array(name);
            }
            return if exports { self.variables.export(name) } else { Ok(()) };
        };
        if array || word.splits || word.pattern {
            return Err(Unreadable);
        }
        self.variables.declare(name);
        if exports {
            self.variables.export(name)?;
        }
        let value = if word.unknown { Value::Unknown } else { Value::Text(value.to_owned()) };
        self.variables.set(name, value)
    }

    /// `[`: a word that is not known stands where it can only be an operand.
    fn test(&mut self, words: &[Word]) -> Read<()> {
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1);
            let next_text = next.and_then(Word::known);
            let is_last = next.is_none() || next_text == Some("]");
            match word.known() {
                // They expand the index of what they are given.
                Some("-v" | "-R") if !is_last && !next_text.is_some_and(is_name) => {
                    return Err(Unreadable);
                }
                Some(_) => {}
                None if word.splits || word.pattern => self.number(word)?,
                None => {
                    let is_operator = |text: &str| text == ")" || BINARY.contains(&text);
                    if !is_last && !next_text.is_some_and(is_operator) {
                        self.number(word)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Words between `[[` and `]]`, which lists may part: to a shell that has it they are no commands.
    fn conditions(&mut self, words: &[Word]) -> Read<()> {
        let opens = words.first().and_then(Word::bare) == Some("[[");
        let closes = words.last().and_then(Word::bare) == Some("]]");
        if !(opens || closes || self.is_condition) {
            return Ok(());
        }
        self.is_condition = (opens || self.is_condition) && !closes;
        // A bar belongs to what stands behind it.
        if self.is_condition && words.iter().any(|word| word.known() == Some("=~")) {
            return Err(Unreadable);
        }
        self.condition(words)
    }

    /// `[[`: what it counts with is a number. Its parts are commands to a shell that does not have it.
    pub(super) fn condition(&mut self, words: &[Word]) -> Read<()> {
        for (at, word) in words.iter().enumerate() {
            let Some(operator) = word.known() else { continue };
            if matches!(operator, "-v" | "-R") {
                let name = words.get(at + 1).and_then(Word::known);
                if !name.is_some_and(|name| is_name(name) || name == "]]") {
                    return Err(Unreadable);
                }
            }
            if COUNTING.contains(&operator) {
                let sides = [at.checked_sub(1), Some(at + 1)];
                for side in sides.into_iter().flatten().filter_map(|at| words.get(at)) {
                    self.number(side)?;
                }
            }
        }
        Ok(())
    }
}
