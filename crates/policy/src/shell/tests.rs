//! The reader against tables, and against a real shell.

use proptest::prelude::*;

use super::*;
use crate::limits::MAX_COMMAND_BYTES;

/// Commands as text, `?` for an unknown word, `@` in front when variables are set.
fn read(script: &str) -> Option<Vec<String>> {
    let found = invocations(script, &mut MAX_COMMAND_BYTES.clone()).ok()?;
    let shown = found.into_iter().map(|command| {
        let words = command.words.iter().map(|word| match word {
            ShellWord::Text(text) => text.as_str(),
            ShellWord::One => "?",
            ShellWord::Many => "??",
        });
        let words = words.collect::<Vec<_>>().join(" ");
        if command.assigns { format!("@{words}") } else { words }
    });
    Some(shown.collect())
}

#[test]
fn commands() {
    let check = |script: &str, expected: &[&str]| {
        let mut found = read(script).unwrap_or_else(|| panic!("unreadable: {script}"));
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
    check(
        "for x in a b *.c; do d $x; done; for y; do e; done; for ((i=0; i<3; i++)); do f; done",
        &["d ??", "e", "f"],
    );
    check("case $x in a|b) c;; (d) e ;; *) f; esac; g", &["c", "e", "f", "g"]);
    check("f() { a; }; function g { b; }\nf () (c)", &["a", "b", "c"]);
    check(
        "[[ -n $x && ! $(a) ]] && b; [ -f x ] || c",
        &["[[ -n ??", "a", "?? ]]", "b", "[ -f x ]", "c"],
    );
    check("A=1 B=$(x) a; C=2; D=(1 2)", &["x", "@a", "@", "@"]);
    check("a > f 2>&1 < $(b) >> \"c\" <<< e {fd}> g &> d", &["a", "b"]);
    check("a > >(b) <(c | d)", &["b", "c", "d", "a ?"]);
    check("a $(b $(c)) \"$(d)\" `e \\`f\\``", &["c", "b ??", "d", "f", "e ??", "a ?? ? ??"]);
    check("a '$(b)' '\\'; c", &["a $(b) \\", "c"]);
    check("r''m r\\m \"rm\" $'r\\x6d' $'\\162m' $'\\u0072m'", &["rm rm rm rm rm rm"]);
    check("a \\\n b", &["a b"]);
    check("a # b; c\nd#e", &["a", "d#e"]);
    check("$A ${B:-$(c)} ~/d e* [f] {g,h} {} a{b", &["c", "?? ?? ? ?? ?? ?? {} ??"]);
    check("a $((1 + $(b) * (2))) $(( x )); ((i++)); c", &["b", "a ?? ??", "i++", "c"]);
    check("a $((b); (c))", &["b", "c", "a ??"]);
    check("a <<E b\n$(c) 'd\nE\ne", &["c", "a b", "e"]);
    check("a <<'E'; b <<-F\n$(c\nE\n\t`d`\n\tF\ne", &["a", "b", "d", "e"]);
    check("if a; then\n  # why (not)\n  b\nfi", &["a", "b"]);
    check("x=$y; a \"it's\" $'it s'", &["@", "a it's it s"]);
    check("a=b=c d; e=f", &["@d", "@"]);
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
        "$'\\cx'",
        "select x in",
        "a $((1)",
        "coproc x { a; }",
        &deep,
        &sums,
        &arrays,
    ] {
        assert_eq!(read(script), None, "{script}");
    }
}

#[test]
fn nested_brackets_cost_no_more_than_their_budget() {
    let parts = ["$((a) ", "$((", "a=(", "case a in $(", "$(if ", "`", "((", "${a:-"];
    for part in parts {
        for count in [10, 60, 5_000] {
            let _ = read(&part.repeat(count));
        }
    }
}

proptest! {
#![proptest_config(ProptestConfig::with_cases(300))]

/// What a real shell runs is found, or the text is refused: by bash, and by the plain shell that
    /// `sh` may be.
    #[test]
    fn nothing_hides_a_command(
        before in r##"(if |then |do |in |case a |\(\(|\[\[ |\$'|\$\(|\$\(\(|\$\{a:-|\$\[|\\\n|\nE\n|<<E\n|<<'E'\n|&>|\{x\}>|<<<|<<a\n|[ab$(){}\[\]`'"\\;&|<>#! \n\r=*~]){0,16}"##,
        after in r##"[ab$(){}\[\]`'"\\;&|<>#! \n=*~]{0,6}"##,
    ) {
        let texts = [
            format!("{before}\nrm -rf x{after}"),
            format!("{before};rm -rf x{after}"),
            format!("{before} rm -rf x{after}"),
            format!("a {before}rm -rf x{after}"),
        ];
        for script in texts {
            let Some(found) = read(&script) else { continue };
            let seen = found.iter().any(|command| {
                let command = command.trim_start_matches('@');
                command.starts_with("rm") || command.starts_with('?')
            });
            prop_assert!(seen || !runs_rm(&script), "{script:?} {found:?}");
        }
    }
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
