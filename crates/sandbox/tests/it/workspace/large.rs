//! Workspaces of many files, and of many generations.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_sandbox::workspace::{Marks, Workspace};

use super::util::{Blobs, Mounted, Project, skipped, write};

/// Files of a large repository.
const MANY: usize = 100_000;

/// What a person who waits for one command still calls at once, on a busy machine without optimisation.
const AT_ONCE: Duration = Duration::from_secs(2);

#[test]
#[ignore = "minutes; `cargo xtask soak` runs it"]
#[allow(clippy::print_stderr, reason = "the numbers are what it is read for")]
fn a_hundred_thousand_files_stay_usable() {
    let project = Project::plain(&[]);
    for number in 0..MANY {
        project.write(&format!("d{}/f{number}", number % 1000), &format!("{number}\n"));
    }
    project.run_git(&["init", "-q", "-b", "main"]);
    project.run_git(&["add", "-A"]);
    let blobs = Blobs::default();
    let time = |name: &str, most: Duration, act: &mut dyn FnMut()| {
        let started = Instant::now();
        act();
        let took = started.elapsed();
        eprintln!("{MANY} files: {name} {} ms", took.as_millis());
        assert!(took < most, "{name} took {took:?}");
    };
    let mut base = None;
    // Once for a state of the project, not for a session.
    time("first freeze", Duration::from_secs(180), &mut || base = Some(project.freeze()));
    time("freeze again", Duration::from_secs(60), &mut || base = Some(project.freeze()));
    let base = Arc::new(base.unwrap());
    assert_eq!(base.manifest.len(), MANY);
    let mut made = None;
    time("fork", AT_ONCE, &mut || {
        let dir = project.dir.path().join("ws");
        made = Some(Workspace::create(Arc::clone(&base), &dir, Marks::Trusted).unwrap());
    });
    let workspace = made.unwrap();
    let upper = workspace.overlay_dirs().upper;
    for number in 0..30 {
        write(&upper, &format!("d{number}/f{number}"), "changed\n");
    }
    let mut seal = None;
    time("seal of 30 changes", AT_ONCE, &mut || {
        seal = Some(workspace.seal(&blobs, &workspace.unchanged()).unwrap());
    });
    let seal = seal.unwrap();
    assert_eq!(seal.changed.len(), 30);
    time("rollback", AT_ONCE, &mut || {
        workspace.rollback(&workspace.unchanged(), &blobs).unwrap();
    });
    time("rollback forward", AT_ONCE, &mut || {
        workspace.rollback(&seal.manifest, &blobs).unwrap();
    });
    let again = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
    assert_eq!(again.digest, seal.digest);
}

/// A branch of a branch of a branch could have as many layers as generations, each a look-up more for
/// every file that is missing, until the kernel takes no more. Each is one layer above the base: a seal
/// is a difference from the base, and a fork begins with it.
#[test]
fn a_branch_of_many_branches_is_flat() {
    let name = "a_branch_of_many_branches_is_flat";
    let project = Project::plain(&[("kept", "k\n"), ("gone", "g\n"), ("dir/a", "a\n")]);
    let base = Arc::new(project.freeze());
    let blobs = Blobs::default();
    let at = |generation: usize| project.dir.path().join(format!("ws{generation}"));
    let fork = |generation| Workspace::create(Arc::clone(&base), &at(generation), Marks::Trusted);
    let mut workspace = fork(0).unwrap();
    for generation in 1..=40 {
        write(&workspace.overlay_dirs().upper, &format!("g{generation}"), "new\n");
        let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
        workspace = fork(generation).unwrap();
        workspace.rollback(&seal.manifest, &blobs).unwrap();
    }
    assert_eq!(workspace.overlay_dirs().lowers, std::slice::from_ref(&base.dir));
    let mounted = match Mounted::new(&workspace, project.dir.path().join("mnt")) {
        Ok(mounted) => mounted,
        Err(why) => return skipped(name, &why),
    };
    let count = std::fs::read_dir(mounted.at()).unwrap().count();
    assert_eq!(count, 3 + 40);
    assert_eq!(std::fs::read_to_string(mounted.at().join("g1")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(mounted.at().join("dir/a")).unwrap(), "a\n");
}
