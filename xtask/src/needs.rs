//! What the commands need on the machine besides the toolchain, in one table.

use std::process::Command;

use crate::place::Place;
use crate::process::{Failure, answers, run};

/// Which commands use a need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Test,
    Bench,
}

/// How a missing need is met.
enum Source {
    Debian(&'static [&'static str]),
    Cargo(&'static str),
}

/// One thing that must or may be on the machine.
struct Need {
    program: &'static str,
    probe: &'static [&'static str],
    source: Source,
    /// What it is for; printed when it is missing.
    purpose: &'static str,
    /// Without it the command does not start; an optional one only makes tests skip.
    required: bool,
    used_by: &'static [Use],
}

const NEEDS: &[Need] = &[
    Need {
        program: "cc",
        probe: &["--version"],
        source: Source::Debian(&["build-essential"]),
        purpose: "compiles the bundled SQLite and links",
        required: true,
        used_by: &[Use::Test, Use::Bench],
    },
    Need {
        program: "git",
        probe: &["--version"],
        source: Source::Debian(&["git"]),
        purpose: "repositories that the tests make, freeze, review and commit to",
        required: true,
        used_by: &[Use::Test],
    },
    Need {
        program: "cargo-nextest",
        probe: &["--version"],
        source: Source::Cargo("cargo-nextest"),
        purpose: "runs the tests, one process each",
        required: true,
        used_by: &[Use::Test],
    },
    Need {
        program: "python3",
        probe: &["--version"],
        source: Source::Debian(&["python3", "python3-venv"]),
        purpose: "Python projects in the sandbox, and attacks written in it",
        required: false,
        used_by: &[Use::Test],
    },
    Need {
        program: "node",
        probe: &["--version"],
        source: Source::Debian(&["nodejs"]),
        purpose: "programs for Node.js in the sandbox",
        required: false,
        used_by: &[Use::Test],
    },
    Need {
        program: "npm",
        probe: &["--version"],
        source: Source::Debian(&["npm"]),
        purpose: "published npm projects in the sandbox",
        required: false,
        used_by: &[Use::Test],
    },
    Need {
        program: "go",
        probe: &["version"],
        source: Source::Debian(&["golang-go"]),
        purpose: "Go projects in the sandbox",
        required: false,
        used_by: &[Use::Test],
    },
    Need {
        program: "mvn",
        probe: &["--version"],
        source: Source::Debian(&[
            "maven",
            "default-jdk-headless",
            "libmaven-compiler-plugin-java",
            "libmaven-resources-plugin-java",
            "libsurefire-java",
            "junit4",
        ]),
        purpose: "Maven projects in the sandbox",
        required: false,
        used_by: &[Use::Test],
    },
    Need {
        program: "make",
        probe: &["--version"],
        source: Source::Debian(&["make"]),
        purpose: "the shell sample repository",
        required: false,
        used_by: &[Use::Test],
    },
    Need {
        program: "chromium",
        probe: &["--version"],
        source: Source::Debian(&["chromium"]),
        purpose: "hostile plans and the pages of the server in a browser",
        required: false,
        used_by: &[Use::Test],
    },
    Need {
        program: "promtool",
        probe: &["--version"],
        source: Source::Debian(&["prometheus"]),
        purpose: "alerts and the dashboard",
        required: false,
        used_by: &[Use::Test],
    },
    Need {
        program: "busybox",
        probe: &["true"],
        source: Source::Debian(&["busybox-static"]),
        purpose: "a static program, so that a measurement leaves the dynamic loader out",
        required: false,
        used_by: &[Use::Test, Use::Bench],
    },
    Need {
        program: "bwrap",
        probe: &["--version"],
        source: Source::Debian(&["bubblewrap"]),
        purpose: "the sandbox that ours is measured against",
        required: false,
        used_by: &[Use::Test, Use::Bench],
    },
];

/// Makes sure that what a command needs is there: installs it where that is possible without asking
/// for a password, names the command to run otherwise.
///
/// # Errors
/// Fails when something required is still missing. `GLASSHOUSE_NO_INSTALL=1` forbids installing.
pub(crate) fn ensure(place: &Place, by: Use) -> Result<(), Failure> {
    let missing = || NEEDS.iter().filter(|need| need.used_by.contains(&by) && !need.present());
    let may_install = std::env::var_os("GLASSHOUSE_NO_INSTALL").is_none();
    let mut packages = Vec::new();
    for need in missing() {
        match need.source {
            Source::Debian(of) => packages.extend(of.iter().copied()),
            Source::Cargo(krate) if may_install => {
                report(run(place.cargo().args(["install", "--locked", krate])));
            }
            Source::Cargo(_) => {}
        }
    }
    if may_install && !packages.is_empty() && is_root() && answers("apt-get", &["--version"]) {
        report(install_packages(&packages));
    }
    let mut fatal = Vec::new();
    for need in missing() {
        let line = format!("`{}` is missing ({}); {}", need.program, need.purpose, need.remedy());
        if need.required {
            fatal.push(line);
        } else {
            eprintln!("note: {line}");
        }
    }
    if fatal.is_empty() { Ok(()) } else { Err(Failure::new(fatal.join("\n       "))) }
}

impl Need {
    fn present(&self) -> bool {
        answers(self.program, self.probe)
    }

    fn remedy(&self) -> String {
        match self.source {
            Source::Debian(of) => format!("run `apt-get install {}`", of.join(" ")),
            Source::Cargo(krate) => format!("run `cargo install --locked {krate}`"),
        }
    }
}

/// A failed installation is not the end: what is still missing is judged afterwards.
fn report(result: Result<(), Failure>) {
    if let Err(failure) = result {
        eprintln!("warning: {failure}");
    }
}

fn install_packages(packages: &[&str]) -> Result<(), Failure> {
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let install = || {
        let mut command = apt();
        command.args(["install", "--yes", "--no-install-recommends"]).args(packages);
        command
    };
    // The package lists may be old or absent; they are fetched only when the first try fails.
    if run(&mut install()).is_ok() {
        return Ok(());
    }
    run(apt().arg("update"))?;
    run(&mut install())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_need_is_used_and_named_once() {
        for (index, need) in NEEDS.iter().enumerate() {
            assert!(!need.used_by.is_empty(), "{}", need.program);
            assert!(NEEDS[..index].iter().all(|other| other.program != need.program));
        }
    }

    #[test]
    fn a_missing_program_is_not_present_and_has_a_remedy() {
        let need = Need {
            program: "glasshouse-no-such-program",
            probe: &[],
            source: Source::Debian(&["package"]),
            purpose: "nothing",
            required: false,
            used_by: &[Use::Test],
        };
        assert!(!need.present());
        assert_eq!(need.remedy(), "run `apt-get install package`");
    }
}
