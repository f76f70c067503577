//! Runs the code of a case as the product does: compiled and executed in a sandbox.

use std::path::PathBuf;

use glasshouse_plan::Plan;
use glasshouse_plan::json::Json;
use glasshouse_sandbox::{Cancel, HostConfig, SandboxHost};
use glasshouse_script::{
    DEFAULT_EXPORT, Engine, Error, Language, Limits, Makes, Ran, Runtime, Source, Task,
};
use serde_json::Value;

use super::suite::Coded;

/// An engine on a home of its own.
pub(crate) struct Place {
    host: SandboxHost,
    engine: Engine,
    _home: tempfile::TempDir,
}

impl Place {
    /// Starts a host of sandboxes with a program that knows the entry function.
    pub(crate) fn start(program: PathBuf) -> Result<Self, String> {
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let config = HostConfig { program, home: home.path().to_owned() };
        let host = SandboxHost::start(config).map_err(|error| error.to_string())?;
        Ok(Self { host, engine: Engine::new(), _home: home })
    }

    /// What the code of a plan comes to.
    pub(crate) fn code(&self, plan: &Plan, input: Value) -> Coded {
        match self.run(plan, input) {
            Ok(ran) => Coded {
                made: ran.node.map_err(|error| error.code().to_owned()),
                by_default: ran.by_default,
            },
            Err(error) => Coded { made: Err(error.code().to_owned()), by_default: false },
        }
    }

    fn run(&self, plan: &Plan, input: Value) -> Result<Ran, Error> {
        let text =
            |key: &str| plan.source().and_then(|source| source.get(key)).and_then(Json::as_text);
        let task = Task {
            export: text("exportName").unwrap_or(DEFAULT_EXPORT).to_owned(),
            or_default: true,
            makes: Makes::Node,
            runtime: text("runtime").and_then(Runtime::parse).unwrap_or(Runtime::Renderify),
            input,
            now_ms: 0,
            seed: 0,
            limits: Limits::default(),
        };
        let manifest = plan.manifest().into_iter().flatten();
        let place = |entry: Json<'_>| Some(entry.get("resolvedUrl")?.as_text()?.to_owned());
        let manifest =
            manifest.filter_map(|(name, entry)| Some((name.to_owned(), place(entry)?))).collect();
        let source = Source::new(
            text("code").unwrap_or_default(),
            text("language").and_then(Language::parse).unwrap_or(Language::Js),
            task.runtime,
            &manifest,
        );
        let cancel = Cancel::new()?;
        let worker = self.engine.worker(&self.host)?;
        let program = worker.compile(&source, &cancel)?;
        worker.run(&program, &task, &cancel)
    }
}
