//! "Did you mean": the nearest known word to a misspelt one.

use strsim::osa_distance;

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
        .map(|word| (osa_distance(text, word), word))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, word)| word)
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
