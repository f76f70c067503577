//! How a server listens, and whom it believes: from its file and from flags.

use std::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;

use crate::jwt::JwtSettings;
use crate::tls::TlsFiles;
use crate::{Error, Result, codes};

/// Largest file.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Requests of one caller in a minute, unless it is set.
const REQUESTS_PER_MINUTE: u64 = 60_000;

/// How a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listening {
    /// Address.
    pub listen: SocketAddr,
    /// Names, with the port where it is no usual one, by which clients know it beside the address.
    pub hosts: Vec<String>,
    /// Certificate and key.
    pub tls: Option<TlsFiles>,
    /// Whether it may listen where others reach it without encrypting anything itself.
    pub insecure_plaintext: bool,
    /// The identity provider whose tokens it takes.
    pub jwt: Option<JwtSettings>,
    /// Requests of one caller in a minute.
    pub requests_per_minute: u64,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            hosts: Vec::new(),
            tls: None,
            insecure_plaintext: false,
            jwt: None,
            requests_per_minute: REQUESTS_PER_MINUTE,
        }
    }
}

impl Listening {
    /// Reads a file.
    ///
    /// # Errors
    /// `server_config_invalid`.
    pub fn read(file: &Path) -> Result<Self> {
        let fail = |why: String| {
            let what = format!("cannot use {}", file.display());
            Error::new(codes::SERVER_CONFIG_INVALID, what).why(why)
        };
        let found = std::fs::metadata(file).map_err(|e| fail(e.to_string()))?;
        if !found.is_file() || found.len() > MAX_FILE_BYTES {
            return Err(fail(format!("it is no file of at most {MAX_FILE_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(file).map_err(|e| fail(e.to_string()))?;
        let read: Self = serde_saphyr::from_str(&text).map_err(|e| fail(e.to_string()))?;
        if read.requests_per_minute == 0 {
            return Err(fail("`requests_per_minute` is 0".to_owned()));
        }
        Ok(read)
    }

    /// Whether only this machine can reach it.
    pub(crate) const fn is_local(&self) -> bool {
        self.listen.ip().is_loopback()
    }

    /// What addresses begin with.
    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}
