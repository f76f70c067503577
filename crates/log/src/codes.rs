//! Every error code of this crate.

use glasshouse_model::{Code, Exit};

/// An append breaks a rule that no retry can change: a limit, a name, a reserved space.
pub const APPEND_INVALID: Code = Code::new(
    "append_invalid",
    Exit::Usage,
    false,
    "correct the request; the reason names the rule",
);
/// A blob is stored but its bytes do not have its digest.
pub const BLOB_CORRUPT: Code = Code::new(
    "blob_corrupt",
    Exit::Storage,
    false,
    "store the content again or restore `blobs/` from a backup",
);
/// No blob has this digest.
pub const BLOB_NOT_FOUND: Code =
    Code::new("blob_not_found", Exit::NotFound, false, "check the digest");
/// A blob is larger than one blob may be.
pub const BLOB_TOO_LARGE: Code =
    Code::new("blob_too_large", Exit::Usage, false, "split the content over several blobs");
/// An event's body is larger than one body may be.
pub const BODY_TOO_LARGE: Code = Code::new(
    "body_too_large",
    Exit::Usage,
    false,
    "store the content as a blob and name its digest",
);
/// A branch with this id or this name exists.
pub const BRANCH_EXISTS: Code =
    Code::new("branch_exists", Exit::Conflict, false, "choose another id or name");
/// No branch has this id, or not in this session.
pub const BRANCH_NOT_FOUND: Code =
    Code::new("branch_not_found", Exit::NotFound, false, "list the session's branches");
/// The branch was merged or closed.
pub const BRANCH_READ_ONLY: Code =
    Code::new("branch_read_only", Exit::Conflict, false, "fork the branch and write to the fork");
/// A cell has another version than the writer expected.
pub const CELL_CONFLICT: Code =
    Code::new("cell_conflict", Exit::Conflict, false, "read the cell again and decide anew");
/// The branch has no event with this sequence.
pub const EVENT_NOT_FOUND: Code = Code::new(
    "event_not_found",
    Exit::NotFound,
    false,
    "`glasshouse audit log` lists events with their branches and sequences",
);
/// An exported session does not prove itself.
pub const EXPORT_INVALID: Code = Code::new(
    "export_invalid",
    Exit::Mismatch,
    false,
    "export the session again; the line that the context names was changed or cut",
);
/// A fork point outside the parent's events.
pub const FORK_OUT_OF_RANGE: Code = Code::new(
    "fork_out_of_range",
    Exit::Usage,
    false,
    "fork at a sequence from 1 to the head that the context names",
);
/// A chain of forks of forks is longer than reads walk.
pub const FORK_TOO_DEEP: Code =
    Code::new("fork_too_deep", Exit::Usage, false, "fork from an ancestor instead");
/// The branch has moved since the writer looked.
pub const HEAD_CONFLICT: Code =
    Code::new("head_conflict", Exit::Conflict, false, "read from the head that the context names");
/// No signed head covers the event, and none can be signed.
pub const HEAD_NOT_SIGNED: Code = Code::new(
    "head_not_signed",
    Exit::Conflict,
    false,
    "run `glasshouse audit checkpoint` where the log can be written, then try again",
);
/// The key that signs heads is missing or is no key.
pub const HEAD_KEY_INVALID: Code = Code::new(
    "head_key_invalid",
    Exit::Storage,
    false,
    "restore `keys/` from a backup; do not make a new key for an old log",
);
/// An append that may not wait for others: its events decide, permit, act or end something.
pub const KIND_NEEDS_COMMIT: Code = Code::new(
    "kind_needs_commit",
    Exit::Usage,
    false,
    "append it the usual way; only observations may wait for others",
);
/// A late writer: another owner has the session.
pub const LEASE_LOST: Code =
    Code::new("lease_lost", Exit::Conflict, false, "stop; the session has a new owner");
/// Another process kept the log locked for too long.
pub const LOG_BUSY: Code = Code::new("log_busy", Exit::Conflict, true, "retry in a moment");
/// Stored events do not prove themselves.
pub const LOG_CORRUPT: Code = Code::new(
    "log_corrupt",
    Exit::Storage,
    false,
    "run `glasshouse audit verify`; fork before the bad event to go on working",
);
/// A commit or a sync failed; nothing more is written until the log is opened again.
pub const LOG_FAILED: Code = Code::new(
    "log_failed",
    Exit::Storage,
    false,
    "check the disk, then start again; every acknowledged event is kept",
);
/// The log was written by a version that this one does not know.
pub const LOG_FORMAT_UNKNOWN: Code = Code::new(
    "log_format_unknown",
    Exit::Storage,
    false,
    "use the version of Glasshouse that wrote the log, or a later one",
);
/// The log is opened for reading only.
pub const LOG_READ_ONLY: Code =
    Code::new("log_read_only", Exit::Storage, false, "open the log of a home that can be written");
/// The log's files were deleted or replaced under the process that writes them.
pub const LOG_REPLACED: Code = Code::new(
    "log_replaced",
    Exit::Storage,
    false,
    "stop, put the files of the log back, and run `glasshouse audit verify`",
);
/// A backup that lacks events which the log's signed heads vouch for.
pub const RESTORE_LOSES_EVENTS: Code = Code::new(
    "restore_loses_events",
    Exit::Conflict,
    false,
    "restore a newer backup, or pass `--accept-loss` to give these events up for good",
);
/// A backup that does not prove itself.
pub const BACKUP_INVALID: Code = Code::new(
    "backup_invalid",
    Exit::Mismatch,
    false,
    "restore another backup; `glasshouse audit restore --list` names them",
);
/// Something says that there was a log, but it is gone.
pub const MISSING_LOG: Code = Code::new(
    "missing_log",
    Exit::Storage,
    false,
    "restore `log.db` from a backup; to give up the old log and start anew, move the whole data \
     directory away",
);
/// A home that never had a log.
pub const NOTHING_RECORDED: Code = Code::new(
    "nothing_recorded",
    Exit::NotFound,
    false,
    "check GLASSHOUSE_HOME; the first session makes the log",
);
/// The session's events left the log.
pub const SESSION_ARCHIVED: Code = Code::new(
    "session_archived",
    Exit::Conflict,
    false,
    "read the archive that the reason names; `glasshouse session check-export` proves it",
);
/// An import of a session whose id is taken by another one.
pub const SESSION_EXISTS: Code = Code::new(
    "session_exists",
    Exit::Conflict,
    false,
    "compare both with `glasshouse session export`; import it into a data directory of its own",
);
/// An export with more events than one import takes.
pub const IMPORT_TOO_LARGE: Code = Code::new(
    "import_too_large",
    Exit::Usage,
    false,
    "keep the export; `glasshouse session check-export` proves files of any size",
);
/// Another process owns the session.
pub const SESSION_OWNED: Code = Code::new(
    "session_owned",
    Exit::Conflict,
    false,
    "use the process that owns the session, or wait until it ends",
);
/// A file of the log could not be read or written.
pub const STORAGE_FAILED: Code = Code::new(
    "storage_failed",
    Exit::Storage,
    false,
    "check that the data directory exists, is yours and its disk works",
);
/// No space is left for the log.
pub const STORAGE_FULL: Code =
    Code::new("storage_full", Exit::Storage, true, "free disk space, then retry");
/// The home holds the log of another tenant.
pub const TENANT_MISMATCH: Code =
    Code::new("tenant_mismatch", Exit::Usage, false, "give each tenant a home of its own");

/// All of them.
pub const ALL: &[Code] = &[
    APPEND_INVALID,
    BLOB_CORRUPT,
    BLOB_NOT_FOUND,
    BLOB_TOO_LARGE,
    BODY_TOO_LARGE,
    BRANCH_EXISTS,
    BRANCH_NOT_FOUND,
    BRANCH_READ_ONLY,
    CELL_CONFLICT,
    EVENT_NOT_FOUND,
    EXPORT_INVALID,
    FORK_OUT_OF_RANGE,
    FORK_TOO_DEEP,
    HEAD_CONFLICT,
    HEAD_KEY_INVALID,
    HEAD_NOT_SIGNED,
    KIND_NEEDS_COMMIT,
    LEASE_LOST,
    LOG_BUSY,
    LOG_CORRUPT,
    LOG_FAILED,
    LOG_FORMAT_UNKNOWN,
    LOG_READ_ONLY,
    LOG_REPLACED,
    RESTORE_LOSES_EVENTS,
    BACKUP_INVALID,
    MISSING_LOG,
    NOTHING_RECORDED,
    SESSION_ARCHIVED,
    SESSION_EXISTS,
    IMPORT_TOO_LARGE,
    SESSION_OWNED,
    STORAGE_FAILED,
    STORAGE_FULL,
    TENANT_MISMATCH,
];
