//! Which commands a shell script runs.
//!
//! A reader for the grammar of POSIX sh and the parts of bash that programs write. It answers every
//! simple command of a script, wherever it stands: in lists, pipelines, compound commands, functions,
//! substitutions of either kind, redirections and here-documents. A word keeps its text only when the
//! shell would take exactly that text; what an expansion would make of it is not known here.
//!
//! What the reader does not understand is an error, never a guess: the caller then has to assume any
//! command at all. Grammar: POSIX.1-2024, "Shell Command Language".

use std::collections::VecDeque;

use crate::limits::MAX_SCRIPT_DEPTH;

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

impl Invocation {
    fn take(&mut self, word: Word) {
        if self.words.is_empty() && word.is_assignment() {
            self.assigns = true;
        } else {
            self.words.push(word.value());
        }
    }
}

/// The script uses something that is not understood, or is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

type Read<T> = Result<T, Unreadable>;

/// Reads a script. `budget` bytes may still be looked at, over all scripts within scripts.
pub(crate) fn invocations(script: &str, budget: &mut usize) -> Read<Vec<Invocation>> {
    let mut reader = Reader { found: Vec::new(), depth: 0, budget };
    reader.script(script)?;
    Ok(reader.found)
}

/// What is shared by a script and the scripts inside it.
struct Reader<'b> {
    found: Vec<Invocation>,
    depth: usize,
    budget: &'b mut usize,
}

impl Reader<'_> {
    fn script(&mut self, text: &str) -> Read<()> {
        self.within(text, |cursor| cursor.list(&[Stop::End]).map(|_| ()))
    }

    /// Substitutions in a text that is otherwise taken as it is.
    fn expansions(&mut self, text: &str) -> Read<()> {
        self.within(text, |cursor| {
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
        read: impl FnOnce(&mut Cursor<'_, '_>) -> Read<()>,
    ) -> Read<()> {
        *self.budget = self.budget.checked_sub(text.len() + 1).ok_or(Unreadable)?;
        self.descend()?;
        let mut cursor = Cursor {
            chars: text.chars().collect(),
            at: 0,
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

/// Reserved words that can only end something; where nothing waits for them they are an error.
const ENDS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "}", "esac", "in", "]]"];

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
    documents: VecDeque<Document>,
    reader: &'r mut Reader<'b>,
}

impl Cursor<'_, '_> {
    fn peek(&self, ahead: usize) -> Option<char> {
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
                Some(' ' | '\t' | '\r') => self.at += 1,
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
        if self.looks_at("((") && self.arithmetic(2)? {
            return Ok(None);
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
            "[[" => self.test()?,
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
            self.word()?;
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

    /// Behind `[[`: a test, whose marks are no operators of the shell.
    fn test(&mut self) -> Read<()> {
        loop {
            self.skip_lines()?;
            match self.peek(0) {
                None => return Err(Unreadable),
                Some('<' | '>') if self.peek(1) == Some('(') => self.some_word().map(|_| ())?,
                Some('(' | ')' | '&' | '|' | '<' | '>' | ';') => self.at += 1,
                Some(_) => {
                    let word = self.some_word()?;
                    if !word.quoted && word.text == "]]" {
                        return Ok(());
                    }
                }
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
            command.take(word);
        }
        loop {
            self.skip_blanks();
            match self.peek(0) {
                None | Some('\n' | ';' | '&' | '|' | ')') if !self.looks_at("&>") => break,
                // `name ()`: what follows is the function's body.
                Some('(') if command.words.len() == 1 && !command.assigns => {
                    self.at += 1;
                    self.skip_blanks();
                    return if self.take_if(")") { Ok(()) } else { Err(Unreadable) };
                }
                Some('(') => return Err(Unreadable),
                _ if self.redirection()? => {}
                _ => command.take(self.some_word()?),
            }
        }
        if !command.words.is_empty() {
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
        let target = self.some_word()?;
        if matches!(operator, "<<" | "<<-") {
            let expands = !target.quoted;
            let ShellWord::Text(end) = target.value() else { return Err(Unreadable) };
            self.documents.push_back(Document { end, strips_tabs: operator == "<<-", expands });
        }
        Ok(true)
    }

    /// A word that must be there.
    fn some_word(&mut self) -> Read<Word> {
        let begin = self.at;
        let word = self.word()?;
        if self.at == begin { Err(Unreadable) } else { Ok(word) }
    }

    /// A word; empty when none begins here.
    fn word(&mut self) -> Read<Word> {
        let mut word = Word::default();
        let begin = self.at;
        let mut pattern = false;
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | ')' => break,
                '(' if word.text.ends_with('=') && word.is_assignment() => self.array(&mut word)?,
                '(' => break,
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.list(&[Stop::Bracket])?;
                    word.unknown = true;
                }
                '<' | '>' => break,
                '\'' => self.plain(&mut word)?,
                '"' => {
                    self.at += 1;
                    self.double(&mut word)?;
                }
                '*' | '?' | '[' | '{' => {
                    pattern = true;
                    word.text.push(c);
                    self.at += 1;
                }
                '~' if self.at == begin => {
                    word.unknown = true;
                    word.text.push(c);
                    self.at += 1;
                }
                _ => {
                    word.splits |= matches!(c, '$' | '`');
                    self.expand_or_take(c, &mut word)?;
                }
            }
        }
        // These alone are words; in others they stand for what only running the script would tell.
        if pattern && !matches!(word.text.as_str(), "[" | "[[" | "{" | "{}") {
            (word.unknown, word.splits) = (true, true);
        }
        Ok(word)
    }

    /// `name=(..)`.
    fn array(&mut self, word: &mut Word) -> Read<()> {
        self.at += 1;
        word.unknown = true;
        loop {
            self.skip_lines()?;
            if self.take_if(")") {
                return Ok(());
            }
            self.some_word()?;
        }
    }

    fn plain(&mut self, word: &mut Word) -> Read<()> {
        word.quoted = true;
        self.at += 1;
        loop {
            let c = self.peek(0).ok_or(Unreadable)?;
            self.at += 1;
            if c == '\'' {
                return Ok(());
            }
            word.text.push(c);
        }
    }

    /// Behind the opening `"`.
    fn double(&mut self, word: &mut Word) -> Read<()> {
        word.quoted = true;
        loop {
            match self.peek(0).ok_or(Unreadable)? {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    let next = self.peek(1).ok_or(Unreadable)?;
                    match next {
                        '\n' => {}
                        '$' | '`' | '"' | '\\' => word.text.push(next),
                        other => word.text.extend(['\\', other]),
                    }
                    self.at += 2;
                }
                c => self.expand_inside(c, word)?,
            }
        }
    }

    /// One character outside quotes, with what it may introduce.
    fn expand_or_take(&mut self, c: char, word: &mut Word) -> Read<()> {
        match c {
            '\\' => {
                if self.peek(1) != Some('\n') {
                    // A backslash at the very end stands for itself.
                    word.text.push(self.peek(1).unwrap_or('\\'));
                    word.quoted = true;
                }
                self.at = (self.at + 2).min(self.chars.len());
                Ok(())
            }
            '$' if self.peek(1) == Some('\'') => self.ansi(word),
            '$' if self.peek(1) == Some('"') => {
                self.at += 2;
                self.double(word)
            }
            _ => self.expand_inside(c, word),
        }
    }

    /// One character inside double quotes or outside any.
    fn expand_inside(&mut self, c: char, word: &mut Word) -> Read<()> {
        match c {
            '`' => {
                word.unknown = true;
                self.back_quotes()
            }
            '$' => self.dollar(word),
            _ => {
                word.text.push(c);
                self.at += 1;
                Ok(())
            }
        }
    }

    fn dollar(&mut self, word: &mut Word) -> Read<()> {
        self.at += 1;
        match self.peek(0) {
            Some('(') => {
                word.unknown = true;
                if self.looks_at("((") && self.arithmetic(2)? {
                    return Ok(());
                }
                self.at += 1;
                self.list(&[Stop::Bracket]).map(|_| ())
            }
            Some('{') => {
                word.unknown = true;
                self.at += 1;
                // Quoted or not: `"${a[@]}"`.
                word.splits |= self.parameter()?.contains('@');
                Ok(())
            }
            Some(c) if is_name_char(c) => {
                word.unknown = true;
                while self.peek(0).is_some_and(is_name_char) {
                    self.at += 1;
                }
                Ok(())
            }
            Some(c @ ('@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                word.unknown = true;
                word.splits |= c == '@';
                self.at += 1;
                Ok(())
            }
            _ => {
                word.text.push('$');
                Ok(())
            }
        }
    }

    /// Behind `${`, up to its `}`.
    fn parameter(&mut self) -> Read<String> {
        self.reader.descend()?;
        let mut inside = Word::default();
        loop {
            match self.peek(0).ok_or(Unreadable)? {
                '}' => {
                    self.at += 1;
                    self.reader.depth -= 1;
                    return Ok(inside.text);
                }
                '\'' => self.plain(&mut inside)?,
                '"' => {
                    self.at += 1;
                    self.double(&mut inside)?;
                }
                c => self.expand_or_take(c, &mut inside)?,
            }
        }
    }

    /// `((..))`, if that is what stands here; else nothing is taken: `( (a); b)` begins the same way.
    fn arithmetic(&mut self, opening: usize) -> Read<bool> {
        let (begin, found) = (self.at, self.reader.found.len());
        self.at += opening;
        let mut depth = 2_usize;
        let mut inside = Word::default();
        while let Some(c) = self.peek(0) {
            match c {
                '(' => {
                    depth += 1;
                    self.at += 1;
                }
                ')' if depth == 2 && self.peek(1) == Some(')') => {
                    self.at += 2;
                    return Ok(true);
                }
                ')' if depth == 2 => break,
                ')' => {
                    depth -= 1;
                    self.at += 1;
                }
                '"' => {
                    self.at += 1;
                    self.double(&mut inside)?;
                }
                c => self.expand_or_take(c, &mut inside)?,
            }
        }
        // Read again as commands, and paid for twice: brackets in brackets would else cost without bound.
        *self.reader.budget = self.reader.budget.checked_sub(self.at - begin).ok_or(Unreadable)?;
        self.at = begin;
        self.reader.found.truncate(found);
        Ok(false)
    }

    fn back_quotes(&mut self) -> Read<()> {
        self.at += 1;
        let mut script = String::new();
        loop {
            match self.peek(0).ok_or(Unreadable)? {
                '`' => break,
                '\\' if matches!(self.peek(1), Some('`' | '\\' | '$')) => {
                    script.extend(self.peek(1));
                    self.at += 2;
                }
                c => {
                    script.push(c);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        self.reader.script(&script)
    }

    /// `$'..'`, escapes decoded.
    fn ansi(&mut self, word: &mut Word) -> Read<()> {
        word.quoted = true;
        self.at += 2;
        loop {
            let c = self.peek(0).ok_or(Unreadable)?;
            self.at += 1;
            match c {
                '\'' => return Ok(()),
                '\\' => {
                    let decoded = self.escape()?;
                    word.text.push(decoded);
                }
                _ => word.text.push(c),
            }
        }
    }

    /// Behind a backslash of `$'..'`.
    fn escape(&mut self) -> Read<char> {
        let c = self.peek(0).ok_or(Unreadable)?;
        self.at += 1;
        let (radix, most, mut value) = match c {
            'x' => (16, 2, 0),
            'u' => (16, 4, 0),
            'U' => (16, 8, 0),
            '0'..='7' => (8, 2, c.to_digit(8).unwrap_or_default()),
            'n' => return Ok('\n'),
            't' => return Ok('\t'),
            'r' => return Ok('\r'),
            '\\' | '\'' | '"' | '?' => return Ok(c),
            // Control characters and bells: in no command's name.
            _ => return Err(Unreadable),
        };
        let mut seen = 0;
        while seen < most
            && let Some(digit) = self.peek(0).and_then(|c| c.to_digit(radix))
        {
            value = value * radix + digit;
            self.at += 1;
            seen += 1;
        }
        if radix == 16 && seen == 0 {
            return Err(Unreadable);
        }
        char::from_u32(value).filter(|c| *c != '\0').ok_or(Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::MAX_COMMAND_BYTES;

    /// Commands as text, `?` for an unknown word, `@` in front when variables are set.
    fn read(script: &str) -> Option<Vec<String>> {
        let found = invocations(script, &mut MAX_COMMAND_BYTES.clone()).ok()?;
        let shown = found.into_iter().map(|command| {
            let words = command.words.iter().map(|word| match word {
                ShellWord::Text(text) => text.as_str(),
                ShellWord::One => "?",
                ShellWord::Many => "??",
            });
            let words = words.collect::<Vec<_>>().join(" ");
            if command.assigns { format!("@{words}") } else { words }
        });
        Some(shown.collect())
    }

    #[test]
    fn commands() {
        let check = |script: &str, expected: &[&str]| {
            let mut found = read(script).unwrap_or_else(|| panic!("unreadable: {script}"));
            let mut expected: Vec<_> = expected.iter().map(|text| (*text).to_owned()).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{script}");
        };
        check("", &[]);
        check("# nothing", &[]);
        check("a b  c", &["a b c"]);
        check("a; b & c && d || e | f |& g\nh", &["a", "b", "c", "d", "e", "f", "g", "h"]);
        check("(a; b) && { c; }", &["a", "b", "c"]);
        check(
            "! a; time b; if a; then b; elif c; then d; else e; fi",
            &["a", "b", "a", "b", "c", "d", "e"],
        );
        check("while a; do b; done < f; until c\ndo\nd\ndone | e", &["a", "b", "c", "d", "e"]);
        check(
            "for x in a b *.c; do d $x; done; for y; do e; done; for ((i=0; i<3; i++)); do f; done",
            &["d ??", "e", "f"],
        );
        check("case $x in a|b) c;; (d) e ;; *) f; esac; g", &["c", "e", "f", "g"]);
        check("f() { a; }; function g { b; }\nf () (c)", &["a", "b", "c"]);
        check("[[ -n $x && ! $(a) ]] && b; [ -f x ] || c", &["a", "b", "[ -f x ]", "c"]);
        check("A=1 B=$(x) a; C=2; D=(1 2)", &["x", "@a"]);
        check("a > f 2>&1 < $(b) >> \"c\" &> d <<< e {fd}> g", &["a", "b"]);
        check("a > >(b) <(c | d)", &["b", "c", "d", "a ?"]);
        check("a $(b $(c)) \"$(d)\" `e \\`f\\``", &["c", "b ??", "d", "f", "e ??", "a ?? ? ??"]);
        check("a '$(b)' '\\'; c", &["a $(b) \\", "c"]);
        check("r''m r\\m \"rm\" $'r\\x6d' $'\\162m' $'\\u0072m'", &["rm rm rm rm rm rm"]);
        check("a \\\n b", &["a b"]);
        check("a # b; c\nd#e", &["a", "d#e"]);
        check("$A ${B:-$(c)} ~/d e* [f] {g,h} {} a{b", &["c", "?? ?? ? ?? ?? ?? {} ??"]);
        check("a $((1 + $(b) * (2))) $(( x )); ((i++)); c", &["b", "a ?? ??", "c"]);
        check("a $((b); (c))", &["b", "c", "a ??"]);
        check("a <<E b\n$(c) 'd\nE\ne", &["c", "a b", "e"]);
        check("a <<'E'; b <<-F\n$(c\nE\n\t`d`\n\tF\ne", &["a", "b", "d", "e"]);
        check("if a; then\n  # why (not)\n  b\nfi", &["a", "b"]);
        check("x=$y; a \"it's\" $'it\\'s'", &["a it's it's"]);
        check("a=b=c d; e=f", &["@d"]);
        check("echo 'a b' \"c;d\"", &["echo a b c;d"]);
    }

    #[test]
    fn unreadable() {
        let deep = "$(".repeat(MAX_SCRIPT_DEPTH + 1);
        for script in [
            "'",
            "\"",
            "`",
            "$(",
            "${a",
            "a )",
            "a;; b",
            "(a",
            "{ a",
            "if a; then b",
            "fi",
            "done",
            "}",
            "for x in a; b; done",
            "case a b",
            "a <<E\nb",
            "a >",
            "a (b)",
            "a=(b",
            "[[ a",
            "$'\\cx'",
            "select x in",
            "a $((1)",
            "coproc x { a; }",
            &deep,
        ] {
            assert_eq!(read(script), None, "{script}");
        }
    }

    #[test]
    fn nested_brackets_cost_no_more_than_their_budget() {
        for part in ["$((a) ", "case a in $(", "$(if ", "`", "((", "${a:-"] {
            for count in [10, 60, 5_000] {
                let _ = read(&part.repeat(count));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// What a real shell runs is found, or the text is refused.
        #[test]
        fn nothing_hides_a_command(
            before in r##"(if |then |do |in |case a |[ab$(){}\[\]`'"\\;&|<>#! \n=*~]){0,16}"##,
            after in r##"[ab$(){}\[\]`'"\\;&|<>#! \n=*~]{0,6}"##,
        ) {
            for script in [format!("{before}\nrm -rf x{after}"), format!("{before};rm -rf x{after}")] {
                let Some(found) = read(&script) else { continue };
                let seen = found.iter().any(|command| command.trim_start_matches('@').starts_with("rm "));
                prop_assert!(seen || !runs_rm(&script), "{script:?} {found:?}");
            }
        }
    }

    /// Whether a real shell runs `rm`, which is a function that reports; every other program is absent.
    fn runs_rm(script: &str) -> bool {
        let dir = std::env::temp_dir().join(format!("glasshouse-shell-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let output = std::process::Command::new("/bin/bash")
            .args(["--norc", "-c", &format!("rm() {{ echo RAN >&2; }}\n{script}")])
            .current_dir(&dir)
            .env_clear()
            .env("PATH", "/nonexistent")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        String::from_utf8_lossy(&output.stderr).lines().any(|line| line == "RAN")
    }
}
