//! Sizes in bytes, as people write them.

/// Reads a size: digits and one of the units `B` and `KiB`.
///
/// # Errors
/// Returns the text itself when it is not a size, or when the size does not fit.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let factor: u64 = match unit {
        "B" => 1,
        "KiB" => 1024,
        _ => return Err(text.to_owned()),
    };
    let count: u64 = digits.parse().map_err(|_| text.to_owned())?;
    count.checked_mul(factor).ok_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_multiply() {
        assert_eq!(parse_bytes("7B"), Ok(7));
        assert_eq!(parse_bytes("4KiB"), Ok(4096));
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "7", "KiB", "4 KiB", "-1B", "18446744073709551615KiB"] {
            assert_eq!(parse_bytes(text), Err(text.to_owned()));
        }
    }
}
