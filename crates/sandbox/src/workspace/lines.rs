//! Texts as lines: differences, counts and likeness. Equal inputs give equal answers on every
//! machine, so nothing here looks at a clock.

use std::collections::HashMap;

use similar::{Algorithm, DiffOp};

/// Largest file whose lines are compared, in bytes; larger ones are treated as binary.
pub const MAX_TEXT_BYTES: usize = 2 << 20;
/// Most lines, old and new together, that are compared one by one once equal ends are taken off. The
/// comparison is quadratic at worst; above this the whole middle counts as replaced.
pub const MAX_COMPARED_LINES: usize = 12_000;
/// How many leading bytes are searched for a NUL, as git does.
const SNIFFED_BYTES: usize = 8_000;

/// Whether bytes are not text: a NUL near the start, or too much to compare.
#[must_use]
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.len() > MAX_TEXT_BYTES || bytes.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0)
}

/// Splits into lines, each with its line feed; the last may have none.
#[must_use]
pub fn split(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The shortest edit from `old` to `new`, as ranges of lines.
#[must_use]
pub fn compare(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (old_len, new_len) = (old.len() - start - end, new.len() - start - end);
    if old_len + new_len <= MAX_COMPARED_LINES {
        return similar::capture_diff_slices(Algorithm::Myers, old, new);
    }
    let mut ops = Vec::new();
    if start > 0 {
        ops.push(DiffOp::Equal { old_index: 0, new_index: 0, len: start });
    }
    ops.push(DiffOp::Replace { old_index: start, old_len, new_index: start, new_len });
    if end > 0 {
        ops.push(DiffOp::Equal {
            old_index: start + old_len,
            new_index: start + new_len,
            len: end,
        });
    }
    ops
}

/// Lines added and removed between two texts.
#[must_use]
pub fn count(old: &[u8], new: &[u8]) -> (u64, u64) {
    let (mut added, mut removed) = (0, 0);
    for op in compare(&split(old), &split(new)) {
        if !matches!(op, DiffOp::Equal { .. }) {
            added += op.new_range().len() as u64;
            removed += op.old_range().len() as u64;
        }
    }
    (added, removed)
}

/// How alike two texts are, in percent: lines they share, whatever the order, of all lines.
#[must_use]
pub fn likeness_percent(old: &[u8], new: &[u8]) -> u64 {
    let (old, new) = (split(old), split(new));
    let mut counts: HashMap<&[u8], u64> = HashMap::new();
    for line in &old {
        *counts.entry(line).or_default() += 1;
    }
    let mut shared = 0_u64;
    for line in &new {
        if let Some(left) = counts.get_mut(line).filter(|left| **left > 0) {
            *left -= 1;
            shared += 1;
        }
    }
    (200 * shared).checked_div((old.len() + new.len()) as u64).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts() {
        let check = |old: &str, new: &str, expected: (u64, u64)| {
            assert_eq!(count(old.as_bytes(), new.as_bytes()), expected, "{old:?} {new:?}");
        };
        check("", "", (0, 0));
        check("", "a\nb\n", (2, 0));
        check("a\n", "", (0, 1));
        check("a\nb\nc\n", "a\nx\nc\n", (1, 1));
        check("a\n", "a", (1, 1));
    }

    #[test]
    fn a_huge_rewrite_is_one_replacement() {
        let old: Vec<String> = (0..MAX_COMPARED_LINES).map(|n| format!("{n}\n")).collect();
        let new: Vec<String> = (0..MAX_COMPARED_LINES).map(|n| format!("x{n}\n")).collect();
        let text = |lines: &[String]| format!("head\n{}tail\n", lines.concat()).into_bytes();
        let n = MAX_COMPARED_LINES as u64;
        assert_eq!(count(&text(&old), &text(&new)), (n, n));
    }

    proptest! {
        #[test]
        fn an_edit_script_rebuilds_the_new_text(old in "[ab\n]{0,40}", new in "[ab\n]{0,40}") {
            let (old, new) = (split(old.as_bytes()), split(new.as_bytes()));
            let mut rebuilt: Vec<&[u8]> = Vec::new();
            for op in compare(&old, &new) {
                match op {
                    DiffOp::Equal { .. } => rebuilt.extend(&old[op.old_range()]),
                    _ => rebuilt.extend(&new[op.new_range()]),
                }
            }
            prop_assert_eq!(rebuilt, new);
        }
    }
}
