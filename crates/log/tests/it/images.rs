//! Crash images: what a loss of power may leave of a log that does everything a log does, at each
//! sync, in many ways. Each image opens, proves itself and holds all that was acknowledged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use glasshouse_log::{Append, CellWrite, Erase, Log};
use glasshouse_model::{Actor, Digest, Draft, Kind, Seq, TenantId};
use serde_json::json;

use crate::disk::{Disk, Files, Random};
use crate::support::{branch, fork, merge, root, session, verdict};

/// What callers were told is stored.
#[derive(Debug, Clone, Default)]
struct Acknowledged {
    /// By branch: sequence and hash of the head.
    heads: BTreeMap<String, (Seq, Digest)>,
    cells: BTreeMap<String, u64>,
    erased: Vec<Seq>,
    blobs: Vec<Digest>,
}

struct Moment {
    files: Files,
    others: BTreeMap<PathBuf, Vec<u8>>,
    acknowledged: Acknowledged,
}

/// A run of a log on a disk, with what was on the disk at each sync.
struct Run {
    home: tempfile::TempDir,
    moments: Vec<Moment>,
}

fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        return tempfile::tempdir_in(memory).unwrap();
    }
    tempfile::tempdir().unwrap()
}

impl Run {
    fn new(seed: u64, operations: u64, lies: bool) -> Self {
        let (disk, home) = (Disk::new(), directory());
        disk.set_lying(lies);
        let acknowledged = Arc::new(Mutex::new(Acknowledged::default()));
        let moments = Arc::new(Mutex::new(Vec::new()));
        disk.observe_syncs({
            let (home, moments) = (home.path().to_owned(), Arc::clone(&moments));
            let acknowledged = Arc::clone(&acknowledged);
            move |files| {
                moments.lock().unwrap().push(Moment {
                    files: files.clone(),
                    others: small_files(&home),
                    acknowledged: acknowledged.lock().unwrap().clone(),
                });
            }
        });
        let open = || Log::open_with(home.path(), &TenantId::local(), disk.options()).unwrap();
        let mut log = open();
        log.create_branch(root("s_1", "b_0")).unwrap();
        let mut random = Random(seed);
        let mut work = Work { branches: 1, ended: Vec::new() };
        for n in 0..operations {
            if random.below(12) == 0 {
                drop(log);
                log = open();
            }
            work.step(&log, &mut random, n, &acknowledged);
        }
        drop(log);
        let moments = std::mem::take(&mut *moments.lock().unwrap());
        Self { home, moments }
    }
}

struct Work {
    branches: u64,
    ended: Vec<u64>,
}

impl Work {
    fn step(&mut self, log: &Log, random: &mut Random, n: u64, acknowledged: &Mutex<Acknowledged>) {
        let number = random.below(self.branches);
        let id = format!("b_{number}");
        let told = |appended: &glasshouse_log::Appended| {
            let head = (appended.head.seq, appended.head.hash);
            acknowledged.lock().unwrap().heads.insert(id.clone(), head);
        };
        let head = log.head(&branch(&id)).unwrap();
        match random.below(10) {
            0 if head.seq > 0 && self.branches < 9 => {
                let child = format!("b_{}", self.branches);
                log.create_branch(fork(&child, &id, 1 + random.below(head.seq))).unwrap();
                self.branches += 1;
                let made = log.head(&branch(&child)).unwrap();
                acknowledged.lock().unwrap().heads.insert(child, (made.seq, made.hash));
            }
            1 if number > 0 && !self.ended.contains(&number) && !self.ended.contains(&0) => {
                // A branch that has nothing of its own yet is not merged.
                if let Ok(merged) =
                    log.merge(merge(&id, head, "b_0", log.head(&branch("b_0")).unwrap().seq))
                {
                    self.ended.push(number);
                    let head = (merged.head.seq, merged.head.hash);
                    acknowledged.lock().unwrap().heads.insert("b_0".into(), head);
                }
            }
            2 if head.seq > 2 && number == 0 => {
                let seq = 1 + random.below(head.seq);
                let erase = Erase {
                    session: session("s_1"),
                    branch: branch("b_0"),
                    events: vec![(branch("b_0"), seq)],
                    blobs: Vec::new(),
                    reason: "asked for".into(),
                    actor: Actor::kernel(),
                    epoch: None,
                };
                if let Ok(erased) = log.erase(erase) {
                    told(&erased);
                    acknowledged.lock().unwrap().erased.push(seq);
                }
            }
            3 => drop(log.sign_head().unwrap()),
            4 if !self.ended.contains(&number) => {
                let digest = log.put_blob(&n.to_be_bytes().repeat(50)).unwrap();
                let body = json!({"n": n, "blob": digest});
                let named = vec![Draft::new(Kind::ToolCompleted, &body)];
                told(&log.append(Append::new(session("s_1"), branch(&id), named)).unwrap());
                acknowledged.lock().unwrap().blobs.push(digest);
            }
            _ if !self.ended.contains(&number) => {
                let events = (0..=random.below(4)).map(|m| {
                    let pad = "x".repeat(usize::try_from(random.below(6_000)).unwrap());
                    Draft::new(Kind::Heartbeat, &json!({"n": n, "m": m, "pad": pad}))
                });
                let mut append = Append::new(session("s_1"), branch(&id), events.collect());
                let key = format!("c{}", n % 3);
                append.cells = vec![CellWrite {
                    space: "count".into(),
                    key: key.clone(),
                    expected_version: None,
                    bytes: Some(n.to_be_bytes().to_vec()),
                }];
                told(&log.append(append).unwrap());
                *acknowledged.lock().unwrap().cells.entry(key).or_default() += 1;
            }
            _ => {}
        }
    }
}

/// Keys, heads and blobs: files that are replaced whole, and synced before their names are.
fn small_files(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![home.join("keys"), home.join("heads"), home.join("blobs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                files.insert(path.strip_prefix(home).unwrap().to_owned(), bytes);
            }
        }
    }
    files
}

/// Writes those files as a loss of power leaves them: one that was on its way lies half written beside
/// its place, and the newest head may be an older one, whose successor's name was not yet durable.
fn write_small_files(left: &Path, run: &Run, at: usize, random: &mut Random) {
    let earlier = at - usize::try_from(random.below(3)).unwrap().min(at);
    let (now, before) = (&run.moments[at].others, &run.moments[earlier].others);
    let has_heads = before.keys().any(|path| path.ends_with("latest.note"));
    for (path, bytes) in now {
        let is_head = has_heads && path.starts_with("heads");
        let Some(bytes) = (if is_head { before.get(path) } else { Some(bytes) }) else { continue };
        let place = left.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, bytes).unwrap();
        if random.below(4) == 0 {
            fs::write(place.with_extension("1-0.tmp"), &bytes[..bytes.len() / 2]).unwrap();
        }
    }
    // What processes share in memory is a file too, and after a crash it may hold anything.
    if random.below(2) == 0 {
        let noise: Vec<u8> = (0..4_096).flat_map(|_| random.next().to_be_bytes()).collect();
        fs::write(left.join("log.db-shm"), noise).unwrap();
    }
}

/// Makes one image of a moment and says what is wrong with it.
fn check(run: &Run, at: usize, random: &mut Random) -> Result<(), String> {
    let (left, moment) = (directory(), &run.moments[at]);
    write_small_files(left.path(), run, at, random);
    for (path, content) in &moment.files {
        let name = path.strip_prefix(run.home.path()).unwrap();
        fs::write(left.path().join(name), content.scattered(random)).unwrap();
    }
    let log = Log::open(left.path(), &TenantId::local()).map_err(|error| error.to_string())?;
    for (id, (seq, hash)) in &moment.acknowledged.heads {
        let records = log.records(&branch(id), *seq, 1).map_err(|error| error.to_string())?;
        if records.first().map(|record| record.hash) != Some(*hash) {
            return Err(format!("event {seq} of {id} was acknowledged and is not there"));
        }
    }
    for (key, version) in &moment.acknowledged.cells {
        let cell = log.cell("count", key).map_err(|error| error.to_string())?;
        if cell.is_none_or(|cell| cell.version < *version) {
            return Err(format!("version {version} of cell {key} was acknowledged"));
        }
    }
    for seq in &moment.acknowledged.erased {
        let records = log.records(&branch("b_0"), *seq, 1).map_err(|error| error.to_string())?;
        if records.first().is_none_or(|record| record.erased_by().is_none()) {
            return Err(format!("event {seq} was erased and has its body again"));
        }
    }
    for digest in &moment.acknowledged.blobs {
        log.blob(digest).map_err(|error| error.to_string())?;
    }
    match log.verify() {
        Ok(found) if found.is_ok() => Ok(()),
        Ok(found) => Err(verdict(&found)),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks so many images, spread over the syncs of several runs.
fn images(seeds: std::ops::Range<u64>, each_moment: u64) -> u64 {
    let mut checked = 0;
    for seed in seeds {
        let run = Run::new(seed, 40, false);
        assert!(run.moments.len() > 30, "{} syncs", run.moments.len());
        for n in 0..run.moments.len() {
            for way in 0..each_moment {
                let mut random = Random(seed << 32 | u64::try_from(n).unwrap() << 16 | way);
                if let Err(why) = check(&run, n, &mut random) {
                    panic!("seed {seed}, sync {n}, way {way}: {why}");
                }
                checked += 1;
            }
        }
    }
    checked
}

#[test]
fn a7_images_of_a_lost_power_keep_what_was_acknowledged() {
    assert!(images(0..4, 2) >= 250);
}

#[test]
#[ignore = "runs for minutes; `cargo xtask soak` runs it"]
fn a7_ten_thousand_images_of_a_lost_power() {
    assert!(images(100..200, 4) >= 10_000);
}

/// The undefended control: without its syncs the log loses what it acknowledged, and these checks
/// see it.
#[test]
fn a_missing_sync_is_found_by_the_images() {
    let run = Run::new(1, 40, true);
    let all = 0..run.moments.len();
    let bad = all.filter(|n| check(&run, *n, &mut Random(*n as u64)).is_err()).count();
    assert!(bad > run.moments.len() / 2, "{bad} of {} images", run.moments.len());
}
