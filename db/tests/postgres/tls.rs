//! Encrypted connections, to a server that accepts no others.

use std::path::Path;

use conclave_db::{
    Location, OlderSchema, PostgresOptions, PostgresServer, Store, StoreError, StoreMetrics,
    StoreOptions, Vault,
};
use conclave_model::Secret;
use test_postgres::{Cluster, ClusterOptions, Database};

use super::cluster;
use super::support::{clock, create_project};

fn open(
    database: &Database<'_>,
    parameters: &str,
    root_cert: Option<&Path>,
) -> Result<Store, StoreError> {
    let url = Secret::new(format!("{}{parameters}", database.url()));
    let server = PostgresServer::new(&url, root_cert).unwrap();
    Store::open(StoreOptions {
        location: Location::Server(PostgresOptions {
            server,
            lanes: 1,
            readers: 3,
            epoch: None,
        }),
        older_schema: OlderSchema::Migrate,
        clock: clock(),
        vault: Vault::open(None, &Secret::new("media")).unwrap(),
        on_commit: Box::new(|_| {}),
        readers: 1,
        metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
    })
}

#[actix::test]
async fn a_connection_is_encrypted_and_a_server_with_an_unknown_certificate_is_refused() {
    if cluster().is_none() {
        return;
    }
    let cluster = Cluster::start(ClusterOptions {
        tls: true,
        ..ClusterOptions::default()
    });
    let database = cluster.database();
    let root = cluster.root_certificate();
    let store = open(&database, "?sslmode=require", Some(&root)).unwrap();
    let project = create_project(&store).await;
    assert!(store.projects().get(project).await.unwrap().is_some());
    let encrypted = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
                     WHERE a.application_name = 'conclave'";
    assert_eq!(database.run(encrypted).trim(), "t");
    for (parameters, root) in [
        ("?sslmode=require", None),
        ("?sslmode=disable", None),
        ("", Some(root.as_path())),
    ] {
        let refused = open(&database, parameters, root).map(drop).unwrap_err();
        let text = refused.to_string();
        assert!(
            matches!(refused, StoreError::Unavailable(_)),
            "{parameters}: {text}"
        );
        assert!(!text.contains(test_postgres::PASSWORD), "{text}");
    }
    store.close();
}
