//! `glasshouse session`: list, show, close, delete, fork, merge, diff, files, export, import, replay, resume.

mod branches;
mod costs;
mod ending;
mod export;
mod files;

use glasshouse_kernel::driver::{Erasure, NewFork, NewMerge, Search};
use glasshouse_kernel::{Kernel, codes};
use glasshouse_log::{BranchRow, Record, SessionRow};
use glasshouse_model::body::{Outcome, SessionCreated};
use glasshouse_model::{BranchId, Event, Exit, Kind, SessionId};

use crate::args::SessionCommand;
use crate::error::Error;
use crate::event_line::{Lines, date};
use crate::{home, output};

use super::task;

/// Events that are held in memory at a time.
const PAGE: usize = 512;

/// Runs the command.
pub(crate) fn run(command: SessionCommand) -> Result<u8, Error> {
    // Not for `check-export`: whoever proves a file needs no log of their own.
    let kernel = home::kernel;
    if let Some(id) = command.session() {
        kernel()?.check_kept(id)?;
    }
    match command {
        SessionCommand::List { all, json } => list(&kernel()?, all, json),
        SessionCommand::Show { id, branches: true, json, .. } => {
            branches::tree(&kernel()?, &id, json)
        }
        SessionCommand::Show { id, branch, own, json, .. } => {
            let kernel = kernel()?;
            show(&kernel, &id, &kernel.branch(&id, branch.as_deref())?, own, json)
        }
        SessionCommand::Pin { id, name, text, branch, json, .. } => {
            pin(&kernel()?, &id, branch.as_deref(), (&name, &text.unwrap_or_default()), json)
        }
        SessionCommand::Erase { id, events, blobs, reason, branch, yes, json } => {
            let erasure = Erasure { session: id, branch, events, blobs, reason };
            erase(&kernel()?, erasure, yes, json)
        }
        SessionCommand::Close { id, json } => ending::close(&kernel()?, &id, json),
        SessionCommand::Delete { id, keep_blobs, yes, json } => {
            ending::delete(&kernel()?, &id, (keep_blobs, yes, json))
        }
        SessionCommand::Costs { id, json } => costs::run(&kernel()?, id.as_ref(), json),
        SessionCommand::Fork { id, branch, at, name, reason, json } => branches::fork(
            &kernel()?,
            NewFork { session: id, branch, at, name, reason, by: None },
            json,
        ),
        SessionCommand::Merge { id, source, into, dry_run, take, no_approver, json } => {
            let take = branches::taken(&take)?;
            let new = NewMerge { session: id, source, into, take, by: None };
            branches::merge(&kernel()?, &new, (dry_run, no_approver), json)
        }
        SessionCommand::Diff { id, branch, with, from, to, names, json } => {
            let kernel = kernel()?;
            let old = kernel.branch(&id, branch.as_deref())?;
            let new = kernel.branch(&id, with.as_deref().or(branch.as_deref()))?;
            files::diff(&kernel, (&old, from), (&new, to), names, json)
        }
        SessionCommand::Files { id, path, branch, at, out, json } => {
            let kernel = kernel()?;
            let branch = kernel.branch(&id, branch.as_deref())?;
            let past = kernel.past_files(&branch.branch, at)?;
            files::give(&past, path.as_deref(), out.as_deref(), json)
        }
        SessionCommand::Export { id, out, with_blobs, layout, branch, json } => {
            let wanted = export::Wanted { with_blobs, layout, branch };
            export::run(&kernel()?, &id, out.as_deref(), &wanted, json)
        }
        SessionCommand::Search { words, session, limit, json } => {
            search(&kernel()?, &words, session, limit, json)
        }
        SessionCommand::Import { file, json } => export::import(&kernel()?, &file, json),
        SessionCommand::CheckExport { file, json } => export::check(&file, json),
        SessionCommand::Replay { id, branch, to, json } => {
            let kernel = kernel()?;
            replay(&kernel, &kernel.branch(&id, branch.as_deref())?.branch, to, json)
        }
        SessionCommand::Resume { id, message, branch, no_approver, wait_for_review, json } => {
            let kernel = kernel()?;
            let branch = kernel.branch(&id, branch.as_deref())?.branch;
            let approver = task::Approver::of(no_approver, wait_for_review);
            resume(&kernel, &id, branch, message.as_deref(), task::Told { approver, json })
        }
    }
}

fn search(
    kernel: &Kernel,
    words: &[String],
    session: Option<SessionId>,
    limit: usize,
    json: bool,
) -> Result<u8, Error> {
    let words = words.join(" ");
    if words.trim().is_empty() {
        return Err(Error::new(codes::USAGE, "there is nothing to look for")
            .why("no word is given")
            .fix("name one, for example: glasshouse session search migration"));
    }
    let found = kernel.search(&Search { words, session, after: None, limit })?;
    for find in &found.finds {
        if json {
            output::json_line(find);
        } else {
            let line = format!("{} {} {} {}", find.session, find.seq, find.kind, find.text);
            output::data(&output::visible(&line, false));
        }
    }
    if !found.is_whole {
        output::note("there may be more; --session and --limit say where and how many");
    }
    Ok(Exit::Done.status())
}

fn pin(
    kernel: &Kernel,
    id: &SessionId,
    branch: Option<&str>,
    (name, text): (&str, &str),
    json: bool,
) -> Result<u8, Error> {
    kernel.pin(id, branch, name, text)?;
    if !json {
        output::note(if text.is_empty() { "taken away" } else { "pinned" });
    }
    Ok(Exit::Done.status())
}

/// Takes texts out of the log, or tells what would go.
fn erase(kernel: &Kernel, erasure: Erasure, yes: bool, json: bool) -> Result<u8, Error> {
    let blobs = erasure.blobs.clone();
    let erasing = kernel.plan_erasure(erasure)?;
    let rows: Vec<_> = erasing.events.clone();
    let erased = if yes { Some(kernel.erase(erasing)?) } else { None };
    if json {
        let events: Vec<_> = rows
            .iter()
            .map(|(branch, seq, kind, is_whole)| {
                serde_json::json!({ "branch": branch, "seq": seq, "kind": kind, "was_erased": !is_whole })
            })
            .collect();
        let told_by = erased.as_ref().map(|erased| erased.head.seq);
        output::json_line(&serde_json::json!({
            "erased": yes, "events": events, "blobs": blobs, "told_by": told_by,
        }));
        return Ok(Exit::Done.status());
    }
    let word = if yes { "erased" } else { "would erase" };
    for (branch, seq, kind, is_whole) in &rows {
        let before = if *is_whole { "" } else { " (was erased before)" };
        output::data(&format!("{word}: {branch} {seq} {kind}{before}"));
    }
    for blob in &blobs {
        output::data(&format!("{word}: {blob}"));
    }
    output::note(match erased {
        Some(_) => "headers and hashes stay, and so does every proof; backups made before are gone",
        None => {
            "nothing was erased; with --yes it is gone for good, also where other sessions name it"
        }
    });
    Ok(Exit::Done.status())
}

fn resume(
    kernel: &Kernel,
    id: &SessionId,
    branch: BranchId,
    message: Option<&str>,
    told: task::Told,
) -> Result<u8, Error> {
    // It says whose server gets the user's key.
    let state = kernel.state_to_act_on(&branch)?;
    let created = state.created.clone().ok_or_else(|| {
        Error::new(codes::SESSION_NOT_FOUND, format!("session {id} was never started"))
    })?;
    if message.is_none()
        && state.turn.is_none()
        && matches!(state.outcome(), Some(Outcome::Committed | Outcome::Answered))
    {
        output::note("nothing to carry on; pass a message for another turn");
        return task::tell_finished(kernel, id, &branch, &state, told.json);
    }
    task::resume(kernel, &created, (id, branch), message, told)
}

fn replay(kernel: &Kernel, branch: &BranchId, to: Option<u64>, json: bool) -> Result<u8, Error> {
    match kernel.replay(branch, to)? {
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

/// What a session did outside any turn of an agent, by its first event; `None` for sessions of agents.
fn outside(row: &SessionRow, events: &[Event]) -> Option<String> {
    let first = events.first()?;
    let mut lines = Lines::default();
    Some(match first.kind() {
        Kind::SessionCreated => return None,
        Kind::ToolProposed => format!("sandbox run: {}", shown(&first.body["arguments"])),
        Kind::PolicyProposed | Kind::PolicyUpdated => "policy update".to_owned(),
        kind if kind.as_str().starts_with("plan.") => "plans".to_owned(),
        _ => format!("{}: {}", row.main, lines.line(first).trim_start()),
    })
}

/// The command among a call's arguments.
fn shown(arguments: &serde_json::Value) -> String {
    let arguments = arguments.as_str().and_then(|text| serde_json::from_str(text).ok());
    let arguments: serde_json::Value = arguments.unwrap_or_default();
    let words = arguments["argv"].as_array().into_iter().flatten();
    words.filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(" ")
}

fn list(kernel: &Kernel, all: bool, json: bool) -> Result<u8, Error> {
    let mut rows = kernel.log().sessions()?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.created_us));
    let mut left_out = 0;
    let mut lines = Vec::new();
    let own = glasshouse_log::own_session();
    for row in rows {
        if row.session == own && !all {
            left_out += 1;
            continue;
        }
        let view = kernel.overview(&row)?;
        if json {
            output::json_line(&view);
            continue;
        }
        // Of what cannot be read here nobody knows what it was.
        let outside = match view.workflow.filter(|_| view.project.is_none()) {
            // What failed before its first event.
            Some(_) if view.events == 0 => Some("nothing was recorded".to_owned()),
            Some(_) => outside(&row, &kernel.log().read(&row.main, 1, 1)?),
            None => None,
        };
        if (outside.is_some() || view.archive.is_some()) && !all {
            left_out += 1;
            continue;
        }
        let project = view.project.as_deref().map_or("-", last_part);
        let state = if outside.is_some() { "-" } else { view.state.as_str() };
        let text = outside.as_deref().or(view.archive.as_deref()).unwrap_or(&view.task);
        let (id, date, head) = (&view.session, date(view.created_us), view.events);
        let line = format!("{id}  {date}  {state:<11}  {head:>6}  {project:<12}  {text}");
        lines.push(output::visible(&line, false));
    }
    if json {
        return Ok(Exit::Done.status());
    }
    if lines.is_empty() {
        output::note("no sessions yet; try `glasshouse demo`");
    } else {
        let (date, state) = ("CREATED (UTC)", "STATE");
        output::data(&format!(
            "{:<14}  {date:<16}  {state:<11}  EVENTS  {:<12}  TASK",
            "SESSION", "PROJECT"
        ));
        lines.iter().for_each(|line| output::data(line.trim_end()));
    }
    if left_out > 0 {
        output::note(&format!(
            "left out, archived or done outside sessions: {left_out}; `--all` lists them"
        ));
    }
    Ok(Exit::Done.status())
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn show(
    kernel: &Kernel,
    id: &SessionId,
    branch: &BranchRow,
    own: bool,
    json: bool,
) -> Result<u8, Error> {
    if !json {
        // No fold: what cannot be carried on, because words of it were erased, is shown as well.
        let first = kernel.log().read(&branch.branch, 1, 1)?;
        let created = first.first().and_then(|event| event.body_as::<SessionCreated>().ok());
        let project = created.as_ref().map_or("none", |created| created.project.as_str());
        let (branch, name) = (&branch.branch, &branch.name);
        output::data(&output::visible(&format!("session {id}, branch {branch} ({name})"), false));
        output::data(&output::visible(&format!("project {project}"), false));
    }
    let left_at = if own { branch.base().seq } else { 0 };
    let mut lines = Lines::default();
    let mut next = 1;
    loop {
        // Proved twice: as the bytes that were stored, and as what they say.
        let records = kernel.log().records(&branch.branch, next, PAGE)?;
        let events = kernel.log().read(&branch.branch, next, records.len())?;
        let Some(last) = records.last() else { break };
        next = last.seq + 1;
        for (record, event) in records.iter().zip(events) {
            let Some(seq) = event.seq().checked_sub(left_at).filter(|seq| *seq > 0) else {
                // The end of a call is told with what the call was.
                let _ = lines.line(&event);
                continue;
            };
            if json {
                output::data(&stored(event, record, seq));
            } else {
                let line = lines.line(&event);
                let told = line.trim_start().split_once(' ').map_or("", |(_, told)| told);
                output::data(&format!("{seq:>5} {told}"));
            }
        }
    }
    Ok(Exit::Done.status())
}

/// An event as JSON under its number in the view, its body as the bytes that were stored: other bytes
/// would not have the digest that the event names.
fn stored(mut event: Event, record: &Record, seq: u64) -> String {
    event.header.seq = seq;
    let body = std::str::from_utf8(&record.body).unwrap_or_default();
    // A line is one event.
    if body.is_empty() || body.contains('\n') {
        return serde_json::to_string(&event).unwrap_or_default();
    }
    event.body = serde_json::Value::Null;
    let text = serde_json::to_string(&event).unwrap_or_default();
    // Nowhere else: within a text the quotes would be escaped.
    text.replacen(",\"body\":null,\"body_hash\":", &format!(",\"body\":{body},\"body_hash\":"), 1)
}
