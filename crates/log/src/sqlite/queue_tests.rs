//! Not in the file that they test: the model check builds that with other ways to wait.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::queue::{Lead, Queue};

/// Many callers, each with many jobs: every job is done once, and never two groups at a time.
#[test]
fn every_job_is_done_once_and_one_caller_leads() {
    const CALLERS: usize = 16;
    const JOBS: usize = 500;
    let queue = Queue::new();
    let (done, leaders) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let lead = |lead: &Lead<'_, usize>, max: usize| {
        assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "two lead");
        let taken = lead.take(max);
        assert!(taken.len() <= max);
        for mut entry in taken {
            done.fetch_add(usize::from(entry.take().is_some()), Ordering::SeqCst);
        }
        leaders.fetch_sub(1, Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (queue, lead) = (&queue, &lead);
            scope.spawn(move || {
                for job in 0..JOBS {
                    let max = 1 + (caller + job) % 20;
                    let leading = if job % 50 == 49 { queue.lead() } else { queue.enter(job) };
                    if let Some(leading) = leading {
                        lead(&leading, max);
                    }
                }
            });
        }
    });
    let alone = JOBS / 50;
    assert_eq!(done.load(Ordering::SeqCst), CALLERS * (JOBS - alone));
    assert_eq!(queue.waiting(), (0, 0));
}

/// A leader that panics takes nobody with it: who waits returns, and nobody comes in.
#[test]
fn a_panic_of_the_leader_lets_everybody_go() {
    let queue = Queue::new();
    let (entered, may_fail) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| {
            let lead = queue.enter(0).expect("the first leads");
            let _taken = lead.take(10);
            entered.wait();
            may_fail.wait();
            panic!("planted");
        });
        entered.wait();
        let follower = scope.spawn(|| queue.enter(1).is_some());
        while queue.waiting().0 < 2 {
            std::thread::yield_now();
        }
        may_fail.wait();
        assert!(leader.join().is_err());
        assert!(!follower.join().expect("it returns"), "nobody leads after a panic");
    });
    assert!(queue.enter(2).is_none(), "the queue is closed");
}

#[test]
fn what_was_left_comes_before_what_is_entered_later() {
    let queue = Queue::new();
    assert_eq!((queue.leave(1), queue.leave(2)), (Some(1), Some(2)));
    let lead = queue.enter(3).expect("nobody else leads");
    let taken: Vec<_> = lead.take(1).into_iter().filter_map(|mut entry| entry.take()).collect();
    assert_eq!(taken, [1, 2, 3]);
    drop(lead);
    assert_eq!((queue.leave(4), queue.waiting()), (Some(1), (0, 1)));
}
