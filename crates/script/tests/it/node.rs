//! Node.js as the place where nothing is taken away, and the bait that attempts are after.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

/// A file with a secret, and a server that counts who comes.
pub(crate) struct Bait {
    directory: tempfile::TempDir,
    port: u16,
    hits: Arc<AtomicUsize>,
}

impl Bait {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("secret.txt"), "secret").unwrap();
        std::fs::write(directory.path().join("secret.mjs"), "export default 'secret'").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hits = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&hits);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                seen.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            }
        });
        Self { directory, port, hits }
    }

    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    /// What attempts find by name.
    fn names(&self) -> String {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        format!(
            "const SECRET = {}, SECRET_MODULE = {}, SINK = {}, SINK_PORT = {};
             const need = v => {{ if (v === undefined || v === null || v === false) throw new Error('nothing'); return v }};",
            json!(path("secret.txt")),
            json!(format!("file://{}", path("secret.mjs"))),
            json!(format!("http://127.0.0.1:{}", self.port)),
            self.port
        )
    }
}

/// An attempt as a module; its default export tells how it went.
pub(crate) fn module(body: &str, bait: &Bait) -> String {
    format!(
        "{} export default async () => {{ try {{ return 'got ' + await (async () => {{ {body} }})() }}
           catch (e) {{ return 'no ' + (e?.message ?? e) }} }}",
        bait.names()
    )
}

/// How each attempt went in one process; `None` where there is no Node.js.
pub(crate) fn reached(
    bodies: &[(&str, &str)],
    bait: &Bait,
    (zone, locale): (&str, &str),
) -> Option<BTreeMap<String, String>> {
    let mut text = bait.names() + "const said = {};\n";
    for (name, body) in bodies {
        let name = json!(name);
        text += &format!(
            "try {{ said[{name}] = 'got ' + await (async () => {{ {body} }})() }} catch (e) {{ said[{name}] = 'no ' + e }}\n"
        );
    }
    text += "process.stdout.write(JSON.stringify(said), () => process.exit(0));";
    let script = bait.directory.path().join("attempts.mjs");
    std::fs::write(&script, text).unwrap();
    let mut command = Command::new("node");
    command.arg(&script).env("TZ", zone).env("LC_ALL", locale).env("LANG", locale);
    answers(command)
}

/// What each second text finds when the first ran before it in the same context.
pub(crate) fn left(rows: &[(&str, &str, &str)]) -> Option<BTreeMap<String, String>> {
    let rows = json!(rows);
    let text = format!(
        "const vm = require('node:vm'); const said = {{}};
         (async () => {{ for (const [name, poison, probe] of {rows}) {{
           const context = vm.createContext({{ console: {{}} }});
           const run = body => vm.runInContext(`(async () => {{ const need = v => {{ if (!v) throw new Error('nothing'); return v }}; ${{body}} }})()`, context);
           try {{ await run(poison); said[name] = 'got ' + await run(probe) }} catch (e) {{ said[name] = 'no ' + e }}
         }} process.stdout.write(JSON.stringify(said), () => process.exit(0)) }})()"
    );
    let mut command = Command::new("node");
    command.args(["-e", &text]);
    answers(command)
}

fn answers(mut command: Command) -> Option<BTreeMap<String, String>> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_str(&text).unwrap();
    let pair = |(name, said): (&String, &Value)| (name.clone(), said.as_str().unwrap().to_owned());
    Some(said.as_object().unwrap().iter().map(pair).collect())
}

/// A process that does one thing; it ends with its owner.
pub(crate) struct Running(Child);

/// Starts a body; `None` where there is no Node.js.
pub(crate) fn start(body: &str) -> Option<Running> {
    let text = format!("(async () => {{ {body} }})().catch(() => 1)");
    let mut command = Command::new("node");
    command.args(["-e", &text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok().map(Running)
}

impl Running {
    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.0.id());
        let status = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) << 10
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The reason of a test that finds no Node.js.
pub(crate) const NONE: &str = "no Node.js is installed";
