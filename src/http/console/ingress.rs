//! A project's ingress endpoints.

use conclave_model::ingress::IngressStatus;
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::parts::{ROWS, badge, danger, empty, live, pager, table, time};
use super::route::{self, Route};
use super::visit::{PageResult, Visit};
use crate::http::api::v1::ingress::{self, IngressJson};

/// Refresh interval in seconds.
const REFRESH_INTERVAL: u32 = 10;

pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/ingress", list),
        route::action("/projects/{project}/ingress/{id}/delete", delete),
    ]
}

async fn list(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let listed = visit
        .call(ingress::list, &project.id)
        .page(ROWS, visit.offset())
        .send()
        .await?;
    let path = format!("/projects/{}/ingress", project.id);
    let rows: Vec<_> = listed
        .items
        .iter()
        .map(|one| row(&visit, &path, one))
        .collect();
    let content = html! {
        h1 { "Ingress" }
        (live(&visit, "ingress", REFRESH_INTERVAL, &html! {
            @if rows.is_empty() {
                (empty("There is no ingress endpoint.", "Create one for an encoder on the page of an open room."))
            } @else {
                // The URL has no stream key, which only the creation shows.
                (table("Ingress endpoints", &["Room", "Status", "Joins as", "Input", "URL", "Created", "Actions"], &rows))
            }
            (pager(&visit, visit.offset(), listed.has_more))
        }))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/ingress"),
        "Ingress",
        &content,
    )))
}

fn row(visit: &Visit, path: &str, ingress: &IngressJson) -> Vec<Markup> {
    let (id, identity) = (&ingress.ingress_id, &ingress.participant_identity);
    let question = format!("Delete the endpoint of {identity}? Its stream key becomes invalid.");
    vec![
        html! { (ingress.room) },
        html! {
            (badge(ingress.status.as_str()))
            @if let Some(error) = &ingress.error { div { small { (error) } } }
        },
        html! { (identity) @if let Some(name) = &ingress.participant_name { div { small { (name) } } } },
        html! { (ingress.input_type) },
        html! { code { (ingress.url) } },
        time(ingress.created_at),
        html! {
            // A deleted endpoint stays in the list as history.
            @if ingress.status != IngressStatus::Deleted { (danger(visit, &format!("{path}/{id}/delete"), "Delete", &question)) }
        },
    ]
}

async fn delete(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    visit
        .call(ingress::delete, &project)
        .path("ingress_id", &visit.param("id"))
        .send()
        .await?;
    Ok(visit.done(&format!("/projects/{project}/ingress"), "ingress-deleted"))
}
