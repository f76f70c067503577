//! Reads the text that Preact renders back into nodes of a plan.
//!
//! It is no reader of HTML as browsers are: it takes exactly what the renderer writes, and what text a
//! component puts in raw must look the same. However it is read, only nodes come out, and they are
//! checked and written anew like any plan's.

use serde_json::{Map, Value, json};

/// Elements without content.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Most nodes and deepest nesting: above what any profile shows.
const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 60;
/// In front of bindings that our part of the renderer wrote as attributes.
const BINDING: &str = "data-glasshouse-";

/// The nodes of a text, in order.
pub(crate) fn nodes(text: &str) -> Result<Vec<Value>, String> {
    let mut reader = Reader { rest: text, open: vec![Open::default()], nodes: 0 };
    while !reader.rest.is_empty() {
        reader.step()?;
    }
    match reader.open.len() {
        1 => Ok(reader.open.pop().unwrap_or_default().children),
        _ => Err("a tag is not closed".to_owned()),
    }
}

#[derive(Default)]
struct Open {
    tag: String,
    props: Map<String, Value>,
    children: Vec<Value>,
}

impl Open {
    fn node(self) -> Value {
        json!({"type": "element", "tag": self.tag, "props": self.props, "children": self.children})
    }
}

struct Reader<'t> {
    rest: &'t str,
    open: Vec<Open>,
    nodes: usize,
}

impl<'t> Reader<'t> {
    fn step(&mut self) -> Result<(), String> {
        if let Some(after) = self.rest.strip_prefix("<!--") {
            let (_, after) = after.split_once("-->").ok_or("a comment is not closed")?;
            self.rest = after;
            return Ok(());
        }
        if let Some(after) = self.rest.strip_prefix("</") {
            self.rest = after;
            return self.close();
        }
        if self.rest.starts_with('<') {
            return self.element();
        }
        let text = self.until(|c| c == '<');
        self.add(json!({"type": "text", "value": unescape(text)}))
    }

    fn until(&mut self, stop: impl Fn(char) -> bool) -> &'t str {
        let (part, rest) = self.rest.split_at(self.rest.find(stop).unwrap_or(self.rest.len()));
        self.rest = rest;
        part
    }

    fn skip(&mut self, sign: &str) -> bool {
        let found = self.rest.strip_prefix(sign);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn add(&mut self, node: Value) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(format!("more than {MAX_NODES} nodes"));
        }
        if let Some(open) = self.open.last_mut() {
            open.children.push(node);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let tag = self.until(|c| c == '>');
        self.skip(">");
        match self.open.pop() {
            Some(open) if open.tag == tag && !self.open.is_empty() => self.add(open.node()),
            _ => Err(format!("</{}> closes nothing", short(tag))),
        }
    }

    fn element(&mut self) -> Result<(), String> {
        self.skip("<");
        let tag = self.until(|c| c.is_whitespace() || c == '>' || c == '/').to_owned();
        if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err("a tag has no name".to_owned());
        }
        let mut open = Open { tag, ..Open::default() };
        loop {
            self.rest = self.rest.trim_start();
            let empty = self.skip("/");
            if self.skip(">") {
                let is_void = VOID.contains(&open.tag.as_str());
                if empty || is_void {
                    return self.add(open.node());
                }
                if self.open.len() > MAX_DEPTH {
                    return Err(format!("nested more than {MAX_DEPTH} deep"));
                }
                self.open.push(open);
                return Ok(());
            }
            if empty || self.rest.is_empty() {
                return Err(format!("<{}> is not complete", short(&open.tag)));
            }
            let (name, value) = self.attribute()?;
            open.props.insert(name, value);
        }
    }

    fn attribute(&mut self) -> Result<(String, Value), String> {
        let name = self.until(|c| c.is_whitespace() || matches!(c, '=' | '>' | '/' | '"'));
        if name.is_empty() {
            return Err("an attribute has no name".to_owned());
        }
        if !self.skip("=") {
            return Ok((name.to_owned(), Value::Bool(true)));
        }
        if !self.skip("\"") {
            return Err(format!("the value of {} is not quoted", short(name)));
        }
        let value = unescape(self.until(|c| c == '"'));
        if !self.skip("\"") {
            return Err(format!("the value of {} has no end", short(name)));
        }
        match name.strip_prefix(BINDING) {
            Some(event) => {
                let binding = serde_json::from_str(&value).map_err(|e| e.to_string())?;
                Ok((event.to_owned(), binding))
            }
            None => Ok((name.to_owned(), Value::String(value))),
        }
    }
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Takes out the escapes that the renderer writes.
fn unescape(text: &str) -> String {
    const NAMED: [(&str, char); 5] =
        [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&#39;", '\'')];
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = NAMED.iter().find(|(name, _)| rest.starts_with(name));
        let (name, sign) = found.map_or(("&", '&'), |(name, sign)| (*name, *sign));
        plain.push(sign);
        rest = &rest[name.len()..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_renderer_writes_becomes_nodes() {
        let text = |value: &str| json!({"type": "text", "value": value});
        let element = |tag: &str, props: Value, children: Vec<Value>| json!({"type": "element", "tag": tag, "props": props, "children": children});
        for (given, want) in [
            ("", vec![]),
            ("a &amp; b &lt;c&gt; &amp;lt; &x", vec![text("a & b <c> &lt; &x")]),
            (
                "<p>a</p><br/>",
                vec![element("p", json!({}), vec![text("a")]), element("br", json!({}), vec![])],
            ),
            (
                "<input disabled value=\"&quot;1&quot;\"/>",
                vec![element("input", json!({"disabled": true, "value": "\"1\""}), vec![])],
            ),
            (
                "<svg viewBox=\"0 0 1 1\"><path d=\"M0 0\"></path></svg>",
                vec![element(
                    "svg",
                    json!({"viewBox": "0 0 1 1"}),
                    vec![element("path", json!({"d": "M0 0"}), vec![])],
                )],
            ),
            (
                "<i data-glasshouse-onClick=\"{&quot;type&quot;:&quot;add&quot;}\">x</i>",
                vec![element("i", json!({"onClick": {"type": "add"}}), vec![text("x")])],
            ),
            ("<!--$s--><b></b>", vec![element("b", json!({}), vec![])]),
        ] {
            assert_eq!(nodes(given).as_ref(), Ok(&want), "{given}");
        }
    }

    #[test]
    fn anything_else_is_refused_and_nothing_is_guessed() {
        for given in [
            "<p>",
            "</p>",
            "<p></b>",
            "<",
            "<>",
            "< p>",
            "<p a=b>",
            "<p a=\"b>",
            "<p/ a>",
            "<!--",
            "<p =\"\">",
            "<p data-glasshouse-onClick=\"x\"></p>",
        ] {
            assert!(nodes(given).is_err(), "{given}");
        }
        assert!(nodes(&"<p>".repeat(100)).is_err());
        assert!(nodes(&"<br/>".repeat(MAX_NODES + 1)).is_err());
    }
}
