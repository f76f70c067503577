//! What is committed: the change set's edits and nothing else, as the repository stores them.

use super::*;

/// Applies and commits, with the work tree as the user left it.
fn merged(case: &Case) -> Result<Committed> {
    match case.reviewed()? {
        Outcome::Applied(_) => case.commit(),
        Outcome::Conflict(conflicts) => Err(conflict_error(&conflicts)),
    }
}

fn committed(case: &Case, path: &str) -> String {
    git(&case.root(), &["show", &format!("HEAD:{path}")]).replace('\n', " ")
}

fn start(root: &Path) {
    git(root, &["init", "-q", "-b", "main"]);
    git(root, &["config", "user.name", "T"]);
    git(root, &["config", "user.email", "t@example.org"]);
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "--allow-empty", "-m", "start"]);
}

/// The failure: text that the user had not committed, in a file the agent also changed, went into the
/// agent's commit, under the agent's name.
/// Now: the commit has the agent's lines alone, the work tree has both.
#[test]
fn uncommitted_text_stays_out_of_the_commit() {
    let before = ["a=1 2 3 4 5 ", "b=1 "];
    // Written before the session began, and so in its base.
    let case = Case::new(&before, &["a=u 2 3 4 x "], |root| {
        start(root);
        std::fs::write(root.join("a"), "u\n2\n3\n4\n5\n").unwrap();
    });
    merged(&case).unwrap();
    assert_eq!(committed(&case, "a"), "1 2 3 4 x");
    assert_eq!(case.files()["a"], "u 2 3 4 x ");
    assert_eq!(git(&case.root(), &["status", "--porcelain"]), " M a");
    // Written while the session ran.
    let case = Case::git(&before, &["a=1 2 3 4 x "]);
    case.user(&["a=u 2 3 4 5 "]);
    merged(&case).unwrap();
    assert_eq!(committed(&case, "a"), "1 2 3 4 x");
    assert_eq!(case.files()["a"], "u 2 3 4 x ");
    // And staged.
    let case = Case::git(&before, &["a=1 2 3 4 x "]);
    case.user(&["a=u 2 3 4 5 "]);
    git(&case.root(), &["add", "a"]);
    merged(&case).unwrap();
    assert_eq!(committed(&case, "a"), "1 2 3 4 x");
    assert_eq!(git(&case.root(), &["show", ":a"]), "u\n2\n3\n4\nx");
    assert_eq!(git(&case.root(), &["status", "--porcelain"]), "M  a");
    // A rename takes the agent's lines along, and no others.
    let case = Case::new(&before, &["-a", "c=u 2 3 4 x "], |root| {
        start(root);
        std::fs::write(root.join("a"), "u\n2\n3\n4\n5\n").unwrap();
    });
    merged(&case).unwrap();
    assert_eq!(committed(&case, "c"), "1 2 3 4 x");
    assert_eq!(case.files()["c"], "u 2 3 4 x ");
    assert_eq!(git(&case.root(), &["ls-tree", "--name-only", "HEAD"]), "b\nc");
}

/// The failure: as above, where the agent's lines cannot be told from the user's.
/// Now: the paths are named before anything is written (exit 8).
#[test]
fn edits_of_text_that_is_in_no_commit_conflict() {
    use ConflictKind::*;
    let check = |prepare: fn(&Path), agent: &[&str], expected: (&str, ConflictKind)| {
        let case = Case::new(&["a=1 2 3 4 5 ", "b=1 "], agent, |root| {
            start(root);
            prepare(root);
        });
        let before = case.files();
        let status = git(&case.root(), &["status", "--porcelain"]);
        let Outcome::Conflict(found) = case.reviewed().unwrap() else { panic!("{agent:?} merged") };
        assert_eq!((found[0].path.as_str(), found[0].kind), expected, "{agent:?}");
        assert_eq!(conflict_error(&found).exit().status(), 8);
        assert_eq!(case.files(), before);
        assert_eq!(git(&case.root(), &["status", "--porcelain"]), status);
    };
    fn dirty(root: &Path) {
        std::fs::write(root.join("a"), "1\n2\n3\n4\nuser\n").unwrap();
    }
    fn staged(root: &Path) {
        dirty(root);
        git(root, &["add", "a"]);
        std::fs::write(root.join("a"), "1\n2\n3\n4\n5\n").unwrap();
    }
    fn untracked(root: &Path) {
        std::fs::write(root.join("new"), "user\n").unwrap();
    }
    check(dirty, &["a=1 2 3 4 user and agent "], ("a", NotInHead));
    check(dirty, &["-a"], ("a", NotInHead));
    check(staged, &["a=1 2 3 4 agent "], ("a", NotInIndex));
    check(untracked, &["new=user and agent "], ("new", NotInHead));
    // Lines of the file that are in the commit may change.
    let case = Case::new(&["a=1 2 3 4 5 "], &["a=x 2 3 4 user "], |root| {
        start(root);
        dirty(root);
    });
    merged(&case).unwrap();
    assert_eq!(committed(&case, "a"), "x 2 3 4 5");
    assert_eq!(case.files()["a"], "x 2 3 4 user ");
}

/// The failure: a commit that the user (or another session) made while the agent worked made the merge
/// fail, with the merged files left behind.
/// Now: the commit is built again on the new head, whenever it comes, if nothing overlaps.
#[test]
fn a_head_that_moved_is_built_upon() {
    let theirs = |root: &Path, text: &str| {
        std::fs::write(root.join("b"), text).unwrap();
        git(root, &["add", "b"]);
        git(root, &["commit", "-q", "-m", "by the user"]);
    };
    let check = |moment: &str, times: usize| {
        let case = Case::git(&["a=1 2 3 4 5 ", "b=1 "], &["a=1 2 3 4 x ", "n=1 "]);
        let mut moved = 0;
        if moment == "before" {
            theirs(&case.root(), "2\n");
        }
        case.automatic().unwrap();
        if moment == "between" {
            theirs(&case.root(), "2\n");
        }
        let root = case.root();
        let id = git(&root, &["rev-parse", "HEAD^{tree}"]);
        let result = case.commit_with(&mut |act| {
            if act == moment && moved < times {
                moved += 1;
                // As another program would that does not heed the index's lock.
                let parent = git(&root, &["rev-parse", "HEAD"]);
                let commit = git(&root, &["commit-tree", &id, "-p", &parent, "-m", "by a server"]);
                git(&root, &["update-ref", "refs/heads/main", &commit]);
            }
            Ok(())
        });
        (case, result)
    };
    for moment in ["before", "between"] {
        let (case, result) = check(moment, 0);
        assert!(matches!(result.unwrap(), Committed::Commit { .. }), "{moment}");
        assert_eq!(git(&case.root(), &["rev-list", "--count", "HEAD"]), "3");
        assert_eq!(committed(&case, "b"), "2");
        assert_eq!(committed(&case, "a"), "1 2 3 4 x");
        assert_eq!(git(&case.root(), &["status", "--porcelain"]), "");
    }
    for moment in ["build commit", "move branch"] {
        let (case, result) = check(moment, 3);
        assert!(matches!(result.unwrap(), Committed::Commit { .. }), "{moment}");
        assert_eq!(git(&case.root(), &["rev-list", "--count", "HEAD"]), "5", "{moment}");
        assert_eq!(git(&case.root(), &["status", "--porcelain"]), "");
        git(&case.root(), &["fsck", "--strict"]);
    }
    // A branch that never rests: an end, and nothing left behind.
    let (case, result) = check("move branch", usize::MAX);
    assert_eq!(result.unwrap_err().code(), "repository_busy");
    assert_eq!(git(&case.root(), &["status", "--porcelain"]), "");
    assert_eq!(listed(&case.files()), ["a=1 2 3 4 5 ", "b=1 "]);
}

/// The failure: two sessions that end at the same moment; one found the branch moved and left its files.
/// Now: both commit, whatever the order, and both sets of lines are in the last commit.
#[test]
fn two_sessions_commit_at_once() {
    for _ in 0..4 {
        let first = Case::git(&["a=1 2 3 4 5 6 7 8 9 ", "b=1 "], &["a=x 2 3 4 5 6 7 8 9 ", "b=2 "]);
        let second = {
            let me = first.base.owner;
            let base = Arc::new(freeze(&first.root(), &first.dir.path().join("c2"), me).unwrap());
            let dir = first.dir.path().join("ws2");
            let workspace = Workspace::create(base.clone(), &dir, Marks::Trusted).unwrap();
            let agent = ["a=1 2 3 4 5 6 7 8 y ", "n=3 "];
            act(&workspace.overlay_dirs().upper, Some(&base.dir), &agent);
            let blobs = Blobs::default();
            let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
            let set = workspace.change_set(&seal.manifest, &blobs).unwrap();
            (base, blobs, set)
        };
        let author = Author { name: "Agent".to_owned(), email: "agent@example.org".to_owned() };
        let root = first.root();
        let run = |base: &FrozenBase, blobs: &Blobs, set: &ChangeSet, id: &str, parent: &Path| {
            let operation = OperationDir::new(parent, id).unwrap();
            let input = Input { base, set, blobs, commits: true };
            let outcome = apply(&root, input, Authority::Automatic, &operation).unwrap();
            assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
            let request = CommitRequest {
                operation: &operation,
                message: id,
                author: &author,
                time_s: 1_790_000_000,
            };
            super::super::commit(&root, request).unwrap()
        };
        // The store is for one thread, so each session gets its own.
        let (base, set) = (first.base.clone(), first.set.clone());
        let contents = first.blobs.0.borrow().clone();
        let other = second.1.0.borrow().clone();
        std::thread::scope(|scope| {
            let (run, dir) = (&run, first.dir.path());
            scope.spawn(move || run(&base, &Blobs(RefCell::new(contents)), &set, "one", dir));
            let (base, set) = (second.0.clone(), second.2.clone());
            scope.spawn(move || run(&base, &Blobs(RefCell::new(other)), &set, "two", dir));
        });
        assert_eq!(committed(&first, "a"), "x 2 3 4 5 6 7 8 y");
        assert_eq!(git(&root, &["rev-list", "--count", "HEAD"]), "3");
        assert_eq!(git(&root, &["status", "--porcelain"]), "");
    }
}

/// The failure: a file with CR LF in the work tree, which the repository stores with line feeds, was
/// committed with every CR, and every line of it was then "changed".
/// Now: line endings are stored as git itself would, told apart by attributes and settings.
#[test]
fn line_endings_are_committed_as_git_stores_them() {
    let check = |setting: Option<(&str, &str)>, attributes: &str, stored: &str| {
        let case = Case::new(&["keep=k "], &["f=1\r 2\r 3\r 4\r x\r ", "new=n\r "], |root| {
            git(root, &["init", "-q", "-b", "main"]);
            std::fs::write(root.join(".gitattributes"), attributes).unwrap();
            std::fs::write(root.join("f"), "1\r\n2\r\n3\r\n4\r\n5\r\n").unwrap();
            if let Some((key, value)) = setting {
                git(root, &["config", key, value]);
            }
            start(root);
            assert_eq!(git(root, &["status", "--porcelain"]), "");
        });
        merged(&case).unwrap();
        let name = format!("{setting:?} {attributes:?}");
        assert_eq!(committed(&case, "f"), stored, "{name}");
        assert_eq!(git(&case.root(), &["status", "--porcelain"]), "", "{name}");
        assert_eq!(
            git(&case.root(), &["diff", "--numstat", "HEAD~1", "--", "f"]),
            "1\t1\tf",
            "{name}"
        );
        assert_eq!(case.files()["f"], "1\r 2\r 3\r 4\r x\r ");
        // What git itself would have stored.
        let of_git = git(&case.root(), &["hash-object", "--path", "f", "f"]);
        assert_eq!(git(&case.root(), &["rev-parse", "HEAD:f"]), of_git, "{name}");
        let of_git = git(&case.root(), &["hash-object", "--path", "new", "new"]);
        assert_eq!(git(&case.root(), &["rev-parse", "HEAD:new"]), of_git, "{name}");
    };
    // The end is trimmed.
    let (lf, crlf) = ("1 2 3 4 x", "1\r 2\r 3\r 4\r x");
    check(None, "", crlf);
    check(None, "* text=auto\n", lf);
    check(None, "* text eol=crlf\n", lf);
    check(None, "* eol=crlf\n", lf);
    check(None, "* crlf\n", lf);
    check(None, "* -text\n", crlf);
    check(Some(("core.autocrlf", "true")), "", lf);
    check(Some(("core.autocrlf", "input")), "", lf);
    check(Some(("core.autocrlf", "true")), "f -text\n", crlf);
    check(Some(("core.autocrlf", "false")), "", crlf);
}

/// A file that was committed with CR LF stays so under `text=auto`, as git has it.
#[test]
fn stored_carriage_returns_stay_where_git_keeps_them() {
    let case = Case::new(&[], &["f=1\r x\r "], |root| {
        std::fs::write(root.join("f"), "1\r\n2\r\n").unwrap();
        start(root);
        std::fs::write(root.join(".gitattributes"), "* text=auto\n").unwrap();
        git(root, &["add", ".gitattributes"]);
        git(root, &["commit", "-q", "-m", "later"]);
    });
    merged(&case).unwrap();
    assert_eq!(committed(&case, "f"), "1\r x");
    assert_eq!(git(&case.root(), &["status", "--porcelain"]), "");
}

/// The failure: a file that a filter stores (git-lfs) was committed raw: a large file in the history,
/// and "modified" for ever after.
/// Now: a change of its content is refused before anything is written, with its name; a pure move is not.
#[test]
fn what_a_filter_stores_is_refused() {
    let case = |attributes: &'static str, agent: &[&str]| {
        Case::new(&["a.bin=1 ", "b=1 "], agent, move |root| {
            start(root);
            std::fs::write(root.join(".gitattributes"), attributes).unwrap();
            git(root, &["add", "-A"]);
            git(root, &["commit", "-q", "-m", "attributes"]);
        })
    };
    for attributes in [
        "*.bin filter=lfs diff=lfs -text\n",
        "*.bin ident\n",
        "*.bin working-tree-encoding=ISO-8859-1\n",
    ] {
        let case = case(attributes, &["a.bin=2 ", "b=2 "]);
        let error = case.reviewed().unwrap_err();
        assert_eq!((error.code(), error.exit().status()), ("attributes_unsupported", 2));
        assert!(error.to_string().contains("`a.bin`"), "{error}");
        assert!(!error.to_string().contains("`b`"), "{error}");
        assert_eq!(case.files()["b"], "1 ", "something was written");
    }
    let moved = case("*.bin filter=lfs -text\n", &["-a.bin", "c.bin=1 ", "b=2 "]);
    merged(&moved).unwrap();
    assert_eq!(git(&moved.root(), &["ls-tree", "--name-only", "HEAD"]), ".gitattributes\nb\nc.bin");
    // Attributes that the change set brings are those that count.
    let dir = Case::new(&["a.bin=1 "], &["a.bin=2 "], start);
    let workspace = dir.dir.path().join("ws/upper/.gitattributes");
    std::fs::write(workspace, "*.bin filter=lfs\n").unwrap();
    let workspace = Workspace::open(&dir.dir.path().join("ws")).unwrap();
    let seal = workspace.seal(&dir.blobs, &workspace.unchanged()).unwrap();
    let set = workspace.change_set(&seal.manifest, &dir.blobs).unwrap();
    let input = Input { set: &set, ..dir.input() };
    assert_eq!(propose(&dir.root(), input).unwrap_err().code(), "attributes_unsupported");
}

/// The failure: a commit from a partial work tree must not delete what is not checked out.
/// Now: the tree is the last commit's, and `git status` stays clean.
#[test]
fn sparse_checkouts_and_submodules_stay_whole() {
    let case = Case::new(&["in/a=1 ", "out/b=1 ", "out/c=1 "], &["in/a=2 ", "in/n=3 "], |root| {
        start(root);
        git(root, &["sparse-checkout", "set", "in"]);
        assert!(!root.join("out").exists());
    });
    merged(&case).unwrap();
    assert_eq!(
        git(&case.root(), &["ls-tree", "-r", "--name-only", "HEAD"]),
        "in/a\nin/n\nout/b\nout/c"
    );
    assert_eq!(git(&case.root(), &["status", "--porcelain"]), "");
    assert!(!case.root().join("out").exists());
    // A file where the commit has one that is not checked out.
    let case = Case::new(&["in/a=1 ", "out/b=1 "], &["out/b=2 "], |root| {
        start(root);
        git(root, &["sparse-checkout", "set", "in"]);
    });
    let Outcome::Conflict(found) = case.reviewed().unwrap() else { panic!("merged") };
    assert_eq!(found[0].kind, ConflictKind::NotInHead);

    let case = Case::new(&["a=1 ", "sub/f=1 "], &["a=2 "], |root| {
        start(&root.join("sub"));
        git(root, &["init", "-q", "-b", "main"]);
        git(root, &["config", "advice.addEmbeddedRepo", "false"]);
        start(root);
    });
    let before = git(&case.root(), &["ls-tree", "HEAD", "sub"]);
    assert!(before.starts_with("160000 commit"), "{before}");
    // The user moved the submodule on; that is not the agent's to commit.
    case.user(&["sub/f=2 "]);
    git(&case.root().join("sub"), &["commit", "-q", "-a", "-m", "on"]);
    merged(&case).unwrap();
    assert_eq!(git(&case.root(), &["ls-tree", "HEAD", "sub"]), before);
    assert_eq!(git(&case.root(), &["status", "--porcelain"]), " M sub");
}

#[test]
fn a_project_below_the_repositorys_root_commits_its_own_paths() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let case = Case::cached(dir, &cache, &["a=1 ", "d/b=1 "], &["a=2 ", "d/n=3 "], |root| {
        let top = root.parent().unwrap();
        std::fs::write(top.join(".gitignore"), "cache\nws\nop1\n").unwrap();
        std::fs::write(top.join("beside"), "1\n").unwrap();
        start(top);
        std::fs::write(top.join("beside"), "2\n").unwrap();
    });
    merged(&case).unwrap();
    let top = case.dir.path();
    assert_eq!(
        git(top, &["diff-tree", "-r", "--name-status", "HEAD~1", "HEAD"]),
        "M\tproject/a\nA\tproject/d/n"
    );
    assert_eq!(git(top, &["status", "--porcelain"]), " M beside");
}

/// What another commit put in the way of a file is never pushed out by it.
#[test]
fn nothing_of_another_commit_is_pushed_out() {
    let case = Case::git(&["d/a=1 ", "b=1 "], &["d=file "]);
    case.reviewed().unwrap();
    let blob = git(&case.root(), &["rev-parse", "HEAD:b"]);
    let cacheinfo = format!("100644,{blob},d/other");
    git(&case.root(), &["update-index", "--add", "--cacheinfo", &cacheinfo]);
    git(&case.root(), &["commit", "-q", "-m", "another file in d"]);
    let error = case.commit().unwrap_err();
    assert_eq!(error.code(), "merge_conflict");
    assert_eq!(git(&case.root(), &["ls-tree", "-r", "--name-only", "HEAD"]), "b\nd/a\nd/other");
    assert_eq!(case.files()["d/a"], "1 ");
}
