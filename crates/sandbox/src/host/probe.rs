//! One attack at a time, on whatever it runs in.
//!
//! Inside a sandbox each must fail; outside the same program must succeed with it, or its failure
//! proves nothing. The doctor uses them on its own sandbox, the tests on both sides.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, test_kill_process};

/// Exit status: the attack succeeded.
pub(crate) const REACHED: i32 = 0;
/// Exit status: it was refused.
pub(crate) const REFUSED: i32 = 1;
/// Exit status: there is no such attack.
const UNKNOWN: i32 = 2;

/// How long a connection attempt may take; the targets are on this machine.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Runs the attack that `arguments` name and says on standard output how it went.
pub(crate) fn main(arguments: &[String]) -> i32 {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["read", path] => fs::read(path).map(drop),
        ["write", path] => {
            OpenOptions::new().write(true).create(true).truncate(false).open(path).map(drop)
        }
        ["hard-link", from, to] => fs::hard_link(from, to),
        ["write-through-link", target, link] => symlink(target, link).and_then(|()| {
            OpenOptions::new().write(true).create(true).truncate(false).open(link).map(drop)
        }),
        ["signal", pid] => process(pid).and_then(|pid| Ok(test_kill_process(pid)?)),
        ["trace", pid] => process(pid).and_then(trace),
        ["mount"] => mount("none", "/tmp", "tmpfs", MountFlags::empty(), None).map_err(Into::into),
        ["device", path] => device(path),
        ["connect", address] => connect(address),
        ["abstract", name] => SocketAddr::from_abstract_name(name)
            .and_then(|at| UnixStream::connect_addr(&at))
            .map(drop),
        ["socket", family] => socket(family),
        ["descriptors"] => descriptors(),
        // Controls, which nothing contains: one leaves nothing behind, one has what an attack looks for.
        ["apart", "mount"] => {
            apart().and_then(|()| Ok(mount("none", "/tmp", "tmpfs", MountFlags::empty(), None)?))
        }
        ["apart", "device"] => apart()
            .and_then(|()| Ok(mount("none", "/tmp", "tmpfs", MountFlags::empty(), None)?))
            .and_then(|()| device("/tmp/planted")),
        ["inherited", "descriptors"] => {
            let more = fs::File::open("/dev/null");
            more.and_then(|more| descriptors().map(|()| drop(more)))
        }
        ["spawn"] => std::process::Command::new("/bin/true").status().map(drop),
        ["call", name] => call(name),
        ["memory", bytes] => number(bytes).and_then(memory),
        ["processes", count] => number(count).and_then(processes),
        _ => return UNKNOWN,
    };
    let (text, code) = match outcome {
        Ok(()) => ("reached".to_owned(), REACHED),
        Err(error) => (format!("refused: {error}"), REFUSED),
    };
    // The exit status carries the answer even when nobody reads the text.
    let _ = writeln!(io::stdout(), "{text}");
    code
}

fn process(pid: &str) -> io::Result<Pid> {
    pid.parse().ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput.into())
}

fn number(text: &str) -> io::Result<usize> {
    text.parse().map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Uses this much memory: what is only reserved costs nothing.
fn memory(bytes: usize) -> io::Result<()> {
    let mut taken: Vec<u8> = Vec::new();
    taken.try_reserve_exact(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    taken.resize(bytes, 1);
    std::hint::black_box(&taken);
    Ok(())
}

/// Has this many processes at one time.
fn processes(count: usize) -> io::Result<()> {
    let mut children = Vec::new();
    let mut sleeping = || -> io::Result<()> {
        for _ in 0..count {
            children.push(std::process::Command::new("/bin/sleep").arg("10").spawn()?);
        }
        Ok(())
    };
    let outcome = sleeping();
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

fn raw(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn trace(pid: Pid) -> io::Result<()> {
    // SAFETY: seizing reads no memory of ours; the tracee is released when this process ends.
    raw(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid.as_raw_nonzero().get(), 0usize, 0usize) })
}

/// Leaves the machine's mounts alone from here on: what is mounted now is this process's own.
fn apart() -> io::Result<()> {
    let user = if rustix::process::geteuid().is_root() { 0 } else { libc::CLONE_NEWUSER };
    // SAFETY: changes this process only, which has one thread and ends right after.
    raw(i64::from(unsafe { libc::unshare(libc::CLONE_NEWNS | user) }))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", private)?)
}

/// Makes a device node for this machine's memory device.
fn device(path: &str) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    Ok(mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 1))?)
}

fn connect(address: &str) -> io::Result<()> {
    let address = address.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    TcpStream::connect_timeout(&address, CONNECT_LIMIT).map(drop)
}

/// Opens a socket of a family, given by number: the type does not matter for the family filter.
fn socket(family: &str) -> io::Result<()> {
    let family: i32 = family.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let kind = if family == libc::AF_PACKET { libc::SOCK_RAW } else { libc::SOCK_STREAM };
    // SAFETY: a plain system call; the descriptor ends with this process.
    raw(i64::from(unsafe { libc::socket(family, kind, 0) }))
}

/// Succeeds when anything but the standard streams was inherited.
fn descriptors() -> io::Result<()> {
    for number in 3..1024 {
        // SAFETY: asks about a number, whatever it is.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0 {
            return Ok(());
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Calls with arguments that the kernel would refuse later than any filter: a filter answers
/// "not permitted" or "not implemented", the kernel itself something else.
fn call(name: &str) -> io::Result<()> {
    const NULL: usize = 0;
    const BAD: i64 = -1;
    // SAFETY: every pointer is null or absent, so the kernel reads and writes nothing; the
    // namespace calls change this process only, which ends right after.
    let result = unsafe {
        match name {
            "io_uring" => libc::syscall(libc::SYS_io_uring_setup, 1, NULL),
            "userfaultfd" => libc::syscall(libc::SYS_userfaultfd, BAD),
            "bpf" => libc::syscall(libc::SYS_bpf, BAD, NULL, 0),
            "keyctl" => libc::syscall(libc::SYS_keyctl, BAD, 0, 0, 0, 0),
            "perf" => libc::syscall(libc::SYS_perf_event_open, NULL, 0, -1, -1, 0),
            "open_by_handle" => libc::syscall(libc::SYS_open_by_handle_at, -1, NULL, 0),
            "unshare" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER),
            "clone" => {
                libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0)
            }
            "clone3" => libc::syscall(libc::SYS_clone3, NULL, 0),
            // On standard input, which is no terminal: the kernel itself would say so.
            "terminal" => libc::ioctl(0, libc::TIOCSTI, NULL).into(),
            "setns" => libc::syscall(libc::SYS_setns, -1, 0),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    };
    if name == "clone" && result == 0 {
        super::sys::exit_now(0);
    }
    match raw(result) {
        Err(error)
            if [Errno::PERM, Errno::NOSYS]
                .map(|e| Some(e.raw_os_error()))
                .contains(&error.raw_os_error()) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}
