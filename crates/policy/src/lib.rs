//! Policy: one pure function that decides every syscall.
//!
//! [`decide`] takes a compiled [`Policy`], a [`Call`](glasshouse_model::Call) as plain data and a
//! time, and answers a [`Decision`](glasshouse_model::Decision) with every rule and reason that
//! made it. It reads no clock, no file and no random number; the one thing it calls is the
//! [`Extension`] it was given. The layers, each of which may deny for good:
//!
//! 1. built-in rules, which no file can change ([`Protected`] says what they guard);
//! 2. a [`SealedGrant`], which spares the layers below;
//! 3. the rules of the policy files;
//! 4. the extension.
//!
//! Review beats allow; an [`Approval`] turns review into allow and never a denial; what nobody
//! allows is denied.
#![forbid(unsafe_code)]

pub mod codes;
pub mod limits;
mod network;

mod approval;
mod builtin;
mod command;
mod counterfactual;
mod decide;
mod error;
mod explain;
mod extension;
mod glob;
mod grant;
mod index;
mod learn;
mod lint;
#[cfg(test)]
mod normative;
mod patterns;
mod policy;
mod relation;
mod reserved;
mod rule;
mod schema;
mod shell;
mod shipped;
mod sketch;
mod source;
mod standing;
mod suite;
mod write;
mod yaml;

pub use approval::{Approval, ApprovalRefusal, ApprovalUse};
pub use builtin::Protected;
pub use counterfactual::{CallChange, Edit, Explanation, Near, RuleChange, explain};
pub use decide::{Request, Verdict, decide};
pub use error::{Error, Result};
pub use explain::{explain_text, explanation_text, rate_text, time_text};
pub use extension::{Extension, ExtensionError, ExtensionText, Heard, Opinion};
pub use grant::{
    GrantId, GrantTerms, GrantUse, NoCounters, REVOKED, SealedGrant, SealingKey, TokenRefusal,
    TokenUse, UseCounters,
};
pub use learn::{KeptBack, Learned, Recorded, learn};
pub use lint::{Finding, Level, lint};
pub use patterns::PathPatterns;
pub use policy::{Policy, RuleInfo};
pub use reserved::is_reserved;
pub use rule::{ISOLATION_LEVELS, UI_LIMITS, UI_PROFILES};
pub use schema::policy_schema;
pub use shipped::{default_source, workflow_source};
pub use sketch::{CallSketch, OneOrMany, Size};
pub use source::{Consent, SecretPattern, Source, Warning};
pub use standing::{GrantRule, Standing, StandingRefusal, StandingUse};
pub use suite::{Suite, Tested};
