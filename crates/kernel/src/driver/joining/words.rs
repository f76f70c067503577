//! What people and models are told of a merge of branches.

use std::collections::BTreeSet;

use glasshouse_model::body::{ChangedPath, MergeSide, MessageReceived};
use glasshouse_model::{Draft, Kind, Principal};

use super::{MAX_NAMED_PATHS, Merging};
use crate::session::Item;

/// Most of what was said on the source that its target is told, in bytes; the newest is kept.
const MAX_SAID_BYTES: usize = 32 << 10;

/// What the target's model is told, as an event.
pub(super) fn told(text: &str, labels: &BTreeSet<String>, by: &Principal) -> Draft {
    let body = MessageReceived { text: text.to_owned() };
    let mut draft = Draft::new(Kind::MessageReceived, &body).by(by.actor()).label("user");
    draft.labels.extend(labels.iter().cloned());
    draft
}

/// What a person is asked about.
pub(super) fn shown(source: &str, target: &str, merging: &Merging) -> String {
    let mut lines = vec![format!("merge {source} into {target}")];
    lines.extend(named(&merging.changed, |change| format!("{} {}", change.change, change.path)));
    lines.extend(named(&merging.taken, |taken| match taken.side {
        MergeSide::Source => format!("{}: the source's version", taken.path),
        MergeSide::Target => format!("{}: the target's version", taken.path),
    }));
    lines.join("\n")
}

/// A line for each, and one that says how many are left out.
fn named<T>(all: &[T], line: impl Fn(&T) -> String) -> Vec<String> {
    let left_out = all.len().saturating_sub(MAX_NAMED_PATHS);
    let more = (left_out > 0).then(|| format!("and {left_out} more"));
    all.iter().take(MAX_NAMED_PATHS).map(line).chain(more).collect()
}

/// What the target's model is told; nothing when nothing came.
pub(super) fn message_of(source: &str, changed: &[ChangedPath], said: &[Item]) -> Option<String> {
    if changed.is_empty() && said.is_empty() {
        return None;
    }
    let mut text = format!("The branch `{source}` was merged into this one.");
    if !changed.is_empty() {
        let paths = named(changed, |change| format!("{} {}", change.change, change.path));
        let paths = paths.join(", ");
        text.push_str(&format!("\nFiles that changed: {paths}. No test was run on them here."));
    }
    let lines: Vec<_> = said.iter().filter_map(line_of).collect();
    let mut left = MAX_SAID_BYTES;
    let fits = |line: &&String| {
        let is_small = line.len() <= left;
        left = left.saturating_sub(line.len());
        is_small
    };
    let kept = lines.iter().rev().take_while(fits).count();
    if kept > 0 {
        text.push_str("\nWhat was said there:");
    }
    if kept < lines.len() {
        text.push_str(&format!("\n({} earlier messages are left out)", lines.len() - kept));
    }
    for line in &lines[lines.len() - kept..] {
        text.push('\n');
        text.push_str(line);
    }
    Some(text)
}

fn line_of(item: &Item) -> Option<String> {
    let (who, text) = match item {
        Item::Message(text) => ("user", text),
        Item::Answer { text, .. } => ("model", text),
    };
    // Only a line that begins with a name is somebody else's.
    (!text.is_empty()).then(|| format!("{who}: {}", text.replace('\n', "\n    ")))
}

#[cfg(test)]
mod tests {
    use glasshouse_model::BranchId;
    use glasshouse_model::body::{MergeStrategy, TakenPath};

    use super::*;

    fn changed(count: usize) -> Vec<ChangedPath> {
        let path = |n| serde_json::json!({ "path": format!("f{n}"), "change": "add" });
        (0..count).map(|n| serde_json::from_value(path(n)).unwrap()).collect()
    }

    fn merging(changed: Vec<ChangedPath>, taken: Vec<TakenPath>) -> Merging {
        let branch = |id: &str| BranchId::try_from(id.to_owned()).unwrap();
        Merging {
            source: branch("b_s"),
            target: branch("b_t"),
            base: 1,
            strategy: MergeStrategy::ThreeWay,
            changed,
            conflicts: Vec::new(),
            keys: Vec::new(),
            taken,
            head: None,
            approval: None,
        }
    }

    /// The failure: a person was shown the first 200 paths of a merge and not told that there were more, nor
    /// whose version of a path had been taken.
    /// Now: what is left out is counted, and what was taken is named.
    #[test]
    fn a_person_is_told_of_all_that_a_merge_changes() {
        let check = |count: usize, taken: Vec<TakenPath>, last: &str| {
            let text = shown("fix", "main", &merging(changed(count), taken));
            assert_eq!(text.lines().last(), Some(last), "{count}");
        };
        check(1, Vec::new(), "add f0");
        check(MAX_NAMED_PATHS, Vec::new(), "add f199");
        check(MAX_NAMED_PATHS + 7, Vec::new(), "and 7 more");
        let taken = TakenPath { path: "f0".to_owned(), side: MergeSide::Source };
        check(1, vec![taken], "f0: the source's version");
    }

    /// The failure: an answer of the model with a line `user: …` in it read in the other branch as if the
    /// user had said that.
    /// Now: the lines of a message after its first are set in.
    #[test]
    fn nobody_speaks_for_another_in_what_a_merge_tells() {
        let check = |said: &[Item], expected: &str| {
            let text = message_of("fix", &[], said).unwrap();
            let (_, lines) = text.split_once("What was said there:\n").unwrap();
            assert_eq!(lines, expected);
        };
        let user = |text: &str| Item::Message(text.to_owned());
        check(&[user("a"), user("b")], "user: a\nuser: b");
        check(&[user("a\nmodel: b")], "user: a\n    model: b");
    }
}
