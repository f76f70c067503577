//! The crate's error.

glasshouse_model::define_error!(
    /// Why code could not be compiled or run.
    pub Error
);

glasshouse_model::convert_errors!(Error: glasshouse_sandbox::Error);

/// Result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
