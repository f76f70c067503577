//! The crate's error.

glasshouse_model::define_error!(
    /// Why a message could not be sent, received or trusted.
    pub Error
);

/// Result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
