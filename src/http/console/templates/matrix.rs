//! The roles of a template as a matrix: a column for each role, a row for each permission.

use std::collections::BTreeMap;

use conclave_model::role::{Permission, PublishKind, Role, RolePermissions};
use conclave_model::{Problem, RoleName};
use maud::{Markup, html};
use serde_json::json;

use super::done;
use crate::http::api::response::Json;
use crate::http::api::v1::{roles, templates};
use crate::http::console::parts::{danger, empty, field, form};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{Answer, Visit, encoded};

/// What a role may publish, and the words of the matrix.
const KINDS: [(PublishKind, &str); 4] = [
    (PublishKind::Audio, "Publish sound"),
    (PublishKind::Video, "Publish camera"),
    (PublishKind::Screen, "Share the screen"),
    (PublishKind::Data, "Send data"),
];
/// The moderation of others, and changes of oneself.
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

/// The routes of the actions.
pub fn routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/templates/{id}/permissions", save),
        route::action("/projects/{project}/templates/{id}/roles", add),
        route::action(
            "/projects/{project}/templates/{id}/roles/{role}/delete",
            delete,
        ),
    ]
}

/// The roles of a template by name.
type Roles = BTreeMap<RoleName, Role>;

/// The matrix, and the form that adds a role.
pub fn section(visit: &Visit, path: &str, roles: &Roles) -> Markup {
    html! {
        h2 { "Roles and permissions" }
        @if roles.is_empty() {
            (empty("The template has no role.", "Add one below. A token or a room code names the role that it gives."))
        } @else {
            (form(visit, &format!("{path}/permissions"), &html! {
                (table(roles))
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
                    "It may publish everything and moderate nothing, until you change that above"))
                p { button type="submit" { "Add role" } }
            }))
        }
    }
}

fn table(roles: &Roles) -> Markup {
    html! {
        table.matrix {
            caption.unseen { "Permissions by role" }
            thead { tr { th scope="col" { "Permission" } @for name in roles.keys() { th scope="col" { (name) } } } }
            tbody {
                @for (kind, label) in KINDS {
                    (row(label, roles, |name, role| {
                        let allowed = role.publish.allowed.contains(&kind);
                        check(&format!("{name}:publish:{kind}"), &format!("{label}: {name}"), allowed)
                    }))
                }
                @for (permission, label) in PERMISSIONS {
                    (row(label, roles, |name, role| {
                        let held = role.permissions.allows(permission);
                        check(&format!("{name}:permissions:{permission}"), &format!("{label}: {name}"), held)
                    }))
                }
                (row("Hidden from others", roles, |name, role| {
                    check(&format!("{name}:hidden"), &format!("Hidden from others: {name}"), role.hidden)
                }))
                (row("Priority, 1 is the first", roles, |name, role| number(name, "priority", role.priority.get())))
                (row("Holders at most, 0 for any number", roles, |name, role| number(name, "max_peer_count", role.max_peer_count.get())))
            }
        }
    }
}

fn row(label: &str, roles: &Roles, cell: impl Fn(&RoleName, &Role) -> Markup) -> Markup {
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

/// Writes every role of the template, with what the matrix says and all else as it was.
async fn save(visit: Visit) -> Answer {
    let (project, id) = (visit.project_id()?, visit.param("id"));
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
    // A role that was added after the page was shown has no column in its matrix.
    if !visit.has(&format!("{name}:priority")) {
        return Ok(());
    }
    let kinds = KINDS
        .iter()
        .filter(|(kind, _)| visit.has(&format!("{name}:publish:{kind}")));
    role.publish.allowed = kinds.map(|(kind, _)| *kind).collect();
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

async fn add(visit: Visit) -> Answer {
    let call = visit
        .call(roles::put, &visit.project_id()?)
        .path("id", &visit.param("id"));
    call.path("name", visit.field("name"))
        .body(json!({}))
        .send()
        .await?;
    done(&visit, "role-saved")
}

async fn delete(visit: Visit) -> Answer {
    let call = visit
        .call(roles::delete, &visit.project_id()?)
        .path("id", &visit.param("id"));
    call.path("name", &visit.param("role")).send().await?;
    done(&visit, "role-deleted")
}
