//! `conclave export PROJECT`: all of a project's records as JSON lines, without secrets.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use conclave_db::private_file::DraftFile;
use conclave_db::{ExportPosition, Store};
use conclave_model::ProjectId;
use serde_json::json;

use super::projects::{existing_project, parse_project_id};
use super::store::with_store;
use crate::config::Config;
use crate::error::CliError;

/// Project to export, and the file.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Project id, `prj_…`.
    project: String,
    /// File to create, with mode 0600; it appears when it is complete [default: stdout].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// If there is no such project, the file exists, or the records cannot be read or written.
pub(super) fn run(args: &ExportArgs, config: &Config, data: &Path) -> Result<(), CliError> {
    let project = parse_project_id(&args.project)?;
    with_store(config, data, async |store| {
        existing_project(store, &project).await?;
        match &args.output {
            None => write(store, project, "stdout", io::stdout().lock()).await,
            Some(path) => {
                let name = path.display().to_string();
                let failed = |error: io::Error| CliError::failed(format!("{name}: {error}"));
                let draft = DraftFile::create(path).map_err(failed)?;
                write(store, project, &name, draft.file()).await?;
                draft.finish().map_err(failed)
            }
        }
    })
}

/// Writes a line for each row, one page after the other.
async fn write(
    store: &Store,
    project: ProjectId,
    name: &str,
    to: impl Write,
) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::failed(format!("{name}: {error}"));
    let (mut to, mut next) = (BufWriter::new(to), Some(ExportPosition::default()));
    while let Some(position) = next {
        let page = store.exports().page(project.clone(), position).await?;
        let Some(page) = page else { break };
        for row in page.rows {
            let line = json!({"table": page.table, "row": row});
            writeln!(to, "{line}").map_err(failed)?;
        }
        next = page.next;
    }
    to.flush().map_err(failed)
}
