//! What a view answers for an honest workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use glasshouse_sandbox::view::{Intent, Kind, View};

/// A workspace in a temporary directory.
pub(crate) struct Workspace {
    dir: tempfile::TempDir,
}

impl Workspace {
    /// Makes one with these files; a text `-> target` makes a link.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Self { dir };
        fs::create_dir(workspace.path()).unwrap();
        for (name, content) in files {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match content.strip_prefix("-> ") {
                Some(target) => symlink(target, path).unwrap(),
                None => fs::write(path, content).unwrap(),
            }
        }
        workspace
    }

    /// The workspace root; its parent is a place outside that only this test sees.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("ws")
    }

    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn view(&self) -> View {
        View::new(fs::File::open(self.path()).unwrap().into()).unwrap()
    }
}

/// What resolving answered: kind and real path, or the error's code.
fn answer(view: &View, text: &str, intent: Intent) -> Result<(Kind, String), &'static str> {
    view.resolve(text, intent)
        .map(|path| (path.kind(), path.canonical().to_string()))
        .map_err(|error| error.code())
}

#[test]
fn paths_resolve_to_the_real_one() {
    let workspace = Workspace::with(&[
        ("src/a.rs", "a"),
        ("link", "-> src/a.rs"),
        ("chain", "-> ./link"),
        ("tree", "-> src"),
        ("src/up", "-> ../src/./up2"),
        ("src/up2", "-> ../link"),
        ("inside", "-> /workspace/src/a.rs"),
        ("gone", "-> src/none"),
        ("far/gone", "-> ../tree/none/deeper"),
        ("self", "-> self"),
        ("climb", "-> nowhere/../src/a.rs"),
    ]);
    let view = workspace.view();
    let check = |text: &str, intent: Intent, expected: Result<(Kind, &str), &'static str>| {
        let expected = expected.map(|(kind, path)| (kind, path.to_owned()));
        assert_eq!(answer(&view, text, intent), expected, "{text} {intent:?}");
    };
    use Intent::{Any, Create, Directory, Read};
    use Kind::{Absent, File};
    check("src/a.rs", Read, Ok((File, "src/a.rs")));
    check("/workspace/src//a.rs", Read, Ok((File, "src/a.rs")));
    check("link", Read, Ok((File, "src/a.rs")));
    check("chain", Any, Ok((File, "src/a.rs")));
    check("tree/a.rs", Read, Ok((File, "src/a.rs")));
    check("src/up", Read, Ok((File, "src/a.rs")));
    check("inside", Read, Ok((File, "src/a.rs")));
    check(".", Directory, Ok((Kind::Directory, ".")));
    check("tree", Directory, Ok((Kind::Directory, "src")));
    check("tree", Any, Ok((Kind::Directory, "src")));
    check("none", Any, Ok((Absent, "none")));
    check("tree/none/x", Any, Ok((Absent, "src/none/x")));
    check("gone", Any, Ok((Absent, "src/none")));
    check("far/gone", Any, Ok((Absent, "src/none/deeper")));
    check("src/a.rs/x", Any, Ok((Absent, "src/a.rs/x")));
    check("src/new.rs", Create, Ok((Absent, "src/new.rs")));
    check("src/a.rs", Create, Ok((File, "src/a.rs")));
    check("tree/new.rs", Create, Ok((Absent, "src/new.rs")));
    check("tree/x/y/new.rs", Create, Ok((Absent, "src/x/y/new.rs")));

    check("none", Read, Err("path_not_found"));
    check("gone", Read, Err("path_not_found"));
    check("climb", Any, Err("path_not_found"));
    check("src/a.rs/x", Read, Err("not_a_directory"));
    check("src/a.rs/x", Create, Err("not_a_directory"));
    check("src", Read, Err("is_a_directory"));
    check("src", Create, Err("is_a_directory"));
    check(".", Create, Err("is_a_directory"));
    check("link", Directory, Err("not_a_directory"));
    check("link", Create, Err("link_refused"));
    check("tree", Create, Err("link_refused"));
    check("self", Any, Err("link_loop"));
    check("self/x", Create, Err("link_loop"));
}

#[test]
fn a_place_names_the_directories_that_are_missing() {
    let workspace = Workspace::with(&[("src/a.rs", "a")]);
    let view = workspace.view();
    let check = |text: &str, missing: &[&str], name: &str| {
        let path = view.resolve(text, Intent::Create).unwrap();
        let place = path.place().unwrap();
        assert_eq!((place.missing_parents, place.name), (&missing_strings(missing)[..], name));
    };
    check("src/a.rs", &[], "a.rs");
    check("src/b.rs", &[], "b.rs");
    check("src/x/y/b.rs", &["x", "y"], "b.rs");
    check("b.rs", &[], "b.rs");
    assert!(view.resolve("src/a.rs", Intent::Read).unwrap().place().is_none());
}

fn missing_strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn reads_are_bounded_and_repeatable() {
    let workspace = Workspace::with(&[("a", "0123456789"), ("empty", "")]);
    let view = workspace.view();
    for intent in [Intent::Read, Intent::Create, Intent::Any] {
        let path = view.resolve("a", intent).unwrap();
        for _ in 0..2 {
            let cut = path.read(4).unwrap();
            assert_eq!((&cut.bytes[..], cut.total_bytes, cut.is_cut()), (&b"0123"[..], 10, true));
            let whole = path.read(10).unwrap();
            assert_eq!((&whole.bytes[..], whole.is_cut()), (&b"0123456789"[..], false));
        }
    }
    assert_eq!(view.resolve("empty", Intent::Read).unwrap().read(10).unwrap().bytes, b"");
    let code = |text, intent| view.resolve(text, intent).unwrap().read(1).unwrap_err().code();
    assert_eq!(code(".", Intent::Any), "is_a_directory");
    assert_eq!(code("none", Intent::Any), "path_not_found");
    assert_eq!(code("none", Intent::Create), "path_not_found");
}

#[test]
fn listings_are_sorted_and_show_links_without_following_them() {
    let workspace = Workspace::with(&[
        ("b/z", ""),
        ("b/a/deep", ""),
        ("b.txt", ""),
        ("a", ""),
        ("loop", "-> ."),
        ("b/.git/config", ""),
        (".git/HEAD", ""),
        ("ctrl\u{1}", ""),
    ]);
    let view = workspace.view();
    let root = view.resolve(".", Intent::Directory).unwrap();
    let names = |recursive, limit| {
        let listing = view.list(&root, recursive, limit).unwrap();
        let names: Vec<String> = listing
            .entries
            .iter()
            .map(|(path, kind)| format!("{path}{}", if *kind == Kind::Link { "@" } else { "" }))
            .collect();
        (names.join(" "), listing.truncated, listing.summary.unnameable)
    };
    assert_eq!(names(false, 10), ("a b b.txt loop@".to_owned(), false, 1));
    assert_eq!(names(true, 10), ("a b b/a b/a/deep b/z b.txt loop@".to_owned(), false, 1));
    assert_eq!(names(true, 3), ("a b b/a".to_owned(), true, 1));
    assert_eq!(names(false, 4), ("a b b.txt loop@".to_owned(), false, 1));

    let below = view.resolve("b/a", Intent::Directory).unwrap();
    let listing = view.list(&below, true, 10).unwrap();
    assert_eq!(listing.entries[0].0.as_str(), "b/a/deep");
}

#[test]
fn a_walk_reads_files_and_stops_when_told() {
    let workspace = Workspace::with(&[("a", "1"), ("b/c", "2"), ("d", "3"), ("l", "-> a")]);
    let view = workspace.view();
    let root = view.resolve(".", Intent::Directory).unwrap();
    let mut seen = String::new();
    view.walk(&root, &mut |entry| {
        match entry.read(10) {
            Ok(file) => seen.push_str(&String::from_utf8(file.bytes).unwrap()),
            Err(error) => seen.push_str(&format!("<{}>", error.code())),
        }
        entry.path().as_str() != "d"
    })
    .unwrap();
    assert_eq!(seen, "1<is_a_directory>23");
    let file = view.resolve("a", Intent::Any).unwrap();
    assert_eq!(view.walk(&file, &mut |_| true).unwrap_err().code(), "not_a_directory");
}

#[test]
fn a_walk_ends_at_its_deepest_level() {
    let workspace = Workspace::with(&[]);
    let mut path = workspace.path();
    for _ in 0..70 {
        path.push("d");
    }
    fs::create_dir_all(&path).unwrap();
    let view = workspace.view();
    let root = view.resolve(".", Intent::Directory).unwrap();
    let listing = view.list(&root, true, 1000).unwrap();
    assert_eq!((listing.entries.len(), listing.summary.skipped_directories), (64, 1));
}

#[test]
fn a_view_needs_a_directory() {
    let workspace = Workspace::with(&[("a", "")]);
    let file = fs::File::open(workspace.path().join("a")).unwrap();
    assert_eq!(View::new(file.into()).unwrap_err().code(), "not_a_directory");
}
