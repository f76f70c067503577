//! Framed messages and descriptors over Unix sockets, with peer identity and a version handshake.
//!
//! One message is one `SOCK_SEQPACKET` datagram of JSON, so a frame is never split, joined or cut:
//! what does not fit is a typed error at the sender, and a truncated frame is one at the receiver.
//! Descriptors travel beside the frame and are close-on-exec from the moment they arrive.
#![forbid(unsafe_code)]

pub mod channel;
pub mod codes;
pub mod error;
pub mod handshake;

pub use channel::{Channel, MAX_DESCRIPTORS, MAX_FRAME_BYTES, Peer, Received};
pub use error::{Error, Result};
