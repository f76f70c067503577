//! Who asks. Today there is one mode: a single person at this machine, who can read a file.
//!
//! The token lies in a file that only its owner reads. A [`Caller`] can be made nowhere else, so a handler
//! that has one knows that somebody proved who they are.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use glasshouse_model::{Digest, Principal, PrincipalKind, TenantId};
use hyper::header::{AUTHORIZATION, HeaderMap};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{Error, Result, codes};

/// What a token begins with, so that scanners for secrets can know one.
const PREFIX: &str = "glasshouse_";
/// Random bytes of a token.
const SECRET_BYTES: usize = 32;
/// Longest token file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256;
/// Rights of the file: the owner reads and writes.
const FILE_MODE: u32 = 0o600;
/// Rights of its directory.
const DIRECTORY_MODE: u32 = 0o700;
/// The rights that no one but the owner may have.
const OTHERS_MODE: u32 = 0o077;

/// Somebody who proved who they are.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    principal: Principal,
}

impl Caller {
    /// As whom they act.
    pub(crate) const fn principal(&self) -> &Principal {
        &self.principal
    }
}

/// The token of the single-user mode. Only its digest is kept, and nothing prints it.
pub(crate) struct Token {
    digest: Digest,
    file: PathBuf,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.file.display())
    }
}

impl Token {
    /// The token of an installation, made when there is none.
    ///
    /// # Errors
    /// `token_unusable` when others can read the file, or it holds no token.
    pub(crate) fn of_home(home: &Path) -> Result<Self> {
        let directory = home.join("server");
        let file = directory.join("token");
        let fail = |why: String| {
            Error::new(codes::TOKEN_UNUSABLE, format!("cannot use the token in {}", file.display()))
                .why(why)
        };
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&directory)
            .and_then(|()| create(&file));
        match made {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(fail(error.to_string()));
            }
            _ => {}
        }
        let text = read(&file).map_err(fail)?;
        Ok(Self { digest: Digest::of(text.as_bytes()), file })
    }

    /// Where it lies.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Who sent a request.
    ///
    /// # Errors
    /// `unauthorized`, whatever is wrong, in the same words.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller> {
        let refused = || Error::new(codes::UNAUTHORIZED, "the request has no valid token");
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = values.next().and_then(|value| value.to_str().ok()).ok_or_else(refused)?;
        if values.next().is_some() {
            return Err(refused());
        }
        let (scheme, sent) = value.split_once(' ').ok_or_else(refused)?;
        // Digests of equal length: neither the time nor the place of a difference says anything.
        let sent = Digest::of(sent.trim().as_bytes());
        let equal = sent.as_bytes().ct_eq(self.digest.as_bytes());
        if !scheme.eq_ignore_ascii_case("bearer") || !bool::from(equal) {
            return Err(refused());
        }
        let principal = Principal::new(PrincipalKind::User, "local", TenantId::local());
        Ok(Caller { principal })
    }
}

/// Writes a new token beside the place and links it there, so that nobody reads half of one.
fn create(file: &Path) -> std::io::Result<()> {
    if file.symlink_metadata().is_ok() {
        return Ok(());
    }
    let mut secret = Zeroizing::new([0_u8; SECRET_BYTES]);
    getrandom::fill(&mut *secret).map_err(|e| std::io::Error::other(e.to_string()))?;
    let hex: Zeroizing<String> =
        Zeroizing::new(secret.iter().map(|byte| format!("{byte:02x}")).collect());
    let beside = file.with_extension(format!("new-{}", std::process::id()));
    // Of a process of this number that was killed.
    let _ = std::fs::remove_file(&beside);
    let mut options = std::fs::OpenOptions::new();
    let mut new = options.write(true).create_new(true).mode(FILE_MODE).open(&beside)?;
    let written = new.write_all(format!("{PREFIX}{}\n", *hex).as_bytes());
    let linked =
        written.and_then(|()| new.sync_all()).and_then(|()| std::fs::hard_link(&beside, file));
    std::fs::remove_file(&beside)?;
    linked
}

/// Reads a token file that nobody else can read or exchange.
fn read(file: &Path) -> Result<Zeroizing<String>, String> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = flags | rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::open(file, flags, rustix::fs::Mode::empty());
    let opened = File::from(opened.map_err(|e| e.to_string())?);
    let found = opened.metadata().map_err(|e| e.to_string())?;
    if !found.is_file() || found.mode() & OTHERS_MODE != 0 {
        return Err("it is no file that only its owner can read".to_owned());
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to somebody else".to_owned());
    }
    let mut text = Zeroizing::new(String::new());
    opened.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(|e| e.to_string())?;
    let token = text.trim();
    let secret = token.strip_prefix(PREFIX).unwrap_or_default();
    if secret.len() != 2 * SECRET_BYTES || !secret.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("it holds no token".to_owned());
    }
    Ok(Zeroizing::new(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_token_of_the_file_is_let_in() {
        let home = tempfile::tempdir().unwrap();
        let token = Token::of_home(home.path()).unwrap();
        let text = std::fs::read_to_string(token.file()).unwrap();
        let text = text.trim();
        let check = |values: &[&str], is_let_in: bool| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(token.caller(&headers).is_ok(), is_let_in, "{values:?}");
        };
        let bearer = format!("Bearer {text}");
        check(&[&bearer], true);
        check(&[&format!("bearer {text}")], true);
        check(&[], false);
        check(&[text], false);
        check(&["Bearer "], false);
        check(&[&format!("Basic {text}")], false);
        check(&[&bearer[..bearer.len() - 1]], false);
        check(&[&format!("{bearer}0")], false);
        check(&[&bearer, &bearer], false);
        assert!(!format!("{token:?}").contains(text));
        // The next start has the same token.
        let again = Token::of_home(home.path()).unwrap();
        assert_eq!(again.digest, token.digest);
    }

    #[test]
    fn a_file_that_others_could_have_written_or_read_is_refused() {
        let check = |spoil: fn(&Path), expected: bool| {
            let home = tempfile::tempdir().unwrap();
            let file = Token::of_home(home.path()).unwrap().file().to_owned();
            spoil(&file);
            let again = Token::of_home(home.path());
            assert_eq!(again.is_ok(), expected, "{:?}", again.map(|_| ()));
        };
        check(|_| {}, true);
        check(
            |file| std::fs::set_permissions(file, PermissionsExt::from_mode(0o640)).unwrap(),
            false,
        );
        check(|file| std::fs::write(file, "glasshouse_12").unwrap(), false);
        check(|file| std::fs::write(file, "").unwrap(), false);
        let link = |file: &Path| {
            let kept = file.with_extension("kept");
            std::fs::rename(file, &kept).unwrap();
            std::os::unix::fs::symlink(&kept, file).unwrap();
        };
        check(link, false);
    }

    /// The failure: a server killed while it made its token left a file by its number, and each later one of
    /// that number, as in a container, did not start.
    /// Now: what stands there is litter.
    #[test]
    fn litter_of_a_killed_server_keeps_none_from_starting() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("server");
        std::fs::create_dir(&directory).unwrap();
        let litter = directory.join(format!("token.new-{}", std::process::id()));
        std::fs::write(&litter, "half").unwrap();
        Token::of_home(home.path()).unwrap();
        assert!(!litter.exists());
    }
}
