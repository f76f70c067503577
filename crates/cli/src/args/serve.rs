//! `serve`.

use std::net::SocketAddr;

use clap::Args;

/// `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Address to listen on; only one that nobody but this machine can reach. Port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) listen: SocketAddr,
}
