//! The host of sandboxes with this crate's entry function, as a program of its own: for this crate's
//! tests and benchmarks and for programs that embed the crate.
#![forbid(unsafe_code)]

static ENTRIES: [glasshouse_sandbox::Entry; 1] = [glasshouse_script::ENTRY];

fn main() {
    glasshouse_sandbox::host::main(&ENTRIES)
}
