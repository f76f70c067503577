//! What a branch looks like from outside: documents that are made of its events alone, for people and programs that
//! want files and not a log.
//!
//! Each is a fold, so the same events make the same bytes, and what an event's body said is gone with the body.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, CallEnd, CheckpointCreated, CommitCreated,
    MessageReceived, ModelCompleted, ObservationExtracted, PlanShown, PolicyDecided,
    SessionCreated, SoulUpdated, TestEvidence, ToolProposed, ToolStarted, TurnEnd,
    WorkflowTransitioned, WorkspaceSealed,
};
use glasshouse_model::{CallId, Event, Kind, Seq};
use serde_json::{Map, Value, json};

/// Longest text of a call in the thread, in characters.
const MAX_THREAD_CHARS: usize = 2_000;

/// Documents of a branch.
#[derive(Debug, Default)]
pub struct Views {
    manifest: Value,
    thread: String,
    plan: Value,
    heartbeat: Value,
    checkpoints: BTreeMap<Seq, Value>,
    runs: BTreeMap<CallId, Map<String, Value>>,
    observations: Vec<Observation>,
    soul: Value,
    asked: BTreeMap<Seq, Value>,
    shown: Vec<Value>,
    /// Paths that were changed since the last observation, and the first event of that.
    changed: BTreeMap<String, Seq>,
    workflow: Value,
}

/// Something that was found out, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Sequence of the event that tells it.
    pub seq: Seq,
    /// What was found out.
    pub text: String,
    /// What made it known: `tests`, `commit`, `agent`.
    pub source: &'static str,
    /// Events that it is drawn from.
    pub events: Vec<Seq>,
    /// Paths that it is about.
    pub paths: Vec<String>,
    time_us: u64,
    hash: String,
}

impl Observation {
    /// As JSON; `files` are its paths with the digests of what was there.
    #[must_use]
    pub fn to_json(&self, files: &[(String, Option<String>)]) -> Value {
        let files: Vec<Value> =
            files.iter().map(|(path, sha256)| json!({ "path": path, "sha256": sha256 })).collect();
        json!({
            "observation": self.seq, "time_us": self.time_us, "text": self.text,
            "source": self.source,
            "provenance": { "events": self.events, "hash": self.hash, "files": files },
        })
    }
}

impl Views {
    /// Takes an event in. One whose body is gone says no more than that.
    pub fn apply(&mut self, event: &Event) {
        // What cannot be read is in no document.
        let _ = self.try_apply(event);
    }

    fn try_apply(&mut self, event: &Event) -> Result<(), serde_json::Error> {
        let seq = event.seq();
        match event.kind() {
            Kind::SessionCreated => self.created(event, &event.body_as()?),
            Kind::MessageReceived => {
                let MessageReceived { text, .. } = event.body_as()?;
                self.say(seq, "User", &text);
            }
            Kind::ModelCompleted => {
                let ModelCompleted { text, summary, .. } = event.body_as()?;
                if !summary && !text.is_empty() {
                    self.say(seq, "Agent", &text);
                }
            }
            Kind::ToolProposed => self.proposed(seq, event.body_as()?),
            Kind::PolicyDecided => self.decided(seq, &event.body_as()?),
            Kind::ToolStarted => {
                let ToolStarted { call, isolation, .. } = event.body_as()?;
                self.note(call, "started", seq.into());
                self.note(call, "isolation", isolation.into());
            }
            Kind::WorkspaceSealed => self.sealed(event, event.body_as()?),
            kind if kind.ends_call() => self.ended(event, &event.body_as()?),
            Kind::ApprovalRequested => self.asked(seq, &event.body_as()?),
            Kind::ApprovalResolved => self.resolved(&event.body_as()?),
            Kind::TestEvidence => self.tested(event, &event.body_as()?),
            Kind::CommitCreated => {
                let CommitCreated { commit, subject, merge, .. } = event.body_as()?;
                let text = match commit {
                    Some(commit) => format!("committed as {commit}: {subject}"),
                    None => format!("merged: {subject}"),
                };
                self.observe(event, text, "commit", vec![merge, seq]);
            }
            Kind::ObservationExtracted => {
                let ObservationExtracted { text, sources, .. } = event.body_as()?;
                self.observe(event, text, "agent", sources);
            }
            Kind::CheckpointCreated => self.checkpoint(event, event.body_as()?),
            Kind::SoulUpdated => {
                let SoulUpdated { previous, text, .. } = event.body_as()?;
                self.soul = json!({ "seq": seq, "previous": previous, "text": text });
            }
            Kind::PlanRendered | Kind::PlanRefused => {
                let shown: PlanShown = event.body_as()?;
                self.shown.push(json!({
                    "seq": seq, "call": shown.call, "plan": shown.plan, "profile": shown.profile,
                    "html": shown.html, "refused": shown.html.is_none(),
                }));
            }
            Kind::WorkflowTransitioned => {
                self.workflow = json!(event.body_as::<WorkflowTransitioned>()?.to);
            }
            kind if kind.ends_turn() => {
                let TurnEnd { turn, outcome, code, .. } = event.body_as()?;
                let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
                let _ = writeln!(self.thread, "*Turn {turn}: {}{code}.*\n", word(&json!(outcome)));
            }
            _ => {}
        }
        self.heartbeat = json!({
            "seq": seq, "time_us": event.header.time_us, "hash": event.hash,
            "workflow": self.workflow,
        });
        Ok(())
    }

    fn checkpoint(&mut self, event: &Event, body: CheckpointCreated) {
        let CheckpointCreated { at_seq, projection, state, .. } = body;
        let view = json!({
            "checkpoint": event.seq(), "at_seq": at_seq, "projection": projection, "state": state,
            "time_us": event.header.time_us, "hash": event.hash,
        });
        self.checkpoints.insert(event.seq(), view);
    }

    fn created(&mut self, event: &Event, created: &SessionCreated) {
        let policy: Vec<Value> = created
            .policy
            .iter()
            .map(|source| json!({ "name": source.name, "text": source.text.blob }))
            .collect();
        self.manifest = json!({
            "session": event.header.session, "branch": event.header.branch,
            "owner": event.header.actor, "tenant": event.header.tenant,
            "created_us": event.header.time_us, "project": created.project, "mode": created.mode,
            "model": { "provider": created.provider, "model": created.model, "fallback": created.settings.fallback_models },
            "policy": policy, "budget": created.budget, "test": created.test,
            "program_version": created.program_version, "hash": event.hash,
        });
    }

    fn say(&mut self, seq: Seq, who: &str, text: &str) {
        let _ = writeln!(self.thread, "## {who} ({seq})\n\n{}\n", text.trim_end());
    }

    fn proposed(&mut self, seq: Seq, body: ToolProposed) {
        let call = CallId(seq);
        let arguments = serde_json::from_str(&body.arguments).unwrap_or(Value::Null);
        if body.tool == "plan.complete" {
            let steps = arguments["steps"].clone();
            self.plan = json!({ "seq": seq, "summary": arguments["summary"], "steps": steps });
        }
        self.note(call, "tool", body.tool.into());
        self.note(call, "arguments", arguments);
        self.note(call, "proposed", seq.into());
    }

    fn note(&mut self, call: CallId, name: &str, value: Value) {
        self.runs.entry(call).or_default().insert(name.to_owned(), value);
    }

    fn decided(&mut self, seq: Seq, body: &PolicyDecided) {
        let Some(call) = body.call else { return };
        let decision = json!({
            "seq": seq, "syscall": body.syscall, "subject": body.subject,
            "decision": body.decision.effect, "rules": body.decision.rules,
            "reasons": body.decision.reasons, "policy_version": body.decision.policy_version,
        });
        let run = self.runs.entry(call).or_default();
        if let Some(list) = run.entry("decisions").or_insert_with(|| json!([])).as_array_mut() {
            list.push(decision);
        }
    }

    fn sealed(&mut self, event: &Event, body: WorkspaceSealed) {
        let seq = event.seq();
        self.checkpoints.insert(
            seq,
            json!({
                "checkpoint": seq, "call": body.call, "manifest": body.manifest,
                "changed": body.changed, "changed_total": body.changed_total,
                "time_us": event.header.time_us, "hash": event.hash,
            }),
        );
        self.note(body.call, "changed", json!(body.changed));
        for one in body.changed {
            self.changed.entry(one.path).or_insert(seq);
        }
    }

    fn ended(&mut self, event: &Event, body: &CallEnd) {
        let call = body.call;
        let told = json!({
            "ended": event.seq(), "status": body.status, "code": body.code,
            "exit_code": body.exit_code, "duration_us": body.duration_us, "output": body.output,
            "labels": event.header.labels, "background_processes": body.background_processes,
        });
        let run = self.runs.entry(call).or_default();
        run.extend(told.as_object().cloned().unwrap_or_default());
        let tool = run.get("tool").and_then(Value::as_str).unwrap_or("call").to_owned();
        let mut text: String = body.text.chars().take(MAX_THREAD_CHARS).collect();
        if text.len() < body.text.len() {
            text.push('…');
        }
        let text: String = text.lines().fold(String::new(), |all, line| all + "    " + line + "\n");
        let _ = writeln!(self.thread, "### {tool} {call}: {}\n\n{text}", body.status.as_str());
    }

    fn asked(&mut self, seq: Seq, body: &ApprovalRequested) {
        let request = json!({ "approval": seq, "request": body });
        self.asked.insert(seq, request);
        if let Some(call) = body.call {
            self.note(call, "approval", json!({ "asked": seq }));
        }
    }

    fn resolved(&mut self, body: &ApprovalResolved) {
        let Some(request) = self.asked.remove(&body.approval) else { return };
        let call = request["request"]["call"].as_str().and_then(|call| call.parse().ok());
        if let Some(call) = call {
            let told = json!({
                "asked": body.approval, "approved": body.approved, "by": body.approver,
                "code": body.code,
            });
            self.note(call, "approval", told);
        }
    }

    fn tested(&mut self, event: &Event, body: &TestEvidence) {
        let text = match (body.ran, body.passed) {
            (false, _) => "the tests did not run".to_owned(),
            (true, true) => "the tests pass".to_owned(),
            (true, false) => format!("the tests fail with status {}", body.exit_code),
        };
        let run = self.runs.get(&body.call);
        let proposed = run.and_then(|run| run.get("proposed")).and_then(Value::as_u64);
        let events = proposed.into_iter().chain([event.seq()]).collect();
        self.observe(event, text, "tests", events);
    }

    fn observe(&mut self, event: &Event, text: String, source: &'static str, mut events: Vec<Seq>) {
        let changed = std::mem::take(&mut self.changed);
        events.extend(changed.values());
        events.sort_unstable();
        events.dedup();
        self.observations.push(Observation {
            seq: event.seq(),
            text,
            source,
            events,
            paths: changed.into_keys().collect(),
            time_us: event.header.time_us,
            hash: event.hash.to_string(),
        });
    }

    /// What was found out.
    #[must_use]
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// The conversation as Markdown.
    #[must_use]
    pub fn thread(&self) -> &str {
        &self.thread
    }

    /// A document by its name; `None` for one that there is not. Observations are [`Views::observations`].
    #[must_use]
    pub fn document(&self, name: &str) -> Option<Value> {
        Some(match name {
            "manifest" => self.manifest.clone(),
            "plan" => self.plan.clone(),
            "heartbeat" => self.heartbeat.clone(),
            "checkpoints" => self.checkpoints.values().cloned().collect(),
            "tools" => {
                let report = |(call, run): (&CallId, &Map<String, Value>)| {
                    let mut report = run.clone();
                    report.insert("call".to_owned(), call.to_string().into());
                    Value::Object(report)
                };
                self.runs.iter().map(report).collect()
            }
            "soul" => self.soul.clone(),
            "inbox" => self.asked.values().cloned().collect(),
            "outbox" => self.shown.clone().into(),
            _ => return None,
        })
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
