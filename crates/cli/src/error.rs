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
    glasshouse_server::Error,
);

impl Error {
    /// The same as the server's error.
    pub(crate) fn into_server(self) -> glasshouse_server::Error {
        glasshouse_model::Fault::from(self).into()
    }
}
