//! The crate's error.

glasshouse_model::define_error!(
    /// Why something could not be isolated, resolved, sealed or run.
    pub Error
);

/// Result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
