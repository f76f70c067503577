//! Sabotage: a patch breaks one layer on purpose, and the demo has to notice.
//!
//! `tests/sabotage/NAME.patch` is applied to a copy of the tree outside the clone. A demo that still
//! ends well shows that nothing in it depends on the layer. The copy is kept between runs and only
//! files whose bytes differ are written, so that cargo rebuilds what changed and nothing else.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::demo::{self, Verdict};
use crate::place::Place;
use crate::process::{Doing, Failure, run};

/// The folder of patches.
const PATCHES: &str = "tests/sabotage";

/// Length of a turn of `--turn`.
const TURN: Duration = Duration::from_secs(24 * 60 * 60);

/// `cargo xtask sabotage`: without a name, every patch.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    let mut control = true;
    let mut names = names(place)?;
    for argument in arguments {
        match argument.as_str() {
            "--no-control" => control = false,
            "--turn" => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                names = vec![turn(&names, now).to_owned()];
            }
            name if names.iter().any(|known| known == name) => names = vec![name.to_owned()],
            name => {
                let known = names.join(", ");
                return Err(Failure::new(format!("no sabotage `{name}`; there are: {known}")));
            }
        }
    }
    let workshop = Workshop::open(place)?;
    if control {
        workshop.control()?;
    }
    let mut survived = Vec::new();
    for name in &names {
        match workshop.sabotage(name)? {
            Verdict::Noticed(why) => println!("sabotage {name}: noticed, {why}"),
            other => {
                println!("sabotage {name}: NOT NOTICED, the demo {other}");
                survived.push(name.as_str());
            }
        }
    }
    if survived.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("the demo did not notice: {}", survived.join(", "))))
}

/// The names of all patches, sorted; having none is a failure, or this check would pass by absence.
fn names(place: &Place) -> Result<Vec<String>, Failure> {
    let folder = place.root().join(PATCHES);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).doing(format_args!("could not list {PATCHES}"))? {
        let path = entry.doing(format_args!("could not list {PATCHES}"))?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    if names.is_empty() {
        return Err(Failure::new(format!("{PATCHES} holds no patch")));
    }
    Ok(names)
}

/// Each day it is another one's turn.
fn turn(names: &[String], since_epoch: Duration) -> &str {
    let days = since_epoch.as_secs() / TURN.as_secs();
    let index = usize::try_from(days).unwrap_or(0) % names.len();
    &names[index]
}

/// The copy of the tree that is broken and mended, with its own build folder.
struct Workshop<'a> {
    place: &'a Place,
    tree: PathBuf,
    target: PathBuf,
    /// Held locked: two workshops in one folder would test each other's sabotage.
    _lock: File,
}

impl<'a> Workshop<'a> {
    fn open(place: &'a Place) -> Result<Self, Failure> {
        let folder = place.cache()?.join("sabotage");
        fs::create_dir_all(&folder)
            .doing(format_args!("could not make the cache folder {}", folder.display()))?;
        let lock = File::create(folder.join("lock")).doing("could not make the lock")?;
        lock.lock().doing("could not wait for another sabotage to end")?;
        Ok(Self { place, tree: folder.join("tree"), target: folder.join("target"), _lock: lock })
    }

    /// The same demo without a patch must end well, or a noticed sabotage means nothing.
    fn control(&self) -> Result<(), Failure> {
        mirror(self.place.root(), &self.place.files()?, &self.tree)?;
        match self.demo()? {
            Verdict::Done => Ok(()),
            other => Err(Failure::new(format!("without any sabotage the demo {other}"))),
        }
    }

    fn sabotage(&self, name: &str) -> Result<Verdict, Failure> {
        mirror(self.place.root(), &self.place.files()?, &self.tree)?;
        let patch = self.place.root().join(PATCHES).join(format!("{name}.patch"));
        let mut git = Command::new("git");
        git.current_dir(&self.tree);
        // Without a ceiling, a repository above the cache would take the patch for its own.
        git.env("GIT_CEILING_DIRECTORIES", self.tree.parent().unwrap_or(&self.tree));
        git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
        run(git.args(["apply", "--whitespace=nowarn"]).arg(&patch))?;
        self.demo()
    }

    fn demo(&self) -> Result<Verdict, Failure> {
        demo::attempt(&demo::build(&self.tree, &self.target)?)
    }
}

/// Makes `to` hold exactly these files of `from`. A file with equal bytes is left alone, so its time
/// stays; a file that differs is written and so is newer than every build of the old bytes.
pub(crate) fn mirror(from: &Path, files: &[String], to: &Path) -> Result<(), Failure> {
    let mut wanted = BTreeSet::new();
    for name in files {
        let (source, target) = (from.join(name), to.join(name));
        let bytes = fs::read(&source).doing(format_args!("could not read {name}"))?;
        wanted.insert(target.clone());
        if fs::read(&target).is_ok_and(|old| old == bytes) {
            continue;
        }
        let folder = target.parent().unwrap_or(to);
        fs::create_dir_all(folder).doing(format_args!("could not make {}", folder.display()))?;
        fs::write(&target, bytes)
            .and_then(|()| fs::set_permissions(&target, source.metadata()?.permissions()))
            .doing(format_args!("could not copy {name}"))?;
    }
    remove_others(to, &wanted)
}

fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<(), Failure> {
    let name = folder.display();
    for entry in fs::read_dir(folder).doing(format_args!("could not list {name}"))? {
        let entry = entry.doing(format_args!("could not list {name}"))?;
        let path = entry.path();
        if entry.file_type().doing(format_args!("could not look at {}", path.display()))?.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path).doing(format_args!("could not remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Scratch;

    #[test]
    fn every_patch_gets_its_turn() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let on_day = |day: u32| turn(&names, TURN * day + Duration::from_secs(3600));
        assert_eq!([0, 1, 2, 3].map(on_day), ["a", "b", "c", "a"]);
    }

    #[test]
    fn a_mirror_holds_exactly_the_files_and_keeps_times_of_equal_ones() {
        let scratch = Scratch::new("mirror").expect("makes a folder");
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        let write = |folder: &Path, name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("makes folders");
            fs::write(path, text).expect("writes");
        };
        for (name, text) in [("same", "1"), ("sub/changed", "2"), ("new", "3")] {
            write(&from, name, text);
        }
        for (name, text) in [("same", "1"), ("sub/changed", "patched"), ("sub/extra", "4")] {
            write(&to, name, text);
        }
        let old = SystemTime::now() - TURN;
        let same = to.join("same");
        File::options().write(true).open(&same).expect("opens").set_modified(old).expect("sets");
        let before = same.metadata().expect("exists").modified().expect("has a time");

        let files = ["same", "sub/changed", "new"].map(str::to_owned);
        mirror(&from, &files, &to).expect("mirrors");

        for (name, text) in [("same", "1"), ("sub/changed", "2"), ("new", "3")] {
            assert_eq!(fs::read_to_string(to.join(name)).expect("reads"), text, "{name}");
        }
        assert!(!to.join("sub/extra").exists());
        assert_eq!(same.metadata().expect("exists").modified().expect("has a time"), before);
        let changed = to.join("sub/changed").metadata().expect("exists");
        assert!(changed.modified().expect("has a time") > before);
    }
}
