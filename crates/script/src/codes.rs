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

/// The code threw, or never came to an end.
pub const FAILED: Code =
    Code::new("script_failed", Exit::Denied, false, "correct the code where the reason says");
/// The source does not export what is asked for.
pub const EXPORT_MISSING: Code = Code::new(
    "script_export_missing",
    Exit::Denied,
    false,
    "export it, or name another export in `exportName`",
);
/// What the code made cannot be shown.
pub const OUTPUT_INVALID: Code = Code::new(
    "script_output_invalid",
    Exit::Denied,
    false,
    "export a component, or a function that answers nodes",
);
/// The code reached a limit and was stopped.
pub const LIMIT: Code = Code::new(
    "script_limit",
    Exit::Denied,
    false,
    "do less in one run, or ask for more within what the profile allows",
);

/// All codes, for the test that each one has a page.
pub const ALL: &[Code] = &[
    SOURCE_INVALID,
    SOURCE_DENIED,
    NAME_UNKNOWN,
    MODULE_UNAVAILABLE,
    FAILED,
    EXPORT_MISSING,
    OUTPUT_INVALID,
    LIMIT,
];
