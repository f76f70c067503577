//! The model providers by the names that people give them.

use std::path::PathBuf;

use glasshouse_kernel::codes;
use glasshouse_kernel::config::Config;
use glasshouse_provider::{Dialect, Remote, Secret};

use crate::args::ModelOptions;
use crate::error::Error;
use crate::home::Settings;
use crate::{home, output};

/// A provider with a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) dialect: Dialect,
    /// Where it is; `None` when only the user can know.
    pub(crate) base_url: Option<&'static str>,
    /// Environment variable of its key.
    pub(crate) key: &'static str,
}

const OPENAI_KEY: &str = "OPENAI_API_KEY";

/// Every provider but the scripted one.
pub(crate) const KNOWN: [Known; 6] = [
    Known {
        name: "openai",
        dialect: Dialect::Chat,
        base_url: Some("https://api.openai.com/v1"),
        key: OPENAI_KEY,
    },
    Known {
        name: "openai-responses",
        dialect: Dialect::Responses,
        base_url: Some("https://api.openai.com/v1"),
        key: OPENAI_KEY,
    },
    Known { name: "openai-compatible", dialect: Dialect::Chat, base_url: None, key: OPENAI_KEY },
    Known {
        name: "anthropic",
        dialect: Dialect::Anthropic,
        base_url: Some("https://api.anthropic.com/v1"),
        key: "ANTHROPIC_API_KEY",
    },
    Known {
        name: "google",
        dialect: Dialect::Google,
        base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        key: "GEMINI_API_KEY",
    },
    Known {
        name: "ollama",
        dialect: Dialect::Ollama,
        base_url: Some("http://127.0.0.1:11434"),
        key: "OLLAMA_API_KEY",
    },
];

/// What a session asks, and the key that it must never show.
pub(crate) struct Connected {
    pub(crate) remote: Remote,
    pub(crate) secrets: Vec<(String, Secret)>,
}

/// The provider that flags and configuration name, set up for the current directory, which comes first.
pub(crate) fn configured(options: &ModelOptions) -> Result<(PathBuf, Known, Connected), Error> {
    let here = home::here()?;
    let Settings { config, own_server } = home::settings(flags(options), &here)?;
    let known = known(config.provider.as_deref().ok_or_else(none_set)?)?;
    let connected =
        connect(&known, config.base_url.as_deref(), config.model.as_deref(), own_server)?;
    Ok((here, known, connected))
}

/// The flags in the shape of a configuration.
pub(crate) fn flags(options: &ModelOptions) -> Config {
    Config {
        provider: options.provider.clone(),
        model: options.model.clone(),
        base_url: options.base_url.clone(),
        ..Config::default()
    }
}

/// The provider of a name.
pub(crate) fn known(name: &str) -> Result<Known, Error> {
    if name == "scripted" {
        return Err(Error::new(
            codes::CONFIG_INVALID,
            "the provider `scripted` answers nobody here",
        )
        .why("it plays a session from a file")
        .fix("give it to a task with --scenario FILE, or name a server's provider here"));
    }
    KNOWN.into_iter().find(|known| known.name == name).ok_or_else(|| {
        let names: Vec<_> = KNOWN.iter().map(|known| known.name).chain(["scripted"]).collect();
        Error::new(codes::CONFIG_INVALID, format!("there is no provider `{name}`"))
            .why(format!("there are {}", names.join(", ")))
            .fix("pass one of these with --provider, or set it with `glasshouse config set provider NAME`")
    })
}

/// Sets a provider up. `own_server` says whether the user, not a project, named the server: only
/// then it gets the user's key.
pub(crate) fn connect(
    known: &Known,
    base_url: Option<&str>,
    model: Option<&str>,
    own_server: bool,
) -> Result<Connected, Error> {
    let missing = |what: &str, why: &str, fix: &str| {
        Error::new(codes::CONFIG_INVALID, what).why(why).fix(fix)
    };
    let base_url = base_url.or(known.base_url).ok_or_else(|| {
        missing(
            "no server was given",
            "an OpenAI-compatible provider is reached at a URL",
            "pass --base-url URL, or `glasshouse config set base_url URL`",
        )
    })?;
    let model = model.ok_or_else(|| {
        missing(
            "no model was given",
            "the server may offer several",
            "pass --model NAME, or `glasshouse config set model NAME`",
        )
    })?;
    let is_public = known.base_url == Some(base_url) && base_url.starts_with("https:");
    let key = own_key(known.key, own_server, is_public)?;
    let secrets = key.iter().map(|key| (known.key.to_owned(), key.clone())).collect();
    let remote =
        Remote::builder(known.dialect, base_url, model, key).prices(home::prices()?).build()?;
    Ok(Connected { remote, secrets })
}

/// The error of a command that asks a model when nothing says which.
pub(crate) fn none_set() -> Error {
    Error::new(codes::CONFIG_INVALID, "no model provider is set")
        .why("neither a flag, the environment nor a configuration file names one")
        .fix("pass --provider NAME --model NAME (`glasshouse provider list` names them), or try `glasshouse demo`")
}

/// The user's key, for a server that the user named. Local servers need none; a public one answers no
/// request without.
fn own_key(variable: &str, own_server: bool, is_public: bool) -> Result<Option<Secret>, Error> {
    let is_set = std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    let is_needed = is_set || (is_public && own_server);
    if !is_needed {
        return Ok(None);
    }
    if !own_server {
        output::note(&format!(
            "the project names the model's server, so {variable} is not sent; pass --provider and --base-url to send it"
        ));
        return Ok(None);
    }
    Ok(Some(Secret::from_env(variable)?))
}
