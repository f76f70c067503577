//! Path patterns: gitignore-like, matched component by component, without backtracking blow-up.
//!
//! - `*` and `?` stay inside a component, `**` spans any number of components, `[a-z]` and `[!a-z]`
//!   are classes, `{a,b}` is one of several, `\` makes the next character literal.
//! - A pattern without a slash matches at any depth; any other is anchored at the workspace root.
//!   A leading `/` anchors a single name, a trailing `/` means everything below.
//! - `dir/**` is everything below `dir`, not `dir` itself; `**` alone is everything, the root too.
//! - Names that begin with a dot are names like any other.

use glasshouse_model::CanonicalPath;

use crate::limits::{MAX_BRACE_EXPANSIONS, MAX_PATTERN_BYTES};

/// One compiled pattern, braces already expanded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glob {
    segments: Vec<Segment>,
}

/// What one component of a path has to look like.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Segment {
    /// Exactly this name.
    Literal(Box<str>),
    /// Any one component.
    Any,
    /// `*.ext`, kept as `ext`, which holds no dot: by far the most frequent pattern.
    Extension(Box<str>),
    /// A name with wildcards.
    Pattern(Vec<Token>),
    /// Zero or more components.
    AnyDepth,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Token {
    Char(char),
    One,
    Many,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// Compiles a pattern into the globs it stands for (several when it has braces).
    ///
    /// A pattern that could never match a canonical path is an error, since a rule that is
    /// silently dead is worse than a file that does not load.
    pub(crate) fn parse(pattern: &str) -> Result<Vec<Self>, String> {
        if pattern.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes"));
        }
        if pattern.chars().any(char::is_control) {
            return Err("the pattern holds a control character".to_owned());
        }
        let mut globs: Vec<Self> = expand_braces(pattern)?
            .iter()
            .map(|one| Self::parse_plain(one))
            .collect::<Result<_, _>>()?;
        globs.sort();
        globs.dedup();
        Ok(globs)
    }

    fn parse_plain(pattern: &str) -> Result<Self, String> {
        let (anchored, rest) = match pattern.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let (below, core) = match rest.strip_suffix('/') {
            Some(core) => (true, core),
            None => (false, rest),
        };
        let mut segments = Vec::new();
        if !anchored && !core.contains('/') {
            segments.push(Segment::AnyDepth);
        }
        for part in core.split('/') {
            push(&mut segments, Segment::parse(part)?);
        }
        if below {
            push(&mut segments, Segment::AnyDepth);
        }
        if segments.len() > 1 && segments.last() == Some(&Segment::AnyDepth) {
            // `dir/**` asks for at least one component below `dir`.
            segments.insert(segments.len() - 1, Segment::Any);
        }
        Ok(Self { segments })
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// How much there is to try at each place of a name: parts of names that hold a `*` and more.
    pub(crate) fn effort(&self) -> usize {
        let parts = self.segments.iter().filter_map(|segment| match segment {
            Segment::Pattern(tokens) if tokens.contains(&Token::Many) => Some(tokens.len()),
            _ => None,
        });
        parts.sum()
    }

    /// Whether a path matches. Time is bounded by the product of the lengths: only the last `**`
    /// has to be tried again.
    pub(crate) fn matches(&self, path: Components<'_>) -> bool {
        let mut at = 0;
        let mut rest = path;
        let mut retry: Option<(usize, Components<'_>)> = None;
        loop {
            let segment = self.segments.get(at);
            if matches!(segment, Some(Segment::AnyDepth)) {
                at += 1;
                retry = Some((at, rest));
                continue;
            }
            let Some(component) = rest.next() else { return segment.is_none() };
            if segment.is_some_and(|segment| segment.matches(component)) {
                at += 1;
                continue;
            }
            let Some((after, from)) = &mut retry else { return false };
            from.next();
            at = *after;
            rest = *from;
        }
    }
}

/// The components of a workspace path; none for the root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Components<'a> {
    rest: Option<&'a str>,
}

impl<'a> Components<'a> {
    pub(crate) fn of(path: &'a CanonicalPath) -> Self {
        Self { rest: (!path.is_root()).then(|| path.as_str()) }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_none()
    }
}

impl<'a> Iterator for Components<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        // Components are short: a plain loop beats the search machinery of `split_once`.
        let slash = rest.bytes().position(|byte| byte == b'/');
        self.rest = slash.map(|at| &rest[at + 1..]);
        Some(slash.map_or(rest, |at| &rest[..at]))
    }
}

fn push(segments: &mut Vec<Segment>, segment: Segment) {
    if !(segment == Segment::AnyDepth && segments.last() == Some(&Segment::AnyDepth)) {
        segments.push(segment);
    }
}

impl Segment {
    fn parse(part: &str) -> Result<Self, String> {
        match part {
            "" => return Err("an empty path component never matches (`//`)".to_owned()),
            "." | ".." => return Err(format!("the path component `{part}` never matches")),
            "*" => return Ok(Self::Any),
            "**" => return Ok(Self::AnyDepth),
            _ => {}
        }
        if part.contains("**") {
            return Err(format!("`**` stands alone between slashes, not inside `{part}`"));
        }
        let tokens = tokens(part)?;
        if let Some(name) = literal(&tokens) {
            return Ok(Self::Literal(name.into()));
        }
        if let [Token::Many, Token::Char('.'), rest @ ..] = tokens.as_slice()
            && let Some(extension) = literal(rest)
            && !extension.contains('.')
        {
            return Ok(Self::Extension(extension.into()));
        }
        Ok(Self::Pattern(tokens))
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *name,
            Self::Any | Self::AnyDepth => true,
            Self::Extension(extension) => extension_of(name) == Some(extension),
            Self::Pattern(tokens) => tokens_match(tokens, name),
        }
    }
}

/// What follows the last dot of a name.
pub(crate) fn extension_of(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, extension)| extension)
}

fn literal(tokens: &[Token]) -> Option<String> {
    tokens.iter().map(|token| if let Token::Char(c) = token { Some(*c) } else { None }).collect()
}

fn tokens_match(tokens: &[Token], name: &str) -> bool {
    let (mut at, mut position) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(c) = name[position..].chars().next() {
        let step = match tokens.get(at) {
            Some(Token::Many) => {
                at += 1;
                retry = Some((at, position));
                continue;
            }
            Some(Token::One) => true,
            Some(Token::Char(expected)) => *expected == c,
            Some(Token::Class { negated, ranges }) => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
            None => false,
        };
        if step {
            at += 1;
            position += c.len_utf8();
        } else {
            let Some((after, from)) = retry else { return false };
            let skipped = name[from..].chars().next().map_or(1, char::len_utf8);
            retry = Some((after, from + skipped));
            at = after;
            position = from + skipped;
        }
    }
    tokens[at..].iter().all(|token| *token == Token::Many)
}

fn tokens(part: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '*' => Token::Many,
            '?' => Token::One,
            '[' => class(&mut chars, part)?,
            '\\' => Token::Char(chars.next().ok_or_else(|| format!("`{part}` ends in `\\`"))?),
            other => Token::Char(other),
        });
    }
    Ok(out)
}

fn class(chars: &mut std::str::Chars<'_>, part: &str) -> Result<Token, String> {
    let unclosed = || format!("`[` is never closed in `{part}`");
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut c = chars.next().ok_or_else(unclosed)?;
    let negated = c == '!' || c == '^';
    if negated {
        c = chars.next().ok_or_else(unclosed)?;
    }
    // A `]` in the first place is a member, as in every shell.
    let mut first = true;
    while first || c != ']' {
        first = false;
        let low = if c == '\\' { chars.next().ok_or_else(unclosed)? } else { c };
        let mut ahead = chars.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) if high != ']' => {
                *chars = ahead;
                if high == '\\' { chars.next().ok_or_else(unclosed)? } else { high }
            }
            _ => low,
        };
        if low > high {
            return Err(format!("the range `{low}-{high}` is backwards in `{part}`"));
        }
        ranges.push((low, high));
        c = chars.next().ok_or_else(unclosed)?;
    }
    Ok(Token::Class { negated, ranges })
}

/// Expands the first brace expression and goes on until none is left.
fn expand_braces(pattern: &str) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut todo = vec![pattern.to_owned()];
    while let Some(one) = todo.pop() {
        match first_brace(&one)? {
            None => done.push(one),
            Some(Brace { open, close, commas }) => {
                let mut from = open + 1;
                for to in commas.into_iter().chain([close]) {
                    todo.push(format!("{}{}{}", &one[..open], &one[from..to], &one[close + 1..]));
                    from = to + 1;
                }
            }
        }
        if done.len() + todo.len() > MAX_BRACE_EXPANSIONS {
            return Err(format!("the braces stand for more than {MAX_BRACE_EXPANSIONS} patterns"));
        }
    }
    Ok(done)
}

struct Brace {
    open: usize,
    close: usize,
    commas: Vec<usize>,
}

fn first_brace(pattern: &str) -> Result<Option<Brace>, String> {
    let mut open = None;
    let mut depth = 0_usize;
    let mut commas = Vec::new();
    let mut in_class = false;
    let mut chars = pattern.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '[' if !in_class => {
                in_class = true;
                // What `class` reads as its first member does not end it.
                let mut ahead = chars.clone().map(|(_, c)| c).peekable();
                let negated = usize::from(ahead.next_if(|c| matches!(c, '!' | '^')).is_some());
                let closing = usize::from(ahead.peek() == Some(&']'));
                chars.by_ref().take(negated + closing).for_each(drop);
            }
            ']' => in_class = false,
            _ if in_class => {}
            '{' => {
                open.get_or_insert(at);
                depth += 1;
            }
            ',' if depth == 1 => commas.push(at),
            '}' => match (depth, open) {
                (1, Some(open)) => return Ok(Some(Brace { open, close: at, commas })),
                (0, _) | (_, None) => return Err("`}` without `{`; write `\\}`".to_owned()),
                _ => depth -= 1,
            },
            _ => {}
        }
    }
    if open.is_some() { Err("`{` is never closed; write `\\{`".to_owned()) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let path = CanonicalPath::parse(path).unwrap();
        Glob::parse(pattern).unwrap().iter().any(|glob| glob.matches(Components::of(&path)))
    }

    #[test]
    fn patterns() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} should match {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} should not match {path}");
            }
        };
        check(
            "src/**",
            &["src/a", "src/a/b", "src/.hidden", "src/.d/x"],
            &["src", "srcs/a", "a/src/b"],
        );
        check("**", &[".", "a", "a/b", ".x/.y"], &[]);
        check("*", &["a", "a/b"], &["."]);
        check("/*", &["a"], &["a/b", "."]);
        check(
            "Dockerfile",
            &["Dockerfile", "a/b/Dockerfile"],
            &["Dockerfile.dev", "dockerfile", "Dockerfile/x"],
        );
        check("/Dockerfile", &["Dockerfile"], &["a/Dockerfile"]);
        check("build/", &["build/x", "a/build/x/y"], &["build", "rebuild/x"]);
        check("*.rs", &["a.rs", "src/.rs", "x/y/.a.rs"], &["a.rs.bak", "rs"]);
        check("src/*.rs", &["src/a.rs"], &["src/a/b.rs", "x/src/a.rs"]);
        check("**/tests/**", &["tests/a", "a/tests/b/c"], &["tests", "testsuite/a"]);
        check("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/bb", "x/a/b"]);
        check("a/**/b/**/c", &["a/b/c", "a/b/b/x/c"], &["a/c"]);
        check("{a,b}/c", &["a/c", "b/c"], &["c", "a,b/c"]);
        check("*.{test,spec}.{ts,js}", &["x.test.ts", "d/y.spec.js"], &["x.test.rs", "test.ts"]);
        check("a{b,{c,d}}", &["ab", "ac", "ad"], &["a", "abc"]);
        check("f[0-9a].txt", &["f3.txt", "fa.txt"], &["fb.txt", "f.txt", "f-.txt"]);
        check("f[!0-9].x", &["fa.x", "f-.x"], &["f1.x"]);
        check("[]]x", &["]x"], &["x"]);
        // Braces and commas in a class are its members, wherever a `]` stands in it.
        check(
            "[]{a,b}]*.key",
            &["]z.key", "{z.key", "a.key", ",z.key", "}.key"],
            &["z.key", "c.key"],
        );
        check("[!]{a}]z", &["bz", "[z"], &["]z", "{z", "az", "}z"]);
        check("[^]{a}]z", &["bz"], &["]z", "{z", "az", "}z"]);
        check("[{]z", &["{z"], &["z"]);
        check("[a\\]{]z", &["]z", "{z", "az"], &["z"]);
        check("[[{]z", &["[z", "{z"], &["z"]);
        check("[!{]z", &["az"], &["{z"]);
        check("[]]{a,b}", &["]a", "]b"], &["a", "]"]);
        check("{[]{],x}y", &["]y", "{y", "xy"], &["y"]);
        check("[a]{b,c}[d]", &["abd", "acd"], &["ab"]);
        check("[a-]", &["a", "-"], &["b"]);
        check("?.c", &["é.c", "a.c"], &["ab.c", ".c"]);
        check("\\!a", &["!a"], &["a"]);
        check("\\*", &["*"], &["a"]);
        check("\\{a\\}", &["{a}"], &["a"]);
        check("a*b*c", &["abc", "aXbYbc", "abbc"], &["acb", "ab"]);
    }

    #[test]
    fn patterns_that_could_never_match_are_refused() {
        for pattern in [
            "",
            "./a",
            "../a",
            "a//b",
            "a/./b",
            "a/../b",
            "a**b",
            "**a/b",
            "[a",
            "[z-a]",
            "a\\",
            "{a",
            "a}",
            "a\nb",
            "//a",
            "/",
            "{a,}",
            &"{a,b}".repeat(7),
            &"x".repeat(513),
        ] {
            assert!(Glob::parse(pattern).is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn many_stars_stay_quick() {
        let pattern = "**/a/".repeat(60) + "x";
        let path = vec!["a"; 250].join("/");
        assert!(!matches(&pattern, &path));
        let stars = "*a".repeat(200) + "x";
        assert!(!matches(&stars, &"a".repeat(4000)));
    }
}
