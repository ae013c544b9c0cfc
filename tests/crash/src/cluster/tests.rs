//! The audit and the phases, which the checks depend on.

use test_postgres::Cluster;

use super::audit::{self, Writer};
use super::phases::Phases;
use super::postgres::Postgres;

const TABLES: &str = "
CREATE TABLE leadership (epoch BIGINT); INSERT INTO leadership VALUES (1);
CREATE TABLE bans (id BIGINT); CREATE TABLE codes (id BIGINT); CREATE TABLE erasures (id BIGINT); CREATE TABLE events (id BIGINT); CREATE TABLE idempotency (id BIGINT);
CREATE TABLE revocations (id BIGINT); CREATE TABLE roles (id BIGINT); CREATE TABLE rooms (id BIGINT); CREATE TABLE sessions (id BIGINT);
CREATE TABLE templates (id BIGINT); CREATE TABLE tracks (id BIGINT); CREATE TABLE webhook_endpoints (id BIGINT);
CREATE TABLE webhook_deliveries (id UUID, status TEXT);
INSERT INTO webhook_deliveries VALUES ('00000000-0000-0000-0000-000000000001', 'pending'),
    ('00000000-0000-0000-0000-000000000002', 'pending')";

/// Proves R-36.
#[test]
fn the_audit_has_each_writer_with_the_epoch_and_deliveries_that_were_marked_twice() {
    if Cluster::installed().is_none() {
        return;
    }
    let database = Postgres::start(false);
    database.run(TABLES);
    audit::begin(&database);
    let write =
        |name: &str, text: &str| database.run(&format!("SET application_name = '{name}'; {text}"));
    write("node-0-1", "INSERT INTO rooms VALUES (1)");
    write("node-0-1", "UPDATE rooms SET id = 2");
    database.run("UPDATE leadership SET epoch = 2");
    write("node-1-1", "INSERT INTO rooms VALUES (3)");
    write("node-0-1", "DELETE FROM rooms WHERE id = 2");
    let writer = |epoch, name: &str| Writer {
        epoch,
        name: name.to_owned(),
    };
    assert_eq!(
        audit::writers(&database),
        [
            writer(1, "node-0-1"),
            writer(2, "node-0-1"),
            writer(2, "node-1-1")
        ]
    );

    let (first, second) = (
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-000000000002",
    );
    let mark = |id: &str| {
        database.run(&format!(
            "UPDATE webhook_deliveries SET status = 'delivered' WHERE id = '{id}'"
        ))
    };
    mark(first);
    mark(second);
    assert!(audit::marked_twice(&database).is_empty());
    mark(second);
    assert_eq!(audit::marked_twice(&database), [second]);
}

#[test]
fn a_server_that_follows_has_what_was_committed_before_it_is_promoted() {
    if Cluster::installed().is_none() {
        return;
    }
    let database = Postgres::start(true);
    database.run("CREATE TABLE notes (note TEXT); INSERT INTO notes VALUES ('first')");
    for round in 0..2 {
        database.run(&format!("INSERT INTO notes VALUES ('{round}')"));
        database.kill();
        database.promote();
        database.run("INSERT INTO notes VALUES ('promoted')");
        database.replace_lost();
    }
    let notes = database.run("SELECT string_agg(note, ',' ORDER BY note) FROM notes");
    assert_eq!(notes, "0,1,first,promoted,promoted");
    assert_eq!(database.proxies().len(), 2);
}

#[test]
fn there_is_no_phase_during_a_fault_and_another_one_after_it() {
    let phases = Phases::default();
    assert_eq!(phases.current(), None);
    phases.begin();
    phases.begin();
    assert_eq!(phases.current(), Some(1));
    phases.end();
    assert_eq!(phases.current(), None);
    phases.begin();
    assert_eq!((phases.current(), phases.all().len()), (Some(2), 2));
}
