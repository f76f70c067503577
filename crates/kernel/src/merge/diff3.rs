//! Three-way merge of texts by lines.
//!
//! Both sides are compared with the base. Edits of one side alone are taken; edits of both that touch
//! (overlap, or have no unchanged line between them) must be equal, else they conflict. Treating
//! neighbours as touching errs on the side of asking.

use std::ops::Range;

use glasshouse_sandbox::workspace::lines;
use similar::DiffOp;

/// Lines of the base that both sides changed differently, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The lines, in the base.
    pub base: Range<usize>,
}

/// Merges two texts that come from one base.
///
/// # Errors
/// Every place where both sides changed the base differently.
///
/// ```
/// use glasshouse_kernel::merge::diff3::merge;
/// assert_eq!(merge(b"1\n2\n3\n", b"0\n2\n3\n", b"1\n2\n4\n").unwrap(), b"0\n2\n4\n");
/// assert!(merge(b"1\n", b"2\n", b"3\n").is_err());
/// ```
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>, Vec<Overlap>> {
    let (base, ours, theirs) = (lines::split(base), lines::split(ours), lines::split(theirs));
    let mut our_side = Side::new(&base, &ours);
    let mut their_side = Side::new(&base, &theirs);
    let mut merged: Vec<&[u8]> = Vec::new();
    let mut overlaps = Vec::new();
    let mut at = 0;
    while let Some(start) = our_side.next_start().into_iter().chain(their_side.next_start()).min() {
        merged.extend(&base[at..start]);
        let mut end = start;
        // Both sides in turn until neither has an edit that touches the group.
        while our_side.absorb(&mut end) | their_side.absorb(&mut end) {}
        let ours = our_side.finish(start..end);
        let theirs = their_side.finish(start..end);
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                overlaps.push(Overlap { base: start..end })
            }
            (Some(text), _) | (None, Some(text)) => merged.extend(text),
            (None, None) => merged.extend(&base[start..end]),
        }
        at = end;
    }
    merged.extend(&base[at..]);
    if overlaps.is_empty() { Ok(merged.concat()) } else { Err(overlaps) }
}

/// One side's edits, consumed from the front.
struct Side<'a> {
    lines: &'a [&'a [u8]],
    edits: std::iter::Peekable<std::vec::IntoIter<DiffOp>>,
    /// Base and side lines of the current group's edits.
    group: Option<(Range<usize>, Range<usize>)>,
}

impl<'a> Side<'a> {
    fn new(base: &[&[u8]], lines: &'a [&'a [u8]]) -> Self {
        let edits: Vec<_> = lines::compare(base, lines)
            .into_iter()
            .filter(|op| !matches!(op, DiffOp::Equal { .. }))
            .collect();
        Self { lines, edits: edits.into_iter().peekable(), group: None }
    }

    fn next_start(&mut self) -> Option<usize> {
        self.edits.peek().map(|edit| edit.old_range().start)
    }

    /// Takes edits that begin at or before `end` into the group and moves `end` over them.
    fn absorb(&mut self, end: &mut usize) -> bool {
        let mut any = false;
        while let Some(edit) = self.edits.next_if(|edit| edit.old_range().start <= *end) {
            let (old, new) = (edit.old_range(), edit.new_range());
            *end = (*end).max(old.end);
            self.group = Some(match self.group.take() {
                None => (old, new),
                Some((base, side)) => (base.start..old.end, side.start..new.end),
            });
            any = true;
        }
        any
    }

    /// The side's lines for a base range that begins and ends outside its edits; none when it has no
    /// edit there.
    fn finish(&mut self, range: Range<usize>) -> Option<&'a [&'a [u8]]> {
        let (base, side) = self.group.take()?;
        let before = base.start - range.start;
        let after = range.end - base.end;
        Some(&self.lines[side.start - before..side.end + after])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn merges() {
        let check = |base: &str, ours: &str, theirs: &str, expected: Option<&str>| {
            let [base, ours, theirs] = [base, ours, theirs].map(|t| t.replace(' ', "\n"));
            let merged = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()).ok();
            let merged = merged.map(|bytes| String::from_utf8(bytes).unwrap().replace('\n', " "));
            assert_eq!(merged.as_deref(), expected, "{base:?} {ours:?} {theirs:?}");
        };
        check("1 2 3 4 5 ", "1 2 3 4 5 ", "1 2 3 4 5 ", Some("1 2 3 4 5 "));
        check("1 2 3 4 5 ", "x 2 3 4 5 ", "1 2 3 4 y ", Some("x 2 3 4 y "));
        check("1 2 3 4 5 ", "1 3 4 5 ", "1 2 3 4 4a 5 ", Some("1 3 4 4a 5 "));
        check("1 2 3 4 5 ", "1 2 3 5 ", "1 2 3 5 ", Some("1 2 3 5 "));
        check("1 2 3 ", "1 a 3 ", "1 b 3 ", None);
        check("1 2 3 ", "1 a 2 3 ", "1 b 2 3 ", None);
        check("1 2 3 ", "1 a 2 3 ", "1 a 2 3 ", Some("1 a 2 3 "));
        // Neighbours touch.
        check("1 2 3 ", "x 2 3 ", "1 y 3 ", None);
        // One side deletes what the other edits.
        check("1 2 3 ", "1 3 ", "1 2b 3 ", None);
        check("", "a ", "", Some("a "));
        check("", "a ", "b ", None);
        // The last line without a line feed is another line.
        check("1 2 3", "1 2 3 ", "0 2 3", Some("0 2 3 "));
    }

    #[test]
    fn overlaps_name_the_base_lines() {
        let found = merge(b"1\n2\n3\n4\n5\n", b"1\na\n3\n4\nb\n", b"1\nc\n3\n4\nd\n").unwrap_err();
        assert_eq!(found, [Overlap { base: 1..2 }, Overlap { base: 4..5 }]);
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec!["a\n", "b\n", "c\n", "d\n"]), 0..12)
            .prop_map(|lines| lines.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn an_unchanged_side_yields_to_the_other(base in text(), side in text()) {
            prop_assert_eq!(merge(&base, &side, &base).unwrap(), side.clone());
            prop_assert_eq!(merge(&base, &base, &side).unwrap(), side.clone());
            prop_assert_eq!(merge(&base, &side, &side).unwrap(), side);
        }

        #[test]
        fn the_sides_are_equal_in_rank(base in text(), ours in text(), theirs in text()) {
            prop_assert_eq!(merge(&base, &ours, &theirs), merge(&base, &theirs, &ours));
        }

        /// Edits of disjoint parts, kept apart by a line that stays, both arrive.
        #[test]
        fn separate_edits_both_arrive(a in text(), b in text(), c in text(), d in text()) {
            let join = |first: &[u8], second: &[u8]| [first, b"-1-\n-2-\n", second].concat();
            let (base, ours, theirs) = (join(&a, &b), join(&c, &b), join(&a, &d));
            prop_assert_eq!(merge(&base, &ours, &theirs).unwrap(), join(&c, &d));
        }
    }
}
