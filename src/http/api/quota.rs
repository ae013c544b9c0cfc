//! Whether a project may start work: its status, its plan's minutes, and its wallet.
//!
//! The records decide, unless a billing service keeps the wallets. In that case, refusals by the operator and by the plan still come
//! first and need no request to the service; decisions that depend on the wallet are the service's. While the service is unreachable,
//! operations that list `billing_unavailable` return it; the others fall back to the records, including the local wallet.

use std::sync::Arc;

use conclave_model::plan::Plan;
use conclave_model::project::ProjectStatus;
use conclave_model::usage::{BillingVerdict, MonthUse, QuotaDecision};
use conclave_model::{ErrorCode, ProjectId};

use super::error::ApiError;
use super::spec::OperationSpec;
use crate::billing::BillingError;
use crate::config::Plans;
use crate::http::state::AppState;

/// A project's fields for quota decisions, as last read.
#[derive(Debug, Clone)]
pub struct QuotaOwner {
    /// The project's id.
    pub project: ProjectId,
    /// Whether the operator has suspended it.
    pub status: ProjectStatus,
    /// The plan's id.
    pub plan: Arc<str>,
}

/// Returns a project's plan.
///
/// # Errors
/// 500 if the plan is not configured.
pub fn plan<'a>(plans: &'a Plans, id: &str) -> Result<&'a Plan, ApiError> {
    plans
        .get(id)
        // A mistake in the operator's plans, which no client can avoid.
        .ok_or_else(|| ApiError::internal(format!("the plan {id:?} is not configured")))
}

/// Returns the usage in the current month, after settling earlier months.
///
/// # Errors
/// The store's errors.
pub async fn month(
    state: &AppState,
    project: &ProjectId,
    plan: &Plan,
) -> Result<MonthUse, ApiError> {
    let month = state.store.usage().month_use(project.clone()).await?;
    if month.settled {
        return Ok(month);
    }
    // A new month starts without a scheduled job: the first request that needs the sum settles the months before it. Boxed, since all
    // others would have the space of its future in theirs.
    Box::pin(settle(state, project, plan)).await
}

/// Settles earlier months, and returns the usage in the current one.
async fn settle(state: &AppState, project: &ProjectId, plan: &Plan) -> Result<MonthUse, ApiError> {
    let mut plan = plan.clone();
    if state.billing.is_some() {
        // The billing service charges for the month; settling it here, too, would charge twice.
        plan.overage_ugx_per_minute = None;
    }
    state
        .store
        .usage()
        .settle_months(project.clone(), plan)
        .await?;
    // Settling charged the wallet, so the balance read above is out of date.
    Ok(state.store.usage().month_use(project.clone()).await?)
}

/// Requests a verdict from the billing service. Returns `None` without a service, and if it is unreachable and the operation does not
/// list `billing_unavailable`: then the ledger decides alone.
pub async fn billing_verdict(
    state: &AppState,
    project: &ProjectId,
    operation: &OperationSpec,
) -> Option<Result<BillingVerdict, BillingError>> {
    // Boxed, since most servers have no such service, and their requests would have the space of its future in theirs.
    let verdict = Box::pin(state.billing.as_ref()?.verdict(project)).await;
    // An operation that does not list the code may not return it (contract), so it has to go on without a verdict.
    // Keeps verdicts, and errors that the operation may return.
    Some(verdict).filter(|verdict| {
        verdict.is_ok() || operation.errors.contains(&ErrorCode::BillingUnavailable)
    })
}

/// Replaces the ledger's decision by the billing service's verdict where it depends on the balance.
///
/// # Errors
/// 503 `billing_unavailable`.
pub fn with_billing(
    ledger: QuotaDecision,
    verdict: Option<Result<BillingVerdict, BillingError>>,
) -> Result<QuotaDecision, ApiError> {
    // Suspension and a spent block stand whatever the service replies.
    match verdict.filter(|_| ledger.depends_on_balance()) {
        None => Ok(ledger),
        Some(verdict) => Ok(ledger.with_billing(verdict?)),
    }
}

/// Requests a verdict from the billing service if the ledger's decision depends on the balance, and combines the two.
///
/// # Errors
/// 503 `billing_unavailable`.
pub async fn confirm(
    state: &AppState,
    project: &ProjectId,
    ledger: QuotaDecision,
    operation: &OperationSpec,
) -> Result<QuotaDecision, ApiError> {
    let verdict = if ledger.depends_on_balance() {
        // Only then, because it costs a call to another service.
        billing_verdict(state, project, operation).await
    } else {
        None
    };
    with_billing(ledger, verdict)
}

/// Returns the decision by the records alone.
async fn ledger(
    state: &AppState,
    owner: &QuotaOwner,
    plan: &Plan,
) -> Result<QuotaDecision, ApiError> {
    // First, as it needs no further read.
    if owner.status == ProjectStatus::Suspended {
        return Ok(QuotaDecision::Suspended);
    }
    // Without a monthly block there is nothing to add up, and no reason to read the month.
    if plan.limits.participant_minutes_per_month.is_none() {
        return Ok(QuotaDecision::Allowed);
    }
    let month = month(state, &owner.project, plan).await?;
    Ok(QuotaDecision::from_ledger(plan, owner.status, &month))
}

/// Refuses an operation that starts work unless the project's plan and wallet cover it.
///
/// # Errors
/// 402 `quota_exceeded` for a suspended project or a month without minutes left, 402 `insufficient_balance` for an empty wallet, 503
/// `billing_unavailable` if the billing service is unreachable and the operation lists that code.
pub async fn ensure_can_start_work(
    state: &AppState,
    owner: &QuotaOwner,
    operation: &OperationSpec,
) -> Result<(), ApiError> {
    let plan = plan(&state.plans, &owner.plan)?;
    let ledger = ledger(state, owner, plan).await?;
    Ok(confirm(state, &owner.project, ledger, operation)
        .await?
        .ensure_can_start_work()?)
}
