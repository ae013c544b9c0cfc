//! A project's settings: plan and wallet, status, default template, API keys.

use std::time::Duration;

use conclave_model::key::ApiKeyRecord;
use conclave_model::project::{Project, ProjectStatus};
use conclave_model::visible::checked_label;
use conclave_model::{ErrorCode, Problem, Timestamp};
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::parts::{badge, danger, empty, facts, field, form, secret, select, table, time};
use super::projects::{existing_plan, plans, wallet};
use super::rooms::templates;
use super::route::{self, Route};
use super::visit::{PageResult, Visit, log_change};
use crate::http::api::error::ApiError;
use crate::http::api::v1::templates::TemplateJson;

/// Maximum credit per action, in Ugandan shillings, as on the command line.
const MAX_CREDIT_UGX: i64 = 1_000_000_000_000;
/// Maximum life of an API key, in days.
const MAX_DAYS: u64 = 36_500;

pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/settings", show),
        route::action("/projects/{project}/plan", set_plan),
        route::action("/projects/{project}/status", set_status),
        route::action("/projects/{project}/credit", credit),
        route::action("/projects/{project}/default-template", set_default_template),
        route::action("/projects/{project}/keys", create_key),
        route::action("/projects/{project}/keys/{prefix}/revoke", revoke_key),
    ]
}

async fn show(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let keys = visit
        .state
        .store
        .api_keys()
        .list(project.id.clone())
        .await?;
    let templates = templates(&visit, &project).await?;
    let plan = visit.state.plans.get(&project.plan);
    let mut shown = vec![(
        "Plan",
        html! { (plan.map_or(project.plan.as_str(), |plan| &plan.display_name)) },
    )];
    let wallet = wallet(&visit, &project);
    shown.extend(wallet.clone().map(|wallet| ("Wallet", wallet)));
    shown.extend([
        ("Status", badge(project.status.as_str())),
        ("Environment", badge(project.env.as_str())),
        ("Created", time(project.created_at)),
    ]);
    let content = html! {
        h1 { "Settings" }
        (facts(&shown))
        (keys_section(&visit, &project, &keys))
        div.cards {
            (plan_form(&visit, &project))
            @if wallet.is_some() { (credit_form(&visit, &project)) }
            (template_form(&visit, &project, &templates))
            (status_form(&visit, &project))
        }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/settings"),
        "Settings",
        &content,
    )))
}

fn keys_section(visit: &Visit, project: &Project, keys: &[ApiKeyRecord]) -> Markup {
    let now = visit.state.clock.now();
    let row = |key: &ApiKeyRecord| {
        let path = format!("/projects/{}/keys/{}/revoke", project.id, key.prefix);
        let question = format!(
            "Revoke the key {}…? Requests with it fail at once.",
            key.prefix
        );
        vec![
            html! { code { (key.prefix) "…" } },
            html! { (key.label) },
            badge(if key.revoked_at.is_some() {
                "revoked"
            } else if key.expires_at.is_some_and(|at| at <= now) {
                "expired"
            } else {
                "active"
            }),
            time(key.created_at),
            html! { @if let Some(day) = key.last_used_on { (day) } @else { "never" } },
            time(key.expires_at),
            time(key.revoked_at),
            html! { @if key.revoked_at.is_none() { (danger(visit, &path, "Revoke", &question)) } },
        ]
    };
    // Newest first.
    let rows: Vec<_> = keys.iter().rev().map(row).collect();
    html! {
        h2 { "API keys" }
        @if rows.is_empty() {
            (empty("There is no API key.", "Your backend needs one to call the API. Create it below."))
        } @else {
            (table("API keys", &["Key", "Label", "Status", "Created", "Last used", "Expires", "Revoked", "Actions"], &rows))
        }
        section.card {
            h2 { "Create an API key" }
            (form(visit, &format!("/projects/{}/keys", project.id), &html! {
                (field("label", "Label", &html! { input #label name="label" maxlength="200"; }, "What it is for; may be empty"))
                (field("expires_in_days", "Expires after", &html! {
                    input #expires_in_days name="expires_in_days" type="number" min="1" max="36500";
                }, "Days; empty for a key without expiry"))
                p { button type="submit" { "Create API key" } }
            }))
        }
        h2 { "Plan and defaults" }
    }
}

fn plan_form(visit: &Visit, project: &Project) -> Markup {
    html! {
        section.card {
            h2 { "Plan" }
            (form(visit, &format!("/projects/{}/plan", project.id), &html! {
                (field("plan", "Plan", &plans(visit, "plan", &project.plan), "Holds for what is started from now on. A plan with a price has a wallet"))
                p { button type="submit" { "Change plan" } }
            }))
        }
    }
}

fn credit_form(visit: &Visit, project: &Project) -> Markup {
    html! {
        section.card {
            h2 { "Wallet" }
            (form(visit, &format!("/projects/{}/credit", project.id), &html! {
                (field("ugx", "Amount to add (UGX)", &html! {
                    input #ugx type="number" name="ugx" min="1" max=(MAX_CREDIT_UGX) required;
                }, "Ugandan shillings"))
                p { button type="submit" { "Add to wallet" } }
            }))
        }
    }
}

fn template_form(visit: &Visit, project: &Project, templates: &[TemplateJson]) -> Markup {
    let choices: Vec<_> = templates
        .iter()
        .map(|template| (template.id.as_str(), template.name.as_str()))
        .collect();
    let chosen = project
        .default_template_id
        .as_ref()
        .map_or("", |id| id.as_str());
    html! {
        section.card {
            h2 { "Default template" }
            @if choices.is_empty() {
                p.help { "The project has no template." }
            } @else {
                (form(visit, &format!("/projects/{}/default-template", project.id), &html! {
                    (field("template", "For rooms without a template", &select("template", "template", &choices, chosen), ""))
                    p { button type="submit" { "Set default template" } }
                }))
            }
        }
    }
}

fn status_form(visit: &Visit, project: &Project) -> Markup {
    let path = format!("/projects/{}/status", project.id);
    html! {
        section.card {
            h2 { "Status" }
            @if project.status == ProjectStatus::Active {
                p.help { "A suspended project can start no new work. Running work continues." }
                (form(visit, &path, &html! {
                    // The state to set, so that a repeated click changes nothing.
                    input type="hidden" name="status" value="suspended";
                    button.danger type="submit" data-confirm="Suspend the project?" { "Suspend project" }
                }))
            } @else {
                (form(visit, &path, &html! {
                    input type="hidden" name="status" value="active";
                    button type="submit" { "Resume project" }
                }))
            }
        }
    }
}

fn done(visit: &Visit, project: &Project, change: &str, note: &'static str) -> PageResult {
    // These changes are not API operations, so `OperatorCall` does not log them.
    log_change(change, &project.id);
    Ok(visit.done(&format!("/projects/{}/settings", project.id), note))
}

async fn set_plan(visit: Visit) -> PageResult {
    let (project, plan) = (visit.project().await?, existing_plan(&visit)?);
    visit
        .state
        .store
        .projects()
        .set_plan(project.id.clone(), plan)
        .await?;
    done(&visit, &project, "set_project_plan", "plan-changed")
}

async fn set_status(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let (status, note) = match visit.field("status") {
        "suspended" => (ProjectStatus::Suspended, "project-suspended"),
        "active" => (ProjectStatus::Active, "project-resumed"),
        _ => return Err(Problem::invalid("status", "must be one of active, suspended").into()),
    };
    visit
        .state
        .store
        .projects()
        .set_status(project.id.clone(), status)
        .await?;
    done(&visit, &project, "set_project_status", note)
}

async fn credit(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let amount = visit
        // Checked here, because no operation of the API credits a wallet.
        .number("ugx")?
        .filter(|ugx| (1..=MAX_CREDIT_UGX).contains(ugx));
    let message = || format!("must be an integer from 1 to {MAX_CREDIT_UGX}");
    let ugx = amount.ok_or_else(|| Problem::invalid("ugx", message()))?;
    visit
        .state
        .store
        .projects()
        .credit(project.id.clone(), ugx)
        .await?;
    done(&visit, &project, "credit_project", "credited")
}

async fn set_default_template(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let template = visit
        .field("template")
        .parse()
        .map_err(|_| Problem::template_not_found().at("template"))?;
    visit
        .state
        .store
        .projects()
        .set_default_template(project.id.clone(), template)
        .await?;
    done(
        &visit,
        &project,
        "set_default_template",
        "default-template-set",
    )
}

/// Returns the time at which a new key expires; `None` if the form names no number of days.
fn expiry(visit: &Visit) -> Result<Option<Timestamp>, Problem> {
    let text = visit.field("expires_in_days").trim();
    if text.is_empty() {
        return Ok(None);
    }
    let days = text.parse::<u64>().ok();
    let invalid = || Problem::invalid("expires_in_days", format!("must be 1 to {MAX_DAYS}"));
    let days = days
        .filter(|days| (1..=MAX_DAYS).contains(days))
        .ok_or_else(invalid)?;
    let life = Duration::from_secs(days * 24 * 60 * 60);
    Ok(Some(visit.state.clock.now().after(life)))
}

async fn create_key(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let label = visit.field("label").to_owned();
    checked_label(&label, 0..=200).map_err(|allowed| Problem::invalid("label", allowed))?;
    let expires_at = expiry(&visit)?;
    let key = visit
        .state
        .store
        .api_keys()
        .create_until(project.id.clone(), label, expires_at)
        .await?
        .key;
    log_change("create_api_key", &project.id);
    let content = html! {
        h1 { "API key" }
        // Shown in this response instead of a redirect, since only the key's hash is stored.
        (secret("The API key", key.reveal()))
        p { "Your backend sends it as " code { "Authorization: Bearer " } "." }
        p { a href={ "/projects/" (project.id) "/settings" } { "Back to the settings" } }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/settings"),
        "API key",
        &content,
    )))
}

async fn revoke_key(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let not_found = || {
        ApiError::from(Problem::new(
            ErrorCode::NotFound,
            "no key with that prefix in this project",
        ))
    };
    let keys = visit
        .state
        .store
        .api_keys()
        .list(project.id.clone())
        .await?;
    let prefix = visit.param("prefix");
    // `revoke` does not check the project, so the key must be among this project's.
    let key = keys
        .into_iter()
        .find(|key| key.prefix.as_str() == prefix)
        .ok_or_else(not_found)?;
    visit.state.store.api_keys().revoke(key.prefix).await?;
    done(&visit, &project, "revoke_api_key", "key-revoked")
}
