//! What tokens cost, from a file that the user keeps; money is counted in millionths and whole
//! numbers only.

use std::collections::BTreeMap;
use std::fmt;

use glasshouse_model::units::parse_money_micros;
use serde::Deserialize;
use serde::de::Visitor;

use crate::{Error, TokenUsage, codes};

/// Tokens that a price is given for.
const PER_TOKENS: u128 = 1_000_000;

/// Prices by model.
///
/// ```
/// use glasshouse_provider::{Prices, TokenUsage};
/// let prices = Prices::parse("
/// version: 1
/// currency: EUR
/// models:
///   small-*: { input: 0.25, cache_read: 0.025, output: 2 }
/// ", "prices.yaml").unwrap();
/// let usage = TokenUsage { input_uncached: 1000, output: 100, ..TokenUsage::default() };
/// assert_eq!(prices.cost_micros("small-2", &usage), Some(450));
/// assert_eq!(prices.cost_micros("large", &usage), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    #[serde(default)]
    version: Option<u64>,
    /// Its currency, for people.
    #[serde(default)]
    pub currency: String,
    #[serde(default)]
    models: BTreeMap<String, Price>,
}

/// The prices of one model, each for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    input: Money,
    /// As input when absent.
    #[serde(default)]
    cache_read: Option<Money>,
    /// As input when absent.
    #[serde(default)]
    cache_write: Option<Money>,
    output: Money,
}

/// Millionths of the currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Money(u64);

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Money;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of money such as 0.25")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Money, E> {
                parse_money_micros(text).map(Money).map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, whole: u64) -> Result<Money, E> {
                self.visit_str(&whole.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, whole: i64) -> Result<Money, E> {
                self.visit_str(&whole.to_string())
            }

            // The shortest decimal that reads as this number is what was written.
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Money, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

impl Prices {
    /// Largest price file in bytes.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Reads a price file; `origin` is how messages call it.
    ///
    /// # Errors
    /// `prices_invalid` saying what is wrong.
    pub fn parse(yaml: &str, origin: &str) -> Result<Self, Error> {
        let refuse = |why: &dyn fmt::Display| {
            Error::new(codes::PRICES_INVALID, format!("cannot use {origin}")).why(why)
        };
        if yaml.len() > Self::MAX_BYTES {
            return Err(refuse(&format!("it is larger than {} bytes", Self::MAX_BYTES)));
        }
        glasshouse_model::yaml::refuse_tags(yaml).map_err(|why| refuse(&why))?;
        let prices: Self = serde_saphyr::from_str(yaml).map_err(|error| refuse(&error))?;
        match prices.version {
            None | Some(1) => Ok(prices),
            Some(other) => Err(refuse(&format!("version {other} is not known"))),
        }
    }

    /// What an answer of a model cost, rounded up to a millionth; `None` when the file says nothing
    /// about it. A name that ends in `*` stands for all that begin so; the longest that fits counts.
    #[must_use]
    pub fn cost_micros(&self, model: &str, usage: &TokenUsage) -> Option<u64> {
        let fits = |name: &str| match name.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => model == name,
        };
        let exact = self.models.get(model);
        let price = exact.or_else(|| {
            let fitting = self.models.iter().filter(|(name, _)| fits(name));
            fitting.max_by_key(|(name, _)| name.len()).map(|(_, price)| price)
        })?;
        let parts = [
            (usage.input_uncached, price.input),
            (usage.cache_read, price.cache_read.unwrap_or(price.input)),
            (usage.cache_write, price.cache_write.unwrap_or(price.input)),
            (usage.output, price.output),
        ];
        let cost = |(tokens, price): &(u64, Money)| u128::from(*tokens) * u128::from(price.0);
        let sum = parts.iter().map(cost).fold(0, u128::saturating_add);
        Some(u64::try_from(sum.div_ceil(PER_TOKENS)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
models:
  m: { input: 3, cache_read: 0.30, cache_write: 3.75, output: '15' }
  m-small: { input: 0.000001, output: 0 }
  m-*: { input: 1, output: 1 }
";

    fn usage(parts: [u64; 5]) -> TokenUsage {
        let [input_uncached, cache_read, cache_write, output, reasoning] = parts;
        TokenUsage { input_uncached, cache_read, cache_write, output, reasoning }
    }

    #[test]
    fn costs() {
        let prices = Prices::parse(FILE, "prices").unwrap();
        let check = |model: &str, parts: [u64; 5], expected: Option<u64>| {
            assert_eq!(prices.cost_micros(model, &usage(parts)), expected, "{model} {parts:?}");
        };
        check("m", [0; 5], Some(0));
        check("m", [1_000_000, 0, 0, 0, 0], Some(3_000_000));
        check("m", [0, 1_000_000, 0, 0, 0], Some(300_000));
        check("m", [0, 0, 1_000_000, 0, 0], Some(3_750_000));
        // Reasoning is a part of the output and costs nothing beside it.
        check("m", [0, 0, 0, 1_000_000, 999_999], Some(15_000_000));
        check("m-small", [1, 0, 0, 0, 0], Some(1));
        check("m-large", [1, 0, 0, 1, 0], Some(2));
        check("other", [1, 0, 0, 0, 0], None);
        check("m", [u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0], Some(u64::MAX));
    }

    /// The failure: absurd prices and counts go round the end of a number and cost next to nothing.
    #[test]
    fn absurd_prices_of_absurd_counts_cost_all_there_is() {
        let most = 18_446_744_073_709_u64;
        let text = format!("models: {{ m: {{ input: {most}, output: {most} }} }}");
        let prices = Prices::parse(&text, "prices").unwrap();
        for parts in [[u64::MAX; 5], [u64::MAX, 0, 0, 0, 0], [0, 0, 0, u64::MAX, 0]] {
            assert_eq!(prices.cost_micros("m", &usage(parts)), Some(u64::MAX), "{parts:?}");
        }
        assert!(Prices::parse(&text.replace("709,", "710,"), "prices").is_err());
    }

    /// The failure: cached tokens dropped from the cost, or paid for twice.
    #[test]
    fn g5_equal_traffic_costs_the_same_in_every_shape() {
        use crate::{Dialect, parse_completion};
        let subset = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}],\
            \"usage\":{\"prompt_tokens\":100,\"completion_tokens\":5,\
            \"prompt_tokens_details\":{\"cached_tokens\":90}}}\n\ndata: [DONE]\n\n";
        let disjoint = "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}],\
            \"stop_reason\":\"end_turn\",\"usage\":{\"input_tokens\":10,\
            \"cache_read_input_tokens\":90,\"output_tokens\":5}}";
        let beside = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]},\
            \"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":100,\
            \"cachedContentTokenCount\":90,\"candidatesTokenCount\":3,\"thoughtsTokenCount\":2}}\n\n";
        let prices = Prices::parse(FILE, "prices").unwrap();
        for (dialect, raw) in
            [(Dialect::Chat, subset), (Dialect::Anthropic, disjoint), (Dialect::Google, beside)]
        {
            let usage = parse_completion(dialect, "m", raw.as_bytes()).unwrap().usage;
            assert_eq!((usage.input_uncached, usage.cache_read, usage.output), (10, 90, 5));
            assert_eq!(prices.cost_micros("m", &usage), Some(30 + 27 + 75), "{dialect:?}");
        }
    }

    #[test]
    fn files_that_are_refused() {
        let check = |yaml: &str, words: &str| {
            let error = Prices::parse(yaml, "prices.yaml").unwrap_err();
            assert!(error.is(codes::PRICES_INVALID));
            assert!(error.to_string().contains(words), "{error}");
        };
        check("version: 2", "version 2");
        check("models: { m: { input: !!int 1, output: 1 } }", "a tag (`!`)");
        check("modells: {}", "modells");
        check("models: { m: { input: 1 } }", "output");
        check("models: { m: { input: -1, output: 1 } }", "number");
        check("models: { m: { input: 0.0000001, output: 1 } }", "0.0000001");
        check("models: { m: { input: .nan, output: 1 } }", "non-finite");
    }
}
