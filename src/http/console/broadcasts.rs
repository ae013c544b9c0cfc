//! The broadcasts of a project.

use maud::{Markup, html};
use serde_json::Value;

use super::json::Fields;
use super::layout::{self, Place};
use super::parts::{ROWS, badge, danger, empty, field, live, or_nothing, pager, select, table, time};
use super::route::{self, Route};
use super::visit::{Answer, Visit};

/// Seconds between two readings.
const EVERY: u32 = 10;
/// The statuses of recordings and broadcasts, for a filter.
const STATUSES: [(&str, &str); 8] = [
    ("", "every status"),
    ("starting", "starting"),
    ("active", "active"),
    ("ending", "ending"),
    ("complete", "complete"),
    ("failed", "failed"),
    ("aborted", "aborted"),
    ("limit_reached", "limit reached"),
];

/// The routes of the page and its action.
pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/broadcasts", list),
        route::action("/projects/{project}/broadcasts/{id}/stop", stop),
    ]
}

async fn list(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let (room, status) = (visit.query("room"), visit.query("status"));
    let call = visit.call("list_broadcasts", &project.id).page(ROWS, visit.offset());
    let broadcasts = call.query("room", room.as_deref()).query("status", status.as_deref()).send().await?;
    let path = format!("/projects/{}/broadcasts", project.id);
    let rows: Vec<_> = broadcasts.list("broadcasts").iter().map(|one| row(&visit, &path, one)).collect();
    let content = html! {
        h1 { "Broadcasts" }
        (filters(&path, room.as_deref(), status.as_deref()))
        (live(&visit, "broadcasts", EVERY, &html! {
            @if rows.is_empty() {
                (empty("There is no broadcast here.", "Start one on the page of an open room."))
            } @else {
                (table("Broadcasts", &["Room", "Status", "Receivers", "Started", "Ended", "Actions"], &rows))
            }
            (pager(&visit, visit.offset(), broadcasts.flag("has_more")))
        }))
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/broadcasts"), "Broadcasts", &content)))
}

/// The filters of a list of recordings or broadcasts.
pub fn filters(path: &str, room: Option<&str>, status: Option<&str>) -> Markup {
    html! {
        form.filters method="get" action=(path) {
            (field("room", "Room", &html! { input #room name="room" value=(room.unwrap_or_default()); }, ""))
            (field("status", "Status", &select("status", "status", &STATUSES, status.unwrap_or_default()), ""))
            button type="submit" { "Filter" }
        }
    }
}

fn row(visit: &Visit, path: &str, job: &Value) -> Vec<Markup> {
    let urls: Vec<_> = job.list("urls").iter().filter_map(Value::as_str).collect();
    vec![
        html! { (job.text("room")) },
        badge(job.text("status")),
        html! {
            (or_nothing(&urls.join(", ")))
            @if let Some(error) = job.some_text("error") { div { small { (error) } } }
        },
        time(job.text("started_at")),
        time(job.text("ended_at")),
        stop_button(visit, path, job),
    ]
}

/// The button that stops a job which runs.
pub fn stop_button(visit: &Visit, path: &str, job: &Value) -> Markup {
    if !matches!(job.text("status"), "starting" | "active") {
        return Markup::default();
    }
    let question = format!("Stop {} in {}?", job.text("egress_id"), job.text("room"));
    danger(visit, &format!("{path}/{}/stop", job.text("egress_id")), "Stop", &question)
}

async fn stop(visit: Visit) -> Answer {
    let project = visit.project_id()?;
    visit.call("stop_broadcast", &project).path("egress_id", &visit.param("id")).send().await?;
    Ok(visit.done(&format!("/projects/{project}/broadcasts"), "broadcast-stopped"))
}
