//! What real shells ran, and the reader did not see: found by running scripts, and by reading programs' own words.

use super::finds::{none_hidden, none_hidden_in};
use super::*;

fn none_denied(scripts: &[&str]) {
    let denied: Vec<_> = scripts
        .iter()
        .filter(|script| could_run(&argv(&["bash", "-c", script]), &[prefix("rm -rf")]))
        .collect();
    assert!(denied.is_empty(), "{denied:?}");
}

/// bash expanded the name of a file behind `>&` a second time.
/// A substitution in quotes ran there.
/// Now what stands there is a number, or a name of plain letters.
#[test]
fn the_name_of_a_duplicated_file_is_no_text() {
    none_hidden_in(
        "bash",
        &[
            ">&'$(rm -rf y)'",
            "true >&'$(rm -rf y)'",
            "<&'$(rm -rf y)'",
            "true 2>&\\$\\(rm\\ -rf\\ y\\)",
            "x='$(rm -rf y)'; true >&\"$x\"",
            "x='$(rm -rf y)'; true <&$x",
        ],
    );
    none_denied(&[
        "make 2>&1",
        "make >&2",
        "make >&log",
        "make >&-",
        "make > '$(rm -rf y)'",
        "exec {fd}>f; echo >&$fd",
    ]);
}

/// Words were put behind a value where no command of it ends.
/// `GIT_SSH_COMMAND='true;'` ran the host of `git fetch`, and so did a blank, an assignment and a redirection.
/// Now words that nobody knows stand behind each value, as they do when it runs.
#[test]
fn a_value_that_ends_open_runs_what_stands_behind_it() {
    for value in
        ["true;", "true &", " ", "A=1", ">f", "true &&", "true |", "! ", "time ", "true\n", "a=(b)"]
    {
        none_hidden_in(
            "bash",
            &[
                &format!("GIT_SSH_COMMAND='{value}' git fetch rm:-rf"),
                &format!("git -c core.sshCommand='{value}' fetch rm:-rf"),
                &format!("export X='{value}'; git commit"),
            ],
        );
        none_hidden(&[&["env", &format!("GIT_PAGER={value}"), "git", "log"]]);
    }
    none_denied(&[
        "GIT_SSH_COMMAND='ssh -i k' git fetch",
        "CFLAGS='-O2 -g' make",
        "GIT_EDITOR='a; b' git commit",
        "A= git commit",
        "A='x # y' git commit",
    ]);
}

/// The value of a wrapper's option was one word, whatever it was.
/// `nice -n $N true` with `N='5 rm -rf y'` ran `rm`.
/// Now a word that may be several is no value.
#[test]
fn the_value_of_an_option_may_be_several_words() {
    none_hidden_in(
        "bash",
        &[
            "N='5 rm -rf y'; nice -n $N true",
            "N='A rm -rf y'; env -u $N true",
            "N='x rm -rf y'; exec -a $N true",
            "N='0 rm -rf y'; stdbuf -o $N true",
            "N='f rm -rf y'; time -o $N true",
            "nice -n \"$@\" true",
            "nice -n {5,rm,-rf,y} true",
        ],
    );
    none_denied(&["nice -n \"$N\" true", "env -u \"$N\" true", "stdbuf -o \"$N\" true"]);
}

/// A shell looks for a file among the programs, and nothing said that it is run.
/// A rule on `deploy.sh` let `sh deploy.sh` pass, and so did `. deploy.sh`.
/// Now the file that a shell is given is a command.
#[test]
fn the_file_of_a_shell_is_a_command() {
    let check = |words: &[&str], expected: bool| {
        assert_eq!(could_run(&argv(words), &[prefix("deploy.sh --now")]), expected, "{words:?}");
    };
    check(&["sh", "deploy.sh", "--now"], true);
    check(&["bash", "-e", "./deploy.sh", "--now"], true);
    check(&["bash", "--", "bin/deploy.sh", "--now"], true);
    check(&["sh", "-c", ". deploy.sh --now"], true);
    check(&["sh", "-c", "source \"$dir/deploy.sh\" --now"], true);
    check(&["env", "sh", "deploy.sh", "--now"], true);
    check(&["sh", "-c", "true", "deploy.sh", "--now"], false);
    check(&["sh", "test.sh", "deploy.sh", "--now"], false);
    check(&["cat", "deploy.sh", "--now"], false);
}

/// A reserved word ended before a blank, and not before a joined line.
/// `esac` was a pattern then, `-p` a program, and what followed was read as something else.
/// Now what stands before a joined line there is not read.
#[test]
fn a_reserved_word_may_end_before_a_joined_line() {
    none_hidden_in(
        "bash",
        &[
            "(case x in esac\\\n | rm -rf y) ; :\nesac )",
            "(case x in esac\\\n | rm -rf y )\n:;; esac )",
            "time -p\\\n eval 'rm -rf y'",
            "time --\\\n eval 'rm -rf y'",
            "time\\\n -p\\\n eval 'rm -rf y'",
            "case x in\\\n y) ;; esac\\\n; rm -rf y",
            "for x in\\\n y; do\\\n rm -rf y; done\\\n",
        ],
    );
    none_denied(&[
        "case x in\n a) make;; \\\nesac",
        "time -p make \\\n all",
        "for x in a \\\n b; do make; done",
    ]);
}

/// bash ends a document in `$(` at a line that only begins with its end, if a bracket follows.
/// The rest was read as the document.
/// Now such a line is not read.
#[test]
fn a_document_in_a_substitution_ends_early() {
    none_hidden_in(
        "bash",
        &[
            "echo $(cat <<E\nfoo\nE)\nrm -rf y\nE\n)",
            "echo $(cat <<'E'\nfoo\nE)\nrm -rf y\nE\n)",
            "echo $(cat <<-E\nfoo\n\tE)\nrm -rf y\n\tE\n)",
            "cat <(cat <<E\nfoo\nE)\nrm -rf y\nE\n)",
            "echo ${x:-$(cat <<E\nfoo\nE)\nrm -rf y\nE\n)}",
            "a=($(cat <<E\nfoo\nE )\nrm -rf y\nE\n))",
            "echo \"$(cat <<E\nfoo\nE x)\nrm -rf y\nE\n)\"",
        ],
    );
    none_denied(&["echo \"$(cat <<'E'\nfix(E): (a)\nE\n)\"", "cat <<E\nE)\nrm -rf y\nE"]);
}

/// What a trap prints came out of a command that prints a number, and values of another command's variables were counted.
/// `[[` and arithmetic run what stands in them.
/// Now a trap that subshells keep leaves no number, and a value that a shell would expand is any command.
#[test]
fn numbers_are_not_what_others_print_or_set() {
    none_hidden_in(
        "bash",
        &[
            "set -T; trap \"echo 'a[\\$(rm -rf y)]'\" DEBUG; x=$(nproc); trap - DEBUG; echo $((x))",
            "set -E; trap \"echo 'a[\\$(rm -rf y)]'\" ERR; x=$(nproc); echo $((x))",
            "set -o functrace; trap \"echo 'a[\\$(rm -rf y)]'\" SIGDEBUG; x=$(nproc); echo $((x))",
            "set -T; for s in DEBUG; do trap 'cat f' $s; done; x=$(nproc); echo $((x))",
            "export x=\"1 + a['\\$(rm -rf y)']\"; bash -c 'false && x=1; echo $((x))'",
            "x=\"1 + a['\\$(rm -rf y)']\" bash -c '((x++))'",
            "x=\"a['\\`rm -rf y\\`']\" bash -c 'x=${x:-1}; ((x))'",
            "export PORT=$(cat f); bash -c '((PORT++))'",
            "export PORT=$(cat f); bash -c 'false && PORT=1; echo $((PORT))'",
            "a='b[$(rm -rf y)]'; x=1; getopts -- a x -a; echo $((x))",
            "a='b[$(rm -rf y)]'; x=1; getopts \"$o\" a x -a; echo $((x))",
        ],
    );
    none_hidden(&[
        &["env", "i=1 + a['$(rm -rf y)']", "bash", "-c", "((i++))"],
        &["env", "UID=a['$(rm -rf y)']", "dash", "-c", "echo $((UID))"],
        &["env", "EUID=a['$(rm -rf y)']", "sh", "-c", "echo $((EUID))"],
        &["env", "PORT=a['$(rm -rf y)']", "sh", "-c", "false && PORT=1; echo $((PORT))"],
    ]);
    none_denied(&[
        "trap 'echo done' EXIT; n=$(nproc); echo $((n))",
        "echo $((UID + 1))",
        "PORT=3000; echo $((PORT + 1))",
        "export x=1; bash -c 'x=2; echo $((x))'",
        "while getopts ab: o; do :; done",
        "SECONDS=0; make; echo $SECONDS",
    ]);
}

/// Words of bash were taken for nothing under a rule that allows.
/// dash starts a program `time`, `function` or `{x}` there.
/// Now these have to be allowed, unless the shell is bash by name.
#[test]
fn words_of_bash_are_programs_to_a_plain_shell() {
    for (script, program) in [
        ("time echo", "time"),
        ("time -p echo", "time"),
        ("{x}>f echo", "{x}"),
        ("function echo {\necho\n}; echo", "function"),
    ] {
        let allowed = [prefix("echo"), prefix(program)];
        let check = |shell: &str, many: usize, expected: bool| {
            let words = argv(&[shell, "-c", script]);
            assert_eq!(runs_only(&words, &allowed[..many], false), expected, "{shell}: {script}");
        };
        check("sh", 1, false);
        check("dash", 1, false);
        check("sh", 2, true);
        check("bash", 1, true);
    }
}

/// What is near a rule and is not it, and spellings that no other row has: each notices a change of one token of the
/// reader that nothing else did.
#[test]
fn what_is_near_a_rule_is_told_from_it() {
    let check = |wanted: &str, words: &[&str], expected: bool| {
        assert_eq!(could_run(&argv(words), &[prefix(wanted)]), expected, "{wanted}: {words:?}");
    };
    check("rm -rf", &["rm", "-f", "x"], false);
    check("rm -rf", &["sudo", "rm", "x"], false);
    check("rm -rf", &["xargs", "-n", "1", "nice", "echo", "1"], false);
    check("rm -rf", &["git", "-c", "a=it's", "status"], false);
    check("rm -rf", &["tar", "-cI", "rm -rf y", "-f", "o", "."], true);
    check("docker run", &["docker", "-", "x", "run"], false);
    none_hidden_in(
        "bash",
        &[
            "for v in 'x PS4=$(rm${IFS}-rf${IFS}y)'; do command declare x=$v; done; set -x; true",
            "declare -a x='([$(rm -rf y)]=1)'",
        ],
    );
    let allowed = ["echo", "make"].map(prefix);
    let check = |script: &str, expected: bool| {
        assert_eq!(runs_only(&argv(&["sh", "-c", script]), &allowed, false), expected, "{script}");
    };
    check("echo $((FOO = 1)); make", false);
    check("echo $((FOO += 1)); make", false);
    check("echo $((FOO++)); make", false);
    check("echo $((--FOO)); make", false);
    check("echo $((FOO == 1)); make", true);
    check("echo $((FOO - 1)); make", true);
}
