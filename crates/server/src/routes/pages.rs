//! Pages that the program carries with it. They need no token to be loaded and show nothing without one; nothing
//! in them asks any other host for anything.

use std::collections::HashMap;
use std::sync::LazyLock;

use hyper::{HeaderMap, StatusCode};

use crate::ask::Ask;
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result, codes};

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

/// Headers of documents by their names.
type Lanes = HashMap<String, HeaderMap>;

/// The documents of the browser's lanes, with the headers that make them lanes.
const LANES: &str = include_str!("../../../../web/lanes/headers.json");
/// Without one of these a document is no lane.
const MAKE_A_LANE: [&str; 2] = ["content-security-policy", "connection-allowlist"];

fn lanes_of(text: &str) -> std::result::Result<Lanes, String> {
    let named: HashMap<String, HashMap<String, String>> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let read = |(document, headers): (String, HashMap<String, String>)| {
        let headers = HeaderMap::try_from(&headers).map_err(|error| error.to_string())?;
        Ok((document, headers))
    };
    named.into_iter().map(read).collect()
}

/// A document of a lane with every header that `headers.json` names for it, or no document.
fn lane(name: &str, text: &str) -> Result<Reply> {
    static READ: LazyLock<std::result::Result<Lanes, String>> = LazyLock::new(|| lanes_of(LANES));
    lane_of(READ.as_ref(), name, text)
}

fn lane_of(lanes: std::result::Result<&Lanes, &String>, name: &str, text: &str) -> Result<Reply> {
    let refused = || Error::new(codes::SERVER_FAILED, format!("{name} is not served"));
    let lanes = lanes.map_err(|why| refused().why(why))?;
    let headers = lanes.get(name).ok_or_else(|| refused().why("it has no headers"))?;
    if let Some(missing) = MAKE_A_LANE.iter().find(|header| !headers.contains_key(**header)) {
        return Err(refused().why(format!("it has no header {missing}")));
    }
    let reply = Reply::of_bytes(StatusCode::OK, "text/html; charset=utf-8", text.into());
    Ok(reply.headers(headers))
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
    use std::collections::BTreeMap;

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
    }

    /// The failure: a document was served without the header that its list no longer had.
    #[test]
    fn what_lacks_a_header_that_makes_it_a_lane_is_not_served() {
        let check = |headers: &str, expected: Option<&str>| {
            let lanes = lanes_of(headers);
            let served = lane_of(lanes.as_ref(), "a.html", "").map(drop);
            let error = served.map_err(|error| {
                assert!(error.is(codes::SERVER_FAILED), "{headers}: {error}");
                error.to_string()
            });
            match expected {
                None => assert_eq!(error, Ok(()), "{headers}"),
                Some(why) => assert!(error.unwrap_err().contains(why), "{headers}"),
            }
        };
        let lane = |more: &str| {
            format!("{{\"a.html\":{{\"Content-Security-Policy\":\"default-src 'none'\"{more}}}}}")
        };
        check(&lane(",\"Connection-Allowlist\":\"()\""), None);
        check(&lane(""), Some("connection-allowlist"));
        check("{\"a.html\":{\"Connection-Allowlist\":\"()\"}}", Some("content-security-policy"));
        check("{\"b.html\":{}}", Some("no headers"));
        check("{}", Some("no headers"));
        check("", Some("EOF"));
        // What cannot stand in a header is not left out.
        check(&lane(",\"Connection-Allowlist\":\"a\\nb\""), Some("header value"));
        check(&lane(",\"Connection Allowlist\":\"()\""), Some("header name"));
        check(&lane(",\"Connection-Allowlist\":1"), Some("invalid type"));
    }

    /// What a policy allows and the one of a host does not: a source of a directive, or a directive left out.
    fn laxer(policy: &str, host: &str) -> Vec<String> {
        let directives = |policy: &str| -> BTreeMap<String, Vec<String>> {
            let words = policy.split(';').map(|one| one.split_whitespace().map(str::to_owned));
            words.filter_map(|mut words| Some((words.next()?, words.collect()))).collect()
        };
        let (policy, host) = (directives(policy), directives(host));
        let left_out = host.keys().filter(|name| !policy.contains_key(*name));
        let mut found: Vec<String> = left_out.map(|name| format!("no {name}")).collect();
        for (name, sources) in &policy {
            let allowed = host.get(name).or_else(|| host.get("default-src"));
            let is_new = |source: &&String| {
                *source != "'none'" && !allowed.is_some_and(|allowed| allowed.contains(source))
            };
            found.extend(sources.iter().filter(is_new).map(|source| format!("{name} {source}")));
        }
        found
    }

    /// A page of ours may hold lanes: it is no laxer than the host that they were attacked in.
    #[test]
    fn a_page_is_no_laxer_than_the_host_of_the_lanes() {
        let lanes = lanes_of(LANES).unwrap();
        let host = lanes["host"]["content-security-policy"].to_str().unwrap();
        let check = |policy: &str, expected: &[&str]| {
            assert_eq!(laxer(policy, host), expected, "{policy}");
        };
        let page = page("text/html", "").unwrap().into_response(|_| Body::empty());
        let policy = page.headers().get("content-security-policy").unwrap().to_str().unwrap();
        // The one exception: images of a plan are those that it carries.
        check(policy, &["img-src data:"]);
        check(host, &[]);
        // The control: each of these is a way out.
        let with = |directive: &str, other: &str| {
            let changed = host.replace(directive, other);
            assert_ne!(changed, host, "{directive}");
            changed
        };
        check(
            &with("script-src 'self'", "script-src 'self' 'unsafe-eval'"),
            &["script-src 'unsafe-eval'"],
        );
        check(&with("connect-src 'self'", "connect-src *"), &["connect-src *"]);
        check(&with("default-src 'none'", "default-src 'self'"), &["default-src 'self'"]);
        check(&with("; form-action 'none'", ""), &["no form-action"]);
        check(&with("; frame-src", "; frame-src https:"), &["frame-src https:"]);
    }
}
