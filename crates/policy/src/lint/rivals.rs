//! Which rules could cover which: those that name the same command, directory or host, and those that name none.
//!
//! Comparing each rule with each other one takes a square of time, and files that a machine wrote have thousands.

use std::collections::HashMap;

use crate::glob::{Glob, Segment};
use crate::network::HostPattern;
use crate::rule::{Condition, Conditions, Rule};

/// What a rule has to name, so that another which names something can cover it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Anchor {
    /// First word of a command.
    Program(Box<str>),
    /// First name of a path.
    Directory(Box<str>),
    /// A whole name.
    Host(Box<str>),
}

/// Rules by what they name.
pub(super) struct Rivals {
    named: HashMap<Anchor, Vec<usize>>,
    /// Rules that may cover any.
    wild: Vec<usize>,
    count: usize,
}

impl Rivals {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let mut rivals = Self { named: HashMap::new(), wild: Vec::new(), count: rules.len() };
        for (id, rule) in rules.iter().enumerate() {
            match rule.when.iter().find_map(anchors) {
                None => rivals.wild.push(id),
                Some(anchors) => {
                    for anchor in anchors {
                        let ids = rivals.named.entry(anchor).or_default();
                        if ids.last() != Some(&id) {
                            ids.push(id);
                        }
                    }
                }
            }
        }
        rivals
    }

    /// Every rule that could cover these conditions, in their order; more may be among them.
    pub(super) fn of(&self, conditions: &Conditions) -> Vec<usize> {
        // What never matches is covered by everything.
        if conditions.iter().any(Condition::is_dead) {
            return (0..self.count).collect();
        }
        let named =
            conditions.iter().filter_map(first).filter_map(|anchor| self.named.get(&anchor));
        let mut ids: Vec<usize> = self.wild.iter().chain(named.flatten()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// What a condition has to find one of, so that it covers another of its key. `None` where one of its items may
/// cover others than those that name the same.
fn anchors(condition: &Condition) -> Option<Vec<Anchor>> {
    match condition {
        Condition::Command(commands) => {
            commands.prefixes.iter().map(|words| program(words)).collect()
        }
        Condition::Path(paths) => paths.include.iter().map(directory).collect(),
        Condition::Host(hosts) => hosts.iter().map(host).collect(),
        _ => None,
    }
}

/// What the first item of a condition names.
fn first(condition: &Condition) -> Option<Anchor> {
    match condition {
        Condition::Command(commands) => commands.prefixes.first().and_then(|words| program(words)),
        Condition::Path(paths) => paths.include.first().and_then(directory),
        Condition::Host(hosts) => hosts.first().and_then(host),
        _ => None,
    }
}

fn program(words: &[Box<str>]) -> Option<Anchor> {
    words.first().map(|word| Anchor::Program(word.clone()))
}

fn directory(glob: &Glob) -> Option<Anchor> {
    match glob.segments().first() {
        Some(Segment::Literal(name)) => Some(Anchor::Directory(name.clone())),
        _ => None,
    }
}

fn host(pattern: &HostPattern) -> Option<Anchor> {
    match pattern {
        HostPattern::Exact(name) => Some(Anchor::Host(name.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Protected, Source};

    /// Whatever covers another is found for it: the index spares work and no finding.
    #[test]
    fn who_covers_is_a_rival() {
        let conditions = [
            "",
            "path_glob: '**'",
            "path_glob: 'a/**'",
            "path_glob: ['a/**', 'b/c']",
            "path_glob: 'b/c'",
            "path_glob: a/b",
            "path_glob: /a",
            "path_glob: '*.rs'",
            "path_glob: '*/x'",
            "path_glob: ['a/**', '!a/b/**']",
            "path_glob: '[ab]/c'",
            "path_glob: []",
            "argv_prefix: git",
            "argv_prefix: git push",
            "argv: git push",
            "argv_prefix: [git push, rm]",
            "argv_prefix: rm",
            "host: a.test",
            "host: [a.test, b.test]",
            "host: '*.test.example'",
            "host: x.test.example",
            "host: a.test, http_path: /x",
            "host: a.test, http_path: '/*'",
            "syscall: fs.write, path_glob: a/b",
            "syscall: [fs.write, fs.read], path_glob: 'a/**'",
            "caller: agent, path_glob: 'a/**'",
            "label: web",
        ];
        let rules = conditions.iter().enumerate().map(|(id, when)| {
            format!("  - {{ name: r{id}, match: {{ {when} }}, action: deny }}\n")
        });
        let text = format!("capabilities:\n{}", rules.collect::<String>());
        let policy = Policy::compile(&[Source::new("p", &text)], &Protected::default()).unwrap();
        let rivals = Rivals::new(&policy.rules);
        let (mut covers, mut spared) = (0, 0);
        for rule in &policy.rules {
            let found = rivals.of(&rule.when);
            spared += policy.rules.len() - found.len();
            for (id, other) in policy.rules.iter().enumerate() {
                let is_covered = other.when.cover(&rule.when);
                covers += usize::from(is_covered);
                assert!(!is_covered || found.contains(&id), "{} {}", other.name, rule.name);
            }
        }
        assert!(covers > 60 && spared > 100, "{covers} {spared}");
    }
}
