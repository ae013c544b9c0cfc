//! How a project stands with its plan: what the plan says, what the month has used, what the wallet holds.

use conclave_model::ProjectId;
use conclave_model::plan::Plan;
use conclave_model::project::ProjectStatus;
use conclave_model::usage::{MonthUse, Standing};

use super::problem::{Problem, of_store};
use super::state::AppState;
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
    state.store.settle_months(project.clone(), plan.clone()).await.map_err(of_store)?;
    state.store.month_use(project.clone()).await.map_err(of_store)
}

/// The plan of a project that may start work.
///
/// # Errors
/// 402 `quota_exceeded` for a suspended project or a spent month, `insufficient_balance` for an empty wallet.
pub async fn permit_new_work<'a>(state: &'a AppState, owner: Owner<'_>) -> Result<&'a Plan, Problem> {
    let plan = plan(&state.plans, owner.plan)?;
    if owner.status == ProjectStatus::Suspended {
        Standing::Suspended.permit()?;
    }
    // A plan without a block of minutes has nothing to add up.
    if plan.limits.participant_minutes_per_month.is_some() {
        let month = month(state, owner.project, plan).await?;
        Standing::of(plan, owner.status, &month).permit()?;
    }
    Ok(plan)
}
