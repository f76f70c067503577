//! Where a tenant's sessions work, looked at when they do and not only when they begin.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::client::Served;
use crate::harness::Place;
use crate::world::{As, key, tenant};

const TALK: &str = "version: 1
steps:
  - emit: [ { text: \"Hello.\" } ]
  - emit: [ { text: \"Again.\" } ]
";

/// A test that fails, and what it wants.
const WORK: &str = "version: 1
steps:
  - emit:
      - { call: { id: a, tool: plan.complete, args: { summary: 'Print a second line' } } }
  - emit:
      - { call: { id: b, tool: fs.write, args: { path: tests/t_two.sh, content: '[ \"$(sh src/tool.sh | tail -1)\" = two ]' } } }
      - { call: { id: c, tool: test.run, args: {} } }
  - emit:
      - { call: { id: d, tool: fs.write, args: { path: src/tool.sh, content: \"echo one\\necho two\\n\" } } }
      - { call: { id: f, tool: test.run, args: {} } }
  - emit: [ { text: Done. } ]
";

fn git(at: &Path, arguments: &[&str]) {
    let done = Command::new("git").args(["-C", &at.display().to_string()]).args(arguments).output();
    assert!(done.unwrap().status.success(), "git {arguments:?}");
}

type Change = dyn Fn(&Place, &Path, &Path);

/// Begins a session of a tenant, changes something on the disk, and goes on with the session. `change` gets the
/// tenant's project and another tenant's.
fn check(change: &Change, may_go_on: bool) {
    let place = Place::new();
    let (acme, other) = (tenant(&place, "acme", &[]), tenant(&place, "other", &[]));
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let session = admin.session(&acme, TALK);
    change(&place, &acme, &other);
    let turns = format!("/v1/sessions/{session}/turns");
    let answer = admin.post(&turns, &json!({ "message": "hello" }));
    if may_go_on {
        answer.expect(202);
    } else {
        assert_eq!((answer.status, answer.code()), (403, "project_elsewhere".to_owned()));
    }
    // A new session is held to the same.
    let body = json!({ "project": acme, "provider": "scripted", "scenario": TALK });
    let status = admin.post("/v1/sessions", &body).status;
    assert_eq!(status, if may_go_on { 201 } else { 403 });
}

/// The failure: a project was compared with the tenant's directories when its session began and never again. One
/// that was swapped for a link, also by a merge of another session, showed files of the host and of other tenants,
/// and took commits for them.
#[test]
fn a_session_does_not_follow_its_project_out_of_the_tenants_directories() {
    check(&|_, _, _| {}, true);
    check(
        &|_, acme, other| {
            fs::rename(acme, acme.with_extension("aside")).unwrap();
            symlink(other, acme).unwrap();
        },
        false,
    );
    check(
        &|place, _, _| {
            let root = place.path("another");
            fs::create_dir(&root).unwrap();
            let root = root.display().to_string();
            place.run(&["tenants", "update", "acme", "--root", &root]).expect_status(0);
        },
        false,
    );
}

/// The failure: the repository of a project was not looked at, so a commit went into another tenant's, or the
/// host's, by where `.git` points, by links in it, and by what it borrows.
#[test]
fn a_session_does_not_follow_its_repository_out_of_the_tenants_directories() {
    check(
        &|_, acme, other| {
            fs::remove_dir_all(acme.join(".git")).unwrap();
            let pointer = format!("gitdir: {}\n", other.join(".git").display());
            fs::write(acme.join(".git"), pointer).unwrap();
        },
        false,
    );
    check(
        &|_, acme, other| {
            let refs = acme.join(".git/refs");
            fs::remove_dir_all(&refs).unwrap();
            symlink(other.join(".git/refs"), refs).unwrap();
        },
        false,
    );
    check(
        &|_, acme, other| {
            let objects = other.join(".git/objects").display().to_string();
            fs::write(acme.join(".git/objects/info/alternates"), objects + "\n").unwrap();
        },
        false,
    );
    check(
        &|_, acme, _| {
            fs::remove_dir_all(acme.join(".git")).unwrap();
            git(acme.parent().unwrap().parent().unwrap(), &["init", "-q"]);
        },
        false,
    );
    // The control: a linked work tree of a repository that is open to the tenant, too.
    check(
        &|_, acme, _| {
            let linked = acme.with_file_name("linked");
            git(acme, &["worktree", "add", "-q", "--detach", &linked.display().to_string()]);
            let main = acme.with_file_name("main");
            fs::rename(acme, &main).unwrap();
            fs::rename(&linked, acme).unwrap();
            git(&main, &["worktree", "repair", &acme.display().to_string()]);
        },
        true,
    );
}

/// The failure: a link that one session merged led a project of another session, which lies behind it, to the host's
/// files.
#[test]
fn a_tenants_link_that_may_lead_out_is_not_merged() {
    let check = |target: &str, merged: bool| {
        let place = Place::new();
        let project = place.shell_project();
        let root = project.display().to_string();
        place.run(&["tenants", "create", "acme", "--root", &root]).expect_status(0);
        let served = Served::new(&place);
        let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
        let line = format!(
            "      - {{ call: {{ id: l, tool: shell.run, args: {{ script: 'ln -s {target} tests/link' }} }} }}\n"
        );
        let work = WORK.replacen(
            "      - { call: { id: c, tool",
            &(line + "      - { call: { id: c, tool"),
            1,
        );
        let session = admin.session(&project, &work);
        let until = if merged { "approval.requested" } else { "turn.failed" };
        let told = admin.turn(&session, "print two", until);
        let end = told.last().unwrap();
        if !merged {
            assert_eq!(end["body"]["code"], "change_denied", "{end}");
        }
        assert!(project.join("tests/link").symlink_metadata().is_err());
    };
    check("/etc", false);
    check("../..", false);
    // The control: a person is asked about one that stays inside.
    check("../src", true);
}

/// The failure: a project's configuration named a server for a model, and the host asked it: its own loopback,
/// or whatever only it can reach; the answer told what was found there.
#[test]
fn a_tenants_project_names_no_server_for_a_model() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let start = |settings: &str| {
        fs::create_dir_all(acme.join(".glasshouse")).unwrap();
        fs::write(acme.join(".glasshouse/config.yaml"), settings).unwrap();
        let session = admin.post("/v1/sessions", &json!({ "project": acme }));
        let prompt = json!({ "project": acme, "prompt": "a counter" });
        (session, admin.post("/v1/plans/prompt", &prompt))
    };
    let (session, prompt) =
        start("provider: openai-compatible\nbase_url: http://127.0.0.1:9/v1\nmodel: m\n");
    for answer in [session, prompt] {
        assert_eq!((answer.status, answer.code()), (403, "tenant_restricted".to_owned()));
    }
    // The control: a model of a server that everybody knows.
    let (session, _) = start("provider: ollama\nmodel: m\n");
    session.expect(201);
}

/// The failure: a directory of settings that is a link was followed, and errors and views quoted the file
/// of another tenant.
#[test]
fn settings_and_rules_of_a_project_are_its_own() {
    let place = Place::new();
    let (acme, other) = (tenant(&place, "acme", &[]), tenant(&place, "other", &[]));
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    fs::create_dir_all(other.join(".glasshouse")).unwrap();
    fs::write(other.join(".glasshouse/policy.yaml"), "hidden: mark-of-other\n").unwrap();
    fs::write(other.join(".glasshouse/config.yaml"), "hidden: mark-of-other\n").unwrap();
    let _ = fs::remove_dir_all(acme.join(".glasshouse"));
    symlink(other.join(".glasshouse"), acme.join(".glasshouse")).unwrap();
    let shown = admin.get(&format!("/v1/policy?project={}", acme.display()));
    let begun = admin.post("/v1/sessions", &json!({ "project": acme, "provider": "scripted" }));
    for answer in [shown, begun] {
        assert_eq!(answer.code(), "input_unreadable", "{}", answer.text());
        let text = answer.text();
        assert!(!text.contains("mark-of-other") && !text.contains("hidden"), "{text}");
    }
}
