//! What the tests share.

use glasshouse_model::{Call, Decision, Effect};
use glasshouse_policy::{CallSketch, Error, Policy, Protected, Request, Source, decide};
use proptest::prelude::ProptestConfig;

/// Compiles one source.
pub(crate) fn compile(text: &str) -> Result<Policy, Error> {
    compile_with(text, &Protected::default())
}

/// Compiles one source with something to protect.
pub(crate) fn compile_with(text: &str, protected: &Protected) -> Result<Policy, Error> {
    Policy::compile(&[Source::new("policy.yaml", text)], protected)
}

/// Reads a call in its short form; YAML's flow style and JSON both do.
pub(crate) fn call(sketch: &str) -> Call {
    let sketch: CallSketch = serde_saphyr::from_str(sketch).unwrap();
    sketch.into_call().unwrap()
}

/// Decides without grant, approval and extension.
pub(crate) fn decision(policy: &Policy, sketch: &str) -> Decision {
    decide(policy, &Request::new(&call(sketch), 0)).decision
}

/// Only the effect.
pub(crate) fn effect(policy: &Policy, sketch: &str) -> Effect {
    decision(policy, sketch).effect
}

/// A policy that allows everything: the undefended control of an attack.
pub(crate) const ALLOW_ALL: &str = "
capabilities:
  - { name: everything, match: {}, action: allow }
";

/// How many random cases a property gets, unless `PROPTEST_CASES` says.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let own = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => own,
        None => ProptestConfig { cases: usual, ..own },
    }
}
