//! The project of `conclave dev`: a test project with a default template, and a new API key at each start. The key of the
//! previous start is revoked.

use std::collections::BTreeMap;

use conclave_db::{NewTemplate, Store, StoreError};
use conclave_model::key::ApiKey;
use conclave_model::project::{Environment, Project};
use conclave_model::role::{Role, RoleInput, RolePermissions};
use conclave_model::template::Region;
use conclave_model::{ProjectId, RoleName};

use crate::config::{DEFAULT_PLAN, Mode};

/// Name of the project and label of its keys.
const DEV: &str = "dev";

/// The credentials of a development server.
pub struct DevAccess {
    /// The test project.
    pub project_id: ProjectId,
    /// An API key that is valid until the next start.
    pub api_key: ApiKey,
}

/// Finds or creates the project and its template, and creates the key, if the mode is that of `dev`.
pub(super) async fn prepare(mode: Mode, store: &Store) -> Result<Option<DevAccess>, StoreError> {
    if mode == Mode::Serve {
        return Ok(None);
    }
    let project = find_or_create_project(store).await?;
    for key in store.api_keys(project.id.clone()).await? {
        if key.label == DEV && key.revoked_at.is_none() {
            store.revoke_api_key(key.prefix).await?;
        }
    }
    let api_key = store.create_api_key(project.id.clone(), DEV.into()).await?.key;
    Ok(Some(DevAccess { project_id: project.id, api_key }))
}

async fn find_or_create_project(store: &Store) -> Result<Project, StoreError> {
    let known = store.projects().await?.into_iter().find(|p| p.name == DEV && p.env == Environment::Test);
    let project = match known {
        Some(project) => project,
        None => store.create_project(DEV.into(), Environment::Test, DEFAULT_PLAN.into()).await?,
    };
    if project.default_template_id.is_some() {
        return Ok(project);
    }
    let Some(new) = default_template(&project.id) else {
        return Err(StoreError::Fault("the development template is not valid".into()));
    };
    let template = store.create_template(new, None).await?;
    store.set_default_template(project.id, template.id).await
}

/// Returns a template with the roles `host`, which has all permissions of the contract, and `guest`, which has none.
fn default_template(project: &ProjectId) -> Option<NewTemplate> {
    let all_permissions = RolePermissions {
        end_room: true,
        remove_others: true,
        mute_others: true,
        unmute_others: true,
        change_role: true,
        send_data: true,
        record: true,
        broadcast: true,
        ..RolePermissions::default()
    };
    let host = role("host", RoleInput { permissions: Some(all_permissions), ..RoleInput::default() })?;
    let guest = role("guest", RoleInput::default())?;
    Some(NewTemplate {
        project_id: project.clone(),
        name: "default".parse().ok()?,
        region: Region::Auto,
        roles: BTreeMap::from([host, guest]),
    })
}

fn role(name: &str, input: RoleInput) -> Option<(RoleName, Role)> {
    let name: RoleName = name.parse().ok()?;
    let role = input.with_defaults(name.clone()).ok()?;
    Some((name, role))
}
