//! What holds for any input at all. The same functions are run on random texts, on a corpus that is bent at
//! random, and by the fuzzer, which looks for inputs that reach new code.

#[path = "naive.rs"]
pub(crate) mod naive;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use glasshouse_model::{Call, CanonicalPath, Digest, Effect};
use glasshouse_policy::{
    CallSketch, GrantId, GrantTerms, PathPatterns, Policy, Protected, Request, SealedGrant,
    SealingKey, Source, decide, explain, lint,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A property of any bytes.
pub(crate) type Target = fn(&[u8]);

/// Every target, by the name of its fuzzer and its corpus.
pub(crate) const TARGETS: [(&str, Target); 5] = [
    ("policy-yaml", yaml),
    ("policy-call", call),
    ("policy-glob", glob),
    ("policy-grant", grant),
    ("policy-shell", shell),
];

/// Rules that allow what no built-in rule denies.
const ALLOW_ALL: &str = "[{ name: everything, match: {}, action: allow }]";

fn compile(text: &str) -> Option<Policy> {
    Policy::compile(&[Source::new("p.yaml", text)], &Protected::default()).ok()
}

fn loaded(rules: &str) -> Policy {
    compile(&format!("capabilities: {rules}")).expect("the rules load")
}

fn read_call(text: &str) -> Option<Call> {
    CallSketch::from_json(text).and_then(CallSketch::into_call).ok()
}

fn effect(policy: &Policy, call: &Call) -> Effect {
    decide(policy, &Request::new(call, 0)).decision.effect
}

/// Calls that a policy is asked about: each condition has one that has it and one that lacks it.
const CALLS: &[&str] = &[
    r#"{"syscall":"fs.read","path":"src/a.rs","caller":"agent","state":"planning"}"#,
    r#"{"syscall":"fs.read","path":".","caller":"plugin:linter","tenant":"lab"}"#,
    r#"{"syscall":"fs.write","path":"src/a","caller":"agent","label":["web","mcp:a"],"state":"code_writing","change":"source","size":200000}"#,
    r#"{"syscall":"fs.write","path":"tests/a/b.sh","caller":"agent:agent","state":"test_writing","change":"test","size":5}"#,
    r#"{"syscall":"fs.write","path":".glasshouse/policy.yaml","caller":"user"}"#,
    r#"{"syscall":"fs.delete","path":"docs/.hidden","caller":"plugin:formatter","caller_tag":["trusted_write","core_plugin"]}"#,
    r#"{"syscall":"fs.edit","path":"Dockerfile","caller":"agent","label":"repo","change":"mixed"}"#,
    r#"{"syscall":"net.connect","host":"a.example.org","method":"GET","http_path":"/v1/x","caller":"agent"}"#,
    r#"{"syscall":"net.connect","host":"docs.example.org","port":8443,"method":"CONNECT","label":"web","caller":"agent"}"#,
    r#"{"syscall":"net.connect","host":"10.0.0.1","port":80,"method":"post","http_path":"//v1/%61dmin","caller":"agent"}"#,
    r#"{"syscall":"policy.update","caller":"user"}"#,
    r#"{"syscall":"policy.update","caller":"agent"}"#,
    r#"{"syscall":"ui.render","caller":"agent","tenant":"lab","label":"ui"}"#,
    r#"{"syscall":"mcp.files/put","path":"x","caller":"plugin:files","size":"1MiB"}"#,
];

/// A text loads or is refused with a code and a place; what loads decides as its plain meaning says, can be
/// explained and linted, and means the same when it is read again. Behind a zero byte stand choices instead
/// of a text.
pub(crate) fn yaml(data: &[u8]) {
    match data {
        [0, choices @ ..] => one_policy(&rules_of(choices)),
        text => {
            if let Ok(text) = std::str::from_utf8(text) {
                one_policy(text);
            }
        }
    }
}

fn one_policy(text: &str) {
    let policy = match Policy::compile(&[Source::new("p.yaml", text)], &Protected::default()) {
        Err(error) => {
            let report = error.report();
            assert!(report.code.starts_with("policy_"), "{report:?}");
            return;
        }
        Ok(policy) => policy,
    };
    let again = compile(text).expect("what loaded loads again");
    assert_eq!(policy.version(), again.version());
    let _ = lint(&policy);
    let plain = naive::read(text);
    let turn = text.len() % (4 * CALLS.len());
    for (at, text_of_call) in CALLS.iter().enumerate() {
        let call = read_call(text_of_call).expect("a call of the table");
        let request = Request::new(&call, 0);
        let verdict = decide(&policy, &request);
        assert_eq!(verdict, decide(&again, &request), "{text_of_call}");
        let expected = plain.as_ref().and_then(|plain| naive::decide(plain, &call));
        if let Some(expected) = expected {
            assert_eq!(verdict.decision.effect, expected, "{text_of_call}\n{text}");
        }
        // Explaining tries thousands of other calls, so one of these has to do, and of four texts one.
        if at == turn {
            let explained = explain(&policy, &request);
            assert_eq!(explained.decision, verdict.decision, "{text_of_call}\n{text}");
        }
    }
}

/// Keys and values that rules are built from.
const CONDITIONS: &[&str] = &[
    "syscall: fs.write",
    "syscall: [fs.read, fs.write, fs.edit]",
    "syscall: net.connect",
    "syscall: []",
    "path_glob: 'src/**'",
    "path_glob: ['*.rs', '!src/**']",
    "path_glob: ['**/.*', 'd{ocs,oc}/', '/Docker*']",
    "path_glob: ['**']",
    "state_machine_state: test_writing",
    "state_machine_state: [planning, code_writing]",
    "caller: agent",
    "caller: [user, 'plugin:linter']",
    "caller_tag: trusted_write",
    "tenant: lab",
    "plugin: [formatter, files]",
    "label: web",
    "label: ['mcp:*', repo]",
    "host: ['*.example.org', a.example.org]",
    "host: '10.0.0.1'",
    "host: '*'",
    "method: [get, POST]",
    "port: 8443",
    "http_path: ['/v1/*', /ok]",
    "size_over: 100KiB",
    "change: [test, mixed]",
    "argv_prefix: cargo test",
];
const ACTIONS: [&str; 4] = ["allow", "deny", "require_review", "allow"];
const CONSTRAINTS: [&str; 7] = [
    "max_file_size: 100KB",
    "require_sandbox: L2",
    "require_sandbox: code-executor",
    "require_sandbox: integration-test",
    "require_capability_token: true",
    "rate: 3/m",
    "min_isolation: full",
];

/// A policy out of bytes, each of which chooses: most of them load, which few random texts do.
fn rules_of(data: &[u8]) -> String {
    let mut bytes = data.iter().take(400).map(|byte| usize::from(*byte));
    let mut next = |most: usize| bytes.next().unwrap_or(0) % most;
    let mut text = String::from("capabilities:\n");
    let rules = 1 + next(6);
    for at in 0..rules {
        let action = ACTIONS[next(ACTIONS.len())];
        // All hosts at once may be named where that makes the rule stricter.
        let mut conditions = |least: usize, strict: bool| {
            let mut chosen: BTreeMap<&str, &str> = BTreeMap::new();
            for _ in 0..least + next(4) {
                let condition = CONDITIONS[next(CONDITIONS.len())];
                let key = condition.split(':').next().unwrap_or_default();
                if strict || condition != "host: '*'" {
                    chosen.entry(key).or_insert(condition);
                }
            }
            if chosen.get("syscall") == Some(&"syscall: net.connect") {
                chosen.entry("host").or_insert("host: a.example.org");
            }
            chosen.into_values().collect::<Vec<_>>()
        };
        let when = conditions(0, action != "allow").join(", ");
        let excepts: Vec<String> = (0..when.len() % 3)
            .map(|_| conditions(1, action == "allow"))
            .filter(|conditions| !conditions.is_empty())
            .map(|conditions| format!("{{ {} }}", conditions.join(", ")))
            .collect();
        let demand = match next(CONSTRAINTS.len() + 4) {
            chosen if chosen < CONSTRAINTS.len() && action != "deny" => {
                format!(", constraints: {{ {} }}", CONSTRAINTS[chosen])
            }
            _ => String::new(),
        };
        text.push_str(&format!(
            "  - {{ name: r{at}, match: {{ {when} }}, action: {action}, except: [{}]{demand} }}\n",
            excepts.join(", ")
        ));
    }
    if next(3) == 1 {
        text.push_str("network_whitelist: { docs: ['docs.example.org:8443', '*.example.org'] }\n");
    }
    text
}

/// A call is refused, or decided as the plain meaning of the built-in rules says: under a policy that allows
/// everything no protected directory is changed and nobody but a person governs.
pub(crate) fn call(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(call) = read_call(text) else { return };
    if let Some(path) = &call.path {
        let parts = || path.as_str().split('/');
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        assert!(path.is_root() || parts().all(is_plain), "{path}");
        assert!(!path.as_str().chars().any(char::is_control), "{path:?}");
    }
    // Each input is asked of the same policies: reading them is most of what an input would cost.
    static ALL: LazyLock<Policy> = LazyLock::new(|| loaded(ALLOW_ALL));
    static NONE: LazyLock<Policy> = LazyLock::new(|| loaded("[]"));
    let decided = effect(&ALL, &call);
    assert_eq!(decided, effect(&ALL, &call), "{text}");
    let plain = naive::read(&format!("capabilities: {ALLOW_ALL}")).expect("it is YAML");
    if let Some(expected) = naive::decide(&plain, &call) {
        assert_eq!(decided, expected, "{text}");
    }
    // What nothing allows is never allowed, whatever the call says of itself.
    let revokes = call.syscall == "grant.revoke";
    assert!(revokes || effect(&NONE, &call) != Effect::Allow, "{text}");
}

/// A pattern and a path behind the first line end: the pattern, the index of a policy and a table of all
/// places agree.
pub(crate) fn glob(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((pattern, path)) = text.split_once('\n') else { return };
    // The table has no patience for more.
    if text.len() > 1_000 {
        return;
    }
    let Ok(path) = CanonicalPath::parse(path) else { return };
    let Ok(patterns) = PathPatterns::parse([pattern]) else { return };
    let found = patterns.matches(&path);
    if let Some(expected) = naive::glob_holds(pattern, path.as_str()) {
        assert_eq!(found, expected, "{pattern} {path}");
    }
    let list = serde_json::to_string(&[pattern]).expect("a text is JSON");
    let rule = format!(
        "capabilities: [{{ name: r, match: {{ syscall: fs.read, path_glob: {list} }}, action: allow }}]"
    );
    let Some(policy) = compile(&rule) else { return };
    let call = read_call(r#"{"syscall":"fs.read"}"#).expect("a call").at(path.clone());
    assert_eq!(effect(&policy, &call) == Effect::Allow, found, "{pattern} {path}");
}

const KEY: [u8; 32] = [7; 32];
const TAG_BYTES: usize = 32;

/// Bytes that the key did not seal open nothing, also where they are nearly those of a grant; and what it
/// did seal opens only as the bytes of its own terms.
pub(crate) fn grant(data: &[u8]) {
    let key = SealingKey::from_bytes(&KEY);
    assert!(SealedGrant::open(&key, data).is_err(), "bytes from nowhere opened");
    let sealed = [sample(1, None), sample(2, Some("src/**"))];
    let changed = bent(&sealed, data);
    if !sealed.contains(&changed) {
        assert!(SealedGrant::open(&key, &changed).is_err(), "a bent grant opened: {data:?}");
    }
    // The holder of the key could seal anything: reading it is not guessing.
    let mut mac = Hmac::<Sha256>::new_from_slice(&KEY).expect("a key of any length");
    let body = if changed.len() > TAG_BYTES { &changed[..changed.len() - TAG_BYTES] } else { data };
    mac.update(body);
    let resealed = [body, mac.finalize().into_bytes().as_slice()].concat();
    if let Ok(grant) = SealedGrant::open(&key, &resealed) {
        assert_eq!(grant.to_bytes(), resealed);
        let again = SealedGrant::seal(&key, grant.terms().clone()).expect("its terms are good");
        assert_eq!(again.to_bytes(), resealed, "two texts of one grant");
    }
}

fn sample(id: u8, glob: Option<&str>) -> Vec<u8> {
    let terms = GrantTerms {
        id: GrantId::from_random([id; 16]),
        sandbox: "sb-1".to_owned(),
        syscall: "fs.write".to_owned(),
        path_glob: glob.map(str::to_owned),
        max_uses: 3,
        expires_us: 1_000,
        policy_version: Digest::of(b"policy"),
        ancestors: vec![GrantId::from_random([9; 16])],
    };
    let grant = SealedGrant::seal(&SealingKey::from_bytes(&KEY), terms);
    grant.expect("the terms are good").to_bytes()
}

/// A grant as the bytes say: three at a time are a change, a place and a value.
fn bent(sealed: &[Vec<u8>; 2], data: &[u8]) -> Vec<u8> {
    let mut bytes = sealed[usize::from(data.first().copied().unwrap_or(0)) % 2].clone();
    for change in data.get(1..).unwrap_or_default().chunks_exact(3).take(40) {
        let [what, place, value] = [change[0], change[1], change[2]];
        let at = usize::from(place) % (bytes.len() + 1);
        match what % 7 {
            0 if at < bytes.len() => bytes[at] ^= 1 << (value % 8),
            1 if at < bytes.len() => bytes[at] = value,
            2 => bytes.insert(at, value),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            // The beginning of one grant, the end of the other.
            5 => {
                let other = &sealed[usize::from(value) % 2];
                bytes.truncate(at);
                bytes.extend(other.get(at..).unwrap_or_default());
            }
            6 => bytes.extend(std::iter::repeat_n(value, usize::from(place % 8))),
            _ => {}
        }
    }
    bytes
}

/// A restrictive rule finds what a permissive one takes for a command, and what it finds it finds as well
/// wherever the script is put; the strictest part of a script decides; and of a script of plain words both
/// rules say what cutting it at its separators says.
pub(crate) fn shell(data: &[u8]) {
    let Ok(script) = std::str::from_utf8(data) else { return };
    if script.len() > 4_000 {
        return;
    }
    let found = is_found(&["sh", "-c", script]);
    let taken = is_allowed(&["sh", "-c", script]);
    assert!(found || !taken, "allowed as the command and not found as it: {script:?}");
    if found {
        let quoted = format!("sh -c '{}'", script.replace('\'', r"'\''"));
        assert!(is_found(&["env", "sh", "-c", script]), "{script:?}");
        assert!(is_found(&["sh", "-c", &quoted]), "{quoted:?}");
    }
    // A command behind it, whatever stands before: found, or the whole is unreadable, which counts as found.
    if !script.contains("zz-last") {
        let longer = format!("{script}\n\nzz-last x\n");
        assert!(is_last_found(&["sh", "-c", &longer]), "{longer:?}");
        assert!(!is_allowed(&["sh", "-c", &longer]), "{longer:?}");
    }
    if let Some(commands) = plain_commands(script) {
        let begins = |words: &Vec<&str>| words.starts_with(&["rm", "-rf"]);
        let all = !commands.is_empty() && commands.iter().all(begins);
        assert_eq!(taken, all, "{script:?}");
        assert!(found || !commands.iter().any(begins), "{script:?}");
        // Nothing of it is `rm`, so nothing of it is that with options.
        let names_it = commands.iter().flatten().any(|word| word.contains("rm"));
        assert!(names_it || !found, "{script:?}");
    }
}

fn shell_call(argv: &[&str]) -> Call {
    let sketch = serde_json::json!({ "syscall": "shell.run", "argv": argv });
    read_call(&sketch.to_string()).expect("a command is a call")
}

fn is_allowed(argv: &[&str]) -> bool {
    static RULE: LazyLock<Policy> = LazyLock::new(|| {
        loaded("[{ name: a, match: { syscall: shell.run, argv_prefix: rm -rf }, action: allow }]")
    });
    effect(&RULE, &shell_call(argv)) == Effect::Allow
}

fn is_found(argv: &[&str]) -> bool {
    static RULES: LazyLock<Policy> = LazyLock::new(|| unless("rm -rf"));
    effect(&RULES, &shell_call(argv)) == Effect::Deny
}

fn is_last_found(argv: &[&str]) -> bool {
    static RULES: LazyLock<Policy> = LazyLock::new(|| unless("zz-last"));
    effect(&RULES, &shell_call(argv)) == Effect::Deny
}

/// Allows everything but a command.
fn unless(prefix: &str) -> Policy {
    loaded(&format!(
        "[{{ name: a, match: {{}}, action: allow }}, {{ name: d, match: {{ argv_prefix: {prefix} }}, action: deny }}]"
    ))
}

/// Words that mean something to a shell, and commands that are read with their words or not at all.
const SPECIAL: &[&str] = &[
    "if",
    "then",
    "elif",
    "else",
    "fi",
    "do",
    "done",
    "while",
    "until",
    "for",
    "select",
    "case",
    "esac",
    "in",
    "function",
    "time",
    "coproc",
    "alias",
    "hash",
    "eval",
    "trap",
    "export",
    "declare",
    "typeset",
    "readonly",
    "local",
    "git",
    "su",
    ".",
    "bind",
    "compgen",
    "complete",
    "compopt",
    "enable",
    "fc",
    "getopts",
    "history",
    "jobs",
    "let",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "set",
    "shopt",
    "source",
    "test",
    "unalias",
    "unset",
    "wait",
    "capsh",
    "dpkg-architecture",
    "gdb",
    "npm",
    "run-parts",
    "start-stop-daemon",
    "systemd-cat",
    "systemd-inhibit",
    "tar",
    "elvish",
    "es",
    "ion",
    "murex",
    "nu",
    "oil",
    "rc",
];

/// The commands of a script that is nothing but plain words and separators. `None` for any other, and where a
/// word means something to a shell or runs another one.
fn plain_commands(script: &str) -> Option<Vec<Vec<&str>>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " -._/;&|\n".contains(c);
    // Doubled separators are errors or mean something else.
    let is_odd =
        [";;", ";&", "&&&", "|||", ";|", "&;", "|;"].iter().any(|odd| script.contains(odd));
    // What begins like an option is one to the shell.
    if is_odd || script.starts_with('-') || !script.chars().all(is_plain) {
        return None;
    }
    let commands: Vec<Vec<&str>> = script
        .split([';', '&', '|', '\n'])
        .map(|command| command.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
        .collect();
    let name = |word: &&str| word.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    // `gcc-12`, `x86_64-linux-gnu-gcc`, `bash-static`
    let runs_others = |name: &str| {
        let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c));
        let behind = unnumbered.rsplit('-').next().unwrap_or_default();
        let before = unnumbered.split('-').next().unwrap_or_default();
        [name, unnumbered, behind, before]
            .iter()
            .any(|name| SPECIAL.contains(name) || WRAPPERS.contains(name) || name.ends_with("sh"))
            || name.starts_with('-')
            || name.starts_with("ld")
    };
    let is_read = commands.iter().flatten().all(|word| !runs_others(&name(word)) || word == &"-rf");
    is_read.then_some(commands)
}

/// Programs that run what stands behind them; scripts with these are not for cutting at separators.
const WRAPPERS: &[&str] = &[
    "aa-exec",
    "ack",
    "ag",
    "apt",
    "apt-cache",
    "apt-get",
    "apt-mark",
    "aptitude",
    "asdf",
    "at",
    "bat",
    "batcat",
    "batch",
    "bear",
    "borg",
    "bsdtar",
    "builtin",
    "bun",
    "bundle",
    "bunx",
    "busybox",
    "bwrap",
    "byobu",
    "c++",
    "c89",
    "c99",
    "cargo",
    "catchsegv",
    "cc",
    "ccache",
    "cgexec",
    "choom",
    "chpst",
    "chronic",
    "chroot",
    "chrt",
    "cmake",
    "command",
    "conda",
    "cpp",
    "cpulimit",
    "crontab",
    "dbus-run-session",
    "diff3",
    "direnv",
    "distrobox",
    "distrobox-enter",
    "distrobox-host-exec",
    "doas",
    "dpkg",
    "dtach",
    "dumb-init",
    "eatmydata",
    "entr",
    "env",
    "envdir",
    "exec",
    "fakeroot",
    "fakeroot-sysv",
    "fakeroot-tcp",
    "faketime",
    "fd",
    "fdfind",
    "find",
    "firejail",
    "flatpak-spawn",
    "flock",
    "fzf",
    "g++",
    "gcc",
    "gccgo",
    "gdb",
    "gdbserver",
    "gdc",
    "genv",
    "gfind",
    "gfortran",
    "gnice",
    "gnohup",
    "go",
    "gosu",
    "gpg",
    "gpg-agent",
    "gpg2",
    "gstdbuf",
    "gtimeout",
    "gxargs",
    "hatch",
    "heaptrack",
    "hg",
    "hyperfine",
    "i386",
    "i486",
    "i586",
    "i686",
    "ifne",
    "install",
    "ionice",
    "ip",
    "kcov",
    "less",
    "linux32",
    "linux64",
    "logsave",
    "ltrace",
    "mamba",
    "man",
    "memusage",
    "micromamba",
    "mise",
    "ncat",
    "nice",
    "nix",
    "nix-shell",
    "nocache",
    "nodemon",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "pdm",
    "perf",
    "pipenv",
    "pipesz",
    "pixi",
    "pkexec",
    "pnpm",
    "poetry",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "pyenv",
    "rbenv",
    "rclone",
    "reptyr",
    "restic",
    "retry",
    "rg",
    "rlwrap",
    "rpm",
    "rpmbuild",
    "rr",
    "rsync",
    "run0",
    "runcon",
    "runuser",
    "rustc",
    "rustdoc",
    "rustup",
    "s6-setuidgid",
    "sccache",
    "schedtool",
    "scp",
    "screen",
    "script",
    "sdiff",
    "sem",
    "setarch",
    "setlock",
    "setpriv",
    "setsid",
    "sftp",
    "sg",
    "socat",
    "softlimit",
    "sort",
    "sotruss",
    "split",
    "ssh",
    "ssh-agent",
    "sshpass",
    "stdbuf",
    "strace",
    "su-exec",
    "sudo",
    "svn",
    "systemd-run",
    "systemd-socket-activate",
    "taskset",
    "timeout",
    "tini",
    "tmate",
    "tmux",
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
    "wget",
    "x86_64",
    "xargs",
    "xterm",
    "xvfb-run",
    "yarn",
    "zellij",
    "zip",
];
