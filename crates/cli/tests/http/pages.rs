//! The pages of the server in a real browser.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::chat::node_with;
use crate::client::Served;
use crate::harness::{Place, skipped};
use crate::headless::{self, browser};

#[test]
fn the_playground_and_the_reference_in_a_browser() {
    const TEST: &str = "the_playground_and_the_reference_in_a_browser";
    let Some(program) = browser() else { return skipped(TEST, headless::NONE) };
    if Command::new("node").arg("--version").output().is_err() {
        return skipped(TEST, "no node is installed");
    }
    let place = Place::new();
    let served = Served::new(&place);
    let url = format!("http://{}", served.address);
    let pictures = place.path("pictures");
    std::fs::create_dir(&pictures).unwrap();
    let arguments = [program, &*url, pictures.to_str().unwrap()];
    let ran = node_with(&place, "playground.mjs", &arguments, &served.token, None);
    let report = ran.expect_status(0).last();
    assert!(report["closed"].as_str().unwrap().starts_with("Enter the token"), "{report}");
    for (name, expected) in [
        ("address", json!(true)),
        ("asked", json!("Ask: done")),
        ("event", json!("Event: done")),
        ("state", json!({ "count": 1 })),
        ("second", json!("Show: done")),
        ("frame", json!(true)),
        ("sandbox", json!("")),
        ("refused", json!("Show: plan_refused")),
        ("probe", json!("Probe: done")),
        ("probed", json!(false)),
        ("cleared", json!("Clear: done")),
        ("left", json!(0)),
        ("policy", json!([])),
        ("inline", json!(false)),
        ("errors", json!([])),
        ("untold", json!([])),
        ("outside", json!([])),
    ] {
        assert_eq!(report[name], expected, "{name}: {report}");
    }
    let text = |name: &str| report[name].as_str().unwrap_or_else(|| panic!("{name}: {report}"));
    assert!(text("shown").starts_with("counter, version 1, revision 0"), "{report}");
    assert!(text("shownSecond").starts_with("counter, version 2"), "{report}");
    assert!(text("rolledBack").starts_with("counter, version 1"), "{report}");
    assert!(text("patches").contains("It is 1."), "{report}");
    assert!(text("replayed").contains("equal"), "{report}");
    assert!(text("why").contains("script"), "{report}");
    assert!(report["previews"].as_u64().unwrap() > 1, "{report}");
    for name in ["playground.png", "docs.png"] {
        let picture = std::fs::read(pictures.join(name)).unwrap();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 10_000, "{name}");
        if std::env::var_os("GLASSHOUSE_BLESS").is_some() {
            let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
            std::fs::create_dir_all(&to).unwrap();
            std::fs::write(to.join(name), picture).unwrap();
        }
    }
}

/// Without the token a page shows nothing, and it asks nobody else for anything.
#[test]
fn pages_need_no_token_and_have_a_policy() {
    let place = Place::new();
    let served = Served::new(&place);
    let host = &served.address;
    for path in ["/playground", "/playground.js", "/playground.css", "/docs", "/docs.js"] {
        let answer =
            served.raw(&format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")).expect(200);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}"
        );
        let script = policy.split(';').find(|part| part.trim().starts_with("script-src")).unwrap();
        assert_eq!(script.trim(), "script-src 'self'");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let text = answer.text();
        assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
        let foreign = served.raw(&format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\n\r\n"));
        assert_eq!(foreign.code(), "host_refused", "{path}");
    }
}

/// `--open` gives the page to the person's browser; the token is in a file that only they read, never in a command
/// line. The browser is played by a script that says what it was given.
#[test]
fn the_page_is_opened_without_the_token_in_a_command_line() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new();
    let (programs, given) = (place.path("programs"), place.path("given"));
    std::fs::create_dir(&programs).unwrap();
    let opener = programs.join("xdg-open");
    std::fs::write(
        &opener,
        format!("#!/bin/sh\necho \"$@\" > {0}.new; mv {0}.new {0}\n", given.display()),
    )
    .unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let environment = [("PATH", path.as_str())];
    let begin = |arguments: &[&str]| Served::begin(&place, "127.0.0.1:0", arguments, &environment);
    // The control: who does not ask for it gets no browser.
    let unasked = begin(&[]);
    assert_eq!(unasked.get("/v1/health").status, 200);
    drop(unasked);
    assert!(!given.exists());
    let served = begin(&["--open"]);
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    while !given.exists() {
        assert!(std::time::Instant::now() < deadline, "nothing was opened");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let told = std::fs::read_to_string(&given).unwrap();
    assert!(!told.contains(&served.token), "{told}");
    let page = std::path::PathBuf::from(told.trim());
    assert_eq!(std::fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&page).unwrap();
    let address = format!("http://{}/playground#token={}", served.address, served.token);
    assert!(text.contains(&address), "{text}");
}

/// The failure: where the opener found no browser nothing was said, and nobody was told of the pages.
#[test]
fn where_no_browser_opens_the_address_is_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let programs = place.path("programs");
    std::fs::create_dir(&programs).unwrap();
    let opener = programs.join("xdg-open");
    std::fs::write(&opener, "#!/bin/sh\nexit 3\n").unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let served = Served::begin(&place, "127.0.0.1:0", &["--open"], &[("PATH", path.as_str())]);
    let page = format!("http://{}/playground", served.address);
    let expected = [
        format!("in a browser: {page}; for programs: http://{}/docs", served.address),
        format!("ended with exit status: 3); open {page} in one"),
    ];
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let said = std::fs::read_to_string(place.path("serve.stderr")).unwrap();
        if expected.iter().all(|text| said.contains(text.as_str())) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{said}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
