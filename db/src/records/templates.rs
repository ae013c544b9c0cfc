//! Templates and their roles. Every statement names the project.

use std::collections::BTreeMap;

use conclave_model::bounded::MaxDuration;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::role::Role;
use conclave_model::room::duration_limit;
use conclave_model::template::{AutoRecord, Region, Template, check_references, referring_role};
use conclave_model::{ErrorCode, Problem, ProjectId, RoleName, TemplateId, TemplateName};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

/// Template to create.
#[derive(Debug, Clone)]
pub struct NewTemplate {
    /// Project that the template belongs to.
    pub project_id: ProjectId,
    /// Name, unique in the project.
    pub name: TemplateName,
    /// Preferred region of its rooms' media.
    pub region: Region,
    /// Recording that starts by itself.
    pub auto_record: Option<AutoRecord>,
    /// Maximum duration of its rooms.
    pub max_duration: MaxDuration,
    /// Roles by name.
    pub roles: BTreeMap<RoleName, Role>,
}

/// Change of a template. Fields that are `None` and roles that are not listed stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct TemplateChange {
    /// New name.
    pub name: Option<TemplateName>,
    /// New region.
    pub region: Option<Region>,
    /// New recording that starts by itself; `Some(None)` removes it.
    pub auto_record: Option<Option<AutoRecord>>,
    /// New maximum duration of its rooms.
    pub max_duration: Option<MaxDuration>,
    /// Roles to create, or to replace as a whole.
    pub roles: BTreeMap<RoleName, Role>,
}

const SELECT: &str =
    "SELECT t.id, t.project_id, t.name, p.default_template_id IS NOT DISTINCT FROM t.id AS is_default, t.region,
            t.max_duration_seconds, t.auto_record, t.created_at, t.updated_at
     FROM templates t JOIN projects p ON p.id = t.project_id";

/// A created or replaced role.
#[derive(Debug, Clone)]
pub struct PutRole {
    /// The role as it is now.
    pub role: Role,
    /// Whether the template had no role of this name before.
    pub is_new: bool,
}

macro_rules! select_roles {
    ($condition:literal) => {
        concat!(
            "SELECT r.body, r.template_id FROM roles r JOIN templates t ON t.id = r.template_id WHERE t.project_id = ?1 AND ",
            $condition
        )
    };
}

const SELECT_ROLES: &str = select_roles!("t.id = ?2");
const SELECT_ROLE: &str = select_roles!("t.id = ?2 AND r.name = ?3");
/// Roles of the templates on one page.
const SELECT_PAGE_ROLES: &str = select_roles!(
    "t.id IN (SELECT id FROM templates WHERE project_id = ?1 ORDER BY created_at DESC, id DESC LIMIT ?2 OFFSET ?3)"
);
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM templates WHERE id = ?1 AND project_id = ?2)";
const NAME_EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM templates WHERE project_id = ?1 AND name = ?2)";
const IN_USE: &str = "SELECT EXISTS (SELECT 1 FROM rooms WHERE template_id = ?1 AND project_id = ?2 AND status = 'open')";
const ROLE_HELD: &str = "SELECT EXISTS (SELECT 1 FROM rooms r JOIN sessions s ON s.room_id = r.id AND s.left_at IS NULL
                    WHERE r.template_id = ?1 AND r.project_id = ?2 AND r.status = 'open' AND s.role || '' = ?3)";
const INSERT: &str = "INSERT INTO templates (id, project_id, name, region, created_at, updated_at, max_duration_seconds, auto_record)
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7)";
const UPDATE: &str =
    "UPDATE templates SET name = coalesce(?3, name), region = coalesce(?4, region), updated_at = ?5,
                          max_duration_seconds = nullif(coalesce(?6, max_duration_seconds), 0)
     WHERE id = ?1 AND project_id = ?2";
const SET_AUTO_RECORD: &str =
    "UPDATE templates SET auto_record = ?3 WHERE id = ?1 AND project_id = ?2";
const DELETE: &str = "DELETE FROM templates WHERE id = ?1 AND project_id = ?2";
const PUT_ROLE: &str = "INSERT INTO roles (template_id, name, body) VALUES (?1, ?2, ?3)
     ON CONFLICT (template_id, name) DO UPDATE SET body = excluded.body";
const DELETE_ROLE: &str = "DELETE FROM roles
     WHERE template_id = (SELECT id FROM templates WHERE id = ?1 AND project_id = ?2) AND name = ?3";

/// Reads a template without its roles.
fn template(row: &Row<'_>) -> Result<Template, StoreError> {
    Ok(Template {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        name: row.get("name")?,
        is_default: row.get("is_default")?,
        region: row.get("region")?,
        auto_record: auto_record(row)?,
        max_duration_seconds: row.get("max_duration_seconds")?,
        roles: BTreeMap::new(),
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Reads the recording that starts by itself, of a template or of a room.
pub(crate) fn auto_record(row: &Row<'_>) -> Result<Option<AutoRecord>, StoreError> {
    let json: Option<String> = row.get("auto_record")?;
    Ok(json.map(|json| serde_json::from_str(&json)).transpose()?)
}

/// Returns the JSON of a recording that starts by itself, for its column.
pub(crate) fn auto_record_json(
    auto_record: Option<&AutoRecord>,
) -> Result<Option<String>, StoreError> {
    Ok(auto_record.map(serde_json::to_string).transpose()?)
}

fn role(row: &Row<'_>) -> Result<Role, StoreError> {
    row.json("body")
}

/// Reads a template's roles.
pub(crate) fn roles(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &TemplateId,
) -> Result<BTreeMap<RoleName, Role>, StoreError> {
    let roles = sql.many(SELECT_ROLES, args![project, id], role)?;
    Ok(roles
        .into_iter()
        .map(|role| (role.name.clone(), role))
        .collect())
}

/// Reads a role of a template.
pub(crate) fn find_role(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &TemplateId,
    name: &RoleName,
) -> Result<Option<Role>, StoreError> {
    sql.one(SELECT_ROLE, args![project, id, name], role)
}

/// Returns the refusal of a role that a template does not have. It lists the template's roles.
pub(crate) fn no_such_role(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &TemplateId,
) -> Result<Problem, StoreError> {
    Ok(Problem::role_not_found(roles(sql, project, id)?.keys()))
}

/// Returns whether the project has the template.
pub(crate) fn exists(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &TemplateId,
) -> Result<bool, StoreError> {
    sql.value(EXISTS, args![id, project])
}

/// Refuses a template that the project does not have.
pub(crate) fn refuse_unknown_template(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &TemplateId,
) -> Result<(), StoreError> {
    if exists(sql, project, id)? {
        Ok(())
    } else {
        StoreError::refuse(Problem::template_not_found())
    }
}

fn existing(sql: Sql<'_>, project: &ProjectId, id: &TemplateId) -> Result<Template, StoreError> {
    let query = format!("{SELECT} WHERE t.id = ?1 AND t.project_id = ?2");
    // Two queries in one transaction, so that the roles belong to this state of the template.
    let found = sql
        .one(&query, args![id, project], template)?
        .ok_or_else(Problem::template_not_found)?;
    Ok(Template {
        roles: roles(sql, project, id)?,
        ..found
    })
}

/// Returns the query that lists a project's templates, newest first.
pub(crate) fn list_query(project: &ProjectId) -> QueryBuilder<'_> {
    QueryBuilder::new(
        SELECT,
        "t.project_id",
        project,
        "t.created_at DESC, t.id DESC",
    )
}

/// Reads a page of templates with their roles, in two queries.
fn page(
    sql: Sql<'_>,
    project: &ProjectId,
    request: PageRequest,
) -> Result<Page<Template>, StoreError> {
    let mut page = list_query(project).page(sql, request, template)?;
    let window = args![project, request.limit, request.offset.cast_signed()];
    // The subquery selects the same page again, in the same snapshot. A query per template would be slower.
    // It omits the extra row that shows whether another page follows.
    let roles: Vec<(TemplateId, Role)> = sql.many(SELECT_PAGE_ROLES, window, |row| {
        Ok((row.get("template_id")?, role(row)?))
    })?;
    let mut by_template: BTreeMap<TemplateId, BTreeMap<RoleName, Role>> = BTreeMap::new();
    for (id, role) in roles {
        by_template
            .entry(id)
            .or_default()
            .insert(role.name.clone(), role);
    }
    for template in &mut page.items {
        template.roles = by_template.remove(&template.id).unwrap_or_default();
    }
    Ok(page)
}

fn refuse_taken_name(
    sql: Sql<'_>,
    project: &ProjectId,
    name: &TemplateName,
) -> Result<(), StoreError> {
    if sql.value(NAME_EXISTS, args![project, name])? {
        let problem = Problem::new(
            ErrorCode::TemplateExists,
            format!("a template named {name:?} exists"),
        );
        return StoreError::refuse(problem.at("name"));
    }
    Ok(())
}

/// Refuses roles that subscribe to a role which the template would not have. `field` returns a role's path in the request.
fn check_roles(
    roles: &BTreeMap<RoleName, Role>,
    field: impl Fn(&RoleName) -> String,
) -> Result<(), StoreError> {
    // The first dangling reference is reported, at its path in the request.
    check_references(roles).map_err(|dangling| {
        let field = format!(
            "{}subscribe.to_roles[{}]",
            field(&dangling.role),
            dangling.index
        );
        Problem::invalid(field, dangling.to_string()).into()
    })
}

/// Creates or replaces roles of a template that the project has.
fn put_roles<'a>(
    tx: &Tx<'_>,
    id: &TemplateId,
    roles: impl IntoIterator<Item = &'a Role>,
) -> Result<(), StoreError> {
    for role in roles {
        tx.sql.put(
            PUT_ROLE,
            args![id, &role.name, &serde_json::to_string(role)?],
        )?;
    }
    Ok(())
}

fn update(
    tx: &Tx<'_>,
    project: &ProjectId,
    id: &TemplateId,
    change: &TemplateChange,
) -> Result<(), StoreError> {
    tx.sql.put(
        UPDATE,
        args![
            id,
            project,
            change.name.as_ref(),
            change.region,
            tx.now,
            change.max_duration.map(i64::from)
        ],
    )?;
    // A statement of its own, because NULL is a value here.
    if let Some(auto_record) = &change.auto_record {
        let json = auto_record_json(auto_record.as_ref())?;
        tx.sql
            .put(SET_AUTO_RECORD, args![id, project, json.as_deref()])?;
    }
    // Roles are stored as JSON: they are read and replaced as a whole.
    put_roles(tx, id, change.roles.values())
}

/// Sets the time of the template's last change.
fn touch(tx: &Tx<'_>, project: &ProjectId, id: &TemplateId) -> Result<(), StoreError> {
    update(tx, project, id, &TemplateChange::default())
}

fn insert(tx: &Tx<'_>, new: &NewTemplate) -> Result<TemplateId, StoreError> {
    let id = TemplateId::new();
    tx.sql.put(
        INSERT,
        args![
            &id,
            &new.project_id,
            &new.name,
            new.region,
            tx.now,
            duration_limit(new.max_duration),
            auto_record_json(new.auto_record.as_ref())?.as_deref()
        ],
    )?;
    put_roles(tx, &id, new.roles.values())?;
    Ok(id)
}

fn refuse_deleting(sql: Sql<'_>, template: &Template) -> Result<(), StoreError> {
    // Otherwise the project would point to a template that does not exist.
    if template.is_default {
        let message = "the default template cannot be deleted; make another one the default first";
        return StoreError::refuse(Problem::new(ErrorCode::TemplateIsDefault, message));
    }
    if sql.value(IN_USE, args![&template.id, &template.project_id])? {
        return StoreError::refuse(Problem::new(
            ErrorCode::TemplateInUse,
            "open rooms still use the template",
        ));
    }
    Ok(())
}

fn refuse_deleting_role(
    sql: Sql<'_>,
    template: &Template,
    name: &RoleName,
) -> Result<(), StoreError> {
    // A deleted role would leave a dangling subscription.
    if let Some(by) = referring_role(&template.roles, name) {
        let message = format!("the role {by:?} subscribes to it");
        return StoreError::refuse(
            Problem::new(ErrorCode::RoleReferenced, message).at("subscribe.to_roles"),
        );
    }
    if sql.value(ROLE_HELD, args![&template.id, &template.project_id, name])? {
        return StoreError::refuse(Problem::new(
            ErrorCode::RoleReferenced,
            "participants hold the role",
        ));
    }
    Ok(())
}

/// Template and role records.
#[derive(Debug, Clone)]
pub struct Templates(pub(crate) Database);

impl Templates {
    /// Creates a template and its roles.
    ///
    /// # Errors
    /// Refused when the name is taken, or a role subscribes to a role that the template does not have.
    pub async fn create(
        &self,
        new: NewTemplate,
        record: Option<ResponseRecorder<Template>>,
    ) -> Result<Template, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&new.project_id), record, move |tx| {
                // Before the name is checked, so that an invalid request gets the same error whatever the records are.
                check_roles(&new.roles, |role| format!("roles.{role}."))?;
                refuse_taken_name(tx.sql, &new.project_id, &new.name)?;
                let id = insert(tx, &new)?;
                existing(tx.sql, &new.project_id, &id)
            })
            .await
    }

    /// Lists a project's templates with their roles, newest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn list(
        &self,
        project: ProjectId,
        request: PageRequest,
    ) -> Result<Page<Template>, StoreError> {
        self.0
            .list(project, move |sql, project| page(sql, project, request))
            .await
    }

    /// Reads a template with its roles.
    ///
    /// # Errors
    /// Refused when the project has no such template.
    pub async fn get(&self, project: ProjectId, id: TemplateId) -> Result<Template, StoreError> {
        self.0.read(move |sql| existing(sql, &project, &id)).await
    }

    /// Changes a template.
    ///
    /// # Errors
    /// Refused when there is no such template, the name is taken, or a role subscribes to a role that the template does not have.
    pub async fn update(
        &self,
        project: ProjectId,
        id: TemplateId,
        change: TemplateChange,
    ) -> Result<Template, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let mut template = existing(tx.sql, &project, &id)?;
                // Checked as a whole, since a new role may refer to an existing one.
                template.roles.extend(change.roles.clone());
                check_roles(&template.roles, |role| format!("roles.{role}."))?;
                // The template's own name does not count as taken.
                if let Some(name) = change.name.as_ref().filter(|name| **name != template.name) {
                    refuse_taken_name(tx.sql, &project, name)?;
                }
                update(tx, &project, &id, &change)?;
                existing(tx.sql, &project, &id)
            })
            .await
    }

    /// Deletes a template with its roles and destinations.
    ///
    /// # Errors
    /// Refused when there is no such template, it is the default, or open rooms use it.
    pub async fn delete(&self, project: ProjectId, id: TemplateId) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                refuse_deleting(tx.sql, &existing(tx.sql, &project, &id)?)?;
                // Roles and destinations follow through ON DELETE CASCADE.
                tx.sql.put(DELETE, args![&id, &project])
            })
            .await
    }

    /// Creates or replaces a role.
    ///
    /// # Errors
    /// Refused when there is no such template, or the role subscribes to a role that the template does not have.
    pub async fn put_role(
        &self,
        project: ProjectId,
        id: TemplateId,
        role: Role,
    ) -> Result<PutRole, StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let mut template = existing(tx.sql, &project, &id)?;
                let is_new = template
                    .roles
                    .insert(role.name.clone(), role.clone())
                    .is_none();
                // Checked with the new role in place: it may subscribe to an existing role, or an existing one to it.
                check_roles(&template.roles, |_| String::new())?;
                put_roles(tx, &id, [&role])?;
                touch(tx, &project, &id)?;
                Ok(PutRole { role, is_new })
            })
            .await
    }

    /// Reads a role.
    ///
    /// # Errors
    /// Refused when there is no such template or no such role.
    pub async fn role(
        &self,
        project: ProjectId,
        id: TemplateId,
        name: RoleName,
    ) -> Result<Role, StoreError> {
        self.0
            .read(move |sql| {
                refuse_unknown_template(sql, &project, &id)?;
                match find_role(sql, &project, &id, &name)? {
                    Some(role) => Ok(role),
                    None => StoreError::refuse(no_such_role(sql, &project, &id)?),
                }
            })
            .await
    }

    /// Deletes a role.
    ///
    /// # Errors
    /// Refused when there is no such template or role, another role subscribes to it, or participants hold it.
    pub async fn delete_role(
        &self,
        project: ProjectId,
        id: TemplateId,
        name: RoleName,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                let template = existing(tx.sql, &project, &id)?;
                // The refusal lists the template's roles.
                if !template.roles.contains_key(&name) {
                    return StoreError::refuse(Problem::role_not_found(template.roles.keys()));
                }
                refuse_deleting_role(tx.sql, &template, &name)?;
                tx.sql.put(DELETE_ROLE, args![&id, &project, &name])?;
                touch(tx, &project, &id)
            })
            .await
    }
}
