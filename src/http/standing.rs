//! How a project stands with its plan: what the plan says, what the month has used, what the wallet holds.
//!
//! The records say it all, unless a billing service keeps the wallets. Then the operator's and the plan's refusals still
//! come first and need no asking; whatever they let through is the service's to decide. While it is away, operations that
//! list `billing_unavailable` answer that; the others go by the records alone, the wallet kept here included.

use conclave_model::plan::Plan;
use conclave_model::project::ProjectStatus;
use conclave_model::usage::{BillingVerdict, MonthUse, QuotaDecision};
use conclave_model::{ErrorCode, ProjectId};

use super::operation::Operation;
use super::problem::{Problem, of_billing, of_store};
use super::state::AppState;
use crate::billing::BillingError;
use crate::config::Plans;

/// Whose standing is asked for, as the database had it a moment ago.
#[derive(Clone, Copy)]
pub struct Owner<'a> {
    /// The project.
    pub project: &'a ProjectId,
    /// Whether the operator lets it start work.
    pub status: ProjectStatus,
    /// Its plan's id.
    pub plan: &'a str,
}

/// The plan of a project.
///
/// # Errors
/// 500 for one that is not configured.
pub fn plan<'a>(plans: &'a Plans, id: &str) -> Result<&'a Plan, Problem> {
    let unknown = || Problem::internal().because(format!("the plan {id:?} is not configured"));
    plans.get(id).ok_or_else(unknown)
}

/// The month so far, once the months before it are settled.
///
/// # Errors
/// The store's own.
pub async fn month(state: &AppState, project: &ProjectId, plan: &Plan) -> Result<MonthUse, Problem> {
    let month = state.store.month_use(project.clone()).await.map_err(of_store)?;
    if month.settled {
        return Ok(month);
    }
    let mut plan = plan.clone();
    if state.billing.is_some() {
        // What the month cost is taken by the billing service; taken here, too, it would be paid twice.
        plan.overage_ugx_per_minute = None;
    }
    state.store.settle_months(project.clone(), plan).await.map_err(of_store)?;
    state.store.month_use(project.clone()).await.map_err(of_store)
}

/// What the billing service says of a project. Nothing where there is none, and nothing while it is away from an
/// operation that cannot answer that it is: the ledger decides alone then.
pub async fn ask_billing(
    state: &AppState,
    project: &ProjectId,
    operation: &Operation,
) -> Option<Result<BillingVerdict, BillingError>> {
    let said = state.billing.as_ref()?.verdict(project).await;
    Some(said).filter(|said| said.is_ok() || operation.codes.contains(&ErrorCode::BillingUnavailable))
}

/// The ledger's standing with what the billing service said, where the wallet decides.
///
/// # Errors
/// 503 `billing_unavailable`.
pub fn with_billing(
    ledger: QuotaDecision,
    said: Option<Result<BillingVerdict, BillingError>>,
) -> Result<QuotaDecision, Problem> {
    match said.filter(|_| ledger.depends_on_balance()) {
        None => Ok(ledger),
        Some(Ok(said)) => Ok(ledger.with_billing(said)),
        Some(Err(error)) => Err(of_billing(&error)),
    }
}

/// How a project stands, the billing service heard where it has a say.
///
/// # Errors
/// 503 `billing_unavailable`.
pub async fn confirm(
    state: &AppState,
    project: &ProjectId,
    ledger: QuotaDecision,
    operation: &Operation,
) -> Result<QuotaDecision, Problem> {
    let said = if ledger.depends_on_balance() { ask_billing(state, project, operation).await } else { None };
    with_billing(ledger, said)
}

/// How a project stands by the records.
async fn ledger(state: &AppState, owner: Owner<'_>, plan: &Plan) -> Result<QuotaDecision, Problem> {
    if owner.status == ProjectStatus::Suspended {
        return Ok(QuotaDecision::Suspended);
    }
    // A plan without a block of minutes has nothing to add up.
    if plan.limits.participant_minutes_per_month.is_none() {
        return Ok(QuotaDecision::Allowed);
    }
    let month = month(state, owner.project, plan).await?;
    Ok(QuotaDecision::from_ledger(plan, owner.status, &month))
}

/// The plan of a project that may start the work of an operation.
///
/// # Errors
/// 402 `quota_exceeded` for a suspended project or a spent month, `insufficient_balance` for an empty wallet, 503
/// `billing_unavailable` when the billing service does not say and the operation lists that.
pub async fn permit_new_work<'a>(
    state: &'a AppState,
    owner: Owner<'_>,
    operation: &Operation,
) -> Result<&'a Plan, Problem> {
    let plan = plan(&state.plans, owner.plan)?;
    let ledger = ledger(state, owner, plan).await?;
    confirm(state, owner.project, ledger, operation).await?.ensure_can_start_work()?;
    Ok(plan)
}
