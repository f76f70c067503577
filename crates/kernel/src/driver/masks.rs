//! What is masked: the secrets that a session knows, and what the policy says secrets look like.

use std::collections::HashSet;

use glasshouse_policy::{Policy, SecretPattern};
use glasshouse_provider::Secret;
use glasshouse_tools::sanitise::{self, Masker};

use super::Kernel;
use crate::{Error, Result};

impl Kernel {
    /// Masks these secrets, the keys that commands use without having them, and what the policy names.
    pub(super) fn masker(&self, policy: &Policy, secrets: &[(String, Secret)]) -> Result<Masker> {
        let given = secrets.iter().map(|(name, secret)| hidden(name, secret));
        self.masker_with(policy, given.collect::<Result<_>>()?)
    }

    /// The same for values that may be any bytes.
    pub(super) fn masker_with(
        &self,
        policy: &Policy,
        mut secrets: Vec<sanitise::Secret>,
    ) -> Result<Masker> {
        for key in self.network.credentials.iter() {
            secrets.push(hidden(&key.name, &key.value)?);
        }
        Ok(Masker::with_groups(&secrets, &groups(policy.secret_patterns()))?)
    }
}

fn hidden(name: &str, secret: &Secret) -> Result<sanitise::Secret> {
    Ok(sanitise::Secret::new(name, secret.expose().as_bytes())?)
}

/// Compiles a policy's patterns, so that a file whose patterns cannot be used does not load.
///
/// # Errors
/// `invalid_pattern`, with the pattern's place where one of them is at fault.
pub(super) fn check_patterns(policy: &Policy) -> Result<()> {
    let all = policy.secret_patterns();
    let Err(error) = Masker::with_groups(&[], &groups(all)) else { return Ok(()) };
    // Which one it is was found out already, at the cost of compiling each.
    let report = error.report();
    let at_fault = report.context.get("pattern").and_then(|pattern| pattern.as_str());
    let Some(SecretPattern { name, source, line, column, pattern }) =
        all.iter().find(|one| Some(one.pattern.as_str()) == at_fault)
    else {
        return Err(error.into());
    };
    let what = format!("{source}:{line}:{column}: the secret pattern `{name}` cannot be used");
    Err(Error::new(glasshouse_tools::codes::INVALID_PATTERN, what)
        .why(report.why)
        .fix(report.fix)
        .with("source", source.as_str())
        .with("line", *line)
        .with("column", *column)
        .with("pattern", pattern.as_str()))
}

/// The patterns by source, which stand one behind the other: each source may use as much memory as one that stands
/// alone, or a file could be accepted that no running session loads. What an earlier one has is left out.
fn groups(patterns: &[SecretPattern]) -> Vec<Vec<(&str, &str)>> {
    let mut seen = HashSet::new();
    let of_source = patterns.chunk_by(|one, next| one.source == next.source);
    of_source
        .map(|group| {
            let pairs = group.iter().map(|one| (one.name.as_str(), one.pattern.as_str()));
            pairs.filter(|pair| seen.insert(*pair)).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use glasshouse_policy::{Consent, Protected};

    use super::super::rules::{PolicyText, compile};

    #[test]
    fn a_pattern_that_cannot_be_used_is_told_with_its_place() {
        let check = |pattern: &str, why: Option<&str>| {
            let text =
                format!("version: 1\nsecret_patterns:\n  good: 'ab{{3}}'\n  acme: '{pattern}'\n");
            let text = PolicyText { name: "p.yaml".to_owned(), text, consent: Consent::Joint };
            let compiled = compile(&[text], &Protected::default());
            let Some(why) = why else {
                assert_eq!(compiled.unwrap().secret_patterns().len(), 2);
                return;
            };
            let error = compiled.unwrap_err();
            assert_eq!(error.code(), "invalid_pattern");
            for word in ["p.yaml:4:9", "`acme`", why] {
                assert!(error.to_string().contains(word), "{error} lacks {word}");
            }
            assert!(!error.report().why.contains('\n'), "{error}");
        };
        check("acme_[a-z]{8,40}", None);
        check("acme_[a-z]+", Some("no bound"));
        check("(acme", Some("unclosed group, at character 1"));
        check("acme(?<=a)", Some("not supported, at character 5"));
        check("[a-z]{0,9}", Some("empty"));
        check("^acme", Some("start or end"));
        check("[ab]{0,400}a[ab]{400}", Some("size"));
    }
}
