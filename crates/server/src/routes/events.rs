//! Events of a branch: a page of them, or all of them and those to come.

use glasshouse_log::BranchRow;
use glasshouse_model::Seq;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::ask::{Ask, invalid};
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result, codes};

/// Events of a page unless the client says.
const PAGE: usize = 200;
/// Most events of a page.
const MAX_PAGE: usize = 1_000;
/// Header in which a client says what it has.
const LAST_EVENT_ID: &str = "last-event-id";

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "EventsQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    /// Id or name; the main branch unless it is given.
    branch: Option<String>,
    /// First sequence.
    from: Option<Seq>,
    /// Most events of the page.
    #[schemars(range(min = 1, max = MAX_PAGE))]
    limit: Option<usize>,
}

/// A page of events, each with its body as the bytes that were stored.
pub(crate) fn list(service: &Service, ask: &Ask) -> Result<Reply> {
    let List { branch, from, limit } = ask.query()?;
    let branch = service.kernel.branch(&ask.session()?, branch.as_deref())?;
    let (from, limit) = (from.unwrap_or(1), limit.unwrap_or(PAGE));
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(invalid("the limit cannot be used").why(format!("it is 1 to {MAX_PAGE}")));
    }
    let lines = service.kernel.log().lines(&branch.branch, from, limit)?;
    let last = lines.last().map(|(seq, _)| *seq);
    let next = match last {
        Some(last) if last < branch.head.seq => (last + 1).to_string(),
        _ => "null".to_owned(),
    };
    let events: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
    let (session, id, head) = (&branch.session, &branch.branch, branch.head.seq);
    let body = format!(
        "{{\"session\":\"{session}\",\"branch\":\"{id}\",\"head\":{head},\"next\":{next},\"events\":[{}]}}",
        events.join(",")
    );
    let tag = format!("{}-{from}-{limit}", branch.head.hash.hex());
    let reply = Reply::of_bytes(StatusCode::OK, "application/json", body.into_bytes());
    Ok(reply.tagged(&tag, ask.if_none_match()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "StreamQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Follow {
    branch: Option<String>,
    /// First sequence; what `Last-Event-ID` says counts more.
    from: Option<Seq>,
}

/// Follows a branch.
pub(crate) fn stream(service: &Service, ask: &Ask) -> Result<Reply> {
    let Follow { branch, from } = ask.query()?;
    let branch = service.kernel.branch(&ask.session()?, branch.as_deref())?;
    let from = match ask.headers.contains_key(LAST_EVENT_ID) {
        true => last_event(ask, &branch)? + 1,
        false => from.unwrap_or(1).max(1),
    };
    Ok(Reply::events(branch.branch, from))
}

/// The event that the client has, of those that are there.
fn last_event(ask: &Ask, branch: &BranchRow) -> Result<Seq> {
    let last = ask.header(LAST_EVENT_ID).and_then(|text| text.trim().parse::<Seq>().ok());
    let last = last.ok_or_else(|| {
        invalid("Last-Event-ID cannot be used").why("it is the sequence of an event")
    })?;
    if last > branch.head.seq {
        let what = format!("branch {} has no event {last}", branch.branch);
        return Err(Error::new(codes::CURSOR_AHEAD, what).with("head", branch.head.seq));
    }
    Ok(last)
}
