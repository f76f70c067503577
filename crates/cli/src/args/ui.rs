//! The words of `glasshouse ui`.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::ModelOptions;

/// Which security profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArgument {
    /// Least
    Strict,
    /// Default of most products
    Balanced,
    /// For plans of one's own
    Trusted,
    /// For experiments
    Relaxed,
}

/// `ui`.
#[derive(Debug, Subcommand)]
pub(crate) enum UiCommand {
    /// Check a plan against a profile: exit 3 when it is unsafe
    Check {
        /// Plan file, `-` for stdin
        file: PathBuf,
        /// Security profile
        #[arg(long, value_enum, default_value = "strict")]
        profile: ProfileArgument,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
        /// Tell on stderr where the time went
        #[arg(long)]
        timings: bool,
    },
    /// Tell what a plan needs and whether it can be had, without loading or running anything
    ProbePlan {
        /// Plan file, `-` for stdin
        file: PathBuf,
        /// Security profile
        #[arg(long, value_enum, default_value = "strict")]
        profile: ProfileArgument,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Fetch all modules that a plan leads to and print the plan with their digests
    Pin(PinArguments),
    /// Print a plan's source with all its modules as one text, for the lanes of a browser
    Bundle {
        /// Plan file, `-` for stdin
        file: PathBuf,
        /// Security profile; `strict` and `balanced` accept no source
        #[arg(long, value_enum, default_value = "trusted")]
        profile: ProfileArgument,
        /// As JSON, which it always is
        #[arg(long)]
        json: bool,
    },
    /// Let a model make a plan, and print it
    Plan(AskArguments),
    /// Let a model make a plan, render it as HTML on stdout and register it
    Run(AskArguments),
    /// Show a plan while its text arrives: patches as JSON lines, or the last view as HTML
    Stream(StreamArguments),
    /// Render a plan as HTML on stdout and register it; a refused plan prints nothing there
    RenderPlan(RenderArguments),
    /// Let something happen on the surface of a registered plan
    Event(EventArguments),
    /// Print the state of a plan as JSON
    State {
        /// Plan id
        plan: String,
        /// As JSON, which it always is
        #[arg(long)]
        json: bool,
    },
    /// List plans with their versions, and what was done with them
    History {
        /// Most runs to list
        #[arg(long, value_name = "N", default_value = "50")]
        runs: usize,
        /// Data as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Show an earlier version of a plan again; what was entered stays where it has a place
    Rollback {
        /// Plan id
        plan: String,
        /// Version
        version: i64,
        #[command(flatten)]
        options: KeptOptions,
    },
    /// Make a run again from what stood before it, and compare: exit 5 when it differs
    Replay {
        /// Number of the run, as `ui history` lists it
        run: u64,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Serve the playground of plans to this machine and open it in the browser
    Playground(PlaygroundArguments),
    /// List plans and runs no more; the log keeps their events
    ClearHistory {
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
}

/// `ui playground`.
#[derive(Debug, Args)]
pub(crate) struct PlaygroundArguments {
    /// Only say where it is
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Address to listen on; only one that nobody but this machine can reach. Port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
}

/// How what came of a plan is told.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ShowOptions {
    /// A whole page for a browser on stdout, not a fragment for a host's page
    #[arg(long, conflicts_with = "json")]
    pub(crate) page: bool,
    /// Result as JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell on stderr where the time went
    #[arg(long)]
    pub(crate) timings: bool,
}

/// What commands that run a plan have in common.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Security profile
    #[arg(long, value_enum, default_value = "strict")]
    pub(crate) profile: ProfileArgument,
    /// Let this file's hooks take part; may be given again, and the order counts
    #[arg(long = "plugin", value_name = "FILE")]
    pub(crate) plugins: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) show: ShowOptions,
}

/// What commands that go on with a kept plan have in common.
#[derive(Debug, Args)]
pub(crate) struct KeptOptions {
    /// Security profile (default: the one that the plan was last shown with)
    #[arg(long, value_enum)]
    pub(crate) profile: Option<ProfileArgument>,
    /// Let this file's hooks take part; may be given again, and the order counts
    #[arg(long = "plugin", value_name = "FILE")]
    pub(crate) plugins: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) show: ShowOptions,
}

/// `ui plan`, `ui run`.
#[derive(Debug, Args)]
pub(crate) struct AskArguments {
    /// What the interface is for, in your own words
    pub(crate) prompt: String,
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// Scenario file that plays the model, without a key and a network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["provider", "model", "base_url"])]
    pub(crate) scenario: Option<PathBuf>,
    /// Show the plan while it arrives: frames as JSON lines (with --json)
    #[arg(long, requires = "json")]
    pub(crate) preview: bool,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// `ui render-plan`.
#[derive(Debug, Args)]
pub(crate) struct RenderArguments {
    /// Plan file, `-` for stdin
    pub(crate) file: PathBuf,
    /// Only render: the plan is not registered, and nothing is recorded
    #[arg(long, conflicts_with = "keep_input")]
    pub(crate) no_register: bool,
    /// Keep what was entered into the version shown before, where the new one has the same paths
    #[arg(long)]
    pub(crate) keep_input: bool,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// `ui pin`.
#[derive(Debug, Args)]
pub(crate) struct PinArguments {
    /// Plan file, `-` for stdin
    pub(crate) file: PathBuf,
    /// Security profile; it lists the hosts
    #[arg(long, value_enum, default_value = "trusted")]
    pub(crate) profile: ProfileArgument,
    /// Ask this host when the first one fails, such as `https://esm.sh`; may be given again
    #[arg(long, value_name = "HOST")]
    pub(crate) fallback: Vec<String>,
    /// Take names that the plan does not place from the addresses of this import map, a JSON file
    #[arg(long, value_name = "FILE")]
    pub(crate) import_map: Option<PathBuf>,
    /// Lock what the hosts have now in the place of digests that the plan has
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Fetch nothing: everything has to be in the cache
    #[arg(long, conflicts_with = "refresh")]
    pub(crate) offline: bool,
    /// Write the plan to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Result as JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// `ui event`.
#[derive(Debug, Args)]
pub(crate) struct EventArguments {
    /// Plan id
    pub(crate) plan: String,
    /// Name of the event
    pub(crate) event: String,
    /// Data of the event, a JSON object
    pub(crate) payload: Option<String>,
    /// What was entered where it happened, a JSON object with value, checked, key, fields
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Refuse when the state is at another revision
    #[arg(long, value_name = "N")]
    pub(crate) expect_revision: Option<u64>,
    /// Refuse when another version is shown
    #[arg(long, value_name = "N")]
    pub(crate) expect_version: Option<i64>,
    #[command(flatten)]
    pub(crate) options: KeptOptions,
}

/// `ui stream`.
#[derive(Debug, Args)]
pub(crate) struct StreamArguments {
    /// A model's answer with a plan in it, `-` for stdin
    pub(crate) file: PathBuf,
    /// Security profile
    #[arg(long, value_enum, default_value = "strict")]
    pub(crate) profile: ProfileArgument,
    /// Take the text in pieces of at most this many bytes
    #[arg(long, value_name = "N", default_value = "256")]
    pub(crate) chunk_bytes: NonZeroU16,
    /// The text is one change of the plan a line, as JSON Patch writes them
    #[arg(long)]
    pub(crate) lines: bool,
    /// Frames and the outcome as JSON lines on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell on stderr where the time went
    #[arg(long)]
    pub(crate) timings: bool,
}

impl UiCommand {
    /// Whether failures are told as JSON too.
    pub(super) const fn json(&self) -> bool {
        match self {
            Self::Check { json, .. }
            | Self::Bundle { json, .. }
            | Self::ProbePlan { json, .. }
            | Self::Stream(StreamArguments { json, .. })
            | Self::Pin(PinArguments { json, .. })
            | Self::State { json, .. }
            | Self::History { json, .. }
            | Self::Replay { json, .. }
            | Self::ClearHistory { json } => *json,
            Self::Playground(_) => false,
            Self::Plan(AskArguments { options, .. })
            | Self::Run(AskArguments { options, .. })
            | Self::RenderPlan(RenderArguments { options, .. }) => options.show.json,
            Self::Event(EventArguments { options, .. }) | Self::Rollback { options, .. } => {
                options.show.json
            }
        }
    }
}
