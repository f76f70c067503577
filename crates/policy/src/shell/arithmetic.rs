//! Arithmetic: digits, operators, and variables that hold nothing but numbers.
//!
//! A shell expands the value of a variable once more there, and runs what stands in it. So each of them is
//! remembered, and has to be a number wherever the script sets it. Quotes, indices and the output of commands are
//! not understood.

use super::{Cursor, Read, Unreadable, Value, Word, is_name_char};

/// How an operator begins that sets the name before it.
const SETTERS: &[&str] =
    &["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"];

impl Cursor<'_, '_> {
    /// Arithmetic, up to one of the characters that may end it outside of brackets.
    pub(super) fn arithmetic(&mut self, ends: &str) -> Read<()> {
        self.reader.descend()?;
        let mut depth = 0_usize;
        loop {
            let c = self.peek(0).ok_or(Unreadable)?;
            match c {
                // Where the body of a here-document begins, shells do not agree on.
                '\n' if !self.documents.is_empty() => return Err(Unreadable),
                // Commands to one shell, a comparison to another.
                '<' | '>' if self.peek(1) == Some('(') => return Err(Unreadable),
                _ if depth == 0 && ends.contains(c) => {
                    self.reader.depth -= 1;
                    return Ok(());
                }
                '(' => depth += 1,
                ')' => depth = depth.checked_sub(1).ok_or(Unreadable)?,
                '$' => {
                    self.number()?;
                    continue;
                }
                _ if is_name_char(c) => {
                    self.operand()?;
                    continue;
                }
                _ if " \t\n+-*/%<>=!&|^~?:,".contains(c) => {}
                _ => return Err(Unreadable),
            }
            self.at += 1;
        }
    }

    /// An expansion; names are not put together with one.
    fn number(&mut self) -> Read<()> {
        let mut word = Word::default();
        self.inside += 1;
        self.dollar(&mut word)?;
        self.inside -= 1;
        if self.peek(0).is_some_and(|c| c == '_' || c.is_ascii_alphabetic()) {
            return Err(Unreadable);
        }
        self.reader.number(&word)
    }

    /// Digits, or a name.
    fn operand(&mut self) -> Read<()> {
        let begin = self.at;
        while self.peek(0).is_some_and(is_name_char) {
            self.at += 1;
        }
        let text: String = self.chars[begin..self.at].iter().collect();
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(());
        }
        if self.peek(0) == Some('$') {
            return Err(Unreadable);
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(());
        }
        self.reader.variables.count(&text);
        let mut behind = self.chars[self.at..].iter().skip_while(|c| c.is_ascii_whitespace());
        let operator: String = behind.by_ref().take(3).collect();
        let before = self.chars[..begin].iter().rev().skip_while(|c| c.is_ascii_whitespace());
        let before: String = before.take(2).collect();
        let sets = (operator.starts_with('=') && !operator.starts_with("=="))
            || SETTERS.iter().any(|setter| operator.starts_with(setter))
            || matches!(before.as_str(), "++" | "--");
        if sets { self.reader.variables.set(&text, Value::Number(Vec::new())) } else { Ok(()) }
    }
}
