//! The destinations of a template: where recordings are stored and broadcasts are sent.

use conclave_model::Problem;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::done;
use crate::http::api::v1::destinations::{self, DestinationJson};
use crate::http::console::parts::{badge, danger, empty, field, form, select, time};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{Answer, Visit, encoded};

/// An example of a configuration of each kind.
const EXAMPLES: &str = r#"{"urls": ["rtmp://live.example.org/app/key"]}
{"type": "s3", "bucket": "calls", "region": "eu-central-1", "access_key": "…", "secret": "…"}"#;

/// The routes of the actions.
pub fn routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/templates/{id}/destinations", create),
        route::action(
            "/projects/{project}/templates/{id}/destinations/{name}",
            change,
        ),
        route::action(
            "/projects/{project}/templates/{id}/destinations/{name}/delete",
            delete,
        ),
    ]
}

/// The destinations, each with its configuration without secrets, and the form that creates one.
pub fn section(visit: &Visit, path: &str, destinations: &[DestinationJson]) -> Markup {
    let kinds = [
        ("rtmp", "broadcasts (RTMP)"),
        ("recording", "recordings (object storage)"),
    ];
    html! {
        h2 { "Destinations" }
        @if destinations.is_empty() {
            (empty("There is no destination.", "With one, recordings go to object storage and broadcasts to stored urls."))
        }
        div.cards { @for destination in destinations { (card(visit, path, destination)) } }
        section.card {
            h2 { "Create a destination" }
            (form(visit, &format!("{path}/destinations"), &html! {
                div.fields {
                    (field("destination-name", "Name", &html! { input #destination-name name="name" required maxlength="64"; }, ""))
                    (field("destination-kind", "For", &select("destination-kind", "kind", &kinds, "rtmp"), ""))
                }
                (field("destination-config", "Configuration (JSON)", &html! {
                    textarea #destination-config name="config" required spellcheck="false" placeholder=(EXAMPLES) {}
                }, "As in the API; credentials are stored encrypted and never shown again"))
                p { button type="submit" { "Create destination" } }
            }))
        }
    }
}

fn card(visit: &Visit, path: &str, destination: &DestinationJson) -> Markup {
    let DestinationJson { name, config, .. } = destination;
    let path = format!("{path}/destinations/{}", encoded(name.as_str()));
    let id = format!("config-{name}");
    html! {
        section.card {
            h2 { (name) " " (badge(destination.kind.as_str())) }
            p { small { "Changed " (time(destination.updated_at)) } }
            ul { @for url in config["urls"].as_array().into_iter().flatten() { li { code { (url.as_str().unwrap_or_default()) } } } }
            (form(visit, &path, &html! {
                (field(&id, "Configuration (JSON)", &html! {
                    textarea id=(id) name="config" required spellcheck="false" placeholder=(EXAMPLES) { (editable(config)) }
                }, "Credentials that are left out are kept"))
                p { button type="submit" { "Save " (name) } }
            }))
            (danger(visit, &format!("{path}/delete"), "Delete", &format!("Delete the destination {name}?")))
        }
    }
}

/// A configuration without what is not shown: credentials, and urls, whose keys are replaced.
fn editable(config: &Value) -> String {
    let fields = config.as_object().into_iter().flatten();
    let shown = fields.filter(|(name, value)| *name != "urls" && value.as_str() != Some("***"));
    let shown: serde_json::Map<_, _> = shown
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if shown.is_empty() {
        String::new()
    } else {
        serde_json::to_string_pretty(&shown).unwrap_or_default()
    }
}

/// The configuration that a form has.
fn config(visit: &Visit) -> Result<Value, Problem> {
    let invalid =
        |error: serde_json::Error| Problem::invalid("config", format!("must be JSON: {error}"));
    serde_json::from_str(visit.field("config")).map_err(invalid)
}

async fn create(visit: Visit) -> Answer {
    let body = json!({"name": visit.field("name"), "kind": visit.field("kind"), "config": config(&visit)?});
    visit
        .call(destinations::create, &visit.project_id()?)
        .path("id", &visit.param("id"))
        .body(body)
        .send()
        .await?;
    done(&visit, "destination-created")
}

async fn change(visit: Visit) -> Answer {
    let call = visit
        .call(destinations::update, &visit.project_id()?)
        .path("id", &visit.param("id"));
    call.path("name", &visit.param("name"))
        .body(json!({"config": config(&visit)?}))
        .send()
        .await?;
    done(&visit, "destination-changed")
}

async fn delete(visit: Visit) -> Answer {
    let call = visit
        .call(destinations::delete, &visit.project_id()?)
        .path("id", &visit.param("id"));
    call.path("name", &visit.param("name")).send().await?;
    done(&visit, "destination-deleted")
}
