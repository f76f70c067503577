//! From a source as a model writes it to a module that the engine takes.
//!
//! One pass each: read, resolve names, check, take types and markup out, give imports their
//! addresses, write. Everything works on the tree, so a word in a comment or a string is no word of
//! the program.

mod body;
mod foreign;
mod gate;
mod globals;
mod imports;
mod notes;
mod origins;
mod place;
mod stores;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use glasshouse_model::Code;
use oxc_allocator::Allocator;
use oxc_ast::ast::Program;
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc_diagnostics::OxcDiagnostic;
use oxc_parser::{ParseOptions, Parser, ParserReturn};
use oxc_semantic::{Scoping, SemanticBuilder};
use oxc_span::SourceType;
use oxc_transformer::{JsxOptions, JsxRuntime, TransformOptions, Transformer};
use serde::{Deserialize, Serialize};

use crate::engine::DEFAULT_EXPORT;
use crate::{cache, codes, vendor};
pub(crate) use body::{EXPORT, EXPORT_ALL, body};
pub use foreign::Kind;
pub(crate) use foreign::foreign;
pub use origins::Origins;
use place::Places;
pub use stores::Stores;

/// What compiles, by name and version. It is part of every module's digest, so a module made by
/// another compiler is another module.
pub const COMPILER: &str = "oxc 0.146.0";

/// Most faults that are told of one source; the rest is a number.
pub const MAX_DIAGNOSTICS: usize = 50;

/// Longest source: above what any profile accepts.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Deepest nesting of brackets: the compiler walks trees by recursion.
const MAX_NESTING: usize = 200;

/// The language of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// JavaScript.
    Js,
    /// JavaScript with markup.
    Jsx,
    /// TypeScript.
    Ts,
    /// TypeScript with markup.
    Tsx,
}

impl Language {
    /// Finds a language by its name in a plan.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Js, Self::Jsx, Self::Ts, Self::Tsx].into_iter().find(|l| l.as_str() == name)
    }

    /// The name in a plan.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Js => "js",
            Self::Jsx => "jsx",
            Self::Ts => "ts",
            Self::Tsx => "tsx",
        }
    }

    /// Always a module: a source without any import or export is one that forgot its export, and no script, for
    /// which markup would become calls of `require`.
    fn source_type(self) -> SourceType {
        match self {
            Self::Js => SourceType::mjs(),
            Self::Jsx => SourceType::mjs().with_jsx(true),
            Self::Ts => SourceType::ts().with_module(true),
            Self::Tsx => SourceType::tsx().with_module(true),
        }
    }

    /// The same language with markup, for one that has none.
    const fn with_markup(self) -> Option<Self> {
        match self {
            Self::Js => Some(Self::Jsx),
            Self::Ts => Some(Self::Tsx),
            Self::Jsx | Self::Tsx => None,
        }
    }
}

/// What markup in a source stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Nodes of a plan.
    Renderify,
    /// Preact components.
    Preact,
}

impl Runtime {
    /// Finds a runtime by its name in a plan.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Renderify, Self::Preact].into_iter().find(|runtime| runtime.as_str() == name)
    }

    /// The name in a plan, which is also where the functions for markup are imported from.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Renderify => "renderify",
            Self::Preact => "preact",
        }
    }
}

/// Whose source it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// A plan's: checked.
    Plan,
    /// The program's own, which names what browsers have and tests for it.
    Program,
    /// A module that a plan imports: as the program's own, but nobody vouches for it.
    Module,
}

/// A source to compile.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    /// The text.
    pub code: &'a str,
    /// Its language.
    pub language: Language,
    /// What its markup stands for.
    pub runtime: Runtime,
    /// Addresses that the plan's manifest gives to names; all others go by the resolver of plans.
    pub manifest: &'a BTreeMap<String, String>,
    /// Storage that it may use, in memory.
    pub stores: Stores,
}

impl<'a> Source<'a> {
    /// A source that may use no storage.
    #[must_use]
    pub const fn new(
        code: &'a str,
        language: Language,
        runtime: Runtime,
        manifest: &'a BTreeMap<String, String>,
    ) -> Self {
        Self { code, language, runtime, manifest, stores: Stores::NONE }
    }
}

/// A compiled source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// JavaScript, as a module.
    pub code: String,
    /// Addresses of what it imports, each once, in order.
    pub imports: Vec<String>,
    /// The same as the text names them, with their addresses.
    pub named: BTreeMap<String, String>,
    /// Names that it exports, in order; `*` when it hands on all of another module.
    pub exports: Vec<String>,
    /// Digest of source, compiler and result: `sha256:` and hexadecimal digits.
    pub digest: String,
    /// What is no fault and will not do what its author thinks. Only of a plan's.
    #[serde(default)]
    pub notes: Vec<Diagnostic>,
    /// Where in the source what stands in the text came from. Only of a plan's.
    #[serde(default)]
    pub origins: Origins,
}

/// One fault of a source, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Stable code, documented in `docs/errors/`.
    pub code: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Character in the line, counted from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.code, self.message)
    }
}

/// The faults of a source: at least one, in the order of their places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// The first [`MAX_DIAGNOSTICS`].
    pub diagnostics: Vec<Diagnostic>,
    /// How many there are.
    pub count: usize,
}

impl Faults {
    fn of(mut diagnostics: Vec<Diagnostic>) -> Self {
        diagnostics.sort_by_key(|found| (found.line, found.column));
        diagnostics.dedup();
        let count = diagnostics.len();
        diagnostics.truncate(MAX_DIAGNOSTICS);
        Self { diagnostics, count }
    }

    /// Says so where all that is wrong with a source is that its language has no markup.
    fn tell_of_markup(&mut self, source: &Source<'_>) {
        let Some(other) = source.language.with_markup() else { return };
        let allocator = Allocator::default();
        let read = Parser::new(&allocator, source.code, other.source_type()).parse();
        if read.panicked || read.diagnostics.has_errors() {
            return;
        }
        let (own, other) = (source.language.as_str(), other.as_str());
        for found in &mut self.diagnostics {
            found.fix = format!(
                "the source has markup, which `{own}` is without: write `\"language\": \"{other}\"`"
            );
        }
    }

    /// Names that are neither the source's own nor the engine's, each once: what to tell a model.
    #[must_use]
    pub fn unknown_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for found in self.diagnostics.iter().filter(|f| f.code == codes::NAME_UNKNOWN.name) {
            let name = found.message.split('`').nth(1).unwrap_or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// Compiles a source of a plan.
///
/// The compiler walks trees by recursion, and few bytes make a deep tree: a source that nobody vouches
/// for is compiled where the end of a process is an answer, not here.
///
/// # Errors
/// What is wrong with it, by line and column.
///
/// ```
/// use glasshouse_script::{Language, Runtime, Source, compile};
/// let compile = |code| {
///     let manifest = Default::default();
///     compile(&Source::new(code, Language::Tsx, Runtime::Preact, &manifest))
/// };
/// let module = compile("export default (props: { n: number }) => <p>{props.n}</p>").unwrap();
/// assert!(module.imports[0].ends_with("jsxRuntime.module.js"));
/// let faults = compile("export default () => eval('1')").unwrap_err();
/// assert_eq!(faults.diagnostics[0].code, "script_source_denied");
/// assert_eq!((faults.diagnostics[0].line, faults.diagnostics[0].column), (1, 22));
/// ```
pub fn compile(source: &Source<'_>) -> Result<Module, Faults> {
    compile_from(source, Origin::Plan)
}

/// A module that the program carries, compiled as a plan's is; `None` when it carries none there.
///
/// ```
/// let address = glasshouse_plan::module::alias("preact/hooks").expect("a row of the table");
/// assert!(glasshouse_script::carried(&address).is_some());
/// assert!(glasshouse_script::carried("https://ga.jspm.io/npm:other@1.0.0").is_none());
/// ```
#[must_use]
pub fn carried(address: &str) -> Option<Module> {
    let carried = vendor::carried(address)?;
    let manifest = BTreeMap::new();
    let source = Source::new(carried.text, Language::Js, Runtime::Preact, &manifest);
    compile_from(&source, Origin::Program).ok()
}

pub(crate) fn compile_from(source: &Source<'_>, origin: Origin) -> Result<Module, Faults> {
    compile_at(source, origin, None, &Places::new(source.code))
}

/// Compiles a module that is somewhere: what it imports may be named from there.
fn compile_at(
    source: &Source<'_>,
    origin: Origin,
    base: Option<&str>,
    places: &Places<'_>,
) -> Result<Module, Faults> {
    bounded(source.code, places)?;
    let allocator = Allocator::default();
    let read = Parser::new(&allocator, source.code, source.language.source_type())
        .with_options(ParseOptions { parse_regular_expression: true, ..ParseOptions::default() })
        .parse();
    let unread = |found: &OxcDiagnostic| places.of_compiler(codes::SOURCE_INVALID, found);
    if read.panicked || read.diagnostics.has_errors() {
        let mut faults = Faults::of(read.diagnostics.errors().map(unread).collect());
        faults.tell_of_markup(source);
        return Err(faults);
    }
    let exports = exported(&read);
    let mut program = read.program;
    let meaning =
        SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    if meaning.diagnostics.has_errors() {
        return Err(Faults::of(meaning.diagnostics.errors().map(unread).collect()));
    }
    let scoping = meaning.semantic.into_scoping();
    let (mut stores, mut remarks) = (Stores::default(), Vec::new());
    if origin == Origin::Plan {
        remarks = notes::of(&program, &scoping, places);
        gate::check(&program, &scoping, places, source.stores).map_err(Faults::of)?;
    }
    // A comment could name another function, or another module, for markup than the one that was checked.
    program.comments.clear();
    transform(&allocator, &mut program, scoping, source)
        .map_err(|found| Faults::of(found.iter().map(unread).collect()))?;
    if origin == Origin::Plan {
        // What only looked like a definition is gone now: declarations, types, overloads.
        let left = SemanticBuilder::new().build(&program).semantic.into_scoping();
        stores = gate::names(&program, &left, places, source.stores).map_err(Faults::of)?;
    }
    let found = imports::rewrite(&allocator, &mut program, (source.manifest, base), places);
    let imports::Found { mut imports, named } = found.map_err(Faults::of)?;
    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        // Only who wrote a plan looks for a place in it.
        source_map_path: (origin == Origin::Plan).then(|| "source".into()),
        ..Default::default()
    };
    let made = Codegen::new().with_options(options).build(&program);
    let mut code = made.code;
    let mut origins = Origins::default();
    if let Some(map) = made.map {
        let pairs = map.get_tokens().map(|token| {
            let of = (token.get_dst_line(), token.get_dst_col());
            (of, (token.get_src_line(), token.get_src_col()))
        });
        origins = Origins::new(&code, source.code, pairs);
    }
    if let Some(import) = stores.import() {
        code.insert_str(0, &import);
        origins.below(&import);
        imports.push(vendor::STORAGE.to_owned());
    }
    let digest = digest(source, &code);
    Ok(Module { code, imports, named, exports, digest, notes: remarks, origins })
}

/// Names that a module exports, in order; `*` stands for all that another one does.
fn exported(read: &ParserReturn<'_>) -> Vec<String> {
    let record = &read.module_record;
    let mut names: Vec<String> =
        record.exported_bindings.keys().map(|name| name.as_str().to_owned()).collect();
    let mut named = record.local_export_entries.iter().chain(&record.indirect_export_entries);
    if named.any(|entry| entry.export_name.is_default()) {
        names.push(DEFAULT_EXPORT.to_owned());
    }
    if record.star_export_entries.iter().any(|entry| entry.export_name.is_null()) {
        names.push("*".to_owned());
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Refuses what would make the compiler's own recursion deep or its work long.
fn bounded(code: &str, places: &Places<'_>) -> Result<(), Faults> {
    let refuse = |at: usize, why: String| {
        Err(Faults::of(vec![places.fault(codes::SOURCE_INVALID, at, why)]))
    };
    if code.len() > MAX_SOURCE_BYTES {
        return refuse(0, format!("{} bytes, at most {MAX_SOURCE_BYTES}", code.len()));
    }
    // Strings and comments count as well: to be wrong here only refuses.
    let mut open = 0_usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > MAX_NESTING {
            return refuse(at, format!("nested more than {MAX_NESTING} brackets deep"));
        }
    }
    Ok(())
}

fn transform<'a>(
    allocator: &'a Allocator,
    program: &mut Program<'a>,
    scoping: Scoping,
    source: &Source<'_>,
) -> Result<(), Vec<OxcDiagnostic>> {
    let options = TransformOptions {
        jsx: JsxOptions {
            jsx_plugin: true,
            runtime: JsxRuntime::Automatic,
            import_source: Some(source.runtime.as_str().to_owned()),
            pure: false,
            ..JsxOptions::disable()
        },
        ..TransformOptions::default()
    };
    let name = Path::new("source").with_extension(source.language.as_str());
    let done = Transformer::new(allocator, &name, &options).build_with_scoping(scoping, program);
    if done.diagnostics.has_errors() { Err(done.diagnostics.into_vec()) } else { Ok(()) }
}

/// The digest covers what went in and what came out: who compiled is in it, and so is every address.
fn digest(source: &Source<'_>, code: &str) -> String {
    digest_by(COMPILER, source, code)
}

/// What another compiler's digest of the same is.
fn digest_by(compiler: &str, source: &Source<'_>, code: &str) -> String {
    let parts = [compiler, source.language.as_str(), source.runtime.as_str(), source.code, code];
    cache::digest(parts.map(str::as_bytes)).to_string()
}

pub(crate) fn fault(code: Code, line: u32, column: u32, message: String) -> Diagnostic {
    Diagnostic { code: code.name.to_owned(), line, column, message, fix: code.fix.to_owned() }
}

#[cfg(test)]
mod tests;
