//! This terminal, while a command's own is connected to it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;

use glasshouse_kernel::codes;
use glasshouse_sandbox::Window;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use crate::error::Error;

/// What a terminal that does not know its size is taken for.
const USUAL: Window = Window { rows: 24, columns: 80 };

/// Refuses `--tty` where there is no terminal.
pub(super) fn check() -> Result<(), Error> {
    if isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stdout()) {
        return Ok(());
    }
    Err(Error::new(codes::USAGE, "--tty cannot be used")
        .why("standard input and output are no terminal")
        .fix("leave --tty out; -i passes standard input on"))
}

/// The size of this terminal.
pub(super) fn window() -> Window {
    match tcgetwinsize(rustix::stdio::stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            Window { rows: size.ws_row, columns: size.ws_col }
        }
        _ => USUAL,
    }
}

/// This terminal without a meaning of its own for any key; as it was when this is dropped.
pub(super) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    pub(super) fn take() -> Result<Self, Error> {
        let fail = |e: rustix::io::Errno| {
            Error::new(codes::USAGE, "this terminal cannot be set up").why(e)
        };
        let before = tcgetattr(rustix::stdio::stdin()).map_err(fail)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &raw).map_err(fail)?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.before);
    }
}

/// Passes standard input on as it comes, by a pipe: the descriptor itself, which may be a terminal or
/// a file, stays outside.
pub(super) fn forward_input() -> Result<OwnedFd, Error> {
    let (end, mut start) = glasshouse_sandbox::live::input()?;
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        let mut stdin = std::io::stdin().lock();
        loop {
            match stdin.read(&mut piece) {
                Ok(read @ 1..) if start.write_all(&piece[..read]).is_ok() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The end of either side is the end.
                _ => break,
            }
        }
    });
    Ok(end)
}
