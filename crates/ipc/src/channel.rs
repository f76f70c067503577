//! One end of a message socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair, sockopt,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result, codes};

/// Largest frame in bytes: below the kernel's default socket buffer (208 KiB), so that a frame
/// never depends on a raised system limit.
pub const MAX_FRAME_BYTES: usize = 160 * 1024;

/// Most descriptors beside one frame: the widest message carries three standard streams.
pub const MAX_DESCRIPTORS: usize = 4;

/// Who is at the other end, as the kernel vouches for it (`SO_PEERCRED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Process id when the connection was made. It can be reused; never signal it.
    pub pid: i32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A message and the descriptors that came with it.
#[derive(Debug)]
pub struct Received<T> {
    /// The message.
    pub message: T,
    /// Its descriptors, close-on-exec, in the order they were sent.
    pub descriptors: Vec<OwnedFd>,
}

impl<T> Received<T> {
    /// Takes exactly one descriptor.
    ///
    /// # Errors
    /// `ipc_frame_malformed` when the message came with none or more.
    pub fn one_descriptor(mut self) -> Result<(T, OwnedFd)> {
        match (self.descriptors.pop(), self.descriptors.is_empty()) {
            (Some(only), true) => Ok((self.message, only)),
            _ => Err(Error::new(codes::FRAME_MALFORMED, "a message must carry one descriptor")),
        }
    }
}

/// One end of a `SOCK_SEQPACKET` Unix socket that carries JSON messages.
///
/// ```
/// use glasshouse_ipc::Channel;
/// let (mut a, mut b) = Channel::pair().unwrap();
/// a.send(&"hello", &[]).unwrap();
/// assert_eq!(b.receive::<String>().unwrap().unwrap().message, "hello");
/// drop(a);
/// assert!(b.receive::<String>().unwrap().is_none());
/// ```
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.socket
    }
}

impl Channel {
    /// Two connected ends, both close-on-exec.
    ///
    /// # Errors
    /// `ipc_socket_failed` when the system has no descriptor or memory left.
    pub fn pair() -> Result<(Self, Self)> {
        let (a, b) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|errno| failed("make a socket pair", errno))?;
        Ok((Self::wrap(a), Self::wrap(b)))
    }

    /// Wraps a descriptor after checking that it is a Unix `SOCK_SEQPACKET` socket.
    ///
    /// # Errors
    /// `ipc_peer_refused` when it is anything else.
    pub fn from_descriptor(socket: OwnedFd) -> Result<Self> {
        let refused = |why: &str| {
            Error::new(codes::PEER_REFUSED, "the descriptor is no message socket").why(why)
        };
        match (sockopt::socket_domain(&socket), sockopt::socket_type(&socket)) {
            (Ok(AddressFamily::UNIX), Ok(SocketType::SEQPACKET)) => Ok(Self::wrap(socket)),
            (Ok(_), Ok(_)) => Err(refused("it is another kind of socket")),
            (Err(errno), _) | (_, Err(errno)) => Err(refused(&errno.to_string())),
        }
    }

    const fn wrap(socket: OwnedFd) -> Self {
        Self { socket, buffer: Vec::new() }
    }

    /// Who is at the other end. Ask before reading the first byte.
    ///
    /// # Errors
    /// `ipc_peer_refused` when the system cannot say.
    pub fn peer(&self) -> Result<Peer> {
        let credentials = sockopt::socket_peercred(&self.socket).map_err(|errno| {
            Error::new(codes::PEER_REFUSED, "the other end has no identity").why(errno)
        })?;
        Ok(Peer {
            pid: credentials.pid.as_raw_nonzero().get(),
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
        })
    }

    /// Refuses any peer but the user `uid`.
    ///
    /// # Errors
    /// `ipc_peer_refused`.
    pub fn require_peer_uid(&self, uid: u32) -> Result<Peer> {
        let peer = self.peer()?;
        if peer.uid == uid {
            return Ok(peer);
        }
        Err(Error::new(codes::PEER_REFUSED, "the other end belongs to another user")
            .with("expected_uid", uid)
            .with("found_uid", peer.uid))
    }

    /// Sends one message with descriptors, waiting while the peer's queue is full.
    ///
    /// # Errors
    /// `ipc_frame_too_large`, `ipc_peer_gone`, `ipc_socket_failed`. Nothing was sent then.
    pub fn send<T: Serialize>(&self, message: &T, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let frame = serde_json::to_vec(message).map_err(|error| {
            Error::new(codes::FRAME_MALFORMED, "the message has no JSON form").why(error)
        })?;
        if frame.len() > MAX_FRAME_BYTES || descriptors.len() > MAX_DESCRIPTORS {
            return Err(Error::new(codes::FRAME_TOO_LARGE, "the message does not fit one frame")
                .with("bytes", frame.len())
                .with("limit_bytes", MAX_FRAME_BYTES)
                .with("descriptors", descriptors.len()));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        loop {
            match sendmsg(&self.socket, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL)
            {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                    return Err(Error::new(codes::PEER_GONE, "the other end closed the socket"));
                }
                Err(errno) => return Err(failed("send a message", errno)),
            }
        }
    }

    /// Waits for one message; `None` when the other end is gone.
    ///
    /// # Errors
    /// `ipc_frame_malformed` for a truncated or unreadable frame, `ipc_socket_failed`.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<Received<T>>> {
        if !self.make_room()? {
            return Ok(None);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let outcome = loop {
            match recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(&mut self.buffer)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Ok(outcome) => break outcome,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                Err(errno) => return Err(failed("receive a message", errno)),
            }
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(arrived) = message {
                descriptors.extend(arrived);
            }
        }
        if outcome.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Error::new(codes::FRAME_MALFORMED, "a frame was cut")
                .why("it is larger than any frame of ours"));
        }
        if outcome.bytes == 0 {
            return Ok(None);
        }
        let message = serde_json::from_slice(&self.buffer[..outcome.bytes]).map_err(|error| {
            Error::new(codes::FRAME_MALFORMED, "a frame could not be read").why(error)
        })?;
        Ok(Some(Received { message, descriptors }))
    }

    /// Waits for a message and makes the buffer as long as it is: most are short, and a process may hold
    /// many channels. False when the other end is gone.
    fn make_room(&mut self) -> Result<bool> {
        let bytes = loop {
            let mut nothing = RecvAncillaryBuffer::default();
            let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
            match recvmsg(&self.socket, &mut [], &mut nothing, flags) {
                Ok(outcome) => break outcome.bytes,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(false),
                Err(errno) => return Err(failed("receive a message", errno)),
            }
        };
        self.buffer.resize(bytes.min(MAX_FRAME_BYTES), 0);
        Ok(true)
    }

    /// As [`Channel::receive`], but fails when nothing arrives within `limit` and treats a closed
    /// socket as a failure.
    ///
    /// # Errors
    /// `ipc_timed_out`, `ipc_peer_gone`, and those of [`Channel::receive`].
    pub fn receive_within<T: DeserializeOwned>(&mut self, limit: Duration) -> Result<Received<T>> {
        let deadline = std::time::Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 });
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => {
                    return Err(Error::new(codes::TIMED_OUT, "no answer came in time")
                        .with("limit_ms", u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)));
                }
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("wait for a message", errno)),
            }
        }
        self.receive()?
            .ok_or_else(|| Error::new(codes::PEER_GONE, "the other end closed the socket"))
    }
}

fn failed(action: &str, errno: Errno) -> Error {
    Error::new(codes::SOCKET_FAILED, format!("cannot {action}"))
        .why(errno)
        .with("errno", errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_frame_at_the_limit_passes_and_one_above_is_refused() {
        let (a, mut b) = Channel::pair().unwrap();
        let fits = "x".repeat(MAX_FRAME_BYTES - 2);
        a.send(&fits, &[]).unwrap();
        assert_eq!(b.receive::<String>().unwrap().unwrap().message, fits);
        let error = a.send(&"x".repeat(MAX_FRAME_BYTES - 1), &[]).unwrap_err();
        assert!(error.is(codes::FRAME_TOO_LARGE), "{error}");
    }

    /// The failure: each end had room for the largest frame from its first message on, so a process that holds
    /// an end for each of its sandboxes grew by 160 KiB with each, and touched all of it when a sandbox was made.
    #[test]
    fn a_channel_has_room_for_what_it_received_and_no_more() {
        let (a, mut b) = Channel::pair().unwrap();
        for text in ["x", "a longer text", "x"] {
            a.send(&text, &[]).unwrap();
            assert_eq!(b.receive::<String>().unwrap().unwrap().message, text);
        }
        assert!(b.buffer.capacity() < 1024, "{}", b.buffer.capacity());
    }

    #[test]
    fn descriptors_arrive_usable_and_close_on_exec() {
        let (a, mut b) = Channel::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        a.send(&1, &[writer.as_fd()]).unwrap();
        drop(writer);
        let (_, arrived) = b.receive::<u8>().unwrap().unwrap().one_descriptor().unwrap();
        let flags = rustix::io::fcntl_getfd(&arrived).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        std::fs::File::from(arrived).write_all(b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn what_is_no_frame_of_ours_is_a_typed_error() {
        let check = |bytes: &[u8]| {
            let (a, mut b) = Channel::pair().unwrap();
            rustix::net::send(&a.socket, bytes, SendFlags::empty()).unwrap();
            let error = b.receive::<u32>().unwrap_err();
            assert!(error.is(codes::FRAME_MALFORMED), "{bytes:?}: {error}");
        };
        check(b"{");
        check(b"\"text\"");
        check(b"\xff\xfe");
        check(b"7 7");
        check(&vec![b' '; MAX_FRAME_BYTES + 1]);
    }

    #[test]
    fn other_sockets_are_refused_before_any_byte() {
        let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Channel::from_descriptor(stream.into()).unwrap_err().is(codes::PEER_REFUSED));
        let file = tempfile::tempfile().unwrap();
        assert!(Channel::from_descriptor(file.into()).unwrap_err().is(codes::PEER_REFUSED));
    }

    #[test]
    fn the_peer_is_known_by_the_kernel() {
        let (a, _b) = Channel::pair().unwrap();
        let uid = rustix::process::getuid().as_raw();
        assert_eq!(
            a.require_peer_uid(uid).unwrap().pid,
            i32::try_from(std::process::id()).unwrap()
        );
        assert!(a.require_peer_uid(uid.wrapping_add(1)).unwrap_err().is(codes::PEER_REFUSED));
    }

    #[test]
    fn silence_and_departure_are_different_errors() {
        let (mut a, b) = Channel::pair().unwrap();
        let error = a.receive_within::<u8>(Duration::from_millis(10)).unwrap_err();
        assert!(error.is(codes::TIMED_OUT), "{error}");
        drop(b);
        let error = a.receive_within::<u8>(Duration::from_secs(5)).unwrap_err();
        assert!(error.is(codes::PEER_GONE), "{error}");
        assert!(a.send(&1, &[]).unwrap_err().is(codes::PEER_GONE));
    }
}
