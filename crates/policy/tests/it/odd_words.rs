//! Words that no command has, and files that say nothing.

use glasshouse_policy::{Policy, Protected, Source, lint};

use crate::linting::{runs, slip, told};
use crate::support::compile;

/// The failure: denials of `git *`, `sh -c 'rm -rf x'` and `curl | sh` matched nothing, and nothing said so.
/// Now: a word that no command has as it is written is told when the file loads and by lint, in what allows too.
#[test]
fn a_word_that_no_command_has_is_told() {
    let check = |commands: &str, words: &[&str], control: &str| {
        for action in ["allow", "deny"] {
            let rule = |of: &str| {
                format!("name: a, match: {{ syscall: shell.run, {of} }}, action: {action}")
            };
            slip(&[&rule(commands)], "never_matches", words, &[&rule(control)]);
        }
    };
    // Patterns.
    let git = "`argv_prefix: git`";
    for pattern in ["git *", "git **", "'git:*'"] {
        check(&format!("argv_prefix: {pattern}"), &["no pattern", git], "argv_prefix: git");
    }
    check("argv_prefix: npm run *", &["`argv_prefix: npm run`"], "argv_prefix: npm run");
    check("argv_prefix: 'npm run build:*'", &["`argv_prefix: npm run build`"], "argv_prefix: npm");
    check("argv_prefix: 'npm run test*'", &["`argv_prefix: npm run`"], "argv_prefix: npm");
    check("argv: git *", &[git], "argv: git status");
    for program in ["'*'", "'git*'", "'*/rm'"] {
        check(&format!("argv_prefix: {program}"), &["name each program"], "argv_prefix: rm");
    }
    // What a shell would read.
    check("argv_prefix: curl; rm", &["`curl;` is of a shell"], "argv_prefix: curl");
    check("argv_prefix: curl | sh", &["`|` is of a shell", "such as `curl`"], "argv_prefix: curl");
    for script in ["cd x && make", "cd x; make", "cd x ; make", "ls > out", "ls >out", "ls 2>&1"] {
        check(
            &format!("argv_prefix: {script}"),
            &["is of a shell"],
            "argv_prefix: [[a, '>out', b;]]",
        );
    }
    // Quotes.
    let list = r#"[["sh", "-c", "rm -rf x"]]"#;
    let control = format!("argv_prefix: {list}");
    check(r#"argv_prefix: "sh -c 'rm -rf x'""#, &["the quote of `'rm`", list], &control);
    check(
        r#"argv_prefix: 'git commit -m "a b"'"#,
        &[r#""-m", "a b"]]"#],
        "argv_prefix: git commit",
    );
    check(r#"argv_prefix: "'git' push""#, &[r#"["git", "push"]"#], "argv_prefix: git push");
    // A name that is two words.
    check(
        "argv_prefix: [[git push, --force]]",
        &["[[git, push, --force]]"],
        "argv_prefix: [[git, push]]",
    );
    let lifted = "name: a, match: { syscall: shell.run, argv_prefix: git }, action: deny, \
                  except: [{ argv_prefix: git log * }]";
    slip(&[lifted], "never_matches", &["`argv_prefix: git log`"], &[&runs("argv_prefix: git")]);
}

/// Words that programs are told so, and those that were listed one by one.
#[test]
fn a_word_that_a_command_may_have_is_left_alone() {
    for plain in [
        "argv_prefix: find . -name * -delete",
        "argv_prefix: 'find . -exec rm {} ;'",
        "argv_prefix: [[expr, '2', '*', '3']]",
        "argv_prefix: [[git, add, '*']]",
        "argv_prefix: [[cut, -d, '|']]",
        "argv: [[tr, ';', ',']]",
        "argv: [[echo, '&&', b]]",
        "argv_prefix: [[pytest, -k, 'test_*']]",
        "argv_prefix: grep --include=*.rs x",
        "argv_prefix: ls src/*",
        "argv_prefix: ls *.md",
        "argv_prefix: '[ -f x ]'",
        r#"argv: [[node, -e, "console.log('x')"]]"#,
        "argv: [[sh, -c, 'a | b; c > d']]",
        r#"argv: [[sh, -c, "'a b' c"]]"#,
        "argv_prefix: node -e console.log('x')",
        "argv_prefix: /opt/a/run",
        "argv_prefix: [['/opt/my tools/run']]",
    ] {
        assert_eq!(told(&[&runs(plain)]), [], "{plain}");
    }
}

/// The failure: a file without a rule passed `lint` and `test` without a word.
#[test]
fn a_file_that_says_nothing_is_told() {
    let found = |text: &str| {
        let policy = compile(text).unwrap();
        lint(&policy).into_iter().map(|one| one.kind).collect::<Vec<_>>()
    };
    for empty in ["", "# nothing\n", "version: 1\n", "capabilities: []\n", "capabilities:\n"] {
        assert_eq!(found(empty), ["empty_policy"], "{empty}");
    }
    for says in ["secret_patterns: { a: 'b[0-9]{20}' }\n", "network_whitelist: { a: a.test }\n"] {
        assert!(!found(says).contains(&"empty_policy"), "{says}");
    }
    for silent in [Source::new("p", "").given(), Source::stricter("p", "")] {
        let policy = Policy::compile(&[silent], &Protected::default()).unwrap();
        assert_eq!(policy.silent_sources().count(), 0, "{silent:?}");
    }
}
