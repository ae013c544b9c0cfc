//! The broadcasts of a project.

use conclave_model::project::Project;
use maud::{Markup, html};

use super::egress::{List, stop, stop_button};
use super::parts::{badge, or_nothing, time};
use super::route::{self, Route};
use super::visit::{Answer, Visit};
use crate::http::api::v1::broadcasts::Broadcast;

/// The routes of the page and its action.
pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/broadcasts", list),
        route::action(
            "/projects/{project}/broadcasts/{id}/stop",
            stop::<Broadcast>,
        ),
    ]
}

async fn list(visit: Visit) -> Answer {
    let list = List {
        title: "Broadcasts",
        none: "There is no broadcast here.",
        columns: &["Room", "Status", "Receivers", "Started", "Ended", "Actions"],
        row,
        path: "/broadcasts",
    };
    list.show(visit).await
}

fn row(visit: &Visit, _: &Project, broadcast: &Broadcast) -> Vec<Markup> {
    let Broadcast {
        head,
        urls,
        status,
        tail,
    } = broadcast;
    vec![
        html! { (head.room) },
        badge(status.as_str()),
        html! {
            (or_nothing(Some(urls.join(", ")).filter(|urls| !urls.is_empty())))
            @if let Some(error) = &tail.error { div { small { (error) } } }
        },
        time(tail.started_at),
        time(tail.ended_at),
        stop_button::<Broadcast>(visit, head, *status),
    ]
}
