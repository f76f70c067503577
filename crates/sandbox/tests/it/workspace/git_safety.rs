//! Git plumbing in a hostile repository runs nothing of it; ordinary git does.

use glasshouse_sandbox::workspace::git::Git;

use super::util::Project;

/// A repository whose configuration runs a program at every chance; each leaves a mark in a file.
fn evil() -> (Project, std::path::PathBuf) {
    let project = Project::git(&[("a.txt", "a\n")]);
    let mark = project.dir.path().join("ran");
    let script = project.dir.path().join("evil.sh");
    let text = format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", mark.display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = script.to_str().unwrap();
    for name in ["pre-commit", "post-index-change", "reference-transaction", "post-commit"] {
        std::os::unix::fs::symlink(run, project.root().join(".git/hooks").join(name)).unwrap();
    }
    for (key, value) in [
        ("core.fsmonitor", run),
        ("filter.evil.clean", run),
        ("filter.evil.smudge", run),
        ("diff.evil.textconv", run),
        ("core.pager", run),
        ("core.editor", run),
    ] {
        project.run_git(&["config", key, value]);
    }
    project.write(".gitattributes", "* filter=evil diff=evil\n");
    let _ = std::fs::remove_file(&mark);
    (project, mark)
}

#[test]
fn freezing_a_hostile_repository_runs_nothing_of_it() {
    let (project, mark) = evil();
    project.write("a.txt", "changed\n");
    let base = project.freeze();
    base.ignored([&super::util::path("new")]).unwrap();
    assert!(!mark.exists(), "ran: {}", std::fs::read_to_string(&mark).unwrap());
    // The control: the same repository, plain git.
    project.run_git(&["status", "--porcelain"]);
    project.run_git(&["add", "a.txt"]);
    assert!(mark.exists(), "the traps do not work, so the test above proves nothing");
}

#[test]
fn the_repository_cannot_point_git_elsewhere() {
    let (project, _) = evil();
    let elsewhere = project.dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("secret"), "s").unwrap();
    project.run_git(&["config", "core.worktree", elsewhere.to_str().unwrap()]);
    let base = project.freeze();
    assert!(base.manifest.get("secret").is_none());
    assert!(base.manifest.get("a.txt").is_some());
}

#[test]
fn a_linked_git_directory_is_refused() {
    let project = Project::plain(&[("a", "1")]);
    let other = Project::git(&[("b", "2")]);
    std::os::unix::fs::symlink(other.root().join(".git"), project.root().join(".git")).unwrap();
    assert_eq!(Git::discover(&project.root()).unwrap_err().code(), "git_failed");
    assert_eq!(project.try_freeze().unwrap_err().code(), "git_failed");
    // Above the project such a link is nobody's business.
    let below = project.root().join("below");
    std::fs::create_dir(&below).unwrap();
    assert!(Git::discover(&below).unwrap().is_none());
}

/// A pipe where git expects a file made every git command wait for its own time limit.
#[test]
fn a_repository_with_a_pipe_for_a_file_is_refused_at_once() {
    for name in ["HEAD", "index", "config", "packed-refs", "shallow", "info/exclude"] {
        let project = Project::git(&[("a.txt", "a\n")]);
        assert!(Git::discover(&project.root()).is_ok(), "the control");
        let file = project.root().join(".git").join(name);
        let _ = std::fs::remove_file(&file);
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        let error = project.try_freeze().unwrap_err();
        assert_eq!(error.code(), "git_failed", "{name}");
        assert!(error.to_string().contains("no regular file"), "{name}: {error}");
    }
}

/// The failure: where links of a repository lead was told, and not what lies there: one inside led to one that leads
/// out. And repositories whose objects are borrowed were looked through wherever they were.
#[test]
fn a_repository_stays_inside_by_every_way_that_leads_out_of_it() {
    let check = |change: &dyn Fn(&std::path::Path), inside: bool| {
        let project = Project::git(&[("a", "1")]);
        let root = project.root().canonicalize().unwrap();
        change(&root);
        let git = Git::discover(&root).unwrap().unwrap();
        let is_inside = |place: &std::path::Path| place.starts_with(&root);
        assert_eq!(git.stays_inside(&is_inside).unwrap(), inside);
    };
    let link = |to: &str, at: std::path::PathBuf| std::os::unix::fs::symlink(to, at).unwrap();
    check(&|_| {}, true);
    check(&|root| std::fs::create_dir(root.join("kept")).unwrap(), true);
    check(&|root| link("/etc", root.join(".git/elsewhere")), false);
    check(&|root| link("../../nowhere", root.join(".git/elsewhere")), false);
    check(
        &|root| {
            std::fs::create_dir(root.join("kept")).unwrap();
            link("../kept", root.join(".git/elsewhere"));
        },
        true,
    );
    check(
        &|root| {
            std::fs::create_dir(root.join("kept")).unwrap();
            link("../kept", root.join(".git/elsewhere"));
            link("/etc", root.join("kept/further"));
        },
        false,
    );
    check(&|root| std::fs::write(root.join(".git/objects/info/alternates"), "/\n").unwrap(), false);
}
