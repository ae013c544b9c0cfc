//! The list of projects, and creating one.

use conclave_db::ProjectSummary;
use conclave_model::page::PageRequest;
use conclave_model::project::Environment;
use conclave_model::visible::checked_label;
use conclave_model::{ErrorCode, Problem};
use maud::{Markup, html};

use super::layout::{self, Place};
use super::operator_call::log_change;
use super::parts::{ROWS, badge, empty, field, form, grouped, pager, select, table, time};
use super::route::{self, Route};
use super::visit::{Answer, Visit};
use crate::config::DEFAULT_PLAN;

/// The routes of the page.
pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects", list),
        route::action("/projects", create),
    ]
}

async fn list(visit: Visit) -> Answer {
    let page = PageRequest {
        limit: ROWS,
        offset: visit.offset(),
    };
    let projects = visit.state.store.projects().summaries(page).await?;
    let content = html! {
        h1 { "Projects" }
        @if projects.items.is_empty() {
            (empty("There is no project here.", "A project owns rooms, API keys and webhooks. Create one below."))
        } @else {
            (table("Projects", &["Name", "Id", "Environment", "Plan", "Status", "Live rooms", "Created"],
                &projects.items.iter().map(row).collect::<Vec<_>>()))
        }
        (pager(&visit, page.offset, projects.has_more))
        (create_form(&visit))
    };
    Ok(visit.show(layout::page(
        &visit,
        Place::Server("/projects"),
        "Projects",
        &content,
    )))
}

fn row(summary: &ProjectSummary) -> Vec<Markup> {
    let project = &summary.project;
    vec![
        html! { a href={ "/projects/" (project.id) } { (project.name) } },
        html! { code { (project.id) } },
        badge(project.env.as_str()),
        html! { (project.plan) },
        badge(project.status.as_str()),
        html! { (grouped(summary.open_rooms.into())) },
        time(project.created_at),
    ]
}

/// The choice of a plan.
pub fn plans(visit: &Visit, id: &str, chosen: &str) -> Markup {
    let plans: Vec<(&str, &str)> = visit
        .state
        .plans
        .ids()
        .map(|id| {
            (
                id,
                visit
                    .state
                    .plans
                    .get(id)
                    .map_or(id, |plan| plan.display_name.as_str()),
            )
        })
        .collect();
    select(id, "plan", &plans, chosen)
}

fn create_form(visit: &Visit) -> Markup {
    let environments = [
        ("live", "live: keys begin with vk_live_"),
        ("test", "test: keys begin with vk_test_"),
    ];
    html! {
        section.card {
            h2 { "Create a project" }
            (form(visit, "/projects", &html! {
                div.fields {
                    (field("name", "Name", &html! { input #name name="name" required maxlength="200"; }, "1 to 200 characters"))
                    (field("env", "Environment", &select("env", "env", &environments, "live"), ""))
                    (field("plan", "Plan", &plans(visit, "plan", DEFAULT_PLAN), ""))
                }
                p { button type="submit" { "Create project" } }
            }))
        }
    }
}

async fn create(visit: Visit) -> Answer {
    let name = visit.field("name").to_owned();
    checked_label(&name, 1..=200).map_err(|allowed| Problem::invalid("name", allowed))?;
    let env = if visit.field("env") == "test" {
        Environment::Test
    } else {
        Environment::Live
    };
    let plan = existing_plan(&visit)?;
    let project = visit.state.store.projects().create(name, env, plan).await?;
    log_change("create_project", &project.id);
    Ok(visit.done(
        &format!("/projects/{}/settings", project.id),
        "project-created",
    ))
}

/// The plan that a form names.
///
/// # Errors
/// 400 for one that is not configured.
pub fn existing_plan(visit: &Visit) -> Result<String, Problem> {
    let plan = visit.field("plan");
    if visit.state.plans.get(plan).is_some() {
        return Ok(plan.to_owned());
    }
    let known: Vec<_> = visit.state.plans.ids().collect();
    Err(Problem::new(
        ErrorCode::InvalidRequest,
        format!("must be one of {}", known.join(", ")),
    )
    .at("plan"))
}
