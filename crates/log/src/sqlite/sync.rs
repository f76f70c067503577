//! What the queue waits with. The model check puts its own in this place.

use std::sync::PoisonError;
use std::time::Instant;

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'m, T>(condvar: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits until somebody notifies, at most until a moment.
pub(crate) fn wait_until<'m, T>(
    condvar: &Condvar,
    guard: MutexGuard<'m, T>,
    moment: Instant,
) -> MutexGuard<'m, T> {
    let longest = moment.saturating_duration_since(now());
    condvar.wait_timeout(guard, longest).unwrap_or_else(PoisonError::into_inner).0
}
