//! `session diff` and `session files`: what a branch held after an event, and what differs.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use glasshouse_kernel::driver::PastFiles;
use glasshouse_kernel::{Kernel, codes};
use glasshouse_log::BranchRow;
use glasshouse_model::{CanonicalPath, Event, Exit};
use glasshouse_sandbox::workspace::Entry;

use crate::error::Error;
use crate::event_line::Lines;
use crate::{fail, output};

/// A branch, and the event of it that counts.
type Side<'a> = (&'a BranchRow, Option<u64>);

/// Compares events and files of two branches, or of two events.
pub(super) fn diff(
    kernel: &Kernel,
    old: Side<'_>,
    new: Side<'_>,
    names: bool,
    json: bool,
) -> Result<u8, Error> {
    if !names && old.0.branch != new.0.branch {
        events(kernel, old, new, json)?;
    }
    let (old, new) =
        (kernel.past_files(&old.0.branch, old.1)?, kernel.past_files(&new.0.branch, new.1)?);
    let changes = old.changes(&new);
    for change in &changes {
        let text = || old.unified(&new, change);
        let from = change.paths().find(|path| **path != change.path);
        if json {
            let text = if names { None } else { Some(text()?) };
            output::json_line(&serde_json::json!({
                "path": change.path, "from": from, "change": change.kind.as_str(), "patch": text,
            }));
        } else if names {
            output::data(&output::visible(
                &format!(
                    "{:<8}  {}{}",
                    change.kind.as_str(),
                    change.path,
                    from.map_or_else(String::new, |from| format!("  from {from}"))
                ),
                false,
            ));
        } else {
            output::data(output::visible(&text()?, true).trim_end());
        }
    }
    if changes.is_empty() && !json {
        output::note("no file differs");
    }
    Ok(Exit::Done.status())
}

/// The events that only one of two branches has.
fn events(kernel: &Kernel, old: Side<'_>, new: Side<'_>, json: bool) -> Result<(), Error> {
    let shared = kernel.log().last_shared(&old.0.branch, &new.0.branch)?;
    if json {
        output::json_line(&serde_json::json!({ "shared": shared }));
    } else {
        output::data(&format!("both have events 1 to {shared}"));
    }
    for (row, upto) in [old, new] {
        if !json {
            output::data(&output::visible(&format!("only {} ({}):", row.branch, row.name), false));
        }
        let mut lines = Lines::default();
        for event in kernel.log().events(&row.branch) {
            let event: Event = event?;
            if upto.is_some_and(|upto| event.seq() > upto) {
                break;
            }
            // Those before are read too: the end of a call is told with what the call was.
            let line = lines.line(&event);
            if event.seq() <= shared {
                continue;
            }
            if json {
                output::json_line(&serde_json::json!({
                    "branch": row.branch, "seq": event.seq(), "kind": event.kind(),
                    "hash": event.hash,
                }));
            } else {
                output::data(&line);
            }
        }
    }
    Ok(())
}

/// Lists the files.
fn list(past: &PastFiles, json: bool) -> Result<u8, Error> {
    for (path, entry) in past.entries() {
        if json {
            output::json_line(&serde_json::json!({ "path": path, "entry": entry }));
        } else {
            let kind = entry.git_mode().unwrap_or("040000");
            output::data(&output::visible(&format!("{kind}  {path}"), false));
        }
    }
    Ok(Exit::Done.status())
}

/// Prints one file, writes all, or lists them.
pub(super) fn give(
    past: &PastFiles,
    path: Option<&str>,
    out: Option<&Path>,
    json: bool,
) -> Result<u8, Error> {
    match (path, out) {
        (Some(path), _) => print(past, path),
        (None, Some(out)) => write(past, out, json),
        (None, None) => list(past, json),
    }
}

/// Prints one file's bytes.
fn print(past: &PastFiles, path: &str) -> Result<u8, Error> {
    let path = CanonicalPath::parse(path).map_err(|cause| {
        Error::new(codes::USAGE, format!("`{path}` names no file of a workspace"))
            .why(cause)
            .fix("name it as `glasshouse session files ID` lists it")
    })?;
    output::bytes(&past.bytes(&path)?);
    Ok(Exit::Done.status())
}

/// Writes all files into a new directory.
fn write(past: &PastFiles, out: &Path, json: bool) -> Result<u8, Error> {
    let failed = |at: &Path, cause: std::io::Error| fail::not_created(at, &cause);
    fs::create_dir(out).map_err(|cause| fail::not_created(out, &cause))?;
    let mut files = 0_u64;
    // Links come last, so that no file is ever written through one.
    let is_link = |entry: &Entry| matches!(entry, Entry::Symlink { .. });
    let (links, others): (Vec<_>, Vec<_>) = past.entries().partition(|(_, entry)| is_link(entry));
    for (path, entry) in others.into_iter().chain(links) {
        let at = out.join(path.as_str());
        let parent = at.parent().unwrap_or(out);
        fs::create_dir_all(parent).map_err(|cause| failed(parent, cause))?;
        match entry {
            Entry::Dir => fs::create_dir_all(&at).map_err(|cause| failed(&at, cause))?,
            Entry::Symlink { target } => {
                symlink(target, &at).map_err(|cause| failed(&at, cause))?
            }
            Entry::File { executable, .. } => {
                let mode = fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 });
                fs::write(&at, past.bytes(path)?)
                    .and_then(|()| fs::set_permissions(&at, mode))
                    .map_err(|cause| failed(&at, cause))?;
            }
            Entry::Special { .. } => continue,
        }
        files += 1;
    }
    if json {
        output::json_line(&serde_json::json!({ "files": files, "dir": out }));
    } else {
        output::data(&format!("{files} files in {}", out.display()));
    }
    Ok(Exit::Done.status())
}
