//! Every error code of this crate.

use glasshouse_model::{Code, Exit};

/// A configuration file or flag cannot be used.
pub const CONFIG_INVALID: Code = Code::new(
    "config_invalid",
    Exit::Usage,
    false,
    "correct the named key; `glasshouse config init` writes a file that names every key",
);
/// More messages to a running turn than wait for it.
pub const STEERING_FULL: Code =
    Code::new("steering_full", Exit::Conflict, true, "wait for the turn's next step, or cancel it");
/// A sandbox that no event tells of.
pub const SANDBOX_NOT_FOUND: Code = Code::new(
    "sandbox_not_found",
    Exit::NotFound,
    false,
    "name one of the session's sandboxes; events of the kind `sandbox.created` name them",
);
/// A key that is not there.
pub const KEY_NOT_FOUND: Code =
    Code::new("key_not_found", Exit::NotFound, false, "`glasshouse keys list` names the keys");
/// Terms that no key can have.
pub const KEY_INVALID: Code = Code::new(
    "key_invalid",
    Exit::Usage,
    false,
    "name roles out of viewer, operator, approver, auditor and admin, and an end in the future",
);
/// A tenant that is not there.
pub const TENANT_NOT_FOUND: Code = Code::new(
    "tenant_not_found",
    Exit::NotFound,
    false,
    "`glasshouse tenants list` names the tenants",
);
/// A tenant that is there already.
pub const TENANT_EXISTS: Code = Code::new(
    "tenant_exists",
    Exit::Conflict,
    false,
    "change it with `glasshouse tenants update`, or choose another name",
);
/// Terms that no tenant can have.
pub const TENANT_INVALID: Code = Code::new(
    "tenant_invalid",
    Exit::Usage,
    false,
    "correct the named profile, quota or directory",
);
/// An approval that nothing asks for.
pub const APPROVAL_UNKNOWN: Code = Code::new(
    "approval_unknown",
    Exit::NotFound,
    false,
    "`glasshouse review list` names the questions that wait",
);
/// Somebody answered who is no person.
pub const APPROVAL_FORBIDDEN: Code =
    Code::new("approval_forbidden", Exit::Denied, false, "let a person answer");
/// An answer to something else than what is asked.
pub const APPROVAL_MISMATCH: Code = Code::new(
    "approval_mismatch",
    Exit::Conflict,
    false,
    "look at what is asked now: `glasshouse review show`",
);
/// A second answer to one question.
pub const APPROVAL_ANSWERED: Code = Code::new(
    "approval_answered",
    Exit::Conflict,
    false,
    "nothing: the first answer counts once the session goes on",
);
/// An approval that was not used in time.
pub const APPROVAL_EXPIRED: Code =
    Code::new("approval_expired", Exit::Denied, false, "ask for the act again");
/// A wider answer that does not fit the question.
pub const GRANT_NARROW: Code = Code::new(
    "grant_narrow",
    Exit::Usage,
    false,
    "approve it for the call alone, or give a rule that matches it",
);
/// A grant that the log does not know.
pub const GRANT_NOT_FOUND: Code = Code::new(
    "grant_not_found",
    Exit::NotFound,
    false,
    "`glasshouse grants list --all` names the grants",
);
/// An event that is no decision.
pub const EVENT_NOT_DECIDED: Code = Code::new(
    "event_not_decided",
    Exit::NotFound,
    false,
    "name a `policy.decided` or `tool.proposed` event; `glasshouse audit log` lists them",
);
/// A session id that the log does not know.
pub const SESSION_NOT_FOUND: Code = Code::new(
    "session_not_found",
    Exit::NotFound,
    false,
    "`glasshouse session list` shows the sessions",
);
/// A branch id or name that the session does not have.
pub const BRANCH_UNKNOWN: Code = Code::new(
    "branch_unknown",
    Exit::NotFound,
    false,
    "`glasshouse session show ID --branches` lists the branches",
);
/// A branch that had no files at an event.
pub const NO_WORKSPACE: Code =
    Code::new("no_workspace", Exit::NotFound, false, "name an event after `workspace.frozen`");
/// The project directory is missing or unreadable.
pub const PROJECT_UNREADABLE: Code = Code::new(
    "project_unreadable",
    Exit::Usage,
    false,
    "name an existing directory that you can read",
);
/// The project is not where it was, or lies where this tenant may not work.
pub const PROJECT_ELSEWHERE: Code = Code::new(
    "project_elsewhere",
    Exit::Denied,
    false,
    "begin a session on the directory that is meant",
);
/// The directory is part of another project, or of what nothing of a project is written to.
pub const PROJECT_INSIDE: Code = Code::new(
    "project_inside",
    Exit::Denied,
    false,
    "work in the directory whose policy decides there",
);
/// A git directory is among the files that are worked on.
pub const GIT_DIRECTORY_EXPOSED: Code = Code::new(
    "git_directory_exposed",
    Exit::Denied,
    false,
    "move the git directory out of the work tree with `git init --separate-git-dir=DIR`",
);
/// A repository whose files are in no commit.
pub const NO_COMMIT: Code = Code::new(
    "no_commit",
    Exit::Usage,
    false,
    "commit what is there (`git add -A && git commit -m start`), then give the task again",
);
/// No way to run the project's tests was found.
pub const TESTS_UNKNOWN: Code = Code::new(
    "tests_unknown",
    Exit::Usage,
    false,
    "set test.command in .glasshouse/config.yaml, for example [\"sh\", \"tests/run.sh\"]",
);
/// A log that cannot be folded.
pub const LOG_UNREADABLE: Code = Code::new(
    "log_unreadable",
    Exit::Storage,
    false,
    "run `glasshouse audit verify`; fork before the named event",
);
/// The turn failed; the context names the code.
pub const TURN_FAILED: Code = Code::new(
    "turn_failed",
    Exit::Unfinished,
    false,
    "`glasshouse session show` tells what happened",
);
/// A command changed a path that it may not change.
pub const CHANGE_DENIED: Code = Code::new(
    "change_denied",
    Exit::Denied,
    false,
    "change only what the workflow state allows; everything the command changed was rolled back",
);
/// What was explored may not be merged while coverage is owed.
pub const COVERAGE_OWED: Code = Code::new(
    "coverage_owed",
    Exit::Denied,
    false,
    "add tests: plan.complete begins with them, or work in strict mode",
);
/// A file is too large for the tool.
pub const FILE_TOO_LARGE: Code = Code::new(
    "edit_too_large",
    Exit::Usage,
    false,
    "change it with a command, or write it anew in parts",
);
/// An edit that cannot be made.
pub const EDIT_FAILED: Code =
    Code::new("edit_failed", Exit::Usage, false, "read the file, then edit what is really there");
/// A plan that the profile refuses.
pub const PLAN_REFUSED: Code = Code::new(
    "plan_refused",
    Exit::Denied,
    false,
    "mend the issues that are listed; `glasshouse ui check` lists them",
);
/// The demo's story did not end as it must.
pub const DEMO_BROKEN: Code = Code::new(
    "demo_broken",
    Exit::Unfinished,
    false,
    "this is a fault of this build; please report it",
);
/// The policy denies an act.
pub const POLICY_DENIED: Code = Code::new(
    "policy_denied",
    Exit::Denied,
    false,
    "`glasshouse policy explain` with --session ID --at SEQ, or with --call JSON, says why",
);
/// Something a person must agree to, and nobody was there to ask.
pub const APPROVAL_NEEDED: Code = Code::new(
    "approval_needed",
    Exit::NeedsApproval,
    true,
    "run the command at a terminal and answer its question",
);
/// A person was asked and said no.
pub const APPROVAL_REJECTED: Code = Code::new(
    "approval_rejected",
    Exit::Denied,
    false,
    "nothing was changed; ask again after changing what was shown",
);
/// A project without a policy file.
pub const POLICY_NOT_FOUND: Code = Code::new(
    "policy_not_found",
    Exit::NotFound,
    false,
    "write one: `mkdir -p .glasshouse && glasshouse policy show --shipped > .glasshouse/policy.yaml` is a start",
);
/// A policy file that is not the one that was to be accepted.
pub const POLICY_CHANGED: Code = Code::new(
    "policy_changed",
    Exit::Conflict,
    false,
    "read the file as it is now, then accept that",
);
/// Somebody else accepts a policy and does not end.
pub const POLICY_BUSY: Code = Code::new(
    "policy_busy",
    Exit::Conflict,
    true,
    "wait until whoever accepts a policy has ended, then retry",
);
/// A file that would hold a secret.
pub const SECRET_IN_ARGUMENTS: Code = Code::new(
    "secret_in_arguments",
    Exit::Denied,
    false,
    "read the secret at run time, for example from the environment, instead of writing it down",
);
/// Network access that is not built.
pub const NETWORK_UNAVAILABLE: Code =
    Code::new("network_unavailable", Exit::Usage, false, "use a template that has a network");
/// A rule demands more isolation than this machine gives.
pub const ISOLATION_TOO_WEAK: Code = Code::new(
    "isolation_too_weak",
    Exit::Denied,
    false,
    "run `glasshouse doctor` and follow its remedies, or use a machine that isolates more",
);
/// A merge of nothing.
pub const NOTHING_TO_MERGE: Code = Code::new(
    "nothing_to_merge",
    Exit::Usage,
    false,
    "change something first; `git.diff` shows the change set",
);
/// A branch whose turn is not over cannot be merged.
pub const TURN_OPEN: Code = Code::new(
    "turn_open",
    Exit::Conflict,
    false,
    "wait until the turn ends, or carry on an interrupted one with `glasshouse session resume`",
);
/// A plugin failed in the pipeline of a plan, or changed what it may only see.
pub const PLAN_HOOK_FAILED: Code =
    Code::new("plan_hook_failed", Exit::Denied, false, "correct the plugin, or run without it");
/// A policy's rules in TypeScript cannot be used.
pub const POLICY_EXTENSION_FAILED: Code = Code::new(
    "policy_extension_failed",
    Exit::Usage,
    false,
    "export a function `evaluate(call)` that answers nothing or `{ effect, reason }`",
);
/// A command line that cannot be understood.
pub const USAGE: Code =
    Code::new("usage", Exit::Usage, false, "`glasshouse --help` lists what there is");
/// A file that was named, or standard input, cannot be read.
pub const INPUT_UNREADABLE: Code = Code::new(
    "input_unreadable",
    Exit::Usage,
    false,
    "name a regular file that you can read and that is not larger than the limit",
);
/// Data did not reach its file.
pub const OUTPUT_LOST: Code = Code::new(
    "output_lost",
    Exit::Storage,
    true,
    "free space where stdout goes, then run the command again",
);
/// What is to be written is there already.
pub const OUTPUT_EXISTS: Code = Code::new(
    "output_exists",
    Exit::Usage,
    false,
    "name a place where nothing is, or remove what is there",
);
/// A test run of a part of the tests.
pub const FILTER_UNAVAILABLE: Code =
    Code::new("filter_unavailable", Exit::Usage, false, "call test.run without a filter");
/// A commit message that git does not take.
pub const MESSAGE_INVALID: Code =
    Code::new("message_invalid", Exit::Usage, false, "write a first line that says what changed");

/// The user's edits and the change set do not go together.
pub const MERGE_CONFLICT: Code = Code::new(
    "merge_conflict",
    Exit::Conflict,
    false,
    "settle the named files in the project, or start a new session from them",
);
/// What was approved is not what would be merged now.
pub const STALE_REVIEW: Code = Code::new(
    "stale_review",
    Exit::Conflict,
    true,
    "look at the new proposal and approve that one",
);
/// The project is on another branch than the session.
pub const HEAD_MOVED: Code = Code::new(
    "head_moved",
    Exit::Conflict,
    false,
    "go back to the branch that the session began on, then commit again",
);
/// The repository is in the middle of something, or locked.
pub const REPOSITORY_BUSY: Code = Code::new(
    "repository_busy",
    Exit::Conflict,
    true,
    "finish or abort the git operation in progress, then retry",
);
/// A file that the repository stores by a filter or another conversion that a merge does not run.
pub const ATTRIBUTES_UNSUPPORTED: Code = Code::new(
    "attributes_unsupported",
    Exit::Usage,
    false,
    "change the named files yourself, or take the named attribute off them",
);
/// An object of the repository that is not there.
pub const GIT_OBJECT_MISSING: Code = Code::new(
    "git_object_missing",
    Exit::Conflict,
    false,
    "`git fsck` names what is missing; in a partial clone `git fetch` what the last commit holds",
);
/// A merge that failed and could not be undone whole.
pub const MERGE_INCOMPLETE: Code = Code::new(
    "merge_incomplete",
    Exit::Storage,
    true,
    "mend what is named (free space, rights), then `glasshouse session resume`: the merge goes back",
);
/// An operation id is malformed, or names another merge.
pub const OPERATION_INVALID: Code =
    Code::new("operation_invalid", Exit::Usage, false, "use a new operation id for a new merge");
/// The record of a merge cannot be written, or is not what was written.
pub const OPERATION_DAMAGED: Code = Code::new(
    "operation_damaged",
    Exit::Storage,
    false,
    "check the named files by hand; the log still has every sealed content",
);
/// A plan, or a version of one, that the log does not know.
pub const PLAN_NOT_FOUND: Code = Code::new(
    "plan_not_found",
    Exit::NotFound,
    false,
    "`glasshouse ui history` lists the plans and their versions",
);
/// A run that the log does not know.
pub const PLAN_RUN_NOT_FOUND: Code = Code::new(
    "plan_run_not_found",
    Exit::NotFound,
    false,
    "`glasshouse ui history` lists the runs",
);
/// A run that cannot be made again.
pub const PLAN_RUN_NOT_REPLAYABLE: Code = Code::new(
    "plan_run_not_replayable",
    Exit::Usage,
    false,
    "choose a run of mode prompt, plan, event or rollback that began",
);
/// The tenant's quota is used up.
pub const PLAN_THROTTLED: Code = Code::new(
    "plan_throttled",
    Exit::Conflict,
    true,
    "wait as long as `retry_after_ms` says, or until another run ends",
);
/// The plan's state is not what the caller thought.
pub const PLAN_CONFLICT: Code =
    Code::new("plan_conflict", Exit::Conflict, true, "read the state again, then retry");
/// A plan or an event that cannot be read.
pub const PLAN_UNREADABLE: Code = Code::new(
    "plan_unreadable",
    Exit::Usage,
    false,
    "correct the place that the context names; `glasshouse ui check` tells more",
);

/// The model stopped before its work was done.
pub const TASK_UNFINISHED: Code = Code::new(
    "task_unfinished",
    Exit::Unfinished,
    false,
    "pass a further message with `glasshouse session resume`, which says what is missing",
);
/// The process that ran a turn ended in the middle of it.
pub const INTERRUPTED: Code = Code::new(
    "interrupted",
    Exit::Unfinished,
    true,
    "`glasshouse session resume` carries on after the last event",
);
/// A person stopped the turn.
pub const CANCELLED: Code = Code::new(
    "cancelled",
    Exit::Cancelled,
    true,
    "`glasshouse session resume` carries on after the last event",
);
/// An approval was needed and nobody could be asked.
pub const NO_APPROVER: Code = Code::new(
    "no_approver",
    Exit::NeedsApproval,
    true,
    "carry on at a terminal with `glasshouse session resume ID MESSAGE` and answer, or in time with `glasshouse review`",
);
/// A turn in which nothing runs and nothing is wanted.
pub const STUCK: Code = Code::new(
    "stuck",
    Exit::Unfinished,
    false,
    "this is a fault of this build; please report it with what `glasshouse session show` prints",
);
/// A limit of the session's budget is reached.
pub const BUDGET_EXHAUSTED: Code = Code::new(
    "budget_exhausted",
    Exit::Unfinished,
    false,
    "raise the limit under `budget` in .glasshouse/config.yaml, then start a new session",
);
/// More calls in one answer than are taken.
pub const TOO_MANY_CALLS: Code = Code::new(
    "too_many_calls",
    Exit::Unfinished,
    false,
    "ask for the work in smaller parts, or use another model",
);
/// The answer reached the model's length limit.
pub const ANSWER_LENGTH: Code = Code::new(
    "answer_length",
    Exit::Unfinished,
    false,
    "ask for the work in smaller parts, or raise the server's limit for the length of an answer",
);
/// A text cannot be pinned.
pub const PIN_INVALID: Code = Code::new(
    "pin_invalid",
    Exit::Usage,
    false,
    "pin a shorter text under a plain name; `--remove` takes one away",
);
/// A budget has a cost and a model no price.
pub const PRICE_UNKNOWN: Code = Code::new(
    "price_unknown",
    Exit::Usage,
    false,
    "add the model to the price file, or leave budget.cost out",
);
/// The conversation does not fit the model's window, and a summary does not help.
pub const CONTEXT_FULL: Code = Code::new(
    "context_full",
    Exit::Unfinished,
    false,
    "start a new session with a smaller task, use a model with a larger window, or set window_tokens",
);
/// A call failed in the same way too often.
pub const CALL_REPEATED: Code = Code::new(
    "call_repeated",
    Exit::Unfinished,
    false,
    "read the call's error, then carry on with `glasshouse session resume` and a message that says what to do instead",
);
/// The provider paused in the middle of work with tools of its own.
pub const ANSWER_PAUSED: Code = Code::new(
    "answer_paused",
    Exit::Unfinished,
    false,
    "carry on with `glasshouse session resume`",
);
/// The model refused.
pub const ANSWER_REFUSAL: Code = Code::new(
    "answer_refusal",
    Exit::Unfinished,
    false,
    "say the task in other words, or use another model",
);
/// A filter of the server withheld the answer.
pub const ANSWER_CONTENT_FILTER: Code = Code::new(
    "answer_content_filter",
    Exit::Unfinished,
    false,
    "say the task in other words, or use another server",
);

/// All of them.
pub const ALL: &[Code] = &[
    SANDBOX_NOT_FOUND,
    KEY_NOT_FOUND,
    KEY_INVALID,
    TENANT_NOT_FOUND,
    TENANT_EXISTS,
    TENANT_INVALID,
    STEERING_FULL,
    CONFIG_INVALID,
    APPROVAL_UNKNOWN,
    APPROVAL_FORBIDDEN,
    APPROVAL_MISMATCH,
    APPROVAL_ANSWERED,
    APPROVAL_EXPIRED,
    GRANT_NARROW,
    GRANT_NOT_FOUND,
    EVENT_NOT_DECIDED,
    SESSION_NOT_FOUND,
    BRANCH_UNKNOWN,
    NO_WORKSPACE,
    PROJECT_UNREADABLE,
    PROJECT_ELSEWHERE,
    PROJECT_INSIDE,
    GIT_DIRECTORY_EXPOSED,
    NO_COMMIT,
    TESTS_UNKNOWN,
    LOG_UNREADABLE,
    TURN_FAILED,
    CHANGE_DENIED,
    COVERAGE_OWED,
    FILE_TOO_LARGE,
    EDIT_FAILED,
    PLAN_REFUSED,
    DEMO_BROKEN,
    POLICY_DENIED,
    APPROVAL_NEEDED,
    APPROVAL_REJECTED,
    POLICY_NOT_FOUND,
    POLICY_CHANGED,
    POLICY_BUSY,
    SECRET_IN_ARGUMENTS,
    NETWORK_UNAVAILABLE,
    ISOLATION_TOO_WEAK,
    NOTHING_TO_MERGE,
    TURN_OPEN,
    PLAN_HOOK_FAILED,
    POLICY_EXTENSION_FAILED,
    USAGE,
    FILTER_UNAVAILABLE,
    MESSAGE_INVALID,
    INPUT_UNREADABLE,
    OUTPUT_LOST,
    OUTPUT_EXISTS,
    MERGE_CONFLICT,
    STALE_REVIEW,
    HEAD_MOVED,
    REPOSITORY_BUSY,
    ATTRIBUTES_UNSUPPORTED,
    GIT_OBJECT_MISSING,
    MERGE_INCOMPLETE,
    OPERATION_INVALID,
    OPERATION_DAMAGED,
    PLAN_NOT_FOUND,
    PLAN_RUN_NOT_FOUND,
    PLAN_RUN_NOT_REPLAYABLE,
    PLAN_THROTTLED,
    PLAN_CONFLICT,
    PLAN_UNREADABLE,
    TASK_UNFINISHED,
    INTERRUPTED,
    CANCELLED,
    NO_APPROVER,
    STUCK,
    BUDGET_EXHAUSTED,
    TOO_MANY_CALLS,
    ANSWER_LENGTH,
    ANSWER_PAUSED,
    CONTEXT_FULL,
    PIN_INVALID,
    PRICE_UNKNOWN,
    CALL_REPEATED,
    ANSWER_REFUSAL,
    ANSWER_CONTENT_FILTER,
];

/// The code of this name: of this crate, or of one below it whose errors can end a turn.
#[must_use]
pub fn named(name: &str) -> Option<Code> {
    [
        ALL,
        glasshouse_provider::codes::ALL,
        glasshouse_sandbox::codes::ALL,
        glasshouse_log::codes::ALL,
        glasshouse_policy::codes::ALL,
        glasshouse_tools::codes::ALL,
    ]
    .into_iter()
    .flatten()
    .find(|code| code.name == name)
    .copied()
}
