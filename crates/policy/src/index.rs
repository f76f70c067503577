//! Finds the rules that may match a call without trying each: by syscall, then by path through a
//! tree of components, or by host.
//!
//! Of a found rule, syscall and included paths are known to match; the rest of its conditions is
//! still to be checked.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use glasshouse_model::Call;

use crate::glob::{Components, Glob, Segment, extension_of};
use crate::network::canonical_host;
use crate::rule::Rule;

type RuleId = usize;
type Map<T> = HashMap<Box<str>, T, BuildHasherDefault<Fnv>>;

/// FNV-1a. The keys come from policy files, so nobody chooses them to collide, and names are short
/// enough that a keyed hash would be half of a decision's time.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Rules by syscall; those without one are tried for every call.
#[derive(Debug, Default)]
pub(crate) struct Index {
    by_syscall: Map<Bucket>,
    any_syscall: Bucket,
}

#[derive(Debug, Default)]
struct Bucket {
    by_path: PathTree,
    by_host: Map<Vec<RuleId>>,
    rest: Vec<RuleId>,
}

impl Index {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (id, rule) in rules.iter().enumerate() {
            match rule.when.syscalls() {
                None => index.any_syscall.add(id, rule),
                Some(names) => {
                    for name in names {
                        index.by_syscall.entry(name.clone()).or_default().add(id, rule);
                    }
                }
            }
        }
        index
    }

    /// Rules that may match, each once, in the order in which they were given.
    pub(crate) fn candidates(&self, call: &Call) -> Vec<RuleId> {
        let mut found = Vec::new();
        self.any_syscall.find(call, &mut found);
        if let Some(bucket) = self.by_syscall.get(&*call.syscall) {
            bucket.find(call, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Bucket {
    fn add(&mut self, id: RuleId, rule: &Rule) {
        if let Some(paths) = rule.when.paths() {
            for glob in &paths.include {
                self.by_path.add(glob, id);
            }
            return;
        }
        match rule.when.exact_hosts() {
            Some(names) => {
                for name in names {
                    self.by_host.entry(name.into()).or_default().push(id);
                }
            }
            None => self.rest.push(id),
        }
    }

    fn find(&self, call: &Call, found: &mut Vec<RuleId>) {
        found.extend(&self.rest);
        if let Some(path) = &call.path {
            self.by_path.find(Components::of(path), found);
        }
        if let Some(host) = &call.host
            && !self.by_host.is_empty()
        {
            found.extend(self.by_host.get(&*canonical_host(host)).into_iter().flatten());
        }
    }
}

/// All path patterns of a bucket, sharing their beginnings.
#[derive(Debug)]
struct PathTree {
    nodes: Vec<TreeNode>,
}

#[derive(Debug, Default)]
struct TreeNode {
    literal: Map<usize>,
    extension: Map<usize>,
    /// Patterns that more components have to follow. Found by what they say: thousands may stand side by side.
    wild: BTreeMap<Segment, usize>,
    /// Patterns that only the last component has to match.
    last_wild: Vec<(Segment, RuleId)>,
    any_depth: Option<usize>,
    /// Stays reachable over any number of components.
    loops: bool,
    /// Rules with a pattern that ends here.
    ends: Vec<RuleId>,
    /// Rules with a pattern of everything below here, the most frequent end (`dir/**`).
    below: Vec<RuleId>,
}

impl Default for PathTree {
    fn default() -> Self {
        Self { nodes: vec![TreeNode::default()] }
    }
}

impl PathTree {
    fn add(&mut self, glob: &Glob, id: RuleId) {
        let path = |tree: &mut Self, segments: &[Segment]| {
            segments.iter().fold(0, |at, segment| tree.child(at, segment))
        };
        match glob.segments() {
            [start @ .., Segment::Any, Segment::AnyDepth] => {
                let at = path(self, start);
                self.nodes[at].below.push(id);
            }
            [start @ .., last @ Segment::Pattern(_)] => {
                let at = path(self, start);
                self.nodes[at].last_wild.push((last.clone(), id));
            }
            segments => {
                let at = path(self, segments);
                self.nodes[at].ends.push(id);
            }
        }
    }

    fn child(&mut self, at: usize, segment: &Segment) -> usize {
        let next = self.nodes.len();
        let node = &mut self.nodes[at];
        let child = match segment {
            Segment::Literal(name) => *node.literal.entry(name.clone()).or_insert(next),
            Segment::Extension(name) => *node.extension.entry(name.clone()).or_insert(next),
            Segment::AnyDepth => *node.any_depth.get_or_insert(next),
            Segment::Any | Segment::Pattern(_) => *node.wild.entry(segment.clone()).or_insert(next),
        };
        if child == next {
            let loops = *segment == Segment::AnyDepth;
            self.nodes.push(TreeNode { loops, ..TreeNode::default() });
        }
        child
    }

    /// Follows all patterns at once, so that the time is bounded by the size of the tree for each
    /// component, whatever the patterns look like.
    fn find(&self, mut path: Components<'_>, found: &mut Vec<RuleId>) {
        if self.is_empty() {
            return;
        }
        // Reached nodes, those of the last component at the end: one allocation for the walk.
        let mut reached = Vec::with_capacity(16);
        self.enter(0, &mut reached);
        let mut active = 0..reached.len();
        while let Some(component) = path.next() {
            for position in active.clone() {
                let at = reached[position];
                found.extend(&self.nodes[at].below);
                self.step(at, component, &mut reached);
                if path.is_empty() {
                    let ends = self.nodes[at].last_wild.iter();
                    found.extend(ends.filter(|(s, _)| s.matches(component)).map(|(_, id)| *id));
                }
            }
            active = active.end..reached.len();
            if active.len() > 1 {
                reached[active.clone()].sort_unstable();
                dedup_from(&mut reached, active.start);
                active.end = reached.len();
            }
            if active.is_empty() {
                return;
            }
        }
        for at in &reached[active] {
            found.extend(&self.nodes[*at].ends);
        }
    }

    fn is_empty(&self) -> bool {
        // A pattern always leads away from the root, or is one of these two.
        let root = &self.nodes[0];
        self.nodes.len() == 1 && root.last_wild.is_empty() && root.below.is_empty()
    }

    /// Adds the nodes that are reached from `at` over one component.
    fn step(&self, at: usize, component: &str, next: &mut Vec<usize>) {
        let node = &self.nodes[at];
        if node.loops {
            next.push(at);
        }
        if !node.literal.is_empty()
            && let Some(&child) = node.literal.get(component)
        {
            self.enter(child, next);
        }
        if !node.extension.is_empty()
            && let Some(&child) = extension_of(component).and_then(|e| node.extension.get(e))
        {
            self.enter(child, next);
        }
        for (segment, child) in &node.wild {
            if segment.matches(component) {
                self.enter(*child, next);
            }
        }
    }

    /// A node, and what is reached from it over zero components.
    fn enter(&self, at: usize, active: &mut Vec<usize>) {
        active.push(at);
        let mut at = at;
        while let Some(next) = self.nodes[at].any_depth {
            active.push(next);
            at = next;
        }
    }
}

/// Removes repetitions from the sorted part behind `start`.
fn dedup_from(list: &mut Vec<usize>, start: usize) {
    let mut kept = start;
    for at in start..list.len() {
        if kept == start || list[kept - 1] != list[at] {
            list[kept] = list[at];
            kept += 1;
        }
    }
    list.truncate(kept);
}
