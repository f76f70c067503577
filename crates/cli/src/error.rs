//! The command line's error: whatever a crate below answers, in one shape.

glasshouse_model::define_error!(
    /// Why a command ended.
    pub Error
);

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
    glasshouse_kernel::Error,
    glasshouse_log::Error,
    glasshouse_policy::Error,
    glasshouse_provider::Error,
    glasshouse_sandbox::Error,
);
