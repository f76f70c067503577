//! `glasshouse ui playground`: the server, and its page of plans in the browser.
//!
//! The browser gets the token by a file that only its owner reads: command lines are for everybody to see.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use glasshouse_server::{Listening, Server};

use crate::args::PlaygroundArguments;
use crate::command::serve;
use crate::error::Error;
use crate::output;

/// Opens a file in the browser of the person at this machine.
const OPENER: &str = "xdg-open";
/// Name of the file beside the token.
const ENTRANCE: &str = "playground.html";

pub(super) fn run(arguments: &PlaygroundArguments) -> Result<u8, Error> {
    let listening = Listening { listen: arguments.listen, ..Listening::default() };
    serve::until_told(listening, |server| {
        output::note(&format!("the playground is http://{}/playground", server.address()));
        if arguments.no_open {
            return;
        }
        if let Err(why) = open(server) {
            output::note(&format!("no browser was opened: {why}"));
        }
    })
}

fn open(server: &Server) -> std::io::Result<()> {
    let file = server.token_file().ok_or(std::io::ErrorKind::NotFound)?;
    let token = std::fs::read_to_string(file)?;
    let entrance =
        entrance(file, &format!("http://{}/playground#token={}", server.address(), token.trim(),))?;
    let mut opener = Command::new(OPENER);
    opener.arg(&entrance).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Whoever opens it lives on by itself.
    opener.spawn().map(|_| ())
}

/// A page that leads to an address, beside the token and as private.
fn entrance(token_file: &Path, address: &str) -> std::io::Result<PathBuf> {
    let file = token_file.with_file_name(ENTRANCE);
    let _ = std::fs::remove_file(&file);
    let mut options = std::fs::OpenOptions::new();
    let mut page = options.write(true).create_new(true).mode(0o600).open(&file)?;
    writeln!(
        page,
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={address}\">"
    )?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_entrance_is_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let token = home.path().join("token");
        for address in
            ["http://127.0.0.1:1/playground#token=a", "http://127.0.0.1:2/playground#token=b"]
        {
            let file = entrance(&token, address).unwrap();
            let mode = std::fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(std::fs::read_to_string(file).unwrap().contains(address));
        }
    }
}
