//! Usage and the plan (contract "Usage and plan").

use conclave_model::plan::{Plan, PlanFeatures, PlanLimits};
use conclave_model::project::ProjectStatus;
use conclave_model::usage::{Day, MonthUse, QuotaDecision, QuotaState, UsageDay, minutes};
use conclave_model::{ErrorCode, ProjectId};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::call::{Call, Caller};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store};
use crate::http::standing;

/// Days that are shown when the caller does not say from when.
const DEFAULT_WINDOW_DAYS: i64 = 29;
/// The widest window: a row a day is made for all of it.
const WIDEST_WINDOW_DAYS: i64 = 3_660;

/// What a project used.
#[derive(Serialize, ToSchema)]
pub struct Usage<'a> {
    /// One for each day in range.
    days: Vec<UsageDayJson>,
    total_participant_minutes: f64,
    plan: PlanStatus<'a>,
}

/// What one day saw.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageDay)]
pub struct UsageDayJson {
    #[schema(value_type = String, format = Date)]
    date: Day,
    /// A session over midnight counts on each day; one that is still open counts to now.
    participant_minutes: f64,
    /// Sessions that began that day.
    sessions: u32,
}

/// How a project stands with its plan.
#[derive(Serialize, ToSchema)]
pub struct PlanStatus<'a> {
    plan_id: &'a str,
    display_name: &'a str,
    /// Monthly price in Ugandan shillings.
    price_ugx: i64,
    limits: PlanLimits,
    features: PlanFeatures,
    /// `active`, `suspended` or `exceeded`. Where a billing service keeps the wallet, its word counts; `/v1/plan` shows
    /// what the records alone say while the service is away.
    quota_state: QuotaState,
    /// First day of the billing period.
    #[schema(value_type = String, format = Date)]
    period_start: Day,
    participant_minutes_used: f64,
    /// Null when the plan has no limit.
    participant_minutes_remaining: Option<f64>,
    /// Rooms open now.
    active_rooms: u32,
}

impl From<&UsageDay> for UsageDayJson {
    fn from(day: &UsageDay) -> Self {
        Self { date: day.day, participant_minutes: minutes(day.participant_time), sessions: day.sessions }
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

/// Usage and the plan.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "get_usage",
        Method::Get,
        "/v1/usage",
        &[200],
        |call| Box::pin(usage(call)),
        || {
            Doc::new("usage", "Read participant minutes by day")
                .query(Param::formatted("from", "First day, YYYY-MM-DD; default 29 days before `to`", "date"))
                .query(Param::formatted("to", "Last day, YYYY-MM-DD; default today in UTC", "date"))
                .answer::<Usage<'_>>(json!({
                    "days": [{"date": "2026-01-31", "participant_minutes": 12.5, "sessions": 2}],
                    "total_participant_minutes": 12.5, "plan": plan_example()
                }))
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::BillingUnavailable, ErrorCode::DatabaseUnavailable]),
    Operation::new(
        "get_plan",
        Method::Get,
        "/v1/plan",
        &[200],
        |call| Box::pin(plan(call)),
        || Doc::new("usage", "Read how the project stands with its plan").answer::<PlanStatus<'_>>(plan_example()),
    ),
];

/// Who calls: these calls take keys alone.
fn owner(call: &Call) -> Result<(&ProjectId, ProjectStatus, &str), Problem> {
    match &call.caller {
        Caller::Key(credential) => Ok((&credential.project_id, credential.project_status, credential.plan.as_str())),
        Caller::RoomToken(_) | Caller::Anyone => Err(Problem::internal().because("passed without a key")),
    }
}

fn plan_status<'a>(
    id: &'a str,
    plan: &'a Plan,
    standing: QuotaDecision,
    month: &MonthUse,
    today: Day,
) -> PlanStatus<'a> {
    let used = minutes(month.participant_time);
    PlanStatus {
        plan_id: id,
        display_name: &plan.display_name,
        price_ugx: plan.price_ugx,
        limits: plan.limits,
        features: plan.features,
        quota_state: standing.quota_state(),
        period_start: Day::from(today.start().month_start()),
        participant_minutes_used: used,
        participant_minutes_remaining: plan
            .limits
            .participant_minutes_per_month
            .map(|block| (f64::from(block) - used).max(0.0)),
        active_rooms: month.active_rooms,
    }
}

async fn usage(call: Call) -> Result<Response, Problem> {
    let today = Day::from(call.state.clock.now());
    let mut query = call.query()?;
    let (from, to) = (query.parsed::<Day>("from")?, query.parsed::<Day>("to")?);
    query.finish()?;
    let to = to.unwrap_or(today);
    let from = from.unwrap_or_else(|| to.plus(-DEFAULT_WINDOW_DAYS));
    if from > to {
        return Err(Problem::invalid("from", "must not be later than to"));
    }
    if to.number() - from.number() > WIDEST_WINDOW_DAYS {
        return Err(Problem::invalid("from", format!("must be at most {WIDEST_WINDOW_DAYS} days before to")));
    }
    let (project, status, id) = owner(&call)?;
    let plan = standing::plan(&call.state.plans, id)?;
    let month = standing::month(&call.state, project, plan).await?;
    let ledger = QuotaDecision::from_ledger(plan, status, &month);
    let standing = standing::confirm(&call.state, project, ledger, call.operation).await?;
    let days = call.state.store.usage_days(project.clone(), from, to).await.map_err(of_store)?;
    Ok(answer::ok(&Usage {
        total_participant_minutes: minutes(days.iter().map(|day| day.participant_time).sum()),
        days: days.iter().map(UsageDayJson::from).collect(),
        plan: plan_status(id, plan, standing, &month, today),
    }))
}

async fn plan(call: Call) -> Result<Response, Problem> {
    // This call lists no 400, so what comes in its query is not looked at.
    let (project, status, id) = owner(&call)?;
    let plan = standing::plan(&call.state.plans, id)?;
    let month = standing::month(&call.state, project, plan).await?;
    let ledger = QuotaDecision::from_ledger(plan, status, &month);
    let standing = standing::confirm(&call.state, project, ledger, call.operation).await?;
    let today = Day::from(call.state.clock.now());
    Ok(answer::ok(&plan_status(id, plan, standing, &month, today)))
}
