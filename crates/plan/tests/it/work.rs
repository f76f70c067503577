//! Work stays in proportion to what arrived. Each of these ran for hours before it was mended; the runner
//! ends a test that does.

use glasshouse_plan::patch::{End, Screen};
use glasshouse_plan::stream::{Lines, Stream};
use glasshouse_plan::{Context, Limits, Profile, ProfileName, intake, parse, render};
use serde_json::{Value, json};

fn relaxed() -> Profile {
    Profile::named(ProfileName::Relaxed)
}

fn plan(root: &Value, state: &Value) -> String {
    json!({"specVersion": "runtime-plan/v1", "id": "w", "version": 1, "root": root,
        "state": {"initial": state}})
    .to_string()
}

/// The failure: each piece of a text had the whole of it looked at for anything but spaces.
/// Now: each byte is looked at once, also where nothing but spaces may stand.
#[test]
fn a_text_of_spaces_is_looked_at_once() {
    let spaces = " ".repeat(1_000_000);
    for tag in ["p", "table"] {
        let text = plan(
            &json!({"type": "element", "tag": tag, "children": [{"type": "text", "value": spaces}]}),
            &json!({}),
        );
        let (profile, context) = (relaxed(), Context::new("s").unwrap());
        let mut stream = Stream::new(1, &profile, &context);
        for piece in text.as_bytes().chunks(4) {
            stream.push(piece);
        }
        assert_eq!(stream.finish().end, End::Complete, "{tag}");
    }
    // The control: what is no space is found wherever it is.
    for at in [0, 5, 9] {
        let mut value = " ".repeat(10);
        value.replace_range(at..=at, "x");
        let text = plan(
            &json!({"type": "element", "tag": "table", "children": [{"type": "text", "value": value}]}),
            &json!({}),
        );
        let (profile, context) = (relaxed(), Context::new("s").unwrap());
        let mut stream = Stream::new(1, &profile, &context);
        for piece in text.as_bytes().chunks(1) {
            stream.push(piece);
        }
        assert_eq!(stream.finish().end, End::Refused, "{at}");
    }
}

/// The failure: a model's answer full of `export {` had each read to the end of the text.
/// Now: a list of exports that is not closed ends where the next begins.
#[test]
fn exports_without_end_are_read_once() {
    let answer = format!("```js\n{}\n```", "export { a,\n".repeat(100_000));
    let made = intake::read("prompt", &answer, "id").plan;
    assert_eq!(made["source"]["language"], "js");
    let names = (0..100_000).map(|n| format!("export const a{n} = 1;\n")).collect::<String>();
    let made = intake::read("prompt", &format!("```js\n{names}\n```"), "id").plan;
    assert_eq!(made["source"]["language"], "js");
}

/// The failure: a line of 38 bytes copied the whole document, and an answer has room for 100,000 of them.
/// Now: what all lines of an answer copy and show again is bounded, and the lines beyond it are named.
#[test]
fn short_lines_do_not_copy_a_large_document_for_ever() {
    let check = |first: Value, rest: &dyn Fn(usize) -> String| {
        let (profile, context) = (relaxed(), Context::new("s").unwrap());
        let mut lines = Lines::new(1, &profile, &context, "w");
        lines.push(format!("{first}\n").as_bytes());
        for number in 0..20_000 {
            lines.push(format!("{}\n", rest(number)).as_bytes());
        }
        let outcome = lines.finish();
        let issue = &outcome.left_out.first().expect("a line is left out").issue;
        assert_eq!((issue.code, outcome.left_out_count > 10_000), ("plan_too_large", true));
    };
    let wide = vec![json!([1]); 50_000];
    check(json!({"op": "add", "path": "/a", "value": wide}), &|_| {
        json!({"op": "copy", "from": "/a", "path": "/b"}).to_string()
    });
    check(json!({"op": "add", "path": "/a", "value": wide}), &|number| {
        let (from, path) = if number % 2 == 0 { ("/a", "/b") } else { ("/b", "/a") };
        json!({"op": "move", "from": from, "path": path}).to_string()
    });
    let text = json!({"type": "text", "value": "{{state.a}}"});
    let root = json!({"type": "element", "tag": "p", "children": vec![text; 1_900]});
    check(json!({"op": "add", "path": "/root", "value": root}), &|number| {
        json!({"op": "add", "path": "/state", "value": {"initial": {"a": number}}}).to_string()
    });
}

/// The failure: a stream counted the bytes of a text before they are escaped, and showed what `render`
/// refuses.
/// Now: a page near the limit is refused by its size in HTML, however the plan arrived.
#[test]
fn streams_and_pages_end_at_the_same_size() {
    let check = |texts: usize, expected: bool| {
        let value = json!({"type": "text", "value": "{{state.b}}"});
        let root = json!({"type": "element", "tag": "p", "children": vec![value; texts]});
        let text = plan(&root, &json!({"b": "&".repeat(900_000)}));
        let (profile, context) = (relaxed(), Context::new("s").unwrap());
        let whole = parse(&text, &Limits::default()).unwrap();
        assert_eq!(render(&whole, &profile, &context).is_ok(), expected, "{texts}");
        let mut stream = Stream::new(1, &profile, &context);
        stream.push(text.as_bytes());
        let outcome = stream.finish();
        assert_eq!(outcome.end == End::Complete, expected, "{texts} in a stream");
        let mut screen = Screen::default();
        screen.accept(&outcome.frame).unwrap();
        let mut lines = Lines::new(1, &profile, &context, "w");
        let document: Value = serde_json::from_str(&text).unwrap();
        for key in ["state", "root"] {
            let path = format!("/{key}");
            let line = json!({"op": "add", "path": path, "value": document[key]});
            lines.push(format!("{line}\n").as_bytes());
        }
        assert_eq!(lines.finish().end == End::Complete, expected, "{texts} in lines");
    };
    check(3, true);
    check(5, false);
}
