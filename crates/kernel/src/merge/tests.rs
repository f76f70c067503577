//! Merges end to end on scratch projects: conflicts, crashes, races, hostile repositories.

mod commits;
mod crashes;
mod faults;
mod repositories;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::workspace::{
    BlobStore, ChangeSet, FrozenBase, Marks, Owner, Workspace, freeze,
};
use tempfile::TempDir;

use super::apply::apply_with;
use super::commit::commit_with;
use super::*;
use crate::{Result, codes};

#[derive(Default)]
struct Blobs(RefCell<HashMap<Digest, Vec<u8>>>);

impl BlobStore for Blobs {
    fn put(&self, bytes: &[u8]) -> Result<Digest, glasshouse_sandbox::Error> {
        let digest = Digest::of(bytes);
        self.0.borrow_mut().insert(digest, bytes.to_vec());
        Ok(digest)
    }

    fn get(&self, digest: &Digest) -> Result<Vec<u8>, glasshouse_sandbox::Error> {
        Ok(self.0.borrow()[digest].clone())
    }
}

/// Runs an act that may be stopped by [`crash`]; none when it was. Nothing of ours goes on after it,
/// as after a `kill -9`.
fn until_crash<T>(act: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).ok()
}

fn crash() -> ! {
    std::panic::resume_unwind(Box::new("crash"))
}

/// A project, its frozen base, and what an agent made of it.
struct Case {
    dir: TempDir,
    base: Arc<FrozenBase>,
    blobs: Blobs,
    set: ChangeSet,
}

/// `agent` acts: `path=text` writes, `-path` deletes, `+path` makes executable, `path@target` links.
fn act(root: &Path, base: Option<&Path>, agent: &[&str]) {
    let place = |name: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for act in agent {
        if let Some(name) = act.strip_prefix('-') {
            let path = place(name);
            let _ = std::fs::remove_file(&path);
            if base.is_some() {
                let kind = rustix::fs::FileType::CharacterDevice;
                let mode = rustix::fs::Mode::empty();
                rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
            }
        } else if let Some(name) = act.strip_prefix('+') {
            let path = place(name);
            if let Some(base) = base.filter(|_| !path.exists()) {
                std::fs::copy(base.join(name), &path).unwrap();
            }
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        } else if let Some((name, text)) = act.split_once('=') {
            std::fs::write(place(name), text.replace(' ', "\n")).unwrap();
        } else if let Some((name, target)) = act.split_once('@') {
            let _ = std::fs::remove_file(place(name));
            symlink(target, place(name)).unwrap();
        }
    }
}

fn git(root: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

impl Case {
    fn plain(start: &[&str], agent: &[&str]) -> Self {
        Self::new(start, agent, |_| {})
    }

    fn git(start: &[&str], agent: &[&str]) -> Self {
        Self::new(start, agent, |root| {
            git(root, &["init", "-q", "-b", "main"]);
            git(root, &["config", "user.name", "T"]);
            git(root, &["config", "user.email", "t@example.org"]);
            git(root, &["add", "-A"]);
            git(root, &["commit", "-q", "--allow-empty", "-m", "start"]);
        })
    }

    fn new(start: &[&str], agent: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        Self::cached(dir, &cache, start, agent, prepare)
    }

    /// With a cache that other cases share: an equal project is frozen, and synced, only once.
    fn cached(
        dir: TempDir,
        cache: &Path,
        start: &[&str],
        agent: &[&str],
        prepare: impl FnOnce(&Path),
    ) -> Self {
        let root = dir.path().join("project");
        std::fs::create_dir(&root).unwrap();
        act(&root, None, start);
        prepare(&root);
        let me = std::fs::metadata("/proc/self").unwrap();
        let owner = Owner { uid: me.uid(), gid: me.gid() };
        let base = Arc::new(freeze(&root, cache, owner).unwrap());
        let workspace =
            Workspace::create(base.clone(), &dir.path().join("ws"), Marks::Trusted).unwrap();
        act(&workspace.overlay_dirs().upper, Some(&base.dir), agent);
        let blobs = Blobs::default();
        let seal = workspace.seal(&blobs, &workspace.unchanged()).unwrap();
        let set = workspace.change_set(&seal.manifest, &blobs).unwrap();
        Self { dir, base, blobs, set }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn user(&self, acts: &[&str]) {
        act(&self.root(), None, acts);
    }

    fn input(&self) -> Input<'_> {
        Input { base: &self.base, set: &self.set, blobs: &self.blobs, commits: true }
    }

    fn operation(&self) -> OperationDir {
        OperationDir::new(self.dir.path(), "op1").unwrap()
    }

    fn proposal(&self) -> Proposal {
        match propose(&self.root(), self.input()).unwrap() {
            Proposed::Clean(proposal) => proposal,
            Proposed::Conflict(conflicts) => panic!("{conflicts:?}"),
        }
    }

    fn automatic(&self) -> Result<Outcome> {
        apply(&self.root(), self.input(), Authority::Automatic, &self.operation())
    }

    /// Approves what is proposed now, deletions included, and applies it.
    fn reviewed(&self) -> Result<Outcome> {
        match propose(&self.root(), self.input())? {
            Proposed::Conflict(conflicts) => Ok(Outcome::Conflict(conflicts)),
            Proposed::Clean(proposal) => {
                let authority = Authority::Reviewed { binding: &proposal.binding, deletions: true };
                apply(&self.root(), self.input(), authority, &self.operation())
            }
        }
    }

    fn commit(&self) -> Result<Committed> {
        self.commit_with(&mut |_| Ok(()))
    }

    fn commit_with(&self, interrupt: super::apply::Interrupt<'_>) -> Result<Committed> {
        let author = Author { name: "Agent".to_owned(), email: "agent@example.org".to_owned() };
        let operation = self.operation();
        let request = CommitRequest {
            operation: &operation,
            message: "Do it\n\nBecause.",
            author: &author,
            time_s: 1_790_000_000,
        };
        commit_with(&self.root(), request, interrupt)
    }

    /// Every file and link of the project, without `.git`.
    fn files(&self) -> BTreeMap<String, String> {
        tree(&self.root())
    }
}

fn tree(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, dir: &Path, out: &mut BTreeMap<String, String>) {
        for item in std::fs::read_dir(dir).unwrap() {
            let path = item.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let meta = path.symlink_metadata().unwrap();
            if name == ".git" {
            } else if meta.is_symlink() {
                out.insert(name, format!("@{}", std::fs::read_link(&path).unwrap().display()));
            } else if meta.is_dir() {
                walk(root, &path, out);
            } else {
                let mark = if meta.permissions().mode() & 0o100 == 0 { "" } else { "+" };
                let text = std::fs::read_to_string(&path).unwrap().replace('\n', " ");
                out.insert(name, format!("{mark}{text}"));
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(root, root, &mut out);
    out
}

fn listed(files: &BTreeMap<String, String>) -> Vec<String> {
    files.iter().map(|(name, text)| format!("{name}={text}")).collect()
}

#[test]
fn three_way_merges() {
    let check = |start: &[&str], agent: &[&str], user: &[&str], expected: &[&str]| {
        let case = Case::plain(start, agent);
        case.user(user);
        let outcome = case.reviewed().unwrap();
        assert!(matches!(outcome, Outcome::Applied(_)), "{agent:?} {user:?}: {outcome:?}");
        assert_eq!(listed(&case.files()), expected, "{agent:?} {user:?}");
    };
    check(&["a=1 2 3 4 5 "], &["a=1 2 3 4 x "], &[], &["a=1 2 3 4 x "]);
    check(&["a=1 2 3 4 5 "], &["a=1 2 3 4 x "], &["a=y 2 3 4 5 "], &["a=y 2 3 4 x "]);
    check(&["a=1 "], &["b/c/d=2 "], &["e=3 "], &["a=1 ", "b/c/d=2 ", "e=3 "]);
    check(&["a=1 "], &["a=2 "], &["a=2 "], &["a=2 "]);
    check(&["a=1 "], &["+a"], &["a=2 "], &["a=+2 "]);
    check(&["a=1 "], &["a=2 "], &["+a"], &["a=+2 "]);
    check(&["a=1 ", "b=2 "], &["-a"], &[], &["b=2 "]);
    check(&["a=1 ", "b=2 "], &["-a"], &["-a"], &["b=2 "]);
    check(&["d/a=1 ", "b=2 "], &["-d/a"], &[], &["b=2 "]);
    check(&["a=1 2 3 4 5 "], &["-a", "b=1 2 3 4 5 "], &[], &["b=1 2 3 4 5 "]);
    check(&["a=1 2 3 4 5 "], &["-a", "b=1 2 3 4 x "], &["a=y 2 3 4 5 "], &["b=y 2 3 4 x "]);
    check(&["a=1 2 "], &["-a", "b=1 2 "], &["-a", "b=1 2 "], &["b=1 2 "]);
    check(&["d=1 "], &["d/x=2 "], &[], &["d/x=2 "]);
    check(&["a=1 ", "l@a"], &["l@b"], &[], &["a=1 ", "l=@b"]);
    check(&["a=1 "], &["a@b"], &[], &["a=@b"]);
    // Names of which a git directory has more.
    let (head, object) = ("x/HEAD=1 ", "x/objects/o=1 ");
    check(&[head, object], &["x/hooks/h=x "], &[], &[head, "x/hooks/h=x ", object]);
}

#[test]
fn conflicts_are_told_by_kind_and_change_nothing() {
    let check =
        |start: &[&str], agent: &[&str], user: &[&str], expected: &[(&str, ConflictKind)]| {
            let mut agent = agent.to_vec();
            agent.push("clean=c ");
            let case = Case::git(start, &agent);
            case.user(user);
            let before = case.files();
            let Outcome::Conflict(conflicts) = case.reviewed().unwrap() else {
                panic!("{agent:?} {user:?} merged")
            };
            let found: Vec<_> = conflicts.iter().map(|c| (c.path.as_str(), c.kind)).collect();
            assert_eq!(found, expected, "{agent:?} {user:?}");
            assert_eq!(case.files(), before);
            let error = conflict_error(&conflicts);
            assert_eq!((error.code(), error.exit().status()), ("merge_conflict", 8));
            assert!(error.to_string().contains(expected[0].0), "{error}");
        };
    use ConflictKind::*;
    check(&["a=1 2 3 "], &["a=1 x 3 "], &["a=1 y 3 "], &[("a", Content)]);
    check(&[], &["a=1 "], &["a=2 "], &[("a", AddAdd)]);
    check(&[], &["a=1 ", "+a"], &["a=1 "], &[("a", Mode)]);
    check(&["a=1 "], &["-a"], &["a=2 "], &[("a", ModifyDelete)]);
    check(&["a=1 "], &["a=2 "], &["-a"], &[("a", DeleteModify)]);
    check(&["a=1 2 3 "], &["-a", "b=1 2 3 "], &["-a", "c=1 2 3 "], &[("a", RenameRename)]);
    check(&["a=1 2 3 "], &["-a", "b=1 2 3 "], &["-a"], &[("a", RenameDelete)]);
    check(&["a=1 2 3 "], &["-a", "b=1 2 3 "], &["b=0 "], &[("b", AddAdd)]);
    check(&["a=1 "], &["a@x"], &["a=2 "], &[("a", Symlink)]);
    check(&["a@x"], &["a@y"], &["a@z"], &[("a", Symlink)]);
    check(&["a=1\0"], &["a=2\0"], &["a=3\0"], &[("a", Binary)]);
    check(&["a=1 "], &["d/a=1 "], &["d=2 "], &[("d/a", DirectoryFile)]);
    check(&["a=1 "], &["d=1 "], &["d/a=2 "], &[("d", DirectoryFile)]);
    check(&["a=1 "], &["d/a=1 "], &["d@/tmp"], &[("d/a", Symlink)]);
    check(&["a=1 "], &[".git/hooks/pre-commit=x "], &[], &[(".git/hooks/pre-commit", GitInternal)]);
    check(&["a=1 "], &["x/.GIT/config=x "], &[], &[("x/.GIT/config", GitInternal)]);
    // A git directory of another name, also one that is no part of what was frozen.
    let head = format!("x/gd/HEAD={} ", "a".repeat(40));
    let bare = [head.as_str(), "x/gd/objects/o=1 ", "x/gd/refs/r=1 "];
    let hook = "x/gd/hooks/pre-commit";
    check(&bare, &[&format!("{hook}=x ")], &[], &[(hook, GitInternal)]);
    check(&["a=1 "], &[&format!("{hook}=x ")], &bare, &[(hook, GitInternal)]);
    check(&bare, &["-x/gd/refs/r"], &[], &[("x/gd/refs/r", GitInternal)]);
    // One that the merge itself would make.
    let all = ["x/gd/HEAD", "x/gd/objects/o", "x/gd/refs/r"].map(|path| (path, GitInternal));
    check(&["a=1 "], &bare, &[], &all);
}

#[test]
fn changes_inside_a_submodule_are_refused() {
    let case = Case::new(&["a=1 ", "sub/f=1 "], &["sub/f=2 "], |root| {
        git(root, &["init", "-q"]);
        git(&root.join("sub"), &["init", "-q"]);
    });
    let Outcome::Conflict(conflicts) = case.automatic().unwrap() else { panic!("merged") };
    assert_eq!(conflicts[0].kind, ConflictKind::Submodule);
}

#[test]
fn special_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut case = Case::plain(&["a=1 "], &[]);
    let workspace = Workspace::create(case.base.clone(), dir.path(), Marks::Trusted).unwrap();
    let pipe = workspace.overlay_dirs().upper.join("pipe");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let seal = workspace.seal(&case.blobs, &workspace.unchanged()).unwrap();
    case.set = workspace.change_set(&seal.manifest, &case.blobs).unwrap();
    let Outcome::Conflict(conflicts) = case.automatic().unwrap() else { panic!("merged") };
    assert_eq!(conflicts[0].kind, ConflictKind::Special);
}

/// Files the user gained after the freeze are kept, and deletions wait for a person.
#[test]
fn an_automatic_merge_deletes_nothing() {
    let case = Case::plain(&["old=1 ", "keep=2 "], &["-old", "new=3 "]);
    case.user(&["gained=4 "]);
    let Outcome::Applied(applied) = case.automatic().unwrap() else { panic!() };
    let names = |paths: &[CanonicalPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&applied.held_deletions), ["old"]);
    assert_eq!(names(&applied.written), ["new"]);
    assert!(applied.deleted.is_empty());
    assert_eq!(listed(&case.files()), ["gained=4 ", "keep=2 ", "new=3 ", "old=1 "]);
}

#[test]
fn an_approval_is_bound_to_what_was_seen() {
    let case = Case::plain(&["a=1 2 3 4 5 ", "b=1 "], &["a=1 2 3 4 x "]);
    let approved = case.proposal();
    let with = |binding: &Binding, id: &str| {
        let authority = Authority::Reviewed { binding, deletions: true };
        apply(
            &case.root(),
            case.input(),
            authority,
            &OperationDir::new(case.dir.path(), id).unwrap(),
        )
    };
    let stale = |binding: &Binding, path: Option<&str>| {
        let error = with(binding, "stale").unwrap_err();
        assert_eq!((error.code(), error.exit().status()), ("stale_review", 8));
        assert_eq!(error.report().context.get("path").and_then(|p| p.as_str()), path);
    };
    // A mergeable edit, and one that conflicts: either way the person has not seen it.
    for text in ["a=y 2 3 4 5 ", "a=1 2 3 4 z "] {
        case.user(&[text]);
        stale(&approved.binding, Some("a"));
    }
    case.user(&["a=1 2 3 4 5 "]);
    stale(&Binding { patch: Digest::of(b"other"), ..approved.binding.clone() }, None);
    stale(&Binding { base: Digest::of(b"other"), ..approved.binding.clone() }, None);
    // An edit elsewhere does not matter.
    case.user(&["b=2 "]);
    assert!(matches!(with(&approved.binding, "good").unwrap(), Outcome::Applied(_)));
}

#[test]
fn git_applies_the_patch_to_the_same_result() {
    let case = Case::git(
        &["a=1 2 3 4 5 6 7 8 9 ", "with space=1", "gone=x ", "mode=m ", "l@a"],
        &["a=1 2 3 4 5 6 7 8 x ", "with space=2 ", "-gone", "+mode", "l@b", "dir/new=n "],
    );
    let copy = case.dir.path().join("copy");
    git(case.dir.path(), &["clone", "-q", "project", "copy"]);
    std::fs::write(case.dir.path().join("p"), case.proposal().patch).unwrap();
    git(&copy, &["apply", "../p"]);
    case.reviewed().unwrap();
    assert_eq!(tree(&copy), case.files());
}

/// Comparing every removed file with every added one is quadratic, so it has a bound; beyond it the same
/// files are merged as deletions and additions, and only equal contents count as moved.
#[test]
fn beyond_its_bound_a_rename_is_a_deletion_and_an_addition() {
    use glasshouse_sandbox::workspace::ChangeKind;
    let check = |files: usize, edited: bool, renames: usize| {
        let text = |n: usize| format!("{n}-1 {n}-2 {n}-3 {n}-4 {n}-5 ");
        let start: Vec<_> = (0..files).map(|n| format!("a{n}={}", text(n))).collect();
        let end = if edited { "x " } else { "" };
        let moved = (0..files).flat_map(|n| [format!("-a{n}"), format!("b{n}={}{end}", text(n))]);
        let moved: Vec<_> = moved.collect();
        let [start, moved] =
            [&start, &moved].map(|l| l.iter().map(String::as_str).collect::<Vec<_>>());
        let case = Case::git(&start, &moved);
        let found = case.set.changes.iter();
        let found =
            found.filter(|change| matches!(change.kind, ChangeKind::Renamed { .. })).count();
        assert_eq!(found, renames, "{files} {edited}");
        assert!(matches!(case.reviewed().unwrap(), Outcome::Applied(_)));
        assert!(matches!(case.commit().unwrap(), Committed::Commit { .. }));
        assert_eq!(git(&case.root(), &["status", "--porcelain"]), "");
        assert_eq!(case.files().len(), files);
    };
    check(20, true, 20);
    check(21, true, 0);
    check(40, false, 40);
}

/// The search for where the user moved a file reads at most so many files; a miss is a plain conflict.
#[test]
fn the_search_for_a_file_that_the_user_moved_is_bounded() {
    let case = Case::git(&["a=1 2 3 "], &["a=1 2 x "]);
    std::fs::create_dir(case.root().join("many")).unwrap();
    for n in 0..2_000 {
        std::fs::write(case.root().join(format!("many/{n}")), "").unwrap();
    }
    case.user(&["-a", "zzz=1 2 3 "]);
    let detail = || {
        let Outcome::Conflict(found) = case.reviewed().unwrap() else { panic!("merged") };
        assert_eq!((found[0].path.as_str(), found[0].kind), ("a", ConflictKind::DeleteModify));
        found[0].detail.clone()
    };
    assert_eq!(detail(), None);
    std::fs::remove_file(case.root().join("many/0")).unwrap();
    assert_eq!(detail().as_deref(), Some("renamed to `zzz`"));
}

#[test]
fn permissions_of_a_merged_file_are_kept() {
    let case = Case::plain(&["a=1 "], &["a=2 "]);
    let file = case.root().join("a");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    case.automatic().unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
}

#[test]
fn every_code_has_a_page() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    for code in codes::ALL {
        let text = std::fs::read_to_string(pages.join(format!("{}.md", code.name))).unwrap();
        assert!(text.starts_with(&format!("# {}\n", code.name)));
    }
}
