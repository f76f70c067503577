//! Whether the server answers, and whether it can take work.

use std::sync::PoisonError;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::ask::Ask;
use crate::metrics::Now;
use crate::reply::Reply;
use crate::service::Service;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
    service: &'static str,
}

/// The process answers. Says nothing that who has no token may not know.
pub(crate) fn health(_: &Service, _: &Ask) -> Result<Reply> {
    Ok(Reply::ok(&Health { status: "ok", service: "glasshouse" }))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Ready {
    /// `ready`.
    status: &'static str,
    running_turns: usize,
}

/// The log can be read, and turns are taken.
pub(crate) fn ready(service: &Service, _: &Ask) -> Result<Reply> {
    service.desk.check_open()?;
    service.kernel.log().signed_head()?;
    Ok(Reply::ok(&Ready { status: "ready", running_turns: service.desk.running() }))
}

/// Media type of Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the server counts.
pub(crate) fn metrics(service: &Service, ask: &Ask) -> Result<Reply> {
    let all = ask.shared.as_ref().map(|shared| shared.all()).unwrap_or_default();
    let now = Now {
        running_turns: all.iter().map(|one| one.desk.running()).sum(),
        waiting_requests: service.pool.waiting(),
        open_streams: all.iter().map(|one| one.streams.open()).sum(),
        events: service.kernel.log().signed_head()?.tree.size,
    };
    let counted = ask.shared.as_ref().map(|shared| {
        let counted = shared.parts.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.text()
    });
    let text = service.metrics.text(now) + &counted.unwrap_or_default();
    Ok(Reply::of_bytes(StatusCode::OK, METRICS, text.into_bytes()))
}

/// The description of the API, for programs.
pub(crate) fn openapi(_: &Service, ask: &Ask) -> Result<Reply> {
    let bytes = crate::openapi::text().as_bytes().to_vec();
    let tag = glasshouse_model::Digest::of(&bytes).hex();
    let reply = Reply::of_bytes(StatusCode::OK, "application/json", bytes);
    Ok(reply.tagged(&tag, ask.if_none_match()))
}
