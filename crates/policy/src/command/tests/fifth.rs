//! What a fifth look at the reader found: the kinds, with what stands beside each and is honest.

use super::finds::{none_hidden, none_hidden_in};
use super::*;

/// None of these has to do with a rule on `rm`.
pub(super) fn none_denied_in(scripts: &[&str]) {
    let denied: Vec<_> = scripts
        .iter()
        .filter(|script| could_run(&argv(&["bash", "-c", script]), &[prefix("rm")]))
        .collect();
    assert!(denied.is_empty(), "{denied:?}");
}

/// Whether bash runs nothing but `echo` in each of these.
pub(super) fn only_echo(scripts: &[&str], expected: bool) {
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
            "set() { echo $((1/0)); }\nset; rm() { echo; }\nrm -rf y",
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

/// In some languages a byte of a letter is a backslash to the shell, or a translation is a script.
/// A variable that tells the language made another script of the next line.
/// Now only languages that every shell reads alike are set.
#[test]
fn a_language_makes_no_other_script() {
    for name in ["LC_ALL", "LANG", "LC_CTYPE", "LC_MESSAGES", "LANGUAGE"] {
        for value in ["zh_CN.GBK", "ja_JP.SJIS", "zh_TW.BIG5", "de_DE", "$x", "$(cat f)", "\"$x\""]
        {
            none_hidden_in(
                "bash",
                &[
                    &format!("{name}={value}\necho \"€\\\"\nrm -rf y\necho \""),
                    &format!("export {name}={value}; make"),
                    &format!("{name}={value} bash -c 'true'"),
                    &format!("env {name}={value} bash -c 'true'"),
                ],
            );
        }
        for value in ["C", "POSIX", "C.UTF-8", "en_US.UTF-8", "de_DE.utf8", ""] {
            none_denied_in(&[
                &format!("{name}={value} sort f"),
                &format!("export {name}={value}; echo é"),
                &format!("env {name}={value} sort f"),
            ]);
        }
    }
    none_hidden_in(
        "bash",
        &[
            "read -r LC_ALL < f; rm -rf y",
            "read -r LC_ALL < f; true",
            "for LANG in a.GBK; do true; done",
            "LC_ALL+=x; true",
            "printf -v LC_ALL x; true",
            "TEXTDOMAINDIR=. TEXTDOMAIN=x; echo $\"a\"",
        ],
    );
    none_hidden(&[
        &["env", "LOCPATH=/d", "LC_ALL=C", "bash", "-c", "true"],
        &["env", "LC_ALL=zh_CN.GBK", "bash", "-c", "true"],
        &["sudo", "LC_ALL=zh_CN.GBK", "bash", "-c", "true"],
        &["env", "TEXTDOMAINDIR=.", "bash", "-c", "true"],
    ]);
    only_echo(&["LC_ALL=zh_CN.GBK\necho \"€\\\"\nrm x\necho \"", "LOCPATH=/d; echo"], false);
    only_echo(&["LC_ALL=C; echo €", "LC_ALL=en_US.UTF-8 echo €"], true);
}

/// What `seq` prints, and numbers that `IFS` parts, are several words.
/// They were taken for one, so the command behind them was taken for an operand.
/// Now an operand of a wrapper may be among them.
#[test]
fn numbers_may_be_several_words() {
    none_hidden_in(
        "bash",
        &[
            "timeout -s $(seq 2 3) rm -rf y",
            "timeout -k $(seq 2 3) rm -rf y",
            "x=$(seq 2 3); timeout -s $x rm -rf y",
            "IFS=1; x=213; timeout -s $x rm -rf y",
            "IFS=1; x=213; timeout $x rm -rf y",
            "timeout -s $(seq 1 0) 5 5 rm -rf y",
            "nice -n $(seq 2 3) rm -rf y",
            "nice -n $(seq 1 0) 5 rm -rf y",
        ],
    );
    let check = |script: &str, expected: bool| {
        let words = argv(&["bash", "-c", script]);
        assert_eq!(could_run(&words, &[prefix("git push")]), expected, "{script}");
    };
    check("timeout -s $(seq 2 3) git push origin master", true);
    check("timeout -k $(seq 2 3) git push origin master", true);
    check("timeout -k $(seq 2 3) 5 git push", true);
    check("timeout -k \"$x\" 5 git status", false);
    none_denied_in(&[
        "timeout -s 9 5 make",
        "timeout -k $(seq 2 3) 5 make",
        "timeout $T make",
        "nice -n $(nproc) make",
    ]);
}

/// A value of an option of git that is several words ends in its command.
/// Now a value that may be several counts as anything.
#[test]
fn a_value_of_git_may_be_several_words() {
    none_hidden_in(
        "bash",
        &[
            "git config alias.z '!rm -rf y'; d='. z'; git -C $d status",
            "git config alias.z '!rm -rf y'; git -C {.,z} status",
            "d='. -c core.fsmonitor=rm'; git -C $d status",
            "d='x z'; git --git-dir $d status",
            "d='x z'; git --git-dir=$d status",
            "d='b z'; git -c a.$d status",
            "git -C $(seq 1 2) status",
            "git -C \"$@\" status",
            "o='q foreach rm -rf y'; git submodule -$o x",
            "git submodule --quiet$o x",
        ],
    );
    none_denied_in(&[
        "git -C . status",
        "git -C \"$d\" status",
        "git -C \"$d/sub\" log",
        "git --git-dir=\"$d\" status",
        "git submodule --quiet update",
        "git log $x",
    ]);
}

/// What replaces a word, or stands behind the words, may be the command of a program behind its subcommand.
/// Only wrappers were looked at.
/// Now a place behind such a word is one of a command.
#[test]
fn a_replaced_word_is_no_command_of_a_subcommand() {
    none_hidden(&[
        &["find", "/bin/rm", "-exec", "git", "bisect", "run", "{}", "y", ";"],
        &["find", "rm -rf y", "-exec", "git", "submodule", "foreach", "{}", ";"],
        &["find", "rm -rf y", "-exec", "git", "submodule", "--quiet", "foreach", "{}", ";"],
        &["find", "foreach", "-exec", "git", "submodule", "{}", "rm", "-rf", "y", ";"],
        &["find", "/bin/rm", "-exec", "git", "merge-index", "{}", "-a", ";"],
        &["find", "z", "-exec", "git", "{}", ";"],
        &["find", "x", "-exec", "git", "config", "core.pager", "{}", ";"],
        &["find", "x", "-exec", "git-submodule", "foreach", "{}", ";"],
        &["find", "/bin/rm", "-exec", "pyenv", "exec", "{}", "y", ";"],
        &["find", "/bin/rm", "-exec", "bundle", "exec", "{}", "y", ";"],
        &["find", "/bin/rm", "-exec", "cmake", "-E", "env", "{}", "y", ";"],
        &["find", "exec", "-exec", "pyenv", "{}", "rm", "-rf", "y", ";"],
        &["find", "x", "-exec", "npm", "config", "set", "script-shell", "{}", ";"],
        &["find", "x", "-exec", "sqlite3", "d", "{}", ";"],
        &["xargs", "-I%", "pyenv", "exec", "%"],
        &["xargs", "-I%", "npm", "exec", "--", "%"],
        &["xargs", "-I%", "git", "bisect", "run", "%"],
        &["xargs", "-I%", "go", "env", "-w", "%"],
        &["xargs", "pyenv", "exec"],
        &["xargs", "bundle", "exec"],
        &["xargs", "npm", "exec", "--"],
        &["xargs", "conda", "run", "-n", "env"],
        &["xargs", "ip", "netns", "exec", "n"],
        &["xargs", "cmake", "-E"],
        &["npm", "exe", "--", "/bin/rm", "-rf", "y"],
        &["npm", "ex", "--", "/bin/rm", "-rf", "y"],
        &["npm", "explor", "q", "--", "rm", "-rf", "y"],
        &["bundle", "e", "rm", "-rf", "y"],
        &["bun", "run", "rm", "-rf", "y"],
        &["sh", "-c", "d='. exec rm -rf y'; npm --prefix $d test"],
        &["sh", "-c", "d='. exec rm -rf y'; npm --prefix=$d test"],
        &["sh", "-c", "d=exec; npm --silent \"$d\" rm -rf y"],
        &["sh", "-c", "d='a exec rm -rf y'; pyenv $d"],
        &[
            "find",
            "ext::rm y",
            "-exec",
            "git",
            "-c",
            "protocol.ext.allow=always",
            "ls-remote",
            "{}",
            ";",
        ],
        &["find", "x", "-exec", "git", "-c", "protocol.allow=always", "ls-remote", "{}", ";"],
        &["sh", "-c", "x='ext::rm y'; git -c protocol.ext.allow=always ls-remote \"$x\""],
        &["sh", "-c", "git config protocol.ext.allow always; git ls-remote \"$x\""],
        &["sh", "-c", "GIT_ALLOW_PROTOCOL=ext git ls-remote \"$x\""],
    ]);
}

#[test]
fn words_that_are_appended_or_given_leave_the_rest_free() {
    let open = [prefix("rubocop -A")];
    assert!(could_run(&argv(&["xargs", "bundle", "exec", "rubocop"]), &open));
    assert!(could_run(&argv(&["xargs", "git-push"]), &[prefix("git push --force")]));
    none_denied_in(&[
        "find . -name '*.py' -exec git add {} \\;",
        "find . -name '*.py' -exec git submodule update {} \\;",
        "git ls-files -m | xargs -I% git checkout HEAD %",
        "xargs bundle exec rubocop < f",
        "xargs -I% npm install % < f",
        "xargs -I% ip addr add % < f",
        "git -c protocol.file.allow=always submodule update --init",
        "git -c protocol.version=2 fetch",
        "npm --prefix \"$d\" test",
        "yarn --cwd \"$d\" build",
        "pnpm -C \"$d\" --filter \"$p\" test",
        "npm run \"$s\"; npm install $x",
        "npm explain x",
        "npm test",
        "npm ci",
    ]);
}

/// The value of a variable was read as a command, and it was options of a program.
/// Now each of its options is harmless for sure, or the value counts as anything.
#[test]
fn values_of_variables_are_options() {
    for setting in [
        "GOFLAGS=-toolexec=rm",
        "GOFLAGS=-exec=rm",
        "GOFLAGS=\"'-toolexec=rm y'\"",
        "CARGO_BUILD_RUSTFLAGS=-Clinker=rm",
        "CARGO_ENCODED_RUSTFLAGS=-Clinker=rm",
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS=-Clinker=rm",
        "RUSTFLAGS='-Clink-arg=-wrapper -Clink-arg=rm,y'",
        "RUSTFLAGS='-C linker=rm'",
        "RUSTFLAGS='-C opt-level=3 -Zcodegen-backend=x'",
        "TARGET_ARCH='-wrapper rm,-rf,y'",
        "LDLIBS='-wrapper rm,-rf,y'",
        "LDLIBS='x.o -wrapper rm,-rf,y'",
        "CGO_CFLAGS='-wrapper rm,y'",
        "CFLAGS='-O2 -B/tmp/x'",
        "CFLAGS='-fplugin=./x.so'",
        "CFLAGS=-fuse-ld=../rm",
        "CFLAGS=-specs=f",
        "LESSOPEN='|-rm -rf %s'",
        "LESS='+!rm'",
        "JAVA_TOOL_OPTIONS='-Xmx8m -XX:OnOutOfMemoryError=rm'",
        "_JAVA_OPTIONS='-XX:OnError=rm;y'",
        "MAVEN_OPTS=-XX:Flags=f",
        "MANOPT='-P rm'",
        "MANOPT=-Prm",
        "FZF_DEFAULT_OPTS='--preview rm'",
        "FZF_DEFAULT_OPTS=--preview=rm",
        "ZIPOPT='-T -TT rm'",
        "VIMINIT=':!rm -rf y'",
        "DEBUILD_DPKG_BUILDPACKAGE_OPTS=--hook-init=rm",
        "MANOPT='-D rm'",
        "PERL5OPT='-MPOSIX;system(rm)'",
        "A=- TARGET_ARCH='$Awrapper rm'",
    ] {
        none_hidden_in(
            "bash",
            &[&format!("{setting} make a"), &format!("export {setting}; make a")],
        );
        if !setting.contains(['\'', '"']) {
            none_hidden_in("bash", &[&format!("env {setting} make a")]);
        }
    }
    for setting in [
        "RUSTFLAGS='-D warnings'",
        "RUSTFLAGS='-Dwarnings -A dead_code'",
        "RUSTFLAGS='-C target-cpu=native -Copt-level=3'",
        "RUSTFLAGS='-C link-arg=-fuse-ld=lld'",
        "GOFLAGS=-mod=mod",
        "GOFLAGS='-tags=a,b -race -count=1'",
        "CFLAGS='-O2 -g -Wall -Wextra -std=c++17 -fPIC -march=native -fsanitize=address,undefined'",
        "CPPFLAGS='-I/usr/include -DNDEBUG -DX=1'",
        "LDFLAGS='-L/usr/lib -lfoo -Wl,-rpath,/x -pthread'",
        "JAVA_TOOL_OPTIONS='-Xmx8m -Xms512m -XX:+UseG1GC -XX:MaxRAMPercentage=75.0 -Dfile.encoding=UTF-8'",
        "NODE_OPTIONS='--max-old-space-size=4096 --require ts-node/register'",
        "PYTEST_ADDOPTS='-p no:cacheprovider -q'",
        "GIT_SSH_COMMAND='ssh -i k -o StrictHostKeyChecking=no'",
        "PAGER='less -R'",
        "CC='gcc -m32'",
        "LESS=-FRX",
        "MESSAGE='a - b'",
        "FOO=--verbose",
        "FOO=-1",
    ] {
        none_denied_in(&[&format!("{setting} make a"), &format!("export {setting}; make a")]);
    }
}

/// Programs that run others, and were not known for it.
#[test]
fn more_programs_are_known_to_run_others() {
    none_hidden(&[
        &["rust-gdb", "-ex", "shell rm -rf y"],
        &["rust-lldb", "-ex", "shell rm -rf y"],
        &["lldb", "-o", "shell rm -rf y"],
        &["gdb-multiarch", "-ex", "shell rm -rf y"],
        &["debconf", "rm", "-rf", "y"],
        &["debconf", "-o", "x", "rm", "-rf", "y"],
        &["prove", "-e", "rm -rf y"],
        &["prove", "--exec=rm -rf y", "t"],
        &["scriptlive", "-c", "rm -rf y"],
        &["ssh-copy-id", "-o", "ProxyCommand=rm -rf y", "h"],
        &["autossh", "-o", "ProxyCommand=rm -rf y", "h"],
        &["pip", "--python", "rm -rf y", "list"],
        &["pip3", "--python=rm -rf y", "list"],
        &["pip", "config", "--editor", "rm -rf y", "edit"],
        &["npm", "config", "edit", "--editor", "rm -rf y"],
        &["npm", "config", "set", "script-shell", "rm -rf y"],
        &["npm", "c", "set", "script-shell=rm -rf y"],
        &["npm", "set", "script-shell=rm -rf y"],
        &["pnpm", "config", "set", "--location=project", "script-shell", "rm -rf y"],
        &["cargo", "rustc", "--", "-Clinker=rm -rf y"],
        &["cargo", "rustc", "--", "-C", "linker=rm -rf y"],
        &["cargo", "rustc", "--", "-Clink-arg=-wrapper"],
        &["rustc", "-Clink-arg=-wrapper", "-Clink-arg=rm,-rf,y", "a.rs"],
        &["rustc", "-C", "link-args=-wrapper rm,-rf,y", "a.rs"],
        &["go", "build", "-ldflags", "-linkmode=external -extld=rm"],
        &["go", "build", "-ldflags=-extld=rm"],
        &["go", "tool", "link", "-extld", "rm"],
        &["go", "env", "-w", "GOFLAGS=-toolexec=rm"],
        &["go", "env", "-w", "CC=rm -rf"],
    ]);
    none_hidden(&[
        &["java", "-XX:OnOutOfMemoryError=rm -rf y", "A"],
        &["java", "-XX:OnError=rm -rf y", "A"],
        &["javac", "-J-XX:OnOutOfMemoryError=rm -rf y", "A.java"],
        &["dpkg-buildpackage", "--hook-init=rm -rf y"],
        &["dpkg-buildpackage", "-rrm -rf"],
        &["debuild", "--dpkg-source-hook=rm -rf y"],
        &["sqlite3", "a.db", ".shell rm -rf y"],
        &["sqlite3", "a.db", ".system rm -rf y"],
        &["sqlite3", "a.db", ".sh rm -rf y"],
        &["sqlite3", "-cmd", ".shell rm -rf y", "a.db"],
        &["sqlite3", "a.db", ".import '|rm -rf y' t"],
        &["sqlite3", "a.db", ".once '|rm -rf y'"],
        &["sqlite3", "a.db", "select edit('x', 'rm -rf y')"],
        &["sqlite3", "a.db", "select edit ('x', 'rm -rf y')"],
        &["sh", "-c", "x='.shell rm -rf y'; sqlite3 a.db \"$x\""],
        &["psql", "-c", "\\! rm -rf y"],
        &["psql", "-c", "copy t from program 'rm -rf y'"],
        &["psql", "-c", "\\echo `rm -rf y`"],
        &["mysql", "-e", "\\! rm -rf y"],
        &["mysql", "-e", "system rm -rf y"],
    ]);
}

#[test]
fn honest_words_of_these_programs_stay_free() {
    none_denied_in(&[
        "rust-gdb -batch -ex run -ex bt ./a",
        "prove -lv t/",
        "pip install -r requirements.txt --pre",
        "pip3 install -e .",
        "npm config get registry",
        "npm config set registry https://r.test",
        "npm pkg set version=\"$v\"",
        "npm version patch --no-git-tag-version",
        "cargo clippy -- -D warnings",
        "cargo rustc -- -C target-cpu=native",
        "rustc -C opt-level=3 -Clink-arg=-fuse-ld=lld a.rs",
        "go build -ldflags '-s -w' ./...",
        "go build -ldflags \"-X main.version=$(git describe)\" ./...",
        "go env -w GOPROXY=https://p.test",
        "go env GOPATH",
        "java -Xmx2g -XX:+UseG1GC -jar a.jar",
        "dpkg-buildpackage -us -uc -b",
        "sqlite3 ./a.db 'select 1'",
        "sqlite3 \"$DB\" 'select credit(x) from t'",
        "sqlite3 a.db .tables",
        "sqlite3 -header -csv a.db \"select * from t where x = '$y'\"",
        "psql \"$URL\" -c '\\dt' -c 'select 1'",
        "mysql -e 'select 1'",
        "git push origin main",
    ]);
}

/// A rule on `git push` let its parts pass.
#[test]
fn what_git_push_is_made_of_is_found() {
    for words in [
        &["git", "send-pack", "origin", "main"][..],
        &["git-send-pack", "origin", "main"],
        &["git", "-C", ".", "send-pack", "origin"],
        &["git", "http-push", "origin"],
        &["git", "remote-https", "origin"],
        &["git", "remote-ext", "origin"],
        &["xargs", "git", "send-pack"],
    ] {
        assert!(could_run(&argv(words), &[prefix("git push")]), "{words:?}");
    }
    for words in [&["git", "fetch"][..], &["git", "unpack-objects"], &["git", "stash", "push"]] {
        assert!(!could_run(&argv(words), &[prefix("git push")]), "{words:?}");
    }
}

/// Honest lines that were taken for anything, and what is beside each and is not honest.
#[test]
fn more_lines_are_understood() {
    none_denied_in(&[
        "find . -name '*.sh' -exec bash -n {} \\;",
        "find a /b -mtime +7 -exec sh -n {} \\;",
        "count=$(grep -c foo f || true); echo $((count+1))",
        "count=$(wc -l < f || :); echo $((count+1))",
        "printf -v padded '%03d' 7",
        "printf -v x -- '%s' \"$y\"; echo \"$x\"",
        "echo \"${PATH//:/$'\\n'}\"",
        "cat <<E\n${x//a/$'\\t'}\nE",
    ]);
    none_hidden_in(
        "bash",
        &[
            "find . -exec bash {} \\;",
            "find . -exec bash -n {} {} \\;",
            "find . -exec bash -nc {} \\;",
            "find +n -exec bash -n {} \\;",
            "find -L +n -exec bash -n {} \\;",
            "find -- +n -exec bash -n {} \\;",
            "find \"$d\" -exec bash -n {} \\;",
            "find -files0-from f -exec bash -n {} \\;",
            "find . -exec ./bash -n {} \\; -exec bash {} \\;",
            "count=$(grep -c foo f g || true); echo $((count+1))",
            "count=$(grep -c -H foo || true); echo $((count+1))",
            "count=$(grep -c foo f || cat f); echo $((count+1))",
            "count=$(grep foo f || true); echo $((count+1))",
            "true() { cat f; }; count=$(grep -c foo f || true); echo $((count+1))",
            "printf -v x '%s' 'a[$(rm -rf y)]'; echo $((x))",
            "printf -v 'a[$(rm -rf y)]' x",
            "printf -v \"$x\" y",
            "printf -v PS4 '$(rm -rf y)'; set -x; true",
            "printf -v x -v PS4 '$(rm -rf y)'; set -x; true",
            "printf -v x 'rm'; $x -rf y",
            "echo \"${x//a/$'\\''}\"; rm -rf y #'\"",
            "echo \"${x//a/$'$(rm -rf y)'}\"",
        ],
    );
}

/// `time` is a program to a plain shell, and its options may stand behind a redirection.
/// They were taken for the name of a command.
/// Now an option behind a redirection names none.
#[test]
fn an_option_behind_a_redirection_is_no_command() {
    for shell in ["sh", "bash", "dash"] {
        none_hidden_in(shell, &["time>1 -p rm -rf y", "time 2>f -p rm -rf y", ">f -p rm -rf y"]);
    }
    none_denied_in(&["time >f make -p", "time -p make >f", ">f make -p", "make; -p"]);
}
