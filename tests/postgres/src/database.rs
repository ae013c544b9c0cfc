//! A test's database.

use std::net::SocketAddr;
use std::time::Duration;

use crate::cluster::{Cluster, PASSWORD, USER};
use crate::session::Session;

/// How long a statement waits for a writing server.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// Tables of the server's lock: a server whose records are locked or out of space keeps its lock.
const TABLES_OF_THE_SERVER: &str = "('leadership', 'beats', 'nodes')";

/// Returns the query for the record tables.
fn tables_of_the_records() -> String {
    format!("pg_tables WHERE schemaname = 'public' AND tablename NOT IN {TABLES_OF_THE_SERVER}")
}

/// Returns the statements that lock the record tables until the transaction ends. They do not wait while they hold a lock: a server locks
/// the tables in its own order, and PostgreSQL would resolve a deadlock by ending one of the two.
fn lock_statements(mode: &str) -> String {
    format!(
        "SET LOCAL statement_timeout = {limit};
         DO $$ BEGIN LOOP
             BEGIN
                 EXECUTE (SELECT format('LOCK TABLE %s IN {mode} MODE NOWAIT', string_agg(quote_ident(tablename), ', '))
                     FROM {tables});
                 EXIT;
             EXCEPTION WHEN lock_not_available THEN
                 PERFORM pg_sleep(0.01);
             END;
         END LOOP; END $$",
        limit = BUSY_TIMEOUT.as_millis(),
        tables = tables_of_the_records(),
    )
}

/// A database, which is dropped with this value.
#[derive(Debug)]
pub struct Database<'c> {
    cluster: &'c Cluster,
    name: String,
    /// Whether it is kept while the server runs.
    is_kept: bool,
}

impl<'c> Database<'c> {
    /// Creates a database: empty, or as a copy of another, which must have no connections.
    pub(crate) fn create(cluster: &'c Cluster, name: String, like: Option<&str>) -> Self {
        // From version 15 on the pages are copied through the log, which takes a tenth of the time that copied files take.
        let like = like.unwrap_or("template0");
        cluster.psql(
            "postgres",
            &format!("CREATE DATABASE {name} TEMPLATE {like} OWNER {USER}"),
        );
        Self {
            cluster,
            name,
            is_kept: false,
        }
    }

    /// Returns a database that the server already has as a copy.
    pub(crate) const fn existing(cluster: &'c Cluster, name: String) -> Self {
        Self {
            cluster,
            name,
            is_kept: true,
        }
    }

    /// Returns the name, which consists of small letters, digits and `_`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the database's URL, with the name and the password of a user who owns it and has no other privilege.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.cluster.address())
    }

    /// Returns the same with another address, such as a proxy's.
    #[must_use]
    pub fn url_at(&self, address: SocketAddr) -> String {
        format!("postgres://{USER}:{PASSWORD}@{address}/{}", self.name)
    }

    /// Runs statements as the superuser, and returns psql's output: one row per line, with `|` between columns.
    ///
    /// # Panics
    /// A statement fails.
    pub fn run(&self, text: &str) -> String {
        self.cluster.psql(&self.name, text)
    }

    /// Opens a superuser session.
    #[must_use]
    pub fn session(&self) -> Session {
        Session::start(self.cluster.psql_command(&self.name))
    }

    /// Locks a table until the session is dropped: its readers and writers wait.
    #[must_use]
    pub fn lock(&self, table: &str) -> Session {
        let mut session = self.session();
        session.run(&format!(
            "BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
        ));
        session
    }

    /// Locks all tables except the server's lock tables until the session is dropped: writers wait.
    ///
    /// # Panics
    /// Another program has locked them for longer than [`BUSY_TIMEOUT`].
    pub(crate) fn lock_records(&self) -> Session {
        let mut session = self.session();
        session.run(&format!("BEGIN; {}", lock_statements("EXCLUSIVE")));
        session
    }

    /// Makes each statement that writes rows fail as in a full tablespace, except in the server's lock tables.
    pub fn fill_disk(&self) {
        let text = "'could not extend file: No space left on device' USING ERRCODE = 'disk_full'";
        let trigger = "CREATE TRIGGER disk_is_full BEFORE INSERT OR UPDATE ON %I EXECUTE FUNCTION refuse_rows()";
        let (lock, tables) = (
            lock_statements("SHARE ROW EXCLUSIVE"),
            tables_of_the_records(),
        );
        self.run(&format!(
            "{lock};
             CREATE FUNCTION refuse_rows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION {text}; END $$;
             DO $$ DECLARE name TEXT; BEGIN
             FOR name IN SELECT tablename FROM {tables} LOOP EXECUTE format('{trigger}', name); END LOOP; END $$"
        ));
    }

    /// Undoes [`Database::fill_disk`].
    pub fn free_disk(&self) {
        self.run(&format!(
            "{}; DROP FUNCTION refuse_rows CASCADE",
            lock_statements("ACCESS EXCLUSIVE")
        ));
    }

    /// Returns everything in the database as text.
    #[must_use]
    pub fn dump(&self) -> String {
        self.cluster.dump(&self.name)
    }

    /// Ends all client sessions, as an administrator can. Their transactions are rolled back.
    pub fn end_sessions(&self) {
        let sessions = format!(
            "pg_stat_activity WHERE datname = '{}' AND backend_type = 'client backend'",
            self.name
        );
        self.cluster.psql(
            "postgres",
            &format!("SELECT count(pg_terminate_backend(pid, 60000)) FROM {sessions}"),
        );
    }

    /// Returns a copy of the committed data. Sessions end, and new ones are refused during the copy.
    #[must_use]
    pub fn copy(&self) -> Self {
        self.allow_connections(false);
        self.end_sessions();
        let copy = self.cluster.database_like(&self.name);
        self.allow_connections(true);
        copy
    }

    /// Ends all sessions and keeps the database in its current state.
    pub(crate) fn into_template(mut self) -> String {
        self.allow_connections(false);
        self.end_sessions();
        self.is_kept = true;
        self.name.clone()
    }

    /// Allows new sessions, or refuses them, including superuser sessions.
    pub fn allow_connections(&self, allowed: bool) {
        self.cluster.psql(
            "postgres",
            &format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allowed}", self.name),
        );
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.cluster.drop_database(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::eventually;

    #[test]
    fn all_tables_are_locked_beside_a_transaction_that_locks_them_in_another_order() {
        let Some(cluster) = Cluster::installed() else {
            return;
        };
        let database = cluster.database();
        database.run("CREATE TABLE a (note text); CREATE TABLE b (note text)");
        let is_locking = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%LOCK TABLE %s%'
            AND datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()";
        let lock = || drop(database.lock_records());
        for lock in [
            &lock as &(dyn Fn() + Sync),
            &|| database.fill_disk(),
            &|| database.free_disk(),
        ] {
            let mut open = database.session();
            open.run("BEGIN; LOCK TABLE b IN ROW EXCLUSIVE MODE");
            thread::scope(|scope| {
                let locking = scope.spawn(lock);
                assert!(eventually(|| database.run(is_locking) != "0"));
                open.run("LOCK TABLE a IN ROW EXCLUSIVE MODE; COMMIT");
                locking.join().unwrap();
            });
        }
    }
}
