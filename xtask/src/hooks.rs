//! Git hooks: fast checks before a commit, the changed crates before a push.

use std::collections::BTreeSet;
use std::io::Read as _;

use crate::place::Place;
use crate::process::{Doing, Failure, capture, run};
use crate::tidy;

/// The folder that git is told to take hooks from.
const FOLDER: &str = ".githooks";

/// `cargo xtask hooks`.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    match arguments {
        [] => {
            run(place.git().args(["config", "core.hooksPath", FOLDER]))?;
            println!("git runs the hooks in {FOLDER} from now on");
            Ok(())
        }
        [name] if name == "pre-commit" => {
            run(place.cargo().args(["fmt", "--all", "--check"]))?;
            tidy::command(place, &[])
        }
        [name] if name == "pre-push" => {
            let mut pushed = String::new();
            std::io::stdin().read_to_string(&mut pushed).doing("could not read what is pushed")?;
            pre_push(place, &pushed)
        }
        _ => Err(Failure::new("`hooks` takes nothing, `pre-commit` or `pre-push`")),
    }
}

fn pre_push(place: &Place, pushed: &str) -> Result<(), Failure> {
    let mut changed = String::new();
    for (old, new) in ranges(pushed) {
        let mut git = place.git();
        match old {
            Some(old) => git.args(["diff", "--name-only", "--no-renames", old, new]),
            // A new branch brings every commit that no remote has yet.
            None => git.args(["log", "--name-only", "--format=", new, "--not", "--remotes"]),
        };
        changed.push_str(&capture(&mut git)?);
    }
    let packages: Vec<String> = match affected(changed.lines()) {
        Affected::Everything => vec!["--workspace".to_owned()],
        Affected::Packages(names) if names.is_empty() => return Ok(()),
        Affected::Packages(names) => {
            names.into_iter().map(|name| format!("--package={name}")).collect()
        }
    };
    let mut clippy = place.cargo();
    clippy.arg("clippy").args(&packages).args(["--all-targets", "--", "-D", "warnings"]);
    run(&mut clippy)?;
    let mut nextest = place.cargo();
    nextest.args(["nextest", "run", "--no-tests", "pass"]).args(&packages);
    run(&mut nextest)
}

/// What git tells a pre-push hook: lines of local ref, local commit, remote ref, remote commit. A
/// commit of zeros means that the branch is new, or deleted.
fn ranges(pushed: &str) -> Vec<(Option<&str>, &str)> {
    let exists = |commit: &&str| commit.bytes().any(|byte| byte != b'0');
    pushed
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (new, old) = (words.nth(1)?, words.nth(1)?);
            exists(&new).then_some((Some(old).filter(exists), new))
        })
        .collect()
}

/// Which packages a set of changed files concerns.
#[derive(Debug, PartialEq, Eq)]
enum Affected {
    Everything,
    Packages(BTreeSet<String>),
}

fn affected<'a>(files: impl Iterator<Item = &'a str>) -> Affected {
    let mut names = BTreeSet::new();
    for file in files {
        let mut parts = file.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(name)) => _ = names.insert(format!("glasshouse-{name}")),
            (Some("xtask"), Some(_)) => _ = names.insert("xtask".to_owned()),
            (Some("Cargo.toml" | "Cargo.lock" | "rust-toolchain.toml" | "clippy.toml"), None) => {
                return Affected::Everything;
            }
            // The command carries the sample repository, and its tests use the others.
            (Some("examples"), Some(_)) => _ = names.insert("glasshouse-cli".to_owned()),
            // Everything else is read by the tidy test alone.
            _ => _ = names.insert("xtask".to_owned()),
        }
    }
    Affected::Packages(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_refs_become_ranges() {
        let zeros = "0000000000000000000000000000000000000000";
        let text = format!(
            "refs/heads/a 1111 refs/heads/a 2222\nrefs/heads/b 3333 refs/heads/b {zeros}\n\
             (delete) {zeros} refs/heads/c 4444\n"
        );
        assert_eq!(ranges(&text), [(Some("2222"), "1111"), (None, "3333")]);
    }

    #[test]
    fn changed_files_name_their_packages() {
        let packages = |names: &[&str]| {
            Affected::Packages(names.iter().map(|name| (*name).to_owned()).collect())
        };
        for (files, expected) in [
            (vec![], packages(&[])),
            (vec!["crates/log/src/lib.rs", "crates/log/Cargo.toml"], packages(&["glasshouse-log"])),
            (vec!["xtask/src/main.rs", "docs/glossary.md"], packages(&["xtask"])),
            (vec!["crates/plan/src/lib.rs", "Cargo.lock"], Affected::Everything),
        ] {
            assert_eq!(affected(files.iter().copied()), expected, "{files:?}");
        }
    }
}
