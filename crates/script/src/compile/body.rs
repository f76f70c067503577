//! A compiled module as the body of a function, for a place that has no modules: the lanes of a browser.
//!
//! Only what imports and exports is written anew; the rest of the text stays as it is. What is imported and
//! what is exported is read whenever it is used, so modules that import each other work as they do in a
//! place that has modules.

use std::collections::HashMap;

use oxc_allocator::Allocator;
use oxc_ast::AstKind;
use oxc_ast::ast::{
    CallExpression, Declaration, ExportDefaultDeclarationKind, ExportNamedDeclaration, Expression,
    IdentifierReference, ImportDeclaration, ImportDeclarationSpecifier, ImportExpression,
    ModuleDeclaration, ModuleExportName, ObjectProperty,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::Parser;
use oxc_semantic::{Scoping, SemanticBuilder, SymbolId};
use oxc_span::{GetSpan, SourceType, Span};

/// Gives what a module at an address exports.
pub(crate) const REQUIRE: &str = "__glasshouse_require";
/// Names what a module exports, each as a function that reads it.
pub(crate) const EXPORT: &str = "__glasshouse_export";
/// Exports all that another module does.
pub(crate) const EXPORT_ALL: &str = "__glasshouse_export_all";
/// What an import that is an expression becomes.
pub(crate) const LOAD: &str = "__glasshouse_load";
/// What a module that is imported is called, before its number.
const MODULE: &str = "__glasshouse_module_";
/// What a default without a name is called.
const DEFAULT: &str = "__glasshouse_default";

/// Writes a module, as the compiler made it, as the body of a function.
///
/// # Errors
/// Why it cannot be one.
pub(crate) fn body(code: &str) -> Result<String, &'static str> {
    let allocator = Allocator::default();
    let read = Parser::new(&allocator, code, SourceType::mjs()).parse();
    if read.panicked || read.diagnostics.has_errors() {
        return Err("one of them is no module that the compiler made");
    }
    let mut waits = Waits::default();
    waits.visit_program(&read.program);
    if waits.found {
        return Err("one of them awaits outside of functions, and here modules are functions");
    }
    let meaning = SemanticBuilder::new().build(&read.program);
    let mut writer = Writer {
        code,
        scoping: meaning.semantic.into_scoping(),
        imported: HashMap::new(),
        modules: 0,
        imports: String::new(),
        edits: Vec::new(),
        exports: Vec::new(),
    };
    let declarations = || read.program.body.iter().filter_map(|it| it.as_module_declaration());
    // What is exported may be what is imported further down.
    declarations().filter(|it| imports(it)).for_each(|it| writer.declaration(it));
    declarations().filter(|it| !imports(it)).for_each(|it| writer.declaration(it));
    writer.visit_program(&read.program);
    Ok(writer.written())
}

/// Looks for what waits outside of functions: a body that is run at once cannot.
#[derive(Default)]
struct Waits {
    /// How many functions are around.
    functions: usize,
    found: bool,
}

impl<'a> Visit<'a> for Waits {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        let waits = match kind {
            AstKind::Function(_) | AstKind::ArrowFunctionExpression(_) => {
                self.functions += 1;
                false
            }
            AstKind::AwaitExpression(_) => true,
            AstKind::ForOfStatement(it) => it.r#await,
            AstKind::VariableDeclaration(it) => it.kind.is_await(),
            _ => false,
        };
        self.found |= waits && self.functions == 0;
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        if matches!(kind, AstKind::Function(_) | AstKind::ArrowFunctionExpression(_)) {
            self.functions -= 1;
        }
    }
}

struct Writer<'c> {
    code: &'c str,
    scoping: Scoping,
    /// What reads a name that is imported.
    imported: HashMap<SymbolId, String>,
    /// How many modules have a name.
    modules: usize,
    /// What is imported, all of it before anything runs.
    imports: String,
    /// What takes the place of parts of the text.
    edits: Vec<(Span, String)>,
    /// Names that are exported, with what each reads.
    exports: Vec<(String, String)>,
}

fn literal(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Whether a declaration runs another module.
const fn imports(declaration: &ModuleDeclaration<'_>) -> bool {
    matches!(
        declaration,
        ModuleDeclaration::ImportDeclaration(_)
            | ModuleDeclaration::ExportFromDeclaration(_)
            | ModuleDeclaration::ExportAllDeclaration(_)
    )
}

fn require(from: &str) -> String {
    format!("{REQUIRE}({from});")
}

impl Writer<'_> {
    fn declaration(&mut self, declaration: &ModuleDeclaration<'_>) {
        let span = declaration.span();
        match declaration {
            ModuleDeclaration::ImportDeclaration(import) => self.import_declaration(import),
            ModuleDeclaration::ExportDeclaration(export) => {
                for name in bound(&export.declaration) {
                    self.exports.push((name.clone(), name));
                }
                self.cut(span.start, export.declaration.span().start, "");
            }
            ModuleDeclaration::ExportNamedDeclaration(export) => {
                for it in &export.specifiers {
                    let read = match &it.local {
                        ModuleExportName::IdentifierReference(local) => self.read(local),
                        _ => None,
                    };
                    let read = read.unwrap_or_else(|| it.local.name().to_string());
                    self.exports.push((it.exported.name().to_string(), read));
                }
                self.edits.push((span, String::new()));
            }
            ModuleDeclaration::ExportFromDeclaration(export) => {
                let from = literal(&export.source.value);
                for it in &export.specifiers {
                    let read = format!("{REQUIRE}({from})[{}]", literal(&it.local.name()));
                    self.exports.push((it.exported.name().to_string(), read));
                }
                self.import(span, require(&from));
            }
            ModuleDeclaration::ExportAllDeclaration(export) => {
                let from = literal(&export.source.value);
                match export.exported.as_ref().map(ModuleExportName::name) {
                    Some(name) => {
                        self.exports.push((name.to_string(), format!("{REQUIRE}({from})")));
                        self.import(span, require(&from));
                    }
                    None => self.import(span, format!("{EXPORT_ALL}({REQUIRE}({from}));")),
                }
            }
            ModuleDeclaration::ExportDefaultDeclaration(export) => {
                let name = match &export.declaration {
                    ExportDefaultDeclarationKind::FunctionDeclaration(it) => it.id.as_ref(),
                    ExportDefaultDeclarationKind::ClassDeclaration(it) => it.id.as_ref(),
                    _ => None,
                };
                let at = export.declaration.span().start;
                match name.map(|name| name.name.to_string()) {
                    Some(name) => {
                        self.exports.push(("default".to_owned(), name));
                        self.cut(span.start, at, "");
                    }
                    None => {
                        self.exports.push(("default".to_owned(), DEFAULT.to_owned()));
                        self.cut(span.start, at, &format!("const {DEFAULT} = "));
                        // A function that is a value needs an end of its own.
                        self.cut(span.end, span.end, ";");
                    }
                }
            }
            _ => {}
        }
    }

    fn import_declaration(&mut self, import: &ImportDeclaration<'_>) {
        let from = literal(&import.source.value);
        let specifiers = import.specifiers.as_ref().map(|all| all.as_slice()).unwrap_or_default();
        let mut text = String::new();
        let own = format!("{MODULE}{}", self.modules);
        for specifier in specifiers {
            let (local, name) = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(it) => (&it.local, it.imported.name()),
                ImportDeclarationSpecifier::ImportDefaultSpecifier(it) => {
                    (&it.local, "default".into())
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(it) => {
                    text.push_str(&format!("const {} = {}", it.local.name, require(&from)));
                    continue;
                }
            };
            self.imported.insert(local.symbol_id(), format!("{own}[{}]", literal(&name)));
        }
        if self.imported.values().any(|read| read.starts_with(&format!("{own}["))) {
            self.modules += 1;
            text.push_str(&format!("const {own} = {}", require(&from)));
        }
        self.import(import.span, if text.is_empty() { require(&from) } else { text });
    }

    /// What reads a name, when it is imported.
    fn read(&self, name: &IdentifierReference<'_>) -> Option<String> {
        let symbol = self.scoping.get_reference(name.reference_id()).symbol_id()?;
        self.imported.get(&symbol).cloned()
    }

    fn import(&mut self, span: Span, text: String) {
        self.imports.push_str(&text);
        self.edits.push((span, String::new()));
    }

    fn cut(&mut self, start: u32, end: u32, text: &str) {
        self.edits.push((Span::new(start, end), text.to_owned()));
    }

    fn written(mut self) -> String {
        self.edits.sort_by_key(|(span, _)| (span.start, span.end));
        let names = self.exports.iter();
        let names = names.map(|(name, read)| format!("{}: () => {read}", literal(name)));
        let mut text = format!("{EXPORT}({{{}}});\n", names.collect::<Vec<_>>().join(", "));
        text.push_str(&self.imports);
        let mut at = 0;
        for (span, edit) in &self.edits {
            let (start, end) = (span.start as usize, span.end as usize);
            text.push_str(self.code.get(at..start).unwrap_or_default());
            text.push_str(edit);
            at = end.max(at);
        }
        text.push_str(self.code.get(at..).unwrap_or_default());
        text
    }
}

/// Names that a declaration makes.
fn bound(declaration: &Declaration<'_>) -> Vec<String> {
    match declaration {
        Declaration::VariableDeclaration(it) => {
            let patterns = it.declarations.iter();
            let names = patterns.flat_map(|one| one.id.get_binding_identifiers());
            names.map(|name| name.name.to_string()).collect()
        }
        Declaration::FunctionDeclaration(it) => {
            it.id.iter().map(|name| name.name.to_string()).collect()
        }
        Declaration::ClassDeclaration(it) => {
            it.id.iter().map(|name| name.name.to_string()).collect()
        }
        _ => Vec::new(),
    }
}

impl<'a> Visit<'a> for Writer<'_> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if let Some(read) = self.read(it) {
            self.cut(it.span.start, it.span.end, &read);
        }
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        match &it.value {
            Expression::Identifier(name) if it.shorthand => {
                if let Some(read) = self.read(name) {
                    self.cut(it.span.start, it.span.end, &format!("{}: {read}", name.name));
                }
            }
            _ => walk::walk_object_property(self, it),
        }
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        // A function that is imported is called without what it was read from.
        match &it.callee {
            Expression::Identifier(name) if self.read(name).is_some() => {
                let read = self.read(name).unwrap_or_default();
                self.cut(name.span.start, name.span.end, &format!("(0, {read})"));
                self.visit_arguments(&it.arguments);
            }
            _ => walk::walk_call_expression(self, it),
        }
    }

    fn visit_export_named_declaration(&mut self, _: &ExportNamedDeclaration<'a>) {}

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        // The word alone: what it is given stays.
        let end = it.span.start + 6;
        self.cut(it.span.start, end, LOAD);
        walk::walk_import_expression(self, it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, exports: &str, rest: &str) {
        let found = body(code).unwrap();
        assert_eq!(found, format!("{EXPORT}({{{exports}}});\n{rest}"), "{code}");
    }

    #[test]
    fn only_what_imports_and_exports_is_written_anew() {
        let r = REQUIRE;
        check("const a = 'export default 1';", "", "const a = 'export default 1';");
        check("f();import 'x';", "", &format!("{r}(\"x\");f();"));
        check(
            "import a, { b as c, d } from 'x'; import * as e from 'y'; f({ c, d: e }, c(a), `${d}`);",
            "",
            &format!(
                "const {MODULE}0 = {r}(\"x\");const e = {r}(\"y\");  f({{ c: {MODULE}0[\"b\"], d: e }}, \
                 (0, {MODULE}0[\"b\"])({MODULE}0[\"default\"]), `${{{MODULE}0[\"d\"]}}`);"
            ),
        );
        // A name of the same spelling that is the module's own stays.
        check(
            "import { b } from 'x'; const f = (b) => b; export { b as c, f };",
            &format!("\"c\": () => {MODULE}0[\"b\"], \"f\": () => f"),
            &format!("const {MODULE}0 = {r}(\"x\"); const f = (b) => b; "),
        );
        check(
            "export const a = 1, { b: [c] } = f; export function g() {}",
            "\"a\": () => a, \"c\": () => c, \"g\": () => g",
            "const a = 1, { b: [c] } = f; function g() {}",
        );
        check("let a; export { a as b };", "\"b\": () => a", "let a; ");
        check(
            "export { default as a } from 'x'; export * as b from 'y'; export * from 'z';",
            &format!("\"a\": () => {r}(\"x\")[\"default\"], \"b\": () => {r}(\"y\")"),
            &format!("{r}(\"x\");{r}(\"y\");{EXPORT_ALL}({r}(\"z\"));  "),
        );
        check("export default class A {}", "\"default\": () => A", "class A {}");
        check(
            "export default (a) => a",
            &format!("\"default\": () => {DEFAULT}"),
            &format!("const {DEFAULT} = (a) => a;"),
        );
        check(
            "export default function () {}\nf();",
            &format!("\"default\": () => {DEFAULT}"),
            &format!("const {DEFAULT} = function () {{}};\nf();"),
        );
        check("f(() => import('x'));", "", &format!("f(() => {LOAD}('x'));"));
        assert!(body("export default").is_err());
        for (code, waits) in [
            ("const x = await 1; export default x;", true),
            ("for await (const x of []) {} export default 1;", true),
            ("{ await using x = null; } export default 1;", true),
            ("export default class { [await 1] = 2; }", true),
            ("export default (await 1);", true),
            ("export default async () => await 1;", false),
            ("export default async function f() { for await (const x of []) await x; }", false),
            ("export default { async f() { await 1; } };", false),
            ("export default 'await 1';", false),
        ] {
            let told = body(code).err().is_some_and(|why| why.contains("awaits"));
            assert_eq!(told, waits, "{code}");
        }
    }
}
