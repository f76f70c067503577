//! Values of variables that are options of a program.
//!
//! Which of them name a command only the program knows. So a value is taken as it stands where each of its options is
//! known to be harmless, or where the name tells that the value is a command, which is read as one.

/// Parts of names whose values are commands.
const COMMANDS: &[&str] = &[
    "ASKPASS", "BROWSER", "CMD", "COMMAND", "EDITOR", "LINKER", "PAGER", "RSH", "RUNNER", "SHELL",
    "SSH", "VISUAL", "WRAPPER",
];
/// Parts of names whose values are options, whatever else is in the name.
const OPTIONS: &[&str] = &["ARGS", "FLAGS", "OPT"];
/// Whole names of the first kind.
const TOOLS: &[&str] = &["AR", "AS", "CC", "CPP", "CXX", "FC", "LD", "NM", "RANLIB", "RUSTC"];
/// Options of interpreters, none of which is a command but these.
const INTERPRETERS: &[&str] = &["NODE_OPTIONS", "PYTEST_ADDOPTS"];
const INTERPRETED: &[&str] = &["data:", "popen"];
/// Whose options need no dash.
const WITHOUT_DASH: &[&str] = &["LESS", "PERL5OPT", "SYSTEMD_LESS"];

/// Options of rustc's code generation that name no program.
const CODE: &[&str] = &[
    "codegen-units",
    "debug-assertions",
    "debuginfo",
    "embed-bitcode",
    "force-frame-pointers",
    "incremental",
    "instrument-coverage",
    "link-dead-code",
    "lto",
    "metadata",
    "opt-level",
    "overflow-checks",
    "panic",
    "prefer-dynamic",
    "relocation-model",
    "rpath",
    "split-debuginfo",
    "strip",
    "symbol-mangling-version",
    "target-cpu",
    "target-feature",
];
/// How options of the linker begin that name no program.
const LINKING: &[&str] = &[
    "--as-needed",
    "--build-id",
    "--gc-sections",
    "--hash-style",
    "--no-as-needed",
    "-O",
    "-rpath",
    "-z",
];
/// Whole options, and options of go with their values.
const WHOLE: &[&str] =
    &["-ea", "-pipe", "-pthread", "-race", "-server", "-shared", "-short", "-static", "-trimpath"];
const OF_GO: &[&str] =
    &["-buildmode=", "-buildvcs=", "-count=", "-mod=", "-p=", "-tags=", "-timeout="];

/// Whether the value of a variable of this name may be options that run something.
pub(crate) fn may_run(name: &str, value: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let is_command = (has(COMMANDS) && !has(OPTIONS)) || TOOLS.contains(&name);
    // What a shell reads of it others read in their own way: make expands, go splits at blanks, compilers open `@file`.
    if TOOLS.contains(&name) && value.contains(['#', '<', '>', '$', '@', '\\']) {
        return true;
    }
    // Lists, whose parts others tell apart by what a shell does not: `a:rm %s`, `'a;rm'`.
    let is_list = name.contains("BROWSER") && value.contains([':', ';']);
    let is_quoted = name == "GOAUTH" && value.contains([';', '\'', '"', '\\']);
    if is_list || is_quoted || name == "CCC_OVERRIDE_OPTIONS" {
        return true;
    }
    if INTERPRETERS.contains(&name) {
        return INTERPRETED.iter().any(|part| value.contains(part));
    }
    if is_command {
        return false;
    }
    let separates = |c: char| c.is_whitespace() || c.is_control();
    let quotes = ['\'', '"', '\\'];
    let words = value.split(separates).map(|word| word.trim_matches(quotes));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let expands = |(at, _): (usize, &str)| {
        value[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '(' | '{'))
    };
    if value.match_indices('$').any(expands) {
        return true;
    }
    let is_list = has(OPTIONS) || has(&["ARCH", "LIBS"]);
    if is_list && words.iter().any(|word| word.starts_with('@') || word.contains(",@")) {
        return true;
    }
    (0..words.len()).any(|at| {
        let (word, next) = (words[at], words.get(at + 1).copied());
        let is_option = word.starts_with(['-', '+']);
        if !is_option && WITHOUT_DASH.contains(&name) {
            return !is_harmless(name, &format!("-{word}"), next);
        }
        is_option && !is_harmless(name, word, next)
    })
}

fn is_harmless(name: &str, word: &str, next: Option<&str>) -> bool {
    let is_last = next.is_none_or(|next| next.starts_with('-'));
    let consists = |text: &str, of: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || of.contains(c))
    };
    // A dash in a sentence.
    if word == "-" {
        return next.is_some();
    }
    let is_of_rust = name.contains("RUST");
    // `--cfg name`
    if is_of_rust && matches!(word, "--cfg" | "--check-cfg") {
        return next.is_some_and(|it| consists(it, "_=()\""));
    }
    if let Some(long) = word.strip_prefix("--") {
        return match long.split_once('=') {
            Some((long, value)) => consists(long, "-") && is_plain_value(value),
            None => consists(long, "-") && is_last,
        };
    }
    let Some(short) = word.strip_prefix('-') else { return false };
    if matches!(name, "LESS" | "SYSTEMD_LESS") {
        return consists(short, "");
    }
    let (letter, rest) = short.split_at(short.chars().next().map_or(0, char::len_utf8));
    match letter {
        _ if rest.bytes().all(|byte| byte.is_ascii_digit()) && !rest.is_empty() => true,
        _ if WHOLE.contains(&word) => true,
        _ if OF_GO.iter().any(|option| word.starts_with(option)) => consists(rest, "=,._-"),
        "C" if is_of_rust => {
            is_harmless_code(if rest.is_empty() { next.unwrap_or_default() } else { rest })
        }
        // Lints.
        "A" | "D" | "W" if is_of_rust && rest.is_empty() => {
            is_last || next.is_some_and(|it| consists(it, "_:"))
        }
        _ if rest.is_empty() => is_last,
        "X" => is_harmless_to_java(rest),
        "W" => match rest.strip_prefix("l,") {
            Some(linking) => is_harmless_linking(linking),
            None => consists(rest, "=+_-") && !rest.starts_with("rapper"),
        },
        "f" => is_harmless_feature(rest),
        "D" | "I" | "L" | "U" => consists(rest, "/._-=+:@%"),
        "l" => consists(rest, "_+.-"),
        "s" => rest.strip_prefix("td=").is_some_and(|name| consists(name, "+")),
        "O" | "g" => consists(rest, "-"),
        "m" => consists(rest, "=._+-"),
        _ => false,
    }
}

/// A number, or a word that says how.
fn is_plain_value(value: &str) -> bool {
    let is_number = value.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_number || matches!(value, "always" | "auto" | "false" | "never" | "no" | "true" | "yes")
}

/// `opt-level=3`: what stands behind `-C` of rustc.
pub(crate) fn is_harmless_code(option: &str) -> bool {
    match option.split_once('=') {
        Some(("link-arg", value)) => match value.strip_prefix("-Wl,") {
            Some(linking) => is_harmless_linking(linking),
            None => is_harmless("", value, None),
        },
        Some((name, _)) => CODE.contains(&name),
        None => CODE.contains(&option),
    }
}

fn is_harmless_linking(options: &str) -> bool {
    let mut begins = options.split(',').filter(|option| option.starts_with('-'));
    let is_known = |option: &str| LINKING.iter().any(|known| option.starts_with(known));
    options.starts_with('-') && begins.all(is_known)
}

/// Behind `-f`: plugins and linkers of other names are programs.
fn is_harmless_feature(rest: &str) -> bool {
    if let Some(linker) = rest.strip_prefix("use-ld=") {
        return matches!(linker, "bfd" | "gold" | "lld" | "mold");
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "=,_-".contains(c);
    !rest.contains("plugin") && rest.chars().all(is_plain)
}

/// Behind `-X`: sizes, switches and numbers.
fn is_harmless_to_java(rest: &str) -> bool {
    let is_size = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || ".kmgKMG".contains(c))
    };
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric());
    if let Some(option) = rest.strip_prefix("X:") {
        return match (option.strip_prefix(['+', '-']), option.split_once('=')) {
            (Some(name), _) => is_name(name),
            (None, Some((name, value))) => is_name(name) && is_size(value),
            (None, None) => false,
        };
    }
    ["mn", "ms", "mx", "ss"].iter().any(|name| rest.strip_prefix(name).is_some_and(is_size))
}
