//! Every error code of this crate.

use glasshouse_model::{Code, Exit};

/// The source cannot be read as the language it claims.
pub const SOURCE_INVALID: Code =
    Code::new("script_source_invalid", Exit::Usage, false, "correct the source at the place named");
/// The source reaches for what code of a plan may not have.
pub const SOURCE_DENIED: Code = Code::new(
    "script_source_denied",
    Exit::Denied,
    false,
    "use state, props and the modules that are there; say actions as transitions of the plan",
);
/// The source uses a name that is neither its own nor the engine's.
pub const NAME_UNKNOWN: Code =
    Code::new("script_name_unknown", Exit::Denied, false, "import or define the name");
/// A module that the source imports cannot be had here.
pub const MODULE_UNAVAILABLE: Code = Code::new(
    "script_module_unavailable",
    Exit::Denied,
    false,
    "import one of the modules that the program carries, or leave the import out",
);

/// All codes, for the test that each one has a page.
pub const ALL: &[Code] = &[SOURCE_INVALID, SOURCE_DENIED, NAME_UNKNOWN, MODULE_UNAVAILABLE];
