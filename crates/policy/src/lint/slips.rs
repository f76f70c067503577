//! What is written by somebody who means something else: words in the wrong kind of list, names without what is
//! below them, demands that no call can meet.

use glasshouse_model::syscall::name;
use glasshouse_model::{Effect, PrincipalKind};

use super::{Level, Linter, is_about};
use crate::glob::{Glob, Segment};
use crate::rule::{CommandPatterns, Condition, Conditions, KNOWN_SYSCALLS, Rule};

/// Programs, and words that are one of their commands. Those that are programs of their own are left out.
const COMMANDS: [(&str, &[&str]); 8] = [
    (
        "git",
        &[
            "add", "checkout", "clone", "commit", "fetch", "log", "merge", "pull", "push",
            "rebase", "reset", "show", "stash", "status", "switch", "tag",
        ],
    ),
    (
        "cargo",
        &["add", "build", "check", "clippy", "doc", "fmt", "publish", "run", "test", "update"],
    ),
    ("npm", &["ci", "exec", "install", "publish", "run", "start", "test", "update"]),
    ("yarn", &["add", "install", "publish", "run", "test"]),
    ("pip", &["download", "install", "uninstall"]),
    ("docker", &["build", "compose", "exec", "pull", "push", "run"]),
    ("kubectl", &["apply", "delete", "exec", "get", "patch", "scale"]),
    ("go", &["build", "generate", "get", "install", "mod", "run", "test", "vet"]),
];

/// Names without a dot that are files and no directories.
const FILES: [&str; 6] = ["makefile", "gradlew", "mvnw", "configure", "justfile", "rust-toolchain"];

const TLS_PORT: u16 = 443;
const CONNECT: &str = "CONNECT";

/// Whether a syscall is one of a kind.
type OfKind = fn(&str) -> bool;

fn is_uncounted(syscall: &str) -> bool {
    name::UNCOUNTED.contains(&syscall)
}

/// Whether the kernel does it in its own process.
fn is_in_process(syscall: &str) -> bool {
    syscall != name::NET_CONNECT
        && KNOWN_SYSCALLS.contains(&syscall)
        && !name::SANDBOXED.contains(&syscall)
}

/// What no deadline ends: a commit waits for people.
fn is_untimed(syscall: &str) -> bool {
    (is_uncounted(syscall) && is_in_process(syscall)) || syscall == name::GIT_COMMIT
}

fn is_connection(syscall: &str) -> bool {
    syscall == name::NET_CONNECT
}

impl Linter<'_> {
    pub(super) fn slips(&mut self, rule: &Rule) {
        for conditions in rule.excepts.iter().chain([&rule.when]) {
            for condition in conditions.iter() {
                match condition {
                    Condition::Command(commands) => self.words_of_commands(rule, commands),
                    Condition::Path(paths) => self.plain_names(rule, &paths.include),
                    _ => {}
                }
            }
            self.at_odds(rule, conditions);
        }
        self.unmet_demands(rule);
        self.tunnels(rule);
    }

    /// A command cut into two, and two programs in one name.
    fn words_of_commands(&mut self, rule: &Rule, commands: &CommandPatterns) {
        let key = if commands.exact { "argv" } else { "argv_prefix" };
        for words in &commands.prefixes {
            let Some(program) = words.first().filter(|word| word.contains(',')) else { continue };
            let list: Vec<&str> = program.split(',').filter(|name| !name.is_empty()).collect();
            let message = format!("no program has a comma in its name, as `{program}` does");
            let fix = format!("write several as a list: {key}: [{}]", list.join(", "));
            self.add(Level::Warning, "never_matches", rule, message, &fix);
        }
        let single: Option<Vec<&str>> = commands
            .prefixes
            .iter()
            .map(|words| if let [word] = &**words { Some(&**word) } else { None })
            .collect();
        let Some(single) = single else { return };
        let split = COMMANDS.iter().find_map(|(program, known)| {
            let rest: Vec<&str> = single.iter().filter(|word| *word != program).copied().collect();
            let is_split = rest.len() + 1 == single.len() && !rest.is_empty();
            (is_split && rest.iter().all(|word| known.contains(word))).then_some((*program, rest))
        });
        let Some((program, rest)) = split else { return };
        let whole: Vec<String> = rest.iter().map(|word| format!("{program} {word}")).collect();
        let meant = match whole.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!(
            "`{key}: [{program}, {}]` names {} commands, of which one is enough: every `{program}`, and a program \
             `{}`",
            rest.join(", "),
            single.len(),
            rest[0],
        );
        self.add(
            Level::Warning,
            "split_command",
            rule,
            message,
            &format!("did you mean `{key}: {meant}`?"),
        );
    }

    /// A name that looks like that of a directory, without what is below it.
    fn plain_names(&mut self, rule: &Rule, globs: &[Glob]) {
        let is_below = |name: &str| {
            globs.iter().any(|glob| match glob.segments() {
                [Segment::AnyDepth, Segment::Literal(first), _, ..]
                | [Segment::Literal(first), _, ..] => **first == *name,
                _ => false,
            })
        };
        let names: Vec<&str> = globs
            .iter()
            .filter_map(|glob| match glob.segments() {
                [Segment::AnyDepth, Segment::Literal(name)] => Some(&**name),
                _ => None,
            })
            .filter(|name| {
                let is_plain =
                    |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
                name.bytes().all(is_plain) && !FILES.contains(name) && !is_below(name)
            })
            .collect();
        for name in names {
            let message =
                format!("`{name}` is an entry of that name, and nothing that is below it");
            let fix = format!("where it is a directory, write `{name}/**`");
            self.add(Level::Advice, "plain_name", rule, message, &fix);
        }
    }

    /// Conditions of which no call has both.
    fn at_odds(&mut self, rule: &Rule, conditions: &Conditions) {
        let has = |found: fn(&Condition) -> bool| conditions.iter().any(found);
        let only_tunnels = has(|condition| match condition {
            Condition::Method(methods) => {
                !methods.is_empty() && methods.iter().all(|one| one.eq_ignore_ascii_case(CONNECT))
            }
            _ => false,
        });
        if only_tunnels && has(|condition| matches!(condition, Condition::HttpPath(_))) {
            let message = "a tunnel (`CONNECT`) has no `http_path`, so both never hold".to_owned();
            self.add(Level::Warning, "never_matches", rule, message, "remove one of the two");
        }
        let no_plugin = has(|condition| match condition {
            Condition::Caller(callers) => {
                !callers.is_empty() && callers.iter().all(|one| one.kind != PrincipalKind::Plugin)
            }
            _ => false,
        });
        if no_plugin && has(|condition| matches!(condition, Condition::Plugin(_))) {
            let message = "only a plugin meets `plugin`, and `caller` names none".to_owned();
            let fix = "remove `caller`, or write `caller: plugin`";
            self.add(Level::Warning, "never_matches", rule, message, fix);
        }
    }

    /// Constraints that calls of the rule cannot meet: a session denies what `check` says is allowed.
    fn unmet_demands(&mut self, rule: &Rule) {
        let Some(names) = rule.when.syscalls() else { return };
        let among = |is_one: OfKind| {
            let found: Vec<&str> =
                names.iter().map(|name| &**name).filter(|name| is_one(name)).collect();
            (!found.is_empty()).then(|| found.join(", "))
        };
        let demands = &rule.demands;
        let each: [(bool, OfKind, &str, &str); 5] = [
            (demands.rate.is_some(), is_uncounted, "rate", "nothing counts"),
            (demands.max_duration_ms.is_some(), is_untimed, "max_duration", "nothing ends in time"),
            (
                demands.max_duration_ms.is_some(),
                is_connection,
                "max_duration",
                "nothing ends in time a command's",
            ),
            (
                demands.min_isolation.is_some(),
                is_in_process,
                "min_isolation",
                "no sandbox isolates",
            ),
            (demands.sandbox.is_some(), is_in_process, "require_sandbox", "no sandbox runs"),
        ];
        for (is_made, is_one, key, why) in each {
            if let Some(names) = among(is_one).filter(|_| is_made) {
                let message = format!("{why} {names}, so with `{key}` a session denies it");
                let fix = format!("give these syscalls a rule without `{key}`");
                self.add(Level::Warning, "unmet_constraint", rule, message, &fix);
            }
        }
    }

    /// A denial by path or method, beside a rule that lets tunnels to the host pass.
    fn tunnels(&mut self, rule: &Rule) {
        let looks = rule.when.iter().find(|condition| match condition {
            Condition::HttpPath(_) => true,
            Condition::Method(methods) => !names_tunnel(methods),
            _ => false,
        });
        let Some(looks) = looks.filter(|_| rule.effect != Effect::Allow) else { return };
        if !is_about(rule, &[name::NET_CONNECT]) || !has_port(rule, TLS_PORT) {
            return;
        }
        let rules = &self.policy.rules;
        self.comparisons = self.comparisons.saturating_sub(rules.len());
        let shuts = |other: &Rule| {
            let plain = other.when.iter().all(|condition| match condition {
                Condition::Syscall(_) | Condition::Host(_) => true,
                Condition::Method(methods) => names_tunnel(methods),
                _ => false,
            });
            other.effect != Effect::Allow
                && plain
                && other.excepts.is_empty()
                && hosts_of(other, rule)
        };
        let lets = |other: &&Rule| {
            let blind = other.when.iter().any(|condition| match condition {
                Condition::HttpPath(_) => true,
                Condition::Method(methods) => !names_tunnel(methods),
                _ => false,
            });
            other.effect == Effect::Allow
                && other.when.names_hosts()
                && is_about(other, &[name::NET_CONNECT])
                && !blind
                && has_port(other, TLS_PORT)
                && !other.when.exclude(&rule.when)
        };
        if rules.iter().any(|other| is_about(other, &[name::NET_CONNECT]) && shuts(other)) {
            return;
        }
        let Some(other) = rules.iter().find(lets) else { return };
        let seen =
            if matches!(looks, Condition::Method(_)) { "has that method" } else { "has no path" };
        let message = format!(
            "it does not bind what a command sends by TLS: a tunnel (CONNECT) {seen}, and {} lets tunnels pass",
            self.place(other)
        );
        let fix = "deny `method: CONNECT` to the host too, or open it by a rule that names methods or paths";
        self.add(Level::Warning, "tunnel_unseen", rule, message, fix);
    }
}

fn names_tunnel(methods: &[Box<str>]) -> bool {
    methods.iter().any(|method| method.eq_ignore_ascii_case(CONNECT))
}

fn has_port(rule: &Rule, port: u16) -> bool {
    rule.when.iter().all(|condition| match condition {
        Condition::Port(ports) => ports.contains(&port),
        _ => true,
    })
}

/// Whether one rule is about all hosts that another is about.
fn hosts_of(one: &Rule, other: &Rule) -> bool {
    let hosts = |rule: &Rule| rule.when.iter().find(|it| matches!(it, Condition::Host(_))).cloned();
    hosts(one).is_none_or(|mine| hosts(other).is_some_and(|theirs| mine.covers(&theirs)))
}
