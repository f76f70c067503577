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
        glasshouse_model::yaml::refuse_tags(&text).map_err(fail)?;
        let read: Self = serde_saphyr::from_str(&text).map_err(|e| fail(e.to_string()))?;
        if read.requests_per_minute == 0 {
            return Err(fail("`requests_per_minute` is 0".to_owned()));
        }
        Ok(read)
    }

    /// Refuses names that no request can have: whoever wrote them believes that they count.
    ///
    /// # Errors
    /// `server_config_invalid`.
    pub(crate) fn check_hosts(&self) -> Result<()> {
        match self.hosts.iter().find(|host| !is_host(host)) {
            None => Ok(()),
            Some(host) => Err(Error::new(codes::SERVER_CONFIG_INVALID, "`hosts` cannot be used")
                .why(format!("`{host}` is not a name with or without a port"))),
        }
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

/// Whether a text is what a request may name as its host: a name or an address, and a port where it has one.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        // The colons of an address.
        Some((_, rest)) if rest.ends_with(']') => (text, None),
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_name = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !name.is_empty() && name.bytes().all(is_of_names)
        }
    };
    is_name && port.is_none_or(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_reads_like() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let check = |text: &str, expected: Option<&str>| {
            std::fs::write(file.path(), text).unwrap();
            let read = Listening::read(file.path()).map_err(|error| error.to_string());
            match (read, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(word)) => assert!(error.contains(word), "{text}: {error}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        };
        check("hosts: [glass.example]\n", None);
        check("hosts: [!!binary Z2xhc3M=]\n", Some("a tag (`!`)"));
        check("insecure_plaintext: !off true\n", Some("line 1, column 21"));
        check("host: a\n", Some("host"));
    }

    /// The failure: names that no request can have were taken without a word, so a server was not known by the name
    /// that its operator had written. The mend: they are refused before it listens.
    #[test]
    fn a_host_is_what_a_request_may_name() {
        let check = |host: &str, expected: bool| {
            let listening = Listening { hosts: vec![host.to_owned()], ..Listening::default() };
            assert_eq!(listening.check_hosts().is_ok(), expected, "{host}");
        };
        check("glass.example", true);
        check("glass.example:8443", true);
        check("192.0.2.1:80", true);
        check("[2001:db8::1]:443", true);
        check("[2001:db8::1]", true);
        check("", false);
        check(":80", false);
        check("*", false);
        check("*.example", false);
        check("http://a.b", false);
        check("a.b/c", false);
        check("me@a.b", false);
        check("a.b:", false);
        check("a.b:65536", false);
        check("a.b:+80", false);
        check("2001:db8::1", false);
        check("a b", false);
    }
}
