//! Access tokens that nobody registered, known by the prefix their issuer gives them.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// Characters behind a prefix that decide whether it begins a token. Real tokens are longer.
const WINDOW_CHARS: usize = 20;
/// A run of lower-case letters this long is no word of a hyphenated name.
const LONGEST_WORD_CHARS: usize = 13;

/// One issuer's tokens.
struct Rule {
    name: &'static str,
    prefix: &'static [u8],
    /// Fewest characters behind the prefix.
    least: usize,
    /// Looks at the characters behind the prefix, at most [`WINDOW_CHARS`].
    plausible: fn(&[u8]) -> bool,
}

const fn rule(
    name: &'static str,
    prefix: &'static [u8],
    least: usize,
    plausible: fn(&[u8]) -> bool,
) -> Rule {
    Rule { name, prefix, least, plausible }
}

const RULES: [Rule; 17] = [
    rule("sk", b"sk-", 16, is_no_name),
    rule("github", b"ghp_", 16, any),
    rule("github", b"gho_", 16, any),
    rule("github", b"ghu_", 16, any),
    rule("github", b"ghs_", 16, any),
    rule("github", b"ghr_", 16, any),
    rule("github", b"github_pat_", 16, any),
    rule("aws", b"AKIA", 16, is_upper),
    rule("slack", b"xox-", 10, is_no_name),
    rule("slack", b"xoxa-", 10, is_no_name),
    rule("slack", b"xoxb-", 10, is_no_name),
    rule("slack", b"xoxe-", 10, is_no_name),
    rule("slack", b"xoxp-", 10, is_no_name),
    rule("slack", b"xoxr-", 10, is_no_name),
    rule("slack", b"xoxs-", 10, is_no_name),
    rule("gitlab", b"glpat-", 16, any),
    rule("npm", b"npm_", 16, is_no_name),
];

/// Longest prefix and window: what has to be seen to decide about one place.
pub(super) const MAX_DECIDING_BYTES: usize = {
    let (mut longest, mut i) = (0, 0);
    while i < RULES.len() {
        if RULES[i].prefix.len() > longest {
            longest = RULES[i].prefix.len();
        }
        i += 1;
    }
    longest + WINDOW_CHARS
};

static PREFIXES: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(RULES.iter().map(|rule| rule.prefix))
        .expect("the prefixes are few and short")
});

/// A token that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) start: usize,
    /// Where its characters end, as far as the text is known.
    pub(super) end: usize,
    pub(super) name: &'static str,
}

/// What the tokens of a text are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) found: Vec<Token>,
    /// First place where more text could still make a token.
    pub(super) undecided: Option<usize>,
}

/// Whether a byte can be part of a token.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Looks for tokens in `text[from..]`; what is before `from` only tells whether one can begin
/// there. `complete` says that no more text comes.
pub(super) fn find(text: &[u8], from: usize, complete: bool) -> Tokens {
    let mut tokens = Tokens::default();
    let mut end_of_last = from;
    // Prefixes do not overlap where a token may begin: inside one there is no place for another.
    for prefix in PREFIXES.find_iter(&text[from..]) {
        let start = from + prefix.start();
        // A token's characters end at the same place wherever a token begins among them, so what
        // begins inside one adds nothing; looking again would be quadratic.
        if start < end_of_last || !may_begin(text, start) {
            continue;
        }
        let rule = &RULES[prefix.pattern().as_usize()];
        let body = from + prefix.end();
        let window = run(&text[body..], WINDOW_CHARS);
        if body + window == text.len() && window < WINDOW_CHARS && !complete {
            tokens.undecided.get_or_insert(start);
        } else if window >= rule.least && (rule.plausible)(&text[body..body + window]) {
            end_of_last = body + run(&text[body..], usize::MAX);
            tokens.found.push(Token { start, end: end_of_last, name: rule.name });
        }
    }
    if !complete {
        tokens.undecided = tokens.undecided.into_iter().chain(partial_prefix(text, from)).min();
    }
    tokens
}

/// First place where the text ends inside a prefix.
fn partial_prefix(text: &[u8], from: usize) -> Option<usize> {
    let earliest = text.len().saturating_sub(MAX_DECIDING_BYTES - WINDOW_CHARS - 1).max(from);
    (earliest..text.len()).find(|&start| {
        may_begin(text, start) && RULES.iter().any(|rule| rule.prefix.starts_with(&text[start..]))
    })
}

/// A token does not begin inside a word: `task-` holds no `sk-`.
fn may_begin(text: &[u8], at: usize) -> bool {
    at == 0 || !(text[at - 1].is_ascii_alphanumeric() || text[at - 1] == b'_')
}

/// How many token bytes a text begins with, counted up to a limit.
fn run(text: &[u8], limit: usize) -> usize {
    text.iter().take(limit).take_while(|byte| is_token_byte(**byte)).count()
}

fn any(_: &[u8]) -> bool {
    true
}

fn is_upper(window: &[u8]) -> bool {
    window.iter().take(16).all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Tells random characters from a hyphenated name such as `sk-loading-spinner-dark`.
fn is_no_name(window: &[u8]) -> bool {
    window.iter().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
        || window
            .split(|byte| !byte.is_ascii_lowercase())
            .any(|word| word.len() >= LONGEST_WORD_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_what_only_looks_like_them() {
        let check = |text: &str, expected: &[&str]| {
            let tokens = find(text.as_bytes(), 0, true).found;
            let seen: Vec<&str> = tokens.iter().map(|t| &text[t.start..t.end]).collect();
            assert_eq!(seen, expected, "{text}");
        };
        let body = "a1B2c3D4e5F6g7H8i9J0";
        for prefix in ["sk-", "sk-proj-", "ghp_", "gho_", "github_pat_", "glpat-", "npm_", "xoxb-"]
        {
            let token = format!("{prefix}{body}");
            check(&format!("key={token};"), &[&token]);
            check(&token, &[&token]);
        }
        check("AKIAIOSFODNN7EXAMPLE", &["AKIAIOSFODNN7EXAMPLE"]);
        check("sk-abcdefghijklmnopqrstuvwxyz", &["sk-abcdefghijklmnopqrstuvwxyz"]);
        let long = format!("sk-{}", "a1".repeat(500));
        check(&long, &[&long]);
        check(
            "x ghp_aaaaaaaaaaaaaaaa y ghp_bbbbbbbbbbbbbbbb",
            &["ghp_aaaaaaaaaaaaaaaa", "ghp_bbbbbbbbbbbbbbbb"],
        );

        check("sk-loading-spinner-dark-theme", &[]);
        check("task-runner-1234567890-abcdef", &[]);
        check("sk-short1", &[]);
        check("AKIAlowercaseletters", &[]);
        check("npm_config_registry_url", &[]);
        check("ghp_short", &[]);
        check("", &[]);
    }

    #[test]
    fn a_place_stays_undecided_until_enough_is_known() {
        let check = |text: &str, expected: Option<usize>| {
            assert_eq!(find(text.as_bytes(), 0, false).undecided, expected, "{text}");
        };
        check("abc", None);
        check("abc s", Some(4));
        check("abc sk-", Some(4));
        check("abc sk-a1", Some(4));
        check("abc sk-a1 ", None);
        check("abc sk-a1B2c3D4e5F6g7H8i9J0", None);
        check("absk", None);
        check("github_pa", Some(0));
        check("task", None);
    }
}
