//! Commands: lists of them, compound ones, simple ones and redirections.

use super::builtins::{BUILTINS, FREE};
use super::{
    Cursor, Document, Read, ShellWord, Stop, Unreadable, Value, Word, is_name, is_name_char,
    variables,
};

/// How deep the list of the script itself lies.
const MAIN_DEPTH: usize = 2;

/// Reserved words that can only end something; where nothing waits for them they are an error.
const ENDS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "}", "esac", "in"];

impl Cursor<'_, '_> {
    /// Commands up to one of `stops`, which is consumed.
    pub(super) fn list(&mut self, stops: &[Stop]) -> Read<Stop> {
        self.reader.descend()?;
        self.reader.defining = None;
        // Whether what comes next is run for sure, and what was read last joins two commands.
        let (mut is_certain, mut joins) = (self.reader.depth == MAIN_DEPTH, false);
        let stop = loop {
            let begin = self.at;
            self.skip_lines()?;
            let is_main = self.reader.depth == MAIN_DEPTH;
            // The body of a function may stand on the next line, and so may what is joined.
            let is_within = joins || self.reader.defining.is_some();
            if !is_within && self.chars[begin..self.at].contains(&'\n') {
                is_certain = is_main;
                self.reader.is_steady |= is_main;
            }
            if self.peek(0).is_none() {
                break Stop::End;
            }
            if self.take_if(";;&") || self.take_if(";;") || self.take_if(";&") {
                break Stop::CaseItem;
            }
            if self.take_if(")") {
                break Stop::Bracket;
            }
            if let Some(c @ (';' | '&' | '|')) = self.peek(0) {
                joins = c != ';';
                is_certain = c == ';' && is_main;
                self.at += 1;
                continue;
            }
            joins = false;
            let function = self.reader.defining.take();
            let is_steady = self.reader.is_steady && !self.reader.is_disturbed;
            if let Some(word) = self.command(stops)? {
                break Stop::Word(word);
            }
            if let Some(name) = function {
                // Its body is not run here.
                self.reader.is_steady = is_steady;
                self.skip_blanks();
                let is_kept = matches!(self.peek(0), None | Some(';' | '\n'));
                let is_own = !FREE.contains(&name.as_str()) && !BUILTINS.contains(&name.as_str());
                if is_certain && is_steady && is_kept && is_own {
                    self.reader.defined.insert(name);
                }
            }
        };
        self.reader.defining = None;
        self.reader.depth -= 1;
        if stops.contains(&stop) { Ok(stop) } else { Err(Unreadable) }
    }

    /// One command, simple or compound; answers the reserved word of `stops` that stood there instead.
    fn command(&mut self, stops: &[Stop]) -> Read<Option<&'static str>> {
        let is_steady = std::mem::take(&mut self.reader.is_steady);
        if self.take_if("((") {
            let begin = self.at;
            self.arithmetic(")")?;
            let inside: String = self.chars[begin..self.at].iter().collect();
            // A plain shell reads brackets in brackets.
            if !self.reader.is_bash {
                self.reader.script(&inside)?;
            }
            return if self.take_if("))") { Ok(None) } else { Err(Unreadable) };
        }
        if self.take_if("(") {
            self.list(&[Stop::Bracket])?;
            return Ok(None);
        }
        if self.redirection()? {
            self.simple(None)?;
            return Ok(None);
        }
        let word = self.some_word()?;
        let reserved = word.bare().unwrap_or_default();
        if let Some(end) = ENDS.iter().find(|end| **end == reserved) {
            return if stops.contains(&Stop::Word(end)) { Ok(Some(end)) } else { Err(Unreadable) };
        }
        match reserved {
            "!" => self.reader.is_steady = is_steady,
            "time" => {
                self.reader.is_steady = is_steady;
                self.reader.perhaps(reserved);
                self.skip_blanks();
                while self.take_reserved("-p")? || self.take_reserved("--")? {
                    self.skip_blanks();
                }
                // With other options it is the program.
                if self.peek(0) == Some('-') {
                    self.simple(Some(word))?;
                }
            }
            // They set variables of their own.
            "coproc" | "select" => return Err(Unreadable),
            "{" => self.until("}")?,
            "if" => self.branches()?,
            "while" | "until" => {
                self.until("do")?;
                self.until("done")?;
            }
            "for" => self.each()?,
            "case" => self.case()?,
            "[[" if self.reader.is_bash => self.condition_of_bash(word)?,
            "function" => {
                self.skip_blanks();
                let name = self.word()?;
                self.function(&name)?;
                self.skip_blanks();
                if self.take_if("(") && !self.take_if(")") {
                    return Err(Unreadable);
                }
                self.reader.perhaps("function");
                self.reader.is_steady = is_steady;
                if !self.reader.is_bash {
                    self.reader.defining = None;
                }
            }
            _ => self.reader.is_steady = self.simple(Some(word))? && is_steady,
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

    /// The name of a function is one as it stands.
    fn function(&mut self, name: &Word) -> Read<()> {
        let name = name.bare().filter(|name| is_name(&name.replace('-', "_"))).ok_or(Unreadable)?;
        // A shell calls it with words of its own.
        if name.starts_with("command_not_found_handle") {
            return Err(Unreadable);
        }
        self.reader.functions.insert(name.to_owned());
        self.reader.defining = Some(name.to_owned());
        Ok(())
    }

    /// Behind `[[` in bash, up to `]]`: what is between them runs nothing but substitutions.
    fn condition_of_bash(&mut self, first: Word) -> Read<()> {
        let (mut all, mut part) = (vec![first.value()], Vec::new());
        loop {
            self.skip_blanks();
            let joint =
                ["&&", "||", "(", ")", "<", ">"].into_iter().find(|joint| self.looks_at(joint));
            match joint.filter(|joint| !matches!(*joint, "<" | ">") || self.peek(1) != Some('(')) {
                Some(joint) => {
                    self.at += joint.len();
                    self.reader.condition(&part)?;
                    part.clear();
                }
                None => {
                    let word = self.some_word()?;
                    let is_match = word.known() == Some("=~");
                    let is_end = word.bare() == Some("]]");
                    // Its brackets and bars belong to the pattern.
                    if is_match {
                        self.skip_blanks();
                        part.push(self.some_word()?);
                        if !matches!(self.peek(0), Some(' ')) {
                            return Err(Unreadable);
                        }
                    }
                    part.push(word);
                    if is_end {
                        break;
                    }
                }
            }
        }
        self.reader.condition(&part)?;
        all.extend(part.into_iter().map(Word::value));
        self.reader.found.push(all);
        Ok(())
    }

    /// Behind `for`.
    fn each(&mut self) -> Read<()> {
        self.skip_blanks();
        if self.take_if("((") {
            for end in [";", ";", "))"] {
                self.arithmetic(&end[..1])?;
                if !self.take_if(end) {
                    return Err(Unreadable);
                }
            }
        } else {
            let name = self.word()?;
            let name = name.bare().ok_or(Unreadable)?;
            self.skip_lines()?;
            if self.take_reserved("in")? {
                loop {
                    self.skip_blanks();
                    match self.peek(0) {
                        Some(';' | '\n') | None => break,
                        _ => {
                            let word = self.some_word()?;
                            let value = if is_range(&word) {
                                Value::Number(Vec::new())
                            } else if word.pattern {
                                Value::Unknown
                            } else {
                                word.held(0)
                            };
                            self.reader.variables.set(name, value)?;
                        }
                    }
                }
            } else {
                self.reader.variables.set(name, Value::Unknown)?;
            }
        }
        self.skip_blanks();
        self.take_if(";");
        self.skip_lines()?;
        if !self.take_reserved("do")? {
            return Err(Unreadable);
        }
        self.until("done")
    }

    /// Behind `case`.
    fn case(&mut self) -> Read<()> {
        self.skip_blanks();
        self.word()?;
        self.skip_lines()?;
        if !self.take_reserved("in")? {
            return Err(Unreadable);
        }
        loop {
            self.skip_lines()?;
            if self.take_reserved("esac")? {
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
    fn take_reserved(&mut self, wanted: &str) -> Read<bool> {
        if !self.looks_at(wanted) {
            return Ok(false);
        }
        let behind = self.peek(wanted.len());
        // It ends before a joined line, or goes on behind it.
        if behind == Some('\\') && self.peek(wanted.len() + 1) == Some('\n') {
            return Err(Unreadable);
        }
        let ends = behind.is_none_or(|c| c.is_ascii_whitespace() || ";&|()<>".contains(c));
        Ok(ends && self.take_if(wanted))
    }

    /// A simple command, of which the first word may have been read. Answers whether it is sure to be left behind
    /// without an error that ends the line.
    fn simple(&mut self, first: Option<Word>) -> Read<bool> {
        let (mut words, mut assignments) = (Vec::new(), Vec::new());
        let is_behind = first.is_none();
        let mut is_redirected = is_behind;
        let mut next = first;
        loop {
            match next.take() {
                Some(word) if words.is_empty() && word.target.is_some() => assignments.push(word),
                Some(word) => words.push(word),
                None => {}
            }
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
                Some('(') if assignments.is_empty() && words.len() == 1 && !is_redirected => {
                    self.at += 1;
                    self.skip_blanks();
                    self.function(&words[0])?;
                    return if self.take_if(")") { Ok(true) } else { Err(Unreadable) };
                }
                Some('(') => return Err(Unreadable),
                _ if self.redirection()? => is_redirected = true,
                _ => next = Some(self.some_word()?),
            }
        }
        for word in &assignments {
            self.reader.assign(word, !words.is_empty())?;
        }
        // To a plain shell `name+=value` and `name[1]=value` are names of programs.
        let is_program = |word: &Word| {
            word.target.as_ref().is_some_and(|it| it.appends || word.text.contains('['))
        };
        if let Some(at) = assignments.iter().position(is_program).filter(|_| !self.reader.is_bash) {
            let program = assignments[at].text.clone();
            self.reader.found.push(vec![ShellWord::Text(program), ShellWord::Many(String::new())]);
        }
        if words.is_empty() {
            return Ok(false);
        }
        // `time '-p' make`, `time >f -p make`: a plain shell takes `time` for a program and this for its option, bash
        // takes it for a command.
        let is_plain = !is_behind && words[0].bare().is_some();
        if !is_plain && words[0].known_beginning().starts_with('-') {
            return Err(Unreadable);
        }
        let is_steady = assignments.is_empty() && !is_redirected && self.reader.is_left(&words);
        self.reader.run(words, assignments.is_empty())?;
        Ok(is_steady)
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
                self.reader.variables.set(&name, Value::Number(Vec::new()))?;
                self.reader.perhaps(&format!("{{{name}}}"));
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
        if operator.contains('>') && target.known() != Some("/dev/null") {
            self.reader.redirected += 1;
        }
        if operator.contains('&') {
            // The name of a file is expanded once more.
            match target.known() {
                Some(text) if text.chars().all(|c| is_name_char(c) || "-./".contains(c)) => {}
                Some(_) => return Err(Unreadable),
                None => self.reader.number(&target)?,
            }
        }
        if matches!(operator, "<<" | "<<-") {
            // Shells differ in what such an end is.
            if self.chars[begin..self.at].iter().any(|c| matches!(c, '$' | '`')) {
                return Err(Unreadable);
            }
            let expands = !target.quoted;
            let end = target.known().ok_or(Unreadable)?.to_owned();
            self.documents.push_back(Document { end, strips_tabs: operator == "<<-", expands });
        }
        Ok(true)
    }
}

/// `{1..9}`
fn is_range(word: &Word) -> bool {
    let inside = word.text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    !word.unknown
        && !word.quoted
        && inside.and_then(|text| text.split_once("..")).is_some_and(|(from, to)| {
            [from, to].iter().all(|end| !end.is_empty() && variables::is_number(end))
        })
}
