//! `glasshouse ui pin`: a plan with the digests of all its modules.

use glasshouse_kernel::codes;
use glasshouse_kernel::plans::{PinOptions, Pinning};
use glasshouse_model::Exit;
use serde_json::{Value, json};

use super::{read, runs};
use crate::args::PinArguments;
use crate::error::Error;
use crate::output;
use crate::whole::{self, Links};

/// Runs the command.
pub(super) fn run(arguments: &PinArguments) -> Result<u8, Error> {
    let text = read(&arguments.file)?;
    let options = PinOptions {
        fallbacks: arguments.fallback.clone(),
        refresh: arguments.refresh,
        offline: arguments.offline,
    };
    let cancel = runs::stopped_by_ctrl_c()?;
    let pinned = runs::plans()?.until(&cancel).pin(&text, arguments.profile.name(), &options)?;
    let Pinning { text, modules, fetched } = pinned;
    if let Some(out) = &arguments.out {
        // It is often the plan that was read.
        whole::write(out, &format!("{text}\n"), Links::Followed).map_err(|error| {
            Error::new(codes::USAGE, format!("cannot write {}", out.display())).why(error)
        })?;
    }
    if arguments.json {
        let plan: Value = serde_json::from_str(&text).unwrap_or_default();
        output::json_line(&json!({"plan": plan, "modules": modules, "fetched": fetched}));
        return Ok(Exit::Done.status());
    }
    if arguments.out.is_none() {
        output::data(&text);
    }
    for module in &modules {
        let line = format!("{}  {} bytes  {}", module.kind, module.bytes, module.chain.join(" > "));
        output::note(&output::visible(&line, false));
    }
    output::note(&format!("{} modules, {fetched} fetched now", modules.len()));
    Ok(Exit::Done.status())
}
