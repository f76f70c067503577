//! How many there are of something at a moment: requests that wait, answers that go on, streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A count of what is there now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

/// One of those that are counted, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted {
    count: Count,
    before: usize,
}

impl Count {
    /// How many there are.
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// One more. Of many at once each knows how many there were before it.
    pub(crate) fn one(&self) -> Counted {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        Counted { count: self.clone(), before }
    }
}

impl Counted {
    /// How many there were before it.
    pub(crate) const fn before(&self) -> usize {
        self.before
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_for_as_long_as_it_lives() {
        let count = Count::default();
        let (first, second) = (count.one(), count.clone().one());
        assert_eq!((first.before(), second.before(), count.now()), (0, 1, 2));
        drop(first);
        let next = count.one().before();
        assert_eq!((next, count.now()), (1, 1));
        drop(second);
        assert_eq!(count.now(), 0);
    }
}
