//! `glasshouse audit`: log, verify, checkpoint, prove, check.

mod backups;
mod rotate;

use std::io::IsTerminal;
use std::path::Path;

use glasshouse_kernel::codes;
use glasshouse_log::{Broken, Consistency, Extension, Log, SignedHead, Verification};
use glasshouse_model::{BranchId, Digest, Exit, Kind, Seq, SessionId, TenantId};
use serde::{Deserialize, Serialize};

use crate::args::AuditCommand;
use crate::error::Error;
use crate::event_line::Lines;
use crate::output::{self, Style, styled};
use crate::{home, input};

/// Runs the command.
pub(crate) fn run(command: AuditCommand) -> Result<u8, Error> {
    match command {
        AuditCommand::Log { session, kind, json } => log(session.as_ref(), kind.as_ref(), json),
        AuditCommand::Backup { json } => backups::make(json),
        AuditCommand::Restore { list: true, json, .. } => backups::list(json),
        AuditCommand::Restore { file, accept_loss, json, .. } => {
            backups::restore(file, accept_loss, json)
        }
        AuditCommand::Rotate { dry_run, json } => rotate::run(dry_run, json),
        AuditCommand::CheckState { json } => check_state(json),
        AuditCommand::Schema => {
            let schema = glasshouse_model::body::schema();
            output::data(&serde_json::to_string_pretty(&schema).unwrap_or_default());
            Ok(Exit::Done.status())
        }
        AuditCommand::Verify { json } => verify(json),
        AuditCommand::Checkpoint { json } => checkpoint(json),
        AuditCommand::Prove { branch, seq, json } => prove(&branch, seq, json),
        AuditCommand::Blob { digest } => blob(&digest),
        AuditCommand::Check { old, new, json } => check(&old, new.as_deref(), json),
    }
}

/// The log: for writing where that can be, because only then a head can be signed.
fn signing_log() -> Result<Log, Error> {
    let home = home::data_dir()?;
    let read_only = Log::open_read_only(&home, &TenantId::local())?;
    match Log::open(&home, &TenantId::local()) {
        Err(error) if error.is(glasshouse_log::codes::STORAGE_FAILED) => Ok(read_only),
        other => Ok(other?),
    }
}

fn check_state(json: bool) -> Result<u8, Error> {
    drop(Log::open_read_only(&home::data_dir()?, &TenantId::local())?);
    let kernel = home::kernel()?;
    let (branches, found) = kernel.check_states()?;
    let cells = kernel.check_cells()?;
    let is_ok = found.is_empty() && cells.is_empty();
    if json {
        let repaired: Vec<_> = found.iter().map(|deviation| &deviation.branch).collect();
        output::json_line(&serde_json::json!({
            "ok": is_ok, "branches": branches, "repaired": repaired, "cells": cells,
        }));
    } else {
        for cell in &cells {
            output::data(&format!("repaired: cell {}/{}", cell.space, cell.key));
        }
        for deviation in &found {
            output::data(&format!("repaired: {} at event {}", deviation.branch, deviation.seq));
        }
        output::data(&format!("{branches} branches compared, {} repaired", found.len()));
    }
    Ok(if is_ok { Exit::Done.status() } else { Exit::Mismatch.status() })
}

fn checkpoint(json: bool) -> Result<u8, Error> {
    let log = signing_log()?;
    let head = match log.sign_head() {
        Err(error) if error.is(glasshouse_log::codes::LOG_READ_ONLY) => log.signed_head()?,
        other => other?,
    };
    if json {
        output::json_line(&Checkpoint { head: &head, key: log.public_key()?.to_string() });
    } else {
        output::data(head.note.trim_end_matches('\n'));
    }
    Ok(Exit::Done.status())
}

#[derive(Serialize)]
struct Checkpoint<'a> {
    #[serde(flatten)]
    head: &'a SignedHead,
    key: String,
}

fn prove(branch: &BranchId, seq: Seq, json: bool) -> Result<u8, Error> {
    let proof = signing_log()?.prove(branch, seq)?;
    if json {
        output::json_line(&proof);
    } else {
        output::data(proof.to_text().trim_end_matches('\n'));
    }
    Ok(Exit::Done.status())
}

fn check(old: &Path, new: Option<&Path>, json: bool) -> Result<u8, Error> {
    let log = Log::open_read_only(&home::data_dir()?, &TenantId::local())?;
    let (old, new) = (read_head(old)?, new.map(read_head).transpose()?);
    let found = log.check_extension(&old, new.as_deref())?;
    if json {
        output::json_line(&found);
    } else {
        match &found {
            Consistency::Extends(extension) => {
                let Extension { old_size, new_size, .. } = extension;
                let text = format!("ok: the log of {new_size} events extends that of {old_size}");
                output::data(&styled(&text, Style::Good));
            }
            Consistency::Broken(broken) => tell_broken(broken),
        }
    }
    Ok(if found.is_ok() { Exit::Done } else { Exit::Mismatch }.status())
}

/// Reads a signed head: as it was printed for people, or as JSON.
fn read_head(path: &Path) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Printed {
        note: String,
    }
    let unreadable = |why: &dyn std::fmt::Display| {
        input::unreadable(path, why)
            .fix("give a file with what `glasshouse audit checkpoint` printed")
    };
    let text = input::text(path, input::MAX_HEAD_BYTES)?;
    if !text.starts_with('{') {
        return Ok(text);
    }
    let printed: Printed = serde_json::from_str(&text).map_err(|cause| unreadable(&cause))?;
    Ok(printed.note)
}

/// Prints events. Reads only, so that a home which cannot be written can be looked at.
fn log(session: Option<&SessionId>, kind: Option<&Kind>, json: bool) -> Result<u8, Error> {
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
        let mut lines = Lines::default();
        for event in log.events(&row.main) {
            let event = event?;
            let line = lines.line(&event);
            if kind.is_some_and(|kind| event.kind() != kind) {
                continue;
            }
            if json {
                output::json_line(&event);
            } else {
                output::data(&format!("{} {}", row.session, line));
            }
        }
    }
    Ok(Exit::Done.status())
}

/// Prints what is stored under a digest: to a terminal as visible text, elsewhere as it is.
fn blob(digest: &Digest) -> Result<u8, Error> {
    let log = Log::open_read_only(&home::data_dir()?, &TenantId::local())?;
    let bytes = log.blob(digest)?;
    if std::io::stdout().is_terminal() {
        output::data(&output::visible(&String::from_utf8_lossy(&bytes), true));
    } else {
        output::bytes(&bytes);
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
            if sound.erased_events + sound.erased_blobs > 0 {
                let (events, blobs) = (sound.erased_events, sound.erased_blobs);
                output::data(&format!("erased: {events} bodies, {blobs} blobs"));
            }
            if sound.missing_blobs > 0 {
                output::data(&format!("not imported: {} blobs", sound.missing_blobs));
            }
            for file in &sound.missing_archives {
                output::data(&format!("not in its place: archive {file}"));
            }
            for file in &sound.quarantined {
                output::data(&format!("set aside, no part of the log: {file}"));
            }
        }
        Verification::Broken(broken) => tell_broken(broken),
    }
}

fn tell_broken(broken: &Broken) {
    output::data(&styled(&format!("mismatch: {}", broken.kind), Style::Bad));
    if let (Some(branch), Some(seq)) = (&broken.branch, broken.seq) {
        output::data(&format!("first bad event: {branch} {seq}"));
    }
    output::data(&format!("expected: {}", broken.expected));
    output::data(&format!("found: {}", broken.found));
}
