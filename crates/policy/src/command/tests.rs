//! What could run, and what runs and nothing else.

mod day;
mod fifth;
mod finds;
mod found_by_shells;
mod honest;
mod near;
mod others;
mod random;
mod seventh;
mod sixth;

use super::*;
use crate::shell::LOOKS;

fn could_run(argv: &[String], prefixes: &[Vec<Box<str>>]) -> bool {
    Seen::default().could_run(argv, prefixes)
}

fn runs_only(argv: &[String], prefixes: &[Vec<Box<str>>], exact: bool) -> bool {
    Seen::default().runs_only(argv, prefixes, exact)
}

fn prefix(text: &str) -> Vec<Box<str>> {
    text.split(' ').map(Into::into).collect()
}

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn dressing_a_command_up_does_not_hide_it() {
    let check = |words: &[&str]| {
        assert!(could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
    };
    check(&["rm", "-rf", "x"]);
    check(&["/bin/rm", "-rf", "x"]);
    check(&["./ws/bin/rm", "-rf", "x"]);
    check(&["env", "rm", "-rf", "x"]);
    check(&["env", "-i", "A=1", "rm", "-rf", "x"]);
    check(&["env", "-S", "rm -rf x"]);
    check(&["xargs", "rm", "-rf"]);
    check(&["timeout", "5", "nice", "rm", "-rf", "x"]);
    check(&["find", ".", "-exec", "rm", "-rf", "{}", ";"]);
    check(&["sudo", "bash", "-c", "rm -rf x"]);
    for script in [
        "rm -rf x",
        "ls & rm -rf x",
        "ls;rm -rf x",
        "ls && rm -rf x",
        "(rm -rf x)",
        "{ rm -rf x; }",
        "echo $(rm -rf x)",
        "echo \"$(rm -rf x)\"",
        "echo `rm -rf x`",
        "echo \"`rm -rf x`\"",
        "env rm -rf x",
        "ls | xargs rm -rf",
        "bash -c 'rm -rf x'",
        "bash -c \"sh -c 'rm -rf x'\"",
        "ls\nrm -rf x",
        "if true; then rm -rf x; fi",
        "echo ok > >(rm -rf x)",
        "r''m -rf x",
        "r\\m -rf x",
        "\"rm\" '-rf' x",
        "$'r\\x6d' -rf x",
        "$'\\162m' -rf x",
        "A=1 rm -rf x",
        "! rm -rf x",
        "$CMD -rf x",
        "${CMD} -rf x",
        "rm \\\n -rf x",
        "true '\\'; rm -rf x",
        "true \"$(true)\"; rm -rf x",
    ] {
        check(&["sh", "-c", script]);
        check(&["/bin/bash", "-ec", script]);
    }
    check(&["sh", "-c", &"true; ".repeat(20_000)]);
}

#[test]
fn neither_spelling_nor_the_grammar_of_a_shell_hides_it() {
    let check = |words: &[&str]| {
        assert!(could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
    };
    // Other spellings of the same options, other places.
    for words in [
        &["rm", "-r", "-f", "x"][..],
        &["rm", "-fvr", "x"],
        &["rm", "x", "-rf"],
        &["rm", "--recursive", "--force", "x"],
        &["rm", "--rec", "-f", "x"],
        &["time", "-p", "rm", "-rf", "x"],
        &["bash", "--norc", "-o", "pipefail", "-c", "rm -rf x"],
        &["sh", "-c", "-e", "rm -rf x"],
        &["nice", "env", "sh", "-c", "rm -rf x"],
        &["rm", "--r", "--f", "x"],
        &["env", "-Srm -rf x"],
        &["env", "--split-string=rm -rf x"],
        &["bash", "-c", "--", "-x || rm -rf x"],
        &["sh"],
        &["sh", "-s"],
    ] {
        check(words);
    }
}

#[test]
fn no_script_hides_it() {
    let check = |words: &[&str]| {
        assert!(could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
    };
    for script in [
        "X=rm; if true; then $X -rf y; fi",
        "rm $FLAGS y",
        "rm $(flags) y",
        "echo 'rm -rf y' | sh",
        "bash <<E\nrm -rf y\nE",
        "echo -rf y | xargs rm",
        "f() { rm -rf y; }; f",
        "case a in a) rm -rf y;; esac",
        "for i in 1 2; do rm -rf $i; done",
        "while rm -rf y; do :; done",
        "[[ -n $(rm -rf y) ]]",
        "x=$(rm -rf y)",
        "echo ${x:-$(rm -rf y)}",
        "echo $((1 + $(rm -rf y)))",
        "cat <<E\n$(rm -rf y)\nE",
        "true > $(rm -rf y)",
        "eval rm -rf y",
        "eval \"$X\"",
        "trap 'rm -rf y' EXIT",
        "alias x='rm -rf'; x y",
        "coproc rm -rf y",
        "/bin/r? -rf y",
        "[r]m -rf y",
        "{rm,-rf,y}",
        "((rm -rf y))",
        "echo 'rm -rf y' | sh /dev/stdin",
        "hash -p /bin/rm foo; foo -rf y",
        "PS4='$(rm -rf y)'; set -x; true",
        "export PS4='$(rm -rf y)'",
        "x='a[$(rm -rf y)]'; echo $((x))",
        "git submodule foreach 'rm -rf y'",
        "git submodule --quiet foreach rm -rf y",
        "git -c alias.x='!rm -rf y' x",
        "git rebase -x 'rm -rf y' main",
        "git bisect run rm -rf y",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf y",
        "[[ a || rm -rf y ]]",
        "echo $'\\'; rm -rf y #'",
        "true &> /dev/null rm -rf y",
        "a\r# b; rm -rf y",
        "echo ${ rm -rf y; }",
        "command rm -rf y",
        "exec rm -rf y",
        "if rm -rf y",
        "rm -rf y )",
    ] {
        check(&["sh", "-c", script]);
    }
}

/// Quotes that are none where they stand, lines that are joined, texts that something expands later: each was read as
/// harmless and ran, in bash or in a plain shell.
#[test]
fn no_grammar_of_a_shell_hides_a_command() {
    let [denied, allowed] = [prefix("rm -rf"), prefix("echo")];
    for script in [
        "echo \"${x:-'$(rm -rf y)'}\"",
        "echo \"${x:-'}\" ; rm -rf y ; echo \"'}\"",
        "echo \"$\\\n(rm -rf y)\"",
        "cat <<E\n$\\\n(rm -rf y)\nE",
        "echo \"`echo \\\"'\\\"; rm -rf y; echo \\\"'\\\"`\"",
        "echo <<E\nfoo\\\nE\necho '\nE\nrm -rf y\n: # '",
        "echo <<-E\nfoo\\\nE\necho '\nE\nrm -rf y\n: # '",
        "echo <<E\n$'$(rm -rf y)'\nE",
        "echo <<E\n${x:-'$(rm -rf y)'}\nE",
        "echo $(($'$(rm -rf y)'))",
        "echo $['$(rm -rf y)']",
        "echo ${x['$(rm -rf y)']}",
        "for x in 'a[$(rm -rf y)]'; do echo $((x)); done",
        "for x in '$(rm -rf y)'; do echo ${x@P}; done",
        "cat <<$'E'\nx\nE\n: '\n$E\nrm -rf y\n: # '",
        "echo $(\\\n( '$(rm -rf y)' ))",
        "let 'x=a[$(rm -rf y)]'",
        "[[ 'a[$(rm -rf y)]' -eq 0 ]]",
        "test -v 'a[$(rm -rf y)]'",
        "printf -v 'a[$(rm -rf y)]' x",
        "read 'a[$(rm -rf y)]' <<< x",
        "set -- 'a[$(rm -rf y)]'; echo $(($1))",
        "read x <<< 'a[$(rm -rf y)]'; echo $((x))",
        "read x <<'E'\na[$(rm -rf y)]\nE\necho $((x))",
        "compgen -W '$(rm -rf y)'",
        "compgen -C 'rm -rf y'",
        "echo a | mapfile -c 1 -C 'rm -rf y' z",
        "for PS4 in '$(rm -rf y)'; do set -x; echo; done",
        "mapfile -t PS4 <<'E'\n$(rm -rf y)\nE\nset -x; true",
        "a='$';b='(rm -rf y)';PS4=$a$b;set -x;true",
        "a='$';b='(rm -rf y)';c=$a$b; echo ${c@P}",
        "command export 'PS4=$(rm${IFS}-rf${IFS}y)'; set -x; :",
    ] {
        let words = argv(&["sh", "-c", script]);
        assert!(could_run(&words, std::slice::from_ref(&denied)), "{script}");
        assert!(!runs_only(&words, std::slice::from_ref(&allowed), false), "{script}");
    }
}

/// Ways to hand a command to something that runs it.
#[test]
fn no_program_hides_a_command() {
    let check = |words: &[&str]| {
        assert!(could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
    };
    for script in [
        "echo rm -rf y | bash -eo pipefail",
        "echo rm -rf y | bash -o pipefail",
        "echo rm -rf y | sh -s foo",
        "echo rm -rf y | bash --rcfile x",
        "echo rm -rf y | sh //dev/stdin",
        "cd /; echo rm -rf y | sh dev/stdin",
        "echo rm -rf y | { . /dev/stdin; }",
        "source <(echo rm -rf y)",
        "bash <(echo rm -rf y)",
        "BASH_ENV=/dev/stdin bash -c true <<< 'rm -rf y'",
        "exec < <(echo rm -rf y); sh -s -- a",
        "echo rm -rf y | xargs -I% sh -c %",
        "trap -- 'rm -rf y' EXIT",
        "sh -c -- '-x;rm${IFS}-rf${IFS}y'",
        "command alias x=rm\nx -rf y",
        "sg root -c 'rm -rf y'",
        "choom -n 0 -- rm -rf y",
        "x86_64 rm -rf y",
        "ssh-agent rm -rf y",
        "logsave /dev/null rm -rf y",
        "split --filter='rm -rf y' f",
        "tcsh -c 'rm -rf y'",
        "tar cf /dev/null --checkpoint-action=exec='rm -rf y' .",
        "rm -Rf y",
        "rm -fR y",
        "rm -R --force y",
    ] {
        check(&["sh", "-c", script]);
    }
    check(&["env", "-vSrm -rf y"]);
    check(&["env", "--split=rm -rf y"]);
    check(&["env", "-Srm\\_-rf\\_y"]);
    check(&["script", "--command=rm -rf y", "/dev/null"]);
    check(&["script", "-qcrm -rf y", "/dev/null"]);
    check(&["su", "root", "--command=rm -rf y"]);
    check(&["su", "root", "--comm=rm -rf y"]);
    check(&["su", "root", "--session-command=rm -rf y"]);
    check(&["git", "-c", "alias.x=!rm", "x", "-rf", "y"]);
    check(&["git", "-c", "core.sshCommand=rm -rf y", "fetch"]);
    check(&["start-stop-daemon", "-S", "-x", "/bin/rm", "--", "-rf", "y"]);
}

/// What sets a variable that programs look at makes another command of one that is allowed.
#[test]
fn no_loop_sets_what_programs_look_at() {
    let allowed = [prefix("cargo test"), prefix("echo")];
    let check = |script: &str, expected: bool| {
        assert_eq!(
            runs_only(&argv(&["bash", "-c", script]), &allowed, false),
            expected,
            "{script}"
        );
    };
    for script in [
        "for PATH in .; do cargo test; done",
        "select PATH in ./evil; do cargo test; done",
        "{PATH}>x cargo test",
        "echo ${PATH:=.}; cargo test",
        "echo $((PATH=1)); cargo test",
        "for https_proxy in evil.test; do cargo test; done",
    ] {
        check(script, false);
    }
    // The controls: names of the script's own.
    check("for t in a b; do cargo test $t; done", true);
    check("echo $((i = 1)) ${x:=a} {fd}>x; cargo test", true);
    check("cargo test \\\n  --all # it's all", true);
    check("cargo test \\\n  --all \\\n  'a b'", true);
}

#[test]
fn subcommands_behind_options() {
    let check = |wanted: &str, words: &[&str], expected: bool| {
        assert_eq!(could_run(&argv(words), &[prefix(wanted)]), expected, "{wanted}: {words:?}");
    };
    check("git push", &["git", "push"], true);
    check("git push", &["git", "-C", ".", "push"], true);
    check("git push", &["git", "-C", "push", "status"], false);
    check("git push", &["git", "--no-pager", "-c", "a=b", "push", "origin"], true);
    check("git push", &["git", "--git-dir=x", "push"], true);
    check("git push", &["git", "status", "push"], false);
    check("git push", &["git", "commit", "-m", "push"], false);
    check("git push", &["sh", "-c", "git -C \"$DIR\" status"], false);
    check("git push", &["sh", "-c", "git -C $DIR status"], true);
    check("git push", &["sh", "-c", "git -C \"$@\" status"], true);
    check("git push", &["sh", "-c", "git -C \"${A[@]}\" status"], true);
    check("git push", &["sh", "-c", "git $DO"], true);
    check("git push --force", &["git", "push", "origin", "-f"], true);
    check("git push --force", &["git", "push", "-uf", "origin"], true);
    check("git push --force", &["git", "push", "--force-with-lease"], false);
    check("git push -f", &["git", "push", "--force"], true);
    check("git push --force", &["git", "push", "origin", "--force"], true);
    check("git push --force", &["git", "push", "--forc"], true);
    check("git push", &["git", "--attr-source", "HEAD", "push"], true);
    check("git push", &["git", "--shallow-file", "x", "push"], true);
    check("git push", &["git", "-c", "alias.p=push", "p"], true);
    check("cargo publish", &["cargo", "+nightly", "publish"], true);
    check("cargo publish", &["cargo", "+nightly", "test"], false);
    check("cargo publish", &["rustup", "run", "stable", "cargo", "publish"], true);
    check("npm publish", &["npm", "--prefix", "a", "publish"], true);
    check("npm publish", &["npm", "--loglevel=info", "publish"], true);
    check("npm publish", &["npm", "test"], false);
    check("python -m pip", &["python3", "-m", "pip"], false);
    check("python -m pip", &["python", "-m", "pip", "install", "x"], true);
    check("python -m pip", &["python", "-m", "pytest"], false);
    check("chmod -R", &["chmod", "--recursive", "a+x", "."], true);
    check("chmod -R", &["chmod", "a+x", "f"], false);
}

/// A denial of `/bin/rm` let `rm` pass, and one of `rm --force` let `rm -f` pass, though each is found the
/// other way round. A program is meant by its name, and an option by each of the words that are known
/// for it.
#[test]
fn regression_a_program_is_found_wherever_a_rule_says_that_it_lies() {
    let check = |wanted: &str, words: &[&str], expected: bool| {
        assert_eq!(could_run(&argv(words), &[prefix(wanted)]), expected, "{wanted}: {words:?}");
    };
    for wanted in ["rm", "/bin/rm", "./rm", "/usr/bin/rm"] {
        for words in [
            &["rm", "x"][..],
            &["/bin/rm", "x"],
            &["/usr/bin/rm", "x"],
            &["./rm", "x"],
            &["//bin/../bin/rm", "x"],
            &["busybox", "rm", "x"],
            &["/bin/busybox", "rm", "x"],
            &["sh", "-c", "/bin/rm x"],
        ] {
            check(wanted, words, true);
        }
        check(wanted, &["/bin/rmdir", "x"], false);
        check(wanted, &["rm/x", "x"], false);
    }
    check("rm --recursive --force", &["rm", "-fr", "x"], true);
    check("rm --recursive --force", &["rm", "-r", "x"], false);
    check("rm --recursive", &["rm", "-R", "x"], true);
}

#[test]
fn other_commands_stay_free() {
    let check = |words: &[&str]| {
        assert!(!could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
    };
    check(&[]);
    check(&["rm"]);
    check(&["rm", "-r", "x"]);
    check(&["echo", "rm", "-rf"]);
    check(&["grep", "rm -rf", "README.md"]);
    check(&["sh", "-c", "rm; -rf"]);
    check(&["sh", "-c", "ls && cargo test"]);
    check(&["sh", "-c", "echo $HOME"]);
    check(&["sh", "-c", "echo \"rm -rf\" && printf '%s' 'rm -rf x'"]);
    check(&["sh", "-c", "grep -c 'rm -rf' *.sh # rm -rf x"]);
    check(&["sh", "-c", "cat <<'E'\nrm -rf x\nE"]);
    check(&["sh", "-c", "rm -r x; ls -f"]);
    check(&["sh", "-c", "for f in rm -rf; do echo $f; done"]);
    check(&["sh", "tests/run.sh", "rm -rf"]);
    check(&["bash", "-e", "run.sh"]);
    check(&["rm", "-r", "x", "--", "-f"]);
    check(&["rm", "--", "-rf"]);
    check(&["env", "A=1", "cargo", "test"]);
    check(&["git", "commit", "-m", "do not rm -rf"]);
}

#[test]
fn permissive_matching_is_exact() {
    let allowed = [prefix("cargo test"), prefix("gh run view"), prefix("true")];
    let check = |words: &[&str], expected: bool| {
        assert_eq!(runs_only(&argv(words), &allowed, false), expected, "{words:?}");
    };
    check(&["cargo", "test", "-p", "x"], true);
    check(&["sh", "-c", "cargo test"], true);
    check(&["bash", "-euo", "pipefail", "-c", "gh run view 1"], true);
    check(&["sh", "-c", "-x", "cargo test"], true);
    check(&["sh", "-c", "gh run view 3 2>&1 > out"], true);
    check(&["sh", "-ec", "cargo test && gh run view $RUN | true; (true)"], true);
    check(&["sh", "-c", "for t in a b; do cargo test \"$t\"; done"], true);
    check(&["cargo"], false);
    check(&["cargo", "testx"], false);
    check(&["./cargo", "test"], false);
    check(&["/tmp/cargo", "test"], false);
    check(&["env", "cargo", "test"], false);
    check(&["./sh", "-c", "cargo test"], false);
    check(&["/ws/bin/sh", "-c", "cargo test"], false);
    check(&["sh", "-ic", "cargo test"], false);
    for script in [
        "",
        "GH_HOST=x gh run view 2",
        "cargo test; rm -rf x",
        "cargo test $(rm -rf x)",
        "cargo $X",
        "cargo {test,x}",
        "X=1; cargo test",
        "export PATH=x; cargo test",
        "cargo() { rm; }; cargo test",
        ". ./env; cargo test",
        "cargo test > >(rm)",
        "cargo test <<E\n$(rm)\nE",
        "cargo test ) true",
        "[[ a || rm ]]",
        "cargo test $'\\'; rm #'",
    ] {
        check(&["sh", "-c", script], false);
    }
}

#[test]
fn exact_matching_takes_no_further_words() {
    let check = |words: &[&str], expected: bool| {
        assert_eq!(runs_only(&argv(words), &[prefix("rm -rf x")], true), expected, "{words:?}");
    };
    check(&["rm", "-rf", "x"], true);
    check(&["sh", "-c", "rm -rf x"], true);
    check(&["sh", "-c", "rm -rf 'x' && rm -rf x"], true);
    check(&["rm", "-rf", "x", "/"], false);
    check(&["sh", "-c", "rm -rf x y"], false);
    check(&["sh", "-c", "rm -rf x; true"], false);
    check(&["rm", "-rf"], false);
}

/// Looks for a rule's words in commands of several lengths.
fn costs_no_more(wanted: &str, words: &dyn Fn(usize) -> Vec<String>) {
    for bytes in [1_000, 4_000, 16_000, 31_000, 64_000] {
        let argv = words(bytes);
        LOOKS.set(0);
        could_run(&argv, &[prefix(wanted)]);
        runs_only(&argv, &[prefix(wanted)], false);
        let (looks, most) = (LOOKS.get(), 16 * MAX_COMMAND_BYTES);
        assert!(looks <= most, "{wanted} at {bytes}: {looks} > {most}");
    }
}

/// A beginning, what is repeated behind it, and an end.
const SHAPES: &[(&str, &str, &str)] = &[
    ("", "(", ""),
    ("", "((", ""),
    ("", "$((", ""),
    ("", "$(", ""),
    ("", "`", ""),
    ("", "\"$(", ""),
    ("", "${a:-", ""),
    ("", "\"a\" ", ""),
    ("", "\\\\", ""),
    ("", "{a", ""),
    ("", "{a} ", ""),
    ("", "1", ""),
    ("", "1>a ", ""),
    ("", "a=", ""),
    ("", "a=() ", ""),
    ("", "a=(", ""),
    ("", "a=(b", "))"),
    ("", "\"$((", ""),
    ("", "<(", ""),
    ("", "(a;", ""),
    ("", "{ ", ""),
    ("", "if ", ""),
    ("", "f() ", ""),
    ("", "case $(", ""),
    ("", "[$((", ""),
    ("", "> $(", ""),
    ("", "export a=b;", ""),
    ("", "export a='b c';", ""),
    ("", "A='B=1 c' d;", ""),
    ("", "a=$b;b=$a;", ""),
    ("", "a[1]=1 ", ""),
    ("", "a[1 ", ""),
    ("a=1;", "echo $((a  +  a));", ""),
    ("", "echo $((a ", ""),
    ("", "[ \"$a\" = b ];", ""),
    ("", "eval 'a;';", ""),
    ("<<a ", "$(\nb)", "\na\n"),
    ("", "rm;", ""),
    ("", "<<a ", "\na\n"),
    ("<<a ", "\n$(", "\na\n"),
    ("case a in ", "a|b) c;; ", "esac"),
    ("$(($(($(($((", "a ", ") ) ) ) ) ) ) )"),
    ("env ", "sh -c 'rm' ", ""),
    ("env ", "rm ", ""),
];

/// No command can hold a decision up: the cost is bounded by what may be looked at, not by how often the
/// words of a rule could begin in it.
#[test]
fn looking_costs_no_more_than_the_bytes_that_may_be_looked_at() {
    let check = costs_no_more;
    let repeated = |first: &'static str, piece: &'static str| {
        move |bytes: usize| {
            let rest = piece.split(' ').map(str::to_owned).cycle().take(bytes / piece.len());
            std::iter::once(first.to_owned()).chain(rest).collect::<Vec<_>>()
        }
    };
    check("rm -rf", &repeated("env", "rm"));
    check("rm -rf", &repeated("env", "env"));
    check("rm -rf", &repeated("eval", "eval"));
    check("rm -rf", &repeated("xargs", "rm"));
    check("docker compose run", &repeated("env", "docker --x compose"));
    check("docker compose run", &repeated("docker", "-x compose"));
    check("docker a a a a a a a b", &repeated("docker", "-x a"));
    check("git push origin main", &repeated("git", "-C git push"));
}

/// The same of scripts, whatever they open and never close.
#[test]
fn reading_a_script_costs_no_more_than_the_bytes_that_may_be_looked_at() {
    let check = costs_no_more;
    let script = |begin: &'static str, piece: &'static str, end: &'static str| {
        move |bytes: usize| {
            let pieces = piece.repeat(bytes / piece.len());
            argv(&["sh", "-c", &format!("{begin}{pieces}{end}")])
        }
    };
    for (begin, piece, end) in SHAPES {
        check("rm -rf", &script(begin, piece, end));
    }
    // What stands before `=` is long, and brackets follow it.
    check("rm -rf", &|bytes| {
        let script = format!("{}={}", "a".repeat(bytes / 2), "()".repeat(bytes / 4));
        argv(&["sh", "-c", &script])
    });
}

#[test]
fn a_command_is_read_once_for_all_rules() {
    let (argv, seen) = (argv(&["sh", "-c", &"true;".repeat(1_000)]), Seen::default());
    let cost = |ask: &dyn Fn()| {
        LOOKS.set(0);
        ask();
        LOOKS.get()
    };
    let first = cost(&|| assert!(!seen.could_run(&argv, &[prefix("rm -rf")])));
    let second = cost(&|| assert!(!seen.could_run(&argv, &[prefix("ls")])));
    assert!(first > 5_000 && second < 10, "{first}, then {second}");
    assert!(seen.could_run(&argv, &[prefix("true")]));
}
