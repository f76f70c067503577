//! What a policy says that its author can hardly have meant.

mod rivals;
mod slips;
mod spellings;

use glasshouse_model::syscall::name;
use glasshouse_model::{Effect, suggest};
use serde::Serialize;

use self::rivals::Rivals;
use crate::command::{Seen, base_name};
use crate::network::HostPattern;
use crate::policy::Policy;
use crate::rule::{Condition, Conditions, Demands, LabelPattern, Rule};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The rules do something else than they seem to.
    Warning,
    /// They do what they say; the file would be better with it.
    Advice,
}

/// Something found in a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// What kind of thing it is.
    pub kind: &'static str,
    /// Policy file.
    pub source: String,
    /// Line of the rule, from 1.
    pub line: u64,
    /// Rule.
    pub rule: String,
    /// What is odd.
    pub message: String,
    /// What to do.
    pub fix: String,
}

/// Tags that identities carry.
pub(crate) const TAGS: &[&str] = &["core_plugin", "trusted_write", "third_party"];
/// Labels that things carry; behind a colon stands a name.
const LABELS: &[&str] = &["user", "repo", "web", "ui", "model", "mcp:"];
/// The same for people.
pub(crate) const KNOWN_LABELS: &str = "labels are user, repo, web, ui, model and mcp:NAME";
/// Ways to change a file: a rule about one of them that leaves the others is no protection.
const WRITES: [&str; 4] = [name::FS_WRITE, name::FS_EDIT, name::FS_DELETE, name::MERGE_APPLY];

/// What decides where no rule allows.
const DEFAULT_DENY: &str = "default-deny";

/// Methods of requests.
const METHODS: [&str; 16] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
];

/// Most commands in other words that are looked for: a file of a machine has thousands of rules for one program.
const MAX_TRIED_WORDS: usize = 1_000_000;
/// Most rules that are compared with one another: of rules that name nothing in particular each may cover each.
const MAX_COMPARISONS: usize = 2_000_000;
/// Most other words for a command that one finding names.
const MAX_OTHER_WORDS: usize = 4;

/// Beginnings of syscalls that have no path in the workspace, no command, no host.
const NO_PATH: &[&str] = &[name::SHELL_RUN, name::TEST_RUN, name::NET_CONNECT, name::MODEL_CALL];
const NO_COMMAND: &[&str] = &["fs.", "search.", "net.", "model.", "ui.", "merge."];
const NO_HOST: &[&str] = &["fs.", "search.", "shell.", "test.", "git.", "merge."];

/// Looks a policy over: rules that never decide, exceptions that lift nothing, ways around a denial,
/// words that nothing carries, rules without examples and reasons.
///
/// ```
/// use glasshouse_policy::{Policy, Protected, Source, lint};
/// let text = "
/// capabilities:
///   - { name: a, match: { syscall: fs.write, path_glob: 'src/**' }, action: allow }
///   - { name: d, match: { path_glob: '**' }, action: deny, reason: nothing changes }
/// ";
/// let policy = Policy::compile(&[Source::new("p.yaml", text)], &Protected::default()).unwrap();
/// assert_eq!(lint(&policy)[0].kind, "unreachable_rule");
/// ```
#[must_use]
pub fn lint(policy: &Policy) -> Vec<Finding> {
    let mut found: Vec<Finding> = policy
        .warnings()
        .iter()
        .map(|warning| Finding {
            level: Level::Warning,
            kind: warning.kind,
            source: warning.source.clone(),
            line: warning.line,
            rule: warning.rule.clone(),
            message: warning.message.clone(),
            fix: warning.fix.clone(),
        })
        .collect();
    let mut linter = Linter {
        policy,
        rivals: Rivals::new(&policy.rules),
        runs: policy.rules.iter().find(|rule| {
            let commands = [name::SHELL_RUN, name::TEST_RUN];
            rule.effect < Effect::Deny && rule.when.paths().is_none() && is_about(rule, &commands)
        }),
        found: &mut found,
        tries: MAX_TRIED_WORDS,
        comparisons: MAX_COMPARISONS,
    };
    for rule in policy.rules.iter().filter(|rule| !is_generated(rule)) {
        if linter.comparisons > 0 {
            linter.reach(rule);
            linter.excepts(rule);
            linter.ways_around(rule);
            linter.tell_exhausted(rule);
        }
        linter.reads_of_commands(rule);
        linter.words(rule);
        linter.lacks(rule);
        linter.no_connection(rule);
        linter.other_words(rule);
        linter.slips(rule);
        linter.manners(rule);
    }
    found.extend(empty(policy));
    found.extend(without_model(policy));
    found.sort_by(|a, b| {
        (a.level, &a.source, a.line, a.kind, &a.message)
            .cmp(&(b.level, &b.source, b.line, b.kind, &b.message))
    });
    found
}

/// Files that say nothing. One loads, because it denies what nothing else allows; hardly anybody means that.
fn empty(policy: &Policy) -> impl Iterator<Item = Finding> {
    policy.silent_sources().map(|source| Finding {
        level: Level::Warning,
        kind: "empty_policy",
        source: source.to_owned(),
        line: 1,
        rule: DEFAULT_DENY.to_owned(),
        message: "the file holds no rule, so it allows nothing".to_owned(),
        fix: "begin with a copy of what `glasshouse policy show --shipped` prints".to_owned(),
    })
}

/// Files that let nobody ask a model, so that no session can work. What stands beside rules of the program is what
/// decides a session; a file that is tried alone may be a part of one.
fn without_model(policy: &Policy) -> impl Iterator<Item = Finding> {
    let opens = |source: usize| {
        let mut rules = policy.rules.iter().filter(move |rule| rule.source == source);
        rules.any(|rule| rule.effect != Effect::Deny && is_about(rule, &[name::MODEL_CALL]))
    };
    policy.whole_sources().filter(move |source| !opens(*source)).map(|source| Finding {
        level: Level::Advice,
        kind: "no_model",
        source: policy.source_name(source).to_owned(),
        line: 1,
        rule: DEFAULT_DENY.to_owned(),
        message: "no rule allows `model.call`, so no session can ask a model".to_owned(),
        fix: "allow it: { name: model, match: { syscall: model.call }, action: allow }".to_owned(),
    })
}

/// Whether calls of one of these names are among a rule's.
fn is_about(rule: &Rule, names: &[&str]) -> bool {
    rule.when.syscalls().is_none_or(|own| own.iter().any(|name| names.contains(&&**name)))
}

/// Whether a rule that allows opens connections.
fn opens(rule: &Rule) -> bool {
    rule.when.names_hosts() && is_about(rule, &[name::NET_CONNECT])
}

/// A group of hosts is a rule that nobody wrote as one.
fn is_generated(rule: &Rule) -> bool {
    rule.name.starts_with("network_whitelist.")
}

struct Linter<'a> {
    policy: &'a Policy,
    rivals: Rivals,
    /// A rule that lets commands run.
    runs: Option<&'a Rule>,
    found: &'a mut Vec<Finding>,
    /// How often a command is still looked for in other words.
    tries: usize,
    /// How often a rule is still compared with another.
    comparisons: usize,
}

impl<'a> Linter<'a> {
    fn add(&mut self, level: Level, kind: &'static str, rule: &Rule, message: String, fix: &str) {
        self.found.push(Finding {
            level,
            kind,
            source: self.policy.source_name(rule.source).to_owned(),
            line: rule.line,
            rule: rule.name.to_string(),
            message,
            fix: fix.to_owned(),
        });
    }

    /// The rules that could cover these conditions.
    fn rivals(&mut self, conditions: &Conditions) -> Vec<&'a Rule> {
        let ids = self.rivals.of(conditions);
        self.comparisons = self.comparisons.saturating_sub(ids.len());
        let rules: &'a [Rule] = &self.policy.rules;
        ids.into_iter().map(|id| &rules[id]).collect()
    }

    /// Tells that the rules from here on are not compared.
    fn tell_exhausted(&mut self, rule: &Rule) {
        if self.comparisons == 0 {
            let message = "this rule and those behind it are not compared with all others: there are too many \
                           that name no file, command or host"
                .to_owned();
            let fix = "name what a rule is for, or lint parts of the file";
            self.add(Level::Advice, "not_compared", rule, message, fix);
        }
    }

    fn place(&self, rule: &Rule) -> String {
        format!("`{}` ({}:{})", rule.name, self.policy.source_name(rule.source), rule.line)
    }

    /// Rules that never decide.
    fn reach(&mut self, rule: &Rule) {
        if rule.excepts.iter().any(|item| item.cover(&rule.when) && !item.same_calls(&rule.when)) {
            let message = "an except item lifts it for every call that it matches".to_owned();
            self.add(
                Level::Warning,
                "unreachable_rule",
                rule,
                message,
                "narrow the except item, or remove the rule",
            );
        }
        if rule.effect == Effect::Deny || rule.when.is_empty() {
            return;
        }
        let mut others = self.rivals(&rule.when);
        others.retain(|other| {
            !std::ptr::eq(*other, rule) && other.excepts.is_empty() && other.when.cover(&rule.when)
        });
        let stricter = others.iter().find(|other| {
            let spares = rule.demands == Demands::default();
            other.effect == Effect::Deny
                || (other.effect > rule.effect && spares && other.source == rule.source)
        });
        if let Some(other) = stricter {
            let verb = if other.effect == Effect::Deny { "denies" } else { "asks for review of" };
            let message = format!("{} {verb} every call that it matches", self.place(other));
            self.add(
                Level::Warning,
                "unreachable_rule",
                rule,
                message,
                "remove it, or give the stricter rule an except item",
            );
        } else if rule.effect == Effect::Allow
            && let Some(other) = others.iter().find(|other| {
                let plain = Demands::default();
                other.effect == Effect::Allow
                    && other.source == rule.source
                    && (&other.demands, &rule.demands) == (&plain, &plain)
                    // What names no host opens none, so it allows no connection that the rule allows.
                    && (other.when.names_hosts() || !opens(rule))
                    // Of two that say the same only the later one is too much.
                    && (!rule.when.cover(&other.when) || other.line < rule.line)
            })
        {
            let message = format!("{} allows every call that it matches", self.place(other));
            self.add(Level::Warning, "redundant_rule", rule, message, "remove it");
        }
    }

    /// Exceptions that lift nothing.
    fn excepts(&mut self, rule: &Rule) {
        for (at, item) in rule.excepts.iter().enumerate() {
            let number = at + 1;
            let fix = "remove the item";
            if item.exclude(&rule.when) {
                let message = format!("except item {number} never holds where `match` does");
                self.add(Level::Warning, "shadowed_except", rule, message, fix);
                continue;
            }
            let wider = rule.excepts.iter().enumerate().find(|(other, wide)| {
                *other != at && wide.cover(item) && (!item.cover(wide) || *other < at)
            });
            if let Some((wider, _)) = wider {
                let message =
                    format!("except item {} lifts all that item {number} lifts", wider + 1);
                self.add(Level::Warning, "shadowed_except", rule, message, fix);
                continue;
            }
            let is_around = |other: &&Rule| {
                !std::ptr::eq(*other, rule)
                    && rule.effect != Effect::Allow
                    && other.effect >= rule.effect
                    && other.excepts.is_empty()
            };
            let of_rule = self.rivals(&rule.when).into_iter().filter(is_around);
            let mut of_rule = of_rule.filter(|other| other.when.cover(&rule.when));
            let of_item = self.rivals(item).into_iter().filter(is_around);
            let mut of_item = of_item.filter(|other| other.when.cover(item));
            let caught = of_rule.next().or_else(|| of_item.next());
            if let Some(other) = caught {
                let verb = if other.effect == Effect::Deny { "denies" } else { "asks for review" };
                let message = format!(
                    "{} {verb} where except item {number} lifts the rule",
                    self.place(other)
                );
                let fix = "give that rule the same except item, or remove this one";
                self.add(Level::Warning, "shadowed_except", rule, message, fix);
            }
        }
    }

    /// A denial of one way to change a path that an allowing rule opens another way to.
    fn ways_around(&mut self, rule: &Rule) {
        let (Some(closed), Some(_)) = (rule.when.syscalls(), rule.when.paths()) else { return };
        if rule.effect != Effect::Deny || !closed.iter().any(|name| WRITES.contains(&&**name)) {
            return;
        }
        let others = self.rivals(&rule.when);
        let elsewhere = |name: &str| {
            others.iter().any(|other| {
                other.effect == Effect::Deny
                    && other.when.syscalls().is_none_or(|names| names.iter().any(|n| **n == *name))
                    && rest(&other.when)
                        .iter()
                        .all(|theirs| rest(&rule.when).iter().any(|mine| theirs.covers(mine)))
            })
        };
        let open: Vec<&str> = WRITES.into_iter().filter(|name| !elsewhere(name)).collect();
        let allowing = others.iter().find_map(|other| {
            let opens = |name: &&&str| {
                other.when.syscalls().is_none_or(|names| names.iter().any(|n| **n == ***name))
            };
            let wide = other.effect == Effect::Allow
                && rest(&other.when)
                    .iter()
                    .all(|theirs| rest(&rule.when).iter().any(|mine| theirs.covers(mine)));
            let ways: Vec<&str> = open.iter().filter(opens).copied().collect();
            (wide && !ways.is_empty()).then_some((other, ways))
        });
        if let Some((other, ways)) = allowing {
            let message = format!(
                "{} allows {} of the paths that it denies",
                self.place(other),
                ways.join(", ")
            );
            let fix =
                "list every way to change a file: [fs.write, fs.edit, fs.delete, merge.apply]";
            self.add(Level::Warning, "allow_wider_than_deny", rule, message, fix);
        }
    }

    /// A denial of reading a path beside a rule that allows commands, which open files by themselves.
    fn reads_of_commands(&mut self, rule: &Rule) {
        let denies = rule.effect == Effect::Deny && rule.when.paths().is_some();
        let Some(other) = self.runs.filter(|_| denies && is_about(rule, &[name::FS_READ])) else {
            return;
        };
        let message = format!(
            "commands of {} read these paths all the same: a rule about paths binds calls that name one, not \
             what a command opens",
            self.place(other)
        );
        let fix =
            "keep what no command may read out of the project, or let a person see each command";
        self.add(Level::Advice, "commands_read", rule, message, fix);
    }

    /// Words that nothing carries.
    fn words(&mut self, rule: &Rule) {
        let conditions = rule.when.iter().chain(rule.excepts.iter().flat_map(Conditions::iter));
        let mut unknown = Vec::new();
        for condition in conditions {
            match condition {
                Condition::CallerTag(tags) => unknown.extend(
                    tags.iter()
                        .filter(|tag| !TAGS.contains(&&***tag))
                        .map(|tag| ("unused_tag", format!("nobody carries the tag `{tag}`"))),
                ),
                Condition::Label(labels) => {
                    unknown.extend(labels.iter().filter_map(unknown_label).map(|label| {
                        ("unused_label", format!("nothing carries the label `{label}`"))
                    }))
                }
                _ => {}
            }
        }
        for (kind, message) in unknown {
            let fix = match kind {
                "unused_tag" => format!("tags are {}", TAGS.join(", ")),
                _ => KNOWN_LABELS.to_owned(),
            };
            self.add(Level::Warning, kind, rule, message, &fix);
        }
    }

    /// Conditions on what the calls that are named do not have.
    fn lacks(&mut self, rule: &Rule) {
        let Some(names) = rule.when.syscalls().filter(|names| !names.is_empty()) else { return };
        for condition in rule.when.iter() {
            let lacking: &[&str] = match condition {
                Condition::Path(_) => NO_PATH,
                Condition::Command(_) => NO_COMMAND,
                Condition::Host(_)
                | Condition::Port(_)
                | Condition::Method(_)
                | Condition::HttpPath(_) => NO_HOST,
                _ => continue,
            };
            if names.iter().all(|name| lacking.iter().any(|space| name.starts_with(space))) {
                let key = condition.key();
                let message =
                    format!("{} has no `{key}`, so the rule never matches", names.join(", "));
                let fix = "remove the condition, or name other syscalls";
                self.add(Level::Warning, "never_matches", rule, message, fix);
            }
        }
    }

    /// Words of a connection that no connection has.
    fn no_connection(&mut self, rule: &Rule) {
        for condition in rule.when.iter().chain(rule.excepts.iter().flat_map(Conditions::iter)) {
            let found = match condition {
                Condition::Method(methods) => {
                    methods.iter().filter_map(|one| odd_method(one)).collect()
                }
                Condition::Host(hosts) => hosts.iter().filter_map(odd_host).collect(),
                _ => Vec::new(),
            };
            for (message, fix) in found {
                self.add(Level::Warning, "never_matches", rule, message, &fix);
            }
        }
    }

    /// Options that the program of a command knows by other words, which a denial of these does not find.
    fn other_words(&mut self, rule: &Rule) {
        let wanted = rule.effect != Effect::Allow && self.tries > 0;
        let Some(prefixes) = rule.when.commands().filter(|_| wanted) else { return };
        // Of most commands nobody knows other words, and the comparison below is with all rules.
        if prefixes.iter().all(|words| spellings::others(words).is_empty()) {
            return;
        }
        let is_as_strict = |other: &&Rule| {
            let only_commands = other.when.iter().all(|condition| match condition {
                Condition::Syscall(names) => names.iter().any(|name| **name == *name::SHELL_RUN),
                condition => matches!(condition, Condition::Command(_)),
            });
            other.effect >= rule.effect && only_commands && other.excepts.is_empty()
        };
        let beside = self.policy.rules.iter().filter(is_as_strict);
        let beside = beside.filter_map(|other| other.when.commands()).flatten();
        let all: Vec<&Vec<Box<str>>> = prefixes.iter().chain(beside).collect();
        // One fault of a rule is told once, however many of its commands have it.
        let (mut named, mut missed): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for words in prefixes {
            let mut others = spellings::others(words);
            if others.is_empty() {
                continue;
            }
            let program = words.first().map(|word| base_name(word));
            let of_program =
                all.iter().filter(|other| other.first().map(|word| base_name(word)) == program);
            let found: Vec<Vec<Box<str>>> = of_program.map(|words| (*words).clone()).collect();
            self.tries = self.tries.saturating_sub(found.len() * others.len());
            if self.tries == 0 {
                break;
            }
            others.retain(|argv| !Seen::default().could_run(argv, &found));
            let others: Vec<String> =
                others.iter().map(|argv| format!("`{}`", argv.join(" "))).collect();
            if others.iter().any(|other| !missed.contains(other)) {
                named.push(format!("`{}`", words.join(" ")));
            }
            for other in others {
                if !missed.contains(&other) {
                    missed.push(other);
                }
            }
        }
        self.tell_other_words(rule, &named, missed);
    }

    fn tell_other_words(&mut self, rule: &Rule, named: &[String], mut missed: Vec<String>) {
        // What can be listed comes first.
        missed.sort_by_key(|other| spellings::stands_for_any(other));
        let Some(first) = missed.first() else { return };
        let (level, fix) = match spellings::stands_for_any(first) {
            // No rule can list these, so one that lists all others is as good as it can be.
            true => (
                Level::Advice,
                "no list has all such words: to find them, name the command without its options and let what is \
                 harmless pass by `except`",
            ),
            false => (
                Level::Warning,
                "list these words too, or name the command without its options and let what is harmless pass by \
                 `except`",
            ),
        };
        let told = &missed[..missed.len().min(MAX_OTHER_WORDS)];
        let more = match missed.len() - told.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "{} can be said as {}{more}, which it does not find",
            named.join(", "),
            told.join(", ")
        );
        self.add(level, "other_spelling", rule, message, fix);
    }

    fn manners(&mut self, rule: &Rule) {
        if rule.examples == 0 {
            let message = "it has no examples".to_owned();
            let fix = "add `examples` with a call that it matches and one that it does not";
            self.add(Level::Advice, "no_examples", rule, message, fix);
        }
        if rule.reason.is_none() && rule.effect != Effect::Allow {
            let message = "whoever is stopped by it is not told why".to_owned();
            self.add(Level::Advice, "no_reason", rule, message, "add a `reason`");
        }
    }
}

/// The conditions besides the syscall.
fn rest(conditions: &Conditions) -> Vec<&Condition> {
    conditions.iter().filter(|condition| !matches!(condition, Condition::Syscall(_))).collect()
}

pub(crate) fn unknown_label(label: &LabelPattern) -> Option<String> {
    let (text, shown) = match label {
        LabelPattern::Exact(text) => (text, text.to_string()),
        LabelPattern::Prefix(text) => (text, format!("{text}*")),
    };
    let prefix = matches!(label, LabelPattern::Prefix(_));
    let known = LABELS.iter().any(|known| {
        (known.ends_with(':') && text.starts_with(known))
            || (!prefix && **text == **known)
            || (prefix && known.starts_with(&**text))
    });
    (!known).then_some(shown)
}

/// A method that is nearly a known one. A server may know others of its own.
fn odd_method(method: &str) -> Option<(String, String)> {
    let upper = method.to_ascii_uppercase();
    let meant = suggest::nearest(&upper, METHODS.iter().copied())?;
    let is_known = METHODS.contains(&&*upper);
    let message = format!("no request has the method `{method}`");
    (!is_known).then(|| (message, format!("did you mean `{meant}`?")))
}

fn odd_host(host: &HostPattern) -> Option<(String, String)> {
    let address = host.misspelt_address()?;
    let message = format!("no connection goes to `{address}`: an address has one spelling");
    Some((message, "write the address as it is connected to, such as 127.0.0.1".to_owned()))
}
