//! Usage: participant minutes by day and by month, and whether plan and wallet cover them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use utoipa::openapi::{KnownFormat, SchemaFormat};

use crate::plan::Plan;
use crate::project::ProjectStatus;
use crate::schema::word_enum;
use crate::{ErrorCode, Problem, Timestamp};

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;
const MINUTE_MILLIS: u64 = 60 * 1_000;

/// Calendar day in UTC, written `YYYY-MM-DD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

/// The text is not a calendar day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a day, like 2026-01-31")]
pub struct ParseDayError;

impl Day {
    /// Returns the day that is `number` days after 1970-01-01.
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Returns the days since 1970-01-01.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Returns when the day starts.
    pub const fn start(self) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_mul(DAY_MILLIS))
    }

    /// Returns the day that is `days` later, or earlier if negative.
    #[must_use]
    pub const fn plus(self, days: i64) -> Self {
        Self(self.0.saturating_add(days))
    }
}

impl From<Timestamp> for Day {
    /// Returns the day in UTC that contains the instant.
    fn from(at: Timestamp) -> Self {
        // Rounds down, also before 1970.
        Self(at.millis().div_euclid(DAY_MILLIS))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The date part of an RFC 3339 timestamp.
        let start = self.start().to_string();
        f.write_str(start.split('T').next().unwrap_or(&start))
    }
}

impl FromStr for Day {
    type Err = ParseDayError;

    fn from_str(text: &str) -> Result<Self, ParseDayError> {
        if text.len() != 10 {
            return Err(ParseDayError);
        }
        let start: Timestamp = format!("{text}T00:00:00Z")
            .parse()
            .map_err(|_| ParseDayError)?;
        // Timestamps clamp years that they cannot represent, so the result may be another day.
        Some(Self::from(start))
            .filter(|day| day.to_string() == text)
            .ok_or(ParseDayError)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl utoipa::PartialSchema for Day {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        // Looser than the parser, which also rejects days that do not exist.
        let pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-[0-9]{2}-[0-9]{2}$";
        let date =
            crate::schema::string("A calendar day in UTC, from 1970 on.").pattern(Some(pattern));
        date.format(Some(SchemaFormat::KnownFormat(KnownFormat::Date)))
            .into()
    }
}

crate::schema::read_by_from_str!(Day);

/// Divides the time between two instants among the days that it touches.
pub fn by_day(from: Timestamp, to: Timestamp) -> impl Iterator<Item = (Day, Duration)> {
    let (first, last) = (Day::from(from).number(), Day::from(to).number());
    (first..=last)
        .map(Day::from_number)
        .map(move |day| {
            (
                day,
                // The part of the day that lies in the interval.
                to.min(day.plus(1).start()).since(from.max(day.start())),
            )
        })
        // A stay that ends at midnight does not touch the next day.
        .filter(|(_, within)| !within.is_zero())
}

/// Usage on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageDay {
    /// Calendar day in UTC.
    pub day: Day,
    /// Time that participants spent in rooms on this day.
    pub participant_time: Duration,
    /// Number of sessions that started on this day.
    pub sessions: u32,
}

/// Usage in the current month so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonthUse {
    /// Time that participants spent in rooms.
    pub participant_time: Duration,
    /// Balance at the start of the month plus credits since, in Ugandan shillings.
    pub balance_ugx: i64,
    /// Whether earlier months are settled.
    pub settled: bool,
    /// Number of open rooms.
    pub active_rooms: u32,
}

/// Returns the time in minutes, with fractions.
pub fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

/// Returns the price of a month's time above the plan's limit, rounded up to whole minutes; 0
/// without a price.
pub fn overage_ugx(plan: &Plan, participant_time: Duration) -> i64 {
    let (Some(block), Some(price)) = (
        plan.limits.participant_minutes_per_month,
        plan.overage_ugx_per_minute,
    ) else {
        return 0;
    };
    // Saturated: a time that does not fit is above every limit.
    let used = u64::try_from(participant_time.as_millis()).unwrap_or(u64::MAX);
    // In milliseconds, so that a started minute is rounded up only once per month.
    let past = used.saturating_sub(u64::from(block).saturating_mul(MINUTE_MILLIS));
    i64::try_from(past.div_ceil(MINUTE_MILLIS))
        .unwrap_or(i64::MAX)
        .saturating_mul(price)
}

/// External billing service's verdict on a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BillingVerdict {
    /// The wallet covers more work.
    Ok,
    /// The wallet does not cover more work.
    InsufficientBalance,
    /// The service suspended the project.
    Suspended,
}

word_enum! {
    /// A project's quota, as the plan status shows it.
    QuotaState {
        /// The project can start work.
        Active = "active",
        /// The project cannot start work: it is suspended.
        Suspended = "suspended",
        /// The project cannot start work: minutes or balance are spent.
        Exceeded = "exceeded",
    }
}

/// Decision whether a project may start work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaDecision {
    /// The project may start work.
    Allowed,
    /// The operator or the billing service suspended it.
    Suspended,
    /// The included minutes are spent, and the plan has no price for more.
    BlockSpent,
    /// The included minutes and the wallet are spent, or the billing service reports an empty wallet.
    WalletEmpty,
}

impl QuotaDecision {
    /// Decides by recorded minutes, credits and settlements.
    pub fn from_ledger(plan: &Plan, status: ProjectStatus, month: &MonthUse) -> Self {
        let block = plan
            .limits
            .participant_minutes_per_month
            .map(|block| Duration::from_secs(u64::from(block) * 60));
        let spent = block.is_some_and(|block| month.participant_time >= block);
        // Not yet settled, so the balance still includes it.
        let owed = overage_ugx(plan, month.participant_time);
        match (status, spent, plan.overage_ugx_per_minute) {
            // The operator's decision comes first.
            (ProjectStatus::Suspended, _, _) => Self::Suspended,
            // Without a price, no balance helps.
            (ProjectStatus::Active, true, None) => Self::BlockSpent,
            // A balance that equals the debt does not pay for the next minute.
            (ProjectStatus::Active, true, Some(_)) if month.balance_ugx <= owed => {
                Self::WalletEmpty
            }
            // Within the limit, the wallet does not matter.
            (ProjectStatus::Active, _, _) => Self::Allowed,
        }
    }

    /// Returns whether the decision depends on the wallet. A refusal by the operator or the plan
    /// does not.
    pub const fn depends_on_balance(self) -> bool {
        // Only in these cases did the wallet decide.
        matches!(self, Self::Allowed | Self::WalletEmpty)
    }

    /// Replaces the recorded wallet state by the billing service's verdict.
    #[must_use]
    pub const fn with_billing(self, verdict: BillingVerdict) -> Self {
        match verdict {
            // The service cannot lift the operator's suspension or the plan's limit.
            _ if !self.depends_on_balance() => self,
            BillingVerdict::Ok => Self::Allowed,
            BillingVerdict::InsufficientBalance => Self::WalletEmpty,
            // As if the operator had suspended the project.
            BillingVerdict::Suspended => Self::Suspended,
        }
    }

    /// Returns the state that the plan status shows.
    pub const fn quota_state(self) -> QuotaState {
        match self {
            Self::Allowed => QuotaState::Active,
            Self::Suspended => QuotaState::Suspended,
            // The contract has one state for both.
            Self::BlockSpent | Self::WalletEmpty => QuotaState::Exceeded,
        }
    }

    /// Checks that the project can start work.
    ///
    /// # Errors
    /// 402 `quota_exceeded` or `insufficient_balance`.
    pub fn ensure_can_start_work(self) -> Result<(), Problem> {
        let (code, message) = match self {
            Self::Allowed => return Ok(()),
            Self::Suspended => (ErrorCode::QuotaExceeded, "the project is suspended"),
            Self::BlockSpent => (
                ErrorCode::QuotaExceeded,
                "the month's participant minutes are spent",
            ),
            Self::WalletEmpty => (
                ErrorCode::InsufficientBalance,
                "the wallet cannot cover more work",
            ),
        };
        Err(Problem::new(code, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanFeatures, PlanLimits};
    use proptest::prelude::*;

    fn plan(price: Option<i64>) -> Plan {
        Plan {
            display_name: String::new(),
            price_ugx: 0,
            limits: PlanLimits {
                participant_minutes_per_month: Some(10),
                ..PlanLimits::default()
            },
            features: PlanFeatures::default(),
            overage_ugx_per_minute: price,
        }
    }

    fn month(seconds: u64, balance_ugx: i64) -> MonthUse {
        MonthUse {
            participant_time: Duration::from_secs(seconds),
            balance_ugx,
            settled: true,
            active_rooms: 0,
        }
    }

    #[test]
    fn a_day_reads_and_writes_as_a_date_and_as_nothing_else() {
        let day: Day = "2024-02-29".parse().unwrap();
        assert_eq!(
            (day.to_string(), day.plus(1).to_string()),
            ("2024-02-29".into(), "2024-03-01".into())
        );
        for text in [
            "2023-02-29",
            "2024-2-29",
            "24-02-2024",
            "2024-02-29T",
            "1969-12-31",
            "",
            "0000-00-00",
        ] {
            assert!(text.parse::<Day>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_stretch_over_midnight_counts_on_both_days() {
        let (from, to) = (
            "2026-01-31T23:59:00Z".parse().unwrap(),
            "2026-02-01T00:02:00Z".parse().unwrap(),
        );
        let days: Vec<_> = by_day(from, to)
            .map(|(day, time)| (day.to_string(), time.as_secs()))
            .collect();
        assert_eq!(
            days,
            [
                ("2026-01-31".to_owned(), 60),
                ("2026-02-01".to_owned(), 120)
            ]
        );
    }

    #[test]
    fn a_spent_block_refuses_or_costs_and_a_suspended_project_is_refused_first() {
        let of = |price, seconds, balance| {
            QuotaDecision::from_ledger(
                &plan(price),
                ProjectStatus::Active,
                &month(seconds, balance),
            )
        };
        assert_eq!(of(None, 599, 0), QuotaDecision::Allowed);
        assert_eq!(of(None, 600, 0), QuotaDecision::BlockSpent);
        assert_eq!(of(Some(5), 600, 0), QuotaDecision::WalletEmpty);
        assert_eq!(of(Some(5), 661, 10), QuotaDecision::WalletEmpty);
        assert_eq!(of(Some(5), 660, 10), QuotaDecision::Allowed);
        let suspended =
            QuotaDecision::from_ledger(&plan(None), ProjectStatus::Suspended, &month(600, 0));
        assert_eq!(
            (suspended, suspended.quota_state()),
            (QuotaDecision::Suspended, QuotaState::Suspended)
        );
    }

    #[test]
    fn only_an_allowed_project_can_start_work() {
        let code = |decision: QuotaDecision| {
            decision
                .ensure_can_start_work()
                .map_err(|problem| problem.code)
        };
        assert_eq!(code(QuotaDecision::Allowed), Ok(()));
        assert_eq!(
            code(QuotaDecision::Suspended),
            Err(ErrorCode::QuotaExceeded)
        );
        assert_eq!(
            code(QuotaDecision::BlockSpent),
            Err(ErrorCode::QuotaExceeded)
        );
        assert_eq!(
            code(QuotaDecision::WalletEmpty),
            Err(ErrorCode::InsufficientBalance)
        );
    }

    #[test]
    fn ninety_seconds_are_one_and_a_half_minutes_and_cost_two_above_the_block() {
        assert!((minutes(Duration::from_secs(90)) - 1.5).abs() < f64::EPSILON);
        let price = |past: u64| overage_ugx(&plan(Some(5)), Duration::from_secs(600 + past));
        assert_eq!([0, 1, 60, 90].map(price), [0, 5, 5, 10]);
    }

    #[test]
    fn a_billing_service_decides_about_the_wallet_and_about_nothing_else() {
        let words = [
            BillingVerdict::Ok,
            BillingVerdict::InsufficientBalance,
            BillingVerdict::Suspended,
        ];
        for ledger in [QuotaDecision::Allowed, QuotaDecision::WalletEmpty] {
            let billed = words.map(|verdict| ledger.with_billing(verdict));
            assert_eq!(
                billed,
                [
                    QuotaDecision::Allowed,
                    QuotaDecision::WalletEmpty,
                    QuotaDecision::Suspended
                ]
            );
        }
        for ledger in [QuotaDecision::Suspended, QuotaDecision::BlockSpent] {
            assert_eq!(
                words.map(|verdict| ledger.with_billing(verdict)),
                [ledger; 3]
            );
        }
    }

    proptest! {
        #[test]
        fn the_days_of_a_stretch_add_up_to_it(from in 0i64..4_000_000_000_000, span in 0u64..400_000_000) {
            let from = Timestamp::from_millis(from);
            let to = from.after(Duration::from_millis(span));
            let total: Duration = by_day(from, to).map(|(_, time)| time).sum();
            prop_assert_eq!(total, to.since(from));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = text.parse::<Day>();
        }
    }
}
