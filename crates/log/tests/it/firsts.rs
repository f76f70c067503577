//! Of several things that are wrong, the event that was committed first is named: a table of damages.

use glasshouse_log::Append;

use crate::support::{Fixture, branch, draft, erase, fork, numbered, root, session};

/// Branch and sequence by commit; `b_main`, `b_other` and `b_fork` are the branches 1 to 3.
const COMMITS: [(&str, u64); 12] = [
    ("b_main", 1),
    ("b_main", 2),
    ("b_main", 3),
    ("b_other", 1),
    ("b_fork", 4),
    ("b_main", 4),
    ("b_other", 2),
    ("b_fork", 5),
    ("b_main", 5),
    ("b_other", 3),
    ("b_main", 6),
    ("b_fork", 6),
];

fn log() -> Fixture {
    let fixture = Fixture::new();
    let log = fixture.log();
    log.create_branch(root("s_2", "b_other")).unwrap();
    for (n, (id, seq)) in (0..).zip(COMMITS) {
        if (id, seq) == ("b_fork", 4) {
            log.create_branch(fork("b_fork", "b_main", 3)).unwrap();
        }
        let session = session(if id == "b_other" { "s_2" } else { "s_1" });
        let head = log.append(Append::new(session, branch(id), vec![draft(n)])).unwrap().head;
        assert_eq!(head.seq, seq, "{id}");
    }
    fixture
}

fn place(of: &str) -> String {
    let (id, seq) = of.split_once(' ').unwrap();
    let number = ["main", "other", "fork"].iter().position(|name| *name == id).unwrap() + 1;
    format!("({number} << 40 | {seq})")
}

/// Another body.
fn changed(of: &str) -> String {
    format!("UPDATE event SET body = x'7b7d' WHERE place = {};", place(of))
}

fn deleted(of: &str) -> String {
    format!("DELETE FROM event WHERE place = {};", place(of))
}

fn moved(of: &str, position: u64) -> String {
    format!("UPDATE event SET position = {position} WHERE place = {};", place(of))
}

fn check(damages: &[String], expected: &str) {
    let mut fixture = log();
    assert_eq!(fixture.verdict(), "ok 12", "the control");
    fixture.database().execute_batch(&damages.concat()).unwrap();
    let found = fixture.verdict();
    assert!(found.starts_with(&format!("{expected}:")), "{found}, not {expected}: {damages:?}");
}

#[test]
fn of_two_changed_events_the_first_is_named() {
    // A branch's last good event may lie far before the bad one: 3 and 3, 6 and 7, 8 and 9.
    check(&[changed("main 4"), changed("fork 4")], "hash_mismatch b_fork 4");
    check(&[changed("main 5"), changed("other 3")], "hash_mismatch b_main 5");
    check(&[changed("fork 6"), changed("main 6")], "hash_mismatch b_main 6");
    check(&[changed("other 2"), changed("fork 5")], "hash_mismatch b_other 2");
    // Every pair, either way.
    for (n, first) in COMMITS.iter().enumerate() {
        let later = COMMITS.iter().skip(n + 1).step_by(4);
        for second in later {
            let name = |(id, seq): &(&str, u64)| format!("{} {seq}", &id[2..]);
            let damages = [changed(&name(second)), changed(&name(first))];
            check(&damages, &format!("hash_mismatch {} {}", first.0, first.1));
        }
    }
}

#[test]
fn events_that_are_gone_are_named_by_the_gap_they_leave() {
    check(&[deleted("fork 6")], "truncated b_fork 6");
    check(&[deleted("fork 6"), changed("main 6")], "hash_mismatch b_main 6");
    check(&[deleted("main 6"), changed("fork 6")], "truncated b_main 6");
    check(&[deleted("main 4"), changed("fork 4")], "hash_mismatch b_fork 4");
    check(&[deleted("fork 4"), changed("main 4")], "truncated b_fork 4");
    check(&[deleted("other 1"), deleted("main 6")], "truncated b_other 1");
}

#[test]
fn events_that_were_moved_are_named_by_the_place_they_left() {
    check(&[moved("main 4", 1_000)], "reordered b_main 4");
    check(&[moved("main 6", 1_000)], "reordered b_main 6");
    check(&[moved("other 3", 12)], "reordered b_other 3");
    check(&[moved("main 4", 1_000), changed("fork 4")], "hash_mismatch b_fork 4");
    check(&[moved("fork 4", 1_000), changed("main 4")], "reordered b_fork 4");
    check(&[moved("main 6", 1_000), changed("fork 6")], "reordered b_main 6");
    // Changed and moved behind another that is bad.
    check(
        &[moved("main 4", 1_000), changed("main 4"), changed("other 2")],
        "hash_mismatch b_main 4",
    );
}

#[test]
fn rows_of_branches_that_were_changed_are_named_by_their_events() {
    let hides = "UPDATE branch SET head_seq = 5, head_hash = (SELECT hash FROM event \
                 WHERE place = (1 << 40 | 5)) WHERE number = 1;";
    check(&[hides.to_owned(), changed("fork 6")], "reordered b_main 6");
    check(&[hides.to_owned(), changed("other 3")], "hash_mismatch b_other 3");
    let past = "UPDATE branch SET fork_hash = zeroblob(32) WHERE number = 3;";
    check(&[past.to_owned(), changed("main 4")], "hash_mismatch b_fork 4");
    check(&[past.to_owned(), changed("other 1")], "hash_mismatch b_other 1");
    let head = "UPDATE branch SET head_hash = zeroblob(32) WHERE number = 1;";
    check(&[head.to_owned(), changed("fork 6")], "hash_mismatch b_main 6");
    check(&[head.to_owned(), changed("other 3")], "hash_mismatch b_other 3");
}

/// What a bad event said is not known, so what rests on it is not named in its place.
#[test]
fn erased_events_are_not_named_for_the_event_that_erased_them() {
    let check = |statement: &str, expected: &str| {
        let mut fixture = log();
        fixture.log().erase(erase(&[("b_main", 1), ("b_main", 2), ("b_fork", 5)], &[])).unwrap();
        fixture.log().append(numbered("b_fork", 9)).unwrap();
        assert_eq!(fixture.verdict(), "ok 14 erased 3+0", "the control");
        fixture.database().execute_batch(statement).unwrap();
        let found = fixture.verdict();
        assert!(found.starts_with(&format!("{expected}:")), "{found}, not {expected}");
    };
    check(&changed("main 7"), "hash_mismatch b_main 7");
    check(&deleted("main 7"), "truncated b_main 7");
    // What another branch erased is known although the branch has a bad event before.
    check(&changed("main 6"), "hash_mismatch b_main 6");
    check(
        "UPDATE event SET body = x'', salt = zeroblob(8) WHERE place = (2 << 40 | 2)",
        "hash_mismatch b_other 2",
    );
}
