//! `glasshouse audit`: log, verify.

use glasshouse_log::Verification;
use glasshouse_model::Exit;

use crate::args::AuditCommand;
use crate::error::Error;
use crate::home;
use crate::output::{self, Style, styled};

use super::session::line;

/// Runs the command.
pub(crate) fn run(command: AuditCommand) -> Result<u8, Error> {
    match command {
        AuditCommand::Log { session, kind, json } => {
            let kernel = home::kernel()?;
            let mut rows = kernel.log().sessions()?;
            rows.sort_by_key(|row| row.created_us);
            if let Some(id) = &session {
                kernel.main_branch(id)?;
            }
            for row in
                rows.iter().filter(|row| session.as_ref().is_none_or(|id| *id == row.session))
            {
                for event in kernel.log().events(&row.main) {
                    let event = event?;
                    if kind.as_ref().is_some_and(|kind| event.kind().as_str() != kind) {
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
        AuditCommand::Verify { json } => verify(json),
    }
}

fn verify(json: bool) -> Result<u8, Error> {
    let verification =
        glasshouse_log::verify_home(&home::data_dir()?, &glasshouse_model::TenantId::local())?;
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
