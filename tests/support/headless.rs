//! A real browser for the tests of any crate: it finds nothing but this machine, and ends with its owner.

use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAMS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// The reason of a test that finds none.
pub(crate) const NONE: &str = "no chromium is installed";

/// Where names are asked for, over TLS; the port is that of a service which no machine has any more.
#[allow(dead_code, reason = "one crate looks at names")]
const RESOLVER: &str =
    r#"{"dns_over_https":{"mode":"secure","templates":"https://127.0.0.1:9/dns-query"}}"#;
/// What the network does, in the browser's own words.
#[allow(dead_code, reason = "one crate looks at names")]
const NOTES: &str = "notes.json";

/// The browser that is installed.
pub(crate) fn browser() -> Option<&'static str> {
    PROGRAMS.iter().copied().find(|program| {
        let version = Command::new(program).arg("--version").stderr(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    })
}

/// A browser with a page open. Dropped, it ends, and so does what it kept.
pub(crate) struct Running {
    child: Child,
    data: tempfile::TempDir,
}

impl Running {
    /// Opens a page without a window. `hosts` are rules for names that lead to this machine, each with a comma and
    /// a space after it; all others lead nowhere.
    #[allow(dead_code, reason = "one crate drives the browser from a script of its own")]
    pub(crate) fn open(program: &str, hosts: &str, more: &[&str], address: &str) -> Self {
        Self::opened(program, hosts, more, address, false)
    }

    /// The same, and the browser notes what its network does. Names that `hosts` excludes are asked for at a port of this
    /// machine where nobody answers.
    #[allow(dead_code, reason = "one crate looks at names")]
    pub(crate) fn open_noting(program: &str, hosts: &str, more: &[&str], address: &str) -> Self {
        Self::opened(program, hosts, more, address, true)
    }

    /// What was noted so far.
    #[allow(dead_code, reason = "one crate looks at names")]
    pub(crate) fn noted(&self) -> String {
        let bytes = std::fs::read(self.data.path().join(NOTES)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn opened(program: &str, hosts: &str, more: &[&str], address: &str, notes: bool) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]);
        command.args(["--no-first-run", "--disable-background-networking", "--no-proxy-server"]);
        command.args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]);
        command.arg("--disable-features=OptimizationHints,Translate,MediaRouter");
        command.arg(format!("--host-resolver-rules={hosts}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"));
        if notes {
            std::fs::write(data.path().join("Local State"), RESOLVER).unwrap();
            command.arg(format!("--log-net-log={}", data.path().join(NOTES).display()));
        }
        command.arg(user_data(data.path())).args(more).arg(address);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), data }
    }
}

fn user_data(path: &Path) -> String {
    format!("--user-data-dir={}", path.display())
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What its children still write may be in the way of the first try; the temporary directory
        // is removed once more when it is dropped.
        let _ = std::fs::remove_dir_all(self.data.path());
    }
}
