//! Tool names on the wire.
//!
//! Servers accept only letters, digits, `_` and `-` in function names, our names have dots
//! (`fs.write`). A dot travels as `--`; names with `--` of their own are refused so that the way
//! back is exact without knowing which tools were offered.

use std::borrow::Cow;

/// Longest function name that servers accept, in bytes.
const MAX_WIRE_NAME_BYTES: usize = 64;

/// The wire form of a tool name, or why it has none.
pub(crate) fn to_wire(tool: &str) -> Result<String, String> {
    let refuse = |why: &str| Err(format!("tool name `{tool}` cannot be sent: {why}"));
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if tool.is_empty() {
        return refuse("it is empty");
    }
    if !tool.chars().all(allowed) {
        return refuse("only ASCII letters, digits, `_`, `-` and `.` are possible");
    }
    let wire = tool.replace('.', "--");
    if from_wire(&wire) != tool {
        return refuse("`--` stands for a dot, so a name must not hold it or a `-` beside a dot");
    }
    if wire.len() > MAX_WIRE_NAME_BYTES {
        return refuse("it is longer than 64 bytes, a dot counted as two");
    }
    Ok(wire)
}

/// The wire form of a name that a model used earlier. A model can make up any name, and a
/// conversation must stay sendable whatever it made up, so what has no exact form gets a near one.
pub(crate) fn history_to_wire(tool: &str) -> String {
    to_wire(tool).unwrap_or_else(|_| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let mut wire: String = tool
            .chars()
            .map(|c| if allowed(c) { c } else { '_' })
            .take(MAX_WIRE_NAME_BYTES)
            .collect();
        if wire.is_empty() {
            wire.push('_');
        }
        wire
    })
}

/// The tool name of a wire form. A name that is no wire form stays as it is: models sometimes
/// write the dot itself.
pub(crate) fn from_wire(wire: &str) -> Cow<'_, str> {
    if wire.contains("--") { Cow::Owned(wire.replace("--", ".")) } else { Cow::Borrowed(wire) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_their_wire_forms() {
        let check = |tool: &str, wire: Option<&str>| {
            assert_eq!(to_wire(tool).ok().as_deref(), wire, "{tool:?}");
        };
        check("fs.write", Some("fs--write"));
        check("session.set_mode", Some("session--set_mode"));
        check("mcp.web-search.find", Some("mcp--web-search--find"));
        check("plain", Some("plain"));
        check("a..b", Some("a----b"));
        check("", None);
        check("a--b", None);
        check("a-.b", None);
        check("a/b", None);
        check("naïve", None);
        check(&"a".repeat(64), Some(&"a".repeat(64)));
        check(&"a".repeat(65), None);
        assert_eq!(from_wire("fs.write"), "fs.write");
    }

    proptest! {
        #[test]
        fn the_way_back_is_exact(tool in "[a-b.-]{1,12}") {
            if let Ok(wire) = to_wire(&tool) {
                prop_assert!(!wire.contains('.'));
                prop_assert_eq!(from_wire(&wire), tool);
            }
        }

        #[test]
        fn any_name_in_the_history_can_be_sent(tool in "\\PC{0,80}") {
            let wire = history_to_wire(&tool);
            prop_assert!((1..=MAX_WIRE_NAME_BYTES).contains(&wire.len()));
            prop_assert!(wire.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)));
        }
    }
}
