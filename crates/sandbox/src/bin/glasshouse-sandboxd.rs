//! The host process as a program of its own: what `glasshouse __sandboxd` is, for this crate's
//! tests and benchmarks and for programs that embed the crate.

fn main() {
    glasshouse_sandbox::host::main(&[])
}
