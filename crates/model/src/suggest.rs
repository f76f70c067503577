//! "Did you mean": the nearest known word to a misspelt one.

/// A longer text is no misspelling, and comparing is quadratic.
const MAX_BYTES: usize = 64;

/// The known word nearest to `text`, when near enough to be what was meant: at most a third of
/// its letters differ.
///
/// ```
/// use glasshouse_model::suggest::nearest;
/// assert_eq!(nearest("wait5", ["kill", "wait4"]), Some("wait4"));
/// assert_eq!(nearest("weather", ["kill", "wait4"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let allowed = (text.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|word| (distance(text, word), word))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, word)| word)
}

/// Edit distance in which swapping two neighbours counts once.
#[must_use]
pub fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut cost = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && left[i - 1] == *b && *a == right[j - 1] {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
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
        let known = ["syscall", "path_glob", "caller", "caller_tag", "host"];
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(nearest(text, known), expected, "{text}");
        };
        check("sycall", Some("syscall"));
        check("sysacll", Some("syscall"));
        check("pathglob", Some("path_glob"));
        check("path-glob", Some("path_glob"));
        check("hots", Some("host"));
        check("caller_tags", Some("caller_tag"));
        check("weather", None);
        check("hst", Some("host"));
        check("x", None);
        check("", None);
        check(&"path_glob".repeat(100), None);
    }
}
