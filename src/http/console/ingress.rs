//! The ingress endpoints of a project.

use maud::{Markup, html};
use serde_json::Value;

use super::json::Fields;
use super::layout::{self, Place};
use super::parts::{ROWS, badge, danger, empty, live, pager, table, time};
use super::route::{self, Route};
use super::visit::{Answer, Visit};

/// Seconds between two readings.
const EVERY: u32 = 10;

/// The routes of the page and its action.
pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/ingress", list),
        route::action("/projects/{project}/ingress/{id}/delete", delete),
    ]
}

async fn list(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let listed = visit.call("list_ingresses", &project.id).page(ROWS, visit.offset()).send().await?;
    let path = format!("/projects/{}/ingress", project.id);
    let rows: Vec<_> = listed.list("ingresses").iter().map(|one| row(&visit, &path, one)).collect();
    let content = html! {
        h1 { "Ingress" }
        (live(&visit, "ingress", EVERY, &html! {
            @if rows.is_empty() {
                (empty("There is no ingress endpoint.", "Create one for an encoder on the page of an open room."))
            } @else {
                (table("Ingress endpoints", &["Room", "Status", "Joins as", "Input", "Url", "Created", "Actions"], &rows))
            }
            (pager(&visit, visit.offset(), listed.flag("has_more")))
        }))
    };
    Ok(visit.show(layout::page(&visit, Place::Project(&project, "/ingress"), "Ingress", &content)))
}

fn row(visit: &Visit, path: &str, ingress: &Value) -> Vec<Markup> {
    let (id, identity) = (ingress.text("ingress_id"), ingress.text("participant_identity"));
    let question = format!("Delete the endpoint of {identity}? Its stream key becomes invalid.");
    vec![
        html! { (ingress.text("room")) },
        html! {
            (badge(ingress.text("status")))
            @if let Some(error) = ingress.some_text("error") { div { small { (error) } } }
        },
        html! { (identity) @if let Some(name) = ingress.some_text("participant_name") { div { small { (name) } } } },
        html! { (ingress.text("input_type")) },
        html! { code { (ingress.text("url")) } },
        time(ingress.text("created_at")),
        html! {
            @if ingress.text("status") != "deleted" { (danger(visit, &format!("{path}/{id}/delete"), "Delete", &question)) }
        },
    ]
}

async fn delete(visit: Visit) -> Answer {
    let project = visit.project_id()?;
    visit.call("delete_ingress", &project).path("ingress_id", &visit.param("id")).send().await?;
    Ok(visit.done(&format!("/projects/{project}/ingress"), "ingress-deleted"))
}
