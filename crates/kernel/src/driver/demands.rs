//! What an allowing rule demands of how an act is done: kept where the act happens, or the act does not happen.

use glasshouse_model::{Call, Constraints, Decision};
use glasshouse_policy::{Policy, Request};
use glasshouse_sandbox::{Level, TemplateName};
use glasshouse_tools::Arguments;

use super::decide::{denied_by_kernel, now_us};
use super::execute::{is_sandboxed, runs_a_program};
use crate::session::{RATE_LIMITED, SANDBOX_DEMANDED};
use crate::{Error, Result, codes};

/// Where an act happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// In the kernel's own process: no sandbox, no isolation, and nothing that ends it in time.
    Kernel,
    /// In a sandbox.
    Sandbox {
        /// Whether it is one with a network.
        has_network: bool,
        /// The isolation that was measured when it was made; none where it is made for the act.
        isolation: Option<&'a str>,
    },
}

impl Place<'static> {
    /// A sandbox that is made once the act is decided.
    pub(crate) const fn to_be_made(template: TemplateName) -> Self {
        let has_network = matches!(template, TemplateName::IntegrationTest);
        Self::Sandbox { has_network, isolation: None }
    }

    /// Where a call of an agent acts.
    pub(crate) const fn of(arguments: &Arguments) -> Self {
        if is_sandboxed(arguments) {
            // A demand of a network gives what runs a program one.
            Self::Sandbox { has_network: runs_a_program(arguments), isolation: None }
        } else {
            Self::Kernel
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
    match (decision.constraints.max_duration_ms, place) {
        (Some(most_ms), Place::Kernel) => {
            let reason = format!(
                "a rule allows `{syscall}` for {most_ms} ms only, and nothing ends it in time"
            );
            denied_by_kernel(decision, SANDBOX_DEMANDED, reason)
        }
        _ => kept(decision, place),
    }
}

/// The decision, unless what it demands of the place is not kept there.
pub(crate) fn kept(decision: Decision, place: Place<'_>) -> Decision {
    match unmet(&decision.constraints, place).filter(|_| decision.is_allowed()) {
        Some(reason) => denied_by_kernel(decision, SANDBOX_DEMANDED, reason),
        None => decision,
    }
}

fn unmet(demanded: &Constraints, place: Place<'_>) -> Option<String> {
    if let Some(wanted) = &demanded.require_sandbox
        && !is_met(wanted, place)
    {
        return Some(format!(
            "a rule demands the sandbox `{wanted}`, which this call would not run in"
        ));
    }
    match place {
        Place::Kernel => demanded.min_isolation.as_ref().map(|wanted| {
            format!("a rule demands the isolation `{wanted}`, and this is done in no sandbox")
        }),
        Place::Sandbox { isolation: Some(reached), .. } => too_weak(demanded, reached),
        Place::Sandbox { isolation: None, .. } => None,
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
            (sandbox(false, Some("in_process")), r#"{"min_isolation": "no-landlock"}"#, false),
            // Measured once the sandbox is there.
            (sandbox(false, None), r#"{"min_isolation": "full"}"#, true),
        ];
        for (place, demands, is_kept) in cases {
            let demanded: Constraints = serde_json::from_str(demands).unwrap();
            let why = unmet(&demanded, *place);
            assert_eq!(why.is_none(), *is_kept, "{place:?} {demands}: {why:?}");
        }
    }
}
