//! The reader against tables, and against a real shell.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::limits::MAX_COMMAND_BYTES;

/// Commands as text, `?` for an unknown word, `??` for any number of them, `@` where variables are set that programs
/// look at.
fn shown(script: &str) -> Option<Vec<String>> {
    let script = read(script, Setting::default(), &mut MAX_COMMAND_BYTES.clone()).ok()?;
    let command = |words: Vec<ShellWord>| {
        let words = words.iter().map(|word| match word {
            ShellWord::Text(text) => text.as_str(),
            ShellWord::One(_) | ShellWord::Below(..) => "?",
            ShellWord::Many(_) | ShellWord::Given => "??",
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let sets = script.sets.then(|| "@".to_owned());
    Some(script.commands.into_iter().map(command).chain(sets).collect())
}

#[test]
fn commands() {
    let check = |script: &str, expected: &[&str]| {
        let mut found = shown(script).unwrap_or_else(|| panic!("unreadable: {script}"));
        let mut expected: Vec<_> = expected.iter().map(|text| (*text).to_owned()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{script}");
    };
    check("", &[]);
    check("# nothing", &[]);
    check("a b  c", &["a b c"]);
    check("a; b & c && d || e | f |& g\nh", &["a", "b", "c", "d", "e", "f", "g", "h"]);
    check("(a; b) && { c; }", &["a", "b", "c"]);
    check(
        "! a; time b; if a; then b; elif c; then d; else e; fi",
        &["a", "b", "a", "b", "c", "d", "e"],
    );
    check("while a; do b; done < f; until c\ndo\nd\ndone | e", &["a", "b", "c", "d", "e"]);
    check("for x in a b *.c; do d $x; done; for y; do e; done", &["d ??", "e"]);
    check("for ((i=0; i<3; i++)); do f; done", &["f"]);
    check("case $x in a|b) c;; (d) e ;; *) f; esac; g", &["c", "e", "f", "g"]);
    check("f() { a; }; function g { b; }\nf () (c)", &["a", "b", "c"]);
    check(
        "[[ -n $x && ! $(a) ]] && b; [ -f x ] || c",
        &["[[ -n ??", "a", "?? ]]", "b", "[ -f x ]", "c"],
    );
    check("A=1 a; C=2; D=(1 2); e=$(x)", &["x", "a", "@"]);
    check("a=$(x); b+=c; d=(1 \"$a\"); d[0]=1; RUST_LOG=x e", &["x", "b+=c ??", "d[0]=1 ??", "e"]);
    check("a > f 2>&1 < $(b) >> \"c\" <<< e {fd}> g &> d", &["a", "b"]);
    check("a > >(b) <(c | d)", &["b", "c", "d", "a ?"]);
    check("a $(b $(c)) \"$(d)\" `e \\`f\\``", &["c", "b ??", "d", "f", "e ??", "a ?? ? ??"]);
    check("a '$(b)' '\\'; c", &["a $(b) \\", "c"]);
    check("r''m r\\m \"rm\" $'r\\x6d' $'\\162m' $'\\u0072m'", &["rm rm rm ? ? ?"]);
    check("a \\\n b", &["a b"]);
    check("a # b; c\nd#e", &["a", "d#e"]);
    check("$A ${B:-$(c)} ~/d e* [f] {g,h} {} a{b", &["c", "?? ?? ? ?? ?? ?? {} ??"]);
    check("i=1; a $((1 + i * (2))) $(( $i )); ((i++)); c", &["a ?? ??", "i++", "c"]);
    check(
        "trap 'a; b' EXIT; eval c 'd;' e",
        &["trap a; b EXIT", "a", "b", "eval c d; e", "c d", "e"],
    );
    check("a <<E b\n$(c) 'd\nE\ne", &["c", "a b", "e"]);
    check("a <<'E'; b <<-F\n$(c\nE\n\t`d`\n\tF\ne", &["a", "b", "d", "e"]);
    check("if a; then\n  # why (not)\n  b\nfi", &["a", "b"]);
    check("x=$y; a \"it's\" $'it s'", &["a it's ?"]);
    check("a=b=c d; e=f", &["d", "@"]);
    check("echo 'a b' \"c;d\"", &["echo a b c;d"]);
}

#[test]
fn unreadable() {
    let deep = "$(".repeat(MAX_SCRIPT_DEPTH + 1);
    let sums = format!("a {}1{}", "$((".repeat(49), "))".repeat(49));
    let arrays = format!("{}1{}", "a=(".repeat(49), ")".repeat(49));
    for script in [
        "'",
        "\"",
        "`",
        "$(",
        "${a",
        "a )",
        "a;; b",
        "(a",
        "{ a",
        "if a; then b",
        "fi",
        "done",
        "}",
        "for x in a; b; done",
        "case a b",
        "a <<E\nb",
        "a >",
        "a (b)",
        "a=(b",
        "a=()()",
        "a=(b)=(c)",
        "$'\\''",
        "${ rm; }",
        "${| rm; }",
        "a &> b c",
        "select x in",
        "a $((1)",
        "a $((b); (c))",
        "a $((1 + $(b)))",
        "a $(( x ))",
        "a=$(b); c $((a))",
        "a\\\nb",
        "a\rb",
        "f-(x) { a; }",
        "$x() { a; }",
        "a `b\\\nc`",
        "cat <<E $(a\nb)\nE\n",
        "[ $x = a ]",
        "x=a command export y=$z",
        "coproc x { a; }",
        &deep,
        &sums,
        &arrays,
    ] {
        assert_eq!(shown(script), None, "{script}");
    }
}

#[test]
fn nested_brackets_cost_no_more_than_their_budget() {
    let parts = ["$((a) ", "$((", "a=(", "case a in $(", "$(if ", "`", "((", "${a:-"];
    for part in parts {
        for count in [10, 60, 5_000] {
            let _ = shown(&part.repeat(count));
        }
    }
}

proptest! {
#![proptest_config(many_cases())]

    /// What a real shell runs is found, or the text is refused: by bash, and by the plain shell that
    /// `sh` may be. The last texts run nothing as they stand; values are expanded where the fragments do it.
    #[test]
    fn nothing_hides_a_command(
        before in fragments(1..12),
        after in fragments(0..4),
    ) {
        let texts = [
            format!("{before}\nrm -rf x{after}"),
            format!("{before};rm -rf x{after}"),
            format!("{before} rm -rf x{after}"),
            format!("a {before}rm -rf x{after}"),
            format!("x='rm -rf x '; {before}$x{after}"),
            format!("for x in 'a[$(rm -rf x)]'; do {before}x{after}; done"),
            format!("x='a[$(rm -rf x)]'; {before}$x{after}"),
        ];
        for script in texts {
            let Some(found) = shown(&script) else { continue };
            let seen = found.iter().any(|command| command.starts_with("rm") || command.starts_with('?'));
            prop_assert!(seen || !runs_rm(&script), "{script:?} {found:?}");
        }
    }
}

/// The same cases in each usual run, others in one that has hours.
fn many_cases() -> ProptestConfig {
    if std::env::var_os("GLASSHOUSE_SOAK").is_some() {
        return ProptestConfig::with_cases(400_000);
    }
    ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(300) }
}

/// Pieces of scripts.
const PIECES: &[&str] = &[
    "if ",
    "then ",
    "do ",
    "in ",
    "case a ",
    "((",
    "[[ ",
    "$'",
    "$(",
    "$((",
    "))",
    "${a:-",
    "$[",
    "\\\n",
    " \\\n",
    "\nE\n",
    "<<E\n",
    "<<'E'\n",
    "&>",
    "{x}>",
    "<<<",
    "<<a\n",
    "# ",
    "\n#",
    "\n# a\n",
    "${x}",
    "$x",
    "\"$x\"",
    "A=1",
    "a=1 ",
    "a=",
    "a+=",
    "x=",
    "x=1;",
    "$((x))",
    "a[x]=",
    "a[$x]=1",
    "=([x]=1)",
    "=(",
    "${a[x]}",
    "${a[",
    "${!x}",
    "${x@P}",
    "${a:x}",
    "{b[x]}>f ",
    "${x:=",
    "read x <<< ",
    "printf -v ",
    "test -v ",
    "declare ",
    "declare -i a;",
    "declare -n ",
    "local ",
    "export ",
    "let ",
    "unset ",
    "eval ",
    "trap ",
    " EXIT;",
    "set -- ",
    "$1",
    "$*",
    "\"$@\"",
    "[ ",
    " ]",
    " ]]",
    " -eq ",
    "-v ",
    "for ((",
    "f() ",
    "f;",
    "function f ",
    "; f",
    "{ ",
    "; }",
    "command ",
    "builtin ",
    "time ",
    "coproc ",
    "a",
    "b",
    "x",
    "1",
    "$",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "`",
    "'",
    "\"",
    "\\",
    ";",
    "&",
    "|",
    "<",
    ">",
    "#",
    "!",
    " ",
    "\n",
    "\r",
    "=",
    "*",
    "~",
    "<(",
    "+",
    "-",
    "true;",
];

/// Pieces of scripts, in any order.
fn fragments(many: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PIECES), many)
        .prop_map(|pieces| pieces.concat())
}

/// Whether a real shell runs `rm`, which is a function that reports; every other program is absent.
fn runs_rm(script: &str) -> bool {
    let dir = std::env::temp_dir().join(format!("glasshouse-shell-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let runs = |shell: &str| {
        let output = std::process::Command::new(shell)
            .args(["-c", &format!("rm() {{ echo RAN >&2; }}\n{script}")])
            .current_dir(&dir)
            .env_clear()
            .env("PATH", "/nonexistent")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stderr).lines().any(|line| line == "RAN")
    };
    let runs = ["/bin/bash", "/bin/sh"].into_iter().any(runs);
    std::fs::remove_dir_all(&dir).unwrap();
    runs
}

/// Whatever a shell has in itself is known here by name, so that nothing of it is taken for a program.
#[test]
fn every_builtin_of_the_shells_is_known() {
    let output =
        std::process::Command::new("/bin/bash").args(["-c", "compgen -b"]).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.lines().count() > 50, "{listed}");
    // Of other shells: `chdir` of dash and busybox.
    for name in listed.lines().chain(["chdir", "let", "local", "source"]) {
        let known = builtins::FREE.contains(&name) || builtins::BUILTINS.contains(&name);
        assert!(known, "{name}");
    }
}
