//! Mutants of the policy: one token of the code that decides is changed, and a test has to fail.
//!
//! Each mutant is built and tested in a copy of the tree outside the clone. One that passes every test
//! survives: it shows a line that no test holds. `tests/mutants.txt` lists those that may, each with a
//! reason; a survivor that is not listed fails the run, and so does a listed one that no longer survives.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::place::{Place, cargo};
use crate::process::{Doing, Failure, status_within};
use crate::sabotage::mirror;

/// Files whose mutants must all be noticed: evaluation and grants.
const FILES: &[&str] = &["approval.rs", "decide.rs", "grant.rs", "standing.rs"];
/// What reads shell scripts. It is large, so it is tried only where it is named, by file or as a whole.
const READER: &[&str] = &[
    "command.rs",
    "command/git.rs",
    "command/programs.rs",
    "command/sought.rs",
    "command/values.rs",
    "command/wrappers.rs",
    "shell.rs",
    "shell/arithmetic.rs",
    "shell/builtins.rs",
    "shell/commands.rs",
    "shell/options.rs",
    "shell/variables.rs",
    "shell/words.rs",
];
const PACKAGE: &str = "crates/policy";
const FOLDER: &str = "crates/policy/src";
/// The survivors that may be, as `FILE | LINE | FROM -> TO | REASON`.
const LISTED: &str = "tests/mutants.txt";
/// The tests take seconds; this is a loop without end.
const LIMIT: Duration = Duration::from_secs(300);
/// Tests, by a part of their names, that take as long as all others together. They run last.
const SLOW: &[&str] = &["differential", "random", "limits_hold", "ten_thousand_rules"];
/// How many random cases a property gets for one mutant.
const CASES: &str = "32";

/// What is put in the place of what, outside of texts and comments.
const CHANGES: &[(&str, &str)] = &[
    (" == ", " != "),
    (" != ", " == "),
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" && ", " || "),
    (" || ", " && "),
    (" + ", " - "),
    (" |= ", " &= "),
    ("(!", "("),
    (" !", " "),
    (".any(", ".all("),
    (".all(", ".any("),
    (".min(", ".max("),
    (".max(", ".min("),
    (".is_some()", ".is_none()"),
    (".is_none()", ".is_some()"),
    (".is_some_and(", ".is_none_or("),
    (".is_none_or(", ".is_some_and("),
    ("true", "false"),
    ("false", "true"),
    ("Effect::Deny", "Effect::Allow"),
    ("Effect::Allow", "Effect::Deny"),
    ("Effect::RequireReview", "Effect::Allow"),
];

/// One change of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mutant {
    file: &'static str,
    /// Index of the line.
    line: usize,
    /// Where on it.
    column: usize,
    from: &'static str,
    to: &'static str,
    /// The line as it was, trimmed.
    text: String,
}

impl Mutant {
    /// Its name in the list, which other lines of the file do not change.
    fn name(&self) -> String {
        format!("{} | {} | {} -> {}", self.file, self.text, self.from.trim(), self.to.trim())
    }

    fn apply(&self, source: &str) -> String {
        let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
        lines[self.line].replace_range(self.column..self.column + self.from.len(), self.to);
        lines.join("\n") + "\n"
    }
}

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Noticed,
    /// It does not compile, so it is no program that a test could meet.
    Unbuilt,
    Survived,
}

/// Which mutants are wanted.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    files: Vec<&'static str>,
    /// Only those whose name holds one of these texts; all when there is none.
    with: Vec<String>,
    /// Of many only each of so many.
    every: usize,
}

impl Wanted {
    fn holds(&self, mutant: &Mutant) -> bool {
        let name = mutant.name();
        self.with.is_empty() || self.with.iter().any(|text| name.contains(text.as_str()))
    }
}

/// `cargo xtask mutants`: every file, or those that are named, `--reader` for those that read shell scripts; of many
/// only each `--every`th.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    let wanted = read(arguments)?;
    let listed = listed(place)?;
    let workshop = Workshop::open(place)?;
    let mut met: BTreeMap<String, Fate> = BTreeMap::new();
    for file in &wanted.files {
        let source = workshop.source(file)?;
        let found = mutants(file, &source);
        for mutant in found.iter().filter(|mutant| wanted.holds(mutant)).step_by(wanted.every) {
            let fate = workshop.fate(mutant, &source)?;
            println!("{fate:?}: {}:{} {}", mutant.file, mutant.line + 1, mutant.name());
            let worst = met.entry(mutant.name()).or_insert(fate);
            if fate == Fate::Survived {
                *worst = fate;
            }
        }
        workshop.write(file, &source)?;
    }
    judge(&met, &listed)
}

fn read(arguments: &[String]) -> Result<Wanted, Failure> {
    let (mut files, mut with, mut every) = (Vec::new(), Vec::new(), 1);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--every" {
            let count = arguments.next().and_then(|text| text.parse().ok());
            every = count
                .filter(|count| *count > 0)
                .ok_or_else(|| Failure::new("`--every` takes a number, at least 1"))?;
        } else if argument == "--with" {
            let text = arguments.next().ok_or_else(|| Failure::new("`--with` takes a text"))?;
            with.push(text.clone());
        } else if argument == "--reader" {
            files.extend(READER);
        } else if let Some(file) =
            FILES.iter().chain(READER).find(|file| **file == argument.as_str())
        {
            files.push(*file);
        } else {
            let known = [FILES, READER].concat().join(", ");
            return Err(Failure::new(format!("no mutants of `{argument}`; there are: {known}")));
        }
    }
    if files.is_empty() {
        files = FILES.to_vec();
    }
    Ok(Wanted { files, with, every })
}

/// The survivors that are not listed, and the listed ones that were met and did not survive.
fn judge(met: &BTreeMap<String, Fate>, listed: &[String]) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for (name, fate) in met {
        match (fate, listed.contains(name)) {
            (Fate::Survived, false) => wrong.push(format!("survived: {name}")),
            (Fate::Noticed | Fate::Unbuilt, true) => {
                wrong.push(format!("listed for nothing: {name}"))
            }
            _ => {}
        }
    }
    let noticed = met.values().filter(|fate| **fate == Fate::Noticed).count();
    println!("{} mutants, {noticed} noticed by a test", met.len());
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

/// The names of the list. A line without a reason is none.
fn listed(place: &Place) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(place.root().join(LISTED))
        .doing(format_args!("could not read {LISTED}"))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.rsplit_once(" | ") {
            Some((name, reason))
                if name.matches(" | ").count() >= 2 && !reason.trim().is_empty() =>
            {
                Ok(name.to_owned())
            }
            _ => Err(Failure::new(format!(
                "{LISTED}: expected FILE | LINE | CHANGE | REASON: {line}"
            ))),
        })
        .collect()
}

/// Every mutant of a file, in its order. Its unit tests are left as they are.
fn mutants(file: &'static str, source: &str) -> Vec<Mutant> {
    let mut found = Vec::new();
    let mut lines = source.lines().enumerate().peekable();
    while let Some((line, text)) = lines.next() {
        let opens = |next: &(usize, &str)| next.1.starts_with("mod ") && next.1.ends_with('{');
        if text == "#[cfg(test)]" && lines.peek().is_some_and(opens) {
            break;
        }
        let trimmed = text.trim_start();
        if trimmed.starts_with("//") || trimmed.starts_with('#') || trimmed.starts_with("use ") {
            continue;
        }
        for (from, to) in CHANGES {
            for (column, _) in text.match_indices(from) {
                if is_code(text, column) && is_word(text, column, from) {
                    let text = trimmed.to_owned();
                    found.push(Mutant { file, line, column, from, to, text });
                }
            }
        }
    }
    found
}

/// Whether a place is neither in a text nor in a comment. Texts of several lines hold prose.
fn is_code(line: &str, column: usize) -> bool {
    let before = &line[..column];
    before.replace("\\\"", "").matches('"').count().is_multiple_of(2) && !before.contains(" //")
}

/// Whether a change of a word does not change a part of another one.
fn is_word(line: &str, column: usize, from: &str) -> bool {
    let in_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    !from.starts_with(in_word)
        || !(line[..column].ends_with(in_word) || line[column + from.len()..].starts_with(in_word))
}

/// The copy of the tree that is changed, with its own build folder.
struct Workshop {
    tree: PathBuf,
    target: PathBuf,
}

impl Workshop {
    /// Copies the tree; its tests must pass, or a failure means nothing.
    fn open(place: &Place) -> Result<Self, Failure> {
        let folder = place.cache()?.join("mutants");
        fs::create_dir_all(&folder).doing(format_args!("could not make {}", folder.display()))?;
        let workshop = Self { tree: folder.join("tree"), target: folder.join("target") };
        fs::create_dir_all(&workshop.tree).doing("could not make the tree")?;
        mirror(place.root(), &place.files()?, &workshop.tree)?;
        if let Some(programs) = workshop.build()?
            && workshop.passes(&programs)?
        {
            return Ok(workshop);
        }
        Err(Failure::new("without any change the tests of the policy do not pass"))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.tree.join(Path::new(FOLDER)).join(file)
    }

    fn source(&self, file: &str) -> Result<String, Failure> {
        fs::read_to_string(self.path(file)).doing(format_args!("could not read {file}"))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Failure> {
        fs::write(self.path(file), text).doing(format_args!("could not write {file}"))
    }

    fn fate(&self, mutant: &Mutant, source: &str) -> Result<Fate, Failure> {
        self.write(mutant.file, &mutant.apply(source))?;
        let Some(programs) = self.build()? else { return Ok(Fate::Unbuilt) };
        Ok(if self.passes(&programs)? { Fate::Survived } else { Fate::Noticed })
    }

    /// Builds the crate's tests and names their programs; `None` when it does not compile.
    fn build(&self) -> Result<Option<Vec<PathBuf>>, Failure> {
        let mut command = cargo(&self.tree);
        command.args(["test", "--quiet", "--locked", "--package", "glasshouse-policy"]);
        command.args(["--lib", "--test", "it", "--no-run", "--message-format", "json"]);
        // Nobody debugs a mutant, and less to link is most of what building one costs.
        command.env("CARGO_TARGET_DIR", &self.target).env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().doing("could not start cargo")?;
        let programs =
            String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect();
        Ok(output.status.success().then_some(programs))
    }

    /// Whether every test passes: the quick ones first, since most mutants end there.
    fn passes(&self, programs: &[PathBuf]) -> Result<bool, Failure> {
        let mut quick: Vec<&str> = SLOW.iter().flat_map(|slow| ["--skip", slow]).collect();
        quick.push("--quiet");
        let slow: Vec<&str> = SLOW.iter().copied().chain(["--quiet"]).collect();
        for arguments in [quick, slow] {
            for program in programs {
                if !self.test(program, &arguments)? {
                    return Ok(false);
                }
            }
        }
        Ok(!programs.is_empty())
    }

    /// Runs a test program; one that never ends has noticed something.
    fn test(&self, program: &Path, arguments: &[&str]) -> Result<bool, Failure> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.tree.join(PACKAGE));
        // A failure is no find here: nothing is shrunk and nothing kept.
        command.env("PROPTEST_CASES", CASES).env("PROPTEST_MAX_SHRINK_ITERS", "0");
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = status_within(&mut command, LIMIT)?;
        Ok(status.is_some_and(|status| status.success()))
    }
}

/// The test program that a line of cargo's messages tells of.
fn program(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool() == Some(true);
    Some(PathBuf::from(message["executable"].as_str().filter(|_| is_test)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_of_the_code_is_changed_once() {
        let source = "#[cfg(test)]\nmod tests;\n// a == b\nif a == b && !c { \"x == y\" } // == z\nlet truest = true;\n#[cfg(test)]\nmod tests {\na == b\n";
        let found = mutants("f.rs", source);
        let changed: Vec<String> = found
            .iter()
            .map(|mutant| {
                mutant.apply(source).lines().nth(mutant.line).map(str::to_owned).unwrap_or_default()
            })
            .collect();
        assert_eq!(
            changed,
            [
                "if a != b && !c { \"x == y\" } // == z",
                "if a == b || !c { \"x == y\" } // == z",
                "if a == b && c { \"x == y\" } // == z",
                "let truest = false;",
            ]
        );
        assert_eq!(found[0].name(), "f.rs | if a == b && !c { \"x == y\" } // == z | == -> !=");
    }

    #[test]
    fn mutants_are_chosen_by_file_text_and_number() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wanted = read(&words("grant.rs --with == --with .any( --every 2")).expect("it reads");
        assert_eq!((wanted.files.join(" "), wanted.every), ("grant.rs".to_owned(), 2));
        let of = |text: &str| mutants("grant.rs", text).iter().filter(|m| wanted.holds(m)).count();
        assert_eq!((of("a == b"), of("a < b"), of("x.any(y)")), (1, 0, 1));
        let reader = read(&words("--reader --every 6")).expect("it reads");
        assert_eq!(reader.files, READER);
        assert_eq!(read(&[]).expect("it reads").files, FILES);
        assert_eq!(read(&words("shell/words.rs")).expect("it reads").files, ["shell/words.rs"]);
        for wrong in ["--with", "--every 0", "other.rs"] {
            read(&words(wrong)).expect_err(wrong);
        }
    }

    #[test]
    fn a_survivor_is_listed_and_a_listed_one_survives() {
        let check = |fate: Fate, listed: bool, passes: bool| {
            let met = BTreeMap::from([("m".to_owned(), fate)]);
            let listed = if listed { vec!["m".to_owned()] } else { Vec::new() };
            assert_eq!(judge(&met, &listed).is_ok(), passes, "{fate:?}");
        };
        check(Fate::Survived, false, false);
        check(Fate::Survived, true, true);
        check(Fate::Noticed, false, true);
        check(Fate::Noticed, true, false);
        check(Fate::Unbuilt, false, true);
        assert!(judge(&BTreeMap::new(), &["elsewhere".to_owned()]).is_ok());
    }
}
