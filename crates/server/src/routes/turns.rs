//! Turns: start, steer, cancel.

use glasshouse_model::{BranchId, Seq, SessionId};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::{Ask, invalid};
use crate::desk::{Task, not_running};
use crate::quota::check_room;
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result, codes};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewTurn")]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// What a person says; without it the last turn is carried on.
    message: Option<String>,
    /// Id or name; the main branch unless it is given.
    branch: Option<String>,
}

/// Where a turn is.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Turn")]
pub(crate) struct Place {
    pub(crate) session: SessionId,
    pub(crate) branch: BranchId,
    /// Sequence of its first event.
    pub(crate) turn: Seq,
}

/// Starts a turn. Its first event is stored when the answer leaves; the rest is in the stream.
pub(crate) fn start(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let Start { message, branch } = ask.json_or_default()?;
    message.as_deref().map_or(Ok(()), check_message)?;
    let branch = service.kernel.branch(&session, branch.as_deref())?;
    let request = ask.named()?;
    // What the same request did before moved the branch.
    if service.desk.started_before(&branch.branch, request.as_ref())?.is_none() {
        ask.check_match(&branch.head.hash.to_string())?;
    }
    let id = branch.branch.clone();
    let by = ask.principal()?.clone();
    let task = Task { branch, message, request, by };
    let room = |ahead| {
        // Again: the branch has a place now, and no other turn of this server moves it.
        ask.check_match(&service.kernel.log().head(&id)?.hash.to_string())?;
        check_room(service, ask, ahead)
    };
    let (turn, was_before) = service.desk.start(task, room)?.into_parts();
    let stream = format!("/v1/sessions/{session}/events/stream?branch={id}&from={turn}");
    let body = Place { session, branch: id, turn };
    let reply = Reply::json(StatusCode::ACCEPTED, &body).header("location", &stream);
    Ok(reply.replayed(was_before))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SteerTurn")]
#[serde(deny_unknown_fields)]
pub(crate) struct Steer {
    /// What a person says.
    message: String,
    branch: Option<String>,
}

/// Says something to a turn that runs. It is stored when the answer leaves, and told to the model with its
/// next step.
pub(crate) fn steer(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let turn = turn(ask)?;
    let Steer { message, branch } = ask.json()?;
    check_message(&message)?;
    let branch = service.kernel.branch(&session, branch.as_deref())?;
    service.desk.steer(&branch.branch, turn, &message, ask.principal()?)?;
    let body = Place { session, branch: branch.branch, turn };
    Ok(Reply::json(StatusCode::ACCEPTED, &body))
}

fn turn(ask: &Ask) -> Result<Seq> {
    ask.part("turn", |text| {
        Error::new(codes::TURN_NOT_RUNNING, format!("turn {text} does not run here"))
    })
}

fn check_message(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(invalid("the message cannot be used").why("it says nothing"));
    }
    Ok(())
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "CancelTurn")]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    branch: Option<String>,
}

/// Stops a turn; what it wrote so far is kept.
pub(crate) fn cancel(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let turn = turn(ask)?;
    let Cancel { branch } = ask.json_or_default()?;
    let branch = service.kernel.branch(&session, branch.as_deref())?;
    service
        .desk
        .cancel(&branch.branch, Some(turn), ask.principal()?)
        .ok_or_else(|| not_running(turn))?;
    let body = Place { session, branch: branch.branch, turn };
    Ok(Reply::json(StatusCode::ACCEPTED, &body))
}
