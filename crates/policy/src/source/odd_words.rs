//! Words of `argv_prefix` and `argv` that no command has as they are written.
//!
//! Both keys compare words. A pattern, an operator of a shell and a quote look as if they would do more, and a
//! denial that holds one is silent where its author expects it to speak.

use super::Warning;
use crate::command::base_name;
use crate::rule::{CommandPatterns, Condition, Conditions, Rule};
use crate::yaml::{Kind, Node, Reader};

/// Words between commands, and those that send input and output elsewhere.
const OPERATORS: [&str; 19] = [
    "|", "||", "|&", "&", "&&", ";", ";;", ">", ">>", ">|", ">&", "&>", "<", "<<", "<<<", "2>",
    "2>>", "2>&1", "&>>",
];
/// Programs that are told patterns, operators and ends of commands as words of their own.
const TAKES_PATTERNS: [&str; 11] =
    ["[", "[[", "ag", "expr", "fd", "find", "fgrep", "grep", "locate", "rg", "test"];
/// Beginnings of words that a shell sends input or output by.
const SENDS: [&str; 6] = [">", "<", "2>", "&>", "|", "&&"];

const QUOTES: [char; 2] = ['\'', '"'];

/// Why a word cannot be one of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Oddity {
    Pattern,
    Operator,
    Quote,
    Blank,
}

/// Whether a command of a rule has a word that no command is told as it is written, however it was written: half of
/// what stands in quotes is a word of no call that anybody makes up.
pub(crate) fn is_odd(words: &[Box<str>]) -> bool {
    let is_half =
        |word: &str| !is_balanced(word) && (word.starts_with(QUOTES) || word.ends_with(QUOTES));
    let is_of_a_shell = |word: &str| OPERATORS.contains(&word) || is_pattern(word);
    first_odd(words, false).is_some()
        || words.iter().any(|word| is_half(word))
        || (!takes_patterns(words) && words.iter().any(|word| is_of_a_shell(word)))
}

fn takes_patterns(words: &[Box<str>]) -> bool {
    words.first().is_some_and(|it| TAKES_PATTERNS.contains(&base_name(it)))
}

/// The first word that no command has, and why. `is_cut`: the words were one text, which was cut at blanks.
fn first_odd(words: &[Box<str>], is_cut: bool) -> Option<(usize, Oddity)> {
    let takes_patterns = takes_patterns(words);
    words.iter().enumerate().find_map(|(at, word)| {
        let why = match at {
            0 => odd_program(word, is_cut),
            // What was listed word by word may hold anything; what was cut from a text was written as for a shell.
            _ if is_cut => odd_argument(word, takes_patterns),
            _ => None,
        };
        why.map(|why| (at, why))
    })
}

fn odd_program(word: &str, is_cut: bool) -> Option<Oddity> {
    let has_blank = word.contains(char::is_whitespace) && !word.contains('/');
    match word {
        _ if is_quoted(word) || is_cut && word.contains(QUOTES) => Some(Oddity::Quote),
        _ if word.contains('*') => Some(Oddity::Pattern),
        _ if OPERATORS.contains(&word) || is_cut && word.ends_with(';') => Some(Oddity::Operator),
        _ if has_blank => Some(Oddity::Blank),
        _ => None,
    }
}

fn odd_argument(word: &str, takes_patterns: bool) -> Option<Oddity> {
    let is_sent = |word: &str| SENDS.iter().any(|begin| word.starts_with(begin));
    let is_ended = |word: &str| word.len() > 1 && word.ends_with(';') && word != "\\;";
    match word {
        _ if word.starts_with(QUOTES) => Some(Oddity::Quote),
        _ if word.ends_with(QUOTES) && !is_balanced(word) => Some(Oddity::Quote),
        _ if takes_patterns => None,
        _ if OPERATORS.contains(&word) || is_sent(word) || is_ended(word) => Some(Oddity::Operator),
        _ if is_pattern(word) => Some(Oddity::Pattern),
        _ => None,
    }
}

/// Whether a word says nothing but "any words", or any that begin so. `*.rs` and `src/*` are words that a program
/// may be told.
fn is_pattern(word: &str) -> bool {
    let Some(begin) = word.strip_suffix('*') else { return false };
    let begin = begin.trim_end_matches('*');
    begin.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b))
}

fn is_quoted(word: &str) -> bool {
    QUOTES.iter().any(|q| word.len() > 1 && word.starts_with(*q) && word.ends_with(*q))
}

fn is_balanced(word: &str) -> bool {
    QUOTES.iter().all(|quote| word.matches(*quote).count() % 2 == 0)
}

/// Warns of each command of a rule that has such a word. The nodes are those that `match` and `except` were read
/// from: whether words were listed stands there.
pub(super) fn warn(reader: &Reader<'_>, rule: &Rule, nodes: &[&Node], warnings: &mut Vec<Warning>) {
    let conditions = std::iter::once(&rule.when).chain(&rule.excepts);
    let commands = conditions.flat_map(Conditions::iter).filter_map(|condition| match condition {
        Condition::Command(commands) => Some(commands),
        _ => None,
    });
    let listed = listed(nodes);
    for commands in commands {
        let key = if commands.exact { "argv" } else { "argv_prefix" };
        for words in &commands.prefixes {
            let is_cut = !listed.iter().any(|one| is_same(one, words));
            let Some((at, why)) = first_odd(words, is_cut) else { continue };
            warnings.push(Warning {
                source: reader.source.to_owned(),
                line: rule.line,
                rule: rule.name.to_string(),
                kind: "never_matches",
                message: message(key, words, at, why),
                fix: fix(commands, words, at, why),
            });
        }
    }
}

/// The commands that were written as lists of words.
fn listed<'n>(nodes: &[&'n Node]) -> Vec<&'n [Node]> {
    let maps = nodes.iter().filter_map(|node| match &node.kind {
        Kind::Map(entries) => Some(entries),
        _ => None,
    });
    let values = maps.flatten().filter(|(key, _)| ["argv", "argv_prefix"].contains(&&*key.text));
    let items = values.filter_map(|(_, node)| match &node.kind {
        Kind::List(items) => Some(items),
        _ => None,
    });
    let lists = items.flatten().filter_map(|item| match &item.kind {
        Kind::List(words) => Some(words.as_slice()),
        _ => None,
    });
    lists.collect()
}

fn is_same(listed: &[Node], words: &[Box<str>]) -> bool {
    listed.len() == words.len()
        && listed.iter().zip(words).all(|(node, word)| match &node.kind {
            Kind::Text(text) => **text == **word,
            _ => false,
        })
}

fn message(key: &str, words: &[Box<str>], at: usize, why: Oddity) -> String {
    let (all, word) = (words.join(" "), &words[at]);
    let because = match why {
        Oddity::Pattern => format!("`{key}` holds words and no pattern, and none is `{word}`"),
        Oddity::Operator => format!("`{word}` is of a shell and no word of a command"),
        Oddity::Quote => format!("`{key}` is cut at blanks, and the quote of `{word}` stays in it"),
        Oddity::Blank => format!("no program has a blank in its name, as `{word}` does"),
    };
    match at {
        0 => format!("`{key}: {all}` matches no command: {because}"),
        _ => format!("`{key}: {all}` matches only what is told `{word}` as it stands: {because}"),
    }
}

fn fix(commands: &CommandPatterns, words: &[Box<str>], at: usize, why: Oddity) -> String {
    let before = words[..at].join(" ");
    match why {
        Oddity::Pattern => {
            let begin = words[at].trim_end_matches('*').trim_end_matches(':');
            let meant = match (before.is_empty(), words[at].ends_with(":*")) {
                (_, true) => format!("{before} {begin}").trim().to_owned(),
                (false, false) => before,
                (true, false) => {
                    return "name each program by itself, or leave the key out for every command"
                        .to_owned();
                }
            };
            format!("where any words may follow, write `argv_prefix: {meant}`")
        }
        Oddity::Operator if at == 0 => "name a command".to_owned(),
        Oddity::Operator if commands.wide => {
            format!("name one command, such as `{before}`: it is found anywhere in a script")
        }
        Oddity::Operator => {
            format!(
                "name one command, such as `{before}`: each command of a script is matched by itself"
            )
        }
        Oddity::Quote => {
            let mut text = format!("list the words without quotes: [{}]", listed_words(words));
            if commands.wide {
                text.push_str("; what a script runs is found by the command's own name");
            }
            text
        }
        Oddity::Blank => {
            let parts: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
            format!(
                "write `{}`, or the words one by one: [[{}]]",
                parts.join(" "),
                parts.join(", ")
            )
        }
    }
}

/// The words as a shell would take them, as a list of YAML in its short form.
fn listed_words(words: &[Box<str>]) -> String {
    let (mut found, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut is_word = false;
    for c in words.join(" ").chars() {
        match (c, quote) {
            ('\'' | '"', None) => (quote, is_word) = (Some(c), true),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => {
                found.extend(is_word.then(|| std::mem::take(&mut word)));
                is_word = false;
            }
            (c, _) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    found.extend(is_word.then_some(word));
    let told: Vec<String> = found.iter().map(|word| serde_json::json!(word).to_string()).collect();
    format!("[{}]", told.join(", "))
}
