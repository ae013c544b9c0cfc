//! The app's records, on the chosen engine.

use std::process::Command;
use std::sync::Arc;

use conclave::runtime::run_in_system;
use conclave_db::{
    Location, OlderSchema, PostgresOptions, PostgresServer, Store, StoreMetrics, StoreOptions,
    Vault,
};
use conclave_model::{Clock, Secret};
use serde_json::{Value, json};
use test_postgres::Records;

use super::{DATABASE, TestApp};

impl TestApp {
    /// Returns the fault scope of the app's database.
    pub fn database_scope(&self) -> String {
        match self.records.url() {
            None => self
                .data()
                .canonicalize()
                .unwrap()
                .join(DATABASE)
                .display()
                .to_string(),
            Some(url) => PostgresServer::new(&Secret::new(url), None)
                .unwrap()
                .location(),
        }
    }

    /// Returns the program as a separate process, on the running app's data directory and records.
    pub fn program(&self) -> Command {
        // Absent in the fuzz targets, which have this harness and no program.
        let Some(path) = option_env!("CARGO_BIN_EXE_conclave") else {
            panic!("only tests of the program have it")
        };
        let mut program = Command::new(path);
        program
            .arg("--data")
            .arg(self.data())
            .current_dir(self.data())
            .env_clear();
        program.envs(
            self.records
                .url()
                .map(|url| ("CONCLAVE_DATABASE__URL", url)),
        );
        program
    }

    /// Returns the records, for test operations on them next to the app.
    pub const fn records(&self) -> &Arc<Records> {
        &self.records
    }

    /// Allows a server with other keys to start, as an operator does after losing the keys.
    pub fn forget_keys(&self) {
        if let Records::Server(database) = &*self.records {
            database.run("UPDATE leadership SET encryption_key_id = NULL, media_key_id = NULL");
        }
    }

    /// Returns the `/readyz` parts of an app whose media plane and actors respond.
    pub fn parts(&self, database: &str) -> Value {
        let mut parts = json!({"database": database, "media": "ok", "actors": "ok"});
        if let Records::Server(_) = &*self.records {
            parts["lease"] = json!("active");
        }
        parts
    }

    /// Returns whether the records or a file in the data directory contain a text verbatim.
    pub fn holds(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.data())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut bytes = files
            .filter(|path| path.is_file())
            .map(|path| std::fs::read(path).unwrap());
        let is_in_files = bytes.any(|bytes| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        });
        is_in_files || self.records.contain(text)
    }
}

/// Creates the schema in an empty PostgreSQL database.
pub fn create_schema(url: &str) {
    let server = PostgresServer::new(&Secret::new(url), None).unwrap();
    let options = StoreOptions {
        location: Location::Server(PostgresOptions {
            server,
            lanes: 1,
            readers: 1,
            epoch: None,
        }),
        older_schema: OlderSchema::Migrate,
        clock: Clock::system(),
        vault: Vault::open(None, &Secret::new("")).unwrap(),
        on_commit: Box::new(|_| {}),
        readers: 1,
        metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
    };
    let created = run_in_system(async {
        Store::open(options)?.close();
        Ok(())
    });
    created.expect("the schema is created");
}
