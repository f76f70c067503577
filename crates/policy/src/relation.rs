//! When one set of conditions surely holds wherever another does.
//!
//! The answer "yes" is proved from how both are written; "no" may only mean that it is not seen.

use std::collections::BTreeSet;

use crate::glob::{Glob, Segment};
use crate::network::HostPattern;
use crate::patterns::PathPatterns;
use crate::rule::{CallerPattern, CommandPatterns, Condition, Conditions, LabelPattern};

impl Conditions {
    /// Whether these hold for every call for which `other` holds.
    pub(crate) fn cover(&self, other: &Self) -> bool {
        self.iter().all(|mine| other.iter().any(|theirs| mine.covers(theirs)))
    }

    /// Whether both surely never hold together: one key asks for different things.
    pub(crate) fn exclude(&self, other: &Self) -> bool {
        self.iter().any(|mine| other.iter().any(|theirs| mine.excludes_words(theirs)))
    }
}

impl Condition {
    /// Whether this holds for every call for which `other`, of the same key, holds.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Syscall(a), Self::Syscall(b))
            | (Self::State(a), Self::State(b))
            | (Self::CallerTag(a), Self::CallerTag(b))
            | (Self::Tenant(a), Self::Tenant(b))
            | (Self::Plugin(a), Self::Plugin(b)) => b.iter().all(|word| a.contains(word)),
            (Self::Method(a), Self::Method(b)) => {
                b.iter().all(|word| a.iter().any(|mine| mine.eq_ignore_ascii_case(word)))
            }
            (Self::HttpPath(a), Self::HttpPath(b)) => {
                b.iter().all(|path| a.iter().any(|mine| mine.covers(path)))
            }
            (Self::Port(a), Self::Port(b)) => b.iter().all(|port| a.contains(port)),
            (Self::SizeOver(a), Self::SizeOver(b)) => a <= b,
            (Self::Caller(a), Self::Caller(b)) => {
                b.iter().all(|caller| a.iter().any(|mine| caller_covers(mine, caller)))
            }
            (Self::Label(a), Self::Label(b)) => {
                b.iter().all(|label| a.iter().any(|mine| label_covers(mine, label)))
            }
            (Self::Host(a), Self::Host(b)) => {
                b.iter().all(|host| a.iter().any(|mine| host_covers(mine, host)))
            }
            (Self::Change(a), Self::Change(b)) => b.iter().all(|class| a.contains(class)),
            (Self::Path(a), Self::Path(b)) => paths_cover(a, b),
            (Self::Command(a), Self::Command(b)) => commands_cover(a, b),
            _ => false,
        }
    }

    /// Whether both ask one key of one value for what they do not share.
    fn excludes_words(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Syscall(a), Self::Syscall(b))
            | (Self::State(a), Self::State(b))
            | (Self::Tenant(a), Self::Tenant(b))
            | (Self::Plugin(a), Self::Plugin(b)) => !a.iter().any(|word| b.contains(word)),
            (Self::Port(a), Self::Port(b)) => !a.iter().any(|port| b.contains(port)),
            (Self::Change(a), Self::Change(b)) => !a.iter().any(|class| b.contains(class)),
            (Self::Caller(a), Self::Caller(b)) => {
                let kinds: BTreeSet<_> = a.iter().map(|caller| caller.kind).collect();
                !b.iter().any(|caller| kinds.contains(&caller.kind))
            }
            (Self::Host(a), Self::Host(b)) => {
                a.iter().all(|mine| b.iter().all(|theirs| hosts_differ(mine, theirs)))
            }
            (Self::Path(a), Self::Path(b)) => {
                let all = |mine| b.include.iter().all(|theirs| globs_differ(mine, theirs));
                a.include.iter().all(all)
            }
            _ => false,
        }
    }
}

fn caller_covers(mine: &CallerPattern, other: &CallerPattern) -> bool {
    mine.kind == other.kind && (mine.id.is_none() || mine.id == other.id)
}

fn label_covers(mine: &LabelPattern, other: &LabelPattern) -> bool {
    match (mine, other) {
        (mine, LabelPattern::Exact(label)) => mine.holds(label),
        (LabelPattern::Prefix(mine), LabelPattern::Prefix(other)) => other.starts_with(&**mine),
        (LabelPattern::Exact(_), LabelPattern::Prefix(_)) => false,
    }
}

fn host_covers(mine: &HostPattern, other: &HostPattern) -> bool {
    match (mine, other) {
        (HostPattern::Any, _) => true,
        (mine, HostPattern::Exact(name)) => mine.matches(name),
        (HostPattern::Below(mine), HostPattern::Below(other)) => other.ends_with(&**mine),
        _ => false,
    }
}

/// Whether surely no host matches both.
fn hosts_differ(one: &HostPattern, other: &HostPattern) -> bool {
    match (one, other) {
        (HostPattern::Any, _) | (_, HostPattern::Any) => false,
        (HostPattern::Exact(name), pattern) | (pattern, HostPattern::Exact(name)) => {
            !pattern.matches(name)
        }
        (HostPattern::Below(one), HostPattern::Below(other)) => {
            !one.ends_with(&**other) && !other.ends_with(&**one)
        }
    }
}

/// Whether surely no path matches both: up to the first `**` of either they ask for different names, or for paths of
/// different lengths.
fn globs_differ(one: &Glob, other: &Glob) -> bool {
    for pair in 0.. {
        match (one.segments().get(pair), other.segments().get(pair)) {
            (Some(Segment::AnyDepth), _) | (_, Some(Segment::AnyDepth)) | (None, None) => {
                return false;
            }
            (None, Some(_)) | (Some(_), None) => return true,
            (Some(Segment::Literal(name)), Some(segment))
            | (Some(segment), Some(Segment::Literal(name)))
                if !segment.matches(name) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

fn paths_cover(mine: &PathPatterns, other: &PathPatterns) -> bool {
    other.include.iter().all(|glob| mine.include.iter().any(|wide| glob_covers(wide, glob)))
        && mine.exclude.iter().all(|out| other.exclude.iter().any(|wide| glob_covers(wide, out)))
}

/// Follows both patterns at once; every pair of places is looked at once.
pub(crate) fn glob_covers(wide: &Glob, narrow: &Glob) -> bool {
    let (a, b) = (wide.segments(), narrow.segments());
    let width = b.len() + 1;
    // From the ends backwards: what stands behind a pair of places is known before the pair.
    let mut covers = vec![false; (a.len() + 1) * width];
    for i in (0..=a.len()).rev() {
        for j in (0..=b.len()).rev() {
            let at = |i: usize, j: usize| covers[i * width + j];
            covers[i * width + j] = match (a.get(i), b.get(j)) {
                (None, None) => true,
                (Some(Segment::AnyDepth), None) => at(i + 1, j),
                (Some(Segment::AnyDepth), Some(_)) => at(i + 1, j) || at(i, j + 1),
                (Some(_), Some(Segment::AnyDepth)) | (None, Some(_)) | (Some(_), None) => false,
                (Some(wide), Some(narrow)) => segment_covers(wide, narrow) && at(i + 1, j + 1),
            };
        }
    }
    covers[0]
}

fn segment_covers(wide: &Segment, narrow: &Segment) -> bool {
    match (wide, narrow) {
        (Segment::Any, _) => true,
        (wide, Segment::Literal(name)) => wide.matches(name),
        (wide, narrow) => wide == narrow,
    }
}

fn commands_cover(mine: &CommandPatterns, other: &CommandPatterns) -> bool {
    // What is looked for everywhere is found in more commands than what has to be all of them.
    (mine.wide || !other.wide)
        && other.prefixes.iter().all(|words| {
            mine.prefixes.iter().any(|prefix| {
                if mine.exact && !mine.wide {
                    other.exact && words == prefix
                } else {
                    words.starts_with(prefix)
                }
            })
        })
}

#[cfg(test)]
mod tests {
    use glasshouse_model::CanonicalPath;

    use super::*;

    fn globs(pattern: &str) -> PathPatterns {
        PathPatterns::parse(pattern.split(' ')).unwrap()
    }

    #[test]
    fn patterns_that_cover_others() {
        let check = |wide: &str, narrow: &str, expected: bool| {
            assert_eq!(paths_cover(&globs(wide), &globs(narrow)), expected, "{wide} {narrow}");
        };
        check("**", "src/**", true);
        check("src/**", "src/a/**", true);
        check("src/**", "src/a.rs", true);
        check("src/**", "/src", false);
        check("src/**", "**", false);
        check("*.rs", "src/*.rs", true);
        check("*.rs", "src/a.rs", true);
        check("src/*.rs", "*.rs", false);
        check("**/a/**", "x/a/b", true);
        check("src/** !src/gen/**", "src/a", false);
        check("src/** !src/gen/**", "src/** !src/gen/**", true);
        check("src/**", "src/** !src/gen/**", true);
        check("[ab]", "a", true);
        check("{a,b}", "/a", true);
        check("/a", "a", false);
    }

    /// What differs has no path in common; "no" may only mean that it is not seen.
    #[test]
    fn patterns_that_surely_differ() {
        let check = |one: &str, other: &str, expected: bool| {
            let (one, other) = (Condition::Path(globs(one)), Condition::Path(globs(other)));
            assert_eq!(one.excludes_words(&other), expected, "{one:?} {other:?}");
            assert_eq!(other.excludes_words(&one), expected, "{other:?} {one:?}");
        };
        check("src/**", "db/**", true);
        check("src/**", "db/a docs/**", true);
        check("src/*.rs", "src/a.md", true);
        check("src/a", "src/a/b", true);
        check("src/[ab]/**", "src/c/**", true);
        check("/Dockerfile", "docs/**", true);
        check("src/**", "src/a", false);
        check("src/** db/**", "db/a", false);
        check("src/**", "*.md", false);
        check("**", "db/**", false);
        check("src", "db/**", false);
        check("**/a", "**/b", false);
        check("src/*", "*/a", false);
        // Whatever is said to differ has nothing in common.
        let texts = ["src/**", "*.rs", "/a", "a", "a/b", "a/*", "*/b", "a/**/b", "[ab]/b", "b/"];
        let paths = ["a", "b", "a/b", "src/a", "src/a.rs", "a/x/b", "b/b", "a/b/c", "a.rs"];
        for (one, other) in texts.iter().flat_map(|one| texts.map(|other| (*one, other))) {
            let (mine, theirs) = (globs(one), globs(other));
            let differ =
                Condition::Path(mine.clone()).excludes_words(&Condition::Path(theirs.clone()));
            for path in paths {
                let path = CanonicalPath::parse(path).unwrap();
                let both = mine.matches(&path) && theirs.matches(&path);
                assert!(!(differ && both), "{one} {other} {path}");
            }
        }
    }

    #[test]
    fn hosts_that_surely_differ() {
        let check = |one: &str, other: &str, expected: bool| {
            let host = |text: &str| Condition::Host(vec![HostPattern::parse(text).unwrap()]);
            assert_eq!(host(one).excludes_words(&host(other)), expected, "{one} {other}");
            assert_eq!(host(other).excludes_words(&host(one)), expected, "{other} {one}");
        };
        check("a.test", "b.test", true);
        check("a.test", "*.a.test", true);
        check("*.a.test", "*.b.test", true);
        check("A.test", "a.test", false);
        check("x.a.test", "*.a.test", false);
        check("*.x.a.test", "*.a.test", false);
        check("*", "a.test", false);
    }
}
