//! The network of a sandbox: every connection is the syscall `net.connect` of the call that runs,
//! decided by the same policy as the call, and recorded before anything depends on it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use glasshouse_log::{Append, Log};
use glasshouse_model::body::{Egress as Connection, PolicyDecided};
use glasshouse_model::syscall::name;
use glasshouse_model::{BranchId, Call, CallId, Draft, Effect, Kind, Principal, SessionId};
use glasshouse_policy::{Consent, Policy, Request};
use glasshouse_provider::Secret;
use glasshouse_sandbox::egress::{
    AllowList, BoundSecret, Egress, EgressGate, EgressRecord, EgressRequest, EgressVerdict,
    PLACEHOLDER, ViaProxy,
};
use glasshouse_tools::sanitise::Masker;
use tokio::sync::mpsc;

use super::decide::{masked, now_us};
use super::demands::{Place, of_connection};
use super::lock;
use super::rates::Rates;
use super::rules::PolicyText;
use crate::Result;
use crate::session::WEB;

/// Name of the rules that `--allow-host` makes, in explanations.
const ALLOWED_BY_HAND: &str = "--allow-host";
/// How long an event of a connection may take to be recorded before the connection is refused.
const RECORD_LIMIT: Duration = Duration::from_secs(10);
/// Events that wait to be recorded; whoever has more to say waits with them.
const MAX_WAITING: usize = 64;
/// Most connections of one call that its result names.
const MAX_TOLD: usize = 1000;
/// Longest path that an event keeps; rules have seen all of it.
const MAX_PATH_BYTES: usize = 1024;

/// How this machine's user reaches the network. Never from a project: whoever sets this says where
/// keys go.
#[derive(Debug, Clone, Default)]
pub struct NetworkSettings {
    /// Keys that commands may use without having them.
    pub credentials: Vec<Credential>,
    /// The proxy that is the host's only way out, as `http://HOST:PORT`.
    pub upstream_proxy: Option<String>,
    /// Certificate authorities besides the public ones, as PEM.
    pub roots_pem: Vec<String>,
}

/// A key and the one host that may have it.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Name: of the variable that holds the placeholder inside.
    pub name: String,
    /// Host.
    pub host: String,
    /// Its TLS port.
    pub port: u16,
    /// The key.
    pub value: Secret,
}

impl NetworkSettings {
    /// What a proxy works with, behind a gate.
    fn egress(&self, gate: Arc<Gate>) -> Result<Egress> {
        let mut egress = Egress::new(gate);
        egress.secrets = self
            .credentials
            .iter()
            .map(|key| BoundSecret::new(&key.name, &key.host, key.port, key.value.expose()))
            .collect::<glasshouse_sandbox::Result<_>>()?;
        egress.roots_pem.clone_from(&self.roots_pem);
        if let Some(url) = &self.upstream_proxy {
            egress.dialer = Arc::new(ViaProxy::parse(url)?);
        }
        Ok(egress)
    }

    /// Placeholders where programs look for keys.
    fn environment(&self) -> impl Iterator<Item = (String, String)> {
        self.credentials.iter().map(|key| (key.name.clone(), format!("{PLACEHOLDER}{}", key.name)))
    }
}

/// Appends events and answers whether they are durable.
pub(super) type Sink = Box<dyn Fn(Vec<Draft>) -> bool + Send + Sync>;

/// The call that a sandbox runs now.
pub(super) struct Running {
    pub(super) call: CallId,
    /// Workflow state it started in.
    pub(super) state: Option<String>,
    /// Taint of what the call derives from.
    pub(super) labels: BTreeSet<String>,
    /// Isolation of the sandbox that it runs in.
    pub(super) isolation: String,
}

/// The network of the sandboxes of one branch.
pub(super) struct Network {
    gate: Arc<Gate>,
    settings: NetworkSettings,
}

/// Decides and records the connections of the call that runs.
struct Gate {
    policy: Arc<Policy>,
    masker: Arc<Masker>,
    rates: Arc<Mutex<Rates>>,
    caller: Principal,
    session: SessionId,
    sink: Sink,
    /// Held for reading while something is decided or recorded.
    running: RwLock<Option<Running>>,
    /// Whether the running call has reached something.
    reached: AtomicBool,
    /// The connections of the running call, as far as they are told.
    told: Mutex<Vec<Connection>>,
}

/// What a call did with its network.
pub(super) struct Used {
    /// Whether it reached anything.
    pub(super) reached: bool,
    /// Its connections, the first thousand; the log has all.
    pub(super) connections: Vec<Connection>,
}

impl Network {
    pub(super) fn new(
        (policy, masker, rates): (Arc<Policy>, Arc<Masker>, Arc<Mutex<Rates>>),
        (caller, session): (Principal, SessionId),
        settings: NetworkSettings,
        sink: Sink,
    ) -> Self {
        let gate = Gate {
            policy,
            masker,
            rates,
            caller,
            session,
            sink,
            running: RwLock::new(None),
            reached: AtomicBool::new(false),
            told: Mutex::default(),
        };
        Self { gate: Arc::new(gate), settings }
    }

    /// What a sandbox's proxy works with.
    ///
    /// # Errors
    /// `egress_invalid` for settings that cannot be used.
    pub(super) fn egress(&self) -> Result<Egress> {
        self.settings.egress(Arc::clone(&self.gate))
    }

    /// Variables of a sandbox with a network. What keeps tools offline elsewhere is not set in it.
    pub(super) fn environment(&self, mut env: Vec<(String, String)>) -> Vec<(String, String)> {
        env.retain(|(name, _)| !glasshouse_sandbox::toolchain::OFFLINE.contains(&name.as_str()));
        env.extend(self.settings.environment());
        env
    }

    /// From here on connections are those of this call.
    pub(super) fn begin(&self, running: Running) {
        self.gate.reached.store(false, Ordering::Release);
        lock(&self.gate.told).clear();
        *self.gate.write() = Some(running);
    }

    /// The call has no connection left.
    pub(super) fn end(&self) -> Used {
        *self.gate.write() = None;
        let reached = self.gate.reached.swap(false, Ordering::AcqRel);
        Used { reached, connections: std::mem::take(&mut *lock(&self.gate.told)) }
    }
}

impl Gate {
    fn read(&self) -> RwLockReadGuard<'_, Option<Running>> {
        self.running.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Running>> {
        self.running.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, running: &Running, request: &EgressRequest) -> Call {
        let mut call = Call::new(name::NET_CONNECT, self.caller.clone());
        call.session = Some(self.session.clone());
        call.state.clone_from(&running.state);
        call.labels.clone_from(&running.labels);
        // A command that has reached the network hands on what it read there.
        if self.reached.load(Ordering::Acquire) {
            call.labels.insert(WEB.to_owned());
        }
        // A rule writes an IPv6 address without its brackets.
        call.host = Some(request.host.to_string().trim_matches(['[', ']']).to_owned());
        call.port = Some(request.port);
        call.method = Some(request.method.clone());
        call.http_path.clone_from(&request.path);
        call
    }
}

impl EgressGate for Gate {
    fn decide(&self, request: &EgressRequest) -> EgressVerdict {
        let running = self.read();
        // What comes after the end of a command is nobody's.
        let Some(running) = running.as_ref() else { return EgressVerdict::Deny };
        let call = self.call(running, request);
        let decision =
            glasshouse_policy::decide(&self.policy, &Request::new(&call, now_us())).decision;
        let place = Place::Sandbox { has_network: true, isolation: Some(&running.isolation) };
        let decision = lock(&self.rates).hold(of_connection(decision, place), now_us());
        let effect = decision.effect;
        let target = format!("{} {}:{}", request.method, request.host, request.port);
        let body = PolicyDecided::new(Some(running.call), call, Some(target), decision);
        let body = masked(&self.masker, body);
        let draft = Draft::new(Kind::PolicyDecided, &body).caused_by(running.call.0);
        // Durable before anything leaves; what cannot be recorded does not happen.
        if !(self.sink)(vec![draft]) {
            return EgressVerdict::Deny;
        }
        match effect {
            Effect::Allow => {
                self.reached.store(true, Ordering::Release);
                EgressVerdict::Allow
            }
            Effect::RequireReview => EgressVerdict::Review,
            Effect::Deny => EgressVerdict::Deny,
        }
    }

    fn record(&self, record: &EgressRecord) {
        let running = self.read();
        let Some(running) = running.as_ref() else { return };
        let (body, draft) = ended(&self.masker, Some(running.call), record);
        let mut told = lock(&self.told);
        if told.len() < MAX_TOLD {
            told.push(body);
        }
        drop(told);
        // Its connection is over or was never made: there is nothing left to refuse.
        let _ = (self.sink)(vec![draft]);
    }
}

/// A connection that is over, or that was never made, and its event.
pub(super) fn ended(
    masker: &Masker,
    call: Option<CallId>,
    record: &EgressRecord,
) -> (Connection, Draft) {
    let body = told(masker, call, record);
    // One that was cut short has brought what it brought.
    let draft = match record.address {
        Some(_) => Draft::new(Kind::EgressConnected, &body).label(WEB),
        None => Draft::new(Kind::EgressDenied, &body),
    };
    let draft = match call {
        Some(call) => draft.caused_by(call.0),
        None => draft,
    };
    (body, draft)
}

/// A connection as events tell it.
fn told(masker: &Masker, call: Option<CallId>, record: &EgressRecord) -> Connection {
    let mask = |text: &str| masker.mask_str(text);
    let host = record.host.as_ref().map(ToString::to_string).unwrap_or_default();
    Connection {
        call,
        host: mask(&host),
        port: record.port,
        method: mask(&record.method),
        path: record.path.as_deref().map(|path| cut(mask(path))),
        address: record.address.map(|address| address.to_string()),
        code: record.denial.map(|denial| denial.as_str().to_owned()),
        sent_bytes: record.sent_bytes,
        received_bytes: record.received_bytes,
        duration_us: record.duration_us,
    }
}

fn cut(mut path: String) -> String {
    path.truncate(path.floor_char_boundary(MAX_PATH_BYTES));
    path
}

/// Events on their way to the only writer of a branch.
pub(super) struct Said {
    pub(super) drafts: Vec<Draft>,
    /// Told when they are durable; dropped when they are not.
    pub(super) done: std::sync::mpsc::SyncSender<()>,
}

/// A sink that hands events to the turn of a session, and where the turn takes them.
pub(super) fn to_the_turn() -> (Sink, mpsc::Receiver<Said>) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let sink = move |drafts| {
        let (done, recorded) = std::sync::mpsc::sync_channel(1);
        // A full queue means that the turn does not take them.
        sender.try_send(Said { drafts, done }).is_ok()
            && recorded.recv_timeout(RECORD_LIMIT).is_ok()
    };
    (Box::new(sink), receiver)
}

/// A sink that appends to a branch that nobody else writes with an expectation of its head.
pub(super) fn to_the_log(log: Log, session: SessionId, branch: BranchId) -> Sink {
    Box::new(move |events| {
        let append = Append {
            session: session.clone(),
            branch: branch.clone(),
            events,
            expected_head: None,
            idempotency_key: None,
            epoch: None,
            cells: Vec::new(),
        };
        log.append(append).is_ok()
    })
}

/// The rules that a person gives with a command: hosts, each with its ports.
///
/// # Errors
/// `egress_invalid` for what is no host or opens too much.
pub(super) fn allowed_by_hand(hosts: &[String]) -> Result<PolicyText> {
    let list = AllowList::parse(hosts.iter().map(String::as_str))?;
    let rules: Vec<_> = list
        .entries()
        .enumerate()
        .map(|(number, (host, ports))| {
            serde_json::json!({
                "name": format!("allow-host-{}", number + 1),
                "match": { "syscall": name::NET_CONNECT, "caller": "user", "host": host, "port": ports },
                "action": "allow",
                "reason": "a person allowed this host for this command",
            })
        })
        .collect();
    // JSON is YAML.
    let text = serde_json::json!({ "version": 1, "capabilities": rules }).to_string();
    Ok(PolicyText { name: ALLOWED_BY_HAND.to_owned(), text, consent: Consent::Joint })
}
