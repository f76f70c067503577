//! Totals of many sizes.

/// Adds up sizes, one a line; empty lines do not count.
///
/// # Errors
/// Returns the first line that is not a size, or the line at which the total does not fit.
pub fn total(text: &str) -> Result<u64, String> {
    let mut total: u64 = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let bytes = units::parse_bytes(line)?;
        total = total.checked_add(bytes).ok_or_else(|| line.to_owned())?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_add_up() {
        assert_eq!(total("1KiB\n\n 24B\n"), Ok(1048));
        assert_eq!(total(""), Ok(0));
    }

    #[test]
    fn the_first_bad_line_is_named() {
        assert_eq!(total("1B\nmany\nmore\n"), Err("many".to_owned()));
    }
}
