//! Taint: what the words of a branch, and its files, derive from.
//!
//! Every event carries labels. What the model is told joins its context, and everything the model does
//! derives from all of that; a file has the labels of whatever wrote it, and whoever reads it takes them
//! on. Each label remembers the event that brought it first, so that a decision by taint can be explained.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::body::WorkspaceSealed;
use glasshouse_model::{Event, Kind, Seq};
use glasshouse_tools::Arguments;
use serde::{Deserialize, Serialize};

/// Label of the user's own words.
pub const USER: &str = "user";
/// Label of what is in the repository.
pub const REPO: &str = "repo";
/// Label of whatever came from the network.
pub const WEB: &str = "web";

/// Labels, each with the event that brought it first.
pub type Origins = BTreeMap<String, Seq>;

/// What a branch derives from, folded from its events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// Of everything the model was told.
    context: Origins,
    /// Of files that are not just the repository's.
    paths: BTreeMap<String, Origins>,
    /// Of files that no event named, because too many changed at once.
    anywhere: Origins,
}

impl Taint {
    /// Folds one event.
    pub(super) fn apply(&mut self, event: &Event) -> Result<(), serde_json::Error> {
        let (labels, seq) = (&event.header.labels, event.seq());
        match event.kind() {
            Kind::MessageReceived => add(&mut self.context, labels, seq),
            kind if kind.ends_call() => add(&mut self.context, labels, seq),
            // What another branch was told, and what it wrote, is part of this one now.
            Kind::BranchMerged => {
                add(&mut self.context, labels, seq);
                add(&mut self.anywhere, &foreign(labels), seq);
            }
            Kind::WorkspaceSealed => {
                let sealed = event.body_as::<WorkspaceSealed>()?;
                let foreign = foreign(labels);
                if foreign.is_empty() {
                    return Ok(());
                }
                for changed in &sealed.changed {
                    add(self.paths.entry(changed.path.clone()).or_default(), &foreign, seq);
                }
                if sealed.changed_total > sealed.changed.len() as u64 {
                    add(&mut self.anywhere, &foreign, seq);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Labels of everything the model was told.
    #[must_use]
    pub fn context(&self) -> BTreeSet<String> {
        self.context.keys().cloned().collect()
    }

    /// Labels of a file, besides the repository's own.
    #[must_use]
    pub fn of_path(&self, path: &str) -> BTreeSet<String> {
        let own = self.paths.get(path).into_iter().flat_map(Origins::keys);
        own.chain(self.anywhere.keys()).cloned().collect()
    }

    /// Labels of all files together: what a command could read.
    #[must_use]
    pub fn workspace(&self) -> BTreeSet<String> {
        let all = self.paths.values().flat_map(Origins::keys);
        all.chain(self.anywhere.keys()).cloned().collect()
    }

    /// The event that first brought a label into the context or a file.
    #[must_use]
    pub fn origin(&self, label: &str) -> Option<Seq> {
        let files = self.paths.values().filter_map(|origins| origins.get(label));
        let all = self.context.get(label).into_iter().chain(self.anywhere.get(label)).chain(files);
        all.min().copied()
    }

    /// Labels of what comes of a call: the union of what it is made of and what it can read.
    #[must_use]
    pub fn result(&self, arguments: &Arguments, path: Option<&str>) -> BTreeSet<String> {
        let mut labels = match arguments {
            Arguments::FsRead { .. } | Arguments::FsExists { .. } => {
                path.map_or_else(|| self.workspace(), |path| self.of_path(path))
            }
            Arguments::FsList { .. }
            | Arguments::SearchGrep { .. }
            | Arguments::SearchGlob { .. }
            | Arguments::GitDiff {} => self.workspace(),
            Arguments::FsEdit { .. } => {
                let file = path.map_or_else(|| self.workspace(), |path| self.of_path(path));
                file.into_iter().chain(self.context()).collect()
            }
            Arguments::ShellRun { .. } | Arguments::TestRun { .. } => {
                self.workspace().into_iter().chain(self.context()).collect()
            }
            Arguments::FsWrite { .. }
            | Arguments::GitCommit { .. }
            | Arguments::PlanComplete { .. }
            | Arguments::RequestExemption { .. }
            | Arguments::ToolsLoad { .. }
            | Arguments::UiRender { .. }
            | Arguments::WebFetch { .. } => self.context(),
        };
        let own = if matches!(arguments, Arguments::WebFetch { .. }) { WEB } else { REPO };
        labels.insert(own.to_owned());
        labels
    }
}

/// Labels of more than the user's words and the repository's files.
fn foreign(labels: &BTreeSet<String>) -> BTreeSet<String> {
    labels.iter().filter(|label| !matches!(label.as_str(), USER | REPO)).cloned().collect()
}

fn add(origins: &mut Origins, labels: &BTreeSet<String>, seq: Seq) {
    for label in labels {
        origins.entry(label.clone()).or_insert(seq);
    }
}
