//! Snapshots spare work and change nothing: whatever lies in the cache, a fold is what the events say.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use glasshouse_log::{Append, Log, Projection};
use glasshouse_model::{Digest, Event, TenantId};

use crate::support::{Fixture, branch, draft, fork, numbered, session};

/// Sums the numbers of events, and counts how many it was given.
#[derive(Default, Clone, Debug, PartialEq, Eq)]
struct Sum {
    sum: u64,
    seen: u64,
}

/// Events folded by all that follow, to tell what a snapshot spared.
fn folded(log: &Log, id: &str) -> (u64, u64) {
    folded_to(log, id, u64::MAX)
}

fn folded_to(log: &Log, id: &str, to: u64) -> (u64, u64) {
    FOLDED.with(|count| count.set(0));
    let state: Sum = log.project_to(&branch(id), to).unwrap();
    (state.sum, FOLDED.with(Cell::get))
}

thread_local! {
    static FOLDED: Cell<u64> = const { Cell::new(0) };
    /// Where the next fold of this thread tells that it has begun, and what it waits for then.
    static HALT: RefCell<Option<(Sender<()>, Receiver<()>)>> = const { RefCell::new(None) };
}

impl Projection for Sum {
    const NAME: &'static str = "sum";
    const VERSION: u32 = 3;

    fn apply(&mut self, event: &Event) {
        FOLDED.with(|count| count.set(count.get() + 1));
        if let Some((begun, go_on)) = HALT.take() {
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        }
        self.sum += event.body["n"].as_u64().unwrap_or(0);
        self.seen += 1;
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(format!("{} {}", self.sum, self.seen).into_bytes())
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        let (sum, seen) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
        Some(Self { sum: sum.parse().ok()?, seen: seen.parse().ok()? })
    }
}

/// Snapshots of a branch; what is still being written is none.
fn snapshots(fixture: &Fixture, id: &str) -> Vec<PathBuf> {
    let dir = fixture.path().join("cache/snapshots/sum-3").join(id);
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "snapshot")).collect();
    found.sort();
    found
}

#[test]
fn a_snapshot_spares_the_fold_and_forks_share_it() {
    let fixture = Fixture::of_events(100);
    let log = fixture.log();
    assert_eq!(folded(log, "b_main"), (5_050, 100));
    assert_eq!(folded(log, "b_main"), (5_050, 0));
    fixture.append(101);
    assert_eq!(folded(log, "b_main"), (5_151, 1));
    log.create_branch(fork("b_late", "b_main", 101)).unwrap();
    assert_eq!(folded(log, "b_late"), (5_151, 1), "from the parent's snapshot");
    log.create_branch(fork("b_early", "b_main", 50)).unwrap();
    assert_eq!(folded(log, "b_early"), (1_275, 50), "the parent's snapshot lies beyond the fork");
    for n in 102..=400 {
        fixture.append(n);
        folded(log, "b_main");
    }
    assert_eq!(snapshots(&fixture, "b_main").len(), 2, "the newest two are kept");
}

#[test]
fn a_state_of_the_past_is_folded_from_a_snapshot_before_it() {
    let fixture = Fixture::of_events(300);
    let log = fixture.log();
    assert_eq!(folded_to(log, "b_main", 0), (0, 0));
    assert_eq!(folded_to(log, "b_main", 70), (2_485, 70));
    assert_eq!(folded_to(log, "b_main", 70), (2_485, 0), "kept");
    assert_eq!(folded_to(log, "b_main", 80), (3_240, 10));
    assert_eq!(folded_to(log, "b_main", 60), (1_830, 60), "what is kept lies beyond");
    assert_eq!(folded(log, "b_main"), (45_150, 230));
    assert_eq!(folded_to(log, "b_main", 80), (3_240, 10), "the older one still serves");
}

#[test]
fn whatever_lies_in_the_cache_the_events_decide() {
    type Spoil = fn(&[u8]) -> Vec<u8>;
    let spoils: [(&str, Spoil); 6] = [
        ("empty", |_| Vec::new()),
        ("cut", |whole| whole[..whole.len() - 1].to_vec()),
        ("noise", |_| vec![0xff; 300]),
        ("another state", |whole| [whole, b"1"].concat()),
        ("another event", |whole| {
            let hash = Digest::of(b"another").to_string();
            let text = String::from_utf8(whole.to_vec()).unwrap();
            let at = text.find("\"hash\":\"").unwrap() + 8;
            [&text[..at], &hash, &text[at + hash.len()..]].concat().into_bytes()
        }),
        ("another sequence", |whole| {
            String::from_utf8(whole.to_vec()).unwrap().replacen("100", "99", 1).into_bytes()
        }),
    ];
    for (name, spoil) in spoils {
        let fixture = Fixture::of_events(100);
        folded(fixture.log(), "b_main");
        let file = snapshots(&fixture, "b_main").pop().unwrap();
        fs::write(&file, spoil(&fs::read(&file).unwrap())).unwrap();
        assert_eq!(folded(fixture.log(), "b_main"), (5_050, 100), "{name}");
    }
    // The control: left alone, it is used.
    let fixture = Fixture::of_events(100);
    folded(fixture.log(), "b_main");
    assert_eq!(folded(fixture.log(), "b_main"), (5_050, 0));
    fs::remove_dir_all(fixture.path().join("cache")).unwrap();
    assert_eq!(folded(fixture.log(), "b_main"), (5_050, 100), "deleting the cache costs time only");
}

#[test]
fn a_snapshot_that_leads_elsewhere_is_found_and_repaired() {
    let fixture = Fixture::of_events(100);
    let log = fixture.log();
    folded(log, "b_main");
    let compared = || log.check_projection::<Sum>(&branch("b_main")).unwrap();
    assert_eq!(compared(), [], "the control");
    // Made by somebody who knows the form: only a fresh fold can tell.
    let file = snapshots(&fixture, "b_main").pop().unwrap();
    forge(&file, "7 100");
    assert_eq!(folded(log, "b_main").0, 7);
    let deviation = compared().pop().expect("it differs");
    assert_eq!((deviation.seq, deviation.found), (100, Digest::of(b"7 100")));
    assert_eq!(deviation.expected, Digest::of(b"5050 100"));
    assert_eq!(compared(), []);
    assert_eq!(folded(log, "b_main"), (5_050, 0), "it was replaced");
}

/// The failure: only the newest snapshot was compared, and a fork could begin at the other one.
#[test]
fn every_snapshot_is_compared_not_only_the_newest() {
    let fixture = Fixture::of_events(100);
    let log = fixture.log();
    folded(log, "b_main");
    (101..=200).for_each(|n| drop(fixture.append(n)));
    folded(log, "b_main");
    let files = snapshots(&fixture, "b_main");
    forge(&files[0], "7 100");
    assert_eq!(folded(log, "b_main").0, 20_100, "the newest one is sound");
    assert_eq!(folded_to(log, "b_main", 101).0, 108, "the control: the older one is used");
    let found = log.check_projection::<Sum>(&branch("b_main")).unwrap();
    let found: Vec<_> = found.iter().map(|found| (found.seq, found.found)).collect();
    assert_eq!(found, [(100, Digest::of(b"7 100"))]);
    assert_eq!(folded_to(log, "b_main", 101).0, 5_151);
    // One that would be passed over is no finding, and goes.
    fs::write(&files[1], b"noise").unwrap();
    assert_eq!(log.check_projection::<Sum>(&branch("b_main")).unwrap(), []);
    assert!(!files[1].exists());
}

/// Whether a snapshot is what the events of these tests say, the numbers from 1 on.
fn is_sound(file: &Path) -> bool {
    // Those who fold keep two and remove the rest.
    let Ok(text) = fs::read_to_string(file) else { return true };
    let (_, state) = text.split_once('\n').unwrap();
    let (sum, seen) = state.split_once(' ').unwrap();
    let (sum, seen): (u64, u64) = (sum.parse().unwrap(), seen.parse().unwrap());
    sum == seen * (seen + 1) / 2
}

/// The failure: who had read a wrong snapshot before it was found kept what came of it afterwards, and the
/// log was said to be repaired.
/// Now: a repair waits for folds that began before it.
#[test]
fn a_repair_waits_for_folds_that_began_before_it() {
    let fixture = Fixture::of_events(100);
    let log = fixture.log();
    folded(log, "b_main");
    forge(&snapshots(&fixture, "b_main")[0], "7 100");
    (101..=200).for_each(|n| drop(fixture.append(n)));
    let ((tell_begun, begun), (tell_on, go_on)) = (channel(), channel());
    let (tell_repaired, repaired) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            HALT.set(Some((tell_begun, go_on)));
            assert_eq!(folded(log, "b_main").0, 15_057, "the control: it began at the wrong one");
        });
        begun.recv().unwrap();
        scope.spawn(move || {
            log.check_projection::<Sum>(&branch("b_main")).unwrap();
            tell_repaired.send(()).unwrap();
        });
        let patience = std::time::Duration::from_millis(200);
        let waits = repaired.recv_timeout(patience).is_err();
        tell_on.send(()).unwrap();
        assert!(waits);
    });
    let files = snapshots(&fixture, "b_main");
    assert!(!files.is_empty() && files.iter().all(|file| is_sound(file)), "{files:?}");
}

/// The same for folds that begin while it goes on: what comes of them is not kept.
#[test]
fn what_is_repaired_stays_so_while_others_fold() {
    const ROUNDS: u64 = 25;
    let fixture = Fixture::new();
    let log = fixture.log();
    let done = AtomicBool::new(false);
    let mut forged = 0;
    std::thread::scope(|scope| {
        // Also when something is wrong: whoever waits for those below would wait for ever.
        let _done = Ends(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _: Sum = log.project(&branch("b_main")).unwrap();
                }
            });
        }
        let grow = |from: u64| {
            let events = (1..=70).map(|n| draft(from + n)).collect();
            log.append(Append::new(session("s_1"), branch("b_main"), events)).unwrap();
        };
        for round in 0..ROUNDS {
            grow(round * 140);
            folded(log, "b_main");
            let files = snapshots(&fixture, "b_main");
            // All of them before one is forged: what is folded from that one replaces those after it.
            for file in &files {
                assert!(is_sound(file), "round {round}: {}", file.display());
            }
            for file in files {
                // Those who fold keep two and remove the rest.
                if let Ok(text) = fs::read_to_string(&file) {
                    let state = format!("7 {}", text.rsplit(' ').next().unwrap());
                    fs::write(&file, forged_as(&text, &state)).unwrap();
                }
            }
            // These make what is folded from a wrong state worth keeping.
            grow(round * 140 + 70);
            forged += log.check_projection::<Sum>(&branch("b_main")).unwrap().len();
        }
    });
    assert!(forged > 0, "the control: some were found");
}

/// Sets a flag at its end.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Replaces the state of a snapshot by another one.
fn forge(file: &Path, state: &str) {
    fs::write(file, forged_as(&fs::read_to_string(file).unwrap(), state)).unwrap();
}

/// The text of a snapshot with another state, in the form of a snapshot.
fn forged_as(text: &str, state: &str) -> String {
    let (label, _) = text.split_once('\n').unwrap();
    let mut label: serde_json::Value = serde_json::from_str(label).unwrap();
    label["digest"] = Digest::of(state.as_bytes()).to_string().into();
    format!("{label}\n{state}")
}

#[test]
fn a_log_in_memory_folds_without_snapshots() {
    let clock = std::sync::Arc::new(glasshouse_log::SystemClock);
    let log = Log::in_memory(&TenantId::local(), clock).unwrap();
    log.create_branch(crate::support::root("s_1", "b_main")).unwrap();
    for n in 1..=70 {
        log.append(numbered("b_main", n)).unwrap();
    }
    assert_eq!(folded(&log, "b_main"), (2_485, 70));
    assert_eq!(folded(&log, "b_main"), (2_485, 70));
}
