//! What code makes.

use glasshouse_script::{Runtime, Stores};
use serde_json::{Value, json};

use crate::support::{element, ended, made, ran, ran_with, rendered, task, text};

/// The source module of the format's own reference.
const COUNTER: &str = "import { useState } from 'preact/hooks';
export default function Counter() {
  const [count, setCount] = useState(0);
  return <button onClick={() => setCount(c => c+1)}>Count: {count}</button>;
}";

#[test]
fn the_counter_of_the_reference_renders() {
    let want = element("button", json!({"onClick": {"$function": true}}), vec![text("Count: 0")]);
    assert_eq!(rendered(COUNTER).unwrap(), want);
}

/// A handler that is a function leaves a mark, and nothing else that is one does.
#[test]
fn a_function_that_nobody_calls_leaves_a_mark() {
    let lost = json!({"$function": true});
    for (props, want) in [
        ("onClick={() => 1}", json!({"onClick": lost})),
        ("onclick={() => 1}", json!({"onclick": lost})),
        ("onClick='add'", json!({"onClick": "add"})),
        ("onClick={{ type: 'add' }}", json!({"onClick": {"type": "add"}})),
        ("onClick={undefined}", json!({})),
        ("title={() => 1}", json!({})),
        ("ref={() => 1}", json!({})),
    ] {
        let code = format!("export default () => <p {props}>a</p>");
        let want = element("p", want, vec![text("a")]);
        assert_eq!(made(&code).unwrap(), want, "{props}, as nodes");
        assert_eq!(rendered(&code).unwrap(), want, "{props}, by Preact");
    }
}

/// The failure: half a sign, which a cut leaves of a picture sign, lost the whole view with words about escapes. Neither the reader
/// of JSON nor that of the engine's texts took it. Now: it is the sign for what cannot be read.
#[test]
fn half_a_sign_does_not_lose_the_view() {
    let half = "'a\u{1f600}b'.slice(0, 2)";
    for (code, want) in [
        (format!("export default () => {half}"), "a\u{fffd}"),
        (
            format!("export default () => {half} + '\\\\ud83d' + '\u{1f600}'"),
            "a\u{fffd}\\ud83d\u{1f600}",
        ),
        ("export default () => '\\udc00\\ud83d\\ude00'".to_owned(), "\u{fffd}\u{1f600}"),
    ] {
        assert_eq!(made(&code).unwrap(), text(want), "{code}");
    }
    let code = format!("export default () => <p title={{{half}}}>{{{half}}}</p>");
    let want = element("p", json!({"title": "a\u{fffd}"}), vec![text("a\u{fffd}")]);
    assert_eq!(made(&code).unwrap(), want);
    assert_eq!(rendered(&code).unwrap(), want);
}

#[test]
fn preact_components_become_nodes() {
    let check = |code: &str, want: Value| assert_eq!(rendered(code).unwrap(), want, "{code}");
    check(
        "export default ({ state }) => <p class='a'>{state.count}</p>",
        element("p", json!({"class": "a"}), vec![text("3")]),
    );
    check(
        "import { useState } from 'react'; export default () => { const [n] = useState(4); return <i>{n}</i> }",
        element("i", json!({}), vec![text("4")]),
    );
    check(
        "import { Component } from 'preact'; export default class A extends Component { render() { return <b>x</b> } }",
        element("b", json!({}), vec![text("x")]),
    );
    check("export default <hr/>", element("hr", json!({}), vec![]));
    check(
        "export default () => <button onClick={{ type: 'add', payload: { by: 2 } }}>+</button>",
        element(
            "button",
            json!({"onClick": {"type": "add", "payload": {"by": 2}}}),
            vec![text("+")],
        ),
    );
    check(
        "export default () => <button onClick='add'>+</button>",
        element("button", json!({"onClick": "add"}), vec![text("+")]),
    );
    check(
        "export default () => <p style={{ marginTop: 4, color: 'red' }}>a &lt; b</p>",
        element("p", json!({"style": "margin-top:4px;color:red;"}), vec![text("a < b")]),
    );
    check(
        "import { createContext } from 'preact'; import { useContext } from 'preact/hooks';
         const C = createContext('none'); const Inner = () => <u>{useContext(C)}</u>;
         export default () => <C.Provider value='given'><Inner/></C.Provider>",
        element("u", json!({}), vec![text("given")]),
    );
    check(
        "export default () => <>{[1, 2].map(n => <li key={n}>{n}</li>)}</>",
        element(
            "div",
            json!({"data-renderify-fragment": ""}),
            vec![
                element("li", json!({}), vec![text("1")]),
                element("li", json!({}), vec![text("2")]),
            ],
        ),
    );
}

#[test]
fn functions_that_make_nodes() {
    let check = |code: &str, want: Value| assert_eq!(made(code).unwrap(), want, "{code}");
    check(
        "export default ({ state }) => <p className='a'>{state.count} {null}{false}b</p>",
        element("p", json!({"class": "a"}), vec![text("3"), text(" "), text("b")]),
    );
    check("export default () => 'plain'", text("plain"));
    check("export default async () => { await 0; return <b/> }", element("b", json!({}), vec![]));
    check("export default { type: 'text', value: 'x' }", text("x"));
    check(
        "const Item = (p: { n: number; children?: any }) => <li>{p.n}{p.children}</li>;
         export default () => <ul>{[1, 2].map(n => <Item n={n}>!</Item>)}</ul>",
        element(
            "ul",
            json!({}),
            vec![
                element("li", json!({}), vec![text("1"), text("!")]),
                element("li", json!({}), vec![text("2"), text("!")]),
            ],
        ),
    );
    check(
        "export default () => <><i/><b/></>",
        element(
            "div",
            json!({"data-renderify-fragment": ""}),
            vec![element("i", json!({}), vec![]), element("b", json!({}), vec![])],
        ),
    );
    check(
        "export default () => <p style={{ marginTop: '4px' }} onClick='add' title={undefined}/>",
        element("p", json!({"style": "margin-top: 4px", "onClick": "add"}), vec![]),
    );
}

#[test]
fn another_export_is_run_when_it_is_asked_for() {
    let named = glasshouse_script::Task { export: "View".to_owned(), ..task(Runtime::Renderify) };
    let code = "export const View = () => 'named'; export default () => 'default'";
    assert_eq!(ran(code, &named).unwrap().node.unwrap(), text("named"));
    assert_eq!(ended("export default 1", &named).0, "script_export_missing");
}

#[test]
fn what_goes_wrong_has_a_code() {
    for (code, want) in [
        ("export default () => { throw new Error('x') }", "script_failed"),
        ("export default () => { throw 'x' }", "script_failed"),
        ("export default () => { throw null }", "script_failed"),
        ("throw new TypeError('at load'); export default 1", "script_failed"),
        ("export default () => new Promise(() => {})", "script_failed"),
        ("export default async () => { throw new Error('later') }", "script_failed"),
        ("export const other = 1", "script_export_missing"),
        ("export default () => ({})", "script_output_invalid"),
        ("export default () => null", "script_output_invalid"),
        ("export default () => true", "script_output_invalid"),
        ("export default () => { const a: any = {}; a.a = a; return a }", "script_failed"),
        ("export default <p>", "script_source_invalid"),
        ("export default () => eval('1')", "script_source_denied"),
        ("export default () => missing", "script_name_unknown"),
        ("import x from 'lodash-es'; export default x", "script_module_unavailable"),
        ("import x from 'recharts'; export default x", "script_module_unavailable"),
        ("export default () => 1n", "script_failed"),
    ] {
        assert_eq!(ended(code, &task(Runtime::Renderify)).0, want, "{code}");
    }
}

#[test]
fn equal_tasks_make_equal_nodes() {
    let code = "export default () => [Date.now(), new Date().toISOString(), new Date(0).getTimezoneOffset(),
        String(new Date()), Date(), new Date(2020, 0, 1, 12).toLocaleString(), Math.random(), Math.random(),
        typeof performance, typeof Intl, (1234.5).toLocaleString(), Date.name, new Date() instanceof Date,
        new (class extends Date {})().getTime()].map(String).join(' ')";
    let first = made(code).unwrap();
    assert_eq!(made(code).unwrap(), first);
    let said = first["value"].as_str().unwrap();
    assert!(said.starts_with("1790000000000 2026-09-21T14:13:20.000Z 0 "), "{said}");
    assert!(said.contains("undefined undefined"), "{said}");
    for other in [
        glasshouse_script::Task { seed: 8, ..task(Runtime::Renderify) },
        glasshouse_script::Task { now_ms: 0, ..task(Runtime::Renderify) },
    ] {
        assert_ne!(ran(code, &other).unwrap().node.unwrap(), first);
    }
}

#[test]
fn a_receipt_says_what_ran_and_how_isolated() {
    let ran = ran(COUNTER, &task(Runtime::Preact)).unwrap();
    let receipt = ran.receipt;
    assert!(receipt.isolation.starts_with("native:"), "{receipt:?}");
    assert!(receipt.module.starts_with("sha256:"));
    assert!(receipt.compiler.starts_with("oxc ") && receipt.engine.contains("quickjs"));
    assert!(receipt.duration_us > 0);
    assert_eq!((receipt.limit, receipt.killed), (None, None));
}

/// The failure: only the engine's own promises were waited for, so what a library of promises made
/// was shown as it stood.
#[test]
fn what_has_a_then_is_waited_for() {
    for made_by in [
        "() => ({ then(done) { done('x') } })",
        "{ then(done) { Promise.resolve().then(() => done('x')) } }",
        "async () => ({ then: done => done({ then: done => done('x') }) })",
        "() => new (class extends Promise {})(done => done('x'))",
        "Promise.resolve('x')",
        "() => 'x'",
    ] {
        let code = format!("export default {made_by} as any");
        assert_eq!(made(&code).unwrap(), text("x"), "{made_by}");
    }
    let (end, _) = ended("export default () => ({ then() {} })", &task(Runtime::Renderify));
    assert_eq!(end, "script_failed");
    let (end, _) = ended(
        "export default () => ({ then(_: any, no: any) { no(1) } })",
        &task(Runtime::Renderify),
    );
    assert_eq!(end, "script_failed");
}

/// The storage of browsers: in memory, bounded, as long as one run.
#[test]
fn h7_storage_is_in_memory_and_bounded() {
    let both = Stores::of(["localStorage", "sessionStorage"]);
    let check = |code: &str, want: Value| {
        let code = format!("export default () => JSON.stringify((() => {{ {code} }})())");
        let ran = ran_with(&code, &task(Runtime::Renderify), both).unwrap();
        assert!(ran.receipt.storage_in_memory, "{code}");
        let got = ran.node.unwrap();
        assert_eq!(got, text(&want.to_string()), "{code}");
    };
    let s = "const s = localStorage;";
    check(&format!("{s} return [s.length, s.getItem('a'), s.a ?? 0]"), json!([0, null, 0]));
    check(
        &format!(
            "{s} s.setItem('a', 1); s.b = {{}}; return [s.a, s.getItem('b'), s.length, s.key(1), s.key(2)]"
        ),
        json!(["1", "[object Object]", 2, "b", null]),
    );
    check(
        &format!(
            "{s} s.a = 'x'; return ['a' in s, 'b' in s, Object.keys(s), {{...s}}, delete s.a, s.length]"
        ),
        json!([true, false, ["a"], {"a": "x"}, true, 0]),
    );
    check(
        &format!(
            "{s} s.a = 1; s.removeItem('a'); s.removeItem('no'); s.b = 1; s.clear(); return s.length"
        ),
        json!(0),
    );
    check(
        &format!("{s} s.setItem('getItem', 'x'); return [typeof s.getItem, s.getItem('getItem')]"),
        json!(["function", "x"]),
    );
    check(
        "sessionStorage.a = 1; return [localStorage.length, sessionStorage.length]",
        json!([0, 1]),
    );
    // What is too much is refused with the name that browsers use; what was there stays, and room comes back.
    let most = 5 * 1024 * 1024;
    check(
        &format!(
            "{s} s.a = 'kept'; let error; try {{ s.b = 'x'.repeat(6e6) }} catch (e) {{ error = e }}
             const full = 'x'.repeat({most} - 6); s.b = full; let one;
             try {{ s.c = '' }} catch (e) {{ one = e.name }}
             s.b = full; delete s.b; s.c = full;
             return [error.name, error.code, error instanceof Error, one, s.a, s.length]"
        ),
        json!(["QuotaExceededError", 22, true, "QuotaExceededError", "kept", 2]),
    );
    let used = ran("export default 1", &task(Runtime::Renderify)).unwrap();
    assert!(!used.receipt.storage_in_memory, "the control");
}

/// The failure: code that threw had no place, and those of `Error.stack` were of the text that the compiler made, which
/// nobody sees: line 5 for line 7. Now: the place is of the source as it was written, through types, markup, comments and
/// signs of any width, and where none is known there is none. In a line it is the last part that the engine noted of what
/// failed, such as an argument.
#[test]
fn what_throws_names_its_place_in_the_source() {
    let check = |runtime: Runtime, code: &str, expected: Option<(u64, u64)>| {
        let error = ran(code, &task(runtime)).unwrap().node.unwrap_err();
        let report = error.report();
        assert_eq!(report.code, "script_failed", "{code}: {report:?}");
        let number = |key: &str| report.context.get(key).and_then(Value::as_u64);
        assert_eq!(number("line").zip(number("column")), expected, "{code}: {report:?}");
        assert_eq!(report.what.contains("line"), expected.is_some(), "{report:?}");
    };
    let (nodes, preact) = (Runtime::Renderify, Runtime::Preact);
    check(nodes, "export default () => { throw new Error('boom') }", Some((1, 34)));
    // Types and comments make lines that the compiler leaves out.
    let typed = "interface A {\n  a: number;\n}\n/* one\n two */\nfunction f(a: A): number {\n  throw new Error('boom' + a.a);\n}\nexport default () => f({ a: 1 });";
    check(nodes, typed, Some((7, 28)));
    check(preact, typed, Some((7, 28)));
    // Markup over several lines becomes one, and the function in it has a place of its own.
    let markup = "type P = { n: number };\nexport default (p: P) => (\n  <div>\n    <p>\u{e4}\u{1f600}</p>\n    {[1].map(() => {\n      throw new TypeError('in markup');\n    })}\n  </div>\n);";
    check(nodes, markup, Some((6, 17)));
    let component = "const Inner = (p: { n: any }) => {\n\n  return <i>{p.n.a.b}</i>;\n};\nexport default () => <p><Inner n={{}}/></p>;";
    check(preact, component, Some((3, 14)));
    // What the language itself throws, and at the top of the module.
    check(nodes, "const a: any = null;\n\nexport default a.b;", Some((3, 16)));
    check(
        nodes,
        "export default () => {\n  const s = '\u{e4}\u{1f600}'; throw new Error(s)\n}",
        Some((2, 35)),
    );
    check(
        nodes,
        "export default async () => {\n  await 1;\n  throw new RangeError('later')\n}",
        Some((3, 13)),
    );
    // No error of the engine's has no place.
    check(nodes, "export default () => { throw 'a text' }", None);
    check(nodes, "export default () => { throw { stack: 'plan:source:1:1' } }", None);
    check(nodes, "export default () => new Promise(() => {})", None);
    check(
        nodes,
        "export default () => { const e = new Error('x'); e.stack = 'at plan:source:999:1'; throw e }",
        None,
    );
}

/// Limits are told with their value and with what helps.
#[test]
fn a_limit_is_told_with_its_value() {
    let mut task = task(Runtime::Renderify);
    task.limits.time_ms = 200;
    for (code, value, fix) in [
        ("export default () => { for (;;); }", "time, 200 ms", "maxExecutionMs"),
        ("export default () => 'x'.repeat(3000000)", "output, 2 MiB", "nodes"),
        ("export default async () => { for (;;) await 0 }", "", ""),
    ] {
        let report = ran(code, &task).unwrap().node.unwrap_err().report();
        assert_eq!(report.code, "script_limit", "{report:?}");
        assert!(report.what.contains(value) && report.fix.contains(fix), "{report:?}");
    }
}
