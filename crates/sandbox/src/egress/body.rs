//! Bodies of HTTP/1 messages, passed on exactly as long as their head said.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::Denial;
use super::meter::{Direction, Meter};
use super::secret::Mask;

/// Longest line of a chunk's size, extensions included, and of all trailers together.
const MAX_SIZE_LINE_BYTES: usize = 1 << 10;
const MAX_TRAILER_BYTES: usize = 8 << 10;

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Empty,
    Length(u64),
    Chunked,
    /// Until the server closes the connection; only answers.
    UntilEnd,
}

impl Framing {
    /// The header line that says so.
    pub(crate) fn header(self) -> Vec<u8> {
        match self {
            Self::Empty | Self::UntilEnd => Vec::new(),
            Self::Length(bytes) => format!("Content-Length: {bytes}\r\n").into_bytes(),
            Self::Chunked => b"Transfer-Encoding: chunked\r\n".to_vec(),
        }
    }
}

/// Where a body goes.
pub(crate) struct Target<'a, W> {
    pub(crate) to: &'a mut W,
    pub(crate) direction: Direction,
    pub(crate) meter: &'a Meter,
    pub(crate) mask: Mask,
}

/// Passes a body on. What stands behind it stays unread: on a connection for one request that is
/// nobody's request.
pub(crate) async fn pass_on<R, W>(
    from: &mut R,
    target: Target<'_, W>,
    framing: Framing,
) -> Result<(), Denial>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut out = Out { target, chunked: framing == Framing::Chunked };
    match framing {
        Framing::Empty => return Ok(()),
        Framing::Length(bytes) => out.exactly(from, bytes).await?,
        Framing::UntilEnd => while out.piece(from, u64::MAX).await? > 0 {},
        Framing::Chunked => loop {
            match chunk_size(&line(from, MAX_SIZE_LINE_BYTES).await?)? {
                0 => {
                    skip_trailers(from).await?;
                    break;
                }
                bytes => out.exactly(from, bytes).await?,
            }
            if !line(from, 2).await?.is_empty() {
                return Err(Denial::Malformed);
            }
        },
    }
    out.end().await
}

struct Out<'a, W> {
    target: Target<'a, W>,
    chunked: bool,
}

impl<W: AsyncWrite + Unpin> Out<'_, W> {
    async fn exactly<R>(&mut self, from: &mut R, mut bytes: u64) -> Result<(), Denial>
    where
        R: AsyncBufRead + Unpin,
    {
        while bytes > 0 {
            match self.piece(from, bytes).await? {
                0 => return Err(Denial::Unreachable),
                read => bytes -= read,
            }
        }
        Ok(())
    }

    /// Passes on what is there, at most so many bytes; 0 at the end.
    async fn piece<R>(&mut self, from: &mut R, most: u64) -> Result<u64, Denial>
    where
        R: AsyncBufRead + Unpin,
    {
        let there = from.fill_buf().await.map_err(|_| Denial::Unreachable)?;
        let read = there.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let bytes = self.target.mask.pass(&there[..read]);
        from.consume(read);
        self.write(&bytes).await?;
        u64::try_from(read).map_err(|_| Denial::TooLarge)
    }

    async fn end(mut self) -> Result<(), Denial> {
        let rest = self.target.mask.rest();
        self.write(&rest).await?;
        let last: &[u8] = if self.chunked { b"0\r\n\r\n" } else { b"" };
        self.target.to.write_all(last).await.map_err(|_| Denial::Unreachable)?;
        self.target.to.flush().await.map_err(|_| Denial::Unreachable)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Denial> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.target.meter.add(self.target.direction, bytes.len())?;
        let framed;
        let out = if self.chunked {
            let size = format!("{:x}\r\n", bytes.len());
            framed = [size.as_bytes(), bytes, b"\r\n"].concat();
            &framed
        } else {
            bytes
        };
        self.target.to.write_all(out).await.map_err(|_| Denial::Unreachable)?;
        self.target.to.flush().await.map_err(|_| Denial::Unreachable)?;
        self.target.meter.moved();
        Ok(())
    }
}

/// A line without its end, which must be CR LF within so many bytes.
async fn line<R: AsyncBufRead + Unpin>(from: &mut R, most: usize) -> Result<Vec<u8>, Denial> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let there = from.fill_buf().await.map_err(|_| Denial::Unreachable)?;
        if there.is_empty() {
            return Err(Denial::Unreachable);
        }
        let end = there.iter().position(|byte| *byte == b'\n').map_or(there.len(), |at| at + 1);
        line.extend_from_slice(&there[..end]);
        from.consume(end);
        if line.len() > most {
            return Err(Denial::Malformed);
        }
    }
    let text = line.strip_suffix(b"\r\n").ok_or(Denial::Malformed)?;
    if text.iter().any(|byte| *byte == b'\r' || *byte == 0) {
        return Err(Denial::Malformed);
    }
    Ok(text.to_vec())
}

/// Extensions are left out: they are for the next reader only, and readers differ about them.
fn chunk_size(line: &[u8]) -> Result<u64, Denial> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let digits = std::str::from_utf8(digits).map_err(|_| Denial::Malformed)?;
    if digits.is_empty() || digits.len() > 16 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Denial::Malformed);
    }
    u64::from_str_radix(digits, 16).map_err(|_| Denial::Malformed)
}

async fn skip_trailers<R: AsyncBufRead + Unpin>(from: &mut R) -> Result<(), Denial> {
    let mut total = 0;
    loop {
        let line = line(from, MAX_TRAILER_BYTES).await?;
        total += line.len() + 2;
        if total > MAX_TRAILER_BYTES {
            return Err(Denial::TooLarge);
        }
        if line.is_empty() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    /// What arrives at the other end, read through a buffer of `size` bytes.
    fn passed(input: &[u8], framing: Framing, size: usize, secret: &str) -> Result<String, Denial> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let meter = Meter::new(1 << 20);
        let mut out = Vec::new();
        let mask = Mask::new(if secret.is_empty() { vec![] } else { vec![secret.into()] });
        let target = Target { to: &mut out, direction: Direction::Received, meter: &meter, mask };
        let mut from = BufReader::with_capacity(size, input);
        runtime.block_on(pass_on(&mut from, target, framing))?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_body_ends_where_its_head_said() {
        let check = |input: &str, framing: Framing, expected: Result<&str, Denial>| {
            let found = passed(input.as_bytes(), framing, 4096, "");
            assert_eq!(found, expected.map(str::to_owned), "{input:?}");
        };
        use Denial::{Malformed, Unreachable};
        use Framing::{Chunked, Empty, Length, UntilEnd};
        let behind = "GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n";
        check(behind, Empty, Ok(""));
        check(&format!("body{behind}"), Length(4), Ok("body"));
        check("bod", Length(4), Err(Unreachable));
        check("body", UntilEnd, Ok("body"));
        check(&format!("4\r\nbody\r\n0\r\n\r\n{behind}"), Chunked, Ok("4\r\nbody\r\n0\r\n\r\n"));
        check("004;x=\"y\"\r\nbody\r\n0\r\nX: y\r\n\r\n", Chunked, Ok("4\r\nbody\r\n0\r\n\r\n"));
        check("4\nbody\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check("4\r\nbody\n0\r\n\r\n", Chunked, Err(Malformed));
        check("4\r\nbodyx\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check("3\r\nbody\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check("0x4\r\nbody\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check("+4\r\nbody\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check(" 4\r\nbody\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check("4 \r\nbody\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check("4;\rx\r\nbody\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check("\r\n0\r\n\r\n", Chunked, Err(Malformed));
        check("fffffffffffffffff\r\n", Chunked, Err(Malformed));
        check(&format!("4;{}\r\nbody\r\n0\r\n\r\n", "x".repeat(2000)), Chunked, Err(Malformed));
        check("4\r\nbo", Chunked, Err(Unreachable));
        check("4\r\nbody\r\n0\r\n", Chunked, Err(Unreachable));
    }

    /// However the bytes arrive, the secret does not pass, and nothing else changes.
    #[test]
    fn a_secret_does_not_come_back_in_an_answer() {
        let text = "a s3cret-value b s3cret-valu s3crets3cret-value";
        let masked = "a ************ b s3cret-valu s3cret************";
        for size in 1..20 {
            let found = passed(text.as_bytes(), Framing::UntilEnd, size, "s3cret-value");
            assert_eq!(found.as_deref(), Ok(masked), "{size}");
            let chunked = "3\r\ns3c\r\n9\r\nret-value\r\n0\r\n\r\n";
            let found = passed(chunked.as_bytes(), Framing::Chunked, size, "s3cret-value").unwrap();
            let kept: String = found.chars().filter(|letter| "*sv".contains(*letter)).collect();
            assert_eq!(kept, "*".repeat(12), "{size}: {found}");
        }
        let found = passed(text.as_bytes(), Framing::UntilEnd, 7, "");
        assert_eq!(found.as_deref(), Ok(text), "the control: unmasked it passes");
    }

    #[test]
    fn a_body_beyond_the_limit_is_cut() {
        let big = vec![b'x'; (1 << 20) + 1];
        assert_eq!(passed(&big, Framing::UntilEnd, 4096, ""), Err(Denial::Limit));
        assert!(passed(&big[1..], Framing::UntilEnd, 4096, "").is_ok());
    }
}
