//! Commits: exact paths, one commit whatever crashes, nothing of the repository runs.

use super::*;

#[test]
fn a_commit_holds_the_merged_paths_and_nothing_else() {
    let case = Case::git(&["a=1 ", "b=1 ", "gone=1 "], &["a=2 ", "-gone", "dir/new=3 "]);
    // The user has staged one file and is editing another.
    case.user(&["b=staged ", "c=new and staged "]);
    git(&case.root(), &["add", "b", "c"]);
    case.user(&["b=edited again "]);
    case.reviewed().unwrap();
    let Committed::Commit { id, branch } = case.commit().unwrap() else { panic!() };
    let root = case.root();
    assert_eq!(branch.as_deref(), Some("refs/heads/main"));
    assert_eq!(git(&root, &["rev-parse", "main"]), id);
    assert_eq!(
        git(&root, &["show", "-s", "--format=%an %ae %at %s", &id]),
        "Agent agent@example.org 1790000000 Do it"
    );
    assert_eq!(
        git(&root, &["diff-tree", "-r", "--name-status", "HEAD~1", "HEAD"]),
        "M\ta\nA\tdir/new\nD\tgone"
    );
    assert_eq!(git(&root, &["status", "--porcelain"]), "MM b\nA  c");
    assert_eq!(git(&root, &["diff", "--cached", "--name-only"]), "b\nc");
    git(&root, &["fsck", "--strict"]);
    assert_eq!(case.commit().unwrap(), Committed::Commit { id, branch });
    assert_eq!(git(&root, &["rev-list", "--count", "HEAD"]), "2");
    assert!(
        std::fs::read_dir(root.join(".git"))
            .unwrap()
            .all(|item| { !item.unwrap().file_name().to_str().unwrap().starts_with("glasshouse") })
    );
}

#[test]
fn a_crash_at_any_act_of_a_commit_makes_one_commit() {
    for stop_at in 1..=6 {
        let case = Case::git(&["a=1 "], &["a=2 ", "n=3 "]);
        case.automatic().unwrap();
        let mut count = 0;
        let stopped = until_crash(|| {
            case.commit_with(&mut |_| {
                count += 1;
                if count == stop_at { crash() } else { Ok(()) }
            })
        });
        assert_eq!(stopped.is_none(), stop_at <= 5, "{stop_at}");
        assert!(matches!(case.commit().unwrap(), Committed::Commit { .. }));
        assert_eq!(git(&case.root(), &["rev-list", "--count", "HEAD"]), "2", "{stop_at}");
        assert_eq!(git(&case.root(), &["status", "--porcelain"]), "", "{stop_at}");
        assert!(!case.root().join(".git/index.lock").exists());
    }
}

#[test]
fn projects_without_commits_and_without_git() {
    let case = Case::new(&["a=1 "], &["b=2 "], |root| {
        git(root, &["init", "-q", "-b", "main"]);
    });
    case.automatic().unwrap();
    assert!(matches!(case.commit().unwrap(), Committed::Commit { .. }));
    assert_eq!(git(&case.root(), &["ls-tree", "-r", "--name-only", "HEAD"]), "b");
    assert_eq!(git(&case.root(), &["status", "--porcelain"]), "?? a");

    let case = Case::plain(&["a=1 "], &["b=2 "]);
    case.automatic().unwrap();
    assert_eq!(case.commit().unwrap(), Committed::NoRepository);

    let case = Case::git(&["a=1 "], &["b=2 "]);
    assert_eq!(case.commit().unwrap_err().code(), "operation_invalid");
    assert!(OperationDir::new(case.dir.path(), "../x").is_err());
}

#[test]
fn a_hostile_repository_runs_nothing() {
    let mut script = PathBuf::new();
    let case = Case::new(&["a.txt=1 "], &["a.txt=2 "], |root| {
        std::fs::write(root.join(".gitattributes"), "* diff=evil merge=evil\n").unwrap();
        git(root, &["init", "-q", "-b", "main"]);
        git(root, &["config", "user.name", "T"]);
        git(root, &["config", "user.email", "t@example.org"]);
        git(root, &["add", "-A"]);
        git(root, &["commit", "-q", "-m", "start"]);
        let dir = root.parent().unwrap();
        script = dir.join("evil.sh");
        let text = format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", dir.join("ran").display());
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        for hook in [
            "pre-commit",
            "commit-msg",
            "post-commit",
            "reference-transaction",
            "post-index-change",
            "prepare-commit-msg",
            "post-checkout",
            "fsmonitor-watchman",
        ] {
            symlink(&script, root.join(".git/hooks").join(hook)).unwrap();
        }
        for key in [
            "core.fsmonitor",
            "filter.evil.clean",
            "filter.evil.smudge",
            "filter.evil.process",
            "diff.evil.textconv",
            "diff.external",
            "merge.evil.driver",
            "gpg.program",
            "core.editor",
        ] {
            git(root, &["config", key, script.to_str().unwrap()]);
        }
        git(root, &["config", "commit.gpgSign", "true"]);
        let _ = std::fs::remove_file(dir.join("ran"));
    });
    let ran = case.dir.path().join("ran");
    case.automatic().unwrap();
    assert!(matches!(case.commit().unwrap(), Committed::Commit { .. }));
    assert!(!ran.exists(), "ran: {}", std::fs::read_to_string(&ran).unwrap());
    // The control: ordinary git in the same repository.
    case.user(&["a.txt=3 "]);
    std::fs::write(case.root().join(".gitattributes"), "* filter=evil\n").unwrap();
    let _ = Command::new("git")
        .args(["commit", "-q", "-a", "-m", "x"])
        .current_dir(case.root())
        .output()
        .unwrap();
    assert!(ran.exists(), "the traps do not work, so the test above proves nothing");
}
