//! Sessions that leave the log, and copies of the database to come back to.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use glasshouse_log::{Append, CellWrite, ExportBlobs, KEPT_BACKUPS, Log, NewImport, check_export};
use glasshouse_model::event::{body_hash, event_hash};
use glasshouse_model::{Actor, Digest, Draft, Kind, TenantId};
use serde_json::{Value, json};

use crate::support::{
    Fixture, ManualClock, branch, draft, erase, fork, manifest_of, merge, numbered, numbers,
    refusal, root, session, verdict,
};

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
    let written = log.export_session(&session("s_1"), ExportBlobs::None, &mut out).unwrap();
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
    check("s_1", "s_9", 3);
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
    let nobody = fixture.log().export_session(&session("s_9"), ExportBlobs::None, &mut Vec::new());
    assert_eq!(refusal(nobody, ""), "branch_not_found");
}

/// An export with every hash made anew after a change of what one line says: what a forger can do who
/// has no key.
pub(crate) fn forged(text: &str, from: &str, to: &str) -> String {
    let mut anew: BTreeMap<Digest, Digest> = BTreeMap::new();
    let (mut digest, mut out) = (Digest::ZERO, String::new());
    assert!(text.contains(from), "{from} is in it");
    for line in text.replacen(from, to, 1).lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if let Some(end) = line.get_mut("end") {
            end["digest"] = json!(digest);
        }
        if let Some(event) = line.get_mut("event").filter(|event| event["body"].is_string()) {
            let header: Value = serde_json::from_str(text_of(event, "header")).unwrap();
            let salt = text_of(event, "salt").to_owned();
            let salt: Vec<u8> = (0..16)
                .map(|at| u8::from_str_radix(&salt[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            let body = text_of(event, "body").as_bytes().to_vec();
            let hash = body_hash(salt[..].try_into().unwrap(), &body).to_string();
            let header = text_of(event, "header").replace(text_of(&header, "body_hash"), &hash);
            event["header"] = json!(header);
        }
        if let Some(event) = line.get_mut("event") {
            let prev: Digest = text_of(event, "prev").parse().unwrap();
            let prev = anew.get(&prev).copied().unwrap_or(prev);
            let old: Digest = text_of(event, "hash").parse().unwrap();
            let hash = event_hash(&prev, text_of(event, "header").as_bytes());
            (event["prev"], event["hash"]) = (json!(prev), json!(hash));
            anew.insert(old, hash);
        }
        let line = line.to_string() + "\n";
        digest = Digest::of_parts(&[b"glasshouse/export/v1\0", digest.as_bytes(), line.as_bytes()]);
        out += &line;
    }
    out
}

fn text_of<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap()
}

/// The second parent of a merge is proved like the first.
#[test]
fn an_exported_merge_names_the_end_of_its_source() {
    let fixture = Fixture::of_events(3);
    let log = fixture.log();
    log.create_branch(fork("b_side", "b_main", 2)).unwrap();
    let source = log.append(numbered("b_side", 30)).unwrap().head;
    log.merge(merge("b_side", source, "b_main", 3)).unwrap();
    log.create_branch(fork("b_late", "b_side", 3)).unwrap();
    log.append(numbered("b_late", 31)).unwrap();
    let mut out = Vec::new();
    log.export_session(&session("s_1"), ExportBlobs::None, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(check_export(text.as_bytes()).is_ok());
    let check = |from: &str, to: &str, expected: &str| {
        let found = check_export(forged(&text, from, to).as_bytes());
        assert_eq!(refusal(found, "line"), expected, "{from} -> {to}");
    };
    let same = forged(&text, "\\\"n\\\":31", "\\\"n\\\":32");
    assert!(check_export(same.as_bytes()).is_ok(), "the control: a forger makes all hashes anew");
    check("\\\"source_seq\\\":3", "\\\"source_seq\\\":2", "export_invalid line=6");
    check("\\\"base_seq\\\":2", "\\\"base_seq\\\":1", "export_invalid line=6");
    let other = format!("\\\"source_hash\\\":\\\"{}", Digest::of(b"other"));
    let hash = format!("\\\"source_hash\\\":\\\"{}", source.hash);
    check(&hash, &other, "export_invalid line=6");
    check("\\\"source\\\":\\\"b_side", "\\\"source\\\":\\\"b_late", "export_invalid line=6");
    check("\"state\":\"merged\"", "\"state\":\"open\"", "export_invalid line=6");
    check(
        "\"parent\":null,\"state\":\"open\"",
        "\"parent\":null,\"state\":\"merged\"",
        "export_invalid line=2",
    );
    check("\"name\":\"b_late\"", "\"name\":\"b_side\"", "export_invalid line=9");
    check("\"state\":\"merged\"", "\"state\":\"lost\"", "export_invalid line=7");
}

/// Content goes with the events that name it, whole and in order.
#[test]
fn exported_blobs_have_the_digests_that_name_them() {
    let fixture = Fixture::of_events(1);
    let log = fixture.log();
    let large: Vec<u8> = (0..2_500_000_u32).flat_map(|n| n.to_le_bytes()).take(2_500_000).collect();
    let inner = log.put_blob(b"named in a blob").unwrap();
    let blobs = [log.put_blob(&large), log.put_blob(b"")];
    let named = blobs.map(|blob| json!({"blob": blob.unwrap()}));
    let manifest = log.put_blob(manifest_of(&[inner]).as_bytes()).unwrap();
    let naming = json!({"n": 2, "all": named, "manifest": {"blob": manifest}});
    let naming = Draft::new(Kind::Heartbeat, &naming);
    log.append(Append::new(session("s_1"), branch("b_main"), vec![naming])).unwrap();
    let mut out = Vec::new();
    let written = log.export_session(&session("s_1"), ExportBlobs::All, &mut out).unwrap();
    assert_eq!((written.events, written.blobs, written.absent_blobs), (2, 4, 0));
    assert_eq!(check_export(out.as_slice()).unwrap(), written);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 2 + 2 + 3 + 3 + 1, "a large blob has three parts");
    let check = |change: &dyn Fn(&mut Vec<&str>)| {
        let mut lines: Vec<_> = text.lines().collect();
        change(&mut lines);
        let changed = lines.join("\n") + "\n";
        let found = check_export(forged(&changed, "export", "export").as_bytes());
        assert_eq!(refusal(found, ""), "export_invalid");
    };
    let is_large = |line: &&str| line.contains("\"bytes\":2500000");
    let first_of_large = text.lines().position(|line| is_large(&line)).unwrap();
    check(&|lines| lines.truncate(first_of_large));
    check(&|lines| {
        lines.remove(first_of_large);
    });
    check(&|lines| {
        lines.remove(first_of_large + 2);
    });
    check(&|lines| lines.swap(first_of_large, first_of_large + 1));
    check(&|lines| lines.insert(4, lines[lines.len() - 2]));
    check(&|lines| lines.insert(lines.len() - 1, lines[lines.len() - 2]));
    check(&|lines| lines.swap(3, 4));
    let empty = Digest::of(b"").to_string();
    let named = format!("{{\"blob\":{{\"digest\":\"{empty}");
    let other = named.replace(&empty, &Digest::of(b"x").to_string());
    let found = check_export(forged(&text, &named, &other).as_bytes());
    assert_eq!(refusal(found, ""), "export_invalid", "another content's name");
    let path = text.replacen(
        &format!("{{\"blob\":{{\"digest\":\"{}", &empty[..7]),
        "{\"blob\":{\"digest\":\"../../",
        1,
    );
    assert_eq!(refusal(check_export(path.as_bytes()), ""), "export_invalid", "a name is a digest");
}

pub(crate) fn file_of(text: &str) -> fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// A log with another session than those that are imported.
pub(crate) fn stranger() -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let log = Log::open(home.path(), &TenantId::local()).unwrap();
    log.create_branch(root("s_own", "b_own")).unwrap();
    Fixture { home, log: Some(log) }
}

pub(crate) fn new_import(name: &str) -> NewImport {
    NewImport {
        told: root(&format!("s_{name}"), &format!("b_{name}")),
        before: vec![draft(1)],
        actor: Actor::kernel(),
    }
}

pub(crate) fn whole(log: &Log) -> String {
    let mut out = Vec::new();
    log.export_session(&session("s_1"), ExportBlobs::All, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A log with a session that was forked, merged and erased, and whose events name cells and blobs.
pub(crate) fn lived() -> Fixture {
    let fixture = Fixture::of_events(3);
    let log = fixture.log();
    let blob = log.put_blob(b"content").unwrap();
    let gone = log.put_blob(b"secret").unwrap();
    let naming =
        Draft::new(Kind::Heartbeat, &json!({"n": 4, "of": [{"blob": blob}, {"blob": gone}]}));
    let cell = CellWrite {
        space: "grant".into(),
        key: "k".into(),
        expected_version: None,
        bytes: Some(b"right".to_vec()),
    };
    let append = Append::new(session("s_1"), branch("b_main"), vec![naming]);
    log.append(Append { cells: vec![cell], idempotency_key: Some("k".into()), ..append }).unwrap();
    log.create_branch(fork("b_side", "b_main", 2)).unwrap();
    let source = log.append(numbered("b_side", 30)).unwrap().head;
    log.create_branch(fork("b_early", "b_side", 1)).unwrap();
    log.merge(merge("b_side", source, "b_main", 4)).unwrap();
    log.create_branch(fork("b_ended", "b_main", 5)).unwrap();
    log.close_branch(&branch("b_ended")).unwrap();
    let later = Draft::new("later.happened".parse().unwrap(), &json!({"n": [1.50, "\u{1f980}"]}));
    log.append(Append::new(session("s_1"), branch("b_main"), vec![later])).unwrap();
    log.erase(erase(&[("b_main", 2), ("b_side", 3)], &[gone])).unwrap();
    fixture
}

/// What goes out comes in with its hashes, proves itself there, takes no events, gives no cell, and
/// goes out again byte for byte.
#[test]
fn a_session_that_is_imported_is_what_was_exported() {
    let from = lived();
    let text = whole(from.log());
    let memory = Log::in_memory(&TenantId::local(), Arc::new(ManualClock::default())).unwrap();
    let mut into = stranger();
    let check = |log: &Log| {
        let imported = log.import_session(&mut file_of(&text), new_import("told")).unwrap();
        assert!(imported.is_new && imported.branches == 4, "{imported:?}");
        assert_eq!(imported.exported, check_export(text.as_bytes()).unwrap());
        assert_eq!(whole(log), text);
        for row in log.branches(&session("s_1")).unwrap() {
            let there = from.log().branch(&row.branch).unwrap();
            assert_eq!((row.head, row.fork, row.state), (there.head, there.fork, there.state));
            let bodies = |log: &Log| -> Vec<_> {
                log.events(&row.branch).map(|event| event.unwrap().body).collect()
            };
            assert_eq!(bodies(log), bodies(from.log()), "{}", row.branch);
            let append = log.append(numbered(row.branch.as_str(), 9));
            assert_eq!(append.unwrap_err().code(), "branch_read_only");
            log.close_branch(&row.branch).unwrap();
        }
        assert_eq!(log.cell("grant", "k").unwrap(), None, "no right comes with it");
        let told = log.read(&branch("b_told"), 1, 9).unwrap();
        let kinds: Vec<_> = told.iter().map(|event| event.kind().as_str()).collect();
        assert_eq!(kinds, ["heartbeat", "session.imported"]);
        // Again: nothing happens.
        let again = log.import_session(&mut file_of(&text), new_import("again")).unwrap();
        assert!(!again.is_new);
        assert_eq!(log.sessions().unwrap().len(), log_sessions(log));
        log.sign_head().unwrap();
        let expected = format!("ok {} erased 2+1", imported.exported.events + 2);
        assert_eq!(verdict(&log.verify().unwrap()), expected);
        let main = log.head(&branch("b_main")).unwrap();
        log.prove(&branch("b_main"), main.seq).unwrap();
        // A fork goes its own way; then the export is this log's.
        log.create_branch(fork("b_new", "b_main", 3)).unwrap();
        log.append(numbered("b_new", 40)).unwrap();
        let ours = whole(log);
        assert!(ours.contains(&log.public_key().unwrap().to_string()) && ours != text);
        check_export(ours.as_bytes()).unwrap();
        assert!(!log.import_session(&mut file_of(&text), new_import("more")).unwrap().is_new);
        log.sign_head().unwrap();
        assert!(log.verify().unwrap().is_ok());
    };
    check(&memory);
    check(into.log());
    assert_eq!(into.open().branch(&branch("b_main")).unwrap().why_ended(), Some("it was imported"));
    assert!(into.verdict().starts_with("ok "), "{}", into.verdict());
    // Into the log that it comes from: it is there.
    let here = from.log().import_session(&mut file_of(&text), new_import("here")).unwrap();
    assert!(!here.is_new);
}

fn log_sessions(log: &Log) -> usize {
    // `s_1`, `s_told`, and what was there before.
    2 + usize::from(log.branch(&branch("b_own")).is_ok())
}

/// A file that does not prove itself, or stands in the way of what is there, changes nothing.
#[test]
fn what_cannot_be_imported_is_refused_and_leaves_nothing() {
    let from = lived();
    let text = whole(from.log());
    let check = |text: &str, expected: &str| {
        let mut into = stranger();
        let found = into.log().import_session(&mut file_of(text), new_import("told"));
        assert_eq!(refusal(found, ""), expected);
        assert_eq!(into.log().sessions().unwrap().len(), 1);
        into.log().create_branch(root("s_after", "b_after")).unwrap();
        assert_eq!(into.verdict(), "ok 0", "the log goes on");
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let changed = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        change(&mut lines);
        lines.concat()
    };
    for at in 0..lines.len() {
        check(&changed(&|lines| drop(lines.remove(at))), "export_invalid");
        check(&changed(&|lines| lines.insert(at, lines[at].clone())), "export_invalid");
        let half = lines[at].len() / 2;
        check(&changed(&|lines| lines[at].truncate(half)), "export_invalid");
        if at > 0 {
            check(&changed(&|lines| lines.swap(at - 1, at)), "export_invalid");
        }
    }
    check(&format!("{text}{{}}\n"), "export_invalid");
    check(&format!("{text}\n"), "export_invalid");
    check(&text.replacen("{\"event\":", "{\"row\":", 1), "export_invalid");
    check("", "export_invalid");
    check(&"x".repeat(9 << 20), "export_invalid");
    check(&forged(&text, "\"tenant\":\"local\"", "\"tenant\":\"other\""), "tenant_mismatch");
    // A forger who makes all hashes anew still cannot take a body away.
    let bodiless = changed(&|lines| {
        let at = lines.iter().position(|line| line.contains("{\\\"n\\\":1}")).unwrap();
        let mut event: Value = serde_json::from_str(&lines[at]).unwrap();
        (event["event"]["salt"], event["event"]["body"]) = (Value::Null, Value::Null);
        lines[at] = format!("{event}\n");
    });
    check(&forged(&bodiless, "export", "export"), "export_invalid");
    // Forks of forks as deep as a log takes them, and one more.
    let deep = |depth: u64| {
        let fixture = Fixture::of_events(1);
        let log = fixture.log();
        for n in 1..=depth.min(64) {
            let parent = if n == 1 { "b_main".to_owned() } else { format!("b_{}", n - 1) };
            log.create_branch(fork(&format!("b_{n}"), &parent, n)).unwrap();
            log.append(numbered(&format!("b_{n}"), n + 1)).unwrap();
        }
        let text = whole(log);
        if depth <= 64 {
            return text;
        }
        let more = json!({"branch": {"branch": "b_65", "name": "b_65", "parent": ["b_64", 65], "state": "open"}});
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.insert(lines.len() - 1, more.to_string());
        forged(&(lines.join("\n") + "\n"), "export", "export")
    };
    check(&deep(65), "export_invalid");
    let mut into = stranger();
    assert!(into.log().import_session(&mut file_of(&deep(64)), new_import("told")).unwrap().is_new);
    assert!(into.verdict().starts_with("ok "));

    let taken = Fixture::of_events(2);
    let found = taken.log().import_session(&mut file_of(&text), new_import("told"));
    assert_eq!(refusal(found, ""), "session_exists");
    let branch_taken = stranger();
    branch_taken.log().create_branch(root("s_2", "b_side")).unwrap();
    let found = branch_taken.log().import_session(&mut file_of(&text), new_import("told"));
    assert_eq!(refusal(found, ""), "branch_exists");
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
