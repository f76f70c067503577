//! What is near a rule of the reader and is not it: each row notices a change of one token that no other row does.

use super::fifth::{none_denied_in, only_echo};
use super::finds::none_hidden_in;

/// Settings of programs, and what looks like one.
#[test]
fn settings_are_told_from_what_is_near_them() {
    none_hidden_in(
        "bash",
        &[
            "pip config set \"$x\" rm",
            "npm config set \"$x\" rm",
            "npm config set script-shell=\"rm $x\"",
        ],
    );
    none_denied_in(&[
        "dpkg-buildpackage --build=binary --no-sign",
        "cargo -C sub clippy -- -D warnings",
        "go build -work \"$x\"",
        "go env -json \"$x\"",
        "go env \"$x\"",
        "npm config set editor=vim",
    ]);
}

/// The failure: a compiler behind a cache counted as anything wherever words that are not known follow it.
#[test]
fn a_compiler_behind_a_cache_is_a_compiler() {
    none_denied_in(&[
        "CC='ccache gcc' make",
        "CC='ccache gcc -O2' CXX='ccache g++' make all",
        "CC=\"sccache clang\" ./configure",
        "ccache gcc -c \"$x\" -o y",
        "ccache --show-stats",
        "RUSTC_WRAPPER=sccache cargo build",
    ]);
    none_hidden_in(
        "bash",
        &[
            "CC='ccache rm' make",
            "ccache $x",
            "ccache \"$x\" -rf y",
            "ccache prefix_command=rm gcc -c x.c",
            "ccache -o prefix_command=rm gcc -c x.c",
            "CCACHE_PREFIX=rm ccache gcc -c x.c",
            "CC='ccache prefix_command=rm gcc' make",
            "ccache gcc -wrapper rm,-rf,y x.c",
            "ccache --debug rm -rf y",
            "RUSTC_WRAPPER=rm cargo build",
            "RUSTC_WRAPPER='sccache rm' cargo build",
            "RUSTC=sccache cargo build",
        ],
    );
}

/// Options in variables, and what looks like one that is harmless.
#[test]
fn options_in_variables_are_told_from_what_is_near_them() {
    let check = |name: &str, value: &str, expected: bool| {
        assert_eq!(crate::shell::may_run(name, value), expected, "{name}={value}");
    };
    for (value, expected) in [
        ("-I/usr/include -lm", false),
        ("-Ia,b", true),
        ("--=1", true),
        ("-j4", false),
        ("-j4x", true),
        ("-Wall -Werror=x", false),
        ("-Wrapper", true),
        ("-Wa,x", true),
        ("--jobs=3 --x=1.5 --color=always", false),
        ("--x=1rm", true),
        ("-Wl,--as-needed,-O1", false),
        ("-Wl,x,-O1", true),
        ("-Wl,-O1,--plugin=x", true),
        ("-flto=auto -fPIC", false),
        ("-fplugin=x", true),
        ("-fx/y", true),
    ] {
        check("CFLAGS", value, expected);
    }
    for (value, expected) in [
        ("-Xmx512m -XX:+UseG1GC -XX:MaxRAM=1g", false),
        ("-Xmxg", true),
        ("-Xmx1x", true),
        ("-XX:+A/b", true),
        ("-XX:A=b", true),
        ("-XX:A", true),
        ("-Xrunx", true),
    ] {
        check("JAVA_OPTS", value, expected);
    }
}

/// Where a function is defined for sure, and what `[[` runs.
#[test]
fn lists_and_conditions_are_read_to_their_ends() {
    only_echo(
        &[
            "echo || f()\n{ echo a; }\nf",
            "echo ||\nf() { echo a; }\nf",
            "echo &&\nf() { echo a; }; f",
            "exec() { echo a; }; exec make",
        ],
        false,
    );
    only_echo(
        &["f()\n{ echo a; }\nf", "function f () { echo a; }; f", "\nf() { echo a; }\nf"],
        true,
    );
    none_hidden_in("bash", &["[[ -f <(rm -rf y) ]]", "[[ a < b || -n $(rm -rf y) ]]"]);
    none_denied_in(&["[[ ((-f x)) ]] && make", "[[ a < b && ( c > d ) ]] && make"]);
}
