//! Variables: which of them programs or the shell itself obey, and which hold numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::{OTHER_SHELLS, Read, SHELLS, Unreadable, is_name, options};

/// Names that no program takes a command, a file or an address from.
const HARMLESS: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "FORCE_COLOR",
    "GOARCH",
    "GOOS",
    "IFS",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "REPLY",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
    "TZ",
];

/// Names of places: what is found there may change, so nothing is allowed behind them, but no value is a command.
const PLACES: &[&str] = &[
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "GOBIN",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "HOME",
    "JAVA_HOME",
    "KUBECONFIG",
    "LD_LIBRARY_PATH",
    "NODE_PATH",
    "NVM_DIR",
    "OLDPWD",
    "PATH",
    "PKG_CONFIG_PATH",
    "PNPM_HOME",
    "PWD",
    "PYTHONPATH",
    "RUSTUP_HOME",
    "TEMP",
    "TMP",
    "TMPDIR",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Names of what is built, and of places in a network: no program runs their value by itself.
const NEVER_RUN: &[&str] = &[
    "BRANCH",
    "BUILD",
    "BUILD_ID",
    "CGO_ENABLED",
    "COMMIT",
    "DATE",
    "DEBUG",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "HOST",
    "IMAGE",
    "LOG_LEVEL",
    "NAME",
    "PORT",
    "REVISION",
    "SHA",
    "SOURCE_DATE_EPOCH",
    "TAG",
    "TARGET",
    "TIMESTAMP",
    "URL",
    "VERBOSE",
    "VERSION",
];
/// How such names end.
const NEVER_RUN_ENDS: &[&str] = &[
    "_BRANCH",
    "_COMMIT",
    "_DATE",
    "_DSN",
    "_HASH",
    "_HOST",
    "_ID",
    "_LEVEL",
    "_NAME",
    "_PASSWORD",
    "_PORT",
    "_REF",
    "_REGION",
    "_SECRET",
    "_SHA",
    "_TAG",
    "_TOKEN",
    "_URI",
    "_URL",
    "_USER",
    "_VERSION",
];

/// Names that a shell itself obeys: it runs their value, counts with it, or reads scripts otherwise because of it.
/// Options of make and tar are among them, since they name commands, and what editors and Lua run when they start.
const OBEYED: &[&str] = &[
    "CHILD_MAX",
    "COPROC",
    "DIRSTACK",
    "ENV",
    "EXECIGNORE",
    "EXINIT",
    "FCEDIT",
    "FIGNORE",
    "FUNCNAME",
    "FUNCNEST",
    "GLOBIGNORE",
    "GIT_ALLOW_PROTOCOL",
    "GIT_CONFIG_PARAMETERS",
    "GNUMAKEFLAGS",
    "GROUPS",
    "HOSTFILE",
    "IGNOREEOF",
    "INPUTRC",
    "INSIDE_EMACS",
    "LINENO",
    "LOCPATH",
    "LUA_INIT",
    "MAKEFLAGS",
    "MAIL",
    "MAILCHECK",
    "MAILPATH",
    "MAPFILE",
    "OPTARG",
    "OPTERR",
    "OPTIND",
    "PIPESTATUS",
    "POSIXLY_CORRECT",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "RANDOM",
    "SECONDS",
    "SHELLOPTS",
    "SRANDOM",
    "TAR_OPTIONS",
    "TEXTDOMAIN",
    "TEXTDOMAINDIR",
    "TIMEFORMAT",
    "TMOUT",
    "VIMINIT",
    "auto_resume",
    "histchars",
];
/// How names begin that a shell obeys.
const OBEYED_BEGINNINGS: &[&str] = &[
    "BASH",
    "COMP_",
    "COMPREPLY",
    "EPOCH",
    "GIT_CONFIG_KEY_",
    "GIT_CONFIG_VALUE_",
    "GIT_TRACE",
    "HIST",
    "LUA_INIT_",
    "PROMPT_",
    "READLINE_",
];

/// Names that are always numbers, whatever is done to them.
const COUNTERS: &[&str] = &["LINENO", "OPTIND", "PPID", "RANDOM", "SECONDS"];

/// Parts of names of commands and addresses that an environment usually has, so that setting them is exporting them.
const INHERITED: &[&str] = &[
    "ADDOPTS",
    "BROWSER",
    "EDITOR",
    "GIT_",
    "GOFLAGS",
    "JAVA_TOOL_OPTIONS",
    "LD_",
    "LESSOPEN",
    "NPM_",
    "PAGER",
    "RUSTFLAGS",
    "SHELL",
    "VISUAL",
    "_OPTS",
    "npm_",
];

fn is_obeyed(name: &str) -> bool {
    OBEYED.contains(&name) || OBEYED_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}

/// Whether a name tells in which characters a shell reads its script, and the value is none that every shell reads
/// alike: in some languages a part of a letter is a backslash.
fn is_other_language(name: &str, value: &Value) -> bool {
    let is_plain = match value {
        Value::Number(names) => names.is_empty(),
        Value::Text(text) => is_plain_language(text),
        Value::Unknown => false,
    };
    is_language(name) && !is_plain
}

fn is_language(name: &str) -> bool {
    matches!(name, "LANG" | "LANGUAGE") || name.starts_with("LC_")
}

fn is_plain_language(value: &str) -> bool {
    let name = value.to_ascii_lowercase();
    matches!(name.as_str(), "" | "c" | "posix")
        || [".utf-8", ".utf8"].iter().any(|end| name.ends_with(end))
}

/// Whether programs look for names like this one, if it is exported.
fn is_looked_for(name: &str) -> bool {
    !name.contains(|c: char| c.is_ascii_lowercase())
        || name.to_ascii_lowercase().contains("proxy")
        || INHERITED.iter().any(|part| name.contains(part))
}

/// Whether no program runs what a variable of this name holds.
fn is_never_run(name: &str) -> bool {
    let is_inherited = INHERITED.iter().any(|part| name.contains(part));
    NEVER_RUN.contains(&name)
        || (!is_inherited && NEVER_RUN_ENDS.iter().any(|end| name.ends_with(end)))
}

/// What an exported variable may be to programs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exported<'v> {
    /// Nothing that is run.
    Plain,
    /// A command, and words may follow it.
    Command(&'v str),
}

/// What `name=value` is in the environment of a program; shells obey some names.
pub(crate) fn exported<'v>(name: &str, value: &'v str) -> Read<Exported<'v>> {
    let is_language = is_language(name) && !is_plain_language(value);
    if is_obeyed(name) || is_language {
        return Err(Unreadable);
    }
    // make expands whatever is in its environment.
    if is_expanded(value) {
        return Err(Unreadable);
    }
    let is_plain = is_no_command(name) || is_number(value) || is_started_alone(name, value);
    if is_plain {
        return Ok(Exported::Plain);
    }
    if options::may_run(name, value) { Err(Unreadable) } else { Ok(Exported::Command(value)) }
}

/// Whether a shell that counts with this value would run something in it, quotes or not.
fn is_expanded(value: &str) -> bool {
    ["$(", "${", "$[", "`"].iter().any(|begin| value.contains(begin))
}

/// Whether no value of a variable of this name is a command.
fn is_no_command(name: &str) -> bool {
    HARMLESS.contains(&name) || PLACES.contains(&name) || is_never_run(name)
}

/// Whether it does not matter to what a variable of this name is set for a program.
pub(crate) fn takes_any_value(name: &str) -> bool {
    is_no_command(name) && !is_language(name) && !is_obeyed(name)
}

/// A program that others start with no words that matter: a shell, and a cache before the compiler.
fn is_started_alone(name: &str, value: &str) -> bool {
    let program = value.rsplit('/').next().unwrap_or_default();
    match name {
        "SHELL" => SHELLS.contains(&program) || OTHER_SHELLS.contains(&program),
        "CARGO_BUILD_RUSTC_WRAPPER" | "RUSTC_WORKSPACE_WRAPPER" | "RUSTC_WRAPPER" => {
            is_cache(program)
        }
        _ => false,
    }
}

/// Whether a program only keeps what the compiler behind it makes.
pub(crate) fn is_cache(program: &str) -> bool {
    matches!(program, "ccache" | "sccache")
}

/// Digits, with or without a sign; nothing at all counts as zero.
pub(super) fn is_number(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}

/// What a variable is set to.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Digits, if these variables are.
    Number(Vec<String>),
    Text(String),
    Unknown,
}

/// Every variable that a script sets, and what it does with them.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// Nothing is set but by the script.
    alone: bool,
    set: Vec<(String, Value)>,
    /// What `$1` and the others may be.
    parameters: Vec<Value>,
    /// Words behind names that may be functions.
    given: Vec<(String, Vec<Value>)>,
    unset: BTreeSet<String>,
    /// Arrays whose places have names.
    named_places: BTreeSet<String>,
    exported: BTreeSet<String>,
    /// Names that are expanded once more, as arithmetic does, unless they are numbers.
    counted: BTreeSet<String>,
    arrays: BTreeSet<String>,
    /// Names that commands like `declare` set.
    declared: BTreeSet<String>,
}

/// What a script's variables are to the programs that it runs.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Whether a program may look at one of them.
    pub(super) sets: bool,
    /// Values that a program may run.
    pub(super) commands: Vec<String>,
}

/// How `$1` and the others are called here.
pub(super) const PARAMETER: &str = "1";
/// What the numbers of the places of an array are called here: this and its name.
pub(super) const PLACES_OF: &str = "!";

/// Names that hold numbers, or what nobody sets.
pub(super) struct Numbers<'v> {
    alone: bool,
    numbers: BTreeSet<&'v str>,
    set: BTreeSet<&'v str>,
    named_places: &'v BTreeSet<String>,
}

impl Numbers<'_> {
    pub(super) fn hold(&self, name: &str) -> bool {
        self.numbers.contains(name) || COUNTERS.contains(&name) || self.is_given(name)
    }

    /// Whether the script itself sets it to numbers.
    fn are_set(&self, name: &str) -> bool {
        self.numbers.contains(name) || COUNTERS.contains(&name) || name.starts_with(PLACES_OF)
    }

    /// Whether it is no matter of the script: numbers of places, and what the machine has in its environment.
    fn is_given(&self, name: &str) -> bool {
        if let Some(array) = name.strip_prefix(PLACES_OF) {
            return !self.named_places.contains(array) && !is_obeyed(array);
        }
        // A shell sets these itself.
        let is_told = is_obeyed(name) || [PLACES, HARMLESS].iter().any(|of| of.contains(&name));
        self.alone && !self.set.contains(name) && !is_told && name != "_"
    }
}

impl Variables {
    pub(super) fn new(alone: bool) -> Self {
        Self { alone, ..Self::default() }
    }

    /// `$1` and the others become these.
    pub(super) fn parameters(&mut self, values: impl Iterator<Item = Value>) {
        self.parameters.extend(values);
    }

    /// These words stand behind a name.
    pub(super) fn behind(&mut self, name: &str, values: Vec<Value>) {
        self.given.push((name.to_owned(), values));
    }

    /// What stands behind the names of functions are their parameters.
    pub(super) fn give(&mut self, functions: &BTreeSet<String>) {
        for (name, values) in std::mem::take(&mut self.given) {
            if functions.contains(&name) {
                self.parameters.extend(values);
            }
        }
    }

    pub(super) fn unset(&mut self, name: &str) -> Read<()> {
        self.unset.insert(name.to_owned());
        self.set(name, Value::Number(Vec::new()))
    }

    pub(super) fn is_unset(&self, name: &str) -> bool {
        self.unset.contains(name)
    }

    pub(super) fn name_places(&mut self, name: &str) {
        self.named_places.insert(name.to_owned());
    }

    pub(super) fn set(&mut self, name: &str, value: Value) -> Read<()> {
        let is_counter = matches!(name, "OPTIND" | "SECONDS")
            && matches!(&value, Value::Number(of) if of.is_empty());
        let is_refused = (is_obeyed(name) && !is_counter) || is_other_language(name, &value);
        if !is_name(name) || is_refused {
            return Err(Unreadable);
        }
        self.set.push((name.to_owned(), value));
        Ok(())
    }

    pub(super) fn export(&mut self, name: &str) -> Read<()> {
        if is_obeyed(name) {
            return Err(Unreadable);
        }
        self.exported.insert(name.to_owned());
        Ok(())
    }

    pub(super) fn declare(&mut self, name: &str) {
        self.declared.insert(name.to_owned());
    }

    pub(super) fn array(&mut self, name: &str) {
        self.arrays.insert(name.to_owned());
    }

    /// The value of this name is counted with.
    pub(super) fn count(&mut self, name: &str) {
        if !COUNTERS.contains(&name) {
            self.counted.insert(name.to_owned());
        }
    }

    pub(super) fn outcome(&self, numbers: &Numbers<'_>) -> Read<Outcome> {
        if self.arrays.intersection(&self.declared).next().is_some() {
            // A text that is assigned there may be read as the words of an array.
            return Err(Unreadable);
        }
        let is_torn = self.counts_given(numbers) && self.holds_expansions();
        if is_torn || self.counted.iter().any(|name| !numbers.hold(name)) {
            return Err(Unreadable);
        }
        let mut outcome = Outcome::default();
        for (name, value) in &self.set {
            let is_harmless = HARMLESS.contains(&name.as_str());
            let exports =
                self.exported.contains(name) || INHERITED.iter().any(|part| name.contains(part));
            outcome.sets |= (exports || is_looked_for(name)) && !is_harmless;
            if !exports {
                continue;
            }
            match value {
                Value::Text(text) if is_expanded(text) => return Err(Unreadable),
                _ if is_no_command(name) => {}
                // What the machine has there may be a command.
                Value::Number(names) if names.iter().all(|of| numbers.are_set(of)) => {}
                Value::Text(text) if options::may_run(name, text) => return Err(Unreadable),
                Value::Text(text) if text.is_empty() || is_started_alone(name, text) => {}
                Value::Text(text) => outcome.commands.push(text.clone()),
                _ => return Err(Unreadable),
            }
        }
        Ok(outcome)
    }

    /// Whether what is counted may come from outside, where it may be the name of a variable.
    fn counts_given(&self, numbers: &Numbers<'_>) -> bool {
        let parameters = self.parameters.iter().map(|value| (PARAMETER, value));
        let values = self.set.iter().map(|(name, value)| (name.as_str(), value));
        let values: Vec<_> = values.chain(parameters).collect();
        let mut todo: Vec<&str> = self.counted.iter().map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = todo.pop() {
            if !seen.insert(name) {
                continue;
            }
            // No machine has names without a capital letter that hold other names.
            let is_machines =
                numbers.is_given(name) && name.contains(|c: char| c.is_ascii_uppercase());
            if is_name(name) && (!self.alone || is_machines) {
                return true;
            }
            let own = values.iter().filter(|(of, _)| *of == name);
            for (_, value) in own {
                if let Value::Number(of) = value {
                    todo.extend(of.iter().map(String::as_str));
                }
            }
        }
        false
    }

    /// Whether a variable of the script may hold what counting would run.
    fn holds_expansions(&self) -> bool {
        let may_expand = |value: &Value| match value {
            Value::Number(_) => false,
            Value::Text(text) => text.contains('[') || is_expanded(text),
            Value::Unknown => true,
        };
        self.parameters.iter().chain(self.set.iter().map(|(_, value)| value)).any(may_expand)
    }

    /// Names that are set to numbers and to nothing else.
    pub(super) fn numbers(&self) -> Numbers<'_> {
        let parameters = self.parameters.iter().map(|value| (PARAMETER, value));
        let values: Vec<(&str, &Value)> =
            self.set.iter().map(|(name, value)| (name.as_str(), value)).chain(parameters).collect();
        let set: BTreeSet<&str> = values.iter().map(|(name, _)| *name).collect();
        let named_places = &self.named_places;
        let mut held = Numbers { alone: self.alone, numbers: set.clone(), set, named_places };
        let mut used: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        // The shell sets the first itself; the others come from outside, with any value, where a script sets them
        // on one of its ways only.
        let given = HARMLESS.iter().chain(PLACES).copied();
        let mut others: Vec<&str> = std::iter::once("_").chain(given).collect();
        // Another command may set these to what nobody looked at.
        let given = values.iter().map(|(name, _)| *name).filter(|name| is_never_run(name));
        others.extend(given.chain([PARAMETER]).filter(|_| !self.alone));
        for (name, value) in values {
            match value {
                Value::Number(of) => {
                    for of in of {
                        used.entry(of).or_default().push(name);
                        if !held.hold(of) {
                            others.push(of);
                        }
                    }
                }
                Value::Text(_) | Value::Unknown => others.push(name),
            }
        }
        while let Some(other) = others.pop() {
            held.numbers.remove(other);
            others.extend(used.remove(other).unwrap_or_default());
        }
        held
    }
}
