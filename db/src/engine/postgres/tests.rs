//! Schema, index and SQL text checks against a PostgreSQL server.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use conclave_model::egress::{EgressKind, EgressStatus};
use conclave_model::event::EventType;
use conclave_model::ingress::{IngressStatus, InputType};
use conclave_model::room::RoomStatus;
use conclave_model::usage::Day;
use conclave_model::webhook::DeliveryStatus;
use conclave_model::{EndpointId, Identity, ProjectId, RoomId, Secret, Timestamp};
use rusqlite::Connection;
use test_postgres::{Cluster, Database};

use super::migrate;
use crate::engine::postgres::indexes::{IndexState, build};
use crate::engine::postgres::migrate::{apply_all, migrations, newest};
use crate::engine::sqlite;
use crate::portable_sql::{sources, statements};
use crate::records::{
    bans, codes, deliveries, egresses, events, ingresses, quality, role_changes, rooms, sessions,
    templates, webhook_endpoints,
};
use crate::sql::Sql;
use crate::sql::postgres::{PostgresServer, Session};
use crate::sql::query_builder::QueryBuilder;
use crate::{
    DeliveryFilter, EgressFilter, EventFilter, IngressFilter, OlderSchema, RoomFilter,
    SessionFilter, StoreError,
};

/// Calls `check` with a database that has the schema, and a session with it. Skipped where no server is installed, unless the run is for
/// PostgreSQL.
fn with_schema(check: impl FnOnce(&Database<'_>, &Session)) {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let server = PostgresServer::new(&Secret::new(database.url()), None).unwrap();
    migrate::prepare(&server, OlderSchema::Migrate).unwrap();
    check(
        &database,
        &Session::connect(&server, Duration::from_secs(60)).unwrap(),
    );
}

/// A further migration: an index on an existing table, and one on a column that it adds.
const FURTHER: &str = "-- The next schema.
    ALTER TABLE rooms ADD COLUMN later BIGINT;
    CREATE INDEX IF NOT EXISTS rooms_by_later
        ON rooms (later);
    -- CREATE INDEX IF NOT EXISTS commented_out ON events (room);
    CREATE UNIQUE INDEX IF NOT EXISTS events_ahead ON events (id, room);";

fn ahead(session: &Session) -> Result<Vec<(String, IndexState)>, StoreError> {
    let built = build(session, [FURTHER].into_iter());
    session.batch("SELECT pg_advisory_unlock_all()").unwrap();
    built.map(|indexes| {
        indexes
            .into_iter()
            .map(|index| (index.name, index.state))
            .collect()
    })
}

fn found(state: IndexState) -> Vec<(String, IndexState)> {
    vec![
        ("rooms_by_later".into(), IndexState::Later),
        ("events_ahead".into(), state),
    ]
}

fn id(database: &Database<'_>) -> String {
    database.run("SELECT 'events_ahead'::regclass::oid || ' ' || indisvalid || ' ' || indisunique FROM pg_index WHERE indexrelid = 'events_ahead'::regclass")
}

/// Leaves the state of an interrupted build.
fn spoil(database: &Database<'_>) {
    database
        .run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'events_ahead'::regclass");
}

fn migrate(session: &Session) -> Result<(), StoreError> {
    let all: Vec<_> = migrations().chain([Cow::Borrowed(FURTHER)]).collect();
    session.batch("BEGIN")?;
    match apply_all(session, &all) {
        Ok(()) => session.batch("COMMIT"),
        Err(error) => session.roll_back().and(Err(error)),
    }
}

#[test]
fn the_participants_of_older_events_are_found_in_their_payloads() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let server = PostgresServer::new(&Secret::new(database.url()), None).unwrap();
    let session = Session::connect(&server, Duration::from_secs(60)).unwrap();
    let all: Vec<_> = migrations().collect();
    let earlier = all
        .iter()
        .position(|text| text.contains("events ADD COLUMN identity"))
        .unwrap();
    apply_all(&session, &all[..earlier]).unwrap();
    database.run(
        r#"INSERT INTO projects (id, name, env, plan, status, created_at) VALUES ('prj_1', 'p', 'test', 'free', 'active', 1);
         INSERT INTO events (project_id, room, type, payload, created_at) VALUES
             ('prj_1', 'a', 'room.started', '{"type":"room.started","room":"a"}', 1),
             ('prj_1', 'a', 'participant.joined', '{"room":"a","participant_identity":"ada@b.c"}', 1),
             ('prj_1', 'a', 'ingress.started', '{"room":"a","participant_identity":"encoder"}', 1)"#,
    );
    apply_all(&session, &all).unwrap();
    assert_eq!(
        database.run("SELECT coalesce(identity, '-') FROM events ORDER BY id"),
        "-\nada@b.c\nencoder"
    );
}

#[test]
fn an_index_that_was_built_ahead_is_found_by_its_migration() {
    with_schema(|database, session| {
        assert_eq!(ahead(session).unwrap(), found(IndexState::Built));
        assert_eq!(ahead(session).unwrap(), found(IndexState::Present));
        spoil(database);
        assert_eq!(ahead(session).unwrap(), found(IndexState::Rebuilt));
        let built = id(database);
        assert!(built.ends_with(" true true"), "{built}");
        migrate(session).unwrap();
        assert_eq!(
            id(database),
            built,
            "the migration has left the index unchanged"
        );
        assert_eq!(
            database.run("SELECT version FROM schema_version"),
            (newest() + 1).to_string()
        );
        assert_eq!(
            database.run("SELECT count(*) FROM pg_indexes WHERE indexname = 'rooms_by_later'"),
            "1"
        );
    });
}

#[test]
fn a_migration_builds_what_a_stopped_build_has_left_and_does_not_run_beside_a_build() {
    with_schema(|database, session| {
        ahead(session).unwrap();
        spoil(database);
        let spoilt = id(database);
        let mut other = database.session();
        other.run("SELECT pg_advisory_lock(5136919)");
        assert!(
            ahead(session)
                .unwrap_err()
                .to_string()
                .contains("another conclave migrate is running")
        );
        assert!(
            migrate(session)
                .unwrap_err()
                .to_string()
                .contains("let it finish")
        );
        assert_eq!(id(database), spoilt);
        other.run("SELECT pg_advisory_unlock(5136919)");
        migrate(session).unwrap();
        let built = id(database);
        assert!(built.ends_with(" true true") && built != spoilt, "{built}");
    });
}

#[test]
fn every_later_migration_leaves_indexes_that_are_there_already() {
    for migration in migrations().skip(1) {
        for line in migration
            .lines()
            .filter(|line| line.starts_with("CREATE") && line.contains(" INDEX "))
        {
            assert!(
                line.contains(" INDEX IF NOT EXISTS "),
                "conclave migrate builds it ahead: {line}"
            );
        }
    }
}

/// Part of the schema: a query for each engine, whose rows are texts.
struct Part {
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

/// Tables that only PostgreSQL has, for the lease, the writer sessions and the schema number.
const ONLY_POSTGRES: &str = "('leadership', 'beats', 'nodes', 'lanes', 'schema_version')";

const COLUMNS: Part = Part {
    name: "columns",
    sqlite: "SELECT m.name || ' ' || c.name || ' ' || c.type || ' ' || (c.\"notnull\" OR c.pk > 0) || ' ' || coalesce(c.dflt_value, '')
             FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
    postgres: "SELECT t.relname || ' ' || a.attname || ' '
                  || CASE a.atttypid WHEN 'bigint'::regtype THEN 'INTEGER'
                                     WHEN 'text'::regtype THEN CASE c.collname WHEN 'C' THEN 'TEXT' ELSE 'TEXT with a locale' END
                                     WHEN 'bytea'::regtype THEN 'BLOB' WHEN 'uuid'::regtype THEN 'BLOB'
                                     ELSE format_type(a.atttypid, a.atttypmod) END
                  || ' ' || a.attnotnull::int || ' ' || regexp_replace(coalesce(pg_get_expr(d.adbin, d.adrelid), ''), '::.*', '')
               FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
               LEFT JOIN pg_collation c ON c.oid = a.attcollation
               LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
               WHERE t.relkind = 'r' AND t.relnamespace = 'public'::regnamespace AND t.relname NOT IN ",
};

const PRIMARY_KEYS: Part = Part {
    name: "primary keys",
    sqlite: "SELECT m.name || ' ' || (SELECT group_concat(c.name, ',') FROM
                 (SELECT name FROM pragma_table_info(m.name) WHERE pk > 0 ORDER BY pk) c)
             FROM sqlite_schema m WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
    postgres: "SELECT t.relname || ' ' || (SELECT string_agg(a.attname, ',' ORDER BY k.at) FROM
                   unnest(i.indkey) WITH ORDINALITY AS k(number, at)
                   JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number)
               FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
               WHERE i.indisprimary AND t.relnamespace = 'public'::regnamespace AND t.relname NOT IN ",
};

/// Indexes by their names; unique constraints, whose names the engines choose, by their columns.
const INDEXES: Part = Part {
    name: "indexes",
    sqlite: "SELECT m.name || ' ' || CASE i.origin WHEN 'u' THEN 'unique' ELSE i.name END || ' ' || i.partial || ' '
                 || (SELECT group_concat(c.name, ',') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno) c)
             FROM sqlite_schema m JOIN pragma_index_list(m.name) i
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND i.origin <> 'pk'",
    postgres: "SELECT t.relname || ' ' || CASE WHEN i.indisunique THEN 'unique' ELSE x.relname END || ' '
                   || (i.indpred IS NOT NULL)::int || ' ' || (SELECT string_agg(a.attname, ',' ORDER BY k.at) FROM
                   unnest(i.indkey) WITH ORDINALITY AS k(number, at)
                   JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number)
               FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
               WHERE NOT i.indisprimary AND t.relnamespace = 'public'::regnamespace AND t.relname NOT IN ",
};

const FOREIGN_KEYS: Part = Part {
    name: "foreign keys",
    sqlite: "SELECT m.name || ' ' || f.\"from\" || ' ' || f.\"table\" || ' ' || f.\"to\" || ' ' || (f.on_delete = 'CASCADE')
             FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table'",
    postgres: "SELECT t.relname || ' ' || a.attname || ' ' || r.relname || ' ' || b.attname || ' ' || (f.confdeltype = 'c')::int
               FROM pg_constraint f JOIN pg_class t ON t.oid = f.conrelid JOIN pg_class r ON r.oid = f.confrelid
               JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = f.conkey[1]
               JOIN pg_attribute b ON b.attrelid = r.oid AND b.attnum = f.confkey[1]
               WHERE f.contype = 'f' AND t.relname NOT IN ",
};

/// Number of CHECK constraints per table; their texts differ.
const CHECKS: Part = Part {
    name: "checks",
    sqlite: "SELECT name || ' ' || ((length(sql) - length(replace(sql, 'CHECK (', ''))) / length('CHECK ('))
             FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    postgres:
        "SELECT t.relname || ' ' || (SELECT count(*) FROM pg_constraint c WHERE c.conrelid = t.oid AND c.contype = 'c')
               FROM pg_class t WHERE t.relkind = 'r' AND t.relnamespace = 'public'::regnamespace AND t.relname NOT IN ",
};

fn of_sqlite(connection: &Connection, part: &Part) -> BTreeSet<String> {
    let mut statement = connection.prepare(part.sqlite).unwrap();
    statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(|line| line.unwrap().trim_end().to_owned())
        .collect()
}

fn of_postgres(database: &Database<'_>, part: &Part) -> BTreeSet<String> {
    database
        .run(&format!("{}{ONLY_POSTGRES}", part.postgres))
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[test]
fn both_engines_have_the_same_schema() {
    with_schema(|database, _| {
        let mut connection = Connection::open_in_memory().unwrap();
        sqlite::migrate::migrate(&mut connection).unwrap();
        for part in [COLUMNS, PRIMARY_KEYS, INDEXES, FOREIGN_KEYS, CHECKS] {
            let (file, server) = (of_sqlite(&connection, &part), of_postgres(database, &part));
            assert!(
                file.len() >= 18,
                "only {} {} were found",
                file.len(),
                part.name
            );
            let only_file: Vec<_> = file.difference(&server).collect();
            let only_server: Vec<_> = server.difference(&file).collect();
            assert_eq!(
                (only_file, only_server),
                (vec![], vec![]),
                "{}: only in SQLite, only in PostgreSQL",
                part.name
            );
        }
    });
}

/// Literals that are parts of texts, by their files and first characters.
const FRAGMENTS: [(&str, &str); 7] = [
    ("records/api_keys.rs", "SELECT project_id, prefix, label"),
    ("records/egresses/mod.rs", "SELECT e.id, e.project_id"),
    (
        "records/egresses/mod.rs",
        "UPDATE egresses SET status = ?3, error = ?4",
    ),
    ("records/ingresses.rs", "UPDATE ingresses SET status = ?3"),
    ("records/rooms/rows.rs", "SELECT id, participant_identity"),
    (
        "records/templates.rs",
        "SELECT r.body, r.template_id FROM roles r",
    ),
    ("records/exports.rs", "SELECT {} FROM {}"),
];

#[test]
fn every_text_prepares_with_types_that_are_bound_and_read() {
    with_schema(|_, session| {
        let mut prepared = 0;
        for (file, source) in sources() {
            for text in statements(&source) {
                if FRAGMENTS
                    .iter()
                    .any(|(of, start)| file == *of && text.starts_with(start))
                {
                    continue;
                }
                session
                    .check_types(&text)
                    .unwrap_or_else(|error| panic!("{file}: {error}: {text}"));
                prepared += 1;
            }
        }
        assert!(prepared > 100, "only {prepared} texts were prepared");
    });
}

#[test]
fn a_type_that_no_record_has_is_found() {
    with_schema(|_, session| {
        for text in [
            "SELECT sum(created_at) FROM rooms",
            "SELECT 1 FROM rooms WHERE CAST(?1 AS NUMERIC) > 1",
            "SELECT FROM",
        ] {
            assert!(session.check_types(text).is_err(), "{text}");
        }
    });
}

/// Checks that a list follows an index: no table is read whole, nothing is sorted.
fn check_plan(session: &Session, query: QueryBuilder<'_>) {
    let steps = query.plan(Sql::Postgres(session));
    assert!(
        !steps
            .iter()
            .any(|step| step.contains("Seq Scan") || step.contains("Sort")),
        "{steps:#?}"
    );
    assert!(
        steps.iter().any(|step| step.contains("Index")),
        "{steps:#?}"
    );
}

#[test]
fn every_list_follows_an_index() {
    with_schema(|_, session| {
        session.batch("SET enable_seqscan = off; SET enable_sort = off; SET enable_incremental_sort = off").unwrap();
        let (project, room) = (ProjectId::new(), RoomId::new());
        let identity: Identity = "ada".parse().unwrap();
        check_plan(session, quality::worst_query(&project, Day::from_number(1)));
        check_plan(session, rooms::open_query(&project));
        check_plan(session, rooms::live_query(&project));
        check_plan(session, templates::list_query(&project));
        check_plan(session, webhook_endpoints::list_query(&project));
        check_plan(session, codes::list_query(&project, room));
        check_plan(session, bans::list_query(&project, room));
        check_plan(session, role_changes::list_query(&project, room, None));
        check_plan(
            session,
            role_changes::list_query(&project, room, Some(&identity)),
        );
        each_choice(|chosen| {
            check_plan(
                session,
                deliveries::list_query(&project, &delivery_filter(&chosen)),
            );
            check_plan(
                session,
                events::list_query(&project, &event_filter(&chosen), 7),
            );
            check_plan(
                session,
                ingresses::list_query(&project, &ingress_filter(&chosen)),
            );
            check_plan(
                session,
                egresses::list_query(&project, EgressKind::Recording, &egress_filter(&chosen)),
            );
            check_plan(
                session,
                rooms::list_query(&project, &room_filter(&chosen), "class-\u{7f}"),
            );
            for active in [None, Some(false), Some(true)] {
                check_plan(
                    session,
                    sessions::list_query(&project, &session_filter(&chosen, active)),
                );
            }
        });
    });
}

/// Subset of five filters.
type Chosen = [bool; 5];

fn each_choice(mut check: impl FnMut(Chosen)) {
    for choice in 0..1u8 << 5 {
        check(std::array::from_fn(|at| choice & (1 << at) != 0));
    }
}

fn delivery_filter(chosen: &Chosen) -> DeliveryFilter {
    DeliveryFilter {
        status: chosen[0].then_some(DeliveryStatus::Failed),
        event_type: chosen[1].then(|| "room.started".into()),
        endpoint_id: chosen[2].then(EndpointId::new),
    }
}

fn room_filter(chosen: &Chosen) -> RoomFilter {
    let status = if chosen[1] {
        RoomStatus::Open
    } else {
        RoomStatus::Ended
    };
    RoomFilter {
        status: chosen[0].then_some(status),
        name_prefix: chosen[2].then(|| "class-".parse().unwrap()),
        created_after: chosen[3].then_some(Timestamp::from_millis(1)),
        created_before: chosen[4].then_some(Timestamp::from_millis(2)),
    }
}

fn event_filter(chosen: &Chosen) -> EventFilter {
    EventFilter {
        room: chosen[0].then(|| "r".parse().unwrap()),
        event_type: chosen[1].then_some(EventType::RoomStarted),
        identity: chosen[2].then(|| "ada".parse().unwrap()),
        ..EventFilter::default()
    }
}

fn ingress_filter(chosen: &Chosen) -> IngressFilter {
    IngressFilter {
        room: chosen[0].then(|| "r".parse().unwrap()),
        status: chosen[1].then_some(IngressStatus::Inactive),
        input_type: chosen[2].then_some(InputType::Rtmp),
    }
}

fn egress_filter(chosen: &Chosen) -> EgressFilter {
    EgressFilter {
        room: chosen[0].then(|| "r".parse().unwrap()),
        status: chosen[1].then_some(EgressStatus::Active),
        after: chosen[2].then_some(Timestamp::from_millis(1)),
        before: chosen[3].then_some(Timestamp::from_millis(2)),
    }
}

fn session_filter(chosen: &Chosen, active: Option<bool>) -> SessionFilter {
    SessionFilter {
        room: chosen[0].then(|| "r".parse().unwrap()),
        identity: chosen[1].then(|| "ada".parse().unwrap()),
        role: chosen[2].then(|| "host".parse().unwrap()),
        active,
        after: chosen[3].then_some(Timestamp::from_millis(1)),
        before: chosen[4].then_some(Timestamp::from_millis(2)),
    }
}
