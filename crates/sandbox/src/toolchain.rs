//! Toolchains: what a repository needs to build and test itself offline.
//!
//! [`detect`] answers read-only mounts, each of which policy decides as `sandbox.mount` and `doctor`
//! shows. A source is always below a toolchain home the caller names, or a real directory of the
//! repository; what the repository's files say only chooses among names there, so a repository cannot
//! have anything else mounted. Directories that hold credentials are never a source.
//! [`test_command`] answers how the repository tests itself and which of its files are tests.

mod python;
mod rust_change;
mod tests_of;
mod verdict;

pub use rust_change::{RustChange, rust_change, rust_tests_kept};
pub use tests_of::{TestKind, TestPlan, test_command};
pub use verdict::{Verdict, verdict};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Largest file of a repository that is read to choose a toolchain or a test command, in bytes.
const MAX_HINT_BYTES: u64 = 1 << 20;
/// Longest toolchain or version name taken from a repository's file.
const MAX_NAME_BYTES: usize = 64;
/// Names that never are, or are on the way to, a mount: they hold keys and tokens.
const SECRET_NAMES: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config",
    ".docker",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".password-store",
    "credentials",
    "credentials.toml",
];
/// Variables of [`environment`] that keep tools offline; where there is a network they are in the way.
pub const OFFLINE: [&str; 5] =
    ["CARGO_NET_OFFLINE", "GOPROXY", "MAVEN_ARGS", "NPM_CONFIG_OFFLINE", "PIP_NO_INDEX"];
/// Programs of the system, behind what is detected.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// One read-only mount and the variables that make programs use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolMount {
    /// Short name for policy and `doctor`, for example `rust-toolchain`.
    pub name: String,
    /// Directory outside, absolute and without links.
    pub source: PathBuf,
    /// Where it is inside.
    pub target: PathBuf,
    /// Variables to set inside.
    pub env: BTreeMap<String, String>,
    /// Directories inside that go in front of `PATH`.
    pub path: Vec<PathBuf>,
}

/// Where toolchains live outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homes {
    /// The user's home. Neither it nor a directory above it is ever mounted.
    pub home: PathBuf,
    /// rustup's directory.
    pub rustup: PathBuf,
    /// cargo's directory; only its `registry` and `git` are ever mounted.
    pub cargo: PathBuf,
    /// pyenv's directory.
    pub pyenv: PathBuf,
    /// Where uv keeps the Pythons it installed.
    pub uv_python: PathBuf,
    /// The virtual environment the user activated, if one is.
    pub virtual_env: Option<PathBuf>,
    /// nvm's directory.
    pub nvm: PathBuf,
    /// Go's installation.
    pub go_root: PathBuf,
    /// Go's module cache.
    pub go_modules: PathBuf,
    /// Maven's local repository.
    pub maven: PathBuf,
}

impl Homes {
    /// The usual places, or where the user's variables say. `variable` answers one of the user's
    /// environment; only absolute paths count.
    #[must_use]
    pub fn new(home: &Path, variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let place = |name: &str, usual: PathBuf| {
            variable(name).filter(|path| path.is_absolute()).unwrap_or(usual)
        };
        let go_path = place("GOPATH", home.join("go"));
        Self {
            home: home.to_owned(),
            rustup: place("RUSTUP_HOME", home.join(".rustup")),
            cargo: place("CARGO_HOME", home.join(".cargo")),
            pyenv: place("PYENV_ROOT", home.join(".pyenv")),
            uv_python: place("UV_PYTHON_INSTALL_DIR", home.join(".local/share/uv/python")),
            virtual_env: variable("VIRTUAL_ENV").filter(|path| path.is_absolute()),
            nvm: place("NVM_DIR", home.join(".nvm")),
            go_root: place("GOROOT", PathBuf::from("/usr/local/go")),
            go_modules: place("GOMODCACHE", go_path.join("pkg/mod")),
            maven: home.join(".m2/repository"),
        }
    }
}

/// Where things are inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// The workspace.
    pub workspace: PathBuf,
    /// The writable cache of the branch: build outputs and everything a tool must write.
    pub cache: PathBuf,
    /// Where toolchains that run from anywhere are put.
    pub tools: PathBuf,
}

/// Finds what a repository needs. What is not installed, or comes with the system, is not listed.
#[must_use]
pub fn detect(repo: &Path, homes: &Homes, inside: &Inside) -> Vec<ToolMount> {
    let mut finder = Finder { repo, homes, inside, found: Vec::new() };
    if finder.has(&["Cargo.toml"]) {
        finder.rust();
    }
    if finder.has(&["package.json"]) {
        finder.node();
    }
    if finder.has(tests_of::PYTHON_MARKS) {
        finder.python();
    }
    if finder.has(&["go.mod"]) {
        finder.go();
    }
    if finder.has(&["pom.xml"]) {
        finder.maven();
    }
    finder.found
}

/// The environment of a command inside: every mount's variables, `PATH`, and settings that keep tools
/// offline and their writing in the cache, also when they come with the system.
#[must_use]
pub fn environment(mounts: &[ToolMount], inside: &Inside) -> BTreeMap<String, String> {
    let cache = |name: &str| text(&inside.cache.join(name));
    let mut env: BTreeMap<String, String> = [
        ("CARGO_HOME", cache("cargo")),
        ("CARGO_TARGET_DIR", cache("target")),
        ("CARGO_NET_OFFLINE", "true".to_owned()),
        ("GOCACHE", cache("go-build")),
        ("GOENV", "off".to_owned()),
        ("GOPROXY", "off".to_owned()),
        ("GOTOOLCHAIN", "local".to_owned()),
        ("GOTELEMETRY", "off".to_owned()),
        ("MAVEN_ARGS", format!("-o -Dmaven.repo.local={}", cache("maven"))),
        ("MAVEN_OPTS", format!("-Dmaven.repo.local={}", cache("maven"))),
        ("NPM_CONFIG_CACHE", cache("npm")),
        ("NPM_CONFIG_OFFLINE", "true".to_owned()),
        ("NPM_CONFIG_UPDATE_NOTIFIER", "false".to_owned()),
        ("NPM_CONFIG_USERCONFIG", "/dev/null".to_owned()),
        ("PIP_NO_INDEX", "1".to_owned()),
        // Moved, not switched off: a project may ask for options of pytest's that need its cache.
        ("PYTEST_ADDOPTS", format!("-o cache_dir={}", cache("pytest"))),
        ("PYTHONPYCACHEPREFIX", cache("pycache")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let mut path: Vec<String> = Vec::new();
    for mount in mounts {
        env.extend(mount.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        path.extend(mount.path.iter().map(|dir| text(dir)));
    }
    path.push(SYSTEM_PATH.to_owned());
    env.insert("PATH".to_owned(), path.join(":"));
    env
}

struct Finder<'a> {
    repo: &'a Path,
    homes: &'a Homes,
    inside: &'a Inside,
    found: Vec<ToolMount>,
}

impl Finder<'_> {
    fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| is_plain_file(&self.repo.join(name)))
    }

    /// Adds a mount when its source exists and is safe.
    fn add(
        &mut self,
        name: &str,
        source: &Path,
        target: PathBuf,
        env: &[(&str, String)],
        path: &[&str],
    ) {
        let Some(source) = safe_source(source, &self.homes.home) else { return };
        let path = path.iter().map(|dir| target.join(dir)).collect();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.found.push(ToolMount { name: name.to_owned(), source, target, env, path });
    }

    fn rust(&mut self) {
        let toolchains = self.homes.rustup.join("toolchains");
        // A repository that names a toolchain gets that one or none, never another in its place.
        let wanted = if self.has(&["rust-toolchain.toml", "rust-toolchain"]) {
            rust_channel(self.repo)
        } else {
            hint(&self.homes.rustup.join("settings.toml"))
                .and_then(|file| toml_text(&file, "default_toolchain"))
        };
        let installed = names_in(&toolchains);
        // `1.95` names `1.95.0-<host>` and `stable` names `stable-<host>`.
        let fits = |name: &&String, wanted: &str| {
            *name == wanted
                || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(['-', '.']))
        };
        let chosen =
            wanted.and_then(|wanted| installed.iter().find(|name| fits(name, &wanted)).cloned());
        if let Some(chosen) = chosen {
            let target = self.inside.tools.join("rust");
            self.add("rust-toolchain", &toolchains.join(chosen), target, &[], &["bin"]);
        }
        let cargo = self.inside.cache.join("cargo");
        for part in ["registry", "git"] {
            let source = self.homes.cargo.join(part);
            self.add(&format!("cargo-{part}"), &source, cargo.join(part), &[], &[]);
        }
    }

    fn node(&mut self) {
        let versions = self.homes.nvm.join("versions/node");
        let wanted = version_file(&self.repo.join(".nvmrc"))
            .or_else(|| version_file(&self.homes.nvm.join("alias/default")));
        let installed = names_in(&versions);
        let fits = |name: &&String, wanted: &str| {
            let (name, wanted) = (name.trim_start_matches('v'), wanted.trim_start_matches('v'));
            name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
        };
        let chosen = wanted
            .and_then(|wanted| installed.iter().rev().find(|name| fits(name, &wanted)).cloned());
        if let Some(chosen) = chosen {
            let target = self.inside.tools.join("node");
            self.add("node", &versions.join(chosen), target, &[], &["bin"]);
        }
        self.of_repository("node-modules", "node_modules", &[], &["node_modules/.bin"]);
    }

    fn go(&mut self) {
        let root = self.inside.tools.join("go");
        let source = self.homes.go_root.clone();
        if is_plain_file(&source.join("bin/go")) {
            self.add("go", &source, root.clone(), &[("GOROOT", text(&root))], &["bin"]);
        }
        let modules = self.inside.tools.join("go-modules");
        let source = self.homes.go_modules.clone();
        self.add("go-modules", &source, modules.clone(), &[("GOMODCACHE", text(&modules))], &[]);
    }

    /// Maven writes to its repository whenever it runs: the branch's own comes first, the user's, which
    /// is only read, behind it. Before 3.9 Maven knows neither these arguments nor a second repository,
    /// and has the user's as its own: what it lacks there it lacks. Its settings, which may hold
    /// passwords, stay out.
    fn maven(&mut self) {
        let tail = self.inside.tools.join("maven-repository");
        let own = text(&self.inside.cache.join("maven"));
        let arguments =
            format!("-o -Dmaven.repo.local={own} -Dmaven.repo.local.tail={}", text(&tail));
        let options = format!("-Dmaven.repo.local={}", text(&tail));
        let source = self.homes.maven.clone();
        let env = [("MAVEN_ARGS", arguments), ("MAVEN_OPTS", options)];
        self.add("maven-repository", &source, tail, &env, &[]);
    }

    /// Adds a directory of the repository that its ignore rules keep out of the base. It must be a
    /// real directory: a link could have been put there to have something else mounted.
    fn of_repository(&mut self, name: &str, dir: &str, env: &[(&str, String)], path: &[&str]) {
        let source = self.repo.join(dir);
        if !is_real_directory(&source) {
            return;
        }
        let target = self.inside.workspace.join(dir);
        self.add(name, &source, target, env, &[]);
        if let Some(mount) = self.found.last_mut().filter(|mount| mount.name == name) {
            mount.path = path.iter().map(|dir| self.inside.workspace.join(dir)).collect();
        }
    }
}

/// The source as it really is, or none when it must not be mounted.
fn safe_source(source: &Path, home: &Path) -> Option<PathBuf> {
    let real = source.canonicalize().ok().filter(|path| path.is_dir())?;
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let secret = real
        .components()
        .any(|part| part.as_os_str().to_str().is_none_or(|name| SECRET_NAMES.contains(&name)));
    (!secret && !home.starts_with(&real)).then_some(real)
}

fn is_plain_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_file())
}

fn is_real_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

/// A small file of the repository or a home; links are not followed.
fn hint(path: &Path) -> Option<String> {
    let meta = path.symlink_metadata().ok()?;
    if !meta.is_file() || meta.len() > MAX_HINT_BYTES {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

fn rust_channel(repo: &Path) -> Option<String> {
    if let Some(file) = hint(&repo.join("rust-toolchain.toml")) {
        return toml_text(&file, "channel");
    }
    let file = hint(&repo.join("rust-toolchain"))?;
    toml_text(&file, "channel").or_else(|| plain_name(file.trim()))
}

/// The text value of a key, wherever it is in the file; enough for files of one or two keys.
fn toml_text(file: &str, key: &str) -> Option<String> {
    file.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        let value = value.split('#').next()?.trim();
        (name.trim() == key).then(|| plain_name(value.trim_matches(['"', '\'']))).flatten()
    })
}

fn version_file(path: &Path) -> Option<String> {
    plain_name(hint(path)?.lines().next()?.trim())
}

/// A name that is one path component without surprises.
fn plain_name(text: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let fits = !text.is_empty() && text.len() <= MAX_NAME_BYTES && !text.starts_with('.');
    (fits && text.bytes().all(plain)).then(|| text.to_owned())
}

/// Names in a directory, sorted by version: numbers in them compare as numbers.
fn names_in(dir: &Path) -> Vec<String> {
    let Ok(items) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> =
        items.filter_map(|item| item.ok()?.file_name().into_string().ok()).collect();
    names.sort_by_key(|name| {
        let numbers: Vec<u64> = name
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|part| part.parse().ok())
            .collect();
        (numbers, name.clone())
    });
    names
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
