//! A small HTML tokenizer, written apart from the renderer, and what it finds dangerous.

/// A token of markup.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Start {
        tag: String,
        attributes: Vec<(String, String)>,
    },
    End(String),
    Text(String),
    /// A `<` that begins nothing this reader knows: comments, doctypes, stray brackets.
    Other(String),
}

/// Reads markup as a browser's data state does, leniently: unquoted and single-quoted values count.
pub(crate) fn tokens(html: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = html;
    while !rest.is_empty() {
        let Some(at) = rest.find('<') else {
            tokens.push(Token::Text(unescape(rest)));
            break;
        };
        if at > 0 {
            tokens.push(Token::Text(unescape(&rest[..at])));
            rest = &rest[at..];
            continue;
        }
        let (token, after) = tag(rest);
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn tag(text: &str) -> (Token, &str) {
    let inside = &text[1..];
    let (closing, inside) = match inside.strip_prefix('/') {
        Some(inside) => (true, inside),
        None => (false, inside),
    };
    if !inside.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let end = text.find('>').map_or(text.len(), |end| end + 1);
        return (Token::Other(text[..end].to_owned()), &text[end..]);
    }
    let end =
        inside.find(|c: char| c.is_whitespace() || c == '>' || c == '/').unwrap_or(inside.len());
    let name = inside[..end].to_ascii_lowercase();
    let mut rest = &inside[end..];
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        if let Some(after) = rest.strip_prefix('>') {
            rest = after;
            break;
        }
        if rest.is_empty() {
            break;
        }
        let (attribute, after) = attribute(rest);
        attributes.push(attribute);
        rest = after;
    }
    let token = if closing { Token::End(name) } else { Token::Start { tag: name, attributes } };
    (token, rest)
}

fn attribute(text: &str) -> ((String, String), &str) {
    let end = text[1..].find(|c: char| c.is_whitespace() || "=/>".contains(c));
    let end = end.map_or(text.len(), |end| end + 1);
    let name = text[..end].to_ascii_lowercase();
    let after = text[end..].trim_start();
    let Some(value) = after.strip_prefix('=').map(str::trim_start) else {
        return ((name, String::new()), &text[end..]);
    };
    let (value, rest) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inside = &value[1..];
            let end = inside.find(quote).unwrap_or(inside.len());
            (&inside[..end], inside.get(end + 1..).unwrap_or_default())
        }
        _ => {
            let end = value.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(value.len());
            value.split_at(end)
        }
    };
    ((name, unescape(value)), rest)
}

pub(crate) fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&#13;", "\r")
        .replace("&amp;", "&")
}

/// What in a page would run code, load something from a host that is not allowed, or send data.
pub(crate) fn dangers(html: &str, allowed_hosts: &[&str]) -> Vec<String> {
    const RUNS: &[&str] = &[
        "script",
        "iframe",
        "object",
        "embed",
        "base",
        "meta",
        "link",
        "style",
        "foreignobject",
        "animate",
        "animatemotion",
        "animatetransform",
        "set",
        "use",
        "image",
        "feimage",
        "math",
        "template",
        "plaintext",
        "noscript",
        "frame",
        "frameset",
        "applet",
        "portal",
    ];
    let mut found = Vec::new();
    for token in tokens(html) {
        match token {
            Token::Other(text) => found.push(format!("markup {text:?}")),
            Token::Start { tag, attributes } => {
                if RUNS.contains(&tag.as_str()) || tag.contains('-') {
                    found.push(format!("element {tag}"));
                }
                for (name, value) in attributes {
                    if let Some(danger) = attribute_danger(&tag, &name, &value, allowed_hosts) {
                        found.push(danger);
                    }
                }
            }
            Token::End(_) | Token::Text(_) => {}
        }
    }
    found
}

fn attribute_danger(tag: &str, name: &str, value: &str, allowed: &[&str]) -> Option<String> {
    let told = || Some(format!("{tag} {name}={value:?}"));
    if name.starts_with("on") || matches!(name, "srcdoc" | "action" | "formaction" | "ping") {
        return told();
    }
    // What a browser drops or trims before it reads a scheme.
    let squeezed: String = value.chars().filter(|c| *c > ' ' && !c.is_control()).collect();
    let lower = squeezed.to_ascii_lowercase().replace('\\', "/");
    if name == "style" {
        let loads = ["url(", "image-set(", "expression(", "@import", "position", "/*", "\\"];
        return if loads.iter().any(|word| value.to_ascii_lowercase().contains(word)) {
            told()
        } else {
            None
        };
    }
    if matches!(name, "fill" | "stroke" | "clip-path" | "mask" | "filter" | "cursor" | "stop-color")
    {
        let loads = lower.contains("url(") && !lower.starts_with("url(#");
        return if loads || value.contains('\\') { told() } else { None };
    }
    if !matches!(name, "href" | "src" | "srcset" | "cite" | "background" | "poster" | "data") {
        return None;
    }
    if tag == "img" && lower.starts_with("data:image/") && !lower.contains("svg") {
        return None;
    }
    if let Some(colon) = lower.find(':')
        && !lower[..colon].contains(['/', '?', '#'])
        && !matches!(&lower[..colon], "http" | "https" | "mailto" | "tel")
    {
        return told();
    }
    let remote = ["http:", "https:", "//"].iter().find_map(|prefix| lower.strip_prefix(prefix))?;
    let host = remote.trim_start_matches('/').split(['/', '?', '#', ':']).next()?.to_owned();
    let host = host.rsplit('@').next()?.to_owned();
    if allowed.contains(&host.as_str()) { None } else { told() }
}

#[test]
fn the_reader_finds_what_it_should() {
    for (html, want) in [
        ("<p title=\"a&quot;b\">x &lt; y</p>", 0),
        ("<script>1</script>", 1),
        ("<img src=x onerror=alert(1)>", 1),
        ("<a href='java\nscript:alert(1)'>", 1),
        ("<a href=\"\u{1}javascript:alert(1)\">", 1),
        ("<img src=\"https://evil.example/?q=1\">", 1),
        ("<img src=\"\\\\evil.example/\">", 1),
        ("<img src=\"https://ok.example/\">", 0),
        ("<i style=\"background:url(x)\">", 1),
        ("<!-- x -->", 1),
    ] {
        assert_eq!(dangers(html, &["ok.example"]).len(), want, "{html}");
    }
}
