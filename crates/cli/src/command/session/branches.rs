//! `session fork` and `session show --branches`.

use glasshouse_kernel::Kernel;
use glasshouse_kernel::driver::NewFork;
use glasshouse_log::BranchRow;
use glasshouse_model::{BranchId, Exit, SessionId};

use crate::error::Error;
use crate::event_line::date;
use crate::output;

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

/// Shows the branches of a session, each below the one that it left.
pub(super) fn tree(kernel: &Kernel, id: &SessionId, json: bool) -> Result<u8, Error> {
    // So that an unknown session is an error, not an empty list.
    kernel.main_branch(id)?;
    let rows = kernel.log().branches(id)?;
    if json {
        for row in &rows {
            output::json_line(&serde_json::json!({
                "branch": row.branch, "name": row.name, "state": row.state.as_str(),
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
        let (indent, head, state) = ("  ".repeat(depth), row.head.seq, row.state.as_str());
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
