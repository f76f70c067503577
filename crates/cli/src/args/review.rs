//! `review` and `grants`.

use clap::{Args, Subcommand, ValueEnum};
use glasshouse_kernel::driver::ApprovalName;
use glasshouse_model::Digest;
use glasshouse_policy::GrantId;

/// `review`.
#[derive(Debug, Subcommand)]
pub(crate) enum ReviewCommand {
    /// List what waits for a person, in every session of this machine
    List {
        /// Questions as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Show one question: what is asked for, why, and how far an answer may reach
    Show {
        /// Approval, as `review list` names it
        approval: ApprovalName,
        /// The question as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Approve what was asked for, once or with calls like it
    Approve(ApproveArguments),
    /// Tell the session no
    Reject {
        /// Approval, as `review list` names it
        approval: ApprovalName,
        /// Only if this is what is asked for
        #[arg(long, value_name = "SHA256")]
        digest: Option<Digest>,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
}

/// `review approve`.
#[derive(Debug, Args)]
pub(crate) struct ApproveArguments {
    /// Approval, as `review list` names it
    pub(crate) approval: ApprovalName,
    /// Only if this is what is asked for
    #[arg(long, value_name = "SHA256")]
    pub(crate) digest: Option<Digest>,
    /// How far the yes reaches
    #[arg(long, value_enum, default_value = "call")]
    pub(crate) scope: ScopeArgument,
    /// The calls, as the `match` of a rule (default: the narrowest that matches this one)
    #[arg(long = "match", value_name = "JSON")]
    pub(crate) matching: Option<String>,
    /// How long it holds, for example 2h
    #[arg(long, value_name = "TIME", value_parser = super::time_limit_ms)]
    pub(crate) expires: Option<u64>,
    /// Most uses besides the one that is approved
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..u64::MAX))]
    pub(crate) uses: Option<u64>,
    /// Result as JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// How far a yes reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArgument {
    /// This call, once
    Call,
    /// Calls like it, to the end of the turn
    Turn,
    /// Calls like it, in this session
    Session,
    /// Calls like it, in this project
    Workspace,
}

/// `grants`.
#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List what was granted and can be used, with calls that it matches and calls that it does not
    List {
        /// Also what is over: expired, used up, revoked
        #[arg(long)]
        all: bool,
        /// Grants as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Take a grant back, also from a session that runs
    Revoke {
        /// Grant, as `grants list` names it
        grant: GrantId,
        /// Why, for the log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
}

impl ReviewCommand {
    /// Whether failures are told as JSON.
    pub(super) const fn json(&self) -> bool {
        match self {
            Self::List { json } | Self::Show { json, .. } | Self::Reject { json, .. } => *json,
            Self::Approve(arguments) => arguments.json,
        }
    }
}

impl GrantsCommand {
    /// Whether failures are told as JSON.
    pub(super) const fn json(&self) -> bool {
        match self {
            Self::List { json, .. } | Self::Revoke { json, .. } => *json,
        }
    }
}
