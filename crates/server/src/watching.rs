//! An answer that goes on ends when who asked for it may no longer ask: a key is revoked, a token expires, a
//! tenant is disabled.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use glasshouse_kernel::driver::access_branch;
use hyper::body::Frame;

use crate::caller::{Caller, Credential};
use crate::clock::now_us;
use crate::count::Counted;
use crate::service::Service;
use crate::shared::Shared;

/// How often it is looked at, whatever the log says.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// A body that ends with the right to it.
struct Watched {
    inner: Body,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    _counted: [Counted; 2],
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }
}

/// A body that ends when its reader loses the right to it.
pub(crate) fn watched(
    body: Body,
    counted: [Counted; 2],
    shared: Arc<Shared>,
    service: Arc<Service>,
    caller: Caller,
) -> Body {
    let ended = Box::pin(ended(shared, service, caller));
    Body::new(Watched { inner: body, ended, _counted: counted })
}

/// Comes to its end when a caller may no longer ask.
async fn ended(shared: Arc<Shared>, service: Arc<Service>, caller: Caller) {
    let mut own = service.streams.watch(&access_branch());
    let mut house = shared.house.streams.watch(&access_branch());
    loop {
        own.borrow_and_update();
        house.borrow_and_update();
        let (looked, of, who) = (Arc::clone(&shared), Arc::clone(&service), caller.clone());
        let look = tokio::task::spawn_blocking(move || end_of(&looked, &of, &who));
        // What cannot be looked up is over.
        let Some(end_us) = look.await.ok().flatten() else { return };
        let left = Duration::from_micros(end_us.saturating_sub(now_us()));
        tokio::select! {
            () = tokio::time::sleep(left.min(LOOK_EVERY)) => {}
            changed = own.changed() => if changed.is_err() { tokio::time::sleep(LOOK_EVERY).await },
            changed = house.changed() => if changed.is_err() { tokio::time::sleep(LOOK_EVERY).await },
        }
    }
}

/// When a caller's right ends; `None` when it has.
fn end_of(shared: &Shared, service: &Service, caller: &Caller) -> Option<u64> {
    shared.tenant(&caller.principal.tenant).ok().flatten()?;
    let end_us = match &caller.credential {
        Credential::Token => u64::MAX,
        Credential::Bearer { expires_us } => *expires_us,
        Credential::Key(key) => service.keys.end_of(key).ok().flatten()?,
    };
    (now_us() < end_us).then_some(end_us)
}
