//! The log as its users see it: what it keeps, what it finds out, and what it survives.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod append;
mod branches;
mod cares;
mod cases;
mod child;
mod concurrency;
mod conformance;
mod crash;
mod damaged;
mod disk;
mod errors;
mod exports;
mod faults;
mod files;
mod firsts;
mod forgets;
mod images;
mod imports;
mod keepings;
mod laters;
mod leases;
mod model;
mod power;
mod projections;
mod proofs;
mod restores;
#[path = "../../../../tests/support/skips.rs"]
mod skips;
mod storage_full;
mod subscriptions;
mod support;
mod tamper;
