//! The command line.

mod access;
mod policy;
mod review;
mod serve;
mod session;
mod ui;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use glasshouse_model::{BranchId, Digest, Kind, Mode, Seq, SessionId};

pub(crate) use self::access::{
    KeysCommand, NewKeyArguments, OfTenant, TenantArguments, TenantChange, TenantPart,
    TenantsCommand,
};
pub(crate) use self::policy::{CallArguments, ExplainArguments, PolicyCommand};
pub(crate) use self::review::{ApproveArguments, GrantsCommand, ReviewCommand, ScopeArgument};
pub(crate) use self::serve::ServeArguments;
pub(crate) use self::session::SessionCommand;
pub(crate) use self::ui::{
    AskArguments, EventArguments, KeptOptions, PinArguments, PlaygroundArguments, ProfileArgument,
    RunOptions, ShowOptions, StreamArguments, UiCommand,
};

/// Work on a task with an AI agent: everything it does is contained, decided by one policy and
/// recorded in one verifiable log.
#[derive(Debug, Parser)]
#[command(
    name = "glasshouse",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) task: TaskArguments,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Working on a task.
#[derive(Debug, Args)]
pub(crate) struct TaskArguments {
    /// What to do, in your own words, in the repository of the current directory
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) options: SessionOptions,
}

/// The modes, for completions.
fn modes() -> impl TypedValueParser<Value = Mode> {
    let words = PossibleValuesParser::new(Mode::ALL.iter().map(|mode| mode.as_str()));
    words.try_map(|word| word.parse::<Mode>())
}

/// How a session works.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SessionOptions {
    /// How strictly to work: strict (tests first), explore, or debug (once a person agreed)
    #[arg(long, value_name = "MODE", value_parser = modes())]
    pub(crate) mode: Option<Mode>,
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// Scenario file that plays the model, without a key and a network (the provider `scripted`)
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// Project directory (default: the current directory)
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Never ask a person: what needs an approval is denied (exit 4, or 0 where the work is committed without it)
    #[arg(long)]
    pub(crate) no_approver: bool,
    /// Wait so long for each answer of `glasshouse review`, instead of asking here
    #[arg(long, value_name = "TIME", value_parser = time_limit_ms, conflicts_with = "no_approver")]
    pub(crate) wait_for_review: Option<u64>,
    /// Data as JSON lines on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Everything but working on a task.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play the whole story on a bundled repository; needs no key and no network
    Demo(DemoArguments),
    /// Serve sessions, approvals and live events over HTTP
    Serve(ServeArguments),
    /// Make API keys of the server, list, rotate and revoke them
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Make tenants of the server, list, change and disable them
    #[command(subcommand)]
    Tenants(TenantsCommand),
    /// Run a command in a sandbox
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Show and carry on sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Show and answer what waits for a person, also in other processes
    #[command(subcommand)]
    Review(ReviewCommand),
    /// Try a policy
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List and take back what was granted
    #[command(subcommand)]
    Grants(GrantsCommand),
    /// List model providers, and try one for real
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// Read and verify the log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Check and render generated interfaces
    #[command(subcommand)]
    Ui(UiCommand),
    /// Attack the own sandbox and tell what isolation this machine gives
    Doctor {
        /// Data as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Read and write configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
}

/// Which model is asked.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ModelOptions {
    /// Model provider: openai, openai-responses, anthropic, google, ollama, openai-compatible or scripted
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Model name as the provider knows it
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Address of the provider, for example http://127.0.0.1:1234/v1 (default: its own)
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
}

/// `provider`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// List the providers, their servers, and whether there is a key for each
    List {
        /// Providers as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Try the configured model with a text, a tool call, a form and a cancelled answer: exit 6 when it cannot be used
    Test {
        #[command(flatten)]
        options: ModelOptions,
        /// Results as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
}

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Where the sample repository is put (default: a new directory below the data directory)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Data as JSON lines on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which template of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateArgument {
    /// No network, 1 GiB, 100 processes, 300 s
    CodeExecutor,
    /// The same with the hosts of --allow-host
    IntegrationTest,
    /// No network, 128 MiB, 5 processes
    PolicySandbox,
    /// No network, 128 MiB; what code of plans runs in
    Script,
}

/// `sandbox`.
#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Run a command in a new sandbox; exits with the command's status
    Run(Box<SandboxRun>),
    /// Remove what dead processes and ended sessions left behind
    Gc {
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
        /// Data as JSON on stdout
        #[arg(long)]
        json: bool,
    },
}

/// `sandbox run`.
#[derive(Debug, Args)]
pub(crate) struct SandboxRun {
    /// Template of limits
    #[arg(long, value_enum, default_value = "code-executor")]
    pub(crate) template: TemplateArgument,
    /// How the sandbox is made; only `native` is built
    #[arg(long, default_value = "native", hide = true)]
    pub(crate) backend: String,
    /// Directory seen as the workspace; the command gets a copy, and only --merge changes it (default: an empty one)
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Unpacked image whose programs the command uses, instead of this machine's
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// File of system calls: a profile, and names to allow or deny on top of it
    #[arg(long, value_name = "FILE")]
    pub(crate) seccomp: Option<PathBuf>,
    /// Host that the command may reach through the egress proxy, `*.` before it for all below it;
    /// without a port by 80 and 443. Can be given several times
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow_host: Vec<String>,
    /// Write the command's changes into the workspace directory afterwards, if it ended with status
    /// 0; what a rule wants looked at is shown and asked about first
    #[arg(long, requires = "workspace")]
    pub(crate) merge: bool,
    /// Agree in advance to what --merge would ask about
    #[arg(long, requires = "merge")]
    pub(crate) yes: bool,
    /// Pass standard input to the command as it comes
    #[arg(short = 'i', long)]
    pub(crate) stdin: bool,
    /// Give the command a terminal of its own, connected to this one
    #[arg(short = 't', long, conflicts_with_all = ["json", "stdin"])]
    pub(crate) tty: bool,
    /// Variable of the command's environment; without a value this one's. Can be given several times
    #[arg(short = 'e', long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Directory of the workspace to run in
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Longest run, for example 30s
    #[arg(long, value_name = "TIME", value_parser = time_limit_ms)]
    pub(crate) timeout: Option<u64>,
    /// Result as JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Command and arguments
    #[arg(last = true, required = true)]
    pub(crate) argv: Vec<String>,
}

/// `audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Make a copy of the log; the newest five are kept
    Backup {
        /// Where it is, as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Set a backup in the place of the log, once it is proved
    Restore {
        /// The backup (default: the newest)
        file: Option<PathBuf>,
        /// List the backups that are kept instead
        #[arg(long, conflicts_with_all = ["file", "accept_loss"])]
        list: bool,
        /// Give up events that the backup lacks; an event says so
        #[arg(long)]
        accept_loss: bool,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Move sessions that ended long ago to archives, and make room where the log is full
    Rotate {
        /// Only name what would be archived
        #[arg(long)]
        dry_run: bool,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Compare what is kept to spare time with the events, and repair it; exit 5 when it differed
    CheckState {
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of events: what the log's consumers can rely on
    Schema,
    /// Print events, oldest first
    Log {
        /// Only this session
        #[arg(long, value_name = "ID")]
        session: Option<SessionId>,
        /// Only this kind, for example policy.decided
        #[arg(long, value_name = "KIND", value_parser = known_kind)]
        kind: Option<Kind>,
        /// Events as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Print the bytes that are stored under a digest: output, patches, model answers
    Blob {
        /// Digest as events name it
        #[arg(value_name = "SHA256")]
        digest: Digest,
    },
    /// Check every hash and the signed head: exit 5 on a mismatch
    Verify {
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Sign the head of the log and print it; keep it elsewhere to check the log against it later
    Checkpoint {
        /// The head as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Prove to others that an event is in the log
    Prove {
        /// Branch id
        branch: BranchId,
        /// Sequence of the event
        seq: Seq,
        /// The proof with the event as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Check that the log extends a signed head, and a later one extends that: exit 5 if not
    Check {
        /// File with the earlier head, as `audit checkpoint` printed it
        old: PathBuf,
        /// File with the later head (default: the newest that was signed)
        new: Option<PathBuf>,
        /// The proof as JSON on stdout
        #[arg(long)]
        json: bool,
    },
}

/// `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write a commented file for this project
    Init,
    /// Print one value, or all that apply here
    Get {
        /// Key, for example test.command
        key: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Set one value in the project's file
    Set {
        /// Key, for example model
        key: String,
        /// Value, as YAML
        value: String,
    },
}

fn known_kind(text: &str) -> Result<Kind, String> {
    let known = Kind::KNOWN.iter().find(|kind| kind.as_str() == text);
    known.cloned().ok_or_else(|| {
        let words = Kind::KNOWN.iter().map(Kind::as_str);
        match glasshouse_model::suggest::nearest(text, words) {
            Some(word) => format!("there is no such kind of event; did you mean `{word}`?"),
            None => "there is no such kind of event".to_owned(),
        }
    })
}

/// A thousand years: what is longer would not be a time in microseconds.
const MAX_TIME_MS: u64 = 1_000 * 366 * 24 * 3_600 * 1_000;

/// A time that a command may take; never none at all.
pub(super) fn time_limit_ms(text: &str) -> Result<u64, String> {
    match glasshouse_model::units::parse_time_ms(text) {
        Ok(0) => Err("it is zero".to_owned()),
        Ok(time_ms) if time_ms > MAX_TIME_MS => Err("it is more than a thousand years".to_owned()),
        Ok(time_ms) => Ok(time_ms),
        Err(error) => Err(error.to_string()),
    }
}

impl Arguments {
    /// Whether failures are told as JSON.
    pub(crate) fn json(&self) -> bool {
        match &self.command {
            None => self.task.options.json,
            Some(Command::Demo(demo)) => demo.json,
            Some(Command::Sandbox(SandboxCommand::Run(run))) => run.json,
            Some(Command::Sandbox(SandboxCommand::Gc { json, .. }))
            | Some(Command::Provider(
                ProviderCommand::List { json } | ProviderCommand::Test { json, .. },
            ))
            | Some(Command::Audit(
                AuditCommand::Log { json, .. }
                | AuditCommand::Backup { json }
                | AuditCommand::CheckState { json }
                | AuditCommand::Restore { json, .. }
                | AuditCommand::Verify { json }
                | AuditCommand::Checkpoint { json }
                | AuditCommand::Prove { json, .. }
                | AuditCommand::Check { json, .. },
            ))
            | Some(Command::Config(ConfigCommand::Get { json, .. }))
            | Some(Command::Doctor { json }) => *json,
            Some(Command::Policy(command)) => command.json(),
            Some(Command::Review(command)) => command.json(),
            Some(Command::Grants(command)) => command.json(),
            Some(Command::Session(command)) => command.json(),
            Some(Command::Ui(command)) => command.json(),
            Some(_) => false,
        }
    }
}
