//! Texts that a person pins to a branch: they go with every request to the model, word for word.

use glasshouse_log::Append;
use glasshouse_model::body::ContextPinned;
use glasshouse_model::{Actor, Draft, Kind, PrincipalKind, SessionId};
use glasshouse_tools::sanitise::Masker;

use super::{Kernel, recorder};
use crate::{Error, Result, codes};

/// Most pins of a branch, and most bytes of a name and of a text: together they fit the smallest
/// window with room to work in.
const MAX_PINS: usize = 16;
const MAX_NAME_BYTES: usize = 64;
const MAX_TEXT_BYTES: usize = 4 << 10;

impl Kernel {
    /// Pins a text under a name, instead of an earlier one of that name; an empty text takes it away.
    ///
    /// # Errors
    /// `pin_invalid`; `session_not_found`; `session_owned` while a process works on the branch; the
    /// log's errors.
    pub fn pin(&self, id: &SessionId, branch: Option<&str>, name: &str, text: &str) -> Result<()> {
        let refuse =
            |why: String| Err(Error::new(codes::PIN_INVALID, "the text cannot be pinned").why(why));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(plain) {
            return refuse(format!(
                "a name is 1 to {MAX_NAME_BYTES} letters, digits, `-`, `_` and `.`"
            ));
        }
        if text.len() > MAX_TEXT_BYTES {
            return refuse(format!("{} bytes; the limit is {MAX_TEXT_BYTES}", text.len()));
        }
        let row = self.branch(id, branch)?;
        let lease = self.log.acquire_lease(&row.branch)?;
        let state = recorder::fold(&self.log, &row.branch)?;
        if state.created.is_none() {
            return Err(Error::new(
                codes::SESSION_NOT_FOUND,
                format!("session {id} was never started"),
            ));
        }
        let is_new = !state.pins.contains_key(name);
        if is_new && text.is_empty() {
            return refuse(format!("nothing is pinned as `{name}`"));
        }
        if is_new && state.pins.len() == MAX_PINS {
            return refuse(format!("{MAX_PINS} texts are pinned; take one away first"));
        }
        let text = Masker::new(&[], &[])?.mask_str(text);
        let body = ContextPinned { name: name.to_owned(), text };
        let user = Actor { kind: PrincipalKind::User, id: "local".to_owned() };
        self.log.append(Append {
            session: id.clone(),
            branch: row.branch,
            events: vec![Draft::new(Kind::ContextPinned, &body).by(user).label("user")],
            expected_head: Some(state.head),
            idempotency_key: None,
            epoch: Some(lease.epoch()),
            cells: Vec::new(),
        })?;
        self.log.sign_head()?;
        Ok(())
    }
}
