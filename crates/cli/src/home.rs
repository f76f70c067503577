//! Where data lives, and the configuration that applies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use glasshouse_kernel::config::{Config, DEFAULT_MAX_AUTO_MERGE_LINES, NetworkConfig};
use glasshouse_kernel::driver::{Credential, NetworkSettings, real_path};
use glasshouse_kernel::{Kernel, codes};
use glasshouse_log::codes::STORAGE_FAILED;
use glasshouse_model::TenantId;
use glasshouse_provider::{Prices, Secret};

use crate::input;

const TLS_PORT: u16 = 443;

/// `$GLASSHOUSE_HOME`, else `$XDG_STATE_HOME/glasshouse`, else `~/.local/state/glasshouse`; without
/// links, so that every process names it alike.
pub(crate) fn data_dir() -> Result<PathBuf, Error> {
    let from =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = from("GLASSHOUSE_HOME")
        .or_else(|| from("XDG_STATE_HOME").map(|dir| dir.join("glasshouse")))
        .or_else(|| from("HOME").map(|home| home.join(".local/state/glasshouse")))
        .ok_or_else(|| {
            Error::new(codes::CONFIG_INVALID, "there is no place for data")
                .why("neither GLASSHOUSE_HOME nor HOME is set")
                .fix("set GLASSHOUSE_HOME to a directory of your own")
        })?;
    if dir.is_absolute() {
        return Ok(real_path(&dir));
    }
    Ok(real_path(&here()?.join(dir)))
}

/// The current directory.
pub(crate) fn here() -> Result<PathBuf, Error> {
    std::env::current_dir().map_err(|e| {
        Error::new(codes::PROJECT_UNREADABLE, "the current directory is unknown").why(e)
    })
}

/// The path of this very program, as the system knows it.
pub(crate) fn program() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|e| Error::new(codes::TURN_FAILED, "the program's own path is unknown").why(e))
}

/// A home that is not there is a mistake of whoever set it, and nobody's to make.
fn no_home() -> Option<Error> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("GLASSHOUSE_HOME") || is_set("XDG_STATE_HOME") {
        return None;
    }
    let home = PathBuf::from(std::env::var_os("HOME")?);
    (!home.is_dir()).then(|| {
        Error::new(STORAGE_FAILED, "there is no place for data")
            .why(format!("HOME is {}, which is no directory", home.display()))
            .fix(OWN_PLACE)
    })
}

const OWN_PLACE: &str = "set GLASSHOUSE_HOME to a directory of your own";

/// Opens the installation.
pub(crate) fn kernel() -> Result<Kernel, Error> {
    let user = user_config()?;
    let home = data_dir()?;
    if let Some(error) = no_home() {
        return Err(error);
    }
    let kernel =
        Kernel::open(&home, &program()?).map_err(|error| match error.is(STORAGE_FAILED) {
            true => Error::from(error).fix(format!(
                "check that the data directory {} is yours and its disk works, or {OWN_PLACE}",
                home.display()
            )),
            false => error.into(),
        })?;
    Ok(kernel.with_keeping(user.keeping()?).with_network(network(&user.network)?))
}

/// Opens the installation of a tenant, whose home lies in the data directory.
pub(crate) fn kernel_of(tenant: &TenantId, home: &Path) -> Result<Kernel, Error> {
    let user = user_config()?;
    let kernel = Kernel::open_of(home, &program()?, tenant)?.within(&data_dir()?)?;
    Ok(kernel.with_keeping(user.keeping()?).with_network(network(&user.network)?))
}

/// Where the log of a tenant lies.
pub(crate) fn tenant_home(tenant: &TenantId) -> Result<PathBuf, Error> {
    Ok(glasshouse_server::home_of(&data_dir()?, tenant))
}

/// The user's way to the network. A key whose variable is not set is left out: nothing has it then.
fn network(config: &NetworkConfig) -> Result<NetworkSettings, Error> {
    let invalid = |what: String| Error::new(codes::CONFIG_INVALID, what);
    let mut settings = NetworkSettings {
        upstream_proxy: config.upstream_proxy.clone(),
        ..NetworkSettings::default()
    };
    if let Some(file) = &config.ca_file {
        let pem = std::fs::read_to_string(file).map_err(|e| {
            invalid(format!("cannot read network.ca_file {}", file.display())).why(e)
        })?;
        settings.roots_pem.push(pem);
    }
    for (name, host) in &config.credentials {
        let Some(value) = std::env::var(name).ok().filter(|value| !value.is_empty()) else {
            continue;
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (host.as_str(), Some(TLS_PORT)),
        };
        let port = port.ok_or_else(|| {
            invalid(format!("cannot use network.credentials.{name}"))
                .why("it is a host, with a port behind a colon if that is not 443")
        })?;
        let (name, host) = (name.clone(), host.to_owned());
        settings.credentials.push(Credential { name, host, port, value: Secret::new(value)? });
    }
    Ok(settings)
}

/// The user's own file: `$XDG_CONFIG_HOME/glasshouse/config.yaml`, else below `~/.config`.
pub(crate) fn user_config_file() -> Option<PathBuf> {
    let from =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = from("XDG_CONFIG_HOME").or_else(|| from("HOME").map(|home| home.join(".config")))?;
    Some(base.join("glasshouse/config.yaml"))
}

fn user_config() -> Result<Config, Error> {
    let Some(file) = user_config_file() else { return Ok(Config::default()) };
    Config::read(&file).map_err(|error| match error.is(codes::INPUT_UNREADABLE) {
        true => Error::from(error).fix(
            "every command reads this file of yours: make it one that you can read, or set HOME or XDG_CONFIG_HOME to a directory of your own",
        ),
        false => error.into(),
    })
}

/// What models cost: the user's `prices.yaml` beside the user's configuration. Nobody else's file is
/// asked, because a repository that sets its own prices would lift the user's limit.
pub(crate) fn prices() -> Result<Arc<Prices>, Error> {
    let Some(file) = user_config_file().map(|file| file.with_file_name("prices.yaml")) else {
        return Ok(Arc::default());
    };
    if !file.exists() {
        return Ok(Arc::default());
    }
    let text = input::text(&file, Prices::MAX_BYTES as u64)?;
    Ok(Arc::new(Prices::parse(&text, &file.display().to_string())?))
}

/// The configuration that applies, and who named the model's server.
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// Whether the user (a flag, the environment, the user's own file) named the server. A project's
    /// file is content of somebody else's repository: it never directs the user's key anywhere.
    pub(crate) own_server: bool,
}

/// As [`settings`], for whoever asks no server.
pub(crate) fn config(flags: Config, project: &Path) -> Result<Config, Error> {
    Ok(settings(flags, project)?.config)
}

/// Flags over environment over the project's file over the user's file.
pub(crate) fn settings(flags: Config, project: &Path) -> Result<Settings, Error> {
    let project = Config::of(project)?;
    let user = user_config()?;
    let flags = flags.or(environment()?);
    let own = flags.clone().or(user.clone());
    let own_limit = user.merge.max_auto_lines;
    // What may be spent is the user's to say as well.
    let project = project.spending_at_most(&user)?;
    let mut config = flags.or(project).or(user);
    // What is merged without a person is the user's to say; somebody's repository may only ask for less.
    let most = own_limit.unwrap_or(DEFAULT_MAX_AUTO_MERGE_LINES);
    config.merge.max_auto_lines = config.merge.max_auto_lines.map(|lines| lines.min(most));
    let own_server = config.base_url == own.base_url && config.provider == own.provider;
    Ok(Settings { config, own_server })
}

/// `GLASSHOUSE_MODE`, `_PROVIDER`, `_MODEL`, `_BASE_URL`.
fn environment() -> Result<Config, Error> {
    let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mode = match text("GLASSHOUSE_MODE") {
        None => None,
        Some(word) => Some(word.parse().map_err(|why: String| {
            Error::new(codes::CONFIG_INVALID, format!("GLASSHOUSE_MODE={word} is no mode"))
                .why(why)
                .fix("unset GLASSHOUSE_MODE, or set it to strict, explore or debug")
        })?),
    };
    Ok(Config {
        mode,
        provider: text("GLASSHOUSE_PROVIDER"),
        model: text("GLASSHOUSE_MODEL"),
        base_url: text("GLASSHOUSE_BASE_URL"),
        ..Config::default()
    })
}
