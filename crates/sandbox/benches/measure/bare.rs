//! The least that a sandbox can cost: namespaces, a root of its own with an overlay to work in, and a
//! program as its first process. No cgroup, filter, Landlock or capability is touched, nothing is
//! attested, nothing can be run a second time, and the host's files are shared.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::process::{WaitId, WaitIdOptions, waitid};

/// Where a bare sandbox is built, as the kernel takes it.
pub(crate) struct Bare {
    program: Program,
    layers: PathBuf,
    root: CString,
    places: [CString; 4],
    made: Cell<u32>,
}

impl Bare {
    /// Uses `layers`, a directory with `base`, `upper` and `work`, and makes `root` in it.
    pub(crate) fn new(layers: &Path, argv: &[&str]) -> Self {
        let text = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
        let root = layers.join("root");
        for name in ["usr", "proc", "workspace"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        Self {
            program: Program::new(argv),
            layers: layers.to_owned(),
            made: Cell::new(0),
            places: ["usr", "proc", "workspace", "lib64"].map(|name| text(&root.join(name))),
            root: text(&root),
        }
    }

    /// Makes one, runs the program and waits for its end.
    pub(crate) fn run(&self) {
        let namespaces = libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWCGROUP;
        // A volatile overlay takes a working directory once.
        let work = self.layers.join(format!("work/{}", self.made.replace(self.made.get() + 1)));
        std::fs::create_dir(&work).unwrap();
        let at = |name: &str| self.layers.join(name).display().to_string();
        let (lower, upper, work) = (at("base"), at("upper"), work.display());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work},volatile");
        let options = CString::new(options).unwrap();
        let status = started(namespaces, || self.enter(&options));
        assert_eq!(status, 0, "a bare sandbox failed");
    }

    /// In the new process: plain system calls only, for other threads of the owner may hold locks.
    fn enter(&self, options: &CStr) {
        let [usr, proc, workspace, lib64] = self.places.each_ref().map(|place| place.as_ptr());
        let root = self.root.as_ptr();
        let null = std::ptr::null();
        let [tmpfs, procfs, overlay, size] = [c"tmpfs", c"proc", c"overlay", c"size=1m"];
        // SAFETY: every pointer is to a C string that lives, or null where the kernel allows it.
        unsafe {
            let mut failed = libc::mount(null, c"/".as_ptr(), null, PRIVATE, null.cast());
            failed |= libc::mount(tmpfs.as_ptr(), root, tmpfs.as_ptr(), 0, size.as_ptr().cast());
            for place in [usr, proc, workspace] {
                failed |= libc::mkdir(place, 0o755);
            }
            failed |= libc::symlink(c"usr/lib64".as_ptr(), lib64);
            failed |= libc::mount(c"/usr".as_ptr(), usr, null, libc::MS_BIND, null.cast());
            failed |= libc::mount(null, usr, null, READ_ONLY, null.cast());
            failed |= libc::mount(procfs.as_ptr(), proc, procfs.as_ptr(), 0, null.cast());
            let options = options.as_ptr().cast();
            failed |= libc::mount(overlay.as_ptr(), workspace, overlay.as_ptr(), 0, options);
            failed |= libc::chdir(root);
            let here = c".".as_ptr();
            let pivoted = libc::syscall(libc::SYS_pivot_root, here, here);
            failed |= libc::umount2(here, libc::MNT_DETACH);
            failed |= libc::chdir(c"/".as_ptr());
            if failed == 0 && pivoted == 0 {
                self.program.execute();
            }
        }
    }
}

const PRIVATE: libc::c_ulong = libc::MS_REC | libc::MS_PRIVATE;
const READ_ONLY: libc::c_ulong = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;

/// A program and its arguments, as the kernel takes them.
pub(crate) struct Program(Vec<CString>);

impl Program {
    pub(crate) fn new(argv: &[&str]) -> Self {
        Self(argv.iter().map(|text| CString::new(*text).unwrap()).collect())
    }

    /// The floor under everything: clone3, exec, wait.
    pub(crate) fn run(&self) {
        assert_eq!(started(0, || self.execute()), 0, "the program failed");
    }

    /// Becomes the program; comes back when it cannot.
    fn execute(&self) {
        const MOST: usize = 4;
        let mut argv = [std::ptr::null(); MOST];
        for (place, text) in argv.iter_mut().take(MOST - 1).zip(&self.0) {
            *place = text.as_ptr();
        }
        let env = [std::ptr::null()];
        // SAFETY: both arrays end with null and hold C strings that live.
        unsafe { libc::execve(argv[0], argv.as_ptr(), env.as_ptr()) };
    }
}

/// Runs `act` in a new process, which ends if it comes back; answers its exit status.
fn started(flags: i32, act: impl FnOnce()) -> i32 {
    let mut pidfd = -1;
    // SAFETY: integers only; zero means "not used".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from((flags | libc::CLONE_PIDFD).cast_unsigned());
    args.pidfd = (&raw mut pidfd).expose_provenance() as u64;
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    // SAFETY: without shared memory this behaves as fork; the child makes system calls only.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    assert!(pid >= 0, "no process: {}", std::io::Error::last_os_error());
    if pid == 0 {
        act();
        // SAFETY: ends the child.
        unsafe { libc::_exit(127) };
    }
    // SAFETY: the kernel just made it for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let ended = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).unwrap();
    ended.and_then(|ended| ended.exit_status()).unwrap_or(-1)
}
