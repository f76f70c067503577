//! Words of programs that are commands in ways of their own.

use super::programs::{COMPILERS, command_options, subcommand};
use super::{Inner, is_short};
use crate::shell::{
    Exported, ShellWord, Unreadable, exported, is_cache, is_harmless_code, may_run,
};

/// Commands of gdb that run nothing but what is debugged.
const GDB_COMMANDS: &[&str] = &[
    "backtrace",
    "bt",
    "c",
    "continue",
    "down",
    "finish",
    "info",
    "l",
    "list",
    "n",
    "next",
    "q",
    "quit",
    "s",
    "step",
    "up",
    "where",
];

/// Commands of sqlite3 that run nothing.
const SQLITE_COMMANDS: &[&str] = &[
    ".changes",
    ".databases",
    ".dump",
    ".echo",
    ".exit",
    ".headers",
    ".help",
    ".import",
    ".indexes",
    ".indices",
    ".mode",
    ".nullvalue",
    ".quit",
    ".schema",
    ".separator",
    ".stats",
    ".tables",
    ".timeout",
    ".timer",
    ".width",
];

/// Settings of npm that name a program.
const NPM_SETTINGS: &[&str] = &["browser", "editor", "git", "script-shell", "shell", "viewer"];

impl Inner {
    /// What some programs run besides the values of their options.
    pub(super) fn own_values(
        &mut self,
        program: &str,
        words: &[ShellWord],
        open: bool,
    ) -> Result<(), Unreadable> {
        match program {
            "borg" | "restic" => refuse(words.iter().any(is_from_command)),
            "cargo" => self.behind_cargo(words, open),
            "cmake" => self.settings_of_cmake(words),
            "debuild" | "dpkg-buildpackage" => {
                // A hook stands behind whatever step.
                let is_hook = |word: &ShellWord| {
                    let name = word.beginning().split('=').next().unwrap_or_default();
                    name.starts_with("--h") || (name.starts_with("--") && name.ends_with("hook"))
                };
                let is_help = |word: &ShellWord| word.text() == Some("--help");
                refuse(words.iter().any(|word| is_hook(word) && !is_help(word)))
            }
            "go" => self.settings_of_go(words, open),
            "hg" => refuse(words.iter().any(runs_in_hg(words))),
            "less" => refuse(words.iter().skip(1).any(runs_in_less)),
            "mariadb" | "mysql" => refuse(words.iter().skip(1).any(runs_in_mysql)),
            "npm" | "yarn" => self.settings_of_npm(words, open),
            "pnpm" => {
                self.settings_of_npm(words, open)?;
                // A command that it does not have is a program.
                let at = subcommand(words).filter(|at| words[*at].text().is_some());
                at.map_or(Ok(()), |at| self.start(words, at, open))
            }
            // `pip config set global.editor program`, `pip config edit`
            "pip" => {
                let is = |wanted: &str| words.iter().any(|word| word.beginning().contains(wanted));
                refuse(
                    is("config")
                        && (open || is("editor") || words.iter().any(|word| word.text().is_none())),
                )
            }
            "psql" => refuse(words.iter().skip(1).any(runs_in_psql)),
            "sqlite3" => refuse(open || runs_in_sqlite(words)),
            _ => Ok(()),
        }
    }

    /// Words behind `--` are options of the compiler.
    fn behind_cargo(&mut self, words: &[ShellWord], open: bool) -> Result<(), Unreadable> {
        let compiles =
            |word: &ShellWord| matches!(word.text(), Some("clippy" | "rustc" | "rustdoc"));
        if !words.iter().any(compiles) {
            return Ok(());
        }
        let Some(end) = words.iter().position(|word| word.text() == Some("--")) else {
            return Ok(());
        };
        let options = command_options("rustdoc").unwrap_or_default();
        self.option_values("rustdoc", &words[end..], options, open)
    }

    /// `go build -ldflags -extld=program`, `go env -w NAME=value`
    fn settings_of_go(&mut self, words: &[ShellWord], open: bool) -> Result<(), Unreadable> {
        // What links may be another program.
        let links = |word: &ShellWord| {
            ["-extar", "-extld", "-wrapper"].iter().any(|it| word.beginning().contains(it))
        };
        refuse(words.iter().any(links))?;
        let is = |wanted: &'static str| move |word: &ShellWord| word.text() == Some(wanted);
        // `-w`, `--w`, `-w=true`
        let writes = |word: &ShellWord| {
            let text = word.beginning();
            text.starts_with('-') && text.trim_start_matches('-').starts_with('w')
        };
        if !words.iter().any(is("env")) || !words.iter().any(writes) {
            return Ok(());
        }
        for word in words.iter().skip(1) {
            let text = word.text().ok_or(Unreadable)?;
            if let Some((name, value)) = text.split_once('=')
                && let Exported::Command(value) = exported(name, value)?
            {
                self.values.push(value.to_owned());
            }
        }
        refuse(open)
    }

    /// `cmake -DCMAKE_C_COMPILER=program`, also behind `-D` as a word of its own.
    fn settings_of_cmake(&mut self, words: &[ShellWord]) -> Result<(), Unreadable> {
        const PROGRAMS: &[&str] =
            &["COMMAND", "COMPILER", "EMULATOR", "EXECUTABLE", "LAUNCHER", "LINKER", "PROGRAM"];
        for (at, word) in words.iter().enumerate().skip(1) {
            let text = word.beginning();
            let is_behind = words[at - 1].text() == Some("-D");
            let Some(set) = text.strip_prefix("-D").or(is_behind.then_some(text)) else { continue };
            let (name, value) = set.split_once('=').unwrap_or((set, ""));
            let name = name.split(':').next().unwrap_or_default().to_ascii_uppercase();
            let is_program = PROGRAMS.iter().any(|part| name.contains(part));
            if !is_program && !name.contains("FLAGS") {
                continue;
            }
            let value = word.text().map(|_| value).ok_or(Unreadable)?;
            refuse(!is_program && may_run(&name, value))?;
            if is_program && !is_cache(value) {
                self.values.extend(value.split(';').map(str::to_owned));
            }
        }
        Ok(())
    }

    /// `npm config set name value`, `npm set name=value`
    fn settings_of_npm(&mut self, words: &[ShellWord], open: bool) -> Result<(), Unreadable> {
        let sets = |word: &ShellWord| {
            word.text().is_some_and(|it| it == "set" || "config".starts_with(it))
        };
        let Some(at) = words.iter().position(sets) else { return Ok(()) };
        refuse(open)?;
        let mut words = words[at + 1..].iter();
        while let Some(word) = words.next() {
            let text = word.beginning();
            refuse(word.is_several() || (word.text().is_none() && !text.contains('=')))?;
            let (name, value) =
                text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            if !NPM_SETTINGS.contains(&name.trim().trim_start_matches('-')) {
                continue;
            }
            refuse(word.text().is_none())?;
            let value = match value {
                Some(value) => Some(value),
                None => words.next().map(|word| word.text().ok_or(Unreadable)).transpose()?,
            };
            self.values.extend(value.map(str::to_owned));
        }
        Ok(())
    }
}

/// `borg create --content-from-command … -- program`
fn is_from_command(word: &ShellWord) -> bool {
    ["--content-from-c", "--paths-from-c", "--stdin-from-c"]
        .iter()
        .any(|option| word.beginning().starts_with(option))
}

/// `hg bisect -c program`, `hg extdiff -p program`
fn runs_in_hg(words: &[ShellWord]) -> impl Fn(&ShellWord) -> bool {
    let has = |wanted: &str| {
        words
            .iter()
            .skip(1)
            .any(|word| word.text().is_some_and(|it| it.len() > 1 && wanted.starts_with(it)))
    };
    let letter = match (has("bisect"), has("extdiff")) {
        (true, _) => Some('c'),
        (_, true) => Some('p'),
        _ => None,
    };
    move |word| {
        let word = word.beginning();
        letter.is_some_and(|letter| is_short(word) && word.contains(letter))
    }
}

/// Commands that less takes from its options: `+!program`, `-R+|…`, `+v`.
fn runs_in_less(word: &ShellWord) -> bool {
    let text = word.beginning();
    text.starts_with(['+', '-']) && text.contains(['!', '|', '#']) || text.starts_with("+v")
}

/// Words that cannot be told from a command count as any.
pub(super) fn refuse(is_torn: bool) -> Result<(), Unreadable> {
    if is_torn { Err(Unreadable) } else { Ok(()) }
}

/// Whether a machine of Java may run the value of one of its options, whichever program starts it.
pub(super) fn is_of_java(word: &ShellWord) -> bool {
    ["-XX:On", "-XX:Flags=", "-XX:VMOptionsFile=", "launch="]
        .iter()
        .any(|it| word.beginning().contains(it))
}

/// Words of a statement, without what stands between them.
fn names(text: &str) -> impl Iterator<Item = String> {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    text.split(is_other).map(str::to_ascii_lowercase)
}

/// `\!` and `system` of mysql, and what shows its pages.
fn runs_in_mysql(word: &ShellWord) -> bool {
    let text = word.beginning();
    text.contains('\\') || names(text).any(|name| name == "system" || name == "pager")
}

/// `\!` of psql, its back quotes, and what is piped to a program.
fn runs_in_psql(word: &ShellWord) -> bool {
    let text = word.beginning();
    let is_plain = |command: &str| {
        let end = command.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(command.len());
        let name = &command[..end];
        name.starts_with('d') || ["l", "q", "timing", "x", "z"].contains(&name)
    };
    // `-o |program`, `--output=|program`
    let is_option = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '=');
    let is_piped = text.trim_start_matches(is_option).starts_with('|');
    let is_torn = text.contains('\\') && text.contains(['|', '`']);
    is_piped
        || is_torn
        || !text.split('\\').skip(1).all(is_plain)
        || names(text).any(|name| name == "program")
}

/// Whether one of these words is a command of sqlite3 that may run a program: `.shell`, or a file `|program`.
fn runs_in_sqlite(words: &[ShellWord]) -> bool {
    let operands = words.iter().skip(1).filter(|word| !word.beginning().starts_with('-'));
    let is_torn = |word: &ShellWord| {
        let text = word.beginning().trim_start();
        let name = text.split(char::is_whitespace).next().unwrap_or_default();
        // A file has more than letters behind the dot.
        let is_command = name
            .strip_prefix('.')
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic()));
        let is_known = SQLITE_COMMANDS.contains(&name) && word.text().is_some();
        // Between the name of a function and its bracket blanks and remarks may stand.
        let edits = text.contains('(') && names(text).any(|name| name == "edit");
        (is_command && (text.contains(['|', '\n']) || !is_known)) || edits
    };
    // The first of them is the file, or the value of an option.
    let mut behind = operands.clone().skip(1);
    operands.clone().any(is_torn)
        || behind.any(|word| word.text().is_none() && word.beginning().is_empty())
}

/// What rustc runs of the value behind `-C`.
fn code_of_rustc(value: &str) -> Result<Option<String>, Unreadable> {
    let value = value.trim_start_matches('=');
    match value.strip_prefix("linker=") {
        Some(linker) => Ok(Some(linker.to_owned())),
        None => refuse(!is_harmless_code(value)).map(|()| None),
    }
}

/// The part of an option's value that is run, if any.
pub(super) fn command_of(program: &str, value: &str) -> Result<Option<String>, Unreadable> {
    // `name=value` in ways of writing that differ: quotes and lists are not told apart from the text.
    let set = || value.split_once('=').map(|(_, value)| value.trim_start_matches('='));
    let plain = |text: &str| text.replace(['[', ']', '"', '\'', ','], " ");
    match program {
        "gdb" => {
            let (first, rest) = value.trim().split_once(char::is_whitespace).unwrap_or((value, ""));
            match first.trim() {
                // A shell starts what is debugged.
                "r" | "run" | "start" => Ok(Some(rest.to_owned()).filter(|rest| !rest.is_empty())),
                first if GDB_COMMANDS.contains(&first) => Ok(None),
                _ => Err(Unreadable),
            }
        }
        // `-o Name=value`, `-o "Name value"`, `-S program`
        "autossh" | "scp" | "sftp" | "slogin" | "ssh" | "ssh-copy-id" => {
            let value = value.trim_start_matches(|c: char| !c.is_ascii_alphanumeric() && c != '/');
            let end = value.find(|c: char| !c.is_ascii_alphanumeric());
            let (name, rest) = value.split_at(end.unwrap_or(value.len()));
            let is_separator = |c: char| c.is_whitespace() || matches!(c, '=' | '"');
            let runs = rest.starts_with(is_separator)
                && (name.to_ascii_lowercase().ends_with("command")
                    || ["match", "xauthlocation"].contains(&name.to_ascii_lowercase().as_str()));
            if runs {
                return Ok(Some(rest.trim_matches(is_separator).to_owned()));
            }
            Ok(Some(value.to_owned()).filter(|_| !rest.trim_start().starts_with('=')))
        }
        "apt" | "apt-cache" | "apt-config" | "apt-get" | "apt-mark" | "aptitude" => {
            // `-o=NAME=value`
            let setting = value.trim_start_matches('=');
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (name, value) = (name.to_ascii_lowercase(), value.trim_start_matches('='));
            let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
            if has(&["options"]) {
                return Ok(Some(format!("dpkg {}", plain(value))));
            }
            let runs = ["bin", "command", "detect", "exec", "hook", "invoke", "method", "pkgs"];
            Ok(Some(plain(value)).filter(|_| has(&runs)))
        }
        "restic" => Ok(Some(set().unwrap_or(value).to_owned())),
        "cargo" | "hg" | "svn" | "wget" => Ok(Some(plain(set().unwrap_or(value)))),
        "rustc" | "rustdoc" => code_of_rustc(value),
        // Its macros run commands.
        "rpm" | "rpmbuild" if value.contains("%(") || value.contains("lua:") => Err(Unreadable),
        "rpm" | "rpmbuild" => Ok(None),
        name if COMPILERS.contains(&name) => Ok(Some(value.replace(',', " "))),
        _ => {
            let value = value.trim_start_matches('=');
            Ok(Some(value.strip_prefix("exec=").unwrap_or(value).to_owned()))
        }
    }
}
