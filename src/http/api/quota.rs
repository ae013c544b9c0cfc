//! Whether a project may start work: its status, its plan's block of minutes, and its wallet.
//!
//! The records decide, unless a billing service keeps the wallets. Then refusals by the operator and by the plan still come
//! first and need no question; whatever rests on the wallet is the service's decision. While the service does not answer,
//! operations that list `billing_unavailable` respond with it; the others go by the records alone, the local wallet included.

use conclave_model::plan::Plan;
use conclave_model::project::ProjectStatus;
use conclave_model::usage::{BillingVerdict, MonthUse, QuotaDecision};
use conclave_model::{ErrorCode, ProjectId};

use super::error::ApiError;
use super::spec::OperationSpec;
use crate::billing::BillingError;
use crate::config::Plans;
use crate::http::state::AppState;

/// A project with what decides about its quota, as last read.
#[derive(Debug, Clone)]
pub struct Owner {
    /// The id of the project.
    pub project: ProjectId,
    /// Whether the operator lets it start work.
    pub status: ProjectStatus,
    /// Its plan's id.
    pub plan: String,
}

/// The plan of a project.
///
/// # Errors
/// 500 for one that is not configured.
pub fn plan<'a>(plans: &'a Plans, id: &str) -> Result<&'a Plan, ApiError> {
    plans
        .get(id)
        .ok_or_else(|| ApiError::internal(format!("the plan {id:?} is not configured")))
}

/// The use of the current month, once the months before it are settled.
///
/// # Errors
/// The store's own.
pub async fn month(
    state: &AppState,
    project: &ProjectId,
    plan: &Plan,
) -> Result<MonthUse, ApiError> {
    let month = state.store.usage().month_use(project.clone()).await?;
    if month.settled {
        return Ok(month);
    }
    let mut plan = plan.clone();
    if state.billing.is_some() {
        // The billing service takes what the month cost; taken here, too, it would be paid twice.
        plan.overage_ugx_per_minute = None;
    }
    state
        .store
        .usage()
        .settle_months(project.clone(), plan)
        .await?;
    Ok(state.store.usage().month_use(project.clone()).await?)
}

/// Asks the billing service about a project. `None` without a service, and while it does not answer from an operation that
/// does not list `billing_unavailable`: the ledger decides alone then.
pub async fn ask_billing(
    state: &AppState,
    project: &ProjectId,
    operation: &OperationSpec,
) -> Option<Result<BillingVerdict, BillingError>> {
    let said = state.billing.as_ref()?.verdict(project).await;
    Some(said)
        .filter(|said| said.is_ok() || operation.errors.contains(&ErrorCode::BillingUnavailable))
}

/// The ledger's decision, replaced by the billing service's where the wallet decides.
///
/// # Errors
/// 503 `billing_unavailable`.
pub fn with_billing(
    ledger: QuotaDecision,
    said: Option<Result<BillingVerdict, BillingError>>,
) -> Result<QuotaDecision, ApiError> {
    match said.filter(|_| ledger.depends_on_balance()) {
        None => Ok(ledger),
        Some(said) => Ok(ledger.with_billing(said?)),
    }
}

/// The decision about a project, with the billing service asked where the wallet decides.
///
/// # Errors
/// 503 `billing_unavailable`.
pub async fn confirm(
    state: &AppState,
    project: &ProjectId,
    ledger: QuotaDecision,
    operation: &OperationSpec,
) -> Result<QuotaDecision, ApiError> {
    let said = if ledger.depends_on_balance() {
        ask_billing(state, project, operation).await
    } else {
        None
    };
    with_billing(ledger, said)
}

/// The decision by the records alone.
async fn ledger(state: &AppState, owner: &Owner, plan: &Plan) -> Result<QuotaDecision, ApiError> {
    if owner.status == ProjectStatus::Suspended {
        return Ok(QuotaDecision::Suspended);
    }
    // A plan without a block of minutes has nothing to add up.
    if plan.limits.participant_minutes_per_month.is_none() {
        return Ok(QuotaDecision::Allowed);
    }
    let month = month(state, &owner.project, plan).await?;
    Ok(QuotaDecision::from_ledger(plan, owner.status, &month))
}

/// Refuses an operation that starts work unless the project's plan and wallet cover it.
///
/// # Errors
/// 402 `quota_exceeded` for a suspended project or a spent month, `insufficient_balance` for an empty wallet, 503
/// `billing_unavailable` when the billing service does not answer and the operation lists that.
pub async fn ensure_can_start_work(
    state: &AppState,
    owner: &Owner,
    operation: &OperationSpec,
) -> Result<(), ApiError> {
    let plan = plan(&state.plans, &owner.plan)?;
    let ledger = ledger(state, owner, plan).await?;
    Ok(confirm(state, &owner.project, ledger, operation)
        .await?
        .ensure_can_start_work()?)
}
