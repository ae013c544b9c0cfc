//! The usage of a project: minutes by day as a plot and a table, and the status under its plan.

use maud::{Markup, html};
use serde_json::Value;

use super::json::Fields;
use super::layout::{self, Place};
use super::parts::{badge, facts, field, grouped, minutes, nothing, table};
use super::plots;
use super::route::{self, Route};
use super::visit::{Answer, Visit};

/// The routes of the page.
pub fn routes() -> Vec<Route> {
    vec![route::page("/projects/{project}/usage", show)]
}

async fn show(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let (from, to) = (visit.query("from"), visit.query("to"));
    let call = visit.call("get_usage", &project.id).query("from", from.as_deref()).query("to", to.as_deref());
    let usage = call.send().await?;
    let days = usage.list("days");
    let bars: Vec<_> = days.iter().map(|day| (day.text("date").to_owned(), day.real("participant_minutes"))).collect();
    let used = days.iter().rev().filter(|day| day.whole("sessions") > 0 || day.real("participant_minutes") > 0.0);
    let rows: Vec<_> = used.map(row).collect();
    let content = html! {
        h1 { "Usage" }
        (plan(&usage["plan"], project.balance_ugx))
        h2 { "Participant minutes by day" }
        (range(days, &format!("/projects/{}/usage", project.id)))
        (plots::bars("Participant minutes", &bars))
        p { "In all: " strong { (minutes(usage.real("total_participant_minutes"))) " minutes" } }
        @if !rows.is_empty() {
            (table("Usage by day", &["Day (UTC)", "Participant minutes", "Sessions begun"], &rows))
        }
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/usage"), "Usage", &content)))
}

fn row(day: &Value) -> Vec<Markup> {
    vec![
        html! { (day.text("date")) },
        html! { (minutes(day.real("participant_minutes"))) },
        html! { (grouped(day.whole("sessions"))) },
    ]
}

fn range(days: &[Value], path: &str) -> Markup {
    let day = |day: Option<&Value>| day.map_or_else(String::new, |day| day.text("date").to_owned());
    html! {
        form.filters method="get" action=(path) {
            (field("from", "From", &html! { input #from type="date" name="from" value=(day(days.first())); }, ""))
            (field("to", "To", &html! { input #to type="date" name="to" value=(day(days.last())); }, ""))
            button type="submit" { "Show" }
        }
    }
}

fn plan(plan: &Value, balance_ugx: i64) -> Markup {
    let limit = |name: &str| {
        plan["limits"][name].as_i64().map_or_else(|| html! { "no limit" }, |cap| html! { "at most " (grouped(cap)) })
    };
    let feature = |name: &str| badge(if plan["features"].flag(name) { "included" } else { "not included" });
    let left = plan["participant_minutes_remaining"].as_f64();
    facts(&[
        ("Plan", html! { (plan.text("display_name")) }),
        ("Quota", badge(plan.text("quota_state"))),
        ("Wallet", html! { (grouped(balance_ugx)) " UGX" }),
        ("Minutes this month", html! { (minutes(plan.real("participant_minutes_used"))) }),
        ("Minutes left", left.map_or_else(nothing, |left| html! { (minutes(left)) })),
        ("Live rooms", html! { (plan.whole("active_rooms")) ", " (limit("concurrent_rooms")) }),
        ("Participants in a room", limit("participants_per_room")),
        ("Recording", feature("recording")),
        ("Streaming", feature("streaming")),
    ])
}
