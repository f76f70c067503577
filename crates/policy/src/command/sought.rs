//! The beginning of a command that a rule looks for.
//!
//! Words are read from the end of a line to its beginning, and what stands behind a word is remembered as
//! far as it matters. So a line of any length is read once, however many of its words could begin a
//! command; trying each of them would cost the more the longer the rest is, and more than that for each
//! further operand.

use super::{base_name, git, is_short};
use crate::shell::{ShellWord, looked_at};

/// Options of well-known programs that stand before a subcommand and take the next word as value.
const OPTIONS_WITH_VALUE: &[(&str, &[&str])] = &[("git", git::OPTIONS_WITH_VALUE)];

/// Long spellings of short options, where the same letter means the same to every program here.
const LONG_OPTIONS: &[(&str, char)] =
    &[("--recursive", 'r'), ("--recursive", 'R'), ("--force", 'f')];

/// A program, its first operands in this order and its options in any, and how much of them the words
/// that were read so far hold.
pub(super) struct Sought<'p> {
    /// Its name: a program is the same one wherever it lies, since links and copies are easily made and
    /// a name without a slash is looked for in many places.
    program: &'p str,
    /// Options that take the next word as value, where they are known.
    with_value: Option<&'static [&'static str]>,
    operands: Vec<&'p str>,
    options: Vec<Wanted<'p>>,
    /// Whether the line goes on with words that are not known.
    open: bool,
    /// For each operand, whether what was read could go on with it and those behind it.
    next: Vec<bool>,
    /// The same one word earlier.
    after: Vec<bool>,
    /// Whether one of the words that were read is not known.
    unknown: bool,
    /// Whether the last word that was read ends the options, if it is no option's value.
    ends: bool,
}

/// An option, and whether it was read.
enum Wanted<'p> {
    Long(&'p str, bool),
    /// Each letter can stand in a word of its own.
    Short(Vec<(char, bool)>),
}

impl<'p> Sought<'p> {
    pub(super) fn new(program: &'p str, more: &'p [Box<str>], open: bool) -> Self {
        let name = base_name(program);
        let (options, operands): (Vec<&str>, Vec<&str>) =
            more.iter().map(|word| &**word).partition(|word| word.starts_with('-'));
        let with_value = OPTIONS_WITH_VALUE.iter().find(|(of, _)| *of == name);
        Self {
            program: name,
            with_value: with_value.map(|(_, options)| *options),
            next: vec![open; operands.len() + 1],
            after: vec![open; operands.len() + 1],
            operands,
            options: options.into_iter().map(Wanted::new).collect(),
            open,
            unknown: false,
            ends: false,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// Begins with another line, at its end.
    pub(super) fn forget(&mut self) {
        for row in [&mut self.next, &mut self.after] {
            row.fill(self.open);
            // Nothing is wanted behind the last operand.
            if let Some(last) = row.last_mut() {
                *last = true;
            }
        }
        self.forget_options();
    }

    fn forget_options(&mut self) {
        (self.unknown, self.ends) = (false, false);
        self.options.iter_mut().for_each(Wanted::forget);
    }

    /// Whether a command of this word and those that were read could begin with what is sought: the same
    /// program wherever it lies, the same subcommands behind whatever options, the same options in any
    /// order and spelling.
    pub(super) fn begins_with(&self, word: &ShellWord, behind: Option<&ShellWord>) -> bool {
        // A name stands for that program wherever it lies.
        let is_program = |name: &str| name == self.program;
        // `tar xf`
        let letters = behind.and_then(ShellWord::text).filter(|_| self.program == "tar");
        let was_read = |option: &Wanted<'_>| option.was_read(letters.unwrap_or_default());
        let has_options = self.options.is_empty()
            || (!self.ends && (self.unknown || self.options.iter().all(was_read)));
        word.file_name().is_some_and(is_program) && self.next[0] && (self.open || has_options)
    }

    /// Takes the word before those that were read; `behind` is the one behind it.
    pub(super) fn read(&mut self, word: &ShellWord, behind: Option<&ShellWord>) {
        looked_at(1);
        let row = (0..=self.operands.len()).map(|at| self.goes_on(at, word, behind)).collect();
        self.after = std::mem::replace(&mut self.next, row);
        if self.ends && !word.text().is_some_and(is_option) {
            self.forget_options();
        }
        self.ends = false;
        match word.text() {
            // No option stands behind it, unless it is the value of one.
            Some("--") => self.ends = true,
            Some(text) => self.options.iter_mut().for_each(|option| option.read(text)),
            None => self.unknown = true,
        }
    }

    /// Whether the operands from `at` on could follow, this word first. An option may take the word
    /// behind it as its value, so that word may be an operand or not.
    fn goes_on(&self, at: usize, word: &ShellWord, behind: Option<&ShellWord>) -> bool {
        let Some(wanted) = self.operands.get(at) else { return true };
        let Some(word) = word.text() else { return true };
        if !word.starts_with('-') {
            // `+nightly` is no operand, though it may be one that is wanted.
            let skips = word.starts_with('+') && self.next[at];
            let is_short_for = self.program == "npm" && word.len() > 1 && wanted.starts_with(word);
            return skips || ((word == *wanted || is_short_for) && self.next[at + 1]);
        }
        // `-mpip`
        let is_joined = is_short(word) && word.len() > wanted.len() + 1 && word.ends_with(wanted);
        if is_joined && self.next[at + 1] {
            return true;
        }
        let value_follows = match self.with_value {
            Some(options) => options.contains(&word),
            None => is_option(word) && !word.contains('='),
        };
        match behind {
            Some(ShellWord::Many(_) | ShellWord::Given) if value_follows => true,
            Some(ShellWord::One(_) | ShellWord::Below(..)) if value_follows => {
                self.with_value.is_none() || self.after[at]
            }
            Some(ShellWord::Text(value)) if value_follows && !value.starts_with('-') => {
                let is_operand = self.with_value.is_none() && value == *wanted;
                self.after[at] || (is_operand && self.after[at + 1])
            }
            _ => self.next[at],
        }
    }
}

impl<'p> Wanted<'p> {
    fn new(option: &'p str) -> Self {
        if is_short(option) {
            Self::Short(option[1..].chars().map(|letter| (letter, false)).collect())
        } else {
            Self::Long(option, false)
        }
    }

    fn forget(&mut self) {
        match self {
            Self::Long(_, read) => *read = false,
            Self::Short(letters) => letters.iter_mut().for_each(|(_, read)| *read = false),
        }
    }

    /// `more` are letters of options that were read elsewhere.
    fn was_read(&self, more: &str) -> bool {
        match self {
            Self::Long(_, read) => *read,
            Self::Short(letters) => letters.iter().all(|(c, read)| *read || more.contains(*c)),
        }
    }

    fn read(&mut self, word: &str) {
        match self {
            // Programs take an unambiguous beginning of a long option for the whole.
            Self::Long(wanted, read) => {
                let name = word.split('=').next().unwrap_or_default();
                let is_letter = |(long, letter): &(&str, char)| {
                    long == wanted && is_short(word) && word[1..].contains(*letter)
                };
                *read |= name == *wanted
                    || (name.len() > 2 && wanted.starts_with(name))
                    || LONG_OPTIONS.iter().any(is_letter);
            }
            Self::Short(letters) => {
                for (letter, read) in letters {
                    // `-R` is `-r` to the programs that have both.
                    let is_same = |c: char| c == *letter || (*letter == 'r' && c == 'R');
                    *read |= (is_short(word) && word[1..].contains(is_same))
                        || LONG_OPTIONS.iter().any(|(long, short)| {
                            short == letter && word.len() > 2 && long.starts_with(word)
                        });
                }
            }
        }
    }
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word != "--"
}
