//! Fuzzing guided by coverage: inputs that reach new code are kept and changed further.
//!
//! It needs what the rest of the project does not: a nightly toolchain and `cargo fuzz`. The same functions
//! run on stable Rust as ordinary tests, over the same seeds, changed at random.

use std::fs;
use std::process::{Command, Stdio};

use crate::place::{Place, without};
use crate::process::{Doing, Failure, Stream, tee};

/// The workspace of the fuzzers.
const FOLDER: &str = "fuzz";
/// How long each target runs unless it is said.
const SECONDS: u32 = 60;
/// The line with which the engine tells how often it ran a target.
const COUNT: &str = "stat::number_of_executed_units:";

/// `cargo xtask fuzz`: the named target, or each of them in turn.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    let manifest = fs::read_to_string(place.root().join(FOLDER).join("Cargo.toml"))
        .doing("could not read the fuzzers' manifest")?;
    let (targets, seconds) = read(arguments, &targets(&manifest))?;
    check_tools(place)?;
    let mut found = Vec::new();
    for target in &targets {
        match run(place, target, seconds) {
            Ok(count) => println!("{target}: {count} inputs in {seconds} s, nothing found"),
            Err(failure) => {
                println!("{target}: {failure}");
                found.push(target.as_str());
            }
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("{} found something", found.join(", "))))
    }
}

fn read(arguments: &[String], known: &[String]) -> Result<(Vec<String>, u32), Failure> {
    let (mut targets, mut seconds) = (Vec::new(), SECONDS);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--seconds" {
            let count = arguments.next().and_then(|text| text.parse().ok());
            seconds = count
                .filter(|count| *count > 0)
                .ok_or_else(|| Failure::new("`--seconds` takes a number, at least 1"))?;
        } else if known.contains(argument) {
            targets.push(argument.clone());
        } else {
            let known = known.join(", ");
            return Err(Failure::new(format!("no fuzzer `{argument}`; there are: {known}")));
        }
    }
    Ok((if targets.is_empty() { known.to_vec() } else { targets }, seconds))
}

/// The programs that a manifest names.
fn targets(manifest: &str) -> Vec<String> {
    let programs = manifest.split("[[bin]]").skip(1);
    let name = |program: &str| {
        let line = program.lines().find_map(|line| line.strip_prefix("name = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    programs.filter_map(name).collect()
}

/// A command of the nightly toolchain. It is chosen by the name that rustup's `cargo` knows, so what the
/// outer cargo says of its own toolchain must not reach it.
fn nightly(place: &Place) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").current_dir(place.root());
    without(&mut command, |name| {
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    });
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    // A toolchain is not fetched by the way.
    command.env("RUSTUP_AUTO_INSTALL", "0");
    command
}

fn check_tools(place: &Place) -> Result<(), Failure> {
    let answers = |arguments: &[&str]| {
        let mut command = nightly(place);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let missing = if !answers(&["--version"]) {
        "a nightly toolchain: `rustup toolchain install nightly`"
    } else if !answers(&["fuzz", "--version"]) {
        "cargo-fuzz: `cargo install cargo-fuzz`"
    } else {
        return Ok(());
    };
    Err(Failure::new(format!("fuzzing needs {missing}")))
}

/// Runs one target and answers how many inputs it was given.
fn run(place: &Place, target: &str, seconds: u32) -> Result<String, Failure> {
    let folder = place.target().join(FOLDER);
    let (corpus, finds) = (folder.join("corpus").join(target), folder.join("finds").join(target));
    for folder in [&corpus, &finds] {
        fs::create_dir_all(folder).doing(format_args!("could not make {}", folder.display()))?;
    }
    let mut command = nightly(place);
    command.args(["fuzz", "run", "--fuzz-dir", FOLDER, "--target-dir"]).arg(folder.join("build"));
    // Only what this fuzzer needs is built.
    let feature = target.split('-').next().unwrap_or(target);
    command.args(["--features", feature, target]).arg(&corpus);
    let seeds = place.root().join(FOLDER).join("seeds").join(target);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    command.arg("--").arg(format!("-artifact_prefix={}/", finds.display()));
    let words = place.root().join(FOLDER).join("words").join(format!("{target}.txt"));
    if words.is_file() {
        command.arg(format!("-dict={}", words.display()));
    }
    command.arg(format!("-max_total_time={seconds}"));
    // An input that takes longer than this is a find as well.
    command.args(["-timeout=20", "-rss_limit_mb=4096", "-verbosity=0", "-print_funcs=0"]);
    command.arg("-print_final_stats=1");
    let (status, text) = tee(&mut command, Stream::Stderr)?;
    if !status.success() {
        return Err(Failure::new(format!("ended with {status}; see {}", finds.display())));
    }
    let count = text.lines().find_map(|line| line.strip_prefix(COUNT));
    let count = count.ok_or_else(|| Failure::new("did not say how many inputs it had"))?;
    Ok(count.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str =
        "[package]\nname = \"x\"\n[[bin]]\nname = \"a\"\npath = \"p\"\n\n[[bin]]\nname = \"b-c\"\n";

    #[test]
    fn targets_are_the_programs_of_the_manifest() {
        assert_eq!(targets(MANIFEST), ["a", "b-c"]);
    }

    #[test]
    fn each_argument_is_a_target_or_the_time() {
        let check = |line: &str, expected: Option<(&str, u32)>| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let found = read(&arguments, &targets(MANIFEST)).ok();
            let found = found.map(|(targets, seconds)| (targets.join(" "), seconds));
            let expected = expected.map(|(targets, seconds)| (targets.to_owned(), seconds));
            assert_eq!(found, expected, "{line}");
        };
        check("", Some(("a b-c", SECONDS)));
        check("b-c --seconds 5", Some(("b-c", 5)));
        check("--seconds 0", None);
        check("--seconds", None);
        check("d", None);
    }
}
