//! The same program as a host with entry functions. What `attempts` tries also runs as a plain command,
//! which shows that the attempts work where nothing forbids them.

use std::io::{Read as _, Write as _};

use glasshouse_sandbox::Entry;

pub(crate) static ENTRIES: [Entry; 5] = [
    Entry { name: "echo", run: echo },
    Entry { name: "attempts", run: attempts },
    Entry {
        name: "spin",
        run: || loop {
            std::hint::spin_loop()
        },
    },
    Entry { name: "hog", run: hog },
    Entry { name: "panic", run: || panic!("as a test wants it") },
];

fn echo() -> u8 {
    let mut given = Vec::new();
    let read = std::io::stdin().read_to_end(&mut given);
    let written = std::io::stdout().write_all(&given);
    if read.is_ok() && written.is_ok() { 7 } else { 1 }
}

fn hog() -> u8 {
    let mut kept = Vec::new();
    loop {
        kept.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&kept);
    }
}

/// Tries what needs more than computing, and says of each whether it worked.
pub(crate) fn attempts() -> u8 {
    let descriptor = |result: i32| {
        // SAFETY: the descriptor was just made here.
        unsafe { libc::close(result) };
        result >= 0
    };
    // SAFETY: plain system calls with valid arguments; a child ends at once.
    let worked = unsafe {
        [
            ("open", descriptor(libc::open(c"/etc/passwd".as_ptr(), libc::O_RDONLY))),
            ("list", descriptor(libc::open(c"/".as_ptr(), libc::O_DIRECTORY))),
            ("create", descriptor(libc::creat(c"/tmp/made".as_ptr(), 0o600))),
            ("stat", libc::access(c"/etc/passwd".as_ptr(), libc::F_OK) == 0),
            ("socket", descriptor(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0))),
            ("memory file", descriptor(libc::memfd_create(c"m".as_ptr(), 0))),
            ("fork", fork()),
            ("execute", execute()),
            ("signal", libc::kill(0, 0) == 0),
            ("machine code", machine_code()),
            ("host name", libc::uname(&mut std::mem::zeroed()) == 0),
        ]
    };
    for (name, worked) in worked {
        println!("{name}: {}", if worked { "reached" } else { "refused" });
    }
    0
}

unsafe fn fork() -> bool {
    // SAFETY: the child does nothing but end.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            child => child > 0 && libc::waitpid(child, std::ptr::null_mut(), 0) == child,
        }
    }
}

/// Without a child it cannot tell success, so a program that is not there must be looked for.
unsafe fn execute() -> bool {
    let argv = [c"/nothing".as_ptr(), std::ptr::null()];
    // SAFETY: both lists end with null; there is no such program.
    unsafe { libc::execve(argv[0], argv.as_ptr(), argv[1..].as_ptr()) };
    std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT)
}

unsafe fn machine_code() -> bool {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which nothing uses.
    unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0) != libc::MAP_FAILED }
}
