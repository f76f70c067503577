//! What attempts try to reach. All of it is made for one attempt, so success harms nobody.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::is_root;

/// In the secret file, and in the environment of the victim.
pub(super) const TOKEN: &str = "the-content-of-a-secret";

/// Set of things outside.
pub(super) struct Bait {
    directory: tempfile::TempDir,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    sockets: [UnixListener; 3],
    pipe: File,
    name: String,
    key: i32,
    shared_by_number: [i32; 3],
    queue: String,
    terminal: OwnedFd,
    terminal_name: String,
    _locked: File,
    device_time: (i64, i64),
}

static BAITS: AtomicU32 = AtomicU32::new(0);

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

impl Bait {
    /// Lays everything out. `probe` is copied where a payload needs a program with special rights.
    pub(super) fn lay(payload: &[String], probe: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Nothing but the sandbox stands between an attempt and what it wants.
        open_to_all(directory.path(), 0o755);
        let at = |name: &str| directory.path().join(name);
        for (name, mode) in
            [("outside", 0o777), ("shared", 0o755), ("work", 0o777), ("base", 0o755)]
        {
            fs::create_dir(at(name)).unwrap();
            open_to_all(&at(name), mode);
        }
        fs::write(at("secret"), TOKEN).unwrap();
        open_to_all(&at("secret"), 0o600);
        for place in ["work", "base"] {
            let link = at(place).join("link-to-secret");
            std::os::unix::fs::symlink(at("secret"), link).unwrap();
        }
        fs::write(at("shared/quiet"), "quiet").unwrap();
        special_programs(payload, probe, &at("shared"));
        let number = BAITS.fetch_add(1, Ordering::Relaxed);
        let name = format!("glasshouse-bait-{}-{number}", std::process::id());
        let key = 0x6c00_0000 + (std::process::id().cast_signed() & 0xffff) * 256;
        let key = key + i32::try_from(number).unwrap();
        let listen = |path: &str| {
            let listener = UnixListener::bind(at(path)).unwrap();
            open_to_all(&at(path), 0o777);
            listener
        };
        let by_name =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let sockets = [listen("outside/socket"), listen("shared/socket"), by_name];
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let udp = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        let (terminal, terminal_name) = terminal();
        Self {
            victim: victim(directory.path()),
            pipe: pipe(&at("shared/pipe")),
            _locked: locked(&at("shared/locked")),
            shared_by_number: numbered(key),
            queue: queue(&name),
            device_time: device_time(),
            directory,
            tcp,
            udp,
            sockets,
            name,
            key,
            terminal,
            terminal_name,
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Fills in the placeholders of a text. `inside` tells where things are for the payload.
    pub(super) fn fill(&self, text: &str, inside: &Inside<'_>) -> String {
        let path = |name: &str| self.path(name).display().to_string();
        let victim = self.victim.id().to_string();
        let first_process = inside.first_process.unwrap_or(&victim);
        [
            ("{secret}", path("secret").as_str()),
            ("{outside}", &path("outside")),
            ("{work}", inside.work),
            ("{shared}", inside.shared),
            ("{init}", first_process),
            ("{victim}", &victim),
            ("{owner}", &std::process::id().to_string()),
            ("{tcp}", &self.tcp.local_addr().unwrap().to_string()),
            ("{udp}", &self.udp.local_addr().unwrap().to_string()),
            ("{name}", &self.name),
            ("{key}", &self.key.to_string()),
            ("{queue}", &self.queue),
            ("{terminal}", &self.terminal_name),
        ]
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// What somebody outside does while an attempt watches.
    pub(super) fn stir(&self) {
        let mut byte = [0];
        let mut quiet = File::open(self.path("shared/quiet")).unwrap();
        quiet.read_exact(&mut byte).unwrap();
        let mut wanted = OpenOptions::new();
        wanted.write(true).custom_flags(libc::O_NONBLOCK);
        // Refused when somebody holds a lease, which is what is to be noticed.
        drop(wanted.open(self.path("shared/quiet")));
        assert!(Command::new("/usr/bin/true").status().unwrap().success());
    }

    /// Whether the secret or a path of the host is in a text.
    pub(super) fn leaked(&self, text: &str) -> (bool, bool) {
        (text.contains(TOKEN), text.contains(&*self.directory.path().to_string_lossy()))
    }

    pub(super) fn planted(&self) -> bool {
        self.path("outside/planted").exists()
    }

    /// Whether anything that listens heard something.
    pub(super) fn contacted(&mut self) -> bool {
        let mut byte = [0];
        let unix = self.sockets.iter().any(|socket| socket.accept().is_ok());
        let pipe = self.pipe.read(&mut byte).is_ok_and(|read| read > 0);
        self.tcp.accept().is_ok() || self.udp.recv(&mut byte).is_ok() || unix || pipe
    }

    pub(super) fn device_touched(&self) -> bool {
        device_time() != self.device_time
    }

    pub(super) fn victim_ended(&mut self) -> bool {
        self.victim.try_wait().unwrap().is_some()
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let [memory, messages, semaphores] = self.shared_by_number;
        let name = CString::new(self.queue.as_str()).unwrap();
        // SAFETY: what is removed was made by `lay`, and all pointers are valid or unused.
        unsafe {
            libc::shmctl(memory, libc::IPC_RMID, std::ptr::null_mut());
            libc::msgctl(messages, libc::IPC_RMID, std::ptr::null_mut());
            libc::semctl(semaphores, 0, libc::IPC_RMID);
            libc::mq_unlink(name.as_ptr());
        }
        debug_assert!(self.terminal.as_raw_fd() > 2);
    }
}

/// Where a payload finds things.
pub(super) struct Inside<'a> {
    pub(super) work: &'a str,
    pub(super) shared: &'a str,
    /// None: the victim stands for it.
    pub(super) first_process: Option<&'a str>,
}

/// A process with a secret in its environment, its directory and a descriptor.
fn victim(directory: &Path) -> Child {
    let mut victim = Command::new("sh")
        .args(["-c", "exec 9< secret; exec sleep 600"])
        .env("TOKEN", TOKEN)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let comm = format!("/proc/{}/comm", victim.id());
    while fs::read_to_string(&comm).unwrap() != "sleep\n" {
        assert!(victim.try_wait().unwrap().is_none(), "the victim ended");
        std::thread::yield_now();
    }
    victim
}

fn pipe(path: &Path) -> File {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path is a valid C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
    open_to_all(path, 0o666);
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap()
}

/// A file that is locked in both ways.
fn locked(path: &Path) -> File {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    file.lock().unwrap();
    // SAFETY: the structure is plain data and valid; the descriptor is open.
    let taken = unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::c_short::try_from(libc::F_WRLCK).unwrap();
        libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock)
    };
    assert_eq!(taken, 0);
    file
}

fn numbered(key: i32) -> [i32; 3] {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o666;
    // SAFETY: plain system calls.
    let made = unsafe {
        [libc::shmget(key, 4096, flags), libc::msgget(key, flags), libc::semget(key, 1, flags)]
    };
    assert!(made.iter().all(|id| *id >= 0), "{made:?}");
    made
}

fn queue(name: &str) -> String {
    let queue = format!("/{name}");
    let name = CString::new(queue.as_str()).unwrap();
    // SAFETY: the name is a valid C string and no attributes are passed.
    let made = unsafe {
        libc::mq_open(
            name.as_ptr(),
            libc::O_RDWR | libc::O_CREAT,
            0o666,
            std::ptr::null_mut::<u8>(),
        )
    };
    assert!(made >= 0);
    // SAFETY: the descriptor was just made.
    drop(unsafe { OwnedFd::from_raw_fd(made) });
    queue
}

fn terminal() -> (OwnedFd, String) {
    // SAFETY: a plain system call, whose descriptor nothing else owns.
    let master = unsafe { OwnedFd::from_raw_fd(libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY)) };
    let number = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    (master, number.into_string().unwrap())
}

fn device_time() -> (i64, i64) {
    let found = fs::metadata("/dev/null").unwrap();
    (found.mtime(), found.mtime_nsec())
}

/// Programs that give rights to whoever executes them; an ordinary user can only make them without.
fn special_programs(payload: &[String], probe: &Path, shared: &Path) {
    let wanted = |name: &str| payload.iter().any(|part| part.ends_with(name));
    if wanted("/set-user-id") {
        fs::copy(probe, shared.join("set-user-id")).unwrap();
        open_to_all(&shared.join("set-user-id"), 0o4755);
    }
    if wanted("/capable") {
        fs::copy(probe, shared.join("capable")).unwrap();
        open_to_all(&shared.join("capable"), 0o755);
        if !is_root() {
            return;
        }
        // Version 2, effective; the right to administer the network and no other.
        let rights: [u32; 5] = [0x0200_0001, 1 << 12, 0, 0, 0];
        let bytes: Vec<u8> = rights.iter().flat_map(|word| word.to_le_bytes()).collect();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(shared.join("capable"), "security.capability", &bytes, flags).unwrap();
    }
}
