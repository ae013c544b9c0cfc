//! A room's recordings, broadcasts and ingress endpoints, and starting them.

use conclave_model::destination::DestinationKind;
use conclave_model::egress::EgressStatus;
use conclave_model::ingress::IngressStatus;
use conclave_model::page::Page;
use maud::{Markup, html};
use serde_json::json;

use super::{RoomPage, room_path};
use crate::http::api::error::ApiError;
use crate::http::api::input::FromRequest;
use crate::http::api::operation::Handler;
use crate::http::api::response::Json;
use crate::http::api::v1::broadcasts::{self, Broadcast};
use crate::http::api::v1::egress::{self, EgressHead, EgressJson, EgressTail};
use crate::http::api::v1::ingress::{self, IngressJson};
use crate::http::api::v1::recordings::{self, Recording};
use crate::http::console::layout::{self, PagePosition};
use crate::http::console::parts::{badge, danger, facts, field, form, secret, select, table, time};
use crate::http::console::recordings::{is_stoppable, stop_path};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{PageResult, Visit};

/// Maximum rows per kind.
const SHOWN: u32 = 10;
const LAYOUTS: [(&str, &str); 3] = [
    ("speaker", "speaker"),
    ("grid", "grid"),
    ("single-speaker", "single speaker"),
];

pub fn routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/rooms/{name}/recordings", record),
        route::action("/projects/{project}/rooms/{name}/broadcasts", broadcast),
        route::action("/projects/{project}/rooms/{name}/ingress", create_ingress),
    ]
}

impl RoomPage<'_> {
    /// Renders the running and the latest jobs.
    pub(super) async fn jobs(&self) -> Result<Markup, ApiError> {
        let mut rows = Vec::new();
        for Recording {
            head,
            status,
            filepath,
            tail,
            ..
        } in self.listed(egress::list::<Recording>).await?
        {
            let path = format!("/projects/{}/recordings/{}", self.project, head.egress_id);
            rows.push(self.job::<Recording>(
                &head,
                status,
                &tail,
                &html! { a href=(path) { (filepath) } },
            ));
        }
        for Broadcast {
            head,
            urls,
            status,
            tail,
        } in self.listed(egress::list::<Broadcast>).await?
        {
            rows.push(self.job::<Broadcast>(&head, status, &tail, &html! { (urls.join(", ")) }));
        }
        rows.extend(
            self.listed(ingress::list)
                .await?
                .iter()
                .map(|one| self.ingress(one)),
        );
        Ok(html! {
            @if !rows.is_empty() {
                h2 { "Recordings, broadcasts, ingress" }
                (table("Recordings, broadcasts and ingress of the room", &["Kind", "Status", "What", "Since", "Actions"], &rows))
            }
        })
    }

    /// Returns the room's newest entries in a project's list.
    async fn listed<H, I, T>(&self, list: H) -> Result<Vec<T>, ApiError>
    where
        H: Handler<I, Success = Page<T>>,
        I: FromRequest,
        T: 'static,
    {
        let call = self
            .visit
            .call(list, self.project)
            // By the projects' lists, since not every kind has a list per room.
            .query("room", Some(self.name()));
        Ok(call.page(SHOWN, 0).send().await?.items)
    }

    fn job<J: EgressJson>(
        &self,
        head: &EgressHead,
        status: EgressStatus,
        tail: &EgressTail,
        what: &Markup,
    ) -> Vec<Markup> {
        let (kind, path) = (J::KIND, stop_path::<J>(head));
        vec![
            html! { (kind) },
            badge(status.as_str()),
            html! { (what) @if let Some(error) = &tail.error { div { small { (error) } } } },
            time(tail.started_at),
            html! {
                @if is_stoppable(status) { (danger(self.visit, &path, "Stop", &format!("Stop the {kind}?"))) }
            },
        ]
    }

    fn ingress(&self, ingress: &IngressJson) -> Vec<Markup> {
        let path = format!(
            "/projects/{}/ingress/{}/delete",
            self.project, ingress.ingress_id
        );
        vec![
            html! { "ingress" },
            badge(ingress.status.as_str()),
            html! { (ingress.participant_identity) " by " (ingress.input_type) },
            time(ingress.created_at),
            html! {
                @if ingress.status != IngressStatus::Deleted {
                    (danger(self.visit, &path, "Delete", "Delete the ingress endpoint? Its stream key becomes invalid."))
                }
            },
        ]
    }

    fn destinations_for(&self, kind: DestinationKind, none: &'static str) -> Vec<(&str, &str)> {
        let mut choices = vec![("", none)];
        let matching = self.destinations.iter().filter(|one| one.kind == kind);
        choices.extend(matching.map(|one| (one.name.as_str(), one.name.as_str())));
        choices
    }

    pub(super) fn recording_form(&self) -> Markup {
        let destinations = self.destinations_for(DestinationKind::Recording, "this machine");
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
        let destinations = self.destinations_for(DestinationKind::Rtmp, "the URL above");
        html! {
            section.card {
                h2 { "Broadcast" }
                (form(self.visit, &self.path("/broadcasts"), &html! {
                    (field("broadcast-url", "RTMP URL with stream key", &html! {
                        // A stream key must not stay in the browser's form history.
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
                    (field("input-type", "Protocol", &select("input-type", "input_type",
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

async fn record(visit: Visit) -> PageResult {
    let (project, name) = (visit.project_id()?, visit.param("name"));
    let mut body = json!({"type": "room_composite", "layout": visit.field("layout")});
    if let Some(destination) = visit.optional("destination") {
        body["destination"] = json!(destination);
    }
    visit
        .call(recordings::start, &project)
        .path("name", &name)
        .body(body)
        .send()
        .await?;
    Ok(visit.done(&room_path(&project, &name), "recording-started"))
}

async fn broadcast(visit: Visit) -> PageResult {
    let (project, name) = (visit.project_id()?, visit.param("name"));
    let mut body = json!({"layout": visit.field("layout")});
    if let Some(destination) = visit.optional("destination") {
        body["destination"] = json!(destination);
    }
    if let Some(url) = visit.optional("url") {
        body["urls"] = json!([url]);
    }
    visit
        .call(broadcasts::start, &project)
        .path("name", &name)
        .body(body)
        .send()
        .await?;
    Ok(visit.done(&room_path(&project, &name), "broadcast-started"))
}

async fn create_ingress(visit: Visit) -> PageResult {
    let (project, name) = (visit.project().await?, visit.param("name"));
    let body = json!({
        "input_type": visit.field("input_type"), "participant_identity": visit.field("participant_identity")
    });
    let Json(created) = visit
        .call(ingress::create, &project.id)
        .path("name", &name)
        .body(body)
        .send()
        .await?;
    let content = html! {
        h1 { "Ingress endpoint" }
        // Shown in this response instead of a redirect, since it cannot be read again.
        (secret("The stream key", created.stream_key.reveal()))
        (facts(&[
            ("URL", html! { code { (created.ingress.url) } }),
            ("Room", html! { (name) }),
            ("Joins as", html! { (created.ingress.participant_identity) }),
        ]))
        p { a href=(room_path(&project.id, &name)) { "Back to the room" } }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/ingress"),
        "Ingress endpoint",
        &content,
    )))
}
