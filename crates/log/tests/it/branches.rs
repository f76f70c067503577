//! Forks on the disk: shared pasts, bounds, and how deep they go.

use crate::support::{Fixture, branch, fork, numbered, numbers, refusal};

#[test]
fn a_fork_shares_the_past_and_goes_its_own_way() {
    let mut fixture = Fixture::of_events(5);
    let log = fixture.log();
    log.create_branch(fork("b_a", "b_main", 3)).unwrap();
    let first = log.append(numbered("b_a", 40)).unwrap().events.remove(0);
    let shared = log.read(&branch("b_main"), 3, 1).unwrap().remove(0);
    assert_eq!((first.seq(), first.prev), (4, shared.hash));
    log.append(numbered("b_a", 50)).unwrap();
    log.create_branch(fork("b_b", "b_a", 4)).unwrap();
    log.append(numbered("b_b", 51)).unwrap();
    log.create_branch(fork("b_c", "b_b", 2)).unwrap();
    log.append(numbered("b_c", 30)).unwrap();
    let log = fixture.open();
    assert_eq!(numbers(log, "b_main"), [1, 2, 3, 4, 5]);
    assert_eq!(numbers(log, "b_a"), [1, 2, 3, 40, 50]);
    assert_eq!(numbers(log, "b_b"), [1, 2, 3, 40, 51]);
    assert_eq!(numbers(log, "b_c"), [1, 2, 30]);
    assert_eq!(log.read(&branch("b_b"), 4, 1).unwrap()[0].header.branch, branch("b_a"));
    assert_eq!(fixture.verdict(), "ok 9");
}

#[test]
fn forks_of_forks_are_bounded() {
    let fixture = Fixture::of_events(1);
    let mut parent = "b_main".to_owned();
    let log = fixture.log();
    for depth in 1..=65_u64 {
        let child = format!("b_{depth}");
        let made = log.create_branch(fork(&child, &parent, depth));
        if depth == 65 {
            assert_eq!(refusal(made, ""), "fork_too_deep");
            break;
        }
        made.unwrap();
        log.append(numbered(&child, depth + 1)).unwrap();
        parent = child;
    }
    assert_eq!(numbers(log, "b_64"), (1..=65).collect::<Vec<u64>>());
}
