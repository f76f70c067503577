//! Events: the immutable records that are the only truth, and how they are hashed.
//!
//! An event is a header, a body and a place in a chain. The header holds the hash of the (salted)
//! body, and the chain hashes header *bytes*, so erasing a body and its salt keeps every proof:
//!
//! ```text
//! body_hash = SHA-256("glasshouse/body/v1\0"  || salt || body bytes)
//! hash      = SHA-256("glasshouse/event/v1\0" || prev || header bytes)
//! ```
//!
//! Header and body bytes are stored and hashed as they were written, never re-serialised.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{BranchId, Digest, PrincipalKind, Seq, SessionId, TenantId};

/// Version of the event shape.
pub const EVENT_VERSION: u32 = 1;
/// Bytes of random salt in front of a body before it is hashed.
pub const SALT_BYTES: usize = 16;
/// Largest body in bytes; larger content belongs into a blob.
pub const MAX_BODY_BYTES: usize = 1 << 20;
/// Most labels on one event.
pub const MAX_LABELS: usize = 64;

const EVENT_TAG: &[u8] = b"glasshouse/event/v1\0";
const BODY_TAG: &[u8] = b"glasshouse/body/v1\0";

/// Hash of an event: its place in the chain and its header bytes.
#[must_use]
pub fn event_hash(prev: &Digest, header_bytes: &[u8]) -> Digest {
    Digest::of_parts(&[EVENT_TAG, prev.as_bytes(), header_bytes])
}

/// Hash of a body as the header carries it.
#[must_use]
pub fn body_hash(salt: &[u8; SALT_BYTES], body_bytes: &[u8]) -> Digest {
    Digest::of_parts(&[BODY_TAG, salt, body_bytes])
}

/// Who caused an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Actor {
    /// Kind of principal.
    #[serde(rename = "type")]
    pub kind: PrincipalKind,
    /// Its id.
    pub id: String,
}

impl Actor {
    /// Glasshouse itself.
    #[must_use]
    pub fn kernel() -> Self {
        Self { kind: PrincipalKind::Kernel, id: "kernel".to_owned() }
    }
}

/// The hashed part of an event besides its body's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Shape version, [`EVENT_VERSION`].
    pub v: u32,
    /// Tenant.
    pub tenant: TenantId,
    /// Session.
    pub session: SessionId,
    /// Branch.
    pub branch: BranchId,
    /// Position in the branch.
    pub seq: Seq,
    /// Wall-clock time in microseconds since 1970. Order comes from `seq`, never from this.
    pub time_us: u64,
    /// What happened.
    pub kind: Kind,
    /// Who caused it.
    pub actor: Actor,
    /// Sequence of the event that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Seq>,
    /// Trace id, 32 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Taint labels.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Hash of salt and body.
    pub body_hash: Digest,
}

/// An event as read from the log. Serialises in the shape that users see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Header.
    pub header: Header,
    /// Body; `Null` when it was erased.
    pub body: Value,
    /// Hash of the event before it.
    pub prev: Digest,
    /// Hash of this event.
    pub hash: Digest,
}

impl Event {
    /// Position in the branch.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.header.seq
    }

    /// What happened.
    #[must_use]
    pub const fn kind(&self) -> &Kind {
        &self.header.kind
    }

    /// Reads the body as the type that its kind promises.
    ///
    /// # Errors
    /// When the body has another shape, for example because it was erased.
    pub fn body_as<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.body)
    }
}

/// The JSON shape of [`Event`], in the order that people read.
#[derive(Serialize, Deserialize, JsonSchema)]
struct EventJson {
    v: u32,
    tenant: TenantId,
    session: SessionId,
    branch: BranchId,
    seq: Seq,
    time_us: u64,
    kind: Kind,
    actor: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    body: Value,
    body_hash: Digest,
    prev: Digest,
    hash: Digest,
}

impl JsonSchema for Event {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Event".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        EventJson::json_schema(generator)
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Header {
            v,
            tenant,
            session,
            branch,
            seq,
            time_us,
            kind,
            actor,
            cause,
            trace,
            labels,
            body_hash,
        } = self.header.clone();
        let body = self.body.clone();
        let (prev, hash) = (self.prev, self.hash);
        EventJson {
            v,
            tenant,
            session,
            branch,
            seq,
            time_us,
            kind,
            actor,
            cause,
            trace,
            labels,
            body,
            body_hash,
            prev,
            hash,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let EventJson {
            v,
            tenant,
            session,
            branch,
            seq,
            time_us,
            kind,
            actor,
            cause,
            trace,
            labels,
            body,
            body_hash,
            prev,
            hash,
        } = EventJson::deserialize(deserializer)?;
        let header = Header {
            v,
            tenant,
            session,
            branch,
            seq,
            time_us,
            kind,
            actor,
            cause,
            trace,
            labels,
            body_hash,
        };
        Ok(Self { header, body, prev, hash })
    }
}

/// An event before the log gave it a place: the store adds sequence, time, salt and hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// What happened.
    pub kind: Kind,
    /// Who caused it.
    pub actor: Actor,
    /// Sequence of the event that led to it.
    pub cause: Option<Seq>,
    /// Trace id, 32 hex digits.
    pub trace: Option<String>,
    /// Taint labels.
    pub labels: BTreeSet<String>,
    /// Body.
    pub body: Value,
}

impl Draft {
    /// A draft by the kernel without cause or labels.
    ///
    /// # Panics
    /// Never for the body types of this crate: they serialise to JSON without failing.
    #[must_use]
    pub fn new(kind: Kind, body: &impl Serialize) -> Self {
        let body = serde_json::to_value(body).unwrap_or(Value::Null);
        debug_assert!(!body.is_null(), "a body is an object");
        Self {
            kind,
            actor: Actor::kernel(),
            cause: None,
            trace: None,
            labels: BTreeSet::new(),
            body,
        }
    }

    /// Sets the actor.
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = actor;
        self
    }

    /// Sets the cause.
    #[must_use]
    pub const fn caused_by(mut self, seq: Seq) -> Self {
        self.cause = Some(seq);
        self
    }

    /// Adds a taint label.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.labels.insert(label.to_owned());
        self
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// What happened. Kinds of later versions decode as [`Kind::Other`] and pass through.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* #[doc = concat!("`", $name, "`")] $variant,)+
            /// A kind that this version does not know.
            Other(Box<str>),
        }

        impl Kind {
            /// Every kind this version knows.
            pub const KNOWN: &'static [Self] = &[$(Self::$variant),+];

            /// The dotted name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Other(name) => name,
                }
            }
        }

        impl FromStr for Kind {
            type Err = KindError;

            fn from_str(text: &str) -> Result<Self, KindError> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    other if is_kind_name(other) => Ok(Self::Other(other.into())),
                    _ => Err(KindError),
                }
            }
        }
    };
}

kinds! {
    SessionCreated = "session.created",
    SessionResumed = "session.resumed",
    SessionClosed = "session.closed",
    SessionImported = "session.imported",
    SessionModeChanged = "session.mode_changed",
    KernelStarted = "kernel.started",
    KernelStopped = "kernel.stopped",
    BranchForked = "branch.forked",
    BranchMerged = "branch.merged",
    WorkspaceFrozen = "workspace.frozen",
    WorkspaceSealed = "workspace.sealed",
    WorkspaceRolledBack = "workspace.rolled_back",
    MergeProposed = "merge.proposed",
    MergeApproved = "merge.approved",
    MergeRejected = "merge.rejected",
    MergeApplied = "merge.applied",
    MergeFailed = "merge.failed",
    CommitCreated = "commit.created",
    TurnStarted = "turn.started",
    TurnCompleted = "turn.completed",
    TurnFailed = "turn.failed",
    TurnCancelled = "turn.cancelled",
    TurnInterrupted = "turn.interrupted",
    PhaseEntered = "phase.entered",
    StateEstimated = "state.estimated",
    BudgetCharged = "budget.charged",
    BudgetExhausted = "budget.exhausted",
    BreakerOpened = "breaker.opened",
    BreakerClosed = "breaker.closed",
    CheckpointCreated = "checkpoint.created",
    Heartbeat = "heartbeat",
    MessageReceived = "message.received",
    ModelRequested = "model.requested",
    ModelPartial = "model.partial",
    ModelCompleted = "model.completed",
    ModelFailed = "model.failed",
    ContextCompacted = "context.compacted",
    ContextPinned = "context.pinned",
    ToolProposed = "tool.proposed",
    ToolStarted = "tool.started",
    ToolCompleted = "tool.completed",
    ToolFailed = "tool.failed",
    ToolDenied = "tool.denied",
    ToolCancelled = "tool.cancelled",
    ToolTimedOut = "tool.timed_out",
    FileMutated = "file.mutated",
    PolicyDecided = "policy.decided",
    PolicyProposed = "policy.proposed",
    PolicyUpdated = "policy.updated",
    GrantIssued = "grant.issued",
    GrantUsed = "grant.used",
    GrantExpired = "grant.expired",
    GrantRevoked = "grant.revoked",
    ApprovalRequested = "approval.requested",
    ApprovalAnswered = "approval.answered",
    ApprovalResolved = "approval.resolved",
    SandboxCreated = "sandbox.created",
    SandboxFailed = "sandbox.failed",
    SandboxDestroyed = "sandbox.destroyed",
    SandboxExamined = "sandbox.examined",
    EgressConnected = "egress.connected",
    EgressDenied = "egress.denied",
    WorkflowTransitioned = "workflow.transitioned",
    WorkflowExemptionRequested = "workflow.exemption_requested",
    WorkflowExemptionDecided = "workflow.exemption_decided",
    TestEvidence = "test.evidence",
    DebtUpdated = "debt.updated",
    PlanRegistered = "plan.registered",
    PlanRefused = "plan.refused",
    PlanRendered = "plan.rendered",
    PlanPreviewed = "plan.previewed",
    PlanRolledBack = "plan.rolled_back",
    PlanEvent = "plan.event",
    PlanStateChanged = "plan.state_changed",
    PlanHistoryCleared = "plan.history_cleared",
    ObservationExtracted = "observation.extracted",
    SoulUpdated = "soul.updated",
    VoiceStarted = "voice.started",
    VoiceInput = "voice.input",
    VoiceOutput = "voice.output",
    VoiceTranscribed = "voice.transcribed",
    VoiceInterrupted = "voice.interrupted",
    VoiceStopped = "voice.stopped",
    VoiceFailed = "voice.failed",
    PluginRegistered = "plugin.registered",
    PluginRejected = "plugin.rejected",
    PluginLoaded = "plugin.loaded",
    PluginDisabled = "plugin.disabled",
    PluginUnloaded = "plugin.unloaded",
    TenantCreated = "tenant.created",
    TenantUpdated = "tenant.updated",
    TenantDisabled = "tenant.disabled",
    KeyCreated = "key.created",
    KeyRevoked = "key.revoked",
    QuotaThrottled = "quota.throttled",
    LogRecovered = "log.recovered",
    LogQuarantined = "log.quarantined",
    LogStorageWarning = "log.storage_warning",
    LogStorageCritical = "log.storage_critical",
    LogArchiveDeleted = "log.archive_deleted",
    LogErased = "log.erased",
    LogHeadSigned = "log.head_signed",
    LogChainBroken = "log.chain_broken",
}

/// A text that is no dotted kind name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindError;

impl fmt::Display for KindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event kind is dotted lower-case words of at most 64 bytes")
    }
}

impl std::error::Error for KindError {}

fn is_kind_name(text: &str) -> bool {
    text.len() <= 64
        && text.split('.').all(|word| {
            !word.is_empty()
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
}

impl Kind {
    /// Whether this ends a tool call.
    #[must_use]
    pub const fn ends_call(&self) -> bool {
        matches!(
            self,
            Self::ToolCompleted
                | Self::ToolFailed
                | Self::ToolDenied
                | Self::ToolCancelled
                | Self::ToolTimedOut
        )
    }

    /// Whether this ends a turn.
    #[must_use]
    pub const fn ends_turn(&self) -> bool {
        matches!(
            self,
            Self::TurnCompleted | Self::TurnFailed | Self::TurnCancelled | Self::TurnInterrupted
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

text_schema!(Kind, "Kind", "^[a-z0-9_]+(\\.[a-z0-9_]+)*$", "What happened: dotted words.");

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_kind_survives_its_name() {
        for kind in Kind::KNOWN {
            assert_eq!(kind.as_str().parse::<Kind>().unwrap(), *kind);
            assert!(is_kind_name(kind.as_str()), "{kind}");
        }
    }

    #[test]
    fn unknown_kinds_pass_and_bad_names_do_not() {
        let later: Kind = "later.happened".parse().unwrap();
        assert_eq!(later.as_str(), "later.happened");
        for bad in ["", ".", "a.", "A.b", "a b", "a..b", &"x".repeat(65)] {
            assert!(bad.parse::<Kind>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn json_shape_is_the_contract() {
        let text = concat!(
            r#"{"v":1,"tenant":"local","session":"s_8f2k","branch":"b_3k9q","seq":17,"#,
            r#""time_us":1790000000000000,"kind":"tool.completed","actor":{"type":"kernel","id":"kernel"},"#,
            r#""cause":14,"trace":"4bf9","labels":["repo"],"body":{"call":"c14"},"body_hash":"sha256:"#,
            "0000000000000000000000000000000000000000000000000000000000000000",
            r#"","prev":"sha256:"#,
            "0000000000000000000000000000000000000000000000000000000000000000",
            r#"","hash":"sha256:"#,
            "0000000000000000000000000000000000000000000000000000000000000000",
            r#""}"#
        );
        let event: Event = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
        assert!(event.kind().ends_call());
    }

    #[test]
    fn hashes_are_fixed_for_ever() {
        let body = body_hash(&[7; SALT_BYTES], br#"{"a":1}"#);
        let event = event_hash(&Digest::ZERO, br#"{"v":1}"#);
        assert_eq!(body.hex(), "ce132540da8e80b34ea9c0fc617b82dbd2fa312b31ae9e43afe67c2c532715b2");
        assert_eq!(event.hex(), "8bed170f7efa0f5131cd8c710b50e24e747a9a503e60e15e056e10d24e223d78");
    }
}
