//! What the queue waits with. The model check puts its own in this place.

pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{Thread, current, park, yield_now};
