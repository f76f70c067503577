//! What is known of programs that run others.

use crate::shell::{OTHER_SHELLS, SHELLS, ShellWord};

/// Programs that run the words behind them: any of these may be the command, or the value of an option.
const WRAPPERS: &[&str] = &[
    "aa-exec",
    "bear",
    "builtin",
    "bunx",
    "busybox",
    "bwrap",
    "capsh",
    "catchsegv",
    "ccache",
    "cgexec",
    "choom",
    "chpst",
    "chronic",
    "chroot",
    "chrt",
    "command",
    "cpulimit",
    "dbus-run-session",
    "debconf",
    "debconf-apt-progress",
    "direnv",
    "distrobox-enter",
    "distrobox-host-exec",
    "doas",
    "dpkg-architecture",
    "dtach",
    "dumb-init",
    "eatmydata",
    "entr",
    "env",
    "envdir",
    "exec",
    "fakeroot",
    "faketime",
    "fd",
    "fdfind",
    "find",
    "firejail",
    "flatpak-spawn",
    "flock",
    "gdb",
    "gdbserver",
    "genv",
    "gfind",
    "gnice",
    "gnohup",
    "gosu",
    "gpg-agent",
    "gstdbuf",
    "gtimeout",
    "gxargs",
    "heaptrack",
    "hyperfine",
    "i386",
    "i486",
    "i586",
    "i686",
    "ifne",
    "ionice",
    "kcov",
    "linux32",
    "linux64",
    "logsave",
    "ltrace",
    "memusage",
    "mise",
    "nice",
    "nocache",
    "nodemon",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pipenv",
    "pipesz",
    "pkexec",
    "poetry",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "reptyr",
    "retry",
    "rlwrap",
    "run0",
    "runcon",
    "runuser",
    "rustup",
    "s6-setuidgid",
    "sccache",
    "schedtool",
    "script",
    "setarch",
    "setlock",
    "setpriv",
    "setsid",
    "sg",
    "softlimit",
    "sotruss",
    "ssh-agent",
    "sshpass",
    "stdbuf",
    "strace",
    "su",
    "su-exec",
    "sudo",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-run",
    "systemd-socket-activate",
    "taskset",
    "time",
    "timeout",
    "tini",
    "torify",
    "torsocks",
    "toybox",
    "tsocks",
    "turbostat",
    "uclampset",
    "uname26",
    "unbuffer",
    "unshare",
    "uv",
    "valgrind",
    "watch",
    "watchexec",
    "x86_64",
    "xargs",
    "xterm",
    "xvfb-run",
];

/// Wrappers that hand words to a shell.
pub(super) const WITH_SHELL: &[&str] = &[
    "capsh",
    "entr",
    "env",
    "flock",
    "hyperfine",
    "nodemon",
    "run0",
    "runuser",
    "script",
    "sg",
    "su",
    "sudo",
    "watch",
    "watchexec",
    "xterm",
];

/// Wrappers whose command is found by rule: options of one letter without and with a value, and how many words stand
/// before the command.
pub(super) const PLAIN_WRAPPERS: &[(&str, &str, &str, usize)] = &[
    ("builtin", "", "", 0),
    ("ccache", "", "", 0),
    ("command", "p", "", 0),
    ("env", "i0v", "uC", 0),
    ("exec", "cl", "a", 0),
    ("nice", "", "n", 0),
    ("nohup", "", "", 0),
    ("sccache", "", "", 0),
    ("setsid", "cfw", "", 0),
    ("stdbuf", "", "ioe", 0),
    ("sudo", "AEHPSbkn", "CDRTghprtu", 0),
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
const NOT_READ: &[&str] = &[
    "at",
    "batch",
    "byobu",
    "crontab",
    "gdbtui",
    "lldb",
    "mispipe",
    "ncat",
    "nix-shell",
    "parallel",
    "pee",
    "run-parts",
    "scalar",
    "screen",
    "sem",
    "socat",
    "start-stop-daemon",
    "tmate",
    "tmux",
    "zellij",
];

/// Words of programs behind which a command stands.
const WORDS_BEFORE_COMMANDS: &[(&str, &[&str])] = &[
    ("asdf", &["env", "exec"]),
    ("bun", &["exec", "run", "x"]),
    ("bundle", &["exec"]),
    ("bundler", &["exec"]),
    ("cmake", &["-E"]),
    ("conda", &["run"]),
    ("distrobox", &["enter"]),
    ("hatch", &["run"]),
    ("ip", &["exec", "e", "ex", "exe"]),
    ("mamba", &["run"]),
    ("micromamba", &["run"]),
    ("nix", &["--command", "--run", "-c"]),
    ("opam", &["exec"]),
    ("npm", &["exec", "explore", "x"]),
    ("pdm", &["run"]),
    ("pixi", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("pyenv", &["exec"]),
    ("rbenv", &["exec"]),
    ("rr", &["record"]),
    ("yarn", &["dlx", "exec"]),
    ("yarnpkg", &["dlx", "exec"]),
];

/// Those of them with words of their own before the command.
pub(super) const TAKE_PLACES: &[&str] = &["asdf", "cmake", "distrobox", "hatch", "ip", "npm"];

/// Options before a subcommand that take the next word as value, with every program of these that has them.
const VALUES_FOLLOW: &[&str] = &["--cwd", "--dir", "--filter", "--prefix", "--workspace", "-C"];

/// Shells whose scripts a permissive rule looks into: where the system has them, never a program of
/// that name that lies elsewhere.
pub(super) const TRUSTED_SHELLS: &[&str] =
    &["sh", "bash", "dash", "/bin/sh", "/bin/bash", "/bin/dash", "/usr/bin/sh", "/usr/bin/bash"];

/// Options whose value is a command. A long one may be shortened, and each may stand with its value in one word.
const COMMAND_OPTIONS: &[(&str, &[&str])] = &[
    ("ack", &["--pager"]),
    ("ag", &["--pager"]),
    ("apt", &["--option", "-o"]),
    ("apt-cache", &["--option", "-o"]),
    ("apt-config", &["--option", "-o"]),
    ("apt-get", &["--option", "-o"]),
    ("apt-mark", &["--option", "-o"]),
    ("aptitude", &["--option", "-o"]),
    ("autossh", &["-o"]),
    ("bat", &["--pager"]),
    ("batcat", &["--pager"]),
    ("borg", &["--rsh", "--tar-filter"]),
    ("bsdtar", &["--use-compress-program"]),
    ("c++", &["-wrapper"]),
    ("c89", &["-wrapper"]),
    ("c99", &["-wrapper"]),
    ("cargo", &["--config"]),
    ("cc", &["-wrapper"]),
    ("cmake", &[]),
    ("cpp", &["-wrapper"]),
    ("dbus-run-session", &["--dbus-daemon"]),
    (
        "debuild",
        &["--check-command", "--root-command", "--rootcmd", "--sign-command", "-R", "-p", "-r"],
    ),
    ("diff3", &["--diff-program"]),
    ("dpkg", &["--post-invoke", "--pre-invoke", "--status-logger"]),
    ("dpkg-architecture", &["--command", "-c"]),
    (
        "dpkg-buildpackage",
        &["--check-command", "--root-command", "--rules-file", "--sign-command", "-R", "-p", "-r"],
    ),
    ("fzf", &["--bind", "--info-command", "--preview", "--with-shell"]),
    ("g++", &["-wrapper"]),
    ("gcc", &["-wrapper"]),
    ("gccgo", &["-wrapper"]),
    (
        "gdb",
        &[
            "-early-init-eval-command",
            "-eiex",
            "-eval-command",
            "-ex",
            "-iex",
            "-init-eval-command",
        ],
    ),
    ("gdc", &["-wrapper"]),
    ("gfortran", &["-wrapper"]),
    (
        "git",
        &[
            "--cc-cmd",
            "--commit-filter",
            "--env-filter",
            "--exec",
            "--extcmd",
            "--header-cmd",
            "--index-filter",
            "--msg-filter",
            "--open-files-in-pager",
            "--parent-filter",
            "--receive-pack",
            "--sendmail-cmd",
            "--setup",
            "--tag-name-filter",
            "--to-cmd",
            "--tree-filter",
            "--upload-pack",
            "-O",
            "-u",
            "-x",
        ],
    ),
    ("go", &["-exec", "-toolexec", "-vettool"]),
    ("gpg", GPG_OPTIONS),
    ("gpg2", GPG_OPTIONS),
    ("gpgtar", &["--gpg"]),
    ("hg", &["--command", "--config", "--program", "--remotecmd", "--ssh", "--tool", "-e"]),
    ("install", &["--strip-program"]),
    ("kcov", &["--bash-parser", "--python-parser"]),
    ("less", &[]),
    ("man", &["--html", "--pager", "-H", "-P"]),
    ("mariadb", &["--pager"]),
    ("mise", &["--command", "-c"]),
    ("mosh", &["--client", "--server", "--ssh"]),
    ("mysql", &["--pager"]),
    (
        "npm",
        &[
            "--browser",
            "--call",
            "--editor",
            "--git",
            "--script-shell",
            "--shell",
            "--viewer",
            "-c",
        ],
    ),
    ("npx", &["--call", "--script-shell", "-c"]),
    ("perf", &["--addr2line", "--objdump", "--post", "--pre"]),
    ("pip", &["--editor", "--python"]),
    ("pnpm", &["--script-shell", "--shell-mode", "-c"]),
    ("prove", &["--exec", "-e"]),
    ("psql", &[]),
    (
        "rclone",
        &["--auth-proxy", "--password-command", "--sftp-ssh", "--webdav-bearer-token-command"],
    ),
    ("restic", &["--option", "--password-command", "-o"]),
    ("rg", &["--hostname-bin", "--pre"]),
    ("rpm", &["--define", "--eval", "--pipe", "-D", "-E"]),
    ("rpmbuild", &["--define", "--eval", "-D", "-E"]),
    ("rlwrap", &["--filter", "-z"]),
    ("rr", &["--debugger", "-d"]),
    ("rsync", &["--rsh", "--rsync-path", "-e"]),
    ("rustc", &["--codegen", "-C"]),
    ("rustdoc", &["--codegen", "--runtool", "--test-builder", "--test-runtool", "-C"]),
    ("scp", &["-D", "-S", "-o"]),
    ("scriptlive", &["--command", "-c"]),
    ("sdiff", &["--diff-program"]),
    ("sftp", &["-D", "-S", "-o"]),
    ("slogin", &["-o"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("sqlite3", &[]),
    ("ssh", &["-o"]),
    ("ssh-copy-id", &["-o"]),
    ("strace", &["--output", "-o"]),
    ("svn", &["--config-option", "--diff-cmd", "--diff3-cmd", "--editor-cmd"]),
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
    ("wget", &["--execute", "--use-askpass", "-e"]),
    ("zip", &["--unzip-command", "-TT"]),
];

const GPG_OPTIONS: &[&str] =
    &["--agent-program", "--dirmngr-program", "--keyboxd-program", "--photo-viewer"];

/// Compilers that are installed under names with a target and a version.
pub(super) const COMPILERS: &[&str] =
    &["c++", "c89", "c99", "cc", "cpp", "g++", "gcc", "gccgo", "gdc", "gfortran"];

/// Programs that read more options from `@file`.
pub(super) const OPTION_FILES: &[&str] =
    &["cargo", "go", "java", "javac", "javadoc", "rustc", "rustdoc"];

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

/// The name that what is known of a program stands under: `gcc` for `x86_64-linux-gnu-gcc-12`.
pub(super) fn known_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let is_known = |name: &str| {
        command_options(name).is_some()
            || words_before_commands(name).is_some()
            || [OTHER_SHELLS, NOT_READ, WRAPPERS, SHELLS].iter().any(|names| names.contains(&name))
    };
    if is_known(&name) {
        return name;
    }
    let version = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    let is_numbered = name.ends_with(|c: char| c.is_ascii_digit());
    let unnumbered = if is_numbered { name.trim_end_matches(version) } else { &name };
    if is_known(unnumbered) {
        return unnumbered.to_owned();
    }
    let behind = unnumbered.rsplit('-').next().unwrap_or_default();
    // `rust-gdb`, `fakeroot-tcp`, `bash-static`
    let before = unnumbered.split('-').next().unwrap_or_default();
    // `bsd-csh`, `arm-none-eabi-gdb`
    let is_one_of_many = COMPILERS.contains(&behind) || matches!(behind, "csh" | "gdb" | "ksh");
    if is_one_of_many || (before == "rust" && is_known(behind)) {
        behind.to_owned()
    } else if matches!(before, "bash" | "fakeroot" | "gdb" | "lldb" | "mksh" | "sudo" | "zsh") {
        before.to_owned()
    } else {
        name
    }
}

/// What a program of this name does with its words.
pub(super) fn kind(name: &str) -> Kind {
    let name = known_name(name);
    let name = name.as_str();
    if SHELLS.contains(&name) {
        Kind::Shell
    } else if OTHER_SHELLS.contains(&name) || NOT_READ.contains(&name) {
        Kind::Unreadable
    } else if WRAPPERS.contains(&name) || name.starts_with("ld-") || name.starts_with("ld.so") {
        Kind::Wrapper
    } else if let Some(options) = command_options(name) {
        Kind::WithOptions(options)
    } else if name.starts_with("git-") || words_before_commands(name).is_some() {
        Kind::WithOptions(&[])
    } else {
        Kind::Plain
    }
}

/// Options of a program whose value is a command.
pub(super) fn command_options(name: &str) -> Option<&'static [&'static str]> {
    COMMAND_OPTIONS.iter().find(|(of, _)| *of == name).map(|(_, options)| *options)
}

/// Words of a program behind which a command stands.
pub(super) fn words_before_commands(name: &str) -> Option<&'static [&'static str]> {
    WORDS_BEFORE_COMMANDS.iter().find(|(of, _)| *of == name).map(|(_, words)| *words)
}

/// Whether a command of a program stands behind this word, which may be shortened.
pub(super) fn is_before_command(program: &str, word: &ShellWord) -> bool {
    let is_short_for =
        |whole: &&str, text: &str| *whole == text || (!text.is_empty() && is_word(whole, text));
    let before = words_before_commands(program).unwrap_or_default();
    word.text().is_some_and(|text| before.iter().any(|whole| is_short_for(whole, text)))
}

/// Whether a word that is not known may be the first of a program that is no option.
pub(super) fn may_hold_subcommand(words: &[ShellWord]) -> bool {
    subcommand(words).is_some_and(|at| words[at].text().is_none())
}

/// Where the first word of a program stands that is no option and no option's value, or what may hold one.
pub(super) fn subcommand(words: &[ShellWord]) -> Option<usize> {
    (1..words.len()).find(|at| {
        let is_value = words[at - 1].text().is_some_and(|text| VALUES_FOLLOW.contains(&text));
        let is_option = words[*at].beginning().starts_with('-');
        words[*at].is_several() || !(is_value || is_option)
    })
}

fn is_word(whole: &str, text: &str) -> bool {
    !whole.starts_with('-') && whole.starts_with(text)
}

/// What may be the value of an option of these in a word: `""` when it is the next word. Which letter of a word is an
/// option, and which belongs to the value of another, is not told apart.
pub(super) fn option_values<'w>(word: &'w str, options: &[&str]) -> Vec<&'w str> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        let matches = |option: &&&str| {
            // Some take one dash for two.
            let option = option.trim_start_matches('-');
            !name.is_empty() && (option == name || (option.len() > 1 && option.starts_with(name)))
        };
        return options.iter().find(matches).map(|_| value).into_iter().collect();
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
                // `zip -qTT`
                None if option == &"-TT" && word.starts_with('-') => {
                    word.split_once("TT").map(|(_, value)| value)
                }
                // `-eval-comm`
                _ if word.len() > 2 && option.starts_with(word) => Some(""),
                _ => word.strip_prefix(option),
            }
        })
        .collect()
}
