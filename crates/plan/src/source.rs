//! A look at source code without running it: which modules it names, and which words it uses.
//!
//! The look helps authors and refuses what is plainly not wanted. It is no boundary: code runs in
//! isolation or not at all. Comments and strings are told apart from code in plain scripts; where
//! markup is mixed in, the whole text counts, because there a quote may be an apostrophe.

use std::collections::BTreeSet;

/// What a look at a source found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// Modules named by static imports, by exports from a module and by imports of a plain string,
    /// each once, in order.
    pub imports: Vec<String>,
    /// Whether a module is imported while the code runs.
    pub dynamic_import: bool,
    /// The code with comments gone and strings emptied, save those that name a module or a member.
    pub(crate) code: String,
    /// Every name in the code, and every member named by joined strings in brackets.
    pub(crate) names: BTreeSet<String>,
    /// Objects with members named by strings, such as `document` and `cookie`.
    pub(crate) members: Vec<(String, String)>,
}

/// Looks at a source. `language` is one of `js`, `jsx`, `ts`, `tsx`.
///
/// ```
/// let scan = glasshouse_plan::source::scan("import a from 'lib'; import('x')", "js");
/// assert_eq!(scan.imports, ["lib", "x"]);
/// assert!(scan.dynamic_import);
/// ```
#[must_use]
pub fn scan(code: &str, language: &str) -> Scan {
    let tokens = Lexer { rest: code, at: 0, before: Before::Start, templates: Vec::new() }.run();
    let mut scan = read(&tokens);
    if language.ends_with('x') {
        scan.code = code.to_owned();
        let word = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$');
        scan.names.extend(code.split(word).filter(|name| !name.is_empty()).map(str::to_owned));
        scan.dynamic_import |= calls_import(code);
    }
    scan
}

/// Whether a text holds `import` and a bracket, as a careless reader finds it.
pub(crate) fn calls_import(code: &str) -> bool {
    code.match_indices("import").any(|(at, word)| {
        let before = code[..at].chars().next_back();
        let whole = before.is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.')));
        whole && code[at + word.len()..].trim_start().starts_with('(')
    })
}

#[derive(Debug, Clone, PartialEq)]
enum Token<'s> {
    Name(&'s str),
    /// The value of a string or of a template without parts that are filled in.
    Text(String),
    /// A template with parts that are filled in, a number, or a regular expression.
    Opaque,
    Sign(char),
}

/// Words behind which a slash begins an expression.
const OPERATORS: [&str; 13] = [
    "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do",
    "yield", "await",
];

/// What stands before a slash decides whether it divides.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Start,
    Operand,
    Operator,
}

struct Lexer<'s> {
    rest: &'s str,
    at: usize,
    before: Before,
    /// Open braces inside each template that is being filled in.
    templates: Vec<usize>,
}

impl<'s> Lexer<'s> {
    fn run(mut self) -> Vec<Token<'s>> {
        let mut tokens = Vec::new();
        while let Some(first) = self.peek() {
            match first {
                _ if first.is_whitespace() => self.at += first.len_utf8(),
                '/' if self.tail().starts_with("//") => self.skip_line(),
                '/' if self.tail().starts_with("/*") => {
                    let end = self.tail()[2..].find("*/").map(|end| end + 4);
                    self.at += end.unwrap_or(self.tail().len());
                }
                '/' if self.before != Before::Operand && self.skip_expression() => {
                    self.push(&mut tokens, Token::Opaque, Before::Operand);
                }
                '"' | '\'' => {
                    let token = match self.string(first) {
                        Some(text) => Token::Text(text),
                        None => Token::Sign(first),
                    };
                    self.push(&mut tokens, token, Before::Operand);
                }
                '`' => {
                    self.at += 1;
                    self.template(&mut tokens, true);
                }
                '}' if self.templates.last() == Some(&0) => {
                    self.templates.pop();
                    self.at += 1;
                    self.template(&mut tokens, false);
                }
                _ if is_name(first) => self.name(&mut tokens),
                _ => self.sign(first, &mut tokens),
            }
        }
        tokens
    }

    fn name(&mut self, tokens: &mut Vec<Token<'s>>) {
        let len = self.tail().find(|c| !is_name(c)).unwrap_or(self.tail().len());
        let name = &self.tail()[..len];
        self.at += len;
        let before = if OPERATORS.contains(&name) { Before::Operator } else { Before::Operand };
        self.push(tokens, Token::Name(name), before);
    }

    fn sign(&mut self, sign: char, tokens: &mut Vec<Token<'s>>) {
        self.at += sign.len_utf8();
        if let Some(open) = self.templates.last_mut() {
            match sign {
                '{' => *open += 1,
                '}' => *open -= 1,
                _ => {}
            }
        }
        let ends = matches!(sign, ')' | ']' | '}');
        self.push(tokens, Token::Sign(sign), if ends { Before::Operand } else { Before::Operator });
    }

    fn push(&mut self, tokens: &mut Vec<Token<'s>>, token: Token<'s>, before: Before) {
        tokens.push(token);
        self.before = before;
    }

    fn tail(&self) -> &'s str {
        &self.rest[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.tail().chars().next()
    }

    fn skip_line(&mut self) {
        self.at +=
            self.tail().find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(self.tail().len());
    }

    /// Skips a regular expression; false when the line ends before it does, so that it was none.
    fn skip_expression(&mut self) -> bool {
        let mut class = false;
        let mut escaped = false;
        for (at, c) in self.tail().char_indices().skip(1) {
            match c {
                '\n' | '\r' => return false,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => class = true,
                ']' => class = false,
                '/' if !class => {
                    self.at += at + 1;
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Reads a string; `None` moves behind the quote only, when the line ends before the string.
    fn string(&mut self, quote: char) -> Option<String> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                _ if c == quote => return Some(text),
                '\\' => self.escape(&mut text),
                '\n' | '\r' => break,
                _ => text.push(c),
            }
        }
        self.at = start + 1;
        None
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, text: &mut String) {
        let Some(c) = self.peek() else { return };
        self.at += c.len_utf8();
        let digits = match c {
            'n' => return text.push('\n'),
            't' => return text.push('\t'),
            'r' => return text.push('\r'),
            'b' => return text.push('\u{8}'),
            'f' => return text.push('\u{c}'),
            'v' => return text.push('\u{b}'),
            '0' => return text.push('\0'),
            '\n' | '\r' => return,
            'x' => self.tail().get(..2),
            'u' if self.tail().starts_with('{') => {
                let end = self.tail().find('}').unwrap_or(self.tail().len());
                let digits = self.tail().get(1..end).unwrap_or_default();
                self.at += (end + 1).min(self.tail().len());
                text.extend(u32::from_str_radix(digits, 16).ok().and_then(char::from_u32));
                return;
            }
            'u' => self.tail().get(..4),
            _ => return text.push(c),
        };
        if let Some(digits) = digits
            && let Some(c) = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
        {
            self.at += digits.len();
            text.push(c);
        }
    }

    /// Reads a template up to its end or to a part that is filled in.
    fn template(&mut self, tokens: &mut Vec<Token<'s>>, first: bool) {
        let mut text = String::new();
        while let Some(c) = self.peek() {
            if self.tail().starts_with("${") {
                self.at += 2;
                self.templates.push(0);
                return self.push(tokens, Token::Opaque, Before::Operator);
            }
            self.at += c.len_utf8();
            match c {
                '`' => break,
                '\\' => self.escape(&mut text),
                _ => text.push(c),
            }
        }
        let token = if first { Token::Text(text) } else { Token::Opaque };
        self.push(tokens, token, Before::Operand);
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '\u{200c}' | '\u{200d}')
}

fn read(tokens: &[Token<'_>]) -> Scan {
    let mut scan = Scan::default();
    let import = |scan: &mut Scan, specifier: &str| {
        let specifier = specifier.trim();
        if !specifier.is_empty() && !scan.imports.iter().any(|known| known == specifier) {
            scan.imports.push(specifier.to_owned());
        }
    };
    for (at, token) in tokens.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        match token {
            Token::Name(name) => {
                let member = before(1) == Some(&Token::Sign('.'));
                if *name == "import" && !member && tokens.get(at + 1) == Some(&Token::Sign('(')) {
                    scan.dynamic_import = true;
                }
                scan.names.insert((*name).to_owned());
                if scan.code.ends_with(is_name) {
                    scan.code.push(' ');
                }
                scan.code.push_str(name);
            }
            Token::Text(text) => {
                let names_module = match before(1) {
                    Some(Token::Name("import" | "from")) => before(2) != Some(&Token::Sign('.')),
                    Some(Token::Sign('(')) => {
                        let call = matches!(before(2), Some(Token::Name("import" | "require")));
                        if call && before(2) == Some(&Token::Name("import")) {
                            import(&mut scan, text);
                        }
                        if call {
                            scan.code.push_str(text);
                        }
                        false
                    }
                    _ => false,
                };
                if names_module {
                    import(&mut scan, text);
                    scan.code.push_str(text);
                }
                scan.code.push_str("\"\"");
            }
            Token::Opaque => scan.code.push_str("\"\""),
            Token::Sign('[') => {
                if let Some(member) = joined(&tokens[at + 1..]) {
                    if let Some(Token::Name(object)) = before(1) {
                        scan.members.push(((*object).to_owned(), member.clone()));
                    }
                    if matches!(before(1), Some(Token::Name(_) | Token::Sign(')' | ']'))) {
                        scan.names.insert(member);
                    }
                }
                scan.code.push('[');
            }
            Token::Sign(sign) => scan.code.push(*sign),
        }
    }
    scan
}

/// The member that joined strings in brackets name.
fn joined(tokens: &[Token<'_>]) -> Option<String> {
    let mut name = String::new();
    let mut rest = tokens.iter();
    loop {
        let Some(Token::Text(text)) = rest.next() else { return None };
        name.push_str(text);
        match rest.next()? {
            Token::Sign(']') => return Some(name),
            Token::Sign('+') => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_all_forms() {
        for (code, want) in [
            ("import 'a'", vec!["a"]),
            ("import a from 'b'", vec!["b"]),
            (
                "import {a as b} from \"c\"; export * from 'd'; export {x} from 'e'",
                vec!["c", "d", "e"],
            ),
            ("const m = await import('f')", vec!["f"]),
            ("import/* x */('g')", vec!["g"]),
            ("import(name)", vec![]),
            ("import.meta.url", vec![]),
            ("// import 'no'\n/* import 'no' */ const s = \"import 'no'\"", vec![]),
            ("const s = `import 'no'`", vec![]),
            ("import a from ' spaced '", vec!["spaced"]),
            ("import 'a'; import 'a'", vec!["a"]),
            ("x.import('no'); a.from('no')", vec!["no"]),
        ] {
            let got = scan(code, "js").imports;
            // A method called import is rare enough to count as an import.
            assert_eq!(got, want, "{code}");
        }
    }

    #[test]
    fn names_in_code_only() {
        for (code, name, want) in [
            ("eval('1')", "eval", true),
            ("(0, eval)('1')", "eval", true),
            ("// eval\n1", "eval", false),
            ("const s = 'eval'", "eval", false),
            ("const s = `eval ${eval}`", "eval", true),
            ("const r = /eval'/; fetch()", "fetch", true),
            ("const r = a / fetch / 1", "fetch", true),
            ("window['fe' + 'tch']", "fetch", true),
            ("window['\\x66etch']", "fetch", true),
            ("const o = ['fetch']", "fetch", false),
            ("it's; fetch()", "fetch", true),
        ] {
            assert_eq!(scan(code, "js").names.contains(name), want, "{code} {name}");
        }
        assert!(scan("<p>don't</p>; eval('x')", "jsx").names.contains("eval"));
        assert!(scan("<p>//</p>; import('x')", "jsx").dynamic_import);
    }

    #[test]
    fn dynamic_imports() {
        for (code, want) in [
            ("import(x)", true),
            ("import /**/ (x)", true),
            ("import.meta", false),
            ("import x from 'y'", false),
            ("o.import(x)", false),
        ] {
            assert_eq!(scan(code, "js").dynamic_import, want, "{code}");
        }
    }

    #[test]
    fn odd_texts_end() {
        for code in ["`", "`${", "`${`", "'", "/", "/*", "\\", "}", "`${}}`", "\"\\u{110000}\""] {
            let _ = scan(code, "ts");
        }
    }
}
