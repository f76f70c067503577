//! Ways around a rule that somebody found. Each was allowed, and ran what was denied.

use super::*;

/// Denied under a rule on `rm -rf`, and not allowed by one on what stands around it; answers what is not.
fn hidden(words: &[&str]) -> Option<String> {
    let words = argv(words);
    let others = ["echo", "true", "set", "read", "export", "cd", "test", "[", "printf", ":"];
    let is_found = could_run(&words, &[prefix("rm -rf")]);
    let is_allowed = runs_only(&words, &others.map(prefix), false);
    (!is_found || is_allowed).then(|| format!("{words:?} found: {is_found}"))
}

pub(super) fn none_hidden(commands: &[&[&str]]) {
    let hidden: Vec<String> = commands.iter().filter_map(|words| hidden(words)).collect();
    assert!(hidden.is_empty(), "{}", hidden.join("\n"));
}

pub(super) fn none_hidden_in(shell: &str, scripts: &[&str]) {
    let hidden: Vec<String> =
        scripts.iter().filter_map(|script| hidden(&[shell, "-c", script])).collect();
    assert!(hidden.is_empty(), "{}", hidden.join("\n"));
}

/// A comment that ended in a backslash was taken for joined with the next line when another comment stood before it.
/// Both lines were read as comments, and every shell ran the second.
/// Now lines are joined only beside a blank and never in a comment.
#[test]
fn a_comment_does_not_hide_the_next_line() {
    none_hidden_in(
        "bash",
        &[
            "# a\n# b \\\nrm -rf y",
            "#!/bin/sh\n# Build it all. \\\nrm -rf y",
            "a=1 # x\n# y \\\nrm -rf y",
            "true # x\n# it's\\\nrm -rf y # it's",
            "# x\r\n# y \\\nrm -rf y",
            "# q\n#' \\\nrm -rf y #'",
            "echo \"#\" '\\\n' ; rm -rf y",
            "echo $\\\n(rm -rf y)",
            "echo a\\\n#b; rm -rf y",
            "r\\\nm -rf y",
        ],
    );
}

/// A word that ended in `A=1` was an assignment whatever stood before it, so the command was gone.
/// The shells expanded what stood there and ran it.
/// Now a name and `=` count only as they stand, at the beginning of a word.
#[test]
fn an_expansion_is_no_name_of_an_assignment() {
    none_hidden_in(
        "bash",
        &[
            "x='rm -rf y '; ${x}A=1",
            "`echo rm -rf y `A=1",
            "set -- rm -rf y; $*A=1",
            "set -- rm -rf y ''; \"$@\"A=1",
            "for v in 'rm -rf y '; do ${v}A=1; done",
            "for v in 'rm -rf y '; do $v\"A\"=1; done",
            "printf -v IFS x; set -f; for v in rmx-rfxy; do ${v}A=1; done",
        ],
    );
}

/// Arithmetic sets variables, and names there were taken as they stood; `$x=5` set PATH.
/// A grant for `make --version` then ran a program of the agent's.
/// Now arithmetic is read only over variables that hold numbers, and no name is put together.
#[test]
fn arithmetic_sets_nothing_that_programs_look_at() {
    let allowed = ["make --version", "echo", "true", "read", "printf"].map(prefix);
    for script in [
        "for x in PATH; do for y in $(($x=5)); do make --version; done; done",
        "for x in PATH=5; do for y in $((x)); do make --version; done; done",
        "for x in PATH; do echo ${y[$x=5]}; make --version; done",
        "for x in PATH=5; do echo ${y[x]}; make --version; done",
        "for x in PATH=5; do true ${y:x}; make --version; done",
        "for x in PATH=5; do true ${y:0:x}; make --version; done",
        "for x in PATH=5; do for ((i=x; i<1; i++)); do make --version; done; done",
        "for x in PATH=5; do a[x]=1; make --version; done",
        "for x in PATH; do echo ${!x:=bin}; make --version; done",
        "for x in TH; do echo $((PA$x=5)); make --version; done",
        "echo $((x=1,PATH=5)); make --version",
        "echo $((++   PATH)); make --version",
        "for x in PATH; do {x}>f echo; make --version; done; {PATH}>f make --version",
        "{PATH[0]}>x make --version",
        "read PATH <<< bin; make --version",
        "printf '12%n' PATH; make --version",
        "for f in 12%n; do printf \"1$f\" PATH; make --version; done",
    ] {
        assert!(!runs_only(&argv(&["bash", "-c", script]), &allowed, false), "{script}");
    }
}

/// A shell that is told more than its script may run more.
/// Aliases and files of an interactive one ran under a rule that allows `true`. What a login shell runs first no command
/// can write: the sandbox keeps it empty.
#[test]
fn a_shell_may_run_more_than_its_script() {
    let check = |words: &[&str], expected: bool| {
        assert_eq!(runs_only(&argv(words), &[prefix("true")], false), expected, "{words:?}");
    };
    check(&["sh", "-c", "true"], true);
    check(&["sh", "-lc", "true"], true);
    check(&["bash", "--login", "-c", "true"], true);
    check(&["bash", "-ic", "true"], false);
    check(&["bash", "-O", "expand_aliases", "-c", "true"], false);
}

/// Texts that a shell expands once more: as an index, as a number, as a name, as a prompt.
/// A list of the places where it does missed most of them.
/// Now whatever is not known to leave its words alone counts as anything.
#[test]
fn no_text_is_expanded_later() {
    let scripts = [
        "for x in V; do echo ${!x}; done",
        "for x in V; do a[x]=1; done",
        "for x in V; do a[$x]=1; done",
        "for x in V; do n=([x]=1); done",
        "for x in V; do for ((i=x;i<1;i++)); do :; done; done",
        "for x in V; do echo {b[x]}>/dev/null; done",
        "for x in V; do exec {b[x]}>/dev/null; done",
        "for x in V; do RANDOM=$x; done",
        "for x in V; do OPTIND=$x; done",
        "for x in V; do o=-v; test $o \"$x\"; done",
        "for x in V; do o=-v; test \"$o\" \"$x\"; done",
        "for x in V; do o=v; test -$o \"$x\"; done",
        "for x in V; do o=-v; printf $o \"$x\" z; done",
        "for x in V; do printf \"-\"v\"\" $x; done",
        "for x in '-v V'; do [ $x ]; done",
        "declare -i n; for x in V; do n=$x; done",
        "declare -ai n; for x in V; do n+=($x); done",
        "for x in V; do echo $((x)); done",
        "for x in V; do echo $(($x)); done",
        "for x in V; do ((x)); done",
        "for x in V; do echo ${y:x}; done",
        "for x in V; do echo ${y:$x}; done",
        "for x in V; do [[ $x -eq 0 ]]; done",
        "for x in V; do [[ -v $x ]]; done",
        "for x in V; do [ -v $x ]; done",
        "for x in V; do unset \"$x\"; done",
        "for x in V; do read -r \"$x\" <<< 1; done",
        "for x in V; do getopts a $x -a; done",
        "for x in V; do wait -n -p $x; done",
        "for x in V; do coproc $x { :; }; done",
        "for x in V; do builtin declare \"$x=1\"; done",
        "for x in V; do let $x; done",
        "for x in V; do y=$x; echo $((y)); done",
        "f() { for x; do echo $((x)); done; }; f V",
        "set -- V; echo $(($1))",
        "x=1; read x <<< V; echo $((x))",
        "printf -v x 'a[\\44(rm -rf y)]'; echo $((x))",
        "x=$(printf 'a[\\44(rm -rf y)]'); echo $((x))",
        "date() { printf 'a[\\44(rm -rf y)]'; }; x=$(date +%s); echo $((x))",
        "x=$(seq -f 'a[\\44(rm -rf y)]' 1); echo $((x))",
        "x=$(printf '\\44'); [[ \"a[${x}(rm -rf y)]\" -eq 0 ]]",
        "read x < <(printf 'a[\\44(rm -rf y)]'); echo $((x))",
        "declare -a \"x=$(printf '(\\44(rm -rf y))')\"",
        "x=(1); for v in '(a[$(rm -rf y)])'; do declare -a x=$v; done",
        "x=(1); for v in '(a[$(rm -rf y)])'; do declare x=$v; done",
        "declare -n r=PS4; for v in '$(rm -rf y)'; do r=$v; done; set -x; true",
        "for n in PS4; do printf -v $n '\\44(rm -rf y)'; done; set -x; true",
        "for v in 'x PS4=$(rm${IFS}-rf${IFS}y)'; do command export x=$v; done; set -x; true",
        "for v in 'x PS4=$(rm${IFS}-rf${IFS}y)'; do \\export x=$v; done; set -x; true",
    ];
    let scripts = scripts.map(|script| script.replace('V', "'a[$(rm -rf y)]'"));
    none_hidden_in("bash", &scripts.each_ref().map(String::as_str));
}

/// Commands of the shell that run, name or remember other commands.
/// Some were not on the list of those that do.
/// Now the list is of those that do not.
#[test]
fn no_builtin_runs_or_renames_a_command() {
    none_hidden_in(
        "bash",
        &[
            "jobs -x rm -rf y",
            "BASH_CMDS[foo]=/bin/rm; foo -rf y",
            "BASH_CMDS=([foo]=/bin/rm); foo -rf y",
            "printf -v BASH_CMDS[foo] /bin/rm; foo -rf y",
            "read BASH_CMDS[foo] <<< /bin/rm; foo -rf y",
            "shopt -s expand_aliases\nBASH_ALIASES[z]='rm -rf'\nz y",
            "declare BASH_ALIASES[x]='rm -rf'; shopt -s expand_aliases; eval x y",
            "mapfile -tC 'rm -rf y #' -c 1 z",
            "set -o history\nhistory -s 'rm -rf y'\nfc -s rm",
            "set -o history -o histexpand\nhistory -s 'rm -rf y'\n!rm\n",
            "bash -ic 'shopt -u interactive_comments\necho a # ; rm -rf y'",
            "ENV=/dev/stdin sh -i -c true <<< 'rm -rf y'",
            "env 'ENV=$(rm${IFS}-rf${IFS}y)' sh -i -c true",
            "env 'BASH_FUNC_foo%%=() { rm -rf y; }' bash -c foo",
            "echo rm -rf y | (cd /dev && sh stdin)",
            "cd /dev/fd; echo rm -rf y | sh 0",
            "exec < <(echo rm -rf y); cd /dev; . ./stdin",
            "cd /proc/self; echo rm -rf y | sh fd/0",
            "bind -x '\"a\": rm -rf y'; read -e x <<< a",
            "set -k; true BASH_ENV=x; rm -rf y",
            "eval -- rm -rf y",
            "enable -f x y; z",
            "env r{}=1,m} -rf y",
            "time -p rm -rf y",
            "time -- rm -rf y",
            "time -o x rm -rf y",
        ],
    );
}

/// Words behind wrappers: other escapes than a shell's, scripts without blanks, and parts that are replaced.
/// A word counted as a script only if it held a blank, and was always read as a shell's.
/// Now any character that a shell looks at makes a script of it, and what is replaced may begin no command.
#[test]
fn no_wrapper_hides_a_command() {
    none_hidden(&[
        &["env", "-S", "'A=\\'' rm -rf y \\c'"],
        &["env", "-S", "'A=\\'' rm -rf y #'"],
        &["env", "-Srm\\_-rf\\_y"],
        &["script", "-c", "rm${IFS}-rf${IFS}y", "/dev/null"],
        &["script", "-c", "A=1 rm -rf y", "/dev/null"],
        &["flock", "f", "-c", "rm${IFS}-rf${IFS}y"],
        &["git", "submodule", "foreach", "rm${IFS}-rf${IFS}y"],
        &["git", "bisect", "run", "rm${IFS}-rf${IFS}y"],
        &["find", "d", "-path", "*/r[m]", "-exec", "{}", "-rf", "y", ";"],
        &["find", "m", "-exec", "r{}", "-rf", "y", ";"],
        &["find", ".", "-exec", "sh", "-c", "echo {}", ";"],
        &["find", ".", "-exec", "sh", "-c", "{}", ";"],
        &["bash", "-c", "e=-exec; find . \"$e\" rm -rf y ';'"],
        &["xargs", "-I%", "%", "-rf", "y"],
        &["xargs", "-I", "x", "x", "-rf", "y"],
        &["xargs", "-i", "{}", "-rf", "y"],
        &["xargs", "--replace=x", "x", "-rf", "y"],
        &["xargs", "-I%", "sh", "-c", "echo %"],
        &["xargs", "-I%", "env", "%", "-rf", "y"],
        &["xargs", "sh", "-c"],
        &["xargs", "env", "A=1"],
        &["xargs", "nice", "-n", "5"],
        &["xargs", "sudo", "-u", "root"],
        &["xargs", "find", "."],
        &["fd", ".", "-x", "rm", "-rf"],
        &["fd", "m", "-x", "r{/}", "-rf"],
        &["fd", "-Hx", "rm", "-rf"],
        &["fd", "--exec=rm", "-rf"],
        &["tmux", "new-session", "-d", "rm -rf y"],
        &["hyperfine", "rm -rf y"],
        &["timeout", "-s", "KILL", "5", "rm", "-rf", "y"],
        &["timeout", "--signal=KILL", "5", "rm", "-rf", "y"],
        &["timeout", "--signal", "KILL", "5", "rm", "-rf", "y"],
        &["env", "-", "rm", "-rf", "y"],
        &["env", "-é", "rm", "-rf", "y"],
        &["find", ".", "-exec", "nice", "-n", "5", "{}", "-rf", "y", ";"],
        &["nice", "-5", "rm", "-rf", "y"],
        &["exec", "-a", "x", "rm", "-rf", "y"],
        &["/lib/ld-2.31.so", "/bin/rm", "-rf", "y"],
        &["systemd-inhibit", "rm", "-rf", "y"],
        &["capsh", "--", "-c", "rm -rf y"],
    ]);
}

/// Values of variables and options that programs run.
/// Few were looked at, and those only in one spelling.
/// Now every variable that is exported counts as a command unless it is known not to be one.
#[test]
fn no_value_hides_a_command() {
    none_hidden_in(
        "bash",
        &[
            "GIT_SSH_COMMAND='rm -rf y' git fetch",
            "GIT_EDITOR='rm -rf y' git commit",
            "GIT_EDITOR='rm -rf' git commit",
            "GIT_EDITOR='rm -rf y'; git commit",
            "X='rm -rf y'; export X; git commit",
            "export X; X='rm -rf y'; git commit",
            "for GIT_EDITOR in 'rm -rf y'; do git commit; done",
            "x='rm -rf y'; GIT_EDITOR=$x git commit",
            "read GIT_EDITOR <<< 'rm -rf y'; git commit",
            "export 'GIT_EDITOR=rm -rf y'; git commit",
            "declare -x E='rm -rf y'; git commit",
            "echo ${GIT_EDITOR:='rm -rf y'}; git commit",
            "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!rm -rf y' git x",
            "TAR_OPTIONS='--checkpoint=1 --checkpoint-action=exec=rm\\ -rf\\ y' tar cf /dev/null .",
            "npm_config_script_shell='rm -rf y' npm test",
        ],
    );
    none_hidden(&[
        &["env", "GIT_SSH_COMMAND=rm -rf y", "git", "fetch"],
        &["git", "grep", "-Orm -rf y", "b"],
        &["git", "grep", "-O", "rm -rf y", "b"],
        &["git", "difftool", "--extcmd", "rm -rf y"],
        &["git", "difftool", "-y", "-xrm -rf y"],
        &["git", "rebase", "-xrm -rf y", "main"],
        &["git", "rebase", "--exe", "rm -rf y", "main"],
        &["git", "clone", "-u", "rm -rf y;", ".", "z"],
        &["git", "clone", "--upload-pack", "rm -rf y;", ".", "z"],
        &["git", "clone", "--upload-p=rm -rf y;", ".", "z"],
        &["git", "clone", "ext::rm -rf y", "z"],
        &["git", "filter-branch", "--tree-filter", "rm -rf y"],
        &["git", "-c", "Core.SshCommand=rm -rf y", "fetch"],
        &["git", "-c", "ALIAS.x=!rm -rf y", "x"],
        &["git", "--config-env=alias.x=V", "x"],
        &["rg", "--pre", "rm", "-rf", "y"],
        &["tar", "-I", "rm -rf y", "-cf", "o", "."],
        &["tar", "cIf", "rm -rf y", "o", "."],
        &["tar", "cf", "o", "--checkpoint-action", "exec=rm -rf y", "."],
        &["tar", "cf", "o", "--checkpoint-act=exec=rm -rf y", "."],
        &["tar", "cf", "o", "--use-compress-prog=rm -rf y", "."],
        &["tar", "xf", "o", "--to-command", "rm -rf y"],
        &["tar", "cMf", "o", "-F", "rm -rf y", "."],
        &["split", "--filt", "rm -rf y", "f"],
        &["ssh", "-o", "ProxyCommand=rm -rf y", "h"],
        &["ssh", "-oproxycommand rm -rf y", "h"],
        &["scp", "-S", "rm", "-rf", "y"],
        &["npm", "exec", "-c", "rm -rf y"],
        &["npx", "-c", "rm -rf y"],
        &["npx", "--call=rm -rf y"],
        &["npm", "x", "-c", "rm -rf y"],
        &["zip", "-T", "-TT", "rm -rf y", "z", "f"],
        &["dpkg", "--pre-invoke=rm -rf y", "-i", "x"],
        &["sort", "--compress-program=rm", "-S1k", "f"],
        &["gcc", "-wrapper", "rm,-rf,y", "x.c"],
        &["run-parts", "--regex", "^rm$", "-a", "-rf", "/bin"],
        &["dpkg-architecture", "-c", "rm", "-rf", "y"],
        &["install", "-s", "--strip-program=rm", "a", "b"],
        &["gdb", "-batch", "-ex", "shell rm -rf y"],
        &["gdb", "-batch", "-ex", "!rm -rf y"],
        &["nice", "tar", "-I", "rm -rf y", "-cf", "o", "."],
    ]);
}

/// Shells of other grammars were read as if they were bash.
/// Each has words and expansions of its own that run something.
/// Now only sh, dash, bash and ash are read.
#[test]
fn shells_of_another_grammar_are_not_read() {
    for shell in ["zsh", "zsh-5.9", "ksh", "ksh93", "mksh", "yash", "posh", "osh", "hush", "fish"] {
        none_hidden(&[&[shell, "-c", "=rm -rf y"], &["busybox", shell, "-c", "true"]]);
    }
    for shell in ["sh", "bash", "dash", "ash"] {
        assert!(!could_run(&argv(&[shell, "-c", "true"]), &[prefix("rm -rf")]), "{shell}");
        assert!(
            !could_run(&argv(&["busybox", shell, "-c", "true"]), &[prefix("rm -rf")]),
            "{shell}"
        );
    }
}

/// The same command with other options, words or places.
/// Long options were found for short ones and not the other way, and `--` as a value ended the options.
/// Now both ways are looked for, and only what no option takes for its value ends them.
#[test]
fn no_spelling_hides_a_command() {
    let check = |wanted: &str, words: &[&str], expected: bool| {
        assert_eq!(could_run(&argv(words), &[prefix(wanted)]), expected, "{wanted}: {words:?}");
    };
    check("git push --force", &["git", "push", "-o", "--", "--force"], true);
    check("git push --force", &["git", "push", "-f"], true);
    check("git push --force", &["git", "push", "origin", "main"], false);
    check("git push", &["/usr/lib/git-core/git-push", "."], true);
    check("git push", &["git-pull", "."], false);
    check("rm --recursive", &["rm", "-r", "x"], true);
    check("rm --recursive", &["rm", "-R", "x"], true);
    check("rm --recursive", &["rm", "-f", "x"], false);
    check("tar -x", &["tar", "xf", "a"], true);
    check("tar -x", &["tar", "cf", "a"], false);
    check("python -m pip", &["python", "-mpip", "install"], true);
    check("python -m pip", &["python", "-mpytest"], false);
    check("npm publish", &["npm", "pub"], true);
    check("npm publish", &["npm", "test"], false);
    check("/bin/rm", &["/bin//rm", "x"], true);
    check("/bin/rm", &["/bin/./rm", "x"], true);
    check("/bin/rm", &["/bin/../bin/rm", "x"], true);
    // A program of that name anywhere, for a rule that denies.
    check("/bin/rm", &["/opt/rm", "x"], true);
    check("/bin/rm", &["/bin/rmdir", "x"], false);
}

/// Ends, words and marks that a shell reads in another place.
/// A reserved word before `#`, options of `time` and `command`, a bar in a pattern, a line end in `((`: what followed was
/// taken for a comment, an argument or a document, and ran.
/// Now they are read as every shell reads them, or not at all.
#[test]
fn no_mark_is_read_in_another_place() {
    none_hidden_in(
        "bash",
        &[
            "case esac#a in esac#a) rm -rf y;; esac",
            "case $1 in a) :;; esac#b|*) rm -rf y;; esac",
            ": ${x:-<(rm -rf y)}",
            ": ${x+<(rm -rf y)}",
            ": ${x/1/<(rm -rf y)}",
            ": ${x:->(rm -rf y)}",
            "y=${z:-<(rm -rf y)}",
            "cat <<1; ((1+\n1\n))\nrm -rf y\n1\n",
            "cat <<1; echo $((1+\n1\n))\nrm -rf y\n1\n",
            "time -p eval 'rm -rf y'",
            "time -p -- eval 'rm -rf y'",
            "time -p ! rm -rf y",
            "time -p A=1 rm -rf y",
            "command -pp eval 'rm -rf y'",
            "command -p -p trap 'rm -rf y' EXIT",
            "[[ x =~ a|#b ]]; rm -rf y",
            "x='a[$(rm -rf y)]'; [[ a && x -eq 1 && b ]]",
            "x='a[$(rm -rf y)]'; [[ a && -v $x && b ]]",
            "x='a[$(rm -rf y)]'; [[ a && $x -eq 1 && b ]]",
        ],
    );
    for script in ["x+=/q; make --version", "x[0]=/q; make --version", "make --version ${x:-<(a)}"]
    {
        let allowed = [prefix("make --version")];
        assert!(!runs_only(&argv(&["sh", "-c", script]), &allowed, false), "{script}");
    }
}

/// Numbers that are none, and several words that were taken for one.
/// The shell sets some variables itself, others come from outside, and errors came out as numbers.
/// Now these are no numbers, and what may be several words is.
#[test]
fn what_is_no_number_or_no_word_is_not_taken_for_one() {
    none_hidden_in(
        "bash",
        &[
            "_=1; : 'a[$(rm -rf y)]'; echo $((_))",
            "for _ in 1 2; do : 'a[$(rm -rf y)]'; echo $((_)); done",
            "REPLY=1; read -r <<< 'a[$(rm -rf y)]'; echo $((REPLY))",
            "false && TZ=1; echo $((TZ))",
            "false && LANG=1; echo $((LANG))",
            "x=$(wc -l 2>&1 <missing); echo $((x))",
            "for i in $(seq 1 3 2>&1 </nonexist); do echo $((i)); done",
            ": ${a[0]:=v}; declare 'a=([$(rm -rf y)]=1)'",
            "set -- -exec rm -rf y \\;; find . \"${z:-$@}\"",
            "set -- -v 'a[$(rm -rf y)]'; [ \"${z:-$@}\" ]",
            "export GIT_EDITOR=\": \"{\"x # \",\"x; rm -rf y \"}; git commit --allow-empty",
        ],
    );
}

/// Programs that run others, by what replaces a part of their words and by settings.
/// A replaced word was compared with the word before it only, and a setting with letters.
/// Now what is replaced stands behind a script or is no value of an option, and a setting has a dot.
#[test]
fn what_is_replaced_or_set_makes_no_command() {
    none_hidden(&[
        &["xargs", "-I%", "sh", "-c", "--", "%"],
        &["xargs", "-I%", "sh", "-c", "-e", "%"],
        &["xargs", "-I%", "sh", "-ec", "-o", "errexit", "%"],
        &["xargs", "-I%", "sh", "-c", "-O", "lastpipe", "%"],
        &["find", "rm -rf y", "-exec", "sh", "-c", "--", "{}", ";"],
        &[
            "find", "/bin/rm", "-exec", "sh", "-c", "true", ";", "-exec", "env", "{}", "-rf", "y",
            ";",
        ],
        &["xargs", "-I%", "tar", "-I", "%", "-cf", "a", "b"],
        &["xargs", "-I%", "split", "--filter=%"],
        &["xargs", "tar", "cf", "x", "-I"],
        &["xargs", "-I%", "git", "-c", "core.sshCommand=%", "fetch"],
        &["script", "-qefacrm -rf y", "/dev/null"],
        &["env", "-vvvS", "rm -rf y"],
        &["env", "-vvvSrm -rf y"],
        &["git", "-c", "difftool.a+b.cmd=rm -rf y", "difftool"],
        &["git", "-c", "credential.https://x.helper=!rm -rf y", "fetch"],
        &["git", "-c", "remote.a/b.uploadpack=rm -rf y", "fetch"],
        &["env", "GIT_CONFIG_PARAMETERS='alias.z'='!rm -rf y'", "git", "z"],
        &["env", "TZ=rm -rf y", "git", "--config-env=difftool.z.cmd=TZ", "difftool"],
        &["sh", "-c", "git config alias.z '!rm -rf y'; git z"],
        &["git", "config", "--global", "core.sshCommand", "rm -rf y"],
        &["strace", "-o", "|rm -rf y", "true"],
        &["strace", "-o|rm -rf y", "true"],
        &["perf", "stat", "--pre", "rm -rf y", "true"],
    ]);
    none_hidden_in(
        "bash",
        &[
            "printf 'rm -rf y' | split --filter=sh",
            "printf 'rm -rf y' > f; tar cf a f; tar xf a --to-command=sh",
            "echo 'rm -rf y' | split --filter='sh ; true'",
            "GIT_PAGER=sh git -p log --format=x",
            "x='alias.z=!rm -rf y'; git -c \"$x\" z",
            "x='alias.z=!rm -rf y'; git -c $x z",
            "x='rm -rf y'; git -c core.sshCommand=\"$x\" fetch",
            "x='exec=rm -rf y'; tar cf a --checkpoint-action=\"$x\" .",
            "x='rm -rf y'; split --filter=\"$x\" f",
            "x='rm -rf y'; split --filter=$x f",
            "x='rm -rf y'; ssh -oProxyCommand=\"$x\" h",
            "x=--filter='rm -rf y'; split -\"${x#-}\" f",
        ],
    );
    // The control: what is replaced is an argument.
    for words in [
        &["xargs", "-I%", "sh", "-c", "echo \"$1\"", "_", "%"][..],
        &["xargs", "-I%", "git", "add", "%"],
        &["find", ".", "-exec", "wc", "-l", "{}", ";"],
        &["env", "SHELL=/bin/bash", "make"],
        &["git", "config", "user.name", "Ann O'Neil"],
        &["git", "commit", "-m", "core.x=it's"],
        &[
            "sh",
            "-c",
            "git add \"$f\"; tar xf \"$f\"; ssh -p \"$port\" \"$host\"; git -c user.name=\"$n\" log",
        ],
        &["strace", "-o", "trace.log", "true"],
    ] {
        assert!(!could_run(&argv(words), &[prefix("rm -rf")]), "{words:?}");
    }
}
