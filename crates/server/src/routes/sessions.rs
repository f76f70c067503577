//! Sessions: list, create, show.

use std::path::PathBuf;

use glasshouse_kernel::Config;
use glasshouse_kernel::driver::{Deletion, Overview, access_session};
use glasshouse_log::SessionRow;
use glasshouse_model::{Mode, SessionId};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::ask::{Ask, changed, no_session};
use crate::desk::New;
use crate::page::{self, MOST, Order, Wanted};
use crate::quota::check_room;
use crate::reply::Reply;
use crate::service::Service;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SessionsQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most items of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
    /// Whether also what people did outside agents' sessions is listed: answers, questions about merges, plans, policies.
    #[serde(default)]
    all: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Sessions")]
pub(crate) struct Page {
    sessions: Vec<Overview>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Sessions of agents, newest first.
pub(crate) fn list(service: &Service, ask: &Ask) -> Result<Reply> {
    let List { cursor, limit, all } = ask.query()?;
    let own = [glasshouse_log::own_session(), access_session()];
    let mut rows = service.kernel.log().sessions()?;
    rows.retain(|row| !own.contains(&row.session));
    let wanted = Wanted { cursor: cursor.as_deref(), limit };
    let place = |row: &SessionRow| (row.created_us, row.session.to_string());
    let belongs = |row: &SessionRow| Ok(all || service.kernel.is_agents(row)?);
    let page = page::page_of(rows, &wanted, Order::Falling, place, belongs)?;
    // Each is folded, so only those of the page are.
    let sessions = page.items.iter().map(|row| service.kernel.overview(row));
    Ok(Reply::ok(&Page { sessions: sessions.collect::<Result<_, _>>()?, next: page.next }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewSession")]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    project: PathBuf,
    mode: Option<Mode>,
    provider: Option<String>,
    model: Option<String>,
    base_url: Option<String>,
    /// Scenario of the scripted provider.
    scenario: Option<String>,
}

/// Starts a session; it is stored when the answer leaves.
pub(crate) fn create(service: &Service, ask: &Ask) -> Result<Reply> {
    let Create { project, mode, provider, model, base_url, scenario } = ask.json()?;
    let project = ask.project(project)?;
    if base_url.is_some() {
        ask.check_host("base_url")?;
    }
    let config = Config { mode, provider, model, base_url, ..Config::default() };
    let scenario = scenario.map(String::into_bytes);
    let new = New { config, scenario, request: ask.named()?, by: ask.principal()?.clone() };
    let done = service.desk.create(&project, new, |ahead| check_room(service, ask, ahead))?;
    let (session, was_before) = done.into_parts();
    let place = format!("/v1/sessions/{session}");
    let view = overview(service, &session)?;
    let reply = Reply::json(StatusCode::CREATED, &view).header("location", &place);
    Ok(reply.replayed(was_before))
}

/// One session.
pub(crate) fn show(service: &Service, ask: &Ask) -> Result<Reply> {
    let view = overview(service, &ask.session()?)?;
    Ok(Reply::ok(&view).tagged(&tag_of(&view), ask.if_none_match()))
}

/// The entity tag of a session as it is. No hash comes twice; what runs is no event, so it is part of the tag.
fn tag_of(view: &Overview) -> String {
    format!("{}-{}", view.head.hex(), view.state)
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionClosed")]
pub(crate) struct Closed {
    session: SessionId,
    /// True.
    closed: bool,
    /// Whether it was open until now.
    changed: bool,
}

/// Ends a session for good; what it said can still be read.
pub(crate) fn close(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    service.desk.check_idle(&session)?;
    let changed = service.kernel.close_session(&session, ask.principal()?)?;
    Ok(Reply::ok(&Closed { session, closed: true, changed }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "DeletionQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Delete {
    /// Whether the blobs that only this session names stay.
    #[serde(default)]
    keep_blobs: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionDeleted")]
pub(crate) struct Deleted {
    session: SessionId,
    /// True.
    deleted: bool,
    /// Bodies that were erased.
    events: u64,
    /// Events that stay whole, because they are what gave somebody a right, or say what was erased.
    kept: u64,
    /// Blobs that were erased.
    blobs: u64,
}

/// Erases what a session said. Headers and hashes stay, and so does every proof.
pub(crate) fn delete(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let Delete { keep_blobs } = ask.query()?;
    service.desk.check_idle(&session)?;
    let mut deletion = Deletion { keep_blobs, head: None };
    // What nobody asks about may be damaged.
    if ask.is_conditional() {
        let view = overview(service, &session)?;
        ask.check_match(&tag_of(&view))?;
        deletion.head = Some(view.head);
    }
    let forgotten = service.kernel.delete_session(&session, ask.principal()?, &deletion);
    let forgotten = forgotten.map_err(|error| match deletion.head {
        // Another process went on with it meanwhile.
        Some(_) if error.is(glasshouse_log::codes::HEAD_CONFLICT) => changed(),
        _ => error.into(),
    })?;
    Ok(Reply::ok(&Deleted {
        session,
        deleted: true,
        events: forgotten.events,
        kept: forgotten.kept,
        blobs: forgotten.blobs,
    }))
}

fn overview(service: &Service, session: &SessionId) -> Result<Overview> {
    let rows = service.kernel.log().sessions()?;
    let row = rows.iter().find(|row| row.session == *session);
    let row = row.ok_or_else(|| no_session(session.as_str()))?;
    Ok(service.kernel.overview(row)?)
}
