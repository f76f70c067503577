//! `glasshouse serve`: the kernel over HTTP, for other programs of the person at this machine.

use std::path::Path;
use std::sync::Arc;

use glasshouse_kernel::{Config, codes};
use glasshouse_model::Exit;
use glasshouse_provider::Scripted;
use glasshouse_server::{Connected, Models, Server, Settings, Wanted};
use tokio::signal::unix::{SignalKind, signal};

use super::task::{self, scripted};
use crate::args::ServeArguments;
use crate::error::Error;
use crate::{home, models, output};

/// Places that are ready for code of plans, once a plan had some.
const PREPARED: usize = 2;

/// Serves until it is told to stop.
pub(crate) fn run(arguments: &ServeArguments) -> Result<u8, Error> {
    let kernel = Arc::new(home::kernel()?.with_prepared_code(PREPARED));
    let data = home::data_dir()?;
    let runtime = task::runtime()?;
    runtime.block_on(async {
        let server = Server::start(kernel, &data, Arc::new(Own), arguments.listen).await?;
        output::data(&format!("listening on http://{}", server.address()));
        output::note(&format!("the token is in {}", server.token_file().display()));
        let mut ended = signal(SignalKind::terminate())
            .map_err(|e| Error::new(codes::TURN_FAILED, "signals cannot be heard").why(e))?;
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = ended.recv() => {}
        }
        output::note("stopping; press Ctrl-C again to end at once");
        tokio::select! {
            () = server.stop() => Ok(Exit::Done.status()),
            _ = tokio::signal::ctrl_c() => Ok(Exit::Cancelled.status()),
        }
    })
}

/// The models of the person who started the server: their environment, their files, their keys.
struct Own;

impl Models for Own {
    fn settings(&self, asked: Config, project: &Path) -> glasshouse_server::Result<Settings> {
        let home::Settings { config, own_server } =
            home::settings(asked, project).map_err(Error::into_server)?;
        Ok(Settings { config, own_server })
    }

    fn connect(&self, wanted: Wanted<'_>) -> glasshouse_server::Result<Connected> {
        self.connected(wanted).map_err(Error::into_server)
    }
}

impl Own {
    fn connected(&self, wanted: Wanted<'_>) -> Result<Connected, Error> {
        let Wanted { provider, base_url, model, scenario, own_server } = wanted;
        let name = provider.ok_or_else(models::none_set)?;
        if name == "scripted" {
            let scripted: Scripted = scripted(scenario)?;
            return Ok(Connected { provider: Arc::new(scripted), secrets: Vec::new() });
        }
        let known = models::known(name)?;
        let models::Connected { remote, secrets } =
            models::connect(&known, base_url, model, own_server)?;
        Ok(Connected { provider: Arc::new(remote), secrets })
    }
}
