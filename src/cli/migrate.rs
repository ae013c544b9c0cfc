//! `conclave migrate`: builds the indexes of the schema of this version while servers of the older one use the database.

use std::path::Path;

use conclave_db::{Location, UpcomingIndex, build_indexes};
use serde::Serialize;

use super::output::{OutputFormat, print, print_json};
use super::table;
use crate::config::Config;
use crate::data_dir::location;
use crate::error::CliError;

/// An index with `--json`.
#[derive(Serialize)]
struct IndexView<'a> {
    index: &'a str,
    state: &'static str,
}

/// Builds the indexes that the database lacks, and says what it found of each.
///
/// # Errors
/// The records are in a file, or the database cannot be used.
pub(super) fn run(config: &Config, data: &Path, format: OutputFormat) -> Result<(), CliError> {
    let Location::Server(options) = location(config, data, None)? else {
        let message = "the records are in a file, which the next start of a server migrates: there is nothing to prepare";
        return Err(CliError::failed(message));
    };
    show(&build_indexes(&options.server)?, format)
}

fn show(indexes: &[UpcomingIndex], format: OutputFormat) -> Result<(), CliError> {
    if format.json {
        let views = indexes
            .iter()
            .map(|UpcomingIndex { name, state }| IndexView {
                index: name,
                state: state.as_str(),
            });
        return print_json(&views.collect::<Vec<_>>());
    }
    if indexes.is_empty() {
        return print("no index is to be built before the next start of a server\n");
    }
    let row = |index: &UpcomingIndex| vec![index.name.clone(), index.state.as_str().to_owned()];
    print(&table::table(
        &["index", "state"],
        &indexes.iter().map(row).collect::<Vec<_>>(),
    ))
}
