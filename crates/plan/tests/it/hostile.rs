//! Hostile plans by the thousand, made from parts that each work against a renderer without
//! defences. Ours shows none of them: a browser's parser reads its output and an independent list
//! of dangers stays empty, and the tree it reads is the tree that was checked.

use std::collections::BTreeMap;

use glasshouse_plan::{Context, Limits, Node, Plan, Profile, ProfileName, parse, render};
use serde_json::{Map, Value, json};

use crate::attacks::undefended;
use crate::browser::{self, Seen};

/// A small generator of numbers: the same seed, the same plans.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll() % sides.max(1) as u64).unwrap()
    }

    fn one_of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    fn chance(&mut self, in_ten: usize) -> bool {
        self.below(10) < in_ten
    }
}

const PLAIN_TAGS: &[&str] = &[
    "div",
    "p",
    "span",
    "section",
    "ul",
    "li",
    "a",
    "img",
    "b",
    "i",
    "table",
    "tbody",
    "tr",
    "td",
    "form",
    "input",
    "button",
    "label",
    "select",
    "option",
    "textarea",
    "pre",
    "details",
    "summary",
    "svg",
    "g",
    "path",
    "rect",
    "text",
    "title",
    "linearGradient",
    "stop",
    "h1",
    "q",
    "ruby",
    "dl",
];
const LIVE_TAGS: &[&str] = &[
    "script",
    "SCRIPT",
    " script ",
    "iframe",
    "object",
    "embed",
    "base",
    "meta",
    "link",
    "style",
    "math",
    "foreignObject",
    "animate",
    "set",
    "use",
    "image",
    "template",
    "noscript",
    "plaintext",
    "x-evil",
    "p onclick=alert(1)",
    "p><script",
    "frameset",
    "body",
    "svg/onload=alert(1)",
    "mglyph",
    "annotation-xml",
    "video",
    "audio",
    "marquee",
    "isindex",
    "xmp",
    "listing",
    "noembed",
];
const PROPS: &[&str] = &[
    "href",
    "src",
    "HREF",
    "xlink:href",
    "style",
    "class",
    "id",
    "name",
    "title",
    "srcset",
    "srcdoc",
    "action",
    "formaction",
    "onclick",
    "onClick",
    "ONERROR",
    "onload",
    "on\u{a0}click",
    "data-x",
    "aria-label",
    "target",
    "rel",
    "fill",
    "stroke",
    "clip-path",
    "cite",
    "background",
    "poster",
    "is",
    "nonce",
    "innerHTML",
    "dangerouslySetInnerHTML",
    "x onclick",
    "x=\"><script",
    "key",
    "type",
    "value",
    "for",
    "d",
    "width",
    "attributeName",
    "to",
    "formAction",
    "xml:base",
    "ping",
    "lang",
    "\u{0}href",
    "href\n",
    "/onload",
    "'",
    "className",
    "htmlFor",
    "viewBox",
    "transform",
];
const VALUES: &[&str] = &[
    "javascript:alert(1)",
    "JaVa\tScRiPt:alert(1)",
    "\u{1}javascript:alert(1)",
    "vbscript:x",
    "data:text/html,<script>alert(1)</script>",
    "data:image/svg+xml,<svg onload=alert(1)>",
    "https://evil.example/?q=1",
    "//evil.example/x",
    "\\\\evil.example/x",
    "/\\evil.example",
    "https:evil.example",
    "https://ga.jspm.io@evil.example/",
    "http://evil.example:80/",
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg onload=alert(1)>",
    "</style><script>alert(1)</script>",
    "<!--",
    "-->",
    "]]>",
    "<![CDATA[",
    "&#x6a;avascript:x",
    "background:url(https://evil.example/x)",
    "background:u\\72l(//evil.example)",
    "position:fixed",
    "width:expression(alert(1))",
    "@import 'https://evil.example'",
    "x:/**/url(//evil.example)",
    "url(https://evil.example/x)",
    "url(#a)",
    "{{state.evil}}",
    "{{state.url}}",
    "x{{state.evil}}",
    "{{event.payload.x}}",
    "java{{state.half}}",
    "https://{{state.host}}/",
    "blob:https://x/1",
    "filesystem:x",
    "view-source:x",
    "plain",
    "",
    "\n",
    "\u{0}",
    "\u{202e}txt",
    "é😀",
    "red",
    "5",
    "_blank",
    "checkbox",
    "password",
    "__proto__",
    "constructor",
    "location",
    "a b c",
];

fn value(dice: &mut Dice) -> Value {
    match dice.below(12) {
        0 => json!({dice.one_of(PROPS): dice.one_of(VALUES)}),
        1 => json!([dice.one_of(VALUES)]),
        2 => json!({"type": dice.one_of(VALUES), "payload": {"x": dice.one_of(VALUES)}}),
        3 => json!(dice.below(1000)),
        4 => json!(dice.chance(5)),
        5 => Value::Null,
        6 => json!(format!("{}{}", dice.one_of(VALUES), dice.one_of(VALUES))),
        _ => json!(dice.one_of(VALUES)),
    }
}

fn node(dice: &mut Dice, depth: usize, poison: usize) -> Value {
    if dice.chance(2) || depth > 6 {
        return json!({"type": "text", "value": dice.one_of(VALUES)});
    }
    let live = dice.below(100) < poison;
    let tag = if live { dice.one_of(LIVE_TAGS) } else { dice.one_of(PLAIN_TAGS) };
    let mut props = Map::new();
    for _ in 0..dice.below(if poison > 0 { 4 } else { 2 }) {
        props.insert(dice.one_of(PROPS).to_owned(), value(dice));
    }
    let count = dice.below(4);
    let children: Vec<Value> = (0..count).map(|_| node(dice, depth + 1, poison)).collect();
    json!({"type": "element", "tag": tag, "props": props, "children": children})
}

/// A plan and the state that its templates read. Some are mostly harmless, so that many are shown.
pub(crate) fn plan(dice: &mut Dice) -> (Value, Map<String, Value>) {
    let state = json!({"evil": dice.one_of(VALUES), "url": dice.one_of(VALUES),
        "half": "script:alert(1)", "host": "evil.example"});
    let poison = [0, 0, 2, 10, 40][dice.below(5)];
    let mut root = node(dice, 0, poison);
    // Trees of tables and drawings are often refused for their form; plain boxes are not.
    if dice.chance(5) {
        root = json!({"type": "element", "tag": "div", "children": [
            {"type": "text", "value": dice.one_of(VALUES)},
            {"type": "element", "tag": dice.one_of(&["a", "b", "p", "i", "img", "svg"]),
             "props": {dice.one_of(PROPS): value(dice)}}]});
    }
    (root, state.as_object().unwrap().clone())
}

const ALLOWED: &[&str] = &["ga.jspm.io", "cdn.jspm.io", "esm.sh", "unpkg.com"];

/// The tree of a plan as a parser should see it: names and texts.
fn shape(node: &Node<'_>) -> Vec<Shape> {
    let mut shapes = Vec::new();
    match node {
        Node::Text(_) => shapes.push(Shape::Text),
        Node::Component(component) => {
            shapes.push(Shape::Element("div".to_owned(), merged(component.children())));
        }
        Node::Element(element) => {
            let tag = element.tag().to_ascii_lowercase();
            shapes.push(Shape::Element(tag, merged(element.children())));
        }
    }
    shapes
}

#[derive(Debug, PartialEq)]
enum Shape {
    Element(String, Vec<Shape>),
    Text,
}

fn merged<'a>(children: impl Iterator<Item = Node<'a>>) -> Vec<Shape> {
    children.flat_map(|child| shape(&child)).filter(|shape| *shape != Shape::Text).collect()
}

fn seen_shape(seen: &[Seen]) -> Vec<Shape> {
    seen.iter()
        .filter_map(|seen| match seen {
            Seen::Element(_, name, _, content) => {
                Some(Shape::Element(name.to_ascii_lowercase(), seen_shape(content)))
            }
            _ => None,
        })
        .collect()
}

/// Whether a parser rebuilds exactly the elements of a plan.
pub(crate) fn same_elements(plan: &Plan, markup: &str) -> bool {
    let want: Vec<Shape> =
        shape(&plan.root()).into_iter().filter(|shape| *shape != Shape::Text).collect();
    seen_shape(&browser::parse(markup)) == want
}

/// What came of a run.
#[derive(Debug, Default)]
struct Tally {
    live_without_defences: usize,
    shown: usize,
    refused: BTreeMap<String, usize>,
}

fn run(count: u64, seed: u64) -> Tally {
    let mut tally = Tally::default();
    for number in 0..count {
        let mut dice = Dice::new(seed.wrapping_add(number));
        let (root, state) = plan(&mut dice);
        let control = undefended(&root, &state);
        if !browser::live(&browser::parse(&control), ALLOWED).is_empty() {
            tally.live_without_defences += 1;
        }
        let text = json!({"specVersion": "runtime-plan/v1", "id": "h", "version": 1,
            "state": {"initial": state}, "root": root});
        let plan = match parse(&text.to_string(), &Limits::default()) {
            Ok(plan) => plan,
            Err(error) => {
                *tally.refused.entry(error.code().to_owned()).or_default() += 1;
                continue;
            }
        };
        let name = ProfileName::ALL[dice.below(4)];
        // Links to any host are what the least careful profile is for.
        let profile = Profile { allow_arbitrary_network: false, ..Profile::named(name) };
        match render(&plan, &profile, &Context::new("s").unwrap()) {
            Ok(html) => {
                let found = browser::live(&browser::parse(&html.markup), ALLOWED);
                assert!(found.is_empty(), "seed {number}: {found:?} in {}", html.markup);
                assert!(same_elements(&plan, &html.markup), "seed {number}: {}", html.markup);
                tally.shown += 1;
            }
            Err(error) => *tally.refused.entry(error.code().to_owned()).or_default() += 1,
        }
    }
    tally
}

fn judge(count: u64, tally: &Tally) {
    let count = usize::try_from(count).unwrap();
    assert!(tally.live_without_defences * 2 > count, "the control is too harmless: {tally:?}");
    assert!(tally.shown * 8 > count, "too few are shown to say anything: {tally:?}");
}

#[test]
fn three_thousand_hostile_plans_do_nothing() {
    let tally = run(3_000, 1);
    judge(3_000, &tally);
}

#[test]
#[ignore = "minutes: `cargo xtask soak` runs it"]
fn two_hundred_thousand_hostile_plans_do_nothing() {
    if std::env::var_os("GLASSHOUSE_SOAK").is_none() {
        return;
    }
    let tally = run(200_000, 1_000_000);
    judge(200_000, &tally);
}
