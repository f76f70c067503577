//! The doctor's report.

use glasshouse_sandbox::{Examination, HostConfig, Level, doctor};

use crate::support::*;

#[test]
fn the_doctor_measures_and_reports() {
    let home = tempfile::tempdir().unwrap();
    let config = HostConfig { program: program(), home: home.path().to_owned() };
    let report = doctor(&config);
    let expected = if is_root() { Level::Full } else { Level::NoCgroup };
    assert_eq!(report.level, expected, "{report:#?}");
    let probes = &report.backends[0].probes;
    assert!(probes.len() > 15);
    for probe in probes {
        // What surrounds the machine that tests is told, and is nobody's claim.
        let may_fail = probe.name.starts_with("host-") || (probe.name == "limits" && !is_root());
        assert!(probe.held() || may_fail, "{probe:?}");
        assert_eq!(probe.held(), probe.remedy.is_empty(), "{probe:?}");
    }
    // What is read back is no attack; each attack either succeeds elsewhere, or it is told why not.
    let attacks = probes.iter().filter(|probe| !probe.control.is_empty());
    let (reached, told): (Vec<_>, Vec<_>) = attacks.partition(|probe| probe.control == "reached");
    assert!(told.iter().all(|probe| probe.control.starts_with("none: ")), "{told:?}");
    assert_eq!(reached.len() + told.len(), 27, "{probes:#?}");
    // What a user, or a kernel, may not do anywhere differs; these work everywhere.
    let certain = ["read-secret", "write-outside", "write-system", "signal", "descriptors"];
    for name in certain.iter().chain(&["network", "abstract-socket", "memory-limit"]) {
        assert!(reached.iter().any(|probe| probe.name == *name), "{name}: {told:?}");
    }
    assert!(reached.len() >= if is_root() { 20 } else { 15 }, "{told:#?}");
    let json = serde_json::to_value(&report).unwrap();
    let first = &json["backends"][0];
    assert_eq!(first["name"], "native");
    for key in ["name", "claim", "result", "remedy"] {
        assert!(first["probes"][0][key].is_string(), "{key}");
    }
    assert!(std::fs::read_dir(home.path().join("run")).unwrap().next().is_none());
}

/// The failure: a hole that the doctor had found stayed its own knowledge, and events went on to say
/// that everything was in force.
/// The attack: what was found lay in a file beside the log, and whoever bettered the file bettered every
/// later event.
#[test]
fn what_was_found_is_stamped_on_every_sandbox_and_no_file_betters_it() {
    let home = Home::new();
    let spec = home.spec("s1");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let better = format!("{{\"level\":\"full\",\"boot\":\"{}\",\"failed\":[]}}", boot.trim());
    std::fs::write(home.path("examination.json"), better).unwrap();
    home.host.set_examined(Some(Level::NoLandlock));
    let sandbox = home.host.create(&spec).unwrap();
    assert_eq!(sandbox.attestation().to_string(), "native:no-landlock");
    sandbox.destroy().unwrap();
    home.host.set_examined(Some(Level::Refused));
    let refused = home.host.create(&spec).unwrap_err();
    assert_eq!(refused.code(), "isolation_unavailable", "{refused}");
    // Another examination, and nothing else, says that it is gone. It is not stopped by the last one.
    let config = HostConfig { program: program(), home: home.directory.path().to_owned() };
    let report = doctor(&config);
    let found = Examination::of(&report).unwrap_or_else(|| panic!("{report:#?}"));
    assert_ne!(found.level, Level::Refused);
    home.host.set_examined(found.level_now());
    assert_eq!(home.host.create(&spec).unwrap().attestation().level(), found.level);
}

/// The failure: a probe was believed when it failed, whatever the reason, so an examination by a broken program
/// found that everything held.
#[test]
fn an_attack_that_fails_everywhere_shows_nothing() {
    let home = tempfile::tempdir().unwrap();
    // Makes sandboxes as the real one does, and refuses itself every attack.
    let broken = home.path().join("broken");
    let real = program();
    let script =
        format!("#!/bin/sh\n[ \"$2\" = probe ] && exit 1\nexec {} \"$@\"\n", real.display());
    std::fs::write(&broken, script).unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let report = doctor(&HostConfig { program: broken, home: home.path().to_owned() });
    assert_eq!(report.level, Level::Refused, "{report:#?}");
    let probes = &report.backends[0].probes;
    let secret = probes.iter().find(|probe| probe.name == "read-secret").unwrap();
    assert_eq!(secret.result, "not measured: it fails without a sandbox, too ()");
    assert!(probes[0].held(), "the control: a sandbox was made");
}

#[test]
fn a_host_that_cannot_isolate_is_reported_not_hidden() {
    let home = tempfile::tempdir().unwrap();
    let config = HostConfig { program: "/bin/true".into(), home: home.path().to_owned() };
    let report = doctor(&config);
    assert_eq!(report.level, Level::Refused);
    assert!(!report.backends[0].probes[0].held());
    assert!(!report.backends[0].probes[0].remedy.is_empty());
}
