//! The `glasshouse` binary.
fn main() {}
