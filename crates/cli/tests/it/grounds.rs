//! Which directory is a project: the one whose policy decides there, and none that git or Glasshouse keeps its own
//! files in.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::{COMMITS, Place, git};

const RULE: &str =
    "{ name: no-db, match: { path_glob: ['db/**'] }, action: deny, reason: not yours }";

/// Makes what a row is about beside or in a project, and answers the directory that is named.
type Layout = dyn Fn(&Place, &Path) -> PathBuf;

fn made(dir: &Path) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("x.sql"), "a\n").unwrap();
    dir.to_owned()
}

fn repository(dir: &Path) -> PathBuf {
    made(dir);
    git(dir, &["init", "-q", "-b", "main"]);
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", "first"]);
    dir.to_owned()
}

fn policy_in(dir: &Path) {
    fs::create_dir_all(dir.join(".glasshouse")).unwrap();
    fs::write(dir.join(".glasshouse/policy.yaml"), "capabilities: []\n").unwrap();
}

fn bare(place: &Place, project: &Path) -> PathBuf {
    let bare = place.path("bare");
    git(project, &["clone", "-q", "--bare", ".", &bare.display().to_string()]);
    bare
}

/// Moves the git directory of a project.
fn moved(project: &Path, to: &str) -> PathBuf {
    git(project, &["init", "-q", &format!("--separate-git-dir={to}")]);
    project.to_owned()
}

/// Moves it out of the work tree.
fn moved_out(place: &Place, project: &Path) -> PathBuf {
    moved(project, &place.path("elsewhere.git").display().to_string());
    place.path("elsewhere.git")
}

fn pointing(project: &Path, to: &str) -> PathBuf {
    fs::write(project.join(".git"), format!("gitdir: {to}\n")).unwrap();
    project.to_owned()
}

/// A project whose policy was accepted.
fn ruled(place: &Place) -> PathBuf {
    let project = place.shell_project();
    made(&project.join("db"));
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "more"]);
    place.accept_rule(&project, RULE);
    project
}

/// Names the directory in each way that reads a project's policy. Where it is refused, nothing ran.
fn check(what: &str, layout: &Layout, refused: Option<&str>) {
    let place = Place::new();
    let project = ruled(&place);
    let named = layout(&place, &project);
    let dir = named.display().to_string();
    let expect = |arguments: &[&str], at: &Path| {
        let ran = place.run_in(at, arguments);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        let is_refused = told.contains("project_inside");
        assert_eq!(is_refused, refused.is_some(), "{what}: {arguments:?}: {ran:?}");
        if let Some(fix) = refused {
            assert_eq!(ran.status, Some(3), "{what}: {arguments:?}: {ran:?}");
            let fix =
                fix.replace("PROJECT", &project.canonicalize().unwrap().display().to_string());
            assert!(told.contains(&fix), "{what}: {arguments:?}: {fix}: {told}");
        }
    };
    let write = "touch made-here";
    let json = ["sandbox", "run", "--json", "--merge", "--yes", "--workspace"];
    expect(&[&json[..], &[&dir, "--", "sh", "-c", write]].concat(), &project);
    expect(&["sandbox", "run", "--json", "--workspace", ".", "--", "true"], &named);
    assert_eq!(named.join("made-here").exists(), refused.is_none(), "{what}");
    let scenario = place.path("talk.yaml");
    fs::write(&scenario, "version: 1\nsteps: [ { emit: [ { text: hello } ] } ]\n").unwrap();
    let scenario = scenario.display().to_string();
    let task = ["say hello", "--json", "--scenario", &scenario];
    expect(&[&task[..], &["--project", &dir]].concat(), &project);
    expect(&task, &named);
    let call = r#"{"syscall":"fs.read","path":"x.sql"}"#;
    for command in ["check", "explain"] {
        expect(&["policy", command, "--json", "--call", call], &named);
    }
    let candidate = project.join(".glasshouse/policy.yaml").display().to_string();
    expect(&["policy", "check", "--json", "--policy", &candidate, "--call", call], &named);
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/plans/counter.json");
    expect(&["ui", "render-plan", plan], &named);
    expect(&["policy", "update", "--json"], &named);
    expect(&["policy", "show", "--json"], &named);
    expect(&["policy", "lint", "--json"], &named);
    expect(&["policy", "test", "--json"], &named);
}

/// The failure: the directory that was named decided which policy there is. What the policy of a project denied was written by
/// whoever named a directory in it, and `.git/hooks` and `.glasshouse` were directories like all others.
#[test]
fn e2e_a_directory_whose_policy_lies_above_is_no_project() {
    let above = Some("work in PROJECT: paths in its policy");
    check("the top", &|_, project| project.to_owned(), None);
    check("below a policy", &|_, project| project.join("db"), above);
    check("far below", &|_, project| made(&project.join("db/a/b/c")), above);
    check("by dots", &|_, project| project.join("src/../db/."), above);
    check(
        "by a link",
        &|place, project| {
            symlink(project.join("db"), place.path("link")).unwrap();
            place.path("link")
        },
        above,
    );
    check(
        "below a policy that nobody accepted",
        &|place, _| {
            policy_in(&made(&place.path("other")));
            made(&place.path("other/sub"))
        },
        Some("/other: paths in its policy"),
    );
    check(
        "below a nearer one",
        &|_, project| {
            policy_in(&project.join("db"));
            made(&project.join("db/deep"))
        },
        Some("work in PROJECT/db: paths in its policy"),
    );
    // The controls.
    check("a neighbour", &|place, _| made(&place.path("neighbour")), None);
    check("a repository in the project", &|_, project| repository(&project.join("db/own")), None);
    check(
        "a directory in such a repository",
        &|_, project| made(&repository(&project.join("db/own")).join("deep")),
        None,
    );
    check(
        "a linked work tree",
        &|_, project| {
            git(project, &["worktree", "add", "-q", "--detach", "db/linked"]);
            project.join("db/linked")
        },
        None,
    );
    // What only looks like a repository begins nothing.
    check(
        "a directory with an empty `.git`",
        &|_, project| {
            fs::create_dir(project.join("db/.git")).unwrap();
            project.join("db")
        },
        above,
    );
    check(
        "a directory with a file `.git` that leads nowhere",
        &|_, project| {
            fs::write(project.join("db/.git"), "gitdir: nowhere\n").unwrap();
            project.join("db")
        },
        above,
    );
}

#[test]
fn e2e_what_git_and_glasshouse_keep_is_no_project() {
    let top = Some("work in PROJECT");
    for named in [".git", ".git/hooks", ".git/refs/heads", ".glasshouse"] {
        check(named, &move |_, project| project.join(named), top);
    }
    check(".glasshouse/deep", &|_, project| made(&project.join(".glasshouse/deep")), top);
    check("by dots", &|_, project| project.join("src/../.git/./hooks"), top);
    check(
        "by a link",
        &|place, project| {
            symlink(project.join(".git/hooks"), place.path("link")).unwrap();
            place.path("link")
        },
        top,
    );
    let tree = Some("work in a work tree of the repository");
    check("a bare repository", &bare, tree);
    check("its hooks", &|place, project| bare(place, project).join("hooks"), tree);
    check(
        "where `.git` as a link leads",
        &|place, _| {
            let other = repository(&place.path("other"));
            fs::rename(other.join(".git"), other.join("gd")).unwrap();
            symlink("gd", other.join(".git")).unwrap();
            other.join("gd/hooks")
        },
        Some("/other"),
    );
    // The controls: a work tree of a bare repository in it, and names that are only like these.
    check(
        "a work tree in a bare repository",
        &|place, project| {
            let bare = bare(place, project);
            git(&bare, &["worktree", "add", "-q", "--detach", "tree"]);
            bare.join("tree")
        },
        None,
    );
    check("a name that is like it", &|place, _| made(&place.path("x/.github/hooks")), None);
    check("refs alone", &|place, _| made(&place.path("other/refs")), None);
}

/// The data directory may have the name of what projects keep, and what lies in it is no policy of a project.
#[test]
fn e2e_the_data_directory_is_no_policy_of_a_project() {
    let check = |data: &str, file: &str, status: i32| {
        let place = Place::new();
        let project = made(&place.path("user/work"));
        let file = place.path("user").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "capabilities: []\n").unwrap();
        let mut command = place.command(&["sandbox", "run", "--workspace", ".", "--", "true"]);
        command.current_dir(&project).env("GLASSHOUSE_HOME", place.path("user").join(data));
        let ran = crate::harness::Ran::new(&command.output().unwrap());
        assert_eq!(ran.status, Some(status), "{data}: {ran:?}");
    };
    check(".glasshouse", ".glasshouse/policy.yaml", 0);
    check(".local/state/glasshouse", ".local/state/glasshouse/policy.yaml", 0);
    check(".local/state/glasshouse", ".config/glasshouse/policy.yaml", 0);
    // The control.
    check(".local/state/glasshouse", ".glasshouse/policy.yaml", 3);
    let place = Place::new();
    let mut command = place.command(&["demo"]);
    command.env("GLASSHOUSE_HOME", made(&place.path("user")).join(".glasshouse"));
    let ran = crate::harness::Ran::new(&command.output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

/// A session that began where nothing lay above it is held to what does when it is carried on, and so is what it
/// would merge.
#[test]
fn e2e_a_policy_that_appears_above_binds_a_session_that_is_carried_on() {
    let check = |above: &dyn Fn(&Path), status: i32| {
        let place = Place::new();
        let parent = made(&place.path("parent"));
        let project = made(&parent.join("sub"));
        fs::create_dir(project.join(".glasshouse")).unwrap();
        let config = "test: { command: [sh, -c, 'exit 0'], globs: ['t/**'] }\n";
        fs::write(project.join(".glasshouse/config.yaml"), config).unwrap();
        let talk =
            "version: 1\nsteps: [ { emit: [ { text: one } ] }, { emit: [ { text: two } ] } ]\n";
        place.scenario(&project, talk).expect_status(0);
        let session = place.events().0.to_string();
        above(&parent);
        let ran = place.run_in(&project, &["session", "resume", &session, "more", "--json"]);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(told.contains("project_inside"), status == 3, "{ran:?}");
        ran.expect_status(status);
    };
    check(&|_| {}, 0);
    check(&policy_in, 3);
    check(&|parent| fs::create_dir(parent.join(".glasshouse")).unwrap(), 0);
}

/// A policy file that comes while a command runs counts for its merge.
#[test]
fn e2e_a_policy_that_appears_while_a_command_runs_binds_its_merge() {
    for appears in [false, true] {
        let place = Place::new();
        let parent = made(&place.path("parent"));
        let project = made(&parent.join("sub"));
        let script = "echo begun; sleep 3; echo new > made-here";
        let run = ["sandbox", "run", "--workspace", ".", "--merge", "--yes", "--"];
        let mut command = place.command(&[&run[..], &["sh", "-c", script]].concat());
        command.current_dir(&project);
        let mut running = place.spawn(command);
        if appears {
            while !fs::read_to_string(place.path("stdout")).unwrap().contains("begun") {
                std::thread::sleep(Duration::from_millis(20));
            }
            policy_in(&parent);
        }
        let status = running.wait(Duration::from_secs(60));
        let told = fs::read_to_string(place.path("stderr")).unwrap();
        assert_eq!(status, Some(if appears { 3 } else { 0 }), "{told}");
        assert_eq!(told.contains("project_inside"), appears, "{told}");
        assert_eq!(project.join("made-here").exists(), !appears);
    }
}

/// Begins work in a repository that was laid out in some way, and runs a command by hand there.
fn check_repository(what: &str, layout: &Layout, is_refused: bool) {
    let place = Place::new();
    let project = place.shell_project();
    let named = layout(&place, &project);
    let ran = place.scenario(&named, COMMITS);
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(told.contains("git_directory_exposed"), is_refused, "{what}: {ran:?}");
    assert_eq!(ran.status, Some(if is_refused { 3 } else { 0 }), "{what}: {ran:?}");
    let run = ["sandbox", "run", "--workspace", ".", "--merge", "--yes", "--", "touch", "new"];
    place.run_in(&named, &run).expect_status(if is_refused { 3 } else { 0 });
}

/// The failure: a git directory of another name in the work tree was files like all others. What an agent wrote into
/// its hooks was merged after a plain yes, and ran at the person's next commit.
#[test]
fn e2e_a_git_directory_among_the_files_that_are_worked_on_is_refused() {
    let check = |what: &str, layout: &Layout| check_repository(what, layout, true);
    check("in the tree", &|_, project| moved(project, "gd"));
    check("deep in the tree", &|_, project| {
        fs::create_dir(project.join("tests/deep")).unwrap();
        moved(project, "tests/deep/gd")
    });
    check("in the tree, by dots", &|_, project| {
        moved(project, "gd");
        pointing(project, "../project/src/.././gd/")
    });
    check("outside, through a link in the tree", &|place, project| {
        symlink(moved_out(place, project), project.join("link")).unwrap();
        pointing(project, "link")
    });
    check("outside, by a link there that leads through the tree", &|place, project| {
        symlink(moved_out(place, project), project.join("link")).unwrap();
        symlink(project.join("link"), place.path("outer")).unwrap();
        pointing(project, "../outer")
    });
    check("what it shares with other work trees, in the tree", &|_, project| {
        fs::create_dir_all(project.join("gd")).unwrap();
        for shared in ["objects", "refs", "config"] {
            fs::rename(project.join(".git").join(shared), project.join("gd").join(shared)).unwrap();
        }
        fs::write(project.join(".git/commondir"), "../gd\n").unwrap();
        project.to_owned()
    });
    check("a directory of the repository, whose git directory is beside it", &|_, project| {
        let config = "test: { command: [sh, -c, 'exit 0'], globs: ['t/**'] }\n";
        let sub = made(&project.join("sub"));
        fs::create_dir(sub.join(".glasshouse")).unwrap();
        fs::write(sub.join(".glasshouse/config.yaml"), config).unwrap();
        moved(project, "sub/gd");
        sub
    });
}

#[test]
fn e2e_a_git_directory_elsewhere_is_worked_with() {
    let check = |what: &str, layout: &Layout| check_repository(what, layout, false);
    check("as it is usual", &|_, project| project.to_owned());
    check("outside", &|place, project| {
        moved_out(place, project);
        project.to_owned()
    });
    check("outside, by a link outside", &|place, project| {
        symlink(moved_out(place, project), place.path("outer")).unwrap();
        pointing(project, "../outer")
    });
    check("a linked work tree", &|place, project| {
        let linked = place.path("linked");
        git(project, &["worktree", "add", "-q", "-b", "more", &linked.display().to_string()]);
        linked
    });
    check("a linked work tree in the work tree", &|_, project| {
        git(project, &["worktree", "add", "-q", "-b", "more", "linked"]);
        project.join("linked")
    });
    check("a work tree beside the bare repository", &|place, project| {
        let bare = place.path("many/.bare");
        let (from, to) = (project.display().to_string(), bare.display().to_string());
        fs::create_dir(place.path("many")).unwrap();
        git(project, &["clone", "-q", "--bare", &from, &to]);
        pointing(&place.path("many"), "./.bare");
        git(&bare, &["worktree", "add", "-q", "-b", "more", "../tree"]);
        place.path("many/tree")
    });
    check("a submodule", &|place, project| {
        let outer = repository(&place.path("outer"));
        let from = project.display().to_string();
        let allowed = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
        git(&outer, &[&allowed[..], &[&from, "inner"]].concat());
        git(&outer.join("inner"), &["checkout", "-q", "-b", "more"]);
        outer.join("inner")
    });
}

/// What is told as the way out is one.
#[test]
fn e2e_a_git_directory_is_moved_out_as_the_error_says() {
    let check = |mend: &dyn Fn(&Place, &Path)| {
        let place = Place::new();
        let project = place.shell_project();
        moved(&project, "gd");
        place.scenario(&project, COMMITS).expect_status(3);
        mend(&place, &project);
        place.scenario(&project, COMMITS).expect_status(0);
        assert_eq!(git(&project, &["status", "--porcelain"]), "");
    };
    check(&|place, project| drop(moved_out(place, project)));
    check(&|_, project| {
        fs::remove_file(project.join(".git")).unwrap();
        fs::rename(project.join("gd"), project.join(".git")).unwrap();
    });
}

/// Nor does a git directory come into the tree later: by what a command does in its copy, or by what a person
/// does between two turns.
#[test]
fn e2e_a_git_directory_does_not_come_among_the_files_later() {
    let init = "git init -q --separate-git-dir=gd . && echo true > gd/hooks/post-commit";
    let run = ["sandbox", "run", "--merge", "--yes", "--workspace", ".", "--", "sh", "-c", init];
    let place = Place::new();
    let plain = made(&place.path("plain"));
    let ran = place.run_in(&plain, &run).expect_status(8);
    assert!(ran.stderr.contains("git_internal"), "{ran:?}");
    assert!(!plain.join(".git").exists() && !plain.join("gd").exists());
    let project = place.shell_project();
    place.run_in(&project, &run).expect_status(8);
    assert!(project.join(".git").is_dir() && !project.join("gd").exists());
    for is_moved in [false, true] {
        let place = Place::new();
        let project = place.shell_project();
        let two =
            "version: 1\nsteps: [ { emit: [ { text: one } ] }, { emit: [ { text: two } ] } ]\n";
        place.scenario(&project, two).expect_status(0);
        let session = place.events().0.to_string();
        if is_moved {
            moved(&project, "gd");
        }
        let ran = place.run_in(&project, &["session", "resume", &session, "more", "--json"]);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(told.contains("git_directory_exposed"), is_moved, "{ran:?}");
        ran.expect_status(if is_moved { 3 } else { 0 });
    }
}

/// A repository in the project may have its git directory anywhere, and so may one without a work tree.
#[test]
fn e2e_no_change_is_merged_into_a_git_directory_of_another_repository() {
    let check = |in_git: bool, script: &str, status: i32| {
        let place = Place::new();
        let project = match in_git {
            true => place.shell_project(),
            false => made(&place.path("plain")),
        };
        moved(&repository(&project.join("lib")), "gd");
        let bare = project.join("bare");
        git(&project.join("lib"), &["clone", "-q", "--bare", ".", &bare.display().to_string()]);
        let run = ["sandbox", "run", "--merge", "--yes", "--workspace", ".", "--", "sh", "-c"];
        let ran = place.run_in(&project, &[&run[..], &[script]].concat());
        assert_eq!(ran.status, Some(status), "{in_git} {script}: {ran:?}");
        assert!(!project.join("lib/gd/hooks/post-commit").exists());
        assert!(!project.join("bare/hooks/post-update").exists());
    };
    for in_git in [false, true] {
        let lib = "mkdir -p lib/gd/hooks; echo true > lib/gd/hooks/post-commit";
        check(in_git, lib, 8);
        check(in_git, "mkdir -p bare/hooks; echo true > bare/hooks/post-update", 8);
        check(in_git, "echo '[core] fsmonitor = x' >> bare/config", 8);
        // The control: names that are alike beside them.
        check(in_git, "mkdir -p other/hooks; echo true > other/hooks/post-commit", 0);
    }
}

/// The failure: two files of any kind, `HEAD` and `commondir`, that an agent wrote into a project made git directories of
/// it, and whoever worked there was refused.
/// Now a repository's top is one whatever lies beside its `.git`; below it nothing comes that git takes for a git directory.
#[test]
fn e2e_no_merge_makes_a_git_directory_or_locks_a_project() {
    let check = |script: &str, status: i32| {
        let place = Place::new();
        let project = place.shell_project();
        let run = ["sandbox", "run", "--merge", "--yes", "--workspace", ".", "--", "sh", "-c"];
        let ran = place.run_in(&project, &[&run[..], &[script]].concat());
        assert_eq!(ran.status, Some(status), "{script}: {ran:?}");
        // The project is one as before.
        place.run_in(&project, &[&run[..], &["echo a > src/new.txt"]].concat()).expect_status(0);
        place.run_in(&project, &["policy", "show"]).expect_status(0);
    };
    check("echo x > HEAD; echo y > commondir", 0);
    let head = "echo ref: refs/heads/main > HEAD; echo a > objects/a; echo b > refs/b";
    check(&format!("mkdir objects refs; {head}"), 0);
    check("echo x > src/HEAD; echo y > src/commondir", 0);
    check(&format!("mkdir -p src/a/objects src/a/refs; cd src/a; {head}"), 8);
    check(
        "mkdir -p src/a/objects src/a/refs/heads; cd src/a; echo a > objects/a; echo b > refs/heads/b",
        0,
    );
}
