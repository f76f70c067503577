//! The profile that a plan is shown under: what the caller asks for, and what the policy's decision
//! makes of it, which is never more.

use glasshouse_model::{Constraints, Digest};
use glasshouse_plan::{Profile, ProfileName};
use serde_json::{Map, Value};

use super::of_plan;
use crate::Result;

/// A profile, tightened.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// The named profile it was made from.
    pub(crate) name: ProfileName,
    /// Its fields.
    pub(crate) profile: Profile,
    /// What the decision demands.
    pub(crate) constraints: Constraints,
}

impl Chosen {
    /// What a decision with these constraints makes of the profile that is asked for.
    ///
    /// # Errors
    /// The plan crate's, for a constraint that is none of its own: nothing is shown then.
    pub(crate) fn new(asked: ProfileName, constraints: &Constraints) -> Result<Self> {
        let most = match &constraints.ui_profile {
            // A name that nobody knows is no reason to be less careful.
            Some(name) => name.parse().unwrap_or(ProfileName::Strict),
            None => asked,
        };
        let name = asked.min(most);
        let named = Profile::named(name);
        let mut overrides: Map<String, Value> = constraints
            .ui_limits
            .iter()
            .map(|(limit, most)| (limit.clone(), Value::from(*most)))
            .collect();
        if let Some(hosts) = &constraints.ui_hosts {
            overrides.insert("allowed_network_hosts".to_owned(), hosts.iter().cloned().collect());
            overrides.insert("allow_arbitrary_network".to_owned(), Value::Bool(false));
        }
        let demanded = named.with_overrides(&Value::Object(overrides));
        let profile = named.tightened_by(&demanded.map_err(|error| of_plan(&error))?);
        Ok(Self { name, profile, constraints: constraints.clone() })
    }

    /// Digest of the fields.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(&self.profile).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraints(json: Value) -> Constraints {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_decision_only_tightens() {
        use ProfileName::{Balanced, Relaxed, Strict, Trusted};
        for (asked, demanded, name, nodes, hosts) in [
            (Balanced, serde_json::json!({}), Balanced, 500, 2),
            (Balanced, serde_json::json!({"ui_profile": "strict"}), Strict, 250, 2),
            (Strict, serde_json::json!({"ui_profile": "relaxed"}), Strict, 250, 2),
            (Trusted, serde_json::json!({"ui_profile": "unheard of"}), Strict, 250, 2),
            (Balanced, serde_json::json!({"ui_limits": {"max_node_count": 7}}), Balanced, 7, 2),
            (Balanced, serde_json::json!({"ui_limits": {"max_node_count": 900}}), Balanced, 500, 2),
            (Relaxed, serde_json::json!({"ui_hosts": ["esm.sh", "x.example"]}), Relaxed, 2_000, 1),
            (Strict, serde_json::json!({"ui_hosts": []}), Strict, 250, 0),
        ] {
            let chosen = Chosen::new(asked, &constraints(demanded.clone())).unwrap();
            let found = (
                chosen.name,
                chosen.profile.max_node_count,
                chosen.profile.allowed_network_hosts.len(),
            );
            assert_eq!(found, (name, nodes, hosts), "{asked} {demanded}");
            assert!(demanded.get("ui_hosts").is_none() || !chosen.profile.allow_arbitrary_network);
        }
        assert!(
            Chosen::new(Strict, &constraints(serde_json::json!({"ui_limits": {"x": 1}}))).is_err()
        );
    }

    /// Policy knows the names of profiles and limits, because it reads them; they are the plan's.
    #[test]
    fn policy_and_plans_mean_the_same_names() {
        assert_eq!(ProfileName::ALL.map(ProfileName::as_str), glasshouse_policy::UI_PROFILES);
        for limit in glasshouse_policy::UI_LIMITS {
            let demanded = constraints(serde_json::json!({"ui_limits": {limit: 1}}));
            let chosen = Chosen::new(ProfileName::Relaxed, &demanded).unwrap();
            assert_eq!(serde_json::to_value(&chosen.profile).unwrap()[limit], 1, "{limit}");
        }
    }
}
