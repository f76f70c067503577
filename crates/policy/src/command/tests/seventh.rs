//! What a seventh look at the reader found: in values and options of other programs.

use super::fifth::none_denied_in;
use super::finds::{none_hidden, none_hidden_in};
use super::*;

/// A part of a value in whose place a program puts something was the name of a program that nobody denies.
#[test]
fn what_a_program_fills_in_is_not_known() {
    none_hidden_in(
        "bash",
        &[
            "ssh -oProxyCommand='%n y' rm",
            "ssh -o 'ProxyCommand=%h y' rm",
            "ssh -o 'ProxyCommand=r%r y' -l m h",
            "ssh -o 'ProxyCommand=sh -c \"%n y\"' rm",
            "scp -oProxyCommand='%n y' f rm:b",
            "GIT_SSH_COMMAND='ssh -oProxyCommand=%n' git ls-remote ssh://rm/x",
            "LESSOPEN='|%s y' less /usr/bin/rm",
            "LESSOPEN='|r%s y' less m",
            "ssh -o 'ProxyCommand=env %n y' rm",
            "RSYNC_CONNECT_PROG='%H y' rsync rm::x .",
        ],
    );
    none_denied_in(&[
        "ssh -o 'ProxyCommand=nc %h %p' h",
        "LESSOPEN='|lesspipe %s' less f",
        "watch -n 1 date +%s",
        "watch date +%F",
        "git log --format=%h",
        "time date -d @0 +%H",
        "fg %1",
    ]);
}

/// Of several letters that are options the one with the shortest value was taken, which tore names.
#[test]
fn letters_within_a_value_tear_no_name() {
    let check = |denied: &str, words: &[&str], expected: bool| {
        assert_eq!(could_run(&argv(words), &[prefix(denied)]), expected, "{denied}: {words:?}");
    };
    check("docker", &["scp", "-Sdocker", "f", "h:b"], true);
    check("docker", &["sftp", "-Sdocker", "h"], true);
    check("sudo", &["scp", "-Ssudo", "f", "h:b"], true);
    check("curl", &["git", "grep", "-Ocurl", "x"], true);
    check("curl", &["git", "difftool", "-yxcurl", "HEAD~1"], true);
    check("rm", &["dpkg-buildpackage", "-prm"], true);
    check("rm", &["tar", "-cIrm", "f"], true);
    check("docker", &["scp", "-S", "ssh", "f", "h:b"], false);
    check("rm", &["git", "grep", "-Oless", "x"], false);
}

/// The path of one program, with a blank in it, was read as a program and its words.
#[test]
fn a_path_with_a_blank_is_a_path_too() {
    let path = "./a b/../../../usr/bin/rm";
    for set in [
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTDOC",
        "CARGO_TARGET_X_LINKER",
        "GIT_SSH",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "PIP_PYTHON",
    ] {
        none_hidden_in("bash", &[&format!("{set}='{path}' x y")]);
    }
    let in_word = |option: &str| format!("{option}{path}");
    for words in [
        &["sort", &in_word("--compress-program="), "f"][..],
        &["install", "-s", &in_word("--strip-program="), "a", "b"],
        &["scp", "-S", path, "a", "h:b"],
        &["rustc", "-C", &in_word("linker="), "x.rs"],
        &["npm", &in_word("--script-shell="), "test"],
        &["cargo", "--config", &format!("build.rustc-wrapper=\"{path}\""), "build"],
        &["git", "-c", &in_word("gpg.program="), "commit"],
        &["rg", "--pre", path, "x"],
    ] {
        none_hidden(&[words]);
    }
    none_denied_in(&[
        "CC='gcc -I/usr/include' make",
        "EDITOR='vim -u /home/x/.vimrc' git commit",
        "GIT_SSH_COMMAND='ssh -i /home/x/key' git fetch",
    ]);
}

/// make expands every variable of its environment, lists are parted by colons, and options need no dash.
#[test]
fn others_read_variables_in_their_own_way() {
    none_hidden_in(
        "bash",
        &[
            "VERSION='$(shell rm -rf y)' make",
            "CI='$(shell rm -rf y)' make",
            "HOME='${shell rm -rf y}' make",
            "export APP_TAG='$(shell rm -rf y)'; make",
            "env VERSION='$(shell rm -rf y)' make",
            "BROWSER='x:rm -rf %s' python3 -m webbrowser http://x",
            "env BROWSER=x:rm xdg-open http://x",
            "GOAUTH=\"'netrc;rm y'\" go build",
            "PERL5OPT='Mstrict;exec+\"rm\",\"-rf\",\"y\"' perl -e1",
            "LESS='R+!rm -rf y' less x",
            "SYSTEMD_LESS='R+!rm y' journalctl",
            "CCC_OVERRIDE_OPTIONS=^--ld-path=rm clang a.c",
            "NODE_OPTIONS='--import=data:text/javascript;base64,AAAA' node x.js",
            "PYTEST_ADDOPTS='--tx=popen//python=rm -d' pytest",
            "VIMINIT='silent !rm y' vim x",
            "EXINIT='!rm y' ex x",
            "LUA_INIT='os.execute\"rm y\"' lua x",
            "LUA_INIT_5_4='os.execute\"rm y\"' lua x",
        ],
    );
    none_denied_in(&[
        "VERSION=1.2 make",
        "VERSION=$(git describe) make",
        "CI=1 make",
        "BROWSER=firefox npm start",
        "LESS=FRX git diff",
        "NODE_OPTIONS=--max-old-space-size=4096 npm test",
        "PYTEST_ADDOPTS='-x --tb=short' pytest",
        "RUSTFLAGS='--cfg tokio_unstable' cargo build",
        "RUSTFLAGS='--cfg tokio_unstable -C target-cpu=native' cargo build",
    ]);
}

/// Settings of apt and cmake that name a program.
#[test]
fn settings_of_programs_are_commands() {
    none_hidden_in(
        "bash",
        &[
            "apt-config -o=Dir::Bin::dpkg=/x/rm dump",
            "apt-get -o=DPkg::Pre-Invoke::=rm install x",
            "apt-get -o DPkg::Pre-Install-Pkgs::=rm install x",
            "apt-get -o Acquire::http::Proxy-Auto-Detect=/x/rm update",
            "apt-get -o AptCli::Hooks::Install::=rm install x",
            "apt-get -o Dpkg::Options::=--pre-invoke=rm install x",
            "apt-get -o 'DPkg::Build-Options=x;rm y' source -b x",
            "cmake -DCMAKE_C_COMPILER=rm .",
            "cmake -D CMAKE_MAKE_PROGRAM=rm .",
            "cmake -DCMAKE_C_COMPILER_LAUNCHER:STRING='env;rm' .",
            "cmake -DCMAKE_C_FLAGS='-wrapper rm' .",
            "cmake -DCMAKE_C_COMPILER=$x .",
        ],
    );
    none_denied_in(&[
        "apt-get -o Dpkg::Options::=--force-confold install x",
        "apt-get -o Acquire::Retries=3 update",
        "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang",
        "cmake -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DX=\"$Y\" ..",
        "cmake -DCMAKE_C_FLAGS='-O2 -Wall' .",
    ]);
}

/// Options that no list had.
#[test]
fn forgotten_options_are_commands() {
    none_hidden_in(
        "bash",
        &[
            "gdb -batch -eiex 'shell rm y'",
            "gdb --early-init-eval-command='shell rm y'",
            "perf annotate --stdio --objdump=rm",
            "perf report --addr2line=rm",
            "cargo rustdoc -- -Zunstable-options --test --test-builder=rm",
            "less '-R+!rm y' f",
            "less '+G!rm y' f",
            "less '++!rm y' f",
            "less '+|^rm y' f",
            "git -c core.pager='less -R+!rm' log",
            "hg clone --ssh 'rm y' ssh://h/r",
            "hg clone -e 'rm y' ssh://h/r",
            "hg bisect -c 'rm y'",
            "hg bisect --command 'rm y'",
            "hg bi -c 'rm y'",
            "hg extdiff -p rm",
            "borg create --content-from-command r::a -- rm y",
            "borg export-tar --tar-filter='rm y' r::a f",
            "restic -o sftp.command='rm y' backup x",
            "restic backup --stdin-from-command -- rm y",
            "rclone --sftp-ssh 'rm y' ls x:",
            "rclone serve http --auth-proxy rm x:",
            "rpm --eval '%{lua:os.execute(\"rm y\")}'",
            "kcov --bash-parser=rm out x.sh",
            "fzf --with-shell='rm -c'",
            "gpg --keyboxd-program=rm -k",
            "ssh -oXAuthLocation=/bin/rm -Y h",
            "asdf env node rm -rf y",
            "rr replay -d rm",
            "rlwrap -z 'rm y' cat",
            "pnpm rm -rf y",
            "pnpm --filter web rm -rf y",
            "pnpm env rm -rf y",
            "hyperfine '-prm -rf y' true",
            "hyperfine --prepare 'rm -rf y' true",
        ],
    );
    none_denied_in(&[
        "less +G f",
        "less -R +/main f",
        "hg log -r tip -p f",
        "hg commit -m x",
        "hg bisect -g",
        "hg b -c x",
        "restic -o s3.connections=4 backup x",
        "pnpm install --frozen-lockfile",
        "pnpm run build",
        "pnpm dev --port $PORT",
        "pnpm --filter web test",
        "hyperfine --warmup 3 'cargo build'",
        "cargo rustdoc -- --document-private-items",
        "rpm --eval '%{_libdir}'",
    ]);
}
