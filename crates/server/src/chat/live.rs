//! What running answers have said that is not in the log yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glasshouse_kernel::Notice;
use glasshouse_model::{BranchId, Kind, Seq};
use tokio::sync::watch;

/// What an answer has said so far.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Sequence of the request.
    pub(crate) request: Seq,
    pub(crate) text: String,
    pub(crate) reasoning: String,
}

/// The answers of the turns that run in this process.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<HashMap<BranchId, Arc<watch::Sender<Said>>>>);

impl Live {
    fn lock(&self) -> MutexGuard<'_, HashMap<BranchId, Arc<watch::Sender<Said>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for the answers of a turn.
    pub(crate) fn begin(&self, branch: &BranchId) -> Speaker {
        let said = Arc::new(watch::Sender::new(Said::default()));
        self.lock().insert(branch.clone(), Arc::clone(&said));
        Speaker(said)
    }

    /// The turn is over.
    pub(crate) fn end(&self, branch: &BranchId) {
        self.lock().remove(branch);
    }

    /// Hears the answers of a branch's turn, if it runs here.
    pub(crate) fn hear(&self, branch: &BranchId) -> Option<watch::Receiver<Said>> {
        self.lock().get(branch).map(|said| said.subscribe())
    }
}

/// Takes what a turn's answers say.
#[derive(Debug)]
pub(crate) struct Speaker(Arc<watch::Sender<Said>>);

impl Speaker {
    /// Takes a notice of the turn.
    pub(crate) fn notice(&self, notice: Notice<'_>) {
        match notice {
            Notice::Event(event) if *event.kind() == Kind::ModelRequested => {
                let request = event.seq();
                self.0.send_replace(Said { request, ..Said::default() });
            }
            Notice::Text(more) => self.0.send_modify(|said| said.text.push_str(more)),
            Notice::Reasoning(more) => self.0.send_modify(|said| said.reasoning.push_str(more)),
            Notice::Event(_) | Notice::Output(..) => {}
        }
    }
}
