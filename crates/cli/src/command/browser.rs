//! The pages of the server in the browser of the person at this machine.
//!
//! The browser gets the token by a file that only its owner reads: command lines are for everybody to see.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use glasshouse_server::Server;

use crate::output;

/// Opens a file or an address.
const OPENER: &str = "xdg-open";
/// Name of the file beside the token.
const ENTRANCE: &str = "playground.html";
/// The page.
const PAGE: &str = "playground";

/// Opens the page, or says why that is not possible: the server goes on without it.
pub(super) fn show(server: &Server, address: &str) {
    let page = format!("{address}/{PAGE}");
    match open(server, &page) {
        // It opens the browser and ends; where there is none it says so only by its status.
        Ok(mut opener) => {
            std::thread::spawn(move || match opener.wait() {
                Ok(status) if status.success() => {}
                Ok(status) => not_opened(&page, &format!("{OPENER} ended with {status}")),
                Err(why) => not_opened(&page, &why.to_string()),
            });
        }
        Err(why) => not_opened(&page, &format!("{OPENER}: {why}")),
    }
}

fn not_opened(page: &str, why: &str) {
    output::note(&format!(
        "no browser was opened ({why}); open {page} in one, and give it the token of the file above"
    ));
}

fn open(server: &Server, page: &str) -> std::io::Result<Child> {
    // Where the token of the file does not count the page asks for a key.
    let place = match server.token_file() {
        None => OsString::from(page),
        Some(file) => {
            let token = std::fs::read_to_string(file)?;
            entrance(file, &format!("{page}#token={}", token.trim()))?.into_os_string()
        }
    };
    let mut opener = Command::new(OPENER);
    opener.arg(&place).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    opener.spawn()
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
