//! Lines and columns.

use glasshouse_model::Code;
use oxc_diagnostics::OxcDiagnostic;

use super::{Diagnostic, fault};

/// Finds lines in a text.
pub(super) struct Places<'s> {
    code: &'s str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'s> Places<'s> {
    pub(super) fn new(code: &'s str) -> Self {
        let after =
            code.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { code, starts: std::iter::once(0).chain(after).collect() }
    }

    pub(super) fn fault(&self, code: Code, at: usize, message: impl Into<String>) -> Diagnostic {
        let (line, column) = self.of(at);
        fault(code, line, column, message.into())
    }

    /// A fault that the compiler found, in its own words.
    pub(super) fn of_compiler(&self, code: Code, found: &OxcDiagnostic) -> Diagnostic {
        let at = found.labels.first().map_or(0, |label| label.offset() as usize);
        let message = match &found.help {
            Some(help) => format!("{} ({help})", found.message),
            // In markup a slash that follows no value begins a closing tag to its author, and not to a parser.
            None if found.message.starts_with("Unterminated regular expression") => {
                format!("{} (a `}}` or a tag may be missing before it)", found.message)
            }
            None => found.message.to_string(),
        };
        self.fault(code, at, message)
    }

    fn of(&self, at: usize) -> (u32, u32) {
        let at = at.min(self.code.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts[line - 1];
        let before = self.code.get(start..at).unwrap_or_default();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        (number(line), number(before.chars().count() + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let places = Places::new("aé\nb\n\nc");
        for (at, want) in [
            (0, (1, 1)),
            (1, (1, 2)),
            (3, (1, 3)),
            (4, (2, 1)),
            (6, (3, 1)),
            (7, (4, 1)),
            (99, (4, 2)),
        ] {
            assert_eq!(places.of(at), want, "{at}");
        }
    }
}
