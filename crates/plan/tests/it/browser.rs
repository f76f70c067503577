//! What a browser's parser makes of markup, and what in it would run, load or lead away.

use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, QualName, local_name, ns, parse_fragment};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// An element or a text of a parsed tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Namespace's last part, name, attributes and content.
    Element(String, String, Vec<(String, String)>, Vec<Seen>),
    /// A text; texts side by side are one.
    Text(String),
    /// A comment, an instruction or a document type: never written by us.
    Other(String),
}

/// Parses markup as the content of a `div`.
pub(crate) fn parse(html: &str) -> Vec<Seen> {
    let context = QualName::new(None, ns!(html), local_name!("div"));
    let dom = parse_fragment(RcDom::default(), ParseOpts::default(), context, Vec::new(), false)
        .one(html);
    let root = dom.document.children.borrow();
    root.first().map(children).unwrap_or_default()
}

fn children(handle: &Handle) -> Vec<Seen> {
    handle.children.borrow().iter().map(seen).collect()
}

fn seen(handle: &Handle) -> Seen {
    match &handle.data {
        NodeData::Text { contents } => Seen::Text(contents.borrow().to_string()),
        NodeData::Element { name, attrs, template_contents, .. } => {
            let space = name.ns.rsplit('/').next().unwrap_or_default().to_owned();
            let attributes = attrs.borrow();
            let attributes = attributes
                .iter()
                .map(|attribute| (attribute.name.local.to_string(), attribute.value.to_string()));
            let mut content = children(handle);
            if let Some(template) = template_contents.borrow().as_ref() {
                content.extend(children(template));
            }
            Seen::Element(space, name.local.to_string(), attributes.collect(), content)
        }
        _ => Seen::Other(format!("{:?}", handle.data)),
    }
}

/// Elements that run code, load a document, or change the page.
const LIVE: &[&str] = &[
    "script",
    "iframe",
    "object",
    "embed",
    "base",
    "meta",
    "link",
    "style",
    "template",
    "plaintext",
    "noscript",
    "frame",
    "frameset",
    "applet",
    "portal",
    "foreignObject",
    "animate",
    "animateMotion",
    "animateTransform",
    "set",
    "use",
    "image",
    "feImage",
    "math",
    "marquee",
    "video",
    "audio",
    "source",
    "track",
    "canvas",
    "dialog",
    "slot",
    "body",
    "html",
    "head",
    "title",
];

/// Everything in a tree that would run, load from, lead to or tell a host that is not allowed.
pub(crate) fn live(tree: &[Seen], allowed: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<&Seen> = tree.iter().collect();
    while let Some(seen) = open.pop() {
        match seen {
            Seen::Text(_) => {}
            Seen::Other(what) => found.push(what.clone()),
            Seen::Element(space, name, attributes, content) => {
                let harmless_title = name == "title" && space == "svg";
                if (LIVE.contains(&name.as_str()) && !harmless_title) || name.contains('-') {
                    found.push(format!("<{name}>"));
                }
                for (attribute, value) in attributes {
                    if let Some(what) = danger(name, attribute, value, allowed) {
                        found.push(what);
                    }
                }
                open.extend(content);
            }
        }
    }
    found
}

fn danger(tag: &str, name: &str, value: &str, allowed: &[&str]) -> Option<String> {
    let told = || Some(format!("{tag} {name}={value:?}"));
    let lower: String = value
        .chars()
        .filter(|c| *c > ' ' && !c.is_control())
        .collect::<String>()
        .to_ascii_lowercase()
        .replace('\\', "/");
    if name.starts_with("on") {
        return told();
    }
    match name {
        "srcdoc" | "srcset" | "action" | "formaction" | "ping" | "background" | "poster"
        | "data" | "longdesc" | "manifest" | "is" | "nonce" | "autofocus" | "contenteditable" => {
            told()
        }
        "style" => {
            let bad = ["url(", "image-set(", "expression(", "@import", "position", "/*", "//"];
            bad.iter().any(|bad| lower.contains(bad)).then(told).flatten()
        }
        "fill" | "stroke" | "clip-path" | "mask" | "filter" | "cursor" | "stop-color" => {
            (lower.contains("url(") && !lower.starts_with("url(#")).then(told).flatten()
        }
        "href" | "src" | "cite" | "xlink:href" => {
            if tag == "img" && lower.starts_with("data:image/") && !lower.contains("svg") {
                return None;
            }
            let scheme = lower.split(['/', '?', '#']).next().unwrap_or_default();
            if let Some((scheme, _)) = scheme.split_once(':')
                && !matches!(scheme, "http" | "https" | "mailto" | "tel")
            {
                return told();
            }
            let rest = ["http:", "https:", ""]
                .iter()
                .find_map(|it| lower.strip_prefix(&format!("{it}//")))?;
            let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            (!allowed.contains(&host)).then(told).flatten()
        }
        _ => None,
    }
}

#[test]
fn the_parser_sees_what_it_should() {
    for (html, want) in [
        ("<p title='a&quot;b'>x &lt; y</p>", 0),
        ("<script>1</script>", 1),
        ("<svg><path d='M0 0'></path></svg>", 0),
        ("<svg><set></set><a xlink:href='javascript:x'></a></svg>", 2),
        ("<img src=x onerror=alert(1)>", 1),
        ("<a href='java\nscript:alert(1)'>", 1),
        ("<img src=\"\\\\evil.example/\">", 1),
        ("<img src=\"https://ok.example/\">", 0),
        ("<i style=\"background:url(x)\">", 1),
        ("<!-- x -->", 1),
    ] {
        assert_eq!(live(&parse(html), &["ok.example"]).len(), want, "{html}");
    }
}
