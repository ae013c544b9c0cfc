//! Each statement that writes is made to fail, and must undo its job and nothing else, even if its reply was not waited for: PostgreSQL
//! answers the `COMMIT` of a failed transaction without an error. The [scenario](Scenario) runs every job of the store.

mod scenario;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conclave_db::{CommittedEvent, Location, PostgresOptions, PostgresServer, StoreError};
use conclave_model::Secret;
use parking_lot::Mutex;
use test_postgres::{Database, Session};

use super::cluster;
use super::support::{clock, open_at};
use scenario::Scenario;

/// Statement number that no job reaches.
const NONE: usize = 1_000_000;

/// Counts down with each statement that writes, and fails the statement that reaches zero. Transactions that are undone count, too.
const COUNT_DOWN: &str =
    "CREATE SEQUENCE statements_left INCREMENT -1 MINVALUE -1000000 MAXVALUE 1000000 START 1000000;
     CREATE FUNCTION count_down() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
         IF nextval('statements_left') = 0 THEN RAISE EXCEPTION 'made to fail'; END IF;
         RETURN NULL;
     END $$;";

/// Makes the jobs' statements fail, one after the other, and compares the records afterwards.
struct Failures {
    session: Mutex<Session>,
    /// Hashes all rows, except the rows for writer sessions and the lease.
    content: String,
    /// Number of events passed to the commit hook.
    told: Arc<AtomicUsize>,
    /// Names of the jobs that were run.
    run: Mutex<BTreeSet<&'static str>>,
}

impl Failures {
    fn new(database: &Database<'_>, told: Arc<AtomicUsize>) -> Self {
        let mut session = database.session();
        session.run(COUNT_DOWN.trim_end_matches(';'));
        let tables = session.run(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'
             AND tablename NOT IN ('leadership', 'beats', 'nodes', 'schema_version')",
        );
        for table in &tables {
            session.run(&format!(
                "CREATE TRIGGER counted BEFORE INSERT OR UPDATE OR DELETE ON {table} EXECUTE FUNCTION count_down()"
            ));
        }
        let hash = |table| {
            format!(
                "(SELECT md5(coalesce(string_agg(t::text, ' ' ORDER BY t::text), '')) FROM {table} t)"
            )
        };
        let hashes: Vec<String> = tables
            .iter()
            .filter(|table| *table != "lanes")
            .map(hash)
            .collect();
        Self {
            session: Mutex::new(session),
            content: format!("SELECT {}", hashes.join(" || ")),
            told,
            run: Mutex::default(),
        }
    }

    /// Makes the statement with this number fail, counted from 1.
    fn arm(&self, statement: usize) {
        self.session
            .lock()
            .run(&format!("SELECT setval('statements_left', {statement})"));
    }

    fn has_failed(&self) -> bool {
        self.session
            .lock()
            .run("SELECT last_value <= 0 FROM statements_left")
            == ["t"]
    }

    fn state(&self) -> (Vec<String>, usize) {
        (
            self.session.lock().run(&self.content),
            self.told.load(Ordering::Relaxed),
        )
    }

    /// Runs a job once for each of its statements, with that statement made to fail, and checks that nothing has changed and no event is
    /// forwarded. Then runs it without a failure.
    async fn check<T>(
        &self,
        name: &'static str,
        job: impl AsyncFn() -> Result<T, StoreError>,
    ) -> T {
        self.run.lock().insert(name);
        let before = self.state();
        for statement in 1.. {
            self.arm(statement);
            let done = job().await;
            if !self.has_failed() {
                self.arm(NONE);
                let done = done.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_ne!(self.state().0, before.0, "{name} has changed nothing");
                return done;
            }
            let Err(error) = done else {
                panic!("{name} has succeeded although its statement {statement} has failed")
            };
            assert!(
                !matches!(error, StoreError::Refused(_)),
                "{name}, statement {statement}: {error}"
            );
            assert_eq!(self.state(), before, "{name}, statement {statement}");
        }
        unreachable!("a job has an end")
    }
}

#[actix::test]
async fn each_statement_that_fails_undoes_its_job_and_no_other() {
    let Some(cluster) = cluster() else { return };
    let (database, told) = (cluster.database(), Arc::<AtomicUsize>::default());
    let counter = Arc::clone(&told);
    let count = move |events: &[CommittedEvent]| {
        counter.fetch_add(events.len(), Ordering::Relaxed);
    };
    let folder = tempfile::tempdir().unwrap();
    let server = PostgresServer::new(&Secret::new(database.url()), None).unwrap();
    let location = Location::Server(PostgresOptions {
        server,
        lanes: 2,
        readers: 4,
        epoch: Some(0),
    });
    let store = open_at(
        location,
        Some(&folder.path().join("encryption.key")),
        &clock(),
        Box::new(count),
    );
    let scenario = Scenario::new(store, Failures::new(&database, told)).await;
    scenario.run().await;
    let (run, jobs) = (scenario.failures.run.into_inner(), jobs());
    assert!(jobs.len() > 50, "only {} jobs were found", jobs.len());
    let missing: Vec<_> = jobs
        .iter()
        .filter(|job| !run.contains(job.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "the scenario has to run these jobs, too: {missing:?}"
    );
    let unknown: Vec<_> = run.iter().filter(|job| !jobs.contains(**job)).collect();
    assert!(
        unknown.is_empty(),
        "the scenario names unknown jobs: {unknown:?}"
    );
}

/// Key rotations, which change files as well, and have their own tests.
const ROTATIONS: [&str; 2] = ["EncryptionKey::rotate", "EncryptionKey::rotate_shared"];

/// Returns the components' public operations that write, from their source.
fn jobs() -> BTreeSet<String> {
    let records = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/records");
    let (mut paths, mut sources) = (vec![records], Vec::new());
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let inside = std::fs::read_dir(path).unwrap();
            paths.extend(inside.map(|entry| entry.unwrap().path()));
        } else {
            // A comment may stand between a receiver and its call.
            let source = std::fs::read_to_string(path).unwrap();
            let code = source
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            sources.push(code.fold(String::new(), |text, line| text + line + "\n"));
        }
    }
    let functions: Vec<Function<'_>> = sources
        .iter()
        .flat_map(|source| functions(source))
        .collect();
    // Directly, or through a private function.
    let mut helpers = vec!["write", "write_then"];
    loop {
        let writes = |function: &&Function<'_>| helpers.iter().any(|helper| function.calls(helper));
        let found = functions.iter().filter(writes);
        let more: Vec<&str> = found
            .filter(|function| !function.is_public)
            .map(|function| function.name)
            .collect();
        let more: Vec<&str> = more
            .into_iter()
            .filter(|name| !helpers.contains(name))
            .collect();
        if more.is_empty() {
            let public = functions
                .iter()
                .filter(writes)
                .filter(|function| function.is_public);
            return public
                .map(|function| format!("{}::{}", function.component, function.name))
                .filter(|name| !ROTATIONS.contains(&&**name))
                .collect();
        }
        helpers.extend(more);
    }
}

/// Function of a component.
struct Function<'a> {
    component: &'a str,
    name: &'a str,
    body: &'a str,
    is_public: bool,
}

impl Function<'_> {
    /// Returns whether it calls an operation of its own component or of the database. Calls may be on separate lines.
    fn calls(&self, name: &str) -> bool {
        self.body
            .match_indices(&format!(".{name}("))
            .any(|(at, _)| {
                let receiver = self.body[..at].trim_end();
                ["self", "self.0", "self.database"]
                    .iter()
                    .any(|own| receiver.ends_with(own))
            })
    }
}

/// Returns the functions in each `impl` of a type in a file.
fn functions(source: &str) -> Vec<Function<'_>> {
    let blocks = source.split("\nimpl ").skip(1).filter_map(|block| {
        let (component, block) = block.split_once(" {\n")?;
        Some((component, block.split("\n}\n").next().unwrap_or(block)))
    });
    let functions = blocks.flat_map(|(component, block)| {
        block
            .split("\n    }\n")
            .map(move |function| (component, function))
    });
    let read = |(component, text)| {
        let (start, rest) = str::split_once(text, "fn ")?;
        let (name, body) = rest.split_once(['(', '<'])?;
        let is_public = start
            .lines()
            .last()
            .is_some_and(|line| line.trim_start().starts_with("pub "));
        Some(Function {
            component,
            name,
            body,
            is_public,
        })
    };
    functions.filter_map(read).collect()
}
