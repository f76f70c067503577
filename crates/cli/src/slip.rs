//! What a command line that cannot be understood was probably meant to be: a task without its quotes, a command
//! without its group, a mistyped name.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use glasshouse_kernel::codes;

use crate::args::Arguments;
use crate::error::Error;
use crate::{help, output};

/// Words of other programs, and the command that does it here.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("undo", "session fork"),
    ("revert", "session fork"),
    ("status", "session list"),
    ("log", "session list"),
    ("logs", "session list"),
    ("ls", "session list"),
    ("login", "provider list"),
];
/// Most commands that are named for one word.
const MAX_MEANT: usize = 3;
/// Most characters of a task that is repeated.
const MAX_TASK_CHARS: usize = 100;

/// The error of a command line. `words` are those behind the program's name.
pub(crate) fn usage(words: &[String], error: &clap::Error) -> Error {
    let root = Arguments::command();
    let words = up_to_argv(words);
    let named = positionals(&root, words);
    let fault = Error::new(codes::USAGE, "the command line cannot be understood");
    let is_command = |word: &&str| *word == "help" || root.find_subcommand(word).is_some();
    let Some((first, rest)) = named.split_first().filter(|(first, _)| !is_command(first)) else {
        return misused(fault, &root, &named, error);
    };
    if is_of_a_flag(error) {
        return misused(fault, &root, &[], error);
    }
    let fault = fault.why(output::visible(&format!("`{first}` is no command"), false));
    let text = quoted_task(&named.join(" "));
    let fix = match meant_by(&root, first, rest) {
        Some(meant) => format!("{meant} A task is one text in quotes: `glasshouse {text}`"),
        None => format!("put the task in quotes: `glasshouse {text}`"),
    };
    fault.fix(output::visible(&fix, false))
}

/// The error of a task that is one word and a slip: a model would be paid for it.
pub(crate) fn one_word(task: &str) -> Option<Error> {
    if task.contains(char::is_whitespace) {
        return None;
    }
    let meant = meant_by(&Arguments::command(), task, &[])?;
    Some(
        Error::new(codes::USAGE, format!("there is no command `{task}`"))
            .why("and one word so near to a command is no task")
            .fix(format!("{meant} A task is told in more than one word")),
    )
}

/// A command that is there and is called as it cannot be.
fn misused(fault: Error, root: &Command, named: &[&str], error: &clap::Error) -> Error {
    let path = path(root, named);
    let told = error.render().to_string();
    let mut parts = told.split("\n\n");
    // Of several lines each but the first names an argument.
    let what = parts.next().unwrap_or_default().trim_start_matches("error: ");
    let what = what.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let fault = fault.why(output::visible(&what, false));
    let page = format!("glasshouse {path}").trim_end().to_owned();
    let fix = match (error.kind(), suggested(error)) {
        (ErrorKind::InvalidSubcommand, Some(name)) => {
            format!("did you mean `{page} {name}`? `{page} --help` lists its commands")
        }
        (ErrorKind::InvalidSubcommand, None) => {
            format!("`{page} --help` lists its commands; a task is one text in quotes")
        }
        (_, Some(name)) => format!("did you mean `{name}`? `{page} --help` tells how it is called"),
        (_, None) => format!("`{page} --help` tells how it is called"),
    };
    let usage = parts.find_map(|part| part.strip_prefix("Usage: "));
    let usage = usage.map(|usage| usage.lines().next().unwrap_or_default().to_owned());
    let fault = fault.fix(fix);
    match usage {
        Some(usage) => fault.with("usage", usage),
        None => fault,
    }
}

/// The name that the parser thinks was meant. `help` is near to every short word.
fn suggested(error: &clap::Error) -> Option<String> {
    let names = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
    let name = names.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => names.first().cloned(),
        _ => None,
    })?;
    (name != "help").then_some(name)
}

/// Whether a flag or its value is what is wrong, not the words beside it.
fn is_of_a_flag(error: &clap::Error) -> bool {
    let is_flag = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => name.starts_with('-'),
        _ => false,
    };
    error.kind() != ErrorKind::ArgumentConflict && is_flag(ContextKind::InvalidArg)
}

/// What a first word that is no command was meant for, as a question.
fn meant_by(root: &Command, first: &str, rest: &[&str]) -> Option<String> {
    if first == "version" {
        return Some("did you mean `glasshouse --version`?".to_owned());
    }
    let other = OTHER_WORDS.iter().find(|(word, _)| *word == first);
    let mut names: Vec<String> = root
        .get_subcommands()
        .filter(|group| group.find_subcommand(first).is_some())
        .map(|group| format!("{} {first}", group.get_name()))
        .chain(other.map(|(_, command)| (*command).to_owned()))
        .take(MAX_MEANT)
        .collect();
    if names.is_empty() {
        names.extend(help::meant(first));
    }
    // What follows a group is a command of it, or no part of what was meant.
    let rest: String = rest.iter().map(|word| format!(" {}", quoted(word))).collect();
    let calls: Vec<_> = names.iter().map(|name| format!("`glasshouse {name}{rest}`")).collect();
    (!calls.is_empty()).then(|| format!("did you mean {}?", calls.join(" or ")))
}

/// The names of the commands that lead to where the words go.
fn path(root: &Command, named: &[&str]) -> String {
    let (mut at, mut path) = (root, Vec::new());
    for word in named {
        let Some(next) = at.find_subcommand(word) else { break };
        path.push(next.get_name());
        at = next;
    }
    path.join(" ")
}

/// The words before `--`: what follows belongs to another program.
pub(crate) fn up_to_argv(words: &[String]) -> &[String] {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    &words[..end]
}

/// The words that are no flags of the command and no values of these.
fn positionals<'w>(command: &Command, words: &'w [String]) -> Vec<&'w str> {
    let takes_value = |word: &str| {
        let long = word.strip_prefix("--");
        let flag = command.get_arguments().find(|flag| long.is_some() && flag.get_long() == long);
        flag.is_some_and(|flag| flag.get_action().takes_values())
    };
    let mut named = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            named.push(word.as_str());
        } else if takes_value(word) {
            words.next();
        }
    }
    named
}

/// A word as a shell takes it for itself.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A task in the quotes that people write, where these are enough.
fn quoted_task(text: &str) -> String {
    let cut: String = text.chars().take(MAX_TASK_CHARS).collect();
    let text = if cut.len() < text.len() { format!("{cut}…") } else { cut };
    if text.contains(['"', '$', '`', '\\', '!']) { quoted(&text) } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{OTHER_WORDS, one_word, usage};
    use crate::args::Arguments;

    fn words(line: &str) -> Vec<String> {
        // Quotes keep a text together, as a shell does.
        let parts = line.split('"').enumerate();
        parts
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    /// The failure: a task without its quotes was told of subcommands that cannot be used with `[TASK]`, and of a
    /// command without its group nothing was said.
    #[test]
    fn a_slip_is_answered_with_what_was_meant() {
        let check = |line: &str, why: &str, fix: &str| {
            let all = [vec!["glasshouse".to_owned()], words(line)].concat();
            let error = crate::help::command().try_get_matches_from(&all).unwrap_err();
            let report = usage(&all[1..], &error).report();
            assert_eq!((report.why.as_str(), report.fix.as_str()), (why, fix), "{line}");
        };
        check(
            "handle empty input",
            "`handle` is no command",
            "put the task in quotes: `glasshouse \"handle empty input\"`",
        );
        check(
            "--provider ollama pay $5 now --model m",
            "`pay` is no command",
            "put the task in quotes: `glasshouse 'pay $5 now'`",
        );
        check(
            "resume s_123",
            "`resume` is no command",
            "did you mean `glasshouse session resume s_123`? A task is one text in quotes: `glasshouse \"resume s_123\"`",
        );
        check(
            "run \"fix it\"",
            "`run` is no command",
            "did you mean `glasshouse sandbox run 'fix it'` or `glasshouse ui run 'fix it'`? A task is one text in quotes: `glasshouse \"run fix it\"`",
        );
        check(
            "sesion list",
            "`sesion` is no command",
            "did you mean `glasshouse session list`? A task is one text in quotes: `glasshouse \"sesion list\"`",
        );
        check(
            "sandbx run -- ls",
            "`sandbx` is no command",
            "did you mean `glasshouse sandbox run`? A task is one text in quotes: `glasshouse \"sandbx run\"`",
        );
        check(
            "review the parser",
            "unrecognized subcommand 'the'",
            "`glasshouse review --help` lists its commands; a task is one text in quotes",
        );
        check(
            "session lst",
            "unrecognized subcommand 'lst'",
            "did you mean `glasshouse session list`? `glasshouse session --help` lists its commands",
        );
        check(
            "session show",
            "the following required arguments were not provided: <ID>",
            "`glasshouse session show --help` tells how it is called",
        );
        check(
            "sandbox run --timout 2s -- true",
            "unexpected argument '--timout' found",
            "did you mean `--timeout`? `glasshouse sandbox run --help` tells how it is called",
        );
        check(
            "\"a task\" --modle m",
            "unexpected argument '--modle' found",
            "did you mean `--model`? `glasshouse --help` tells how it is called",
        );
    }

    #[test]
    fn one_word_that_is_a_slip_is_no_task() {
        let check = |task: &str, meant: Option<&str>| {
            let fix = one_word(task).map(|error| error.report().fix);
            let expected = meant.map(|meant| {
                format!("did you mean `glasshouse {meant}`? A task is told in more than one word")
            });
            assert_eq!(fix, expected, "{task}");
        };
        check("version", Some("--version"));
        check("sesion", Some("session"));
        check("resume", Some("session resume"));
        check("undo", Some("session fork"));
        check("explore", None);
        check("explain it", None);
    }

    #[test]
    fn other_words_name_commands_that_are_there() {
        let root = Arguments::command();
        for (word, command) in OTHER_WORDS {
            let found = command.split(' ').try_fold(&root, |at, name| at.find_subcommand(name));
            assert!(found.is_some(), "{command}");
            assert!(root.find_subcommand(word).is_none(), "{word} is a command itself");
        }
    }
}
