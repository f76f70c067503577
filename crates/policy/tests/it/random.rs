//! The fuzzer's targets on random texts, and on the corpus with every text bent at random.

use std::path::Path;

use proptest::prelude::*;

use crate::targets::{self, TARGETS};

/// Bent texts for each target in a usual run, and in one that has hours.
const BENT: [usize; 2] = [400, 100_000];

/// The corpus that the fuzzer starts from.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{}: a corpus of {}", folder.display(), files.len());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % most.max(1)
    }
}

/// A text with a few pieces changed, doubled, dropped, or taken from another text.
fn bend(dice: &mut Dice, texts: &[Vec<u8>]) -> Vec<u8> {
    let mut text = texts[dice.roll(texts.len())].clone();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(text.len() + 1);
        let to = (at + dice.roll(12)).min(text.len());
        match dice.roll(6) {
            0 => drop(text.drain(at..to)),
            1 => {
                let piece = text[at..to].to_vec();
                text.splice(to..to, piece);
            }
            2 => {
                let other = &texts[dice.roll(texts.len())];
                let from = dice.roll(other.len() + 1);
                let until = (from + dice.roll(40)).min(other.len());
                text.splice(at..to, other[from..until].iter().copied());
            }
            3 if at < text.len() => text[at] ^= 1 << dice.roll(8),
            4 => {
                const ODD: &[u8] = b"\n\0 \"'\\/.*?[]{}!,:;&|()<>$`#-~=\xff\xc2\xad";
                text.insert(at, ODD[dice.roll(ODD.len())]);
            }
            _ => text.truncate(to.max(1)),
        }
    }
    text
}

fn bent(target: &str) {
    let check = TARGETS.iter().find(|(name, _)| *name == target).map(|(_, check)| *check).unwrap();
    let texts = seeds(target);
    texts.iter().for_each(|text| check(text));
    let is_soak = std::env::var_os("GLASSHOUSE_SOAK").is_some();
    let mut dice = Dice(0x9e37);
    for _ in 0..BENT[usize::from(is_soak)] {
        check(&bend(&mut dice, &texts));
    }
}

#[test]
fn corpus_of_policies_bent() {
    bent("policy-yaml");
}

#[test]
fn corpus_of_calls_bent() {
    bent("policy-call");
}

#[test]
fn corpus_of_patterns_bent() {
    bent("policy-glob");
}

#[test]
fn corpus_of_grants_bent() {
    bent("policy-grant");
}

#[test]
fn corpus_of_scripts_bent() {
    bent("policy-shell");
}

/// The corpus is of texts that get far: most of them load, match or are found.
#[test]
fn corpora_reach_what_they_are_for() {
    let compiles = |text: &&Vec<u8>| {
        let text = std::str::from_utf8(text).unwrap_or("\0");
        crate::support::compile(text).is_ok()
    };
    let loaded = seeds("policy-yaml").iter().filter(compiles).count();
    assert!(loaded >= 5, "{loaded} policies load");
    let read = seeds("policy-call").into_iter().filter(|text| {
        let text = std::str::from_utf8(text).unwrap_or_default();
        glasshouse_policy::CallSketch::from_json(text).and_then(|call| call.into_call()).is_ok()
    });
    assert!(read.count() >= 5);
}

proptest! {
    #![proptest_config(crate::support::cases(300))]

    #[test]
    fn any_text_as_a_policy(text in "[ \\-a-z:\\[\\]{}',*!&|>#\n\"]{0,120}") {
        targets::yaml(text.as_bytes());
    }

    #[test]
    fn any_rule_as_a_policy(key in "[a-z_]{1,12}", value in "[a-z*./\\[\\]{}!-]{0,20}") {
        let value = serde_json::to_string(&value).unwrap();
        let rule = |key: &str, action: &str| {
            format!("capabilities: [{{ name: r, match: {{ {key}: {value} }}, action: {action} }}]")
        };
        targets::yaml(rule(&key, "deny").as_bytes());
        let keys = ["syscall", "path_glob", "host", "argv_prefix", "argv", "label", "size_over"];
        targets::yaml(rule(keys[value.len() % keys.len()], "allow").as_bytes());
    }

    #[test]
    fn an_unknown_key_never_loads(key in "[a-z_]{1,16}", value in "(a|'\\*'|1|true|\\[\\]|\\{\\}|\\[a\\])") {
        // One of them may be known in another place than the one it is put in.
        let places = [
            "KEY: VALUE",
            "capabilities: [{ name: r, match: {}, action: allow, KEY: VALUE }]",
            "capabilities: [{ name: r, match: { KEY: VALUE }, action: deny }]",
            "capabilities: [{ name: r, match: {}, action: deny, except: [{ caller: user, KEY: VALUE }] }]",
            "capabilities: [{ name: r, match: {}, action: allow, constraints: { KEY: VALUE } }]",
            "capabilities: [{ name: r, match: {}, action: allow, examples: { KEY: VALUE } }]",
            "capabilities: [{ name: r, match: {}, action: allow, examples: { match: [{ syscall: x.y, KEY: VALUE }] } }]",
        ];
        let schema = glasshouse_policy::policy_schema().to_string();
        prop_assume!(!schema.contains(&format!("\"{key}\"")) && key != "state");
        for place in places {
            let text = place.replace("KEY", &key).replace("VALUE", &value);
            let code = crate::support::compile(&text).unwrap_err().code().to_owned();
            prop_assert!(code.starts_with("policy_"), "{}: {}", text, code);
        }
    }

    #[test]
    fn any_rules_chosen_by_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        targets::yaml(&[&[0], bytes.as_slice()].concat());
    }

    #[test]
    fn any_call(path in "(\\.git|\\.GIT|\\.glasshouse|a|\\./|\\.\\.)(/(\\.Git|b|\\.glasshouse\\.))*", name in "[a-z.]{0,12}") {
        let call = serde_json::json!({ "syscall": name, "path": path });
        targets::call(call.to_string().as_bytes());
    }

    #[test]
    fn any_pattern(pattern in "[ab*?/!{},\\[\\]\\\\.-]{1,16}", path in "[ab./]{1,12}") {
        targets::glob(format!("{pattern}\n{path}").as_bytes());
    }

    #[test]
    fn any_bytes_as_a_grant(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        targets::grant(&bytes);
    }

    #[test]
    fn any_script(script in "(rm|-rf|x| |;|&&|\\||\\$\\(|\\)|`|'|\"|\\{|\\}|\n|>|<|\\$|=|if|then|fi|#|\\\\){0,24}") {
        targets::shell(script.as_bytes());
    }
}
