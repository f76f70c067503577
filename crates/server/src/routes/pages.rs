//! Pages that the program carries with it. They need no token to be loaded and show nothing without one; nothing
//! in them asks any other host for anything.

use hyper::StatusCode;

use crate::Result;
use crate::ask::Ask;
use crate::reply::Reply;
use crate::service::Service;

/// Scripts are our own files and nothing else. Styles may stand in the page because a shown plan, in its frame without
/// scripts, has some; images of a plan are those that it carries.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    connect-src 'self'; img-src data:; frame-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

fn page(media_type: &str, text: &str) -> Result<Reply> {
    let reply = Reply::of_bytes(StatusCode::OK, media_type, text.as_bytes().to_vec());
    Ok(reply
        .header("content-security-policy", POLICY)
        .header("referrer-policy", "no-referrer")
        .header("cross-origin-opener-policy", "same-origin")
        .header("cross-origin-resource-policy", "same-origin")
        .header("cache-control", "no-cache"))
}

/// The playground of plans.
pub(crate) fn playground(_: &Service, _: &Ask) -> Result<Reply> {
    page("text/html; charset=utf-8", include_str!("../../pages/playground.html"))
}

/// Its script.
pub(crate) fn script(_: &Service, _: &Ask) -> Result<Reply> {
    page("text/javascript; charset=utf-8", include_str!("../../pages/playground.js"))
}

/// Its style, and that of the reference.
pub(crate) fn style(_: &Service, _: &Ask) -> Result<Reply> {
    page("text/css; charset=utf-8", include_str!("../../pages/playground.css"))
}

/// The routes.
pub(crate) fn docs(_: &Service, _: &Ask) -> Result<Reply> {
    page("text/html; charset=utf-8", include_str!("../../pages/docs.html"))
}

/// Its script.
pub(crate) fn docs_script(_: &Service, _: &Ask) -> Result<Reply> {
    page("text/javascript; charset=utf-8", include_str!("../../pages/docs.js"))
}
