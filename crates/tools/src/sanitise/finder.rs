//! Every occurrence of many fixed byte strings in a text, overlapping ones included.
//!
//! Nearly no place of a text begins an occurrence, so the search is built to say no quickly: eight
//! bytes are hashed into a table of bits that fits the first-level cache, and only where the bit is
//! set is anything compared. An automaton would step from state to state for every byte instead.

use std::collections::HashMap;

use super::mask::MIN_SECRET_BYTES;

/// Bytes that are looked at first; no form is shorter.
const PROBE_BYTES: usize = 8;
/// No form of a secret is shorter than the secret.
const _: () = assert!(PROBE_BYTES <= MIN_SECRET_BYTES);
/// Logarithm of the number of bits: 8 KiB, of which some hundred forms set one in a hundred.
const TABLE_BITS: u32 = 16;
/// An odd number of well mixed bits (the golden ratio); the product's upper bits are the hash.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// A set of byte strings to look for.
pub(super) struct Finder {
    /// Sorted, so that those with a common beginning stand together.
    forms: Vec<Vec<u8>>,
    longest: usize,
    /// A bit for each hash that the first bytes of a form have.
    table: Vec<u64>,
    /// The forms that begin with these bytes, as a range of `forms`.
    by_probe: HashMap<u64, std::ops::Range<usize>>,
    begins_form: [bool; 256],
}

impl Finder {
    /// Takes forms sorted and without repetition, each at least [`MIN_SECRET_BYTES`] long.
    pub(super) fn new(forms: Vec<Vec<u8>>) -> Self {
        let mut table = vec![0; 1 << (TABLE_BITS - 6)];
        let mut by_probe: HashMap<u64, std::ops::Range<usize>> = HashMap::new();
        let mut begins_form = [false; 256];
        for (index, form) in forms.iter().enumerate() {
            let probe = probe(form);
            let (word, bit) = bit_of(probe);
            table[word] |= bit;
            by_probe.entry(probe).or_insert(index..index).end = index + 1;
            begins_form[usize::from(form[0])] = true;
        }
        let longest = forms.iter().map(Vec::len).max().unwrap_or(0);
        Self { forms, longest, table, by_probe, begins_form }
    }

    /// Calls `found` with start, end and number of each form in `text[from..]`.
    pub(super) fn find(
        &self,
        text: &[u8],
        from: usize,
        mut found: impl FnMut(usize, usize, usize),
    ) {
        if self.forms.is_empty() {
            return;
        }
        for (offset, window) in text[from..].windows(PROBE_BYTES).enumerate() {
            let probe = probe(window);
            let (word, bit) = bit_of(probe);
            if self.table[word] & bit == 0 {
                continue;
            }
            let start = from + offset;
            for form in self.by_probe.get(&probe).cloned().into_iter().flatten() {
                if text[start..].starts_with(&self.forms[form]) {
                    found(start, start + self.forms[form].len(), form);
                }
            }
        }
    }

    /// First place in `text[from..]` where the text ends inside a form.
    pub(super) fn undecided_from(&self, text: &[u8], from: usize) -> Option<usize> {
        let earliest = text.len().saturating_sub(self.longest.saturating_sub(1)).max(from);
        (earliest..text.len()).find(|&start| self.may_become_form(&text[start..]))
    }

    /// Whether the bytes are the beginning, and only the beginning, of a form.
    fn may_become_form(&self, tail: &[u8]) -> bool {
        if !self.begins_form[usize::from(tail[0])] {
            return false;
        }
        let behind = self.forms.partition_point(|form| form.as_slice() <= tail);
        self.forms.get(behind).is_some_and(|form| form.starts_with(tail))
    }
}

/// The first bytes as a number.
fn probe(bytes: &[u8]) -> u64 {
    let (first, _) = bytes.split_first_chunk::<PROBE_BYTES>().expect("no form is shorter");
    u64::from_le_bytes(*first)
}

/// The word of the table and the bit in it that stand for a probe.
fn bit_of(probe: u64) -> (usize, u64) {
    let hash = probe.wrapping_mul(MIX) >> (64 - TABLE_BITS);
    let word = usize::try_from(hash >> 6).expect("the hash is smaller than the table");
    (word, 1 << (hash & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(forms: &[&str]) -> Finder {
        let mut forms: Vec<Vec<u8>> = forms.iter().map(|form| form.as_bytes().to_vec()).collect();
        forms.sort();
        Finder::new(forms)
    }

    #[test]
    fn all_occurrences_are_found() {
        let check = |forms: &[&str], text: &str, expected: &[&str]| {
            let mut seen = Vec::new();
            finder(forms).find(text.as_bytes(), 0, |start, end, _| {
                seen.push(format!("{start}:{}", &text[start..end]));
            });
            assert_eq!(seen, expected, "{text}");
        };
        check(&[], "abcdefgh", &[]);
        check(&["abcdefgh"], "", &[]);
        check(&["abcdefgh"], "abcdefg", &[]);
        check(&["abcdefgh"], "xabcdefgh", &["1:abcdefgh"]);
        check(&["aaaaaaaa"], "aaaaaaaaaa", &["0:aaaaaaaa", "1:aaaaaaaa", "2:aaaaaaaa"]);
        let both = ["abcdefgh", "abcdefghi"];
        check(&both, "abcdefghi", &["0:abcdefgh", "0:abcdefghi"]);
        check(&both, "abcdefghj", &["0:abcdefgh"]);
        check(&["abcdefgh", "efghijkl"], "abcdefghijkl", &["0:abcdefgh", "4:efghijkl"]);
    }

    #[test]
    fn an_end_inside_a_form_is_undecided() {
        let check = |text: &str, expected: Option<usize>| {
            let finder = finder(&["abcdefgh", "abcdefghij", "ghostly!"]);
            assert_eq!(finder.undecided_from(text.as_bytes(), 0), expected, "{text}");
        };
        check("", None);
        check("x", None);
        check("xa", Some(1));
        check("abcdefg", Some(0));
        check("abcdefgh", Some(0));
        check("abcdefgho", Some(6));
        check("abcdefghij", None);
        check("abcdefghijg", Some(10));
    }
}
