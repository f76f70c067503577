//! Component nodes and imports of a plan: where its profile accepts code, the modules that it locks run, and
//! what components make takes the place of their nodes.
//!
//! A component is a function `(props, context, children)` that makes a node, a text or a list of them. What
//! it makes may hold components again; those are called in another round. A component that is not called, or
//! that fails, stays a node: the renderer shows its children with a note, and the record of the run says why.

use std::time::Duration;

use glasshouse_model::body::{PlanComponentFault, PlanComponents};
use glasshouse_plan::module::Resolver;
use glasshouse_plan::state::State;
use glasshouse_plan::template::{MAX_RESOLVED_BYTES, Scope};
use glasshouse_plan::{Event, Limits, Plan, Profile, Written};
use glasshouse_script::{
    DEFAULT_EXPORT, Finding, Language, Makes, NODE_JS, Program, Receipt, Runtime, Source, Task,
    Worker, is_carried,
};
use glasshouse_tools::sanitise::Masker;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::bounds::{graph_limits, limits_of_run};
use super::code::{Coder, stopped};
use super::modules::{Lock, Pinned};
use super::of_plan;
use super::work::Means;
use crate::Result;

/// Walks a tree and calls its components.
const WALK: &str = include_str!("components.js");
/// How often what components made is looked through for components again.
const MAX_ROUNDS: usize = 8;
/// Most faults that a record tells.
const MAX_FAULTS: usize = 20;
/// Longest text of one.
const MAX_TEXT_BYTES: usize = 512;
/// Components that a plan may call when it asks for no number.
const DEFAULT_INVOCATIONS: f64 = 200.0;

/// A plan whose components were called.
pub(super) struct Called {
    pub(super) receipt: Receipt,
    pub(super) record: PlanComponents,
    /// The plan with its templates filled in; `None` when nothing was called.
    filled: Option<Plan>,
    root: Value,
    names: Vec<Named>,
    /// Templates that the modules have.
    templates: Written,
}

impl Called {
    /// The plan with what its components made.
    ///
    /// # Errors
    /// Those of a plan that is read: components make what they like.
    pub(super) fn shown(mut self, plan: &Plan, profile: &Profile) -> Result<Plan> {
        let Some(filled) = self.filled else { return Ok(plan.clone()) };
        each(&mut self.root, &mut |node| {
            node.remove("failed");
        });
        // The renderer notes the imports that stay as not resolved; of those that are here and fail the record says why.
        let here: Vec<&str> = self.names.iter().map(|it| it.name.as_str()).collect();
        let shown = filled.after_components(self.root, (&here, &self.templates), &profile.limits());
        shown.map_err(|error| of_plan(&error))
    }
}

/// A module that a plan names, and where it is.
struct Named {
    name: String,
    address: String,
    is_locked: bool,
}

/// What one round of calls comes to.
#[derive(Deserialize)]
struct Round {
    root: Value,
    /// Between brackets a list of faults: what runs there has no say in how a text is written.
    faults: String,
    fault_count: u64,
}

impl Round {
    fn faults(&self) -> Vec<PlanComponentFault> {
        serde_json::from_str(&format!("[{}]", self.faults)).unwrap_or_default()
    }
}

impl Coder {
    /// Calls the components of a plan and loads its imports; `None` when it locks none of them, or when the
    /// profile accepts no code.
    pub(super) fn components(
        &self,
        plan: &Plan,
        (state, event): (&State, Option<&Event>),
        means: &Means<'_>,
        spent: Duration,
    ) -> Result<Option<Called>> {
        let lock = Lock::of(plan);
        let (names, unlocked) = named(plan, &lock, means.profile);
        if names.is_empty() {
            return Ok(None);
        }
        let ended = |error| stopped(means.cancel, error);
        let worker = self.worker()?;
        let library = Pinned { lock: &lock, cache: self.cache() };
        let finding = Finding {
            library: &library,
            manifest: &lock.places,
            limits: graph_limits(plan, means.profile),
            runtime: Runtime::Renderify,
        };
        let mut record = Record { told: PlanComponents::default(), masker: means.masker };
        for name in unlocked {
            let why = "the manifest has no entry with its digest";
            record.fault(&name, glasshouse_script::codes::MODULE_UNLOCKED.name, why);
        }
        let names = found(&worker, names, &finding, means, &mut record)?;
        let (program, templates) = linked(&worker, &names, &finding, means).map_err(ended)?;
        record.told.module.clone_from(&program.module().digest);
        let mut calls = Calls { means, plan, record, receipt: Receipt::default(), spent };
        let scope =
            Scope { state: &state.values, event, user_id: "anonymous", variables: &Map::new() };
        // Before anything runs: what components make is data, and no template.
        let filled = plan.filled(&scope, means.profile, &Limits::default()).unwrap_or(None);
        let mut root = filled.as_ref().unwrap_or(plan).json().to_value()["root"].take();
        if filled.is_some() {
            calls.rounds(&worker, (&program, &names), &mut root, (&scope, &templates))?;
        } else {
            let most = format!("templates fill in more than {MAX_RESOLVED_BYTES} bytes");
            calls.record.fault("", glasshouse_plan::codes::OUTPUT_TOO_LARGE.name, &most);
        }
        let Calls { record: Record { told: record, .. }, receipt, .. } = calls;
        Ok(Some(Called { receipt, record, filled, root, names, templates }))
    }
}

/// The record while it is made. It has room for so much, and for no secret.
struct Record<'m> {
    told: PlanComponents,
    masker: &'m Masker,
}

impl Record<'_> {
    fn fault(&mut self, module: &str, code: &str, why: &str) {
        let (module, code, why) = (module.to_owned(), code.to_owned(), why.to_owned());
        self.add(1, [PlanComponentFault { module, export: None, code, why }]);
    }

    /// Adds so many faults, of which some are told.
    fn add(&mut self, count: u64, faults: impl IntoIterator<Item = PlanComponentFault>) {
        self.told.fault_count = self.told.fault_count.saturating_add(count);
        let free = MAX_FAULTS.saturating_sub(self.told.faults.len());
        let kept = faults.into_iter().take(free).map(|fault| bounded(fault, self.masker));
        self.told.faults.extend(kept);
    }
}

/// The modules that imports and component nodes name and that are here to be run, and the names of the others.
/// None when there is nothing of others: what the program carries does nothing by itself. None, too, when the
/// profile accepts no code: a module of a plan is as much code as its source.
fn named(plan: &Plan, lock: &Lock, profile: &Profile) -> (Vec<Named>, Vec<String>) {
    let (mut names, mut unlocked) = (Vec::<Named>::new(), Vec::<String>::new());
    if plan.manifest().is_none() || !profile.allow_runtime_source_modules {
        return (names, unlocked);
    }
    let components = plan.component_modules();
    let resolver = Resolver::default();
    for name in plan.imports().chain(components.iter().copied()) {
        if names.iter().any(|known| known.name == name) || unlocked.iter().any(|it| it == name) {
            continue;
        }
        let address = match lock.places.get(name) {
            Some(place) => Some(place.clone()),
            None => resolver.resolve(name).ok(),
        };
        let address = address.map(|at| lock.places.get(&at).cloned().unwrap_or(at));
        let is_locked =
            address.as_ref().is_some_and(|at| matches!(lock.integrity(at), Ok(Some(_))));
        match address {
            Some(address) if is_locked || is_carried(&address) => {
                names.push(Named { name: name.to_owned(), address, is_locked });
            }
            _ => unlocked.push(name.to_owned()),
        }
    }
    let of_others = names.iter().any(|it| it.is_locked || components.contains(&it.name.as_str()));
    if of_others { (names, unlocked) } else { (Vec::new(), unlocked) }
}

/// Where the modules are that a plan's imports and components would run with.
pub(super) fn addresses(plan: &Plan, lock: &Lock, profile: &Profile) -> Vec<String> {
    named(plan, lock, profile).0.into_iter().map(|it| it.address).collect()
}

/// Those whose modules are all here. One that cannot be had is no reason to run no other.
fn found(
    worker: &Worker<'_>,
    mut names: Vec<Named>,
    finding: &Finding<'_>,
    means: &Means<'_>,
    record: &mut Record<'_>,
) -> Result<Vec<Named>> {
    let stop = means.cancel.sandbox();
    let address = |name: &Named| name.address.clone();
    // Each alone, which tells what is not here. Only where all that are here are too many together is it asked
    // which of them still fit.
    for is_sum in [false, true] {
        let all: Vec<String> = names.iter().map(address).collect();
        if worker.graph(&all, finding, stop).is_ok() {
            return Ok(names);
        }
        let mut good = Vec::new();
        for name in names {
            let before = if is_sum { good.iter().map(address).collect() } else { Vec::new() };
            let asked = [before, vec![address(&name)]].concat();
            match worker.graph(&asked, finding, stop) {
                Ok(_) => good.push(name),
                Err(error) if means.cancel.is_cancelled() => {
                    return Err(stopped(means.cancel, error));
                }
                Err(error) => record.fault(&name.name, error.code(), &error.to_string()),
            }
        }
        names = good;
    }
    Ok(names)
}

/// What calls the components, with all modules.
fn linked(
    worker: &Worker<'_>,
    names: &[Named],
    finding: &Finding<'_>,
    means: &Means<'_>,
) -> glasshouse_script::Result<(Program, Written)> {
    let stop = means.cancel.sandbox();
    let loads: String = names
        .iter()
        .map(|it| Value::from(it.name.as_str()))
        .map(|name| format!("  await load({name}, () => import({name}));\n"))
        .collect();
    let code = format!(
        "{NODE_JS}\n{WALK}\nexport default async (input) => {{\n{loads}  return walked(input);\n}};\n"
    );
    let source = Source::new(&code, Language::Js, Runtime::Renderify, finding.manifest);
    let program = worker.compile(&source, stop)?;
    let graph = worker.graph(program.wants(), finding, stop)?;
    let texts = graph.nodes.iter().filter_map(|node| std::str::from_utf8(&node.found.bytes).ok());
    let templates = Written::of(texts);
    Ok((program.with(&graph), templates))
}

/// Rounds of calls.
struct Calls<'c> {
    means: &'c Means<'c>,
    plan: &'c Plan,
    record: Record<'c>,
    /// Of all rounds together.
    receipt: Receipt,
    /// Time that the plan's source took of the plan's time.
    spent: Duration,
}

impl Calls<'_> {
    fn rounds(
        &mut self,
        worker: &Worker<'_>,
        (program, names): (&Program, &[Named]),
        root: &mut Value,
        (scope, templates): (&Scope<'_>, &Written),
    ) -> Result<()> {
        let mut room = MAX_RESOLVED_BYTES;
        for _ in 0..MAX_ROUNDS {
            each(root, &mut |node| {
                if is_open(node)
                    && let Some(props) = node.get_mut("props")
                {
                    templates.fill(props, scope, &mut room);
                }
            });
            // Counted here: what runs in there may say anything.
            let left = invocations(self.plan, self.means.profile);
            let left = left.saturating_sub(self.record.told.called);
            let due = due(root, names).min(left);
            let Some(round) = self.round(worker, program, root, (scope, left))? else {
                return Ok(());
            };
            self.record.told.called += due;
            self.record.add(round.fault_count, round.faults().into_iter().map(of_code));
            *root = round.root;
            if !has_open(root) {
                return Ok(());
            }
        }
        let most = format!("they make components more than {MAX_ROUNDS} times in each other");
        self.record.fault("", glasshouse_plan::codes::COMPONENT_LIMIT.name, &most);
        Ok(())
    }

    /// `None` when all of it failed; the record says why.
    fn round(
        &mut self,
        worker: &Worker<'_>,
        program: &Program,
        root: &Value,
        (scope, left): (&Scope<'_>, u64),
    ) -> Result<Option<Round>> {
        let means = self.means;
        let whole = limits_of_run(self.plan, means);
        let spent = self.spent + Duration::from_micros(self.receipt.duration_us);
        let spent_ms = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
        let time_ms = whole.time_ms.saturating_sub(spent_ms).max(1);
        let context = json!({
            "userId": scope.user_id, "variables": scope.variables, "state": scope.state,
            "event": scope.event,
        });
        let task = Task {
            export: DEFAULT_EXPORT.to_owned(),
            or_default: false,
            makes: Makes::Data,
            runtime: Runtime::Renderify,
            input: json!({"root": root, "left": left, "context": context}),
            now_ms: means.moment.now_ms,
            seed: means.moment.seed,
            limits: glasshouse_script::Limits { time_ms, ..whole },
        };
        let ended = |error| stopped(means.cancel, error);
        let ran = worker.call(program, &task, means.cancel.sandbox()).map_err(ended)?;
        let is_cancelled = ran.receipt.killed == Some("cancelled");
        let so_far = std::mem::replace(&mut self.receipt, ran.receipt);
        self.receipt.duration_us += so_far.duration_us;
        self.receipt.cpu_us += so_far.cpu_us;
        let round = ran.node.and_then(|made| {
            serde_json::from_value(made).map_err(|why| {
                let code = glasshouse_script::codes::OUTPUT_INVALID;
                glasshouse_script::Error::new(code, "the components answer no tree").why(why)
            })
        });
        match round {
            Ok(round) => Ok(Some(round)),
            Err(error) if is_cancelled => Err(ended(error)),
            Err(error) => {
                self.record.fault("", error.code(), &error.to_string());
                Ok(None)
            }
        }
    }
}

/// A fault as a record may keep it: names of modules are what a plan says, and reasons what code throws.
fn bounded(mut fault: PlanComponentFault, masker: &Masker) -> PlanComponentFault {
    let texts = [Some(&mut fault.module), fault.export.as_mut(), Some(&mut fault.why)];
    for text in texts.into_iter().flatten() {
        // Masked whole: of a secret that is cut a part would stay.
        *text = masker.mask_str(text);
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    }
    fault
}

/// A fault that was told where components run, which may say anything: its code is one of what code does.
fn of_code(mut fault: PlanComponentFault) -> PlanComponentFault {
    let known = glasshouse_script::codes::ALL.iter().any(|code| code.name == fault.code);
    if !known && fault.code != glasshouse_plan::codes::COMPONENT_LIMIT.name {
        glasshouse_script::codes::FAILED.name.clone_into(&mut fault.code);
    }
    fault
}

/// How many components a plan may call.
fn invocations(plan: &Plan, profile: &Profile) -> u64 {
    let asked = plan.capabilities().and_then(|asked| asked.get("maxComponentInvocations"));
    let asked = asked.and_then(|asked| asked.to_value().as_f64()).unwrap_or(DEFAULT_INVOCATIONS);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "half a call counts as one; what is beyond the range becomes its end"
    )]
    let asked = asked.ceil() as u64;
    asked.min(profile.max_allowed_component_invocations as u64)
}

/// Visits every node, parents first. Calls itself once a level, and a tree has as many as a plan may.
fn each(node: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    let Some(members) = node.as_object_mut() else { return };
    visit(members);
    for child in members.get_mut("children").and_then(Value::as_array_mut).into_iter().flatten() {
        each(child, visit);
    }
}

fn is_open(node: &Map<String, Value>) -> bool {
    node.get("type").is_some_and(|it| it == "component") && !node.contains_key("failed")
}

/// How many components a round would call, if there were no limit.
fn due(root: &mut Value, names: &[Named]) -> u64 {
    let mut due = 0;
    each(root, &mut |node| {
        let module = node.get("module").and_then(Value::as_str);
        due += u64::from(is_open(node) && names.iter().any(|it| module == Some(it.name.as_str())));
    });
    due
}

/// Whether a component was not called yet.
fn has_open(root: &mut Value) -> bool {
    let mut open = false;
    each(root, &mut |node| open |= is_open(node));
    open
}
