//! What a handler gives back: a whole body, or a branch to be followed.

use axum::body::{Body, Bytes};
use axum::response::Response;
use glasshouse_model::{BranchId, Seq};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use crate::chat::Follow;
use crate::problem::Problem;

/// Media type of JSON.
const JSON: &str = "application/json";

/// A handler's answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) content: Content,
    /// What the operator is told of, where it is a fault of ours.
    fault: Option<Box<Problem>>,
}

/// A fault of ours, at an answer on its way out.
#[derive(Debug, Clone)]
pub(crate) struct Fault(pub(crate) Box<Problem>);

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    /// All of it.
    Whole(Bytes),
    /// The events of a branch from a sequence on, for as long as the client listens.
    Events {
        /// Branch.
        branch: BranchId,
        /// Sequence of the first event.
        from: Seq,
    },
    /// Lines as they come.
    Lines(tokio::sync::mpsc::Receiver<Bytes>),
    /// A message of a chat, until it is over or asks a person.
    Chat(Box<Follow>),
}

impl Reply {
    /// A whole body of some type.
    pub(crate) fn of_bytes(status: StatusCode, media_type: &str, body: Vec<u8>) -> Self {
        let content = Content::Whole(Bytes::from(body));
        Self { status, headers: HeaderMap::new(), content, fault: None }
            .header("content-type", media_type)
    }

    /// A value as JSON.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        Self::of_bytes(status, JSON, json_bytes(value))
    }

    /// A value as JSON, and all went well.
    pub(crate) fn ok(value: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, value)
    }

    /// A stream of events.
    pub(crate) fn events(branch: BranchId, from: Seq) -> Self {
        let content = Content::Events { branch, from };
        Self { status: StatusCode::OK, headers: HeaderMap::new(), content, fault: None }
    }

    /// Lines of JSON as they come.
    pub(crate) fn lines(lines: tokio::sync::mpsc::Receiver<Bytes>) -> Self {
        let content = Content::Lines(lines);
        let reply =
            Self { status: StatusCode::OK, headers: HeaderMap::new(), content, fault: None };
        reply.header("content-type", "application/x-ndjson").header("x-accel-buffering", "no")
    }

    /// A message of a chat as a stream.
    pub(crate) fn chat(follow: Follow) -> Self {
        let content = Content::Chat(Box::new(follow));
        Self { status: StatusCode::OK, headers: HeaderMap::new(), content, fault: None }
    }

    /// Nothing.
    pub(crate) fn empty(status: StatusCode) -> Self {
        let content = Content::Whole(Bytes::new());
        Self { status, headers: HeaderMap::new(), content, fault: None }
    }

    /// With what the operator is told of it.
    #[must_use]
    pub(crate) fn told(mut self, problem: Problem) -> Self {
        self.fault = Some(Box::new(problem));
        self
    }

    /// Adds a header. What cannot stand in one is left out.
    #[must_use]
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Adds headers that were read before.
    #[must_use]
    pub(crate) fn headers(mut self, headers: &HeaderMap) -> Self {
        self.headers.extend(headers.clone());
        self
    }

    /// Says whether the same request had been made before.
    #[must_use]
    pub(crate) fn replayed(self, was_before: bool) -> Self {
        if was_before { self.header("idempotency-replayed", "true") } else { self }
    }

    /// The answer with a strong entity tag, or "not modified" where the client has just that.
    #[must_use]
    pub(crate) fn tagged(self, tag: &str, if_none_match: Option<&str>) -> Self {
        let tag = format!("\"{tag}\"");
        let known = if_none_match
            .is_some_and(|list| list.split(',').any(|one| one.trim() == tag || one.trim() == "*"));
        let reply = if known { Self::empty(StatusCode::NOT_MODIFIED) } else { self };
        reply.header("etag", &tag)
    }

    /// The answer as HTTP.
    pub(crate) fn into_response(self, body: impl FnOnce(Content) -> Body) -> Response {
        let body = match self.content {
            Content::Whole(bytes) => Body::from(bytes),
            stream => body(stream),
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if let Some(problem) = self.fault {
            response.extensions_mut().insert(Fault(problem));
        }
        let headers = response.headers_mut();
        if !headers.contains_key("cache-control") {
            headers.insert("cache-control", HeaderValue::from_static("no-store"));
        }
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        response
    }

    #[cfg(test)]
    pub(crate) fn header_value(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body, where it is whole.
    pub(crate) fn whole(&self) -> &[u8] {
        match &self.content {
            Content::Whole(bytes) => bytes,
            Content::Events { .. } | Content::Lines(_) | Content::Chat(_) => &[],
        }
    }
}

/// A value as JSON. What cannot be written is a value of ours that should not exist.
pub(crate) fn json_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Whether a header says that the body is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case(JSON))
}
