//! Functions of files in JavaScript and TypeScript that the kernel calls itself: hooks of plugins and rules of
//! a policy. A call is data in and data out, in a sandbox that code of a plan has, too. Its clock stands still
//! and its chance is fixed, so the answer depends on the call alone.

use std::sync::{Arc, LazyLock};

use glasshouse_model::Digest;
use glasshouse_sandbox::{Cancel, SandboxHost};
use glasshouse_script::{
    Engine, Language, Limits, Makes, Program, Ran, Result, Runtime, Source, Task, Worker,
};
use serde_json::Value;

/// What is compiled once stays, whoever asks.
static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::new);

/// A file that is compiled, and where it runs.
pub(crate) struct Functions {
    program: Arc<Program>,
    /// The sandboxes of its workers live as long as this.
    host: Arc<SandboxHost>,
}

impl Functions {
    /// Compiles a file. The worker that did it is there for its calls.
    pub(crate) fn compile(
        host: Arc<SandboxHost>,
        code: &str,
        language: Language,
    ) -> Result<(Self, Worker<'static>)> {
        let worker = ENGINE.worker(&host)?;
        let manifest = Default::default();
        let source = Source::new(code, language, Runtime::Renderify, &manifest);
        let program = worker.compile(&source, &Cancel::new()?)?;
        Ok((Self { program, host }, worker))
    }

    /// Another worker, for one that crashed.
    pub(crate) fn worker(&self) -> Result<Worker<'static>> {
        ENGINE.worker(&self.host)
    }

    /// Whether the file exports something of this name.
    pub(crate) fn exports(&self, name: &str) -> bool {
        self.program.module().exports.iter().any(|export| export == name)
    }

    /// Names what was compiled.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.program.module().digest.as_bytes())
    }

    /// Calls an export.
    pub(crate) fn call(
        &self,
        worker: &Worker<'_>,
        export: &str,
        input: Value,
        limits: Limits,
    ) -> Result<Ran> {
        let task = Task {
            export: export.to_owned(),
            or_default: false,
            makes: Makes::Data,
            runtime: Runtime::Renderify,
            input,
            now_ms: 0,
            seed: 0,
            limits,
        };
        worker.call(&self.program, &task, &Cancel::new()?)
    }
}
