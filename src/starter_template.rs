//! The default template of a new project, with the roles `host` and `guest`, so that its first room can have tokens with roles.

use std::collections::BTreeMap;

use conclave_db::{NewTemplate, Store, StoreError};
use conclave_model::bounded::MaxDuration;
use conclave_model::project::Project;
use conclave_model::role::{Role, RoleInput, RolePermissions};
use conclave_model::template::Region;
use conclave_model::{ProjectId, RoleName};

/// Creates the template and makes it the default, unless the project has a default template, which stays as it is.
///
/// # Errors
/// Fails when the database cannot be written.
pub async fn ensure(store: &Store, project: Project) -> Result<Project, StoreError> {
    if project.default_template_id.is_some() {
        return Ok(project);
    }
    let Some(new) = template(&project.id) else {
        return Err(StoreError::Fault(
            "the default template is not valid".into(),
        ));
    };
    let template = store.templates().create(new, None).await?;
    store
        .projects()
        .set_default_template(project.id, template.id)
        .await
}

/// Returns a template with the roles `host`, with all permissions in the contract, and `guest`, with none.
fn template(project: &ProjectId) -> Option<NewTemplate> {
    let all_permissions = RolePermissions {
        end_room: true,
        remove_others: true,
        mute_others: true,
        unmute_others: true,
        change_role: true,
        send_data: true,
        record: true,
        broadcast: true,
        // Permissions beyond the contract, which have their own defaults.
        ..RolePermissions::default()
    };
    let host = role(
        "host",
        RoleInput {
            permissions: Some(all_permissions),
            ..RoleInput::default()
        },
    )?;
    let guest = role("guest", RoleInput::default())?;
    Some(NewTemplate {
        project_id: project.clone(),
        name: "default".parse().ok()?,
        region: Region::Auto,
        auto_record: None,
        max_duration: MaxDuration::known(0),
        roles: BTreeMap::from([host, guest]),
    })
}

fn role(name: &str, input: RoleInput) -> Option<(RoleName, Role)> {
    let name: RoleName = name.parse().ok()?;
    let role = input.with_defaults(name.clone()).ok()?;
    Some((name, role))
}
