//! The queue of the log, with ways to wait that the model checker orders.

pub(crate) mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU8, Ordering};
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread::{Thread, current, park, yield_now};
}

#[path = "../../src/sqlite/queue.rs"]
pub(crate) mod queue;
