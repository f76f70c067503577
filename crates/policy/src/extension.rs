//! The last layer: a program that decides what rules can not express.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use glasshouse_model::{Call, Decision, Effect, Layer, RuleTrace};

/// Rules in TypeScript that a source of a policy carries. Whoever compiles the policy also has them run
/// ([`Policy::served_by`](crate::Policy::served_by)); until then nothing that reaches them is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionText {
    /// The program.
    pub code: String,
    /// Source it is in.
    pub source: String,
    /// Line of the source at which the program begins, from 1: its first that is not blank.
    pub line: u64,
    /// Position of the source.
    pub(crate) position: usize,
    /// How far its lines are indented, where they stand in the source line by line.
    pub(crate) indent: Option<u64>,
}

impl ExtensionText {
    /// The place in the source of a place in the program, both from 1, where its lines stand there as they are.
    #[must_use]
    pub fn place(&self, line: u64, column: u64) -> Option<(u64, u64)> {
        let indent = self.indent?;
        let line = self.line.checked_add(line)?.checked_sub(1 + blank_lines(&self.code))?;
        Some((line, column.saturating_add(indent)))
    }

    /// How far the lines of a program are indented in the text that it was read from. `line` is that of its first line
    /// that is not blank.
    pub(crate) fn indent(code: &str, text: &str, line: u64) -> Option<u64> {
        let begin = usize::try_from(line.checked_sub(1)?).ok()?;
        let mut written = text.lines().skip(begin);
        let mut own = code.lines().skip_while(|line| line.is_empty()).peekable();
        let indent = written.clone().next()?.strip_suffix(*own.peek()?)?;
        let is_blank = indent.bytes().all(|byte| byte == b' ');
        let is_same = |of_code: &str| {
            written.next().is_some_and(|line| match line.strip_prefix(indent) {
                Some(rest) => rest == of_code,
                None => line.trim().is_empty() && of_code.is_empty(),
            })
        };
        (is_blank && own.all(is_same)).then_some(indent.len() as u64)
    }
}

/// Blank lines that a program begins with.
fn blank_lines(code: &str) -> u64 {
    code.lines().take_while(|line| line.is_empty()).count() as u64
}

/// What runs the rules in TypeScript of a policy.
#[derive(Clone)]
pub(crate) struct Serving(pub(crate) Arc<dyn Extension + Send + Sync>);

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serving")
    }
}

/// What an extension says about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// Its effect.
    pub effect: Effect,
    /// Its words; they go into the decision.
    pub reason: String,
}

/// Why an extension gave no opinion. Each one denies: the rule that was not asked might have been
/// a deny rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtensionError {
    /// The program ended, or was never running.
    Crashed(String),
    /// No answer within the limit for one evaluation.
    TimedOut {
        /// The limit that passed.
        limit_ms: u64,
    },
    /// It answered something that is no opinion, or reported an error.
    Failed(String),
    /// It crashed twice within a time, and is not asked any more.
    Disabled {
        /// That time.
        within: Duration,
    },
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crashed(detail) => write!(f, "the policy extension crashed: {detail}"),
            Self::TimedOut { limit_ms } => {
                write!(f, "the policy extension did not answer within {limit_ms} ms")
            }
            Self::Failed(detail) => write!(f, "the policy extension failed: {detail}"),
            Self::Disabled { within } => {
                let seconds = within.as_secs();
                write!(f, "the policy extension is disabled: it crashed twice within {seconds} s")
            }
        }
    }
}

impl std::error::Error for ExtensionError {}

/// A running extension program, as the policy sees it. The host owns process, socket and limits.
pub trait Extension {
    /// Asks for an opinion; `None` abstains. `program` is the text of the policy that is asked, `None` where
    /// what is asked stands in no source. Called never after a built-in or a rule denied or a sealed grant
    /// decided. Programs do not hear one another: each is asked, whatever the others said.
    ///
    /// # Errors
    /// Any error denies the call.
    fn evaluate(
        &self,
        program: Option<&ExtensionText>,
        call: &Call,
    ) -> Result<Option<Opinion>, ExtensionError>;

    /// Told once after [`ExtensionError::Crashed`], so that the host starts the program again. It
    /// returns at once and does not change the decision in hand; how often a crashing program is
    /// restarted is the host's limit. Answers whether the program will be asked again.
    fn restart(&self, program: Option<&ExtensionText>) -> bool;

    /// Whether it can be asked about any call, and not only about the one that it was made for.
    fn knows_other_calls(&self) -> bool {
        true
    }
}

/// What each extension said when a decision was made: whoever makes the decision again hears the same. A
/// program that was late once need not be late again, so what it said is as much an input as the call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard(Vec<RuleTrace>);

impl Heard {
    /// From the decision.
    #[must_use]
    pub fn in_decision(decision: &Decision) -> Self {
        let told = decision.rules.iter().filter(|rule| rule.layer == Layer::Extension);
        Self(told.cloned().collect())
    }
}

impl Extension for Heard {
    fn evaluate(
        &self,
        program: Option<&ExtensionText>,
        _: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        let source = program.map(|program| program.source.as_str());
        let told = self.0.iter().find(|trace| trace.source.as_deref() == source);
        Ok(told.map(|trace| Opinion {
            effect: trace.action,
            reason: trace.reason.clone().unwrap_or_default(),
        }))
    }

    fn restart(&self, _: Option<&ExtensionText>) -> bool {
        true
    }

    fn knows_other_calls(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use crate::{Policy, Protected, Source};

    /// A place of the program is one of the file where it stands there as it is, and nowhere else.
    #[test]
    fn a_place_of_the_program_is_one_of_the_file() {
        let check = |text: &str, expected: Option<(u64, u64)>| {
            let policy = Policy::compile(&[Source::new("p.yaml", text)], &Protected::default());
            let policy = policy.unwrap_or_else(|error| panic!("{error}\n{text}"));
            let program = policy.extensions().first().expect("a program");
            let (line, marked) =
                (1..).zip(program.code.lines()).find(|it| it.1.contains('@')).unwrap();
            let column = marked.find('@').unwrap() as u64 + 1;
            assert_eq!(program.place(line, column), expected, "{text}");
        };
        check("extension: |\n  // @\n", Some((2, 6)));
        check("version: 1\nextension: |\n    a\n      b\n\n    // @\n", Some((6, 8)));
        check("extension: |-\n\n\n  a\n  // @", Some((5, 6)));
        check("extension: |\n  a\n   \n  // @\nversion: 1\n", Some((4, 6)));
        check("extension: |2\n    // @\n  b\n", Some((2, 8)));
        // Behind its key, folded, or with escapes: the lines are others.
        check("extension: // @\n", None);
        check("extension: >\n  a\n\n  // @\n", None);
        check("extension: \"a\\n// @\"\n", None);
        check("extension: 'a\n\n  // @'\n", None);
    }
}
