//! Chats of the AI SDK: a session is a chat, a turn (with those that carried it on) a message of its assistant.
//!
//! Of the messages that a client sends only the last one counts: what was said before it is in the log.

use glasshouse_kernel::driver::ApprovalName;
use glasshouse_kernel::{Answer, codes};
use glasshouse_log::BranchRow;
use glasshouse_model::body::{MessageReceived, NamedRequest};
use glasshouse_model::{BranchId, CallId, Digest, Event, Kind, Seq, SessionId};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ask::{Ask, no_session};
use crate::chat::{self, Follow, Message, Phase, Protocol, Teller, unusable};
use crate::desk::Task;
use crate::page::{self, MOST};
use crate::quota::check_room;
use crate::reply::Reply;
use crate::rights::{ACT, ANSWER};
use crate::routes::turns::Place;
use crate::service::Service;
use crate::shapes::ChatMessage;
use crate::{Error, Result};

/// Header in which a client says which version it reads; 6 unless it does.
const VERSION: &str = "x-ai-sdk-version";
/// In front of a message's id as the name of its request.
const KEY_PREFIX: &str = "chat:";
/// Longest id of a message that names its request.
const MAX_MESSAGE_ID_BYTES: usize = 120;
/// Events of a page of messages, after which it ends with a message.
const MAX_PAGE_EVENTS: u64 = 20_000;
/// Most parts of a message that are looked at.
const MAX_PARTS: usize = 10_000;

/// What a client wants done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Trigger {
    /// A message was written, or questions were answered.
    #[default]
    SubmitMessage,
    /// The last turn is to be carried on.
    RegenerateMessage,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ChatRequest")]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Said {
    /// The chat: the id of a session.
    id: String,
    /// Messages; only the last one counts.
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    messages: Vec<Value>,
    #[serde(default)]
    trigger: Trigger,
    /// The message that is changed.
    message_id: Option<String>,
    /// Id or name; the main branch unless it is given.
    branch: Option<String>,
}

fn protocol(ask: &Ask) -> Result<Protocol> {
    match ask.header(VERSION) {
        None | Some("6") => Ok(Protocol::V6),
        Some("7") => Ok(Protocol::V7),
        Some(other) => Err(unusable(format!("{VERSION} is 6 or 7, not `{other}`"))),
    }
}

/// Says something in a chat and follows the answer.
pub(crate) fn say(service: &Service, ask: &Ask) -> Result<Reply> {
    let protocol = protocol(ask)?;
    let said: Said = ask.json()?;
    let session = said.id.parse().map_err(|_| no_session(&said.id))?;
    ask.check_session(&session)?;
    let row = service.kernel.branch(&session, said.branch.as_deref())?;
    let last = said.messages.last().unwrap_or(&Value::Null);
    match (said.trigger, last["role"].as_str()) {
        (Trigger::RegenerateMessage, _) => carry_on(service, ask, protocol, row),
        (Trigger::SubmitMessage, Some("user")) if said.message_id.is_some() => Err(unusable(
            "what was said stays said; fork the session before it and say something else there",
        )),
        (Trigger::SubmitMessage, Some("user")) => tell(service, ask, protocol, row, last),
        (Trigger::SubmitMessage, Some("assistant")) => respond(service, ask, protocol, row, last),
        _ => Err(unusable("the last message is neither a user's nor an answer to questions")),
    }
}

/// Starts a turn with a user's message. What is said and what is answered come on one route and need different
/// rights.
fn tell(
    service: &Service,
    ask: &Ask,
    protocol: Protocol,
    row: BranchRow,
    message: &Value,
) -> Result<Reply> {
    ask.check_rights(ACT)?;
    let text = text_of(message)?;
    let request = message["id"].as_str().filter(|id| is_key(id)).map(|id| NamedRequest {
        key: format!("{KEY_PREFIX}{id}"),
        digest: Digest::of_parts(&[KEY_PREFIX.as_bytes(), text.as_bytes()]),
    });
    let branch = row.branch.clone();
    let by = ask.principal()?.clone();
    let task = Task { branch: row, message: Some(text), request, by };
    let room = |ahead| check_room(service, ask, ahead);
    let (turn, _) = service.desk.start(task, room)?.into_parts();
    Ok(follow(service, protocol, branch, turn))
}

/// The message that begins with a turn, from its first chunk on.
fn follow(service: &Service, protocol: Protocol, branch: BranchId, turn: Seq) -> Reply {
    // Before anything is read, so that no word is between what is stored and what is heard.
    let said = service.desk.live().hear(&branch);
    let teller = Teller::new(protocol, branch.clone(), turn);
    let (first, answered) = (Vec::new(), Vec::new());
    Reply::chat(Follow { branch, teller, next: turn, first, said, answered })
}

fn is_key(id: &str) -> bool {
    (1..=MAX_MESSAGE_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The text of a user's message.
fn text_of(message: &Value) -> Result<String> {
    let parts = message["parts"].as_array().map_or(&[][..], Vec::as_slice);
    let mut texts = Vec::new();
    for part in parts.iter().take(MAX_PARTS) {
        match (part["type"].as_str(), part["text"].as_str()) {
            (Some("text"), Some(text)) => texts.push(text),
            (kind, _) => {
                let kind = kind.unwrap_or("part without a type");
                return Err(unusable(format!("a message is text; it has a {kind}")));
            }
        }
    }
    let text = texts.join("\n");
    if text.trim().is_empty() {
        return Err(unusable("the message says nothing"));
    }
    Ok(text)
}

/// Carries the last turn on.
fn carry_on(service: &Service, ask: &Ask, protocol: Protocol, row: BranchRow) -> Result<Reply> {
    ask.check_rights(ACT)?;
    let state = service.kernel.state_of(&row.branch)?;
    let is_done = state.turn.is_none()
        && state.outcome().is_none_or(|outcome| {
            use glasshouse_model::body::Outcome;
            !matches!(outcome, Outcome::Failed | Outcome::Cancelled)
        });
    if is_done {
        let why = "an answer that was given stays; fork the session before it and ask again there";
        return Err(unusable(why));
    }
    let branch = row.branch.clone();
    let by = ask.principal()?.clone();
    let task = Task { branch: row, message: None, request: None, by };
    let room = |ahead| check_room(service, ask, ahead);
    let (turn, _) = service.desk.start(task, room)?.into_parts();
    let first = chat::first_turn(&service.kernel, &branch, turn)?;
    Ok(follow(service, protocol, branch, first))
}

/// One answer of a person, as a client's message tells it.
struct Response<'a> {
    name: ApprovalName,
    call: CallId,
    input: &'a Value,
    is_approved: bool,
}

/// Answers the questions of a message, and follows what comes of it.
fn respond(
    service: &Service,
    ask: &Ask,
    protocol: Protocol,
    row: BranchRow,
    message: &Value,
) -> Result<Reply> {
    ask.check_rights(ANSWER)?;
    let branch = row.branch.clone();
    let first = message["id"].as_str().and_then(|id| {
        let (of, first) = id.split_once(':')?;
        (of == branch.as_str()).then(|| first.parse::<Seq>().ok()).flatten()
    });
    let first = first.ok_or_else(|| unusable("the last message is none of this chat's"))?;
    let responses = responses(message)?;
    let newest = responses.iter().map(|response| response.name.seq).max();
    let newest = newest.ok_or_else(|| unusable("the last message answers no question"))?;
    if chat::started(&service.kernel, &branch, first)?.is_none() {
        return Err(unusable("the last message is none of this chat's"));
    }
    let mut teller = Teller::new(protocol, branch.clone(), first);
    let mut rest = None;
    chat::fold(&service.kernel, &branch, &mut teller, |teller, seq, _| {
        if rest.is_none() && seq >= newest && teller.phase() == Phase::Asking {
            rest = Some((teller.clone(), seq + 1));
        }
        false
    })?;
    // All are looked at before the first one counts.
    let open = responses.iter().map(|response| is_open(&teller, &branch, response));
    let open: Vec<bool> = open.collect::<Result<_>>()?;
    let Some((told, next)) = rest else {
        return Err(Error::new(codes::APPROVAL_ANSWERED, "this is not asked any more")
            .why("the turn went on; read the chat again"));
    };
    let is_news = open.contains(&true);
    for (response, is_open) in responses.iter().zip(open) {
        let digest = teller.questions().get(&response.name.seq).map(|question| question.digest);
        if is_open {
            super::approvals::check_asked(service, &response.name)?;
            let answer = if response.is_approved { Answer::Approve } else { Answer::Reject };
            let by = ask.principal()?;
            service.kernel.answer_approval(&response.name, answer, digest.as_ref(), by)?;
        }
    }
    // Nobody runs the turn any more: it is carried on, by the answer or by somebody who may do so without one.
    if teller.phase() != Phase::Over && !service.kernel.log().is_owned(&branch)? {
        if !is_news {
            ask.check_rights(ACT)?;
        }
        let by = ask.principal()?.clone();
        let task = Task { branch: row, message: None, request: None, by };
        // An answer begins nothing that was not begun; without a new one somebody carries on what rests.
        let room = |ahead| if is_news { Ok(()) } else { check_room(service, ask, ahead) };
        service.desk.start(task, room)?;
    }
    let said = service.desk.live().hear(&branch);
    let first = vec![told.start()];
    let answered = responses.iter().map(|response| response.name.seq).collect();
    Ok(Reply::chat(Follow { branch, teller: told, next, first, said, answered }))
}

/// The answers that a message holds.
fn responses(message: &Value) -> Result<Vec<Response<'_>>> {
    let parts = message["parts"].as_array().map_or(&[][..], Vec::as_slice);
    let answered = |part: &&Value| part["state"] == "approval-responded";
    parts.iter().take(MAX_PARTS).filter(answered).map(response).collect()
}

fn response(part: &Value) -> Result<Response<'_>> {
    let approval = &part["approval"];
    let text = approval["id"].as_str().unwrap_or_default();
    let unknown = || {
        let what = format!("nothing asks for the approval {text}");
        Error::new(codes::APPROVAL_UNKNOWN, what)
    };
    let name = text.parse().map_err(|_| unknown())?;
    let call = part["toolCallId"].as_str().and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
    let is_approved = approval["approved"].as_bool();
    let is_approved = is_approved.ok_or_else(|| unusable("an answer is yes or no"))?;
    Ok(Response { name, call, input: &part["input"], is_approved })
}

/// Whether a question still waits for this answer. Only what this message asked can be answered, for the call and
/// the arguments that the log has.
fn is_open(teller: &Teller, branch: &BranchId, response: &Response<'_>) -> Result<bool> {
    let Response { name, call, input, is_approved } = response;
    let question = teller.questions().get(&name.seq).filter(|_| name.branch == *branch);
    let question = question.ok_or_else(|| {
        Error::new(codes::APPROVAL_UNKNOWN, format!("nothing asks for the approval {name}"))
    })?;
    if question.call != Some(*call) || teller.input(*call) != Some(*input) {
        return Err(Error::new(codes::APPROVAL_MISMATCH, "this was not answered")
            .why("it was asked for another call, or with other arguments"));
    }
    match question.answer {
        None => Ok(true),
        Some(before) if before == *is_approved => Ok(false),
        Some(_) => Err(Error::new(codes::APPROVAL_ANSWERED, "this was answered already")),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ChatQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    /// Id or name; the main branch unless it is given.
    branch: Option<String>,
}

fn row(service: &Service, ask: &Ask) -> Result<BranchRow> {
    let Which { branch } = ask.query()?;
    Ok(service.kernel.branch(&ask.session()?, branch.as_deref())?)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ChatMessagesQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    /// Id or name; the main branch unless it is given.
    branch: Option<String>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most turns of the page; each is what a user said and the answer.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

/// The turn that some process runs on a branch.
fn running(service: &Service, row: &BranchRow) -> Result<Option<Seq>> {
    let turn = service.kernel.state_of(&row.branch)?.turn;
    let is_owned = service.kernel.log().is_owned(&row.branch)?;
    Ok(turn.filter(|_| is_owned))
}

/// The message that is being made, from its first chunk on; nothing where none is.
pub(crate) fn resume(service: &Service, ask: &Ask) -> Result<Reply> {
    let (protocol, row) = (protocol(ask)?, row(service, ask)?);
    let Some(turn) = running(service, &row)? else {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    };
    let first = chat::first_turn(&service.kernel, &row.branch, turn)?;
    Ok(follow(service, protocol, row.branch, first))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ChatStop")]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    /// Id or name; the main branch unless it is given.
    branch: Option<String>,
}

/// Stops the turn that runs; that a client leaves never does.
pub(crate) fn stop(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let Stop { branch } = ask.json_or_default()?;
    let branch = service.kernel.branch(&session, branch.as_deref())?.branch;
    let Some(turn) = service.desk.cancel(&branch, None, ask.principal()?) else {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    };
    Ok(Reply::json(StatusCode::ACCEPTED, &Place { session, branch, turn }))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatMessages")]
pub(crate) struct Messages {
    chat: SessionId,
    branch: BranchId,
    /// Whether one is being made; `GET /v1/chat/ID/stream` follows it.
    running: bool,
    #[schemars(with = "Vec<ChatMessage>")]
    messages: Vec<Value>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// The messages of a chat without the one that is being made: a page begins with them and resumes that one.
pub(crate) fn messages(service: &Service, ask: &Ask) -> Result<Reply> {
    let Listed { branch, cursor, limit } = ask.query()?;
    let row = service.kernel.branch(&ask.session()?, branch.as_deref())?;
    let limit = page::limit(limit)?;
    let from = cursor.map(|text| text.parse::<Seq>()).transpose();
    let from = from.map_err(|_| page::unusable())?.unwrap_or(1);
    let running = running(service, &row)?;
    let until = match running {
        Some(turn) => chat::first_turn(&service.kernel, &row.branch, turn)?,
        None => Seq::MAX,
    };
    let mut made = Made::default();
    let mut next = None;
    // A page begins where a message does, so nothing before it is read.
    for event in service.kernel.log().events_from(&row.branch, from) {
        let event = event?;
        let is_full = made.turns >= limit || event.seq() > from + MAX_PAGE_EVENTS;
        if is_full && made.begins(&event, until) {
            next = Some(event.seq().to_string());
            break;
        }
        made.take(&event, until);
    }
    Ok(Reply::ok(&Messages {
        chat: row.session,
        branch: row.branch,
        running: running.is_some(),
        messages: made.finish(),
        next,
    }))
}

/// The messages of a branch as they are put together.
#[derive(Default)]
struct Made {
    messages: Vec<Value>,
    now: Option<(Teller, Message)>,
    key: Option<String>,
    /// Messages of the assistant so far.
    turns: usize,
}

impl Made {
    /// Whether an event is the first of another message.
    fn begins(&self, event: &Event, until: Seq) -> bool {
        *event.kind() == Kind::TurnStarted && self.now.is_none() && event.seq() < until
    }

    fn take(&mut self, event: &Event, until: Seq) {
        if let Some((teller, message)) = &mut self.now {
            teller.tell(event).iter().for_each(|chunk| message.apply(chunk));
            if teller.is_closed() {
                self.end();
            }
        }
        if self.begins(event, until) {
            self.turns += 1;
            let mut teller = Teller::new(Protocol::V7, event.header.branch.clone(), event.seq());
            let mut message = Message::new(teller.id());
            teller.tell(event).iter().for_each(|chunk| message.apply(chunk));
            self.now = Some((teller, message));
            let started: glasshouse_model::body::TurnStarted = event.body_as().unwrap_or_default();
            let key = started.request.map(|request| request.key);
            self.key = key.and_then(|key| key.strip_prefix(KEY_PREFIX).map(str::to_owned));
        }
        let is_said =
            *event.kind() == Kind::MessageReceived && event.header.labels.contains("user");
        if is_said && let Ok(said) = event.body_as::<MessageReceived>() {
            let id = format!("{}:{}", event.header.branch, event.seq());
            let id = self.key.take().unwrap_or(id);
            self.messages.push(Message::of_user(&id, &said.text));
        }
    }

    fn end(&mut self) {
        if let Some((teller, mut message)) = self.now.take() {
            teller.ending().iter().for_each(|chunk| message.apply(chunk));
            self.messages.push(message.finish());
        }
    }

    fn finish(mut self) -> Vec<Value> {
        self.end();
        self.messages
    }
}
