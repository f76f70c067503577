//! Tables of the documentation, held to what is measured and to what there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use glasshouse_sandbox::{Command, Profile, ReadOnlyMount, Sandbox, Status, WritableMount};

use crate::support::*;

/// What runs where.
const SANDBOX: &str = include_str!("../../../../docs/sandbox.md");
/// What each level stops, and what remains.
const THREAT_MODEL: &str = include_str!("../../../../docs/threat-model.md");

/// The rows of the table under a heading that begins so, as cells without marks of code.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip_while(|line| !line.starts_with(heading));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| {
        row.trim_matches(['|', ' ']).split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

/// A program of the table: where it has to be installed, what it does, and what it then says.
struct Measured {
    name: &'static str,
    needs: &'static str,
    argv: &'static [&'static str],
    says: &'static str,
}

/// In the order of the table.
const PROGRAMS: [Measured; 8] = [
    Measured {
        name: "a Rust program with the system's C library",
        needs: PROBE_INSIDE,
        argv: &[PROBE_INSIDE, "__sandboxd", "probe", "read", "/workspace/base.txt"],
        says: "reached",
    },
    Measured {
        name: "`sh`, by itself",
        needs: "/bin/sh",
        argv: &["sh", "-c", "read line < base.txt; echo $line"],
        says: "base",
    },
    Measured {
        name: "`sh` with programs",
        needs: "/bin/sh",
        argv: &["sh", "-c", "cat base.txt | tr a b"],
        says: "bbse",
    },
    Measured {
        name: "`python3` with threads",
        needs: "/usr/bin/python3",
        argv: &[
            "python3",
            "-c",
            "import threading; t = threading.Thread(target=lambda: print('ran')); t.start(); t.join()",
        ],
        says: "ran",
    },
    Measured {
        name: "`python3` with programs",
        needs: "/usr/bin/python3",
        argv: &["python3", "-c", "import subprocess; subprocess.run(['echo', 'ran'], check=True)"],
        says: "ran",
    },
    Measured {
        name: "`node`",
        needs: "/usr/bin/node",
        argv: &["node", "-e", "console.log([1, 2].map(x => x * 2).join())"],
        says: "2,4",
    },
    Measured {
        name: "`git commit`",
        needs: "/usr/bin/git",
        argv: &[
            "sh",
            "-ec",
            "rm -rf r; git init -q r; cd r; echo x > f; git add f; \
             git -c user.name=a -c user.email=a@b.c commit -qm m; git log --oneline | wc -l",
        ],
        says: "1",
    },
    Measured {
        name: "`cargo build`",
        needs: "cargo",
        argv: &[
            "sh",
            "-ec",
            "rm -rf c; mkdir -p c/src; cd c; \
             printf '[package]\\nname=\"c\"\\nversion=\"0.1.0\"\\nedition=\"2024\"\\n' > Cargo.toml; \
             echo 'fn main() { println!(\"built\"); }' > src/main.rs; \
             cargo build --offline -q; ./target/debug/c",
        ],
        says: "built",
    },
];

/// Where a program of ours that is linked dynamically is inside.
const PROBE_INSIDE: &str = "/opt/dynamic";

/// The user's Rust toolchains, and the programs of one.
fn rust() -> Option<(PathBuf, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let rustup = home.join(".rustup").canonicalize().ok()?;
    let one = fs::read_dir(rustup.join("toolchains")).ok()?.next()?.ok()?.path();
    Some((rustup, one.join("bin")))
}

fn sandbox(home: &Home, profile: Profile) -> Sandbox {
    let mut spec = home.spec("s1");
    spec.template.seccomp = profile;
    let dynamic = ReadOnlyMount { source: program(), target: PROBE_INSIDE.into() };
    let rust = rust().map(|(source, _)| ReadOnlyMount { target: source.clone(), source });
    spec.mounts = [Some(dynamic), rust].into_iter().flatten().collect();
    let programs = rust_path();
    spec.env = vec![("PATH".to_owned(), format!("{programs}:/usr/bin:/bin"))];
    home.host.create(&spec).unwrap()
}

fn rust_path() -> String {
    rust().map_or_else(String::new, |(_, bin)| bin.display().to_string())
}

fn is_there(needs: &str) -> bool {
    match needs {
        PROBE_INSIDE => true,
        "cargo" => rust().is_some(),
        path => Path::new(path).exists(),
    }
}

/// The matrix of programs and profiles in `docs/sandbox.md`, measured.
#[test]
fn which_programs_run_under_which_profile_is_as_documented() {
    let test = "which_programs_run_under_which_profile_is_as_documented";
    let documented = table(SANDBOX, "| Program |");
    let names: Vec<_> = documented.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, PROGRAMS.map(|program| program.name), "a row for each, in this order");
    let home = Home::new();
    let profiles = [Profile::Strict, Profile::Standard, Profile::StandardNet];
    let mut found = Vec::new();
    for profile in profiles {
        let sandbox = sandbox(&home, profile);
        for (program, row) in PROGRAMS.iter().zip(&documented) {
            if !is_there(program.needs) {
                skipped(test, &format!("{} is not installed", program.needs));
                continue;
            }
            let ran = run(&sandbox, &Command::new(program.argv.iter().copied()));
            let runs = ran.result.status == Status::Exited(0) && ran.out.trim() == program.says;
            let column = 1 + profiles.iter().position(|known| *known == profile).unwrap();
            let word = if runs { "runs" } else { "refused" };
            if row[column] != word {
                found.push(format!("{} under {profile:?}: {word}: {ran:?}", program.name));
            }
        }
        sandbox.destroy().unwrap();
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// What is said to remain is there, so that nobody looks for a fault, and nobody promises more.
#[test]
fn what_remains_is_seen_from_inside() {
    let home = Home::new();
    let cache = home.path("cache");
    fs::create_dir(&cache).unwrap();
    let with_cache = || {
        let mut spec = home.spec("s1");
        let target = PathBuf::from("/cache");
        spec.caches = vec![WritableMount { source: cache.clone(), target }];
        home.host.create(&spec).unwrap()
    };
    let sandbox = with_cache();
    for file in ["loadavg", "meminfo", "stat", "uptime", "version", "sys/fs/file-nr"] {
        let script = format!("read line < /proc/{file}; echo ${{#line}}");
        assert_ne!(shell(&sandbox, &script).ok(), "0\n", "{file}");
    }
    let boot = "/proc/sys/kernel/random/boot_id";
    let outside = fs::read_to_string(boot).unwrap();
    assert_eq!(shell(&sandbox, &format!("cat {boot}")).ok(), outside);
    let mounts = shell(&sandbox, "cat /proc/self/mountinfo").ok();
    assert!(mounts.contains(home.directory.path().to_str().unwrap()), "{mounts}");
    shell(&sandbox, "echo poison > /cache/left").ok();
    sandbox.destroy().unwrap();
    // The next sandbox of the same branch.
    assert_eq!(shell(&with_cache(), "cat /cache/left").ok(), "poison\n");
}

/// Every test that the threat model names is there, and every level and every row names one or says why not.
#[test]
fn what_the_threat_model_names_is_there() {
    let mut known = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !root.exists() {
        return; // The second run, elsewhere; this one has read the sources.
    }
    let mut queue = vec![root.join("sandbox"), root.join("cli/tests"), root.join("kernel")];
    while let Some(directory) = queue.pop() {
        for path in entries(&directory) {
            if path.is_dir() {
                queue.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                known.extend(tests_in(&text));
            }
        }
    }
    let held = table(THREAT_MODEL, "| Level | Stops |");
    let levels: Vec<_> = held.iter().map(|row| row[0].trim_matches('`')).collect();
    let mut all: Vec<_> = glasshouse_sandbox::Level::ALL.map(|level| level.to_string()).into();
    all.reverse();
    assert_eq!(levels, all, "a row for each level, the most first");
    let remains = table(THREAT_MODEL, "| What | Why | What to do |");
    assert!(remains.len() >= 10, "{remains:?}");
    for row in held.iter().chain(&remains) {
        assert_eq!(row.len(), 4, "{row:?}");
        let named: Vec<_> = row[3].split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty() || row[3].starts_with("not shown: "), "{row:?}");
        for name in named {
            assert!(known.contains(name), "there is no test `{name}`");
        }
    }
}

/// Names of the tests in a source.
fn tests_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
            names.extend(rest.split('(').next().map(str::to_owned));
            is_test = false;
        }
    }
    names
}
