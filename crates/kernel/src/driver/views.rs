//! Documents of a branch: served, and laid out as files.

use std::collections::BTreeMap;

use glasshouse_model::BranchId;
use glasshouse_sandbox::workspace::Entry;
use serde_json::Value;

use super::Kernel;
use crate::Result;
use crate::session::{Observation, Views};

/// Files of one observation whose digests are told.
const MAX_FILES: usize = 200;

/// Names of the documents that are JSON, besides observations.
pub const DOCUMENTS: [&str; 8] =
    ["manifest", "plan", "heartbeat", "checkpoints", "tools", "soul", "inbox", "outbox"];

impl Kernel {
    /// What a branch looks like from outside, as of its newest event.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn views(&self, branch: &BranchId) -> Result<Views> {
        let mut views = Views::default();
        for event in self.log.events(branch) {
            views.apply(&event?);
        }
        Ok(views)
    }

    /// The observations of a branch with the digests of the files that they are about, as those were then.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn observations(&self, branch: &BranchId, views: &Views) -> Result<Vec<Value>> {
        let told = |one: &Observation| {
            let digests = self.digests(branch, one);
            let files: Vec<(String, Option<String>)> = one
                .paths
                .iter()
                .take(MAX_FILES)
                .map(|path| (path.clone(), digests.get(path).cloned()))
                .collect();
            one.to_json(&files)
        };
        Ok(views.observations().iter().map(told).collect())
    }

    /// Digests by path. Where a base is gone, or nothing was frozen, there are none.
    fn digests(&self, branch: &BranchId, one: &Observation) -> BTreeMap<String, String> {
        if one.paths.is_empty() {
            return BTreeMap::new();
        }
        let Ok(past) = self.past_files(branch, Some(one.seq)) else { return BTreeMap::new() };
        let digest = |entry: &Entry| entry.file_digest().map(ToString::to_string);
        past.entries()
            .filter(|(path, _)| one.paths.iter().any(|known| known == path.as_str()))
            .filter_map(|(path, entry)| Some((path.as_str().to_owned(), digest(entry)?)))
            .collect()
    }

    /// The documents of a branch as files: relative paths and contents.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn layout(&self, branch: &BranchId) -> Result<Vec<(String, Vec<u8>)>> {
        let views = self.views(branch)?;
        let mut files = vec![("state/thread.md".to_owned(), views.thread().as_bytes().to_vec())];
        let mut put = |path: String, value: &Value| {
            if !value.is_null() {
                let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
                files.push((path, text.into_bytes()));
            }
        };
        for (name, path) in [
            ("manifest", "manifest.json"),
            ("plan", "state/plan.json"),
            ("heartbeat", "state/heartbeat.json"),
            ("soul", "memory/soul.json"),
            ("outbox", "outbox/ui.json"),
        ] {
            put(path.to_owned(), &views.document(name).unwrap_or_default());
        }
        let each = |name: &str| match views.document(name) {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        for one in each("checkpoints") {
            put(format!("checkpoints/{}/manifest.json", number(&one["checkpoint"])), &one);
        }
        for one in each("tools") {
            let call = one["call"].as_str().unwrap_or_default();
            put(format!("tools/runs/{call}/report.json"), &one);
        }
        for one in each("inbox") {
            put(format!("inbox/human_requests/{}.json", number(&one["approval"])), &one);
        }
        let observations = self.observations(branch, &views)?;
        let lines: String = observations.iter().map(|one| format!("{one}\n")).collect();
        files.push(("memory/observations.jsonl".to_owned(), lines.into_bytes()));
        Ok(files)
    }
}
