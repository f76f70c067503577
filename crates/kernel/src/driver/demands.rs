//! What the kernel holds a call to behind the rules, as far as that depends on the call and on what its rules demand
//! alone. A session holds its calls to it; whoever makes one up, or tries another policy on the past, asks the same.

use glasshouse_model::body::PolicyDecided;
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Decision, PrincipalKind};

use super::decide::{denied_by_kernel, in_demanded_sandbox, uncounted};
use super::execute::check_isolation;
use crate::session::ISOLATION_TOO_WEAK;

/// Isolation of what runs in the kernel's own process: none.
pub(super) const IN_PROCESS: &str = "in_process";

/// Acts that nothing counts, whoever asks for them.
const UNCOUNTED: [&str; 11] = [
    name::MODEL_CALL,
    name::MERGE_APPLY,
    name::SANDBOX_MOUNT,
    name::POLICY_UPDATE,
    name::SESSION_SET_MODE,
    name::SESSION_FORK,
    name::SESSION_MERGE,
    name::SESSION_CLOSE,
    name::SESSION_DELETE,
    name::SESSION_IMPORT,
    name::UI_IMPORT,
];

/// The way on which a call comes to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is a tool's, in a turn of a session.
    Tool,
    /// It is a connection of what runs in a sandbox.
    Connection,
    /// It is another act of a session, or of a person: nothing counts it.
    Uncounted,
}

impl Way {
    /// Of a call that is made up.
    pub(super) fn of_call(call: &Call) -> Self {
        let by_hand = [name::SHELL_RUN, name::UI_RENDER].contains(&call.syscall.as_str())
            && call.caller.kind == PrincipalKind::User;
        match call.syscall.as_str() {
            name::NET_CONNECT => Self::Connection,
            syscall if by_hand || UNCOUNTED.contains(&syscall) => Self::Uncounted,
            _ => Self::Tool,
        }
    }

    /// Of a call that was decided.
    pub(super) fn of_decided(decided: &PolicyDecided) -> Self {
        match (decided.call, decided.args_digest, decided.syscall.as_str()) {
            (Some(_), Some(_), _) => Self::Tool,
            (.., name::NET_CONNECT) => Self::Connection,
            _ => Self::Uncounted,
        }
    }

    /// A decision as the kernel lets it stand. `reached` is the isolation that the call would have, where that is known.
    pub(super) fn hold(self, decision: Decision, call: &Call, reached: Option<&str>) -> Decision {
        match self {
            Self::Connection => decision,
            Self::Uncounted => uncounted(decision, call),
            Self::Tool => {
                let decision = in_demanded_sandbox(decision, &call.syscall);
                let in_process = (!acts_in_a_sandbox(&call.syscall)).then_some(IN_PROCESS);
                match in_process.or(reached) {
                    Some(reached) => isolated(decision, reached),
                    None => decision,
                }
            }
        }
    }
}

/// Whether calls of this name run in the branch's sandbox.
pub(super) fn acts_in_a_sandbox(syscall: &str) -> bool {
    [name::FS_WRITE, name::FS_EDIT, name::SHELL_RUN, name::TEST_RUN].contains(&syscall)
}

/// A session allows the call and refuses to make it.
fn isolated(decision: Decision, reached: &str) -> Decision {
    match check_isolation(&decision.constraints, reached) {
        Err(error) if decision.is_allowed() => {
            let report = error.report();
            let reason = [report.what, report.why].join(": ");
            denied_by_kernel(decision, ISOLATION_TOO_WEAK, reason)
        }
        _ => decision,
    }
}

#[cfg(test)]
mod tests {
    use glasshouse_tools::parse_arguments;

    use super::super::execute::is_sandboxed;
    use super::*;

    /// What is said of a call by its name is what a session does with its arguments.
    #[test]
    fn a_name_tells_where_a_call_runs() {
        let check = |tool: &str, arguments: &str, expected: bool| {
            let arguments = parse_arguments(tool, arguments).unwrap();
            assert_eq!(is_sandboxed(&arguments), expected, "{tool}");
            assert_eq!(acts_in_a_sandbox(tool), expected, "{tool}");
        };
        check("fs.read", r#"{"path":"a"}"#, false);
        check("fs.list", r#"{"path":"a"}"#, false);
        check("fs.exists", r#"{"path":"a"}"#, false);
        check("search.grep", r#"{"pattern":"a"}"#, false);
        check("search.glob", r#"{"pattern":"a"}"#, false);
        check("git.diff", "{}", false);
        check("git.commit", r#"{"message":"a"}"#, false);
        check("fs.write", r#"{"path":"a","content":""}"#, true);
        check("fs.edit", r#"{"path":"a","old":"b","new":"c"}"#, true);
        check("shell.run", r#"{"argv":["a"]}"#, true);
        check("test.run", "{}", true);
    }
}
