//! The command line's error: whatever a crate below answers, in one shape.

glasshouse_model::define_error!(
    /// Why a command ended.
    pub Error
);

glasshouse_model::convert_errors!(
    Error:
    glasshouse_kernel::Error,
    glasshouse_log::Error,
    glasshouse_policy::Error,
    glasshouse_provider::Error,
    glasshouse_sandbox::Error,
);
