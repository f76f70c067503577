//! Forks and merges: shared pasts, bounds, and branches that have ended.

use glasshouse_log::{Append, BranchState, Log, NewBranch};
use glasshouse_model::{Draft, Kind, TenantId};
use proptest::prelude::*;

use crate::support::{Fixture, branch, fork, numbered, numbers, refusal, root, session};

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
fn forks_stay_within_their_parent() {
    let fixture = Fixture::of_events(3);
    let check = |new: NewBranch, expected: &str| {
        assert_eq!(refusal(fixture.log().create_branch(new), "head"), expected);
    };
    check(fork("b_a", "b_main", 4), "fork_out_of_range head=3");
    check(fork("b_a", "b_main", 0), "fork_out_of_range head=3");
    check(fork("b_a", "b_none", 1), "branch_not_found");
    check(fork("b_main", "b_main", 1), "branch_exists");
    check(NewBranch { name: "main".into(), ..fork("b_a", "b_main", 1) }, "branch_exists");
    check(NewBranch { name: String::new(), ..fork("b_a", "b_main", 1) }, "append_invalid");
    check(NewBranch { session: session("s_2"), ..fork("b_a", "b_main", 1) }, "branch_not_found");
    check(NewBranch { name: "second".into(), ..root("s_1", "b_a") }, "branch_exists");
    assert_eq!(fixture.log().branches(&session("s_1")).unwrap().len(), 1, "nothing was made");
}

#[test]
fn a_merge_ends_its_source_and_only_as_it_was_seen() {
    let fixture = Fixture::of_events(2);
    let log = fixture.log();
    log.create_branch(fork("b_a", "b_main", 2)).unwrap();
    let seen = log.append(numbered("b_a", 3)).unwrap().head;
    let moved = log.append(numbered("b_a", 4)).unwrap().head;
    let merged = |source| {
        let event = Draft::new(Kind::BranchMerged, &serde_json::json!({"n": 9}));
        let append = Append::new(session("s_1"), branch("b_main"), vec![event]);
        move |head| log.merge(append.clone(), &branch(source), head)
    };
    assert_eq!(refusal(merged("b_a")(seen), "head"), "head_conflict head=4");
    assert_eq!(refusal(merged("b_main")(moved), ""), "append_invalid");
    assert_eq!(numbers(log, "b_main"), [1, 2], "a refused merge leaves no event");
    merged("b_a")(moved).unwrap();
    assert_eq!(log.branch(&branch("b_a")).unwrap().state, BranchState::Merged);
    assert_eq!(refusal(log.append(numbered("b_a", 5)), ""), "branch_read_only");
    assert_eq!(refusal(merged("b_a")(moved), ""), "branch_read_only");
    log.create_branch(fork("b_b", "b_a", 4)).unwrap();
    log.append(numbered("b_b", 6)).unwrap();
    log.close_branch(&branch("b_b")).unwrap();
    assert_eq!(refusal(log.append(numbered("b_b", 7)), ""), "branch_read_only");
    assert_eq!(numbers(log, "b_b"), [1, 2, 3, 4, 6], "reading goes on");
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

/// What a program of random forks and appends should leave, kept as plain lists.
#[derive(Default)]
struct Model {
    branches: Vec<Vec<u64>>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_tree_of_forks_reads_like_its_model(
        steps in prop::collection::vec((any::<bool>(), any::<u16>(), any::<u16>()), 1..40)
    ) {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), &TenantId::local()).unwrap();
        log.create_branch(root("s_1", "b_0")).unwrap();
        let mut model = Model { branches: vec![vec![]] };
        for (n, (is_fork, which, at)) in (0_u64..).zip(steps) {
            let parent = usize::from(which) % model.branches.len();
            let past = model.branches[parent].clone();
            if is_fork && !past.is_empty() {
                let keep = 1 + usize::from(at) % past.len();
                let child = format!("b_{}", model.branches.len());
                let seq = u64::try_from(keep).unwrap();
                log.create_branch(fork(&child, &format!("b_{parent}"), seq)).unwrap();
                model.branches.push(past[..keep].to_vec());
            } else {
                log.append(numbered(&format!("b_{parent}"), n)).unwrap();
                model.branches[parent].push(n);
            }
        }
        for (index, expected) in model.branches.iter().enumerate() {
            prop_assert_eq!(&numbers(&log, &format!("b_{index}")), expected);
        }
        prop_assert!(log.verify().unwrap().is_ok());
    }
}
