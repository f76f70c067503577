//! One owner per branch: takeover, fencing, and what happens when an owner dies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use glasshouse_log::{Append, LEASE_TTL_US, Log};
use glasshouse_model::TenantId;

use crate::child::Process;
use crate::support::{Fixture, ManualClock, branch, clocked, numbered, numbers, refusal};

fn with_epoch(epoch: Option<u64>) -> Append {
    Append { epoch, ..numbered("b_main", 1) }
}

#[test]
fn one_owner_writes_and_the_others_are_told_who() {
    let fixture = Fixture::new();
    let log = fixture.log();
    let acquire = || log.acquire_lease(&branch("b_main"));
    let lease = acquire().unwrap();
    assert_eq!(lease.epoch(), 1);
    assert_eq!(refusal(acquire(), "generation"), "session_owned generation=1");
    assert_eq!(log.acquire_lease(&branch("b_other")).unwrap().epoch(), 1, "another branch");
    log.append(with_epoch(Some(1))).unwrap();
    assert_eq!(refusal(log.append(with_epoch(None)), "generation"), "session_owned generation=1");
    assert_eq!(refusal(log.append(with_epoch(Some(2))), "epoch"), "lease_lost epoch=2");
    lease.release().unwrap();
    assert_eq!(refusal(log.append(with_epoch(Some(1))), "epoch"), "lease_lost epoch=1");
    log.append(with_epoch(None)).unwrap();
    let second = acquire().unwrap();
    assert_eq!(second.epoch(), 2);
    drop(second);
    assert_eq!(acquire().unwrap().epoch(), 3, "dropping gives it back");
}

#[test]
fn a_silent_owner_is_replaced_and_fenced_off() {
    let clock = Arc::new(ManualClock::default());
    let fixture = Fixture::with(clocked(&clock));
    let other = Log::open_with(fixture.path(), &TenantId::local(), clocked(&clock)).unwrap();
    let acquire = || other.acquire_lease(&branch("b_main"));
    let first = fixture.log().acquire_lease(&branch("b_main")).unwrap();
    let pass = |us| clock.uptime_us.fetch_add(us, Ordering::SeqCst);
    pass(LEASE_TTL_US - 5_000);
    assert_eq!(refusal(acquire(), "expires_in_ms"), "session_owned expires_in_ms=5");
    first.renew().unwrap();
    pass(LEASE_TTL_US - 1);
    assert_eq!(refusal(acquire(), "generation"), "session_owned generation=1", "renewed");
    clock.now_us.fetch_add(LEASE_TTL_US * 100, Ordering::SeqCst);
    assert_eq!(refusal(acquire(), "generation"), "session_owned generation=1", "the wall jumps");
    pass(1);
    fixture.log().append(with_epoch(Some(1))).unwrap();
    let second = acquire().unwrap();
    assert_eq!(second.epoch(), 2);
    let late = fixture.log().append(with_epoch(Some(1)));
    assert_eq!(refusal(late, "generation"), "lease_lost generation=2");
    assert_eq!(refusal(first.renew(), "epoch"), "lease_lost epoch=1");
    assert_eq!(refusal(first.release(), "epoch"), "lease_lost epoch=1");
    other.append(with_epoch(Some(2))).unwrap();
    assert_eq!(numbers(&other, "b_main"), [1, 1], "the late append left nothing");
}

#[test]
fn a_dead_owner_is_replaced_at_once() {
    let fixture = Fixture::new();
    let mut owner = Process::start("own the session", fixture.path());
    assert_eq!(owner.report().as_deref(), Some("1"));
    let acquire = || fixture.log().acquire_lease(&branch("b_main"));
    assert_eq!(refusal(acquire(), "generation"), "session_owned generation=1");
    owner.tell("append");
    assert_eq!(owner.report().as_deref(), Some("appended"));
    owner.kill();
    // Nobody waits for the process, so it stays in the table; its last thread may be ending still.
    let deadline = Instant::now() + Duration::from_micros(LEASE_TTL_US / 3);
    let lease = loop {
        match acquire() {
            Ok(lease) => break lease,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert_eq!(lease.epoch(), 2);
}

#[test]
fn two_processes_never_both_write() {
    let clock = Arc::new(ManualClock::default());
    let fixture = Fixture::with(clocked(&clock));
    let mut owner = Process::start("own the session", fixture.path());
    assert_eq!(owner.report().as_deref(), Some("1"));
    // To this process the owner has been silent for long.
    clock.uptime_us.store(u64::MAX / 2, Ordering::SeqCst);
    let lease = fixture.log().acquire_lease(&branch("b_main")).unwrap();
    owner.tell("append");
    assert_eq!(owner.report().as_deref(), Some("lease_lost"));
    fixture.log().append(with_epoch(Some(lease.epoch()))).unwrap();
    assert_eq!(numbers(fixture.log(), "b_main"), [1]);
}
