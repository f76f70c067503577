//! What is near a rule of the reader and is not it: each row notices a change of one token that no other row does.

use super::fifth::none_denied_in;
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
