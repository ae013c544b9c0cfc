//! Opening a room: the form with everything that `POST /v1/rooms` takes.

use conclave_model::Problem;
use conclave_model::project::Project;
use maud::{Markup, html};
use serde::Serialize;
use serde_json::value::RawValue;

use super::parts::{field, form, select};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, encoded};
use crate::http::api::error::ApiError;
use crate::http::api::response::Json;
use crate::http::api::v1::rooms;
use crate::http::api::v1::templates::TemplateJson;

pub fn routes() -> Vec<Route> {
    vec![route::action("/projects/{project}/rooms", create)]
}

/// Body of the operation.
#[derive(Serialize)]
struct NewRoom<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_participants: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    empty_timeout_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_duration_seconds: Option<i64>,
    // As text, since metadata is stored with its order of keys and spelling of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
}

/// Renders the form.
pub fn section(visit: &Visit, project: &Project, templates: &[TemplateJson]) -> Markup {
    let mut choices = vec![("", "the project's default")];
    choices.extend(
        templates
            .iter()
            .map(|template| (template.id.as_str(), template.name.as_str())),
    );
    html! {
        section.card #open-room {
            h2 { "Open a room" }
            (form(visit, &format!("/projects/{}/rooms", project.id), &html! {
                div.fields {
                    (field("room-name", "Name", &html! { input #room-name name="name" required maxlength="128"; },
                        "Letters, digits, _ and -; never used before in the project"))
                    (field("template", "Template", &select("template", "template_id", &choices, ""), "Its roles and destinations"))
                    (field("max-participants", "Participants at most", &html! {
                        input #max-participants type="number" name="max_participants" min="0" placeholder="the plan's limit";
                    }, "0 for the plan's limit"))
                    (field("timeout", "Stays open when empty (seconds)", &html! {
                        input #timeout type="number" name="empty_timeout_seconds" min="0" placeholder="300";
                    }, ""))
                    (field("duration", "Lasts at most (seconds)", &html! {
                        input #duration type="number" name="max_duration_seconds" min="0" placeholder="the template's limit";
                    }, "From its first join; 0 for no limit"))
                }
                (field("metadata", "Metadata (JSON)", &html! {
                    textarea #metadata name="metadata" spellcheck="false" placeholder=r#"{"team": "blue"}"# {}
                }, "Any JSON for your backend, returned unchanged; may be empty"))
                p { button type="submit" { "Open room" } }
            }))
        }
    }
}

async fn create(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    let new = NewRoom {
        name: visit.field("name"),
        template_id: visit.optional("template_id"),
        max_participants: visit.number("max_participants")?,
        empty_timeout_seconds: visit.number("empty_timeout_seconds")?,
        max_duration_seconds: visit.number("max_duration_seconds")?,
        metadata: visit.optional("metadata").map(json).transpose()?,
    };
    let body = serde_json::to_string(&new).map_err(ApiError::internal)?;
    let Json(room) = visit
        .call(rooms::create, &project)
        .body_text(body)
        .send()
        .await?;
    Ok(visit.done(
        &format!("/projects/{project}/rooms/{}", encoded(room.name.as_str())),
        "room-created",
    ))
}

fn json(text: &str) -> Result<Box<RawValue>, Problem> {
    serde_json::from_str(text)
        .map_err(|error| Problem::invalid("metadata", format!("must be JSON: {error}")))
}
