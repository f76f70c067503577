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
mod options;
#[cfg(test)]
mod tests;
mod variables;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) use self::builtins::{is_script, is_shell_option};
pub(crate) use self::options::{is_harmless_code, may_run};
pub(crate) use self::variables::{Exported, exported, is_cache, takes_any_value};
use self::variables::{Outcome, Value, Variables};
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
    /// The same, and it ends in the name of a file, the second text.
    Below(String, String),
    /// Any number of words, the first of which begins with this.
    Many(String),
    /// Any number of numbers, or what the machine has in a variable that nobody sets here.
    Given,
}

impl ShellWord {
    /// The text, if it is known.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::One(_) | Self::Below(..) | Self::Many(_) | Self::Given => None,
        }
    }

    /// Whether it may be several words.
    pub(crate) const fn is_several(&self) -> bool {
        matches!(self, Self::Many(_) | Self::Given)
    }

    /// The name of the file that it is as a command, if it is known.
    pub(crate) fn file_name(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.rsplit('/').next().unwrap_or(text)),
            Self::Below(_, name) => Some(name),
            Self::One(_) | Self::Many(_) | Self::Given => None,
        }
    }

    /// What it begins with for sure.
    pub(crate) fn beginning(&self) -> &str {
        match self {
            Self::Text(text) | Self::One(text) | Self::Below(text, _) | Self::Many(text) => text,
            Self::Given => "",
        }
    }
}

/// What a script does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// The words of every simple command, assignments and redirections taken off.
    pub(crate) commands: Vec<Vec<ShellWord>>,
    /// Those of them, by number, that call a function which the script defined before.
    pub(crate) calls: BTreeSet<usize>,
    /// Programs that a plain shell would start where another has words of its own.
    pub(crate) perhaps: BTreeSet<String>,
    /// Whether it sets variables that programs may look at, which can change what they do.
    pub(crate) sets: bool,
    /// Values of variables that programs may run.
    pub(crate) values: Vec<String>,
}

/// The script uses something that is not understood, or is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

type Read<T> = Result<T, Unreadable>;

/// What is known of the way in which a script is run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Setting {
    /// No words are given to it, and no variable by another command: what it does not set is the machine's.
    pub(crate) alone: bool,
    /// It is bash for sure that runs it.
    pub(crate) is_bash: bool,
}

/// Reads a script. `budget` bytes may still be looked at, over all scripts within scripts.
pub(crate) fn read(script: &str, setting: Setting, budget: &mut usize) -> Read<Script> {
    let mut reader = Reader {
        found: Vec::new(),
        numbers: Vec::new(),
        variables: Variables::new(setting.alone),
        is_bash: setting.is_bash,
        functions: BTreeSet::new(),
        defined: BTreeSet::new(),
        defining: None,
        is_steady: true,
        is_disturbed: false,
        calls: BTreeMap::new(),
        perhaps: BTreeSet::new(),
        is_trapped: false,
        counting: BTreeSet::new(),
        is_condition: false,
        redirected: 0,
        depth: 0,
        budget,
    };
    reader.script(script)?;
    let is_other = reader.counting.intersection(&reader.functions).next().is_some();
    if is_other || (reader.is_trapped && !reader.counting.is_empty()) {
        return Err(Unreadable);
    }
    reader.outcome()
}

/// What is shared by a script and the scripts inside it.
struct Reader<'b> {
    found: Vec<Vec<ShellWord>>,
    /// Words that were found, by the numbers of command and word, that are a number if these variables are.
    numbers: Vec<(usize, usize, Vec<String>)>,
    variables: Variables,
    is_bash: bool,
    functions: BTreeSet<String>,
    /// Those of the functions that are defined at this place of the script for sure.
    defined: BTreeSet<String>,
    /// The function whose body comes next.
    defining: Option<String>,
    /// Whether no command read since the last whole line can fail while it is expanded: bash drops the rest of the
    /// line then, and goes on with the next one.
    is_steady: bool,
    /// Signals and forks that fail may drop the rest of any line.
    is_disturbed: bool,
    /// Commands that call one of these, by number.
    calls: BTreeMap<usize, String>,
    perhaps: BTreeSet<String>,
    /// What a trap prints may come out of any command.
    is_trapped: bool,
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
    /// What the whole script does.
    fn outcome(mut self) -> Read<Script> {
        self.variables.give(&self.functions);
        let (variables, is_unset) = (&self.variables, |name: &str| self.variables.is_unset(name));
        let numbers = variables.numbers();
        for (command, word, names) in &self.numbers {
            // One that is quoted is a word whatever it holds.
            let word = &mut self.found[*command][*word];
            if matches!(word, ShellWord::Many(_)) && names.iter().all(|name| numbers.hold(name)) {
                *word = ShellWord::Given;
            }
        }
        let outcome = variables.outcome(&numbers)?;
        let calls = self.calls.iter().filter(|(_, name)| !is_unset(name)).map(|(at, _)| *at);
        let (calls, perhaps) = (calls.collect(), self.perhaps);
        let Outcome { sets, commands: values } = outcome;
        Ok(Script { commands: self.found, calls, perhaps, sets, values })
    }

    /// To a plain shell a word is the name of a program.
    fn perhaps(&mut self, name: &str) {
        if !self.is_bash {
            self.perhaps.insert(name.to_owned());
        }
    }

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
            substitutions: 0,
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
    /// How much of it stands before and between such things.
    unknown_bytes: usize,
    /// An expansion in it is no number.
    opaque: bool,
    /// An expansion in it may be an error.
    may_fail: bool,
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
            (true, false) => {
                let begin = self.known_beginning().to_owned();
                match self.file_name() {
                    Some(name) => ShellWord::Below(begin, name.to_owned()),
                    None => ShellWord::One(begin),
                }
            }
            (true, true) => ShellWord::Many(self.known_beginning().to_owned()),
        }
    }

    fn expand(&mut self, part: Part) {
        if !self.unknown && !self.pattern {
            self.known_bytes = self.text.len();
        }
        self.unknown = true;
        self.unknown_bytes = self.text.len();
        match part {
            Part::Number => {}
            Part::Variable(name) => self.numbers.push(name),
            Part::Anything => self.opaque = true,
        }
    }

    /// The name of a file behind a directory that is not known.
    fn file_name(&self) -> Option<&str> {
        let is_one = self.unknown && !self.pattern && !self.splits;
        let (_, name) = self.text[self.unknown_bytes..].rsplit_once('/').filter(|_| is_one)?;
        (!name.is_empty()).then_some(name)
    }

    /// Variables of which it is made, and digits, if it is made of nothing else.
    fn counted(&self) -> Option<&[String]> {
        let is_plain = self.unknown && !self.opaque && !self.pattern;
        let is_counted = is_plain && self.text.bytes().all(|byte| byte.is_ascii_digit());
        is_counted.then_some(self.numbers.as_slice())
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

pub(crate) fn is_name(text: &str) -> bool {
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
    /// How many substitutions it is in.
    substitutions: usize,
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

    /// Whether bash may join a line of a document with the next ones and find its end there: it compares joined lines,
    /// a plain shell compares single ones.
    fn may_end_joined(&self, line: &str, end: &str) -> bool {
        let before = line.trim_end_matches('\\');
        if (line.len() - before.len()).is_multiple_of(2) {
            return false;
        }
        let begin = line[..line.len() - 1].trim_start_matches('\t');
        end.starts_with(begin) || (self.substitutions > 0 && begin.starts_with(end))
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
                // bash ends a document of a substitution there.
                let behind = line.strip_prefix(document.end.as_str()).unwrap_or_default();
                if self.substitutions > 0 && behind.contains(')') {
                    return Err(Unreadable);
                }
                if is_joined && line.trim_start_matches('\t') == document.end {
                    return Err(Unreadable);
                }
                if document.expands && self.may_end_joined(line, &document.end) {
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
