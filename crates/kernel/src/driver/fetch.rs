//! A page for the model, or a module for a plan: fetched through an egress proxy that lets exactly one host
//! through, the one that was decided on.

use std::sync::{Arc, Mutex};

use glasshouse_model::{CallId, Draft};
use glasshouse_sandbox::egress::{
    Dialer, Egress, EgressGate, EgressRecord, EgressRequest, EgressVerdict, Resolver, System,
    ViaProxy,
};
use glasshouse_tools::sanitise::Masker;
use glasshouse_tools::{FetchLimits, Page, Url, fetch_within};

use super::lock;
use super::network::{NetworkSettings, ended};
use super::people::Cancel;
use crate::{Error, Result};

/// How this installation reaches the network.
#[derive(Clone)]
pub struct Outside {
    /// Who looks names up.
    pub resolver: Arc<dyn Resolver>,
    /// Who connects.
    pub dialer: Arc<dyn Dialer>,
    /// Certificate authorities besides the public ones, as PEM.
    pub roots_pem: Vec<String>,
}

impl Default for Outside {
    fn default() -> Self {
        Self { resolver: Arc::new(System), dialer: Arc::new(System), roots_pem: Vec::new() }
    }
}

impl Outside {
    /// The same by the way out that the user set.
    ///
    /// # Errors
    /// `egress_invalid` for a proxy that cannot be used.
    pub(super) fn through(&self, settings: &NetworkSettings) -> Result<Self> {
        let mut outside = self.clone();
        outside.roots_pem.extend(settings.roots_pem.iter().cloned());
        if let Some(url) = &settings.upstream_proxy {
            outside.dialer = Arc::new(ViaProxy::parse(url)?);
        }
        Ok(outside)
    }
}

/// Lets one host and port through and keeps what became of it.
struct OneHost {
    call: Option<CallId>,
    host: String,
    port: u16,
    masker: Arc<Masker>,
    ended: Mutex<Vec<Draft>>,
}

impl EgressGate for OneHost {
    fn decide(&self, request: &EgressRequest) -> EgressVerdict {
        let same = request.host.name() == Some(self.host.as_str()) && request.port == self.port;
        if same { EgressVerdict::Allow } else { EgressVerdict::Deny }
    }

    fn record(&self, record: &EgressRecord) {
        lock(&self.ended).push(ended(&self.masker, self.call, record).1);
    }
}

/// Why a page did not come.
pub(crate) enum NoPage {
    /// The egress proxy refused the connection, in its word for why.
    Refused(String),
    /// The host, or the way to it, failed.
    Failed(Error),
}

impl From<NoPage> for Error {
    fn from(no: NoPage) -> Self {
        match no {
            NoPage::Refused(why) => {
                Self::new(glasshouse_tools::codes::FETCH_FAILED, "the page did not come")
                    .why(format!("the egress proxy refused: {why}"))
            }
            NoPage::Failed(error) => error,
        }
    }
}

/// Fetches a page whose connection was decided on. Answers the events of the connection too.
pub(crate) fn page(
    call: Option<CallId>,
    url: &Url,
    (outside, masker): (&Outside, &Arc<Masker>),
    limits: FetchLimits,
    cancel: &Cancel,
) -> (Vec<Draft>, Result<Page, NoPage>) {
    let gate = Arc::new(OneHost {
        call,
        host: url.host().to_owned(),
        port: url.port(),
        masker: Arc::clone(masker),
        ended: Mutex::default(),
    });
    let mut egress = Egress::new(Arc::clone(&gate) as Arc<dyn EgressGate>);
    egress.resolver = Arc::clone(&outside.resolver);
    egress.dialer = Arc::clone(&outside.dialer);
    egress.roots_pem.clone_from(&outside.roots_pem);
    let fetched = fetch_within(url, egress, limits, &|| cancel.is_cancelled());
    let ended = std::mem::take(&mut *lock(&gate.ended));
    // To a plain request the proxy answers itself; its words are no page.
    let refused = ended.iter().find_map(|draft| draft.body["code"].as_str());
    let page = match refused {
        Some(why) => Err(NoPage::Refused(why.to_owned())),
        None => fetched.map_err(|error| NoPage::Failed(error.into())),
    };
    (ended, page)
}

/// A page as the model reads it.
pub(super) fn told(url: &Url, page: &Page) -> String {
    let mut text = format!("{url}: HTTP {} {}\n", page.status, page.content_type);
    if let Some(location) = &page.location {
        text.push_str(&format!("it sends on to {location}; fetch that if you want it\n"));
    }
    if page.is_cut {
        text.push_str("only the beginning of the page was read\n");
    }
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&page.body));
    text
}
