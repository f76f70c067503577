//! The few files of `/etc` that programs need, none of them secret.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::confine::INSIDE_ID;
use super::rootfs::PUBLIC_ETC;

/// Host files that say nothing about this host's users and are copied as they are.
const COPIED: [&str; 5] = ["ld.so.cache", "ld.so.conf", "localtime", "protocols", "services"];

/// Settings of Debian's Maven without which it does not start; who may log in where is in another file.
const MAVEN: [&str; 2] = ["maven/m2.conf", "maven/logging"];

/// Most directories between a toolchain's settings and one of their files.
const MAX_DEPTH: usize = 6;

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
    toolchains(Path::new("/etc"), directory)?;
    // Places for what is mounted rather than copied.
    for path in PUBLIC_ETC {
        if let Ok(below) = Path::new(path).strip_prefix("/etc") {
            fs::create_dir_all(directory.join(below))?;
        }
    }
    Ok(())
}

/// Copies settings that programs of `/usr` have links to. A Java of Debian does not start without its
/// own.
fn toolchains(from: &Path, directory: &Path) -> io::Result<()> {
    let is_java = |name: &str| name.starts_with("java-") && name.ends_with("-openjdk");
    let names = fs::read_dir(from)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let javas: Vec<String> = names.filter(|name| is_java(name)).collect();
    for name in javas.iter().map(String::as_str).chain(MAVEN) {
        copy_public(&from.join(name), &directory.join(name), MAX_DEPTH)?;
    }
    Ok(())
}

/// Copies what everybody on the host may read; links lead elsewhere and are left out.
fn copy_public(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    let Ok(found) = from.symlink_metadata() else { return Ok(()) };
    let is_public = found.permissions().mode() & 0o004 != 0;
    if is_public && found.is_dir() && depth > 0 {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_public(&from.join(&name), &to.join(&name), depth - 1)?;
        }
    } else if is_public && found.is_file() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(from, to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_settings_of_toolchains_only_public_ones_are_copied() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        let check = |name: &str, mode: u32, expected: bool| {
            let file = from.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "x").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            toolchains(&from, &to).unwrap();
            assert_eq!(to.join(name).exists(), expected, "{name}");
        };
        check("java-17-openjdk/security/java.security", 0o644, true);
        check("java-17-openjdk/management/jmxremote.password", 0o600, false);
        check("java-17-openjdk/a/b/c/d/e/f/deep", 0o644, false);
        check("maven/m2.conf", 0o644, true);
        check("maven/settings.xml", 0o644, false);
        check("shadow", 0o644, false);
        std::os::unix::fs::symlink("../shadow", from.join("java-17-openjdk/link")).unwrap();
        toolchains(&from, &to).unwrap();
        assert!(!to.join("java-17-openjdk/link").exists());
    }
}
