//! Published projects of others pass their own tests inside, offline, with the toolchain that is
//! detected for them; after a change that breaks them they fail, which is the control.
//!
//! What a registry has to be asked for is fetched once, outside, and kept beside the build. Where it
//! cannot be had, or its tool is not installed, the test says so in one line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use glasshouse_sandbox::toolchain::Homes;

use crate::programs::{GO, MAVEN_REPOSITORY, Tested};
use crate::support::*;

/// How long a registry may take, in seconds.
const FETCH_LIMIT: &str = "150";

/// Where projects are kept.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("published")
}

/// A project that `script` puts into the directory it runs in; none, and a line, where it cannot.
fn fetched(test: &str, project: &str, script: &str) -> Option<PathBuf> {
    let place = kept().join(project);
    if place.exists() {
        return Some(place);
    }
    let unfinished = kept().join(format!("{project}.{}", std::process::id()));
    fs::create_dir_all(&unfinished).unwrap();
    let ran = Process::new("timeout")
        .args([FETCH_LIMIT, "sh", "-ec", script])
        .current_dir(&unfinished)
        .output()
        .unwrap();
    if ran.status.success() {
        fs::rename(&unfinished, &place).unwrap();
        return Some(place);
    }
    let _ = fs::remove_dir_all(&unfinished);
    let said = String::from_utf8_lossy(&ran.stderr).trim().lines().last().map(str::to_owned);
    skipped(test, &format!("{project} cannot be fetched: {}", said.unwrap_or_default()));
    None
}

/// Whether a program is there; says so when not. As an ordinary user what was kept is out of reach, and
/// the same mounts are shown by `programs`.
fn can_run(test: &str, programs: &[&str]) -> bool {
    if !is_root() {
        skipped(test, "what was fetched belongs to root");
        return false;
    }
    let missing = programs.iter().find(|program| !Path::new(program).exists());
    if let Some(missing) = missing {
        skipped(test, &format!("{missing} is not installed"));
    }
    missing.is_none()
}

/// A copy to work in, as a project's directory is.
fn copy(home: &Home, from: &Path) -> PathBuf {
    let repo = home.path("repo");
    let copied = Process::new("cp").arg("-r").args([from, &repo]).status().unwrap();
    assert!(copied.success());
    repo
}

/// The homes of whoever runs this test.
fn own_homes() -> Homes {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    Homes { virtual_env: None, ..Homes::new(&variable("HOME").unwrap_or_default(), variable) }
}

#[test]
fn cargo_tests_num_integer() {
    let test = "cargo_tests_num_integer";
    if !can_run(test, &["/usr/bin/cc"]) {
        return;
    }
    let homes = own_homes();
    // This build unpacked it, and what it depends on.
    let sources = fs::read_dir(homes.cargo.join("registry/src")).into_iter().flatten().flatten();
    let crates = sources.filter_map(|source| fs::read_dir(source.path()).ok()).flatten().flatten();
    let mut found = crates.map(|found| found.path()).filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("num-integer-"))
    });
    let Some(source) = found.next() else {
        return skipped(test, "num-integer is not in the registry of this machine");
    };
    let home = Home::new();
    let repo = copy(&home, &source);
    // Its own names crates that only its authors need.
    let _ = fs::remove_file(repo.join("Cargo.lock"));
    Tested::new(&home, &repo, &homes).passes_and("sed -i 's/& 1 == 0/\\& 1 == 1/' src/lib.rs");
}

#[test]
fn npm_tests_shell_quote() {
    let test = "npm_tests_shell_quote";
    if !can_run(test, &["/usr/bin/npm", "/usr/bin/node"]) {
        return;
    }
    let script = "npm pack --silent shell-quote@1.7.2 >/dev/null; tar -xzf *.tgz --strip-components=1; \
                  rm *.tgz; npm install --silent --ignore-scripts --no-audit --no-fund";
    let Some(source) = fetched(test, "shell-quote", script) else { return };
    let home = Home::new();
    let repo = copy(&home, &source);
    let homes = Homes::new(&home.path("nobody"), |_| None);
    Tested::new(&home, &repo, &homes).passes_and("sed -i 's/xs.map/[].map/' index.js");
}

#[test]
#[ignore = "a minute of building; `cargo xtask soak` runs it"]
fn pytest_tests_tinycss2_in_its_environment() {
    let test = "pytest_tests_tinycss2_in_its_environment";
    if !can_run(test, &["/usr/bin/python3"]) {
        return;
    }
    let script = "/usr/bin/python3 -m venv environment; \
                  environment/bin/pip install --quiet pytest webencodings flit_core; \
                  environment/bin/pip download --quiet --no-deps --no-build-isolation \
                  --no-binary tinycss2 tinycss2==1.2.1; \
                  tar -xzf tinycss2*.tar.gz --strip-components=1; rm *.tar.gz; mv environment .venv";
    let Some(source) = fetched(test, "tinycss2", script) else { return };
    let home = Home::new();
    let repo = copy(&home, &source);
    let homes = Homes::new(&home.path("nobody"), |_| None);
    let breaking = "sed -i \"s/type = 'ident'/type = 'name'/\" tinycss2/ast.py";
    Tested::new(&home, &repo, &homes).passes_and(breaking);
}

/// Modules that Debian packages, with versions as it has them.
const MODULES: [(&str, &str, &str); 4] = [
    ("golang-github-stretchr-testify-dev", "github.com/stretchr/testify", "v1.8.1"),
    ("golang-github-davecgh-go-spew-dev", "github.com/davecgh/go-spew", "v1.1.1"),
    ("golang-github-pmezard-go-difflib-dev", "github.com/pmezard/go-difflib", "v1.0.0"),
    ("golang-gopkg-yaml.v3-dev", "gopkg.in/yaml.v3", "v3.0.1"),
];

#[test]
#[ignore = "a minute of building; `cargo xtask soak` runs it"]
fn go_tests_objx_with_the_modules_it_needs() {
    let test = "go_tests_objx_with_the_modules_it_needs";
    if !GO.iter().any(|go| Path::new(go).exists()) {
        return skipped(test, "Go is not installed");
    }
    if !can_run(test, &["/usr/bin/dpkg"]) {
        return;
    }
    let packages = MODULES.map(|(package, ..)| package).join(" ");
    let script = format!(
        "apt-get download golang-github-stretchr-objx-dev {packages}; \
         for package in *.deb; do dpkg -x $package .; done; rm *.deb"
    );
    let Some(source) = fetched(test, "objx", &script) else { return };
    let home = Home::new();
    let at = source.join("usr/share/gocode/src");
    let repo = copy(&home, &at.join("github.com/stretchr/objx"));
    let modules = module_cache(&home, &at);
    let needs = "module github.com/stretchr/objx\n\ngo 1.12\n\nrequire github.com/stretchr/testify v1.8.1\n";
    fs::write(repo.join("go.mod"), needs).unwrap();
    let _ = fs::remove_file(repo.join("go.sum"));
    // Sums of what Debian changed differ from those that its authors wrote down.
    let go = GO.iter().find(|go| Path::new(go).exists()).unwrap();
    let listed = Process::new(go)
        .args(["list", "-mod=mod", "-test", "-deps", "./..."])
        .current_dir(&repo)
        .envs([("GOPROXY", "off"), ("GONOSUMDB", "*"), ("GOTOOLCHAIN", "local")])
        .env("GOMODCACHE", &modules)
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let homes = Homes { go_modules: modules, ..Homes::new(&home.path("nobody"), |_| None) };
    let breaking = "sed -i 's/excluded\\[k\\] = v/excluded[k] = nil/' mutations.go";
    Tested::new(&home, &repo, &homes).passes_and(breaking);
}

/// Modules as Go's cache holds them once it fetched them.
fn module_cache(home: &Home, from: &Path) -> PathBuf {
    let cache = home.path("modules");
    for (_, module, version) in MODULES {
        let unpacked = cache.join(format!("{module}@{version}"));
        fs::create_dir_all(unpacked.parent().unwrap()).unwrap();
        let copied = Process::new("cp").arg("-r").args([&from.join(module), &unpacked]).status();
        assert!(copied.unwrap().success());
        let download = cache.join("cache/download").join(module).join("@v");
        fs::create_dir_all(&download).unwrap();
        let write = |name: &str, text: &str| fs::write(download.join(name), text).unwrap();
        let needs: String = if module.ends_with("testify") {
            MODULES[1..].iter().map(|(_, name, at)| format!("require {name} {at}\n")).collect()
        } else {
            String::new()
        };
        write(&format!("{version}.mod"), &format!("module {module}\n\n{needs}"));
        write(&format!("{version}.info"), &format!("{{\"Version\":\"{version}\"}}"));
        write("list", &format!("{version}\n"));
        // What was unpacked is not compared again: this stands for the archive that it came from.
        let archive = "h1:SnD+mqZDbgLC3qNA+9HjUuTvLYzmylKtJdS5VHH8i/I=";
        write(&format!("{version}.ziphash"), archive);
    }
    cache
}

#[test]
#[ignore = "a minute of building; `cargo xtask soak` runs it"]
fn maven_tests_plexus_cipher() {
    let test = "maven_tests_plexus_cipher";
    let plugin = format!("{MAVEN_REPOSITORY}/org/apache/maven/plugins/maven-surefire-plugin");
    if !can_run(test, &["/usr/bin/mvn", &plugin, "/usr/bin/apt-get"]) {
        return;
    }
    // Sources from where this machine has its packages from.
    let script = ". /etc/os-release; \
        from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
            \"Codename: $VERSION_CODENAME\" 'Label: Debian' | head -n 1); \
        echo \"deb-src $from $VERSION_CODENAME main\" > list; mkdir -p lists/partial; \
        set -- -q -o Dir::Etc::sourcelist=$PWD/list -o Dir::Etc::sourceparts=/dev/null \
            -o Dir::State::lists=$PWD/lists; \
        apt-get \"$@\" update; \
        apt-get \"$@\" source --download-only --tar-only plexus-cipher; \
        tar -xf plexus-cipher_*.orig.tar.* --strip-components=1; rm -r list lists plexus-cipher_*";
    let Some(source) = fetched(test, "plexus-cipher", script) else { return };
    let home = Home::new();
    let repo = copy(&home, &source);
    // As Debian builds it: with the plugins that the system has, so without the versions of its parent.
    let project = fs::read_to_string(repo.join("pom.xml")).unwrap();
    let project = replaced(&project, "<parent>", "</parent>", "<groupId>org.sonatype</groupId>");
    let project = replaced(&project, "<build>", "</build>", "");
    let java = ["source", "target"]
        .map(|name| format!("<maven.compiler.{name}>8</maven.compiler.{name}>"))
        .concat();
    let project = replaced(&project, "<javaVersion>", "</javaVersion>", &java);
    fs::write(repo.join("pom.xml"), project).unwrap();
    let homes = Homes { maven: home.path("maven"), ..Homes::new(&home.path("nobody"), |_| None) };
    // Debian's holds links to files beside it; a user's holds files.
    let mut copy = Process::new("cp");
    assert!(copy.args(["-rL", MAVEN_REPOSITORY]).arg(&homes.maven).status().unwrap().success());
    let place = "src/main/java/org/sonatype/plexus/components/cipher/PlexusCipher.java";
    let breaking = format!("sed -i \"s/DECORATION_START = '{{'/DECORATION_START = '<'/\" {place}");
    Tested::new(&home, &repo, &homes).passes_and(&breaking);
}

/// A text in which everything from one mark to another is something else.
fn replaced(text: &str, from: &str, to: &str, by: &str) -> String {
    let (before, rest) = text.split_once(from).unwrap();
    let (_, after) = rest.split_once(to).unwrap();
    format!("{before}{by}{after}")
}
