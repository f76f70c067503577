//! Where models come from: keys and files are the business of whoever starts the server.

use std::path::Path;
use std::sync::Arc;

use glasshouse_kernel::{Config, Kernel};
use glasshouse_model::TenantId;
use glasshouse_provider::{Provider, Secret};

use crate::Result;

/// A model's server as a session names it.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Provider name.
    pub provider: Option<&'a str>,
    /// Its server.
    pub base_url: Option<&'a str>,
    /// Model name.
    pub model: Option<&'a str>,
    /// Scenario of the scripted provider.
    pub scenario: Option<&'a [u8]>,
    /// Whether the user, not a project, named the server: only then it gets the user's key.
    pub own_server: bool,
}

/// A model that can be asked, and what must never be stored.
pub struct Connected {
    /// The model's server.
    pub provider: Arc<dyn Provider>,
    /// Name of the model that is asked.
    pub model: String,
    /// Keys by name.
    pub secrets: Vec<(String, Secret)>,
}

/// The configuration that applies to a project.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is asked for over what the environment, the project and the user say.
    pub config: Config,
    /// Whether the user named the model's server.
    pub own_server: bool,
}

/// Gives sessions their configuration and their models.
pub trait Models: Send + Sync {
    /// The configuration of a session on a project; `asked` is what its creator said.
    ///
    /// # Errors
    /// `config_invalid` and others of reading configuration.
    fn settings(&self, asked: Config, project: &Path) -> Result<Settings>;

    /// Opens the installation of a tenant, whose home lies in the data directory of the installation.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn kernel(&self, tenant: &TenantId, home: &Path) -> Result<Kernel>;

    /// Sets a model up.
    ///
    /// # Errors
    /// `config_invalid`, `scenario_invalid`, or an error of the provider.
    fn connect(&self, wanted: Wanted<'_>) -> Result<Connected>;
}
