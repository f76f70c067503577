//! `glasshouse ui pin`: a plan with the digests of all its modules.

use std::collections::BTreeMap;
use std::path::Path;

use glasshouse_kernel::codes;
use glasshouse_kernel::plans::{PinOptions, Pinning};
use glasshouse_model::Exit;
use serde_json::{Value, json};

use super::{read, runs};
use crate::args::PinArguments;
use crate::error::Error;
use crate::fail;
use crate::output;
use crate::whole::{self, Links};

/// Runs the command.
pub(super) fn run(arguments: &PinArguments) -> Result<u8, Error> {
    let text = read(&arguments.file)?;
    let options = PinOptions {
        fallbacks: arguments.fallback.clone(),
        refresh: arguments.refresh,
        offline: arguments.offline,
        map: arguments.import_map.as_deref().map(import_map).transpose()?.unwrap_or_default(),
    };
    let cancel = runs::stopped_by_ctrl_c()?;
    let pinned = runs::plans()?.until(&cancel).pin(&text, arguments.profile.name(), &options)?;
    let Pinning { text, modules, fetched } = pinned;
    if let Some(out) = &arguments.out {
        // It is often the plan that was read.
        whole::write(out, &format!("{text}\n"), Links::Followed)
            .map_err(|error| fail::not_created(out, &error))?;
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
    let fetched = format!("{fetched} fetched now");
    output::note(&match modules.len() {
        // What the program carries needs no digest; the plan may have got addresses of it.
        0 => format!("no modules to lock but what the program carries, {fetched}"),
        number => format!("{}, {fetched}", output::counted(number, "module")),
    });
    Ok(Exit::Done.status())
}

/// An import map: names and their addresses. What browsers know besides is refused, so that nobody believes that it is heeded.
fn import_map(path: &Path) -> Result<BTreeMap<String, String>, Error> {
    let refused = |why: String| {
        Error::new(codes::USAGE, format!("{} is no import map", path.display()))
            .why(why)
            .fix("write {\"imports\": {\"name\": \"https://host/path\"}}, and nothing else")
    };
    let map: Value =
        serde_json::from_str(&read(path)?).map_err(|error| refused(error.to_string()))?;
    let members = map.as_object().ok_or_else(|| refused("it is no object".to_owned()))?;
    if let Some(other) = members.keys().find(|key| *key != "imports") {
        return Err(refused(format!("{other:?} is not supported")));
    }
    let imports = map.get("imports").ok_or_else(|| refused("it has no `imports`".to_owned()))?;
    let imports =
        imports.as_object().ok_or_else(|| refused("`imports` is no object".to_owned()))?;
    let entry = |(name, at): (&String, &Value)| match at.as_str() {
        Some(at) if !name.ends_with('/') => Ok((name.clone(), at.to_owned())),
        _ => Err(refused(format!("{name:?} has to be one name with one address"))),
    };
    imports.iter().map(entry).collect()
}
