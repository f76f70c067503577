//! Markup of two implementations, compared tag by tag: each difference needs a reason by name.

use std::collections::BTreeMap;

use super::operations::SURFACE;

/// A start tag, an end tag or a text.
#[derive(Debug, PartialEq)]
enum Piece {
    Start(String, Vec<(String, Written)>),
    End(String),
    Text(String),
}

/// How an attribute's value is written.
#[derive(Debug, Clone, PartialEq)]
enum Written {
    Bare,
    Quoted(String),
    /// Between apostrophes: a value that is no text.
    Json,
}

/// Reads what both implementations write; their own escaping makes the grammar small.
fn pieces(html: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut rest = html;
    while !rest.is_empty() {
        let Some(tag) = rest.strip_prefix('<') else {
            let end = rest.find('<').unwrap_or(rest.len());
            found.push(Piece::Text(rest[..end].to_owned()));
            rest = &rest[end..];
            continue;
        };
        if let Some(end) = tag.strip_prefix('/') {
            let (name, after) = end.split_once('>').unwrap_or((end, ""));
            found.push(Piece::End(name.to_owned()));
            rest = after;
            continue;
        }
        let name_end = tag.find([' ', '>']).unwrap_or(tag.len());
        let name = tag[..name_end].to_owned();
        let (attributes, after) = attributes(&tag[name_end..]);
        found.push(Piece::Start(name, attributes));
        rest = after;
    }
    found
}

fn attributes(text: &str) -> (Vec<(String, Written)>, &str) {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.strip_prefix(' ') {
        let end = next.find(['=', ' ', '>']).unwrap_or(next.len());
        let name = next[..end].to_owned();
        rest = &next[end..];
        let value = if let Some(quoted) = rest.strip_prefix("=\"") {
            let (value, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            rest = after;
            Written::Quoted(value.to_owned())
        } else if let Some(quoted) = rest.strip_prefix("='") {
            rest = quoted.split_once('\'').map_or("", |(_, after)| after);
            Written::Json
        } else {
            Written::Bare
        };
        found.push((name, value));
    }
    (found, rest.strip_prefix('>').unwrap_or(rest))
}

/// Elements without content.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// The names of the rules that explain every difference; `None` when one has no explanation.
pub(crate) fn explain(got: &str, want: &str) -> Option<Vec<&'static str>> {
    let mut rules = Vec::new();
    let mut wanted = pieces(want);
    let before = wanted.len();
    wanted.retain(|piece| !matches!(piece, Piece::End(name) if VOID.contains(&name.as_str())));
    if wanted.len() != before {
        rules.push("no-end-tag-for-elements-without-content");
    }
    let mut got = pieces(got);
    if want.contains(UNRESOLVED) {
        got = emptied(got, |_, attributes| attributes.iter().any(|(name, _)| name == PLACE));
        rules.push("a-component-keeps-its-place");
    }
    if want.contains(BLANKED_FORM) {
        got = emptied(got, |tag, _| tag == "form");
    }
    if got.len() != wanted.len() {
        return None;
    }
    for (got, want) in got.iter().zip(&wanted) {
        match (got, want) {
            (Piece::Start(tag, got), Piece::Start(other, want)) => {
                let same = tag == other || tag.eq_ignore_ascii_case(other);
                let form = tag == "form" && other == "div" && sanitised(want);
                if form {
                    rules.push("safe-forms");
                    continue;
                }
                if !same {
                    return None;
                }
                tag_rules(tag, got, want, &mut rules)?;
            }
            (Piece::End(tag), Piece::End(other)) => {
                if !tag.eq_ignore_ascii_case(other) && tag != "form" {
                    return None;
                }
            }
            (got, want) if got == want => {}
            (Piece::Text(got), Piece::Text(want)) if got.strip_prefix('\n') == Some(want) => {
                rules.push("the-first-line-break-is-kept");
            }
            _ => return None,
        }
    }
    Some(rules)
}

/// Mark of a component that a serialiser met, and ours of one whose place is kept.
const UNRESOLVED: &str = "data-glasshouse-unresolved-component";
const PLACE: &str = "data-glasshouse-missing-module";

/// What others write in the place of a form.
const BLANKED_FORM: &str = "<div data-glasshouse-sanitized-tag=\"form\"></div>";

/// The pieces with nothing inside the elements that are meant, and components by the other mark.
fn emptied(pieces: Vec<Piece>, meant: impl Fn(&str, &[(String, Written)]) -> bool) -> Vec<Piece> {
    let mut kept = Vec::new();
    let mut depth = 0_usize;
    for piece in pieces {
        match &piece {
            Piece::Start(tag, _) if depth > 0 && !VOID.contains(&tag.as_str()) => depth += 1,
            Piece::End(_) if depth > 1 => depth -= 1,
            Piece::End(_) if depth == 1 => {
                depth = 0;
                kept.push(piece);
            }
            _ if depth > 0 => {}
            Piece::Start(tag, attributes) => {
                depth = usize::from(meant(tag, attributes));
                let renamed = attributes.iter().map(|(name, value)| {
                    let name = if name == PLACE { UNRESOLVED } else { name };
                    (name.to_owned(), value.clone())
                });
                kept.push(Piece::Start(tag.clone(), renamed.collect()));
            }
            _ => kept.push(piece),
        }
    }
    kept
}

fn sanitised(attributes: &[(String, Written)]) -> bool {
    attributes.iter().any(|(name, _)| name == "data-glasshouse-sanitized-tag")
}

fn tag_rules(
    tag: &str,
    got: &[(String, Written)],
    want: &[(String, Written)],
    rules: &mut Vec<&'static str>,
) -> Option<()> {
    let mut left: BTreeMap<&str, &Written> =
        got.iter().map(|(name, value)| (name.as_str(), value)).collect();
    for (name, value) in want {
        let plan_name = format!("data-plan-{}", name.strip_prefix("data-").unwrap_or_default());
        if left.contains_key(plan_name.as_str()) {
            left.remove(plan_name.as_str());
            rules.push("own-data-attributes");
            continue;
        }
        let lower = name.to_ascii_lowercase();
        let spelled = if left.contains_key(name.as_str()) { name } else { &lower };
        match left.remove(spelled.as_str()) {
            Some(ours) => rules.extend(value_rule(name, ours, value)?),
            None => rules.push(absent_rule(tag, name, value)?),
        }
    }
    for (name, value) in left {
        rules.push(added_rule(name, value)?);
    }
    Some(())
}

/// Why an attribute has another value here.
fn value_rule(name: &str, ours: &Written, theirs: &Written) -> Option<Option<&'static str>> {
    if ours == theirs {
        return Some(None);
    }
    let (Written::Quoted(ours), Written::Quoted(theirs)) = (ours, theirs) else {
        return (*theirs == Written::Bare || *ours == Written::Bare)
            .then_some(Some("values-by-type"));
    };
    let prefix = format!("{SURFACE}-");
    let unprefixed = ours.replace(&prefix, "");
    if unprefixed == *theirs && ours.contains(&prefix) {
        return Some(Some("ids-belong-to-their-surface"));
    }
    match name {
        "rel" => Some(Some("no-opener-for-new-windows")),
        "style" => declarations_kept(ours, theirs).then_some(Some("style-by-table")),
        "href" | "src" | "cite" => (theirs.replace(' ', "%20") == *ours || theirs.trim() == *ours)
            .then_some(Some("addresses-in-one-reading")),
        _ => ours.eq_ignore_ascii_case(theirs).then_some(Some("values-by-type")),
    }
}

/// Whether every declaration of ours is one of theirs.
fn declarations_kept(ours: &str, theirs: &str) -> bool {
    let list = |style: &str| -> Vec<String> {
        let all = style.split(';').map(|one| one.replace(' ', "").to_ascii_lowercase());
        all.filter(|one| !one.is_empty()).collect()
    };
    let theirs = list(theirs);
    list(ours).iter().all(|one| theirs.contains(one))
}

/// Why an attribute of theirs is not written here.
fn absent_rule(tag: &str, name: &str, value: &Written) -> Option<&'static str> {
    if *value == Written::Json {
        return Some("values-by-type");
    }
    if name == "style" {
        return Some("style-by-table");
    }
    if glasshouse_plan::shown_attribute(tag, name).is_none() {
        return Some("attributes-by-table");
    }
    // A word that the table does not have, or a number that is none.
    let plain = !name.starts_with("data-glasshouse") && name != "href" && name != "src";
    plain.then_some("values-by-type")
}

/// Why an attribute is written here and not there.
fn added_rule(name: &str, value: &Written) -> Option<&'static str> {
    let Written::Quoted(text) = value else { return None };
    match (name, text.as_str()) {
        ("referrerpolicy", "no-referrer") => Some("images-tell-nobody"),
        ("role", "button") | ("tabindex", "0") => Some("an-action-is-a-button"),
        ("method", "dialog") => Some("safe-forms"),
        ("rel", text) if text.starts_with("noopener noreferrer") => {
            Some("no-opener-for-new-windows")
        }
        ("href", text) if text.contains("//") => Some("allowed-addresses-are-shown"),
        ("src", text) if text.contains("//") || text.starts_with("data:image/") => {
            Some("allowed-addresses-are-shown")
        }
        _ => None,
    }
}
