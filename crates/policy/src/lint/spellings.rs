//! Other words for what a rule about a command names.
//!
//! No list of the options of all programs could be whole, so a rule finds the words that it names, and
//! what is well known besides is told to whoever writes it.

use crate::command::base_name;

/// Words with which a program is told the same, or nearly so.
struct Alike {
    programs: &'static [&'static str],
    /// The subcommand, where it is one of that.
    of: Option<&'static str>,
    words: &'static [&'static str],
    /// Whether a value follows, which may be written without a blank.
    has_value: bool,
}

const fn flag(
    programs: &'static [&'static str],
    of: Option<&'static str>,
    words: &'static [&'static str],
) -> Alike {
    Alike { programs, of, words, has_value: false }
}

const fn valued(
    programs: &'static [&'static str],
    of: Option<&'static str>,
    words: &'static [&'static str],
) -> Alike {
    Alike { programs, of, words, has_value: true }
}

const CONTAINERS: &[&str] = &["docker", "nerdctl", "podman"];
const NODE_PACKAGES: &[&str] = &["npm", "pnpm"];
const PYTHON_PACKAGES: &[&str] = &["pip", "pip3"];

const ALIKE: &[Alike] = &[
    flag(&["git"], Some("push"), &["--force", "-f", "--force-with-lease", "--mirror", "+BRANCH"]),
    flag(&["git"], Some("push"), &["--delete", "-d", "--prune", "--mirror", ":BRANCH"]),
    flag(&["git"], Some("branch"), &["--delete", "-d", "-D"]),
    flag(&["git"], Some("commit"), &["--no-verify", "-n"]),
    flag(&["git"], Some("checkout"), &["--force", "-f"]),
    flag(&["git"], Some("switch"), &["--force", "-f", "--discard-changes"]),
    valued(&["curl"], None, &["--request", "-X"]),
    valued(
        &["curl"],
        None,
        &[
            "--data",
            "-d",
            "--data-ascii",
            "--data-binary",
            "--data-raw",
            "--data-urlencode",
            "--form",
            "-F",
            "--json",
            "--upload-file",
            "-T",
        ],
    ),
    valued(&["curl"], None, &["--output", "-o", "--remote-name", "-O"]),
    flag(&["curl"], None, &["--insecure", "-k"]),
    flag(&["curl"], None, &["--location", "-L"]),
    valued(&["curl"], None, &["--config", "-K"]),
    valued(&["curl"], None, &["--header", "-H"]),
    valued(&["curl"], None, &["--proxy", "-x"]),
    valued(&["curl"], None, &["--user", "-u"]),
    valued(&["wget"], None, &["--output-document", "-O"]),
    valued(&["wget"], None, &["--post-data", "--post-file", "--body-data", "--body-file"]),
    valued(&["wget"], None, &["--input-file", "-i"]),
    flag(&["rm"], None, &["--recursive", "-r", "-R"]),
    flag(&["rm"], None, &["--force", "-f"]),
    flag(&["chmod", "chown"], None, &["--recursive", "-R"]),
    flag(&["sed"], None, &["--in-place", "-i"]),
    flag(&["find"], None, &["-exec", "-execdir", "-ok", "-okdir"]),
    valued(&["tar"], None, &["--directory", "-C"]),
    flag(&["tar"], None, &["--absolute-names", "-P"]),
    valued(&["make"], None, &["--directory", "-C"]),
    valued(&["make"], None, &["--file", "-f", "--makefile"]),
    valued(&["node"], None, &["--eval", "-e", "--print", "-p"]),
    valued(CONTAINERS, Some("run"), &["--volume", "-v", "--mount"]),
    valued(CONTAINERS, Some("run"), &["--publish", "-p", "--publish-all", "-P"]),
    valued(CONTAINERS, Some("run"), &["--network", "--net"]),
    valued(CONTAINERS, Some("run"), &["--env", "-e", "--env-file"]),
    flag(CONTAINERS, Some("rm"), &["--force", "-f"]),
    flag(NODE_PACKAGES, None, &["--global", "-g", "--location=global"]),
    flag(NODE_PACKAGES, None, &["--force", "-f"]),
    valued(
        PYTHON_PACKAGES,
        Some("install"),
        &["--index-url", "-i", "--extra-index-url", "--find-links", "-f"],
    ),
    valued(PYTHON_PACKAGES, Some("install"), &["--requirement", "-r"]),
    valued(PYTHON_PACKAGES, Some("install"), &["--target", "-t"]),
    valued(&["kubectl"], None, &["--filename", "-f", "--kustomize", "-k"]),
    valued(&["kubectl"], None, &["--namespace", "-n", "--all-namespaces", "-A"]),
    flag(&["terraform", "tofu"], None, &["-auto-approve", "--auto-approve"]),
];

/// Whether a command has a word in it that stands for any of a kind, so that no list has all of them.
pub(super) fn stands_for_any(command: &str) -> bool {
    ["+BRANCH", ":BRANCH"].iter().any(|word| command.contains(word))
}

/// The same commands in the other words that are known.
pub(super) fn others(words: &[Box<str>]) -> Vec<Vec<String>> {
    let Some((program, more)) = words.split_first() else { return Vec::new() };
    let program = base_name(program);
    let sub = more.iter().find(|word| !word.starts_with('-'));
    let of_program = ALIKE.iter().filter(|alike| {
        alike.programs.contains(&program)
            && alike.of.is_none_or(|of| sub.is_some_and(|sub| **sub == *of))
    });
    let of_program: Vec<&Alike> = of_program.collect();
    let with = |at: usize, word: &str, until: usize| {
        let mut other: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        other.splice(at..until, [word.to_owned()]);
        other
    };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate().skip(1) {
        let (name, glued) = word.split_once('=').map_or((&**word, None), |(n, v)| (n, Some(v)));
        for alike in of_program.iter().filter(|alike| alike.words.contains(&name)) {
            let value = words.get(at + 1).filter(|next| glued.is_none() && !next.starts_with('-'));
            if let Some(value) = value.filter(|_| alike.has_value) {
                let joint = if name.starts_with("--") { "=" } else { "" };
                found.push(with(at, &format!("{name}{joint}{value}"), at + 2));
            }
            if let Some(value) = glued {
                let mut apart = with(at, name, at + 1);
                apart.insert(at + 1, value.to_owned());
                found.push(apart);
            }
            let other_words = alike.words.iter().filter(|other| **other != name);
            found.extend(other_words.map(|other| with(at, other, at + 1)));
        }
    }
    found
}
