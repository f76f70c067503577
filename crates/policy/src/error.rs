//! The crate's one public error.

glasshouse_model::define_error!(
    /// Why a policy, a grant or a call could not be read. `decide` itself never fails: what it can
    /// not establish it denies.
    pub Error
);

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
