//! Plans: the limits and features of projects, from a file (`config/plans.toml` is built in).
//!
//! Prices and balances are whole Ugandan shillings, since the API's contract names this currency in a field that clients read: `price_ugx`
//! (ISO 4217; no smaller unit is in use). Another currency would need fields of its own; an operator's own billing service (`billing.url`)
//! can bill in any currency.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::non_null::object;
use crate::schema::word_enum;
use crate::{ErrorCode, Problem};

/// Price, limits and features of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name in user interfaces.
    pub display_name: String,
    /// Monthly price in Ugandan shillings.
    pub price_ugx: i64,
    /// The maximum numbers.
    #[serde(deserialize_with = "object")]
    pub limits: PlanLimits,
    /// The included features.
    #[serde(deserialize_with = "object")]
    pub features: PlanFeatures,
    /// Price of a participant minute above the monthly limit, in Ugandan shillings; absent if none can be bought.
    #[serde(default)]
    pub overage_ugx_per_minute: Option<i64>,
}

/// The maximum numbers of a plan; null is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
// A misspelled limit would otherwise mean "unlimited".
#[serde(default, deny_unknown_fields)]
pub struct PlanLimits {
    /// Maximum number of open rooms.
    pub concurrent_rooms: Option<u32>,
    /// Maximum number of participants in one room.
    pub participants_per_room: Option<u32>,
    /// Included participant minutes in a calendar month (UTC).
    pub participant_minutes_per_month: Option<u32>,
}

/// The features that a plan includes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlanFeatures {
    /// Whether rooms can be recorded.
    pub recording: bool,
    /// Whether broadcasts and ingress can be used.
    pub streaming: bool,
}

word_enum! {
    /// A feature that a plan may include. Operations that need it respond with 402 `feature_not_in_plan` without it.
    Feature {
        /// Recordings and their destinations.
        Recording = "recording",
        /// Broadcasts and their destinations, and ingress.
        Streaming = "streaming",
    }
}

impl PlanFeatures {
    /// Checks that the plan includes the feature.
    ///
    /// # Errors
    /// 402 `feature_not_in_plan`, `field` the feature.
    pub fn ensure_included(self, feature: Feature) -> Result<(), Problem> {
        let included = match feature {
            Feature::Recording => self.recording,
            Feature::Streaming => self.streaming,
        };
        if included {
            return Ok(());
        }
        let message = format!("the plan does not include {}", feature.as_str());
        Err(Problem::new(ErrorCode::FeatureNotInPlan, message).at(feature.as_str()))
    }
}

impl Plan {
    /// Returns whether anything in the plan costs money.
    pub fn has_price(&self) -> bool {
        self.price_ugx > 0 || self.overage_ugx_per_minute.is_some_and(|price| price > 0)
    }

    /// Returns the effective maximum number of participants in a room: the smaller of its own and the plan's; `None` is unlimited.
    pub fn effective_cap(&self, max_participants: u32) -> Option<u32> {
        // In a request, 0 means the plan's maximum.
        let own = Some(max_participants).filter(|cap| *cap > 0);
        match (own, self.limits.participants_per_room) {
            // The plan may have changed since the room was created.
            (Some(own), Some(plan)) => Some(own.min(plan)),
            (own, plan) => own.or(plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_both_caps_counts_and_zero_leaves_it_to_the_plan() {
        let plan = |cap| Plan {
            display_name: String::new(),
            price_ugx: 0,
            limits: PlanLimits {
                participants_per_room: cap,
                ..PlanLimits::default()
            },
            features: PlanFeatures::default(),
            overage_ugx_per_minute: None,
        };
        assert_eq!(plan(None).effective_cap(0), None);
        assert_eq!(plan(Some(10)).effective_cap(0), Some(10));
        assert_eq!(plan(Some(10)).effective_cap(4), Some(4));
        assert_eq!(plan(None).effective_cap(4), Some(4));
    }

    #[test]
    fn a_feature_that_is_not_included_is_refused_by_its_name() {
        let features = PlanFeatures {
            recording: true,
            streaming: false,
        };
        assert_eq!(features.ensure_included(Feature::Recording), Ok(()));
        let refusal = features.ensure_included(Feature::Streaming).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.field.as_deref()),
            (ErrorCode::FeatureNotInPlan, Some("streaming"))
        );
    }
}
