//! "Did you mean": the known member nearest to a misspelt one.

/// A longer name is no misspelling, and comparing is quadratic.
const MAX_BYTES: usize = 64;

/// The known word nearest to `text`, when at most a third of its letters differ. Small and capital letters are one.
pub(crate) fn nearest<'w>(text: &str, known: &[&'w str]) -> Option<&'w str> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let allowed = (text.chars().count() / 3).max(1);
    let all = known.iter().map(|word| (distance(text, word), *word));
    all.filter(|(distance, _)| *distance <= allowed).min().map(|(_, word)| word)
}

/// How many letters have to be added, left out, changed or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (left, right) = (letters(left), letters(right));
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let changed = last[j] + usize::from(a != b);
            let mut least = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && left[i - 1] == *b && *a == right[j - 1] {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_find_their_word() {
        let known = ["initial", "transitions", "executionProfile", "by"];
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(nearest(text, &known), want, "{text}");
        };
        check("inital", Some("initial"));
        check("transition", Some("transitions"));
        check("executionprofile", Some("executionProfile"));
        check("execution_profile", Some("executionProfile"));
        check("bye", Some("by"));
        check("yb", Some("by"));
        check("weather", None);
        check("", None);
        check(&"initial".repeat(100), None);
    }
}
