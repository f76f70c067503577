//! Words: quotes, escapes and expansions.

use super::{Cursor, Read, Stop, Unreadable, Word, is_name_char};

impl Cursor<'_, '_> {
    /// A word that must be there.
    pub(super) fn some_word(&mut self) -> Read<Word> {
        let begin = self.at;
        let word = self.word()?;
        if self.at == begin { Err(Unreadable) } else { Ok(word) }
    }

    /// A word; empty when none begins here.
    pub(super) fn word(&mut self) -> Read<Word> {
        let mut word = Word::default();
        let begin = self.at;
        let (mut pattern, mut array) = (false, false);
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                // One for each word, so what stands before it is looked at once.
                '(' if !array && word.text.ends_with('=') && word.is_assignment() => {
                    array = true;
                    self.array(&mut word)?;
                }
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
        self.reader.may_hide(&word.text);
        // These alone are words; in others they stand for what only running the script would tell.
        if pattern && !matches!(word.text.as_str(), "[" | "[[" | "{" | "{}") {
            (word.unknown, word.splits) = (true, true);
        }
        Ok(word)
    }

    /// `name=(..)`.
    fn array(&mut self, word: &mut Word) -> Read<()> {
        self.reader.descend()?;
        self.at += 1;
        word.unknown = true;
        loop {
            self.skip_lines()?;
            if self.take_if(")") {
                self.reader.depth -= 1;
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
        self.inside += 1;
        loop {
            match self.peek(0).ok_or(Unreadable)? {
                '"' => {
                    self.at += 1;
                    self.inside -= 1;
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
    pub(super) fn expand_or_take(&mut self, c: char, word: &mut Word) -> Read<()> {
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
            '$' if self.inside == 0 && self.peek(1) == Some('\'') => self.ansi(word),
            '$' if self.inside == 0 && self.peek(1) == Some('"') => {
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
                let may_count = self.looks_at("((");
                self.reader.evaluates |= may_count;
                if may_count && self.arithmetic(2)? {
                    return Ok(());
                }
                self.at += 1;
                // Quotes begin anew.
                let inside = std::mem::take(&mut self.inside);
                self.list(&[Stop::Bracket])?;
                self.inside = inside;
                Ok(())
            }
            // Arithmetic to bash, a text to others.
            Some('[') => Err(Unreadable),
            // `${ command; }`
            Some('{') if self.peek(1).is_some_and(|c| c.is_whitespace() || c == '|') => {
                Err(Unreadable)
            }
            Some('{') => {
                word.unknown = true;
                self.at += 1;
                // Quoted or not: `"${a[@]}"`.
                let inside = self.parameter()?;
                word.splits |= inside.contains('@');
                let mut behind = inside.split('@').skip(1);
                // `${x@P}` expands the value as a prompt.
                if behind.any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic())) {
                    return Err(Unreadable);
                }
                self.reader.evaluates |= inside.contains(['[', ':']);
                if let Some((name, _)) = inside.split_once('=') {
                    self.reader.sets(name);
                }
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
                    self.reader.may_hide(&inside.text);
                    return Ok(inside.text);
                }
                // A quote to one shell and a letter to another.
                '\'' | '"' if self.inside > 0 => return Err(Unreadable),
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
    pub(super) fn arithmetic(&mut self, opening: usize) -> Read<bool> {
        self.reader.descend()?;
        let (begin, found) = (self.at, self.reader.found.len());
        self.at += opening;
        let mut depth = 2_usize;
        let mut inside = Word::default();
        self.inside += 1;
        while let Some(c) = self.peek(0) {
            match c {
                '(' => {
                    depth += 1;
                    self.at += 1;
                }
                ')' if depth == 2 && self.peek(1) == Some(')') => {
                    self.at += 2;
                    self.reader.depth -= 1;
                    self.inside -= 1;
                    let text = &inside.text;
                    if text.contains('=') || text.contains("++") || text.contains("--") {
                        self.reader.sets(text);
                    }
                    return Ok(true);
                }
                ')' if depth == 2 => break,
                ')' => {
                    depth -= 1;
                    self.at += 1;
                }
                // Shells differ in whether these are quotes here. As commands they are, so that is tried.
                '\'' | '"' => break,
                c => self.expand_or_take(c, &mut inside)?,
            }
        }
        // Read again as commands.
        self.reader.depth -= 1;
        self.inside -= 1;
        self.reader.paid(self.at - begin)?;
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
                // Escaped for the quotes around, or for the script.
                '\\' if self.inside > 0 && self.peek(1) == Some('"') => return Err(Unreadable),
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
            '\\' | '"' | '?' => return Ok(c),
            // Control characters and bells: in no command's name. A quote: a plain shell would end the
            // text there.
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
