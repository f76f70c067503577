//! The crate's error.

glasshouse_model::define_error!(
    /// Why a session could not be started, carried on, merged or read.
    pub Error
);

/// Result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

glasshouse_model::convert_errors!(
    Error:
    glasshouse_log::Error,
    glasshouse_policy::Error,
    glasshouse_sandbox::Error,
    glasshouse_provider::Error,
    glasshouse_tools::Error,
    glasshouse_script::Error,
);
