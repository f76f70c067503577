//! What the log must show at the end of the story: that every call was decided before it ran and
//! ended once, that nothing kept the secret, and that one changed byte would be found.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use glasshouse_kernel::driver::{Hands, OneCommand};
use glasshouse_kernel::{Kernel, NoReviewer, codes};
use glasshouse_log::{Log, Verification, verify_home};
use glasshouse_model::body::{CallEnd, PolicyDecided, ToolStarted};
use glasshouse_model::{CallId, CanonicalPath, Digest, Event, Kind, TenantId};
use glasshouse_sandbox::{Cancel, Live, Status, TemplateName};
use serde_json::Value;

use super::super::task::Finished;
use crate::error::Error;
use crate::home;

/// The token that a command of the story puts together and prints; the scenario, which the log keeps
/// too, nowhere holds it in one piece.
const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";

/// Bytes of an event that are changed in a copy of the log, and what they become.
const CHANGED: (&[u8], &[u8]) = (b"\"kind\":\"tool.denied\"", b"\"kind\":\"tool.danced\"");

/// Checks all of it.
pub(super) fn check(finished: &Finished<'_>, home: &Path) -> Result<(), Error> {
    let log = finished.kernel.log();
    let events = log.events(finished.branch).collect::<Result<Vec<_>, _>>()?;
    every_call_is_accounted_for(&events)?;
    nothing_keeps_the_secret(log, &events)?;
    a_tunnel_for_another_host_is_refused(home)?;
    a_changed_byte_is_found(home)
}

fn broken(what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(codes::DEMO_BROKEN, what).why(why)
}

/// A command may reach one host, asks for a tunnel to it, and then begins a TLS handshake for another
/// one behind the same address. Neither name leads anywhere: the refusal comes before any lookup.
fn a_tunnel_for_another_host_is_refused(home: &Path) -> Result<(), Error> {
    let one = OneCommand {
        argv: ["bash", "-c", FRONTING].map(str::to_owned).to_vec(),
        workspace: None,
        root: None,
        calls: None,
        template: TemplateName::IntegrationTest,
        allow_hosts: vec!["allowed.example".to_owned()],
        timeout_ms: Some(10_000),
        env: Vec::new(),
        cwd: CanonicalPath::root(),
        merge: false,
    };
    // In an installation of its own: it is no part of the story.
    let place = home.join(format!("demo/network-{}", std::process::id()));
    let kernel = Kernel::open(&place, &home::program()?)?;
    let hands = Hands {
        live: Live::default(),
        sink: &mut |_, _| {},
        cancel: &Cancel::new()?,
        reviewer: &NoReviewer,
    };
    let result = kernel.run_once(&one, hands);
    drop(kernel);
    // What stays is small, and nobody's.
    let _ = glasshouse_sandbox::remove_tree(&place);
    let result = result?;
    let codes: Vec<_> = result.connections.iter().map(|c| c.code.as_deref()).collect();
    match (&result.run.status, codes.as_slice()) {
        (_, [Some("sni_mismatch")]) => Ok(()),
        // There is no shell that can open a connection: nothing was tried, so nothing is shown.
        (Status::Exited(127), []) => Ok(()),
        (_, codes) => Err(broken("a tunnel carries what belongs to another host", {
            let codes = codes.iter().map(|code| code.unwrap_or("connected"));
            codes.collect::<Vec<_>>().join(", ")
        })),
    }
}

/// The attack: the handshake's message is for `another.example`.
const FRONTING: &str = r"exec 3<>/dev/tcp/127.0.0.1/3128 || exit 1
printf 'CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n' >&3
printf '\026\003\001\000\107\001\000\000\103\003\003RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR' >&3
printf '\000\000\002\023\001\001\000\000\030\000\000\000\024\000\022\000\000\017another.example' >&3
cat <&3 >/dev/null";

/// What the log says of one call, so far.
#[derive(Default)]
struct Account {
    decided: bool,
    ends: u32,
}

/// Each proposed call has a decision of its own before it starts or ends, and exactly one end.
fn every_call_is_accounted_for(events: &[Event]) -> Result<(), Error> {
    let mut calls: BTreeMap<CallId, Account> = BTreeMap::new();
    let undecided = |call| broken("a call has no decision in the log", call);
    for event in events {
        match event.kind() {
            Kind::ToolProposed => drop(calls.insert(CallId(event.seq()), Account::default())),
            Kind::PolicyDecided => {
                let decided: PolicyDecided = read(event)?;
                // A decision without the arguments is about a path that the call changed.
                if let (Some(call), Some(_)) = (decided.call, decided.args_digest) {
                    calls.entry(call).or_default().decided = true;
                }
            }
            Kind::ToolStarted => {
                let started: ToolStarted = read(event)?;
                if !calls.get(&started.call).is_some_and(|account| account.decided) {
                    return Err(undecided(started.call));
                }
            }
            kind if kind.ends_call() => {
                calls.entry(read::<CallEnd>(event)?.call).or_default().ends += 1;
            }
            _ => {}
        }
    }
    for (call, account) in calls {
        if !account.decided {
            return Err(undecided(call));
        }
        if account.ends != 1 {
            return Err(broken(
                "a call has not one end in the log",
                format!("{call}: {}", account.ends),
            ));
        }
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(event: &Event) -> Result<T, Error> {
    event.body_as().map_err(|e| broken("an event cannot be read", format!("{}: {e}", event.seq())))
}

/// Neither an event nor anything an event refers to holds the secret that a command printed.
fn nothing_keeps_the_secret(log: &Log, events: &[Event]) -> Result<(), Error> {
    let leak = |event: &Event| {
        let place = format!("event {}, {}", event.seq(), event.kind());
        Err(broken("a secret that a command printed was kept", place))
    };
    for event in events {
        if event.body.to_string().contains(SECRET) {
            return leak(event);
        }
        let mut blobs = Vec::new();
        referred(&event.body, &mut blobs);
        for digest in blobs {
            if holds(&log.blob(&digest)?, SECRET.as_bytes()) {
                return leak(event);
            }
        }
    }
    Ok(())
}

/// The blobs that a body names, however deep.
fn referred(body: &Value, into: &mut Vec<Digest>) {
    match body {
        Value::Object(members) => {
            let digest = members.get("blob").and_then(Value::as_str);
            into.extend(digest.and_then(|text| text.parse::<Digest>().ok()));
            members.values().for_each(|value| referred(value, into));
        }
        Value::Array(values) => values.iter().for_each(|value| referred(value, into)),
        _ => {}
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// A copy of the log proves itself, and no longer does when one event of it is changed.
fn a_changed_byte_is_found(home: &Path) -> Result<(), Error> {
    let copy = Copy::of(home)?;
    if let Verification::Broken(found) = copy.verify()? {
        return Err(broken("a copy of the log does not prove itself", found.kind));
    }
    copy.close()?;
    copy.change_one_event()?;
    match copy.verify()? {
        Verification::Broken(found) if found.kind == "hash_mismatch" => Ok(()),
        Verification::Broken(found) => {
            Err(broken("a changed event is taken for something else", found.kind))
        }
        Verification::Sound(_) => {
            Err(broken("a changed event was not noticed", "the changed log still proves itself"))
        }
    }
}

/// The files of a log, copied, beside its own blobs; removed when dropped.
struct Copy(PathBuf);

impl Copy {
    fn of(home: &Path) -> Result<Self, Error> {
        let copy = Self(home.join("run").join(format!("copy-{}", std::process::id())));
        for (directory, wanted) in [("", "log.db"), ("heads", ""), ("keys", "")] {
            let (from, to) = (home.join(directory), copy.0.join(directory));
            fs::create_dir_all(&to).map_err(|e| unusable(&to, e))?;
            for entry in fs::read_dir(&from).map_err(|e| unusable(&from, e))? {
                let path = entry.map_err(|e| unusable(&from, e))?.path();
                let name = path.file_name().unwrap_or_default();
                if path.is_file() && name.to_string_lossy().starts_with(wanted) {
                    fs::copy(&path, to.join(name)).map_err(|e| unusable(&path, e))?;
                }
            }
        }
        let blobs = copy.0.join("blobs");
        symlink(home.join("blobs"), &blobs).map_err(|e| unusable(&blobs, e))?;
        Ok(copy)
    }

    fn verify(&self) -> Result<Verification, Error> {
        Ok(verify_home(&self.0, &TenantId::local())?)
    }

    /// Opens and closes the log, after which its database holds everything.
    fn close(&self) -> Result<(), Error> {
        drop(Log::open(&self.0, &TenantId::local())?);
        Ok(())
    }

    /// Changes the database itself: nothing is in its journal any more.
    fn change_one_event(&self) -> Result<(), Error> {
        let file = self.0.join("log.db");
        let mut bytes = fs::read(&file).map_err(|e| unusable(&file, e))?;
        let (old, new) = CHANGED;
        let at = bytes
            .windows(old.len())
            .position(|window| window == old)
            .ok_or_else(|| broken("the log holds no denied call", "the story has several"))?;
        bytes[at..at + new.len()].copy_from_slice(new);
        fs::write(&file, bytes).map_err(|e| unusable(&file, e))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What stays behind is as closed to others as the log itself.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn unusable(path: &Path, error: std::io::Error) -> Error {
    broken("the log cannot be copied", format!("{}: {error}", path.display()))
}
