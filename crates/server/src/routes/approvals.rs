//! Questions that wait for a person, and the rights that answers gave.

use glasshouse_kernel::driver::{ApprovalName, GrantRow, GrantState, PendingApproval};
use glasshouse_kernel::{Answer, Config, Wider, codes};
use glasshouse_model::body::GrantScope;
use glasshouse_model::{Digest, SessionId};
use glasshouse_policy::GrantId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::{Ask, invalid};
use crate::page::{self, MOST, Order, Wanted};
use crate::quota::check_stored;
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result};

/// Microseconds of a millisecond.
const US_PER_MS: u64 = 1_000;

fn unknown(text: &str) -> Error {
    Error::new(codes::APPROVAL_UNKNOWN, format!("nothing asks for the approval {text}"))
        .why("there is no such question, or it is answered, or its turn is over")
}

/// Refuses an answer to a turn that somebody stopped: it would be said to count, and the turn ends without it.
///
/// # Errors
/// `approval_unknown`.
pub(super) fn check_asked(service: &Service, name: &ApprovalName) -> Result<()> {
    match service.desk.is_stopped(&name.branch) {
        true => Err(unknown(&name.to_string())),
        false => Ok(()),
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Approvals")]
pub(crate) struct List {
    approvals: Vec<PendingApproval>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Questions, oldest first.
pub(crate) fn list(service: &Service, ask: &Ask) -> Result<Reply> {
    let query: page::Query = ask.query()?;
    let all = service.kernel.pending_approvals()?;
    let page = page::page(all, &query.wanted(), Order::Rising, PendingApproval::place)?;
    Ok(Reply::ok(&List { approvals: page.items, next: page.next }))
}

/// One question.
pub(crate) fn show(service: &Service, ask: &Ask) -> Result<Reply> {
    let name: ApprovalName = ask.part("approval", unknown)?;
    Ok(Reply::ok(&service.kernel.pending_approval(&name)?))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ApprovalAnswer")]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    approved: bool,
    /// Digest of what the person saw.
    digest: Digest,
    scope: Option<GrantScope>,
    /// The `match` of a rule, in the place of the one that was offered.
    rule: Option<serde_json::Value>,
    lifetime_ms: Option<u64>,
    max_uses: Option<u64>,
}

impl Given {
    fn answer(self) -> Result<Answer> {
        let is_wider = self.rule.is_some() || self.lifetime_ms.is_some() || self.max_uses.is_some();
        let scope = self.scope.unwrap_or(GrantScope::Call);
        // A grant of no use is none, and the greatest number marks one that was taken back.
        if self.max_uses.is_some_and(|uses| uses == 0 || uses == u64::MAX) {
            return Err(invalid("the answer cannot be used")
                .why(format!("`max_uses` is 1 to {}", u64::MAX - 1)));
        }
        if self.lifetime_ms == Some(0) {
            return Err(invalid("the answer cannot be used").why("`lifetime_ms` is at least 1"));
        }
        match (self.approved, scope) {
            (false, _) if is_wider || self.scope.is_some() => {
                Err(invalid("the answer cannot be used").why("a no has no further terms"))
            }
            (false, _) => Ok(Answer::Reject),
            (true, GrantScope::Call) if is_wider => Err(invalid("the answer cannot be used")
                .why("an approval of one call has no further terms")),
            (true, GrantScope::Call) => Ok(Answer::Approve),
            (true, scope) => Ok(Answer::ApproveFor(Wider {
                scope,
                rule: self.rule,
                lifetime_us: self.lifetime_ms.map(|ms| ms.saturating_mul(US_PER_MS)),
                max_uses: self.max_uses,
            })),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ApprovalAnswered")]
pub(crate) struct Answered {
    approval: ApprovalName,
    session: SessionId,
    approved: bool,
    /// Whether a process runs the session and goes on; else it goes on when it is resumed.
    running: bool,
}

/// Answers a question: whatever is asked by now, only what the person saw is answered.
pub(crate) fn answer(service: &Service, ask: &Ask) -> Result<Reply> {
    let name: ApprovalName = ask.part("approval", unknown)?;
    let given: Given = ask.json()?;
    let (approved, digest) = (given.approved, given.digest);
    // A no ends something, and has no terms that would have to be kept.
    if approved {
        check_stored(service, ask)?;
    }
    let answer = given.answer()?;
    check_asked(service, &name)?;
    let pending = service.kernel.answer_approval(&name, answer, Some(&digest), ask.principal()?)?;
    let (session, running) = (pending.session, pending.running);
    Ok(Reply::ok(&Answered { approval: name, session, approved, running }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "GrantsQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Grants {
    /// Whether those that can be used no more are told, too.
    #[serde(default)]
    all: bool,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most items of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Grants")]
pub(crate) struct GrantList {
    grants: Vec<GrantRow>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Rights that people gave, newest first: those that can be used, or all.
pub(crate) fn grants(service: &Service, ask: &Ask) -> Result<Reply> {
    let Grants { all, cursor, limit } = ask.query()?;
    let config = |project: &std::path::Path| {
        service.desk.settings(Config::default(), project).ok().map(|settings| settings.config)
    };
    let mut rows = service.kernel.grants(config)?;
    rows.retain(|row| all || row.state == GrantState::Live);
    let wanted = Wanted { cursor: cursor.as_deref(), limit };
    let place = |row: &GrantRow| (row.issued_us, row.grant.to_string());
    let page = page::page(rows, &wanted, Order::Falling, place)?;
    Ok(Reply::ok(&GrantList { grants: page.items, next: page.next }))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GrantRevoked")]
pub(crate) struct Revoked {
    grant: GrantId,
    /// Whether it could be used until now.
    changed: bool,
}

/// Takes a right back. Doing it again changes nothing.
pub(crate) fn revoke(service: &Service, ask: &Ask) -> Result<Reply> {
    let grant = ask.part("grant", |text| {
        Error::new(codes::GRANT_NOT_FOUND, format!("there is no grant {text}"))
    })?;
    let changed = service.kernel.revoke_grant(grant, ask.principal()?, None)?;
    Ok(Reply::ok(&Revoked { grant, changed }))
}
