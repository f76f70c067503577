//! The conformance cases of plans: a file of `{id, area, input, expected}`.

use std::path::Path;

use crate::place::Place;
use crate::process::{Failure, run};

/// Where this product answers otherwise, and why.
const DEVIATIONS: &str = "crates/plan/tests/deviations.json";

/// `cargo xtask conformance FILE`: prints each failing id, then the counts.
///
/// The suite is an example of the crate that runs code, because some of the cases do; this crate
/// compiles before anything else.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    let (file, more) = match arguments {
        [file] => (file, false),
        [file, flag] if flag == "--verbose" => (file, true),
        _ => return Err(Failure::new("`conformance` takes one FILE, and `--verbose`")),
    };
    let file = Path::new(file)
        .canonicalize()
        .map_err(|error| Failure::new(format!("cannot read {file}: {error}")))?;
    let mut command = place.cargo();
    command.args(["run", "--quiet", "-p", "glasshouse-script", "--example", "conformance", "--"]);
    command.arg(file).arg(place.root().join(DEVIATIONS));
    if more {
        command.arg("--verbose");
    }
    run(&mut command)
}
