//! Events of the log become chunks of a UI message stream.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_kernel::driver::ApprovalName;
use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, ApprovalSubject, CallEnd, CallStatus, ModelCompleted,
    ModelFailed, ModelPartial, ModelRequested, Outcome, PlanShown, ToolProposed, TurnEnd,
    TurnStarted,
};
use glasshouse_model::{BranchId, CallId, Digest, Event, Kind, Seq};
use serde_json::{Map, Value, json};

use super::live::Said;

/// Version of the protocol. A client of version 6 refuses a type that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    V6,
    V7,
}

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// More will come by itself.
    Running,
    /// Nothing comes until a person answers.
    Asking,
    /// Its turn is over.
    Over,
}

/// A question that the message asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) call: Option<CallId>,
    pub(crate) digest: Digest,
    /// What was answered, once it is in the log.
    pub(crate) answer: Option<bool>,
}

/// One kind of words of one answer.
#[derive(Debug, Clone, Default)]
struct Words {
    /// What was told.
    told: String,
    /// What the log has so far.
    logged: String,
}

/// The answer that is being given.
#[derive(Debug, Clone)]
struct Answer {
    /// Sequence of its request.
    request: Seq,
    text: Words,
    reasoning: Words,
}

/// Tells one message.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    protocol: Protocol,
    branch: BranchId,
    first: Seq,
    /// The turn that it is at.
    turn: Seq,
    answer: Option<Answer>,
    /// Which answer was asked for last.
    ordinal: Option<u64>,
    is_requested: bool,
    is_in_step: bool,
    calls: BTreeMap<CallId, (String, Value)>,
    open: BTreeSet<CallId>,
    refused: BTreeSet<CallId>,
    questions: BTreeMap<Seq, Question>,
    finish: &'static str,
    end: Option<(Kind, TurnEnd)>,
    is_closed: bool,
}

impl Teller {
    /// Tells the message whose first turn has this sequence.
    pub(crate) fn new(protocol: Protocol, branch: BranchId, first: Seq) -> Self {
        Self {
            protocol,
            branch,
            first,
            turn: first,
            answer: None,
            ordinal: None,
            is_requested: false,
            is_in_step: false,
            calls: BTreeMap::new(),
            open: BTreeSet::new(),
            refused: BTreeSet::new(),
            questions: BTreeMap::new(),
            finish: "stop",
            end: None,
            is_closed: false,
        }
    }

    /// Sequence of its first turn.
    pub(crate) const fn first(&self) -> Seq {
        self.first
    }

    /// The message's id.
    pub(crate) fn id(&self) -> String {
        format!("{}:{}", self.branch, self.first)
    }

    /// Whether another message has begun.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Everything that it asked.
    pub(crate) const fn questions(&self) -> &BTreeMap<Seq, Question> {
        &self.questions
    }

    /// The arguments of a call, as the model wrote them.
    pub(crate) fn input(&self, call: CallId) -> Option<&Value> {
        self.calls.get(&call).map(|(_, input)| input)
    }

    /// Where it is after what was told.
    pub(crate) fn phase(&self) -> Phase {
        if self.end.is_some() {
            return Phase::Over;
        }
        let waiting = self.questions.values().filter(|one| one.answer.is_none());
        let waiting: Vec<Option<CallId>> = waiting.map(|one| one.call).collect();
        let all_wait = self.open.iter().all(|call| waiting.contains(&Some(*call)));
        if !waiting.is_empty() && !self.is_requested && all_wait {
            return Phase::Asking;
        }
        Phase::Running
    }

    /// Whether a person is waited for, and not only for the answers to these questions, which are on their way. A
    /// process that died may have asked the same again.
    pub(crate) fn waits_beside(&self, answered: &[Seq]) -> bool {
        answered.iter().all(|seq| {
            let Some(mine) = self.questions.get(seq) else { return true };
            let is_asked_again =
                || self.questions.range(seq + 1..).any(|(_, other)| other.call == mine.call);
            mine.answer.is_some() || is_asked_again()
        })
    }

    /// The chunk with which a stream begins.
    pub(crate) fn start(&self) -> Value {
        json!({
            "type": "start", "messageId": self.id(),
            "messageMetadata": { "branch": self.branch, "turn": self.first },
        })
    }

    /// The chunks of an event. One that cannot be read says nothing.
    pub(crate) fn tell(&mut self, event: &Event) -> Vec<Value> {
        if *event.kind() == Kind::TurnStarted {
            return self.turn_started(event);
        }
        if self.end.is_some() || self.is_closed {
            return Vec::new();
        }
        self.chunks(event).unwrap_or_default()
    }

    fn turn_started(&mut self, event: &Event) -> Vec<Value> {
        let seq = event.seq();
        if seq == self.first {
            return vec![self.start()];
        }
        let started: TurnStarted = event.body_as().unwrap_or_default();
        if self.end.is_some() && started.continues == Some(self.turn) && !self.is_closed {
            self.turn = seq;
            self.end = None;
            self.is_requested = false;
        } else if seq > self.first {
            self.is_closed = true;
        }
        Vec::new()
    }

    fn chunks(&mut self, event: &Event) -> Result<Vec<Value>, serde_json::Error> {
        Ok(match event.kind() {
            Kind::ModelRequested => self.requested(event.seq(), &event.body_as()?),
            Kind::ModelPartial => self.partial(&event.body_as()?),
            Kind::ModelCompleted => self.answered(&event.body_as()?),
            Kind::ModelFailed => self.failed(&event.body_as()?),
            Kind::ToolProposed => self.proposed(CallId(event.seq()), &event.body_as()?),
            Kind::ApprovalRequested => self.asked(event.seq(), event.body_as()?),
            Kind::ApprovalResolved => self.resolved(&event.body_as()?),
            Kind::PlanRendered | Kind::PlanRefused => self.plan(&event.body_as()?),
            kind if kind.ends_call() => self.call_ended(&event.body_as()?),
            kind if kind.ends_turn() => {
                let end: TurnEnd = event.body_as()?;
                if end.turn == self.turn {
                    self.end = Some((kind.clone(), end));
                }
                Vec::new()
            }
            _ => Vec::new(),
        })
    }

    fn requested(&mut self, seq: Seq, body: &ModelRequested) -> Vec<Value> {
        self.is_requested = true;
        if body.summary {
            return Vec::new();
        }
        // Another try belongs to the step of the first one.
        let is_again = self.is_in_step && self.ordinal == Some(body.ordinal);
        let mut chunks = Vec::new();
        if !is_again {
            chunks.extend(self.end_step());
            chunks.push(json!({ "type": "start-step" }));
            self.is_in_step = true;
        }
        self.ordinal = Some(body.ordinal);
        let (text, reasoning) = (Words::default(), Words::default());
        self.answer = Some(Answer { request: seq, text, reasoning });
        chunks
    }

    fn end_step(&mut self) -> Vec<Value> {
        let was = std::mem::take(&mut self.is_in_step);
        if was { vec![json!({ "type": "finish-step" })] } else { Vec::new() }
    }

    fn partial(&mut self, body: &ModelPartial) -> Vec<Value> {
        let Some(answer) = &mut self.answer else { return Vec::new() };
        answer.reasoning.logged.push_str(&body.reasoning);
        answer.text.logged.push_str(&body.text);
        let (reasoning, text) = (answer.reasoning.logged.clone(), answer.text.logged.clone());
        answer.say(&reasoning, &text)
    }

    /// The chunks of what an answer has said before it is in the log.
    pub(crate) fn hear(&mut self, said: &Said) -> Vec<Value> {
        match &mut self.answer {
            Some(answer) if answer.request == said.request => {
                answer.say(&said.reasoning, &said.text)
            }
            _ => Vec::new(),
        }
    }

    fn answered(&mut self, body: &ModelCompleted) -> Vec<Value> {
        self.is_requested = false;
        if body.summary {
            return Vec::new();
        }
        self.finish = match body.finish.as_str() {
            "length" => "length",
            "content_filter" | "refusal" => "content-filter",
            "tool_calls" => "tool-calls",
            _ => "stop",
        };
        let Some(mut answer) = self.answer.take() else { return Vec::new() };
        let mut chunks = answer.say(&body.reasoning, &body.text);
        chunks.extend(answer.end(None));
        chunks
    }

    fn failed(&mut self, body: &ModelFailed) -> Vec<Value> {
        self.is_requested = false;
        let Some(answer) = self.answer.take() else { return Vec::new() };
        let is_void = body.retry_in_ms.is_some() || body.next_model.is_some();
        if !is_void || answer.is_silent() {
            return answer.end(None);
        }
        // What a failed try showed counts for nothing. Version 6 cannot take it back, so it is marked.
        let mark = json!({ "glasshouse": { "void": true } });
        let mut chunks = answer.end(Some(&mark));
        if self.protocol == Protocol::V7 {
            chunks.push(json!({ "type": "reset-step" }));
        }
        chunks
    }

    fn proposed(&mut self, call: CallId, body: &ToolProposed) -> Vec<Value> {
        let read = serde_json::from_str::<Value>(&body.arguments);
        let input = match &read {
            Ok(input) => input.clone(),
            Err(_) => Value::from(body.arguments.clone()),
        };
        let mut chunk = json!({
            "type": "tool-input-available", "toolCallId": call.to_string(),
            "toolName": body.tool, "input": input, "dynamic": true,
        });
        if let Err(error) = read {
            chunk["type"] = "tool-input-error".into();
            chunk["errorText"] = error.to_string().into();
        }
        self.open.insert(call);
        self.calls.insert(call, (body.tool.clone(), input));
        vec![chunk]
    }

    fn asked(&mut self, seq: Seq, body: ApprovalRequested) -> Vec<Value> {
        let name = ApprovalName { branch: self.branch.clone(), seq };
        let digest = body.args_digest;
        self.questions.insert(seq, Question { call: body.call, digest, answer: None });
        match (body.subject, body.call) {
            (ApprovalSubject::Call, Some(call)) if self.calls.contains_key(&call) => vec![json!({
                "type": "tool-approval-request", "approvalId": name,
                "toolCallId": call.to_string(),
            })],
            // What is no call of the model's is data beside the conversation.
            _ => vec![json!({
                "type": "data-approval", "id": name,
                "data": {
                    "approval": name, "tool": body.tool, "shown": body.shown,
                    "reasons": body.reasons, "digest": digest,
                },
            })],
        }
    }

    fn resolved(&mut self, body: &ApprovalResolved) -> Vec<Value> {
        let Some(question) = self.questions.get_mut(&body.approval) else { return Vec::new() };
        question.answer = Some(body.approved);
        let call = question.call.filter(|call| self.calls.contains_key(call));
        if let (Some(call), false) = (call, body.approved) {
            self.refused.insert(call);
        }
        let name = ApprovalName { branch: self.branch.clone(), seq: body.approval };
        match (self.protocol, call) {
            (Protocol::V7, Some(_)) => vec![json!({
                "type": "tool-approval-response", "approvalId": name, "approved": body.approved,
            })],
            _ => vec![json!({
                "type": "data-approval-response", "id": name,
                "data": { "approval": name, "approved": body.approved, "by": body.approver },
            })],
        }
    }

    fn plan(&self, body: &PlanShown) -> Vec<Value> {
        let Some(call) = body.call else { return Vec::new() };
        let mut data = Map::new();
        data.insert("call".to_owned(), call.to_string().into());
        data.insert("plan".to_owned(), json!(body.plan));
        data.insert("profile".to_owned(), body.profile.clone().into());
        match &body.html {
            Some(html) => {
                data.insert("html".to_owned(), json!(html));
                data.insert("href".to_owned(), format!("/v1/blobs/{}", html.blob).into());
            }
            None => {
                data.insert("issues".to_owned(), json!(body.issues));
            }
        }
        vec![json!({ "type": "data-plan", "id": call.to_string(), "data": data })]
    }

    fn call_ended(&mut self, body: &CallEnd) -> Vec<Value> {
        self.open.remove(&body.call);
        // A client stops at the end of a call that it was not told of.
        let Some((tool, input)) = self.calls.get(&body.call) else { return Vec::new() };
        let id = body.call.to_string();
        match body.status {
            CallStatus::Completed => {
                let mut chunks = vec![json!({
                    "type": "tool-output-available", "toolCallId": id, "dynamic": true,
                    "output": output(body),
                })];
                if let ("web.fetch", Some(url)) = (tool.as_str(), input["url"].as_str()) {
                    chunks.push(json!({ "type": "source-url", "sourceId": id, "url": url }));
                }
                chunks
            }
            CallStatus::Denied if self.refused.contains(&body.call) => {
                vec![json!({ "type": "tool-output-denied", "toolCallId": id })]
            }
            _ => vec![json!({
                "type": "tool-output-error", "toolCallId": id, "dynamic": true,
                "errorText": body.text,
            })],
        }
    }

    /// The chunks with which a stream ends where the message is now.
    pub(crate) fn ending(&self) -> Vec<Value> {
        let mut chunks = Vec::new();
        if let Some(answer) = self.answer.clone() {
            chunks.extend(answer.end(None));
        }
        if self.is_in_step {
            chunks.push(json!({ "type": "finish-step" }));
        }
        let Some((kind, end)) = &self.end else {
            chunks.push(json!({ "type": "finish", "finishReason": "tool-calls" }));
            return chunks;
        };
        let reason = match (kind, end.outcome) {
            (Kind::TurnCancelled, _) => {
                chunks.push(json!({ "type": "abort", "reason": "the turn was cancelled" }));
                return chunks;
            }
            (Kind::TurnFailed | Kind::TurnInterrupted, _) | (_, Outcome::Failed) => {
                let code = end.code.as_deref().unwrap_or("interrupted");
                let why = end.message.as_deref().unwrap_or("the turn did not come to its end");
                let text = format!("{code}: {why}");
                chunks.push(json!({ "type": "error", "errorText": text }));
                "error"
            }
            _ => self.finish,
        };
        let metadata = json!({ "outcome": end.outcome, "commit": end.commit });
        let finish =
            json!({ "type": "finish", "finishReason": reason, "messageMetadata": metadata });
        chunks.push(finish);
        chunks
    }
}

impl Answer {
    /// The chunks that bring what was told up to what was said. What is no continuation is left alone: it stays
    /// behind, and the end of the answer tells the rest.
    fn say(&mut self, reasoning: &str, text: &str) -> Vec<Value> {
        let mut chunks = more("reasoning", self.request, &mut self.reasoning, reasoning);
        chunks.extend(more("text", self.request, &mut self.text, text));
        chunks
    }

    fn is_silent(&self) -> bool {
        self.text.told.is_empty() && self.reasoning.told.is_empty()
    }

    fn end(&self, mark: Option<&Value>) -> Vec<Value> {
        let mut chunks = Vec::new();
        for (kind, words) in [("reasoning", &self.reasoning), ("text", &self.text)] {
            if words.told.is_empty() {
                continue;
            }
            let mut chunk =
                json!({ "type": format!("{kind}-end"), "id": part(kind, self.request) });
            if let Some(mark) = mark {
                chunk["providerMetadata"] = mark.clone();
            }
            chunks.push(chunk);
        }
        chunks
    }
}

fn part(kind: &str, request: Seq) -> String {
    format!("{kind}-{request}")
}

fn more(kind: &str, request: Seq, words: &mut Words, said: &str) -> Vec<Value> {
    let Some(rest) = said.strip_prefix(words.told.as_str()).filter(|rest| !rest.is_empty()) else {
        return Vec::new();
    };
    let id = part(kind, request);
    let mut chunks = Vec::new();
    if words.told.is_empty() {
        chunks.push(json!({ "type": format!("{kind}-start"), "id": id }));
    }
    chunks.push(json!({ "type": format!("{kind}-delta"), "id": id, "delta": rest }));
    words.told.push_str(rest);
    chunks
}

/// What a call gave, without what it did not.
fn output(end: &CallEnd) -> Value {
    let mut output = json!({ "status": end.status, "text": end.text });
    if let Some(code) = end.exit_code {
        output["exit_code"] = code.into();
    }
    if let Some(blob) = &end.output {
        output["output"] = json!(blob);
    }
    if end.truncated {
        output["truncated"] = true.into();
    }
    output
}

#[cfg(test)]
mod tests;
