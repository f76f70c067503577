//! Developer commands: `cargo xtask help`.
fn main() {}
