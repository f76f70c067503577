//! What is known of programs that run others.

use crate::shell::{OTHER_SHELLS, SHELLS, Unreadable};

/// Programs that run the words behind them: any of these may be the command, or the value of an option.
const WRAPPERS: &[&str] = &[
    "builtin",
    "bunx",
    "busybox",
    "bwrap",
    "capsh",
    "catchsegv",
    "choom",
    "chronic",
    "chroot",
    "chrt",
    "command",
    "cpulimit",
    "dbus-run-session",
    "direnv",
    "doas",
    "dpkg-architecture",
    "eatmydata",
    "entr",
    "env",
    "exec",
    "fakeroot",
    "faketime",
    "fd",
    "fdfind",
    "find",
    "firejail",
    "flock",
    "gdb",
    "gosu",
    "hyperfine",
    "i386",
    "i486",
    "i586",
    "i686",
    "ionice",
    "linux32",
    "linux64",
    "logsave",
    "ltrace",
    "mise",
    "nice",
    "nocache",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pipenv",
    "pkexec",
    "poetry",
    "prlimit",
    "proot",
    "rlwrap",
    "runcon",
    "runuser",
    "rustup",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "sg",
    "ssh-agent",
    "stdbuf",
    "strace",
    "su",
    "su-exec",
    "sudo",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "tmux",
    "toybox",
    "uname26",
    "unbuffer",
    "unshare",
    "uv",
    "valgrind",
    "watch",
    "x86_64",
    "xargs",
    "xvfb-run",
];

/// Wrappers that hand words to a shell.
pub(super) const WITH_SHELL: &[&str] = &[
    "capsh",
    "entr",
    "env",
    "flock",
    "hyperfine",
    "runuser",
    "screen",
    "script",
    "sg",
    "su",
    "sudo",
    "tmux",
    "watch",
];

/// Wrappers whose command is found by rule: options of one letter without and with a value, and how many words stand
/// before the command.
pub(super) const PLAIN_WRAPPERS: &[(&str, &str, &str, usize)] = &[
    ("builtin", "", "", 0),
    ("command", "p", "", 0),
    ("env", "i0v", "uC", 0),
    ("exec", "cl", "a", 0),
    ("nice", "", "n", 0),
    ("nohup", "", "", 0),
    ("setsid", "cfw", "", 0),
    ("stdbuf", "", "ioe", 0),
    ("time", "apv", "fo", 0),
    ("timeout", "v", "ks", 1),
    ("xargs", "0oprtx", "EILPadns", 0),
];

/// Long options of these that name no command and take no further word.
pub(super) const PLAIN_LONG_OPTIONS: &[&str] = &[
    "--adjustment=",
    "--arg-file=",
    "--chdir=",
    "--delimiter=",
    "--error=",
    "--foreground",
    "--format=",
    "--ignore-env",
    "--input=",
    "--kill-after=",
    "--max-args=",
    "--max-chars=",
    "--max-lines=",
    "--max-procs=",
    "--no-run-if-empty",
    "--null",
    "--output=",
    "--preserve-status",
    "--signal=",
    "--unset=",
    "--verbose",
];

/// Words of `find` and `fd` behind which a command stands.
pub(super) const BEFORE_COMMANDS: &[&str] =
    &["--exec", "--exec-batch", "-X", "-exec", "-execdir", "-ok", "-okdir", "-x"];

/// Programs whose words are commands in ways that are not read.
const NOT_READ: &[&str] = &["parallel", "run-parts", "start-stop-daemon"];

/// Shells whose scripts a permissive rule looks into: where the system has them, never a program of
/// that name that lies elsewhere.
pub(super) const TRUSTED_SHELLS: &[&str] =
    &["sh", "bash", "dash", "/bin/sh", "/bin/bash", "/bin/dash", "/usr/bin/sh", "/usr/bin/bash"];

/// Options whose value is a command. A long one may be shortened, and each may stand with its value in one word.
const COMMAND_OPTIONS: &[(&str, &[&str])] = &[
    ("bsdtar", &["--use-compress-program"]),
    ("c++", &["-wrapper"]),
    ("cc", &["-wrapper"]),
    ("dpkg", &["--post-invoke", "--pre-invoke", "--status-logger"]),
    ("g++", &["-wrapper"]),
    ("gcc", &["-wrapper"]),
    (
        "gdb",
        &[
            "--eval-command",
            "--init-eval-command",
            "-eval-command",
            "-ex",
            "-iex",
            "-init-eval-command",
        ],
    ),
    (
        "git",
        &[
            "--commit-filter",
            "--env-filter",
            "--exec",
            "--extcmd",
            "--index-filter",
            "--msg-filter",
            "--open-files-in-pager",
            "--parent-filter",
            "--receive-pack",
            "--tag-name-filter",
            "--tree-filter",
            "--upload-pack",
            "-O",
            "-u",
            "-x",
        ],
    ),
    ("install", &["--strip-program"]),
    ("npm", &["--call", "-c"]),
    ("mise", &["--command", "-c"]),
    ("npx", &["--call", "-c"]),
    ("perf", &["--post", "--pre"]),
    ("rg", &["--hostname-bin", "--pre"]),
    ("rsync", &["--rsh", "--rsync-path", "-e"]),
    ("scp", &["-S", "-o"]),
    ("sftp", &["-S", "-o"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("ssh", &["-o"]),
    (
        "tar",
        &[
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
            "-F",
            "-I",
        ],
    ),
    ("strace", &["--output", "-o"]),
    ("zip", &["--unzip-command", "-TT"]),
];

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
    "r",
    "run",
    "s",
    "start",
    "step",
    "up",
    "where",
];

/// What a program does with its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Shell,
    Unreadable,
    Wrapper,
    /// Options of it may be commands.
    WithOptions(&'static [&'static str]),
    Plain,
}

/// What a program of this name does with its words.
pub(super) fn kind(name: &str) -> Kind {
    let name = name.to_ascii_lowercase();
    // `zsh-5.9`, `ksh93`; the system's loader.
    let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if SHELLS.contains(&name.as_str()) {
        Kind::Shell
    } else if [&name, unnumbered].iter().any(|name| OTHER_SHELLS.contains(name))
        || NOT_READ.contains(&name.as_str())
    {
        Kind::Unreadable
    } else if WRAPPERS.contains(&name.as_str())
        || name.starts_with("ld-")
        || name.starts_with("ld.so")
    {
        Kind::Wrapper
    } else if name.starts_with("git-") {
        Kind::WithOptions(&[])
    } else {
        command_options(&name).map_or(Kind::Plain, Kind::WithOptions)
    }
}

/// Options of a program whose value is a command.
pub(super) fn command_options(name: &str) -> Option<&'static [&'static str]> {
    COMMAND_OPTIONS.iter().find(|(of, _)| *of == name).map(|(_, options)| *options)
}

/// The value of an option of these in a word: `Some("")` when it is the next word.
pub(super) fn option_value<'w>(word: &'w str, options: &[&str]) -> Option<&'w str> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        let matches = |option: &&&str| {
            let option = option.strip_prefix("--").unwrap_or_default();
            option == name || (name.len() > 2 && option.starts_with(name))
        };
        return options.iter().find(matches).map(|_| value);
    }
    let short = options.iter().filter(|option| !option.starts_with("--"));
    short
        .filter_map(|option| {
            let letter = option.strip_prefix('-').filter(|letters| letters.len() == 1);
            match letter {
                // Behind letters of other options.
                Some(letter) if word.starts_with('-') => {
                    word.split_once(letter).map(|(_, value)| value)
                }
                _ => word.strip_prefix(option),
            }
        })
        .min_by_key(|value| value.len())
}

/// The part of an option's value that is run, if any.
pub(super) fn command_of(program: &str, value: &str) -> Result<Option<String>, Unreadable> {
    match program {
        "gdb" => {
            let first = value.split_whitespace().next().unwrap_or_default();
            if GDB_COMMANDS.contains(&first) { Ok(None) } else { Err(Unreadable) }
        }
        // `-o Name=value`, `-o "Name value"`, `-S program`
        "ssh" | "scp" | "sftp" => {
            let (name, rest) = value.split_once([' ', '=', '\t']).unwrap_or(("command", value));
            let name = name.to_ascii_lowercase();
            let runs = name.ends_with("command") || name == "match";
            Ok(runs.then(|| rest.trim_start_matches([' ', '=', '\t']).to_owned()))
        }
        "c++" | "cc" | "g++" | "gcc" => Ok(Some(value.replace(',', " "))),
        _ => Ok(Some(value.strip_prefix("exec=").unwrap_or(value).to_owned())),
    }
}
