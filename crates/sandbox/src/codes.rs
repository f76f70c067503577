//! Every error code of this crate.

use glasshouse_model::{Code, Exit};

/// Isolation cannot be established on this machine.
pub const ISOLATION_UNAVAILABLE: Code = Code::new(
    "isolation_unavailable",
    Exit::NoIsolation,
    false,
    "run `glasshouse doctor`; it names what is missing and the remedy",
);
/// A path leaves the workspace, by text or through a link.
pub const PATH_OUTSIDE: Code =
    Code::new("path_outside_workspace", Exit::Denied, false, "use a path inside the workspace");
/// A sandbox was described in a way that cannot be built.
pub const SPEC_INVALID: Code = Code::new(
    "sandbox_spec_invalid",
    Exit::Usage,
    false,
    "correct the id, mount or layer that the message names",
);
/// A list of system calls names something that is no call, or may not be in it.
pub const CALLS_INVALID: Code = Code::new(
    "sandbox_calls_invalid",
    Exit::Usage,
    false,
    "correct the name that the message shows",
);
/// A mount's source is missing or reached through a symbolic link.
pub const MOUNT_REFUSED: Code = Code::new(
    "sandbox_mount_refused",
    Exit::Denied,
    false,
    "name an existing path in which no component is a symbolic link",
);
/// The host process or a sandbox ended unexpectedly.
pub const SANDBOX_LOST: Code = Code::new(
    "sandbox_lost",
    Exit::Internal,
    true,
    "create a new sandbox; the workspace layers are kept",
);
/// A command cannot be started as asked.
pub const COMMAND_INVALID: Code = Code::new(
    "sandbox_command_invalid",
    Exit::Usage,
    false,
    "correct the argument, environment or directory that the message names",
);
/// A file operation inside a sandbox failed.
pub const FILE_FAILED: Code = Code::new(
    "sandbox_file_failed",
    Exit::Usage,
    false,
    "check that the parent exists and the name is a plain file name",
);
/// The operating system refused a resource.
pub const SYSTEM: Code = Code::new(
    "sandbox_system",
    Exit::Internal,
    true,
    "check limits on open files, processes, memory and disk, then retry",
);

/// A file or directory of a workspace, a base or a project could not be read or written.
pub const WORKSPACE_IO: Code = Code::new(
    "workspace_io",
    Exit::Storage,
    true,
    "check that the disk has space and that the path is readable and writable",
);
/// A tree has more files, bytes or levels than a workspace may have.
pub const WORKSPACE_TOO_LARGE: Code = Code::new(
    "workspace_too_large",
    Exit::Usage,
    false,
    "ignore generated files by .gitignore, or work in a smaller directory",
);
/// A file name that no event or policy can hold.
pub const PATH_UNREPRESENTABLE: Code = Code::new(
    "path_unrepresentable",
    Exit::Usage,
    false,
    "rename the file: names are UTF-8 without control characters",
);
/// The project kept changing while its base was taken.
pub const PROJECT_CHANGING: Code = Code::new(
    "project_changing",
    Exit::Conflict,
    true,
    "stop what writes into the project, then retry",
);
/// A stored base, seal or upper layer is not what was stored.
pub const WORKSPACE_DAMAGED: Code = Code::new(
    "workspace_damaged",
    Exit::Storage,
    false,
    "start a new session; the log still has every sealed file",
);
/// The frozen copy that a past state lies above is gone, and the project holds something else.
pub const BASE_GONE: Code = Code::new(
    "base_gone",
    Exit::NotFound,
    false,
    "check out what the project held then, or start a new session",
);
/// Git could not be run, or refused.
pub const GIT_FAILED: Code = Code::new(
    "git_failed",
    Exit::Internal,
    false,
    "run the named git command by hand and repair the repository",
);

/// A text that names no path at all.
pub const PATH_INVALID: Code = Code::new(
    "path_invalid",
    Exit::Usage,
    false,
    "use a relative path of ordinary characters, for example `src/main.rs`",
);
/// Nothing is at the path.
pub const PATH_NOT_FOUND: Code =
    Code::new("path_not_found", Exit::NotFound, false, "list the directory to see what is there");
/// A directory was needed and the path is something else.
pub const NOT_A_DIRECTORY: Code =
    Code::new("not_a_directory", Exit::Usage, false, "name a directory, or read it as a file");
/// A file was needed and the path is a directory.
pub const IS_A_DIRECTORY: Code =
    Code::new("is_a_directory", Exit::Usage, false, "name a file, or list the directory");
/// The path is a pipe, a socket or a device.
pub const SPECIAL_FILE: Code = Code::new(
    "special_file",
    Exit::Denied,
    false,
    "only regular files can be read or replaced; name one",
);
/// A file would be created or replaced through a symbolic link.
pub const LINK_REFUSED: Code = Code::new(
    "link_refused",
    Exit::Denied,
    false,
    "name the file that the link points at, or remove the link first",
);
/// Following the links of a path does not end.
pub const LINK_LOOP: Code =
    Code::new("link_loop", Exit::Denied, false, "name the file itself instead of the link");
/// The path changed again and again while it was being resolved.
pub const PATH_CHANGED: Code = Code::new(
    "path_changed",
    Exit::Conflict,
    true,
    "stop what keeps replacing the path, then retry",
);
/// The system refused to read something in the workspace.
pub const WORKSPACE_UNREADABLE: Code = Code::new(
    "workspace_unreadable",
    Exit::Storage,
    false,
    "check the permissions of the file and the health of the disk",
);

/// A host to reach, a secret for it, or a certificate that cannot be used.
pub const EGRESS_INVALID: Code = Code::new(
    "egress_invalid",
    Exit::Usage,
    false,
    "name hosts as `docs.example.org`, `docs.example.org:8443` or `*.cdn.example.org`",
);

/// All of them.
pub const ALL: &[Code] = &[
    ISOLATION_UNAVAILABLE,
    PATH_OUTSIDE,
    PATH_INVALID,
    PATH_NOT_FOUND,
    NOT_A_DIRECTORY,
    IS_A_DIRECTORY,
    SPECIAL_FILE,
    LINK_REFUSED,
    LINK_LOOP,
    PATH_CHANGED,
    WORKSPACE_UNREADABLE,
    SPEC_INVALID,
    CALLS_INVALID,
    MOUNT_REFUSED,
    SANDBOX_LOST,
    COMMAND_INVALID,
    FILE_FAILED,
    SYSTEM,
    WORKSPACE_IO,
    WORKSPACE_TOO_LARGE,
    PATH_UNREPRESENTABLE,
    PROJECT_CHANGING,
    WORKSPACE_DAMAGED,
    BASE_GONE,
    GIT_FAILED,
    EGRESS_INVALID,
];
