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

/// The plan has no digest of a module, so nobody knows which bytes are meant.
pub const MODULE_UNLOCKED: Code = Code::new(
    "script_module_unlocked",
    Exit::Denied,
    false,
    "`glasshouse ui pin PLAN` writes the digests of all modules into the plan",
);
/// A module has other bytes than the plan locks.
pub const MODULE_CHANGED: Code = Code::new(
    "script_module_changed",
    Exit::Mismatch,
    false,
    "find out why the bytes changed; `glasshouse ui pin --refresh` locks the new ones",
);
/// Modules bring two copies of what may be there once.
pub const MODULE_DUPLICATE: Code = Code::new(
    "script_module_duplicate",
    Exit::Denied,
    false,
    "give both imports one place in `moduleManifest`, or leave one of the modules out",
);
/// The modules are too many, too deep, too large or too slow.
pub const MODULE_LIMIT: Code = Code::new(
    "script_module_limit",
    Exit::Denied,
    false,
    "import less, or ask for more in `maxImports` within what the profile allows",
);

/// The code threw, or never came to an end.
pub const FAILED: Code =
    Code::new("script_failed", Exit::Denied, false, "correct the code by what the reason says");
/// The source does not export what is asked for.
pub const EXPORT_MISSING: Code = Code::new(
    "script_export_missing",
    Exit::Denied,
    false,
    "export it, or name another export in `exportName`",
);
/// A handler is a function, which nobody calls in the lane of a server. It is left out. A plan that holds such a node says the same.
pub const HANDLER_LOST: Code = Code::new(
    glasshouse_plan::codes::HANDLER_LOST.name,
    Exit::Denied,
    false,
    glasshouse_plan::codes::HANDLER_LOST.fix,
);
/// A method is given a language, and no lane has the tables of languages. What it makes is the same for each.
pub const LOCALE_IGNORED: Code = Code::new(
    "script_locale_ignored",
    Exit::Denied,
    false,
    "format it by hand, as with `toFixed` and `padStart`, or put the formatted text into the state",
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
    MODULE_UNLOCKED,
    MODULE_CHANGED,
    MODULE_DUPLICATE,
    MODULE_LIMIT,
    FAILED,
    EXPORT_MISSING,
    LOCALE_IGNORED,
    OUTPUT_INVALID,
    LIMIT,
];
