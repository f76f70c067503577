//! What git runs of others: settings that name a command, aliases, and commands for each step.
//!
//! A word that is none of git's own commands may be an alias, which is kept where nobody looks here, so it
//! counts as anything.

use super::Inner;
use super::values::refuse;
use crate::shell::{ShellWord, Unreadable};

/// Options before the command that take the next word as value.
pub(super) const OPTIONS_WITH_VALUE: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
    "--shallow-file",
];

/// Commands that every git of the last years has: no alias can stand for them. Those that exist to run programs of
/// others, and those that come in packages of their own, are left out.
const COMMANDS: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bugreport",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "credential",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fast-export",
    "fast-import",
    "fetch",
    "fetch-pack",
    "filter-branch",
    "fmt-merge-msg",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "get-tar-commit-id",
    "grep",
    "hash-object",
    "help",
    "index-pack",
    "init",
    "init-db",
    "interpret-trailers",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "mailinfo",
    "mailsplit",
    "maintenance",
    "merge",
    "merge-base",
    "merge-file",
    "merge-index",
    "merge-tree",
    "mergetool",
    "mktag",
    "mktree",
    "multi-pack-index",
    "mv",
    "name-rev",
    "notes",
    "pack-objects",
    "pack-refs",
    "patch-id",
    "prune",
    "prune-packed",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "receive-pack",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-pack",
    "shortlog",
    "show",
    "show-branch",
    "show-index",
    "show-ref",
    "sparse-checkout",
    "stage",
    "stash",
    "status",
    "stripspace",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "unpack-file",
    "unpack-objects",
    "update-index",
    "update-ref",
    "update-server-info",
    "upload-pack",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Options of `git config` whose value is the next word.
const CONFIG_OPTIONS_WITH_VALUE: &[&str] =
    &["--blob", "--comment", "--default", "--file", "--type", "-f"];

impl Inner {
    /// The commands of others that these words of git may run, those of options left out.
    pub(super) fn git(&mut self, words: &[ShellWord], open: bool) -> Result<(), Unreadable> {
        let Some(at) = command_at(words)? else {
            // Its command may be among the words that are not to be seen.
            return if open { Err(Unreadable) } else { Ok(()) };
        };
        let command = words[at].text().filter(|name| COMMANDS.contains(name)).ok_or(Unreadable)?;
        // Elsewhere these options have other meanings.
        let told = if command == "clone" { words.len() } else { at };
        self.git_settings(&words[..told])?;
        for address in words.iter().filter_map(|word| word.text()?.split("ext::").nth(1)) {
            // A setting that makes it of another.
            if address.to_ascii_lowercase().contains("insteadof") {
                return Err(Unreadable);
            }
            self.values.push(address.to_owned());
        }
        match command {
            "config" if open => Err(Unreadable),
            "config" => self.git_config(&words[at + 1..]),
            "submodule" => self.git_steps(words, at, "foreach", open),
            "bisect" => self.git_steps(words, at, "run", open),
            "merge-index" => self.wrapped(words, at + 1, false),
            // What `git push` is made of.
            "send-pack" => {
                let push = ["git", "push"].map(|word| ShellWord::Text(word.to_owned()));
                self.alias =
                    Some(push.into_iter().chain(words[at + 1..].iter().cloned()).collect());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A command that is run for each step stands behind a word of this name.
    fn git_steps(
        &mut self,
        words: &[ShellWord],
        at: usize,
        name: &str,
        open: bool,
    ) -> Result<(), Unreadable> {
        let behind = |word: &ShellWord| !word.beginning().starts_with('-');
        let Some(step) = words.iter().skip(at + 1).position(behind).map(|step| at + 1 + step)
        else {
            return if open { Err(Unreadable) } else { Ok(()) };
        };
        match words[step].text() {
            // `git bisect view log`: any command of git.
            Some("view" | "visualize") if name == "run" => {
                let is_option =
                    |word: &ShellWord| word.text().is_some_and(|text| text.starts_with('-'));
                refuse(open || !words[step + 1..].iter().all(is_option))
            }
            // An option that may be followed by that word in the same expansion.
            _ if words[at..step].iter().any(ShellWord::is_several) => Err(Unreadable),
            None => Err(Unreadable),
            Some(text) if text == name && open => Err(Unreadable),
            Some(text) if text == name => self.wrapped(words, step + 1, true),
            Some(_) => Ok(()),
        }
    }

    /// Settings given on the spot: `-c name=value`, `--config name=value` and their like.
    fn git_settings(&mut self, words: &[ShellWord]) -> Result<(), Unreadable> {
        for (at, word) in words.iter().enumerate().skip(1) {
            let begin = word.beginning();
            let joined = joined_setting(begin);
            // A word that is not known may be the option.
            let is_behind = words[at - 1].text().is_none_or(is_setting_option);
            if joined.is_none() && !is_behind {
                continue;
            }
            let setting = joined.unwrap_or(begin);
            let (key, value) =
                setting.split_once('=').map_or((setting, None), |(key, value)| (key, Some(value)));
            let key = key.to_ascii_lowercase();
            if opens_protocol(&key) {
                return Err(Unreadable);
            }
            let names_command = may_name_command(&key);
            let is_certain = joined.is_some() || words[at - 1].text().is_some();
            let is_from_variable = [text_of(words, at), text_of(words, at - 1)]
                .into_iter()
                .any(|text| text.starts_with("--config-"));
            match (word.text(), value) {
                // Neither its name nor its value is known.
                (None, None) if is_certain => return Err(Unreadable),
                (None, _) if names_command => return Err(Unreadable),
                (None, _) | (Some(_), None) => {}
                // The words behind an alias are behind what it stands for.
                (Some(_), Some(_)) if key.starts_with("alias.") => return Err(Unreadable),
                // The name of a variable, which may hold anything.
                (Some(_), Some(_)) if names_command && is_from_variable => return Err(Unreadable),
                (Some(_), Some(value)) if names_command => self.git_value(value),
                (Some(_), Some(_)) => {}
            }
        }
        Ok(())
    }

    /// Settings that are kept for later.
    fn git_config(&mut self, words: &[ShellWord]) -> Result<(), Unreadable> {
        let takes_next = |word: &ShellWord| {
            word.text().is_some_and(|text| CONFIG_OPTIONS_WITH_VALUE.contains(&text))
        };
        for (at, word) in words.iter().enumerate() {
            let begin = word.beginning();
            // What is harmless under one name may be something else under another, and one word may be both a
            // name and its value.
            let renames = begin == "rename-section" || begin.starts_with("--ren");
            if renames
                || opens_protocol(&begin.to_ascii_lowercase())
                || matches!(word, ShellWord::Many(_))
            {
                return Err(Unreadable);
            }
            let is_value = at.checked_sub(1).is_some_and(|before| takes_next(&words[before]));
            let key = begin.to_ascii_lowercase();
            // An alias is no command of git's own when it is called. A value may be taken for a name, not the
            // other way round: which options take one is not known for sure.
            let is_other = is_value
                || begin.starts_with('-')
                || !may_name_command(&key)
                || key.starts_with("alias.");
            if word.text().is_some() && is_other {
                continue;
            }
            for value in &words[at + 1..] {
                self.git_value(value.text().ok_or(Unreadable)?);
            }
        }
        Ok(())
    }

    fn git_value(&mut self, value: &str) {
        self.values.push(value.trim_start_matches('!').to_owned());
    }
}

/// Whether what stands at a place may be a command of git, or one that git runs.
pub(super) fn may_run_at(words: &[ShellWord], at: usize) -> bool {
    let Ok(Some(command)) = command_at(words) else { return true };
    let mut behind = words.iter().enumerate().skip(command + 1);
    let step = behind.find(|(_, word)| !word.beginning().starts_with('-'));
    let is_step = |wanted: &str| {
        step.is_none_or(|(place, word)| place >= at || word.text().is_none_or(|it| it == wanted))
    };
    at <= command
        || match words[command].text() {
            Some("bisect") => ["run", "view", "visualize"].into_iter().any(is_step),
            Some("submodule") => is_step("foreach"),
            None | Some("config" | "merge-index") => true,
            Some(_) => false,
        }
}

/// Where the command stands.
pub(super) fn command_at(words: &[ShellWord]) -> Result<Option<usize>, Unreadable> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let begin = word.beginning();
        if !begin.starts_with('-') {
            return Ok(Some(at));
        }
        let takes_next = word.text().is_some_and(|text| OPTIONS_WITH_VALUE.contains(&text));
        // Another folder of commands; words of which the last is the command.
        if begin.starts_with("--exec-path=")
            || word.is_several()
            || (takes_next && words.get(at + 1).is_some_and(ShellWord::is_several))
        {
            return Err(Unreadable);
        }
        at += 1 + usize::from(takes_next);
    }
    Ok(None)
}

/// `-c`, `--config`, `--config-env`, and what is short for them.
fn is_setting_option(word: &str) -> bool {
    word == "-c"
        || (word.len() > 2 && ["--config", "--config-env"].iter().any(|it| it.starts_with(word)))
}

/// The setting in the same word as its option.
fn joined_setting(word: &str) -> Option<&str> {
    match word.split_once('=') {
        Some((option, setting)) if option.starts_with("--") && is_setting_option(option) => {
            Some(setting)
        }
        _ => word.strip_prefix("-c").filter(|setting| !setting.is_empty()),
    }
}

/// Whether a setting may allow an address that is a command (`ext::`), which git else refuses.
fn opens_protocol(key: &str) -> bool {
    let plain = ["file", "git", "http", "https", "ssh"];
    key.strip_prefix("protocol.").is_some_and(|rest| {
        let name = rest.strip_suffix(".allow").unwrap_or(rest);
        name != "version" && !plain.contains(&name)
    })
}

fn text_of(words: &[ShellWord], at: usize) -> &str {
    words[at].text().unwrap_or_default()
}

/// Whether a setting of git may name a command: pagers, editors, helpers and ways to connect are among them.
fn may_name_command(key: &str) -> bool {
    let is_setting = key.contains('.') && !key.contains(char::is_whitespace);
    is_setting && !["user.", "color.", "init."].iter().any(|of| key.starts_with(of))
}
