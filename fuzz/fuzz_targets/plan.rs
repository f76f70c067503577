//! `cargo +nightly fuzz run plan`: the first byte chooses a target, the rest is its text. The
//! targets are the functions that the property tests of the plan crate call.
#![no_main]
#![allow(dead_code, reason = "the modules of the tests hold more than the targets use")]

#[path = "../../crates/plan/tests/it/attacks.rs"]
mod attacks;
#[path = "../../crates/plan/tests/it/browser.rs"]
mod browser;
#[path = "../../crates/plan/tests/it/hostile.rs"]
mod hostile;
#[path = "../../crates/plan/tests/it/targets.rs"]
mod targets;
#[path = "../../crates/plan/tests/it/tokens.rs"]
mod tokens;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match choice % 6 {
        0 => targets::validator(text),
        1 => targets::templates(text),
        2 => targets::paths(text),
        3 => targets::html(text),
        4 => targets::splits(text),
        _ => targets::intakes(text),
    }
});
