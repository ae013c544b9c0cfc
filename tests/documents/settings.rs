//! `config/conclave.toml` and the tables in `docs/configuration.md`, both generated from the settings' declarations.

use conclave::config::reference;

use crate::snapshot;

const PAGE: &str = "docs/configuration.md";
const TABLES_BEGIN: &str = "<!-- settings: written by CONCLAVE_UPDATE_SNAPSHOTS=1 cargo test --test documents settings -->";
const TABLES_END: &str = "<!-- end of settings -->";

#[test]
fn the_file_of_settings_is_as_they_are_declared() {
    snapshot::check("config/conclave.toml", &reference::settings_file().unwrap());
}

#[test]
fn the_page_of_settings_is_as_they_are_declared() {
    let page = snapshot::read(PAGE);
    let (before, rest) = page.split_once(TABLES_BEGIN).unwrap();
    let (_, after) = rest.split_once(TABLES_END).unwrap();
    let tables = reference::tables().unwrap();
    snapshot::check(
        PAGE,
        &format!("{before}{TABLES_BEGIN}\n{tables}\n{TABLES_END}{after}"),
    );
}
