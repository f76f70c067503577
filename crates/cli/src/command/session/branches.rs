//! `session fork`, `session merge` and `session show --branches`.

use glasshouse_kernel::driver::{Merging, NewFork, NewMerge};
use glasshouse_kernel::{Kernel, NoReviewer, Reviewer, codes};
use glasshouse_log::BranchRow;
use glasshouse_model::body::MergeSide;
use glasshouse_model::{BranchId, Exit, SessionId};

use crate::error::Error;
use crate::event_line::date;
use crate::output;
use crate::review::Terminal;

/// Forks a branch.
pub(super) fn fork(kernel: &Kernel, new: NewFork, json: bool) -> Result<u8, Error> {
    let session = new.session.clone();
    let forked = kernel.fork(&new)?;
    if json {
        output::json_line(&serde_json::json!({
            "session": session, "branch": forked.branch, "name": forked.name,
            "parent": forked.parent, "at": forked.at, "head": forked.head,
        }));
    } else {
        output::data(forked.branch.as_str());
        output::note(&format!(
            "forked {} after event {}; go on with `glasshouse session resume {session} --branch {}`",
            forked.parent, forked.at, forked.branch
        ));
    }
    Ok(Exit::Done.status())
}

/// Merges a branch into another, or tells what that would do.
pub(super) fn merge(
    kernel: &Kernel,
    new: &NewMerge,
    (dry_run, no_approver): (bool, bool),
    json: bool,
) -> Result<u8, Error> {
    let merging = if dry_run {
        kernel.preview_merge(new)?
    } else {
        let asks = !no_approver && Terminal::is_there();
        let reviewer: &dyn Reviewer = if asks { &Terminal } else { &NoReviewer };
        kernel.merge(new, reviewer)?
    };
    let Merging { source, target, changed, conflicts, keys, .. } = &merging;
    let is_clean = conflicts.is_empty() && keys.is_empty();
    let exit = if is_clean { Exit::Done } else { Exit::Conflict };
    if json {
        output::json_line(&merging);
        return Ok(exit.status());
    }
    let line = |text: String| output::data(&output::visible(&text, false));
    changed.iter().for_each(|change| line(format!("{:<8}  {}", change.change, change.path)));
    conflicts.iter().for_each(|conflict| line(format!("conflict  {conflict}")));
    keys.iter().for_each(|key| line(format!("conflict  {key}: both branches changed it")));
    output::note(&match (dry_run, is_clean) {
        (false, _) => {
            format!("merged {source} into {target}; files that changed: {}", changed.len())
        }
        (true, true) => format!("{source} can be merged into {target}; nothing was changed"),
        (true, false) => format!("{source} and {target} do not go together; nothing was changed"),
    });
    Ok(exit.status())
}

/// Reads `--take`: a side, then the paths of which it is taken, all when none follow.
pub(super) fn taken(words: &[String]) -> Result<Vec<(String, MergeSide)>, Error> {
    let mut taken = Vec::new();
    let mut side = None;
    for (at, word) in words.iter().enumerate() {
        let next = match word.as_str() {
            "source" => Some(MergeSide::Source),
            "target" => Some(MergeSide::Target),
            _ => None,
        };
        match (next, side) {
            (Some(next), _) => {
                side = Some(next);
                let is_for_all =
                    words.get(at + 1).is_none_or(|next| next == "source" || next == "target");
                taken.extend(is_for_all.then(|| (String::new(), next)));
            }
            (None, Some(side)) => taken.push((word.clone(), side)),
            (None, None) => {
                return Err(Error::new(codes::USAGE, format!("`{word}` is no side of a merge"))
                    .fix(
                        "name `source` or `target`, then paths; a file of that name is `./source`",
                    ));
            }
        }
    }
    Ok(taken)
}

/// Shows the branches of a session, each below the one that it left.
pub(super) fn tree(kernel: &Kernel, id: &SessionId, json: bool) -> Result<u8, Error> {
    // So that an unknown session is an error, not an empty list.
    kernel.main_branch(id)?;
    let rows = kernel.log().branches(id)?;
    if json {
        for row in &rows {
            output::json_line(&serde_json::json!({
                "branch": row.branch, "name": row.name, "state": row.state.as_str(), "imported": row.is_imported,
                "parent": row.fork.as_ref().map(|fork| &fork.parent),
                "at": row.fork.as_ref().map(|fork| fork.seq),
                "head": row.head.seq, "created_us": row.created_us,
            }));
        }
        return Ok(Exit::Done.status());
    }
    for (depth, row) in in_order(&rows, None, 0) {
        let left =
            row.fork.as_ref().map_or_else(String::new, |fork| format!("  left at {}", fork.seq));
        let state = if row.is_imported { "imported" } else { row.state.as_str() };
        let (indent, head) = ("  ".repeat(depth), row.head.seq);
        let line = format!(
            "{indent}{}  {:<12}  {state:<6}  {}  head {head}{left}",
            row.branch,
            row.name,
            date(row.created_us)
        );
        output::data(&output::visible(&line, false));
    }
    Ok(Exit::Done.status())
}

/// Branches with their depth, children after their parent in the order of their creation.
fn in_order<'r>(
    rows: &'r [BranchRow],
    parent: Option<&BranchId>,
    depth: usize,
) -> Vec<(usize, &'r BranchRow)> {
    let is_child = |row: &&BranchRow| row.fork.as_ref().map(|fork| &fork.parent) == parent;
    let with_children = |row: &'r BranchRow| {
        let below = in_order(rows, Some(&row.branch), depth + 1);
        std::iter::once((depth, row)).chain(below)
    };
    rows.iter().filter(is_child).flat_map(with_children).collect()
}
