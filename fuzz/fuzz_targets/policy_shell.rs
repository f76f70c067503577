//! `cargo xtask fuzz policy-shell`: the function that the tests of the policy crate run on texts bent at random.
#![no_main]
#![allow(dead_code, reason = "the module holds the other targets as well")]

#[path = "../../crates/policy/tests/it/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::shell(data));
