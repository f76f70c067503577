//! Properties: nothing panics, and what is rendered is what was accepted.

use glasshouse_plan::json::Document;
use glasshouse_plan::{
    Context, Limits, Profile, ProfileName, allowed_tags, check, check_text, parse, render,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::tokens::{Token, dangers, tokens};

pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec![
            "<script>",
            "\"><img src=x onerror=alert(1)>",
            "javascript:alert(1)",
            "{{state.evil}}",
            "{{",
            "}}",
            "https://evil.example/",
            "//evil.example",
            "&lt;",
            "'",
            "a",
            "url(x)",
            "color: red",
            "color: url(//evil.example)",
            "\u{0}\r\n",
            "data:text/html,x",
            "text",
            "_blank",
            "#x",
            "é",
            "checkbox",
            "go",
        ])
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "type",
            "tag",
            "props",
            "children",
            "value",
            "text",
            "module",
            "id",
            "version",
            "root",
            "state",
            "initial",
            "transitions",
            "specVersion",
            "capabilities",
            "source",
            "$from",
            "path",
            "__proto__",
            "by",
        ])
        .prop_map(str::to_owned),
        ".{0,6}",
    ]
}

fn attribute() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "class", "className", "id", "title", "href", "HREF", "src", "style", "onClick", "onclick",
            "srcset", "rel", "target", "aria-label", "aria-labelledby", "data-x", "type", "name",
            "for", "value", "hidden", "key", "$if", "once", "srcdoc", "formaction", "lang", "alt",
        ])
        .prop_map(str::to_owned),
        1 => "[ -~]{1,8}",
    ]
}

pub(crate) fn node() -> impl Strategy<Value = Value> {
    let tag = || {
        prop_oneof![
            20 => prop::sample::select(vec!["div", "section", "span", "b", "ul", "article", "a", "img"])
                .prop_map(str::to_owned),
            6 => prop::sample::select(allowed_tags()).prop_map(str::to_owned),
            1 => prop::sample::select(vec!["script", "svg", "x-a", "p onclick=x", "Div", " p"])
                .prop_map(str::to_owned),
        ]
    };
    let props = || {
        prop::collection::btree_map(attribute(), scalar(), 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
    };
    let text = scalar().prop_map(|value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        json!({"type": "text", "value": text})
    });
    let leaf = prop_oneof![
        text,
        (tag(), props())
            .prop_map(|(tag, props)| json!({"type": "element", "tag": tag, "props": props})),
    ];
    // Mostly plain elements, so that a good part of the trees is accepted.
    leaf.prop_recursive(4, 24, 4, move |inner| {
        (tag(), props(), prop::collection::vec(inner, 0..4)).prop_map(|(tag, props, children)| {
            json!({"type": "element", "tag": tag, "props": props, "children": children})
        })
    })
}

const NAMES: &[&str] = &[
    "class",
    "id",
    "title",
    "lang",
    "dir",
    "hidden",
    "role",
    "tabindex",
    "style",
    "href",
    "src",
    "cite",
    "target",
    "rel",
    "hreflang",
    "alt",
    "width",
    "height",
    "loading",
    "decoding",
    "datetime",
    "start",
    "reversed",
    "type",
    "value",
    "colspan",
    "rowspan",
    "span",
    "headers",
    "scope",
    "abbr",
    "autocomplete",
    "novalidate",
    "name",
    "disabled",
    "for",
    "checked",
    "placeholder",
    "readonly",
    "required",
    "min",
    "max",
    "step",
    "minlength",
    "maxlength",
    "size",
    "multiple",
    "list",
    "inputmode",
    "label",
    "selected",
    "rows",
    "cols",
    "wrap",
    "low",
    "high",
    "optimum",
    "open",
    "method",
    "referrerpolicy",
];

fn name_is_known(name: &str) -> bool {
    NAMES.contains(&name)
        || ["aria-", "data-plan-", "data-glasshouse-"].iter().any(|family| name.starts_with(family))
}

/// Reads markup again and compares it with the tree; texts side by side count as one.
fn same_tree(markup: &str) -> Result<(), TestCaseError> {
    const VOID: &[&str] = &["hr", "br", "wbr", "img", "col", "input"];
    let mut open: Vec<String> = Vec::new();
    for token in tokens(markup) {
        match token {
            Token::Start { tag, attributes } => {
                prop_assert!(allowed_tags().contains(&tag.as_str()), "{tag} in {markup}");
                let mut seen = std::collections::BTreeSet::new();
                for (name, _) in attributes {
                    prop_assert!(name_is_known(&name), "{name} in {markup}");
                    prop_assert!(seen.insert(name.clone()), "{name} twice in {markup}");
                }
                if !VOID.contains(&tag.as_str()) {
                    open.push(tag);
                }
            }
            Token::End(tag) => prop_assert_eq!(open.pop(), Some(tag), "{}", markup),
            Token::Other(text) => prop_assert!(false, "{text} in {markup}"),
            Token::Text(_) => {}
        }
    }
    prop_assert!(open.is_empty(), "{markup}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_reader_agrees_with_a_general_one(value in any_value()) {
        let text = value.to_string();
        let document = Document::parse(&text, &Limits::default()).unwrap();
        prop_assert_eq!(document.root().to_value(), value);
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}:,\"\\\\u0-9a-f+.eE \\-]{0,40}|.{0,40}") {
        let strict = serde_json::from_str::<Value>(&text).is_ok();
        let ours = Document::parse(&text, &Limits::default());
        match ours {
            Ok(_) => prop_assert!(strict, "{text:?}"),
            Err(error) if strict => prop_assert!(
                matches!(error.code(), "plan_key_duplicate" | "plan_number_not_finite"), "{text:?}"),
            Err(_) => {}
        }
        let _ = check_text(&text, &Limits::default(), &Profile::named(ProfileName::Relaxed));
    }

    #[test]
    fn no_value_panics(value in any_value()) {
        let plan = json!({"id": "x", "version": 1, "root": value, "state": {"initial": {}}});
        let _ = check_text(&plan.to_string(), &Limits::default(), &Profile::named(ProfileName::Strict));
    }

    #[test]
    fn what_is_rendered_is_what_was_accepted(root in node(), evil in scalar()) {
        let plan = json!({"id": "x", "version": 1, "root": root, "state": {"initial": {"evil": evil}}});
        let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
        let profile = Profile::named(ProfileName::Relaxed);
        let profile = Profile { allow_arbitrary_network: false, ..profile };
        let report = check(&plan, &profile);
        let rendered = render(&plan, &profile, &Context::new("s").unwrap());
        prop_assert_eq!(report.safe, rendered.is_ok(), "{:?}", report);
        if let Ok(html) = rendered {
            let hosts = ["ga.jspm.io", "cdn.jspm.io", "esm.sh", "unpkg.com"];
            prop_assert_eq!(dangers(&html.markup, &hosts), Vec::<String>::new(), "{}", html.markup);
            same_tree(&html.markup)?;
        }
    }
}

/// The property above says nothing about plans that are refused, so enough must be accepted.
#[test]
fn a_good_part_of_the_random_trees_is_accepted() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let profile = Profile::named(ProfileName::Relaxed);
    let accepted = (0..300)
        .filter(|_| {
            let root = node().new_tree(&mut runner).unwrap().current();
            let plan = json!({"id": "x", "version": 1, "root": root});
            check(&parse(&plan.to_string(), &Limits::default()).unwrap(), &profile).safe
        })
        .count();
    assert!(accepted >= 60, "{accepted} of 300");
}
