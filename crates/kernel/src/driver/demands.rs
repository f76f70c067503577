//! What an allowing rule demands of how an act is done: kept where the act happens, or the act does not happen. A session
//! holds its calls to it; whoever makes one up, or tries another policy on the past, asks the same.

use glasshouse_model::body::PolicyDecided;
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Constraints, Decision, PrincipalKind};
use glasshouse_policy::{Policy, Request};
use glasshouse_sandbox::{Level, TemplateName};

use super::decide::{denied_by_kernel, now_us};
use crate::session::{ISOLATION_TOO_WEAK, RATE_LIMITED, SANDBOX_DEMANDED};
use crate::{Error, Result, codes};

/// Isolation of what runs in the kernel's own process: none.
pub(super) const IN_PROCESS: &str = "in_process";

/// Where an act happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// In the kernel's own process: no sandbox and no isolation.
    Kernel,
    /// In a sandbox.
    Sandbox {
        /// Whether it is one with a network.
        has_network: bool,
        /// The isolation that was measured when it was made; none where it is made for the act.
        isolation: Option<&'a str>,
    },
}

impl<'a> Place<'a> {
    /// A sandbox that is made once the act is decided.
    pub(crate) const fn to_be_made(template: TemplateName) -> Self {
        let has_network = matches!(template, TemplateName::IntegrationTest);
        Self::Sandbox { has_network, isolation: None }
    }

    /// Where a tool's call acts. What runs a program gets a network where a rule demands it.
    pub(super) fn of_tool(syscall: &str, isolation: Option<&'a str>) -> Self {
        if name::SANDBOXED.contains(&syscall) {
            let has_network = [name::SHELL_RUN, name::TEST_RUN].contains(&syscall);
            Self::Sandbox { has_network, isolation }
        } else {
            Self::Kernel
        }
    }
}

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
            syscall if by_hand || name::UNCOUNTED.contains(&syscall) => Self::Uncounted,
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
        let syscall = call.syscall.as_str();
        match self {
            Self::Connection => {
                of_connection(decision, Place::Sandbox { has_network: true, isolation: reached })
            }
            Self::Tool => of_tool(decision, syscall, reached),
            // A file that a command left, and a command by hand.
            Self::Uncounted if name::SANDBOXED.contains(&syscall) => {
                let place = Place::Sandbox { has_network: false, isolation: reached };
                uncounted(decision, syscall, place)
            }
            Self::Uncounted => uncounted(decision, syscall, Place::Kernel),
        }
    }
}

/// Decides an act that nothing counts. What a rule allows only so often, in another place than this one or for so
/// long only it does not allow here: a demand that cannot be kept is a denial.
pub(crate) fn decide_uncounted(policy: &Policy, call: &Call, place: Place<'_>) -> Decision {
    let decision = glasshouse_policy::decide(policy, &Request::new(call, now_us())).decision;
    uncounted(decision, &call.syscall, place)
}

/// A decision on an act that nothing counts.
pub(crate) fn uncounted(decision: Decision, syscall: &str, place: Place<'_>) -> Decision {
    if !decision.is_allowed() {
        return decision;
    }
    if let Some(rule) = decision.constraints.rates.keys().next() {
        let reason = format!("rule `{rule}` limits how often, and `{syscall}` is not counted here");
        return denied_by_kernel(decision, RATE_LIMITED, reason);
    }
    match place {
        Place::Kernel => kept(untimed(decision, syscall), place),
        Place::Sandbox { .. } => kept(decision, place),
    }
}

/// A decision on an act that nothing ends in time: a rule that allows it for so long only does not allow it.
fn untimed(decision: Decision, syscall: &str) -> Decision {
    let Some(most_ms) = decision.constraints.max_duration_ms.filter(|_| decision.is_allowed())
    else {
        return decision;
    };
    let reason =
        format!("a rule allows `{syscall}` for {most_ms} ms only, and nothing ends it in time");
    denied_by_kernel(decision, SANDBOX_DEMANDED, reason)
}

/// A decision on a tool's call, in a turn. What runs in the kernel is ended when its time is over; a commit waits for
/// people.
pub(super) fn of_tool(decision: Decision, syscall: &str, isolation: Option<&str>) -> Decision {
    let decision = kept(decision, Place::of_tool(syscall, isolation));
    if syscall == name::GIT_COMMIT { untimed(decision, syscall) } else { decision }
}

/// A decision on a connection of what runs in a sandbox, which lasts as long as both sides like.
pub(super) fn of_connection(decision: Decision, place: Place<'_>) -> Decision {
    untimed(kept(decision, place), name::NET_CONNECT)
}

/// The decision, unless what it demands of the place is not kept there.
pub(crate) fn kept(decision: Decision, place: Place<'_>) -> Decision {
    if !decision.is_allowed() {
        return decision;
    }
    let demanded = &decision.constraints;
    let other = demanded.require_sandbox.as_ref().filter(|wanted| !is_met(wanted, place));
    if let Some(wanted) = other {
        let reason =
            format!("a rule demands the sandbox `{wanted}`, which this call would not run in");
        return denied_by_kernel(decision, SANDBOX_DEMANDED, reason);
    }
    let reached = match place {
        Place::Kernel => Some(IN_PROCESS),
        Place::Sandbox { isolation, .. } => isolation,
    };
    match reached.and_then(|reached| too_weak(demanded, reached)) {
        Some(reason) => denied_by_kernel(decision, ISOLATION_TOO_WEAK, reason),
        None => decision,
    }
}

fn is_met(wanted: &str, place: Place<'_>) -> bool {
    match place {
        Place::Kernel => false,
        Place::Sandbox { has_network, .. } => match wanted {
            "L2" | "code-executor" => true,
            "integration-test" => has_network,
            _ => false,
        },
    }
}

/// Refuses to act with less isolation than a rule demands.
///
/// # Errors
/// `isolation_too_weak`.
pub(super) fn check_isolation(demanded: &Constraints, reached: &str) -> Result<()> {
    match too_weak(demanded, reached) {
        None => Ok(()),
        Some(why) => {
            Err(Error::new(codes::ISOLATION_TOO_WEAK, "the call may not run here").why(why))
        }
    }
}

fn too_weak(demanded: &Constraints, reached: &str) -> Option<String> {
    let wanted = demanded.min_isolation.as_deref()?;
    let level = |word: &str| Level::ALL.into_iter().find(|level| level.to_string() == word);
    let (_, found) = reached.split_once(':').unwrap_or(("", reached));
    // What is no level, such as `in_process`, is no isolation.
    match (level(wanted), level(found)) {
        (Some(wanted), Some(found)) if found >= wanted => None,
        _ => Some(format!("a rule demands the isolation `{wanted}`; it would be `{reached}`")),
    }
}

#[cfg(test)]
mod tests {
    use glasshouse_model::{Digest, Principal, TenantId};
    use glasshouse_tools::parse_arguments;

    use super::super::execute::is_sandboxed;
    use super::*;

    /// A place, the demands as JSON, and whether they are kept there.
    #[test]
    fn a_demand_is_kept_where_the_act_happens_or_denies() {
        let sandbox = |has_network, isolation| Place::Sandbox { has_network, isolation };
        let full = Some("native:full");
        let cases: &[(Place<'_>, &str, bool)] = &[
            (Place::Kernel, "{}", true),
            (Place::Kernel, r#"{"require_sandbox": "L2"}"#, false),
            (Place::Kernel, r#"{"require_sandbox": "code-executor"}"#, false),
            (Place::Kernel, r#"{"min_isolation": "no-landlock"}"#, false),
            (Place::Kernel, r#"{"max_file_size_bytes": 10}"#, true),
            (sandbox(false, full), r#"{"require_sandbox": "L2", "min_isolation": "full"}"#, true),
            (sandbox(false, full), r#"{"require_sandbox": "code-executor"}"#, true),
            (sandbox(false, full), r#"{"require_sandbox": "integration-test"}"#, false),
            (sandbox(true, full), r#"{"require_sandbox": "integration-test"}"#, true),
            (sandbox(true, full), r#"{"require_sandbox": "a-sandbox-of-mine"}"#, false),
            (sandbox(false, Some("native:no-layers")), r#"{"min_isolation": "full"}"#, false),
            (sandbox(false, Some(IN_PROCESS)), r#"{"min_isolation": "no-landlock"}"#, false),
            // Measured once the sandbox is there.
            (sandbox(false, None), r#"{"min_isolation": "full"}"#, true),
        ];
        for (place, demands, is_kept) in cases {
            let decision: Decision = serde_json::from_value(serde_json::json!({
                "decision": "allow", "rules": [], "reasons": [], "policy_version": Digest::ZERO,
                "constraints": serde_json::from_str::<serde_json::Value>(demands).unwrap(),
            }))
            .unwrap();
            let held = kept(decision, *place);
            assert_eq!(held.is_allowed(), *is_kept, "{place:?} {demands}: {:?}", held.reasons);
        }
    }

    /// A file goes only as what a command changed: in its sandbox, and counted by nothing. What is tried says the same.
    #[test]
    fn a_removal_that_is_made_up_is_held_as_one_of_a_command() {
        let check = |demands: serde_json::Value, is_kept: bool| {
            let caller = Principal::new(PrincipalKind::Agent, "agent", TenantId::local());
            let call = Call::new(name::FS_DELETE, caller);
            let decision = serde_json::from_value(serde_json::json!({
                "decision": "allow", "rules": [], "reasons": [], "policy_version": Digest::ZERO,
                "constraints": demands,
            }))
            .unwrap();
            let held = Way::of_call(&call).hold(decision, &call, None);
            assert_eq!(held.is_allowed(), is_kept, "{demands}");
        };
        check(serde_json::json!({ "require_sandbox": "code-executor" }), true);
        check(serde_json::json!({ "max_duration_ms": 9 }), true);
        check(serde_json::json!({ "require_sandbox": "integration-test" }), false);
        check(serde_json::json!({ "rates": { "a": { "calls": 1, "within_ms": 9 } } }), false);
    }

    /// A tool's syscall or a connection, and whether a rule with `max_duration` can allow it.
    #[test]
    fn a_time_is_kept_or_the_act_is_denied() {
        let check = |way: Way, syscall: &str, is_kept: bool| {
            let decided = |demands: serde_json::Value| -> Decision {
                serde_json::from_value(serde_json::json!({
                    "decision": "allow", "rules": [], "reasons": [],
                    "policy_version": Digest::ZERO, "constraints": demands,
                }))
                .unwrap()
            };
            let caller = Principal::new(PrincipalKind::Agent, "agent", TenantId::local());
            let call = Call::new(syscall, caller);
            let held = way.hold(decided(serde_json::json!({ "max_duration_ms": 9 })), &call, None);
            assert_eq!(held.is_allowed(), is_kept, "{way:?} {syscall}: {:?}", held.reasons);
            let free = way.hold(decided(serde_json::json!({})), &call, None);
            assert!(free.is_allowed(), "the control: {way:?} {syscall}");
        };
        for syscall in ["fs.read", "fs.list", "search.grep", "git.diff", "net.connect", "shell.run"]
        {
            check(Way::Tool, syscall, true);
        }
        check(Way::Tool, name::GIT_COMMIT, false);
        check(Way::Connection, name::NET_CONNECT, false);
        check(Way::Uncounted, name::MERGE_APPLY, false);
        check(Way::Uncounted, name::SHELL_RUN, true);
    }

    /// What is said of a call by its name is what a session does with its arguments.
    #[test]
    fn a_name_tells_where_a_call_runs() {
        let check = |tool: &str, arguments: &str, expected: bool| {
            let arguments = parse_arguments(tool, arguments).unwrap();
            assert_eq!(is_sandboxed(&arguments), expected, "{tool}");
            assert_eq!(name::SANDBOXED.contains(&tool), expected, "{tool}");
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
