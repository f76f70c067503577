//! The first exchange on a channel: both ends name their protocol and must agree exactly.
//!
//! The two ends are the same program in every supported set-up, so there is no range to negotiate:
//! a difference means that one of them is stale.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Channel, Error, Result, codes};

/// How long either end waits for the other: a starting process has to be loaded from disk.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    service: String,
    protocol: u32,
}

/// Opens as the end that asks.
///
/// # Errors
/// `ipc_version_mismatch`, or any error of the channel.
pub fn ask(channel: &mut Channel, service: &str, protocol: u32) -> Result<()> {
    channel.send(&Hello { service: service.to_owned(), protocol }, &[])?;
    expect(channel, service, protocol)
}

/// Opens as the end that answers; the peer must be the user `uid`.
///
/// # Errors
/// `ipc_peer_refused`, `ipc_version_mismatch`, or any error of the channel.
pub fn answer(channel: &mut Channel, service: &str, protocol: u32, uid: u32) -> Result<()> {
    channel.require_peer_uid(uid)?;
    let agreed = expect(channel, service, protocol);
    channel.send(&Hello { service: service.to_owned(), protocol }, &[])?;
    agreed
}

fn expect(channel: &mut Channel, service: &str, protocol: u32) -> Result<()> {
    let hello: Hello = channel.receive_within(HANDSHAKE_LIMIT)?.message;
    if hello.service == service && hello.protocol == protocol {
        return Ok(());
    }
    Err(Error::new(codes::VERSION_MISMATCH, "the two ends speak different protocols")
        .with("ours", format!("{service}/{protocol}"))
        .with("theirs", format!("{}/{}", hello.service, hello.protocol)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(service: &str, protocol: u32) -> (Result<()>, Result<()>) {
        let (mut a, mut b) = Channel::pair().unwrap();
        let uid = rustix::process::getuid().as_raw();
        let other = std::thread::spawn(move || answer(&mut b, "sandbox", 1, uid));
        let ours = ask(&mut a, service, protocol);
        (ours, other.join().unwrap())
    }

    #[test]
    fn equal_ends_agree_and_both_notice_a_difference() {
        let (ours, theirs) = meet("sandbox", 1);
        ours.unwrap();
        theirs.unwrap();
        for (service, protocol) in [("sandbox", 2), ("console", 1)] {
            let (ours, theirs) = meet(service, protocol);
            assert!(ours.unwrap_err().is(codes::VERSION_MISMATCH), "{service}/{protocol}");
            assert!(theirs.unwrap_err().is(codes::VERSION_MISMATCH), "{service}/{protocol}");
        }
    }

    #[test]
    fn a_foreign_user_gets_no_word() {
        let (_a, mut b) = Channel::pair().unwrap();
        let uid = rustix::process::getuid().as_raw().wrapping_add(1);
        assert!(answer(&mut b, "sandbox", 1, uid).unwrap_err().is(codes::PEER_REFUSED));
    }
}
