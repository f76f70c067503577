//! The crate's one error.

glasshouse_model::define_error!(
    /// Why a provider could not be set up or did not answer.
    pub Error
);

/// Name of the context fact that says how long the server asked to wait, in milliseconds.
pub(crate) const RETRY_AFTER_MS: &str = "retry_after_ms";

impl Error {
    /// How long the server asked to wait before the next request, in milliseconds.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.report().context.get(RETRY_AFTER_MS)?.as_u64()
    }
}
