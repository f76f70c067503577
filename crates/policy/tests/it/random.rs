//! The fuzzer's targets on random texts.

use proptest::prelude::*;

use crate::targets;

proptest! {
    #![proptest_config(crate::support::cases(300))]

    #[test]
    fn any_text_as_a_policy(text in "[ \\-a-z:\\[\\]{}',*!&|>#\n\"]{0,120}") {
        targets::yaml(&text);
    }

    #[test]
    fn any_rule_as_a_policy(key in "[a-z_]{1,12}", value in "[a-z*./\\[\\]{}!-]{0,20}") {
        let value = serde_json::to_string(&value).unwrap();
        targets::yaml(&format!("capabilities: [{{ name: r, match: {{ {key}: {value} }}, action: deny }}]"));
        for key in ["syscall", "path_glob", "host", "argv_prefix", "argv", "label", "size_over"] {
            targets::yaml(&format!("capabilities: [{{ name: r, match: {{ {key}: {value} }}, action: allow }}]"));
        }
    }

    #[test]
    fn any_call(path in "(\\.git|\\.GIT|\\.glasshouse|a|\\./|\\.\\.)(/(\\.Git|b|\\.glasshouse\\.))*", name in "[a-z.]{0,12}") {
        let call = serde_json::json!({ "syscall": name, "path": path });
        targets::call(&call.to_string());
    }

    #[test]
    fn any_pattern(pattern in "[ab*?/!{},\\[\\]\\\\.-]{1,16}", path in "[ab./]{1,12}") {
        targets::glob(&format!("{pattern}\n{path}"));
    }

    #[test]
    fn any_bytes_as_a_grant(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        targets::sealed(&bytes);
    }

    #[test]
    fn any_script(script in "(rm|-rf|x| |;|&&|\\||\\$\\(|\\)|`|'|\"|\\{|\\}|\n|>|<|\\$|=|if|then|fi|#|\\\\){0,24}") {
        targets::shell(&script);
    }
}
