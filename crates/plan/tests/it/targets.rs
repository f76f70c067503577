//! What must hold for every text, as plain functions: a property test calls them here, and the
//! fuzzers in `fuzz/` call the same ones with texts of their own.

use glasshouse_plan::patch::{Frame, Screen};
use glasshouse_plan::stream::Stream;
use glasshouse_plan::template::{Piece, Scope, pieces, problems, resolve_string, resolve_text};
use glasshouse_plan::{
    Context, Limits, Profile, ProfileName, check, check_text, event_binding, inspect_url_attribute,
    intake, module, parse, path, render, source,
};
use serde_json::{Map, Value, json};

use crate::browser;
use crate::hostile::same_elements;

/// Any text: reading it never panics, and a report is bounded and true.
pub(crate) fn validator(text: &str) {
    for name in ProfileName::ALL {
        let report = check_text(text, &Limits::default(), &Profile::named(name));
        assert_eq!(report.safe, report.issue_count == 0);
        assert!(report.issues.len() <= report.issue_count);
        assert!(serde_json::to_string(&report).unwrap().len() < 512 * 1024);
    }
    if let Ok(plan) = parse(text, &Limits::default()) {
        let again = serde_json::to_string(&plan).unwrap();
        let same = parse(&again, &Limits::default()).unwrap();
        assert_eq!(serde_json::to_string(&same).unwrap(), again, "a second reading agrees");
        assert!(problems(&plan).len() <= 8);
    }
}

/// Any text as a template: its parts are the text, and what is filled in is not read again.
pub(crate) fn templates(text: &str) {
    let mut length = 0;
    for piece in pieces(text) {
        match piece {
            Piece::Literal(literal) => length += literal.len(),
            Piece::Expression(expression) => {
                assert!(!expression.contains('}'));
                length += expression.len() + 4;
            }
        }
    }
    assert!(length <= text.len() + 4);
    let state = json!({"a": "{{b}}", "b": "B", "o": {"x": [1, null, {"y": true}]}});
    let scope = Scope {
        state: state.as_object().unwrap(),
        event: None,
        user_id: "u",
        variables: &Map::new(),
    };
    let once = resolve_text(text, &scope).into_owned();
    assert_eq!(resolve_text(text, &scope), once, "equal input, equal text");
    if !text.contains("{{") {
        assert_eq!(once, text);
        assert_eq!(resolve_string(text, &scope), Value::from(text));
    }
}

/// Any text as a path: what is written where it leads is read there again.
pub(crate) fn paths(text: &str) {
    let safe = path::is_safe(text);
    let mut target = json!({"a": {"b": [1, {"c": 2}]}}).as_object().unwrap().clone();
    let before = target.clone();
    match path::set(&mut target, text, json!("written")) {
        Ok(()) => {
            assert!(safe);
            let found = path::get(&target, text).unwrap().to_value();
            assert_eq!(found, "written", "{text:?}");
        }
        Err(_) => assert_eq!(target, before, "a refused write changes nothing"),
    }
    if !safe {
        assert!(path::get(&before, text).is_none());
        assert!(!path::is_template_path(text));
    }
}

/// Any text as a plan's tree: what is shown is what a browser's parser sees, and nothing of it
/// runs, loads or leads away.
pub(crate) fn html(text: &str) {
    let Ok(root) = serde_json::from_str::<Value>(text) else { return };
    let plan = json!({"specVersion": "runtime-plan/v1", "id": "f", "version": 1, "root": root,
        "state": {"initial": {"evil": "\"><script>"}}});
    let Ok(plan) = parse(&plan.to_string(), &Limits::default()) else { return };
    let profile = Profile::named(ProfileName::Balanced);
    let report = check(&plan, &profile);
    let Ok(html) = render(&plan, &profile, &Context::new("s").unwrap()) else {
        assert!(!report.safe || plan.source().is_some() || plan.capabilities().is_some());
        return;
    };
    assert!(report.safe);
    let found = browser::live(&browser::parse(&html.markup), &["ga.jspm.io", "cdn.jspm.io"]);
    assert!(found.is_empty(), "{found:?} in {}", html.markup);
    assert!(same_elements(&plan, &html.markup), "{}", html.markup);
}

/// Any text as an answer, an address, a module name and source: nothing panics.
pub(crate) fn intakes(text: &str) {
    let made = intake::read("prompt", text, "id").plan;
    assert!(parse(&made.to_string(), &Limits::default()).is_ok(), "{made}");
    for name in ["href", "srcset", "ping", "fill"] {
        if let Some(found) = inspect_url_attribute(name, text) {
            assert!(found.relative.iter().all(|it| !it.to_lowercase().starts_with("javascript:")));
        }
    }
    let resolved = module::Resolver::default().resolve(text);
    assert_eq!(resolved.is_err(), resolved.as_ref().is_err_and(|it| it.is(UNSUPPORTED)));
    for language in ["js", "tsx"] {
        let scan = source::scan(text, language);
        assert_eq!(source::scan(text, language), scan);
    }
    let document =
        glasshouse_plan::json::Document::parse(&json!(text).to_string(), &Limits::default());
    if let Ok(document) = document {
        let _ = event_binding(text, document.root());
    }
}

/// Any text as a model's answer: however it is cut, the same is shown in the end, and what is shown is
/// at no time anything that runs, loads or leads away.
pub(crate) fn splits(text: &str) {
    let bytes = text.as_bytes();
    let whole = streamed([bytes].into_iter());
    let single = streamed(bytes.chunks(1));
    assert_eq!(single, whole, "one byte at a time: {text:?}");
    for at in (1..bytes.len()).step_by(bytes.len() / 16 + 1) {
        let (first, second) = bytes.split_at(at);
        assert_eq!(streamed([first, second].into_iter()), whole, "cut at {at}: {text:?}");
    }
}

/// How a stream ends, and what is shown then.
fn streamed<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> (String, String, Option<String>) {
    let profile = Profile::named(ProfileName::Balanced);
    let context = Context::new("s").unwrap();
    let mut stream = Stream::new(1, &profile, &context);
    let mut screen = Screen::default();
    let mut take = |frame: &Frame| {
        screen.accept(frame).unwrap();
        let markup = screen.view().markup();
        let found = browser::live(&browser::parse(&markup), &["ga.jspm.io", "cdn.jspm.io"]);
        assert!(found.is_empty(), "{found:?} in {markup}");
    };
    for piece in pieces {
        stream.push(piece);
        if let Some(frame) = stream.frame() {
            take(&frame);
        }
    }
    let outcome = stream.finish();
    take(&outcome.frame);
    let error = outcome.error.map(|error| error.code().to_owned());
    (format!("{:?}", outcome.end), screen.view().markup(), error)
}

const UNSUPPORTED: glasshouse_plan::Code = glasshouse_plan::codes::MODULE_UNSUPPORTED;

mod properties {
    use proptest::prelude::*;

    /// Texts near the grammars that the targets read.
    fn near() -> impl Strategy<Value = String> {
        let parts = prop::sample::select(vec![
            "{",
            "}",
            "{{",
            "}}",
            "[",
            "]",
            "\"",
            ":",
            ",",
            "state.",
            "a",
            ".",
            "__proto__",
            "0",
            "type",
            "text",
            "element",
            "tag",
            "props",
            "children",
            "value",
            "href",
            "javascript:",
            "\\",
            "\n",
            " ",
            "é",
            "<",
            ">",
            "&",
            "'",
            "`",
            "${",
            "```",
            "json",
            "import",
            "(",
            ")",
            "//",
            "/*",
            "*/",
            "url(",
            "https://",
            "npm:",
            "@",
            "%5f",
            "~1",
            "null",
            "true",
            "-1e9",
            "{\"type\":\"text\",\"value\":\"x\"}",
            "{\"type\":\"element\",\"tag\":\"p\"}",
        ]);
        prop_oneof![
            3 => prop::collection::vec(parts, 0..24).prop_map(|parts| parts.concat()),
            1 => ".{0,60}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hold(text in near()) {
            super::validator(&text);
            super::templates(&text);
            super::paths(&text);
            super::html(&text);
            super::intakes(&text);
            super::splits(&text);
            super::splits(&format!(r#"{{"id":"s","version":1,"specVersion":"runtime-plan/v1","root":{text}"#));
        }
    }
}
