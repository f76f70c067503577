//! `glasshouse session close` and `delete`: what the server's routes of the same names do.

use glasshouse_kernel::driver::Deletion;
use glasshouse_kernel::{Kernel, codes};
use glasshouse_model::{Exit, SessionId};

use crate::error::Error;
use crate::output;

/// Ends a session for good; what it said can still be read.
pub(super) fn close(kernel: &Kernel, session: &SessionId, json: bool) -> Result<u8, Error> {
    let changed = kernel.close_session(session, &kernel.person())?;
    if json {
        let told = serde_json::json!({ "session": session, "closed": true, "changed": changed });
        output::json_line(&told);
    } else {
        output::note(if changed { "closed" } else { "it was closed already" });
    }
    Ok(Exit::Done.status())
}

/// Erases what a session said, or tells how much that would be at most.
pub(super) fn delete(
    kernel: &Kernel,
    session: &SessionId,
    (keep_blobs, yes, json): (bool, bool, bool),
) -> Result<u8, Error> {
    if !yes {
        return would_delete(kernel, session, json);
    }
    let deletion = Deletion { keep_blobs, head: None };
    let forgotten = kernel.delete_session(session, &kernel.person(), &deletion)?;
    let (events, kept, blobs) = (forgotten.events, forgotten.kept, forgotten.blobs);
    if json {
        output::json_line(&serde_json::json!({
            "session": session, "deleted": true, "events": events, "kept": kept, "blobs": blobs,
        }));
    } else {
        output::data(&format!("erased: {events} events, {blobs} contents; kept: {kept} events"));
        output::note(
            "headers and hashes stay, and so does every proof; backups made before are gone",
        );
    }
    Ok(Exit::Done.status())
}

fn would_delete(kernel: &Kernel, session: &SessionId, json: bool) -> Result<u8, Error> {
    let rows = kernel.log().sessions()?;
    let row = rows.iter().find(|row| row.session == *session).ok_or_else(|| {
        Error::new(codes::SESSION_NOT_FOUND, format!("there is no session {session}"))
    })?;
    let events = if kernel.log().is_forgotten(session)? { 0 } else { row.events };
    if json {
        output::json_line(&serde_json::json!({
            "session": session, "deleted": false, "events": events,
        }));
    } else {
        output::data(&format!("would erase: at most {events} of the events that are there now"));
        output::note(
            "nothing was erased; with --yes it is gone for good; events that gave a right or prove others stay",
        );
    }
    Ok(Exit::Done.status())
}
