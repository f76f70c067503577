//! System calls that nothing inside needs: does the kernel's own code see them?
//!
//! The arguments make the kernel refuse late, so that nothing happens where the call is open. A
//! filter answers "not permitted" or "not implemented"; any other answer came from behind it.

use crate::{Outcome, checked, refusal};

const NULL: usize = 0;
/// Calls that are younger than the library's table.
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;
const BAD: i64 = -1;

pub(crate) fn attempt(name: &str, arguments: &[&str]) -> Option<Outcome> {
    match name {
        "calls" => {}
        "numbers" => return Some(numbers(arguments)),
        _ => return None,
    }
    // Every one of the named calls is tried; one that gets through is enough.
    let mut last = Err(refusal("nothing was named"));
    for call in arguments {
        last = reached(call);
        if last.is_ok() {
            println!("{call}");
            break;
        }
    }
    Some(last)
}

/// Prints the error of each call of a list of numbers, all of whose arguments are wrong.
fn numbers(arguments: &[&str]) -> Outcome {
    for number in arguments {
        let call: i64 = crate::number(number)?;
        // SAFETY: -1 is no valid pointer, so nothing of this process is read or written.
        let errno = match checked(unsafe { libc::syscall(call, BAD, BAD, BAD, BAD, BAD, BAD) }) {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().unwrap_or(-1),
        };
        println!("{number} {errno}");
    }
    Ok(())
}

fn reached(name: &str) -> Outcome {
    let result = match memory_and_files(name).or_else(|| rights(name)) {
        Some(result) => checked(result),
        None => return Err(refusal(&format!("there is no call {name}"))),
    };
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

fn memory_and_files(name: &str) -> Option<i64> {
    let path = c"/nonexistent".as_ptr();
    // SAFETY: pointers are null, or to a static string or a buffer that lives here; nothing that the
    // kernel does with these arguments outlives the call.
    Some(unsafe {
        match name {
            "acct" => libc::syscall(libc::SYS_acct, path),
            "chroot" => libc::syscall(libc::SYS_chroot, path),
            "fanotify" => libc::syscall(libc::SYS_fanotify_init, 0x200, 0),
            "fsopen" => libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0),
            "fspick" => libc::syscall(libc::SYS_fspick, libc::AT_FDCWD, path, 0),
            "mount" => libc::syscall(libc::SYS_mount, NULL, NULL, NULL, 0, NULL),
            "mount_setattr" => {
                let attributes = [0_u64; 4];
                libc::syscall(
                    libc::SYS_mount_setattr,
                    libc::AT_FDCWD,
                    c"/".as_ptr(),
                    0,
                    attributes.as_ptr(),
                    size_of_val(&attributes),
                )
            }
            "move_mount" => libc::syscall(libc::SYS_move_mount, BAD, path, BAD, path, 0),
            "open_tree" => libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1),
            "pivot_root" => libc::syscall(libc::SYS_pivot_root, path, path),
            "remount" => {
                let flags = libc::MS_REMOUNT | libc::MS_BIND;
                libc::syscall(libc::SYS_mount, NULL, c".".as_ptr(), NULL, flags, NULL)
            }
            "umount" => libc::syscall(libc::SYS_umount2, c".".as_ptr(), libc::MNT_DETACH),
            "quotactl" => libc::syscall(libc::SYS_quotactl, 0x80_0001_u32, path, 0, NULL),
            "swapon" => libc::syscall(libc::SYS_swapon, path, 0),
            "swapoff" => libc::syscall(libc::SYS_swapoff, path),
            "userfaultfd" => libc::syscall(libc::SYS_userfaultfd, BAD),
            "io_uring_setup" => libc::syscall(libc::SYS_io_uring_setup, 1, NULL),
            "io_uring_enter" => libc::syscall(libc::SYS_io_uring_enter, BAD, 0, 0, 0, NULL, 0),
            "io_uring_register" => libc::syscall(libc::SYS_io_uring_register, BAD, 0, NULL, 0),
            "process_madvise" => libc::syscall(libc::SYS_process_madvise, BAD, NULL, 0, 0, 0),
            "statmount" => libc::syscall(STATMOUNT, NULL, NULL, 0, 0),
            "listmount" => libc::syscall(LISTMOUNT, NULL, NULL, 0, 0),
            "move_pages" => libc::syscall(libc::SYS_move_pages, 0, 0, NULL, NULL, NULL, 0),
            "migrate_pages" => libc::syscall(libc::SYS_migrate_pages, 0, 0, NULL, NULL),
            _ => return None,
        }
    })
}

fn rights(name: &str) -> Option<i64> {
    let path = c"/nonexistent".as_ptr();
    let namespaces = libc::CLONE_NEWUSER | libc::SIGCHLD;
    // SAFETY: as above; a child that was made after all ends at once.
    Some(unsafe {
        match name {
            "add_key" => libc::syscall(libc::SYS_add_key, NULL, NULL, NULL, 0, 0),
            "request_key" => libc::syscall(libc::SYS_request_key, NULL, NULL, NULL, 0),
            "keyctl" => libc::syscall(libc::SYS_keyctl, BAD, 0, 0, 0, 0),
            "bpf" => libc::syscall(libc::SYS_bpf, BAD, NULL, 0),
            "perf" => libc::syscall(libc::SYS_perf_event_open, NULL, 0, -1, -1, 0),
            "clone" => match libc::syscall(libc::SYS_clone, namespaces, 0, 0, 0, 0) {
                0 => libc::_exit(0),
                made => made,
            },
            "clone3" => libc::syscall(libc::SYS_clone3, NULL, 0),
            "setns" => libc::syscall(libc::SYS_setns, BAD, 0),
            "unshare-user" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER),
            "unshare-mount" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNS),
            "unshare-pid" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWPID),
            "unshare-network" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNET),
            "unshare-ipc" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWIPC),
            "unshare-uts" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUTS),
            "unshare-cgroup" => libc::syscall(libc::SYS_unshare, libc::CLONE_NEWCGROUP),
            "unshare-time" => libc::syscall(libc::SYS_unshare, 0x80),
            "kexec_load" => libc::syscall(libc::SYS_kexec_load, 0, BAD, NULL, 0),
            "kexec_file_load" => libc::syscall(libc::SYS_kexec_file_load, BAD, BAD, 0, NULL, 0),
            "init_module" => libc::syscall(libc::SYS_init_module, NULL, 0, path),
            "finit_module" => libc::syscall(libc::SYS_finit_module, BAD, path, 0),
            "delete_module" => libc::syscall(libc::SYS_delete_module, path, 0),
            "settimeofday" => libc::syscall(libc::SYS_settimeofday, NULL, NULL),
            "clock_settime" => libc::syscall(libc::SYS_clock_settime, 0, NULL),
            "adjtimex" => libc::syscall(libc::SYS_adjtimex, NULL),
            "clock_adjtime" => libc::syscall(libc::SYS_clock_adjtime, 0, NULL),
            "sethostname" => libc::syscall(libc::SYS_sethostname, path, BAD),
            "setdomainname" => libc::syscall(libc::SYS_setdomainname, path, BAD),
            "reboot" => libc::syscall(libc::SYS_reboot, 0, 0, 0, NULL),
            "syslog" => libc::syscall(libc::SYS_syslog, 10, NULL, 0),
            "personality" => libc::syscall(libc::SYS_personality, 0xffff_ffff_u32),
            "ptrace" => libc::syscall(libc::SYS_ptrace, libc::PTRACE_SEIZE, BAD, 0, 0),
            "process_vm_readv" => {
                libc::syscall(libc::SYS_process_vm_readv, BAD, NULL, 0, NULL, 0, 0)
            }
            "process_vm_writev" => {
                libc::syscall(libc::SYS_process_vm_writev, BAD, NULL, 0, NULL, 0, 0)
            }
            "tioclinux" => i64::from(libc::ioctl(0, 0x541C, NULL)),
            #[cfg(target_arch = "x86_64")]
            "iopl" => libc::syscall(libc::SYS_iopl, 0),
            #[cfg(target_arch = "x86_64")]
            "ioperm" => libc::syscall(libc::SYS_ioperm, 0, 1, 0),
            #[cfg(target_arch = "x86_64")]
            "modify_ldt" => libc::syscall(libc::SYS_modify_ldt, 0, NULL, 0),
            #[cfg(target_arch = "x86_64")]
            "old-entry" => old_entry(),
            _ => return None,
        }
    })
}

/// Asks for the process number through the entry for 32-bit programs, whose calls have other
/// numbers than those that a filter for this architecture knows.
#[cfg(target_arch = "x86_64")]
fn old_entry() -> i64 {
    const GETPID: i32 = 20;
    let result: i32;
    // SAFETY: the call reads and writes no memory; the entry clobbers only what is declared.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("eax") GETPID => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    i64::from(result)
}
