//! Files of strangers: whatever hashes they make anew, an import stands in nobody's place, excuses nothing that
//! is not its own, and can be read afterwards.

use std::collections::BTreeSet;
use std::fs;

use glasshouse_log::{Append, ExportBlobs, Log, check_export};
use glasshouse_model::{Digest, Draft, Kind, TenantId};
use serde_json::json;

use crate::exports::{file_of, forged, lived, new_import, stranger, whole};
use crate::support::{
    Fixture, blob_file, branch, draft, erase, fork, manifest_of, numbered, numbers, refusal, root,
    session, verdict,
};

/// A forger makes every hash anew, so only what the log itself needs to read stops this.
#[test]
fn what_no_log_could_read_is_not_taken_in() {
    let from = Fixture::of_events(3);
    let text = whole(from.log());
    let check = |from: &str, to: &str, expected: &str| {
        let forged = forged(&text, from, to);
        let mut into = stranger();
        let found = into.log().import_session(&mut file_of(&forged), new_import("told"));
        let checked = check_export(forged.as_bytes());
        assert_eq!(checked.is_ok(), found.is_ok(), "{from} -> {to}");
        match found {
            Ok(_) => assert_eq!((expected, numbers(into.log(), "b_main").len()), ("", 3)),
            refused => assert_eq!(refusal(refused, "line"), expected, "{from} -> {to}"),
        }
        assert!(into.verdict().starts_with("ok "), "{}", into.verdict());
    };
    let body = r#"{\"n\":2}"#;
    let deep = "[".repeat(200) + &"]".repeat(200);
    // The control: a body that can be read.
    check(body, r#"{\"n\":7}"#, "");
    check(body, r#"{\"n\":2"#, "export_invalid line=4");
    check(body, "", "export_invalid line=4");
    check(body, "text", "export_invalid line=4");
    check(body, &deep, "export_invalid line=4");
    let header = r#"\"seq\":2,\"time_us\":"#;
    check(header, r#"\"seq\":2,\"time_us\":-"#, "export_invalid line=4");
    check(header, r#"\"seq\":2,\"time\":"#, "export_invalid line=4");
    check(header, r#"\"seq\":2,\"seq\":2,\"time_us\":"#, "export_invalid line=4");
    check(header, r#"\"seq\":3,\"time_us\":"#, "export_invalid line=4");
}

/// The failure that this keeps away: a file that is a session `s_log` would end all that a log tells of itself.
#[test]
fn nothing_comes_in_the_place_of_what_is_the_logs_own() {
    let from = Fixture::of_events(3);
    from.log().create_branch(fork("b_early", "b_main", 2)).unwrap();
    let text = whole(from.log());
    let check = |from: &str, to: &str, expected: Option<&str>| {
        let forged = forged(&text.replace(from, to), "export", "export");
        check_export(forged.as_bytes()).unwrap();
        let into = stranger();
        let found = into.log().import_session(&mut file_of(&forged), new_import("told"));
        assert_eq!(found.map_err(|error| error.code()).err(), expected, "{from} -> {to}");
        into.log().note(draft(1), None).unwrap();
        assert!(into.log().verify().unwrap().is_ok());
    };
    check("s_1", "s_other", None);
    check("s_1", "s_log", Some("session_exists"));
    check("b_early", "b_log", Some("branch_exists"));
    // Nor may it be what says who may use a server.
    check("s_1", "s_access", Some("session_exists"));
    check("b_early", "b_access", Some("branch_exists"));
}

/// An event of an import excuses nothing that is gone elsewhere.
#[test]
fn what_an_import_says_was_erased_is_its_own() {
    let text = whole(lived().log());
    let mine = Digest::of(b"mine");
    let more = |at: &str, more: &str| {
        let forged = forged(&text, at, &format!("{at},{more}"));
        check_export(forged.as_bytes()).unwrap();
        forged
    };
    let events = r#"{\"branch\":\"b_side\",\"seq\":3}"#;
    let reaching = more(events, &events.replace("b_side", "b_own").replace('3', "1"));
    let mut into = stranger();
    let found = into.log().import_session(&mut file_of(&reaching), new_import("told"));
    assert_eq!(refusal(found, ""), "export_invalid");

    let log = into.log();
    assert_eq!(log.put_blob(b"mine").unwrap(), mine);
    let naming = Draft::new(Kind::Heartbeat, &json!({ "blob": mine }));
    log.append(Append::new(session("s_own"), branch("b_own"), vec![naming])).unwrap();
    let gone = format!(r#"\"blobs\":[\"{}\""#, Digest::of(b"secret"));
    let reaching = more(&gone, &format!(r#"\"{mine}\""#));
    log.import_session(&mut file_of(&reaching), new_import("told")).unwrap();
    log.sign_head().unwrap();
    assert!(verdict(&log.verify().unwrap()).starts_with("ok "), "the control: it is there");
    fs::remove_file(blob_file(into.path(), &mine)).unwrap();
    assert_eq!(
        into.verdict(),
        format!("hash_mismatch b_own 1: expected blob {mine}, found no such blob")
    );
}

/// Neighbours are named as a range; an export that did not know ranges was no export.
#[test]
fn a_session_with_erased_neighbours_goes_out_and_in() {
    let from = Fixture::of_events(6);
    from.log().erase(erase(&[("b_main", 2), ("b_main", 3), ("b_main", 4)], &[])).unwrap();
    from.log().erase(erase(&[("b_main", 6)], &[])).unwrap();
    let text = whole(from.log());
    assert_eq!(check_export(text.as_bytes()).unwrap().events, 8);
    let mut into = stranger();
    into.log().import_session(&mut file_of(&text), new_import("told")).unwrap();
    assert_eq!(into.verdict(), "ok 10 erased 4+0");
    let unsaid = forged(&text, r#"\"from\":2"#, r#"\"from\":3"#);
    assert_eq!(refusal(check_export(unsaid.as_bytes()), "line"), "export_invalid line=4");
}

/// An export without its blobs comes in; what it lacks is named, is no damage, and comes later.
#[test]
fn blobs_that_an_export_lacks_are_named_and_come_later() {
    let from = lived();
    let within = from.log().put_blob(b"within").unwrap();
    let manifest = from.log().put_blob(manifest_of(&[within]).as_bytes()).unwrap();
    let sealed = Draft::new(Kind::Heartbeat, &json!({ "manifest": { "blob": manifest } }));
    from.log().append(Append::new(session("s_1"), branch("b_main"), vec![sealed])).unwrap();
    let (mut text, mut bare) = (Vec::new(), Vec::new());
    from.log().export_session(&session("s_1"), ExportBlobs::All, &mut text).unwrap();
    from.log().export_session(&session("s_1"), ExportBlobs::None, &mut bare).unwrap();
    let text = String::from_utf8(text).unwrap();
    let bare = String::from_utf8(bare).unwrap();
    let content = Digest::of(b"content");
    let lacked = BTreeSet::from([content, manifest]).into_iter().collect::<Vec<_>>();
    let mut into = stranger();
    let log = into.log();
    let imported = log.import_session(&mut file_of(&bare), new_import("told")).unwrap();
    assert_eq!((imported.is_new, &imported.missing_blobs), (true, &lacked));
    assert_eq!(log.blob(&content).unwrap_err().code(), "blob_not_found");
    assert!(into.verdict().ends_with("erased 2+1"), "{}", into.verdict());
    assert_eq!(missing(&into), 2);
    // A manifest that comes alone excuses the files that it names.
    into.open().put_blob(manifest_of(&[within]).as_bytes()).unwrap();
    assert_eq!(missing(&into), 1);
    // No other session is excused by that.
    let log = into.open();
    let naming = Draft::new(Kind::Heartbeat, &json!({ "blob": content }));
    log.create_branch(root("s_else", "b_else")).unwrap();
    log.append(Append::new(session("s_else"), branch("b_else"), vec![naming])).unwrap();
    assert!(into.verdict().starts_with("hash_mismatch b_else 1"), "{}", into.verdict());
    // The same file again brings nothing; the whole one brings what was missing, once.
    let log = into.open();
    let again = |text: &str, found: u64, missing: &[Digest]| {
        let again = log.import_session(&mut file_of(text), new_import("again")).unwrap();
        assert_eq!((again.is_new, again.found_blobs), (false, found));
        assert_eq!(again.missing_blobs, missing);
    };
    again(&bare, 0, &[content]);
    again(&text, 2, &[]);
    assert_eq!(log.blob(&within).unwrap(), b"within");
    again(&text, 0, &[]);
    assert_eq!(log.blob(&content).unwrap(), b"content");
    let mut out = Vec::new();
    log.export_session(&session("s_1"), ExportBlobs::All, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), text, "and it goes out as it came");
    assert!(into.verdict().starts_with("ok "), "{}", into.verdict());
    assert_eq!(missing(&into), 0);
    // What is missing cannot be said to be, once who says so is gone.
    let log = into.open();
    let told = erase(&[("b_told", 2)], &[]);
    let told =
        glasshouse_log::Erase { session: session("s_told"), branch: branch("b_told"), ..told };
    assert_eq!(refusal(log.erase(told), ""), "append_invalid");
}

fn missing(fixture: &Fixture) -> u64 {
    match glasshouse_log::verify_home(fixture.path(), &TenantId::local()).unwrap() {
        glasshouse_log::Verification::Sound(sound) => sound.missing_blobs,
        glasshouse_log::Verification::Broken(broken) => panic!("{broken:?}"),
    }
}

/// A file that only a manifest names is missing as well.
#[test]
fn files_of_a_seal_that_an_export_lacks_are_named() {
    let from = Fixture::of_events(1);
    let log = from.log();
    let files = [b"one", b"two"].map(|file| log.put_blob(file).unwrap());
    let manifest = log.put_blob(manifest_of(&files).as_bytes()).unwrap();
    let sealed = Draft::new(Kind::Heartbeat, &json!({ "manifest": { "blob": manifest } }));
    log.append(Append::new(session("s_1"), branch("b_main"), vec![sealed])).unwrap();
    fs::remove_file(blob_file(from.path(), &files[0])).unwrap();
    let mut text = Vec::new();
    let written = log.export_session(&session("s_1"), ExportBlobs::All, &mut text).unwrap();
    assert_eq!((written.blobs, written.absent_blobs), (2, 1), "the export tells of it");
    let text = String::from_utf8(text).unwrap();
    let check = |is_here: bool, expected: &[Digest]| {
        let into = stranger();
        if is_here {
            into.log().put_blob(b"one").unwrap();
        }
        let imported = into.log().import_session(&mut file_of(&text), new_import("told")).unwrap();
        assert_eq!(imported.missing_blobs, expected);
        assert_eq!(missing(&into), expected.len() as u64);
    };
    check(false, &files[..1]);
    check(true, &[]);
}

/// A blob that was erased here is not brought back by the file that it once came with.
#[test]
fn an_import_brings_back_nothing_that_was_erased_here() {
    let text = whole(lived().log());
    let into = stranger();
    let log: &Log = into.log();
    log.import_session(&mut file_of(&text), new_import("told")).unwrap();
    let own = log.append(Append::new(session("s_own"), branch("b_own"), vec![draft(1)])).unwrap();
    assert_eq!(own.head.seq, 1);
    let content = Digest::of(b"content");
    let gone = glasshouse_log::Erase {
        session: session("s_own"),
        branch: branch("b_own"),
        ..erase(&[], &[content])
    };
    log.erase(gone).unwrap();
    assert!(!log.import_session(&mut file_of(&text), new_import("again")).unwrap().is_new);
    assert_eq!(log.blob(&content).unwrap_err().code(), "blob_not_found");
    assert!(log.verify().unwrap().is_ok());
    assert!(log.append(numbered("b_main", 1)).is_err());
}
