//! The roles of a template as a matrix: a column for each role, a row for each permission.

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::done;
use crate::http::console::json::Fields;
use crate::http::console::parts::{danger, empty, field, form};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{Answer, Visit, encoded};
use crate::http::error::ApiError;

/// What a role may publish: the word of the API, the words of the matrix.
const KINDS: [(&str, &str); 4] =
    [("audio", "Publish sound"), ("video", "Publish camera"), ("screen", "Share the screen"), ("data", "Send data")];
/// The moderation of others.
const PERMISSIONS: [(&str, &str); 8] = [
    ("end_room", "End the room"),
    ("remove_others", "Remove others"),
    ("mute_others", "Mute others"),
    ("unmute_others", "Unmute others"),
    ("change_role", "Change roles"),
    ("send_data", "Send data by the server"),
    ("record", "Record"),
    ("broadcast", "Broadcast"),
];

/// The routes of the actions.
pub fn routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/templates/{id}/permissions", save),
        route::action("/projects/{project}/templates/{id}/roles", add),
        route::action("/projects/{project}/templates/{id}/roles/{role}/delete", delete),
    ]
}

/// The matrix, and the form that adds a role.
pub fn section(visit: &Visit, path: &str, roles: &Value) -> Markup {
    let empty_map = Map::new();
    let roles = roles.as_object().unwrap_or(&empty_map);
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
                @for (name, _) in roles {
                    (danger(visit, &format!("{path}/roles/{}/delete", encoded(name)), &format!("Delete {name}"),
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

fn table(roles: &Map<String, Value>) -> Markup {
    html! {
        table.matrix {
            caption.unseen { "Permissions by role" }
            thead { tr { th scope="col" { "Permission" } @for (name, _) in roles { th scope="col" { (name) } } } }
            tbody {
                @for (kind, label) in KINDS {
                    (row(label, roles, |name, role| {
                        let allowed = role["publish"].list("allowed").iter().any(|one| one == kind);
                        check(&format!("{name}:publish:{kind}"), &format!("{label}: {name}"), allowed)
                    }))
                }
                @for (permission, label) in PERMISSIONS {
                    (row(label, roles, |name, role| {
                        let held = role["permissions"].flag(permission);
                        check(&format!("{name}:permissions:{permission}"), &format!("{label}: {name}"), held)
                    }))
                }
                (row("Hidden from others", roles, |name, role| {
                    check(&format!("{name}:hidden"), &format!("Hidden from others: {name}"), role.flag("hidden"))
                }))
                (row("Priority, 1 is the first", roles, |name, role| number(name, "priority", role)))
                (row("Holders at most, 0 for any number", roles, |name, role| number(name, "max_peer_count", role)))
            }
        }
    }
}

fn row(label: &str, roles: &Map<String, Value>, cell: impl Fn(&str, &Value) -> Markup) -> Markup {
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

fn number(role: &str, what: &str, of: &Value) -> Markup {
    let label = format!("{}: {role}", what.replace('_', " "));
    html! { input type="number" name={ (role) ":" (what) } aria-label=(label) value=(of.whole(what)) required; }
}

/// Writes every role of the template, with what the matrix says and all else as it was.
async fn save(visit: Visit) -> Answer {
    let (project, id) = (visit.project_id()?, visit.param("id"));
    let template = visit.call("get_template", &project).path("id", &id).send().await?;
    let mut roles = template["roles"].clone();
    for (name, role) in roles.as_object_mut().into_iter().flatten() {
        apply(&visit, name, role)?;
    }
    visit.call("update_template", &project).path("id", &id).body(json!({"roles": roles})).send().await?;
    done(&visit, "permissions-saved")
}

fn apply(visit: &Visit, name: &str, role: &mut Value) -> Result<(), ApiError> {
    // A role that was added after the page was shown has no column in its matrix.
    if !visit.has(&format!("{name}:priority")) {
        return Ok(());
    }
    let kinds = KINDS.iter().filter(|(kind, _)| visit.has(&format!("{name}:publish:{kind}")));
    role["publish"]["allowed"] = kinds.map(|(kind, _)| json!(kind)).collect();
    for (permission, _) in PERMISSIONS {
        role["permissions"][permission] = json!(visit.has(&format!("{name}:permissions:{permission}")));
    }
    role["hidden"] = json!(visit.has(&format!("{name}:hidden")));
    for what in ["priority", "max_peer_count"] {
        let text = visit.field(&format!("{name}:{what}"));
        let number = text
            .parse::<i64>()
            .map_err(|_| conclave_model::Problem::invalid(format!("{name}.{what}"), "must be a whole number"))?;
        role[what] = json!(number);
    }
    Ok(())
}

async fn add(visit: Visit) -> Answer {
    let call = visit.call("put_role", &visit.project_id()?).path("id", &visit.param("id"));
    call.path("name", visit.field("name")).body(json!({})).send().await?;
    done(&visit, "role-saved")
}

async fn delete(visit: Visit) -> Answer {
    let call = visit.call("delete_role", &visit.project_id()?).path("id", &visit.param("id"));
    call.path("name", &visit.param("role")).send().await?;
    done(&visit, "role-deleted")
}
