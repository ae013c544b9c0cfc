//! Templates and their roles. Every statement names the project.

use std::collections::BTreeMap;

use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::role::Role;
use conclave_model::template::{Region, Template, check_references, referring_role};
use conclave_model::{ErrorCode, Problem, ProjectId, RoleName, TemplateId, TemplateName};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::query_builder::QueryBuilder;
use crate::writer::Tx;
use crate::{Store, StoreError};

/// A template to be made.
#[derive(Debug, Clone)]
pub struct NewTemplate {
    /// Whose.
    pub project_id: ProjectId,
    /// Unique in the project.
    pub name: TemplateName,
    /// Where media should run.
    pub region: Region,
    /// Its first roles.
    pub roles: BTreeMap<RoleName, Role>,
}

/// What is changed of a template; `None` and absent roles are left as they are.
#[derive(Debug, Clone, Default)]
pub struct TemplateChange {
    /// A new name.
    pub name: Option<TemplateName>,
    /// A new region.
    pub region: Option<Region>,
    /// Roles written whole.
    pub roles: BTreeMap<RoleName, Role>,
}

const COLUMNS: &str = "t.id, t.project_id, t.name, p.default_template_id IS t.id, t.region, t.created_at, t.updated_at";
const FROM: &str = "templates t JOIN projects p ON p.id = t.project_id";

/// A template without its roles.
fn template(row: &Row<'_>) -> rusqlite::Result<Template> {
    Ok(Template {
        id: row.parsed(0)?,
        project_id: row.parsed(1)?,
        name: row.parsed(2)?,
        is_default: row.get(3)?,
        region: row.word(4, |word| word.parse().ok())?,
        roles: BTreeMap::new(),
        created_at: row.time(5)?,
        updated_at: row.time(6)?,
    })
}

fn role(row: &Row<'_>, index: usize) -> rusqlite::Result<Role> {
    serde_json::from_str(row.get_ref(index)?.as_str()?)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, Box::new(e)))
}

fn roles(sql: &Connection, id: &TemplateId) -> rusqlite::Result<BTreeMap<RoleName, Role>> {
    sql.prepare_cached("SELECT body FROM roles WHERE template_id = ?1")?
        .query_map([id.as_str()], |row| role(row, 0).map(|role| (role.name.clone(), role)))?
        .collect()
}

fn one(sql: &Connection, project: &ProjectId, id: &TemplateId) -> Result<Option<Template>, StoreError> {
    let query = format!("SELECT {COLUMNS} FROM {FROM} WHERE t.id = ?1 AND t.project_id = ?2");
    let found = sql
        .prepare_cached(&query)
        .and_then(|mut s| s.query_row([id.as_str(), project.as_str()], template).optional())
        .or_store_error()?;
    found.map(|found| with_roles(sql, found)).transpose()
}

fn with_roles(sql: &Connection, mut template: Template) -> Result<Template, StoreError> {
    template.roles = roles(sql, &template.id).or_store_error()?;
    Ok(template)
}

fn existing(sql: &Connection, project: &ProjectId, id: &TemplateId) -> Result<Template, StoreError> {
    one(sql, project, id)?.ok_or_else(|| StoreError::Refused(Problem::template_not_found()))
}

/// Refuses a template that the project does not have.
pub(crate) fn refuse_unknown_template(
    sql: &Connection,
    project: &ProjectId,
    id: &TemplateId,
) -> Result<(), StoreError> {
    let known: bool = sql
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM templates WHERE id = ?1 AND project_id = ?2)")
        .and_then(|mut s| s.query_row([id.as_str(), project.as_str()], |row| row.get(0)))
        .or_store_error()?;
    if known { Ok(()) } else { StoreError::refuse(Problem::template_not_found()) }
}

/// A role of a template, looked up by the template alone: the caller holds a room that points at it.
pub(crate) fn role_of(sql: &Connection, id: &TemplateId, name: &RoleName) -> Result<Option<Role>, StoreError> {
    sql.prepare_cached("SELECT body FROM roles WHERE template_id = ?1 AND name = ?2")
        .and_then(|mut s| s.query_row([id.as_str(), name.as_str()], |row| role(row, 0)).optional())
        .or_store_error()
}

/// All roles of a template.
pub(crate) fn roles_of(sql: &Connection, id: &TemplateId) -> Result<BTreeMap<RoleName, Role>, StoreError> {
    roles(sql, id).or_store_error()
}

fn refuse_taken_name(sql: &Connection, project: &ProjectId, name: &TemplateName) -> Result<(), StoreError> {
    let taken: bool = sql
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM templates WHERE project_id = ?1 AND name = ?2)",
            [project.as_str(), name.as_str()],
            |row| row.get(0),
        )
        .or_store_error()?;
    if taken {
        let problem = Problem::new(ErrorCode::TemplateExists, format!("a template named {name:?} exists"));
        return StoreError::refuse(problem.at("name"));
    }
    Ok(())
}

/// Holds the roles, as they would be, against each other. `field` is where the roles written stand in the request.
fn check_roles(roles: &BTreeMap<RoleName, Role>, field: impl Fn(&RoleName) -> String) -> Result<(), StoreError> {
    check_references(roles).map_err(|dangling| {
        let field = format!("{}subscribe.to_roles[{}]", field(&dangling.role), dangling.index);
        StoreError::Refused(Problem::invalid(field, dangling.to_string()))
    })
}

fn write_role(tx: &Tx<'_>, id: &TemplateId, role: &Role) -> Result<(), StoreError> {
    let body = serde_json::to_string(role).map_err(|error| StoreError::Fault(error.to_string()))?;
    tx.sql
        .prepare_cached("INSERT OR REPLACE INTO roles (template_id, name, body) VALUES (?1, ?2, ?3)")
        .and_then(|mut s| s.execute([id.as_str(), role.name.as_str(), body.as_str()]))
        .or_store_error()?;
    Ok(())
}

fn touch(tx: &Tx<'_>, id: &TemplateId) -> Result<(), StoreError> {
    tx.sql
        .execute("UPDATE templates SET updated_at = ?2 WHERE id = ?1", params![id.as_str(), tx.now.millis()])
        .or_store_error()?;
    Ok(())
}

fn insert(tx: &Tx<'_>, new: &NewTemplate) -> Result<TemplateId, StoreError> {
    let id = TemplateId::new();
    tx.sql
        .execute(
            "INSERT INTO templates (id, project_id, name, region, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
            params![id.as_str(), new.project_id.as_str(), new.name.as_str(), new.region.as_str(), tx.now.millis()],
        )
        .or_store_error()?;
    Ok(id)
}

fn update(tx: &Tx<'_>, id: &TemplateId, change: &TemplateChange) -> Result<(), StoreError> {
    tx.sql
        .execute(
            "UPDATE templates SET name = coalesce(?2, name), region = coalesce(?3, region), updated_at = ?4
             WHERE id = ?1",
            params![
                id.as_str(),
                change.name.as_ref().map(TemplateName::as_str),
                change.region.map(Region::as_str),
                tx.now.millis()
            ],
        )
        .or_store_error()?;
    change.roles.values().try_for_each(|role| write_role(tx, id, role))
}

fn refuse_deleting(tx: &Tx<'_>, template: &Template) -> Result<(), StoreError> {
    if template.is_default {
        let message = "the default template cannot be deleted; make another one the default first";
        return StoreError::refuse(Problem::new(ErrorCode::TemplateIsDefault, message));
    }
    let used: bool = tx
        .sql
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM rooms WHERE template_id = ?1 AND status = 'open')",
            [template.id.as_str()],
            |row| row.get(0),
        )
        .or_store_error()?;
    if used {
        return StoreError::refuse(Problem::new(ErrorCode::TemplateInUse, "open rooms still use the template"));
    }
    Ok(())
}

fn refuse_deleting_role(tx: &Tx<'_>, template: &Template, name: &RoleName) -> Result<(), StoreError> {
    if let Some(by) = referring_role(&template.roles, name) {
        let message = format!("the role {by:?} subscribes to it");
        return StoreError::refuse(Problem::new(ErrorCode::RoleReferenced, message).at("subscribe.to_roles"));
    }
    let held: bool = tx
        .sql
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM rooms r JOIN sessions s ON s.room_id = r.id AND s.left_at IS NULL
                            WHERE r.template_id = ?1 AND r.status = 'open' AND s.role = ?2)",
            [template.id.as_str(), name.as_str()],
            |row| row.get(0),
        )
        .or_store_error()?;
    if held {
        return StoreError::refuse(Problem::new(ErrorCode::RoleReferenced, "participants hold the role"));
    }
    Ok(())
}

impl Store {
    /// Makes a template and its roles.
    ///
    /// # Errors
    /// Refused when the name is taken or a role subscribes to one that is not there.
    pub async fn create_template(
        &self,
        new: NewTemplate,
        keep: Option<ResponseRecorder<Template>>,
    ) -> Result<Template, StoreError> {
        self.write(move |tx| {
            check_roles(&new.roles, |role| format!("roles.{role}."))?;
            refuse_taken_name(tx.sql, &new.project_id, &new.name)?;
            let id = insert(tx, &new)?;
            new.roles.values().try_for_each(|role| write_role(tx, &id, role))?;
            let template = existing(tx.sql, &new.project_id, &id)?;
            tx.store_response(keep.as_ref(), &template)?;
            Ok(template)
        })
        .await
    }

    /// A project's templates, newest first.
    ///
    /// # Errors
    /// The store's own.
    pub async fn templates(&self, project: ProjectId, page: PageRequest) -> Result<Page<Template>, StoreError> {
        self.read(move |sql| {
            let select = format!("SELECT {COLUMNS} FROM {FROM}");
            let wanted = QueryBuilder::of_project("t.project_id", &project);
            let Page { items, request, has_more } =
                wanted.page(sql, &select, "t.created_at DESC, t.id DESC", page, template)?;
            let items: Result<_, _> = items.into_iter().map(|found| with_roles(sql, found)).collect();
            Ok(Page { items: items?, request, has_more })
        })
        .await
    }

    /// One template with its roles.
    ///
    /// # Errors
    /// Refused when there is none by that id in the project.
    pub async fn template(&self, project: ProjectId, id: TemplateId) -> Result<Template, StoreError> {
        self.read(move |sql| existing(sql, &project, &id)).await
    }

    /// Changes what is sent of a template.
    ///
    /// # Errors
    /// Refused when there is no such template, the name is taken, or a role subscribes to one that is not there.
    pub async fn update_template(
        &self,
        project: ProjectId,
        id: TemplateId,
        change: TemplateChange,
    ) -> Result<Template, StoreError> {
        self.write(move |tx| {
            let mut template = existing(tx.sql, &project, &id)?;
            template.roles.extend(change.roles.clone());
            check_roles(&template.roles, |role| format!("roles.{role}."))?;
            if let Some(name) = change.name.as_ref().filter(|name| **name != template.name) {
                refuse_taken_name(tx.sql, &project, name)?;
            }
            update(tx, &id, &change)?;
            existing(tx.sql, &project, &id)
        })
        .await
    }

    /// Deletes a template with its roles and destinations.
    ///
    /// # Errors
    /// Refused when there is no such template, it is the default, or open rooms use it.
    pub async fn delete_template(&self, project: ProjectId, id: TemplateId) -> Result<(), StoreError> {
        self.write(move |tx| {
            let template = existing(tx.sql, &project, &id)?;
            refuse_deleting(tx, &template)?;
            tx.sql.execute("DELETE FROM templates WHERE id = ?1", [id.as_str()]).or_store_error()?;
            Ok(())
        })
        .await
    }

    /// Makes or replaces a role. Says whether it was made.
    ///
    /// # Errors
    /// Refused when there is no such template or the role subscribes to one that is not there.
    pub async fn put_role(&self, project: ProjectId, id: TemplateId, role: Role) -> Result<(Role, bool), StoreError> {
        self.write(move |tx| {
            let mut template = existing(tx.sql, &project, &id)?;
            let created = template.roles.insert(role.name.clone(), role.clone()).is_none();
            check_roles(&template.roles, |_| String::new())?;
            write_role(tx, &id, &role)?;
            touch(tx, &id)?;
            Ok((role, created))
        })
        .await
    }

    /// One role.
    ///
    /// # Errors
    /// Refused when there is no such template or no such role.
    pub async fn role(&self, project: ProjectId, id: TemplateId, name: RoleName) -> Result<Role, StoreError> {
        self.read(move |sql| {
            let mut template = existing(sql, &project, &id)?;
            template.roles.remove(&name).ok_or_else(|| StoreError::Refused(Problem::role_not_found()))
        })
        .await
    }

    /// Deletes a role.
    ///
    /// # Errors
    /// Refused when there is no such template or role, another role subscribes to it, or participants hold it.
    pub async fn delete_role(&self, project: ProjectId, id: TemplateId, name: RoleName) -> Result<(), StoreError> {
        self.write(move |tx| {
            let template = existing(tx.sql, &project, &id)?;
            if !template.roles.contains_key(&name) {
                return StoreError::refuse(Problem::role_not_found());
            }
            refuse_deleting_role(tx, &template, &name)?;
            tx.sql
                .execute("DELETE FROM roles WHERE template_id = ?1 AND name = ?2", [id.as_str(), name.as_str()])
                .or_store_error()?;
            touch(tx, &id)
        })
        .await
    }
}
