//! Taking more than the share: processes, threads, memory, limits.

use std::time::Duration;

use crate::{Outcome, checked, number};

pub(crate) fn attempt(name: &str, arguments: &[&str]) -> Option<Outcome> {
    Some(match (name, arguments) {
        ("processes", [count]) => number(count).and_then(processes),
        ("threads", [count]) => number(count).and_then(threads),
        ("memory", [mebibytes]) => number(mebibytes).and_then(memory),
        ("nameless-memory", [mebibytes]) => number(mebibytes).and_then(nameless_memory),
        ("old-shared-memory", [mebibytes]) => number(mebibytes).and_then(old_shared_memory),
        ("core-files", []) => core_files(),
        ("lock-memory", [mebibytes]) => number(mebibytes).and_then(lock_memory),
        ("open-files", [count]) => number(count).and_then(open_files),
        _ => return None,
    })
}

/// That many at one time.
fn processes(count: usize) -> Outcome {
    let mut children = Vec::new();
    let mut outcome = Ok(());
    for _ in 0..count {
        // SAFETY: the child only sleeps and is killed below.
        match checked(i64::from(unsafe { libc::fork() })) {
            Ok(0) => loop {
                std::thread::sleep(Duration::from_secs(60));
            },
            Ok(child) => children.push(child),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    for child in children {
        let child = i32::try_from(child).unwrap_or(0);
        // SAFETY: a child of our own that has not been waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    outcome
}

fn threads(count: usize) -> Outcome {
    for _ in 0..count {
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        thread.spawn(|| std::thread::sleep(Duration::from_secs(60)))?;
    }
    Ok(())
}

fn filled(mebibytes: usize, at: *mut libc::c_void) {
    for page in 0..mebibytes << 8 {
        // SAFETY: the caller mapped that many writable bytes there.
        unsafe { at.cast::<u8>().add(page << 12).write_volatile(1) };
    }
}

fn map(mebibytes: usize, flags: i32, fd: i32) -> std::io::Result<*mut libc::c_void> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), mebibytes << 20, protection, flags, fd, 0) };
    if at == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(at) }
}

fn memory(mebibytes: usize) -> Outcome {
    filled(mebibytes, map(mebibytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?);
    Ok(())
}

/// In files that only a descriptor names, each below any limit on one file.
fn nameless_memory(mebibytes: usize) -> Outcome {
    const EACH: usize = 16;
    for _ in 0..mebibytes / EACH {
        // SAFETY: the name is a valid C string.
        let fd = checked(i64::from(unsafe { libc::memfd_create(c"planted".as_ptr(), 0) }))?;
        let fd = i32::try_from(fd).unwrap_or(-1);
        let length = i64::try_from(EACH << 20).unwrap_or(0);
        // SAFETY: a plain system call on a descriptor of our own.
        checked(i64::from(unsafe { libc::ftruncate(fd, length) }))?;
        filled(EACH, map(EACH, libc::MAP_SHARED, fd)?);
    }
    Ok(())
}

fn old_shared_memory(mebibytes: usize) -> Outcome {
    // SAFETY: a segment of our own, marked to go with its last user, filled within its size.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, mebibytes << 20, libc::IPC_CREAT | 0o600);
        checked(i64::from(id))?;
        let at = libc::shmat(id, std::ptr::null(), 0);
        libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        if at.addr() == usize::MAX {
            return Err(std::io::Error::last_os_error());
        }
        filled(mebibytes, at);
    }
    Ok(())
}

/// Asks for memory images of crashed programs, which go wherever the host's pattern says.
fn core_files() -> Outcome {
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
    // SAFETY: the limit is valid.
    checked(i64::from(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) })).map(drop)
}

fn lock_memory(mebibytes: usize) -> Outcome {
    let at = map(mebibytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    // SAFETY: the mapping has that length.
    checked(i64::from(unsafe { libc::mlock(at, mebibytes << 20) })).map(drop)
}

fn open_files(count: usize) -> Outcome {
    // SAFETY: the structure is plain data that the first call fills.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    for _ in 0..count {
        // SAFETY: duplicates standard input.
        checked(i64::from(unsafe { libc::dup(0) }))?;
    }
    Ok(())
}
