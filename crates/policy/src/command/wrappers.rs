//! Programs that run the words behind them.

use std::collections::BTreeSet;

use super::programs::{self, Kind, PLAIN_LONG_OPTIONS, PLAIN_WRAPPERS, kind};
use super::{Inner, base_name, git, is_short};
use crate::shell::{Exported, SHELLS, ShellWord, Unreadable, exported, is_name, takes_any_value};

/// Letters of options of `fd` whose value is the rest of the word.
const FD_LETTERS_WITH_VALUE: [char; 8] = ['E', 'S', 'c', 'd', 'e', 'j', 'o', 't'];

impl Inner {
    /// The command behind a wrapper whose options are all known; false where they are not.
    pub(super) fn plainly_wrapped(
        &mut self,
        program: &str,
        words: &[ShellWord],
        open: bool,
    ) -> Result<bool, Unreadable> {
        let known = PLAIN_WRAPPERS.iter().find(|(name, ..)| *name == program);
        let Some((_, flags, with_value, operands)) = known else { return Ok(false) };
        let mut way = Wrapping { program, flags, with_value, words, open, replaced: None };
        // Words that may be none leave several ways to read those behind them.
        let (mut todo, mut starts) = (vec![(1, *operands)], BTreeSet::new());
        let mut gone = BTreeSet::new();
        while let Some((at, operands)) = todo.pop() {
            if !gone.insert((at, operands)) {
                continue;
            }
            match way.step(at, operands, self)? {
                Step::Command => _ = starts.insert(at),
                Step::Unknown => return Ok(false),
                Step::Words(next) => todo.extend(next),
            }
        }
        for at in starts {
            if let Some(replaced) = way.replaced {
                replaces(&words[at..], replaced)?;
            }
            self.start(words, at, open)?;
        }
        Ok(true)
    }

    /// `find` and `fd`: a command stands behind `-exec`, which a word that is not known may be.
    pub(super) fn found(&mut self, words: &[ShellWord]) -> Result<(), Unreadable> {
        let is_find = words[0].text().is_some_and(|name| base_name(name) == "find");
        let may_begin = |word: &ShellWord| {
            word.text().is_none_or(|text| programs::BEFORE_COMMANDS.contains(&text))
        };
        // fd takes the letter among others, and the command in the same word.
        let is_joined = |text: &str| {
            let letters = text.split(FD_LETTERS_WITH_VALUE).next().unwrap_or_default();
            text.starts_with("--exec") || (is_short(text) && letters.contains(['x', 'X']))
        };
        for (at, word) in words.iter().enumerate().skip(1) {
            let is_torn = !is_find && !may_begin(word) && word.text().is_some_and(is_joined);
            if matches!(word, ShellWord::Many(_)) || is_torn {
                return Err(Unreadable);
            }
            if at > 1 && may_begin(&words[at - 1]) {
                if word.text().is_some_and(|text| text.contains('{')) {
                    return Err(Unreadable);
                }
                self.start(words, at, false)?;
            }
        }
        let replaced = if is_find { "{}" } else { "{" };
        self.runners.retain(|(at, _)| !(is_find && only_reads(words, *at)));
        self.runners.iter().try_for_each(|(at, _)| replaces(&words[*at..], replaced))
    }

    /// Options of a wrapper are not told apart from its command: any word may start one, and one that
    /// a shell would not take for one word is read as a script if a shell may get it.
    pub(super) fn wrapped(
        &mut self,
        words: &[ShellWord],
        from: usize,
        with_shell: bool,
    ) -> Result<(), Unreadable> {
        let is_env = words[0].text().is_some_and(|name| base_name(name) == "env");
        for (at, word) in words.iter().enumerate().skip(from) {
            let text = word.text().ok_or(Unreadable)?;
            self.start(words, at, false)?;
            if let Some((name, value)) = setting(text)
                && let Exported::Command(value) = exported(name, value)?
            {
                self.values.push(value.to_owned());
            }
            if with_shell {
                let script = text.contains(is_special).then_some(text);
                for script in joined_values(text).chain(script) {
                    // Escapes and comments of `env -S` are its own.
                    if is_env && script.contains(['\\', '#']) {
                        return Err(Unreadable);
                    }
                    self.scripts.push(script.to_owned());
                }
            }
        }
        Ok(())
    }
}

/// A wrapper whose words are read one after the other.
struct Wrapping<'w> {
    program: &'w str,
    /// Options of one letter without a value, and with one.
    flags: &'w str,
    with_value: &'w str,
    words: &'w [ShellWord],
    /// Words follow that are not known.
    open: bool,
    /// What `xargs` puts its input in the place of.
    replaced: Option<&'w str>,
}

/// What a word of a wrapper is.
enum Step {
    /// The command begins here.
    Command,
    /// Nobody knows.
    Unknown,
    /// None of that: the reading goes on at these places, with so many operands before the command.
    Words(Vec<(usize, usize)>),
}

impl<'w> Wrapping<'w> {
    fn step(&mut self, at: usize, operands: usize, inner: &mut Inner) -> Result<Step, Unreadable> {
        let go_on = |at, operands| Ok(Step::Words(vec![(at, operands)]));
        let (words, is_xargs) = (self.words, self.program == "xargs");
        let Some(word) = words.get(at) else {
            return Ok(if self.open { Step::Unknown } else { Step::Words(Vec::new()) });
        };
        let is_one = matches!(word, ShellWord::Given | ShellWord::One(_) | ShellWord::Below(..));
        if is_one && operands > 0 {
            // Nothing, an option with or without a value, or an operand.
            return Ok(Step::Words(vec![
                (at + 1, operands),
                (at + 2, operands),
                (at + 1, operands - 1),
            ]));
        }
        let sets = matches!(self.program, "env" | "sudo");
        let Some(text) = word.text() else {
            let set = match word {
                ShellWord::One(begin) | ShellWord::Below(begin, _) => begin.split_once('='),
                _ => None,
            };
            // `-S_ID=` is an option.
            let is_set =
                sets && set.is_some_and(|(name, _)| is_name(name) && takes_any_value(name));
            return if is_set { go_on(at + 1, operands) } else { Ok(Step::Unknown) };
        };
        let setting = text.split_once('=').filter(|_| sets && !text.starts_with('-'));
        // sudo takes for a command what env takes for a setting.
        let setting = setting.filter(|(name, _)| self.program == "env" || is_name(name));
        if let Some((name, value)) = setting {
            if let Exported::Command(value) = exported(name, value)? {
                inner.values.push(value.to_owned());
            }
            return go_on(at + 1, operands);
        }
        // `ccache prefix_command=program gcc`
        if self.program == "ccache" && text.contains('=') {
            return Err(Unreadable);
        }
        if text.starts_with("--") {
            // Nothing behind it is a setting.
            if text == "--" && self.program == "sudo" {
                return Ok(Step::Unknown);
            }
            if text == "--" || PLAIN_LONG_OPTIONS.iter().any(|option| text.starts_with(option)) {
                return go_on(at + 1, operands);
            }
            // What it puts in the place of a word is not told apart from other values.
            return if is_xargs { Err(Unreadable) } else { Ok(Step::Unknown) };
        }
        let Some(letters) = text.strip_prefix('-') else {
            return if operands > 0 { go_on(at + 1, operands - 1) } else { Ok(Step::Command) };
        };
        let Some((letter, joined)) = with_value_of(letters, self.flags) else {
            return go_on(at + 1, operands);
        };
        if !self.with_value.contains(letter) {
            return if is_xargs { Err(Unreadable) } else { Ok(Step::Unknown) };
        }
        let next = if joined.is_empty() { words.get(at + 1) } else { Some(word) };
        if is_xargs && letter == 'I' {
            let next = next.and_then(ShellWord::text).ok_or(Unreadable)?;
            self.replaced = Some(if joined.is_empty() { next } else { joined });
        }
        let behind = at + 1 + usize::from(joined.is_empty());
        self.behind_value(next, behind, operands)
    }

    /// Where the reading goes on behind an option's value, whose last word stands before `at`.
    fn behind_value(
        &self,
        value: Option<&ShellWord>,
        at: usize,
        operands: usize,
    ) -> Result<Step, Unreadable> {
        match value {
            // Its other words would be the command.
            Some(ShellWord::Many(_)) => Err(Unreadable),
            Some(ShellWord::Given) if self.program == "xargs" => Err(Unreadable),
            // It may be none, one or several: then an operand is among them.
            Some(ShellWord::Given) => {
                let places = [at, at + 1].into_iter();
                let next = places.flat_map(|at| [(at, operands), (at, operands.saturating_sub(1))]);
                Ok(Step::Words(next.collect()))
            }
            _ => Ok(Step::Words(vec![(at, operands)])),
        }
    }
}

/// Whether a shell that `find` starts only looks at the file that is found: `sh -n {}`. No name is an option then, such
/// as `+n`.
fn only_reads(words: &[ShellWord], at: usize) -> bool {
    let is_no_option = |word: &ShellWord| {
        word.text().is_some_and(|text| {
            let is_letter = |c: char| !c.is_ascii_digit();
            !text.strip_prefix('+').is_some_and(|rest| rest.starts_with(is_letter))
                && !text.starts_with("-files0")
        })
    };
    let texts: Vec<_> = words[at..].iter().take(4).map(ShellWord::text).collect();
    words[1..at].iter().all(is_no_option)
        && matches!(texts.as_slice(), [Some(shell), Some("-n"), Some("{}"), Some(";")] if SHELLS.contains(shell))
}

/// What replaces a part of a command's words must not make another command of it: neither its name nor its script.
fn replaces(words: &[ShellWord], replaced: &str) -> Result<(), Unreadable> {
    let holds = |word: &ShellWord| word.text().is_some_and(|text| text.contains(replaced));
    let Some((first, rest)) = words.split_first() else { return Ok(()) };
    // An option may take the word behind it as a command.
    let may_run = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| rest[at].text());
        rest[at].text() != Some(replaced) || before.is_none_or(|it| it.starts_with('-'))
    };
    let is_torn = match first.text().map(|name| kind(base_name(name))) {
        None | Some(Kind::Wrapper | Kind::Unreadable) => rest.iter().any(holds),
        Some(Kind::Shell) => {
            let script = script_at(rest).unwrap_or(rest.len());
            rest.iter().take(script + 1).any(holds)
        }
        Some(Kind::WithOptions(_)) => {
            (0..rest.len()).any(|at| holds(&rest[at]) && (may_run(at) || may_run_at(words, at + 1)))
        }
        Some(Kind::Plain) => false,
    };
    if holds(first) || is_torn { Err(Unreadable) } else { Ok(()) }
}

/// Whether what stands at a place may be the command of a program, or the word behind which its command stands.
fn may_run_at(words: &[ShellWord], at: usize) -> bool {
    let Some(program) = words[0].file_name().map(programs::known_name) else { return true };
    if program == "git" {
        return git::may_run_at(words, at);
    }
    let is_operand = |word: &ShellWord| !word.beginning().starts_with('-');
    let is_first = !words[1..at].iter().any(is_operand);
    let is_behind = words[1..at].iter().any(|word| programs::is_before_command(&program, word));
    let sets = |word: &ShellWord| matches!(word.text(), Some("c" | "config" | "env" | "set"));
    program.starts_with("git-")
        || (program == "sqlite3" && !is_first)
        || (matches!(program.as_str(), "go" | "npm" | "pnpm" | "yarn")
            && words[1..at].iter().any(sets))
        || is_behind
        || (is_first && programs::words_before_commands(&program).is_some())
}

/// Where the script stands among the words of a shell: the first behind `-c` that is no option and no option's value.
fn script_at(words: &[ShellWord]) -> Option<usize> {
    let (mut takes_script, mut is_value) = (false, false);
    words.iter().position(|word| {
        let Some(text) = word.text() else { return takes_script };
        if std::mem::take(&mut is_value) {
            return false;
        }
        if !text.starts_with(['-', '+']) {
            return takes_script;
        }
        takes_script |= is_short(text) && text.contains('c');
        is_value = !text.starts_with("--") && text.contains(['o', 'O']);
        false
    })
}

/// The first letter of an option's word that is none of the flags, and what follows it.
fn with_value_of<'w>(letters: &'w str, flags: &str) -> Option<(char, &'w str)> {
    let rest = letters.trim_start_matches(|c| flags.contains(c));
    let letter = rest.chars().next()?;
    Some((letter, &rest[letter.len_utf8()..]))
}

/// The variable that a word of a wrapper may set: `NAME=value`, `-ENAME=value`, `--setenv=NAME=value`.
fn setting(word: &str) -> Option<(&str, &str)> {
    let setting = match (word.strip_prefix("--"), word.strip_prefix('-')) {
        (Some(long), _) => long.split_once('=')?.1,
        (None, Some(short)) => short.get(1..)?,
        (None, None) => word,
    };
    setting.split_once('=')
}

/// What a shell does not take as a part of one plain word.
fn is_special(c: char) -> bool {
    c.is_whitespace() || ";&|<>()$`'\"\\*?[{#~".contains(c)
}

/// What may be the value of an option in the same word: `--split-string=V`, `-vSV`, `-qcV`, `-pV` of hyperfine.
fn joined_values(word: &str) -> impl Iterator<Item = &str> {
    let long = word.starts_with("--").then(|| word.split_once('=')).flatten();
    let letters = word.char_indices().filter(|(_, c)| matches!(c, 'C' | 'S' | 'c' | 'p' | 's'));
    let short = letters.map(|(at, _)| &word[at + 1..]).filter(|_| is_short(word));
    long.map(|(_, value)| value).into_iter().chain(short).filter(|value| !value.is_empty())
}
