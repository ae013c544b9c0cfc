//! Sections `plans` and `billing`. The plans, which limit the projects, are read from `plans.file`, or built in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use conclave_model::Secret;
use conclave_model::non_null::Object;
use conclave_model::plan::Plan;
use conclave_model::settings::Rule;
use figment::Figment;
use figment::providers::Serialized;

use super::ConfigError;
use super::load::parse_toml;

/// Plan of projects that are created without one.
pub const DEFAULT_PLAN: &str = "self_hosted";

const BUILT_IN: &str = include_str!("../../config/plans.toml");

conclave_model::settings! {
    /// Plans, which limit projects.
    pub struct PlansConfig {
        /// File with the plans. Default: the built-in plans, as in config/plans.toml. See [Billing](billing.md).
        pub file: Option<PathBuf> = None;
    }
}

conclave_model::settings! {
    /// External billing service for the projects' wallets.
    pub struct BillingConfig {
        /// URL of the billing service. See [Billing](billing.md#your-own-billing-service).
        ///
        /// Before a project starts work, Conclave requests `GET {url}/v1/projects/{id}/standing`. The service must respond within 2 seconds
        /// with {"standing": "ok"}, "insufficient_balance" or "suspended". Conclave caches a response for 30 seconds. Without a service,
        /// the wallets are in Conclave's database, and `conclave project credit` adds to them.
        pub url: Option<String> = None, Rule::Url(&["http", "https"]);
        /// Bearer token for requests to the billing service.
        pub token: Option<Secret> = None;
    }
}

/// Plans by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plans(BTreeMap<String, Plan>);

impl Plans {
    /// Loads the plans from a file, or the built-in plans.
    ///
    /// # Errors
    /// If the file cannot be read or contains an invalid plan. Only the first invalid setting is reported.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        match file {
            // Parsed and validated like an operator's file.
            None => Self::parse("config/plans.toml", BUILT_IN),
            Some(path) => {
                let name = path.display().to_string();
                let text = fs::read_to_string(path).map_err(|error| {
                    ConfigError::new("plans.file", format!("{name} cannot be read: {error}"))
                })?;
                Self::parse(&name, &text)
            }
        }
    }

    /// Returns a plan.
    pub fn get(&self, id: &str) -> Option<&Plan> {
        self.0.get(id)
    }

    /// Returns copies of the plans, each with its id.
    pub fn iter(&self) -> impl Iterator<Item = (String, Plan)> {
        self.0.iter().map(|(id, plan)| (id.clone(), plan.clone()))
    }

    /// Returns the ids in alphabetical order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let with_origin = |error: ConfigError| error.with_origin(Some(name.to_owned()));
        // Through figment, whose errors have the setting's path.
        let layer = Figment::from(Serialized::defaults(parse_toml(name, text)?));
        let plans: BTreeMap<String, Object<Plan>> =
            layer.extract().map_err(|error| with_origin(error.into()))?;
        let plans: BTreeMap<_, _> = plans
            .into_iter()
            .map(|(id, Object(plan))| (id, plan))
            .collect();
        // Without a plan, no project could be created.
        if plans.is_empty() {
            return Err(ConfigError::new(
                "plans.file",
                format!("{name} must contain at least one plan"),
            ));
        }
        plans
            .iter()
            .try_for_each(|(id, plan)| validate(id, plan))
            .map_err(with_origin)?;
        Ok(Self(plans))
    }
}

fn validate(id: &str, plan: &Plan) -> Result<(), ConfigError> {
    // Ids are arguments of commands and values in URLs, so they need no quoting.
    let is_allowed =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if id.is_empty() || id.len() > 40 || !id.bytes().all(is_allowed) {
        return Err(ConfigError::new(
            id,
            "a plan's id must be 1 to 40 of a-z, 0-9, _ and -",
        ));
    }
    // A price of 0 is a free plan.
    if plan.price_ugx < 0 {
        return Err(ConfigError::new(
            format!("{id}.price_ugx"),
            "must be 0 or more",
        ));
    }
    if plan.overage_ugx_per_minute.is_some_and(|price| price < 0) {
        return Err(ConfigError::new(
            format!("{id}.overage_ugx_per_minute"),
            "must be 0 or more",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_model::plan::PlanLimits;

    #[test]
    fn there_are_four_built_in_plans() {
        let plans = Plans::load(None).unwrap();
        assert_eq!(
            plans.ids().collect::<Vec<_>>(),
            ["free", "pro", "self_hosted", "starter"]
        );
        let own = plans.get(DEFAULT_PLAN).unwrap();
        assert_eq!((own.price_ugx, own.limits), (0, PlanLimits::default()));
        assert!(own.features.recording && own.features.streaming);
        let free = plans.get("free").unwrap();
        let limits = free.limits;
        assert_eq!(
            (limits.concurrent_rooms, limits.participants_per_room),
            (Some(2), Some(10))
        );
        assert_eq!(
            (limits.participant_minutes_per_month, free.price_ugx),
            (Some(10_000), 0)
        );
        assert!(!free.features.recording && !free.features.streaming);
        for priced in ["starter", "pro"] {
            let plan = plans.get(priced).unwrap();
            assert!(
                plan.price_ugx > 0 && plan.overage_ugx_per_minute.is_some_and(|price| price > 0)
            );
        }
        assert!(plans.get("gold").is_none());
    }

    #[test]
    fn the_error_of_an_invalid_plan_names_its_path() {
        let refusal = |text: &str| Plans::parse("plans.toml", text).unwrap_err().to_string();
        let body = "display_name = 'A'\nprice_ugx = 1\n[a.features]\n";
        let with_limits = |limits: &str| format!("[a]\n{body}[a.limits]\n{limits}\n");
        assert!(Plans::parse("x", &with_limits("concurrent_rooms = 1")).is_ok());
        for (text, named) in [
            (
                with_limits("concurrent_rooms = -1"),
                "a.limits.concurrent_rooms (plans.toml): ",
            ),
            (with_limits("rooms = 1"), "a.limits.rooms"),
            (
                "a = ['A', 1, {}, {}]\n".into(),
                "a (plans.toml): must be a section, not a list",
            ),
            (
                "[a]\ndisplay_name = 'A'\nprice_ugx = 1\nfeatures = [true]\n".into(),
                "a.features (plans.toml): must be a section",
            ),
            ("[a]\nprice_ugx = 1\n".into(), "a.display_name"),
            (with_limits("").replace("= 1", "= -1"), "a.price_ugx"),
            (with_limits("").replace("= 1", "= 'x'"), "a.price_ugx"),
            (with_limits("").replace("[a", "[B"), "B"),
            ("[a\n".into(), "plans.toml line 1"),
            (String::new(), "plans.file"),
        ] {
            assert!(
                refusal(&text).starts_with(named),
                "{named}: {}",
                refusal(&text)
            );
        }
        assert!(Plans::load(Some(Path::new("/nonexistent/plans.toml"))).is_err());
    }
}
