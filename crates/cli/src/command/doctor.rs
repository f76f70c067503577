//! `glasshouse doctor`: what isolation this machine gives, by measurement.

use glasshouse_kernel::driver::Toolchain;
use glasshouse_model::Exit;
use glasshouse_sandbox::{HostConfig, Level, Probe};

use crate::error::Error;
use crate::home;
use crate::output::{self, Style, styled};

/// Runs the command.
pub(crate) fn run(json: bool) -> Result<u8, Error> {
    let config = HostConfig { program: home::program()?, home: home::data_dir()? };
    let mut report = glasshouse_sandbox::doctor(&config);
    let here = home::here()?;
    let (unkept, tools) = match home::kernel() {
        Ok(kernel) => {
            let unkept = kernel.record_examination(&report).err().map(Error::from);
            // A policy that cannot be read is told by whatever needs it.
            (unkept, kernel.toolchains(&here).unwrap_or_default())
        }
        Err(error) => (Some(error), Vec::new()),
    };
    if let Some(native) = report.backends.first_mut() {
        native.probes.push(recorded(unkept));
    }
    if json {
        let mut told = serde_json::to_value(&report).unwrap_or_default();
        told["toolchains"] = serde_json::to_value(&tools).unwrap_or_default();
        output::json_line(&told);
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
                let control = told_of_control(probe);
                output::data(&format!(
                    "  {mark}  {}: {} ({}{control})",
                    probe.name, probe.claim, probe.result
                ));
                if !probe.held() && !probe.remedy.is_empty() {
                    let remedy = &probe.remedy;
                    output::data(&format!("         remedy: {remedy}"));
                }
            }
        }
        output::data(&format!("toolchains that commands in {} read:", here.display()));
        for Toolchain { name, source, target, is_allowed } in &tools {
            let (source, target) = (source.display(), target.display());
            let denied = if *is_allowed { "" } else { " (denied by the policy: not mounted)" };
            let line = format!("  {name}: {source} at {target}{denied}");
            output::data(&output::visible(&line, false));
        }
        if tools.is_empty() {
            output::data("  none: the project needs none, or there are none");
        }
    }
    Ok(if report.level == Level::Refused { Exit::NoIsolation } else { Exit::Done }.status())
}

/// What is told of an attack that was not seen to succeed where nothing stops it.
fn told_of_control(probe: &Probe) -> String {
    match probe.control.strip_prefix("none: ") {
        Some(why) => format!("; no control: {why}"),
        None => String::new(),
    }
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
        control: String::new(),
    }
}
