//! The few files of `/etc` that programs need, none of them secret.

use std::fs;
use std::io;
use std::path::Path;

use super::confine::INSIDE_ID;
use super::rootfs::PUBLIC_ETC;

/// Host files that say nothing about this host's users and are copied as they are.
const COPIED: [&str; 5] = ["ld.so.cache", "ld.so.conf", "localtime", "protocols", "services"];

/// Fills `directory` with what lies over an unpacked image's own `/etc` and `/var`.
pub(super) fn complete(directory: &Path) -> io::Result<()> {
    identify(&directory.join("etc"))?;
    fs::create_dir_all(directory.join("var"))?;
    std::os::unix::fs::symlink("../tmp", directory.join("var/tmp"))
}

/// Who and where commands are.
fn identify(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let write = |name: &str, text: String| fs::write(directory.join(name), text);
    write(
        "passwd",
        format!(
            "root:x:0:0:root:/:/usr/sbin/nologin\n\
             agent:x:{INSIDE_ID}:{INSIDE_ID}:agent:/home/agent:/bin/sh\n\
             nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
        ),
    )?;
    write("group", format!("root:x:0:\nagent:x:{INSIDE_ID}:\nnogroup:x:65534:\n"))?;
    write("hosts", "127.0.0.1 localhost glasshouse\n::1 localhost\n".into())?;
    write("hostname", "glasshouse\n".into())
}

/// Fills `directory`, which is mounted read-only at `/etc` of every sandbox.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    identify(directory)?;
    fs::write(
        directory.join("nsswitch.conf"),
        "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
    )?;
    for name in COPIED {
        // What a host does not have, its programs do not need.
        if let Ok(content) = fs::read(Path::new("/etc").join(name)) {
            fs::write(directory.join(name), content)?;
        }
    }
    // Places for what is mounted rather than copied.
    for path in PUBLIC_ETC {
        if let Ok(below) = Path::new(path).strip_prefix("/etc") {
            fs::create_dir_all(directory.join(below))?;
        }
    }
    Ok(())
}
