//! Small non-cryptographic hashes of text, equal to what scripts compute over UTF-16 units.
//!
//! They name things for caches and keyed lists; they prove nothing.

/// FNV-1a with 64 bits over UTF-16 units, lower-case hexadecimal without padding.
///
/// ```
/// assert_eq!(glasshouse_plan::hash::fnv1a_64(""), "cbf29ce484222325");
/// ```
#[must_use]
pub fn fnv1a_64(text: &str) -> String {
    let hash = text.encode_utf16().fold(0xcbf2_9ce4_8422_2325_u64, |hash, unit| {
        (hash ^ u64::from(unit)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:x}")
}

/// FNV-1a with 32 bits over UTF-16 units, base 36.
///
/// ```
/// assert_eq!(glasshouse_plan::hash::fnv1a_32_base36("a"), "1r9wi7g");
/// ```
#[must_use]
pub fn fnv1a_32_base36(text: &str) -> String {
    let mut hash = text
        .encode_utf16()
        .fold(0x811c_9dc5_u32, |hash, unit| (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193));
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(hash % 36, 36).unwrap_or('0'));
        hash /= 36;
        if hash == 0 {
            return digits.iter().rev().collect();
        }
    }
}
