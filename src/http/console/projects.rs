//! The list of projects, creating one, and a project's usage: minutes by day as a plot and a table, and its status under its plan.

use std::time::Duration;

use conclave_db::ProjectSummary;
use conclave_model::page::PageRequest;
use conclave_model::plan::Plan;
use conclave_model::project::{Environment, Project};
use conclave_model::usage::minutes as usage_minutes;
use conclave_model::visible::checked_label;
use conclave_model::{ErrorCode, Problem};
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::parts::{
    self, ROWS, badge, empty, facts, field, form, grouped, minutes, or_nothing, pager, select,
    table, time,
};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, log_change};
use crate::config::DEFAULT_PLAN;
use crate::http::api::response::Json;
use crate::http::api::v1::usage::{self, PlanStatus, UsageDayJson};
use crate::starter_template;

pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects", list),
        route::action("/projects", create),
        route::page("/projects/{project}/usage", show_usage),
    ]
}

async fn list(visit: Visit) -> PageResult {
    let page = PageRequest {
        limit: ROWS,
        offset: visit.offset(),
    };
    // From the store: the API has no operation on projects.
    let store = &visit.state.store;
    let projects = store.projects().summaries(page).await?;
    let ids = projects.items.iter().map(|one| one.project.id.clone());
    let times = store.usage().month_time_of_each(ids.collect()).await?;
    let rows: Vec<_> = projects.items.iter().zip(times).map(row).collect();
    let content = html! {
        h1 { "Projects" }
        @if projects.items.is_empty() {
            (empty("There is no project here.", "A project owns rooms, API keys and webhooks. Create one below."))
        } @else {
            (table("Projects", &["Project", "Environment", "Plan", "Status", "Live rooms", "Minutes this month", "Created"], &rows))
        }
        (pager(&visit, page.offset, projects.has_more))
        (create_form(&visit))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Server("/projects"),
        "Projects",
        &content,
    )))
}

fn row((summary, month_time): (&ProjectSummary, Duration)) -> Vec<Markup> {
    let project = &summary.project;
    vec![
        html! { a href={ "/projects/" (project.id) } { (project.name) } div { small { code { (project.id) } } } },
        badge(project.env.as_str()),
        html! { (project.plan) },
        badge(project.status.as_str()),
        html! { (grouped(summary.open_rooms.into())) },
        html! { a href={ "/projects/" (project.id) "/usage" } { (minutes(usage_minutes(month_time))) } },
        time(project.created_at),
    ]
}

/// Renders a plan choice.
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
        ("live", "live: keys start with vk_live_"),
        ("test", "test: keys start with vk_test_"),
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
                p.field {
                    label.check {
                        input type="checkbox" name="with_template" checked;
                        "Create a default template with the roles host and guest"
                    }
                }
                p { button type="submit" { "Create project" } }
            }))
        }
    }
}

async fn create(visit: Visit) -> PageResult {
    let name = visit.field("name").to_owned();
    checked_label(&name, 1..=200).map_err(|allowed| Problem::invalid("name", allowed))?;
    let env = if visit.field("env") == "test" {
        Environment::Test
    } else {
        Environment::Live
    };
    let plan = existing_plan(&visit)?;
    let store = &visit.state.store;
    let mut project = store.projects().create(name, env, plan).await?;
    if visit.has("with_template") {
        project = starter_template::ensure(store, project).await?;
    }
    // Not an API operation, so `OperatorCall` does not log it.
    log_change("create_project", &project.id);
    Ok(visit.done(
        &format!("/projects/{}/settings", project.id),
        "project-created",
    ))
}

/// Returns the plan in a form.
///
/// # Errors
/// 400 if it is not configured.
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

async fn show_usage(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let (from, to) = (visit.query("from"), visit.query("to"));
    let call = visit
        .call(usage::usage, &project.id)
        .query("from", from.as_deref())
        .query("to", to.as_deref());
    let Json(usage) = call.send().await?;
    let bars: Vec<_> = usage
        .days
        .iter()
        .map(|day| (day.date.to_string(), day.participant_minutes))
        .collect();
    // The table omits days without use, which the plot shows.
    let used = usage
        .days
        .iter()
        .rev()
        .filter(|day| day.sessions > 0 || day.participant_minutes > 0.0);
    let rows: Vec<_> = used.map(day_row).collect();
    let content = html! {
        h1 { "Usage" }
        (plan(&usage.plan, wallet(&visit, &project)))
        h2 { "Participant minutes by day" }
        (range(&usage.days, &format!("/projects/{}/usage", project.id)))
        (parts::bars("Participant minutes", &bars))
        p { "In all: " strong { (minutes(usage.total_participant_minutes)) " minutes" } }
        @if !rows.is_empty() {
            (table("Usage by day", &["Day (UTC)", "Participant minutes", "Sessions started"], &rows))
        }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/usage"),
        "Usage",
        &content,
    )))
}

fn day_row(day: &UsageDayJson) -> Vec<Markup> {
    vec![
        html! { (day.date) },
        html! { (minutes(day.participant_minutes)) },
        html! { (grouped(day.sessions.into())) },
    ]
}

fn range(days: &[UsageDayJson], path: &str) -> Markup {
    let day = |day: Option<&UsageDayJson>| day.map_or_else(String::new, |day| day.date.to_string());
    html! {
        form.filters method="get" action=(path) {
            // Dates come from the response, so that defaults are visible.
            (field("from", "From", &html! { input #from type="date" name="from" value=(day(days.first())); }, ""))
            (field("to", "To", &html! { input #to type="date" name="to" value=(day(days.last())); }, ""))
            button type="submit" { "Show" }
        }
    }
}

/// Renders a project's wallet; `None` if its plan is free, and no money is in it.
pub fn wallet(visit: &Visit, project: &Project) -> Option<Markup> {
    let plan = visit.state.plans.get(&project.plan);
    let is_shown = plan.is_some_and(Plan::has_price) || project.balance_ugx != 0;
    is_shown.then(|| html! { (grouped(project.balance_ugx)) " UGX" })
}

fn plan(plan: &PlanStatus, wallet: Option<Markup>) -> Markup {
    let limit = |cap: Option<u32>| {
        cap.map_or_else(
            || html! { "no limit" },
            |cap| html! { "at most " (grouped(cap.into())) },
        )
    };
    let feature = |is_included| {
        badge(if is_included {
            "included"
        } else {
            "not included"
        })
    };
    let mut shown = vec![
        ("Plan", html! { (plan.display_name) }),
        ("Quota", badge(plan.quota_state.as_str())),
    ];
    shown.extend(wallet.map(|wallet| ("Wallet", wallet)));
    shown.extend([
        (
            "Minutes this month",
            html! { (minutes(plan.participant_minutes_used)) },
        ),
        (
            "Minutes left",
            or_nothing(plan.participant_minutes_remaining.map(minutes)),
        ),
        (
            "Live rooms",
            html! { (plan.active_rooms) ", " (limit(plan.limits.concurrent_rooms)) },
        ),
        (
            "Participants in a room",
            limit(plan.limits.participants_per_room),
        ),
        ("Recording", feature(plan.features.recording)),
        ("Streaming", feature(plan.features.streaming)),
    ]);
    facts(&shown)
}
