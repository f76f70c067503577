//! The crate's error.

glasshouse_model::define_error!(
    /// Why a tool request was refused or could not be answered.
    pub Error
);

/// Result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<glasshouse_sandbox::Error> for Error {
    fn from(error: glasshouse_sandbox::Error) -> Self {
        Self::from(glasshouse_model::Fault::from(error))
    }
}
