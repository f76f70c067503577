//! The crate's error.

use std::io;
use std::path::Path;

use crate::codes;

glasshouse_model::define_error!(
    /// Why something could not be appended, read, signed or stored.
    pub Error
);

/// Result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An operation on a file failed: a full disk keeps its own code because it can be cured.
    pub(crate) fn file(doing: &str, path: &Path, cause: &io::Error) -> Self {
        let full = matches!(
            cause.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let code = if full { codes::STORAGE_FULL } else { codes::STORAGE_FAILED };
        Self::new(code, format!("could not {doing} {}", path.display())).why(cause)
    }
}
