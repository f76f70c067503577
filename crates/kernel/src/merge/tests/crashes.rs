//! Merges that are interrupted: by a crash, by the user's editor, by a swapped directory.

use super::*;

fn everything(cache: &Path) -> Case {
    Case::cached(
        tempfile::tempdir().unwrap(),
        cache,
        &["edit=1 2 3 4 5 ", "gone/deep/f=1 ", "to-dir=1 ", "mode=m ", "l@a", "keep=k "],
        &["edit=1 2 3 4 x ", "-gone/deep/f", "to-dir/x=2 ", "+mode", "l@b", "new/a/b=n "],
        |_| {},
    )
}

/// Goal: a crash between any two acts leaves each file old or new, and a retry finishes without doing
/// a step again. Method: stop before the n-th act, for every n, and call again.
#[test]
fn a_crash_at_any_act_of_a_merge_is_resumed() {
    let cache = tempfile::tempdir().unwrap();
    let whole = everything(cache.path());
    let before = whole.files();
    let mut acts = 0;
    let last = RefCell::new(String::new());
    let run = |case: &Case, approved: &Proposal, stop_at: usize, count: &mut usize| {
        let authority = Authority::Reviewed { binding: &approved.binding, deletions: true };
        until_crash(|| {
            apply_with(&case.root(), case.input(), authority, &case.operation(), &mut |name| {
                *count += 1;
                if *count == stop_at {
                    last.replace(name.to_owned());
                    crash();
                }
                Ok(())
            })
        })
    };
    run(&whole, &whole.proposal(), usize::MAX, &mut acts).unwrap().unwrap();
    let after = whole.files();
    assert!(acts > 30, "{acts}");
    for stop_at in 1..=acts {
        let case = everything(cache.path());
        let approved = case.proposal();
        assert!(run(&case, &approved, stop_at, &mut 0).is_none());
        let act = last.borrow().clone();
        for (name, text) in case.files() {
            let known = before.get(&name) == Some(&text) || after.get(&name) == Some(&text);
            assert!(
                known || name.contains(".glasshouse-"),
                "{name} is neither old nor new after a stop at `{act}` ({stop_at})"
            );
        }
        let mut acts_again = 0;
        let outcome = run(&case, &approved, usize::MAX, &mut acts_again).unwrap().unwrap();
        assert!(matches!(outcome, Outcome::Applied(_)), "stop {stop_at}: {outcome:?}");
        assert_eq!(case.files(), after, "stop {stop_at} at `{act}`");
        assert!(!case.root().join("gone").exists());
        // A step takes at most eight acts, the tidying up one for each step and each directory: what
        // was done before the stop is not done again.
        assert!(acts_again + stop_at <= acts + 16, "{stop_at} and {acts_again} of {acts}");
    }
}

/// Goal: an edit saved at any moment of a merge is never lost, and the merge is all or nothing.
#[test]
fn an_edit_in_the_middle_is_kept_and_the_merge_goes_back() {
    let cache = tempfile::tempdir().unwrap();
    for moment in 1..60 {
        let case = everything(cache.path());
        let before = case.files();
        let proposal = case.proposal();
        let authority = Authority::Reviewed { binding: &proposal.binding, deletions: true };
        let mut count = 0;
        let outcome =
            apply_with(&case.root(), case.input(), authority, &case.operation(), &mut |_| {
                count += 1;
                if count == moment {
                    // As editors save: a new file renamed over the old one.
                    let fresh = case.root().join("edit.fresh");
                    std::fs::write(&fresh, "user\n").unwrap();
                    std::fs::rename(fresh, case.root().join("edit")).unwrap();
                }
                Ok(())
            })
            .unwrap();
        let files = case.files();
        assert!(!files.keys().any(|name| name.contains(".glasshouse-")), "{moment}: {files:?}");
        if count >= moment {
            assert_eq!(files["edit"], "user ", "the user's edit was lost at act {moment}");
        }
        if let Outcome::Conflict(conflicts) = outcome {
            assert_eq!(conflicts[0].path.as_str(), "edit");
            let mut expected = before;
            expected.insert("edit".to_owned(), "user ".to_owned());
            assert_eq!(files, expected, "half applied at act {moment}");
            assert!(!case.root().join("new").exists());
        }
    }
}

#[test]
fn a_crash_while_going_back_is_resumed() {
    let cache = tempfile::tempdir().unwrap();
    let spoil = |case: &Case, stop_at: Option<usize>| {
        let proposal = case.proposal();
        let authority = Authority::Reviewed { binding: &proposal.binding, deletions: true };
        let (mut seen, mut after) = (0, 0);
        let result = until_crash(|| {
            apply_with(&case.root(), case.input(), authority, &case.operation(), &mut |name| {
                seen += 1;
                // The last step is `to-dir/x`; every other one is done by then.
                if name == "exchange" && case.root().join("new/a/b").exists() && after == 0 {
                    std::fs::write(case.root().join("to-dir/x"), "user\n").unwrap();
                    after = 1;
                } else if after > 0 {
                    after += 1;
                }
                if stop_at == Some(after) && after > 1 {
                    crash();
                }
                Ok(())
            })
        });
        (result, after)
    };
    let whole = everything(cache.path());
    let before = whole.files();
    let (result, acts) = spoil(&whole, None);
    assert!(matches!(result.unwrap().unwrap(), Outcome::Conflict(_)));
    let expected = whole.files();
    assert!(acts > 10, "{acts}");
    for name in ["edit", "gone/deep/f", "mode", "l", "keep"] {
        assert_eq!(expected[name], before[name]);
    }
    for stop_at in 2..=acts {
        let case = everything(cache.path());
        assert!(spoil(&case, Some(stop_at)).0.is_none());
        let again = case.automatic().unwrap();
        assert!(matches!(again, Outcome::Conflict(_)), "{stop_at}");
        assert_eq!(case.files(), expected, "{stop_at}");
    }
}

#[test]
fn a_directory_swapped_for_a_link_does_not_let_the_merge_out() {
    for moment in 1..12 {
        let case = Case::plain(&["d/a=1 "], &["d/a=2 ", "d/new=3 "]);
        let outside = case.dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("a"), "1\n").unwrap();
        let mut count = 0;
        let _ = apply_with(
            &case.root(),
            case.input(),
            Authority::Automatic,
            &case.operation(),
            &mut |_| {
                count += 1;
                if count == moment {
                    std::fs::rename(case.root().join("d"), case.root().join("moved")).unwrap();
                    symlink(&outside, case.root().join("d")).unwrap();
                }
                Ok(())
            },
        );
        assert_eq!(listed(&tree(&outside)), ["a=1 "], "escaped at act {moment}");
    }
    // The control: plain writes through the swapped directory do escape.
    let case = Case::plain(&["d/a=1 "], &[]);
    let outside = case.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::rename(case.root().join("d"), case.root().join("moved")).unwrap();
    symlink(&outside, case.root().join("d")).unwrap();
    std::fs::write(case.root().join("d/a"), "2\n").unwrap();
    assert_eq!(listed(&tree(&outside)), ["a=2 "]);
}

/// A user saved twice while one file was exchanged, and the second save was deleted with the name it
/// had been moved to. What came out of the second exchange was not looked at.
/// Now the newest of any number of saves is at the path, and the merge goes back.
#[test]
fn two_edits_in_the_middle_of_one_exchange_keep_the_newer() {
    let case = everything(tempfile::tempdir().unwrap().path());
    let proposal = case.proposal();
    let authority = Authority::Reviewed { binding: &proposal.binding, deletions: true };
    let save = |text: &str| {
        let fresh = case.root().join("edit.fresh");
        std::fs::write(&fresh, text).unwrap();
        std::fs::rename(fresh, case.root().join("edit")).unwrap();
    };
    let mut saves = 0;
    let outcome =
        apply_with(&case.root(), case.input(), authority, &case.operation(), &mut |act| {
            let is_theirs =
                std::fs::read_to_string(case.root().join("edit")).unwrap().contains('x');
            match (act, saves) {
                ("exchange", 0) if case.files().keys().any(|name| name.ends_with('f')) => {
                    save("first\n")
                }
                ("verify", 1) if is_theirs => save("second\n"),
                _ => return Ok(()),
            }
            saves += 1;
            Ok(())
        });
    let outcome = outcome.unwrap();
    assert!(matches!(outcome, Outcome::Conflict(_)), "{outcome:?}");
    let files = case.files();
    assert!(!files.keys().any(|name| name.contains(".glasshouse-")), "{files:?}");
    assert_eq!((saves, files["edit"].as_str()), (2, "second "), "{files:?}");
}

/// A program that had a file open wrote into it after the merge had taken it out: the bytes ended in a
/// hidden file, and nothing was said.
/// Now the merge goes back and names the file, which holds the bytes.
#[test]
fn bytes_written_through_an_open_file_are_kept() {
    use std::io::Write as _;
    let cache = tempfile::tempdir().unwrap();
    for moment in 1..60 {
        let case = everything(cache.path());
        let mut open =
            std::fs::File::options().append(true).open(case.root().join("edit")).unwrap();
        let proposal = case.proposal();
        let authority = Authority::Reviewed { binding: &proposal.binding, deletions: true };
        let (mut count, mut too_late) = (0, false);
        let outcome =
            apply_with(&case.root(), case.input(), authority, &case.operation(), &mut |act| {
                count += 1;
                too_late |= act == "let go" && count <= moment;
                if count == moment && !too_late {
                    open.write_all(b"user\n").unwrap();
                }
                Ok(())
            })
            .unwrap();
        if too_late || count < moment {
            return assert!(moment > 10, "{moment}");
        }
        let files = case.files();
        assert!(!files.keys().any(|name| name.contains(".glasshouse-")), "{moment}: {files:?}");
        assert!(files["edit"].ends_with("user "), "{moment}: {files:?}");
        let Outcome::Conflict(conflicts) = outcome else { panic!("{moment}: {files:?}") };
        assert_eq!(conflicts[0].path.as_str(), "edit");
    }
}
