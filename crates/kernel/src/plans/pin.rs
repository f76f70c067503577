//! `ui pin`: fetches every module that a plan leads to, and writes their digests into it.
//!
//! Each connection is decided (`ui.import`) and recorded before it is made, and goes through an egress proxy of its own that
//! lets exactly that host through; each step of a redirect is a new connection. What was fetched is read by
//! the compiler in its sandbox, and run by nobody.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_model::body::PolicyDecided;
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Draft, Effect, Kind as EventKind, Principal};
use glasshouse_plan::json::Json;
use glasshouse_plan::module::{Resolver, at_host};
use glasshouse_plan::{Plan, Profile, ProfileName};
use glasshouse_policy::Policy;
use glasshouse_sandbox::egress::Denial;
use glasshouse_script::{
    Error as ScriptError, Finding, Found, Graph, Integrity, Kind, Library, Result as ScriptResult,
    codes,
};
use glasshouse_tools::sanitise::Masker;
use glasshouse_tools::{FetchLimits, Page, Url};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Plans;
use super::aside::append_aside;
use super::bounds::graph_limits;
use super::code::Coder;
use super::modules::{Lock, MAX_MODULE_BYTES, ModuleCache};
use crate::driver::{self, Cancel, NoPage, Outside, Place, decide_uncounted, masked};
use crate::{Error, Result};

/// Longest fetch of one module from one host.
const FETCH: Duration = Duration::from_secs(12);
/// How long a host may say nothing.
const IDLE: Duration = Duration::from_secs(6);
/// How often one host is asked again after it failed, and the wait in between.
const RETRIES: u32 = 2;
const BACKOFF: Duration = Duration::from_millis(150);
/// Most steps that a host may send on.
const MAX_REDIRECTS: usize = 5;
/// Most hosts to fall back to.
const MAX_FALLBACKS: usize = 4;

/// The member of a plan that locks modules.
const MANIFEST: &str = "moduleManifest";

/// How a plan is pinned.
#[derive(Debug, Clone, Default)]
pub struct PinOptions {
    /// Hosts that are asked when the first one fails, as `https://esm.sh`.
    pub fallbacks: Vec<String>,
    /// Whether digests that the plan already has are replaced.
    pub refresh: bool,
    /// Whether nothing is fetched.
    pub offline: bool,
    /// Addresses by the names that import them, for names that the plan itself does not place.
    pub map: BTreeMap<String, String>,
}

/// One module that was pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PinnedModule {
    /// Where it is.
    pub address: String,
    /// What it is.
    pub kind: &'static str,
    /// Its digest; none of what is only named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// Its size.
    pub bytes: usize,
    /// What imports it first, from the plan on.
    pub chain: Vec<String>,
}

/// A plan that locks all its modules.
#[derive(Debug)]
pub struct Pinning {
    /// The plan's text.
    pub text: String,
    /// The modules.
    pub modules: Vec<PinnedModule>,
    /// How many were fetched now.
    pub fetched: usize,
}

impl Plans {
    /// Fetches every module that a plan leads to and writes their digests into it. The connections are
    /// decided and recorded; the plan is not registered and nothing of it is run.
    ///
    /// # Errors
    /// `plan_unreadable`, `plan_refused` for a plan that the profile does not accept in what modules do not
    /// change; those of the modules, such as `script_module_unavailable`; `cancelled`; the log's errors.
    pub fn pin(
        &mut self,
        text: &str,
        profile: ProfileName,
        options: &PinOptions,
    ) -> Result<Pinning> {
        let profile = glasshouse_plan::Profile::named(profile);
        let plan =
            glasshouse_plan::parse(text, &profile.limits()).map_err(|e| super::of_plan(&e))?;
        let home = RefCell::default();
        let pinner = Pinner {
            coder: &self.coder,
            policy: &self.policy,
            user: &self.user,
            outside: &self.outside,
            masker: &self.masker,
            profile: &profile,
            options,
            cancel: &self.cancel,
            record: &|events| append_aside(&self.log, &home, &events),
        };
        pinner.pin(&plan)
    }
}

/// What a pinning is done with.
struct Pinner<'p> {
    coder: &'p Coder,
    policy: &'p Policy,
    user: &'p Principal,
    outside: &'p Outside,
    masker: &'p Arc<Masker>,
    profile: &'p Profile,
    options: &'p PinOptions,
    cancel: &'p Cancel,
    /// Makes events durable.
    record: &'p dyn Fn(Vec<Draft>) -> Result<()>,
}

impl Pinner<'_> {
    fn pin(&self, plan: &Plan) -> Result<Pinning> {
        let mut lock = Lock::of(plan);
        for (name, address) in &self.options.map {
            lock.places.entry(name.clone()).or_insert_with(|| address.clone());
        }
        let fetching = Fetching {
            with: self,
            lock,
            cache: self.coder.cache(),
            unrecorded: RefCell::default(),
            fetched: RefCell::default(),
        };
        let mut pinned = self.pinned(plan, &fetching);
        if self.cancel.is_cancelled() && pinned.is_err() {
            pinned = Err(Error::new(crate::codes::CANCELLED, "the plan was not pinned")
                .why("it was stopped")
                .fix("run the command again; what was fetched is kept"));
        }
        match fetching.unrecorded.into_inner() {
            Some(error) => Err(error),
            None => pinned,
        }
    }

    fn pinned(&self, plan: &Plan, fetching: &Fetching<'_>) -> Result<Pinning> {
        if self.options.fallbacks.len() > MAX_FALLBACKS {
            let what = format!("at most {MAX_FALLBACKS} hosts are asked in the place of another");
            return Err(Error::new(crate::codes::USAGE, what));
        }
        let is_host = |host: &&String| {
            let rest = host.strip_prefix("https://").or_else(|| host.strip_prefix("http://"));
            rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some(host) = self.options.fallbacks.iter().find(is_host) {
            let what = format!("{host:?} is no host that can be asked");
            let error = Error::new(crate::codes::USAGE, what);
            return Err(error.fix("write its address, as in https://esm.sh"));
        }
        self.accepted(plan)?;
        let cancel = self.cancel.sandbox();
        let places = fetching.lock.places.clone();
        // What the source and the plan itself name, by name.
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        let worker = self.coder.worker()?;
        let mut runtime = glasshouse_script::Runtime::Renderify;
        if let Some(asked) = super::code::source(plan, &places) {
            runtime = asked.runtime;
            named.extend(worker.compile(&asked, cancel)?.module().named.clone());
        }
        let resolver = Resolver::default();
        for name in plan.imports().chain(plan.component_modules()) {
            let place = places.get(name).map_or(name, String::as_str);
            let resolved = resolver.resolve(place).map_err(|error| super::of_plan(&error))?;
            named.insert(name.to_owned(), resolved);
        }
        let roots: Vec<String> = named.values().cloned().collect();
        let limits = graph_limits(plan, self.profile);
        let finding = Finding { library: fetching, manifest: &places, limits, runtime };
        let graph = worker.graph(&roots, &finding, cancel)?;
        let text = written(plan, &named, &graph)?;
        let modules = graph.nodes.iter().map(|node| PinnedModule {
            address: node.found.address.clone(),
            kind: node.found.kind.as_str(),
            integrity: integrity_of(&node.found).map(|it| it.to_string()),
            bytes: node.found.bytes.len(),
            chain: node.chain.clone(),
        });
        Ok(Pinning { text, modules: modules.collect(), fetched: *fetching.fetched.borrow() })
    }
}

impl Pinner<'_> {
    /// Refuses a plan before anything is fetched for it, in everything but what pinning is to mend.
    fn accepted(&self, plan: &Plan) -> Result<()> {
        let mut profile = self.profile.clone();
        profile.require_module_manifest_for_bare_specifiers = false;
        profile.require_module_integrity = false;
        let source = plan.source();
        let text = |key: &str| source.and_then(|it| it.get(key)?.as_text()).unwrap_or_default();
        let scanned = glasshouse_plan::source::scan(text("code"), text("language")).imports;
        let names = plan.imports().chain(plan.component_modules());
        let names = names.chain(scanned.iter().map(String::as_str));
        let map = self.options.map.iter().map(|(name, at)| (name.clone(), at.as_str().into()));
        let resolver = Resolver::default().with_map(map.collect());
        let named = names.filter(|name| plan.manifest_entry(name).is_none());
        let named = named.filter_map(|name| Some((name.to_owned(), resolver.resolve(name).ok()?)));
        let text = written(plan, &named.collect(), &Graph::default())?;
        let assumed = glasshouse_plan::parse(&text, &profile.limits());
        let assumed = assumed.map_err(|error| super::of_plan(&error))?;
        // Its source is compiled before anything is fetched for it.
        let lanes = [super::LANES, super::code::LANES_OF_BROWSERS].concat();
        let mut report = glasshouse_plan::check_to_run(&assumed, &profile, &lanes);
        // Who pins already is not told to.
        for issue in &mut report.issues {
            if issue.code == glasshouse_plan::codes::MODULE_DENIED.name {
                let fix = other_host(&profile);
                issue.fix =
                    format!("{fix}; what is in a file beside the plan goes into its source");
            }
        }
        if report.safe { Ok(()) } else { Err(super::refused(&report)) }
    }
}

fn integrity_of(found: &Found) -> Option<Integrity> {
    (found.kind != Kind::Asset).then(|| Integrity::of(&found.bytes))
}

/// The plan with an entry for every module of the graph.
fn written(plan: &Plan, named: &BTreeMap<String, String>, graph: &Graph) -> Result<String> {
    let manifest = plan.json().get(MANIFEST).map(Json::to_value);
    let mut manifest = match manifest {
        Some(Value::Object(entries)) => entries,
        _ => Map::new(),
    };
    let mut set = |name: &str, place: &str, found: Option<&Found>| {
        let entry = manifest.entry(name.to_owned()).or_insert_with(|| json!({}));
        let Value::Object(entry) = entry else { return };
        entry.insert("resolvedUrl".to_owned(), place.into());
        entry.remove("integrity");
        if let Some(found) = found {
            entry.insert("type".to_owned(), found.kind.as_str().into());
            if let Some(integrity) = integrity_of(found) {
                entry.insert("integrity".to_owned(), integrity.to_string().into());
            }
        }
    };
    let at = |address: &str| graph.nodes.iter().find(|node| node.asked == address);
    for (name, address) in named {
        let found = at(address).map(|node| &node.found);
        set(name, found.map_or(address.as_str(), |found| found.address.as_str()), found);
    }
    for node in &graph.nodes {
        set(&node.asked, &node.found.address, Some(&node.found));
        set(&node.found.address, &node.found.address, Some(&node.found));
    }
    let unwritable = |e: serde_json::Error| {
        Error::new(crate::codes::PLAN_UNREADABLE, "the plan cannot be written").why(e)
    };
    let mut parts = Vec::new();
    let mut part = |key: &str, value: String| {
        // Texts in JSON hold no line breaks, so each one is between values.
        let value = value.replace('\n', "\n  ");
        parts.push(format!("  {}: {value}", Value::from(key)));
    };
    // Members keep their order: a person reads the plan again.
    for (key, value) in plan.json().as_object().into_iter().flatten() {
        if key != MANIFEST {
            part(key, serde_json::to_string_pretty(&value).map_err(unwritable)?);
        }
    }
    if !manifest.is_empty() {
        part(MANIFEST, serde_json::to_string_pretty(&manifest).map_err(unwritable)?);
    }
    Ok(format!("{{\n{}\n}}", parts.join(",\n")))
}

/// Modules from the cache where the plan locks them, and else from their hosts.
struct Fetching<'p> {
    with: &'p Pinner<'p>,
    lock: Lock,
    cache: &'p ModuleCache,
    /// Why something could not be recorded: nothing is fetched from then on.
    unrecorded: RefCell<Option<Error>>,
    fetched: RefCell<usize>,
}

impl Library for Fetching<'_> {
    fn get(&self, address: &str, attempt: usize) -> ScriptResult<Option<Found>> {
        let locked = self.lock.integrity(address)?.filter(|_| !self.with.options.refresh);
        let known = self.lock.kind(address);
        if known == Some(Kind::Asset) {
            let (address, kind) = (address.to_owned(), Kind::Asset);
            return Ok((attempt == 0).then_some(Found { address, kind, bytes: Arc::default() }));
        }
        if let (Some(integrity), 0) = (locked, attempt)
            && let Some(bytes) = self.cache.read(integrity)
        {
            let kind = known.unwrap_or(Kind::Script);
            let address = address.to_owned();
            return Ok(Some(Found { address, kind, bytes: Arc::new(bytes) }));
        }
        if self.with.cancel.is_cancelled() {
            return Err(unavailable(address, "it was stopped"));
        }
        if self.with.options.offline {
            return Err(unavailable(address, "it is not in the cache, and nothing is fetched")
                .fix("run it once without `--offline`: what is fetched stays in the cache"));
        }
        let fallbacks = self.with.options.fallbacks.iter();
        let mut places = vec![address.to_owned()];
        places.extend(fallbacks.filter_map(|host| at_host(address, host)));
        if attempt >= places.len() {
            return Ok(None);
        }
        let (mut why, mut fix) = (Vec::new(), None);
        for place in places.iter().skip(attempt) {
            match self.from(place, known) {
                Ok(found) => return self.taken(address, found, locked).map(Some),
                // A host that may not be asked is no reason to ask no other.
                Err(error) => {
                    let told = error.report();
                    let is_first = place == address;
                    why.push(if is_first { told.why } else { format!("{place}: {}", told.why) });
                    fix.get_or_insert(told.fix);
                }
            }
        }
        let error = unavailable(address, &why.join("; "));
        Err(match fix {
            Some(fix) => error.fix(fix),
            None => error,
        })
    }
}

/// What helps when a host does not answer.
const ASK_AGAIN: &str = "look whether this machine reaches the host, and run it again; `--fallback https://HOST` asks another host for the same module";

/// What helps when the profile does not allow a host.
fn other_host(profile: &Profile) -> String {
    format!(
        "import it by its name on npm, or from a host that the profile allows ({})",
        profile.allowed_network_hosts.join(", ")
    )
}

fn unavailable(address: &str, why: &str) -> ScriptError {
    ScriptError::new(codes::MODULE_UNAVAILABLE, format!("the module {address} cannot be had"))
        .why(why.to_owned())
}

impl Fetching<'_> {
    /// Compares what came with the lock, and keeps it.
    fn taken(&self, asked: &str, found: Found, locked: Option<&Integrity>) -> ScriptResult<Found> {
        if let Some(locked) = locked
            && !locked.holds(&found.bytes)
        {
            let got = locked.same(&found.bytes);
            let what = format!("the module {asked} has changed");
            return Err(ScriptError::new(codes::MODULE_CHANGED, what)
                .why(format!("the plan locks {locked}, {} has {got}", found.address))
                .with("locked", locked.to_string())
                .with("found", got.to_string()));
        }
        for integrity in locked.cloned().into_iter().chain([Integrity::of(&found.bytes)]) {
            self.cache
                .keep(&integrity, &found.bytes)
                .map_err(|error| unavailable(asked, "it cannot be kept").why(error))?;
        }
        *self.fetched.borrow_mut() += 1;
        Ok(found)
    }

    /// A module from one place, asked for again when its host fails.
    fn from(&self, place: &str, known: Option<Kind>) -> ScriptResult<Found> {
        let until = Instant::now() + FETCH;
        let mut tried = 0;
        loop {
            let failed = match self.once(place, known, until) {
                Ok(found) => return Ok(found),
                Err(Tried::Final(error)) => return Err(error),
                Err(Tried::Again(error)) => error,
            };
            tried += 1;
            let wait = BACKOFF * tried;
            let is_over = self.with.cancel.is_cancelled() || Instant::now() + wait >= until;
            if tried > RETRIES || is_over {
                return Err(failed);
            }
            std::thread::sleep(wait);
        }
    }

    fn once(&self, place: &str, known: Option<Kind>, until: Instant) -> Result<Found, Tried> {
        let mut at = place.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            if !self.with.profile.allows_specifier(&at) {
                let why = "the profile does not allow its host";
                let fix = other_host(self.with.profile);
                return Err(Tried::Final(unavailable(&at, why).fix(fix)));
            }
            let url =
                Url::parse(&at).map_err(|e| Tried::Final(unavailable(&at, &e.to_string())))?;
            let page = self.page(&url, until)?;
            match (page.status, &page.location) {
                (200, _) => return found(at, known, page),
                (301 | 302 | 303 | 307 | 308, Some(on)) => {
                    let next = glasshouse_plan::module::join(&at, on);
                    // Nobody who reads the way may choose the bytes.
                    let weaker = |next: &String| is_secure(&at) && !is_secure(next);
                    at = next.filter(|next| !weaker(next)).ok_or_else(|| {
                        Tried::Final(unavailable(&at, &format!("it sends on to {on:?}")))
                    })?;
                }
                (408 | 425 | 429 | 500..=599, _) => {
                    let why = format!("its host answers {}", page.status);
                    return Err(Tried::Again(unavailable(&at, &why).fix(ASK_AGAIN)));
                }
                (status, _) => {
                    let why = format!("its host answers {status}");
                    return Err(Tried::Final(unavailable(&at, &why)));
                }
            }
        }
        let why = format!("its host sends on more than {MAX_REDIRECTS} times");
        Err(Tried::Final(unavailable(place, &why)))
    }

    /// Makes events durable, or ends the pinning.
    fn record(&self, url: &Url, events: Vec<Draft>) -> Result<(), Tried> {
        (self.with.record)(events).map_err(|error| {
            self.unrecorded.replace(Some(error));
            Tried::Final(unavailable(&url.to_string(), "what is done for it cannot be recorded"))
        })
    }

    /// One exchange with one host, decided before it and recorded.
    fn page(&self, url: &Url, until: Instant) -> Result<Page, Tried> {
        let with = self.with;
        let refused = |why: &str| Tried::Final(unavailable(&url.to_string(), why));
        if self.unrecorded.borrow().is_some() {
            return Err(refused("something cannot be recorded"));
        }
        let mut call = Call::new(name::UI_IMPORT, with.user.clone());
        call.host = Some(url.host().to_owned());
        call.port = Some(url.port());
        call.http_path = Some(url.path().to_owned());
        let decision = decide_uncounted(with.policy, &call, Place::Kernel);
        let denied = (decision.effect != Effect::Allow).then(|| decision.why());
        // What is in an address may be a key.
        let decided = PolicyDecided::new(None, call, Some(url.to_string()), decision);
        let decided = masked(with.masker, decided);
        // Durable before anything leaves.
        self.record(url, vec![Draft::new(EventKind::PolicyDecided, &decided)])?;
        if let Some(why) = denied {
            return Err(refused(&format!("the policy does not allow it: {why}")));
        }
        let left = until.saturating_duration_since(Instant::now());
        let limits = FetchLimits { bytes: MAX_MODULE_BYTES, total: left, idle: IDLE.min(left) };
        let outside = (with.outside, with.masker);
        let (ended, page) = driver::page(None, url, outside, limits, with.cancel);
        if !ended.is_empty() {
            self.record(url, ended)?;
        }
        page.map_err(|no| match no {
            NoPage::Refused(word) => no_way(url, &word),
            NoPage::Failed(error) => {
                Tried::Again(unavailable(&url.to_string(), &error.to_string()).fix(ASK_AGAIN))
            }
        })
    }
}

/// A connection that the egress proxy did not make: where there is no network, that is all that is to tell.
fn no_way(url: &Url, word: &str) -> Tried {
    let denial = Denial::ALL.into_iter().find(|denial| denial.as_str() == word);
    let why = denial.map_or_else(|| word.to_owned(), |denial| denial.why().to_owned());
    let error = unavailable(&url.to_string(), &format!("{}: {why} ({word})", url.host()));
    Tried::Final(match denial {
        Some(Denial::Unresolvable | Denial::Unreachable | Denial::TimedOut) => error.fix(ASK_AGAIN),
        _ => error,
    })
}

fn is_secure(address: &str) -> bool {
    address.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Why a place gave nothing.
enum Tried {
    /// It may give something when it is asked again.
    Again(ScriptError),
    Final(ScriptError),
}

/// The module of a whole answer.
fn found(address: String, known: Option<Kind>, page: Page) -> Result<Found, Tried> {
    if page.is_cut {
        let why = format!("it is larger than {MAX_MODULE_BYTES} bytes");
        return Err(Tried::Final(unavailable(&address, &why)));
    }
    let served = Kind::of_content(&page.content_type);
    let kind = known.or_else(|| Kind::of_address(&address)).or(served);
    let (Some(kind), true) = (kind, served.is_some() || known.is_some_and(|k| k != Kind::Script))
    else {
        let why = format!("its host answers with {:?}", page.content_type);
        return Err(Tried::Again(unavailable(&address, &why)));
    };
    Ok(Found { address, kind, bytes: Arc::new(page.body) })
}
