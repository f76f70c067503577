//! `glasshouse config`: init, get, set. Only keys that are no matter of security.

use std::path::Path;

use glasshouse_kernel::config::PROJECT_FILE;
use glasshouse_kernel::{Config, codes};
use glasshouse_model::Exit;
use serde_json::Value;

use crate::args::ConfigCommand;
use crate::error::Error;
use crate::whole::{self, Links};
use crate::{home, input, output};

const TEMPLATE: &str = "\
# Glasshouse configuration of this project. Every key is optional.
# What an agent may do is decided by .glasshouse/policy.yaml, never here.

# provider: openai-compatible
# base_url: http://127.0.0.1:11434/v1
# model: a-model-name
# fallback_models: [another-model]      # asked when the first does not answer
# effort: medium                        # low, medium, high
# window_tokens: 100000                 # what the model can read at once
# schema_tokens: 3000                   # what the tools' schemas may take of it; dearer ones are loaded by a call

# test:
#   command: [\"sh\", \"tests/run.sh\"]   # detected for cargo, npm, pytest, go, Maven, make and shell
#   globs: [\"tests/**\"]
# source:
#   globs: [\"src/**\"]

# budget: { tokens: 2000000, cost: \"2.50\", time: 2h, calls: 500, errors: 50 }
# merge: { max_auto_lines: 500 }        # larger change sets ask a person
";

/// Runs the command.
pub(crate) fn run(command: ConfigCommand) -> Result<u8, Error> {
    let here = home::here()?;
    let file = here.join(PROJECT_FILE);
    match command {
        ConfigCommand::Init => {
            if file.exists() {
                return Err(Error::new(codes::OUTPUT_EXISTS, format!("{} exists", file.display()))
                    .why("init never overwrites")
                    .fix("edit it, or use `glasshouse config set`"));
            }
            write(&file, TEMPLATE)?;
            output::note(&format!("wrote {}", file.display()));
        }
        ConfigCommand::Get { key, json } => {
            let config = home::config(Config::default(), &here)?;
            let all = serde_json::to_value(&config).unwrap_or_default();
            let value = match &key {
                None => all,
                Some(key) => look_up(&all, key).cloned().ok_or_else(|| {
                    Error::new(codes::CONFIG_INVALID, format!("`{key}` is not set"))
                        .why("neither a flag, the environment nor a file sets it, or there is no such key")
                        .fix("`glasshouse config get` prints what is set here")
                })?,
            };
            match value {
                Value::String(text) if !json => output::data(&text),
                value => output::json_line(&value),
            }
        }
        ConfigCommand::Set { key, value } => set(&file, &key, &value)?,
    }
    Ok(Exit::Done.status())
}

fn look_up<'a>(all: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(all, |value, part| value.get(part))
}

/// Sets one value and leaves every other line as it is, comments included.
fn set(file: &Path, key: &str, value: &str) -> Result<(), Error> {
    Config::read(file)?;
    let text = match std::fs::read_to_string(file) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|e| input::unreadable(file, e))?,
    };
    // JSON is YAML that needs no quoting rules; other text is a string.
    let value: Value =
        serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let (name, line) = match key.split_once('.') {
        None => (key, format!("{key}: {value}")),
        Some((section, rest)) => {
            let current: Value = serde_saphyr::from_str(&text).unwrap_or_default();
            let mut fields = current.get(section).cloned().unwrap_or_else(|| serde_json::json!({}));
            let Some(map) = fields.as_object_mut() else {
                return Err(Error::new(codes::CONFIG_INVALID, format!("`{section}` has no parts"))
                    .why(format!("`{key}` names a part of a value that is not a section")));
            };
            map.insert(rest.to_owned(), value);
            (section, format!("{section}: {fields}"))
        }
    };
    let changed = replace_entry(&text, name, &line);
    let refused = |why: String| {
        Error::new(codes::CONFIG_INVALID, format!("cannot set `{key}`")).why(why).fix(
            "`glasshouse config init` in an empty directory writes a file that names every key",
        )
    };
    let parsed = Config::parse(&changed, key).map_err(|error| {
        let told = error.report();
        // What follows shows the place in a text that nobody wrote.
        refused(
            told.why.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
        )
    })?;
    parsed.of_project(key).map_err(|error| refused(error.report().why))?;
    write(file, &changed)
}

/// Replaces a top-level entry (its line and the indented lines below it), or appends it.
fn replace_entry(text: &str, name: &str, line: &str) -> String {
    let starts =
        |candidate: &str| candidate.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let mut out = Vec::new();
    let mut found = false;
    let mut inside = false;
    for old in text.lines() {
        if starts(old) {
            (found, inside) = (true, true);
            out.push(line);
        } else if inside && (old.starts_with([' ', '\t', '-']) || old.is_empty()) {
            // Part of the replaced entry.
        } else {
            inside = false;
            out.push(old);
        }
    }
    if !found {
        out.push(line);
    }
    out.join("\n") + "\n"
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    let fail = |e: std::io::Error| {
        Error::new(codes::PROJECT_UNREADABLE, format!("cannot write {}", file.display()))
            .why(e)
            .fix("make the directory one that you can write, or free space")
    };
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(fail)?;
    }
    // A repository may have made it a link to a file of the user's.
    whole::write(file, text, Links::Replaced).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::replace_entry;

    #[test]
    fn only_the_named_entry_changes() {
        let check = |text: &str, name: &str, line: &str, expected: &str| {
            assert_eq!(replace_entry(text, name, line), expected, "{text:?}");
        };
        check("", "model", "model: \"m\"", "model: \"m\"\n");
        check("# note\nmodel: a\n", "model", "model: \"b\"", "# note\nmodel: \"b\"\n");
        check("# model: a\n", "model", "model: 1", "# model: a\nmodel: 1\n");
        check("test:\n  command: [a]\n# end\n", "test", "test: {}", "test: {}\n# end\n");
        check("models: 1\n", "model", "model: 2", "models: 1\nmodel: 2\n");
    }
}
