//! Two trees that come from one, brought together: each path three-way, by the rules of `three_way`.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::CanonicalPath;
use glasshouse_model::body::MergeSide;
use glasshouse_sandbox::workspace::{Entry, Manifest};

use super::conflict::{Conflict, ConflictKind};
use super::three_way::{Version, versions};
use crate::Result;

/// A whole tree whose contents can be read.
pub trait Tree {
    /// What it holds.
    fn manifest(&self) -> &Manifest;
    /// The bytes of a file; nothing for anything else.
    ///
    /// # Errors
    /// What reading answers.
    fn bytes(&self, path: &CanonicalPath) -> Result<Vec<u8>>;
}

/// Where the merged content of a path comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// One of the branches has it.
    Side(MergeSide),
    /// It was made of both.
    Made(Vec<u8>),
}

/// What came of two trees.
#[derive(Debug, Default)]
pub struct JoinedTrees {
    /// What is where, and where its content comes from.
    pub entries: BTreeMap<CanonicalPath, (Entry, Origin)>,
    /// Paths that do not go together, in path order. Of those the target's version is in `entries`.
    pub conflicts: Vec<Conflict>,
    /// Paths that did not go together and of which one version was taken.
    pub taken: BTreeMap<CanonicalPath, MergeSide>,
}

/// The three trees.
#[derive(Clone, Copy)]
struct Trees<'a> {
    base: &'a dyn Tree,
    target: &'a dyn Tree,
    source: &'a dyn Tree,
}

/// Brings what the source did to `base` onto the target. `take` says whose version of a path is taken
/// where the two do not go together. A file goes only where one side deleted it and the other left it as
/// it was.
///
/// # Errors
/// What reading contents answers.
pub fn join_trees(
    base: &dyn Tree,
    target: &dyn Tree,
    source: &dyn Tree,
    take: &dyn Fn(&CanonicalPath) -> Option<MergeSide>,
) -> Result<JoinedTrees> {
    let trees = Trees { base, target, source };
    let (mut joined, mut conflicts) = (JoinedTrees::default(), BTreeMap::new());
    let all = [base, target, source].into_iter().flat_map(|tree| tree.manifest().iter());
    let paths: BTreeSet<_> = all.map(|(path, _)| path.clone()).collect();
    for path in paths {
        match trees.path(&path)? {
            Ok(Some(kept)) => drop(joined.entries.insert(path, kept)),
            Ok(None) => {}
            Err(conflict) => drop(conflicts.insert(path, conflict)),
        }
    }
    for path in conflicts.keys() {
        joined.put(path, trees, MergeSide::Target);
    }
    for conflict in joined.blocked() {
        conflicts.entry(conflict.path.clone()).or_insert(conflict);
    }
    for path in conflicts.keys() {
        if let Some(side) = take(path) {
            joined.put(path, trees, side);
            joined.taken.insert(path.clone(), side);
        }
    }
    // What was taken may still be in the way of something else.
    let left = joined.blocked();
    conflicts.retain(|path, _| !joined.taken.contains_key(path));
    for conflict in left {
        conflicts.entry(conflict.path.clone()).or_insert(conflict);
    }
    joined.conflicts = conflicts.into_values().collect();
    joined.drop_filled_directories();
    Ok(joined)
}

impl Trees<'_> {
    /// What becomes of a path; a conflict is the inner error.
    fn path(
        self,
        path: &CanonicalPath,
    ) -> Result<std::result::Result<Option<(Entry, Origin)>, Conflict>> {
        let entry = |tree: &dyn Tree| tree.manifest().get(path.as_str()).cloned();
        let (base, target, source) = (entry(self.base), entry(self.target), entry(self.source));
        let side = |entry: Option<Entry>, side| Ok(Ok(entry.map(|e| (e, Origin::Side(side)))));
        if base == source || target == source {
            return side(target, MergeSide::Target);
        }
        if base == target {
            return side(source, MergeSide::Source);
        }
        let conflict = |kind, detail| Conflict { path: path.clone(), kind, detail };
        let is_special = |entry: &Option<Entry>| matches!(entry, Some(Entry::Special { .. }));
        if is_special(&target) || is_special(&source) {
            return Ok(Err(conflict(ConflictKind::Special, None)));
        }
        let version = |tree: &dyn Tree, entry: Option<Entry>| -> Result<Option<Version>> {
            let Some(entry) = entry else { return Ok(None) };
            Ok(Some(Version { entry, bytes: tree.bytes(path)? }))
        };
        let base = version(self.base, base)?;
        let (target, source) = (version(self.target, target)?, version(self.source, source)?);
        Ok(match versions(base.as_ref(), target.as_ref(), source.as_ref()) {
            Ok(made) => Ok(made.map(|made| (made.entry, Origin::Made(made.bytes)))),
            Err((kind, detail)) => Err(conflict(kind, detail)),
        })
    }
}

impl JoinedTrees {
    fn put(&mut self, path: &CanonicalPath, trees: Trees<'_>, side: MergeSide) {
        let tree = match side {
            MergeSide::Source => trees.source,
            MergeSide::Target => trees.target,
        };
        match tree.manifest().get(path.as_str()) {
            Some(entry) => {
                self.entries.insert(path.clone(), (entry.clone(), Origin::Side(side)));
            }
            None => drop(self.entries.remove(path)),
        }
    }

    /// Files that are where another path needs a directory, and those paths.
    fn blocked(&self) -> Vec<Conflict> {
        let mut blocked = BTreeMap::new();
        for path in self.entries.keys() {
            let above = std::iter::successors(path.parent(), CanonicalPath::parent);
            let in_the_way = above.filter(
                |dir| matches!(self.entries.get(dir), Some((entry, _)) if *entry != Entry::Dir),
            );
            for file in in_the_way {
                for path in [path, &file] {
                    let detail = Some(format!("`{path}` is a file here and a directory there"));
                    let kind = ConflictKind::DirectoryFile;
                    let detail = detail.filter(|_| *path == file);
                    blocked.insert(path.clone(), Conflict { path: path.clone(), kind, detail });
                }
            }
        }
        blocked.into_values().collect()
    }

    /// Only a directory that holds nothing is an entry of its own.
    fn drop_filled_directories(&mut self) {
        let above = |path: &CanonicalPath| {
            std::iter::successors(path.parent(), CanonicalPath::parent).collect::<Vec<_>>()
        };
        let filled: BTreeSet<_> = self.entries.keys().flat_map(above).collect();
        self.entries.retain(|path, (entry, _)| *entry != Entry::Dir || !filled.contains(path));
    }
}

#[cfg(test)]
mod tests {
    use glasshouse_model::Digest;
    use glasshouse_sandbox::workspace::SpecialKind;

    use super::*;

    /// A tree of texts: `path=text`, `path@target` for a link, `path/` for an empty directory, `path|` for
    /// a pipe, `path*text` for an executable file.
    struct Written(Manifest, BTreeMap<CanonicalPath, Vec<u8>>);

    impl Tree for Written {
        fn manifest(&self) -> &Manifest {
            &self.0
        }

        fn bytes(&self, path: &CanonicalPath) -> Result<Vec<u8>> {
            Ok(self.1.get(path).cloned().unwrap_or_default())
        }
    }

    fn tree(text: &str) -> Written {
        let mut written = Written(Manifest::default(), BTreeMap::new());
        for word in text.split_whitespace() {
            let at = word.find(['=', '*', '@', '|']).unwrap_or(word.len() - 1);
            let (path, rest) = word.split_at(at);
            let path = CanonicalPath::parse(path).unwrap();
            let bytes = rest[1..].replace(',', "\n").into_bytes();
            let entry = match &rest[..1] {
                "@" => Entry::Symlink { target: rest[1..].to_owned() },
                "/" => Entry::Dir,
                "|" => Entry::Special { what: SpecialKind::Fifo },
                mark => Entry::File {
                    executable: mark == "*",
                    digest: Digest::of(&bytes),
                    size_bytes: bytes.len() as u64,
                },
            };
            written.1.insert(path.clone(), bytes);
            written.0.insert(path, entry);
        }
        written
    }

    fn shown(joined: &JoinedTrees, target: &Written, source: &Written) -> String {
        let mut shown: Vec<_> = joined
            .entries
            .iter()
            .map(|(path, (entry, origin))| {
                let bytes = match origin {
                    Origin::Made(bytes) => bytes.clone(),
                    Origin::Side(MergeSide::Target) => target.bytes(path).unwrap(),
                    Origin::Side(MergeSide::Source) => source.bytes(path).unwrap(),
                };
                let text = String::from_utf8(bytes).unwrap().replace('\n', ",");
                match entry {
                    Entry::File { executable: true, .. } => format!("{path}*{text}"),
                    Entry::File { .. } => format!("{path}={text}"),
                    Entry::Symlink { target } => format!("{path}@{target}"),
                    Entry::Dir => format!("{path}/"),
                    Entry::Special { .. } => format!("{path}|"),
                }
            })
            .collect();
        shown.extend(joined.conflicts.iter().map(|conflict| format!("!{conflict}")));
        shown.join(" ")
    }

    fn check(base: &str, target: &str, source: &str, take: &str, expected: &str) {
        let (base, target, source) = (tree(base), tree(target), tree(source));
        let choose = |path: &CanonicalPath| {
            let mut sides = take.split_whitespace().filter_map(|word| word.split_once(':'));
            let named = sides.find(|(name, _)| *name == "*" || *name == path.as_str());
            named.map(|(_, side)| match side {
                "source" => MergeSide::Source,
                _ => MergeSide::Target,
            })
        };
        let joined = join_trees(&base, &target, &source, &choose).unwrap();
        assert_eq!(shown(&joined, &target, &source), expected);
    }

    #[test]
    fn paths_come_together() {
        let clean = |base, target, source, expected| check(base, target, source, "", expected);
        clean("a=1", "a=1", "a=2", "a=2");
        clean("a=1", "a=2", "a=1", "a=2");
        clean("a=1", "a=2", "a=2", "a=2");
        clean("", "a=1", "b=2", "a=1 b=2");
        // A file that only the target has is no deletion of the source, and the reverse.
        clean("a=1", "a=1 f=3", "a=2", "a=2 f=3");
        clean("a=1 f=3", "a=1 f=3", "a=1", "a=1");
        clean("a=1 f=3", "a=1", "a=1 f=3", "a=1");
        clean("a=1 f=3", "a=1", "a=1", "a=1");
        clean("a=1,2,3,4,5,", "a=0,2,3,4,5,", "a=1,2,3,4,6,", "a=0,2,3,4,6,");
        clean("a=1,2,3,", "a*1,2,3,", "a=1,2,4,", "a*1,2,4,");
        clean("", "l@x", "l@x", "l@x");
        clean("l@x", "l@x", "l@y", "l@y");
        clean("d/", "d/", "d/a=1", "d/a=1");
        clean("d/a=1", "d/", "d/a=1 d/b=2", "d/b=2");
        clean("d=1", "d=1", "d/a=2", "d/a=2");
    }

    #[test]
    fn what_does_not_go_together_is_named_and_can_be_taken() {
        check("a=1", "a=2", "a=3", "", "a=2 !a: content (lines 1-1 of the base)");
        check("a=1", "a=2", "a=3", "*:source", "a=3");
        check("a=1", "a=2", "a=3", "*:target", "a=2");
        check(
            "a=1 b=1",
            "a=2 b=2",
            "a=3 b=3",
            "a:source",
            "a=3 b=2 !b: content (lines 1-1 of the base)",
        );
        check("", "a=2", "a=3", "", "a=2 !a: add_add");
        check("a=1", "", "a=3", "", "!a: delete_modify");
        check("a=1", "", "a=3", "a:source", "a=3");
        check("a=1", "a=2", "", "", "a=2 !a: modify_delete");
        check("a=1", "a=2", "", "a:source", "");
        check("l@x", "l@y", "l@z", "", "l@y !l: symlink");
        check("", "l@y", "l=1", "", "l@y !l: add_add");
        check("", "p|", "p=1", "", "p| !p: special");
        check("a=\0", "a=\0b", "a=\0c", "", "a=\0b !a: binary");
        // Nothing is taken of what goes together.
        check("a=1", "a=1", "a=2", "a:target", "a=2");
        let both = "d=1 d/a=2 !d: directory_file (`d` is a file here and a directory there) \
                    !d/a: directory_file";
        check("", "d=1", "d/a=2", "", both);
        check("", "d=1", "d/a=2", "*:source", "d/a=2");
        check("", "d=1", "d/a=2", "*:target", "d=1");
    }
}
