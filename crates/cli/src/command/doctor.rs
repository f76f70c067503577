//! `glasshouse doctor`: what isolation this machine gives, by measurement.

use glasshouse_model::Exit;
use glasshouse_sandbox::{HostConfig, Level, Probe};

use crate::error::Error;
use crate::home;
use crate::output::{self, Style, styled};

/// Runs the command.
pub(crate) fn run(json: bool) -> Result<u8, Error> {
    let config = HostConfig { program: home::program()?, home: home::data_dir()? };
    let mut report = glasshouse_sandbox::doctor(&config);
    let kept = home::kernel().and_then(|kernel| Ok(kernel.record_examination(&report)?));
    if let Some(native) = report.backends.first_mut() {
        native.probes.push(recorded(kept.err()));
    }
    if json {
        output::json_line(&report);
    } else {
        output::data(&format!("isolation level: {}", report.level));
        for backend in &report.backends {
            output::data(&format!("{}: {}", backend.name, backend.level));
            for probe in &backend.probes {
                let mark = if probe.held() {
                    styled("holds", Style::Good)
                } else {
                    styled("FAILS", Style::Bad)
                };
                output::data(&format!(
                    "  {mark}  {}: {} ({})",
                    probe.name, probe.claim, probe.result
                ));
                if !probe.held() && !probe.remedy.is_empty() {
                    let remedy = &probe.remedy;
                    output::data(&format!("         remedy: {remedy}"));
                }
            }
        }
    }
    Ok(if report.level == Level::Refused { Exit::NoIsolation } else { Exit::Done }.status())
}

/// Whether sandboxes to come know what was found: without that they go on claiming what they read back.
fn recorded(failure: Option<Error>) -> Probe {
    let (result, remedy) = match failure {
        None => ("held".to_owned(), String::new()),
        Some(error) => (error.to_string(), "make the data directory writable".to_owned()),
    };
    Probe {
        name: "kept".to_owned(),
        claim: "later sandboxes know what was found: it is in the log".to_owned(),
        result,
        remedy,
    }
}
