//! What the pages of recordings and broadcasts share: the list with its filters, and stopping one.

use conclave_model::egress::{EgressKind, EgressStatus};
use conclave_model::project::Project;
use maud::{Markup, html};

use super::layout::{self, Place};
use super::parts::{ROWS, danger, empty, field, live, pager, select, table};
use super::visit::{Answer, Visit};
use crate::http::api::v1::egress::{self, EgressHead, EgressJson};

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

/// A list of recordings or broadcasts.
pub struct List<J> {
    /// The heading of the list.
    pub title: &'static str,
    /// What an empty list says.
    pub none: &'static str,
    /// The names of the columns.
    pub columns: &'static [&'static str],
    /// The cells of a row.
    pub row: fn(&Visit, &Project, &J) -> Vec<Markup>,
    /// The path of the page, below the project's.
    pub path: &'static str,
}

impl<J: EgressJson> List<J> {
    /// The page of the list.
    pub async fn show(self, visit: Visit) -> Answer {
        let project = visit.project().await?;
        let (room, status) = (visit.query("room"), visit.query("status"));
        let call = visit
            .call(egress::list::<J>, &project.id)
            .page(ROWS, visit.offset());
        let listed = call
            .query("room", room.as_deref())
            .query("status", status.as_deref())
            .send()
            .await?;
        let rows: Vec<_> = listed
            .items
            .iter()
            .map(|one| (self.row)(&visit, &project, one))
            .collect();
        let content = html! {
            h1 { (self.title) }
            (filters(&format!("/projects/{}{}", project.id, self.path), room.as_deref(), status.as_deref()))
            (live(&visit, J::COLLECTION, EVERY, &html! {
                @if rows.is_empty() {
                    (empty(self.none, "Start one on the page of an open room."))
                } @else {
                    (table(self.title, self.columns, &rows))
                }
                (pager(&visit, visit.offset(), listed.has_more))
            }))
        };
        Ok(visit.show(layout::page(
            &visit,
            Place::Project(&project, self.path),
            self.title,
            &content,
        )))
    }
}

fn filters(path: &str, room: Option<&str>, status: Option<&str>) -> Markup {
    html! {
        form.filters method="get" action=(path) {
            (field("room", "Room", &html! { input #room name="room" value=(room.unwrap_or_default()); }, ""))
            (field("status", "Status", &select("status", "status", &STATUSES, status.unwrap_or_default()), ""))
            button type="submit" { "Filter" }
        }
    }
}

/// The button that stops a recording or a broadcast which runs.
pub fn stop_button<J: EgressJson>(
    visit: &Visit,
    head: &EgressHead,
    status: EgressStatus,
) -> Markup {
    if !is_stoppable(status) {
        return Markup::default();
    }
    let question = format!("Stop {} in {}?", head.egress_id, head.room);
    danger(visit, &stop_path::<J>(head), "Stop", &question)
}

/// Whether a recording or a broadcast can be asked to finish.
pub fn is_stoppable(status: EgressStatus) -> bool {
    matches!(status, EgressStatus::Starting | EgressStatus::Active)
}

/// The path of the action that stops a recording or a broadcast.
pub fn stop_path<J: EgressJson>(head: &EgressHead) -> String {
    format!(
        "/projects/{}/{}/{}/stop",
        head.project_id,
        J::COLLECTION,
        head.egress_id
    )
}

/// The action that stops a recording or a broadcast.
pub async fn stop<J: EgressJson>(visit: Visit) -> Answer {
    let project = visit.project_id()?;
    visit
        .call(egress::stop::<J>, &project)
        .path("egress_id", &visit.param("id"))
        .send()
        .await?;
    let note = match J::KIND {
        EgressKind::Recording => "recording-stopped",
        EgressKind::Broadcast => "broadcast-stopped",
    };
    Ok(visit.done(&format!("/projects/{project}/{}", J::COLLECTION), note))
}
