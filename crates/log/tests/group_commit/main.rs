//! Group commit under a model checker: whatever the order in which threads run, each job is stored once
//! and in its caller's order, one caller leads at a time, and nobody waits for ever.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the queue is built here for its model only")]
#![allow(clippy::duplicate_mod, reason = "once as it is, once with a planted bug")]

mod checked;
mod faulty;

/// Orders that are tried in each run.
const ORDERS: usize = 1_000;
/// Threads that enter jobs, and jobs of each.
const CALLERS: usize = 3;
const JOBS: usize = 3;

macro_rules! model {
    ($name:ident, $implementation:ident) => {
        fn $name() {
            use shuttle::sync::atomic::{AtomicUsize, Ordering};
            use shuttle::sync::{Arc, Mutex};
            use shuttle::thread;

            use crate::$implementation::queue::{Lead, Queue};

            struct Shared {
                queue: Queue<(usize, usize)>,
                stored: Mutex<Vec<(usize, usize)>>,
                leaders: AtomicUsize,
            }

            /// What whoever leads does.
            fn store(shared: &Shared, lead: &Lead<'_, (usize, usize)>) {
                assert_eq!(shared.leaders.fetch_add(1, Ordering::SeqCst), 0, "two lead");
                let mut entries = lead.take(2);
                let jobs: Vec<_> = entries.iter_mut().filter_map(|entry| entry.take()).collect();
                thread::yield_now();
                shared.stored.lock().unwrap().extend(jobs);
                shared.leaders.fetch_sub(1, Ordering::SeqCst);
                drop(entries);
            }

            let shared = Arc::new(Shared {
                queue: Queue::new(),
                stored: Mutex::new(Vec::new()),
                leaders: AtomicUsize::new(0),
            });
            let mut threads: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        for n in 0..JOBS {
                            // Each second job is left for others.
                            if n % 2 == 1 {
                                assert!(shared.queue.leave((caller, n)).is_some());
                                continue;
                            }
                            if let Some(lead) = shared.queue.enter((caller, n)) {
                                store(&shared, &lead);
                            }
                            let stored = shared.stored.lock().unwrap();
                            assert!(stored.contains(&(caller, n)), "it returned too early");
                        }
                    })
                })
                .collect();
            threads.push({
                // The keeper, which wants the lead to itself.
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let lead = shared.queue.lead().expect("nobody panics");
                    store(&shared, &lead);
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            let stored = shared.stored.lock().unwrap();
            for caller in 0..CALLERS {
                let own = stored.iter().filter(|(who, _)| *who == caller).map(|(_, n)| *n);
                assert!(own.eq(0..JOBS), "caller {caller}: {stored:?}");
            }
        }
    };
}

model!(group_commit, checked);
model!(group_commit_with_lost_wakes, faulty);

#[test]
fn every_job_is_stored_once_and_in_order_whoever_runs_when() {
    shuttle::check_random(group_commit, ORDERS);
    shuttle::check_pct(group_commit, ORDERS, 3);
}

/// The undefended control: a lost wake is found.
#[test]
fn a_planted_bug_is_found() {
    let found = std::panic::catch_unwind(|| {
        shuttle::check_random(group_commit_with_lost_wakes, ORDERS);
    });
    let message = found.expect_err("somebody waits for ever");
    let message = message.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(message.contains("deadlock"), "{message}");
}
