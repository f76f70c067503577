//! Files that decide what may happen are read only where they are plain files: a link may lead to
//! somebody else's, a pipe or a device never ends.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::Place;

/// Longest that refusing may take; opening a pipe for reading would wait for ever.
const SOON: Duration = Duration::from_secs(20);

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn e2e_policy_and_configuration_are_plain_files() {
    type Spoil = (&'static str, fn(&Path, &str));
    let spoils: [Spoil; 4] = [
        ("link", |file, text| {
            // What it leads to would do, if it were read.
            let outside = file.ancestors().nth(3).unwrap().join("outside.yaml");
            std::fs::write(&outside, text).unwrap();
            symlink(outside, file).unwrap();
        }),
        ("device", |file, _| symlink("/dev/zero", file).unwrap()),
        ("pipe", |file, _| fifo(file)),
        ("directory", |file, _| std::fs::create_dir(file).unwrap()),
    ];
    for (name, spoil) in spoils {
        for file in [".glasshouse/config.yaml", ".glasshouse/policy.yaml"] {
            let place = Place::new();
            let project = place.shell_project();
            let path = project.join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|_| "version: 1\n".to_owned());
            let _ = std::fs::remove_file(&path);
            spoil(&path, &text);
            let command = place
                .scenario_command(&project, "version: 1\nsteps: [ { emit: [ { text: hi } ] } ]\n");
            let mut running = place.spawn(command);
            let started = Instant::now();
            assert_eq!(running.wait(SOON), Some(2), "{name} {file}");
            assert!(started.elapsed() < SOON);
            let told = std::fs::read_to_string(place.path("stdout")).unwrap();
            assert!(told.contains("input_unreadable"), "{name} {file}: {told}");
            assert!(told.contains("no regular file"), "{name} {file}: {told}");
        }
    }
}
