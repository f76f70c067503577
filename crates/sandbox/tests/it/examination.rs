//! The doctor's report.

use glasshouse_sandbox::{HostConfig, Level, doctor};

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
        let may_fail = probe.name == "limits" && !is_root();
        assert!(probe.held() || may_fail, "{probe:?}");
        assert_eq!(probe.held(), probe.remedy.is_empty(), "{probe:?}");
    }
    let json = serde_json::to_value(&report).unwrap();
    let first = &json["backends"][0];
    assert_eq!(first["name"], "native");
    for key in ["name", "claim", "result", "remedy"] {
        assert!(first["probes"][0][key].is_string(), "{key}");
    }
    assert!(std::fs::read_dir(home.path().join("run")).unwrap().next().is_none());
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
