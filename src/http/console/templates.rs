//! Templates: their roles as an editable matrix, with a column per role and a row per permission, and their
//! [destinations](super::destinations) for recordings and broadcasts.

use std::collections::BTreeMap;

use conclave_model::role::{Permission, PublishKind, Role, RolePermissions};
use conclave_model::{Problem, RoleName};
use maud::{Markup, html};
use serde_json::json;

use super::destinations;
use super::layout::{self, PagePosition};
use super::parts::{ROWS, badge, danger, empty, facts, field, form, pager, select, table, time};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, encoded};
use crate::http::api::response::Json;
use crate::http::api::v1::templates::{self, TemplateJson, TemplateSettingsDetail};
use crate::http::api::v1::{destinations as api_destinations, roles};

pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        route::page("/projects/{project}/templates", list),
        route::action("/projects/{project}/templates", create),
        route::page("/projects/{project}/templates/{id}", one),
        route::action("/projects/{project}/templates/{id}", update),
        route::action("/projects/{project}/templates/{id}/delete", delete),
    ];
    routes.extend(role_routes());
    routes
}

async fn list(visit: Visit) -> PageResult {
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
        PagePosition::Project(&project, "/templates"),
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

async fn one(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let id = visit.param("id");
    let Json(template) = visit
        .call(templates::get, &project.id)
        .path("id", &id)
        .send()
        .await?;
    // Apart, because the template's response has no list of regions.
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
        (role_section(&visit, &path, &template.roles))
        (destinations::section(&visit, &path, &listed.destinations))
        (change_form(&visit, &path, &template, &settings))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/templates"),
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

async fn create(visit: Visit) -> PageResult {
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

async fn update(visit: Visit) -> PageResult {
    let body = json!({"name": visit.field("name"), "settings": {"region": visit.field("region")}});
    visit
        .call(templates::update, &visit.project_id()?)
        .path("id", &visit.param("id"))
        .body(body)
        .send()
        .await?;
    done(&visit, "template-changed")
}

async fn delete(visit: Visit) -> PageResult {
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

/// Redirects to the template's page.
fn done(visit: &Visit, note: &'static str) -> PageResult {
    Ok(visit.done(
        &format!(
            "/projects/{}/templates/{}",
            visit.project_id()?,
            visit.param("id")
        ),
        note,
    ))
}

/// Kinds that a role may publish, with their labels in the matrix.
// In the order of the contract.
const KINDS: [(PublishKind, &str); 4] = [
    (PublishKind::Audio, "Publish audio"),
    (PublishKind::Video, "Publish camera"),
    (PublishKind::Screen, "Share the screen"),
    (PublishKind::Data, "Send data"),
];
/// Moderation permissions, and changes of the participant itself.
const PERMISSIONS: [(Permission, &str); 9] = [
    (Permission::EndRoom, "End the room"),
    (Permission::RemoveOthers, "Remove others"),
    (Permission::MuteOthers, "Mute others"),
    (Permission::UnmuteOthers, "Unmute others"),
    (Permission::ChangeRole, "Change roles"),
    (Permission::SendData, "Send data by the server"),
    (Permission::Record, "Record"),
    (Permission::Broadcast, "Broadcast"),
    (
        Permission::UpdateOwnMetadata,
        "Change own name and attributes",
    ),
];

fn role_routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/templates/{id}/permissions", save),
        route::action("/projects/{project}/templates/{id}/roles", add),
        route::action(
            "/projects/{project}/templates/{id}/roles/{role}/delete",
            delete_role,
        ),
    ]
}

/// A template's roles by name.
type Roles = BTreeMap<RoleName, Role>;

/// Renders the matrix, and the form that adds a role.
fn role_section(visit: &Visit, path: &str, roles: &Roles) -> Markup {
    html! {
        h2 { "Roles and permissions" }
        @if roles.is_empty() {
            (empty("The template has no role.", "Add one below. A token or a room code names the role that it gives."))
        } @else {
            (form(visit, &format!("{path}/permissions"), &html! {
                (role_table(roles))
                p { button type="submit" { "Save permissions" } }
            }))
            div.actions {
                @for name in roles.keys() {
                    (danger(visit, &format!("{path}/roles/{}/delete", encoded(name.as_str())), &format!("Delete {name}"),
                        &format!("Delete the role {name}?")))
                }
            }
        }
        section.card {
            h2 { "Add a role" }
            (form(visit, &format!("{path}/roles"), &html! {
                (field("role-name", "Name", &html! { input #role-name name="name" required maxlength="64"; },
                    "It may publish everything and moderate nothing; change this in the table above"))
                p { button type="submit" { "Add role" } }
            }))
        }
    }
}

fn role_table(roles: &Roles) -> Markup {
    html! {
        table.matrix {
            caption.unseen { "Permissions by role" }
            thead { tr { th scope="col" { "Permission" } @for name in roles.keys() { th scope="col" { (name) } } } }
            tbody {
                @for (kind, label) in KINDS {
                    (role_row(label, roles, |name, role| {
                        let allowed = role.publish.allowed.contains(&kind);
                        // Names contain no colon, so the field's name is unambiguous.
                        check(&format!("{name}:publish:{kind}"), &format!("{label}: {name}"), allowed)
                    }))
                }
                @for (permission, label) in PERMISSIONS {
                    (role_row(label, roles, |name, role| {
                        let held = role.permissions.allows(permission);
                        check(&format!("{name}:permissions:{permission}"), &format!("{label}: {name}"), held)
                    }))
                }
                (role_row("Hidden from others", roles, |name, role| {
                    check(&format!("{name}:hidden"), &format!("Hidden from others: {name}"), role.hidden)
                }))
                (role_row("Priority, 1 is the first", roles, |name, role| number(name, "priority", role.priority.get())))
                (role_row("Holders at most, 0 for any number", roles, |name, role| number(name, "max_peer_count", role.max_peer_count.get())))
            }
        }
    }
}

fn role_row(label: &str, roles: &Roles, cell: impl Fn(&RoleName, &Role) -> Markup) -> Markup {
    html! {
        tr {
            th scope="row" { (label) }
            @for (name, role) in roles { td data-label=(name) { div { (cell(name, role)) } } }
        }
    }
}

fn check(name: &str, label: &str, checked: bool) -> Markup {
    html! { input type="checkbox" name=(name) aria-label=(label) checked[checked]; }
}

fn number(role: &RoleName, what: &str, value: i32) -> Markup {
    let label = format!("{}: {role}", what.replace('_', " "));
    html! { input type="number" name={ (role) ":" (what) } aria-label=(label) value=(value) required; }
}

/// Writes every role of the template: the matrix's values, and everything else unchanged.
async fn save(visit: Visit) -> PageResult {
    let (project, id) = (visit.project_id()?, visit.param("id"));
    // An update replaces each role as a whole, so the current roles are read first.
    let Json(mut template) = visit
        .call(templates::get, &project)
        .path("id", &id)
        .send()
        .await?;
    for (name, role) in &mut template.roles {
        apply(&visit, name, role)?;
    }
    let body = json!({"roles": template.roles});
    visit
        .call(templates::update, &project)
        .path("id", &id)
        .body(body)
        .send()
        .await?;
    done(&visit, "permissions-saved")
}

fn apply(visit: &Visit, name: &RoleName, role: &mut Role) -> Result<(), Problem> {
    // A role that was added after the page was loaded has no column in its matrix, and must not lose its permissions.
    if !visit.has(&format!("{name}:priority")) {
        return Ok(());
    }
    let kinds = KINDS
        .iter()
        .filter(|(kind, _)| visit.has(&format!("{name}:publish:{kind}")));
    role.publish.allowed = kinds.map(|(kind, _)| *kind).collect();
    // All permissions come from the form: an unticked checkbox is not sent.
    role.permissions =
        RolePermissions::new(|held| visit.has(&format!("{name}:permissions:{held}")));
    role.hidden = visit.has(&format!("{name}:hidden"));
    role.priority = sent_number(visit, name, "priority")?;
    role.max_peer_count = sent_number(visit, name, "max_peer_count")?;
    Ok(())
}

fn sent_number<N: TryFrom<i64, Error = String>>(
    visit: &Visit,
    name: &RoleName,
    what: &str,
) -> Result<N, Problem> {
    let text = visit.field(&format!("{name}:{what}"));
    let number: i64 = text
        .parse()
        .map_err(|_| Problem::invalid(format!("{name}.{what}"), "must be a whole number"))?;
    number
        .try_into()
        .map_err(|message: String| Problem::invalid(format!("roles.{name}.{what}"), message))
}

async fn add(visit: Visit) -> PageResult {
    let call = visit
        .call(roles::put, &visit.project_id()?)
        .path("id", &visit.param("id"));
    call.path("name", visit.field("name"))
        .body(json!({}))
        .send()
        .await?;
    done(&visit, "role-saved")
}

async fn delete_role(visit: Visit) -> PageResult {
    let call = visit
        .call(roles::delete, &visit.project_id()?)
        .path("id", &visit.param("id"));
    call.path("name", &visit.param("role")).send().await?;
    done(&visit, "role-deleted")
}
