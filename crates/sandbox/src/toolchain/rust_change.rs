//! Whether a change to a Rust source file touches nothing but tests.
//!
//! Both texts are cut into tokens, items of the file's top level that carry exactly `#[cfg(test)]` are
//! left out, and the rest must be equal. Everything not understood stays in the rest, so a doubt makes
//! the texts differ and the change count as source. Only the top level is looked at: inside braces the
//! same tokens may be an argument of a macro that ignores the attribute.

/// What a change to a Rust source touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RustChange {
    /// Top-level `#[cfg(test)]` items and nothing else.
    TestsOnly,
    /// No such item: other code, comments or white space.
    CodeOnly,
    /// Both, or the new text cannot be read with certainty.
    Both,
}

/// Classifies a change. Equal texts are [`RustChange::CodeOnly`]: no change gives the right to
/// anything that tests have. A text whose old form cannot be read may be mended as code.
///
/// ```
/// use glasshouse_sandbox::toolchain::{RustChange, rust_change};
/// let old = "fn f() -> u8 { 1 }\n";
/// let tests = "fn f() -> u8 { 1 }\n#[cfg(test)]\nmod tests { #[test] fn t() {} }\n";
/// assert_eq!(rust_change(old, tests), RustChange::TestsOnly);
/// assert_eq!(rust_change(old, "fn f() -> u8 { 2 }\n"), RustChange::CodeOnly);
/// assert_eq!(rust_change(tests, "fn f() -> u8 { 2 }\n"), RustChange::Both);
/// ```
#[must_use]
pub fn rust_change(old: &str, new: &str) -> RustChange {
    let Some(new) = tokens(new).and_then(|tokens| split(&tokens)) else { return RustChange::Both };
    let Some(old) = tokens(old).and_then(|tokens| split(&tokens)) else {
        return RustChange::CodeOnly;
    };
    match (old.tests == new.tests, old.rest == new.rest) {
        (false, true) => RustChange::TestsOnly,
        (true, _) => RustChange::CodeOnly,
        (false, false) => RustChange::Both,
    }
}

/// Whether every test item of the old text is still there, with nothing taken out of it, nothing more
/// ignored, and no new code that asks whether it is being tested. What else was added is not judged. A text that cannot be read keeps nothing.
///
/// ```
/// use glasshouse_sandbox::toolchain::rust_tests_kept;
/// let old = "#[cfg(test)] mod t { fn a() { assert!(f()); } }";
/// assert!(rust_tests_kept(old, "#[cfg(test)] mod t { fn a() { assert!(f()); } fn b() {} }"));
/// assert!(!rust_tests_kept(old, "#[cfg(test)] mod t { fn a() { f(); } }"));
/// ```
#[must_use]
pub fn rust_tests_kept(old: &str, new: &str) -> bool {
    let Some(old) = tokens(old).and_then(|tokens| split(&tokens)) else { return false };
    let Some(new) = tokens(new).and_then(|tokens| split(&tokens)) else { return false };
    let mut left = new.tests.iter();
    let count = |tokens: &[&str]| tokens.iter().filter(|token| **token == "ignore").count();
    old.tests.iter().all(|token| left.any(|other| other == token))
        && count(&new.tests) <= count(&old.tests)
        && asks_whether_tested(&new.rest) <= asks_whether_tested(&old.rest)
}

/// How often code asks whether it is being tested: `cfg(not(test))` switches tests off, `cfg!(test)`
/// makes them pass.
fn asks_whether_tested(tokens: &[&str]) -> usize {
    let asks = |at: usize| {
        let mut behind = at + 1;
        if tokens.get(behind) == Some(&"!") {
            behind += 1;
        }
        tokens.get(behind) == Some(&"(")
            && group(&tokens[behind..])
                .is_some_and(|length| tokens[behind..behind + length].contains(&"test"))
    };
    (0..tokens.len()).filter(|at| matches!(tokens[*at], "cfg" | "cfg_attr") && asks(*at)).count()
}

/// Marks that mean something else when they touch: `a && b` is not `a & &b`.
const JOINING: &[char] =
    &['&', '|', '=', '<', '>', '+', '-', '*', '/', '%', '^', '!', ':', '.', '?', '@', '~'];

/// Length of a run of marks that touch each other, up to a comment.
fn marks(text: &str) -> usize {
    let run = text.find(|c| !JOINING.contains(&c)).unwrap_or(text.len());
    let comment = ["//", "/*"].iter().filter_map(|start| text[..run].find(start)).min();
    comment.unwrap_or(run)
}

/// Cuts a text into tokens: comments, literals, words, brackets, and runs of other marks. White space
/// is dropped. None when a literal or comment does not end.
fn tokens(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            rest = &rest[first.len_utf8()..];
            continue;
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)?
        } else if first == '"' {
            quoted(rest, 0, '"')?
        } else if first == '\'' {
            char_or_lifetime(rest)?
        } else if is_word(first) {
            word_or_prefixed(rest)?
        } else if JOINING.contains(&first) {
            marks(rest)
        } else {
            first.len_utf8()
        };
        found.push(&rest[..length]);
        rest = &rest[length..];
    }
    Some(found)
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn word_length(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

fn block_comment(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        match bytes.get(at..at + 2)? {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Length of a literal whose opening quote is at `start`; backslashes escape.
fn quoted(text: &str, start: usize, quote: char) -> Option<usize> {
    let mut chars = text[start + 1..].char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next()?;
        } else if c == quote {
            return Some(start + 1 + at + 1);
        }
    }
    None
}

fn char_or_lifetime(text: &str) -> Option<usize> {
    let mut chars = text[1..].chars();
    let (first, second) = (chars.next()?, chars.next());
    if first == '\\' {
        return quoted(text, 0, '\'');
    }
    if second == Some('\'') {
        return Some(1 + first.len_utf8() + 1);
    }
    is_word(first).then(|| 1 + word_length(&text[1..]))
}

fn word_or_prefixed(text: &str) -> Option<usize> {
    let length = word_length(text);
    let (word, after) = text.split_at(length);
    let hashes = after.len() - after.trim_start_matches('#').len();
    match word {
        "r" | "br" | "cr" if after[hashes..].starts_with('"') => {
            let start = length + hashes + 1;
            let end = format!("\"{}", "#".repeat(hashes));
            Some(start + text[start..].find(&end)? + end.len())
        }
        "b" | "c" if after.starts_with('"') => quoted(text, length, '"'),
        "b" if after.starts_with('\'') => quoted(text, length, '\''),
        // A raw name such as `r#type`.
        "r" if hashes == 1 && after[1..].starts_with(is_word) => {
            Some(length + 1 + word_length(&after[1..]))
        }
        // A literal with a prefix that we do not know.
        _ if after.starts_with('"') => None,
        _ => Some(length),
    }
}

/// The tokens of a file's top-level test items, and all others.
struct Split<'a> {
    tests: Vec<&'a str>,
    rest: Vec<&'a str>,
}

/// Tells test items from the rest; `None` when brackets do not match.
fn split<'a>(tokens: &[&'a str]) -> Option<Split<'a>> {
    let mut found = Split { tests: Vec::new(), rest: Vec::new() };
    let mut at = 0;
    while at < tokens.len() {
        if let Some(length) = test_item(&tokens[at..]) {
            found.tests.extend_from_slice(&tokens[at..at + length]);
            at += length;
            continue;
        }
        // Groups are copied whole, so that the loop only ever stands at the top level.
        let length = group(&tokens[at..])?;
        found.rest.extend_from_slice(&tokens[at..at + length]);
        at += length;
    }
    Some(found)
}

/// Length of one token, or of a bracketed group when it opens one.
fn group(tokens: &[&str]) -> Option<usize> {
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" if open.pop() != Some(*token) => return None,
            _ => {}
        }
        if open.is_empty() {
            return Some(at + 1);
        }
    }
    None
}

/// Length of a test item at the front, attribute included. None when there is none, or when it is of a
/// form whose end is not certain.
fn test_item(tokens: &[&str]) -> Option<usize> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    if !tokens.starts_with(&MARK) {
        return None;
    }
    let mut at = MARK.len();
    loop {
        match tokens.get(at)? {
            &"#" if tokens.get(at + 1) == Some(&"[") => at += 1 + group(&tokens[at + 1..])?,
            token if token.starts_with("//") || token.starts_with("/*") => at += 1,
            _ => break,
        }
    }
    if tokens.get(at) == Some(&"pub") {
        at += 1;
        if tokens.get(at) == Some(&"(") {
            at += group(&tokens[at..])?;
        }
    }
    while matches!(tokens.get(at), Some(&("async" | "unsafe"))) {
        at += 1;
    }
    // Ending an item too early only leaves more to compare; ending it too late would hide source.
    let ends_at_brace = match *tokens.get(at)? {
        "const" => tokens.get(at + 1) == Some(&"fn"),
        "use" | "static" | "type" => false,
        "fn" | "mod" | "impl" | "trait" | "enum" | "struct" => true,
        _ => return None,
    };
    while at < tokens.len() {
        let length = group(&tokens[at..])?;
        let ended = tokens[at] == ";" || (ends_at_brace && tokens[at] == "{");
        at += length;
        if ended {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes() {
        let check = |old: &str, new: &str, expected: bool| {
            let tests_only = rust_change(old, new) == RustChange::TestsOnly;
            assert_eq!(tests_only, expected, "{old:?} -> {new:?}");
        };
        let source = "pub fn f(x: &'static str) -> char { let _ = \"}\"; '{' }\n";
        let with = |test: &str| format!("{source}{test}");
        for test in [
            "#[cfg(test)] mod tests { #[test] fn t() { f(1); } }",
            "#[cfg(test)]\nmod tests;",
            "#[cfg(test)] // why\n#[allow(dead_code)]\npub(crate) fn helper() -> [u8; 2] { [1, 2] }",
            "#[cfg(test)] use std::{fmt, io};",
            "#[cfg(test)] const X: Y = Y { a: 1 };",
            "#[cfg(test)] static A: &str = r#\"}} \" \"#;",
            "#[cfg(test)] struct S(u8);",
            "#[cfg(test)] impl S { fn a(&self) -> char { '\\'' } }",
            "# [ cfg ( test ) ] mod t { /* } /* } */ */ }",
            "#[cfg(test)] async fn a() {}",
        ] {
            check(source, &with(test), true);
            check(&with(test), source, true);
            check(&with(test), &with("#[cfg(test)] mod other { fn x() { b\"\\\"}\"; } }"), true);
            check(source, &format!("{}\nfn more() {{}}", with(test)), false);
            check(&with(test), &with(test), false);
        }
        // Source that only looks like a test.
        for code in [
            "fn g() {}",
            "// a comment",
            "mod tests { #[test] fn t() {} }",
            "#[cfg(not(test))] fn g() {}",
            "#[cfg(any(test, feature = \"x\"))] fn g() {}",
            "#[cfg_attr(test, ignore)] fn g() {}",
            "#![cfg(test)] fn g() {}",
            "pass! { #[cfg(test)] fn g() {} }",
            "#[cfg(test)] pass! { fn g() {} }",
            "const S: &str = \"#[cfg(test)] mod t {}\";",
            "// #[cfg(test)]\nmod t {}",
            "/* #[cfg(test)] */ mod t {}",
            "#[cfg(test)] mod a {} fn g() {}",
            "#[cfg(test)] use a::b; fn g() {}",
            "#[cfg(test)] const A: u8 = 1; fn g() {}",
            "#[no_mangle] #[cfg(test)] fn g() {}",
            "mod m { #[cfg(test)] mod t {} }",
        ] {
            check(source, &with(code), false);
        }
        // Marking existing code as a test takes it away from the program.
        check("fn g() {}", "#[cfg(test)] fn g() {}", false);
        // Marks that touch mean something else than marks that do not.
        let tested = "#[cfg(test)] mod t {}";
        for (old, new) in
            [("a && b", "a & &b"), ("x -= 1", "x = -1"), ("a..=b", "a.. =b"), ("a<-b", "a < -b")]
        {
            check(&format!("fn f() {{ {old} }}"), &format!("fn f() {{ {new} }}{tested}"), false);
        }
        check("fn f() { a =/* c */b }", "fn f() { a = /* c */ b }#[cfg(test)] mod t {}", true);
        // What cannot be read is source.
        for broken in
            ["#[cfg(test)] mod t {", "\"", "/*", "#[cfg(test)] mod t { ) }", "k\"x\"", "'"]
        {
            check("", broken, false);
        }
        // White space between other tokens is no source change, inside literals it is.
        check("fn f(){}", "fn f() { }\n#[cfg(test)] mod t {}", true);
        check("const A: &str = \"a b\";", "const A: &str = \"a  b\"; #[cfg(test)] mod t {}", false);
    }

    #[test]
    fn code_and_tests_at_once() {
        let check = |old: &str, new: &str, expected: RustChange| {
            assert_eq!(rust_change(old, new), expected, "{old:?} -> {new:?}");
        };
        let test = "#[cfg(test)] mod t { fn a() {} }";
        check("fn f() {}", &format!("fn g() {{}} {test}"), RustChange::Both);
        check(&format!("fn f() {{}} {test}"), "fn g() {}", RustChange::Both);
        check(&format!("fn f() {{}} {test}"), &format!("fn g() {{}} {test}"), RustChange::CodeOnly);
        check("fn f() {}", "fn g() { \"", RustChange::Both);
        check("fn f() { \"", "fn g() {}", RustChange::CodeOnly);
    }

    #[test]
    fn tests_kept() {
        let check = |old: &str, new: &str, expected: bool| {
            let (old, new) = (format!("fn f() {{}} {old}"), format!("fn g() {{}} {new}"));
            assert_eq!(rust_tests_kept(&old, &new), expected, "{old} -> {new}");
        };
        let test = "#[cfg(test)] mod t { #[test] fn a() { assert_eq!(f(), 1); } }";
        check("", "", true);
        check("", test, true);
        check(test, test, true);
        check(test, &test.replace("fn a", "#[test] fn b() {} #[test] fn a"), true);
        check(test, "", false);
        check(test, &test.replace("1", "2"), false);
        check(test, &test.replace("#[test]", ""), false);
        check(test, &test.replace("assert_eq!(f(), 1);", ""), false);
        check(test, &test.replace("#[cfg(test)]", ""), false);
        check(test, "#[cfg(test)] mod t {", false);
        check(test, &test.replace("#[test]", "#[ignore = \"slow\"] #[test]"), false);
        check(test, &format!("#![cfg(not(test))] {test}"), false);
        check(test, &format!("#[cfg_attr(test, path = \"x\")] mod m; {test}"), false);
        check(test, &format!("fn h() -> bool {{ cfg!(test) }} {test}"), false);
        check("#[cfg(not(test))] mod m;", "#[cfg(not(test))] mod m; fn h() { test(cfg) }", true);
        check("#[cfg(not(test))] mod m;", "mod m;", true);
    }

    proptest! {
        /// Whatever the text: never a panic, and never `true` when a top-level function was added.
        #[test]
        fn an_added_function_is_never_a_test(text in r##"[a-c'"#\[\](){}/*; \n\\!]{0,40}"##) {
            let old = format!("{text}\n");
            let new = format!("fn added() {{}}\n{text}\n");
            prop_assert!(rust_change(&old, &new) != RustChange::TestsOnly);
        }
    }
}
