//! Roots that code made: the rules for what templates fill in hold for them, and nothing in them is a template.

use glasshouse_plan::state::{State, StateLimits};
use glasshouse_plan::template::Scope;
use glasshouse_plan::{Context, Html, Limits, Plan, Profile, ProfileName, Written, parse, render};
use serde_json::{Map, Value, json};

const LISTED: &str = "https://ga.jspm.io/npm:x/";

fn plan(root: &Value, code: &str, initial: &Value) -> Plan {
    let text = json!({"specVersion": "runtime-plan/v1", "id": "x", "version": 1, "root": root,
        "state": {"initial": initial}, "source": {"language": "jsx", "code": code}});
    parse(&text.to_string(), &Limits::default()).unwrap()
}

fn shown(plan: &Plan, profile: ProfileName) -> Html {
    render(plan, &Profile::named(profile), &Context::new("s").unwrap()).unwrap()
}

/// The failure: `<img src={host + state}>` in code sent the state to a listed host, with no click; as a template it was
/// refused. The guard knew templates only. Now: an address of a made root is one that was filled in, unless the plan
/// has its whole text.
#[test]
fn rules_for_what_is_filled_in_hold_for_what_code_makes() {
    let own = format!("{LISTED}logo.png");
    let root =
        json!({"type": "element", "tag": "img", "props": {"src": format!("{LISTED}root.png")}});
    let code = format!("export default () => <img src=\"{own}\" title='{LISTED}a?b=1&amp;c'/>");
    let plan = plan(&root, &code, &json!({"photo": format!("{LISTED}state.png")}));
    let check = |tag: &str, name: &str, address: &str, profile, want: bool| {
        let made = json!({"type": "element", "tag": tag, "props": {name: address}});
        let made = plan.after_code(Some(&made), &Limits::default()).unwrap();
        let html = shown(&made, profile);
        let is_there = html.markup.contains(&format!("{name}=\""));
        assert_eq!(is_there, want, "{tag} {address}: {html:?}");
        assert_eq!(html.image_origins.is_empty(), tag != "img" || !want, "{address}: {html:?}");
        assert_eq!(html.notes.iter().any(|it| it.code.ends_with("_denied")), !want, "{html:?}");
    };
    let trusted = ProfileName::Trusted;
    check("img", "src", &own, trusted, true);
    check("img", "src", &format!("{LISTED}root.png"), trusted, true);
    check("img", "src", &format!("{LISTED}state.png"), trusted, true);
    check("img", "src", &format!("{LISTED}a?b=1&c"), trusted, true);
    for filled in [
        format!("{LISTED}?q=my%20password"),
        format!("{own}?q=x"),
        format!(" {own}"),
        own[..own.len() - 1].to_owned(),
        "/relative.png?q=x".to_owned(),
        "relative.png".to_owned(),
    ] {
        for profile in [trusted, ProfileName::Relaxed] {
            check("img", "src", &filled, profile, false);
        }
    }
    check("a", "href", "https://elsewhere.example/?q=x", ProfileName::Relaxed, false);
    check("a", "href", &format!("{LISTED}?q=x"), ProfileName::Relaxed, true);
    check("a", "href", "/here", trusted, true);
    // What a plugin makes of a root, and what components make, too.
    let image = json!({"type": "element", "tag": "img", "props": {"src": format!("{LISTED}?q=x")}});
    let before = plan.after_code(None, &Limits::default()).unwrap();
    let plugged = before.with_root(&image, &Limits::default()).unwrap();
    assert_eq!(shown(&plugged, trusted).image_origins.len(), 0);
    let called =
        before.after_components(image, (&[], &Written::default()), &Limits::default()).unwrap();
    assert_eq!(shown(&called, trusted).image_origins.len(), 0);
    assert_eq!(shown(&before, trusted).image_origins.len(), 1, "the control");
}

/// The failure: a text of the state with `{{...}}` in it, shown by code, was read as a template, and gave away other
/// state. What code had made was rendered like a plan that was written. Now: nothing in a made root is a template.
#[test]
fn what_code_shows_is_never_read_as_a_template() {
    let initial = json!({"note": "{{state.token}} and {{1+1}}", "token": "SECRET", "n": 3});
    let text = |value: &str| json!({"type": "text", "value": value});
    let plan = plan(
        &text("{{state.token}}"),
        "export default () => <p style={{a: 1}}>{'{{state.n}}'}</p>",
        &initial,
    );
    let limits = Limits::default();
    let made = json!({"type": "element", "tag": "button", "props": {
        "title": initial["note"], "style": {"color": "red"},
        "onClick": {"type": "a", "payload": {"x": initial["note"]}}},
        "children": [text(initial["note"].as_str().unwrap())]});
    let coded = plan.after_code(Some(&made), &limits).unwrap();
    let html = shown(&coded, ProfileName::Trusted);
    assert!(!format!("{html:?}").contains("SECRET"), "{html:?}");
    assert!(html.markup.contains(">{{state.token}} and {{1+1}}<"), "{html:?}");
    assert_eq!(html.events[0].event.payload().unwrap()["x"], initial["note"]);
    // A template that stands in the source is one: nobody else wrote it.
    let text_of = |made: &str| {
        let coded = plan.after_code(Some(&text(made)), &limits).unwrap();
        shown(&coded, ProfileName::Trusted).markup
    };
    assert_eq!(text_of("n {{ state.n }}"), "n 3");
    assert_eq!(text_of("{{state.n}}"), "3");
    assert_eq!(text_of("{{state.n}} {{state.token}}"), "{{state.n}} {{state.token}}");
    // Its own root, which a plan may still show, has its templates: also when a plugin changed it.
    let own = plan.after_code(None, &limits).unwrap();
    assert_eq!(shown(&own, ProfileName::Trusted).markup, "SECRET", "the control");
    let plugged = own.with_root(&text("a {{state.token}}"), &limits).unwrap();
    assert_eq!(shown(&plugged, ProfileName::Trusted).markup, "a SECRET");
    let plugged = coded.with_root(&text("a {{state.token}}"), &limits).unwrap();
    assert_eq!(shown(&plugged, ProfileName::Trusted).markup, "a {{state.token}}");
}

/// Before components run, the templates of a plan are filled in as its rendering would.
#[test]
fn templates_filled_in_ahead_are_those_that_rendering_fills_in() {
    let initial = json!({"n": 3, "name": "<Ada>", "on": true, "to": "https://evil.example/x",
        "here": format!("{LISTED}?q=x"), "again": "{{state.n}}"});
    let props = |props: Value| json!({"type": "element", "tag": "input", "props": props});
    let link = |to: &str| json!({"type": "element", "tag": "a", "props": {"href": to}});
    for root in [
        json!({"type": "text", "value": "{{state.name}} {{state.n}} {{state.none}} {{state.again}}"}),
        props(
            json!({"disabled": "{{state.none}}", "readonly": "{{state.on}}", "value": "{{state.n}}"}),
        ),
        props(json!({"required": "", "title": "{{state.none}}", "placeholder": "a{{state.name}}"})),
        props(json!({"style": {"width": "{{state.n}}px"}, "aria-label": "{{state.again}}"})),
        props(
            json!({"onClick": {"type": "a", "payload": {"n": "{{state.n}}", "m": ["{{state.again}}"]}}}),
        ),
        link("{{state.to}}"),
        link("{{state.here}}"),
        json!({"type": "element", "tag": "img", "props": {"alt": "", "src": "{{state.here}}"}}),
        json!({"type": "element", "tag": "p", "children": [link("/x/{{state.n}}"), props(json!({"type": "{{state.none}}"}))]}),
    ] {
        let written = plan(&root, "1", &initial).after_code(None, &Limits::default()).unwrap();
        let state = State::initial(&written, &StateLimits::default()).unwrap();
        let scope = Scope {
            state: &state.values,
            event: None,
            user_id: "anonymous",
            variables: &Map::new(),
        };
        let profile = Profile::named(ProfileName::Trusted);
        let filled = written.filled(&scope, &profile, &Limits::default()).unwrap().unwrap();
        let (want, got) =
            (shown(&written, ProfileName::Trusted), shown(&filled, ProfileName::Trusted));
        assert_eq!((&got.markup, &got.events), (&want.markup, &want.events), "{root}");
        // What is left out is said by both.
        let left_out = |html: &Html| {
            html.notes
                .iter()
                .filter(|it| it.code.ends_with("_denied"))
                .map(|it| it.pointer.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(left_out(&got), left_out(&want), "{root}");
        // What is in a value that was filled in is no template either.
        let again = filled.filled(&scope, &profile, &Limits::default()).unwrap().unwrap();
        assert_eq!(shown(&again, ProfileName::Trusted).markup, want.markup, "{root}");
    }
}

/// The failure: a root beyond the limits was refused at a line and column of a text that nobody wrote, as if the plan had
/// them, and an element that code made at `/root`, where the plan has another.
/// Now: who made it is told, and what was written keeps its places.
#[test]
fn what_was_made_is_refused_as_made() {
    let root = json!({"type": "text", "value": "own"});
    let document = json!({"specVersion": "runtime-plan/v1", "id": "p", "version": 1, "root": root});
    let plan = parse(&document.to_string(), &Limits::default()).unwrap();
    let limits = Limits { string_bytes: 64, nodes: 8, ..Limits::default() };
    let long = json!({"type": "text", "value": "x".repeat(100)});
    let many = json!({"type": "element", "tag": "p", "children": vec![json!({"type": "text", "value": "a"}); 20]});
    for made in [&long, &many] {
        let none = Written::default();
        for (error, maker) in [
            (plan.after_code(Some(made), &limits).unwrap_err(), "the plan's code"),
            (
                plan.after_components(made.clone(), (&[], &none), &limits).unwrap_err(),
                "a component",
            ),
        ] {
            let report = error.report();
            assert_eq!(report.code, "plan_too_large");
            assert!(report.what.contains(maker), "{report:?}");
            assert!(!report.context.contains_key("line"), "{report:?}");
        }
    }
    let mut written = document.clone();
    written["root"] = long;
    let error = parse(&written.to_string(), &limits).unwrap_err().report();
    assert!(error.context.contains_key("line") && !error.what.contains("made"), "the control");
    let script = json!({"type": "element", "tag": "script"});
    let profile = Profile::named(ProfileName::Trusted);
    let refused = |plan: &Plan| {
        glasshouse_plan::render(plan, &profile, &Context::new("s").unwrap())
            .unwrap_err()
            .report()
            .what
    };
    let coded = plan.after_code(Some(&script), &Limits::default()).unwrap();
    assert!(refused(&coded).contains("the plan's code made"), "{}", refused(&coded));
    written["root"] = script;
    let plain = parse(&written.to_string(), &Limits::default()).unwrap();
    assert!(!refused(&plain).contains("code made"), "the control");
}
