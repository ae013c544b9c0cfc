//! `conclave project …`: projects.

use std::io::{self, ErrorKind, IsTerminal};
use std::path::Path;

use clap::{Subcommand, ValueEnum};
use conclave_db::{ProjectContents, Store, StoreError};
use conclave_model::ProjectId;
use conclave_model::project::{Environment, Project, ProjectStatus};
use serde::Serialize;

use super::output;
use super::output::{OutputFormat, parse_text, print, print_json};
use super::store::{missing, with_created_store, with_store};
use crate::config::{Config, DEFAULT_PLAN, Plans};
use crate::error::CliError;
use crate::starter_template;

/// Maximum amount of one credit, in Ugandan shillings. Catches typing errors and keeps balances far from overflow.
const MAX_CREDIT_UGX: i64 = 1_000_000_000_000;

/// Commands for projects.
#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    /// Create a project, with a default template that has the roles host and guest.
    Create {
        /// Display name, 1 to 200 characters.
        #[arg(long, value_parser = parse_text::<1, 200>)]
        name: String,
        /// Environment, which the project's API keys contain.
        #[arg(long, value_enum, default_value = "live")]
        env: EnvironmentArg,
        /// Plan id.
        #[arg(long, default_value = DEFAULT_PLAN)]
        plan: String,
        /// Create no template.
        #[arg(long)]
        empty: bool,
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List projects, oldest first.
    List {
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Show a project.
    Show {
        /// Project to show.
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Suspend a project, so that it cannot start new work.
    Suspend {
        /// Project to change.
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Resume a suspended project.
    Resume {
        /// Project to change.
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Delete a project with all of its records and its recordings on this machine. It must have no open rooms.
    Delete {
        /// Project to delete.
        #[command(flatten)]
        project: ProjectArgs,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Move a project to another plan.
    SetPlan {
        /// Project to change.
        #[command(flatten)]
        project: ProjectArgs,
        /// Plan id.
        plan: String,
    },
    /// Set the template for rooms that are created without one.
    SetDefaultTemplate {
        /// Project to change.
        #[command(flatten)]
        project: ProjectArgs,
        /// Template id, `tpl_…`.
        template: String,
    },
    /// Add an amount to a project's wallet.
    Credit {
        /// Project to change.
        #[command(flatten)]
        project: ProjectArgs,
        /// Amount in Ugandan shillings.
        #[arg(value_parser = clap::value_parser!(i64).range(1..=MAX_CREDIT_UGX))]
        ugx: i64,
    },
}

/// Project id and output format.
#[derive(Debug, clap::Args)]
pub struct ProjectArgs {
    /// Project id, `prj_…`.
    id: String,
    /// Output format.
    #[command(flatten)]
    format: OutputFormat,
}

/// A project's environment as an argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum EnvironmentArg {
    /// For production; keys start with `vk_live_`.
    Live,
    /// For development; keys start with `vk_test_`.
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

/// JSON output for a project.
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

/// Runs a command. `is_named` is whether `--data` was given.
///
/// # Errors
/// If the plan, the project or the template does not exist, or if the store does not exist or failed.
pub(super) fn run(
    command: ProjectCommand,
    config: &Config,
    data: &Path,
    is_named: bool,
) -> Result<(), CliError> {
    match command {
        ProjectCommand::Create {
            name,
            env,
            plan,
            empty,
            format,
        } => {
            // Before anything is created: the database does not know the plans.
            ensure_plan_exists(config, "--plan", &plan)?;
            require_intended(data, is_named)?;
            let create = async |store: &Store| {
                let project = store.projects().create(name, env.into(), plan).await?;
                if empty {
                    return Ok(project);
                }
                starter_template::ensure(store, project).await
            };
            // Only this command may create the database: a project is an operator's first step.
            show(&with_created_store(config, data, create)?, format)
        }
        ProjectCommand::List { format } => list(config, data, format),
        ProjectCommand::Show { project } => {
            let id = parse_project_id(&project.id)?;
            let found = with_store(config, data, async |store| {
                existing_project(store, &id).await
            })?;
            show(&found, project.format)
        }
        // Running calls continue; only new work is refused.
        ProjectCommand::Suspend { project } => {
            set_status(config, data, &project, ProjectStatus::Suspended)
        }
        ProjectCommand::Resume { project } => {
            set_status(config, data, &project, ProjectStatus::Active)
        }
        ProjectCommand::Delete { project, yes } => delete(config, data, &project, yes),
        ProjectCommand::SetPlan { project, plan } => {
            ensure_plan_exists(config, "PLAN", &plan)?;
            let id = parse_project_id(&project.id)?;
            show_result(config, data, project.format, async |store| {
                store.projects().set_plan(id, plan).await
            })
        }
        ProjectCommand::SetDefaultTemplate { project, template } => {
            let id = parse_project_id(&project.id)?;
            // The same message as for an unknown id: a malformed one cannot exist either.
            let template = template.parse().map_err(|_| {
                CliError::failed(format!("no template {template:?} in this project"))
            })?;
            show_result(config, data, project.format, async |store| {
                store.projects().set_default_template(id, template).await
            })
        }
        ProjectCommand::Credit { project, ugx } => {
            let id = parse_project_id(&project.id)?;
            show_result(config, data, project.format, async |store| {
                store.projects().credit(id, ugx).await
            })
        }
    }
}

/// Parses a project id. A malformed id fails with exit code 1, like an unknown id.
pub(super) fn parse_project_id(text: &str) -> Result<ProjectId, CliError> {
    text.parse()
        .map_err(|error| CliError::failed(format!("no project {text:?}; ids {error}")))
}

/// Loads a project, which must exist.
pub(super) async fn existing_project(store: &Store, id: &ProjectId) -> Result<Project, CliError> {
    let found = store.projects().get(id.clone()).await?;
    found.ok_or_else(|| CliError::failed(format!("no project {id}")))
}

/// Refuses to create the default data directory: in the wrong folder, the project would be in records that no server reads.
fn require_intended(data: &Path, is_named: bool) -> Result<(), CliError> {
    if is_named || data.exists() {
        return Ok(());
    }
    // The default directory is relative, so the current folder decides which records are changed.
    let problem = "does not exist in this folder: run the command in the server's folder, or name with --data a directory, \
                   which is created";
    Err(CliError::data_dir(data, problem))
}

fn ensure_plan_exists(config: &Config, argument: &'static str, plan: &str) -> Result<(), CliError> {
    let plans = Plans::load(config.plans.file.as_deref())?;
    // The plans come from a file, which may have changed since the last start; a running server reads it at its start.
    if plans.get(plan).is_some() {
        return Ok(());
    }
    let known: Vec<_> = plans.ids().collect();
    Err(CliError::InvalidArgument {
        argument,
        problem: format!("no plan {plan:?}; must be one of {}", known.join(", ")),
    })
}

fn set_status(
    config: &Config,
    data: &Path,
    project: &ProjectArgs,
    status: ProjectStatus,
) -> Result<(), CliError> {
    let id = parse_project_id(&project.id)?;
    show_result(config, data, project.format, async |store| {
        store.projects().set_status(id, status).await
    })
}

/// Runs an operation that returns a project, and prints the project.
fn show_result<F>(
    config: &Config,
    data: &Path,
    format: OutputFormat,
    operation: F,
) -> Result<(), CliError>
where
    F: AsyncFnOnce(&Store) -> Result<Project, StoreError>,
{
    show(&with_store(config, data, operation)?, format)
}

/// Names what a project has, asks, and deletes it.
fn delete(
    config: &Config,
    data: &Path,
    project: &ProjectArgs,
    is_confirmed: bool,
) -> Result<(), CliError> {
    let id = parse_project_id(&project.id)?;
    let recordings = config.recordings.path(data).join(id.as_str());
    let contents = with_store(config, data, async |store| {
        store.removals().contents(id.clone()).await
    })?;
    if !is_confirmed {
        // On stderr, so that stdout has the result alone.
        eprint!("{}", description(&contents, &recordings));
        confirm(&id)?;
    }
    with_store(config, data, async |store| {
        store.removals().begin(id.clone()).await?;
        // After the project's suspension, since nothing writes to the directory now. Before the records, which a repeated command needs.
        match std::fs::remove_dir_all(&recordings) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let problem = format!("{}: {error}", recordings.display());
                return Err(CliError::failed(problem));
            }
            _ => {}
        }
        while let Some((table, rows)) = store.removals().delete_some(id.clone()).await? {
            log::debug!("deleted {rows} rows of {table}");
        }
        Ok(())
    })?;
    if project.format.json {
        return print_json(&serde_json::json!({"project_id": id, "deleted": true}));
    }
    print(&format!("deleted {id}\n"))
}

/// Describes what a deletion removes.
fn description(contents: &ProjectContents, recordings: &Path) -> String {
    let ProjectContents { project, counts } = contents;
    let mut fields = vec![
        ("project_id", project.id.to_string()),
        ("name", project.name.clone()),
        ("env", project.env.to_string()),
    ];
    fields.extend(
        counts
            .iter()
            .map(|(name, count)| (*name, count.to_string())),
    );
    if recordings.exists() {
        fields.push(("directory", recordings.display().to_string()));
    }
    output::fields(&fields)
}

/// Asks at the terminal for the project's id.
fn confirm(id: &ProjectId) -> Result<(), CliError> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(CliError::failed(
            "--yes is required unless the command runs at a terminal, where it asks",
        ));
    }
    eprint!("All of it is deleted for ever. Enter the project's id to continue: ");
    let mut answer = String::new();
    stdin
        .read_line(&mut answer)
        .map_err(|error| CliError::failed(format!("stdin: {error}")))?;
    if answer.trim() == id.as_str() {
        Ok(())
    } else {
        Err(CliError::failed("nothing was deleted"))
    }
}

fn list(config: &Config, data: &Path, format: OutputFormat) -> Result<(), CliError> {
    let projects = match missing(config, data) {
        // With PostgreSQL there are records, but they cannot be read here.
        Some(problem) if !config.database.is_postgres() => {
            log::warn!(
                "--data {} {problem}, so there are no projects",
                data.display()
            );
            Vec::new()
        }
        _ => with_store(config, data, async |store| store.projects().list().await)?,
    };
    if format.json {
        return print_json(&ProjectList {
            projects: projects.iter().map(ProjectView::from).collect(),
        });
    }
    let rows: Vec<_> = projects.iter().map(row).collect();
    print(&output::table(
        &["project_id", "name", "env", "plan", "status", "created_at"],
        &rows,
    ))
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

fn show(project: &Project, format: OutputFormat) -> Result<(), CliError> {
    if format.json {
        return print_json(&ProjectView::from(project));
    }
    // Shown here only; the list has no room for it.
    let template = project
        .default_template_id
        .as_ref()
        .map(ToString::to_string);
    print(&output::fields(&[
        ("project_id", project.id.to_string()),
        ("name", project.name.clone()),
        ("env", project.env.to_string()),
        ("plan", project.plan.clone()),
        ("status", project.status.to_string()),
        (
            "default_template_id",
            // Never empty, so that scripts find a value in the second column.
            template.unwrap_or_else(|| "-".into()),
        ),
        ("balance_ugx", project.balance_ugx.to_string()),
        ("created_at", project.created_at.to_string()),
    ]))
}
