use std::collections::BTreeMap;

use super::*;

fn try_compile(code: &str, language: Language, runtime: Runtime) -> Result<Module, Faults> {
    compile(&Source::new(code, language, runtime, &BTreeMap::new()))
}

fn faults(code: &str) -> Vec<(String, u32, u32)> {
    match try_compile(code, Language::Tsx, Runtime::Preact) {
        Ok(_) => Vec::new(),
        Err(faults) => {
            faults.diagnostics.iter().map(|f| (f.code.clone(), f.line, f.column)).collect()
        }
    }
}

#[test]
fn each_language_becomes_javascript() {
    for (language, runtime, code, want) in [
        (Language::Js, Runtime::Renderify, "export default 1", "export default 1;\n"),
        (Language::Ts, Runtime::Renderify, "export default 1 as number", "export default 1;\n"),
        (
            Language::Ts,
            Runtime::Renderify,
            "import type { A } from 'a'; export default 2",
            "export default 2;\n",
        ),
        (
            Language::Jsx,
            Runtime::Renderify,
            "export default () => <p class='a'>b</p>",
            "import { jsx as _jsx } from \"glasshouse:renderify/jsx-runtime\";\n\
             export default () => _jsx(\"p\", {\n\tclass: \"a\",\n\tchildren: \"b\"\n});\n",
        ),
        (
            Language::Tsx,
            Runtime::Preact,
            "export default (p: { n: number }) => <i>{p.n}</i>",
            "import { jsx as _jsx } from \
             \"https://ga.jspm.io/npm:preact@10.28.3/jsx-runtime/dist/jsxRuntime.module.js\";\n\
             export default (p) => _jsx(\"i\", { children: p.n });\n",
        ),
    ] {
        let module = try_compile(code, language, runtime).unwrap();
        assert_eq!(module.code, want, "{code}");
    }
}

#[test]
fn imports_get_their_addresses() {
    let manifest = BTreeMap::from([(
        "pinned".to_owned(),
        "https://ga.jspm.io/npm:pinned@2.0.0/x.js".to_owned(),
    )]);
    let check = |code: &str, want: &[&str]| {
        let source = Source::new(code, Language::Ts, Runtime::Preact, &manifest);
        let module = compile(&source).unwrap();
        assert_eq!(module.imports, want, "{code}");
        for address in want {
            assert!(module.code.contains(&format!("\"{address}\"")), "{}", module.code);
        }
    };
    let preact = "https://ga.jspm.io/npm:preact@10.28.3/dist/preact.module.js";
    let compat = "https://ga.jspm.io/npm:preact@10.28.3/compat/dist/compat.module.js";
    let pinned = "https://ga.jspm.io/npm:pinned@2.0.0/x.js";
    check("import { h } from 'preact'; h('a', null)", &[preact]);
    check("import * as R from 'react'; R.useState(1)", &[compat]);
    check("export * from 'react-dom'", &[compat]);
    check("export { h } from 'preact'", &[preact]);
    check("export default import('pinned')", &[pinned]);
    check("import 'pinned'; export { x } from 'pinned'", &[pinned]);
    check("import { A } from 'only-a-type'; const a: A = 1; export default a", &[]);
}

#[test]
fn modules_that_cannot_be_had_are_named_with_their_place() {
    for (code, want) in [
        ("import fs from 'fs'; fs.x", (1, 16)),
        ("\n  import 'node:net'", (2, 10)),
        ("export * from './a'", (1, 15)),
        ("export default import('data:text/javascript,1')", (1, 23)),
        ("import 'glasshouse:start'", (1, 8)),
    ] {
        assert_eq!(
            faults(code),
            [("script_module_unavailable".to_owned(), want.0, want.1)],
            "{code}"
        );
    }
}

/// The undefended control of each attack is that it compiles when the source is the program's own.
#[test]
fn what_code_must_not_reach_for_is_refused_however_it_is_spelled() {
    for code in [
        "eval('1')",
        "(0, eval)('1')",
        "\\u0065val('1')",
        "const e = eval; e('1')",
        "new Function('return 1')()",
        "Function('return 1')()",
        "(() => 1).constructor('return 1')()",
        "(() => 1)['constructor']('return 1')()",
        "(() => 1)['con' + 'structor']('return 1')()",
        "(() => 1)[`con${'struct'}or`]('return 1')()",
        "(() => 1)[('constr' as string) + x]('return 1')(); var x",
        "const { constructor: C } = () => 1; C('1')",
        "const { ['constructor']: C } = () => 1; C('1')",
        "let C; ({ constructor: C } = () => 1); C('1')",
        "let constructor; ({ constructor } = () => 1); constructor('1')",
        "const { constructor } = () => 1; constructor('1')",
        "(() => 1)?.constructor('1')",
        "({}).__proto__.x = 1",
        "const a = { __proto__: null }; a",
        "Array.prototype.map = 1",
        "Object.getPrototypeOf(async () => 1)",
        "Object.setPrototypeOf({}, null)",
        "globalThis.x",
        "window.x",
        "self['fe' + 'tch']",
        "process.env",
        "require('fs')",
        "fetch('/')",
        "document.cookie",
        "localStorage.x = 1",
        "Reflect.construct",
        "new Proxy({}, {})",
        "import(name); var name",
        "import('a' + 'b')",
        "import.meta.url",
        "new WebSocket('wss://x')",
        "new SharedArrayBuffer(1)",
        "performance.now()",
        "crypto.randomUUID()",
        "const f = <p>{eval('1')}</p>; f",
    ] {
        let found = faults(code);
        assert!(
            found.iter().any(|(found, ..)| found == "script_source_denied"),
            "{code}: {found:?}"
        );
        let manifest = BTreeMap::new();
        let source = Source::new(code, Language::Tsx, Runtime::Preact, &manifest);
        assert!(compile_from(&source, Origin::Program).is_ok(), "control: {code}");
    }
}

/// The failure: `declare var window: any; interface window {}` made `window` the source's own, so the gate let it pass. A
/// name with any declaration that was not only a promise counted as defined. Now: what defines a name is left in what runs.
#[test]
fn what_is_only_declared_defines_nothing_beside_a_type_either() {
    for name in ["window", "globalThis", "process", "Reflect", "crypto", "nobody"] {
        for before in [
            "declare var N: any; interface N {}",
            "interface N {} declare var N: any;",
            "declare var N: any; type N = 1;",
            "declare function N(): any; interface N {}",
            "declare class N {} interface N {}",
            "declare namespace N { const x: any } interface N {}",
            "namespace N { export type T = 1 }",
            "function N(): any;",
            "declare let N: any; export type { N };",
            "import type { N } from 'preact';",
            "import { type N } from 'preact';",
        ] {
            let code = format!("{before} export default () => N.location").replace('N', name);
            let manifest = BTreeMap::new();
            let source = Source::new(&code, Language::Ts, Runtime::Preact, &manifest);
            assert!(compile(&source).is_err(), "{code}");
        }
    }
    for code in [
        "class A { b = 1 } interface A { c: number } export default new A().b",
        "function f(): void; function f(a?: number): void {} export default f",
        "namespace N { export const x = 1 } namespace N { export type T = 1 } export default N.x",
        "enum E { A } namespace E { export type T = 1 } export default E.A",
        "const X = 1; type X = 2; export default X",
        "import { h } from 'preact'; interface h {} export default h",
    ] {
        let found = try_compile(code, Language::Ts, Runtime::Preact);
        assert!(found.is_ok(), "the control: {code}: {found:?}");
    }
}

/// The failure: `` `process` is a server ``. The tables held a noun for each name. Now: a name and what it does are a sentence.
#[test]
fn what_is_refused_is_told_in_a_sentence() {
    for (code, want) in [
        ("process.env", "`process` belongs to a server program"),
        ("fetch('/')", "`fetch` reaches the network"),
        ("document.title", "`document` belongs to a web page"),
        ("performance.now()", "`performance` tells the time"),
        ("crypto.randomUUID()", "`crypto` gives random values"),
        ("setTimeout(() => 1)", "`setTimeout` sets a timer, which no lane grants"),
    ] {
        let found = try_compile(code, Language::Ts, Runtime::Preact).unwrap_err();
        assert_eq!(found.diagnostics[0].message, want, "{code}");
    }
}

/// The failure: a wrong regular expression or a decorator was told as "the engine does not take the source", without a place.
/// Only the engine read them. Now: the compiler does, and what it cannot take is refused where it stands.
#[test]
fn what_the_engine_would_not_take_has_a_place() {
    for (code, column) in [
        ("export default /(/", 17),
        ("export default /a{2,1}/", 17),
        ("export default /\\p{Foo}/u", 17),
        ("export default /(?<a>x)(?<a>y)/", 17),
        ("@(() => 1) class A {}", 1),
        ("class A { @(() => 1) b = 1 }", 11),
        ("class A { accessor b = 1 }", 11),
    ] {
        let found = faults(code);
        let is_there = |it: &(String, u32, u32)| it.0 == "script_source_invalid" && it.1 == 1;
        assert!(
            found.iter().any(|it| is_there(it) && it.2.abs_diff(column) < 8),
            "{code}: {found:?}"
        );
    }
    assert_eq!(faults("export default [/(a)/u, /(?<a>x)|(?<a>y)/, /\\p{L}/u]"), [], "the control");
}

/// The failure: a source that named something `__glasshouse_require` ran on a server and not in a browser, where the program's own
/// name stood in its place. Nothing kept them apart. Now: such a name is refused with its place.
#[test]
fn names_of_the_programs_own_are_no_sources() {
    for name in ["__glasshouse_export", "__glasshouse_require", "__glasshouse_module_0"] {
        for code in
            ["const N = 1; export default N", "export default (N) => N", "export function N() {}"]
        {
            let code = code.replace('N', name);
            let found = faults(&code);
            assert_eq!(
                found.first().map(|it| it.0.as_str()),
                Some("script_source_denied"),
                "{code}"
            );
        }
    }
    assert_eq!(
        faults("const a = '__glasshouse_require'; export default { a, __glasshouse: 1 }"),
        []
    );
}

#[test]
fn g2_honest_code_is_not_refused() {
    for code in [
        "for (let i = 0; i < 10_001; i += 1) { Math.sqrt(i) }",
        "const Function = (s: string) => s; Function('eval')",
        "function eval_(s: string) { return s } eval_('x')",
        "// eval(1)\nexport default 'eval(1) new Function document.cookie'",
        "export default () => <p>eval( don't ) fetch(</p>",
        "const o: Record<string, number> = {}; const k = 'a'; o['k' + k] = 1",
        "const rows = { a: 1 }; const i = 2; export default rows[`row-${i}` as 'a']",
        "class A { constructor(readonly x: number) {} } new A(1)",
        "export default typeof window === 'undefined' ? 'server' : 'page'",
        "interface Props { window: Window; document: Document } export const f = (p: Props) => p.window",
        "enum Size { Small = 1 } export default Size.Small",
        "const fetch = () => 1; fetch()",
        "const { a = 1, ...rest } = { a: 2 }; export default [a, rest]",
        "export default [1, 2].map(n => n * 2).toSorted()",
        "const data = { constructor: 1 }; data",
        "label: for (const x of new Set([1])) { if (x) break label }",
    ] {
        assert_eq!(faults(code), [], "{code}");
    }
}

#[test]
fn h5_faults_have_line_and_column() {
    for (code, want) in [
        ("export default () => {\n  return <p>", vec![("script_source_invalid", 2, 13)]),
        ("const a = 1; const a = 2", vec![("script_source_invalid", 1, 7)]),
        (
            "export default () => <Missing />\nReact.useState(1)",
            vec![("script_name_unknown", 1, 23), ("script_name_unknown", 2, 1)],
        ),
        ("\n\nlet é = eval", vec![("script_source_denied", 3, 9)]),
    ] {
        let want: Vec<_> =
            want.into_iter().map(|(code, l, c): (&str, _, _)| (code.to_owned(), l, c)).collect();
        assert_eq!(faults(code), want, "{code}");
    }
    // Markup needs no import of React.
    assert_eq!(faults("export default () => <><b>x</b></>"), []);
    let found = try_compile("a; b; a", Language::Js, Runtime::Preact).unwrap_err();
    assert_eq!(found.unknown_names(), ["a", "b"]);
}

#[test]
fn faults_and_sources_are_bounded() {
    let many = "eval;\n".repeat(1000);
    let found = try_compile(&many, Language::Js, Runtime::Preact).unwrap_err();
    assert_eq!((found.diagnostics.len(), found.count), (MAX_DIAGNOSTICS, 1000));
    for code in ["(".repeat(100_000), "[".repeat(300), " ".repeat(MAX_SOURCE_BYTES + 1)] {
        assert!(try_compile(&code, Language::Tsx, Runtime::Preact).is_err());
    }
    let deep = format!("export default {}1{}", "(".repeat(150), ")".repeat(150));
    assert!(try_compile(&deep, Language::Tsx, Runtime::Preact).is_ok());
}

#[test]
fn every_code_has_a_page() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    for code in codes::ALL {
        let page = std::fs::read_to_string(pages.join(format!("{}.md", code.name))).unwrap();
        assert!(page.starts_with(&format!("# {}\n", code.name)), "{}", code.name);
    }
}

#[test]
fn d5_who_compiled_is_in_the_digest_and_is_what_is_built_in() {
    let lock = include_str!("../../../../Cargo.lock");
    let (name, version) = COMPILER.split_once(' ').unwrap();
    assert_eq!(name, "oxc");
    assert!(lock.contains(&format!("name = \"oxc_parser\"\nversion = \"{version}\"")));
    let manifest = BTreeMap::new();
    let module = try_compile("export default 1", Language::Js, Runtime::Preact).unwrap();
    let source = Source::new("export default 1", Language::Js, Runtime::Preact, &manifest);
    assert_eq!(module.digest, digest(&source, &module.code));
    assert_ne!(module.digest, digest(&source, "export default 1"));
    // Another version that made the same text of the same source is another compiler.
    for other in ["oxc 0.146.1", "oxc 0.147.0", ""] {
        assert_ne!(module.digest, digest_by(other, &source, &module.code), "{other}");
    }
    assert_eq!(module.digest, digest_by(COMPILER, &source, &module.code), "the control");
}

#[test]
fn what_the_program_carries_compiles_and_imports_nothing_else() {
    for address in crate::vendor::addresses() {
        let module = carried(address).unwrap();
        for import in module.imports {
            assert!(carried(&import).is_some(), "{address}: {import}");
        }
    }
}

#[test]
fn h7_storage_that_was_granted_is_imported_where_it_is_used() {
    let check = |code: &str, granted: &[&str], want: Result<Option<&str>, &str>| {
        let source = Source {
            code,
            language: Language::Tsx,
            runtime: Runtime::Preact,
            manifest: &BTreeMap::new(),
            stores: Stores::of(granted.iter().copied()),
        };
        let import = |module: Module| {
            let first = module.code.lines().next().unwrap_or_default().to_owned();
            let is_there = module.imports.iter().any(|it| it == "glasshouse:storage");
            is_there.then_some(first)
        };
        let got = compile(&source).map(import).map_err(|faults| faults.diagnostics[0].to_string());
        let want = want
            .map(|names| names.map(|it| format!("import {{ {it} }} from \"glasshouse:storage\";")))
            .map_err(str::to_owned);
        assert_eq!(got, want, "{code}");
    };
    let both = ["localStorage", "sessionStorage"];
    check("localStorage.setItem('a', 'b')", &both, Ok(Some("localStorage")));
    check("sessionStorage.x; localStorage.y", &both, Ok(Some("localStorage, sessionStorage")));
    check("declare const localStorage: Storage; localStorage.a", &both, Ok(Some("localStorage")));
    check("export default () => <p>{localStorage.a}</p>", &both, Ok(Some("localStorage")));
    check("export default 'localStorage'", &both, Ok(None));
    check("const localStorage = new Map(); localStorage.size", &both, Ok(None));
    let refused = "script_source_denied: `localStorage` keeps data, and `capabilities.storage` of the plan does not name it";
    check("localStorage.a", &[], Err(&format!("1:1: {refused}")));
    check(
        "sessionStorage.a; localStorage.a",
        &["sessionStorage"],
        Err(&format!("1:19: {refused}")),
    );
    check(
        "indexedDB.open('a')",
        &both,
        Err("1:1: script_source_denied: `indexedDB` keeps data in a browser"),
    );
}

/// The failure: markup in a file without any import or export became a call of `require`, which was then refused.
#[test]
fn a_source_without_an_export_is_a_module_all_the_same() {
    for language in [Language::Jsx, Language::Tsx] {
        for runtime in [Runtime::Renderify, Runtime::Preact] {
            let made = try_compile("const App = () => <p>a</p>", language, runtime).unwrap();
            assert_eq!(made.exports, [""; 0], "{language:?}");
            assert!(made.code.starts_with("import "), "{}", made.code);
        }
    }
    for (code, want) in [
        ("export const App = 1", vec!["App"]),
        ("export default 1; export const a = 2", vec!["a", "default"]),
        ("export default function App() {}", vec!["default"]),
        ("const a = 1; export { a as default }", vec!["default"]),
        ("export { h as default } from 'preact'", vec!["default"]),
        ("export * from 'preact'", vec!["*"]),
        ("export * as all from 'preact'", vec!["all"]),
    ] {
        let made = try_compile(code, Language::Ts, Runtime::Preact).unwrap();
        assert_eq!(made.exports, want, "{code}");
    }
    // The control: who calls it is told.
    assert_eq!(faults("const a = require('a')"), [("script_source_denied".to_owned(), 1, 11)]);
}

#[test]
fn a_fault_says_what_helps_for_this_name() {
    let fix = |code: &str, language: Language| {
        let found = try_compile(code, language, Runtime::Preact).unwrap_err();
        found.diagnostics[0].fix.clone()
    };
    for (code, part) in [
        ("new Intl.NumberFormat('de')", "put formatted texts into the state"),
        ("new URL('/a', 'https://a.example')", "as a text"),
        ("structuredClone({})", "JSON.parse(JSON.stringify(data))"),
        ("localStorage.getItem('a')", "\"storage\": [\"localStorage\"]"),
        ("sessionStorage.a", "\"storage\": [\"sessionStorage\"]"),
        ("const x = require('a')", "import name from 'module'"),
        ("module.exports = 1", "export default"),
        ("useState(1)", "from 'preact/hooks'"),
        ("React.useMemo(f => 1)", "from 'react'"),
        ("performance.now()", "Date.now()"),
        // The controls: any other name.
        ("Chart", "import or define the name"),
        ("eval('1')", "use state, props"),
    ] {
        let told = fix(code, Language::Tsx);
        assert!(told.contains(part), "{code}: {told}");
    }
    for (code, language, hint) in [
        ("export default () => <p>a</p>", Language::Ts, Some("tsx")),
        ("export default () => <p class='a'>a</p>", Language::Js, Some("jsx")),
        ("export default () => <p>a</p", Language::Ts, None),
        ("export default (", Language::Js, None),
        ("export default () => <p>a</p", Language::Tsx, None),
    ] {
        let told = fix(code, language);
        let want = hint.map(|hint| format!("write `\"language\": \"{hint}\"`"));
        match want {
            Some(want) => assert!(told.ends_with(&want), "{code}: {told}"),
            None => assert!(!told.contains("language"), "{code}: {told}"),
        }
    }
}

#[test]
fn what_does_nothing_is_remarked_on() {
    let lost = |line, column| ("plan_handler_lost", line, column);
    for (code, want) in [
        ("export default () => <b onClick={() => 1}/>", vec![lost(1, 25)]),
        ("export default () => <b onclick={function () {}}/>", vec![lost(1, 25)]),
        ("function go() {}\nexport default () => <b onClick={go}/>", vec![lost(2, 25)]),
        (
            "export default () => new Date().toLocaleDateString('de-DE')",
            vec![("script_locale_ignored", 1, 33)],
        ),
        ("export default () => (1.5).toLocaleString('de')", vec![("script_locale_ignored", 1, 28)]),
        // The controls: data, a component that takes functions, and no language.
        ("export default () => <b onClick='add' class='a'/>", vec![]),
        ("export default () => <b onClick={{ type: 'add' }}/>", vec![]),
        ("const B = (p) => <b/>; export default () => <B onClick={() => 1}/>", vec![]),
        ("export default () => new Date().toLocaleDateString()", vec![]),
        ("export default () => ['b', 'a'].sort((a, b) => a.localeCompare(b))", vec![]),
    ] {
        let made = try_compile(code, Language::Jsx, Runtime::Renderify).unwrap();
        let told: Vec<_> =
            made.notes.iter().map(|it| (it.code.as_str(), it.line, it.column)).collect();
        assert_eq!(told, want, "{code}");
    }
}
