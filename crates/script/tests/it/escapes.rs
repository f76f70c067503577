//! Attempts to get out of the engine. Each answers a text that says what it reached; the control is
//! that the same attempt reaches its goal where nothing is taken away, which is said beside it.

use glasshouse_script::Runtime;

use crate::support::{ended, made, task, text};

/// Runs an attempt as a source that the gate does not see through: names are put together while it
/// runs. What is left is the engine.
fn attempt(body: &str) -> String {
    let code = format!(
        "const word = (...parts: string[]) => parts.join('');
         const C = word('con', 'structor'), P = word('proto', 'type'), U = word('__pro', 'to__');
         const get = (o: any, k: string) => o[k];
         export default () => {{ try {{ return 'got ' + (() => {{ {body} }})() }}
           catch (e) {{ return 'no ' + ((e as any)?.message ?? e) }} }}"
    );
    match made(&code) {
        Ok(node) => node["value"].as_str().unwrap_or_default().to_owned(),
        Err(error) => format!("error {error}"),
    }
}

#[test]
fn no_text_becomes_code() {
    for maker in [
        "(() => 1)",
        "(async () => 1)",
        "(function* () {})",
        "(async function* () {})",
        "class {}",
        "get([], 'map')",
        "get('', 'at')",
        "get(JSON, 'parse')",
        "get(class { static m() {} }, 'm')",
        "(function () {}).bind(null)",
        "get(Promise, 'resolve')",
        "get(word('x').match.call('x', /x/), 'map')",
        "get(Math, 'random')",
        "get(Date, 'now')",
        "get(console, 'log')",
    ] {
        let said = attempt(&format!("return get({maker}, C)('return 6 * 7')()"));
        assert!(said.starts_with("no "), "{maker}: {said}");
    }
    // The control: with the part that makes code out of text, each of these says 42.
    let control = rquickjs_control();
    assert_eq!(control, "42");
}

/// The first of the makers above, in an engine from which nothing is taken.
fn rquickjs_control() -> String {
    let runtime = rquickjs::Runtime::new().unwrap();
    let context = rquickjs::Context::full(&runtime).unwrap();
    context.with(|ctx| {
        ctx.eval::<i32, _>("(() => 1)['constructor']('return 6 * 7')()").unwrap().to_string()
    })
}

#[test]
fn nothing_of_a_host_is_there() {
    // Everything that can be found from any function's or object's surroundings.
    let names = attempt(
        "const seen = new Set<any>(), names: string[] = [];
         const walk = (o: any, depth: number) => {
           if (o === null || (typeof o !== 'object' && typeof o !== 'function') || seen.has(o) || depth > 6) return;
           seen.add(o);
           for (const k of Object.getOwnPropertyNames(o)) {
             names.push(k);
             try { walk(o[k], depth + 1) } catch {}
           }
           try { walk(get(o, U), depth + 1) } catch {}
         };
         walk((() => 1), 0); walk([], 0); walk('x', 0); walk(1, 0); walk(new Map(), 0); walk(new Error('x'), 0);
         walk(Promise.resolve(), 0); walk(/x/, 0); walk(new Date(), 0); walk(Math, 0); walk(JSON, 0);
         return names.join(' ')",
    );
    assert!(names.starts_with("got ") && names.len() > 1_000, "{names}");
    for name in [
        "process",
        "require",
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "open",
        "std",
        "os",
        "print",
        "load",
        "loadScript",
        "scriptArgs",
        "navigator",
        "performance",
        "Deno",
        "Bun",
        "window",
        "document",
        "setTimeout",
        "readFile",
        "spawn",
        "gc",
        "bjson",
    ] {
        assert!(!names.split(' ').any(|found| found == name), "{name}");
    }
}

#[test]
fn modules_that_were_not_given_are_not_there() {
    for name in
        ["fs", "std", "os", "node:fs", "file:///etc/passwd", "/etc/passwd", "glasshouse:start"]
    {
        let code = format!(
            "export default async () => {{ try {{ await import('{name}'); return 'got' }} catch (e) {{ return 'no' }} }}"
        );
        let (end, _) = ended(&code, &task(Runtime::Renderify));
        assert_eq!(end, "script_module_unavailable", "{name}");
    }
}

#[test]
fn one_run_leaves_nothing_for_another() {
    let poison = "get(Array, P).map = () => ['poisoned']; get(Object, P).leak = 'secret'; JSON.stringify = () => '{}';
        return typeof ({} as any).leak";
    assert_eq!(attempt(poison), "got string");
    for _ in 0..3 {
        assert_eq!(attempt("return typeof ({} as any).leak + [1].map(n => n)"), "got undefined1");
    }
}

#[test]
fn what_code_breaks_in_the_engine_is_its_own_result() {
    for (body, want) in [
        ("JSON.stringify = (() => 'forged') as any; return 'x'", "got x"),
        ("get(Object, P).toJSON = () => 'forged'; return 'x'", "got x"),
        ("get(Object, P).type = 'element'; return 'x'", "got x"),
        ("get(Array, P).toJSON = () => 'forged'; return 'x'", "got x"),
    ] {
        assert_eq!(attempt(body), want, "{body}");
    }
    let then = "export default () => ({ then(r: any) { r('forged') }, type: 'text', value: 'x' })";
    assert_eq!(made(then).unwrap(), text("x"));
}

#[test]
fn the_clock_and_chance_are_the_recorded_ones_whatever_code_does() {
    for body in [
        "return new (get(new Date(0), C))().getTime()",
        "return new (get(get(Date, P), C))().getTime()",
        "return get(Date, 'now')()",
        "class D extends Date {} return new D().getTime()",
        "return Date.parse(Date())",
    ] {
        assert_eq!(attempt(body), "got 1790000000000", "{body}");
    }
}
