//! The crate's error.

glasshouse_model::define_error!(
    /// Why a request was refused, or why the server could not start.
    pub Error
);

/// Result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

glasshouse_model::convert_errors!(
    Error:
    glasshouse_kernel::Error,
    glasshouse_log::Error,
    glasshouse_policy::Error,
    glasshouse_provider::Error,
);
