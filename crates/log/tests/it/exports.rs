//! Sessions that leave the log, and copies of the database to come back to.

use std::fs;

use glasshouse_log::{Append, KEPT_BACKUPS, check_export};
use glasshouse_model::{Draft, Kind};
use serde_json::json;

use crate::support::{Fixture, branch, erase, fork, numbered, numbers, refusal, root, session};

/// A session with forks, every kind of text, and an erased body.
fn exported(fixture: &Fixture) -> String {
    let log = fixture.log();
    log.create_branch(fork("b_fork", "b_main", 2)).unwrap();
    log.append(numbered("b_fork", 3)).unwrap();
    log.create_branch(fork("b_deep", "b_fork", 3)).unwrap();
    let text = Draft::new(Kind::MessageReceived, &json!({"text": "\u{1f980} \"a\"\n\u{0}"}));
    log.append(Append::new(session("s_1"), branch("b_deep"), vec![text])).unwrap();
    log.create_branch(root("s_2", "b_other")).unwrap();
    log.erase(erase(&[("b_main", 1)], &[])).unwrap();
    let mut out = Vec::new();
    let written = log.export_session(&session("s_1"), &mut out).unwrap();
    assert_eq!(written, check_export(out.as_slice()).unwrap());
    assert_eq!(written.events, 7);
    String::from_utf8(out).unwrap()
}

#[test]
fn an_exported_session_proves_itself_and_any_change_is_named() {
    let fixture = Fixture::of_events(4);
    let text = exported(&fixture);
    assert_eq!(text.lines().count(), 1 + 3 + 7 + 1);
    let check = |from: &str, to: &str, line: u64| {
        assert!(text.contains(from), "{from} is in it");
        let changed = text.replacen(from, to, 1);
        let found = refusal(check_export(changed.as_bytes()), "line");
        assert_eq!(found, format!("export_invalid line={line}"), "{from} -> {to}");
    };
    check("\"version\":1", "\"version\":2", 1);
    check("s_1", "s_9", 12);
    check("{\\\"n\\\":2}", "{\\\"n\\\":9}", 4);
    check("heartbeat", "heartbeas", 3);
    check("\"seq\":3,\"prev\"", "\"seq\":4,\"prev\"", 5);
    check("\"parent\":[\"b_main\",2]", "\"parent\":[\"b_main\",9]", 8);
    check("\"parent\":[\"b_main\",2]", "\"parent\":[\"b_main\",1]", 9);
    check("\"name\":\"b_fork\"", "\"name\":\"b_other\"", 12);
    check("\"end\":{\"events\":7", "\"end\":{\"events\":6", 12);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for skipped in 0..lines.len() {
        let mut cut = lines.clone();
        cut.remove(skipped);
        let found = check_export(cut.concat().as_bytes());
        assert_eq!(refusal(found, ""), "export_invalid", "without line {}", skipped + 1);
    }
    for bytes in [0, 1, text.len() / 2, text.len() - 1] {
        let found = check_export(&text.as_bytes()[..bytes]);
        assert_eq!(refusal(found, ""), "export_invalid", "{bytes} bytes");
    }
    let nobody = fixture.log().export_session(&session("s_9"), &mut Vec::new());
    assert_eq!(refusal(nobody, ""), "branch_not_found");
}

#[test]
fn the_newest_backups_are_kept_and_can_be_gone_back_to() {
    let mut fixture = Fixture::of_events(1);
    for n in 2..=8 {
        let made = fixture.log().back_up().unwrap();
        assert!(made.ends_with(format!("backups/{:020}.db", n - 1)), "{}", made.display());
        fixture.append(n);
    }
    let last = fixture.log().back_up().unwrap();
    let names: Vec<_> = fs::read_dir(fixture.path().join("backups")).unwrap().collect();
    assert_eq!(names.len(), KEPT_BACKUPS);
    fixture.append(9);
    fixture.close();

    let restore = |fixture: &Fixture, from: &std::path::Path| {
        for side in ["log.db-wal", "log.db-shm"] {
            let _ = fs::remove_file(fixture.path().join(side));
        }
        fs::copy(from, fixture.path().join("log.db")).unwrap();
    };
    restore(&fixture, &last);
    assert_eq!(fixture.verdict(), "truncated b_main 9: expected 9, found 8", "the loss is named");
    assert_eq!(numbers(fixture.open(), "b_main"), [1, 2, 3, 4, 5, 6, 7, 8], "and the rest reads");
}
