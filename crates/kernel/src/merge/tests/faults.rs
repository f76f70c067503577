//! Merges that cannot be made: everything is as before, with a reason.

use std::os::unix::fs::FileTypeExt as _;

use super::*;

fn everything(cache: &Path) -> Case {
    Case::cached(
        tempfile::tempdir().unwrap(),
        cache,
        &["edit=1 2 3 4 5 ", "gone/deep/f=1 ", "to-dir=1 ", "d/x=1 ", "mode=m ", "l@a", "keep=k "],
        &["edit=1 2 3 4 x ", "-gone/deep/f", "to-dir/x=2 ", "+mode", "l@b", "new/a/b=n "],
        |_| {},
    )
}

/// The failure: a disk that fills up (or turns read-only) in the middle of a merge left half of the
/// files new. A crash was resumed, a fault was not undone.
/// Now: a fault at any act puts every file back, tells what failed, and answers the same when asked again.
#[test]
fn a_fault_at_any_act_of_a_merge_is_undone() {
    let cache = tempfile::tempdir().unwrap();
    let whole = everything(cache.path());
    let before = whole.files();
    let run = |case: &Case, fail_at: usize| {
        let proposal = case.proposal();
        let authority = Authority::Reviewed { binding: &proposal.binding, deletions: true };
        let mut count = 0;
        let result =
            apply_with(&case.root(), case.input(), authority, &case.operation(), &mut |name| {
                count += 1;
                if count != fail_at {
                    return Ok(());
                }
                let full = glasshouse_sandbox::Error::new(
                    glasshouse_sandbox::codes::WORKSPACE_IO,
                    format!("cannot {name}"),
                );
                Err(full.why("No space left on device").into())
            });
        (result, count)
    };
    let (result, acts) = run(&whole, usize::MAX);
    result.unwrap();
    for fail_at in 1..=acts {
        let case = everything(cache.path());
        let error = run(&case, fail_at).0.unwrap_err();
        assert_eq!(error.code(), "workspace_io", "{fail_at}");
        assert_eq!(case.files(), before, "fault {fail_at}: {error}");
        for made in ["new", "to-dir/x"] {
            assert!(!case.root().join(made).exists(), "{fail_at} left {made}");
        }
        assert!(case.root().join("gone/deep").is_dir());
        if case.dir.path().join("op1").exists() {
            let again = case.automatic().unwrap_err();
            assert_eq!(again.code(), "workspace_io", "{fail_at}");
            assert!(again.to_string().contains("as it was before"), "{again}");
            assert_eq!(case.files(), before);
        }
    }
}

/// The failure: as above, with the faults that file systems really answer, not injected ones.
/// Now: whatever the cause, the other files are old again, and the error names the path.
#[test]
fn faults_of_the_file_system_are_undone() {
    type Spoil = (&'static str, fn(&Path));
    let spoils: [Spoil; 3] = [
        ("a directory where a file is expected", |root| {
            std::fs::remove_file(root.join("z")).unwrap();
            std::fs::create_dir(root.join("z")).unwrap();
        }),
        ("a pipe where a file is expected", |root| {
            std::fs::remove_file(root.join("z")).unwrap();
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
            rustix::fs::mknodat(rustix::fs::CWD, root.join("z"), kind, mode, 0).unwrap();
        }),
        ("an immutable way", |root| {
            std::fs::remove_file(root.join("z")).unwrap();
        }),
    ];
    for (name, spoil) in spoils {
        let case = Case::plain(&["a=1 ", "z=1 "], &["a=2 ", "new=3 ", "z=2 "]);
        let mut spoiled = false;
        let outcome = apply_with(
            &case.root(),
            case.input(),
            Authority::Reviewed { binding: &case.proposal().binding, deletions: true },
            &case.operation(),
            &mut |act| {
                // `a` and `new` are done by the time that `z` is.
                if act == "write part" && case.root().join("new").exists() && !spoiled {
                    spoiled = true;
                    spoil(&case.root());
                }
                Ok(())
            },
        );
        assert!(spoiled, "{name}");
        match outcome {
            Ok(Outcome::Conflict(conflicts)) => assert_eq!(conflicts[0].path.as_str(), "z"),
            Ok(Outcome::Applied(_)) => panic!("{name}: merged"),
            Err(error) => assert!(error.to_string().contains('z'), "{name}: {error}"),
        }
        assert_eq!(std::fs::read(case.root().join("a")).unwrap(), b"1\n", "{name}");
        assert!(!case.root().join("new").exists(), "{name}");
    }
}

/// The failure: going back wrote the old contents anew, so on a full disk it failed as well.
/// Now: replaced files stay beside their places until the merge is whole, and the same file comes back.
#[test]
fn going_back_gives_back_the_very_file() {
    let case = Case::plain(&["a=1 ", "z=1 "], &["a=2 ", "z=2 "]);
    let inode = |name: &str| case.root().join(name).metadata().unwrap().ino();
    let before = inode("a");
    let mut acts = 0;
    let result = apply_with(
        &case.root(),
        case.input(),
        Authority::Automatic,
        &case.operation(),
        &mut |act| {
            acts += usize::from(act == "write part");
            if acts < 2 {
                return Ok(());
            }
            assert_ne!(inode("a"), before);
            acts = 0;
            Err(crate::Error::new(codes::OPERATION_DAMAGED, "cannot write"))
        },
    );
    assert_eq!(result.unwrap_err().code(), "operation_damaged");
    assert_eq!(inode("a"), before);
}

/// The failure: if undoing fails too, the answer must not be that all is well.
/// Now: what could be undone is, the rest is named, and the same call finishes it later.
#[test]
fn what_cannot_be_undone_is_named_and_undone_later() {
    let case = Case::plain(&["a=1 ", "b=1 ", "z=1 "], &["a=2 ", "b=2 ", "z=2 "]);
    let before = case.files();
    let (mut parts, mut undone) = (0, 0);
    let error = apply_with(
        &case.root(),
        case.input(),
        Authority::Automatic,
        &case.operation(),
        &mut |act| {
            parts += usize::from(act == "write part");
            undone += usize::from(act == "undo");
            let fails = (act == "write part" && parts == 3) || (act == "undo" && undone == 2);
            if fails { Err(crate::Error::new(codes::OPERATION_DAMAGED, act)) } else { Ok(()) }
        },
    )
    .unwrap_err();
    assert_eq!((error.code(), error.exit().status()), ("merge_incomplete", 9));
    assert_eq!(error.report().context["paths"], serde_json::json!(["b"]));
    assert_eq!(case.files()["a"], "1 ");
    assert_eq!(case.files()["b"], "2 ");
    assert_eq!(case.automatic().unwrap_err().code(), "operation_damaged");
    assert_eq!(case.files(), before);
}

/// The failure: files were written first, and only the commit found out that git was in the middle of
/// something or locked; they stayed, in no commit.
/// Now: all of that is looked at first, within a bounded wait, and nothing is written.
#[test]
fn a_busy_repository_is_refused_before_anything_is_written() {
    let check = |file: &str| {
        let case = Case::git(&["a=1 "], &["a=2 "]);
        let blocker = case.root().join(".git").join(file);
        std::fs::write(&blocker, "x").unwrap();
        let head = git(&case.root(), &["rev-parse", "main"]);
        let index = std::fs::read(case.root().join(".git/index")).unwrap();
        let error = case.automatic().unwrap_err();
        assert_eq!((error.code(), error.exit().status()), ("repository_busy", 8), "{file}");
        assert!(error.to_string().contains(file.rsplit('/').next().unwrap()), "{error}");
        assert_eq!(listed(&case.files()), ["a=1 "], "{file}");
        assert_eq!(std::fs::read(case.root().join(".git/index")).unwrap(), index);
        assert_eq!(git(&case.root(), &["rev-parse", "main"]), head);
        std::fs::remove_file(blocker).unwrap();
        case.automatic().unwrap();
        assert!(matches!(case.commit().unwrap(), Committed::Commit { .. }), "{file}");
    };
    for name in ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_START", "rebase-merge"] {
        check(name);
    }
    std::thread::scope(|scope| {
        for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
            scope.spawn(move || check(lock));
        }
    });
}

/// The failure: another program's `index.lock` of a moment made a merge fail.
/// Now: it is waited for.
#[test]
fn a_lock_of_a_moment_is_waited_for() {
    for (lock, applied) in
        [("index.lock", false), ("index.lock", true), ("refs/heads/main.lock", true)]
    {
        let case = Case::git(&["a=1 "], &["a=2 "]);
        if applied {
            case.automatic().unwrap();
        }
        let file = case.root().join(".git").join(lock);
        std::fs::write(&file, "").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(300));
                std::fs::remove_file(&file).unwrap();
            });
            case.automatic().unwrap();
            assert!(matches!(case.commit().unwrap(), Committed::Commit { .. }), "{lock} {applied}");
        });
        assert_eq!(git(&case.root(), &["status", "--porcelain"]), "");
    }
}

/// The failure: when the commit could not be made, the merged files stayed behind, in no commit.
/// Now: they are taken out again, and only what the user changed since stays, by name.
#[test]
fn a_merge_that_cannot_be_committed_is_taken_back() {
    type Spoil = (&'static str, &'static str, fn(&Path));
    let spoils: [Spoil; 5] = [
        ("another branch", "head_moved", |root| {
            git(root, &["checkout", "-q", "-b", "other"]);
        }),
        ("detached", "head_moved", |root| {
            git(root, &["checkout", "-q", "--detach"]);
        }),
        ("a merge in progress", "repository_busy", |root| {
            std::fs::write(root.join(".git/MERGE_HEAD"), "x").unwrap();
        }),
        ("a lock that stays", "repository_busy", |root| {
            std::fs::write(root.join(".git/index.lock"), "x").unwrap();
        }),
        ("a commit of the same lines", "merge_conflict", |root| {
            std::fs::write(root.join("other"), "").unwrap();
            std::fs::write(root.join("a"), "9\n").unwrap();
            git(root, &["commit", "-q", "-a", "-m", "by the user"]);
        }),
    ];
    for (name, code, spoil) in spoils {
        let case = Case::git(&["a=1 ", "gone=1 "], &["a=2 ", "n/new=3 ", "-gone"]);
        case.reviewed().unwrap();
        spoil(&case.root());
        let error = case.commit().unwrap_err();
        assert_eq!((error.code(), error.exit().status()), (code, 8), "{name}");
        let mut files = case.files();
        files.remove("other");
        let a = if code == "merge_conflict" { "a=9 " } else { "a=1 " };
        assert_eq!(listed(&files), [a, "gone=1 "], "{name}");
        assert_eq!(case.commit().unwrap_err().code(), code, "{name}");
    }
    // What the user wrote after the merge is not taken away.
    let case = Case::git(&["a=1 ", "b=1 "], &["a=2 ", "b=2 "]);
    case.automatic().unwrap();
    case.user(&["a=user "]);
    git(&case.root(), &["checkout", "-q", "-b", "other"]);
    let error = case.commit().unwrap_err();
    assert_eq!(error.code(), "head_moved");
    assert_eq!(listed(&case.files()), ["a=user ", "b=1 "]);
}

#[test]
fn a_crash_while_a_merge_is_taken_back_is_resumed() {
    for stop_at in 1..40 {
        let case = Case::git(&["a=1 ", "gone=1 "], &["a=2 ", "n/new=3 ", "-gone"]);
        case.reviewed().unwrap();
        git(&case.root(), &["checkout", "-q", "-b", "other"]);
        let mut count = 0;
        let stopped = until_crash(|| {
            case.commit_with(&mut |_| {
                count += 1;
                if count == stop_at { crash() } else { Ok(()) }
            })
        });
        assert_eq!(case.commit().unwrap_err().code(), "head_moved", "{stop_at}");
        assert_eq!(listed(&case.files()), ["a=1 ", "gone=1 "], "{stop_at}");
        if stopped.is_some() {
            assert!(stop_at > 5, "{stop_at}");
            return;
        }
    }
    panic!("it never came to its end");
}

/// The failure: two sessions count their merges alike, and used the same names beside the files.
/// Now: every merge has names of its own.
#[test]
fn merges_of_two_sessions_do_not_share_names() {
    let case = Case::plain(&["a=1 "], &["a=2 "]);
    let other = case.dir.path().join("other-session");
    std::fs::create_dir(&other).unwrap();
    let mut names = std::collections::BTreeSet::new();
    for parent in [case.dir.path(), &other] {
        let operation = OperationDir::new(parent, "merge-1").unwrap();
        let _ = until_crash(|| {
            apply_with(&case.root(), case.input(), Authority::Automatic, &operation, &mut |act| {
                if act == "exchange" { crash() } else { Ok(()) }
            })
        });
    }
    for item in std::fs::read_dir(case.root()).unwrap() {
        let item = item.unwrap();
        assert!(!item.file_type().unwrap().is_fifo());
        names.insert(item.file_name().into_string().unwrap());
    }
    assert_eq!(names.len(), 3, "{names:?}");
}
