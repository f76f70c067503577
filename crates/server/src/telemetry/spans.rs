//! Events become spans, in the words of OpenTelemetry's conventions for generative AI.
//!
//! Ids follow from the log: the same turn is the same trace whoever tells it, and however often.

use std::collections::BTreeMap;

use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, CallEnd, CallStatus, Egress, MessageReceived,
    ModelCompleted, ModelFailed, ModelRequested, PolicyDecided, ToolProposed, TurnEnd,
};
use glasshouse_model::{BranchId, CallId, Digest, Event, Kind, Seq};
use serde_json::{Value, json};

/// In front of what ids are made of.
const TAG: &[u8] = b"glasshouse/span/v1\0";
/// Most spans of a turn that are open at a time, and most events of one span.
const MAX_OPEN: usize = 1_024;
const MAX_EVENTS: usize = 128;
/// Kinds of spans.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
/// Status of a span that failed.
const ERROR: u8 = 2;

/// A span in the shape of OTLP's JSON.
pub(super) type Span = Value;

/// One that has no end yet.
#[derive(Debug)]
struct Open {
    name: String,
    kind: u8,
    start_us: u64,
    attributes: Vec<Value>,
    events: Vec<Value>,
}

/// Makes the spans of a branch.
#[derive(Debug)]
pub(super) struct Tracer {
    branch: BranchId,
    /// Whether texts are told.
    content: bool,
    turn: Option<Seq>,
    /// The last one that began, and its end where it has one.
    last: Option<(Seq, Option<Seq>)>,
    open: BTreeMap<Seq, Open>,
    /// The request that is under way.
    request: Option<Seq>,
}

pub(super) fn attribute(key: &str, value: impl Into<Value>) -> Value {
    let value = match value.into() {
        Value::String(text) => json!({ "stringValue": text }),
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Array(list) => {
            let values: Vec<Value> = list
                .iter()
                .map(|one| json!({ "stringValue": one.as_str().unwrap_or_default() }))
                .collect();
            json!({ "arrayValue": { "values": values } })
        }
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": key, "value": value })
}

impl Tracer {
    /// Of a branch; `content` says whether texts are told.
    pub(super) const fn new(branch: BranchId, content: bool) -> Self {
        let (turn, last, request) = (None, None, None);
        Self { branch, content, turn, last, open: BTreeMap::new(), request }
    }

    /// The trace and the span of the turn that a sequence is in, if that is the last turn that began.
    pub(super) fn turn_of(&self, seq: Seq) -> Option<(String, String)> {
        let (turn, end) = self.last?;
        let is_within = turn <= seq && end.is_none_or(|end| seq <= end);
        is_within.then(|| (self.id(turn, 16), self.id(turn, 8)))
    }

    /// Whether a turn is under way.
    pub(super) const fn is_open(&self) -> bool {
        self.turn.is_some()
    }

    /// The spans that end with an event.
    pub(super) fn take(&mut self, event: &Event) -> Vec<Span> {
        self.try_take(event).unwrap_or_default()
    }

    fn try_take(&mut self, event: &Event) -> Result<Vec<Span>, serde_json::Error> {
        let (seq, now_us) = (event.seq(), event.header.time_us);
        match event.kind() {
            Kind::TurnStarted => {
                self.open.clear();
                (self.turn, self.last) = (Some(seq), Some((seq, None)));
                let attributes = vec![
                    attribute("gen_ai.operation.name", "invoke_agent"),
                    attribute("gen_ai.agent.name", "glasshouse"),
                    attribute("gen_ai.conversation.id", event.header.session.to_string()),
                    attribute("glasshouse.tenant", event.header.tenant.to_string()),
                    attribute("glasshouse.branch", self.branch.to_string()),
                    attribute("glasshouse.turn", seq),
                ];
                self.begin(seq, "invoke_agent glasshouse".to_owned(), INTERNAL, now_us, attributes);
            }
            Kind::MessageReceived if self.content => {
                let MessageReceived { text, .. } = event.body_as()?;
                let told =
                    json!([{ "role": "user", "parts": [{ "type": "text", "content": text }] }]);
                self.add(self.turn, vec![attribute("gen_ai.input.messages", told.to_string())]);
            }
            Kind::ModelRequested => self.requested(seq, now_us, &event.body_as()?),
            Kind::ModelCompleted => return Ok(self.answered(now_us, &event.body_as()?)),
            Kind::ModelFailed => {
                let body: ModelFailed = event.body_as()?;
                let Some(request) = self.request.take() else { return Ok(Vec::new()) };
                self.add(Some(request), vec![attribute("error.type", body.code.clone())]);
                return Ok(self.end(request, now_us, Some(&body.code)));
            }
            Kind::ToolProposed => self.proposed(seq, now_us, event.body_as()?),
            Kind::PolicyDecided => {
                let body: PolicyDecided = event.body_as()?;
                let effect = body.decision.effect.as_str();
                let attributes = vec![
                    attribute("glasshouse.decision", effect),
                    attribute("glasshouse.syscall", body.syscall),
                ];
                self.happened(body.call, "policy.decided", now_us, attributes);
            }
            Kind::EgressConnected | Kind::EgressDenied => {
                let body: Egress = event.body_as()?;
                let attributes = vec![
                    attribute("server.address", body.host),
                    attribute("server.port", body.port),
                ];
                self.happened(body.call, event.kind().as_str(), now_us, attributes);
            }
            Kind::ApprovalRequested => {
                let body: ApprovalRequested = event.body_as()?;
                let attributes = vec![attribute("gen_ai.tool.name", body.tool.clone())];
                self.begin(seq, format!("approval {}", body.tool), INTERNAL, now_us, attributes);
            }
            Kind::ApprovalResolved => {
                let body: ApprovalResolved = event.body_as()?;
                let told = vec![attribute("glasshouse.approved", body.approved)];
                self.add(Some(body.approval), told);
                return Ok(self.end(body.approval, now_us, None));
            }
            kind if kind.ends_call() => return Ok(self.call_ended(now_us, &event.body_as()?)),
            kind if kind.ends_turn() => {
                return Ok(self.turn_ended(seq, now_us, &event.body_as()?));
            }
            _ => {}
        }
        Ok(Vec::new())
    }

    fn begin(&mut self, seq: Seq, name: String, kind: u8, start_us: u64, attributes: Vec<Value>) {
        if self.turn.is_some() && self.open.len() < MAX_OPEN {
            let events = Vec::new();
            self.open.insert(seq, Open { name, kind, start_us, attributes, events });
        }
    }

    fn add(&mut self, seq: Option<Seq>, attributes: Vec<Value>) {
        if let Some(open) = seq.and_then(|seq| self.open.get_mut(&seq)) {
            open.attributes.extend(attributes);
        }
    }

    fn happened(&mut self, call: Option<CallId>, name: &str, at_us: u64, attributes: Vec<Value>) {
        let seq = call.map(|CallId(seq)| seq).or(self.turn);
        let open = seq.and_then(|seq| self.open.get_mut(&seq));
        if let Some(open) = open.filter(|open| open.events.len() < MAX_EVENTS) {
            open.events.push(json!({
                "name": name, "timeUnixNano": nanos(at_us), "attributes": attributes,
            }));
        }
    }

    fn requested(&mut self, seq: Seq, now_us: u64, body: &ModelRequested) {
        let provider = match body.provider.as_str() {
            "google" => "gcp.gemini",
            other => other,
        };
        let attributes = vec![
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.provider.name", provider),
            attribute("gen_ai.request.model", body.model.clone()),
            attribute("gen_ai.request.stream", true),
        ];
        self.request = Some(seq);
        self.begin(seq, format!("chat {}", body.model), CLIENT, now_us, attributes);
    }

    fn answered(&mut self, now_us: u64, body: &ModelCompleted) -> Vec<Span> {
        let Some(request) = self.request.take() else { return Vec::new() };
        let tokens = |kind: &str| body.tokens.get(kind).copied().unwrap_or_default();
        let (read, written) = (tokens("cache_read"), tokens("cache_write"));
        let mut attributes = vec![
            attribute("gen_ai.response.finish_reasons", json!([body.finish])),
            attribute("gen_ai.usage.input_tokens", tokens("input_uncached") + read + written),
            attribute("gen_ai.usage.output_tokens", tokens("output")),
        ];
        for (name, count) in [
            ("gen_ai.usage.cache_read.input_tokens", read),
            ("gen_ai.usage.cache_creation.input_tokens", written),
            ("gen_ai.usage.reasoning.output_tokens", tokens("reasoning")),
        ] {
            if count > 0 {
                attributes.push(attribute(name, count));
            }
        }
        if self.content {
            let told = json!([{
                "role": "assistant", "parts": [{ "type": "text", "content": body.text }],
                "finish_reason": body.finish,
            }]);
            attributes.push(attribute("gen_ai.output.messages", told.to_string()));
        }
        self.add(Some(request), attributes);
        self.end(request, now_us, None)
    }

    fn proposed(&mut self, seq: Seq, now_us: u64, body: ToolProposed) {
        let mut attributes = vec![
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", body.tool.clone()),
            attribute("gen_ai.tool.type", "function"),
            attribute("gen_ai.tool.call.id", CallId(seq).to_string()),
        ];
        if self.content {
            attributes.push(attribute("gen_ai.tool.call.arguments", body.arguments));
        }
        self.begin(seq, format!("execute_tool {}", body.tool), INTERNAL, now_us, attributes);
    }

    fn call_ended(&mut self, now_us: u64, body: &CallEnd) -> Vec<Span> {
        let CallId(seq) = body.call;
        let mut attributes = vec![attribute("glasshouse.status", body.status.as_str())];
        if let Some(isolation) = &body.isolation {
            attributes.push(attribute("glasshouse.isolation", isolation.clone()));
        }
        if let Some(code) = body.exit_code {
            attributes.push(attribute("process.exit.code", code));
        }
        let failed = (body.status != CallStatus::Completed)
            .then(|| body.code.clone().unwrap_or_else(|| body.status.as_str().to_owned()));
        if let Some(code) = &failed {
            attributes.push(attribute("error.type", code.clone()));
        }
        if self.content {
            attributes.push(attribute("gen_ai.tool.call.result", body.text.clone()));
        }
        self.add(Some(seq), attributes);
        self.end(seq, now_us, failed.as_deref())
    }

    fn turn_ended(&mut self, seq: Seq, now_us: u64, body: &TurnEnd) -> Vec<Span> {
        if let Some((turn, end)) = &mut self.last
            && *turn == body.turn
        {
            *end = Some(seq);
        }
        let outcome = serde_json::to_value(body.outcome).unwrap_or_default();
        self.add(Some(body.turn), vec![attribute("glasshouse.outcome", outcome)]);
        let mut spans = Vec::new();
        // What was open when the turn ended, ended with it.
        let rest: Vec<Seq> = self.open.keys().copied().filter(|seq| *seq != body.turn).collect();
        for seq in rest {
            spans.extend(self.end(seq, now_us, Some("cancelled")));
        }
        spans.extend(self.end(body.turn, now_us, body.code.as_deref()));
        (self.turn, self.request) = (None, None);
        spans
    }

    fn end(&mut self, seq: Seq, end_us: u64, failed: Option<&str>) -> Vec<Span> {
        let (Some(open), Some(turn)) = (self.open.remove(&seq), self.turn) else {
            return Vec::new();
        };
        let mut span = json!({
            "traceId": self.id(turn, 16), "spanId": self.id(seq, 8), "name": open.name,
            "kind": open.kind, "startTimeUnixNano": nanos(open.start_us),
            "endTimeUnixNano": nanos(end_us), "attributes": open.attributes,
            "events": open.events,
        });
        if seq != turn {
            span["parentSpanId"] = self.id(turn, 8).into();
        }
        if let Some(code) = failed {
            span["status"] = json!({ "code": ERROR, "message": code });
        }
        vec![span]
    }

    fn id(&self, seq: Seq, bytes: usize) -> String {
        let length = [u8::try_from(bytes).unwrap_or_default()];
        let parts: [&[u8]; 4] = [TAG, &length, self.branch.as_str().as_bytes(), &seq.to_be_bytes()];
        Digest::of_parts(&parts).hex()[..2 * bytes].to_owned()
    }
}

/// Microseconds as OTLP writes times: nanoseconds, in a text.
pub(super) fn nanos(us: u64) -> String {
    format!("{us}000")
}
