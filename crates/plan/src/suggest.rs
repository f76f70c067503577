//! "Did you mean": the known member nearest to a misspelt one.

use strsim::osa_distance;

/// A longer name is no misspelling, and comparing is quadratic.
const MAX_BYTES: usize = 64;

/// The known word nearest to `text`, when at most a third of its letters differ. Small and capital letters are one.
pub(crate) fn nearest<'w>(text: &str, known: &[&'w str]) -> Option<&'w str> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let allowed = (text.chars().count() / 3).max(1);
    let text = text.to_lowercase();
    let all = known.iter().map(|word| (osa_distance(&text, &word.to_lowercase()), *word));
    all.filter(|(distance, _)| *distance <= allowed).min().map(|(_, word)| word)
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
