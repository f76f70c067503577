//! What a branch's files cost: forks of clean and dirty workspaces of 10,000 files, and the difference
//! that a seal finds. One row a promise.
//!
//! `cargo bench -p glasshouse-sandbox --bench workspace [-- SAMPLES]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod measure;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_model::Digest;
use glasshouse_sandbox::workspace::{BlobStore, FrozenBase, Marks, Owner, Workspace, freeze};
use glasshouse_sandbox::{Error, codes};

use self::measure::{Bound, interleaved, micros, report, row, samples};

const FILES: usize = 10_000;
const CHANGED: usize = 30;
const FILE_BYTES: usize = 20_000;

/// Forks and diffs unless told otherwise.
const SAMPLES: usize = 200;

fn main() {
    let samples = samples(SAMPLES);
    let place = tempfile::tempdir().unwrap();
    let base = base(place.path());
    let blobs = Blobs::default();
    println!("{FILES} files of {FILE_BYTES} bytes, {CHANGED} of them changed, {samples} samples");

    let mut number = 0;
    let mut next = || {
        number += 1;
        place.path().join(format!("branch{number}"))
    };
    let clean = |at: PathBuf| Workspace::create(Arc::clone(&base), &at, Marks::Trusted).unwrap();
    let took = times(samples, || drop(clean(next())));
    within("fork of a clean workspace", &took, 1_000.0);

    let dirty = clean(next());
    let upper = dirty.overlay_dirs().upper;
    change(&upper);
    let seal = dirty.seal(&blobs, &dirty.unchanged()).unwrap();
    assert_eq!(seal.changed.len(), CHANGED);
    let took = times(samples, || clean(next()).rollback(&seal.manifest, &blobs).unwrap());
    within("fork of a dirty workspace", &took, 3_000.0);

    let read_all = || {
        for number in 0..CHANGED {
            blobs.put(&fs::read(upper.join(name(number))).unwrap()).unwrap();
        }
    };
    let diff =
        || assert_eq!(dirty.seal(&blobs, &dirty.unchanged()).unwrap().changed.len(), CHANGED);
    let (read, sealed) = interleaved(samples, read_all, diff);
    report(
        "diff beside reading and storing the changed files",
        &read,
        &sealed,
        Bound::Added(1_000.0),
    );
}

fn times(samples: usize, mut act: impl FnMut()) -> Vec<Duration> {
    let mut time = || {
        let started = Instant::now();
        act();
        started.elapsed()
    };
    (0..samples).map(|_| time()).collect()
}

fn within(what: &str, took: &[Duration], bound_us: f64) {
    let [median, late, least] = [0.5, 0.99, 0.0].map(|part| micros(took, part));
    let text = format!(
        "{what}: {median:.0} us, p99 {late:.0}, least {least:.0}; of {bound_us:.0} us allowed"
    );
    row(&text, median / bound_us, 1.0);
}

fn name(number: usize) -> String {
    format!("d{}/f{number}", number % 100)
}

/// Lines that differ, one of them by `word`.
fn content(number: usize, word: &str) -> String {
    const LINE_BYTES: usize = 20;
    let lines = FILE_BYTES / LINE_BYTES;
    let text = |line| if line == lines / 2 { word } else { "line" };
    (0..lines).map(|line| format!("{} {line:06} {number:06}\n", text(line))).collect()
}

fn base(place: &Path) -> Arc<FrozenBase> {
    let project = place.join("project");
    for number in 0..FILES {
        let at = project.join(name(number));
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, content(number, "line")).unwrap();
    }
    let owner = Owner {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    Arc::new(freeze(&project, &place.join("cache"), owner).unwrap())
}

fn change(upper: &Path) {
    for number in 0..CHANGED {
        let at = upper.join(name(number));
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, content(number, "edit")).unwrap();
    }
}

/// Blobs in memory: what a disk takes is the log's to measure.
#[derive(Default)]
struct Blobs(RefCell<HashMap<Digest, Vec<u8>>>);

impl BlobStore for Blobs {
    fn put(&self, bytes: &[u8]) -> Result<Digest, Error> {
        let digest = Digest::of(bytes);
        self.0.borrow_mut().insert(digest, bytes.to_vec());
        Ok(digest)
    }

    fn get(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        let found = self.0.borrow().get(digest).cloned();
        found.ok_or_else(|| Error::new(codes::WORKSPACE_DAMAGED, format!("no blob {digest}")))
    }
}
