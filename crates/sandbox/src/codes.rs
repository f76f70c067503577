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

/// All of them.
pub const ALL: &[Code] = &[ISOLATION_UNAVAILABLE, PATH_OUTSIDE];
