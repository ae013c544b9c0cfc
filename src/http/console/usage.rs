//! The usage of a project: minutes by day as a plot and a table, and the status under its plan.

use maud::{Markup, html};

use super::layout::{self, Place};
use super::parts::{badge, facts, field, grouped, minutes, or_nothing, table};
use super::plots;
use super::route::{self, Route};
use super::visit::{Answer, Visit};
use crate::http::api::response::Json;
use crate::http::api::v1::usage::{self, PlanStatus, UsageDayJson};

/// The routes of the page.
pub fn routes() -> Vec<Route> {
    vec![route::page("/projects/{project}/usage", show)]
}

async fn show(visit: Visit) -> Answer {
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
    let used = usage
        .days
        .iter()
        .rev()
        .filter(|day| day.sessions > 0 || day.participant_minutes > 0.0);
    let rows: Vec<_> = used.map(row).collect();
    let content = html! {
        h1 { "Usage" }
        (plan(&usage.plan, project.balance_ugx))
        h2 { "Participant minutes by day" }
        (range(&usage.days, &format!("/projects/{}/usage", project.id)))
        (plots::bars("Participant minutes", &bars))
        p { "In all: " strong { (minutes(usage.total_participant_minutes)) " minutes" } }
        @if !rows.is_empty() {
            (table("Usage by day", &["Day (UTC)", "Participant minutes", "Sessions begun"], &rows))
        }
    };
    Ok(visit.show(layout::page(
        &visit,
        Place::Project(&project, "/usage"),
        "Usage",
        &content,
    )))
}

fn row(day: &UsageDayJson) -> Vec<Markup> {
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
            (field("from", "From", &html! { input #from type="date" name="from" value=(day(days.first())); }, ""))
            (field("to", "To", &html! { input #to type="date" name="to" value=(day(days.last())); }, ""))
            button type="submit" { "Show" }
        }
    }
}

fn plan(plan: &PlanStatus, balance_ugx: i64) -> Markup {
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
    facts(&[
        ("Plan", html! { (plan.display_name) }),
        ("Quota", badge(plan.quota_state.as_str())),
        ("Wallet", html! { (grouped(balance_ugx)) " UGX" }),
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
    ])
}
