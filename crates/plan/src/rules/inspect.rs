//! Attributes that hold addresses, taken apart as widely as browsers read them.
//!
//! This is the wide net: it knows every attribute of HTML and SVG that a browser may take an address
//! from, whether or not the table shows it, and says which addresses there are. What is then shown is
//! decided by the narrower rules of [`url`](super::url).

use super::Refusal;
use crate::codes;
use crate::host::{self, Remote};
use crate::profile::Profile;

/// One address.
const SINGLE: &[&str] = &[
    "action",
    "background",
    "cite",
    "codebase",
    "data",
    "dynsrc",
    "formaction",
    "href",
    "longdesc",
    "lowsrc",
    "manifest",
    "poster",
    "profile",
    "src",
    "usemap",
    "xlink:href",
    "xlinkhref",
    "xml:base",
    "xmlbase",
];
/// Addresses with spaces between them.
const LIST: &[&str] = &["archive", "attributionsrc", "ping"];
/// Addresses with a size each, and commas between them.
const SOURCE_SET: &[&str] = &["imagesrcset", "srcset"];
/// Text in which `url(…)` names an address.
const PAINT: &[&str] = &[
    "clip-path",
    "clippath",
    "cursor",
    "fill",
    "filter",
    "marker",
    "marker-end",
    "marker-mid",
    "marker-start",
    "markerend",
    "markermid",
    "markerstart",
    "mask",
    "shape-inside",
    "shape-outside",
    "stroke",
];
/// Attributes that a person follows, so that a mail or telephone address is right there.
const FOLLOWED: &[&str] = &["href", "xlink:href", "xlinkhref"];

/// The addresses in the value of an attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Origins of absolute addresses, such as `https://example.org`.
    pub remote: Vec<String>,
    /// Addresses without a scheme.
    pub relative: Vec<String>,
    /// `mailto:` and `tel:` addresses.
    pub contact: Vec<String>,
    remotes: Vec<Remote>,
}

/// Whether a browser takes addresses from an attribute of this name, on any element.
#[must_use]
pub fn is_url_attribute(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [SINGLE, LIST, SOURCE_SET, PAINT].iter().any(|names| names.contains(&name.as_str()))
}

/// Takes the value of an address attribute apart; `None` when the name is no such attribute, or when
/// one of the addresses has a scheme, a spelling or a place that no plan may use.
///
/// ```
/// use glasshouse_plan::inspect_url_attribute;
/// assert_eq!(inspect_url_attribute("href", "/a").expect("plain").relative, ["/a"]);
/// assert!(inspect_url_attribute("href", "java\nscript:alert(1)").is_none());
/// assert!(inspect_url_attribute("srcset", "a.png 1x, ").is_none());
/// ```
#[must_use]
pub fn inspect_url_attribute(name: &str, value: &str) -> Option<Addresses> {
    let name = name.to_ascii_lowercase();
    let mut found = Addresses::default();
    for reference in references(&name, value)? {
        add(&mut found, &reference, FOLLOWED.contains(&name.as_str()))?;
    }
    Some(found)
}

/// What the profile has against the addresses of an attribute.
pub(crate) fn faults(name: &str, value: &str, profile: &Profile) -> Vec<Refusal> {
    let Some(found) = inspect_url_attribute(name, value) else {
        return vec![Refusal::new(codes::URL_DENIED, "the attribute holds an unsafe address")];
    };
    if profile.allow_arbitrary_network {
        return Vec::new();
    }
    let denied = found.remotes.iter().filter(|remote| !profile.allows_remote(remote));
    denied
        .map(|remote| {
            let why = format!("the host {} is not allowed", remote.host);
            Refusal::new(codes::HOST_DENIED, why)
        })
        .collect()
}

fn references(name: &str, value: &str) -> Option<Vec<String>> {
    if SINGLE.contains(&name) {
        return Some(vec![value.to_owned()]);
    }
    if LIST.contains(&name) {
        let list: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        return (!list.is_empty()).then_some(list);
    }
    if SOURCE_SET.contains(&name) {
        let first = |candidate: &str| candidate.split_whitespace().next().map(str::to_owned);
        return value.split(',').map(first).collect();
    }
    if PAINT.contains(&name) { painted(&plain_css(value)) } else { None }
}

fn add(found: &mut Addresses, reference: &str, followed: bool) -> Option<()> {
    let dropped = |c: &char| *c > ' ' && !('\u{7f}'..='\u{9f}').contains(c);
    let text: String = reference.trim().chars().filter(dropped).collect();
    if text.is_empty() || text.contains('\\') {
        return None;
    }
    let remote = if let Some(rest) = text.strip_prefix("//") {
        host::authority(true, rest)?
    } else {
        let Some(scheme) = scheme(&text) else {
            found.relative.push(text);
            return Some(());
        };
        let rest = &text[scheme.len() + 1..];
        match scheme.to_ascii_lowercase().as_str() {
            "https" => host::authority(true, rest.trim_start_matches('/'))?,
            "http" => host::authority(false, rest.trim_start_matches('/'))?,
            "mailto" | "tel" if followed => {
                found.contact.push(text);
                return Some(());
            }
            _ => return None,
        }
    };
    found.remote.push(remote.origin());
    found.remotes.push(remote);
    Some(())
}

fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let letter = scheme.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (letter && scheme.bytes().all(plain)).then_some(scheme)
}

/// The addresses inside `url(…)`; `None` where one cannot be read, and for a set of images.
fn painted(text: &str) -> Option<Vec<String>> {
    let lower = text.to_ascii_lowercase();
    if text.is_empty() || holds_image_set(&lower) {
        return None;
    }
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = lower[from..].find("url") {
        from += at + 3;
        let Some(rest) = lower[from..].trim_start().strip_prefix('(') else { continue };
        let start = lower.len() - rest.len();
        let (address, end) = inside_brackets(&text[start..])?;
        found.push(address.to_owned());
        from = start + end;
    }
    Some(found)
}

fn holds_image_set(lower: &str) -> bool {
    lower.match_indices("image-set").any(|(at, word)| {
        let before = lower[..at].strip_suffix("-webkit-").unwrap_or(&lower[..at]);
        let apart = before
            .chars()
            .next_back()
            .is_none_or(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
        apart && lower[at + word.len()..].trim_start().starts_with('(')
    })
}

/// The address after an opening bracket, and where it ends.
fn inside_brackets(text: &str) -> Option<(&str, usize)> {
    let body = text.trim_start();
    let skipped = text.len() - body.len();
    let quoted = ['"', '\''].into_iter().find(|quote| body.starts_with(*quote));
    let (address, rest) = match quoted {
        Some(quote) => body[1..].split_once(quote)?,
        None => {
            let end = body.find(['"', '\'', '(', ')'])?;
            (&body[..end], &body[end..])
        }
    };
    let closed = rest.trim_start().strip_prefix(')')?;
    debug_assert!(skipped + body.len() == text.len());
    Some((address.trim(), text.len() - closed.len()))
}

/// A style text as a browser reads it: comments gone, escapes decoded.
fn plain_css(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '\\']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("/*") {
            let Some((_, after)) = comment.split_once("*/") else {
                out.push_str("/*");
                rest = comment;
                continue;
            };
            rest = after;
        } else if let Some(escaped) = rest.strip_prefix('\\') {
            rest = css_escape(escaped, &mut out);
        } else {
            out.push('/');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out.replace('\0', "")
}

fn css_escape<'t>(text: &'t str, out: &mut String) -> &'t str {
    let digits = text.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
    if digits > 0 {
        let code = u32::from_str_radix(&text[..digits], 16).unwrap_or(0);
        out.extend(char::from_u32(code));
        let rest = &text[digits..];
        return rest
            .strip_prefix("\r\n")
            .or_else(|| rest.strip_prefix([' ', '\t', '\r', '\n', '\u{c}']))
            .unwrap_or(rest);
    }
    if let Some(rest) = text.strip_prefix("\r\n").or_else(|| text.strip_prefix(['\r', '\n'])) {
        return rest;
    }
    let mut characters = text.chars();
    out.extend(characters.next());
    characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `remote relative contact`, or `-` for an unsafe value.
    fn check(name: &str, value: &str, want: &str) {
        let got = inspect_url_attribute(name, value).map_or("-".to_owned(), |found| {
            format!("{} {} {}", found.remote.len(), found.relative.len(), found.contact.len())
        });
        assert_eq!(got, want, "{name}={value:?}");
    }

    #[test]
    fn single_addresses() {
        check("href", "/a?b#c", "0 1 0");
        check("href", "#x", "0 1 0");
        check("HREF", "https://example.org/x", "1 0 0");
        check("href", "//cdn.example.org/x", "1 0 0");
        check("href", "mailto:a@b.c", "0 0 1");
        check("xlink:href", "tel:1", "0 0 1");
        check("src", "mailto:a@b.c", "-");
        check("href", "java\nscript:alert(1)", "-");
        check("href", "\u{1}javascript:x", "-");
        check("src", "data:image/png;base64,AAAA", "-");
        check("href", "\\\\evil", "-");
        check("href", "", "-");
        check("href", " \u{7f} ", "-");
        check("href", "https://", "-");
        check("href", "1a:x", "0 1 0");
        check("title", "x", "-");
    }

    #[test]
    fn lists_and_sets() {
        check("ping", "/a https://b.example", "1 1 0");
        check("ping", " ", "-");
        check("ping", "/a javascript:x", "-");
        check("srcset", "a.png 1x, https://b.example/b.png 2x", "1 1 0");
        check("srcset", "a.png 1x,", "-");
        check("srcset", "", "-");
    }

    #[test]
    fn paint() {
        check("fill", "red", "0 0 0");
        check("fill", "url(#a)", "0 1 0");
        check("fill", "url( 'https://b.example/x' )", "1 0 0");
        check("fill", "URL(\"#a\") url(#b)", "0 2 0");
        check("mask", "url(javascript:x)", "-");
        check("fill", "u\\72l(https://b.example)", "1 0 0");
        check("fill", "ur/**/l(#a)", "0 1 0");
        check("fill", "url(#a", "-");
        check("cursor", "image-set('a' 1x)", "-");
        check("cursor", "-webkit-image-set('a' 1x)", "-");
        check("cursor", "my-image-set(", "0 0 0");
        check("fill", "", "-");
        check("stroke", "/x", "0 0 0");
    }
}
