//! The difference of two views: children are matched by key, the fewest of them move.

use std::collections::HashMap;

use super::view::Shown;
use super::{Content, Item, NodeId, Patch, View, What, first_patches, item_patches, text_patch};

/// Patches that make `from` look like `to`. Nodes that correspond keep the names they have in `from`,
/// and so what a browser knows about them: focus, selection, what was typed, what is open.
///
/// Children correspond by their key (`key`, else `id`) and tag; those without one by order among
/// their like. Names of new nodes begin behind the largest name in use.
///
/// ```
/// use glasshouse_plan::patch::{View, diff};
/// let (mut from, to) = (View::default(), View::default());
/// from.apply(&diff(&from, &to))?;
/// assert_eq!(from.markup(), to.markup());
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[must_use]
pub fn diff(from: &View, to: &View) -> Vec<Patch> {
    let mut work = Work { from, to, next: from.next_id(), patches: Vec::new() };
    match (from.root(), to.root()) {
        (Some(old), Some(new)) if work.alike(old, new) => work.run(old, new),
        (old, new) => {
            work.patches.extend(old.map(|id| Patch::Del { id }));
            if let Some(new) = new {
                work.insert(new, None, None);
            }
        }
    }
    work.patches
}

struct Work<'v> {
    from: &'v View,
    to: &'v View,
    next: NodeId,
    patches: Vec<Patch>,
}

/// What makes children correspond.
#[derive(PartialEq, Eq, Hash)]
enum Mark<'v> {
    Keyed(&'v str, &'v str),
    /// The how-manieth of its like.
    Nth(&'v str, usize),
}

impl<'v> Work<'v> {
    fn alike(&self, old: NodeId, new: NodeId) -> bool {
        match (self.from.shown(old), self.to.shown(new)) {
            (Some(old), Some(new)) => like(old) == like(new) && key(old) == key(new),
            _ => false,
        }
    }

    fn run(&mut self, old: NodeId, new: NodeId) {
        let mut pairs = vec![(old, new)];
        while let Some((old, new)) = pairs.pop() {
            let (Some(before), Some(after)) = (self.from.shown(old), self.to.shown(new)) else {
                continue;
            };
            if let (Content::Text(before), Content::Text(after)) = (&before.content, &after.content)
            {
                self.patches.extend(text_patch(old, before, after));
            }
            item_patches(old, &before.items, &after.items, &mut self.patches);
            self.children(old, before, after, &mut pairs);
        }
    }

    fn children(
        &mut self,
        parent: NodeId,
        before: &'v Shown,
        after: &'v Shown,
        pairs: &mut Vec<(NodeId, NodeId)>,
    ) {
        let mut old_at: HashMap<Mark<'v>, usize> =
            marks(self.from, before).into_iter().zip(0..).collect();
        // For each new child, the old one that it is.
        let matched: Vec<Option<usize>> =
            marks(self.to, after).iter().map(|mark| old_at.remove(mark)).collect();
        let mut gone: Vec<usize> = old_at.into_values().collect();
        gone.sort_unstable();
        self.patches.extend(gone.iter().map(|at| Patch::Del { id: before.children[*at] }));

        let kept: Vec<usize> = matched.iter().copied().flatten().collect();
        let mut stays = longest_increasing(&kept).into_iter().rev();
        // From the last to the first: what comes behind is in its place already.
        let mut behind = None;
        for (new, old) in after.children.iter().zip(&matched).rev() {
            let id = match old {
                None => self.insert(*new, Some(parent), behind),
                Some(old) => {
                    let id = before.children[*old];
                    if !stays.next().unwrap_or(false) {
                        self.patches.push(Patch::Mov { id, before: behind });
                    }
                    pairs.push((id, *new));
                    id
                }
            };
            behind = Some(id);
        }
    }

    /// Inserts a node of `to` with everything below it, and answers its name.
    fn insert(&mut self, new: NodeId, parent: Option<NodeId>, before: Option<NodeId>) -> NodeId {
        let name = self.next;
        let mut open = vec![(new, parent, before)];
        while let Some((new, parent, before)) = open.pop() {
            let Some(shown) = self.to.shown(new) else { continue };
            let id = self.next;
            self.next = self.next.saturating_add(1);
            self.patches.push(Patch::Ins { id, parent, before, node: shown.content.clone() });
            first_patches(id, shown.items.clone(), &mut self.patches);
            open.extend(shown.children.iter().rev().map(|child| (*child, Some(id), None)));
        }
        name
    }
}

fn like(node: &Shown) -> &str {
    match &node.content {
        Content::Tag(tag) => tag,
        Content::Text(_) => "",
    }
}

fn key(node: &Shown) -> Option<&str> {
    let named = |wanted: &str| {
        node.items.iter().find_map(|Item { what, .. }| match what {
            What::Attribute { name, value } if name == wanted => value.as_deref(),
            _ => None,
        })
    };
    named("data-glasshouse-key").or_else(|| named("id"))
}

fn marks<'v>(view: &'v View, parent: &'v Shown) -> Vec<Mark<'v>> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    let mut keys: HashMap<(&str, &str), ()> = HashMap::new();
    let children = parent.children.iter().filter_map(|child| view.shown(*child));
    children
        .map(|child| {
            let tag = like(child);
            // The second child with the same key is taken as one without.
            match key(child).filter(|key| keys.insert((tag, key), ()).is_none()) {
                Some(key) => Mark::Keyed(tag, key),
                None => {
                    let nth = count.entry(tag).or_default();
                    *nth += 1;
                    Mark::Nth(tag, *nth)
                }
            }
        })
        .collect()
}

/// Which members of a list belong to one of its longest increasing parts.
fn longest_increasing(list: &[usize]) -> Vec<bool> {
    // For each length, where a part of this length ends with the smallest member.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(list.len());
    for (at, member) in list.iter().enumerate() {
        let length = ends.partition_point(|end| list[*end] < *member);
        previous.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let mut belongs = vec![false; list.len()];
    let mut at = ends.last().copied();
    while let Some(member) = at {
        belongs[member] = true;
        at = previous[member];
    }
    belongs
}

#[cfg(test)]
mod tests {
    use super::longest_increasing;

    #[test]
    fn longest_increasing_parts() {
        for (list, want) in [
            (vec![], 0),
            (vec![3], 1),
            (vec![0, 1, 2], 3),
            (vec![2, 1, 0], 1),
            (vec![3, 0, 1, 2], 3),
            (vec![1, 2, 3, 0], 3),
            (vec![4, 0, 5, 1, 6, 2], 3),
        ] {
            let belongs = longest_increasing(&list);
            let kept: Vec<_> = list.iter().zip(&belongs).filter(|(_, kept)| **kept).collect();
            assert_eq!(kept.len(), want, "{list:?}");
            assert!(kept.is_sorted(), "{list:?}");
        }
    }
}
