//! The people around a session: those who watch, those who approve, and the one who stops it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use glasshouse_model::body::{ApprovalRequested, GrantScope};
use glasshouse_model::{Actor, CallId, Event, PrincipalKind, Seq};

/// Something to show while a turn runs.
#[derive(Debug, Clone, Copy)]
pub enum Notice<'a> {
    /// An event that is now durable.
    Event(&'a Event),
    /// Text of the model as it arrives; it is not in the log yet.
    Text(&'a str),
    /// What the model thinks aloud, as it arrives; it is not in the log yet.
    Reasoning(&'a str),
    /// Masked output of a command as it arrives.
    Output(CallId, &'a [u8]),
}

/// Watches a turn. Called from the turn's own threads, so it must be quick.
pub trait Observer: Send + Sync {
    /// Shows one thing.
    fn notice(&self, notice: Notice<'_>);
}

/// Watches nothing.
impl Observer for () {
    fn notice(&self, _: Notice<'_>) {}
}

/// What a person is asked.
#[derive(Debug, Clone)]
pub struct ReviewItem {
    /// Sequence of `approval.requested`, the approval's name.
    pub approval: Seq,
    /// The request.
    pub request: ApprovalRequested,
    /// The unified diff, for a merge.
    pub patch: Option<String>,
    /// Set once somebody else answered, or nobody waits for the answer any more.
    pub withdrawn: Withdrawn,
}

/// Whether a question is still open.
#[derive(Debug, Clone, Default)]
pub struct Withdrawn(Arc<AtomicBool>);

impl Withdrawn {
    /// Whether no answer is waited for.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A yes to more than the call at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wider {
    /// How far it reaches.
    pub scope: GrantScope,
    /// The `match` of a rule, in the place of the one that was offered.
    pub rule: Option<serde_json::Value>,
    /// How long it holds, in microseconds; else as long as is usual for the scope.
    pub lifetime_us: Option<u64>,
    /// Most uses.
    pub max_uses: Option<u64>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Go ahead, once.
    Approve,
    /// Go ahead, and with calls like it.
    ApproveFor(Wider),
    /// No.
    Reject,
    /// Nobody is there to ask.
    Nobody,
}

/// Asks a person. An agent or a plugin can never be one.
pub trait Reviewer: Send + Sync {
    /// Who answers.
    fn approver(&self) -> Actor;
    /// Asks and waits for the answer; runs on a thread of its own. Must answer
    /// [`Answer::Nobody`] at once where nobody can be asked, and end soon once the item is withdrawn;
    /// its answer then counts for nothing.
    fn review(&self, item: &ReviewItem) -> Answer;
    /// Whether it agrees before it is shown anything, as the log then says.
    fn is_in_advance(&self) -> bool {
        false
    }
    /// How long an answer is waited for that comes through the log only: then a turn asks nobody here, and no
    /// thread waits. `None` for a reviewer that is asked.
    fn elsewhere(&self) -> Option<Duration> {
        None
    }
}

/// A session that nobody attends: whatever needs an approval is denied at once.
#[derive(Debug, Clone, Copy)]
pub struct NoReviewer;

impl Reviewer for NoReviewer {
    fn approver(&self) -> Actor {
        Actor { kind: PrincipalKind::Kernel, id: "kernel".to_owned() }
    }

    fn review(&self, _: &ReviewItem) -> Answer {
        Answer::Nobody
    }
}

/// Waits a while for an answer that a person gives in another process.
#[derive(Debug, Clone, Copy)]
pub struct Elsewhere {
    /// Longest wait for each answer.
    pub limit: Duration,
}

/// How often a reviewer looks whether its question is withdrawn.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Reviewer for Elsewhere {
    fn approver(&self) -> Actor {
        NoReviewer.approver()
    }

    fn review(&self, item: &ReviewItem) -> Answer {
        let until = Instant::now() + self.limit;
        while !item.withdrawn.is_set() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        Answer::Nobody
    }

    fn elsewhere(&self) -> Option<Duration> {
        Some(self.limit)
    }
}

/// Stops a turn. Clones share one switch; once set it stays set.
#[derive(Debug, Clone)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    set: AtomicBool,
    /// Who set it first, where that was somebody.
    by: OnceLock<Actor>,
    wake: tokio::sync::Notify,
    sandbox: glasshouse_sandbox::Cancel,
    provider: glasshouse_provider::Cancel,
}

impl Cancel {
    /// A switch that is off.
    ///
    /// # Errors
    /// `sandbox_system` when no descriptor is left.
    pub fn new() -> crate::Result<Self> {
        let shared = Shared {
            set: AtomicBool::new(false),
            by: OnceLock::new(),
            wake: tokio::sync::Notify::new(),
            sandbox: glasshouse_sandbox::Cancel::new()?,
            provider: glasshouse_provider::Cancel::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Stops the turn: the running command and the running request end, the session stays resumable.
    pub fn cancel(&self) {
        self.shared.set.store(true, Ordering::SeqCst);
        self.shared.sandbox.cancel();
        self.shared.provider.cancel();
        self.shared.wake.notify_waiters();
    }

    /// The same as somebody, whom the end of the turn then names.
    pub fn cancel_as(&self, by: Actor) {
        let _ = self.shared.by.set(by);
        self.cancel();
    }

    /// Who stopped it, where that is known.
    pub(crate) fn by(&self) -> Option<&Actor> {
        self.shared.by.get()
    }

    /// Whether it was set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.set.load(Ordering::SeqCst)
    }

    /// Waits until it is set.
    pub async fn cancelled(&self) {
        loop {
            let woken = self.shared.wake.notified();
            if self.is_cancelled() {
                return;
            }
            woken.await;
        }
    }

    pub(crate) fn sandbox(&self) -> &glasshouse_sandbox::Cancel {
        &self.shared.sandbox
    }

    pub(crate) fn provider(&self) -> &glasshouse_provider::Cancel {
        &self.shared.provider
    }
}
