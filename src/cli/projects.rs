//! `conclave project …`

use std::path::Path;

use clap::{Subcommand, ValueEnum};
use conclave_db::{Store, StoreError};
use conclave_model::ProjectId;
use conclave_model::project::{Environment, Project, ProjectStatus};
use serde::Serialize;

use super::open::with_store;
use super::output::{bounded_text, json, print};
use super::{CliError, table};
use crate::config::{Config, DEFAULT_PLAN, Plans};

/// The largest credit in one go: a slip of the finger is caught, and a balance cannot overflow.
const MOST_CREDIT: i64 = 1_000_000_000_000;

/// What to do with projects.
#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    /// Make a project.
    Create {
        /// A name for people, 1 to 200 characters.
        #[arg(long, value_parser = bounded_text::<1, 200>)]
        name: String,
        /// Live or test; part of its keys.
        #[arg(long, value_enum, default_value = "live")]
        env: EnvironmentArg,
        /// What it may use.
        #[arg(long, default_value = DEFAULT_PLAN)]
        plan: String,
        /// How to answer.
        #[command(flatten)]
        format: Format,
    },
    /// List projects, oldest first.
    List {
        /// How to answer.
        #[command(flatten)]
        format: Format,
    },
    /// Show a project.
    Show {
        /// Which project.
        #[command(flatten)]
        project: ProjectArg,
    },
    /// Stop a project from starting work.
    Suspend {
        /// Which project.
        #[command(flatten)]
        project: ProjectArg,
    },
    /// Let a suspended project start work again.
    Resume {
        /// Which project.
        #[command(flatten)]
        project: ProjectArg,
    },
    /// Move a project to another plan.
    SetPlan {
        /// Which project.
        #[command(flatten)]
        project: ProjectArg,
        /// The plan's id.
        plan: String,
    },
    /// Set the template that rooms without one use.
    SetDefaultTemplate {
        /// Which project.
        #[command(flatten)]
        project: ProjectArg,
        /// The template's id, `tpl_…`.
        template: String,
    },
    /// Add to a project's wallet.
    Credit {
        /// Which project.
        #[command(flatten)]
        project: ProjectArg,
        /// Ugandan shillings.
        #[arg(value_parser = clap::value_parser!(i64).range(1..=MOST_CREDIT))]
        ugx: i64,
    },
}

/// Which project, and how to show it.
#[derive(Debug, clap::Args)]
pub struct ProjectArg {
    /// The project's id, `prj_…`.
    id: String,
    /// How to answer.
    #[command(flatten)]
    format: Format,
}

/// How to answer.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Format {
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// What a project is for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum EnvironmentArg {
    /// Real calls.
    Live,
    /// Trying things out.
    Test,
}

impl From<EnvironmentArg> for Environment {
    fn from(arg: EnvironmentArg) -> Self {
        match arg {
            EnvironmentArg::Live => Self::Live,
            EnvironmentArg::Test => Self::Test,
        }
    }
}

/// A project, as `--json` shows it.
#[derive(Serialize)]
struct ProjectView<'a> {
    project_id: &'a ProjectId,
    name: &'a str,
    env: &'static str,
    plan: &'a str,
    status: &'static str,
    created_at: String,
}

impl<'a> From<&'a Project> for ProjectView<'a> {
    fn from(project: &'a Project) -> Self {
        Self {
            project_id: &project.id,
            name: &project.name,
            env: project.env.as_str(),
            plan: &project.plan,
            status: project.status.as_str(),
            created_at: project.created_at.to_string(),
        }
    }
}

#[derive(Serialize)]
struct ProjectList<'a> {
    projects: Vec<ProjectView<'a>>,
}

/// Runs one of the commands.
///
/// # Errors
/// A plan that does not exist, an unknown id, or the store's own.
pub fn run(command: ProjectCommand, config: &Config, data: &Path) -> Result<(), CliError> {
    match command {
        ProjectCommand::Create { name, env, plan, format } => {
            known_plan(config, "--plan", &plan)?;
            one(config, data, format, async |store| store.create_project(name, env.into(), plan).await)
        }
        ProjectCommand::List { format } => list(config, data, format),
        ProjectCommand::Show { project } => {
            let id = project_id(&project.id)?;
            let found = with_store(config, data, async |store| existing(store, &id).await)?;
            show(&found, project.format)
        }
        ProjectCommand::Suspend { project } => set_status(config, data, &project, ProjectStatus::Suspended),
        ProjectCommand::Resume { project } => set_status(config, data, &project, ProjectStatus::Active),
        ProjectCommand::SetPlan { project, plan } => {
            known_plan(config, "PLAN", &plan)?;
            let id = project_id(&project.id)?;
            one(config, data, project.format, async |store| store.set_project_plan(id, plan).await)
        }
        ProjectCommand::SetDefaultTemplate { project, template } => {
            let id = project_id(&project.id)?;
            let template =
                template.parse().map_err(|_| CliError::failed(format!("no template {template:?} in this project")))?;
            one(config, data, project.format, async |store| store.set_default_template(id, template).await)
        }
        ProjectCommand::Credit { project, ugx } => {
            let id = project_id(&project.id)?;
            one(config, data, project.format, async |store| store.credit_project(id, ugx).await)
        }
    }
}

/// Reads a project's id. A text that cannot be one is an id nobody has, and fails like any unknown one.
pub(super) fn project_id(text: &str) -> Result<ProjectId, CliError> {
    text.parse().map_err(|malformed| CliError::failed(format!("no project {text:?}; ids {malformed}")))
}

/// The project, which must exist.
pub(super) async fn existing(store: &Store, id: &ProjectId) -> Result<Project, CliError> {
    let found = store.project(id.clone()).await.map_err(|e| CliError::of_store(&e))?;
    found.ok_or_else(|| CliError::failed(format!("no project {id}")))
}

fn known_plan(config: &Config, argument: &'static str, plan: &str) -> Result<(), CliError> {
    let plans = Plans::load(config.plans.file.as_deref()).map_err(CliError::Config)?;
    if plans.get(plan).is_some() {
        return Ok(());
    }
    let known: Vec<_> = plans.ids().collect();
    Err(CliError::BadValue { argument, problem: format!("no plan {plan:?}; must be one of {}", known.join(", ")) })
}

fn set_status(config: &Config, data: &Path, project: &ProjectArg, status: ProjectStatus) -> Result<(), CliError> {
    let id = project_id(&project.id)?;
    one(config, data, project.format, async |store| store.set_project_status(id, status).await)
}

/// Runs an operation that gives a project, and shows it.
fn one<F>(config: &Config, data: &Path, format: Format, operation: F) -> Result<(), CliError>
where
    F: AsyncFnOnce(&Store) -> Result<Project, StoreError>,
{
    let run = async |store: &Store| operation(store).await.map_err(|e| CliError::of_store(&e));
    show(&with_store(config, data, run)?, format)
}

fn list(config: &Config, data: &Path, format: Format) -> Result<(), CliError> {
    let read = async |store: &Store| store.projects().await.map_err(|e| CliError::of_store(&e));
    let projects = with_store(config, data, read)?;
    if format.json {
        return json(&ProjectList { projects: projects.iter().map(ProjectView::from).collect() });
    }
    let rows: Vec<_> = projects.iter().map(row).collect();
    print(&table::table(&["project_id", "name", "env", "plan", "status", "created_at"], &rows))
}

fn row(project: &Project) -> Vec<String> {
    vec![
        project.id.to_string(),
        project.name.clone(),
        project.env.to_string(),
        project.plan.clone(),
        project.status.to_string(),
        project.created_at.to_string(),
    ]
}

fn show(project: &Project, format: Format) -> Result<(), CliError> {
    if format.json {
        return json(&ProjectView::from(project));
    }
    let template = project.default_template_id.as_ref().map(ToString::to_string);
    print(&table::fields(&[
        ("project_id", project.id.to_string()),
        ("name", project.name.clone()),
        ("env", project.env.to_string()),
        ("plan", project.plan.clone()),
        ("status", project.status.to_string()),
        ("default_template_id", template.unwrap_or_else(|| "-".into())),
        ("balance_ugx", project.balance_ugx.to_string()),
        ("created_at", project.created_at.to_string()),
    ]))
}
