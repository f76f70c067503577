//! Other processes, and rights over them; memory and messages that processes share.

use crate::{Outcome, checked, number, refusal};

pub(crate) fn attempt(name: &str, arguments: &[&str]) -> Option<Outcome> {
    Some(match (name, arguments) {
        ("kill", [pid]) => number(pid).and_then(kill),
        ("signal-by-descriptor", [pid]) => number(pid).and_then(signal_by_descriptor),
        ("read-memory", [pid]) => number(pid).and_then(read_memory),
        ("take-descriptor", [pid, fd]) => {
            number(pid).and_then(|pid| take_descriptor(pid, number(fd)?))
        }
        ("process-handle", [pid]) => number(pid).and_then(|pid| process_handle(pid).map(drop)),
        ("limit-other", [pid]) => number(pid).and_then(limit_other),
        ("slow-other", [pid]) => number(pid).and_then(slow_other),
        ("idle-other", [pid]) => number(pid).and_then(idle_other),
        ("idle-io-other", [pid]) => number(pid).and_then(idle_io_other),
        ("realtime", []) => realtime(),
        ("hurry", []) => hurry(),
        ("become-root", []) => become_root(),
        ("raise-capabilities", []) => raise_capabilities(),
        ("type-into-terminal", []) => type_into_terminal(),
        ("line-discipline", []) => line_discipline(),
        ("shared-memory", [key]) => number(key).and_then(shared_memory),
        ("message-queue", [key]) => number(key).and_then(message_queue),
        ("semaphores", [key]) => number(key).and_then(semaphores),
        ("named-queue", [name]) => named_queue(name),
        _ => return None,
    })
}

fn kill(pid: i32) -> Outcome {
    // SAFETY: a plain system call.
    checked(i64::from(unsafe { libc::kill(pid, libc::SIGKILL) })).map(drop)
}

/// Makes another process the owner of a pipe that has something to read.
fn signal_by_descriptor(pid: i32) -> Outcome {
    const SET_SIGNAL: i32 = 10;
    let mut ends = [0; 2];
    // SAFETY: plain system calls on descriptors that the first of them makes.
    unsafe {
        checked(i64::from(libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_STREAM,
            0,
            ends.as_mut_ptr(),
        )))?;
        checked(i64::from(libc::fcntl(ends[0], libc::F_SETOWN, pid)))?;
        checked(i64::from(libc::fcntl(ends[0], SET_SIGNAL, libc::SIGKILL)))?;
        checked(i64::from(libc::fcntl(ends[0], libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK)))?;
        checked(i64::try_from(libc::write(ends[1], b"x".as_ptr().cast(), 1)).unwrap_or(-1))?;
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    println!("survived");
    Ok(())
}

/// Reads another process's stack.
fn read_memory(pid: i32) -> Outcome {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let stack = maps.lines().find(|line| line.ends_with("[stack]"));
    let start = stack.and_then(|line| line.split('-').next()).unwrap_or_default();
    let start = usize::from_str_radix(start, 16).map_err(|_| refusal("no stack"))?;
    let mut bytes = [0_u8; 16];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the local buffer is valid for its length; the remote address is the kernel's to check.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    checked(i64::try_from(read).unwrap_or(-1)).map(drop)
}

fn process_handle(pid: i32) -> std::io::Result<i64> {
    // SAFETY: a plain system call.
    checked(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

fn take_descriptor(pid: i32, fd: i32) -> Outcome {
    let handle = process_handle(pid)?;
    // SAFETY: a plain system call.
    checked(unsafe { libc::syscall(libc::SYS_pidfd_getfd, handle, fd, 0) }).map(drop)
}

/// Lowers what another process may have open, for it and for all that it starts later.
fn limit_other(pid: i32) -> Outcome {
    let limit = libc::rlimit { rlim_cur: 900, rlim_max: 900 };
    // SAFETY: the new limit is valid and the old one is not asked for.
    checked(i64::from(unsafe {
        libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())
    }))
    .map(drop)
}

fn slow_other(pid: i32) -> Outcome {
    let who = pid.cast_unsigned();
    // SAFETY: a plain system call.
    checked(i64::from(unsafe { libc::setpriority(libc::PRIO_PROCESS, who, 10) })).map(drop)
}

fn idle_other(pid: i32) -> Outcome {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid.
    checked(i64::from(unsafe {
        libc::sched_setscheduler(pid, libc::SCHED_IDLE, &raw const parameter)
    }))
    .map(drop)
}

fn idle_io_other(pid: i32) -> Outcome {
    const OF_PROCESS: i32 = 1;
    const IDLE: i32 = 3 << 13;
    // SAFETY: a plain system call.
    checked(unsafe { libc::syscall(libc::SYS_ioprio_set, OF_PROCESS, pid, IDLE) }).map(drop)
}

fn realtime() -> Outcome {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is valid.
    checked(i64::from(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter)
    }))
    .map(drop)
}

fn hurry() -> Outcome {
    // SAFETY: a plain system call.
    checked(i64::from(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -5) })).map(drop)
}

fn become_root() -> Outcome {
    // SAFETY: plain system calls.
    unsafe {
        checked(i64::from(libc::setresgid(0, 0, 0)))?;
        checked(i64::from(libc::setresuid(0, 0, 0))).map(drop)
    }
}

/// Takes every right that it is not forbidden to take.
fn raise_capabilities() -> Outcome {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    const SYS_ADMIN: u32 = 1 << 21;
    let header = Header { version: VERSION_3, pid: 0 };
    let sets: [u32; 6] = [SYS_ADMIN, SYS_ADMIN, 0, 0, 0, 0];
    // SAFETY: header and sets have the layout of version 3.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) }).map(drop)
}

/// Makes a terminal, takes it as its own and types into it.
fn type_into_terminal() -> Outcome {
    // SAFETY: plain system calls on descriptors of our own; the child becomes leader of a session.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        checked(i64::from(master))?;
        checked(i64::from(libc::grantpt(master)))?;
        checked(i64::from(libc::unlockpt(master)))?;
        let name = std::ffi::CStr::from_ptr(libc::ptsname(master)).to_owned();
        let child = libc::fork();
        if child == 0 {
            libc::setsid();
            let terminal = libc::open(name.as_ptr(), libc::O_RDWR);
            let typed = libc::ioctl(terminal, libc::TIOCSTI, b"x".as_ptr());
            libc::_exit(if typed == 0 { 0 } else { *libc::__errno_location() });
        }
        let mut status = 0;
        checked(i64::from(libc::waitpid(child, &raw mut status, 0)))?;
        match libc::WEXITSTATUS(status) {
            0 => Ok(()),
            errno => Err(std::io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Hands a terminal to a protocol; the usual one will do, which is there in every kernel.
fn line_discipline() -> Outcome {
    let usual: libc::c_int = 0;
    // SAFETY: plain system calls on a descriptor of our own, with a valid number.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        checked(i64::from(master))?;
        checked(i64::from(libc::ioctl(master, libc::TIOCSETD, &raw const usual))).map(drop)
    }
}

fn shared_memory(key: i32) -> Outcome {
    // SAFETY: a plain system call.
    checked(i64::from(unsafe { libc::shmget(key, 1, 0) })).map(drop)
}

fn message_queue(key: i32) -> Outcome {
    // SAFETY: a plain system call.
    checked(i64::from(unsafe { libc::msgget(key, 0) })).map(drop)
}

fn semaphores(key: i32) -> Outcome {
    // SAFETY: a plain system call.
    checked(i64::from(unsafe { libc::semget(key, 1, 0) })).map(drop)
}

fn named_queue(name: &str) -> Outcome {
    let name = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: the name is a valid C string.
    checked(i64::from(unsafe { libc::mq_open(name.as_ptr(), libc::O_RDONLY) })).map(drop)
}
