//! Machines that isolate less, made for real: what a sandbox claims there, and what a rule makes of it.

use std::path::Path;
use std::process::Command;

use glasshouse_model::Kind;

use crate::harness::{Place, Ran, skipped};

/// An id that owns nothing on any machine.
const ORDINARY: u32 = 54_321;

/// Becomes a program for which the kernel has no Landlock: its first call answers that there is none.
const WITHOUT_LANDLOCK: &str = "
import ctypes, os, struct, sys
FILTER = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in FILTER))
class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('steps', ctypes.c_void_p)]
program = Program(len(FILTER), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0, 'no new privileges'
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, 'a filter'
os.execv(sys.argv[1], sys.argv[1:])
";

/// A machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    /// As it is.
    Whole,
    /// Run by a user to whom no group is delegated.
    OrdinaryUser,
    /// The same, with a file system mounted below `/usr`, which that user may not lay anything over.
    MountBelowPrograms,
    /// Its kernel has no Landlock.
    NoLandlock,
}

impl Machine {
    /// Why this one cannot be made here.
    fn lacks(self) -> Option<&'static str> {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout == b"0\n");
        let has_python = Path::new("/usr/bin/python3").exists();
        match self {
            Self::OrdinaryUser | Self::MountBelowPrograms if !is_root => {
                Some("only root can be another user")
            }
            Self::NoLandlock if !has_python => Some("python3 is not installed"),
            _ => None,
        }
    }

    /// A command on it. The program is where that user can read it.
    fn on(self, place: &Place, inner: &Command) -> Command {
        let id = ORDINARY.to_string();
        let ordinary =
            ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all"];
        let below = [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            "mount -t tmpfs none /usr/local/src; exec \"$@\"",
            "sh",
        ];
        let argv: Vec<&str> = match self {
            Self::Whole => vec!["env"],
            Self::OrdinaryUser => ordinary.to_vec(),
            Self::MountBelowPrograms => [&below[..], &ordinary].concat(),
            Self::NoLandlock => vec!["/usr/bin/python3", "-c", WITHOUT_LANDLOCK],
        };
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).arg(place.path("program")).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("HOME", place.path("nobody")).env_remove("VIRTUAL_ENV");
        command.current_dir(inner.get_current_dir().unwrap_or(&place.path("")));
        command.stdin(std::process::Stdio::null());
        command
    }

    /// Gives what a test laid out to whoever works on this machine.
    fn give(self, place: &Place) {
        std::fs::copy(env!("CARGO_BIN_EXE_glasshouse"), place.path("program")).unwrap();
        if matches!(self, Self::OrdinaryUser | Self::MountBelowPrograms) {
            let owner = format!("{ORDINARY}:{ORDINARY}");
            let given = Command::new("chown").args(["-R", &owner]).arg(place.path("")).status();
            assert!(given.unwrap().success());
        }
    }
}

fn run(machine: Machine, place: &Place, inner: &Command) -> Ran {
    Ran::new(&machine.on(place, inner).output().unwrap())
}

/// Each level is claimed where a machine gives no more, stands on every event of what ran there, and is told
/// by the doctor; a rule that demands more denies.
#[test]
fn e2e_a_machine_that_isolates_less_claims_less() {
    let check = |machine: Machine,
                 level: &str,
                 fact: (&str, serde_json::Value),
                 failed: Option<&str>| {
        let name = "e2e_a_machine_that_isolates_less_claims_less";
        if let Some(why) = machine.lacks() {
            return skipped(name, why);
        }
        let stamp = format!("native:{level}");
        let place = Place::new();
        machine.give(&place);
        let ran = run(machine, &place, &place.command(&["sandbox", "run", "--json", "--", "true"]));
        assert_eq!(ran.status, Some(0), "{machine:?}: {ran:?}");
        assert_eq!(ran.last()["isolation"], *stamp, "{machine:?}");
        let (_, events) = place.events();
        let of = |kind: Kind| events.iter().find(|event| *event.kind() == kind).unwrap();
        let created = &of(Kind::SandboxCreated).body;
        assert_eq!(created["attestation"].pointer(fact.0), Some(&fact.1), "{machine:?}: {created}");
        for event in [of(Kind::SandboxCreated), of(Kind::ToolStarted), of(Kind::ToolCompleted)] {
            assert_eq!(event.body["isolation"], *stamp, "{machine:?}: {event:?}");
        }
        let report = run(machine, &place, &place.command(&["doctor", "--json"]));
        assert_eq!(report.status, Some(0), "{machine:?}: {report:?}");
        let report = report.last();
        assert_eq!(report["level"], level, "{machine:?}: {report}");
        let probes = report["backends"][0]["probes"].as_array().unwrap();
        for probe in probes.iter().filter(|probe| Some(probe["name"].as_str().unwrap()) == failed) {
            assert!(probe["result"] != "held" && probe["remedy"] != "", "{machine:?}: {probe}");
        }
    };
    check(Machine::NoLandlock, "no-landlock", ("/landlock_abi", 0.into()), Some("landlock"));
    check(Machine::MountBelowPrograms, "no-layers", ("/layered", false.into()), Some("layers"));
    check(Machine::OrdinaryUser, "no-cgroup", ("/cgroup/memory_bytes", ().into()), Some("limits"));
    // The control: without what takes it away the level is a higher one.
    if Machine::OrdinaryUser.lacks().is_none() {
        check(Machine::Whole, "full", ("/layered", true.into()), None);
    }
}

#[test]
fn e2e_a_rule_that_demands_more_than_a_machine_gives_denies() {
    let check = |machine: Machine, demanded: &str, status: &str| {
        if let Some(why) = machine.lacks() {
            return skipped("e2e_a_rule_that_demands_more_than_a_machine_gives_denies", why);
        }
        let place = Place::new();
        let project = place.shell_project();
        let rule = format!(
            "{{ name: kept, match: {{ syscall: shell.run }}, action: allow, \
             constraints: {{ min_isolation: {demanded} }} }}"
        );
        place.accept_rule(&project, &rule);
        let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { argv: [ls, src] } } } ]
  - emit: [ { text: done } ]
";
        let inner = place.scenario_command(&project, yaml);
        machine.give(&place);
        let ran = run(machine, &place, &inner);
        assert_eq!(ran.status, Some(0), "{machine:?} {demanded}: {ran:?}");
        let log = place.log();
        let rows = log.sessions().unwrap();
        let row = rows.iter().max_by_key(|row| row.created_us).unwrap();
        let events = log.read(&row.main, 1, 100_000).unwrap();
        let end = events.iter().find(|event| event.kind().ends_call()).unwrap();
        assert_eq!(end.body["status"], status, "{machine:?} {demanded}: {end:?}");
        let is_denied = end.body["code"] == "isolation_too_weak";
        assert_eq!(is_denied, status == "denied", "{machine:?} {demanded}: {end:?}");
        // The rules allowed it; whoever asks is told that it was denied behind them.
        let proposed = events.iter().find(|event| *event.kind() == Kind::ToolProposed).unwrap();
        let (session, at) = (row.session.to_string(), proposed.seq().to_string());
        drop(log);
        let explain = ["policy", "explain", "--session", &session, "--at", &at, "--json"];
        let told = place.run(&explain).expect_status(0).last();
        assert_eq!(told["denied_later"].is_object(), is_denied, "{machine:?} {demanded}: {told}");
    };
    check(Machine::NoLandlock, "no-landlock", "completed");
    check(Machine::NoLandlock, "no-layers", "denied");
    check(Machine::MountBelowPrograms, "no-layers", "completed");
    check(Machine::MountBelowPrograms, "no-cgroup", "denied");
    check(Machine::OrdinaryUser, "no-cgroup", "completed");
    check(Machine::OrdinaryUser, "full", "denied");
}
