//! Programs that run others in ways of their own.

use super::finds::{none_hidden, none_hidden_in};
use super::*;

/// None of these has to do with the rule.
fn none_denied(commands: &[&[&str]]) {
    let denied: Vec<_> =
        commands.iter().filter(|words| could_run(&argv(words), &[prefix("rm -rf")])).collect();
    assert!(denied.is_empty(), "{denied:?}");
}

/// The first word that was no option was taken for the command of git, so the value of an option hid it. What git does
/// not know may be an alias, made under another name, and counts as anything.
#[test]
fn git_runs_what_its_settings_say() {
    none_hidden(&[
        &["git", "clone", "--conf=core.sshCommand=rm -rf y", "ssh://h/x", "z"],
        &["git", "clone", "--conf", "core.sshCommand=rm -rf y", "ssh://h/x", "z"],
        &["git", "clone", "-ccore.sshCommand=rm -rf y", "ssh://h/x", "z"],
        &["git", "-C", ".", "config", "core.sshCommand", "rm -rf y"],
        &["git", "--git-dir", ".git", "config", "core.pager", "rm -rf y"],
        &["git", "-c", "a.b=c", "config", "--add", "core.editor", "rm -rf y"],
        &["git", "config", "set", "core.editor", "rm -rf y"],
        &["git", "config", "--file", ".git/config", "core.editor", "rm -rf y"],
        &["git", "config", "--rename-section", "user", "core"],
        &["git", "config", "rename-section", "user", "core"],
        &["git", "z"],
        &["git", "-C", ".", "z"],
        &["git-z"],
        &["git", "--exec-path=.", "submodule"],
        &["git", "for-each-repo", "--config=a.b", "z"],
        &["git", "merge-index", "rm", "-rf", "y"],
        &["git", "remote-ext", "a", "rm -rf y"],
        &["git", "filter-branch", "--setup", "rm -rf y", "HEAD"],
        &["git", "send-email", "--to-cmd=rm -rf y", "x"],
        &["git", "rebase", "--ex", "rm -rf y", "HEAD~1"],
        &["git", "push", "--ex=rm -rf y;", ".", "HEAD:x"],
        &["git", "clone", "--u=rm -rf y;", "./d", "z"],
        &["git", "grep", "--op=rm -rf y", "x"],
        &["xargs", "git"],
        &["xargs", "git", "-c"],
        &["xargs", "git", "submodule"],
        &["xargs", "git", "bisect"],
        &["xargs", "git", "config"],
    ]);
    none_hidden_in(
        "bash",
        &[
            "git config user.z '!rm -rf y'; git config --rename-section user alias; git z",
            "git -C . config alias.z '!rm -rf y'; git z",
            "for s in foreach; do git submodule $s rm -rf y; done",
            "x=bisect; git \"$x\" run rm -rf y",
            "git config \"$k\" 'rm -rf y'",
            "git config core.editor \"$v\"",
        ],
    );
    let check =
        |words: &[&str]| assert!(could_run(&argv(words), &[prefix("git push")]), "{words:?}");
    check(&["sh", "-c", "git -C . config alias.p push; git p"]);
    check(&["sh", "-c", "git config --file .git/config alias.p push; git p"]);
    none_denied(&[
        &["git", "-C", "..", "--no-pager", "log", "--format=%h %s", "-5"],
        &["git", "switch", "-c", "core.x=it's"],
        &["sh", "-c", "git switch -c \"$branch\"; git commit -c \"$old\"; git -C \"$d\" status"],
        &["git", "config", "--get", "core.editor"],
        &["git", "config", "-f", ".gitmodules", "user.name", "Ann O'Neil"],
        &["git", "config", "alias.st", "status"],
        &["git", "clone", "--depth", "1", "https://h/x?a=b&c", "z"],
        &["git", "submodule", "update", "--init", "--recursive"],
        &["git", "bisect", "start", "HEAD", "v1"],
        &["git", "--version"],
        &["xargs", "git", "add"],
    ]);
}

/// A beginning of one letter or two was no option.
#[test]
fn options_are_known_by_their_beginnings() {
    none_hidden(&[
        &["sort", "--co=rm -rf y", "-S", "1k", "f"],
        &["sort", "--c=rm -rf y", "f"],
        &["split", "--f=rm -rf y", "f"],
        &["split", "--f", "rm -rf y", "f"],
        &["tar", "--to=rm -rf y", "-xf", "a"],
        &["gdb", "-batch", "--ex", "shell rm -rf y"],
        &["gdb", "--iex", "shell rm -rf y"],
        &["gdb", "-eval-comm", "shell rm -rf y"],
        &["gdb", "-ex", "run $(rm -rf y)", "/bin/true"],
        &["gdb", "-ex", "start `rm -rf y`", "/bin/true"],
        &["zip", "-T", "-qTT", "rm -rf y", "z", "f"],
        &["zip", "-qTTrm -rf y", "z", "f"],
        &["dpkg-architecture", "-crm -rf y"],
        &["dbus-run-session", "--dbus-daemon=rm -rf y", "true"],
        &["ssh", "-o", " ProxyCommand=rm -rf y", "h"],
        &["ssh", "-o", "\"ProxyCommand\" rm -rf y", "h"],
        &["ssh", "-o", "ProxyCommand\rrm -rf y", "h"],
        &["sftp", "-D", "rm -rf y"],
        &["scp", "-D", "rm -rf y", "a:b", "c"],
    ]);
    none_denied(&[
        &["sort", "-u", "--reverse", "f"],
        &["split", "-l", "10", "f"],
        &["gdb", "-batch", "-ex", "run", "-ex", "bt", "./a"],
        &["ssh", "-o", "StrictHostKeyChecking=no", "-p", "22", "h"],
        &["scp", "-P", "22", "a", "h:b"],
        &["zip", "-qr", "z", "f"],
    ]);
}

#[test]
fn programs_are_known_by_other_names() {
    for compiler in ["gcc-12", "x86_64-linux-gnu-gcc", "x86_64-linux-gnu-g++-12", "c99", "cpp"] {
        none_hidden(&[&[compiler, "-wrapper", "rm,-rf,y", "-c", "a.c"]]);
        none_denied(&[&[compiler, "-O2", "-c", "a.c"]]);
    }
    none_hidden(&[
        &["bash-static", "-c", "rm -rf y"],
        &["zsh-static", "-c", "true"],
        &["fakeroot-tcp", "rm", "-rf", "y"],
    ]);
}

#[test]
fn more_programs_run_others() {
    none_hidden(&[
        &["cargo", "--config", "build.rustc-wrapper='rm -rf y'", "check"],
        &["cargo", "--config=target.x.runner=['rm', '-rf', 'y']", "run"],
        &["rustc", "-Clinker=rm -rf y", "a.rs"],
        &["rustc", "-C", "linker=rm -rf y", "a.rs"],
        &["go", "test", "-exec", "rm -rf y", "./..."],
        &["go", "vet", "-vettool=rm -rf y", "./..."],
        &["npm", "--script-shell", "rm -rf y", "run", "t"],
        &["npm", "exec", "--", "rm", "-rf", "y"],
        &["npm", "exec", "-c", "rm -rf y"],
        &["pnpm", "--recursive", "exec", "rm", "-rf", "y"],
        &["yarn", "exec", "rm", "-rf", "y"],
        &["bundle", "exec", "rm", "-rf", "y"],
        &["pyenv", "exec", "rm", "-rf", "y"],
        &["conda", "run", "-n", "env", "rm", "-rf", "y"],
        &["cmake", "-E", "env", "rm", "-rf", "y"],
        &["ip", "netns", "exec", "n", "rm", "-rf", "y"],
        &["apt-get", "-o", "APT::Update::Pre-Invoke::=rm -rf y", "update"],
        &["man", "-P", "rm -rf y", "ls"],
        &["less", "+!rm -rf y", "f"],
        &["wget", "--use-askpass=rm -rf y", "h"],
        &["wget", "-e", "use_askpass=rm -rf y", "h"],
        &["sdiff", "--diff-program=rm -rf y", "a", "b"],
        &["diff3", "--diff-program", "rm -rf y", "a", "b", "c"],
        &["rclone", "--password-command", "rm -rf y", "ls"],
        &["hg", "--config", "alias.x=!rm -rf y", "x"],
        &["rpm", "--eval", "%(rm -rf y)"],
        &["strace", "-E", "GIT_EDITOR=rm -rf y", "git", "commit"],
        &["systemd-run", "-E", "GIT_EDITOR=rm -rf y", "git", "commit"],
        &["systemd-run", "--setenv=GIT_EDITOR=rm -rf y", "git", "commit"],
        &["tmux", "if-shell", "true", "run-shell 'rm -rf y'"],
        &["tmux", "display-message", "-p", "#(rm -rf y)"],
        &["screen", "-X", "stuff", "rm -rf y\n"],
        &["socat", "-", "EXEC:rm -rf y"],
        &["at", "now"],
        &["watchexec", "--", "rm", "-rf", "y"],
        &["nodemon", "--exec", "rm -rf y"],
        &["xterm", "-e", "rm -rf y"],
        &["ccache", "rm", "-rf", "y"],
        &["tini", "--", "rm", "-rf", "y"],
    ]);
    none_denied(&[
        &["cargo", "--config", "net.offline=true", "test", "--", "--nocapture"],
        &["cargo", "test", "--all"],
        &["rustc", "-C", "opt-level=3", "a.rs"],
        &["go", "test", "./...", "-run", "TestA|TestB", "-count=1"],
        &["npm", "exec", "--", "eslint", "src/**/*.ts"],
        &["npm", "run", "build", "--", "--watch"],
        &["xargs", "npm", "i"],
        &["sh", "-c", "cmake -S . -B \"$BUILD\" && cmake --build \"$BUILD\""],
        &["sudo", "apt-get", "install", "-y", "bash", "zsh"],
        &["apt-get", "-o", "Acquire::Retries=3", "install", "-y", "jq"],
        &["wget", "-qO-", "https://h/x"],
        &["ip", "addr"],
        &["zsh", "--version"],
        &["bash", "--version"],
        &["bash", "-n", "x.sh"],
        &["fd", "-tx"],
        &["man", "ls"],
        &["less", "f"],
        &["nice", "make", "CC=gcc -O2", "all"],
    ]);
}

/// What a checker found in what was read anew.
#[test]
fn what_comes_from_outside_may_be_a_name() {
    none_hidden_in(
        "bash",
        &[
            // Names of variables that the shell or the machine set are counted with.
            "linux='a[$(rm -rf y)]'; echo $((OSTYPE))",
            "x86_64='a[$(rm -rf y)]'; f() { echo $(($1)); }; f $HOSTTYPE",
            "read linux; [[ $OSTYPE -gt 1 ]]",
            "export x=b; bash -c 'b=\"a[\\$(rm -rf y)]\"; false && x=1; echo $((x))'",
            "command_not_found_handle() { echo $(($2)); }; cargo 'a[$(rm -rf y)]'",
            "declare -A a+=('x[$(rm -rf y)]' 1); for i in \"${!a[@]}\"; do echo $((i)); done",
            "trace='a[$(rm -rf y)]'; x=$(GIT_TRACE=/dev/stdout git rev-list --count HEAD); echo $((x))",
            "GIT_EDITOR=$SHELL git commit --allow-empty -e -m 'rm -rf y'",
            "GIT_SSH_COMMAND=$SHELL git ls-remote ssh://rm/x",
            "x='1 rm -rf y'; env \"-S_ID=$x\"",
            "CFLAGS='-wrapper rm,-rf,y' make a",
            "RUSTFLAGS='-Clinker=rm' cargo build",
            "ZIPOPT='-T -TT rm' zip -q z f",
            "c='core.fsmonitor rm'; git config $c; git status",
            "k='x core.fsmonitor'; git config --comment user.$k 'rm -rf y'; git status",
        ],
    );
    none_hidden(&[
        &["env", "x=q", "bash", "-c", "q='a[$(rm -rf y)]'; ((x++))"],
        &["env", "bash", "-c", "linux='a[$(rm -rf y)]'; OSTYPE=$OSTYPE; ((OSTYPE))"],
        &["sudo", "/tmp/rm", "-rf", "y", "x_TAG=1"],
        &["sudo", "--", "rm", "-rf", "y"],
        &["git", "config", "--rename-sec", "user", "core"],
        &["git", "config", "set", "--value", "user.x", "core.fsmonitor", "rm -rf y"],
        &["git", "config", "--comm", "user.x", "core.fsmonitor", "rm -rf y"],
        &[
            "git",
            "-c",
            "protocol.ext.allow=always",
            "-c",
            "url.ext::rm.insteadOf=q",
            "ls-remote",
            "q",
        ],
        &["npm", "explore", "q", "--", "rm", "-rf", "y"],
        &["gcc", "@o", "a.c"],
    ]);
    none_denied(&[
        &["bash", "-c", "n=3; [[ $n -gt 2 ]] && echo $((n + 1)); x=$(make); echo \"$x\""],
        &["bash", "-c", "echo $((retries + 1)); name=x; echo \"$name\""],
        &["sh", "-c", "[ \"$1\" -gt 2 ] && echo more", "_", "3"],
        &["bash", "-c", "CFLAGS='-O2 -g' RUSTFLAGS='-D warnings' make"],
        &["env", "RUST_LOG=debug", "bash", "-c", "i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done"],
    ]);
}
