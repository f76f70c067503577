//! Where in a source the text came from that the compiler made of it.

use serde::{Deserialize, Serialize};

/// Places in a compiled text with those in its source, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origins(Vec<Pair>);

/// Line from 1 and byte from 0 in the text; line and character from 1 in the source.
type Pair = (u32, u32, u32, u32);

/// Lines of a text, in which the compiler counts units of UTF-16.
struct Lines<'t>(Vec<&'t str>);

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        Self(text.split('\n').collect())
    }

    /// What stands before a unit of a line.
    fn before(&self, (line, unit): (u32, u32)) -> Option<&'t str> {
        let line = self.0.get(usize::try_from(line).ok()?)?;
        let unit = usize::try_from(unit).ok()?;
        if line.is_ascii() {
            return line.get(..unit.min(line.len()));
        }
        let mut left = unit;
        let end = line.char_indices().find(|(_, c)| {
            let is_there = left == 0;
            left = left.saturating_sub(c.len_utf16());
            is_there
        });
        line.get(..end.map_or(line.len(), |(at, _)| at))
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Origins {
    /// From pairs of line and unit of UTF-16, both from 0, in the text and in the source.
    pub(super) fn new(
        text: &str,
        source: &str,
        pairs: impl Iterator<Item = ((u32, u32), (u32, u32))>,
    ) -> Self {
        let (text, source) = (Lines::of(text), Lines::of(source));
        let pair = |(of, from): ((u32, u32), (u32, u32))| {
            let (byte, character) = (text.before(of)?.len(), source.before(from)?.chars().count());
            Some((of.0 + 1, number(byte), from.0 + 1, number(character + 1)))
        };
        Self(pairs.filter_map(pair).collect())
    }

    /// Makes room for lines that were put before the text.
    pub(super) fn below(&mut self, text: &str) {
        let lines = number(text.matches('\n').count());
        self.0.iter_mut().for_each(|pair| pair.0 += lines);
    }

    /// Line and column of the source, both from 1, that a byte from 0 of a line of the text came from. `None` where
    /// nothing of that line did: no place is better than a wrong one.
    pub(crate) fn of(&self, line: u32, byte: u32) -> Option<(u32, u32)> {
        let after = self.0.partition_point(|pair| (pair.0, pair.1) <= (line, byte));
        let (found, _, line_there, column) = *self.0.get(after.checked_sub(1)?)?;
        (found == line).then_some((line_there, column))
    }

    /// How much of memory it is, nearly.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * size_of::<Pair>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_that_of_the_last_part_before_it_on_its_line() {
        let (text, source) =
            ("let a;\n\"\u{e4}\" + b;\nc;", "/* \u{1f600} */ let a: n;\n\u{e4} + b;\n\nc;");
        let pairs = [((0, 0), (0, 9)), ((1, 0), (1, 0)), ((1, 6), (1, 4)), ((2, 0), (3, 0))];
        let mut origins = Origins::new(text, source, pairs.into_iter());
        let check = |origins: &Origins, at: (u32, u32), expected: Option<(u32, u32)>| {
            assert_eq!(origins.of(at.0, at.1), expected, "{at:?}");
        };
        check(&origins, (1, 0), Some((1, 9)));
        check(&origins, (1, 5), Some((1, 9)));
        check(&origins, (2, 6), Some((2, 1)));
        check(&origins, (2, 7), Some((2, 5)));
        check(&origins, (3, 0), Some((4, 1)));
        check(&origins, (4, 0), None);
        check(&origins, (0, 0), None);
        origins.below("import x;\n");
        check(&origins, (2, 0), Some((1, 9)));
        check(&origins, (1, 0), None);
    }
}
