//! Tells whoever started the server how it stands, as `systemd` and its like ask by `NOTIFY_SOCKET`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::output;

/// Names the socket; a name that begins with `@` is of no file.
const VARIABLE: &str = "NOTIFY_SOCKET";
/// It takes requests.
pub(super) const READY: &str = "READY=1";
/// It was told to stop.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Tells a state. Where nobody asked to be told nothing is done; where telling fails the server goes on.
pub(super) fn tell(state: &str) {
    let Some(place) = std::env::var_os(VARIABLE).filter(|place| !place.is_empty()) else { return };
    if let Err(why) = send(place.as_bytes(), state) {
        output::note(&format!("{VARIABLE} was not told {state}: {why}"));
    }
}

fn send(place: &[u8], state: &str) -> std::io::Result<()> {
    let address = match place.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(place))?,
    };
    let socket = UnixDatagram::unbound()?;
    // One who does not listen holds nobody up.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_told_whether_it_is_a_file_or_not() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("notify");
        let name = format!("glasshouse-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let check = |socket: UnixDatagram, place: &str| {
            send(place.as_bytes(), READY).unwrap();
            let mut told = [0; 64];
            let length = socket.recv(&mut told).unwrap();
            assert_eq!(&told[..length], READY.as_bytes(), "{place}");
        };
        check(UnixDatagram::bind(&file).unwrap(), &file.display().to_string());
        check(UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
        assert!(send(b"/nowhere/at/all", READY).is_err());
    }
}
