//! The server's certificate and key.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use tokio_rustls::TlsAcceptor;

use crate::{Error, Result, codes};

/// The protocols that a connection may choose, the better first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// The rights to a key that nobody else may have.
const OTHERS_MODE: u32 = 0o077;

/// Files of the server's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate and those between it and a root, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
}

/// Makes connections encrypted.
///
/// # Errors
/// `tls_unusable`.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let fail = |path: &Path, why: String| {
        Error::new(codes::TLS_UNUSABLE, format!("cannot use {}", path.display())).why(why)
    };
    let of_chain = |why: String| fail(&files.certificate, why);
    let of_key = |why: String| fail(&files.key, why);
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| of_chain(e.to_string()))?;
    if chain.is_empty() {
        return Err(of_chain("it holds no certificate".to_owned()));
    }
    let mode = std::fs::metadata(&files.key).map_err(|e| of_key(e.to_string()))?.mode();
    if mode & OTHERS_MODE != 0 {
        return Err(of_key("others can read it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| of_key(e.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| of_chain(e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| of_chain(e.to_string()))?;
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
