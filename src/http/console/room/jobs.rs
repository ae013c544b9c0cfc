//! The recordings, broadcasts and ingress endpoints of a room, and starting them.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{RoomPage, room_path};
use crate::http::console::json::Fields;
use crate::http::console::layout::{self, Place};
use crate::http::console::parts::{badge, danger, facts, field, form, secret, select, table, time};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{Answer, Visit};
use crate::http::error::ApiError;

/// Rows of each kind that are shown.
const SHOWN: u32 = 10;
const LAYOUTS: [(&str, &str); 3] = [("speaker", "speaker"), ("grid", "grid"), ("single-speaker", "single speaker")];

/// The routes of the actions.
pub fn routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/rooms/{name}/recordings", record),
        route::action("/projects/{project}/rooms/{name}/broadcasts", broadcast),
        route::action("/projects/{project}/rooms/{name}/ingress", create_ingress),
    ]
}

impl RoomPage<'_> {
    /// What runs, and what has run last.
    pub(super) async fn jobs(&self) -> Result<Markup, ApiError> {
        let of_room =
            |operation| self.visit.call(operation, self.project).query("room", Some(self.name())).page(SHOWN, 0);
        let recordings = of_room("list_recordings").send().await?;
        let broadcasts = of_room("list_broadcasts").send().await?;
        let ingresses = of_room("list_ingresses").send().await?;
        let mut rows = Vec::new();
        rows.extend(recordings.list("recordings").iter().map(|job| {
            let path = format!("/projects/{}/recordings/{}", self.project, job.text("egress_id"));
            self.job("recordings", job, &html! { a href=(path) { (job.text("filepath")) } })
        }));
        rows.extend(broadcasts.list("broadcasts").iter().map(|job| {
            let urls: Vec<_> = job.list("urls").iter().filter_map(Value::as_str).collect();
            self.job("broadcasts", job, &html! { (urls.join(", ")) })
        }));
        rows.extend(ingresses.list("ingresses").iter().map(|one| self.ingress(one)));
        Ok(html! {
            @if !rows.is_empty() {
                h2 { "Recordings, broadcasts, ingress" }
                (table("Recordings, broadcasts and ingress of the room", &["Kind", "Status", "What", "Since", "Actions"], &rows))
            }
        })
    }

    fn job(&self, kind: &str, job: &Value, what: &Markup) -> Vec<Markup> {
        let path = format!("/projects/{}/{kind}/{}/stop", self.project, job.text("egress_id"));
        let runs = matches!(job.text("status"), "starting" | "active");
        let kind = kind.trim_end_matches('s');
        vec![
            html! { (kind) },
            badge(job.text("status")),
            html! { (what) @if let Some(error) = job.some_text("error") { div { small { (error) } } } },
            time(job.text("started_at")),
            html! { @if runs { (danger(self.visit, &path, "Stop", &format!("Stop the {kind}?"))) } },
        ]
    }

    fn ingress(&self, ingress: &Value) -> Vec<Markup> {
        let path = format!("/projects/{}/ingress/{}/delete", self.project, ingress.text("ingress_id"));
        vec![
            html! { "ingress" },
            badge(ingress.text("status")),
            html! { (ingress.text("participant_identity")) " by " (ingress.text("input_type")) },
            time(ingress.text("created_at")),
            html! {
                @if ingress.text("status") != "deleted" {
                    (danger(self.visit, &path, "Delete", "Delete the ingress endpoint? Its stream key becomes invalid."))
                }
            },
        ]
    }

    fn destinations_of(&self, kind: &str, none: &'static str) -> Vec<(&str, &str)> {
        let mut choices = vec![("", none)];
        let of_kind = self.destinations.iter().filter(|(_, known)| known == kind);
        choices.extend(of_kind.map(|(name, _)| (name.as_str(), name.as_str())));
        choices
    }

    pub(super) fn recording_form(&self) -> Markup {
        let destinations = self.destinations_of("recording", "this machine");
        html! {
            section.card {
                h2 { "Record" }
                (form(self.visit, &self.path("/recordings"), &html! {
                    (field("record-layout", "Layout", &select("record-layout", "layout", &LAYOUTS, "speaker"), ""))
                    (field("record-to", "Destination", &select("record-to", "destination", &destinations, ""), ""))
                    p { button type="submit" { "Start recording" } }
                }))
            }
        }
    }

    pub(super) fn broadcast_form(&self) -> Markup {
        let destinations = self.destinations_of("rtmp", "the url above");
        html! {
            section.card {
                h2 { "Broadcast" }
                (form(self.visit, &self.path("/broadcasts"), &html! {
                    (field("broadcast-url", "RTMP url with stream key", &html! {
                        input #broadcast-url name="url" placeholder="rtmp://…" autocomplete="off";
                    }, ""))
                    (field("broadcast-to", "Or a destination", &select("broadcast-to", "destination", &destinations, ""), ""))
                    (field("broadcast-layout", "Layout", &select("broadcast-layout", "layout", &LAYOUTS, "grid"), ""))
                    p { button type="submit" { "Start broadcast" } }
                }))
            }
        }
    }

    pub(super) fn ingress_form(&self) -> Markup {
        html! {
            section.card {
                h2 { "Ingress" }
                (form(self.visit, &self.path("/ingress"), &html! {
                    (field("input-type", "The encoder speaks", &select("input-type", "input_type",
                        &[("rtmp", "RTMP"), ("whip", "WHIP")], "rtmp"), ""))
                    (field("ingress-identity", "Joins as", &html! {
                        input #ingress-identity name="participant_identity" required maxlength="128" placeholder="encoder";
                    }, "An identity"))
                    p { button type="submit" { "Create ingress endpoint" } }
                }))
            }
        }
    }
}

async fn record(visit: Visit) -> Answer {
    let (project, name) = (visit.project_id()?, visit.param("name"));
    let mut body = json!({"type": "room_composite", "layout": visit.field("layout")});
    if let Some(destination) = visit.optional("destination") {
        body["destination"] = json!(destination);
    }
    visit.call("start_recording", &project).path("name", &name).body(body).send().await?;
    Ok(visit.done(&room_path(&project, &name), "recording-started"))
}

async fn broadcast(visit: Visit) -> Answer {
    let (project, name) = (visit.project_id()?, visit.param("name"));
    let mut body = json!({"layout": visit.field("layout")});
    if let Some(destination) = visit.optional("destination") {
        body["destination"] = json!(destination);
    }
    if let Some(url) = visit.optional("url") {
        body["urls"] = json!([url]);
    }
    visit.call("start_broadcast", &project).path("name", &name).body(body).send().await?;
    Ok(visit.done(&room_path(&project, &name), "broadcast-started"))
}

async fn create_ingress(visit: Visit) -> Answer {
    let (project, name) = (visit.project().await?, visit.param("name"));
    let body = json!({
        "input_type": visit.field("input_type"), "participant_identity": visit.field("participant_identity")
    });
    let created = visit.call("create_ingress", &project.id).path("name", &name).body(body).send().await?;
    let content = html! {
        h1 { "Ingress endpoint" }
        (secret("The stream key", created.text("stream_key")))
        (facts(&[
            ("Url", html! { code { (created.text("url")) } }),
            ("Room", html! { (name) }),
            ("Joins as", html! { (created.text("participant_identity")) }),
        ]))
        p { a href=(room_path(&project.id, &name)) { "Back to the room" } }
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/ingress"), "Ingress endpoint", &content)))
}
