//! What a fifth look at the reader found: the kinds, with what stands beside each and is honest.

use super::finds::none_hidden_in;
use super::*;

/// None of these has to do with a rule on `rm`.
fn none_denied_in(scripts: &[&str]) {
    let denied: Vec<_> = scripts
        .iter()
        .filter(|script| could_run(&argv(&["bash", "-c", script]), &[prefix("rm")]))
        .collect();
    assert!(denied.is_empty(), "{denied:?}");
}

/// Whether bash runs nothing but `echo` in each of these.
fn only_echo(scripts: &[&str], expected: bool) {
    let wrong: Vec<_> = scripts
        .iter()
        .filter(|script| {
            let words = argv(&["bash", "-c", script]);
            runs_only(
                &words,
                &["echo", "shopt", "set", "trap", "eval", "readonly"].map(prefix),
                false,
            ) != expected
        })
        .collect();
    assert!(wrong.is_empty(), "not {expected}: {wrong:?}");
}

/// bash joins the lines of a document before it looks for the end, a plain shell does not.
/// A line that ended in a backslash and was the end once it was joined hid what stood behind it.
/// Now such a line is not read.
#[test]
fn a_document_ends_at_lines_that_are_joined() {
    none_hidden_in(
        "bash",
        &[
            "cat <<E\nE\\\n\nrm -rf y\nE\n",
            "cat <<E\n\\\nE\nrm -rf y\nE\n",
            "cat <<END\nE\\\nN\\\nD\nrm -rf y\nEND\n",
            "cat <<-E\n\tE\\\n\nrm -rf y\nE\n",
            "cat <<-E\n\t\\\n\tE\nrm -rf y\nE\n",
            "cat <<E\n\tE\\\n\nrm -rf y\nE\n",
            "cat <<E\nE\\\\\\\nE\\\n\nrm -rf y\nE\n",
            "x=$(cat <<E\nE\\\n\nrm -rf y\nE\n)",
            "x=$(cat <<E\nE x\\\n)\nrm -rf y\nE\n)",
            "f() { cat <<E\nE\\\n\nrm -rf y\nE\n}; f",
            "eval 'cat <<E\nE\\\n\nrm -rf y\nE\n'",
            "trap 'cat <<E\nE\\\n\nrm -rf y\nE\n' EXIT",
            "while read -r x; do echo; done <<E\nE\\\n\nrm -rf y\nE\n",
            "bash -c 'cat <<E\nE\\\n\nrm -rf y\nE\n'",
        ],
    );
    none_denied_in(&[
        "cat <<E\na \\\nb\nE\n",
        "cat <<EOF\nmake \\\n  all\nE\nEOF\n",
        "cat <<'E'\nE\\\n\nrm -rf y\nE\n",
        "cat <<E\nE\\\\\nrm -rf y\nE\n",
        "cat <<E\nthe E \\\nand more\nE\n",
        "cat <<-E\n\ta \\\n\tb\n\tE\n",
    ]);
}

/// The body of a document began behind a line end in `a=(`, and bash reads the list first.
/// Now a list on several lines is not read while a document waits.
#[test]
fn a_list_on_several_lines_waits_for_no_document() {
    none_hidden_in(
        "bash",
        &[
            "cat <<E; a=(\nE\n)\n: '\n\nrm -rf y\n'\n",
            "cat <<E; a+=(\nE\n)\n: '\n\nrm -rf y\n'\n",
            "cat <<E; declare a=(\nE\n)\n: '\n\nrm -rf y\n'\n",
            "cat <<E; a=(b\nE\n)\n: '\n\nrm -rf y\n'\n",
            "cat <<E; a=(b #c\nE\n)\n: '\n\nrm -rf y\n'\n",
            "cat <<'E'; a=([0]=b\nE\n)\n: '\n\nrm -rf y\n'\n",
        ],
    );
    only_echo(&["echo <<E; a=(\nE\n)\nrm() { echo; }\n\nrm y\n"], false);
    none_denied_in(&[
        "a=(\n  b # c\n  d\n)\ncat <<E\n${a[0]}\nE\n",
        "cat <<E; a=(b c)\nE\necho \"${a[@]}\"\n",
        "cat <<E\nx\nE\na=(\nb\n)\n",
    ]);
}

/// bash drops the rest of a line behind an error of an expansion, and goes on with the next line.
/// A function that was defined there was none, and its name was that of a program.
/// Now a definition counts where nothing before it on its line can fail.
#[test]
fn a_definition_behind_an_error_is_none() {
    only_echo(
        &[
            "echo $((1/0)); rm() { echo; }\nrm -rf y",
            "echo $((09)); rm() { echo; }\nrm -rf y",
            "echo $((2**-1)); rm() { echo; }\nrm -rf y",
            "echo $((x y)); rm() { echo; }\nrm -rf y",
            "x=$((1/0)); rm() { echo; }\nrm -rf y",
            "echo ${x:1:-9}; rm() { echo; }\nrm -rf y",
            "echo \"${1:=x}\"; rm() { echo; }\nrm -rf y",
            "echo ${a[1/0]}; rm() { echo; }\nrm -rf y",
            "UID=1; rm() { echo; }\nrm -rf y",
            "readonly x=1; x=2; rm() { echo; }\nrm -rf y",
            "a=([1/0]=x); rm() { echo; }\nrm -rf y",
            "shopt -s failglob\necho *x; rm() { echo; }\nrm -rf y",
            "shopt -s failglob\necho $x; rm() { echo; }\nrm -rf y",
            "if echo $((1/0)); then echo; fi; rm() { echo; }\nrm -rf y",
            "if echo; then echo $((1/0))\nfi; rm() { echo; }\nrm -rf y",
            "{ echo $((1/0))\n}; rm() { echo; }\nrm -rf y",
            "for x in a; do echo $((1/0))\ndone; rm() { echo; }\nrm -rf y",
            "case $((1/0)) in a) echo;; esac; rm() { echo; }\nrm -rf y",
            "f() { echo $((1/0)); }\nf; rm() { echo; }\nrm -rf y",
            "trap 'echo $((1/0))' DEBUG\necho; rm() { echo; }\nrm -rf y",
            "echo <<E; rm() { echo; }\n$((1/0))\nE\nrm -rf y",
            "echo <<< $((1/0)); rm() { echo; }\nrm -rf y",
            "echo > $((1/0)); rm() { echo; }\nrm -rf y",
            "> $((1/0)); rm() { echo; }\nrm -rf y",
            "! echo $((1/0)); rm() { echo; }\nrm -rf y",
            "false && rm()\n{ echo; }\nrm -rf y",
            "false && function rm\n{ echo; }\nrm -rf y",
        ],
        false,
    );
    for words in [
        &["bash", "-O", "failglob", "-c", "echo *nomatch*; rm() { echo; }\nrm y"][..],
        &["bash", "-O", "failglob", "-c", "echo {a,*}; rm() { echo; }\nrm y"],
    ] {
        assert!(!runs_only(&argv(words), &[prefix("echo")], false), "{words:?}");
    }
    only_echo(
        &[
            "echo $((1/0))\nrm() { echo; }\nrm -rf y",
            "rm() { echo; }; rm -rf y",
            "echo a; rm() { echo; }; rm -rf y",
            "echo \"$x\" \"${y}\" 'z'; rm() { echo; }\nrm -rf y",
            "echo \"$(echo)\"; rm() { echo; }\nrm -rf y",
            "set -e; rm() { echo; }; rm",
            "f() { echo $((1/0)); }; rm() { echo; }; rm -rf y",
            "rm()\n{ echo; }\nrm -rf y",
            "rm() { echo $((1/0)); }; f() { echo; }; f; rm",
            "! echo; rm() { echo; }\nrm -rf y",
        ],
        true,
    );
}
