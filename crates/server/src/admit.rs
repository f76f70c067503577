//! Who asks, and for which tenant: by the server's token, by a key, or by a token of an identity provider.
//! Whatever is wrong with what was sent, the answer is the same.

use std::net::IpAddr;
use std::sync::Arc;

use glasshouse_kernel::driver::{KEY_PREFIX, TenantRow};
use glasshouse_model::{Principal, PrincipalKind, TenantId};
use hyper::header::{AUTHORIZATION, HeaderMap};

use crate::auth::PREFIX;
use crate::caller::{Caller, Credential};
use crate::keys::claimed;
use crate::problem::RETRY_AFTER_S;
use crate::rights::Rights;
use crate::service::Service;
use crate::shared::Shared;
use crate::throttle::Rate;
use crate::{Error, Result, codes};

/// Refused requests of one address; above it the answer is to come later.
const REFUSED: Rate = Rate { per_minute: 120, at_once: 60 };

/// A request that was let in.
#[derive(Clone)]
pub(crate) struct Admitted {
    /// Who asks; `None` on the few routes that are open.
    pub(crate) caller: Option<Caller>,
    /// The tenant's part of the server.
    pub(crate) service: Arc<Service>,
    /// What the tenant may do.
    pub(crate) tenant: Arc<TenantRow>,
}

pub(crate) fn refused() -> Error {
    Error::new(codes::UNAUTHORIZED, "the request has no valid token")
}

/// The one credential of a request.
fn bearer(headers: &HeaderMap) -> Result<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().and_then(|value| value.to_str().ok()).ok_or_else(refused)?;
    if values.next().is_some() {
        return Err(refused());
    }
    let (scheme, sent) = value.split_once(' ').ok_or_else(refused)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(sent.trim()) } else { Err(refused()) }
}

impl Shared {
    /// Lets a request in.
    ///
    /// # Errors
    /// `unauthorized`, in the same words whatever is wrong; `too_many_requests` for an address that goes on trying.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Admitted> {
        let admitted = match bearer(headers) {
            Ok(sent) => self.admit_bearer(sent).await,
            Err(error) => Err(error),
        };
        admitted.map_err(|error| {
            if error.code() != codes::UNAUTHORIZED.name {
                return error;
            }
            match self.throttle.take(&format!("refused/{}", network(peer)), REFUSED) {
                Ok(()) => error,
                Err(wait) => {
                    Error::new(codes::TOO_MANY_REQUESTS, "too many requests without a valid token")
                        .with(RETRY_AFTER_S, wait.as_secs() + 1)
                }
            }
        })
    }

    async fn admit_bearer(self: &Arc<Self>, sent: &str) -> Result<Admitted> {
        if sent.starts_with(KEY_PREFIX) {
            return self.admit_key(sent.to_owned()).await;
        }
        if sent.starts_with(PREFIX) {
            let token = self.token.as_ref().ok_or_else(refused)?;
            token.check(sent)?;
            let principal = Principal::new(PrincipalKind::User, "local", TenantId::local());
            let rights = Rights::of(&["admin".to_owned()], &principal);
            let caller = Caller { principal, rights, credential: Credential::Token };
            return self.of_tenant(caller).await;
        }
        let proved = self.jwt.as_ref().ok_or_else(refused)?.verify(sent).await?;
        let principal = Principal::new(PrincipalKind::User, &proved.subject, proved.tenant);
        let rights = Rights::of(&proved.roles, &principal);
        let credential = Credential::Bearer { expires_us: proved.expires_us };
        self.of_tenant(Caller { principal, rights, credential }).await
    }

    async fn admit_key(self: &Arc<Self>, sent: String) -> Result<Admitted> {
        let shared = Arc::clone(self);
        self.looking(move || {
            let claimed = claimed(&sent).ok_or_else(refused)?;
            let row = shared.key(&claimed, &sent)?.ok_or_else(refused)?;
            let (service, tenant) = shared.tenant(&claimed.tenant)?.ok_or_else(refused)?;
            let kind = if row.is_agent { PrincipalKind::Agent } else { PrincipalKind::User };
            let principal = Principal::new(kind, &row.key, claimed.tenant);
            let rights = Rights::of(&row.roles, &principal);
            let caller = Caller { principal, rights, credential: Credential::Key(row.key) };
            Ok(Admitted { caller: Some(caller), service, tenant })
        })
        .await
    }

    async fn of_tenant(self: &Arc<Self>, caller: Caller) -> Result<Admitted> {
        let shared = Arc::clone(self);
        self.looking(move || {
            let (service, tenant) = shared.tenant(&caller.principal.tenant)?.ok_or_else(refused)?;
            Ok(Admitted { caller: Some(caller), service, tenant })
        })
        .await
    }

    /// Looks something up on one of a few threads of their own: who is not known yet takes no thread of those
    /// who are.
    async fn looking<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let ended = |e: String| Error::new(codes::SERVER_FAILED, "a look-up broke down").why(e);
        let place = Arc::clone(&self.looking).acquire_owned().await;
        let place = place.map_err(|e| ended(e.to_string()))?;
        let looked = tokio::task::spawn_blocking(move || {
            let _place = place;
            look()
        });
        looked.await.map_err(|e| ended(e.to_string()))?
    }
}

/// Whom an address stands for: of the new protocol whole networks are given to one.
pub(crate) fn network(peer: IpAddr) -> String {
    match peer.to_canonical() {
        IpAddr::V4(four) => four.to_string(),
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_credential_in_one_header() {
        let check = |values: &[&str], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            });
            assert_eq!(bearer(&headers).ok(), expected, "{values:?}");
        };
        check(&["Bearer abc"], Some("abc"));
        check(&["bearer  abc"], Some("abc"));
        check(&[], None);
        check(&["abc"], None);
        check(&["Basic abc"], None);
        check(&["Bearer abc", "Bearer abc"], None);
    }

    #[test]
    fn an_address_counts_for_its_network() {
        let check = |peer: &str, expected: &str| {
            assert_eq!(network(peer.parse().unwrap()), expected, "{peer}");
        };
        check("192.0.2.7", "192.0.2.7");
        check("::ffff:192.0.2.7", "192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
    }
}
