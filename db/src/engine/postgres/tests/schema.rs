//! The schemas of both engines: the same tables, columns, types, defaults, keys and indexes.

use std::collections::BTreeSet;

use rusqlite::Connection;
use test_postgres::Database;

use super::with_schema;
use crate::engine::sqlite;

/// A part of the schema: a query for each engine, whose rows are texts.
struct Part {
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

/// Tables that only PostgreSQL has: those of the server's lock, of lanes and of the schema's number.
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

/// How many conditions a table checks; their texts differ.
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
