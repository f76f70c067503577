//! The order in which nodes are finished: children before parents. Bindings are numbered and
//! components are counted in it, so that numbers do not depend on what is around a part.

use crate::plan::Plan;
use crate::rules::event;
use crate::tree::NodeKind;

/// For each node, how many things belong to nodes that are finished before it.
pub(super) struct Finished(Vec<u32>);

impl Finished {
    /// Counts the event bindings; `None` when the plan has none.
    pub(super) fn bindings(plan: &Plan) -> Option<Self> {
        let document = plan.document();
        let mut any = 0;
        let own: Vec<u32> = plan
            .tree()
            .entries
            .iter()
            .map(|entry| {
                let props = entry.props_in(document).into_iter().flatten();
                let bound = |(name, value): &(&str, _)| {
                    entry.kind == NodeKind::Element && event::binding_of(name, *value).is_some()
                };
                let count = u32::try_from(props.filter(bound).count()).unwrap_or(u32::MAX);
                any += count;
                count
            })
            .collect();
        (any > 0).then(|| Self::of(plan, &own))
    }

    /// Counts the components; `None` when the plan has none.
    pub(super) fn components(plan: &Plan) -> Option<Self> {
        let entries = &plan.tree().entries;
        let own: Vec<u32> =
            entries.iter().map(|entry| u32::from(entry.kind == NodeKind::Component)).collect();
        own.contains(&1).then(|| Self::of(plan, &own))
    }

    /// Everything up to the end of a node's descendants is finished before it, save itself and
    /// what is around it.
    fn of(plan: &Plan, own: &[u32]) -> Self {
        let entries = &plan.tree().entries;
        let mut up_to = Vec::with_capacity(own.len() + 1);
        up_to.push(0);
        for (index, count) in own.iter().enumerate() {
            up_to.push(up_to[index] + count);
        }
        let mut around = vec![0; own.len()];
        let mut finished = Vec::with_capacity(own.len());
        for (index, entry) in entries.iter().enumerate() {
            let parent = entry.parent as usize;
            if index > 0 {
                around[index] = around[parent] + own[parent];
            }
            finished.push(up_to[entry.end as usize] - own[index] - around[index]);
        }
        Self(finished)
    }

    pub(super) fn before(&self, index: u32) -> u32 {
        self.0[index as usize]
    }
}
