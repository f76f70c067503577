//! Which body each kind of event has, and the JSON Schema that says so.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::*;
use crate::{Actor, BranchId, Digest, Kind, Seq, SessionId, TenantId};

macro_rules! bodies {
    ($($body:ty: $($kind:ident),+;)+) => {
        /// Whether a body has the shape that its kind promises. A kind of a later version, and a body
        /// that was erased, promise nothing.
        ///
        /// # Errors
        /// What is not in that shape.
        pub fn check(kind: &Kind, body: &Value) -> Result<(), serde_json::Error> {
            use serde::Deserialize as _;
            if body.is_null() {
                return Ok(());
            }
            match kind {
                $($(Kind::$kind)|+ => <$body>::deserialize(body).map(drop),)+
                Kind::Other(_) => Ok(()),
            }
        }

        fn schema_of(kind: &Kind, generator: &mut SchemaGenerator) -> Option<Schema> {
            match kind {
                $($(Kind::$kind)|+ => Some(generator.subschema_for::<$body>()),)+
                Kind::Other(_) => None,
            }
        }
    };
}

bodies! {
    SessionCreated: SessionCreated;
    SessionResumed: SessionResumed;
    SessionClosed: SessionClosed;
    SessionImported: SessionImported;
    ModeChanged: SessionModeChanged;
    KernelProcess: KernelStarted, KernelStopped;
    BranchForked: BranchForked;
    BranchMerged: BranchMerged;
    WorkspaceFrozen: WorkspaceFrozen;
    WorkspaceSealed: WorkspaceSealed;
    WorkspaceRolledBack: WorkspaceRolledBack;
    MergeProposed: MergeProposed;
    MergeAnswered: MergeApproved, MergeRejected;
    MergeApplied: MergeApplied;
    MergeFailed: MergeFailed;
    CommitCreated: CommitCreated;
    TurnStarted: TurnStarted;
    TurnEnd: TurnCompleted, TurnFailed, TurnCancelled, TurnInterrupted;
    PhaseEntered: PhaseEntered;
    StateEstimated: StateEstimated;
    BudgetCharged: BudgetCharged;
    BudgetExhausted: BudgetExhausted;
    Breaker: BreakerOpened, BreakerClosed;
    CheckpointCreated: CheckpointCreated;
    Heartbeat: Heartbeat;
    MessageReceived: MessageReceived;
    ModelRequested: ModelRequested;
    ModelPartial: ModelPartial;
    ModelCompleted: ModelCompleted;
    ModelFailed: ModelFailed;
    ContextCompacted: ContextCompacted;
    ContextPinned: ContextPinned;
    ToolProposed: ToolProposed;
    ToolStarted: ToolStarted;
    CallEnd: ToolCompleted, ToolFailed, ToolDenied, ToolCancelled, ToolTimedOut;
    FileMutated: FileMutated;
    PolicyDecided: PolicyDecided;
    PolicyChange: PolicyProposed, PolicyUpdated;
    GrantIssued: GrantIssued;
    GrantUsed: GrantUsed;
    GrantEnded: GrantExpired, GrantRevoked;
    ApprovalRequested: ApprovalRequested;
    ApprovalAnswered: ApprovalAnswered;
    ApprovalResolved: ApprovalResolved;
    SandboxEvent: SandboxCreated, SandboxFailed, SandboxDestroyed;
    SandboxExamined: SandboxExamined;
    Egress: EgressConnected, EgressDenied;
    WorkflowTransitioned: WorkflowTransitioned;
    ExemptionRequested: WorkflowExemptionRequested;
    ExemptionDecided: WorkflowExemptionDecided;
    TestEvidence: TestEvidence;
    DebtUpdated: DebtUpdated;
    PlanRegistered: PlanRegistered;
    PlanShown: PlanRendered, PlanRefused;
    Throttled: QuotaThrottled;
    PlanPreviewed: PlanPreviewed;
    PlanRolledBack: PlanRolledBack;
    PlanEvent: PlanEvent;
    PlanStateChanged: PlanStateChanged;
    PlanHistoryCleared: PlanHistoryCleared;
    ObservationExtracted: ObservationExtracted;
    SoulUpdated: SoulUpdated;
    VoiceStarted: VoiceStarted;
    VoiceChunk: VoiceInput, VoiceOutput;
    VoiceText: VoiceTranscribed, VoiceInterrupted;
    VoiceEnd: VoiceStopped, VoiceFailed;
    PluginEvent: PluginRegistered, PluginRejected, PluginLoaded, PluginDisabled, PluginUnloaded;
    TenantEvent: TenantCreated, TenantUpdated, TenantDisabled;
    KeyEvent: KeyCreated, KeyRevoked;
    LogRecovered: LogRecovered;
    LogQuarantined: LogQuarantined;
    LogStorage: LogStorageWarning, LogStorageCritical;
    LogArchiveDeleted: LogArchiveDeleted;
    LogErased: LogErased;
    LogHeadSigned: LogHeadSigned;
    LogChainBroken: LogChainBroken;
}

/// The JSON Schema of an event: the header's members, and by `kind` the body's. A body that was erased
/// is null; kinds that are not listed are of another version and have any body.
#[must_use]
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let of = |generator: &mut SchemaGenerator| {
        json!({
            "v": { "type": "integer", "const": crate::event::EVENT_VERSION },
            "tenant": generator.subschema_for::<TenantId>(),
            "session": generator.subschema_for::<SessionId>(),
            "branch": generator.subschema_for::<BranchId>(),
            "seq": generator.subschema_for::<Seq>(),
            "time_us": generator.subschema_for::<u64>(),
            "kind": generator.subschema_for::<Kind>(),
            "actor": generator.subschema_for::<Actor>(),
            "cause": generator.subschema_for::<Seq>(),
            "trace": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
            "labels": { "type": "array", "items": { "type": "string" }, "uniqueItems": true },
            "body": true,
            "body_hash": generator.subschema_for::<Digest>(),
            "prev": generator.subschema_for::<Digest>(),
            "hash": generator.subschema_for::<Digest>(),
        })
    };
    let properties = of(&mut generator);
    let by_kind: Vec<_> = Kind::KNOWN
        .iter()
        .filter_map(|kind| {
            let body = schema_of(kind, &mut generator)?;
            Some(json!({
                "if": { "properties": { "kind": { "const": kind } }, "required": ["kind"] },
                "then": { "properties": { "body": { "anyOf": [body, { "type": "null" }] } } },
            }))
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Glasshouse event",
        "description": "One event of the log as `glasshouse audit log --json` prints it.",
        "type": "object",
        "properties": properties,
        "required": [
            "v", "tenant", "session", "branch", "seq", "time_us", "kind", "actor", "body",
            "body_hash", "prev", "hash",
        ],
        "allOf": by_kind,
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_checked_by_their_kind() {
        let check = |kind: &str, body: Value, expected: bool| {
            let found = super::check(&kind.parse().unwrap(), &body).is_ok();
            assert_eq!(found, expected, "{kind} {body}");
        };
        check("message.received", json!({ "text": "hi" }), true);
        check("message.received", json!({ "text": "hi", "of_a_later_version": 1 }), true);
        check("message.received", json!({ "text": 1 }), false);
        check("message.received", json!({}), false);
        check("message.received", Value::Null, true);
        check("message.read", json!({ "any": "thing" }), true);
        check("tool.completed", json!({ "call": "c1" }), false);
        check(
            "voice.input",
            json!({ "voice": "v", "index": 0, "format": "pcm", "bytes": 2 }),
            true,
        );
    }

    /// What stands in the reference is what the code says; `GLASSHOUSE_REWRITE_GOLDEN=1` writes it anew.
    fn published(name: &str, text: &str) {
        let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("GLASSHOUSE_REWRITE_GOLDEN").is_some() {
            std::fs::write(&path, text).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap_or_default() == text, "{path} is another");
    }

    #[test]
    fn the_published_schema_is_this_one() {
        let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        published("events.schema.json", &text);
    }

    /// The last word of a reference, the type of a value, or either of several.
    fn type_of(schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str() {
            return name.rsplit('/').next().unwrap_or(name).to_owned();
        }
        if let Some(items) = schema.get("items") {
            return format!("list of {}", type_of(items));
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let some = any.iter().find(|one| one["type"] != "null");
            return some.map(type_of).unwrap_or_default();
        }
        match &schema["type"] {
            Value::Array(types) => types[0].as_str().unwrap_or_default().to_owned(),
            Value::String(name) => name.clone(),
            _ => "any".to_owned(),
        }
    }

    fn page() -> String {
        let schema = schema();
        let mut page = "# Events\n\nEvery kind of event, and the members of its body. Those in brackets may be absent. A reader \
             ignores members that it does not know.\nThe same as JSON Schema: [events.schema.json](events.schema.json), \
             or `glasshouse audit schema`.\n"
            .to_owned();
        let mut told: Vec<(String, Vec<&str>)> = Vec::new();
        for rule in schema["allOf"].as_array().unwrap() {
            let kind = rule["if"]["properties"]["kind"]["const"].as_str().unwrap();
            let body = type_of(&rule["then"]["properties"]["body"]);
            match told.iter_mut().find(|(name, _)| *name == body) {
                Some((_, kinds)) => kinds.push(kind),
                None => told.push((body, vec![kind])),
            }
        }
        for (name, kinds) in told {
            let body = &schema["$defs"][&name];
            let kinds: Vec<_> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
            page += &format!("\n## {}\n\n", kinds.join(", "));
            page += &format!(
                "{}\n\n",
                body["description"].as_str().unwrap_or_default().replace('\n', " ")
            );
            page += "| Member | Type | |\n|---|---|---|\n";
            // A body that is one of several has the members of each.
            let one_of: Vec<&Value> = match body["anyOf"].as_array() {
                Some(any) => any.iter().map(|one| &schema["$defs"][&type_of(one)]).collect(),
                None => vec![body],
            };
            for body in one_of {
                let required = body["required"].as_array().cloned().unwrap_or_default();
                for (member, value) in body["properties"].as_object().into_iter().flatten() {
                    let shown = match required.contains(&json!(member)) {
                        true => format!("`{member}`"),
                        false => format!("[`{member}`]"),
                    };
                    let about =
                        value["description"].as_str().unwrap_or_default().replace('\n', " ");
                    let about = about.replace('|', "/");
                    page += &format!("| {shown} | {} | {about} |\n", type_of(value));
                }
            }
        }
        page
    }

    #[test]
    fn the_published_page_is_this_one() {
        published("events.md", &page());
    }
}
