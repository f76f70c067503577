//! Toolchain detection on made-up homes and repositories.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use glasshouse_sandbox::toolchain::{
    Homes, Inside, TestKind, ToolMount, detect, environment, test_command, verdict,
};

use super::util::write;

fn inside() -> Inside {
    let at = |text: &str| PathBuf::from(text);
    Inside { workspace: at("/workspace"), cache: at("/cache"), tools: at("/opt/tools") }
}

/// A home and a repository with the given files; a name that ends in `/` is a directory.
fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf, Homes) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        if name.ends_with('/') {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        } else {
            write(dir.path(), name, text);
        }
    }
    let repo = dir.path().join("repo");
    std::fs::create_dir_all(&repo).unwrap();
    let homes = Homes::new(&dir.path().join("home"), |_| None);
    (dir, repo, Homes { go_root: PathBuf::from("/nonexistent"), ..homes })
}

fn shown(mounts: &[ToolMount], root: &Path) -> Vec<String> {
    let root = root.canonicalize().unwrap();
    let mounts = mounts.iter().map(|mount| {
        let source = mount.source.strip_prefix(&root).unwrap().display();
        format!("{}: {source} -> {}", mount.name, mount.target.display())
    });
    mounts.collect()
}

#[test]
fn what_a_rust_repository_needs() {
    let files = [
        ("home/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/bin/cargo", ""),
        ("home/.rustup/toolchains/1.95.0-x86_64-unknown-linux-gnu/bin/cargo", ""),
        ("home/.rustup/settings.toml", "default_toolchain = \"stable-x86_64-unknown-linux-gnu\"\n"),
        ("home/.cargo/registry/index/x", ""),
        ("home/.cargo/credentials.toml", "secret"),
        ("home/.cargo/config.toml", "secret"),
        ("repo/Cargo.toml", ""),
    ];
    let (dir, repo, homes) = place(&files);
    let found = detect(&repo, &homes, &inside());
    let registry = "cargo-registry: home/.cargo/registry -> /cache/cargo/registry";
    let stable = "home/.rustup/toolchains/stable-x86_64-unknown-linux-gnu";
    assert_eq!(
        shown(&found, dir.path()),
        [format!("rust-toolchain: {stable} -> /opt/tools/rust"), registry.to_owned()]
    );
    let env = environment(&found, &inside());
    assert_eq!(env["PATH"], "/opt/tools/rust/bin:/usr/local/bin:/usr/bin:/bin");
    assert_eq!(env["CARGO_HOME"], "/cache/cargo");
    assert_eq!(env["CARGO_TARGET_DIR"], "/cache/target");
    write(
        &repo,
        "rust-toolchain.toml",
        "[toolchain]\nchannel = \"1.95.0\" # pinned\npath = \"/etc\"\n",
    );
    let found = detect(&repo, &homes, &inside());
    assert!(shown(&found, dir.path())[0].contains("toolchains/1.95.0-x86_64"));
    for channel in ["../../.ssh", "/etc", "nowhere", ".."] {
        write(&repo, "rust-toolchain.toml", &format!("channel = \"{channel}\"\n"));
        assert_eq!(shown(&detect(&repo, &homes, &inside()), dir.path()), [registry], "{channel}");
    }
}

#[test]
fn what_node_python_and_go_repositories_need() {
    let (dir, repo, homes) = place(&[
        ("home/.nvm/versions/node/v9.1.0/bin/node", ""),
        ("home/.nvm/versions/node/v20.2.0/bin/node", ""),
        ("home/.nvm/alias/default", "20\n"),
        ("home/.pyenv/versions/3.9.1/bin/python", ""),
        ("home/.pyenv/versions/3.12.1/bin/python", ""),
        ("home/.pyenv/version", "3.9.1\n"),
        ("home/go/pkg/mod/cache/x", ""),
        ("repo/package.json", "{}"),
        ("repo/node_modules/x/index.js", ""),
        ("repo/pyproject.toml", ""),
        ("repo/.python-version", "3.12\n"),
        ("repo/.venv/pyvenv.cfg", "home = /etc\n"),
        ("repo/go.mod", ""),
    ]);
    let found = detect(&repo, &homes, &inside());
    let python = dir.path().join("home/.pyenv/versions/3.12.1");
    let own = repo.join(".venv");
    assert_eq!(
        shown(&found, dir.path()),
        [
            "node: home/.nvm/versions/node/v20.2.0 -> /opt/tools/node".to_owned(),
            "node-modules: repo/node_modules -> /workspace/node_modules".to_owned(),
            "python-environment: repo/.venv -> /workspace/.venv".to_owned(),
            format!("python-environment-scripts: repo/.venv -> {}", own.display()),
            format!("python: home/.pyenv/versions/3.12.1 -> {}", python.display()),
            "go-modules: home/go/pkg/mod -> /opt/tools/go-modules".to_owned(),
        ]
    );
    let env = environment(&found, &inside());
    assert_eq!(env["VIRTUAL_ENV"], "/workspace/.venv");
    assert_eq!(env["GOMODCACHE"], "/opt/tools/go-modules");
    assert!(env["PATH"].contains("/workspace/.venv/bin:"), "{}", env["PATH"]);
}

#[test]
fn what_a_maven_repository_needs() {
    let (dir, repo, homes) = place(&[
        ("home/.m2/repository/org/x/x.jar", ""),
        ("home/.m2/settings.xml", "secret"),
        ("repo/pom.xml", ""),
    ]);
    let found = detect(&repo, &homes, &inside());
    let repository = "maven-repository: home/.m2/repository -> /opt/tools/maven-repository";
    assert_eq!(shown(&found, dir.path()), [repository]);
    assert_eq!(
        environment(&found, &inside())["MAVEN_ARGS"],
        "-o -Dmaven.repo.local=/cache/maven -Dmaven.repo.local.tail=/opt/tools/maven-repository"
    );
    let before_3_9 = "-Dmaven.repo.local=/opt/tools/maven-repository";
    assert_eq!(environment(&found, &inside())["MAVEN_OPTS"], before_3_9);
    assert_eq!(environment(&[], &inside())["MAVEN_OPTS"], "-Dmaven.repo.local=/cache/maven");
    assert_eq!(environment(&[], &inside())["MAVEN_ARGS"], "-o -Dmaven.repo.local=/cache/maven");
}

#[test]
fn what_a_maven_run_proves() {
    let argv = ["mvn", "-B", "test"].map(str::to_owned);
    let check = |code: i32, output: &str, ran: bool, passed: bool| {
        for kind in [TestKind::Maven, TestKind::Configured] {
            let found = verdict(kind, &argv, code, output);
            assert_eq!((found.ran, found.passed), (ran, passed), "{output}: {found:?}");
        }
    };
    check(0, "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n", true, true);
    check(1, "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0\n", true, false);
    check(1, "[ERROR] COMPILATION ERROR :\n", true, false);
    check(0, "[INFO] No tests to run.\n[INFO] BUILD SUCCESS\n", false, false);
    check(1, "[ERROR] Could not resolve dependencies for project a:b:jar:1\n", false, false);
    check(
        1,
        "[ERROR] Cannot access central (https://repo.maven.apache.org/maven2) in offline mode\n",
        false,
        false,
    );
    check(1, "[ERROR] Non-parseable POM /workspace/pom.xml\n", false, false);
    check(127, "", false, false);
}

/// Where pytest is installed decides whether a repository's tests can be run at all.
/// An activated environment was not seen, and `python3` was pyenv's before it was the environment's.
/// The environment that holds pytest comes first, with the interpreter that it was made of.
#[test]
fn the_environment_that_holds_pytest_runs_the_tests() {
    let check = |activated: &str, pytest_in: &str, expected: &str| {
        let (dir, repo, homes) = place(&[
            ("home/.pyenv/versions/3.9.1/bin/python", ""),
            ("home/.pyenv/versions/3.12.1/bin/python", ""),
            ("home/.pyenv/version", "3.9.1\n"),
            ("repo/pyproject.toml", ""),
            (&format!("{pytest_in}/lib/python3.12/site-packages/pytest/__init__.py"), ""),
        ]);
        let root = dir.path();
        let settings = format!("home = {}/home/.pyenv/versions/3.12.1/bin\n", root.display());
        for environment in ["repo/.venv", "repo/venv", "envs/active"] {
            write(&root.join(environment), "pyvenv.cfg", &settings);
        }
        let activated = (!activated.is_empty()).then(|| root.join(activated));
        let homes = Homes { virtual_env: activated, ..homes };
        let env = environment(&detect(&repo, &homes, &inside()), &inside());
        let expected = expected.replace('@', &root.display().to_string());
        assert_eq!(env["VIRTUAL_ENV"], expected);
        let path = format!("{expected}/bin:@/home/.pyenv/versions/3.12.1/bin:/usr/local/bin");
        let path = path.replace('@', &root.display().to_string());
        assert!(env["PATH"].starts_with(&path), "{}", env["PATH"]);
    };
    check("", "repo/.venv", "/workspace/.venv");
    check("", "repo/venv", "/workspace/venv");
    check("", "nowhere", "/workspace/.venv");
    check("envs/active", "envs/active", "@/envs/active");
    check("envs/active", "repo/.venv", "/workspace/.venv");
    check("envs/active", "nowhere", "@/envs/active");
    check("envs/gone", "nowhere", "/workspace/.venv");
}

/// A link in the repository, or a home that points at secrets, must not become a mount.
#[test]
fn links_and_secret_places_are_never_mounted() {
    let (dir, repo, homes) = place(&[
        ("home/.ssh/id", "secret"),
        ("home/.config/token", "secret"),
        ("repo/package.json", "{}"),
        ("repo/Cargo.toml", ""),
        ("repo/requirements.txt", ""),
    ]);
    let home = dir.path().join("home");
    symlink(home.join(".ssh"), repo.join("node_modules")).unwrap();
    symlink(&home, repo.join(".venv")).unwrap();
    assert_eq!(detect(&repo, &homes, &inside()), []);
    for cargo in [home.clone(), home.join(".ssh"), dir.path().to_owned()] {
        std::fs::create_dir_all(home.join(".cargo")).unwrap();
        let _ = std::fs::remove_file(home.join(".cargo/registry"));
        symlink(cargo, home.join(".cargo/registry")).unwrap();
        assert_eq!(detect(&repo, &homes, &inside()), []);
    }
}

#[test]
fn how_repositories_test_themselves() {
    let check = |files: &[(&str, &str)], expected: Option<(TestKind, &str)>| {
        let files: Vec<_> =
            files.iter().map(|(name, text)| (format!("repo/{name}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let (_dir, repo, _) = place(&files);
        let plan = test_command(&repo, None);
        let found = plan.as_ref().map(|plan| (plan.kind, plan.argv[0].as_str()));
        assert_eq!(found, expected, "{files:?}");
    };
    check(&[("Cargo.toml", ""), ("Makefile", "test:\n")], Some((TestKind::Cargo, "cargo")));
    check(&[("go.mod", "")], Some((TestKind::Go, "go")));
    check(&[("pom.xml", "")], Some((TestKind::Maven, "mvn")));
    check(
        &[("package.json", r#"{"scripts":{"test":"node --test"}}"#)],
        Some((TestKind::Npm, "npm")),
    );
    let placeholder = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
    check(&[("package.json", placeholder)], None);
    check(&[("package.json", "not json")], None);
    check(&[("setup.py", "")], Some((TestKind::Pytest, "python3")));
    check(&[("tests/test_a.py", "")], Some((TestKind::Pytest, "python3")));
    check(&[("Makefile", "all:\n\ntest: all\n\tsh x\n")], Some((TestKind::Make, "make")));
    check(&[("Makefile", "test := x\ntests:\n")], None);
    check(&[("tests/a.sh", "")], Some((TestKind::Shell, "sh")));
    check(&[("README", "")], None);
}

#[test]
fn shell_tests_all_run_and_one_failure_fails() {
    let run = |files: &[(&str, &str)]| {
        let (_dir, repo, _) = place(files);
        let plan = test_command(&repo, None).unwrap();
        let output = std::process::Command::new(&plan.argv[0])
            .args(&plan.argv[1..])
            .current_dir(&repo)
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (passed, text) = run(&[("repo/tests/a b.sh", "exit 1"), ("repo/tests/c.sh", "exit 0")]);
    assert!(!passed);
    assert_eq!(text, "FAILED tests/a b.sh\nok tests/c.sh\n");
    assert!(run(&[("repo/tests/c.sh", "exit 0")]).0);
}
