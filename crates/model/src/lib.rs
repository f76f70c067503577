//! The vocabulary of Glasshouse: what an event, a syscall, a decision, a budget and an error *are*.
//!
//! Pure data and pure functions: nothing here reads a clock, a file or a random number. Every other
//! crate except `plan` speaks in these types, so a shape that tests and users see is defined once.
#![forbid(unsafe_code)]

#[macro_use]
mod schema;

pub mod body;
pub mod budget;
pub mod decision;
pub mod digest;
pub mod error;
pub mod event;
pub mod http;
pub mod id;
pub mod path;
pub mod principal;
pub mod suggest;
pub mod syscall;
pub mod units;
pub mod workflow;
pub mod yaml;

pub use budget::{Budget, Usage};
pub use decision::{Constraints, Decision, Effect, Layer, Rate, RuleTrace, each_once};
pub use digest::Digest;
pub use error::{Code, Exit, Fault, Report};
pub use event::{Actor, Draft, Event, Header, Kind};
pub use id::{BranchId, CallId, Seq, SessionId, TenantId};
pub use path::CanonicalPath;
pub use principal::{Principal, PrincipalKind};
pub use syscall::{Call, ChangeClass};
pub use workflow::{DebtLevel, ExemptionCategory, Mode, State};
