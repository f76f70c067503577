//! The crate's error.

glasshouse_model::define_error!(
    /// Why a session could not be started, carried on, merged or read.
    pub Error
);

/// Result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! wrap {
    ($($other:path),+ $(,)?) => {$(
        impl From<$other> for Error {
            fn from(error: $other) -> Self {
                glasshouse_model::Fault::from(error).into()
            }
        }
    )+};
}

wrap!(
    glasshouse_log::Error,
    glasshouse_policy::Error,
    glasshouse_sandbox::Error,
    glasshouse_provider::Error,
    glasshouse_tools::Error,
);
