//! Ways out of a workspace, each with a control: the same attack on plain file calls gets out.

use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glasshouse_sandbox::view::{Intent, ResolvedPath, View};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};

use crate::view::Workspace;

const SECRET: &str = "outside";

/// A workspace with a secret beside it.
fn beside_a_secret(files: &[(&str, &str)]) -> Workspace {
    let workspace = Workspace::with(files);
    fs::write(workspace.outside().join("secret"), SECRET).unwrap();
    workspace
}

/// Reads through a view; a refusal is its code.
fn guarded(view: &View, text: &str) -> Result<String, &'static str> {
    let path = view.resolve(text, Intent::Read).map_err(|error| error.code())?;
    let bytes = path.read(1 << 10).map_err(|error| error.code())?.bytes;
    Ok(String::from_utf8(bytes).unwrap())
}

/// Reads as a careless program does.
fn careless(root: &Path, text: &str) -> String {
    fs::read_to_string(root.join(text)).unwrap()
}

/// Writes where a resolved place says, as the code that acts on it does.
fn write_at(path: &ResolvedPath, content: &str) -> rustix::io::Result<()> {
    let place = path.place().unwrap();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
    // The place itself is an `O_PATH` descriptor: names are looked up in it, nothing else.
    let fd = rustix::fs::openat(place.directory, place.name, flags, Mode::from(0o600))?;
    rustix::io::write(&fd, content.as_bytes()).map(drop)
}

#[test]
fn dots_and_absolute_paths_do_not_get_out() {
    let workspace = beside_a_secret(&[("src/a", "a")]);
    let view = workspace.view();
    let absolute = workspace.outside().join("secret").to_str().unwrap().to_owned();
    for text in ["../secret", "src/../../secret", "./src/.././../secret", &absolute] {
        assert_eq!(careless(&workspace.path(), text), SECRET, "control: {text}");
        assert_eq!(guarded(&view, text), Err("path_outside_workspace"), "{text}");
    }
    // The mount prefix is stripped once and gives no second start.
    assert_eq!(guarded(&view, "/workspace/../secret"), Err("path_outside_workspace"));
}

#[test]
fn links_do_not_get_out() {
    let workspace = beside_a_secret(&[
        ("direct", "-> ../secret"),
        ("dir", "-> .."),
        ("deep/er/link", "-> ../../../secret"),
        ("hop", "-> direct"),
        ("src/a", "a"),
    ]);
    symlink(workspace.outside().join("secret"), workspace.path().join("absolute")).unwrap();
    let view = workspace.view();
    for text in ["direct", "dir/secret", "deep/er/link", "hop", "absolute"] {
        assert_eq!(careless(&workspace.path(), text), SECRET, "control: {text}");
        assert_eq!(guarded(&view, text), Err("path_outside_workspace"), "{text}");
        for intent in [Intent::Any, Intent::Directory] {
            let code = view.resolve(text, intent).unwrap_err().code();
            assert_eq!(code, "path_outside_workspace", "{text} {intent:?}");
        }
    }
}

#[test]
fn d6_a_dangling_link_creates_nothing_outside() {
    let workspace = Workspace::with(&[("d", "-> ../new"), ("e", "-> src/new"), ("src/a", "")]);
    let view = workspace.view();
    for text in ["d", "e"] {
        let code = view.resolve(text, Intent::Create).unwrap_err().code();
        assert_eq!(code, "link_refused");
    }
    assert!(!workspace.outside().join("new").exists());
    assert!(!workspace.path().join("src/new").exists());

    fs::write(workspace.path().join("d"), "x").unwrap();
    assert!(workspace.outside().join("new").exists(), "control");
}

#[test]
fn a_parent_that_is_a_link_outside_is_no_place() {
    let workspace = Workspace::with(&[("up", "-> ..")]);
    let code = workspace.view().resolve("up/new", Intent::Create).unwrap_err().code();
    assert_eq!(code, "path_outside_workspace");

    fs::write(workspace.path().join("up/new"), "x").unwrap();
    assert!(workspace.outside().join("new").exists(), "control");
}

/// A hard link inside a workspace is an ordinary file. It is no way out, because whoever makes one
/// must be able to name the file, and a sandbox can name nothing but its workspace; this test makes
/// one from outside the sandbox and so sees it read like any other file.
#[test]
fn a_hard_link_is_an_ordinary_file() {
    let workspace = beside_a_secret(&[]);
    fs::hard_link(workspace.outside().join("secret"), workspace.path().join("hard")).unwrap();
    assert_eq!(guarded(&workspace.view(), "hard"), Ok(SECRET.to_owned()));
}

/// A view of a directory full of magic links: they jump anywhere without naming a path.
#[test]
fn magic_links_are_never_followed() {
    let workspace = beside_a_secret(&[]);
    let secret = fs::File::open(workspace.outside().join("secret")).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&secret);
    let absolute = workspace.outside().join("secret");
    let through_root = format!("root{}", absolute.display());
    let view = View::new(fs::File::open("/proc/self").unwrap().into()).unwrap();
    for text in [through_root, format!("fd/{number}"), "cwd/Cargo.toml".to_owned()] {
        assert!(!careless(Path::new("/proc/self"), &text).is_empty(), "control: {text}");
        assert_eq!(guarded(&view, &text), Err("path_outside_workspace"), "{text}");
        assert!(view.resolve(&text, Intent::Any).is_err(), "{text}");
    }

    // The same links reached by a link in an ordinary workspace.
    symlink(format!("/proc/self/root{}", absolute.display()), workspace.path().join("m")).unwrap();
    assert_eq!(careless(&workspace.path(), "m"), SECRET, "control");
    assert_eq!(guarded(&workspace.view(), "m"), Err("path_outside_workspace"));
}

#[test]
fn special_files_are_refused_without_blocking() {
    let workspace = Workspace::with(&[]);
    let pipe = workspace.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(workspace.path().join("socket")).unwrap();
    let view = workspace.view();
    let started = Instant::now();
    for text in ["pipe", "socket"] {
        for intent in [Intent::Read, Intent::Create, Intent::Any] {
            let code = view.resolve(text, intent).unwrap_err().code();
            assert_eq!(code, "special_file", "{text} {intent:?}");
        }
    }
    let root = view.resolve(".", Intent::Directory).unwrap();
    view.walk(&root, &mut |entry| {
        assert_eq!(entry.read(1).unwrap_err().code(), "special_file");
        true
    })
    .unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));

    // Control: a careless reader of the pipe waits until somebody writes.
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!reader.is_finished(), "control");
    fs::write(&pipe, "done").unwrap();
    assert_eq!(reader.join().unwrap(), b"done");

    let devices = View::new(fs::File::open("/dev").unwrap().into()).unwrap();
    assert_eq!(guarded(&devices, "null"), Err("special_file"));
    let mut byte = [0];
    fs::File::open("/dev/zero").unwrap().read_exact(&mut byte).unwrap();
}

/// Swaps a directory and a link for each other until told to stop.
struct Racer<'scope> {
    stop: &'scope AtomicBool,
    first: PathBuf,
    second: PathBuf,
}

impl Racer<'_> {
    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            renameat_with(CWD, &self.first, CWD, &self.second, RenameFlags::EXCHANGE).unwrap();
        }
    }
}

/// Runs `act` while `d` in the workspace is now a directory, now a link to the place outside.
fn while_swapping<T>(workspace: &Workspace, act: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let racer = Racer {
        stop: &stop,
        first: workspace.path().join("d"),
        second: workspace.path().join("other"),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| racer.run());
        let result = act();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Opens while the path is swapped; enough that a race that can be lost is lost many times.
const RACED_OPENS: usize = 20_000;
/// A control that never escapes in this time means that the attack is broken.
const CONTROL_LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_link_swapped_in_during_a_read_does_not_get_out() {
    let workspace = beside_a_secret(&[("d/secret", "inside"), ("other", "-> ..")]);
    let view = workspace.view();
    let root = fs::canonicalize(workspace.path()).unwrap();

    let (mut read, mut refused) = (0, 0);
    while_swapping(&workspace, || {
        for _ in 0..RACED_OPENS {
            match guarded(&view, "d/secret") {
                Ok(content) => {
                    assert_eq!(content, "inside");
                    read += 1;
                }
                Err("path_outside_workspace" | "path_changed") => refused += 1,
                Err(code) => panic!("unexpected {code}"),
            }
        }
    });
    assert!(read > 0 && refused > 0, "the race was not run: {read} read, {refused} refused");

    let escaped = while_swapping(&workspace, || {
        let started = Instant::now();
        while started.elapsed() < CONTROL_LIMIT {
            let path = root.join("d/secret");
            let checked = fs::canonicalize(&path).is_ok_and(|real| real.starts_with(&root));
            if checked && fs::read_to_string(&path).is_ok_and(|content| content == SECRET) {
                return true;
            }
        }
        false
    });
    assert!(escaped, "control: check-then-open was never raced");
}

#[test]
fn d7_a_link_swapped_in_during_a_write_does_not_get_out() {
    let workspace = Workspace::with(&[("d/keep", ""), ("other", "-> ..")]);
    let view = workspace.view();
    let root = fs::canonicalize(workspace.path()).unwrap();
    let escape = workspace.outside().join("new");

    let mut written = 0;
    while_swapping(&workspace, || {
        for _ in 0..RACED_OPENS {
            match view.resolve("d/new", Intent::Create) {
                Ok(path) => {
                    assert_eq!(path.canonical().as_str(), "d/new");
                    write_at(&path, "x").unwrap();
                    written += 1;
                }
                Err(error) => {
                    assert!(["path_outside_workspace", "path_changed"].contains(&error.code()));
                }
            }
        }
    });
    assert!(written > 0);
    assert!(!escape.exists());

    let escaped = while_swapping(&workspace, || {
        let started = Instant::now();
        while started.elapsed() < CONTROL_LIMIT {
            let checked =
                fs::canonicalize(root.join("d")).is_ok_and(|real| real.starts_with(&root));
            if checked && fs::write(root.join("d/new"), "x").is_ok() && escape.exists() {
                return true;
            }
        }
        false
    });
    assert!(escaped, "control: check-then-write was never raced");
}

/// The last component swapped between a file and a link: the open itself must not follow it.
#[test]
fn a_final_link_swapped_in_is_never_followed() {
    let workspace = beside_a_secret(&[("d", "inside"), ("other", "-> ../secret")]);
    let view = workspace.view();
    while_swapping(&workspace, || {
        for _ in 0..RACED_OPENS {
            for intent in [Intent::Read, Intent::Create] {
                if let Ok(path) = view.resolve("d", intent) {
                    assert_eq!(path.canonical().as_str(), "d");
                    assert_eq!(path.read(100).unwrap().bytes, b"inside");
                }
            }
        }
    });
    let escaped = while_swapping(&workspace, || {
        let started = Instant::now();
        while started.elapsed() < CONTROL_LIMIT {
            if careless(&workspace.path(), "d") == SECRET {
                return true;
            }
        }
        false
    });
    assert!(escaped, "control");
}

/// What was decided on stays what is acted on, even if the name moves afterwards.
#[test]
fn a_resolved_path_keeps_its_file() {
    let workspace = beside_a_secret(&[("a", "decided"), ("b", "other")]);
    let view = workspace.view();
    let path = view.resolve("a", Intent::Read).unwrap();
    fs::rename(workspace.path().join("b"), workspace.path().join("a")).unwrap();
    assert_eq!(path.read(100).unwrap().bytes, b"decided");
    assert!(path.descriptor().is_some_and(|fd| fd.as_fd().try_clone_to_owned().is_ok()));
    assert_eq!(careless(&workspace.path(), "a"), "other", "control");
}
