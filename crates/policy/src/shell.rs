//! Which commands a shell script runs.
//!
//! A reader for the grammar of POSIX sh and the parts of bash that programs write. It answers every
//! simple command of a script, wherever it stands: in lists, pipelines, compound commands, functions,
//! substitutions of either kind, redirections and here-documents. `sh` may be bash or a plain shell, so
//! what these read differently is read both ways, or not at all. A word keeps its text only when the
//! shell would take exactly that text; what an expansion would make of it is not known here.
//!
//! What the reader does not understand is an error, never a guess: the caller then has to assume any
//! command at all. Grammar: POSIX.1-2024, "Shell Command Language".

mod arithmetic;
mod builtins;
mod commands;
#[cfg(test)]
mod tests;
mod variables;
mod words;

use std::collections::{BTreeSet, VecDeque};

pub(crate) use self::builtins::{is_script, is_shell_option};
pub(crate) use self::variables::{Exported, exported};
use self::variables::{Value, Variables};
use crate::limits::MAX_SCRIPT_DEPTH;

/// Shells whose grammar is read.
pub(crate) const SHELLS: &[&str] = &["ash", "bash", "dash", "sh"];

/// Shells of another grammar, whose scripts are not read.
pub(crate) const OTHER_SHELLS: &[&str] = &[
    "brush",
    "csh",
    "elvish",
    "es",
    "fish",
    "hush",
    "ion",
    "ksh",
    "lksh",
    "loksh",
    "mksh",
    "murex",
    "nu",
    "oil",
    "oils-for-unix",
    "oksh",
    "osh",
    "pdksh",
    "posh",
    "pwsh",
    "rbash",
    "rc",
    "rksh",
    "rzsh",
    "scsh",
    "tcsh",
    "xonsh",
    "yash",
    "ysh",
    "zsh",
];

#[cfg(test)]
thread_local! {
    /// How much was looked at on this thread.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts characters or words that are looked at, so that tests can tell what reading costs without a clock.
pub(crate) fn looked_at(many: usize) {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + many);
    #[cfg(not(test))]
    let _ = many;
}

/// What a word of a script will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShellWord {
    /// Exactly this text.
    Text(String),
    /// One word that only running the script would tell; it begins with this.
    One(String),
    /// Any number of words, the first of which begins with this.
    Many(String),
}

impl ShellWord {
    /// The text, if it is known.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::One(_) | Self::Many(_) => None,
        }
    }

    /// What it begins with for sure.
    pub(crate) fn beginning(&self) -> &str {
        match self {
            Self::Text(text) | Self::One(text) | Self::Many(text) => text,
        }
    }
}

/// What a script does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// The words of every simple command, assignments and redirections taken off.
    pub(crate) commands: Vec<Vec<ShellWord>>,
    /// Whether it sets variables that programs may look at, which can change what they do.
    pub(crate) sets: bool,
    /// Values of variables that programs may run.
    pub(crate) values: Vec<String>,
}

/// The script uses something that is not understood, or is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

type Read<T> = Result<T, Unreadable>;

/// Reads a script. `budget` bytes may still be looked at, over all scripts within scripts.
pub(crate) fn read(script: &str, budget: &mut usize) -> Read<Script> {
    let mut reader = Reader {
        found: Vec::new(),
        variables: Variables::default(),
        functions: BTreeSet::new(),
        counting: BTreeSet::new(),
        is_condition: false,
        redirected: 0,
        depth: 0,
        budget,
    };
    reader.script(script)?;
    if reader.counting.intersection(&reader.functions).next().is_some() {
        return Err(Unreadable);
    }
    let outcome = reader.variables.outcome()?;
    Ok(Script { commands: reader.found, sets: outcome.sets, values: outcome.commands })
}

/// What is shared by a script and the scripts inside it.
struct Reader<'b> {
    found: Vec<Vec<ShellWord>>,
    variables: Variables,
    functions: BTreeSet<String>,
    /// Programs whose output is taken for a number.
    counting: BTreeSet<String>,
    /// Whether `[[` was read and `]]` was not.
    is_condition: bool,
    /// How often output went elsewhere than away.
    redirected: usize,
    depth: usize,
    budget: &'b mut usize,
}

impl Reader<'_> {
    fn script(&mut self, text: &str) -> Read<()> {
        self.within(text, 0, |cursor| cursor.list(&[Stop::End]).map(|_| ()))
    }

    /// Substitutions in a text that is otherwise taken as it is.
    fn expansions(&mut self, text: &str) -> Read<()> {
        self.within(text, 1, |cursor| {
            let mut word = Word::default();
            while let Some(c) = cursor.peek(0) {
                cursor.expand_or_take(c, &mut word)?;
            }
            Ok(())
        })
    }

    fn within(
        &mut self,
        text: &str,
        inside: usize,
        read: impl FnOnce(&mut Cursor<'_, '_>) -> Read<()>,
    ) -> Read<()> {
        *self.budget = self.budget.checked_sub(text.len() + 1).ok_or(Unreadable)?;
        self.descend()?;
        let mut cursor = Cursor {
            chars: text.chars().collect(),
            at: 0,
            inside,
            documents: VecDeque::new(),
            reader: self,
        };
        let read = read(&mut cursor)
            .and_then(|()| cursor.documents.is_empty().then_some(()).ok_or(Unreadable));
        self.depth -= 1;
        read
    }

    fn descend(&mut self) -> Read<()> {
        self.depth += 1;
        if self.depth > MAX_SCRIPT_DEPTH { Err(Unreadable) } else { Ok(()) }
    }
}

/// What ends a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The end of the text.
    End,
    /// `)`.
    Bracket,
    /// `;;`, `;&` or `;;&`.
    CaseItem,
    /// A reserved word.
    Word(&'static str),
}

/// A word as it is read.
#[derive(Debug, Default)]
struct Word {
    text: String,
    /// An expansion decides about it.
    unknown: bool,
    /// The expansion may make several words of it, or none.
    splits: bool,
    /// Some of it was quoted, so it is no reserved word.
    quoted: bool,
    /// It stands for names of files, or for a list in braces.
    pattern: bool,
    /// How much of the text stands before the first thing that is not known.
    known_bytes: usize,
    /// An expansion in it is no number.
    opaque: bool,
    /// Variables that are expanded in it, and that have to be numbers if it is to be one.
    numbers: Vec<String>,
    /// It begins as an assignment does: the name and `=` are there as they stand.
    target: Option<Target>,
}

/// What an assignment sets.
#[derive(Debug)]
struct Target {
    name: String,
    /// Where the value begins in the text of the word.
    value_at: usize,
    /// `name=(..)`, or one place of it.
    array: bool,
    /// `+=`
    appends: bool,
}

/// What an expansion makes.
enum Part {
    Number,
    /// What this variable holds.
    Variable(String),
    Anything,
}

impl Word {
    fn value(self) -> ShellWord {
        match (self.unknown || self.pattern, self.splits || self.pattern) {
            (false, _) => ShellWord::Text(self.text),
            (true, false) => ShellWord::One(self.known_beginning().to_owned()),
            (true, true) => ShellWord::Many(self.known_beginning().to_owned()),
        }
    }

    fn expand(&mut self, part: Part) {
        if !self.unknown && !self.pattern {
            self.known_bytes = self.text.len();
        }
        self.unknown = true;
        match part {
            Part::Number => {}
            Part::Variable(name) => self.numbers.push(name),
            Part::Anything => self.opaque = true,
        }
    }

    /// The text, if nothing else can become of the word.
    fn known(&self) -> Option<&str> {
        (!self.unknown && !self.pattern).then_some(self.text.as_str())
    }

    /// What the word begins with for sure.
    fn known_beginning(&self) -> &str {
        self.known().unwrap_or(&self.text[..self.known_bytes])
    }

    /// A reserved word or a name as it stands.
    fn bare(&self) -> Option<&str> {
        self.known().filter(|_| !self.quoted)
    }

    /// What its text from `at` on is as the value of a variable.
    fn held(&self, at: usize) -> Value {
        let text = &self.text[at..];
        if !self.opaque && variables::is_number(text) && (self.unknown || !text.is_empty()) {
            Value::Number(self.numbers.clone())
        } else if self.unknown || self.pattern {
            Value::Unknown
        } else {
            Value::Text(text.to_owned())
        }
    }
}

fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && text.chars().all(is_name_char)
}

fn is_name_char(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// A here-document whose body begins behind the next line end.
struct Document {
    end: String,
    strips_tabs: bool,
    expands: bool,
}

/// A place in a script.
struct Cursor<'r, 'b> {
    chars: Vec<char>,
    at: usize,
    /// How many double quotes, here-documents and arithmetics this place is in: quotes are not what they are
    /// elsewhere, and shells differ in what they are.
    inside: usize,
    documents: VecDeque<Document>,
    reader: &'r mut Reader<'b>,
}

impl Cursor<'_, '_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        looked_at(1);
        self.chars.get(self.at + ahead).copied()
    }

    fn looks_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn take_if(&mut self, text: &str) -> bool {
        let there = self.looks_at(text);
        if there {
            self.at += text.chars().count();
        }
        there
    }

    /// Whether a line is joined with the next one here: beside a blank, so that nothing is put together that stands for
    /// something else than its parts (`$` and `(` of two lines).
    fn joins(&self) -> bool {
        let is_blank = |c: Option<&char>| c.is_none_or(|c| matches!(c, ' ' | '\t' | '\n'));
        let before = self.at.checked_sub(1).and_then(|at| self.chars.get(at));
        self.peek(0) == Some('\\')
            && self.peek(1) == Some('\n')
            && (is_blank(before) || is_blank(self.chars.get(self.at + 2)))
    }

    /// Blanks, joined lines and comments.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek(0) {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.joins() => self.at += 2,
                Some('#') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn skip_lines(&mut self) -> Read<()> {
        loop {
            self.skip_blanks();
            if !self.take_if("\n") {
                return Ok(());
            }
            self.document_bodies()?;
        }
    }

    fn document_bodies(&mut self) -> Read<()> {
        while let Some(document) = self.documents.pop_front() {
            let mut body = String::new();
            loop {
                if self.at >= self.chars.len() {
                    return Err(Unreadable);
                }
                let rest = &self.chars[self.at..];
                let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at = (self.at + length + 1).min(self.chars.len());
                let line = if document.strips_tabs { line.trim_start_matches('\t') } else { &line };
                let is_joined = document.expands && body.ends_with("\\\n");
                if line == document.end && !is_joined {
                    break;
                }
                if is_joined && line.trim_start_matches('\t') == document.end {
                    return Err(Unreadable);
                }
                body.push_str(line);
                body.push('\n');
            }
            if document.expands {
                self.reader.expansions(&body)?;
            }
        }
        Ok(())
    }
}
