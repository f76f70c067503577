//! Any bytes as a model's answer in any dialect, whole and in pieces: no panic, and the same result.
#![no_main]

use glasshouse_provider::{Dialect, parse_completion, parse_pieces};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [dialect, size, body @ ..] = input else { return };
    let dialect = Dialect::ALL[usize::from(*dialect) % Dialect::ALL.len()];
    let whole = parse_completion(dialect, "m", body).map_err(|error| error.to_string());
    let pieces = body.chunks(usize::from(*size).max(1));
    let cut = parse_pieces(dialect, "m", pieces).map_err(|error| error.to_string());
    assert_eq!(whole, cut);
});
