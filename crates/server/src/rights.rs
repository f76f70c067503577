//! What somebody may do: roles are bundles of rights, and each route names the rights of which one is enough.

use std::ops::BitOr;

use glasshouse_model::{Principal, PrincipalKind, TenantId};

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights(u8);

/// See what there is.
pub(crate) const SEE: Rights = Rights(1);
/// Start sessions and turns, and what belongs to them.
pub(crate) const ACT: Rights = Rights(1 << 1);
/// Answer questions, and take grants back.
pub(crate) const ANSWER: Rights = Rights(1 << 2);
/// Verify the log and prove what is in it.
pub(crate) const PROVE: Rights = Rights(1 << 3);
/// Keys, policies and the end of sessions.
pub(crate) const MANAGE: Rights = Rights(1 << 4);
/// The server itself, and its tenants.
pub(crate) const HOST: Rights = Rights(1 << 5);

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Rights {
    /// None.
    pub(crate) const NONE: Self = Self(0);

    /// Either set.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether one of others is among them.
    pub(crate) const fn has_one_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Of somebody who has roles. Words that are none give nothing.
    pub(crate) fn of(roles: &[String], principal: &Principal) -> Self {
        let all = roles.iter().fold(Self::NONE, |all, role| all | of_role(role));
        let is_host = all.has_one_of(MANAGE) && principal.tenant == TenantId::local();
        let all = if is_host { all | HOST } else { all };
        match principal.kind {
            PrincipalKind::User => all,
            // Whoever makes a key for an agent: an agent answers no question and gives nobody a right.
            _ => all.without(ANSWER | MANAGE | HOST),
        }
    }

    /// The roles that have one of these rights, for people.
    pub(crate) fn roles(self) -> Vec<&'static str> {
        let has = |role: &&str| of_role(role).has_one_of(self);
        let mut roles: Vec<_> = glasshouse_kernel::driver::ROLES.into_iter().filter(has).collect();
        if self.has_one_of(HOST) {
            roles.push("admin of the tenant local");
        }
        roles
    }
}

fn of_role(role: &str) -> Rights {
    match role {
        "viewer" => SEE,
        "operator" => SEE | ACT,
        "approver" => SEE | ANSWER,
        "auditor" => SEE | PROVE,
        "admin" => SEE | ACT | ANSWER | PROVE | MANAGE,
        _ => Rights::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_give_what_their_names_say_and_an_agent_never_answers() {
        let check = |roles: &[&str], kind, tenant: &str, expected: Rights| {
            let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
            let principal = Principal::new(kind, "ada", tenant.parse().unwrap());
            assert_eq!(Rights::of(&roles, &principal), expected, "{roles:?} {kind:?} {tenant}");
        };
        let (user, agent) = (PrincipalKind::User, PrincipalKind::Agent);
        let all = SEE | ACT | ANSWER | PROVE | MANAGE;
        check(&[], user, "local", Rights::NONE);
        check(&["king"], user, "local", Rights::NONE);
        check(&["viewer"], user, "local", SEE);
        check(&["operator", "approver"], user, "acme", SEE | ACT | ANSWER);
        check(&["auditor"], user, "acme", SEE | PROVE);
        check(&["admin"], user, "acme", all);
        check(&["admin"], user, "local", all | HOST);
        check(&["admin", "approver"], agent, "local", SEE | ACT | PROVE);
        assert_eq!(ANSWER.roles(), ["approver", "admin"]);
    }
}
