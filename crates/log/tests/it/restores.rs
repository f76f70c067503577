//! Backups put back: nothing is lost unseen, and what is given up is said.

use std::path::Path;

use glasshouse_log::{Log, backups, restore, verify_home};
use glasshouse_model::{Kind, TenantId};

use crate::support::{Fixture, branch, erase, numbered, refusal, verdict};

fn put_back(fixture: &Fixture, backup: &Path, accept_loss: bool) -> String {
    match restore(fixture.path(), &TenantId::local(), backup, accept_loss) {
        Ok(done) => format!("{} -{}", done.events, done.lost_events),
        Err(error) => error.code().to_owned(),
    }
}

#[test]
fn a_damaged_log_comes_back_from_a_backup_that_holds_all() {
    let mut fixture = Fixture::of_events(5);
    let backup = fixture.log().back_up().unwrap();
    fixture.close();
    let database = fixture.path().join("log.db");
    let whole = std::fs::read(&database).unwrap();
    std::fs::write(&database, &whole[..whole.len() / 2]).unwrap();
    assert!(Log::open(fixture.path(), &TenantId::local()).is_err(), "the control");
    assert_eq!(put_back(&fixture, &backup, false), "5 -0");
    assert_eq!(fixture.verdict(), "ok 5");
    fixture.open().append(numbered("b_main", 6)).unwrap();
    assert_eq!(fixture.verdict(), "ok 6");
    // A log that is gone as well.
    std::fs::remove_file(&database).unwrap();
    assert_eq!(put_back(&fixture, &backup, true), "5 -1");
}

#[test]
fn events_are_given_up_only_when_a_person_says_so_and_the_log_says_it() {
    let mut fixture = Fixture::of_events(3);
    let backup = fixture.log().back_up().unwrap();
    for n in 4..=7 {
        fixture.append(n);
    }
    let outside = fixture.log().sign_head().unwrap().note;
    fixture.close();
    assert_eq!(put_back(&fixture, &backup, false), "restore_loses_events");
    assert_eq!(fixture.verdict(), "ok 7", "nothing was changed");
    assert_eq!(put_back(&fixture, &backup, true), "3 -4");
    assert_eq!(fixture.verdict(), "ok 4", "three and the event that says so");
    let log = fixture.open();
    let newest = log.sessions().unwrap().remove(0);
    let said = log.read(&newest.main, 1, 9).unwrap();
    assert_eq!(*said[0].kind(), Kind::LogRecovered);
    assert!(said[0].body["detail"].as_str().unwrap().contains("4 later events"), "{said:?}");
    // Who kept a head outside still sees it.
    assert!(!log.check_extension(&outside, None).unwrap().is_ok());
    log.append(numbered("b_main", 4)).unwrap();
    assert_eq!(fixture.verdict(), "ok 5");
}

/// The failure that this keeps away: backups of what was given up have larger numbers than those that follow,
/// so they were the newest, and the real newest was removed as the oldest.
#[test]
fn backups_of_what_was_given_up_take_no_place() {
    let mut fixture = Fixture::of_events(1);
    let first = fixture.log().back_up().unwrap();
    for n in 2..=5 {
        fixture.append(n);
        fixture.log().back_up().unwrap();
    }
    fixture.close();
    assert_eq!(put_back(&fixture, &first, true), "1 -4");
    assert_eq!(backups(fixture.path()).unwrap(), std::slice::from_ref(&first));
    let log = fixture.open();
    log.append(numbered("b_main", 2)).unwrap();
    let made = log.back_up().unwrap();
    assert_eq!(backups(fixture.path()).unwrap(), [first, made.clone()]);
    fixture.close();
    assert_eq!(put_back(&fixture, &made, false), "3 -0");
    assert_eq!(fixture.verdict(), "ok 3");
    let replaced = std::fs::read_dir(fixture.path().join("replaced")).unwrap();
    let aside = replaced.map(|entry| entry.unwrap().path().join("backups"));
    let aside: usize = aside.map(|dir| std::fs::read_dir(dir).map_or(0, Iterator::count)).sum();
    assert_eq!(aside, 4, "set aside, not deleted");
}

/// The undefended control of the above: a backup copied over the database by hand is found out.
#[test]
fn a_roll_back_that_nobody_accepted_is_found_out() {
    let mut fixture = Fixture::of_events(3);
    let backup = fixture.log().back_up().unwrap();
    for n in 4..=7 {
        fixture.append(n);
    }
    fixture.close();
    for side in ["log.db-wal", "log.db-shm"] {
        let _ = std::fs::remove_file(fixture.path().join(side));
    }
    std::fs::copy(&backup, fixture.path().join("log.db")).unwrap();
    let found = verdict(&verify_home(fixture.path(), &TenantId::local()).unwrap());
    assert!(found.starts_with("truncated b_main 4"), "{found}");
}

#[test]
fn what_is_no_backup_of_this_log_changes_nothing() {
    let mut fixture = Fixture::of_events(4);
    let backup = fixture.log().back_up().unwrap();
    assert_eq!(put_back(&fixture, &backup, true), "log_busy");
    fixture.close();
    let bad = fixture.path().join("bad.db");
    let check = |bytes: Vec<u8>, expected: &str| {
        std::fs::write(&bad, bytes).unwrap();
        assert_eq!(put_back(&fixture, &bad, true), expected);
        let left = verify_home(fixture.path(), &TenantId::local()).unwrap();
        assert_eq!(verdict(&left), "ok 4");
        assert!(!fixture.path().join("log.db.restoring").exists());
    };
    let whole = std::fs::read(&backup).unwrap();
    check(Vec::new(), "backup_invalid");
    check(vec![7; 5_000], "backup_invalid");
    check(whole[..whole.len() / 2].to_vec(), "backup_invalid");
    let other = Fixture::of_events(9);
    check(std::fs::read(other.log().back_up().unwrap()).unwrap(), "backup_invalid");
    let at = memchr::memmem::find(&whole, b"{\"n\":2").expect("a body");
    let mut changed = whole.clone();
    changed[at + 5] = b'8';
    check(changed, "backup_invalid");
    let missing = fixture.path().join("none.db");
    assert_eq!(put_back(&fixture, &missing, true), "storage_failed");
    assert_eq!(put_back(&fixture, &backup, false), "4 -0", "the control");
}

#[test]
fn an_erasure_leaves_no_backup_that_would_undo_it() {
    let fixture = Fixture::of_events(4);
    fixture.log().back_up().unwrap();
    let replaced = fixture.path().join("replaced/1/log.db");
    std::fs::create_dir_all(replaced.parent().unwrap()).unwrap();
    std::fs::write(&replaced, "what a restore set aside").unwrap();
    assert_eq!(backups(fixture.path()).unwrap().len(), 1);
    fixture.log().erase(erase(&[("b_main", 2)], &[])).unwrap();
    assert_eq!(backups(fixture.path()).unwrap().len(), 0);
    assert!(!replaced.exists());
    // One made afterwards holds the erasure.
    fixture.log().back_up().unwrap();
}

#[test]
fn a_backup_is_made_unasked_only_when_there_is_need() {
    let fixture = Fixture::of_events(2);
    assert!(fixture.log().back_up_if_due().unwrap().is_some());
    fixture.append(3);
    assert!(fixture.log().back_up_if_due().unwrap().is_none(), "the last one is young");
    let newest = backups(fixture.path()).unwrap().pop().unwrap();
    let file = std::fs::File::options().write(true).open(newest).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(4_000);
    file.set_modified(old).unwrap();
    assert!(fixture.log().back_up_if_due().unwrap().is_some());
    assert_eq!(
        refusal(
            Log::in_memory(&TenantId::local(), std::sync::Arc::new(glasshouse_log::SystemClock))
                .unwrap()
                .back_up(),
            ""
        ),
        "storage_failed"
    );
}

/// A restore that was cut short after its files were moved: the loss is told by whoever opens the log next.
#[test]
fn a_loss_is_told_also_when_the_restore_was_cut_short() {
    let mut fixture = Fixture::of_events(3);
    let backup = fixture.log().back_up().unwrap();
    for n in 4..=7 {
        fixture.append(n);
    }
    fixture.close();
    assert_eq!(put_back(&fixture, &backup, true), "3 -4");
    let marker = fixture.path().join("restoring.json");
    assert!(!marker.exists());
    // As it lies there before the event: files in place, nothing said.
    std::fs::copy(&backup, fixture.path().join("again.db")).unwrap();
    let root = format!("sha256:{}", "0".repeat(64));
    let left = format!("{{\"known\":9,\"kept\":4,\"signed\":null,\"root\":\"{root}\"}}");
    std::fs::write(&marker, &left).unwrap();
    // Restoring again knows what was given up.
    let again = fixture.path().join("again.db");
    assert_eq!(put_back(&fixture, &again, false), "restore_loses_events");
    let log = fixture.open();
    let told: usize = log
        .sessions()
        .unwrap()
        .iter()
        .flat_map(|row| log.read(&row.main, 1, 99).unwrap())
        .filter(|event| *event.kind() == Kind::LogRecovered)
        .count();
    assert_eq!(told, 2);
    assert!(!marker.exists());
    assert_eq!(fixture.verdict(), "ok 5");
}

/// What was used up in events that were given up looks unused: whoever goes on with a branch is told.
#[test]
fn a_branch_knows_whether_events_were_given_up_since_its_newest() {
    let mut fixture = Fixture::of_events(3);
    let is_restored = |log: &Log| log.is_restored_since(&branch("b_main")).unwrap();
    let backup = fixture.log().back_up().unwrap();
    fixture.append(4);
    assert!(!is_restored(fixture.log()), "the control");
    fixture.close();
    assert_eq!(put_back(&fixture, &backup, true), "3 -1");
    let log = fixture.open();
    assert!(is_restored(log));
    log.append(numbered("b_main", 4)).unwrap();
    assert!(!is_restored(log), "it has gone on since");
    // A restore that loses nothing takes nothing back.
    let backup = log.back_up().unwrap();
    fixture.close();
    assert_eq!(put_back(&fixture, &backup, false), "5 -0");
    assert!(!is_restored(fixture.open()));
}
