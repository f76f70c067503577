//! Files that are written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What is done with a name that is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// What it names is written, also where that is not there yet: a person gave the name.
    Followed,
    /// The file takes its place: who made the directory may have made it.
    Replaced,
}

/// Links that are followed one after the other, as many as the kernel does.
const MAX_LINKS: usize = 40;

/// Puts a text into a file: after a crash it is the old one or the new one. A file that is there keeps its
/// permissions. What is no file, such as a terminal, is written to.
pub(crate) fn write(file: &Path, text: &str, links: Links) -> io::Result<()> {
    let file = match links {
        Links::Followed if fs::metadata(file).is_ok_and(|about| !about.is_file()) => {
            return fs::write(file, text);
        }
        Links::Followed => followed(file)?,
        Links::Replaced => file.to_owned(),
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
    // A name nobody can have prepared, and never through a link.
    let mut new = OpenOptions::new().write(true).create_new(true).open(&unfinished)?;
    let mut written = || {
        if let Some(about) = fs::symlink_metadata(&file).ok().filter(fs::Metadata::is_file) {
            new.set_permissions(about.permissions())?;
        }
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        fs::rename(&unfinished, &file)
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(&unfinished);
    })?;
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// What a link names in the end.
fn followed(file: &Path) -> io::Result<PathBuf> {
    let mut file = file.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(named) = fs::read_link(&file) else { return Ok(file) };
        // A relative one begins where the link is.
        file = file.parent().unwrap_or_else(|| Path::new("")).join(named);
    }
    Err(io::Error::other("too many links, one after the other"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// The failure: a link to nothing was replaced by the file, though a person had named what it names.
    #[test]
    fn a_file_is_written_where_its_name_leads_and_nothing_else_is_left() {
        let names = |directory: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(directory).unwrap().map(|one| one.unwrap().file_name()).collect();
            names.sort();
            names
        };
        // In the one directory is what is written, in the other what it may link to.
        let check = |links: Links, prepare: &dyn Fn(&Path), expected: Result<&str, ()>| {
            let place = tempfile::tempdir().unwrap();
            let at = |name: &str| place.path().join(name);
            fs::create_dir(at("here")).unwrap();
            fs::create_dir(at("there")).unwrap();
            prepare(place.path());
            let before = (names(&at("here")), names(&at("there")));
            let done = write(&at("here/file"), "new", links);
            let Ok(written) = expected else {
                assert!(done.is_err(), "{links:?}");
                assert_eq!((names(&at("here")), names(&at("there"))), before, "{links:?}");
                return;
            };
            done.unwrap();
            assert_eq!(fs::read_to_string(at(written)).unwrap(), "new", "{links:?} {written}");
            assert!(fs::symlink_metadata(at(written)).unwrap().is_file(), "{links:?} {written}");
            assert_eq!(names(&at("here")), ["file"], "{links:?} {written}");
            if written == "here/file" {
                assert_eq!(names(&at("there")), before.1, "{links:?}");
                let other = fs::read_to_string(at("there/file"));
                assert!(other.is_err() || other.is_ok_and(|other| other == "old"), "{links:?}");
            }
        };
        let nothing = |_: &Path| {};
        let old = |place: &Path| fs::write(place.join("here/file"), "old").unwrap();
        let link = |place: &Path| symlink("../there/file", place.join("here/file")).unwrap();
        let link_to_old = |place: &Path| {
            link(place);
            fs::write(place.join("there/file"), "old").unwrap();
        };
        let links = |place: &Path| {
            symlink("../there/link", place.join("here/file")).unwrap();
            symlink(place.join("there/file"), place.join("there/link")).unwrap();
        };
        let circle = |place: &Path| symlink("file", place.join("here/file")).unwrap();
        let directory = |place: &Path| fs::create_dir(place.join("here/file")).unwrap();
        for both in [Links::Followed, Links::Replaced] {
            check(both, &nothing, Ok("here/file"));
            check(both, &old, Ok("here/file"));
            check(both, &directory, Err(()));
        }
        check(Links::Followed, &link, Ok("there/file"));
        check(Links::Followed, &link_to_old, Ok("there/file"));
        check(Links::Followed, &links, Ok("there/file"));
        check(Links::Followed, &circle, Err(()));
        check(Links::Replaced, &link, Ok("here/file"));
        check(Links::Replaced, &link_to_old, Ok("here/file"));
        check(Links::Replaced, &circle, Ok("here/file"));
    }

    #[test]
    fn a_file_that_is_there_keeps_its_permissions() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        for links in [Links::Followed, Links::Replaced] {
            write(&file, "new", links).unwrap();
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o640, "{links:?}");
        }
    }
}
