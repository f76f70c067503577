//! Everything once more as an ordinary user, for whom the sandbox is built quite differently.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::escapes;
use crate::support::*;

/// An id that owns nothing on any machine.
const ORDINARY: u32 = 54_321;

/// Where the ids of a user namespace begin outside, and how many there are: enough to hold the id that
/// root of the machine gives to commands.
const RANGE: (u32, u32) = (200_000, 131_072);

/// What the second run needs: the build directory may be out of an ordinary user's reach.
struct Reach(tempfile::TempDir);

impl Reach {
    fn new(owner: u32) -> Self {
        let reach = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(reach.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(std::env::current_exe().unwrap(), reach.path("tests")).unwrap();
        fs::copy(program(), reach.path("host")).unwrap();
        fs::copy(probe(), reach.path("probe")).unwrap();
        fs::create_dir(reach.path("attempts")).unwrap();
        for entry in fs::read_dir(escapes::directory()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), reach.path("attempts").join(entry.file_name())).unwrap();
            }
        }
        fs::create_dir(reach.path("own")).unwrap();
        chown(reach.path("own"), Some(owner), Some(owner)).unwrap();
        reach
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn environment(&self) -> [(&'static str, PathBuf); 5] {
        [
            (PROGRAM, self.path("host")),
            (PROBE, self.path("probe")),
            (escapes::ATTEMPTS, self.path("attempts")),
            ("TMPDIR", self.path("own")),
            ("HOME", self.path("own")),
        ]
    }
}

/// Root of a user namespace with a range of ids, as in a rootless container, has every capability and
/// every id that is needed, and still may not shift the owners of the host's files: building as root
/// of the machine does failed there.
#[test]
fn sandboxes_are_made_in_a_user_namespace_with_a_range_of_ids() {
    if !is_root() {
        return; // Only root of the machine can give ids away without help.
    }
    let (first, count) = RANGE;
    let reach = Reach::new(first);
    // Stands in the namespace until its input ends; a program that is started there before it has ids
    // would lose the rights over it.
    let mut holder = Command::new("unshare")
        .args(["--user", "sh", "-c", "echo made && cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut made = [0; 5];
    holder.stdout.as_mut().unwrap().read_exact(&mut made).unwrap();
    let id = holder.id().to_string();
    for name in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{id}/{name}"), format!("0 {first} {count}")).unwrap();
    }
    let output = Command::new("nsenter")
        .args(["--user", "--target", &id, "--setuid", "0", "--setgid", "0"])
        .arg(reach.path("tests"))
        .args(["--test-threads", "2", "basics::", "files::", "commands::"])
        .envs(reach.environment())
        // It could not write there.
        .env_remove("GLASSHOUSE_SKIP_LOG")
        .output()
        .unwrap();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test basics::what_is_enforced_is_read_back ... ok"), "{text}");
}

#[test]
fn the_suite_holds_for_an_ordinary_user() {
    if !is_root() {
        return; // This is the second run.
    }
    let reach = Reach::new(ORDINARY);
    let id = ORDINARY.to_string();
    let output = Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all"])
        .arg(reach.path("tests"))
        .args(["--test-threads", "2", "--nocapture"])
        .envs(reach.environment())
        // It could not write there; what it skips is told below.
        .env_remove("GLASSHOUSE_SKIP_LOG")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with("escape ")).collect();
    assert!(!table.is_empty(), "the escape suite did not run");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("escapes-rootless.txt");
    fs::write(path, table.join("\n")).unwrap();
    for line in errors.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        skipped("rootless", line);
    }
    assert!(text.contains("test basics::what_is_enforced_is_read_back ... ok"), "{text}");
}
