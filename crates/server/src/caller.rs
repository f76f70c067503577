//! Somebody who proved who they are. A [`Caller`] is made by [`admit`](crate::admit) alone, so a handler that
//! has one knows that.

use glasshouse_model::Principal;

use crate::rights::Rights;

/// How somebody proved it, and so when that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The token of the server's own file.
    Token,
    /// A key, by its id.
    Key(String),
    /// A token of the identity provider, until it expires.
    Bearer {
        /// Microseconds since 1970.
        expires_us: u64,
    },
}

/// Somebody who proved who they are.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) rights: Rights,
    pub(crate) credential: Credential,
}

impl Caller {
    /// As whom they act.
    pub(crate) const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// One word for who asks, across all tenants.
    pub(crate) fn who(&self) -> String {
        let Principal { tenant, id, .. } = &self.principal;
        match &self.credential {
            Credential::Token => format!("{tenant}/token"),
            Credential::Key(key) => format!("{tenant}/key/{key}"),
            Credential::Bearer { .. } => format!("{tenant}/bearer/{id}"),
        }
    }
}
