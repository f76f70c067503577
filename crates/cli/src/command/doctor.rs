//! `glasshouse doctor`: what isolation this machine gives, by measurement.

use glasshouse_model::Exit;
use glasshouse_sandbox::{HostConfig, Level};

use crate::error::Error;
use crate::home;
use crate::output::{self, Style, styled};

/// Runs the command.
pub(crate) fn run(json: bool) -> Result<u8, Error> {
    let config = HostConfig { program: home::program()?, home: home::data_dir()? };
    let report = glasshouse_sandbox::doctor(&config);
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
