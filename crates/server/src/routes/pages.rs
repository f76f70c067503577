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

/// The documents of the browser's lanes, with the headers that make them lanes.
const LANES: &str = include_str!("../../../../web/lanes/headers.json");
/// Every header that those name.
const LANE_HEADERS: [(&str, &str); 5] = [
    ("Content-Security-Policy", "content-security-policy"),
    ("Connection-Allowlist", "connection-allowlist"),
    ("X-Content-Type-Options", "x-content-type-options"),
    ("Referrer-Policy", "referrer-policy"),
    ("Cache-Control", "cache-control"),
];

/// A document of a lane. Without the headers that `headers.json` names for it, it would be none.
fn lane(name: &str, text: &str) -> Result<Reply> {
    let headers: serde_json::Value = serde_json::from_str(LANES).unwrap_or_default();
    let mut reply =
        Reply::of_bytes(StatusCode::OK, "text/html; charset=utf-8", text.as_bytes().to_vec());
    for (named, sent) in LANE_HEADERS {
        if let Some(value) = headers[name][named].as_str() {
            reply = reply.header(sent, value);
        }
    }
    Ok(reply)
}

/// What a page runs code of plans with, in a lane.
pub(crate) fn lanes(_: &Service, _: &Ask) -> Result<Reply> {
    page("text/javascript; charset=utf-8", include_str!("../../../../web/lanes/host.js"))
}

/// The lane `sandbox-worker`.
pub(crate) fn worker_lane(_: &Service, _: &Ask) -> Result<Reply> {
    lane("worker.html", include_str!("../../../../web/lanes/worker.html"))
}

/// The lane `sandbox-iframe`.
pub(crate) fn frame_lane(_: &Service, _: &Ask) -> Result<Reply> {
    lane("frame.html", include_str!("../../../../web/lanes/frame.html"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    /// A header that is left out is a way out.
    #[test]
    fn lanes_are_served_with_every_header_that_makes_them_lanes() {
        let named: serde_json::Value = serde_json::from_str(LANES).unwrap();
        for (name, text) in [
            ("worker.html", include_str!("../../../../web/lanes/worker.html")),
            ("frame.html", include_str!("../../../../web/lanes/frame.html")),
        ] {
            let response = lane(name, text).unwrap().into_response(|_| Body::empty());
            let wanted = named[name].as_object().unwrap();
            assert!(wanted.contains_key("Content-Security-Policy"), "{name}");
            for (header, value) in wanted {
                let sent = response.headers().get(header.to_ascii_lowercase());
                assert_eq!(sent.and_then(|it| it.to_str().ok()), value.as_str(), "{name} {header}");
            }
        }
        // A page of ours may hold them: it is no laxer than the host that they were attacked in.
        let page = page("text/html", "").unwrap().into_response(|_| Body::empty());
        let policy = page.headers().get("content-security-policy").unwrap().to_str().unwrap();
        for part in named["host"]["Content-Security-Policy"].as_str().unwrap().split("; ") {
            assert!(policy.contains(part), "{part}");
        }
    }
}
