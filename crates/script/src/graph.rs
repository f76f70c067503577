//! Modules that a source imports, and what they import: found, bounded and compiled before anything
//! runs, so that what runs is exactly what was found.
//!
//! Where bytes come from is the caller's: a [`Library`] has them from a cache, by the digests of a
//! plan, or fetches them. They are read by the compiler in its own process only.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_plan::module::runtime_of;
use glasshouse_sandbox::Cancel;

use crate::compile::{Kind, Runtime};
use crate::worker::{Program, Worker};
use crate::{Error, Result, codes, vendor};

/// What imports the first modules, in chains.
pub const ROOT: &str = "the plan";

/// Where modules are.
pub trait Library {
    /// The module at an address. A first answer that turns out to be none is asked for again, with the
    /// number of answers before; `None` when nobody else can be asked.
    ///
    /// # Errors
    /// `script_module_unavailable`, `script_module_unlocked`, `script_module_changed`.
    fn get(&self, address: &str, attempt: usize) -> Result<Option<Found>>;
}

/// A module as it was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where it really is, after all that its host sent on to.
    pub address: String,
    /// What it is.
    pub kind: Kind,
    /// Its bytes; none of what is only named.
    pub bytes: Arc<Vec<u8>>,
}

/// Bounds of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphLimits {
    /// Modules, without those that the program carries.
    pub modules: usize,
    /// Steps from the plan to a module.
    pub depth: usize,
    /// Bytes of all together.
    pub bytes: usize,
    /// Time for finding and compiling all.
    pub time_ms: u64,
}

impl Default for GraphLimits {
    fn default() -> Self {
        Self { modules: 50, depth: 32, bytes: 16 << 20, time_ms: 60_000 }
    }
}

/// One module of a graph.
#[derive(Debug, Clone)]
pub struct Node {
    /// The address that imports name.
    pub asked: String,
    /// The module.
    pub found: Found,
    /// What imported it first, and what imported that, up to [`ROOT`].
    pub chain: Vec<String>,
    pub(crate) program: Arc<Program>,
}

/// Everything that some addresses lead to, in the order in which it was found.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The modules.
    pub nodes: Vec<Node>,
    /// Addresses of what the program carries of it.
    pub(crate) carried: Vec<&'static str>,
}

/// What a graph is found with.
#[derive(Clone, Copy)]
pub struct Finding<'f> {
    /// Where modules are.
    pub library: &'f dyn Library,
    /// Addresses of a plan's manifest by their names.
    pub manifest: &'f BTreeMap<String, String>,
    /// Bounds.
    pub limits: GraphLimits,
    /// What markup of the plan's source stands for.
    pub runtime: Runtime,
}

impl Worker<'_> {
    /// Finds all that these addresses lead to, and compiles it. Nothing is run.
    ///
    /// # Errors
    /// Those of the library; `script_module_unavailable` for what is no module;
    /// `script_module_limit`; `script_module_duplicate` when there is more than one copy of what
    /// components are made with. The context of each has the `chain` of imports that leads there.
    pub fn graph(&self, roots: &[String], finding: &Finding<'_>, cancel: &Cancel) -> Result<Graph> {
        let mut walk = Walk {
            worker: self,
            finding,
            cancel,
            until: Instant::now() + Duration::from_millis(finding.limits.time_ms),
            graph: Graph::default(),
            from: HashMap::new(),
            open: VecDeque::new(),
            bytes: 0,
        };
        for root in roots {
            walk.name(root, ROOT, 1);
        }
        while let Some((address, depth)) = walk.open.pop_front() {
            walk.take(&address, depth).map_err(|error| walk.through(error, &address))?;
        }
        walk.one_runtime()?;
        Ok(walk.graph)
    }
}

struct Walk<'w, 'e> {
    worker: &'w Worker<'e>,
    finding: &'w Finding<'w>,
    cancel: &'w Cancel,
    until: Instant,
    graph: Graph,
    /// What imported an address first.
    from: HashMap<String, String>,
    open: VecDeque<(String, usize)>,
    bytes: usize,
}

impl Walk<'_, '_> {
    /// Notes an address that something imports.
    fn name(&mut self, address: &str, by: &str, depth: usize) {
        if self.from.contains_key(address) {
            return;
        }
        self.from.insert(address.to_owned(), by.to_owned());
        match vendor::carried(address).filter(|_| !vendor::is_inner(address)) {
            Some(carried) => self.graph.carried.push(carried.address),
            None => self.open.push_back((address.to_owned(), depth)),
        }
    }

    fn take(&mut self, address: &str, depth: usize) -> Result<()> {
        let limits = self.finding.limits;
        if self.graph.nodes.len() >= limits.modules {
            return Err(limited("modules", limits.modules));
        }
        if depth > limits.depth {
            return Err(limited("depth", limits.depth));
        }
        let (mut attempt, mut fault) = (0, None);
        let (found, program) = loop {
            if Instant::now() >= self.until {
                return Err(limited("time_ms", limits.time_ms));
            }
            let found = match (self.finding.library.get(address, attempt), &fault) {
                (Ok(Some(found)), _) => found,
                (Ok(None) | Err(_), Some(fault)) => return Err(no_module(address, fault)),
                (Err(error), None) => return Err(error),
                (Ok(None), None) => {
                    let what = format!("the module {address} is not here");
                    return Err(Error::new(codes::MODULE_UNAVAILABLE, what));
                }
            };
            self.bytes += found.bytes.len();
            if self.bytes > limits.bytes {
                return Err(limited("bytes", limits.bytes));
            }
            match self.worker.compile_module(&found, self.finding.manifest, self.cancel) {
                Ok(program) => break (found, program),
                // Somebody else may have it whole.
                Err(why) => (attempt, fault) = (attempt + 1, Some(why)),
            }
        };
        for import in &program.module().imports {
            self.name(import, address, depth + 1);
        }
        let chain = self.chain(address);
        self.graph.nodes.push(Node { asked: address.to_owned(), found, chain, program });
        Ok(())
    }

    /// From the plan to an address.
    fn chain(&self, address: &str) -> Vec<String> {
        let mut chain = vec![address.to_owned()];
        let mut at = address;
        while let Some(from) = self.from.get(at) {
            chain.push(from.clone());
            at = from;
        }
        chain.reverse();
        chain
    }

    fn through(&self, error: Error, address: &str) -> Error {
        error.with("chain", self.chain(address))
    }

    /// Copies of what components are made with do not know each other: there is one, or none.
    fn one_runtime(&self) -> Result<()> {
        let mut copies: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
        if self.finding.runtime == Runtime::Preact
            && let Some(own) = runtime_of(vendor::CORE)
        {
            copies
                .insert(own, vec!["the markup of the source".to_owned(), vendor::CORE.to_owned()]);
        }
        let carried = self.graph.carried.iter().map(|address| (*address, *address));
        let loaded = self.graph.nodes.iter();
        let loaded = loaded.map(|node| (node.asked.as_str(), node.found.address.as_str()));
        for (asked, address) in carried.chain(loaded) {
            if let Some(copy) = runtime_of(address) {
                copies.entry(copy).or_insert_with(|| self.chain(asked));
            }
        }
        if copies.len() < 2 {
            return Ok(());
        }
        let told: Vec<String> = copies
            .iter()
            .map(|((name, version), chain)| format!("{name} {version} by {}", chain.join(" > ")))
            .collect();
        let chains: Vec<&Vec<String>> = copies.values().collect();
        let what = "the modules bring more than one runtime for components";
        Err(Error::new(codes::MODULE_DUPLICATE, what)
            .why(told.join("; "))
            .with("chains", serde_json::to_value(chains).unwrap_or_default()))
    }
}

fn limited<N: Into<serde_json::Value> + std::fmt::Display>(what: &str, most: N) -> Error {
    let text = format!("the modules reach their limit of {what}");
    Error::new(codes::MODULE_LIMIT, text)
        .why(format!("at most {most}"))
        .with("limit", what)
        .with("max", most)
}

/// What came is no module: an error page, a cut file, anything.
fn no_module(address: &str, fault: &Error) -> Error {
    let report = fault.report();
    Error::new(codes::MODULE_UNAVAILABLE, format!("what came from {address} is no module"))
        .why(format!("{}: {} {}", report.code, report.what, report.why))
}
