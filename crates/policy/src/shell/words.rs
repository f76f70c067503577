//! Words: quotes, escapes and expansions.

use super::variables::{PARAMETER, PLACES_OF};
use super::{Cursor, Part, Read, Stop, Target, Unreadable, Value, Word, is_name, is_name_char};

fn ends_word(c: char) -> bool {
    " \t\n;&|()<>".contains(c)
}

/// What stands behind a backslash in a pattern, and ends nothing in any shell.
fn is_escaped_alike(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/.:,_%+-".contains(c)
}

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
        self.target(&mut word)?;
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                '(' => match &word.target {
                    Some(target)
                        if target.value_at == word.text.len() && self.chars[self.at - 1] == '=' =>
                    {
                        return self.array(word);
                    }
                    _ => break,
                },
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.substitution()?;
                    word.expand(Part::Anything);
                }
                // The number of a file is put into what the braces name.
                '<' | '>' if word.text.starts_with('{') => return Err(Unreadable),
                '<' | '>' => break,
                '\'' => self.plain(&mut word)?,
                '"' => {
                    self.at += 1;
                    self.double(&mut word)?;
                }
                '*' | '?' | '[' | '{' => {
                    // These alone are words; in others they stand for what only running the script would tell.
                    // `{}` is a text, but `r{},m}` is a list.
                    let is_empty_list = c == '{'
                        && self.peek(1) == Some('}')
                        && (self.at == begin || self.peek(2).is_none_or(ends_word));
                    if !is_empty_list && !self.stands_alone(begin) {
                        if !word.unknown && !word.pattern {
                            word.known_bytes = word.text.len();
                        }
                        word.pattern = true;
                    }
                    word.text.push(c);
                    self.at += 1;
                }
                '~' if self.at == begin => {
                    word.expand(Part::Anything);
                    word.text.push(c);
                    self.at += 1;
                }
                c if c.is_control() => return Err(Unreadable),
                _ => {
                    let is_quote = c == '$' && matches!(self.peek(1), Some('\'' | '"'));
                    word.splits |= matches!(c, '$' | '`') && !is_quote;
                    self.expand_or_take(c, &mut word)?;
                }
            }
        }
        Ok(word)
    }

    /// Whether the word that begins here is `[`, `[[` or `{`.
    fn stands_alone(&self, begin: usize) -> bool {
        ["[", "[[", "{"].iter().any(|word| {
            let behind = self.chars.get(begin + word.len());
            self.chars[begin..].iter().take(word.len()).copied().eq(word.chars())
                && behind.is_none_or(|c| ends_word(*c))
        })
    }

    /// `name=`, `name+=` and `name[..]=` at the beginning of a word, as they stand.
    fn target(&mut self, word: &mut Word) -> Read<()> {
        let begin = self.at;
        let mut behind = begin;
        while self.chars.get(behind).is_some_and(|c| is_name_char(*c)) {
            behind += 1;
        }
        let name: String = self.chars[begin..behind].iter().collect();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(());
        }
        let mut array = false;
        if self.chars.get(behind) == Some(&'[') {
            let index: &[char] = &self.chars[behind + 1..];
            let is_plain = |c: &&char| is_name_char(**c) || "$+-* {}".contains(**c);
            let length = index.iter().take_while(is_plain).count();
            if index.get(length) != Some(&']') || length == 0 {
                return Ok(());
            }
            (array, behind) = (true, behind + length + 2);
        }
        let appends = self.chars.get(behind) == Some(&'+');
        behind += usize::from(appends);
        if self.chars.get(behind) != Some(&'=') {
            return Ok(());
        }
        if array {
            self.at = begin + name.chars().count() + 1;
            self.arithmetic("]")?;
            word.pattern = true;
        }
        self.at = behind + 1;
        word.text.extend(&self.chars[begin..=behind]);
        word.target = Some(Target { name, value_at: word.text.len(), array, appends });
        Ok(())
    }

    /// `name=(..)`.
    fn array(&mut self, mut word: Word) -> Read<Word> {
        self.reader.descend()?;
        self.at += 1;
        word.expand(Part::Anything);
        loop {
            self.skip_blanks();
            match self.peek(0) {
                Some(')') => break,
                // Where the body of a here-document begins, shells do not agree on.
                Some('\n') if !self.documents.is_empty() => return Err(Unreadable),
                Some('\n') => self.at += 1,
                // An index.
                Some('[') => {
                    self.at += 1;
                    self.arithmetic("]")?;
                    if !self.take_if("]=") {
                        return Err(Unreadable);
                    }
                    self.word().map(|_| ())?;
                }
                _ => self.some_word().map(|_| ())?,
            }
        }
        self.at += 1;
        self.reader.depth -= 1;
        if let Some(target) = &mut word.target {
            target.array = true;
        }
        // What is glued to it is nothing that every shell reads alike.
        if self.peek(0).is_some_and(|c| !" \t\n;&|)".contains(c)) {
            Err(Unreadable)
        } else {
            Ok(word)
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
                        '\n' if self.joins() => {}
                        '\n' => return Err(Unreadable),
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
                } else if !self.joins() {
                    return Err(Unreadable);
                }
                self.at = (self.at + 2).min(self.chars.len());
                Ok(())
            }
            '$' if self.inside == 0 && self.peek(1) == Some('\'') => self.ansi(word),
            '$' if self.inside == 0 && self.peek(1) == Some('"') => {
                self.at += 2;
                word.expand(Part::Anything);
                self.double(word)?;
                // It may be translated.
                word.expand(Part::Anything);
                Ok(())
            }
            _ => self.expand_inside(c, word),
        }
    }

    /// One character inside double quotes or outside any.
    fn expand_inside(&mut self, c: char, word: &mut Word) -> Read<()> {
        match c {
            '`' => {
                word.expand(Part::Anything);
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

    /// `$` and what it expands.
    pub(super) fn dollar(&mut self, word: &mut Word) -> Read<()> {
        self.at += 1;
        match self.peek(0) {
            Some('(') if self.take_if("((") => {
                self.arithmetic(")")?;
                word.may_fail = true;
                word.expand(Part::Number);
                if self.take_if("))") { Ok(()) } else { Err(Unreadable) }
            }
            Some('(') => {
                self.at += 1;
                let (begin, redirected) = (self.reader.found.len(), self.reader.redirected);
                let begin_at = self.at;
                self.substitution()?;
                let text: String = self.chars[begin_at..self.at - 1].iter().collect();
                // What a command complains of may come out as well.
                let is_whole = self.reader.redirected == redirected;
                let numbers = is_whole.then(|| self.reader.prints_number(begin, &text)).flatten();
                word.expand(if numbers.is_some() { Part::Number } else { Part::Anything });
                word.numbers.extend(numbers.into_iter().flatten());
                Ok(())
            }
            // Arithmetic to bash, a text to others.
            Some('[') => Err(Unreadable),
            Some('{') => {
                self.at += 1;
                self.reader.descend()?;
                let begin = self.at;
                self.parameter(word)?;
                // With an operator, or an index.
                word.may_fail |= !self.chars[begin..self.at].iter().all(|c| is_name_char(*c));
                self.reader.depth -= 1;
                if self.take_if("}") { Ok(()) } else { Err(Unreadable) }
            }
            Some(_) => {
                match self.parameter_name() {
                    Some((name, part)) => {
                        word.splits |= name == "@";
                        word.expand(part);
                    }
                    None => word.text.push('$'),
                }
                Ok(())
            }
            None => {
                word.text.push('$');
                Ok(())
            }
        }
    }

    /// Commands up to a bracket, as in `$(..)`; quotes begin anew.
    fn substitution(&mut self) -> Read<()> {
        let inside = std::mem::take(&mut self.inside);
        let (begin, documents) = (self.at, self.documents.len());
        self.substitutions += 1;
        self.list(&[Stop::Bracket])?;
        self.substitutions -= 1;
        self.inside = inside;
        // Whose body begins where, shells do not agree on.
        let is_torn = documents > 0 && self.chars[begin..self.at].contains(&'\n');
        if is_torn || self.documents.len() != documents { Err(Unreadable) } else { Ok(()) }
    }

    /// A variable's name, or a parameter of one character.
    fn parameter_name(&mut self) -> Option<(String, Part)> {
        let c = self.peek(0)?;
        self.at += 1;
        let part = match c {
            '#' | '?' | '$' | '!' => Part::Number,
            '1'..='9' => Part::Variable(PARAMETER.to_owned()),
            '@' | '*' | '-' | '0' => Part::Anything,
            _ if is_name_char(c) => {
                let mut name = String::from(c);
                while let Some(c) = self.peek(0).filter(|c| is_name_char(*c)) {
                    name.push(c);
                    self.at += 1;
                }
                return Some((name.clone(), Part::Variable(name)));
            }
            _ => {
                self.at -= 1;
                return None;
            }
        };
        Some((c.to_string(), part))
    }

    /// Behind `${`, up to its `}`.
    fn parameter(&mut self, word: &mut Word) -> Read<()> {
        let is_length = self.peek(0) == Some('#') && self.peek(1) != Some('}');
        self.at += usize::from(is_length);
        // `${!name}` is what the name stands for.
        if self.peek(0) == Some('!') {
            return if is_length { Err(Unreadable) } else { self.numbers_of_places(word) };
        }
        let (mut name, mut part) = self.parameter_name().ok_or(Unreadable)?;
        while self.peek(0).is_some_and(|c| c.is_ascii_digit())
            && name.bytes().all(|c| c.is_ascii_digit())
        {
            name.extend(self.peek(0));
            self.at += 1;
        }
        let mut indexed = false;
        if self.take_if("[@]") || self.take_if("[*]") {
            word.splits = true;
            part = Part::Anything;
        } else if self.take_if("[") {
            self.arithmetic("]")?;
            self.at += 1;
            part = Part::Anything;
            indexed = true;
        }
        word.splits |= name == "@";
        if is_length {
            word.expand(Part::Number);
            return Ok(());
        }
        let colon = self.take_if(":");
        match self.peek(0).ok_or(Unreadable)? {
            '}' if !colon => word.expand(part),
            operator @ ('-' | '=' | '+' | '?') => {
                self.at += 1;
                let value = self.parameter_word()?;
                if operator == '=' {
                    // It makes an array that nothing else tells of.
                    if indexed {
                        return Err(Unreadable);
                    }
                    self.reader.variables.set(&name, Value::Unknown)?;
                }
                word.splits |= value.splits;
                let is_default = operator == '-' && matches!(value.held(0), Value::Number(_));
                word.expand(if is_default { part } else { Part::Anything });
                word.numbers.extend(value.numbers);
            }
            _ if colon => {
                self.arithmetic("}")?;
                word.expand(Part::Anything);
            }
            '#' | '%' | '/' | '^' | ',' => {
                self.parameter_word()?;
                word.expand(Part::Anything);
            }
            _ => return Err(Unreadable),
        }
        Ok(())
    }

    /// `${!name[@]}`: the numbers of an array's places.
    fn numbers_of_places(&mut self, word: &mut Word) -> Read<()> {
        self.at += 1;
        let (name, _) = self.parameter_name().ok_or(Unreadable)?;
        if !is_name(&name) || !(self.take_if("[@]") || self.take_if("[*]")) {
            return Err(Unreadable);
        }
        word.splits = true;
        word.expand(Part::Variable(format!("{PLACES_OF}{name}")));
        Ok(())
    }

    /// The word behind an operator of `${..}`.
    fn parameter_word(&mut self) -> Read<Word> {
        let mut word = Word::default();
        loop {
            match self.peek(0).ok_or(Unreadable)? {
                '}' => return Ok(word),
                '\\' if self.inside > 0 && self.peek(1).is_some_and(is_escaped_alike) => {
                    word.text.extend(self.peek(1));
                    self.at += 2;
                }
                // A line end or letters, to no shell more.
                '$' if self.inside > 0
                    && ["$'\\n'", "$'\\t'"].iter().any(|it| self.looks_at(it)) =>
                {
                    word.expand(Part::Anything);
                    self.at += 5;
                }
                // A quote to one shell and a letter to another.
                '\'' | '"' | '\\' if self.inside > 0 => return Err(Unreadable),
                // Commands to bash, and letters to others.
                '<' | '>' if self.peek(1) == Some('(') => return Err(Unreadable),
                '\'' => self.plain(&mut word)?,
                '"' => {
                    self.at += 1;
                    self.double(&mut word)?;
                }
                c => self.expand_or_take(c, &mut word)?,
            }
        }
    }

    fn back_quotes(&mut self) -> Read<()> {
        self.at += 1;
        let mut script = String::new();
        loop {
            match self.peek(0).ok_or(Unreadable)? {
                '`' => break,
                // Where it joins lines, shells do not agree on.
                '\\' if self.peek(1) == Some('\n') => return Err(Unreadable),
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

    /// `$'..'`: escapes to bash, and to a plain shell a text behind `$`.
    fn ansi(&mut self, word: &mut Word) -> Read<()> {
        word.quoted = true;
        word.expand(Part::Anything);
        self.at += 2;
        loop {
            match self.peek(0).ok_or(Unreadable)? {
                '\'' => {
                    self.at += 1;
                    return Ok(());
                }
                // A quote to the one, and the end to the other.
                '\\' if matches!(self.peek(1), None | Some('\'')) => return Err(Unreadable),
                '\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}
