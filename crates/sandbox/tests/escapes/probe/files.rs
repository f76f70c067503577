//! Files, what is mounted, what `/proc` shows, and what belongs to a file: locks, leases, watches.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::{Outcome, checked, number, refusal};

pub(crate) fn attempt(name: &str, arguments: &[&str]) -> Option<Outcome> {
    Some(match (name, arguments) {
        ("show", [path]) => show(path),
        ("read-any", paths) => any(paths, read_some),
        ("open-any", paths) => any(paths, |path| File::open(path).map(drop)),
        ("write-any", paths) => {
            any(paths, |path| OpenOptions::new().write(true).open(path).map(drop))
        }
        ("list-any", paths) => any(paths, list),
        ("touch", [path]) => touch(path),
        ("write-pipe", [path]) => write_pipe(path),
        ("set-attribute", [path]) => set_attribute(path),
        ("whole-lock", [path]) => whole_lock(path),
        ("record-lock", [path]) => record_lock(path),
        ("lease", [path]) => lease(path),
        ("watch", [path]) => watch(path),
        ("watch-old", [path]) => watch_old(path),
        ("handle", [path]) => handle(path),
        ("make-cgroup", []) => make_cgroup(),
        ("environment", known) => environment(known),
        ("capable", []) => capable(),
        ("is-root", []) => is_root(),
        _ => return None,
    })
}

fn text(path: &str) -> CString {
    CString::new(Path::new(path).as_os_str().as_bytes()).unwrap_or_default()
}

/// The first of several that succeeds, or the last refusal.
fn any(paths: &[&str], act: impl Fn(&str) -> Outcome) -> Outcome {
    let mut last = Err(refusal("nothing was named"));
    for path in paths {
        last = act(path);
        if last.is_ok() {
            println!("{path}");
            break;
        }
    }
    last
}

/// Prints what a file begins with; the runner looks for what it hid in it.
fn show(path: &str) -> Outcome {
    let mut bytes = Vec::new();
    File::open(path)?.take(64 << 10).read_to_end(&mut bytes)?;
    std::io::stdout().write_all(&bytes)
}

/// Succeeds when there is at least one byte.
fn read_some(path: &str) -> Outcome {
    let mut byte = [0];
    match File::open(path)?.read(&mut byte)? {
        0 => Err(refusal("it is empty")),
        _ => Ok(()),
    }
}

fn list(path: &str) -> Outcome {
    fs::read_dir(path)?.next().ok_or_else(|| refusal("it is empty"))?.map(drop)
}

fn touch(path: &str) -> Outcome {
    let path = text(path);
    // SAFETY: the path is a valid C string; a null time means now.
    checked(i64::from(unsafe {
        libc::utimensat(libc::AT_FDCWD, path.as_ptr(), std::ptr::null(), 0)
    }))
    .map(drop)
}

/// A pipe whose other end is outside: whether there is a reader tells whether it is the same pipe.
fn write_pipe(path: &str) -> Outcome {
    let path = text(path);
    // SAFETY: the path is a valid C string.
    let fd = checked(i64::from(unsafe {
        libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_NONBLOCK)
    }))?;
    let fd = i32::try_from(fd).map_err(|_| refusal("no descriptor"))?;
    // SAFETY: one byte is read from a live array.
    checked(i64::try_from(unsafe { libc::write(fd, b"x".as_ptr().cast(), 1) }).unwrap_or(-1))
        .map(drop)
}

fn set_attribute(path: &str) -> Outcome {
    let path = text(path);
    // SAFETY: all pointers are valid C strings or have the given length.
    checked(i64::from(unsafe {
        libc::setxattr(path.as_ptr(), c"user.planted".as_ptr(), b"x".as_ptr().cast(), 1, 0)
    }))
    .map(drop)
}

/// Whether a lock that somebody outside holds is felt here: then one held here is felt there.
fn felt(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

fn whole_lock(path: &str) -> Outcome {
    let file = File::open(path)?;
    // SAFETY: a plain system call on an open descriptor.
    let taken = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    match checked(i64::from(taken)) {
        Err(error) if felt(&error) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(refusal("the lock outside is not felt")),
    }
}

fn record_lock(path: &str) -> Outcome {
    let file = File::open(path)?;
    // SAFETY: flock is plain data; the descriptor is open and the structure valid.
    let taken = unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::c_short::try_from(libc::F_RDLCK).unwrap_or_default();
        libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock)
    };
    match checked(i64::from(taken)) {
        Err(error) if felt(&error) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(refusal("the lock outside is not felt")),
    }
}

/// A lease makes whoever opens the file for writing wait; the runner tries to.
fn lease(path: &str) -> Outcome {
    let file = File::open(path)?;
    // SAFETY: plain system calls on an open descriptor; the signal's default would end us.
    let leased = unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK)
    };
    checked(i64::from(leased))?;
    ready();
    std::thread::sleep(std::time::Duration::from_millis(700));
    // SAFETY: as above. A lease that somebody wants broken is no longer the one that was taken.
    let now = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) };
    if now == libc::F_RDLCK { Err(refusal("nobody outside waited for the lease")) } else { Ok(()) }
}

/// Tells the runner to do outside what this attempt wants to notice.
fn ready() {
    println!("ready");
    let _ = std::io::stdout().flush();
}

fn watch(path: &str) -> Outcome {
    let path = text(path);
    // SAFETY: the path is a valid C string.
    let fd = checked(i64::from(unsafe { libc::inotify_init1(libc::IN_NONBLOCK) }))?;
    let fd = i32::try_from(fd).map_err(|_| refusal("no descriptor"))?;
    // SAFETY: as above.
    checked(i64::from(unsafe {
        libc::inotify_add_watch(fd, path.as_ptr(), libc::IN_OPEN | libc::IN_MODIFY)
    }))?;
    ready();
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    match checked(i64::from(unsafe { libc::poll(&raw mut poll, 1, 700) }))? {
        0 => Err(refusal("nothing outside was noticed")),
        _ => Ok(()),
    }
}

/// The older way to watch, by signal.
fn watch_old(path: &str) -> Outcome {
    const DN_ACCESS: i32 = 1;
    const DN_MULTISHOT: i32 = i32::MIN;
    let directory = File::open(path)?;
    // SAFETY: the set is initialised before use; all pointers are valid.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGIO);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        checked(i64::from(libc::fcntl(
            directory.as_raw_fd(),
            libc::F_NOTIFY,
            DN_ACCESS | DN_MULTISHOT,
        )))?;
        ready();
        let wait = libc::timespec { tv_sec: 0, tv_nsec: 700_000_000 };
        checked(i64::from(libc::sigtimedwait(
            &raw const set,
            std::ptr::null_mut(),
            &raw const wait,
        )))
        .map(drop)
    }
}

/// Opens a file by the number that its file system knows it by, past every directory.
fn handle(path: &str) -> Outcome {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        data: [u8; 128],
    }
    let mut handle = Handle { bytes: 128, kind: 0, data: [0; 128] };
    let mut mount = 0;
    let path = text(path);
    // SAFETY: the structure begins as the kernel's and says how many bytes follow.
    unsafe {
        checked(libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        ))?;
        let at = checked(i64::from(libc::open(path.as_ptr(), libc::O_RDONLY)))?;
        checked(libc::syscall(libc::SYS_open_by_handle_at, at, &raw mut handle, libc::O_RDONLY))
            .map(drop)
    }
}

/// Makes a group in any hierarchy that is mounted here.
fn make_cgroup() -> Outcome {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mut last = Err(refusal("no cgroup file system is mounted"));
    for line in mounts.lines().filter(|line| line.contains(" - cgroup")) {
        let Some(point) = line.split(' ').nth(4) else { continue };
        let place = Path::new(point).join(format!("planted-{}", std::process::id()));
        last = fs::create_dir(&place).and_then(|()| fs::remove_dir(&place));
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Succeeds when there is a variable that was not named.
fn environment(known: &[&str]) -> Outcome {
    match std::env::vars_os().find(|(name, _)| !known.iter().any(|known| name == known)) {
        Some((name, _)) => {
            println!("{}", name.display());
            Ok(())
        }
        None => Err(refusal("only known variables")),
    }
}

fn status(field: &str) -> std::io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(found.unwrap_or_default().trim().to_owned())
}

/// Succeeds when this process has any right beyond an ordinary user's.
fn capable() -> Outcome {
    let held = status("CapEff")?;
    if u64::from_str_radix(&held, 16).unwrap_or(0) == 0 {
        return Err(refusal("no capability"));
    }
    Ok(())
}

fn is_root() -> Outcome {
    let ids = status("Uid")?;
    let effective = ids.split_whitespace().nth(1).unwrap_or_default();
    match number::<u32>(effective)? {
        0 => Ok(()),
        id => Err(refusal(&format!("user {id}"))),
    }
}
