//! Ways to spell a path. However it is written, by whatever call: no change reaches a protected file.

use std::fmt::Write as _;

use glasshouse_model::Kind;

use crate::harness::{Place, Ran, statuses};

const KEPT: &str = "mode: strict\n";

/// Spellings of the file `config.yaml` in the directory `D`, and whether a program of this system reaches
/// it so where nothing protects it.
const SPELLINGS: &[(&str, bool)] = &[
    ("D/config.yaml", true),
    ("./D/config.yaml", true),
    ("D//config.yaml", true),
    ("D/./config.yaml", true),
    ("src/../D/config.yaml", true),
    ("D/../D/config.yaml", true),
    ("link/config.yaml", true),
    ("D/CONFIG.YAML", false),
    ("D/config.yaml ", false),
    ("D/config.yaml.", false),
    ("D%2Fconfig.yaml", false),
    ("%44/config.yaml", false),
    ("D/config.yaml~", false),
    ("D/.config.yaml.swp", false),
    ("D/config.yaml-wal", false),
    ("D/config.yaml::$DATA", false),
    ("D/con\u{fb01}g.yaml", false),
    ("D/config\u{200d}.yaml", false),
    ("\u{ff0e}D/config.yaml", false),
    ("D/config.yaml%00.txt", false),
    ("D/%2e%2e/D/config.yaml", false),
    ("D/config.yaml\u{301}", false),
    ("D/cafe\u{301}.yaml", false),
    ("D/caf\u{e9}.yaml", false),
    ("D/.config.yaml", false),
    ("D/config.yaml-shm", false),
    ("D/config.yaml.lock", false),
    ("src/tool.sh/../../D/config.yaml", false),
];

/// Texts that are no path at all, in which a protected file is named.
const NO_PATHS: &[&str] = &[
    "D/config.yaml\0",
    "src/tool.sh\0/../../D/config.yaml",
    "D/config.yaml\u{1b}",
    "../project/D/config.yaml",
];

/// Other ways of writing the protected directory's name itself.
const NAMES: &[&str] = &[
    ".GLASSHOUSE",
    ".GlassHouse",
    ".glasshouse.",
    ".glasshouse ",
    ".GLASSH~1",
    ".gla\u{17f}shouse",
];

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A step that tries one path by every call that can change something.
fn attempts(out: &mut String, at: usize, path: &str) {
    let path = quoted(path);
    let script = quoted("echo changed > \"$0\"");
    let _ = writeln!(
        out,
        "  - emit:
      - {{ call: {{ id: shell{at}, tool: shell.run, args: {{ argv: [sh, -c, {script}, {path}] }} }} }}
      - {{ call: {{ id: edit{at}, tool: fs.edit, args: {{ path: {path}, old: strict, new: changed }} }} }}
      - {{ call: {{ id: write{at}, tool: fs.write, args: {{ path: {path}, content: changed }} }} }}
      - {{ call: {{ id: remove{at}, tool: shell.run, args: {{ argv: [rm, -f, --, {path}] }} }} }}"
    );
}

/// Explores, where everything else may be written, and tries all paths.
fn explore(place: &Place, directory: &str, paths: &[String], last: &str) -> Ran {
    let project = place.shell_project();
    let dir = project.join(directory);
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("config.yaml");
    let config = std::fs::read_to_string(project.join(".glasshouse/config.yaml")).unwrap();
    std::fs::write(&file, format!("{config}{KEPT}")).unwrap();
    // Nearly all of it fails, which is no reason to end.
    let user = place.path("config/glasshouse");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join("config.yaml"), "budget: { calls: 2000, errors: 2000 }\n").unwrap();
    std::os::unix::fs::symlink(directory, project.join("link")).unwrap();
    let mut yaml = "version: 1\nsteps:\n  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: x } } } ]\n".to_owned();
    for (at, path) in paths.iter().enumerate() {
        attempts(&mut yaml, at, path);
    }
    yaml.push_str(last);
    let look = quoted(&format!("cat {directory}/config.yaml; ls -a {directory}"));
    let _ = writeln!(
        yaml,
        "  - emit: [ {{ call: {{ id: look, tool: shell.run, args: {{ argv: [sh, -c, {look}] }} }} }} ]
  - emit: [ {{ text: done }} ]
  - emit: [ {{ text: done }} ]
  - emit: [ {{ text: done }} ]"
    );
    let mut command = place.scenario_command(&project, &yaml);
    Ran::new(&command.args(["--mode", "explore"]).output().unwrap())
}

/// What the last look at the directory printed.
fn seen(place: &Place) -> String {
    let (_, events) = place.events();
    let mut ends = events.iter().filter(|event| *event.kind() == Kind::ToolCompleted);
    let last = ends.next_back().unwrap();
    last.body["text"].as_str().unwrap().to_owned()
}

#[test]
fn e2e_law_12_no_spelling_of_a_path_reaches_a_protected_file() {
    let place = Place::new();
    let spelled = SPELLINGS.iter().map(|(path, _)| path.replace('D', ".glasshouse"));
    let named = NAMES.iter().map(|name| format!("{name}/config.yaml"));
    let long = format!(".glasshouse/{}", "x".repeat(300));
    let no_paths = NO_PATHS.iter().map(|path| path.replace('D', ".glasshouse"));
    let deep = format!(".glasshouse/{}config.yaml", "d/../".repeat(500));
    let paths: Vec<String> = spelled.chain(named).chain(no_paths).chain([long, deep]).collect();
    let ran = explore(&place, ".glasshouse", &paths, RACE);
    let before = std::fs::read_to_string(place.path("project/.glasshouse/config.yaml")).unwrap();
    let seen = seen(&place);
    assert!(seen.starts_with(&before), "{seen}: {ran:?}");
    assert!(seen.trim_end().ends_with(".\n..\nconfig.yaml"), "{seen}");
    let (_, events) = place.events();
    let through: Vec<_> = statuses(&events)
        .into_iter()
        .filter(|(id, status)| status == "completed" && id.starts_with(['w', 'e']))
        .collect();
    // Whatever completed wrote another file, outside of the protected directory.
    for (id, _) in &through {
        let at: usize = id.trim_start_matches(char::is_alphabetic).parse().unwrap();
        assert!(!paths[at].starts_with(".glasshouse/"), "{id}: {}", paths[at]);
    }
    for sealed in events.iter().filter(|event| *event.kind() == Kind::WorkspaceSealed) {
        let changed = sealed.body["changed"].to_string().to_lowercase();
        assert!(!changed.contains("\".glasshouse/"), "{changed}");
    }
}

/// A link that is turned between a free directory and the protected one while writers run.
const RACE: &str = "  - emit:
      - { call: { id: race, tool: shell.run, args: { script: 'mkdir -p free; for i in $(seq 200); do ln -sfn .glasshouse turn; ln -sfn free turn; done & for i in $(seq 200); do echo changed > turn/config.yaml; done; wait' } } }
";

/// The control: the same spellings of an unprotected file reach it where the system has it so, by each call.
#[test]
fn e2e_law_12_the_same_spellings_reach_a_file_that_nothing_protects() {
    let check = |spelling: &str| {
        let place = Place::new();
        let path = spelling.replace('D', "open");
        explore(&place, "open", &[path], "");
        let (_, events) = place.events();
        let completed =
            |id: &str| statuses(&events).contains(&(id.to_owned(), "completed".to_owned()));
        assert!(
            completed("shell0") || spelling.starts_with('/'),
            "{spelling}: {:?}",
            statuses(&events)
        );
        assert!(!seen(&place).contains(KEPT), "{spelling}");
    };
    for (spelling, _) in SPELLINGS.iter().filter(|(_, reaches)| *reaches) {
        check(spelling);
    }
}
