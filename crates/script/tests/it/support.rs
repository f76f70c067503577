//! A host on its own home, and runs in one line.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use glasshouse_sandbox::{Cancel, HostConfig, SandboxHost};
use glasshouse_script::{
    Engine, Error, Language, Limits, Makes, Ran, Receipt, Runtime, Source, Stores, Task,
};
use serde_json::{Value, json};

struct Place {
    host: SandboxHost,
    engine: Engine,
    _directory: tempfile::TempDir,
}

/// One for all tests of this process.
static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_glasshouse-scriptd").into();
    let config = HostConfig { program, home: directory.path().to_owned() };
    Place {
        host: SandboxHost::start(config).unwrap(),
        engine: Engine::new(),
        _directory: directory,
    }
});

pub(crate) fn host() -> &'static SandboxHost {
    &PLACE.host
}

pub(crate) fn engine() -> &'static Engine {
    &PLACE.engine
}

pub(crate) fn task(runtime: Runtime) -> Task {
    Task {
        export: "default".to_owned(),
        or_default: false,
        makes: Makes::Node,
        runtime,
        input: json!({"state": {"count": 3}, "context": {"userId": "anonymous"}, "event": null}),
        now_ms: 1_790_000_000_000,
        seed: 7,
        limits: Limits::default(),
    }
}

/// Compiles a source and runs it.
pub(crate) fn ran(code: &str, task: &Task) -> Result<Ran, Error> {
    ran_with(code, task, Stores::default())
}

/// The same with storage.
pub(crate) fn ran_with(code: &str, task: &Task, stores: Stores) -> Result<Ran, Error> {
    let worker = engine().worker(host()).unwrap();
    let cancel = Cancel::new().unwrap();
    let manifest = BTreeMap::new();
    let source = Source {
        code,
        language: Language::Tsx,
        runtime: task.runtime,
        manifest: &manifest,
        stores,
    };
    let program = worker.compile(&source, &cancel)?;
    worker.run(&program, task, &cancel)
}

/// What a source of plans' own nodes makes.
pub(crate) fn made(code: &str) -> Result<Value, Error> {
    ran(code, &task(Runtime::Renderify))?.node
}

/// What a source with Preact makes.
pub(crate) fn rendered(code: &str) -> Result<Value, Error> {
    ran(code, &task(Runtime::Preact))?.node
}

/// The code of the error that a source ends with, and its receipt when it ran.
pub(crate) fn ended(code: &str, task: &Task) -> (String, Option<Receipt>) {
    match ran(code, task) {
        Ok(ran) => {
            let end =
                ran.node.map_or_else(|error| error.code().to_owned(), |node| node.to_string());
            (end, Some(ran.receipt))
        }
        Err(error) => (error.code().to_owned(), None),
    }
}

pub(crate) fn text(value: &str) -> Value {
    json!({"type": "text", "value": value})
}

pub(crate) fn element(tag: &str, props: Value, children: Vec<Value>) -> Value {
    json!({"type": "element", "tag": tag, "props": props, "children": children})
}
