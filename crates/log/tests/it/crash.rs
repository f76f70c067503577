//! SIGKILL in the middle of appending, again and again: every acknowledged event is there.

use crate::child::Process;
use crate::support::{Fixture, branch};

#[test]
fn a4_killed_writers_lose_nothing_that_was_acknowledged() {
    kill(25);
}

#[test]
#[ignore = "runs for minutes; `cargo xtask soak` runs it"]
fn a4_writers_killed_five_hundred_times_lose_nothing() {
    kill(500);
}

fn kill(rounds: u64) {
    let mut fixture = Fixture::new();
    fixture.close();
    let mut head = 0;
    for round in 0..rounds {
        let mut writer = Process::start("append until killed", fixture.path());
        let mut acknowledged = head;
        // Another number of events each round, and then a kill while the next is being stored.
        for _ in 0..=round % 7 {
            acknowledged = writer.report().unwrap().parse().unwrap();
        }
        writer.kill();
        while let Some(line) = writer.report() {
            acknowledged = line.parse().unwrap();
        }
        writer.wait();
        let log = fixture.open();
        head = log.head(&branch("b_main")).unwrap().seq;
        assert!(head >= acknowledged, "round {round}: {acknowledged} acknowledged, {head} there");
        assert!(head <= acknowledged + 1, "round {round}: one append was on its way");
        assert!(log.verify().unwrap().is_ok(), "round {round}");
        fixture.close();
    }
    // An ordinary kill is told of only where it fell into the last frame of a write.
    let own = fixture.open().head(&branch("b_log")).map_or(0, |head| head.seq);
    assert!(own * 4 <= rounds, "{own} of {rounds} kills looked like damage");
    assert_eq!(fixture.verdict(), format!("ok {}", head + own));
}
