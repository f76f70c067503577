//! What a base holds.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt, symlink};

use glasshouse_sandbox::workspace::{Entry, FrozenBase};

use super::util::{Project, file, names, path};

#[test]
fn a_repository_is_tracked_and_untracked_files_but_no_ignored_ones() {
    let project = Project::git(&[
        (".gitignore", "*.log\n/target/\n"),
        ("src/a.rs", "a"),
        ("gone", "x"),
        ("kept.log", "tracked before it was ignored"),
    ]);
    project.run_git(&["add", "-f", "kept.log"]);
    project.write("src/a.rs", "dirty");
    project.write("new dir/ünew", "untracked");
    project.write("x.log", "ignored");
    project.write("target/out", "ignored");
    std::fs::remove_file(project.root().join("gone")).unwrap();
    let base = project.freeze();
    assert_eq!(names(&base.manifest), [".gitignore", "kept.log", "new dir/ünew", "src/a.rs"]);
    assert_eq!(base.manifest.get("src/a.rs"), Some(&file("dirty")));
    let git = base.git.as_ref().unwrap();
    assert_eq!(git.branch.as_deref(), Some("refs/heads/main"));
    assert_eq!(git.head.as_deref(), Some(project.run_git(&["rev-parse", "HEAD"]).as_str()));
    assert_eq!(std::fs::read_to_string(base.dir.join("src/a.rs")).unwrap(), "dirty");
    assert!(!base.dir.join(".git").exists());
    base.verify().unwrap();
    // What a session event carries is the whole record.
    let text = serde_json::to_string(&base).unwrap();
    assert_eq!(serde_json::from_str::<FrozenBase>(&text).unwrap(), base);
}

#[test]
fn modes_and_links_are_kept_and_links_are_not_followed() {
    let project = Project::git(&[("run.sh", "#!/bin/sh\n"), ("dir/f", "f")]);
    let outside = project.dir.path().join("secret");
    std::fs::write(&outside, "secret").unwrap();
    let run = project.root().join("run.sh");
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o750)).unwrap();
    symlink(&outside, project.root().join("out")).unwrap();
    symlink("dir", project.root().join("dirlink")).unwrap();
    let base = project.freeze();
    assert!(matches!(base.manifest.get("run.sh"), Some(Entry::File { executable: true, .. })));
    let link = Entry::Symlink { target: outside.to_str().unwrap().to_owned() };
    assert_eq!(base.manifest.get("out"), Some(&link));
    assert_eq!(std::fs::read_link(base.dir.join("dirlink")).unwrap().to_str(), Some("dir"));
    assert_eq!(base.dir.join("run.sh").metadata().unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn equal_trees_share_one_copy_and_a_changed_tree_has_its_own() {
    let project = Project::git(&[("a", "1")]);
    let (first, second) = (project.freeze(), project.freeze());
    assert_eq!(first, second);
    project.write("a", "2");
    let third = project.freeze();
    assert_ne!(first.dir, third.dir);
    first.verify().unwrap();
    third.verify().unwrap();
    std::fs::write(third.dir.join("a"), "3").unwrap();
    assert_eq!(third.verify().unwrap_err().code(), "workspace_damaged");
    assert_eq!(third.read(&path("a")).unwrap_err().code(), "workspace_damaged");
}

#[test]
fn concurrent_freezes_of_one_tree_agree() {
    let files: Vec<(String, String)> =
        (0..200).map(|n| (format!("d{}/f{n}", n % 7), "x".repeat(n))).collect();
    let files: Vec<_> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let project = Project::plain(&files);
    let digests: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| project.freeze())).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for base in &digests {
        assert_eq!(base.digest, digests[0].digest);
        base.verify().unwrap();
    }
    let left: Vec<_> = std::fs::read_dir(project.dir.path().join("cache")).unwrap().collect();
    assert_eq!(left.len(), 1, "no half-built base stays: {left:?}");
}

#[test]
fn a_leftover_of_a_crash_is_no_base() {
    let project = Project::plain(&[("a", "1")]);
    let cache = project.dir.path().join("cache");
    std::fs::create_dir_all(cache.join(format!("building-{}-0/tree", std::process::id()))).unwrap();
    project.freeze().verify().unwrap();
}

#[test]
fn a_directory_without_git_is_taken_whole() {
    let project = Project::plain(&[("a", "1"), ("b/c", "2")]);
    std::fs::create_dir_all(project.root().join("empty/inner")).unwrap();
    let base = project.freeze();
    assert_eq!(names(&base.manifest), ["a", "b/c", "empty/inner"]);
    assert_eq!(base.manifest.get("empty/inner"), Some(&Entry::Dir));
    assert!(base.git.is_none());
    base.verify().unwrap();
}

#[test]
fn a_directory_of_a_repository_is_taken_alone() {
    let project = Project::git(&[("top", "t"), ("sub/a", "a"), ("sub/b/c", "c")]);
    let cache = project.dir.path().join("cache");
    let sub = project.root().join("sub");
    let base = glasshouse_sandbox::workspace::freeze(&sub, &cache, super::util::own()).unwrap();
    assert_eq!(names(&base.manifest), ["a", "b/c"]);
    assert!(base.git.is_some());
}

#[test]
fn repositories_inside_are_taken_and_named() {
    let project = Project::git(&[("a", "1")]);
    project.write("nested/f", "f");
    project.write("nested/x.log", "ignored by its own rules");
    project.write("nested/.gitignore", "*.log\n");
    let nested = project.root().join("nested");
    let status =
        std::process::Command::new("git").args(["init", "-q"]).current_dir(&nested).status();
    assert!(status.unwrap().success());
    let base = project.freeze();
    assert_eq!(names(&base.manifest), ["a", "nested/.gitignore", "nested/f"]);
    assert_eq!(base.submodules.iter().map(|p| p.as_str()).collect::<Vec<_>>(), ["nested"]);
}

#[test]
fn names_that_no_event_can_hold_are_refused_by_name() {
    let check = |name: &[u8], shown: &str| {
        let project = Project::plain(&[("a", "1")]);
        std::fs::write(project.root().join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
        let error = project.try_freeze().unwrap_err();
        assert_eq!(error.code(), "path_unrepresentable");
        assert!(error.to_string().contains(shown), "{error}");
    };
    check(b"bad\xff", "bad");
    check(b"line\nfeed", "line\\nfeed");
}

#[test]
fn a_huge_directory_without_git_is_refused() {
    let project = Project::plain(&[]);
    let file = std::fs::File::create(project.root().join("big")).unwrap();
    file.set_len(glasshouse_sandbox::workspace::MAX_FILE_BYTES + 1).unwrap();
    assert_eq!(project.try_freeze().unwrap_err().code(), "workspace_too_large");
}
