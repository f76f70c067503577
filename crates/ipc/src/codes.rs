//! Every error code of this crate.

use glasshouse_model::{Code, Exit};

/// A message is larger than one frame may be.
pub const FRAME_TOO_LARGE: Code = Code::new(
    "ipc_frame_too_large",
    Exit::Usage,
    false,
    "send less in one message; large bodies travel as a descriptor",
);
/// A frame could not be understood.
pub const FRAME_MALFORMED: Code = Code::new(
    "ipc_frame_malformed",
    Exit::Internal,
    false,
    "both ends must be the same version; restart the older one",
);
/// The other end is not who it must be.
pub const PEER_REFUSED: Code = Code::new(
    "ipc_peer_refused",
    Exit::Denied,
    false,
    "connect as the user that owns the other process",
);
/// The other end speaks another version of the protocol.
pub const VERSION_MISMATCH: Code = Code::new(
    "ipc_version_mismatch",
    Exit::Conflict,
    false,
    "restart so that both processes run the same version",
);
/// The other end is gone.
pub const PEER_GONE: Code =
    Code::new("ipc_peer_gone", Exit::Internal, true, "the other process ended; start it again");
/// The other end did not answer in time.
pub const TIMED_OUT: Code =
    Code::new("ipc_timed_out", Exit::Internal, true, "the other process is stuck or overloaded");
/// The operating system refused a socket operation.
pub const SOCKET_FAILED: Code = Code::new(
    "ipc_socket_failed",
    Exit::Internal,
    true,
    "check limits on open files and memory, then retry",
);

/// All of them.
pub const ALL: &[Code] = &[
    FRAME_TOO_LARGE,
    FRAME_MALFORMED,
    PEER_REFUSED,
    VERSION_MISMATCH,
    PEER_GONE,
    TIMED_OUT,
    SOCKET_FAILED,
];
