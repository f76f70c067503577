//! The few system calls that have no safe wrapper, each behind a narrow function.
//!
//! Everything here is called from single-threaded processes only: the host process and the first
//! process of a sandbox. That is what makes forking without `exec` sound.

use std::ffi::{CStr, CString, c_char};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{Errno, Result};

/// A child made by [`clone3`].
pub(crate) enum Forked<T> {
    /// In the new process.
    Child,
    /// In the old one.
    Parent(T),
}

fn check(result: i64) -> Result<i64> {
    if result < 0 {
        return Err(std::io::Error::last_os_error()
            .raw_os_error()
            .map_or(Errno::INVAL, Errno::from_raw_os_error));
    }
    Ok(result)
}

/// Whose child a clone becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The caller's.
    Caller,
    /// The caller's parent's: the clone is a sibling.
    OfCaller,
}

/// Makes a process in new namespaces, optionally inside a cgroup, that continues here.
pub(crate) fn clone3(
    namespaces: i32,
    cgroup: Option<BorrowedFd<'_>>,
    parent: Parent,
) -> Result<Forked<(i32, OwnedFd)>> {
    let mut pidfd: RawFd = -1;
    // SAFETY: all fields of `clone_args` are integers, for which zero means "not used".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    let flags = namespaces | libc::CLONE_PIDFD;
    args.flags = u64::from(flags.cast_unsigned());
    args.pidfd = (&raw mut pidfd).expose_provenance() as u64;
    match parent {
        Parent::Caller => args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned()),
        // A sibling tells its parent as the caller would.
        Parent::OfCaller => args.flags |= u64::from(libc::CLONE_PARENT.cast_unsigned()),
    }
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::from(cgroup.as_raw_fd().cast_unsigned());
    }
    // SAFETY: `args` is a valid clone_args of the given size. Without CLONE_VM and with no stack
    // the call behaves like fork, and the caller is single-threaded.
    let pid = check(unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>())
    })?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    // SAFETY: the kernel stored a new descriptor there, which nothing else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Forked::Parent((i32::try_from(pid).map_err(|_| Errno::OVERFLOW)?, pidfd)))
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Where a process that is about to become a program runs until then.
pub(crate) struct Stack(Vec<u8>);

impl Stack {
    /// Deep enough for some system calls and a line of text.
    const BYTES: usize = 64 << 10;

    pub(crate) fn new() -> Self {
        Self(vec![0; Self::BYTES])
    }
}

/// Starts a process that runs `act` on `subject`, which replaces itself by a program or ends, and
/// waits until it has. Until then both share their memory, so nothing of it is copied: a copy would
/// cost more than most of what a short command does. The child has descriptors, signal state and
/// confinement of its own.
pub(crate) fn start<T>(stack: &mut Stack, subject: &T, act: fn(&T) -> !) -> Result<i32> {
    extern "C" fn enter<T>(call: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `start` passed this pointer, and waits in the call that uses it.
        let (act, subject) = unsafe { &*call.cast::<(fn(&T) -> !, &T)>() };
        act(subject)
    }
    let call = (act, subject);
    let top = stack.0.as_mut_ptr_range().end;
    // The ABI wants the top of a stack aligned to 16 bytes.
    let top = top.wrapping_sub(top.addr() % 16);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let call = (&raw const call).cast_mut().cast();
    // SAFETY: the child runs on a stack that nobody else uses, and the caller's only thread stands
    // still until the child has executed or ended, so nothing is touched by two.
    let pid = check(i64::from(unsafe { libc::clone(enter::<T>, top.cast(), flags, call) }))?;
    i32::try_from(pid).map_err(|_| Errno::OVERFLOW)
}

/// Starts a process that is a copy of this one and runs `act` on `subject`, which ends it.
pub(crate) fn fork<T>(subject: &T, act: fn(&T) -> !) -> Result<i32> {
    // SAFETY: the caller is single-threaded, so the copy holds no lock of a thread it does not have.
    let pid = check(i64::from(unsafe { libc::fork() }))?;
    if pid == 0 {
        act(subject)
    }
    i32::try_from(pid).map_err(|_| Errno::OVERFLOW)
}

/// Ends this process at once, running nothing.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// What one reaped child used.
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    pub(crate) status: i32,
    pub(crate) cpu_us: u64,
    pub(crate) peak_bytes: u64,
}

/// Collects one ended child; `None` when none has ended yet (or, when waiting, none is left).
pub(crate) fn reap(wait: bool) -> Result<Option<Reaped>> {
    let mut status = 0;
    // SAFETY: rusage is a plain structure of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let options = if wait { 0 } else { libc::WNOHANG };
    let pid = loop {
        // SAFETY: both pointers are valid for writes of their types.
        let pid = unsafe { libc::wait4(-1, &raw mut status, options, &raw mut usage) };
        match check(i64::from(pid)) {
            Ok(0) | Err(Errno::CHILD) => return Ok(None),
            Ok(_) => break pid,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    };
    let micros = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000
            + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    Ok(Some(Reaped {
        pid,
        status,
        cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    }))
}

/// Sends a signal to every process of this PID namespace but the caller, which is its first.
/// The kernel does it under one lock, so no fork can slip through.
pub(crate) fn signal_all_others(signal: i32) {
    // SAFETY: a plain system call. "No such process" means that there was none.
    unsafe { libc::kill(-1, signal) };
}

/// Changes flags, propagation or id mapping of a mount.
pub(crate) fn mount_setattr(
    mount: BorrowedFd<'_>,
    recursive: bool,
    set: u64,
    idmap: Option<BorrowedFd<'_>>,
) -> Result<()> {
    // SAFETY: all fields are integers, for which zero means "no change".
    let mut attr: libc::mount_attr = unsafe { std::mem::zeroed() };
    attr.attr_set = set;
    if let Some(idmap) = idmap {
        attr.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attr.userns_fd = u64::from(idmap.as_raw_fd().cast_unsigned());
    }
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a valid C string and `attr` a valid mount_attr of the given size.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw mut attr,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Moves this process into a new namespace.
pub(crate) fn unshare(namespace: i32) -> Result<()> {
    // SAFETY: only namespace flags are passed; the descriptor table stays shared as it was.
    check(i64::from(unsafe { libc::unshare(namespace) }))?;
    Ok(())
}

/// Processors that a process may use.
pub(crate) struct Processors(libc::cpu_set_t);

impl Processors {
    /// Those of this process.
    pub(crate) fn of_this_process() -> Result<Self> {
        // SAFETY: the set is plain data, which the call fills.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            check(i64::from(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set)))?;
            Ok(Self(set))
        }
    }

    /// Gives them to this process.
    pub(crate) fn take(&self) {
        // SAFETY: the set is valid. It can only fail when the processors are gone meanwhile, and
        // then the kernel has chosen others.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0) };
    }
}

/// Sets the user and group with which this process touches files.
pub(crate) fn file_identity(uid: u32, gid: u32) {
    // SAFETY: plain system calls on the only thread of this process; they cannot fail for root.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}

/// Makes capability `number` impossible to gain; false when the kernel does not know it.
pub(crate) fn drop_bounding(number: u32) -> bool {
    // SAFETY: a plain system call with integer arguments.
    unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) == 0 }
}

/// Installs a system call filter on this process and what it starts, for good.
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::INVAL)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel only reads `len` instructions, which live until the call returns.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
    Ok(())
}

/// Brings up the loopback interface of this network namespace.
pub(crate) fn loopback_up() -> Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: ifreq is plain data; the name ends with zeros.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed() as c_char;
    request.ifr_name[1] = b'o'.cast_signed() as c_char;
    #[allow(clippy::cast_possible_truncation)] // The two flags fit the kernel's short.
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    request.ifr_ifru.ifru_flags = flags;
    // SAFETY: `request` is a valid ifreq for this request.
    check(i64::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request)
    }))?;
    Ok(())
}

/// A descriptor that is readable while a child waits to be collected; SIGCHLD is blocked.
pub(crate) fn child_signal() -> Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before use; all pointers are valid.
    let raw = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    check(i64::from(raw))?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Gives a process about to `exec` the signal state that programs expect.
pub(crate) fn default_signals() {
    // SAFETY: the set is initialised before use; default dispositions need no handler.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Has a program killed as soon as the thread that starts it is gone, and the process with it.
pub(crate) fn end_with_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    let bind = || {
        // SAFETY: a plain system call, which takes no lock and no memory.
        check(i64::from(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }))?;
        Ok(())
    };
    // SAFETY: what runs between fork and exec is async-signal-safe: one system call.
    unsafe { command.pre_exec(bind) };
}

/// Puts `descriptor` at the number `at`, open across `exec`.
pub(crate) fn place(descriptor: BorrowedFd<'_>, at: RawFd) -> Result<()> {
    // SAFETY: `at` is one of the standard streams, which this process does not own as a value.
    check(i64::from(unsafe { libc::dup2(descriptor.as_raw_fd(), at) }))?;
    Ok(())
}

/// Closes every descriptor above the standard streams but those in `keep`.
///
/// The caller must not use or drop any other owned descriptor afterwards.
pub(crate) fn close_all_but(keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut from: u32 = 3;
    for raw in keep.iter().map(|raw| raw.cast_unsigned()).filter(|raw| *raw >= 3) {
        if raw > from {
            close_range(from, raw - 1);
        }
        from = raw + 1;
    }
    close_range(from, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: the caller of `close_all_but` promised not to touch the closed descriptors.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Takes over the socket that was put at standard input by the parent.
pub(crate) fn inherited_socket() -> Result<OwnedFd> {
    // SAFETY: descriptor 0 is open in a started program; borrowing it for a duplicate is sound.
    let stdin = unsafe { BorrowedFd::borrow_raw(0) };
    rustix::io::fcntl_dupfd_cloexec(stdin, 3)
}

/// Texts as a program receives them.
pub(crate) struct Texts {
    /// Points into `texts`, whose bytes never move; ends with null.
    pointers: Vec<*const c_char>,
    texts: Vec<CString>,
}

impl Texts {
    pub(crate) fn new(texts: Vec<CString>) -> Self {
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Self { pointers, texts }
    }

    pub(crate) fn first(&self) -> Option<&CStr> {
        self.texts.first().map(CString::as_c_str)
    }
}

/// Replaces this process by a program; returns only the reason why it could not.
pub(crate) fn exec(program: &CStr, argv: &Texts, env: &Texts) -> Errno {
    let (argv, env) = (argv.pointers.as_ptr(), env.pointers.as_ptr());
    // SAFETY: both arrays end with null and hold valid C strings that live until the call ends.
    check(i64::from(unsafe { libc::execve(program.as_ptr(), argv, env) }))
        .err()
        .unwrap_or(Errno::NOEXEC)
}

/// Makes the calling process ignore panics' unwinding: a first process must end, not unwind into
/// its parent's code.
pub(crate) fn end_on_panic() {
    std::panic::set_hook(Box::new(|_| exit_now(70)));
}

/// Waits for the child behind `pidfd` and collects it.
pub(crate) fn collect(pidfd: impl AsFd) -> Result<()> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    loop {
        match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
            Ok(_) | Err(Errno::CHILD) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
