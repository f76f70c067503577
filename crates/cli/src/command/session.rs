//! `glasshouse session`: list, show, replay, resume.

use glasshouse_kernel::{Kernel, codes};
use glasshouse_model::body::{MessageReceived, Outcome, SessionCreated};
use glasshouse_model::{BranchId, Event, Exit, Kind, SessionId};

use crate::args::SessionCommand;
use crate::error::Error;
use crate::{home, output};

use super::task;

/// Runs the command.
pub(crate) fn run(command: SessionCommand) -> Result<u8, Error> {
    let kernel = home::kernel()?;
    match command {
        SessionCommand::List { json } => list(&kernel, json),
        SessionCommand::Show { id, json } => {
            for event in kernel.log().events(&kernel.main_branch(&id)?) {
                let event = event?;
                if json {
                    output::json_line(&event);
                } else {
                    output::data(&line(&event));
                }
            }
            Ok(Exit::Done.status())
        }
        SessionCommand::Replay { id, branch, to, json } => replay(&kernel, &id, branch, to, json),
        SessionCommand::Resume { id, message, no_approver, json } => {
            let state = kernel.state(&id)?;
            let created = state.created.clone().ok_or_else(|| {
                Error::new(codes::SESSION_NOT_FOUND, format!("session {id} was never started"))
            })?;
            if message.is_none()
                && state.turn.is_none()
                && matches!(state.outcome(), Some(Outcome::Committed | Outcome::Answered))
            {
                output::note("nothing to carry on; pass a message for another turn");
                return task::tell_finished(&kernel, &id, &state, json);
            }
            task::resume(&kernel, &created, &id, message.as_deref(), no_approver, json)
        }
    }
}

fn replay(
    kernel: &Kernel,
    id: &SessionId,
    branch: Option<BranchId>,
    to: Option<u64>,
    json: bool,
) -> Result<u8, Error> {
    let main = kernel.main_branch(id)?;
    let branch = match branch {
        Some(branch) if kernel.log().branch(&branch)?.session == *id => branch,
        Some(branch) => {
            return Err(Error::new(
                codes::SESSION_NOT_FOUND,
                format!("branch {branch} is none of session {id}"),
            ));
        }
        None => main,
    };
    match kernel.replay(&branch, to)? {
        Ok(same) => {
            if json {
                output::json_line(&serde_json::json!({
                    "digest": same.digest, "events": same.events,
                    "model_requests": same.model_requests, "equal": true,
                }));
            } else {
                output::data(&format!(
                    "equal: {} events, {} model requests made again, {}",
                    same.events, same.model_requests, same.digest
                ));
            }
            Ok(Exit::Done.status())
        }
        Err(difference) => {
            if json {
                let mut value = serde_json::to_value(&difference).unwrap_or_default();
                value["equal"] = false.into();
                output::json_line(&value);
            } else {
                output::data(&format!(
                    "event {} ({}) differs: {}",
                    difference.seq, difference.kind, difference.what
                ));
                let told = format!("  made again: {}", difference.expected);
                output::data(&output::visible(&told, false));
                output::data(&output::visible(
                    &format!("  recorded:   {}", difference.found),
                    false,
                ));
            }
            Ok(Exit::Mismatch.status())
        }
    }
}

fn list(kernel: &glasshouse_kernel::Kernel, json: bool) -> Result<u8, Error> {
    let mut rows = kernel.log().sessions()?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.created_us));
    if rows.is_empty() && !json {
        output::note("no sessions yet; try `glasshouse demo`");
    }
    for row in rows {
        let state = kernel.state(&row.session)?;
        let status = match (&state.turn, state.outcome()) {
            (Some(_), _) if kernel.log().is_owned(&row.session)? => "running".to_owned(),
            (Some(_), _) => "interrupted".to_owned(),
            (None, Some(outcome)) => serde_json::to_value(outcome)
                .ok()
                .and_then(|v| v.as_str().map(str::to_owned))
                .unwrap_or_default(),
            (None, None) => "new".to_owned(),
        };
        let title = first_message(&kernel.log().read(&row.main, 1, 16)?);
        if json {
            output::json_line(&serde_json::json!({
                "session": row.session, "branch": row.main, "created_us": row.created_us,
                "events": state.head, "state": status, "workflow": state.workflow(), "task": title,
            }));
        } else {
            output::data(&format!(
                "{}  {status:<11}  {:>5} events  {title}",
                row.session, state.head
            ));
        }
    }
    Ok(Exit::Done.status())
}

fn first_message(events: &[Event]) -> String {
    let message = events.iter().find(|event| *event.kind() == Kind::MessageReceived);
    let text =
        message.and_then(|event| event.body_as::<MessageReceived>().ok()).map(|body| body.text);
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(72).collect()
}

/// One event as a line for people.
pub(super) fn line(event: &Event) -> String {
    let body = match event.kind() {
        Kind::SessionCreated => event
            .body_as::<SessionCreated>()
            .map(|body| format!("{} {} on {}", body.provider, body.model, body.project))
            .unwrap_or_default(),
        _ => serde_json::to_string(&event.body).unwrap_or_default(),
    };
    let body: String = body.chars().filter(|c| !c.is_control()).take(160).collect();
    format!("{:>5}  {:<24} {body}", event.seq(), event.kind().as_str())
}
