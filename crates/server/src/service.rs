//! From a request to its answer: the gate, the token, the route, the pool.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use glasshouse_kernel::{Cancel, Kernel};
use glasshouse_model::body::PolicyDecided;
use glasshouse_model::{
    Call, Constraints, Decision, Digest, Draft, Effect, Kind, Principal, PrincipalKind,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::HeaderMap;
use hyper::http::request::Parts as Head;
use hyper::{Method, Uri};
use tokio::sync::Semaphore;
use tower_service::Service as _;

use crate::admit::Admitted;
use crate::ask::{Ask, Leaving, Refusal};
use crate::caller::Caller;
use crate::chat;
use crate::count::{Count, Counted};
use crate::desk::Desk;
use crate::faults::{Faults, REQUEST_ID};
use crate::keys::Keys;
use crate::listen::MAX_HEADERS;
use crate::metrics::Metrics;
use crate::places::MAX_CONNECTIONS;
use crate::pool::Pool;
use crate::problem::RETRY_AFTER_S;
use crate::quota::{self, Exhausted};
use crate::reply::{Content, Fault, Reply};
use crate::rights::{HOST, Rights};
use crate::route::{ROUTES, Route, Spends};
use crate::shared::{Shared, unlimited};
use crate::stream::{self, Streams};
use crate::tally::Tally;
use crate::telemetry::{Answered, Watcher};
use crate::throttle::Rate;
use crate::watching::watched;
use crate::{Error, Result, codes};

/// Header with the trace that a client began.
const TRACEPARENT: &str = "traceparent";
/// Most answers that go on at a time: each holds a connection, and some are left for what is answered at once.
const MAX_FOLLOWED: usize = MAX_CONNECTIONS / 4 * 3;
/// Most of them of one tenant for which nobody set another number.
const MAX_FOLLOWED_OF_ONE: usize = MAX_CONNECTIONS / 2;
/// Most requests of one tenant that wait for a thread.
const MAX_QUEUED: usize = 256;
/// Requests of one address for what needs no token.
const OPEN: Rate = Rate { per_minute: 1_200, at_once: 600 };
/// The quota of answers that go on.
const OPEN_STREAMS: &str = "open_streams";
/// How often a log is told of one thing that was refused.
const ONCE_A_MINUTE: Rate = Rate { per_minute: 1, at_once: 1 };
/// Largest body in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 1 << 20;
/// Longest that a body may take to come.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// A tenant's part of the server: all that its handlers reach.
pub(crate) struct Service {
    pub(crate) kernel: Arc<Kernel>,
    /// Data directory.
    pub(crate) home: PathBuf,
    pub(crate) desk: Arc<Desk>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) tally: Tally,
    pub(crate) keys: Keys,
    pub(crate) pool: Arc<Pool>,
    pub(crate) metrics: Arc<Metrics>,
    /// Places of its requests among the threads.
    pub(crate) workers: Arc<Semaphore>,
    /// Its requests that wait for a place.
    pub(crate) queued: Count,
    /// Its answers that go on.
    pub(crate) followed: Count,
    /// Ends what a request waits for when the server stops.
    pub(crate) ending: Cancel,
    /// Whom faults of ours are told.
    pub(crate) faults: Faults,
    /// Counts, and sends spans, for as long as this lives.
    pub(crate) watcher: Watcher,
    pub(crate) own: std::sync::Weak<Service>,
}

impl Service {
    /// Another hold on it, for what outlives a request.
    ///
    /// # Errors
    /// `server_stopping`.
    pub(crate) fn share(&self) -> Result<Arc<Self>> {
        let own = self.own.upgrade();
        own.ok_or_else(|| Error::new(codes::SERVER_STOPPING, "nothing can be begun now"))
    }
}

/// The routes as a router. Outside it stands [`answer`].
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let handler = move |State(shared), parts: Parts, request| async move {
            handle(shared, route, parts, request).await
        };
        router = router.route(route.path, on(filter(&route.method), handler));
    }
    router
        .fallback(|| async { refuse(Error::new(codes::ROUTE_UNKNOWN, "there is no such path")) })
        .method_not_allowed_fallback(|| async {
            refuse(Error::new(codes::METHOD_UNKNOWN, "the path does not have this method"))
        })
        .with_state(shared)
}

type Parts = Result<RawPathParams, axum::extract::rejection::RawPathParamsRejection>;

fn filter(method: &Method) -> MethodFilter {
    match *method {
        Method::POST => MethodFilter::POST,
        Method::DELETE => MethodFilter::DELETE,
        Method::PUT => MethodFilter::PUT,
        _ => MethodFilter::GET,
    }
}

/// Answers a request, whatever it is.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    router: Router,
    peer: IpAddr,
    mut request: Request,
) -> Response {
    // The body cannot be lent to what waits.
    let (uri, headers) = (request.uri().clone(), request.headers().clone());
    match admit(&shared, peer, &uri, &headers).await {
        Ok(admitted) => request.extensions_mut().insert(admitted),
        Err(error) => {
            shared.metrics.refused();
            return told(&shared.parts.faults, refuse(error));
        }
    };
    let mut router = router;
    let Ok(response) = router.call(request).await;
    told(&shared.parts.faults, response)
}

/// The route that gave an answer and for whom, at that answer on its way out.
#[derive(Clone)]
struct Of(&'static Route, Arc<Service>);

/// Tells the operator of an answer that is a fault of ours, and its client by which name.
fn told(faults: &Faults, mut response: Response) -> Response {
    let Some(Fault(problem)) = response.extensions_mut().remove() else { return response };
    let name = match response.extensions_mut().remove() {
        Some(Of(route, service)) => service.faults.tell(&problem, Some(route)),
        None => faults.tell(&problem, None),
    };
    if let Some(name) = name.and_then(|name| name.parse().ok()) {
        response.headers_mut().insert(REQUEST_ID, name);
    }
    response
}

/// The gate: host and origin, who asks, and how often.
async fn admit(
    shared: &Arc<Shared>,
    peer: IpAddr,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Admitted> {
    shared.gate.check(uri, headers)?;
    if headers.len() > MAX_HEADERS {
        return Err(Error::new(codes::HEADERS_TOO_MANY, "the request has too many headers")
            .with("limit", MAX_HEADERS));
    }
    let is_open = ROUTES.iter().any(|route| route.is_open && route.path == uri.path());
    if is_open {
        let who = format!("open/{}", crate::admit::network(peer));
        shared.throttle.take(&who, OPEN).map_err(limited)?;
        let (service, tenant) = (Arc::clone(&shared.house), Arc::new(unlimited()));
        return Ok(Admitted { caller: None, service, tenant });
    }
    // Also where there is no such path: who may not ask learns nothing.
    let admitted = shared.admit(headers, peer).await?;
    if let Some(caller) = &admitted.caller {
        shared.throttle.take(&caller.who(), shared.rate).map_err(limited)?;
        if let Some(most) = admitted.tenant.quotas.get("requests_per_minute") {
            let whole = format!("{}/", admitted.tenant.tenant);
            shared.throttle.take(&whole, Rate::per_minute(*most)).map_err(limited)?;
        }
    }
    Ok(admitted)
}

fn limited(wait: Duration) -> Error {
    Error::new(codes::TOO_MANY_REQUESTS, "too many requests in too short a time")
        .with(RETRY_AFTER_S, wait.as_secs() + 1)
}

async fn handle(
    shared: Arc<Shared>,
    route: &'static Route,
    parts: Parts,
    mut request: Request,
) -> Response {
    let began = Instant::now();
    let Some(admitted) = request.extensions_mut().remove::<Admitted>() else {
        return refuse(crate::admit::refused());
    };
    let service = Arc::clone(&admitted.service);
    let caller = admitted.caller.clone();
    let traceparent = request.headers().get(TRACEPARENT).cloned();
    // Before anything is waited for: of many at once none is overlooked.
    let counted = route.goes_on.then(|| [service.followed.one(), shared.followed.one()]);
    let before = counted.as_ref().map_or([0, 0], |counted| counted.each_ref().map(Counted::before));
    let worked = work(&shared, route, admitted, before, (parts, request)).await;
    let reply = worked.unwrap_or_else(Reply::from);
    shared.metrics.answered(route, reply.status, began.elapsed());
    service.watcher.answered(&Answered {
        method: route.method.as_str(),
        route: route.path,
        status: reply.status.as_u16(),
        took: began.elapsed(),
        traceparent: traceparent.as_ref().and_then(|value| value.to_str().ok()),
    });
    let is_whole = matches!(reply.content, Content::Whole(_));
    let reply = match reply.content {
        Content::Events { .. } => stream::with_headers(reply),
        Content::Chat(_) => chat::with_headers(reply),
        Content::Whole(_) | Content::Lines(_) => reply,
    };
    let mut response = reply.into_response(|content| match content {
        Content::Events { branch, from } => service.streams.body((branch, from), route),
        Content::Chat(follow) => follow.body(&service.streams, route),
        Content::Lines(lines) => stream::body_of(lines),
        Content::Whole(bytes) => Body::from(bytes),
    });
    response.extensions_mut().insert(Of(route, Arc::clone(&service)));
    match (caller, counted.filter(|_| !is_whole)) {
        // What goes on ends with the right to it.
        (Some(caller), Some(counted)) => {
            response.map(|body| watched(body, counted, shared, service, caller))
        }
        _ => response,
    }
}

impl Service {
    /// A switch that is set when nobody waits for the work any more, and when the server ends. Called on a thread of
    /// the pool.
    ///
    /// # Errors
    /// `sandbox_system` when no descriptor is left.
    pub(crate) fn stopped_when(
        &self,
        left: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Cancel> {
        let (stop, ending) = (Cancel::new()?, self.ending.clone());
        let switch = stop.clone();
        self.desk.spawn(async move {
            tokio::select! {
                () = left => {}
                () = ending.cancelled() => {}
            }
            switch.cancel();
        });
        Ok(stop)
    }
}

/// Whether another answer may go on, beside so many of its tenant and of all, where a quota may say how many are its
/// tenant's.
const fn may_follow(followed: usize, of_all: usize, quota: Option<u64>) -> bool {
    of_all < MAX_FOLLOWED && (quota.is_some() || followed < MAX_FOLLOWED_OF_ONE)
}

/// Lets a request do what it asks for, where roles and quotas allow it.
async fn work(
    shared: &Arc<Shared>,
    route: &'static Route,
    admitted: Admitted,
    [followed, of_all]: [usize; 2],
    (parts, request): (Parts, Request),
) -> Result<Reply> {
    let Admitted { caller, service, tenant } = admitted;
    if let Some(caller) = caller.as_ref().filter(|caller| !caller.rights.has_one_of(route.needs)) {
        return Err(forbid(shared, &service, route, caller, route.needs).await);
    }
    if route.goes_on {
        if !may_follow(followed, of_all, tenant.quotas.get(OPEN_STREAMS).copied()) {
            return Err(Error::new(codes::SERVER_BUSY, "too many answers go on already")
                .with(RETRY_AFTER_S, 1_u64));
        }
        if let Err(exhausted) = quota::check_now(&tenant, OPEN_STREAMS, followed as u64) {
            return Err(throttled(shared, &service, exhausted).await);
        }
    }
    let of_host = caller.as_ref().is_some_and(|caller| caller.rights.has_one_of(HOST));
    let (here, leaving) = Leaving::new();
    let asked = ask(route, parts, request, leaving).await?;
    asked.check_heard()?;
    let who = caller.clone();
    let ask = Ask { caller, tenant, shared: of_host.then(|| Arc::clone(shared)), ..asked };
    let queued = service.queued.one();
    let before = queued.before();
    if before >= MAX_QUEUED {
        return Err(shared.pool.busy(before));
    }
    if let Err(exhausted) = quota::check_now(&ask.tenant, "queued_requests", before as u64) {
        return Err(throttled(shared, &service, exhausted).await);
    }
    let place = Arc::clone(&service.workers).acquire_owned().await;
    let place = place.map_err(|e| Error::new(codes::SERVER_FAILED, "the server ended").why(e))?;
    drop(queued);
    let of = Arc::clone(&service);
    let done = shared.pool.run(move || {
        let _place = place;
        let room = match route.spends {
            Spends::Before => quota::check_room(&of, &ask, of.desk.ahead()),
            Spends::Stores => quota::check_stored(&of, &ask),
            Spends::No | Spends::Within => Ok(()),
        };
        let reply = room.and_then(|()| (route.handler)(&of, &ask));
        (reply, ask.refusal.into_inner())
    });
    let (reply, refusal) = done.await?;
    // Whoever waits for it is here until now.
    drop(here);
    match (refusal, who) {
        (Some(Refusal::Quota(exhausted)), _) => Err(throttled(shared, &service, exhausted).await),
        (Some(Refusal::Role(needed)), Some(who)) => {
            Err(forbid(shared, &service, route, &who, needed).await)
        }
        _ => reply,
    }
}

/// The refusal of what somebody's roles do not open. Their own tenant's log tells of it, the first time in a
/// minute; nothing was looked up.
async fn forbid(
    shared: &Shared,
    service: &Arc<Service>,
    route: &Route,
    caller: &Caller,
    needed: Rights,
) -> Error {
    let needed = needed.roles().join(", ");
    let subject = format!("{} {}", route.method, route.path);
    let reason = match caller.principal.kind {
        PrincipalKind::User => format!("it needs one of the roles {needed}"),
        // Its roles may well be among them.
        _ => format!("it needs a person with one of the roles {needed}; this is a key of an agent"),
    };
    let draft = decided(route, &caller.principal, Effect::Deny, reason.clone());
    tell(shared, service, &format!("{}/denied/{subject}", caller.who()), draft).await;
    Error::new(codes::ROLE_FORBIDDEN, format!("{subject} is not open to the caller")).why(reason)
}

/// What tells of a route that was used, where what it does leaves no event of its own.
pub(crate) fn used(route: &Route, by: &Principal) -> Draft {
    let roles = route.needs.roles().join(", ");
    decided(route, by, Effect::Allow, format!("it is open to the roles {roles}"))
}

/// What roles said to somebody who asked for a route.
fn decided(route: &Route, by: &Principal, effect: Effect, reason: String) -> Draft {
    let syscall = format!("server.{}", route.method.as_str().to_lowercase());
    let decision = Decision {
        effect,
        rules: Vec::new(),
        reasons: vec![reason],
        policy_version: Digest::ZERO,
        constraints: Constraints::default(),
    };
    let subject = format!("{} {}", route.method, route.path);
    let call = Call::new(&syscall, by.clone());
    let body = PolicyDecided::new(None, call, Some(subject), decision);
    Draft::new(Kind::PolicyDecided, &body).by(by.actor())
}

async fn throttled(shared: &Shared, service: &Arc<Service>, exhausted: Exhausted) -> Error {
    let once = format!("{}/quota/{}", service.kernel.log().tenant(), exhausted.quota());
    tell(shared, service, &once, exhausted.draft()).await;
    exhausted.into()
}

/// Tells a tenant's log of something, once in a minute.
async fn tell(shared: &Shared, service: &Arc<Service>, once: &str, draft: Draft) {
    if shared.throttle.take(once, ONCE_A_MINUTE).is_ok() {
        let service = Arc::clone(service);
        // A log that takes nothing says so to whatever comes next.
        let _ = shared.pool.run(move || service.kernel.tell_access(vec![draft], None)).await;
    }
}

/// Takes a request in, its body bounded in size and time.
async fn ask(
    route: &'static Route,
    parts: Parts,
    request: Request,
    leaving: Leaving,
) -> Result<Ask> {
    let parts =
        parts.map_err(|e| crate::ask::invalid("the path cannot be used").why(e.body_text()))?;
    let parts: BTreeMap<String, String> =
        parts.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_WITHIN, collect(body)).await.map_err(|_| {
        Error::new(codes::REQUEST_TOO_SLOW, "the body did not come in time")
            .with("limit_s", BODY_WITHIN.as_secs())
    })??;
    let (caller, tenant, shared) = (None, Arc::new(unlimited()), None);
    let Head { method, uri, headers, .. } = head;
    let refusal = OnceLock::new();
    Ok(Ask { caller, tenant, shared, route, parts, uri, headers, body, method, leaving, refusal })
}

async fn collect(body: Body) -> Result<Bytes> {
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Error::new(codes::REQUEST_TOO_LARGE, "the body is too large")
                .with("limit_bytes", MAX_BODY_BYTES))
        }
        Err(error) => Err(crate::ask::invalid("the body did not come whole").why(error)),
    }
}

/// The answer that tells an error.
fn refuse(error: Error) -> Response {
    Reply::from(error).into_response(|_| Body::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure: one tenant could follow twice as many answers as there are connections, so one key of it shut
    /// everybody out. The mend: a tenant has a share, and all together leave connections for what is answered at once.
    #[test]
    fn no_tenant_follows_with_every_connection() {
        let check = |followed: usize, of_all: usize, quota: Option<u64>, expected: bool| {
            let found = may_follow(followed, of_all, quota);
            assert_eq!(found, expected, "{followed} {of_all} {quota:?}");
        };
        check(0, 0, None, true);
        check(2_047, 2_047, None, true);
        check(2_048, 2_048, None, false);
        // Another one has its own.
        check(0, 2_048, None, true);
        check(0, 3_072, None, false);
        // Who runs the server may say otherwise, but not for all connections.
        check(2_048, 2_048, Some(3_000), true);
        check(3_072, 3_072, Some(9_000), false);
        const { assert!(MAX_FOLLOWED < MAX_CONNECTIONS) };
    }
}
