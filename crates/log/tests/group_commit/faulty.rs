//! The same queue with a planted bug: who is woken before it sleeps does not notice.

pub(crate) mod sync {
    use shuttle::sync::atomic::AtomicBool;
    pub(crate) use shuttle::sync::atomic::{AtomicU8, Ordering};
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread::yield_now;

    shuttle::thread_local! {
        static SLEEPS: Arc<AtomicBool> = Arc::new(AtomicBool::new(false));
    }

    pub(crate) struct Thread {
        thread: shuttle::thread::Thread,
        sleeps: Arc<AtomicBool>,
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            if self.sleeps.load(Ordering::SeqCst) {
                self.thread.unpark();
            }
        }
    }

    pub(crate) fn current() -> Thread {
        Thread { thread: shuttle::thread::current(), sleeps: SLEEPS.with(Arc::clone) }
    }

    pub(crate) fn park() {
        SLEEPS.with(|sleeps| sleeps.store(true, Ordering::SeqCst));
        shuttle::thread::park();
        SLEEPS.with(|sleeps| sleeps.store(false, Ordering::SeqCst));
    }
}

#[path = "../../src/sqlite/queue.rs"]
pub(crate) mod queue;
