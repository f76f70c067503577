//! What an argument vector may run.
//!
//! A permissive rule matches the words exactly as they will run. A restrictive rule must not be
//! escaped by dressing the command up, so it is looked for wherever it could run: behind a
//! wrapper (`env`, `xargs`, `timeout`), in the script of a shell, under an absolute path, behind
//! quotes and escapes. What can not be read (an expansion in command position) counts as a match.

use crate::limits::MAX_COMMAND_BYTES;

/// Programs that run the words behind them.
const WRAPPERS: &[&str] = &[
    "busybox", "chroot", "chrt", "command", "doas", "env", "exec", "find", "flock", "ionice",
    "nice", "nohup", "nsenter", "parallel", "script", "setpriv", "setsid", "stdbuf", "strace",
    "sudo", "taskset", "time", "timeout", "toybox", "unshare", "watch", "xargs",
];

/// Programs that read a script out of their arguments.
const SHELLS: &[&str] = &["ash", "bash", "dash", "eval", "fish", "ksh", "mksh", "sh", "su", "zsh"];

/// Characters after which a shell expects a command, or that end the one before.
const SEPARATORS: &str = ";&|(){}`\n<>!";

/// Whether the words begin exactly with the prefix.
pub(crate) fn starts_with(argv: &[String], prefix: &[Box<str>]) -> bool {
    argv.len() >= prefix.len() && argv.iter().zip(prefix).all(|(word, want)| **word == **want)
}

/// Whether running `argv` could run a command that begins with the prefix.
pub(crate) fn could_run(argv: &[String], prefix: &[Box<str>]) -> bool {
    let mut reach = Reach { prefix, budget: MAX_COMMAND_BYTES };
    reach.words(argv.iter().map(String::as_str).collect())
}

struct Reach<'a> {
    prefix: &'a [Box<str>],
    /// Bytes that may still be looked at; none left counts as a match.
    budget: usize,
}

impl Reach<'_> {
    /// Follows one command given as words.
    fn words(&mut self, words: Vec<&str>) -> bool {
        let Some(first) = words.first() else { return false };
        let bytes = words.iter().map(|word| word.len() + 1).sum::<usize>();
        let Some(left) = self.budget.checked_sub(bytes) else { return true };
        self.budget = left;
        if self.at(&words) {
            return true;
        }
        let program = base_name(first).to_ascii_lowercase();
        if SHELLS.contains(&program.as_str()) {
            return words[1..].iter().any(|word| self.script(word));
        }
        if WRAPPERS.contains(&program.as_str()) {
            // Options of a wrapper are not told apart from its command: any word may start one,
            // and one that is itself a shell or holds blanks (`env -S`) is read as a script.
            return (1..words.len()).any(|from| {
                self.at(&words[from..])
                    || (SHELLS.contains(&base_name(words[from]))
                        && words[from + 1..].iter().any(|word| self.script(word)))
                    || (words[from].contains(char::is_whitespace) && self.script(words[from]))
            });
        }
        false
    }

    /// Whether the command at the head of these words has the prefix.
    fn at(&self, words: &[&str]) -> bool {
        words.len() >= self.prefix.len()
            && words.iter().zip(self.prefix).enumerate().all(|(position, (word, want))| {
                // A name without a slash stands for that program wherever it lies.
                **word == **want
                    || (position == 0 && !want.contains('/') && base_name(word) == &**want)
            })
    }

    /// Looks for the prefix at every word of a script, not only where a command starts: a false
    /// match asks a person, a missed one lets the command through.
    fn script(&mut self, text: &str) -> bool {
        let Some(left) = self.budget.checked_sub(text.len() + 1) else { return true };
        self.budget = left;
        let words = script_words(text);
        (0..words.len()).any(|from| {
            let starts = words[from].starts_command;
            if starts && words[from].opaque {
                return true;
            }
            let run: Vec<&str> = words[from..]
                .iter()
                .take(self.prefix.len().max(1))
                .enumerate()
                .take_while(|(n, word)| *n == 0 || !word.starts_command)
                .map(|(_, word)| word.text.as_str())
                .collect();
            let nested = |c: char| c.is_whitespace() || SEPARATORS.contains(c);
            self.at(&run) || (words[from].text.contains(nested) && self.script(&words[from].text))
        })
    }
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

struct Word {
    text: String,
    /// The first word after a separator, where a shell expects a command.
    starts_command: bool,
    /// Holds an expansion whose value is not known here.
    opaque: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    /// `'..'`: nothing is special.
    Plain,
    /// `$'..'`: escapes are decoded.
    Ansi,
    /// `".."`: expansions and escapes.
    Double,
}

/// Splits a script into words with quotes and escapes taken off. Not a shell parser: separators,
/// brackets, back quotes and braces all count as places where a command may start, and where
/// nesting confuses it the rest ends up in one word that [`Reach::script`] reads again.
fn script_words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut current: Option<Word> = None;
    let mut starts = true;
    let mut quote: Option<Quote> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let code = quote.is_none();
        let expands = matches!(quote, None | Some(Quote::Double));
        let command_starts = (code && SEPARATORS.contains(c))
            || (expands && (c == '`' || (c == '$' && chars.peek() == Some(&'('))));
        if command_starts {
            words.extend(current.take());
            starts = true;
            quote = None;
            continue;
        }
        if code && c.is_whitespace() {
            words.extend(current.take());
            continue;
        }
        let ends = match quote {
            Some(Quote::Plain | Quote::Ansi) => c == '\'',
            Some(Quote::Double) => c == '"',
            None => false,
        };
        if ends {
            quote = None;
            continue;
        }
        if c == '\\' && quote != Some(Quote::Plain) && chars.next_if_eq(&'\n').is_some() {
            // A joined line.
            continue;
        }
        let ansi = code && c == '$' && chars.peek() == Some(&'\'');
        if ansi {
            chars.next();
        }
        let word = current.get_or_insert_with(|| new_word(&mut starts));
        match c {
            '$' if ansi => quote = Some(Quote::Ansi),
            '\'' if code => quote = Some(Quote::Plain),
            '"' if code => quote = Some(Quote::Double),
            // The value of an assignment is no command.
            '$' if expands => word.opaque |= !word.text.contains('='),
            '\\' if quote != Some(Quote::Plain) => {
                // A backslash at the very end stands for itself.
                word.text.push(escaped(&mut chars).unwrap_or('\\'));
            }
            literal => word.text.push(literal),
        }
    }
    words.extend(current);
    words
}

fn new_word(starts: &mut bool) -> Word {
    Word { text: String::new(), starts_command: std::mem::take(starts), opaque: false }
}

/// Decodes what follows a backslash: the hexadecimal and octal forms of `$'..'`, else the
/// character itself.
fn escaped(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    let c = chars.next()?;
    let (radix, most) = match c {
        'x' => (16, 2),
        'u' => (16, 4),
        'U' => (16, 8),
        '0'..='7' => (8, 2),
        other => return Some(other),
    };
    let mut value = if radix == 8 { c.to_digit(8).unwrap_or(0) } else { 0 };
    let mut seen = 0;
    while seen < most
        && let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix))
    {
        value = value.wrapping_mul(radix).wrapping_add(digit);
        chars.next();
        seen += 1;
    }
    if radix == 16 && seen == 0 { Some(c) } else { char::from_u32(value).or(Some(c)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Vec<Box<str>> {
        text.split(' ').map(Into::into).collect()
    }

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn dressing_a_command_up_does_not_hide_it() {
        let check = |words: &[&str]| {
            assert!(could_run(&argv(words), &prefix("rm -rf")), "{words:?}");
        };
        check(&["rm", "-rf", "x"]);
        check(&["/bin/rm", "-rf", "x"]);
        check(&["./ws/bin/rm", "-rf", "x"]);
        check(&["env", "rm", "-rf", "x"]);
        check(&["env", "-i", "A=1", "rm", "-rf", "x"]);
        check(&["env", "-S", "rm -rf x"]);
        check(&["xargs", "rm", "-rf"]);
        check(&["timeout", "5", "nice", "rm", "-rf", "x"]);
        check(&["find", ".", "-exec", "rm", "-rf", "{}", ";"]);
        check(&["sudo", "bash", "-c", "rm -rf x"]);
        for script in [
            "rm -rf x",
            "ls & rm -rf x",
            "ls;rm -rf x",
            "ls && rm -rf x",
            "(rm -rf x)",
            "{ rm -rf x; }",
            "echo $(rm -rf x)",
            "echo \"$(rm -rf x)\"",
            "echo `rm -rf x`",
            "echo \"`rm -rf x`\"",
            "env rm -rf x",
            "ls | xargs rm -rf",
            "bash -c 'rm -rf x'",
            "bash -c \"sh -c 'rm -rf x'\"",
            "ls\nrm -rf x",
            "if true; then rm -rf x; fi",
            "echo ok > >(rm -rf x)",
            "r''m -rf x",
            "r\\m -rf x",
            "\"rm\" '-rf' x",
            "$'r\\x6d' -rf x",
            "$'\\162m' -rf x",
            "A=1 rm -rf x",
            "! rm -rf x",
            "$CMD -rf x",
            "${CMD} -rf x",
            "rm \\\n -rf x",
            "true '\\'; rm -rf x",
            "true \"$(true)\"; rm -rf x",
        ] {
            check(&["sh", "-c", script]);
            check(&["/bin/bash", "-ec", script]);
        }
        check(&["sh", "-c", &"true; ".repeat(20_000)]);
    }

    #[test]
    fn other_commands_stay_free() {
        let check = |words: &[&str]| {
            assert!(!could_run(&argv(words), &prefix("rm -rf")), "{words:?}");
        };
        check(&[]);
        check(&["rm"]);
        check(&["rm", "-r", "x"]);
        check(&["echo", "rm", "-rf"]);
        check(&["grep", "rm -rf", "README.md"]);
        check(&["sh", "-c", "rm; -rf"]);
        check(&["sh", "-c", "ls && cargo test"]);
        check(&["sh", "-c", "echo $HOME"]);
        check(&["env", "A=1", "cargo", "test"]);
        check(&["git", "commit", "-m", "do not rm -rf"]);
    }

    #[test]
    fn permissive_matching_is_exact() {
        let allowed = prefix("cargo test");
        assert!(starts_with(&argv(&["cargo", "test", "-p", "x"]), &allowed));
        for words in [
            &["./cargo", "test"][..],
            &["env", "cargo", "test"],
            &["sh", "-c", "cargo test"],
            &["cargo"],
            &["cargo", "testx"],
        ] {
            assert!(!starts_with(&argv(words), &allowed), "{words:?}");
        }
    }
}
