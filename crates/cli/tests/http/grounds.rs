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

/// The failure: the directory that a client named decided which policy there is: what the accepted policy of a project
/// denies was done by naming a directory in it, and `.git/hooks` was one like all others.
#[test]
fn a_directory_whose_policy_lies_above_is_no_project_of_a_client() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    for dir in ["packages/foo", ".glasshouse/deep", "own"] {
        fs::create_dir_all(acme.join(dir)).unwrap();
        fs::create_dir_all(acme.join(dir).join(".glasshouse")).unwrap();
        let config = acme.join(".glasshouse/config.yaml");
        fs::copy(config, acme.join(dir).join(".glasshouse/config.yaml")).unwrap();
    }
    git(&acme.join("own"), &["init", "-q"]);
    symlink("../.git/hooks", acme.join("packages/hooks")).unwrap();
    let deny = "{ name: frozen, match: { syscall: git.commit }, action: deny, reason: frozen }";
    place.accept_rule(&acme, deny);
    let bare = place.path("acme/bare.git");
    git(&acme, &["clone", "-q", "--bare", ".", &bare.display().to_string()]);
    let served = Served::new(&place);
    let operator = As { served: &served, key: key(&place, "acme", &["operator"], &[]) };
    let approver = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let local = As { served: &served, key: key(&place, "local", &["admin"], &[]) };
    let check = |named: &Path, refused: bool| {
        let body = json!({ "project": named, "provider": "scripted", "scenario": TALK });
        let call = json!({ "project": named, "call": { "syscall": "fs.read", "path": "x" } });
        let file = json!({ "project": named, "policy": "capabilities: []\n" });
        let tried = json!({ "project": named, "policy": "capabilities: []\n",
            "call": { "syscall": "fs.read", "path": "x" } });
        let prompt = json!({ "project": named, "prompt": "a counter", "provider": "scripted",
            "scenario": TALK });
        let mut answers = vec![
            approver.get(&format!("/v1/policy?project={}", named.display())),
            approver.post("/v1/policy/check", &call),
            approver.post("/v1/policy/explain", &call),
            approver.post("/v1/policy/check", &tried),
            approver.post("/v1/policy/propose", &file),
            operator.post("/v1/sessions", &body),
            approver.post("/v1/sessions", &body),
            local.post("/v1/sessions", &body),
        ];
        if refused {
            answers.push(operator.post("/v1/plans/prompt", &prompt));
        }
        for (row, answer) in answers.iter().enumerate() {
            let is_refused = (answer.status, answer.code()) == (403, "project_inside".to_owned());
            let is_done = answer.status < 300;
            let found = (is_refused, is_done);
            assert_eq!(found, (refused, !refused), "{named:?} {row}: {}", answer.text());
        }
    };
    for named in
        ["packages/foo", "packages", ".git", ".git/hooks", ".glasshouse", ".glasshouse/deep"]
    {
        check(&acme.join(named), true);
    }
    check(&acme.join("packages/hooks"), true);
    check(&bare, true);
    check(&bare.join("hooks"), true);
    // The controls: the top, and a repository of its own in it.
    check(&acme, false);
    check(&acme.join("own"), false);
}

/// A tenant learns that a policy above its directories decides, and not where it lies.
#[test]
fn a_policy_above_a_tenants_directories_is_not_named() {
    let check = |policy: Option<&str>, status: u16| {
        let place = Place::new();
        let project = tenant(&place, "acme", &[]);
        fs::remove_dir_all(project.join(".git")).unwrap();
        if let Some(at) = policy {
            fs::create_dir_all(place.path(at).join(".glasshouse")).unwrap();
            fs::write(place.path(at).join(".glasshouse/policy.yaml"), "capabilities: []\n")
                .unwrap();
        }
        let served = Served::new(&place);
        let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
        let body = json!({ "project": project, "provider": "scripted", "scenario": TALK });
        let answer = admin.post("/v1/sessions", &body);
        assert_eq!(answer.status, status, "{}", answer.text());
        (place, answer.text())
    };
    check(None, 201);
    let (_, text) = check(Some("elsewhere"), 201);
    assert!(!text.contains("project_inside"));
    let (place, text) = check(Some(""), 403);
    let above = place.path("").canonicalize().unwrap().display().to_string();
    let told = text.replace(&format!("{}/acme", above.trim_end_matches('/')), "");
    assert!(text.contains("project_inside") && !told.contains(&above), "{text}");
    let (place, text) = check(Some("acme"), 403);
    let named = place.path("acme").canonicalize().unwrap().display().to_string();
    assert!(text.contains(&format!("work in {named}:")), "{text}");
}

/// A session that the server has is held to what comes to lie above or in its project.
#[test]
fn what_comes_to_lie_above_or_in_a_project_counts_for_its_sessions() {
    let check = |change: &dyn Fn(&Path), code: Option<&str>| {
        let place = Place::new();
        let acme = tenant(&place, "acme", &[]);
        let served = Served::new(&place);
        let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
        let session = admin.session(&acme, TALK);
        change(&acme);
        let turns = format!("/v1/sessions/{session}/turns");
        let answer = admin.post(&turns, &json!({ "message": "hello" }));
        let found = (answer.status, (answer.status >= 300).then(|| answer.code()));
        let expected = (if code.is_some() { 403 } else { 202 }, code.map(str::to_owned));
        assert_eq!(found, expected, "{}", answer.text());
    };
    let policy = |dir: &Path| {
        fs::create_dir_all(dir.join(".glasshouse")).unwrap();
        fs::write(dir.join(".glasshouse/policy.yaml"), "capabilities: []\n").unwrap();
    };
    check(&|_| {}, None);
    // It is the top of a repository.
    check(&|acme| policy(acme.parent().unwrap()), None);
    let without_git = |acme: &Path| fs::remove_dir_all(acme.join(".git")).unwrap();
    check(&without_git, None);
    check(
        &|acme| {
            without_git(acme);
            policy(acme.parent().unwrap());
        },
        Some("project_inside"),
    );
    check(&|acme| git(acme, &["init", "-q", "--separate-git-dir=../gd"]), None);
    check(
        &|acme| git(acme, &["init", "-q", "--separate-git-dir=gd"]),
        Some("git_directory_exposed"),
    );
}
