//! What a sixth look at the reader found: neighbours of what the fifth did.

use super::finds::{none_hidden, none_hidden_in};
use super::*;

/// Whether none of these words has to do with a rule on `rm`.
fn none_denied(commands: &[&[&str]]) {
    let denied: Vec<_> =
        commands.iter().filter(|words| could_run(&argv(words), &[prefix("rm")])).collect();
    assert!(denied.is_empty(), "{denied:?}");
}

/// Behind `time` a quoted word may be an option of a program, and to bash a command of its own.
/// The option was taken for a command that nobody denies, and then `time "eval" …` for words of a program.
/// Now it is read as a command, and one that begins as an option does counts as anything.
#[test]
fn an_option_of_time_may_be_quoted() {
    for shell in ["sh", "dash", "bash"] {
        none_hidden_in(
            shell,
            &[
                "time '-p' rm -rf y",
                "time \\-p rm -rf y",
                "time \"-o\" f rm -rf y",
                "time '-f' x rm -rf y",
                "time '--' rm -rf y",
                "time ''-p rm -rf y",
                "time \"$p\" rm -rf y",
                "time \"eval\" 'rm -rf y'",
                "time \\eval 'rm -rf y'",
                "time 'trap' 'rm -rf y' EXIT",
                "x='rm -rf y'; time $x",
                "x='rm -rf y'; time -p $x",
                "time $(echo rm -rf y)",
                "time `echo rm` -rf y",
                "time ${x:-rm} -rf y",
                "if time '-p' rm -rf y; then :; fi",
                "find . -exec sh -c \"time '-p' rm -rf y\" \\;",
            ],
        );
    }
    for line in
        ["time make", "time -p make", "time 'make' all", "time \"./build.sh\"", "time { make; }"]
    {
        none_denied(&[&["bash", "-c", line]]);
    }
}

/// A value is read as a shell does; make, go and compilers read it in ways of their own.
#[test]
fn others_read_a_value_in_their_own_way() {
    none_hidden_in(
        "bash",
        &[
            "CC='gcc #x -wrapper rm,-rf,y' go build .",
            "CC='gcc > -wrapper rm,-rf,y' go build .",
            "CC='gcc @f' make a",
            "A=-w CC='gcc $Arapper rm,-rf,y' make a",
            "A=-w TARGET_ARCH='-O2 $Arapper rm,-rf,y' make a",
            "A=-w LDLIBS='x.o $Arapper rm,-rf,y' make a",
            "CFLAGS=@f make a",
            "CFLAGS='-O2 @f' make a",
            "RUSTFLAGS=@f cargo build",
            "JDK_JAVA_OPTIONS=@f java B",
        ],
    );
    for line in [
        "CC=clang make",
        "CC='gcc -O2' make",
        "CFLAGS='-O2 -g' make",
        "PRICE='5 $' make",
        "SCOPE=@me/x npm test",
        "LDLIBS='-lm -lpthread' make a",
    ] {
        none_denied(&[&["bash", "-c", line]]);
    }
}

#[test]
fn more_words_of_programs_are_commands() {
    none_hidden(&[
        &["rustc", "@f", "a.rs"],
        &["cargo", "rustc", "--", "@f"],
        &["java", "@f", "-Xmx16m", "B"],
        &["go", "tool", "link", "@f", "a.o"],
        &["java", "-agentlib:jdwp=transport=dt_socket,server=y,onuncaught=y,launch=rm", "A"],
        &["java", "-Xrunjdwp:transport=dt_socket,launch=rm", "A"],
        &["git", "bisect", "view", "z"],
        &["git", "bisect", "visualize", "git", "z"],
        &["find", "z", "-exec", "git", "bisect", "view", "{}", ";"],
        &["scalar", "-c", "core.sshCommand=rm -rf y", "clone", "ssh://x/y", "z"],
        &["go", "env", "--w", "CC=rm -rf"],
        &["go", "env", "-w=true", "CC=rm -rf"],
        &["npm", "config", "set", "script-shell =rm"],
        &["npm", "set", " script-shell", "rm"],
        &["sqlite3", "a.db", "select edit\n('x', 'rm')"],
        &["sqlite3", "a.db", "select edit/**/('x', 'rm')"],
        &["sqlite3", "a.db", "select edit--c\n('x', 'rm')"],
        &["psql", "-o", "|rm -rf y"],
        &["psql", "--output=|rm -rf y"],
        &["psql", "-qo|rm -rf y"],
        &["pip", "config", "set", "global.editor", "rm"],
        &["pip3", "config", "--editor", "rm", "edit"],
        &["mksh-static", "-c", "rm -rf y"],
        &["bsd-csh", "-c", "rm -rf y"],
        &["bundler", "exec", "rm", "-rf", "y"],
        &["bundler3.1", "exec", "rm", "-rf", "y"],
        &["pee", "rm -rf y"],
        &["mispipe", "rm -rf y", "true"],
        &["gpgtar", "--gpg", "/bin/rm", "-e", "f"],
        &["arm-none-eabi-gdb", "-ex", "shell rm -rf y"],
        &["gdbtui", "-ex", "shell rm -rf y"],
        &["yarnpkg", "exec", "rm", "-rf", "y"],
        &["opam", "exec", "rm", "-rf", "y"],
        &["sudo-rs", "rm", "-rf", "y"],
    ]);
    // The controls: what people call these programs for.
    none_denied(&[
        &["rustc", "a.rs"],
        &["java", "-agentlib:jdwp=transport=dt_socket,server=y,address=5005", "A"],
        &["git", "bisect", "good"],
        &["git", "bisect", "view", "--stat"],
        &["git", "bisect", "run", "make"],
        &["go", "env", "GOPATH"],
        &["go", "install", "example.org/x@latest"],
        &["npm", "config", "get", "registry"],
        &["sqlite3", "a.db", "select name from editors"],
        &["psql", "-c", "select a || b from t"],
        &["psql", "-o", "out.txt", "-c", "select 1"],
        &["pip", "install", "-r", "requirements.txt"],
        &["pip", "config", "list"],
        &["bundler", "exec", "rspec"],
        &["opam", "install", "x"],
    ]);
}
