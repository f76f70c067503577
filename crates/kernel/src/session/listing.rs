//! What a list says of a branch: a fold of its own, small and quick, so that a list of many sessions holds
//! none of their conversations, and one session that cannot be folded whole is listed all the same.

use glasshouse_log::Projection;
use glasshouse_model::body::{
    MessageReceived, ModeChanged, Outcome, SessionCreated, TurnEnd, WorkflowTransitioned,
};
use glasshouse_model::{Event, Kind, Mode, Seq, State as Workflow};
use serde::{Deserialize, Serialize};

/// Longest task in characters.
const MAX_TASK_CHARS: usize = 72;

/// One line of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Sequence of the last event.
    pub head: Seq,
    /// Directory of the project; `None` for what is no agent's session.
    pub project: Option<String>,
    /// Provider that it began with.
    pub provider: Option<String>,
    /// Model that it began with.
    pub model: Option<String>,
    /// The beginning of the first message, without control characters.
    pub task: Option<String>,
    /// Where the workflow stands.
    pub workflow: Option<Workflow>,
    /// How strictly it works, once that was changed.
    pub mode: Option<Mode>,
    /// Whether a turn is open.
    pub is_open: bool,
    /// How the last turn ended, when none is open.
    pub outcome: Option<Outcome>,
    /// Whether that made a commit.
    pub has_commit: bool,
}

impl Projection for Listing {
    const NAME: &'static str = "listing";
    /// Goes up with every change of what folding does or of the shape.
    const VERSION: u32 = 3;

    fn apply(&mut self, event: &Event) {
        self.head = event.seq();
        match event.kind() {
            Kind::SessionCreated => {
                if let Ok(created) = event.body_as::<SessionCreated>() {
                    self.project = Some(created.project);
                    self.provider = Some(created.provider);
                    self.model = Some(created.model);
                }
            }
            Kind::MessageReceived if self.task.is_none() => {
                self.task = event.body_as().ok().map(|message: MessageReceived| task(&message));
            }
            Kind::WorkflowTransitioned => {
                let transition = event.body_as::<WorkflowTransitioned>();
                self.workflow = transition.ok().map(|transition| transition.to);
            }
            Kind::SessionModeChanged => {
                self.mode = event.body_as().ok().map(|changed: ModeChanged| changed.to);
            }
            Kind::TurnStarted => (self.is_open, self.outcome) = (true, None),
            kind if kind.ends_turn() => {
                self.is_open = false;
                let end: Option<TurnEnd> = event.body_as().ok();
                self.has_commit = end.as_ref().is_some_and(|end| end.commit.is_some());
                self.outcome = end.map(|end| end.outcome);
            }
            _ => {}
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

impl Listing {
    /// Where the workflow stands, idle before the first message.
    #[must_use]
    pub fn workflow(&self) -> Workflow {
        self.workflow.unwrap_or(Workflow::Idle)
    }

    /// How strictly the branch works.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Strict)
    }
}

fn task(message: &MessageReceived) -> String {
    let line = message.text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(MAX_TASK_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use glasshouse_model::Digest;
    use serde_json::{Value, json};

    use super::*;
    use crate::session::State;

    /// A snapshot of another shape must have another version: when this fails, raise
    /// `Projection::VERSION` and put the new text here.
    #[test]
    fn the_saved_shape_belongs_to_its_version() {
        let saved = String::from_utf8(Listing::default().save().unwrap()).unwrap();
        let shape = r#"{"head":0,"project":null,"provider":null,"model":null,"task":null,"workflow":null,"mode":null,"is_open":false,"outcome":null,"has_commit":false}"#;
        assert_eq!((Listing::VERSION, saved.as_str()), (3, shape));
        assert_eq!(Listing::load(saved.as_bytes()), Some(Listing::default()));
    }

    fn event(seq: Seq, kind: &str, body: &Value) -> Event {
        serde_json::from_value(json!({
            "v": 1, "tenant": "local", "session": "s_1", "branch": "b_1", "seq": seq, "time_us": 1,
            "kind": kind, "actor": { "type": "user", "id": "local" }, "body": body,
            "body_hash": Digest::ZERO, "prev": Digest::ZERO, "hash": Digest::ZERO,
        }))
        .unwrap()
    }

    /// Both folds say the same of what both hold.
    #[test]
    fn a_list_says_what_the_whole_state_says() {
        let (mut listing, mut state, mut seq) = (Listing::default(), State::default(), 0);
        let mut check = |kind: &str, body: Value, expected: (bool, Option<Outcome>)| {
            seq += 1;
            let event = event(seq, kind, &body);
            Projection::apply(&mut listing, &event);
            state.apply(&event);
            assert_eq!(state.unreadable, None, "{kind}");
            assert_eq!((listing.is_open, listing.outcome), expected, "{kind}");
            assert_eq!((state.turn.is_some(), state.outcome()), expected, "{kind}");
            assert_eq!((listing.head, listing.workflow()), (state.head, state.workflow()));
        };
        let end = |outcome: &str| json!({ "turn": 1, "outcome": outcome });
        check("message.received", json!({ "text": "first\u{7} line\nsecond" }), (false, None));
        check("turn.started", json!({}), (true, None));
        let moved = json!({ "from": "idle", "to": "planning", "because": "b" });
        check("workflow.transitioned", moved, (true, None));
        check("message.received", json!({ "text": "more" }), (true, None));
        check("turn.completed", end("answered"), (false, Some(Outcome::Answered)));
        check("later.happened", json!([]), (false, Some(Outcome::Answered)));
        check("turn.started", json!({}), (true, None));
        check("turn.failed", end("failed"), (false, Some(Outcome::Failed)));
        assert_eq!(listing.task.as_deref(), Some("first line"));
        // What cannot be read is left out, and the rest is listed.
        Projection::apply(&mut listing, &event(99, "turn.completed", &json!(null)));
        assert_eq!((listing.head, listing.is_open, listing.outcome), (99, false, None));
    }
}
