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
