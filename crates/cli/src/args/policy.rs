//! `policy`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use glasshouse_model::{Digest, Seq, SessionId, State};

/// `policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Decide one call and say why: exit 0 allow, 3 deny, 4 review
    Check(CallArguments),
    /// Explain a decision: who spoke, who nearly did, what would change it
    Explain {
        #[command(flatten)]
        call: ExplainArguments,
        /// The explanation as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Find rules that cannot mean what they say: exit 5 on a warning
    Lint {
        /// Policy file (default: the project's, else the shipped one)
        file: Option<PathBuf>,
        /// Findings and the sum as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Try the examples of a policy and a file of tests: exit 5 on a failure
    Test {
        /// File of tests (default: what stands beside the policy file, such as .glasshouse/policy.test.yaml)
        file: Option<PathBuf>,
        /// Policy file (default: the project's, else the shipped one)
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
        /// Results and the sum as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of policy files, for editors
    Schema,
    /// Print the rules in force here, with the file each comes from
    Show {
        /// Print the shipped policy file instead, to copy and change
        #[arg(long)]
        shipped: bool,
        /// Rules as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Try a policy file on recorded decisions: which would come out differently
    Simulate {
        /// Policy file, in the place of the one that was in force
        file: PathBuf,
        /// All decisions of this session
        #[arg(long, value_name = "ID")]
        session: Option<SessionId>,
        /// How many of the newest decisions of sessions in this directory
        #[arg(long, value_name = "N", default_value = "100", conflicts_with = "session")]
        last: usize,
        /// Differences and the sum as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Print the least policy that would have decided a recorded session as it was decided
    Learn {
        /// Session
        session: SessionId,
        /// Write it into this file instead
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// The policy and what it cannot tell apart as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Accept this project's policy file, or another one in its place, after a person has seen it
    Update {
        /// File to put into the project (default: the one that is there)
        file: Option<PathBuf>,
        /// Accept without asking, if the file has exactly this digest
        #[arg(long, value_name = "SHA256")]
        digest: Option<Digest>,
        /// The phrase that more than five breaking changes need, where there is no terminal
        #[arg(long, value_name = "PHRASE", requires = "digest")]
        confirm: Option<String>,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
}

/// A call, or a recorded decision.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Policy file, as if it were the project's and accepted (default: the project's, else the shipped one)
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The call, for example {"syscall":"fs.write","path":"src/a"}
    #[arg(long, value_name = "JSON", required_unless_present = "session")]
    pub(crate) call: Option<String>,
    /// Workflow state in force
    #[arg(long, value_name = "STATE", value_parser = states())]
    pub(crate) state: Option<String>,
    /// Session of a recorded decision
    #[arg(long, value_name = "ID", requires = "at", conflicts_with_all = ["call", "policy", "state"])]
    pub(crate) session: Option<SessionId>,
    /// Event of the decision, or of the call that it was about
    #[arg(long, value_name = "SEQ", requires = "session")]
    pub(crate) at: Option<Seq>,
    /// Branch, by id or name (default: the main branch)
    #[arg(long, value_name = "BRANCH", requires = "session")]
    pub(crate) branch: Option<String>,
}

/// A call to decide.
#[derive(Debug, Args)]
pub(crate) struct CallArguments {
    /// Policy file, as if it were the project's and accepted (default: the project's, else the shipped one)
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The call, for example {"syscall":"fs.write","path":"src/a"}
    #[arg(long, value_name = "JSON")]
    pub(crate) call: String,
    /// Workflow state in force
    #[arg(long, value_name = "STATE", value_parser = states())]
    pub(crate) state: Option<String>,
    /// The decision as JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// The workflow states, for completions.
fn states() -> PossibleValuesParser {
    PossibleValuesParser::new(State::ALL.iter().map(|state| state.as_str()))
}

impl PolicyCommand {
    /// Whether failures are told as JSON.
    pub(crate) const fn json(&self) -> bool {
        match self {
            Self::Check(call) => call.json,
            Self::Explain { json, .. }
            | Self::Lint { json, .. }
            | Self::Test { json, .. }
            | Self::Show { json, .. }
            | Self::Simulate { json, .. }
            | Self::Learn { json, .. }
            | Self::Update { json, .. } => *json,
            Self::Schema => false,
        }
    }
}
