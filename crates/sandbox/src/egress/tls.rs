//! TLS as a client, for whoever in this program speaks it: one trust in certificates for all.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::{Error, Result, codes};

/// Trusts the public authorities, and those of `roots_pem` besides; speaks HTTP/1.1.
///
/// # Errors
/// `egress_invalid` when a text holds no certificate, or one that cannot be read.
pub fn connector(roots_pem: &[String]) -> Result<TlsConnector> {
    client_config(roots_pem).map(|config| TlsConnector::from(Arc::new(config)))
}

/// What [`connector`] connects with, for whoever does not wait asynchronously.
///
/// # Errors
/// As [`connector`].
pub fn client_config(roots_pem: &[String]) -> Result<ClientConfig> {
    let refuse = |why: &dyn std::fmt::Display| {
        Error::new(codes::EGRESS_INVALID, "a root certificate cannot be used").why(why)
    };
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for pem in roots_pem {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(certificate.map_err(|why| refuse(&why))?).map_err(|why| refuse(&why))?;
            found += 1;
        }
        if found == 0 {
            return Err(refuse(&"the PEM text holds no certificate"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| refuse(&why))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
