//! `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Address to listen on (default: 127.0.0.1:7878, which only this machine reaches). Port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Open the playground in a browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Settings of the server (default: server/config.yaml below the data directory, if it is there)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Name by which clients know the server beside its address, with the port if that is no usual one
    #[arg(long, value_name = "NAME[:PORT]")]
    pub(crate) host: Vec<String>,
    /// Certificate chain in PEM: connections are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Key of the certificate in PEM; nobody else may read it
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen where others reach it without encryption: keys and everything else can be read and changed on the
    /// way, unless something in front of the server encrypts
    #[arg(long)]
    pub(crate) insecure_plaintext: bool,
    /// Tell the cause of each fault on standard error, too; it may name files of whoever met it
    #[arg(long)]
    pub(crate) debug: bool,
}
