//! Where JSON and source code stand in an answer.

use std::collections::HashSet;

use serde_json::{Value, json};

const FENCE: &str = "```";
/// Modules that are written for Preact.
const PREACT_LIKE: [&str; 3] = ["preact", "react", "recharts"];

/// The fences of a text: what they call themselves, and what they hold.
fn fences(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(FENCE)?;
        let (inside, behind) = after.split_once(FENCE)?;
        rest = behind;
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let end = inside.find(|c| !word(c)).unwrap_or(inside.len());
        Some((&inside[..end], inside[end..].trim()))
    })
}

/// The parts of an answer that may hold JSON, the likeliest first.
pub(super) fn candidates(answer: &str) -> impl Iterator<Item = &str> {
    let json = fences(answer).find(|(name, _)| name.eq_ignore_ascii_case("json"));
    let json = json.map(|(_, body)| body);
    let all = fences(answer).map(|(_, body)| body);
    json.into_iter().chain(all).chain([answer.trim()]).filter(|text| !text.is_empty())
}

/// The parts of a text between brackets that match, strings respected. One pass.
pub(super) fn regions(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open: Vec<u8> = Vec::new();
    let mut start = 0;
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' if !open.is_empty() => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => {
                if open.is_empty() {
                    start = at;
                }
                open.push(if byte == b'{' { b'}' } else { b']' });
            }
            b'}' | b']' => match open.pop() {
                Some(expected) if expected == byte => {
                    if open.is_empty() {
                        found.push(&text[start..=at]);
                    }
                }
                _ => open.clear(),
            },
            _ => {}
        }
    }
    found
}

/// The first fence that says it holds source code.
pub(super) fn source(answer: &str) -> Option<Value> {
    fences(answer).find_map(|(name, code)| {
        let jsx = looks_like_markup(code);
        let language = match name.to_ascii_lowercase().as_str() {
            "tsx" | "typescriptreact" => "tsx",
            "jsx" | "javascriptreact" => "jsx",
            "ts" | "typescript" => ["ts", "tsx"][usize::from(jsx)],
            "js" | "javascript" => ["js", "jsx"][usize::from(jsx)],
            _ => return None,
        };
        let source = json!({"language": language, "code": code, "exportName": "default"});
        (!code.is_empty()).then(|| ready(&source))
    })
}

/// Whether code holds something like a tag.
fn looks_like_markup(code: &str) -> bool {
    code.match_indices('<').any(|(at, _)| {
        let tag = code[at + 1..].trim_start();
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-');
        let end = tag.find(|c| !name(c)).unwrap_or(tag.len());
        tag.starts_with(|c: char| c.is_ascii_alphabetic())
            && tag[end..].starts_with(|c: char| c.is_whitespace() || matches!(c, '/' | '>'))
    })
}

/// A source with its runtime and its export named.
pub(super) fn ready(source: &Value) -> Value {
    let text = |key: &str| source[key].as_str().unwrap_or_default();
    let (code, language) = (text("code"), text("language"));
    let scan = crate::source::scan(code, language);
    let react = scan.imports.iter().any(|name| PREACT_LIKE.contains(&name.as_str()))
        || scan.names.contains("useState")
        || scan.names.contains("useEffect");
    let runtime = match text("runtime") {
        "preact" => "preact",
        _ if react => "preact",
        "" if language.ends_with('x') => "preact",
        _ => "renderify",
    };
    let exports = exports(code);
    let default = exports.iter().any(|name| name == "default");
    let mut code = code.to_owned();
    if exports.is_empty()
        && let Some(component) = component_name(&code)
    {
        code = format!("{code}\nexport default {component};");
    }
    let asked = text("exportName").trim();
    let export = match exports.as_slice() {
        _ if asked == "default" || exports.iter().any(|name| name == asked) => asked,
        _ if default => "default",
        [only] => only,
        _ if asked.is_empty() => "default",
        _ => asked,
    };
    let mut ready = source.clone();
    ready["code"] = code.into();
    ready["runtime"] = runtime.into();
    ready["exportName"] = export.into();
    ready
}

/// Words and signs of a code; enough to find declarations, not to understand them.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let end = if name(first) {
            rest.find(|c| !name(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

/// The names that a code exports.
fn exports(code: &str) -> Vec<String> {
    let words = words(code);
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    let mut add = |name: &str| {
        if known.insert(name.to_owned()) {
            found.push(name.to_owned());
        }
    };
    for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "export") {
        let after = words[at + 1..].iter().copied().filter(|word| *word != "async");
        match after.clone().next() {
            Some("default") => add("default"),
            Some("function" | "const" | "let" | "var" | "class") => {
                after.clone().nth(1).into_iter().for_each(&mut add);
            }
            Some("{") => {
                // A list that is not closed ends where the next one begins, so each word is in one.
                let is_in_list = |word: &&str| !matches!(*word, "}" | "export");
                let list: Vec<&str> = after.skip(1).take_while(is_in_list).collect();
                list.split(|word| *word == ",")
                    .filter_map(|item| item.last())
                    .for_each(|name| add(name));
            }
            _ => {}
        }
    }
    found
}

/// The first declared name that begins with a capital.
fn component_name(code: &str) -> Option<&str> {
    let words = words(code);
    words.windows(2).find_map(|pair| {
        let declared = matches!(pair[0], "function" | "const" | "let" | "var" | "class");
        (declared && pair[1].starts_with(|c: char| c.is_ascii_uppercase())).then_some(pair[1])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_a_text() {
        for (text, want) in [
            ("a {b} c [d]", vec!["{b}", "[d]"]),
            ("{\"a\":\"}\"}", vec!["{\"a\":\"}\"}"]),
            ("{\"a\":\"\\\"}\"}", vec!["{\"a\":\"\\\"}\"}"]),
            ("{a] {b}", vec!["{b}"]),
            ("say \"{x}\"", vec!["{x}"]),
            ("{", vec![]),
            ("}{", vec![]),
        ] {
            assert_eq!(regions(text), want, "{text}");
        }
    }

    #[test]
    fn a_source_is_made_ready() {
        for (language, code, runtime, export) in [
            ("tsx", "export default () => <b/>", "preact", "default"),
            ("js", "export default 1", "renderify", "default"),
            ("js", "import 'react'; export const A = 1", "preact", "A"),
            ("js", "export { a as B }", "renderify", "B"),
            ("js", "function App() {}", "renderify", "default"),
        ] {
            let source = ready(&json!({"code": code, "language": language}));
            assert_eq!(
                (&source["runtime"], &source["exportName"]),
                (&runtime.into(), &export.into()),
                "{code}"
            );
        }
        let source = ready(&json!({"code": "function App() {}", "language": "js"}));
        assert!(source["code"].as_str().unwrap().ends_with("export default App;"));
    }
}
