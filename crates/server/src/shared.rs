//! What all tenants share: connections, threads, the gate, and the list of tenants. A tenant has a log, blobs,
//! turns and streams of its own, so an id of another one is not there for it: nobody has to compare anything.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use glasshouse_kernel::driver::{KeyRow, TenantRow};
use glasshouse_kernel::{Cancel, Kernel};
use glasshouse_model::TenantId;
use tokio::sync::{Semaphore, watch};

use crate::auth::Token;
use crate::count::Count;
use crate::desk::Desk;
use crate::faults::Faults;
use crate::gate::Gate;
use crate::jwt::Jwt;
use crate::keys::{Claimed, Keys, check_closed};
use crate::metrics::Metrics;
use crate::models::Models;
use crate::pool::Pool;
use crate::problem::RETRY_AFTER_S;
use crate::service::Service;
use crate::stream::Streams;
use crate::tally::Tally;
use crate::telemetry::{Tally as Counters, Telemetry, Watcher};
use crate::throttle::{Rate, Throttle};
use crate::{Error, Result, codes};

/// Directory of the tenants' homes, below the data directory.
const TENANTS: &str = "tenants";
/// Most tenants that are open at a time.
const MAX_OPEN: usize = 1_024;
/// Threads that look up who asks.
const LOOKING: usize = 4;
/// Requests of one tenant that are worked on at a time, so that others find a thread.
const WORKERS_OF_ONE: usize = 12;
/// What a refused client waits for a place among tenants, in seconds.
const NO_PLACE_RETRY_S: u64 = 30;

/// The part of the server that no tenant owns.
pub(crate) struct Shared {
    /// The installation itself: the tenant `local`.
    pub(crate) house: Arc<Service>,
    /// The token of the server's file, where it counts.
    pub(crate) token: Option<Token>,
    pub(crate) jwt: Option<Jwt>,
    pub(crate) gate: Gate,
    pub(crate) pool: Arc<Pool>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) throttle: Throttle,
    pub(crate) looking: Arc<Semaphore>,
    /// How often one caller may ask.
    pub(crate) rate: Rate,
    /// Answers of all tenants that go on.
    pub(crate) followed: Count,
    open: RwLock<HashMap<TenantId, Arc<Service>>>,
    /// Held while one is opened.
    opening: Mutex<()>,
    pub(crate) parts: Parts,
}

/// What each tenant's part is made with.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) home: PathBuf,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// Ends what requests wait for when the server stops.
    pub(crate) ending: Cancel,
    /// Where spans go.
    pub(crate) telemetry: Option<Telemetry>,
    /// Whom faults of ours are told.
    pub(crate) faults: Faults,
    pub(crate) pool: Arc<Pool>,
    pub(crate) metrics: Arc<Metrics>,
    /// What the events of all tenants count.
    pub(crate) counted: Arc<Mutex<Counters>>,
}

impl Parts {
    /// A tenant's part of the server; must be called within the runtime.
    ///
    /// # Errors
    /// As [`Streams::new`].
    pub(crate) fn service(&self, kernel: Arc<Kernel>, home: PathBuf) -> Result<Arc<Service>> {
        // What earlier processes left goes even when no sandbox is ever made.
        kernel.keep_swept();
        let faults = self.faults.of(kernel.log().tenant());
        let desk =
            Arc::new(Desk::new(Arc::clone(&kernel), Arc::clone(&self.models), faults.clone()));
        let streams = Arc::new(Streams::new(kernel.log(), self.stopping.clone(), faults.clone())?);
        let counted = Arc::clone(&self.counted);
        let watcher = Watcher::new(kernel.log(), self.telemetry.clone(), counted)?;
        Ok(Arc::new_cyclic(|own| Service {
            own: own.clone(),
            watcher,
            tally: Tally::new(kernel.log()),
            keys: Keys::new(Arc::clone(&kernel)),
            kernel,
            home,
            desk,
            streams,
            pool: Arc::clone(&self.pool),
            metrics: Arc::clone(&self.metrics),
            ending: self.ending.clone(),
            faults,
            workers: Arc::new(Semaphore::new(WORKERS_OF_ONE)),
            queued: Count::default(),
            followed: Count::default(),
        }))
    }
}

impl Shared {
    /// Around the installation's own part.
    pub(crate) fn new(
        house: Arc<Service>,
        parts: Parts,
        (gate, token, jwt): (Gate, Option<Token>, Option<Jwt>),
        rate: Rate,
    ) -> Self {
        let (pool, metrics) = (Arc::clone(&parts.pool), Arc::clone(&parts.metrics));
        Self {
            house,
            token,
            jwt,
            gate,
            pool,
            metrics,
            throttle: Throttle::default(),
            looking: Arc::new(Semaphore::new(LOOKING)),
            rate,
            followed: Count::default(),
            open: RwLock::default(),
            opening: Mutex::default(),
            parts,
        }
    }

    /// A tenant that may be used, and what it may do; opened at its first request.
    ///
    /// # Errors
    /// An error of the log; `server_busy` when too many are open.
    pub(crate) fn tenant(
        &self,
        tenant: &TenantId,
    ) -> Result<Option<(Arc<Service>, Arc<TenantRow>)>> {
        let access = self.house.keys.access()?;
        let row = access.tenants.get(tenant).cloned();
        if *tenant == TenantId::local() {
            return Ok(Some((Arc::clone(&self.house), Arc::new(row.unwrap_or_else(unlimited)))));
        }
        let Some(row) = row.filter(|row| !row.is_disabled) else { return Ok(None) };
        let service = self.opened(tenant)?;
        service.kernel.set_tenant_policy(row.policy.as_deref());
        Ok(Some((service, Arc::new(row))))
    }

    /// The key of a text, if its tenant has it and both may be used. A tenant is opened for whoever proved something, not
    /// before.
    ///
    /// # Errors
    /// An error of the log.
    pub(crate) fn key(&self, claimed: &Claimed, sent: &str) -> Result<Option<KeyRow>> {
        let tenant = &claimed.tenant;
        let is_house = *tenant == TenantId::local();
        let access = self.house.keys.access()?;
        if is_house || access.tenants.get(tenant).is_none_or(|row| row.is_disabled) {
            // The same work where there is no such tenant.
            let row = self.house.keys.check(claimed, sent)?;
            return Ok(row.filter(|_| is_house));
        }
        match self.known(tenant) {
            Some(service) => service.keys.check(claimed, sent),
            None => check_closed(&home_of(&self.parts.home, tenant), claimed, sent),
        }
    }

    fn known(&self, tenant: &TenantId) -> Option<Arc<Service>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    fn opened(&self, tenant: &TenantId) -> Result<Arc<Service>> {
        if let Some(service) = self.known(tenant) {
            return Ok(service);
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = self.known(tenant) {
            return Ok(service);
        }
        if self.open.read().unwrap_or_else(PoisonError::into_inner).len() >= MAX_OPEN {
            return Err(Error::new(codes::SERVER_BUSY, "too many tenants are open")
                .why(format!("{MAX_OPEN} are open"))
                .with(RETRY_AFTER_S, NO_PLACE_RETRY_S));
        }
        let home = home_of(&self.parts.home, tenant);
        // As the tenant's terms are whenever somebody looks; nowhere where they cannot be told.
        let (keys, of) = (Arc::clone(&self.house), tenant.clone());
        let roots = move || {
            let access = keys.keys.access().ok();
            let row = access.as_ref().and_then(|access| access.tenants.get(&of));
            row.map_or_else(Vec::new, |row| row.roots.iter().map(PathBuf::from).collect())
        };
        let kernel = Arc::new(self.parts.models.kernel(tenant, &home)?.with_grounds(roots));
        let service = self.parts.service(kernel, home)?;
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(tenant.clone(), Arc::clone(&service));
        Ok(service)
    }

    /// Every part that is open.
    pub(crate) fn all(&self) -> Vec<Arc<Service>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.house).chain(open.values()).cloned().collect()
    }
}

/// Where the log of a tenant lies, below the data directory of the installation.
#[must_use]
pub fn home_of(home: &std::path::Path, tenant: &TenantId) -> PathBuf {
    if *tenant == TenantId::local() {
        return home.to_owned();
    }
    home.join(TENANTS).join(tenant.as_str())
}

/// The installation itself, while nobody limited it.
pub(crate) fn unlimited() -> TenantRow {
    TenantRow {
        tenant: TenantId::local(),
        profile: None,
        quotas: std::collections::BTreeMap::new(),
        roots: Vec::new(),
        policy: None,
        is_disabled: false,
        created_us: 0,
        changed_seq: 0,
    }
}
