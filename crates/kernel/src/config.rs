//! Configuration: flags over environment over the project's file over the user's file over defaults.
//!
//! Only keys that are no matter of security are here; those belong to the policy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use glasshouse_log::Keeping;
use glasshouse_model::body::ModelSettings;
use glasshouse_model::units::{parse_money_micros, parse_size_bytes, parse_time_ms};
use glasshouse_model::yaml::refuse_tags;
use glasshouse_model::{Budget, CanonicalPath, Mode};
use glasshouse_sandbox::workspace::beneath::Root;
use serde::{Deserialize, Serialize};

use crate::{Error, codes};

/// Largest configuration file in bytes.
pub const MAX_CONFIG_BYTES: u64 = 64 * 1024;
/// File of a project, below its root.
pub const PROJECT_FILE: &str = ".glasshouse/config.yaml";
/// Changed lines that are merged without a person, by default.
pub const DEFAULT_MAX_AUTO_MERGE_LINES: u64 = 500;

/// Smallest window that leaves room for the rules, the tools and an answer.
const MIN_WINDOW_TOKENS: u64 = 8_000;
/// Most models that are asked in the place of the session's own.
const MAX_FALLBACK_MODELS: usize = 8;

/// One configuration file, or the flags in the shape of one. Every key may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Workflow mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Provider name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Model name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Server of an OpenAI-compatible provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Models of the same provider to ask, in order, when the first does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_models: Option<Vec<String>>,
    /// Tokens that the model can read at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
    /// Tokens that schemas of tools may take in a request; above it they are loaded by a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_tokens: Option<u64>,
    /// How much the model thinks before it answers: `low`, `medium` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// How the project tests itself.
    #[serde(skip_serializing_if = "is_default")]
    pub test: TestConfig,
    /// Which files are sources.
    #[serde(skip_serializing_if = "is_default")]
    pub source: GlobConfig,
    /// Limits of a session.
    #[serde(skip_serializing_if = "is_default")]
    pub budget: BudgetConfig,
    /// When a change set is merged without a person.
    #[serde(skip_serializing_if = "is_default")]
    pub merge: MergeConfig,
    /// How long and how much of the log is kept: the user's to say, never a project's.
    #[serde(skip_serializing_if = "is_default")]
    pub log: LogConfig,
    /// How sandboxes reach the network; only in the user's own file.
    #[serde(skip_serializing_if = "is_default")]
    pub network: NetworkConfig,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `test:` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TestConfig {
    /// Command and arguments that run every test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Globs of test files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub globs: Option<Vec<String>>,
    /// Report of coverage that a run leaves, as lcov or as JSON of istanbul.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<String>,
}

/// `source:` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GlobConfig {
    /// Globs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub globs: Option<Vec<String>>,
}

/// `budget:` section. Times carry their unit, for example `2h`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetConfig {
    /// Most tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Longest active time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Most money, in the price file's currency, for example `"2.50"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Most tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Most errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
}

/// `merge:` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MergeConfig {
    /// Most changed lines without a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_auto_lines: Option<u64>,
}

/// `log:` section. Sizes carry their unit, for example `10GiB`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Days for which ended sessions stay in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u64>,
    /// Most bytes of events and archives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<String>,
}

/// `network:` section: where keys go is the user's to say, never a repository's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Environment variables of the user with a key in them, each with the host that may have it and
    /// its port if that is not 443.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, String>,
    /// The proxy that is the machine's only way out, as `http://HOST:PORT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_proxy: Option<String>,
    /// File of certificate authorities besides the public ones, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// A small text of a project, none where there is none. No link is followed on the way to it: it may lead
/// to a file that is not the project's.
///
/// # Errors
/// `input_unreadable`.
pub(crate) fn project_text(
    project: &Path,
    file: &str,
    max_bytes: u64,
) -> Result<Option<String>, Error> {
    let fail = |why: String| {
        let what = format!("cannot read {}", project.join(file).display());
        Error::new(codes::INPUT_UNREADABLE, what).why(why)
    };
    let path = CanonicalPath::parse(file).map_err(|e| fail(e.to_string()))?;
    let root = match Root::open(project) {
        Ok(root) => root,
        // As a missing file: what needs the directory says so.
        Err(_) if !project.exists() => return Ok(None),
        Err(error) => return Err(fail(error.to_string())),
    };
    match root.read_small(&path, max_bytes) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => {
            String::from_utf8(bytes).map(Some).map_err(|_| fail("it is not UTF-8".to_owned()))
        }
        Err(error) => {
            let report = error.report();
            let is_link = error.is(glasshouse_sandbox::codes::PATH_OUTSIDE);
            let link = "it is no regular file, or lies behind a link";
            Err(fail(if is_link { link.to_owned() } else { report.why }))
        }
    }
}

impl Config {
    /// Parses a file's text.
    ///
    /// # Errors
    /// `config_invalid` with line and column; an unknown key or an unparsable unit is an error.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let unreadable = |why: String| {
            Error::new(codes::CONFIG_INVALID, format!("cannot read {origin}")).why(why)
        };
        refuse_tags(text).map_err(unreadable)?;
        let config: Self = serde_saphyr::from_str(text).map_err(|e| unreadable(e.to_string()))?;
        config.budget()?;
        config.keeping()?;
        config.settings()?;
        if config.test.command.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::new(codes::CONFIG_INVALID, format!("cannot use {origin}"))
                .why("test.command is an empty list; it is a command and its arguments"));
        }
        if let Some(report) = &config.test.coverage
            && let Err(error) = CanonicalPath::parse(report)
        {
            return Err(Error::new(codes::CONFIG_INVALID, format!("cannot use {origin}"))
                .why(format!("test.coverage is `{report}`: {error}"))
                .fix("name a file below the project, for example coverage/lcov.info"));
        }
        Ok(config)
    }

    /// Reads a file; an absent one is an empty configuration.
    ///
    /// # Errors
    /// `input_unreadable` when it is too large, no regular file or unreadable; `config_invalid` when it
    /// is malformed.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let fail = |why: String| {
            Error::new(codes::INPUT_UNREADABLE, format!("cannot read {}", path.display())).why(why)
        };
        match std::fs::symlink_metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(fail(e.to_string())),
            // A link may lead out of the project, a device never ends.
            Ok(meta) if !meta.is_file() => return Err(fail("it is no regular file".to_owned())),
            Ok(meta) if meta.len() > MAX_CONFIG_BYTES => {
                return Err(fail(format!(
                    "it has {} bytes; the limit is {MAX_CONFIG_BYTES}",
                    meta.len()
                )));
            }
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a project's file, [`PROJECT_FILE`]; none is an empty configuration.
    ///
    /// # Errors
    /// As [`Config::read`]; `input_unreadable` also where a link stands on the way.
    pub fn of(project: &Path) -> Result<Self, Error> {
        match project_text(project, PROJECT_FILE, MAX_CONFIG_BYTES)? {
            Some(text) => Self::parse(&text, &project.join(PROJECT_FILE).display().to_string())?
                .of_project(PROJECT_FILE),
            None => Ok(Self::default()),
        }
    }

    /// Fills what is absent here from a configuration of lower rank.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        Self {
            mode: self.mode.or(lower.mode),
            provider: self.provider.or(lower.provider),
            model: self.model.or(lower.model),
            base_url: self.base_url.or(lower.base_url),
            fallback_models: self.fallback_models.or(lower.fallback_models),
            window_tokens: self.window_tokens.or(lower.window_tokens),
            schema_tokens: self.schema_tokens.or(lower.schema_tokens),
            effort: self.effort.or(lower.effort),
            test: TestConfig {
                command: self.test.command.or(lower.test.command),
                globs: self.test.globs.or(lower.test.globs),
                coverage: self.test.coverage.or(lower.test.coverage),
            },
            source: GlobConfig { globs: self.source.globs.or(lower.source.globs) },
            budget: BudgetConfig {
                tokens: self.budget.tokens.or(lower.budget.tokens),
                time: self.budget.time.or(lower.budget.time),
                cost: self.budget.cost.or(lower.budget.cost),
                calls: self.budget.calls.or(lower.budget.calls),
                errors: self.budget.errors.or(lower.budget.errors),
            },
            log: LogConfig {
                retention_days: self.log.retention_days.or(lower.log.retention_days),
                max_bytes: self.log.max_bytes.or(lower.log.max_bytes),
            },
            merge: MergeConfig {
                max_auto_lines: self.merge.max_auto_lines.or(lower.merge.max_auto_lines),
            },
            network: if is_default(&self.network) { lower.network } else { self.network },
        }
    }

    /// How long and how much of the log is kept, with defaults for what is absent.
    ///
    /// # Errors
    /// `config_invalid` when the size has no or an unknown unit.
    pub fn keeping(&self) -> Result<Keeping, Error> {
        let mut keeping = self.log.retention_days.map_or_else(Keeping::default, Keeping::of_days);
        if let Some(text) = &self.log.max_bytes {
            keeping.max_bytes = parse_size_bytes(text).map_err(|e| {
                Error::new(codes::CONFIG_INVALID, "cannot use log.max_bytes").why(e)
            })?;
        }
        Ok(keeping)
    }

    /// Refuses what a project's file may not say.
    ///
    /// # Errors
    /// `config_invalid`.
    pub fn of_project(self, origin: &str) -> Result<Self, Error> {
        let why = if !is_default(&self.log) {
            "`log` says how long the log of every project is kept, so it is the user's to say"
        } else if !is_default(&self.network) {
            "`network` says where keys go, and a repository may not say that"
        } else if self.mode.is_some_and(|mode| mode != Mode::Strict) {
            "`mode` says how strictly tests come first, so less than strict is the user's to say"
        } else {
            return Ok(self);
        };
        Err(Error::new(codes::CONFIG_INVALID, format!("cannot use {origin}"))
            .why(why)
            .fix("move it to your own configuration, ~/.config/glasshouse/config.yaml"))
    }

    /// How the model is asked.
    ///
    /// # Errors
    /// `config_invalid` for an effort that is none and a window without room for an answer.
    pub fn settings(&self) -> Result<ModelSettings, Error> {
        let refuse = |why: String| {
            Err(Error::new(codes::CONFIG_INVALID, "cannot use the model's settings").why(why))
        };
        if let Some(word) = self.effort.as_deref()
            && !["low", "medium", "high"].contains(&word)
        {
            return refuse(format!("effort is `{word}`; there are low, medium and high"));
        }
        if self.window_tokens.is_some_and(|tokens| tokens < MIN_WINDOW_TOKENS) {
            return refuse(format!("window_tokens is below {MIN_WINDOW_TOKENS}"));
        }
        let fallback_models = self.fallback_models.clone().unwrap_or_default();
        if fallback_models.len() > MAX_FALLBACK_MODELS {
            return refuse(format!("more than {MAX_FALLBACK_MODELS} fallback_models"));
        }
        let all: BTreeSet<_> = self.model.iter().chain(&fallback_models).collect();
        if all.len() < usize::from(self.model.is_some()) + fallback_models.len() {
            // Which one comes next is found by its name.
            return refuse("a model stands twice among model and fallback_models".to_owned());
        }
        Ok(ModelSettings {
            fallback_models,
            window_tokens: self.window_tokens,
            schema_tokens: self.schema_tokens,
            effort: self.effort.clone(),
        })
    }

    /// Lowers the limits to those of another configuration, with defaults for what that one leaves out.
    ///
    /// # Errors
    /// As [`Config::budget`].
    pub fn spending_at_most(mut self, other: &Self) -> Result<Self, Error> {
        let (most, own) = (other.budget()?, self.budget()?);
        let lower =
            |own: Option<u64>, most: Option<u64>| own.map(|own| own.min(most.unwrap_or(own)));
        let budget = &mut self.budget;
        budget.tokens = lower(budget.tokens, most.tokens);
        budget.calls = lower(budget.calls, most.calls);
        budget.errors = lower(budget.errors, most.errors);
        if most.time_us.is_some() && own.time_us > most.time_us {
            budget.time.clone_from(&other.budget.time);
        }
        if most.cost_micros.is_some() && own.cost_micros > most.cost_micros {
            budget.cost.clone_from(&other.budget.cost);
        }
        Ok(self)
    }

    /// The limits, with defaults for what is absent.
    ///
    /// # Errors
    /// `config_invalid` when a time has no or an unknown unit.
    pub fn budget(&self) -> Result<Budget, Error> {
        let default = Budget::default();
        let time_us = match &self.budget.time {
            None => default.time_us,
            Some(text) => {
                let ms = parse_time_ms(text).map_err(|e| {
                    Error::new(codes::CONFIG_INVALID, "cannot use budget.time").why(e)
                })?;
                Some(ms.saturating_mul(1000))
            }
        };
        let cost = self.budget.cost.as_deref().map(parse_money_micros).transpose();
        let cost_micros = cost
            .map_err(|e| Error::new(codes::CONFIG_INVALID, "cannot use budget.cost").why(e))?
            .or(default.cost_micros);
        Ok(Budget {
            tokens: self.budget.tokens.or(default.tokens),
            time_us,
            cost_micros,
            calls: self.budget.calls.or(default.calls),
            errors: self.budget.errors.or(default.errors),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_parse_strictly() {
        let check = |text: &str, expected: Result<Config, &str>| match (
            Config::parse(text, "c.yaml"),
            expected,
        ) {
            (Ok(config), Ok(expected)) => assert_eq!(config, expected, "{text}"),
            (Err(e), Err(word)) => assert!(e.to_string().contains(word), "{text}: {e}"),
            (got, _) => panic!("{text}: {got:?}"),
        };
        check("", Ok(Config::default()));
        check("model: m\n", Ok(Config { model: Some("m".to_owned()), ..Config::default() }));
        let command = Some(vec!["sh".to_owned(), "t.sh".to_owned()]);
        let test = TestConfig { command, ..TestConfig::default() };
        check("test: {command: [sh, t.sh]}\n", Ok(Config { test, ..Config::default() }));
        check("modell: m\n", Err("modell"));
        check("mode: fast\n", Err("fast"));
        check("budget: {time: \"5\"}\n", Err("no unit"));
        check("budget: {time: 5M}\n", Err("unknown unit"));
        check("test: {command: []}\n", Err("empty list"));
        check("log: {max_bytes: many}\n", Err("log.max_bytes"));
        check("log: {retention: 5}\n", Err("retention"));
        check("[1, 2]\n", Err("c.yaml"));
        check("model: !!binary bQ==\n", Err("a tag (`!`)"));
        check("mode: !strict explore\n", Err("line 1, column 7"));
        check("model: '!x'\n", Ok(Config { model: Some("!x".to_owned()), ..Config::default() }));
    }

    #[test]
    fn how_long_the_log_is_kept_is_the_users_to_say() {
        let config = Config::parse("log: {retention_days: 30, max_bytes: 2GiB}\n", "c").unwrap();
        let keeping = config.keeping().unwrap();
        assert_eq!((keeping.retention.as_secs(), keeping.max_bytes), (30 * 86_400, 2 << 30));
        assert_eq!(Config::default().keeping().unwrap(), Keeping::default());
        let refused = config.of_project(PROJECT_FILE).unwrap_err();
        assert!(refused.to_string().contains("user's to say"), "{refused}");
        assert!(Config::parse("model: m\n", "c").unwrap().of_project(PROJECT_FILE).is_ok());
    }

    #[test]
    fn higher_rank_wins_key_by_key() {
        let high = Config::parse("model: high\nbudget: {calls: 1}\n", "a").unwrap();
        let low =
            Config::parse("model: low\nprovider: p\nbudget: {calls: 9, errors: 2}\n", "b").unwrap();
        let merged = high.or(low);
        assert_eq!(merged.model.as_deref(), Some("high"));
        assert_eq!(merged.provider.as_deref(), Some("p"));
        assert_eq!(merged.budget().unwrap().calls, Some(1));
        assert_eq!(merged.budget().unwrap().errors, Some(2));
    }

    /// A repository's file was asked before the user's, so it could raise what the user spends.
    #[test]
    fn a_project_may_only_lower_what_is_spent() {
        let read = |text: &str| Config::parse(text, "c").unwrap();
        let check = |project: &str, user: &str, expected: &str| {
            let project = read(&format!("budget: {{ {project} }}\n"));
            let held = project.spending_at_most(&read(&format!("budget: {{ {user} }}\n"))).unwrap();
            assert_eq!(
                held.budget().unwrap(),
                read(&format!("budget: {{ {expected} }}\n")).budget().unwrap()
            );
        };
        check("tokens: 10", "tokens: 20", "tokens: 10");
        check("tokens: 999999999", "tokens: 20", "tokens: 20");
        check("tokens: 999999999", "", "tokens: 2000000");
        check("calls: 900, errors: 900", "calls: 7", "calls: 7, errors: 50");
        check("time: 30h", "time: 1h", "time: 1h");
        check("time: 1m", "time: 1h", "time: 1m");
        check("time: 30h", "", "");
        check("cost: '100000'", "cost: '2.50'", "cost: '2.50'");
        check("cost: '1'", "cost: '2.50'", "cost: '1'");
        check("cost: '1'", "", "cost: '1'");
    }

    /// The next model is found by the name of the one before it, so a name twice went in a circle.
    #[test]
    fn fallback_models_are_few_and_each_is_another() {
        let check = |text: &str, is_ok: bool| {
            assert_eq!(Config::parse(text, "c").is_ok(), is_ok, "{text}");
        };
        check("model: m\nfallback_models: [a, b]\n", true);
        check("model: m\nfallback_models: [a, m]\n", false);
        check("model: m\nfallback_models: [a, a]\n", false);
        check("fallback_models: [a, b]\n", true);
        check("fallback_models: [a, b, c, d, e, f, g, h, i]\n", false);
    }
}
