//! `glasshouse serve`: the kernel over HTTP, for other programs of the person at this machine.

use std::path::Path;
use std::sync::Arc;

use glasshouse_kernel::{Config, Kernel, codes};
use glasshouse_model::{Exit, TenantId};
use glasshouse_provider::Scripted;
use glasshouse_server::{
    Connected, Listening, Models, Operator, Server, Settings, Telemetry, TlsFiles, Wanted,
};
use tokio::signal::unix::{SignalKind, signal};

use super::task::{self, scripted};
use super::{browser, notify};
use crate::args::ServeArguments;
use crate::error::Error;
use crate::{home, input, models, output};

/// Places that are ready for code of plans, once a plan had some.
const PREPARED: usize = 2;
/// The server's settings, below the data directory.
const SETTINGS: &str = "server/config.yaml";

/// Serves until it is told to stop.
pub(crate) fn run(arguments: &ServeArguments) -> Result<u8, Error> {
    let listening = listening(arguments)?;
    until_told(listening, arguments.debug, |server, address| {
        output::note(&format!("in a browser: {address}/playground; for programs: {address}/docs"));
        if arguments.open {
            browser::show(server, address);
        }
    })
}

/// Serves until it is told to stop; `begun` is called once it listens, with the address that clients use. With
/// `debug` causes of faults are told.
pub(super) fn until_told(
    listening: Listening,
    debug: bool,
    begun: impl FnOnce(&Server, &str),
) -> Result<u8, Error> {
    let (scheme, name) = (listening.scheme(), listening.hosts.first().cloned());
    let kernel = Arc::new(home::kernel()?.with_prepared_code(PREPARED));
    let data = home::data_dir()?;
    let runtime = task::runtime()?;
    let operator = Arc::new(StandardError { debug });
    runtime.block_on(async {
        // Heard from here on: whoever is told that it listens may stop it in the same instant.
        let listen_to = |kind| {
            signal(kind)
                .map_err(|e| Error::new(codes::TURN_FAILED, "signals cannot be heard").why(e))
        };
        let mut ended = listen_to(SignalKind::terminate())?;
        let mut interrupted = listen_to(SignalKind::interrupt())?;
        let server =
            Server::start(kernel, &data, Arc::new(Own), listening, telemetry(), operator).await?;
        let bound = server.address();
        // No client asks for the address that stands for all: it is answered under its name.
        let name = name.filter(|_| bound.ip().is_unspecified());
        let address =
            format!("{scheme}://{}", name.clone().unwrap_or_else(|| bound.to_string()));
        match name {
            Some(_) => output::note(&format!("bound to {bound}")),
            None if bound.ip().is_unspecified() => output::note(
                "warning: clients are answered only under that address; pass --host NAME[:PORT] with the name that they use",
            ),
            None => {}
        }
        output::data(&format!("listening on {address}"));
        if let Some(file) = server.token_file() {
            output::note(&format!("the token is in {}", file.display()));
        }
        notify::tell(notify::READY);
        begun(&server, &address);
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = ended.recv() => {}
        }
        notify::tell(notify::STOPPING);
        output::note("stopping; press Ctrl-C again to end at once");
        tokio::select! {
            () = server.stop() => Ok(Exit::Done.status()),
            _ = interrupted.recv() => Ok(Exit::Cancelled.status()),
        }
    })
}

/// The settings of the file, and the flags above them.
fn listening(arguments: &ServeArguments) -> Result<Listening, Error> {
    let own = home::data_dir()?.join(SETTINGS);
    let file = arguments.config.clone().or_else(|| input::is_there(&own).then(|| own.clone()));
    let mut listening =
        file.map_or_else(|| Ok(Listening::default()), |file| Listening::read(&file))?;
    if let Some(address) = arguments.listen {
        listening.listen = address;
    }
    listening.hosts.extend(arguments.host.iter().cloned());
    if let (Some(certificate), Some(key)) = (&arguments.tls_certificate, &arguments.tls_key) {
        listening.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
    }
    listening.insecure_plaintext |= arguments.insecure_plaintext;
    Ok(listening)
}

/// Where spans go, in the words of OpenTelemetry. An agent's texts are told only where that is asked for.
fn telemetry() -> Option<Telemetry> {
    let word = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = word("OTEL_EXPORTER_OTLP_ENDPOINT")?;
    let content = word("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
    Some(Telemetry { endpoint, content: content.is_some_and(|value| value == "true") })
}

/// The person who started the server: their environment, their files and their keys.
struct Own;

/// Where they are told of faults.
struct StandardError {
    debug: bool,
}

impl Models for Own {
    fn settings(&self, asked: Config, project: &Path) -> glasshouse_server::Result<Settings> {
        let home::Settings { config, own_server } =
            home::settings(asked, project).map_err(Error::into_server)?;
        Ok(Settings { config, own_server })
    }

    fn kernel(&self, tenant: &TenantId, home: &Path) -> glasshouse_server::Result<Kernel> {
        let kernel = home::kernel_of(tenant, home).map_err(Error::into_server)?;
        Ok(kernel.with_prepared_code(PREPARED))
    }

    fn connect(&self, wanted: Wanted<'_>) -> glasshouse_server::Result<Connected> {
        self.connected(wanted).map_err(Error::into_server)
    }
}

impl Operator for StandardError {
    fn fault(&self, line: &str) {
        output::note(&output::without_controls(line.to_owned()));
    }

    fn cause(&self, line: &str) {
        if self.debug {
            self.fault(line);
        }
    }
}

impl Own {
    fn connected(&self, wanted: Wanted<'_>) -> Result<Connected, Error> {
        let Wanted { provider, base_url, model, scenario, own_server } = wanted;
        let name = provider.ok_or_else(|| {
            models::none_set().fix(
                "send `provider` and `model` (with `base_url` for a server of your own), or set them for the server with `glasshouse config set`",
            )
        })?;
        if name == "scripted" {
            let scripted: Scripted = scripted(scenario)?;
            let model = model.unwrap_or("scripted").to_owned();
            return Ok(Connected { provider: Arc::new(scripted), secrets: Vec::new(), model });
        }
        let known = models::known(name)?;
        let models::Connected { remote, secrets } =
            models::connect(&known, base_url, model, own_server)?;
        let model = remote.model().to_owned();
        Ok(Connected { provider: Arc::new(remote), secrets, model })
    }
}
