//! Why a path cannot be merged, for programs and for people.

use std::fmt;

use glasshouse_model::CanonicalPath;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::codes;

/// Why a path cannot be merged.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// Both sides edited the same lines.
    Content,
    /// Both sides made the path, differently.
    AddAdd,
    /// The user edited what the change set deletes.
    ModifyDelete,
    /// The user deleted what the change set edits.
    DeleteModify,
    /// Both sides renamed the file, to different names.
    RenameRename,
    /// The user deleted what the change set renames.
    RenameDelete,
    /// The same content, executable on one side only.
    Mode,
    /// A symbolic link is, or is on the way to, the path.
    Symlink,
    /// The path is in a repository of its own.
    Submodule,
    /// Both sides edited a file that has no lines.
    Binary,
    /// A directory is where a file must go, or the reverse.
    DirectoryFile,
    /// A pipe, socket or device.
    Special,
    /// The path is in `.git`, or in a git directory of another name.
    GitInternal,
    /// The user changed it while the merge was being made.
    ChangedMeanwhile,
    /// The last commit does not hold what the change set builds on: the user has not committed it, or
    /// another commit changed it.
    NotInHead,
    /// The user has staged something else there.
    NotInIndex,
}

/// A path that cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// The path.
    pub path: CanonicalPath,
    /// Why.
    pub kind: ConflictKind,
    /// More for a person: lines, other names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = serde_json::to_value(self.kind).unwrap_or_default();
        write!(f, "{}: {}", self.path, kind.as_str().unwrap_or("conflict"))?;
        self.detail.as_ref().map_or(Ok(()), |detail| write!(f, " ({detail})"))
    }
}

/// The error that conflicts end a command with: `merge_conflict`, exit 8.
#[must_use]
pub fn conflict_error(conflicts: &[Conflict]) -> Error {
    let why: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
    Error::new(codes::MERGE_CONFLICT, format!("{} path(s) cannot be merged", conflicts.len()))
        .why(why.join("; "))
        .with("conflicts", serde_json::to_value(conflicts).unwrap_or_default())
}
