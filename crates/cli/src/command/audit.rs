//! `glasshouse audit`: log, verify.

use glasshouse_kernel::codes;
use glasshouse_log::{Log, Verification};
use glasshouse_model::{Exit, SessionId, TenantId};

use crate::args::AuditCommand;
use crate::error::Error;
use crate::home;
use crate::output::{self, Style, styled};

use super::session::line;

/// Runs the command.
pub(crate) fn run(command: AuditCommand) -> Result<u8, Error> {
    match command {
        AuditCommand::Log { session, kind, json } => log(session.as_ref(), kind.as_deref(), json),
        AuditCommand::Verify { json } => verify(json),
    }
}

/// Prints events. Reads only, so that a home which cannot be written can be looked at.
fn log(session: Option<&SessionId>, kind: Option<&str>, json: bool) -> Result<u8, Error> {
    let log = Log::open_read_only(&home::data_dir()?, &TenantId::local())?;
    let mut rows = log.sessions()?;
    rows.sort_by_key(|row| row.created_us);
    if let Some(id) = session {
        rows.retain(|row| row.session == *id);
        if rows.is_empty() {
            let what = format!("there is no session {id}");
            return Err(Error::new(codes::SESSION_NOT_FOUND, what));
        }
    }
    for row in &rows {
        for event in log.events(&row.main) {
            let event = event?;
            if kind.is_some_and(|kind| event.kind().as_str() != kind) {
                continue;
            }
            if json {
                output::json_line(&event);
            } else {
                output::data(&format!("{} {}", row.session, line(&event)));
            }
        }
    }
    Ok(Exit::Done.status())
}

fn verify(json: bool) -> Result<u8, Error> {
    let verification = glasshouse_log::verify_home(&home::data_dir()?, &TenantId::local())?;
    if json {
        output::json_line(&verification);
    } else {
        tell(&verification);
    }
    Ok(if verification.is_ok() { Exit::Done } else { Exit::Mismatch }.status())
}

fn tell(verification: &Verification) {
    match verification {
        Verification::Sound(sound) => {
            output::data(&styled(&format!("ok: {} events", sound.events), Style::Good));
            output::data(&format!("head: {}", sound.head));
            output::data(&format!(
                "signed head: {} ({} events)",
                sound.signed_head, sound.signed_events
            ));
            output::data(&format!("blobs: {}", sound.blobs));
        }
        Verification::Broken(broken) => {
            output::data(&styled(&format!("mismatch: {}", broken.kind), Style::Bad));
            if let (Some(branch), Some(seq)) = (&broken.branch, broken.seq) {
                output::data(&format!("first bad event: {branch} {seq}"));
            }
            output::data(&format!("expected: {}", broken.expected));
            output::data(&format!("found: {}", broken.found));
        }
    }
}
