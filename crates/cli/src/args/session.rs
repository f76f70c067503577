//! The words of `glasshouse session`.

use std::path::PathBuf;

use clap::Subcommand;
use glasshouse_model::{Digest, SessionId};

/// `session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    List {
        /// Also archived sessions, and what was done outside sessions: `sandbox run`, `policy update`, plans
        #[arg(long)]
        all: bool,
        /// Data as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Show what happened in a session
    Show {
        /// Session id
        id: SessionId,
        /// Branch, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
        /// Show the session's branches instead, each below the one that it left
        #[arg(long, conflicts_with = "branch")]
        branches: bool,
        /// Only the events that the branch stores itself, numbered from 1
        #[arg(long, conflicts_with = "branches")]
        own: bool,
        /// Events, or branches, as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Set a text that goes with every request to the model, word for word, however long the session
    Pin {
        /// Session id
        id: SessionId,
        /// Name of the text; a text of the same name is replaced
        name: String,
        /// The text
        #[arg(required_unless_present = "remove", conflicts_with = "remove")]
        text: Option<String>,
        /// Take the text away
        #[arg(long)]
        remove: bool,
        /// Branch, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
        /// Errors as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Take texts out of the log for good: bodies of events, and contents; every proof stays
    Erase {
        /// Session id
        id: SessionId,
        /// Event whose body goes, or a range of them, for example 7 or 7-12; may be given more than once
        #[arg(long = "event", value_name = "SEQ", value_parser = events_range)]
        events: Vec<(u64, u64)>,
        /// Digest of a content that goes, as events name it; may be given more than once
        #[arg(long = "blob", value_name = "SHA256")]
        blobs: Vec<Digest>,
        /// Why, for whoever reads the log later; it stays
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Branch whose numbers these are, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
        /// Erase; without it, only what would go is told
        #[arg(long)]
        yes: bool,
        /// Data as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Close a session for good: it takes no turn any more, and can be read and proved as before
    Close {
        /// Session id
        id: SessionId,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Delete what a session said: bodies of events, and contents that only it names; every proof stays
    Delete {
        /// Session id
        id: SessionId,
        /// Keep the contents; needed while any session runs
        #[arg(long)]
        keep_blobs: bool,
        /// Delete; without it, only how much would go is told
        #[arg(long)]
        yes: bool,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Tell what the models cost: by answer, turn and session, or of all sessions
    Costs {
        /// Session id (default: all sessions)
        id: Option<SessionId>,
        /// Charges and totals as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Make a branch of its own from any event on; the branch that it leaves goes on untouched
    Fork {
        /// Session id
        id: SessionId,
        /// Branch to leave, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
        /// Last event that both share (default: the newest)
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Name of the fork, unique in the session (default: fork-N)
        #[arg(long)]
        name: Option<String>,
        /// Why, for the log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Bring what a branch did to another; the branch that was merged takes no more events
    Merge {
        /// Session id
        id: SessionId,
        /// Branch that ends, by id or name
        source: String,
        /// Branch that goes on, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        into: Option<String>,
        /// Only tell what would change, and what does not go together
        #[arg(long)]
        dry_run: bool,
        /// Take one branch's version of what does not go together: `source` or `target`, for all paths or
        /// for those named after it
        #[arg(long, value_name = "SIDE [PATH", num_args = 1..)]
        take: Vec<String>,
        /// Never ask a person
        #[arg(long)]
        no_approver: bool,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Compare two branches, or two events of one: events and files
    Diff {
        /// Session id
        id: SessionId,
        /// Branch to compare, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
        /// Branch to compare it with, by id or name (default: the same)
        #[arg(long, value_name = "BRANCH")]
        with: Option<String>,
        /// Event of `--branch` whose files count (default: the newest)
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// Event of `--with` whose files count (default: the newest)
        #[arg(long, value_name = "SEQ")]
        to: Option<u64>,
        /// Only names of files, no text
        #[arg(long)]
        names: bool,
        /// Data as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// List the files of a session as they were after any event, print one, or write them all
    Files {
        /// Session id
        id: SessionId,
        /// Print this file (default: list all)
        path: Option<String>,
        /// Branch, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
        /// The event (default: the newest)
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Write all files into this directory, which must not exist
        #[arg(long, value_name = "DIR", conflicts_with = "path")]
        out: Option<PathBuf>,
        /// The list as JSON lines on stdout
        #[arg(long, conflicts_with = "path")]
        json: bool,
    },
    /// Write a session as JSON lines that prove themselves
    Export {
        /// Session id
        id: SessionId,
        /// File to write, which must not exist (default: stdout)
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Also the contents that events name: files, outputs, answers. Without them the events still prove
        /// themselves
        #[arg(long, value_name = "YES", num_args = 0..=1, default_value_t = true,
              default_missing_value = "true", action = clap::ArgAction::Set)]
        with_blobs: bool,
        /// Write its documents as files into a new directory instead: manifest, thread, plan, checkpoints, reports
        /// of calls, observations
        #[arg(long, requires = "out")]
        layout: bool,
        /// Branch of the documents, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH", requires = "layout")]
        branch: Option<String>,
        /// What was written, as JSON on stdout; needs `--out`
        #[arg(long, requires = "out")]
        json: bool,
    },
    /// Find words in what was said and done, in every session
    Search {
        /// Words that stand in one text, in any order and case
        words: Vec<String>,
        /// Only in this session
        #[arg(long, value_name = "ID")]
        session: Option<SessionId>,
        /// Most finds
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Take in a session that another log exported, to read it and to fork it; nothing in it gives a right
    Import {
        /// The file that `session export` wrote
        file: PathBuf,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Prove a file that `session export` wrote
    CheckExport {
        /// The file; `-` is standard input
        file: PathBuf,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Make again what the kernel made of a session's inputs, offline: exit 5 at the first difference
    Replay {
        /// Session id
        id: SessionId,
        /// Branch, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
        /// Sequence of the last event to replay
        #[arg(long, value_name = "SEQ")]
        to: Option<u64>,
        /// Result as JSON on stdout
        #[arg(long)]
        json: bool,
    },
    /// Carry on a session that was interrupted or cancelled, or a fork
    Resume {
        /// Session id
        id: SessionId,
        /// A further message for the model
        message: Option<String>,
        /// Branch, by id or name (default: the main branch)
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
        /// Never ask a person
        #[arg(long)]
        no_approver: bool,
        /// Wait so long for each answer of `glasshouse review`
        #[arg(long, value_name = "TIME", value_parser = super::time_limit_ms, conflicts_with = "no_approver")]
        wait_for_review: Option<u64>,
        /// Data as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
}

impl SessionCommand {
    /// Whether failures are told as JSON too.
    pub(super) const fn json(&self) -> bool {
        match self {
            Self::List { json, .. }
            | Self::Show { json, .. }
            | Self::Costs { json, .. }
            | Self::Pin { json, .. }
            | Self::Erase { json, .. }
            | Self::Close { json, .. }
            | Self::Delete { json, .. }
            | Self::Fork { json, .. }
            | Self::Merge { json, .. }
            | Self::Diff { json, .. }
            | Self::Files { json, .. }
            | Self::Export { json, .. }
            | Self::Import { json, .. }
            | Self::CheckExport { json, .. }
            | Self::Search { json, .. }
            | Self::Replay { json, .. }
            | Self::Resume { json, .. } => *json,
        }
    }
}

impl SessionCommand {
    /// The session whose events it needs.
    pub(crate) const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Show { id, .. }
            | Self::Pin { id, .. }
            | Self::Erase { id, .. }
            | Self::Close { id, .. }
            | Self::Merge { id, .. }
            | Self::Fork { id, .. }
            | Self::Diff { id, .. }
            | Self::Files { id, .. }
            | Self::Export { id, .. }
            | Self::Replay { id, .. }
            | Self::Resume { id, .. } => Some(id),
            Self::Costs { id, .. } => id.as_ref(),
            Self::Search { session, .. } => session.as_ref(),
            // What cannot be read any more can still be deleted.
            Self::List { .. }
            | Self::Delete { .. }
            | Self::CheckExport { .. }
            | Self::Import { .. } => None,
        }
    }
}

/// One sequence, or the first and last of several.
fn events_range(text: &str) -> Result<(u64, u64), String> {
    let (from, upto) = text.split_once('-').unwrap_or((text, text));
    match (from.parse(), upto.parse()) {
        (Ok(from), Ok(upto)) if from <= upto => Ok((from, upto)),
        _ => Err("give a sequence, for example 7, or a range, for example 7-12".to_owned()),
    }
}
