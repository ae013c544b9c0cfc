//! Usage and plan.

use conclave_model::plan::{Plan, PlanFeatures, PlanLimits};
use conclave_model::usage::{Day, MonthUse, QuotaDecision, QuotaState, UsageDay, minutes};
use conclave_model::{ErrorCode, Problem};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{AnyBody, AnyQuery, Input, NoBody, NoParams};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::quota::{self, QuotaOwner};
use crate::http::api::response::Json;
use crate::http::api::spec::Method;

/// Days before `to` that are shown if `from` is omitted.
const DEFAULT_WINDOW_DAYS: i64 = 29;
/// Maximum range in days, since the response has a row per day.
const WIDEST_WINDOW_DAYS: i64 = 3_660;

/// The days that are shown.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct UsageQuery {
    /// First day, YYYY-MM-DD; default 29 days before `to`
    #[param(inline)]
    from: Option<Day>,
    /// Last day, YYYY-MM-DD; default today in UTC
    #[param(inline)]
    to: Option<Day>,
}

/// A project's usage.
#[derive(Serialize, ToSchema)]
pub struct Usage {
    /// One for each day in range.
    pub days: Vec<UsageDayJson>,
    pub total_participant_minutes: f64,
    pub plan: PlanStatus,
}

/// Usage on one day.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageDay)]
pub struct UsageDayJson {
    pub date: Day,
    /// A session over midnight counts on each day; an open session counts until now.
    pub participant_minutes: f64,
    /// Sessions that started on that day.
    pub sessions: u32,
}

/// A project's status under its plan.
#[derive(Serialize, ToSchema)]
pub struct PlanStatus {
    pub plan_id: String,
    pub display_name: String,
    /// Monthly price in Ugandan shillings.
    pub price_ugx: i64,
    pub limits: PlanLimits,
    pub features: PlanFeatures,
    /// `active`, `suspended` or `exceeded`. If a billing service keeps the wallet, its decision counts; while it is unreachable,
    /// `/v1/plan` shows the state by the records alone.
    pub quota_state: QuotaState,
    /// First day of the billing period.
    pub period_start: Day,
    pub participant_minutes_used: f64,
    /// Null when the plan has no limit.
    pub participant_minutes_remaining: Option<f64>,
    /// Rooms open now.
    pub active_rooms: u32,
}

impl From<UsageDay> for UsageDayJson {
    fn from(day: UsageDay) -> Self {
        Self {
            date: day.day,
            participant_minutes: minutes(day.participant_time),
            sessions: day.sessions,
        }
    }
}

fn plan_example() -> serde_json::Value {
    json!({
        "plan_id": "free", "display_name": "Free", "price_ugx": 0,
        "limits": {"concurrent_rooms": 2, "participants_per_room": 10, "participant_minutes_per_month": 10000},
        "features": {"recording": false, "streaming": false}, "quota_state": "active",
        "period_start": "2026-01-01", "participant_minutes_used": 12.5, "participant_minutes_remaining": 9987.5,
        "active_rooms": 1
    })
}

/// Returns the operations that read usage and plan.
pub fn operations() -> Vec<Box<dyn Operation>> {
    let usage_example = json!({
        "days": [{"date": "2026-01-31", "participant_minutes": 12.5, "sessions": 2}],
        "total_participant_minutes": 12.5, "plan": plan_example()
    });
    vec![
        operation(Method::Get, "/v1/usage", "get_usage", usage)
            .about("usage", "Read participant minutes by day")
            .responds(usage_example)
            .errors(&[
                // The contract lists 503 here.
                ErrorCode::BillingUnavailable,
                ErrorCode::DatabaseUnavailable,
            ])
            .build(),
        // The contract lists no 503 here, so without the billing service the records decide (`quota`).
        operation(Method::Get, "/v1/plan", "get_plan", plan)
            .about("usage", "Read the project's status under its plan")
            .responds(plan_example())
            .build(),
    ]
}

/// Returns the project's current status under its plan.
async fn plan_status(
    context: &RequestContext,
    owner: QuotaOwner,
    today: Day,
) -> Result<PlanStatus> {
    let plan = quota::plan(&context.state.plans, &owner.plan)?;
    let month = quota::month(&context.state, &owner.project, plan).await?;
    let ledger = QuotaDecision::from_ledger(plan, owner.status, &month);
    let decision = quota::confirm(&context.state, &owner.project, ledger, context.spec).await?;
    Ok(PlanStatus::new(
        owner.plan.to_string(),
        plan,
        decision,
        &month,
        today,
    ))
}

impl PlanStatus {
    fn new(id: String, plan: &Plan, decision: QuotaDecision, month: &MonthUse, today: Day) -> Self {
        let used = minutes(month.participant_time);
        // With overage, usage can exceed the block.
        let remaining = |block: u32| (f64::from(block) - used).max(0.0);
        Self {
            plan_id: id,
            display_name: plan.display_name.clone(),
            price_ugx: plan.price_ugx,
            limits: plan.limits,
            features: plan.features,
            quota_state: decision.quota_state(),
            // A calendar month in UTC.
            period_start: Day::from(today.start().month_start()),
            participant_minutes_used: used,
            participant_minutes_remaining: plan.limits.participant_minutes_per_month.map(remaining),
            active_rooms: month.active_rooms,
        }
    }
}

impl UsageQuery {
    /// Returns the first and the last day, with defaults applied.
    fn range(&self, today: Day) -> Result<(Day, Day), Problem> {
        let to = self.to.unwrap_or(today);
        let from = self.from.unwrap_or_else(|| to.plus(-DEFAULT_WINDOW_DAYS));
        if from > to {
            return Err(Problem::invalid("from", "must not be later than to"));
        }
        if to.number() - from.number() > WIDEST_WINDOW_DAYS {
            return Err(Problem::invalid(
                "from",
                format!("must be at most {WIDEST_WINDOW_DAYS} days before to"),
            ));
        }
        Ok((from, to))
    }
}

pub async fn usage(
    context: RequestContext,
    input: Input<NoParams, UsageQuery, NoBody>,
) -> Result<Json<Usage>> {
    let today = Day::from(context.state.clock.now());
    let (from, to) = input.query.range(today)?;
    let owner = context.owner().await?;
    let project = owner.project.clone();
    // Before the days, because settling earlier months is part of it.
    let plan = plan_status(&context, owner, today).await?;
    let days = context.state.store.usage().days(project, from, to).await?;
    Ok(Json(Usage {
        total_participant_minutes: minutes(days.iter().map(|day| day.participant_time).sum()),
        days: days.into_iter().map(UsageDayJson::from).collect(),
        plan,
    }))
}

async fn plan(
    context: RequestContext,
    // The contract lists no 400 here, so query and body are not parsed.
    _: Input<NoParams, AnyQuery, AnyBody>,
) -> Result<Json<PlanStatus>> {
    let (owner, today) = (context.owner().await?, Day::from(context.state.clock.now()));
    plan_status(&context, owner, today).await.map(Json)
}
