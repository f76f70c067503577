//! Whatever a tool answers becomes a bounded text in which nothing hides.

use glasshouse_tools::sanitise::{MIN_TEXT_LIMIT_BYTES, Strategy as Part, model_text};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_bytes_become_a_bounded_visible_text(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..2000),
            "[a-z\r\n─🦀\u{1b}\u{202e}]{0,900}".prop_map(String::into_bytes),
        ],
        limit in 0_usize..1500,
        part in proptest::sample::select(vec![Part::Head, Part::Tail, Part::Middle]),
    ) {
        let seen = model_text(&bytes, limit, part);
        prop_assert!(seen.text.len() <= limit.max(MIN_TEXT_LIMIT_BYTES));
        let hidden = seen.text.contains(['\0', '\u{1b}', '\u{202e}']);
        prop_assert!(!hidden, "{}", seen.text);
        prop_assert_eq!(seen.total_bytes, bytes.len() as u64);
        let bad = std::str::from_utf8(&bytes).err().map(|error| error.valid_up_to() as u64);
        prop_assert_eq!(seen.not_utf8_offset, bad);
        if !seen.truncated {
            prop_assert!(seen.text.len() >= bytes.len());
        }
    }

    /// What is shown of printable text is a prefix and a suffix of it, and the mark counts the rest.
    #[test]
    fn the_mark_counts_what_is_missing(
        text in "[a-z─🦀]{300,900}",
        limit in MIN_TEXT_LIMIT_BYTES..1500,
        part in proptest::sample::select(vec![Part::Head, Part::Tail, Part::Middle]),
    ) {
        let seen = model_text(text.as_bytes(), limit, part);
        if !seen.truncated {
            prop_assert_eq!(&seen.text, &text);
            return Ok(());
        }
        let (head, rest) = seen.text.split_once('[').unwrap();
        let (mark, tail) = rest.split_once(']').unwrap();
        let (head, tail) = (head.trim_end(), tail.trim_start());
        prop_assert!(text.starts_with(head) && text.ends_with(tail));
        let missing: usize = mark.split(' ').next().unwrap().parse().unwrap();
        prop_assert_eq!(head.len() + missing + tail.len(), text.len());
    }
}
