//! A page: rendered HTML as one complete document that loads nothing but its listed images.

use crate::escape;
use crate::render::Html;

/// Readable defaults in light and dark, for screens and paper. The plan's own styles are attributes,
/// so they win without any rank.
const STYLE: &str = include_str!("page.css");

/// Makes a complete document. Its policy forbids scripts, frames, forms and connections; images may
/// come from the page itself as data and from the origins the markup names.
///
/// ```
/// # use glasshouse_plan::{Context, Profile, ProfileName, parse, render, render_page};
/// # let text = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,
/// #                "root":{"type":"text","value":"Done"}}"#;
/// # let plan = parse(text, &Default::default())?;
/// let html = render(&plan, &Profile::named(ProfileName::Strict), &Context::new("report")?)?;
/// let page = render_page("What happened", &html);
/// assert!(page.starts_with("<!doctype html>"));
/// assert!(page.contains("default-src 'none'"));
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[must_use]
pub fn render_page(title: &str, html: &Html) -> String {
    let mut out = String::with_capacity(html.markup.len() + STYLE.len() + 1024);
    out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"");
    out.push_str(&policy(html));
    out.push_str("\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    escape::push(&mut out, title);
    out.push_str("</title>\n<style>\n");
    out.push_str(STYLE);
    out.push_str("</style>\n</head>\n<body>\n<div class=\"plan\">\n");
    out.push_str(&html.markup);
    out.push_str("\n</div>\n</body>\n</html>\n");
    out
}

/// Made of fixed words and of origins, which hold letters, digits, dots, hyphens, colons and brackets.
fn policy(html: &Html) -> String {
    let mut images = String::from("img-src data:");
    for origin in &html.image_origins {
        images.push(' ');
        images.push_str(origin);
    }
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; {images}; base-uri 'none'; form-action 'none'"
    )
}
