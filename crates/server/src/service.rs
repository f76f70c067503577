//! From a request to its answer: the gate, the token, the route, the pool.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use glasshouse_kernel::Kernel;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::Method;
use tower_service::Service as _;

use crate::ask::Ask;
use crate::auth::{Caller, Token};
use crate::chat;
use crate::desk::Desk;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::reply::{Content, Reply};
use crate::route::{ROUTES, Route};
use crate::stream::{self, Streams};
use crate::telemetry::Watcher;
use crate::{Error, Result, codes};

/// Largest body in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 1 << 20;
/// Longest that a body may take to come.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// All that answers need.
pub(crate) struct Service {
    pub(crate) kernel: Arc<Kernel>,
    /// Data directory.
    pub(crate) home: PathBuf,
    pub(crate) desk: Arc<Desk>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) pool: Pool,
    pub(crate) gate: Gate,
    pub(crate) token: Token,
    pub(crate) metrics: Metrics,
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

/// What the gate found out, for the handler.
#[derive(Debug, Clone)]
struct Admitted(Option<Caller>);

/// The routes as a router. Outside it stands [`answer`].
pub(crate) fn router(service: Arc<Service>) -> Router {
    let mut router = Router::new();
    for path in paths() {
        let mut methods = MethodRouter::new();
        for route in ROUTES.iter().filter(|route| route.path == path) {
            let handler = move |State(service), parts: Parts, request| async move {
                handle(service, route, parts, request).await
            };
            methods = methods.merge(on(filter(&route.method), handler));
        }
        router = router.route(path, methods);
    }
    router
        .fallback(|| async { refuse(Error::new(codes::ROUTE_UNKNOWN, "there is no such path")) })
        .method_not_allowed_fallback(|| async {
            refuse(Error::new(codes::METHOD_UNKNOWN, "the path does not have this method"))
        })
        .with_state(service)
}

type Parts = Result<RawPathParams, axum::extract::rejection::RawPathParamsRejection>;

fn paths() -> impl Iterator<Item = &'static str> {
    let is_first = |at: usize, path: &str| ROUTES[..at].iter().all(|route| route.path != path);
    ROUTES
        .iter()
        .enumerate()
        .filter(move |(at, route)| is_first(*at, route.path))
        .map(|(_, route)| route.path)
}

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
    service: Arc<Service>,
    router: Router,
    mut request: Request,
) -> Response {
    if let Err(error) = service.gate.check(request.uri(), request.headers()) {
        service.metrics.refused();
        return refuse(error);
    }
    let is_open = ROUTES.iter().any(|route| route.is_open && route.path == request.uri().path());
    let caller = match service.token.caller(request.headers()) {
        Ok(caller) => Some(caller),
        Err(_) if is_open => None,
        // Also where there is no such path: who may not ask learns nothing.
        Err(error) => {
            service.metrics.refused();
            return refuse(error);
        }
    };
    request.extensions_mut().insert(Admitted(caller));
    let mut router = router;
    let Ok(response) = router.call(request).await;
    response
}

async fn handle(
    service: Arc<Service>,
    route: &'static Route,
    parts: Parts,
    request: Request,
) -> Response {
    let began = Instant::now();
    let reply = match ask(parts, request).await {
        Ok(ask) => {
            let serve = Arc::clone(&service);
            let done = service.pool.run(move || (route.handler)(&serve, &ask)).await;
            done.and_then(|answered| answered).unwrap_or_else(Reply::from)
        }
        Err(error) => Reply::from(error),
    };
    service.metrics.answered(route, reply.status, began.elapsed());
    match reply.content {
        Content::Events { .. } => stream::with_headers(reply),
        Content::Chat(_) => chat::with_headers(reply),
        Content::Whole(_) | Content::Lines(_) => reply,
    }
    .into_response(|content| match content {
        Content::Events { branch, from } => service.streams.body(branch, from),
        Content::Chat(follow) => follow.body(&service.streams),
        Content::Lines(lines) => stream::body_of(lines),
        Content::Whole(bytes) => Body::from(bytes),
    })
}

/// Takes a request in, its body bounded in size and time.
async fn ask(parts: Parts, request: Request) -> Result<Ask> {
    let parts =
        parts.map_err(|e| crate::ask::invalid("the path cannot be used").why(e.body_text()))?;
    let parts: BTreeMap<String, String> =
        parts.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (head, body) = request.into_parts();
    let caller = head.extensions.get::<Admitted>().and_then(|admitted| admitted.0.clone());
    let body = tokio::time::timeout(BODY_WITHIN, collect(body)).await.map_err(|_| {
        Error::new(codes::REQUEST_TOO_SLOW, "the body did not come in time")
            .with("limit_s", BODY_WITHIN.as_secs())
    })??;
    Ok(Ask { caller, parts, uri: head.uri, headers: head.headers, body })
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
