//! What clap does not do by itself: an example on every help page, and the name that a mistyped
//! command may have meant.

use std::ffi::OsString;

use clap::{Command, CommandFactory};
use strsim::osa_distance;

use crate::args::Arguments;

/// A page: what the command does, an example, how it is called, then arguments and flags.
const PAGE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}";

/// Most letters by which a mistyped word may differ from the command that is suggested.
const MAX_TYPOS: usize = 2;

/// One example for each command, by its words. Each works as it is printed, once ids and files are
/// one's own.
const EXAMPLES: &[(&str, &str)] = &[
    ("", "glasshouse demo"),
    ("demo", "glasshouse demo --dir /tmp/sample"),
    ("serve", "glasshouse serve --listen 127.0.0.1:0"),
    ("keys", "glasshouse keys list"),
    ("keys create", "glasshouse keys create --role operator --name ci --expires 90d"),
    ("keys list", "glasshouse keys list --tenant acme"),
    ("keys rotate", "glasshouse keys rotate k0011223344556677 --grace 24h"),
    ("keys revoke", "glasshouse keys revoke k0011223344556677"),
    ("tenants", "glasshouse tenants list"),
    ("tenants create", "glasshouse tenants create acme --quota turns_per_day=100 --root \"$PWD\""),
    ("tenants list", "glasshouse tenants list --json"),
    ("tenants update", "glasshouse tenants update acme --quota turns_per_day=200 --root /srv/acme"),
    ("tenants disable", "glasshouse tenants disable acme"),
    ("sandbox", "glasshouse sandbox run -- uname -a"),
    ("sandbox run", "glasshouse sandbox run --workspace . --timeout 30s -- ls -la"),
    ("sandbox gc", "glasshouse sandbox gc --dry-run"),
    ("session", "glasshouse session list"),
    ("session list", "glasshouse session list --all"),
    ("session show", "glasshouse session show s_p0rcd7dq0ctn"),
    ("session pin", "glasshouse session pin s_p0rcd7dq0ctn style 'tabs, never spaces'"),
    (
        "session erase",
        "glasshouse session erase s_p0rcd7dq0ctn --event 7 --reason 'a customer asked' --yes",
    ),
    ("session close", "glasshouse session close s_p0rcd7dq0ctn"),
    ("session delete", "glasshouse session delete s_p0rcd7dq0ctn --yes"),
    ("session costs", "glasshouse session costs s_p0rcd7dq0ctn"),
    ("session fork", "glasshouse session fork s_p0rcd7dq0ctn --at 17"),
    ("session merge", "glasshouse session merge s_p0rcd7dq0ctn fork-1 --dry-run"),
    ("session diff", "glasshouse session diff s_p0rcd7dq0ctn --with fork-1"),
    ("session files", "glasshouse session files s_p0rcd7dq0ctn --at 40 --out /tmp/then"),
    ("session export", "glasshouse session export s_p0rcd7dq0ctn --out session.jsonl"),
    ("session search", "glasshouse session search migration --limit 10"),
    ("session import", "glasshouse session import session.jsonl"),
    ("session check-export", "glasshouse session check-export session.jsonl"),
    ("session replay", "glasshouse session replay s_p0rcd7dq0ctn"),
    ("session resume", "glasshouse session resume s_p0rcd7dq0ctn 'add a test for the empty list'"),
    ("review", "glasshouse review list"),
    ("review list", "glasshouse review list --json"),
    ("review show", "glasshouse review show b_efqdrts94cms:17"),
    ("review approve", "glasshouse review approve b_efqdrts94cms:17 --scope session --expires 2h"),
    ("review reject", "glasshouse review reject b_efqdrts94cms:17"),
    ("grants", "glasshouse grants list"),
    ("grants list", "glasshouse grants list --all"),
    ("grants revoke", "glasshouse grants revoke g_000102030405060708090a0b0c0d0e0f"),
    ("policy", "glasshouse policy show"),
    (
        "policy check",
        r#"glasshouse policy check --call '{"syscall":"fs.write","path":"src/a"}' --state planning"#,
    ),
    (
        "policy explain",
        r#"glasshouse policy explain --call '{"syscall":"shell.run","argv":"git push","caller":"agent"}'"#,
    ),
    ("policy lint", "glasshouse policy lint .glasshouse/policy.yaml"),
    ("policy test", "glasshouse policy test .glasshouse/policy.test.yaml"),
    ("policy schema", "glasshouse policy schema > policy.schema.json"),
    ("policy show", "glasshouse policy show --shipped > policy.yaml"),
    ("policy simulate", "glasshouse policy simulate .glasshouse/policy.yaml --last 500"),
    ("policy learn", "glasshouse policy learn s_p0rcd7dq0ctn --out learned.yaml"),
    ("policy update", "glasshouse policy update"),
    ("provider", "glasshouse provider list"),
    ("provider list", "glasshouse provider list"),
    ("provider test", "glasshouse provider test --provider ollama --model qwen3"),
    ("audit", "glasshouse audit verify"),
    ("audit backup", "glasshouse audit backup"),
    ("audit restore", "glasshouse audit restore --list"),
    ("audit check-state", "glasshouse audit check-state"),
    ("audit rotate", "glasshouse audit rotate --dry-run"),
    ("audit schema", "glasshouse audit schema > events.schema.json"),
    ("audit log", "glasshouse audit log --kind policy.decided"),
    (
        "audit blob",
        "glasshouse audit blob sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    ),
    ("audit verify", "glasshouse audit verify --json"),
    ("audit checkpoint", "glasshouse audit checkpoint > head.note"),
    ("audit prove", "glasshouse audit prove b_efqdrts94cms 7 > event.proof"),
    ("audit check", "glasshouse audit check head.note"),
    ("ui", "glasshouse ui check plan.json"),
    ("ui check", "glasshouse ui check plan.json --profile balanced"),
    ("ui probe-plan", "glasshouse ui probe-plan plan.json"),
    ("ui playground", "glasshouse ui playground --no-open"),
    ("ui pin", "glasshouse ui pin plan.json --out plan.json"),
    ("ui bundle", "glasshouse ui bundle plan.json --profile trusted > code.json"),
    (
        "ui plan",
        "glasshouse ui plan 'a form for a new contact' --provider openai --model gpt-5-mini",
    ),
    ("ui run", "glasshouse ui run 'a table of the planets' --profile balanced --page > view.html"),
    ("ui stream", "glasshouse ui stream answer.txt > fragment.html"),
    ("ui render-plan", "glasshouse ui render-plan plan.json --page > view.html"),
    ("ui event", r#"glasshouse ui event my-plan add '{"amount":1}'"#),
    ("ui state", "glasshouse ui state my-plan"),
    ("ui history", "glasshouse ui history --runs 10"),
    ("ui rollback", "glasshouse ui rollback my-plan 1"),
    ("ui replay", "glasshouse ui replay 3"),
    ("ui clear-history", "glasshouse ui clear-history"),
    ("doctor", "glasshouse doctor"),
    ("config", "glasshouse config init"),
    ("config init", "glasshouse config init"),
    ("config get", "glasshouse config get test.command"),
    ("config set", "glasshouse config set model a-model-name"),
    (
        "completions",
        "glasshouse completions bash > ~/.local/share/bash-completion/completions/glasshouse",
    ),
];

/// The words of a command line; who asks for the help of `help` is given that.
pub(crate) fn asked(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    words
}

/// The command line with an example on each page.
pub(crate) fn command() -> Command {
    with_examples(Arguments::command(), "")
}

fn with_examples(command: Command, path: &str) -> Command {
    let example = EXAMPLES.iter().find(|(of, _)| *of == path).map(|(_, example)| *example);
    let command = match example {
        Some(example) => command.help_template(PAGE).before_help(format!("Example:\n  {example}")),
        None => command,
    };
    let names: Vec<String> =
        command.get_subcommands().map(|child| child.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let below = format!("{path} {name}");
        command.mut_subcommand(name, |child| with_examples(child, below.trim_start()))
    })
}

/// The command that a word was probably meant to be.
pub(crate) fn meant(word: &str) -> Option<String> {
    let near = |name: &str| {
        let typos = osa_distance(word, name);
        // A short name is near to everything.
        (0 < typos && typos <= MAX_TYPOS.min(name.len() / 3)).then_some(typos)
    };
    let all = Arguments::command();
    let named = all.get_subcommands().map(Command::get_name);
    let nearest = named.filter_map(|name| near(name).map(|typos| (typos, name))).min();
    nearest.map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::{command, meant};

    #[test]
    fn a_mistyped_command_is_recognised() {
        let check = |word: &str, expected: Option<&str>| {
            assert_eq!(meant(word).as_deref(), expected, "{word}");
        };
        check("sesion", Some("session"));
        check("sessions", Some("session"));
        check("sandox", Some("sandbox"));
        check("polcy", Some("policy"));
        check("audti", Some("audit"));
        check("dmo", Some("demo"));
        check("uo", None);
        check("session", None);
        check("explain this repository", None);
    }

    #[test]
    fn every_page_begins_with_a_verb_and_has_its_example_before_the_flags() {
        const VERBS: &[&str] = &[
            "Accept", "Approve", "Attack", "Bring", "Carry", "Check", "Close", "Compare", "Decide",
            "Delete", "Explain", "Ask", "Fetch", "Find", "Let", "List", "Make", "Move", "Play",
            "Print", "Prove", "Read", "Remove", "Render", "Reject", "Run", "Serve", "Set", "Show",
            "Sign", "Take", "Tell", "Try", "Work", "Write",
        ];
        fn check(mut page: Command, path: &str) {
            let shown = page.render_long_help().to_string();
            let first = shown.split_whitespace().next().unwrap();
            assert!(VERBS.contains(&first), "{path}: {shown}");
            let (before, _) = shown.split_once("Options:").unwrap();
            assert!(before.contains("Example:\n  glasshouse"), "{path}: {shown}");
            assert!(before.contains(path), "{path}: {shown}");
            for child in page.get_subcommands().filter(|child| child.get_name() != "help") {
                check(child.clone(), format!("{path} {}", child.get_name()).trim_start());
            }
        }
        let mut all = command();
        all.build();
        check(all, "");
    }
}
