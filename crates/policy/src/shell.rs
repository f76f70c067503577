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

mod lines;
#[cfg(test)]
mod tests;
mod words;

use std::collections::VecDeque;

use crate::command::holds_substitution;
use crate::limits::MAX_SCRIPT_DEPTH;

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
    /// One word that only running the script would tell.
    One,
    /// Any number of words.
    Many,
}

/// One simple command: assignments and redirections taken off, possibly nothing left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// Words.
    pub(crate) words: Vec<ShellWord>,
    /// Whether variables are set for it, which can change what it does.
    pub(crate) assigns: bool,
}

/// Commands that expand a word of theirs once more, in arithmetic or as a list of words.
const EVALUATORS: &[&str] = &["[[", "compgen", "complete", "let"];
/// Commands that take a word for the name of a variable, which may have an index.
const NAMERS: &[&str] = &[
    "declare",
    "export",
    "getopts",
    "local",
    "mapfile",
    "read",
    "readarray",
    "readonly",
    "typeset",
    "unset",
    "wait",
];
/// Commands that put what they read into variables.
const READERS: &[&str] = &["mapfile", "read", "readarray"];

impl Invocation {
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.words.iter().filter_map(|word| match word {
            ShellWord::Text(text) => Some(text.as_str()),
            ShellWord::One | ShellWord::Many => None,
        })
    }

    /// Whether it may expand a text once more. Its name may stand behind `builtin`; `-v` names a variable.
    fn evaluates(&self) -> bool {
        let names = self.texts().any(|text| NAMERS.contains(&text) || text.starts_with("-v"));
        let is_indexed = |word: &ShellWord| match word {
            ShellWord::Text(text) => text.contains('['),
            ShellWord::One | ShellWord::Many => true,
        };
        self.texts().any(|text| EVALUATORS.contains(&text))
            || (names && self.words.iter().any(is_indexed))
    }

    fn take(&mut self, word: Word) -> Read<()> {
        if !self.words.is_empty() || !word.is_assignment() {
            self.words.push(word.value());
        } else if holds_substitution(&word.text) || obeyed(&word.text) {
            // Expanded later, as a prompt or in arithmetic, such a value runs a command.
            return Err(Unreadable);
        } else {
            self.assigns = true;
        }
        Ok(())
    }
}

/// Variables that a shell takes commands from.
const OBEYED: &[&str] = &["BASH_ENV", "PROMPT_COMMAND", "PS4"];

/// Whether a word names or sets a variable that a shell takes commands from.
pub(crate) fn obeyed(assignment: &str) -> bool {
    let name = assignment.split(['=', '+', '[']).next().unwrap_or_default();
    OBEYED.contains(&name)
}

/// The script uses something that is not understood, or is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

type Read<T> = Result<T, Unreadable>;

/// Reads a script. `budget` bytes may still be looked at, over all scripts within scripts.
pub(crate) fn invocations(script: &str, budget: &mut usize) -> Read<Vec<Invocation>> {
    let mut reader =
        Reader { found: Vec::new(), depth: 0, budget, hides: Hides::default(), evaluates: false };
    reader.script(script)?;
    let has =
        |names: &[&str]| reader.found.iter().any(|it| it.texts().any(|text| names.contains(&text)));
    // A text that nothing expands where it stands may be handed to what does.
    let hides = reader.hides.word || (reader.hides.document && has(READERS));
    let evaluates = reader.evaluates || reader.found.iter().any(Invocation::evaluates);
    if (hides && evaluates) || has(OBEYED) { Err(Unreadable) } else { Ok(reader.found) }
}

/// Where a quoted text stands that would run a command if it were expanded.
#[derive(Default)]
struct Hides {
    word: bool,
    document: bool,
}

/// What is shared by a script and the scripts inside it.
struct Reader<'b> {
    found: Vec<Invocation>,
    depth: usize,
    budget: &'b mut usize,
    hides: Hides,
    /// Whether something expands the values of variables or words once more, as arithmetic does.
    evaluates: bool,
}

impl Reader<'_> {
    fn script(&mut self, text: &str) -> Read<()> {
        let text = lines::joined(text)?;
        self.within(&text, 0, |cursor| cursor.list(&[Stop::End]).map(|_| ()))
    }

    /// Something sets variables, whose names are in a text. Those that programs look at have capital letters, or
    /// are about proxies; the rest is the script's own.
    fn sets(&mut self, names: &str) {
        if names.contains(|c: char| c.is_ascii_uppercase()) || names.contains("proxy") {
            self.found.push(Invocation { words: Vec::new(), assigns: true });
        }
    }

    /// A text as the shell takes it, which may be one to be expanded later.
    fn may_hide(&mut self, text: &str) {
        self.hides.word |= holds_substitution(text) || text.contains("[$") || text.ends_with('$');
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

    /// Takes from the budget: what is read again, at every level of nesting, would else cost without
    /// bound.
    fn paid(&mut self, chars: usize) -> Read<()> {
        *self.budget = self.budget.checked_sub(chars).ok_or(Unreadable)?;
        Ok(())
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

/// Reserved words that can only end something; where nothing waits for them they are an error.
const ENDS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "}", "esac", "in"];

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
}

impl Word {
    fn value(self) -> ShellWord {
        match (self.unknown, self.splits) {
            (false, _) => ShellWord::Text(self.text),
            (true, false) => ShellWord::One,
            (true, true) => ShellWord::Many,
        }
    }

    fn is_assignment(&self) -> bool {
        looked_at(self.text.len());
        let name = self.text.split('=').next().unwrap_or_default();
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split('[').next().unwrap_or_default();
        self.text.contains('=') && is_name(name)
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

    /// Blanks, joined lines and comments.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek(0) {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.peek(1) == Some('\n') => self.at += 2,
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
                if line == document.end {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            if document.expands {
                self.reader.expansions(&body)?;
            } else {
                self.reader.hides.document |= holds_substitution(&body);
            }
        }
        Ok(())
    }

    /// Commands up to one of `stops`, which is consumed.
    fn list(&mut self, stops: &[Stop]) -> Read<Stop> {
        self.reader.descend()?;
        let stop = loop {
            self.skip_lines()?;
            if self.peek(0).is_none() {
                break Stop::End;
            }
            if self.take_if(";;&") || self.take_if(";;") || self.take_if(";&") {
                break Stop::CaseItem;
            }
            if self.take_if(")") {
                break Stop::Bracket;
            }
            if matches!(self.peek(0), Some(';' | '&' | '|')) {
                self.at += 1;
                continue;
            }
            if let Some(word) = self.command(stops)? {
                break Stop::Word(word);
            }
        };
        self.reader.depth -= 1;
        if stops.contains(&stop) { Ok(stop) } else { Err(Unreadable) }
    }

    /// One command, simple or compound; answers the reserved word of `stops` that stood there instead.
    fn command(&mut self, stops: &[Stop]) -> Read<Option<&'static str>> {
        if self.looks_at("((") {
            let begin = self.at;
            self.reader.evaluates = true;
            if self.arithmetic(2)? {
                // A plain shell reads brackets in brackets.
                let inside: String = self.chars[begin + 2..self.at - 2].iter().collect();
                return self.reader.script(&inside).map(|()| None);
            }
        }
        if self.take_if("(") {
            self.list(&[Stop::Bracket])?;
            return Ok(None);
        }
        if self.redirection()? {
            return self.simple(None).map(|()| None);
        }
        let word = self.some_word()?;
        let reserved = if word.quoted || word.unknown { "" } else { word.text.as_str() };
        if let Some(end) = ENDS.iter().find(|end| **end == reserved) {
            return if stops.contains(&Stop::Word(end)) { Ok(Some(end)) } else { Err(Unreadable) };
        }
        match reserved {
            "!" | "time" | "coproc" => {}
            "{" => self.until("}")?,
            "if" => self.branches()?,
            "while" | "until" => {
                self.until("do")?;
                self.until("done")?;
            }
            "for" | "select" => self.each()?,
            "case" => self.case()?,
            "function" => {
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                if self.take_if("(") && !self.take_if(")") {
                    return Err(Unreadable);
                }
            }
            _ => self.simple(Some(word))?,
        }
        Ok(None)
    }

    fn until(&mut self, word: &'static str) -> Read<()> {
        self.list(&[Stop::Word(word)]).map(|_| ())
    }

    /// Behind `if`.
    fn branches(&mut self) -> Read<()> {
        loop {
            self.until("then")?;
            match self.list(&[Stop::Word("elif"), Stop::Word("else"), Stop::Word("fi")])? {
                Stop::Word("elif") => {}
                Stop::Word("else") => return self.until("fi"),
                _ => return Ok(()),
            }
        }
    }

    /// Behind `for` or `select`.
    fn each(&mut self) -> Read<()> {
        self.skip_blanks();
        if self.looks_at("((") {
            if !self.arithmetic(2)? {
                return Err(Unreadable);
            }
        } else {
            let name = self.word()?;
            if obeyed(&name.text) {
                return Err(Unreadable);
            }
            self.reader.sets(&name.text);
            self.skip_lines()?;
            if self.take_reserved("in") {
                loop {
                    self.skip_blanks();
                    match self.peek(0) {
                        Some(';' | '\n') | None => break,
                        _ => self.some_word().map(|_| ())?,
                    }
                }
            }
        }
        self.skip_blanks();
        self.take_if(";");
        self.skip_lines()?;
        if !self.take_reserved("do") {
            return Err(Unreadable);
        }
        self.until("done")
    }

    /// Behind `case`.
    fn case(&mut self) -> Read<()> {
        self.skip_blanks();
        self.word()?;
        self.skip_lines()?;
        if !self.take_reserved("in") {
            return Err(Unreadable);
        }
        loop {
            self.skip_lines()?;
            if self.take_reserved("esac") {
                return Ok(());
            }
            self.take_if("(");
            loop {
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                if self.take_if(")") {
                    break;
                }
                if !self.take_if("|") {
                    return Err(Unreadable);
                }
            }
            if self.list(&[Stop::CaseItem, Stop::Word("esac")])? != Stop::CaseItem {
                return Ok(());
            }
        }
    }

    /// Takes a reserved word. Compared as it stands: reading a word twice would read what is nested in
    /// it twice, at every level.
    fn take_reserved(&mut self, wanted: &str) -> bool {
        let behind = self.peek(wanted.len());
        self.looks_at(wanted)
            && behind.is_none_or(|c| c.is_ascii_whitespace() || ";&|()<>#".contains(c))
            && self.take_if(wanted)
    }

    /// A simple command, of which the first word may have been read.
    fn simple(&mut self, first: Option<Word>) -> Read<()> {
        let mut command = Invocation::default();
        if let Some(word) = first {
            command.take(word)?;
        }
        loop {
            self.skip_blanks();
            match self.peek(0) {
                // A plain shell ends the command here, bash goes on behind the file's name: that is
                // the same only when nothing follows it.
                Some('&') if self.peek(1) == Some('>') => {
                    self.redirection()?;
                    while {
                        self.skip_blanks();
                        self.redirection()?
                    } {}
                    if self.peek(0).is_some_and(|c| !"\n;&|)".contains(c)) {
                        return Err(Unreadable);
                    }
                }
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                // `name ()`: what follows is the function's body.
                Some('(') if command.words.len() == 1 && !command.assigns => {
                    self.at += 1;
                    self.skip_blanks();
                    return if self.take_if(")") { Ok(()) } else { Err(Unreadable) };
                }
                Some('(') => return Err(Unreadable),
                _ if self.redirection()? => {}
                _ => {
                    let word = self.some_word()?;
                    command.take(word)?;
                }
            }
        }
        if !command.words.is_empty() || command.assigns {
            self.reader.found.push(command);
        }
        Ok(())
    }

    /// Takes a redirection, if there is one.
    fn redirection(&mut self) -> Read<bool> {
        let mut ahead = 0;
        while self.peek(ahead).is_some_and(|c| c.is_ascii_digit()) {
            ahead += 1;
        }
        if ahead == 0 && self.peek(0) == Some('{') {
            // `{name}>file`
            while self.peek(ahead + 1).is_some_and(is_name_char) {
                ahead += 1;
            }
            ahead = if self.peek(ahead + 1) == Some('}') { ahead + 2 } else { 0 };
            if ahead > 0 && matches!(self.peek(ahead), Some('<' | '>')) {
                let name: String = self.chars[self.at + 1..self.at + ahead - 1].iter().collect();
                self.reader.sets(&name);
            }
        }
        if ahead == 0 && self.peek(0) == Some('&') && self.peek(1) == Some('>') {
            ahead = 1;
        }
        if !matches!(self.peek(ahead), Some('<' | '>')) {
            return Ok(false);
        }
        // A process substitution is a word.
        if ahead == 0 && self.peek(1) == Some('(') {
            return Ok(false);
        }
        self.at += ahead;
        let operator = ["<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">"]
            .into_iter()
            .find(|operator| self.take_if(operator))
            .ok_or(Unreadable)?;
        self.skip_blanks();
        let begin = self.at;
        let target = self.some_word()?;
        if matches!(operator, "<<" | "<<-") {
            // Shells differ in what such an end is.
            if self.chars[begin..self.at].iter().any(|c| matches!(c, '$' | '`')) {
                return Err(Unreadable);
            }
            let expands = !target.quoted;
            let ShellWord::Text(end) = target.value() else { return Err(Unreadable) };
            self.documents.push_back(Document { end, strips_tabs: operator == "<<-", expands });
        }
        Ok(true)
    }
}
