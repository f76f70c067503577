//! `cargo +nightly fuzz run policy`: the first byte chooses a target, the rest is its text. The targets
//! are the functions that the property tests of the policy crate call.
#![no_main]

#[path = "../../crates/policy/tests/it/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    if choice % 5 == 0 {
        return targets::sealed(rest);
    }
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match choice % 5 {
        1 => targets::yaml(text),
        2 => targets::call(text),
        3 => targets::glob(text),
        _ => targets::shell(text),
    }
});
