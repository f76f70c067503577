//! Tokens of an identity provider (OpenID Connect, RFC 7519). What a token is checked against is said by the
//! server's settings, never by the token: algorithms, issuer, audience, and where the keys are.

mod keyset;
mod provider;

use std::collections::BTreeMap;
use std::path::PathBuf;

use glasshouse_kernel::driver::ROLES;
use glasshouse_model::TenantId;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;

use crate::admit::refused;
use crate::{Error, Result, codes};
use keyset::KeySet;

/// Longest token.
const MAX_TOKEN_BYTES: usize = 8 << 10;
/// Longest subject.
const MAX_SUBJECT_BYTES: usize = 128;
/// Who the server's own token and the commands act as, and what the names of keys look like.
const LOCAL: &str = "local";
const KEY_NAME: (char, usize) = ('k', 16);
/// Most clock skew that may be set, in seconds.
const MAX_SKEW_S: u64 = 300;
const US_PER_S: u64 = 1_000_000;
/// Algorithms with a key that is public; one whose key both sides have would let a public key sign.
const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// How tokens of an identity provider are checked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtSettings {
    /// Who issues them, exactly as `iss` says.
    pub issuer: String,
    /// Whom they are for, as `aud` says.
    pub audience: String,
    /// Algorithms that are accepted.
    #[serde(default = "default_algorithms")]
    pub algorithms: Vec<String>,
    /// Where the keys are; without it the issuer's discovery document is asked.
    pub jwks_url: Option<String>,
    /// Certificates to trust beside the usual ones, for the issuer's server.
    pub ca_file: Option<PathBuf>,
    /// How far clocks may be apart, in seconds.
    #[serde(default = "default_skew_s")]
    pub clock_skew_s: u64,
    /// The tenant of everybody; without it a claim says it.
    pub tenant: Option<TenantId>,
    /// The claim with the tenant.
    #[serde(default = "default_tenant_claim")]
    pub tenant_claim: String,
    /// The claim with the roles: a text or a list of texts.
    #[serde(default = "default_roles_claim")]
    pub roles_claim: String,
    /// Roles by the words of the claim; without it the words are roles.
    #[serde(default)]
    pub roles: BTreeMap<String, String>,
}

fn default_algorithms() -> Vec<String> {
    vec!["RS256".to_owned()]
}

const fn default_skew_s() -> u64 {
    60
}

fn default_tenant_claim() -> String {
    "tenant".to_owned()
}

fn default_roles_claim() -> String {
    "roles".to_owned()
}

/// What a token proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proved {
    pub(crate) tenant: TenantId,
    pub(crate) subject: String,
    pub(crate) roles: Vec<String>,
    pub(crate) expires_us: u64,
}

/// Checks tokens.
pub(crate) struct Jwt {
    settings: JwtSettings,
    validation: Validation,
    keys: KeySet,
}

impl Jwt {
    /// With settings.
    ///
    /// # Errors
    /// `server_config_invalid`.
    pub(crate) fn new(settings: JwtSettings) -> Result<Self> {
        provider::install();
        let invalid =
            |why: String| Error::new(codes::SERVER_CONFIG_INVALID, "`jwt` cannot be used").why(why);
        let mut algorithms = Vec::new();
        for name in &settings.algorithms {
            let known = ALGORITHMS.iter().find(|(known, _)| known == name);
            let (_, algorithm) = known.ok_or_else(|| {
                invalid(format!("`{name}` is no algorithm with a public key that is known here"))
            })?;
            algorithms.push(*algorithm);
        }
        let first =
            *algorithms.first().ok_or_else(|| invalid("it names no algorithm".to_owned()))?;
        if settings.clock_skew_s > MAX_SKEW_S {
            return Err(invalid(format!("`clock_skew_s` is at most {MAX_SKEW_S}")));
        }
        if settings.issuer.is_empty() || settings.audience.is_empty() {
            return Err(invalid("it names no issuer, or no audience".to_owned()));
        }
        for (claim, name) in
            [("tenant_claim", &settings.tenant_claim), ("roles_claim", &settings.roles_claim)]
        {
            if name.is_empty() {
                return Err(invalid(format!("`{claim}` names no claim")));
            }
        }
        if let Some(role) = settings.roles.values().find(|role| !ROLES.contains(&role.as_str())) {
            return Err(invalid(format!("`{role}` is no role")));
        }
        let mut validation = Validation::new(first);
        validation.algorithms = algorithms;
        validation.leeway = settings.clock_skew_s;
        validation.validate_nbf = true;
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&[&settings.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let keys = KeySet::new(&settings).map_err(invalid)?;
        Ok(Self { settings, validation, keys })
    }

    /// Who sent a token.
    ///
    /// # Errors
    /// `unauthorized`, whatever is wrong; `identity_unavailable` while the provider's keys cannot be had.
    pub(crate) async fn verify(&self, token: &str) -> Result<Proved> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(refused());
        }
        let header = decode_header(token).map_err(|_| refused())?;
        let kid = header.kid.as_deref().ok_or_else(refused)?;
        // Before anybody is asked for a key.
        if !self.validation.algorithms.contains(&header.alg) {
            return Err(refused());
        }
        let key = self.keys.find(kid, header.alg).await?.ok_or_else(refused)?;
        // A key is for one family; the library compares the token's with all that are named.
        let mut validation = self.validation.clone();
        validation.algorithms = vec![header.alg];
        let claims = decode::<BTreeMap<String, Value>>(token, &key, &validation);
        self.proved(&claims.map_err(|_| refused())?.claims)
    }

    fn proved(&self, claims: &BTreeMap<String, Value>) -> Result<Proved> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let subject = text("sub").filter(|subject| {
            let is_plain = subject.chars().all(|c| c.is_ascii_graphic());
            is_plain && (1..=MAX_SUBJECT_BYTES).contains(&subject.len()) && !is_taken(subject)
        });
        // The library takes a list that holds it, too.
        if text("iss") != Some(&self.settings.issuer) {
            return Err(refused());
        }
        let tenant = match &self.settings.tenant {
            Some(tenant) => Some(tenant.clone()),
            None => text(&self.settings.tenant_claim).and_then(|tenant| tenant.parse().ok()),
        };
        let expires_s = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        // No time is negative, and one that is too large is as good as none.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let expires_s = (expires_s.max(0.0) as u64).saturating_add(self.settings.clock_skew_s);
        Ok(Proved {
            tenant: tenant.ok_or_else(refused)?,
            subject: subject.ok_or_else(refused)?.to_owned(),
            roles: self.roles(claims),
            expires_us: expires_s.saturating_mul(US_PER_S),
        })
    }

    fn roles(&self, claims: &BTreeMap<String, Value>) -> Vec<String> {
        let words: Vec<&str> = match claims.get(&self.settings.roles_claim) {
            Some(Value::String(word)) => word.split(' ').collect(),
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let role = |word: &str| match self.settings.roles.is_empty() {
            true => Some(word.to_owned()),
            false => self.settings.roles.get(word).cloned(),
        };
        words.into_iter().filter_map(role).collect()
    }
}

/// Whether a subject would act under the name of somebody who is known without the provider.
fn is_taken(subject: &str) -> bool {
    let (first, digits) = KEY_NAME;
    let is_key = subject.strip_prefix(first).is_some_and(|rest| {
        rest.len() == digits && rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    is_key || subject == LOCAL
}
