//! Sockets of every family, and what other processes of the machine listen on.

use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;

use crate::{Outcome, checked, number, refusal};

pub(crate) fn attempt(name: &str, arguments: &[&str]) -> Option<Outcome> {
    Some(match (name, arguments) {
        ("tcp", [address]) => TcpStream::connect(address).and_then(|mut s| s.write_all(b"x")),
        ("udp", [address]) => udp(address),
        ("unix", paths) => unix(paths),
        ("family", [family]) => number(family).and_then(|family| socket(family, 0)),
        ("rare-families", []) => rare_families(),
        ("netlink", [protocol]) => number(protocol).and_then(|p| socket(libc::AF_NETLINK, p)),
        ("pair", [family]) => number(family).and_then(pair),
        ("raw", []) => raw(),
        ("loopback-down", []) => loopback_down(),
        _ => return None,
    })
}

fn udp(address: &str) -> Outcome {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.send_to(b"x", address).map(drop)
}

fn unix(paths: &[&str]) -> Outcome {
    let mut last = Err(refusal("nothing was named"));
    for path in paths {
        last = UnixStream::connect(path).and_then(|mut stream| stream.write_all(b"x"));
        if last.is_ok() {
            break;
        }
    }
    last
}

fn socket(family: i32, protocol: i32) -> Outcome {
    // Which type does not matter where a family is refused; one of them exists in each.
    let mut last = Err(refusal("no type"));
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET] {
        // SAFETY: a plain system call; the descriptor ends with this process.
        last = checked(i64::from(unsafe { libc::socket(family, kind, protocol) })).map(drop);
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Any family that reaches something else than files and the Internet.
fn rare_families() -> Outcome {
    let usual = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let rare = (0..64).filter(|family| !usual.contains(family));
    let opened: Vec<i32> = rare.filter(|family| socket(*family, 0).is_ok()).collect();
    println!("{opened:?}");
    if opened.is_empty() { Err(refusal("none opened")) } else { Ok(()) }
}

/// A filter refuses with "not permitted"; whatever else is answered came from the family's code.
fn pair(family: i32) -> Outcome {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both descriptors.
    let made = unsafe { libc::socketpair(family, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) };
    match checked(i64::from(made)) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(error),
        _ => Ok(()),
    }
}

fn raw() -> Outcome {
    // SAFETY: a plain system call; the descriptor ends with this process.
    checked(i64::from(unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP) }))
        .map(drop)
}

/// Changes an interface of the network it is in.
fn loopback_down() -> Outcome {
    // SAFETY: ifreq is plain data whose name ends with zeros, and the descriptor is our own.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        checked(i64::from(socket))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed();
        request.ifr_name[1] = b'o'.cast_signed();
        checked(i64::from(libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request))).map(drop)
    }
}
