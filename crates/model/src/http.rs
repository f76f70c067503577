//! Paths of HTTP requests that mean what they say.

/// Refuses a path that may mean another one: a rule for `/open/` must not be met by `/open/../shut`. Escapes are
/// resolved as often as they can be, because a server behind another one resolves what the first left over.
///
/// ```
/// use glasshouse_model::http::check_path;
/// assert!(check_path("/open/a%20b").is_ok());
/// assert!(check_path("/open/%2e%2e/shut").is_err());
/// ```
///
/// # Errors
/// Why, in words.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    let whole = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !path.split('%').skip(1).all(whole) {
        return Err("a `%` of its path stands before no two digits");
    }
    let decoded = decoded(path);
    if decoded.contains(&0) {
        return Err("its path holds a NUL");
    }
    // Longer forms of a letter of ASCII, which UTF-8 does not have: some take `%c0%ae` for `.` all the same.
    let is_overlong = |bytes: &[u8]| {
        matches!(
            bytes,
            [0xc0 | 0xc1, 0x80..=0xbf, ..]
                | [0xe0, 0x80..=0x9f, 0x80..=0xbf, ..]
                | [0xf0, 0x80..=0x8f, 0x80..=0xbf, ..]
        )
    };
    if (0..decoded.len()).any(|at| is_overlong(&decoded[at..])) {
        return Err("its path holds a letter in a longer form than it has");
    }
    let walks = |segment: &[u8]| {
        // `..;x` is `..` to servers that know path parameters.
        matches!(segment.split(|byte| *byte == b';').next(), Some(b"." | b".."))
    };
    match decoded.split(|byte| matches!(byte, b'/' | b'\\')).any(walks) {
        true => Err("its path leads to another path by `.` or `..`"),
        false => Ok(()),
    }
}

/// The bytes that are left when no escape is.
fn decoded(path: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for byte in path.bytes() {
        out.push(byte);
        // What an escape stands for may end another one: `%252e` is `%2e`, and that is `.`.
        while let [.., b'%', high, low] = out[..]
            && let Some(byte) = hex(high, low)
        {
            out.truncate(out.len() - 3);
            out.push(byte);
        }
    }
    out
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_means_another_one_is_refused() {
        let check = |paths: &[&str], words: &str| {
            for path in paths {
                let why = check_path(path).expect_err(path);
                assert!(why.contains(words), "{path}: {why}");
            }
        };
        let walks = [
            "/v1/../admin",
            "/v1/./admin",
            "/..",
            "/.",
            "/v1/%2e%2e/admin",
            "/v1/%2E%2E/admin",
            "/v1/.%2e/admin",
            "/v1/..%2fadmin",
            "/v1/..%2Fadmin",
            "/%2f../admin",
            "/v1/..\\admin",
            "/v1/..%5cadmin",
            "/v1/%5C..%5C/admin",
            "/v1/..;x/admin",
            "/v1/..;/admin",
            "/v1/%2e.%3bx/admin",
            "/v1//../admin",
            "/v1/a/..",
            // Encoded more than once.
            "/v1/%252e%252e/admin",
            "/v1/..%252fadmin",
            "/v1/%25252e./admin",
            "/v1/%25%32e./admin",
            "/v1/%%32e./admin",
        ];
        // The last one is broken before it is read.
        check(&walks[..walks.len() - 1], "leads to another");
        check(&walks[walks.len() - 1..], "no two digits");
        check(&["/%", "/%2", "/%zz", "/a%/", "/%+1", "/%\u{e4}"], "no two digits");
        check(&["/%00", "/a%2500"], "NUL");
        check(
            &[
                "/v1/%c0%ae%c0%ae/a",
                "/v1/..%c0%af",
                "/%C1%9c",
                "/%e0%80%ae",
                "/%f0%80%80%ae",
                "/%25c0%25ae",
            ],
            "longer form",
        );
    }

    /// The control: names with dots, and what only looks like an escape when it is resolved.
    #[test]
    fn what_only_looks_like_it_passes() {
        for path in [
            "/",
            "",
            "/v1/a",
            "/v1//a",
            "/v1/a;x",
            "/v1/...",
            "/v1/..a",
            "/v1/a..",
            "/.well-known/a",
            "/v1/a%20b",
            "/v1/%2e%2e%2e",
            "/v1/100%25",
            "/v1/%25zz",
            "/v1/;..",
            "/v1/a%2fb",
            "/@scope%2fname",
            // Of other tables of letters, and in the shortest form of UTF-8.
            "/%c0",
            "/%c0a",
            "/%e9t%e9",
            "/%c3%a9",
            "/%e0%a4%a8",
            "/%f0%9f%99%82",
        ] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn many_escapes_of_escapes_stay_quick() {
        let path = format!("/v1/%{}2e./x", "25".repeat(100_000));
        assert!(check_path(&path).is_err());
    }
}
