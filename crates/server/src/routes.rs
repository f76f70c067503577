//! Handlers: each reads a request, makes one call of the kernel or the log, and tells the answer.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod blobs;
pub(crate) mod branches;
pub(crate) mod chat;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod insight;
pub(crate) mod keys;
pub(crate) mod pages;
pub(crate) mod plans;
pub(crate) mod policy;
pub(crate) mod prompts;
pub(crate) mod sandboxes;
pub(crate) mod sessions;
pub(crate) mod tenants;
pub(crate) mod turns;
pub(crate) mod views;
