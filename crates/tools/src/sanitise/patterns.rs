//! Secrets that are known by their look alone: regular expressions, all those of a group in one automaton.
//!
//! At each place of the text the automaton runs until nothing can match any more, and the longest
//! match counts. A pattern has a longest match, so the work for a byte has a bound, whatever pattern
//! and text are: no pattern of a stranger's policy makes a text expensive.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::util::syntax;
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::Look;

use crate::codes;
use crate::error::{Error, Result};

/// Longest text that one pattern may match: what a stream may have to hold back, and the most steps
/// that one byte of a text costs.
pub const MAX_PATTERN_MATCH_BYTES: usize = 1 << 10;
/// Memory for all compiled patterns of a group together.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// Memory for compiling them, which bounds the time as well: sixty-four patterns of usual secrets need less than a half.
const MAX_COMPILING_BYTES: usize = 1 << 20;

/// A match, by the pattern's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) pattern: usize,
}

/// What a text holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Matches {
    /// The longest match at each place that has one.
    pub(super) found: Vec<Match>,
    /// First place where more text could still make a match, or a longer one.
    pub(super) undecided: Option<usize>,
}

/// Compiled patterns: for each group the number of its first pattern, and its automaton.
pub(super) struct Patterns(Vec<(usize, Machine)>);

struct Machine {
    automaton: dense::DFA<Vec<u32>>,
    /// Where to begin at the start of the text, and behind each byte.
    at_start: StateID,
    behind: Box<[StateID; 256]>,
    /// Bytes that no match begins with: nearly all, so nearly no place costs a step.
    never_first: [bool; 256],
}

impl Patterns {
    /// Compiles groups of (name, pattern) pairs; patterns are numbered through all groups.
    ///
    /// # Errors
    /// `invalid_pattern`, naming the pattern.
    pub(super) fn new(groups: &[Vec<(&str, &str)>]) -> Result<Self> {
        let mut machines = Vec::new();
        let mut first = 0;
        for patterns in groups {
            if !patterns.is_empty() {
                machines.push((first, Self::machine(patterns)?));
            }
            first += patterns.len();
        }
        Ok(Self(machines))
    }

    fn machine(patterns: &[(&str, &str)]) -> Result<Machine> {
        patterns.iter().try_for_each(|(name, pattern)| check(name, pattern))?;
        let texts: Vec<&str> = patterns.iter().map(|(_, pattern)| *pattern).collect();
        let automaton = build(&texts).map_err(|why| match too_large(patterns) {
            Some((name, pattern)) => refuse(name, pattern, &why),
            None => Error::new(codes::INVALID_PATTERN, "the secret patterns cannot be used")
                .why(format!(
                    "to compile them together takes more than {MAX_COMPILING_BYTES} bytes"
                ))
                .fix("take the largest away, or make its repetitions shorter"),
        })?;
        Machine::new(automaton)
    }

    /// Looks for matches that begin in `text[from..]`; what is before `from` only tells whether one
    /// can begin there. `complete` says that no more text comes.
    pub(super) fn find(&self, text: &[u8], from: usize, complete: bool) -> Matches {
        let mut matches = Matches::default();
        for start in from..text.len() {
            let mut longest: Option<Match> = None;
            for (first, machine) in &self.0 {
                if machine.never_first[usize::from(text[start])] {
                    continue;
                }
                let (found, is_open) = machine.longest(text, start, complete);
                if let Some(found) =
                    found.filter(|one| longest.is_none_or(|best| best.end < one.end))
                {
                    longest = Some(Match { pattern: first + found.pattern, ..found });
                }
                if is_open {
                    matches.undecided.get_or_insert(start);
                }
            }
            matches.found.extend(longest);
        }
        matches
    }
}

impl Machine {
    fn new(automaton: dense::DFA<Vec<u32>>) -> Result<Self> {
        let state = |behind: Option<u8>| {
            let config = start::Config::new().anchored(Anchored::Yes).look_behind(behind);
            automaton.start_state(&config).map_err(|error| {
                Error::new(codes::INVALID_PATTERN, "the secret patterns cannot be used").why(error)
            })
        };
        let at_start = state(None)?;
        let mut behind = Box::new([at_start; 256]);
        for byte in 0..=u8::MAX {
            behind[usize::from(byte)] = state(Some(byte))?;
        }
        let mut never_first = [true; 256];
        for byte in 0..=u8::MAX {
            let begins =
                |state: &StateID| !automaton.is_dead_state(automaton.next_state(*state, byte));
            never_first[usize::from(byte)] = !behind.iter().chain([&at_start]).any(begins);
        }
        Ok(Self { automaton, at_start, behind, never_first })
    }

    /// The longest match that begins at `start`, and whether more text could make a longer one.
    fn longest(&self, text: &[u8], start: usize, complete: bool) -> (Option<Match>, bool) {
        let automaton = &self.automaton;
        let mut longest = None;
        // The automaton tells of a match one byte late: it may have to look at what follows.
        let mut note = |state: StateID, end: usize| {
            if automaton.is_match_state(state) {
                let pattern = automaton.match_pattern(state, 0).as_usize();
                longest = Some(Match { start, end, pattern });
            }
        };
        let mut state = match start.checked_sub(1) {
            Some(before) => self.behind[usize::from(text[before])],
            None => self.at_start,
        };
        for (offset, byte) in text[start..].iter().enumerate() {
            state = automaton.next_state(state, *byte);
            if automaton.is_special_state(state) {
                if automaton.is_dead_state(state) {
                    return (longest, false);
                }
                note(state, start + offset);
            }
        }
        if complete {
            note(automaton.next_eoi_state(state), text.len());
        }
        (longest, !complete && !self.is_over(state))
    }

    /// Whether nothing that follows can make a match: told where a text stops, because there a state
    /// that has just matched still waits for the byte that it needs no more.
    fn is_over(&self, state: StateID) -> bool {
        let is_dead = |state| self.automaton.is_dead_state(state);
        is_dead(self.automaton.next_eoi_state(state))
            && (0..=u8::MAX).all(|byte| is_dead(self.automaton.next_state(state, byte)))
    }
}

fn build(patterns: &[&str]) -> std::result::Result<dense::DFA<Vec<u32>>, String> {
    let limits = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Anchored)
        .dfa_size_limit(Some(MAX_COMPILED_BYTES))
        .determinize_size_limit(Some(MAX_COMPILING_BYTES));
    let bytes = thompson::Config::new().utf8(false).nfa_size_limit(Some(MAX_COMPILED_BYTES));
    dense::Builder::new()
        .configure(limits)
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .thompson(bytes)
        .build_many(patterns)
        .map_err(|error| error.to_string())
}

/// The pattern that is too large by itself. Building one costs time by its size, so this stops when those that
/// were built are too large together: then they are at fault as much as a later one.
fn too_large<'p>(patterns: &[(&'p str, &'p str)]) -> Option<(&'p str, &'p str)> {
    let mut built_bytes = 0;
    if let [only] = patterns {
        return Some(*only);
    }
    for (name, pattern) in patterns {
        match build(&[*pattern]) {
            Err(_) => return Some((name, pattern)),
            Ok(automaton) => built_bytes += automaton.memory_usage(),
        }
        if built_bytes > MAX_COMPILING_BYTES {
            break;
        }
    }
    None
}

fn refuse(name: &str, pattern: &str, why: &str) -> Error {
    Error::new(codes::INVALID_PATTERN, format!("the secret pattern `{name}` cannot be used"))
        .why(why)
        .with("pattern", pattern)
}

/// What is wrong with a regular expression, and where, in one line.
pub(crate) fn fault(error: &regex_syntax::Error) -> String {
    let (what, at) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start),
        _ => return "it cannot be read".to_owned(),
    };
    format!("{what}, at character {}", at.column)
}

/// Refuses what a stream cannot look for.
fn check(name: &str, pattern: &str) -> Result<()> {
    let refuse = |why: &str| refuse(name, pattern, why);
    let hir = regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(pattern)
        .map_err(|error| refuse(&fault(&error)))?;
    let properties = hir.properties();
    let looks = properties.look_set();
    if looks.contains(Look::Start) || looks.contains(Look::End) {
        return Err(refuse("a stream has no start or end to match"));
    }
    if properties.minimum_len().is_none_or(|least| least == 0) {
        return Err(refuse("it matches the empty text"));
    }
    if properties.maximum_len().is_none_or(|longest| longest > MAX_PATTERN_MATCH_BYTES) {
        let why = format!("it has no bound; a match may have {MAX_PATTERN_MATCH_BYTES} bytes");
        return Err(refuse(&why).fix("write `{8,200}` instead of `+` or `*`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_at_every_place() {
        let check = |patterns: &[(&str, &str)], text: &str, expected: &[(usize, &str, usize)]| {
            let found =
                Patterns::new(&[patterns.to_vec()]).unwrap().find(text.as_bytes(), 0, true).found;
            let shown: Vec<_> =
                found.iter().map(|m| (m.start, &text[m.start..m.end], m.pattern)).collect();
            assert_eq!(shown, expected, "{patterns:?} in {text}");
        };
        check(&[], "abc", &[]);
        check(&[("a", "a{2,3}")], "xaaaa", &[(1, "aaa", 0), (2, "aaa", 0), (3, "aa", 0)]);
        check(&[("a", "ab|abcd")], "abcd abc", &[(0, "abcd", 0), (5, "ab", 0)]);
        check(&[("a", "ab"), ("b", "abc")], "abc", &[(0, "abc", 1)]);
        check(
            &[("a", r"\bk_[0-9]{3}\b")],
            "k_123 xk_123 k_1234 k_456",
            &[(0, "k_123", 0), (20, "k_456", 0)],
        );
        check(
            &[("a", r"(?m:^)key=[a-z]{2}")],
            "key=ab key=cd\nkey=ef",
            &[(0, "key=ab", 0), (14, "key=ef", 0)],
        );
    }

    #[test]
    fn a_place_is_undecided_while_more_text_could_matter() {
        let patterns = Patterns::new(&[vec![("a", r"\bk_[0-9]{3,4}\b")]]).unwrap();
        let check = |text: &str, undecided: Option<usize>| {
            assert_eq!(patterns.find(text.as_bytes(), 0, false).undecided, undecided, "{text}");
        };
        check("abc", None);
        check("abc k", Some(4));
        check("k_12", Some(0));
        check("k_123", Some(0));
        check("k_1234", Some(0));
        check("k_123 ", None);
        check("k_12345", None);
        check("xk_12", None);
    }

    /// Each byte costs at most as many steps as a match has bytes: the densest text that there is
    /// takes no longer than that, and a pattern that would make a machine without bound is refused.
    #[test]
    fn g5_hostile_patterns_cost_a_bounded_time_or_are_refused() {
        let dense = format!("[a-z]{{8,{MAX_PATTERN_MATCH_BYTES}}}");
        let patterns = Patterns::new(&[vec![("dense", &dense)]]).unwrap();
        let cost = |bytes: usize| {
            let text = vec![b'a'; bytes];
            let started = std::time::Instant::now();
            assert_eq!(patterns.find(&text, 0, true).found.len(), bytes - 7);
            started.elapsed()
        };
        let (short, long) = (cost(8 << 10), cost(64 << 10));
        assert!(long < short * 40, "8 times the text: {short:?} and then {long:?}");
        for hostile in [
            "(a|aa|aaa){1,300}(b|bb){1,300}[ab]{1,300}",
            "[ab]{0,500}a[ab]{500}",
            "(x{1,30}y{1,30}){30}",
            r"(?u)\bword\b",
        ] {
            let error = match Patterns::new(&[vec![("hostile", hostile)]]) {
                Err(error) => error,
                // What does fit is bounded by what it may match.
                Ok(_) => continue,
            };
            assert!(error.is(codes::INVALID_PATTERN), "{error}");
            assert!(error.to_string().contains("hostile"), "{error}");
        }
    }

    /// Sixty-four patterns of which each was nearly too large took seconds to refuse, since all were built anew to find
    /// the one at fault; and one of 21 bytes a second, since four times as much memory could be filled. What is built
    /// now is little more than what may be had together.
    #[test]
    fn g5_the_pattern_at_fault_is_looked_for_within_a_bound() {
        let check = |patterns: &[&str], at_fault: Option<usize>| {
            let named: Vec<String> = (0..patterns.len()).map(|at| format!("number-{at}")).collect();
            let pairs: Vec<(&str, &str)> =
                named.iter().map(String::as_str).zip(patterns.iter().copied()).collect();
            let error = Patterns::new(std::slice::from_ref(&pairs)).err().unwrap().to_string();
            let expected = at_fault.map_or("together".to_owned(), |at| format!("`number-{at}`"));
            assert!(error.contains(&expected), "{error} lacks {expected}");
        };
        let (hostile, large) = ("[ab]{0,500}a[ab]{500}", "[ab]{0,11}a[ab]{11}c");
        let bytes = build(&[large]).unwrap().memory_usage();
        assert!(bytes * 8 > MAX_COMPILING_BYTES, "{bytes} bytes are not large");
        check(&[hostile], Some(0));
        check(&["abcd", hostile], Some(1));
        check(&[large, "abcd", hostile], Some(2));
        check(&[large; 64], None);
        let mut many = vec![large; 63];
        many.push(hostile);
        check(&many, None);
        many.swap(1, 63);
        check(&many, Some(1));
    }
}
