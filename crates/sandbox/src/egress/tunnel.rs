//! A tunnel: opaque, but for the name in its handshake.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::io::{AsyncWriteExt as _, BufReader};

use super::body::{Framing, Target, pass_on};
use super::hello::{MAX_HELLO_BYTES, asks_again, second_server_name, server_name};
use super::meter::{Direction, Meter};
use super::secret::Mask;
use super::{Denial, Host};

/// Most bytes before the end of a second hello: with data that was sent early.
const MAX_SECOND_BYTES: usize = MAX_HELLO_BYTES + (64 << 10);

/// Finds the server's name in the bytes so far, and where the message with it ends.
type Reader = fn(&[u8]) -> Result<Option<(String, usize)>, Denial>;

/// Reads the client's handshake message to its end, and checks for whom it is.
///
/// # Errors
/// [`Denial::SniMismatch`], and those of the message.
pub(super) async fn read_hello<R>(from: &mut R, host: &Host) -> Result<Vec<u8>, Denial>
where
    R: AsyncBufRead + Unpin,
{
    read_message(from, host, server_name, MAX_HELLO_BYTES).await
}

async fn read_message<R: AsyncBufRead + Unpin>(
    from: &mut R,
    host: &Host,
    read: Reader,
    max_bytes: usize,
) -> Result<Vec<u8>, Denial> {
    let mut hello = Vec::new();
    loop {
        let there = from.fill_buf().await.map_err(|_| Denial::Unreachable)?;
        if there.is_empty() {
            return Err(Denial::NotTls);
        }
        let (before, count) = (hello.len(), there.len());
        hello.extend_from_slice(there);
        match (read(&hello), host) {
            (Ok(None), _) if hello.len() > max_bytes => return Err(Denial::TooLarge),
            (Ok(None), _) => from.consume(count),
            (Ok(Some((name, end))), host) if Host::parse(&name).as_ref() == Ok(host) => {
                from.consume(end.saturating_sub(before));
                hello.truncate(end);
                return Ok(hello);
            }
            (Ok(Some(_)), _) => return Err(Denial::SniMismatch),
            // A handshake never names an address.
            (Err(Denial::NoSni), Host::Address(_)) => {
                from.consume(count);
                return Ok(hello);
            }
            (Err(denial), _) => return Err(denial),
        }
    }
}

/// The two ends of a tunnel.
pub(super) struct Ends<'a, C, O, F, T> {
    pub(super) client: &'a mut C,
    pub(super) to_client: &'a mut O,
    pub(super) server: F,
    pub(super) to_server: T,
}

impl<C, O, F, T> Ends<'_, C, O, F, T>
where
    C: AsyncBufRead + Unpin,
    O: AsyncWrite + Unpin,
    F: AsyncRead + Unpin,
    T: AsyncWrite + Unpin,
{
    /// Carries a handshake whose first message is `hello`, and all that follows it. A server may ask
    /// the client to begin anew, and goes by the name in the second message: it is checked as well.
    pub(super) async fn carry(
        mut self,
        hello: &[u8],
        host: &Host,
        meter: &Meter,
    ) -> Result<(), Denial> {
        send(&mut self.to_server, hello, meter, Direction::Sent).await?;
        if self.answer(meter).await? {
            let read = second_server_name;
            let second = read_message(self.client, host, read, MAX_SECOND_BYTES).await?;
            send(&mut self.to_server, &second, meter, Direction::Sent).await?;
        }
        tokio::try_join!(
            copy(self.client, &mut self.to_server, meter, Direction::Sent),
            copy(&mut self.server, self.to_client, meter, Direction::Received),
        )?;
        Ok(())
    }

    /// Passes the server's first message on; whether it asks for another hello.
    async fn answer(&mut self, meter: &Meter) -> Result<bool, Denial> {
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let read = self.server.read(&mut piece).await.map_err(|_| Denial::Unreachable)?;
            answer.extend_from_slice(&piece[..read]);
            // The client may read as it comes; only its own answer waits.
            send(self.to_client, &piece[..read], meter, Direction::Received).await?;
            match asks_again(&answer) {
                Some(again) => return Ok(again),
                None if read == 0 => return Ok(false),
                None => {}
            }
        }
    }
}

async fn send<W: AsyncWrite + Unpin>(
    to: &mut W,
    bytes: &[u8],
    meter: &Meter,
    direction: Direction,
) -> Result<(), Denial> {
    meter.add(direction, bytes.len())?;
    let all = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    all.await.map_err(|_: io::Error| Denial::Unreachable)?;
    meter.moved();
    Ok(())
}

/// One direction of a tunnel; its end is passed on, the other direction may go on.
async fn copy<R, W>(
    from: &mut R,
    to: &mut W,
    meter: &Meter,
    direction: Direction,
) -> Result<(), Denial>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let target = Target { to, direction, meter, mask: Mask::new(Vec::new()) };
    let mut from = BufReader::new(from);
    pass_on(&mut from, target, Framing::UntilEnd).await?;
    to.shutdown().await.map_err(|_| Denial::Unreachable)
}
