//! What a misspelt word was probably meant to be.

/// The candidate nearest to `word`, when it is near enough to be what was meant.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance * 3 <= candidate.chars().count().max(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Fewest insertions, removals and replacements of a character that make one word the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_far_ones_not() {
        let known = ["expect", "emit", "chunk_bytes", "delay_ms"];
        let check = |word: &str, expected: Option<&str>| {
            assert_eq!(nearest(word, known), expected, "{word}");
        };
        check("expects", Some("expect"));
        check("emits", Some("emit"));
        check("chunkbytes", Some("chunk_bytes"));
        check("delay", None);
        check("delay_m", Some("delay_ms"));
        check("zzz", None);
        check("", None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
