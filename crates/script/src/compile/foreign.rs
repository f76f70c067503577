//! Modules of others: not a plan's own words, so no check on the tree speaks for them, and what is no
//! JavaScript becomes a module that exports it.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Faults, Language, Module, Origin, Places, Runtime, Source, compile_at, fault};
use crate::codes;

/// What the bytes of a module are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// JavaScript or TypeScript: itself.
    Script,
    /// A style sheet: its text. There is no page that it could style.
    Css,
    /// JSON: its value.
    Json,
    /// Text: itself.
    Text,
    /// Anything that is shown and not read, such as a picture: its address. Its bytes are not
    /// fetched.
    Asset,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Script, Self::Css, Self::Json, Self::Text, Self::Asset];

    /// Its name in a manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Css => "css",
            Self::Json => "json",
            Self::Text => "text",
            Self::Asset => "asset",
        }
    }

    /// Finds a kind by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// What an address says by the end of its path; `None` when it says nothing.
    ///
    /// ```
    /// use glasshouse_script::Kind;
    /// assert_eq!(Kind::of_address("https://a.example/x.css?v=1"), Some(Kind::Css));
    /// assert_eq!(Kind::of_address("https://a.example/npm:lodash-es@4.17.21"), None);
    /// ```
    #[must_use]
    pub fn of_address(address: &str) -> Option<Self> {
        let path = address.split(['?', '#']).next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let (_, end) = name.rsplit_once('.')?;
        Some(match end.to_ascii_lowercase().as_str() {
            "js" | "mjs" | "jsx" | "ts" | "mts" | "tsx" => Self::Script,
            "css" => Self::Css,
            "json" => Self::Json,
            "txt" | "md" | "csv" | "html" | "xml" | "glsl" => Self::Text,
            "wasm" | "png" | "jpg" | "jpeg" | "gif" | "webp" | "avif" | "ico" | "svg" | "woff"
            | "woff2" | "ttf" | "otf" => Self::Asset,
            _ => return None,
        })
    }

    /// What a server says that its answer is; `None` for what no module is made of.
    ///
    /// ```
    /// use glasshouse_script::Kind;
    /// assert_eq!(Kind::of_content("text/javascript; charset=utf-8"), Some(Kind::Script));
    /// assert_eq!(Kind::of_content("text/html"), None);
    /// ```
    #[must_use]
    pub fn of_content(content_type: &str) -> Option<Self> {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Some(match kind.as_str() {
            ""
            | "text/javascript"
            | "application/javascript"
            | "application/x-javascript"
            | "application/ecmascript"
            | "text/typescript"
            | "application/typescript"
            | "video/mp2t"
            | "application/octet-stream" => Self::Script,
            "text/css" => Self::Css,
            "application/json" | "text/json" => Self::Json,
            "text/plain" | "text/markdown" | "text/csv" => Self::Text,
            other if other.ends_with("+json") => Self::Json,
            _ => return None,
        })
    }
}

/// Compiles a module of others.
pub(crate) fn foreign(
    (address, kind): (&str, Kind),
    bytes: &[u8],
    manifest: &BTreeMap<String, String>,
) -> Result<Module, Faults> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Faults::of(vec![fault(codes::SOURCE_INVALID, 1, 1, "it is no text".to_owned())])
    })?;
    let literal = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let code = match kind {
        Kind::Script => text.to_owned(),
        Kind::Css | Kind::Text => format!("export default {};", literal(text)),
        Kind::Asset => format!("export default {};", literal(address)),
        Kind::Json => {
            serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
                let line = u32::try_from(error.line()).unwrap_or(u32::MAX);
                let column = u32::try_from(error.column()).unwrap_or(u32::MAX);
                let why = format!("it is no JSON: {error}");
                Faults::of(vec![fault(codes::SOURCE_INVALID, line, column, why)])
            })?;
            format!("export default JSON.parse({});", literal(text))
        }
    };
    let source = Source::new(&code, language(address), Runtime::Preact, manifest);
    let places = Places::new(&code);
    compile_at(&source, Origin::Module, Some(address), &places)
}

fn language(address: &str) -> Language {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit('.').next() {
        Some("ts" | "mts") => Language::Ts,
        Some("tsx") => Language::Tsx,
        Some("jsx") => Language::Jsx,
        _ => Language::Js,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(address: &str, kind: Kind, text: &str) -> Result<Module, Faults> {
        foreign((address, kind), text.as_bytes(), &BTreeMap::new())
    }

    #[test]
    fn every_kind_becomes_a_module() {
        let at = "https://a.example/x/y.js";
        for (kind, text, want) in [
            (Kind::Script, "export const a = 1", "export const a = 1;\n"),
            (Kind::Css, "p { color: \"red\" }", "export default \"p { color: \\\"red\\\" }\";\n"),
            (Kind::Text, "a\nb", "export default \"a\\nb\";\n"),
            (Kind::Asset, "", "export default \"https://a.example/x/y.js\";\n"),
            (Kind::Json, "{\"a\":1}", "export default JSON.parse(\"{\\\"a\\\":1}\");\n"),
        ] {
            let code = module(at, kind, text).unwrap().code;
            // Which quotes are written is the writer's affair.
            let plain = |text: &str| text.replace(['\'', '"', '\\'], "");
            assert_eq!(plain(&code), plain(want), "{kind:?}");
        }
        let bad = module(at, Kind::Json, "{\n  \"a\": }").unwrap_err();
        assert_eq!((bad.diagnostics[0].line, bad.diagnostics[0].column), (2, 8));
        assert!(foreign((at, Kind::Script), &[0xff], &BTreeMap::new()).is_err());
    }

    #[test]
    fn what_a_module_imports_is_found_from_where_it_is() {
        let at = "https://a.example/lib/x/index.js";
        let manifest = BTreeMap::from([
            ("pinned".to_owned(), "https://b.example/p.js".to_owned()),
            ("https://a.example/lib/moved.js".to_owned(), "https://a.example/new.js".to_owned()),
        ]);
        let code = "import './a.js'; import '../moved.js'; import 'pinned'; export * from 'react';
            export { y } from '/y.css'; import('./lazy.js'); import data from './d.json' with { type: 'json' };
            export default data";
        let made = foreign((at, Kind::Script), code.as_bytes(), &manifest).unwrap();
        let preact = glasshouse_plan::module::alias("react").unwrap();
        let want = [
            "https://a.example/lib/x/a.js",
            "https://a.example/new.js",
            "https://b.example/p.js",
            &preact,
            "https://a.example/y.css",
            "https://a.example/lib/x/lazy.js",
            "https://a.example/lib/x/d.json",
        ];
        assert_eq!(made.imports, want);
        assert!(!made.code.contains("with"), "{}", made.code);
        assert!(module(at, Kind::Script, "import 'node:fs'").is_err());
        // Nobody vouches for a module's words, and nothing rests on them.
        assert!(module(at, Kind::Script, "export default () => globalThis.eval").is_ok());
    }
}
