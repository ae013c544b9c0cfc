//! Templates with their roles as an editable matrix, and their destinations.

mod destinations;
mod matrix;

use conclave_model::RoleName;
use maud::{Markup, html};
use serde_json::json;

use super::layout::{self, Place};
use super::parts::{ROWS, badge, danger, empty, facts, field, form, pager, select, table, time};
use super::route::{self, Route};
use super::visit::{Answer, Visit};
use crate::http::api::response::Json;
use crate::http::api::v1::destinations as api_destinations;
use crate::http::api::v1::templates::{self, TemplateJson, TemplateSettingsDetail};

/// The routes of the pages and their actions.
pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        route::page("/projects/{project}/templates", list),
        route::action("/projects/{project}/templates", create),
        route::page("/projects/{project}/templates/{id}", one),
        route::action("/projects/{project}/templates/{id}", update),
        route::action("/projects/{project}/templates/{id}/delete", delete),
    ];
    routes.extend(matrix::routes());
    routes.extend(destinations::routes());
    routes
}

async fn list(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let listed = visit
        .call(templates::list, &project.id)
        .page(ROWS, visit.offset())
        .send()
        .await?;
    let path = format!("/projects/{}/templates", project.id);
    let rows: Vec<_> = listed
        .items
        .iter()
        .map(|template| row(&path, template))
        .collect();
    let content = html! {
        h1 { "Templates" }
        @if rows.is_empty() {
            (empty("There is no template.", "A template is a set of roles: what each may publish, see and do in a room."))
        } @else {
            (table("Templates", &["Template", "Default", "Roles", "Region", "Changed"], &rows))
        }
        (pager(&visit, visit.offset(), listed.has_more))
        section.card {
            h2 { "Create a template" }
            (form(&visit, &path, &html! {
                (field("name", "Name", &html! { input #name name="name" required maxlength="64"; }, "Letters, digits, _ and -"))
                p { button type="submit" { "Create template" } }
            }))
        }
    };
    Ok(visit.show(layout::page(
        &visit,
        Place::Project(&project, "/templates"),
        "Templates",
        &content,
    )))
}

fn row(path: &str, template: &TemplateJson) -> Vec<Markup> {
    let roles: Vec<_> = template.roles.keys().map(RoleName::as_str).collect();
    vec![
        html! { a href={ (path) "/" (template.id) } { (template.name) } },
        html! { @if template.is_default { (badge("default")) } },
        html! { (roles.join(", ")) },
        html! { (template.settings.region) },
        time(template.updated_at),
    ]
}

async fn one(visit: Visit) -> Answer {
    let project = visit.project().await?;
    let id = visit.param("id");
    let Json(template) = visit
        .call(templates::get, &project.id)
        .path("id", &id)
        .send()
        .await?;
    let Json(settings) = visit
        .call(templates::get_settings, &project.id)
        .path("id", &id)
        .send()
        .await?;
    let Json(listed) = visit
        .call(api_destinations::list, &project.id)
        .path("id", &id)
        .send()
        .await?;
    let path = format!("/projects/{}/templates/{id}", project.id);
    let content = html! {
        p { a href={ "/projects/" (project.id) "/templates" } { "Templates" } }
        h1 { (template.name) @if template.is_default { " " (badge("default")) } }
        (facts(&[
            ("Id", html! { code { (id) } }),
            ("Created", time(template.created_at)),
            ("Changed", time(template.updated_at)),
        ]))
        (matrix::section(&visit, &path, &template.roles))
        (destinations::section(&visit, &path, &listed.destinations))
        (change_form(&visit, &path, &template, &settings))
    };
    Ok(visit.show(layout::page(
        &visit,
        Place::Project(&project, "/templates"),
        template.name.as_str(),
        &content,
    )))
}

fn change_form(
    visit: &Visit,
    path: &str,
    template: &TemplateJson,
    settings: &TemplateSettingsDetail,
) -> Markup {
    let regions: Vec<_> = settings
        .allowed_regions
        .iter()
        .map(|region| (region.as_str(), region.as_str()))
        .collect();
    html! {
        section.card {
            h2 { "Template" }
            (form(visit, path, &html! {
                div.fields {
                    (field("name", "Name", &html! { input #name name="name" required maxlength="64" value=(template.name); }, ""))
                    (field("region", "Region", &select("region", "region", &regions, settings.region.as_str()), settings.region_note))
                }
                p { button type="submit" { "Save" } }
            }))
            @if !template.is_default {
                (danger(visit, &format!("{path}/delete"), "Delete template", "Delete the template with its roles?"))
            }
        }
    }
}

async fn create(visit: Visit) -> Answer {
    let project = visit.project_id()?;
    let body = json!({"name": visit.field("name")});
    let Json(created) = visit
        .call(templates::create, &project)
        .body(body)
        .send()
        .await?;
    Ok(visit.done(
        &format!("/projects/{project}/templates/{}", created.id),
        "template-created",
    ))
}

async fn update(visit: Visit) -> Answer {
    let body = json!({"name": visit.field("name"), "settings": {"region": visit.field("region")}});
    visit
        .call(templates::update, &visit.project_id()?)
        .path("id", &visit.param("id"))
        .body(body)
        .send()
        .await?;
    done(&visit, "template-changed")
}

async fn delete(visit: Visit) -> Answer {
    let project = visit.project_id()?;
    visit
        .call(templates::delete, &project)
        .path("id", &visit.param("id"))
        .send()
        .await?;
    Ok(visit.done(
        &format!("/projects/{project}/templates"),
        "template-deleted",
    ))
}

/// Goes back to the template.
fn done(visit: &Visit, note: &'static str) -> Answer {
    Ok(visit.done(
        &format!(
            "/projects/{}/templates/{}",
            visit.project_id()?,
            visit.param("id")
        ),
        note,
    ))
}
