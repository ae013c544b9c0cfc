//! A session with PostgreSQL, used by one thread, which waits for its answers.
//!
//! Statements are sent without waiting where their result is not needed at once ([`Session::put`]); the next wait is for their errors,
//! too. So a transaction takes as many round trips as it has questions, not as it has statements. The session has a runtime of its
//! own: its thread must not be one of another runtime.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::runtime::{self, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, Row, SimpleQueryMessage, Statement};

use super::server::PostgresServer;
use super::{Parameter, store_error};
use crate::error::StoreError;
use crate::sql::values::Value;

/// How much longer than the server's limit for a statement its answer is waited for. A server that stands still keeps no limit.
const GRACE: Duration = Duration::from_secs(5);
/// The most statements that are kept prepared.
const STATEMENTS: usize = 512;

type Wire = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;
type Sent = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// A connection to PostgreSQL, with its prepared statements and what was sent ahead.
pub(crate) struct Session {
    client: Arc<Client>,
    /// What moves data; `None` once the connection has ended.
    wire: RefCell<Option<Wire>>,
    /// What was sent and not waited for, in its order.
    sent: RefCell<Vec<Sent>>,
    statements: RefCell<HashMap<String, Statement>>,
    answer_limit: Cell<Duration>,
    #[cfg(feature = "faults")]
    location: String,
    /// Why the connection has ended.
    broken: RefCell<Option<String>>,
    waits: Cell<u64>,
    fenced: Arc<AtomicBool>,
    set_back: Arc<AtomicBool>,
    /// Dropped last: the sockets belong to it.
    runtime: Runtime,
}

/// How a transaction that was to be committed has ended.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Nothing of it remains.
    RolledBack(StoreError),
    /// The connection ended before the answer.
    InDoubt(StoreError),
}

impl CommitError {
    /// What kept the transaction from being committed, or its end from being known.
    pub(crate) fn cause(self) -> StoreError {
        match self {
            Self::RolledBack(error) | Self::InDoubt(error) => error,
        }
    }
}

impl Session {
    /// Opens a session whose statements take at most `statement_limit`. Blocks.
    pub(crate) fn connect(
        server: &PostgresServer,
        statement_limit: Duration,
    ) -> Result<Self, StoreError> {
        let unavailable = |error: std::io::Error| StoreError::Unavailable(error.to_string());
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(unavailable)?;
        let connecting = async {
            let connected: Result<(Client, Wire), tokio_postgres::Error> = match server.tls.clone()
            {
                Some(tls) => server
                    .config
                    .connect(tls)
                    .await
                    .map(|(client, wire)| (client, Box::pin(wire) as Wire)),
                None => server
                    .config
                    .connect(NoTls)
                    .await
                    .map(|(client, wire)| (client, Box::pin(wire) as Wire)),
            };
            connected.map_err(|error| store_error(&error))
        };
        let too_slow = || StoreError::Unavailable(format!("{} does not answer", server.location()));
        let limited = runtime.block_on(async { timeout(server.connect_limit(), connecting).await });
        let (client, wire) = limited.map_err(|_| too_slow())??;
        let session = Self {
            client: Arc::new(client),
            wire: RefCell::new(Some(wire)),
            sent: RefCell::default(),
            statements: RefCell::default(),
            answer_limit: Cell::new(statement_limit + GRACE),
            #[cfg(feature = "faults")]
            location: server.location(),
            broken: RefCell::default(),
            waits: Cell::new(0),
            fenced: Arc::default(),
            set_back: Arc::default(),
            runtime,
        };
        let limit = statement_limit.as_millis();
        // Of a transaction whose process stands still, the server takes the locks away before another may take over. Not waited for:
        // an error is one of the first statement.
        session.send_text(format!(
            "SET statement_timeout = {limit}; SET lock_timeout = 2000; SET idle_in_transaction_session_timeout = 2000;
             SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning'"
        ))?;
        Ok(session)
    }

    /// Where the database is.
    #[cfg(feature = "faults")]
    pub(crate) fn location(&self) -> &str {
        &self.location
    }

    /// Whether the connection has ended. Finds out without a round trip.
    pub(crate) fn is_broken(&self) -> bool {
        self.runtime.block_on(async {
            // The runtime looks at its sockets.
            yield_now().await;
            poll_fn(|context| {
                self.poll_wire(context);
                Poll::Ready(())
            })
            .await;
        });
        self.broken.borrow().is_some()
    }

    /// Waits for each answer for at most this time from now on. A session that has none by then has ended.
    pub(crate) fn limit_answers(&self, limit: Duration) {
        self.answer_limit.set(limit);
    }

    /// Waits for each answer for as long as a statement needs that takes at most `limit`.
    pub(crate) fn expect_statements(&self, limit: Duration) {
        self.limit_answers(limit + GRACE);
    }

    /// How often this session has waited for answers.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.get()
    }

    /// Checks that a text prepares, with types of parameters that can be bound and of columns that can be read.
    #[cfg(test)]
    pub(crate) fn check_types(&self, text: &str) -> Result<(), StoreError> {
        let statement = self.prepare(text)?;
        let columns = statement
            .columns()
            .iter()
            .map(tokio_postgres::Column::type_);
        match statement
            .params()
            .iter()
            .chain(columns)
            .find(|of| !super::is_read(of))
        {
            Some(other) => Err(StoreError::Fault(format!("the type {other}"))),
            None => Ok(()),
        }
    }

    /// Reads the rows of a query, and waits for the errors of what was sent before.
    pub(crate) fn query(&self, text: &str, args: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let query = self.start_query(text, args)?;
        self.wait(query)
    }

    /// Runs a statement once for each row of arguments, and waits for all together. Returns the rows of each.
    pub(crate) fn each<'v>(
        &self,
        text: &str,
        rows: impl IntoIterator<Item = impl AsRef<[Value<'v>]>>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let queries = rows
            .into_iter()
            .map(|args| self.start_query(text, args.as_ref()));
        let queries = queries.collect::<Result<Vec<_>, _>>()?;
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        self.wait(async { join_all(queries).await.into_iter().collect() })
    }

    /// Writes, and waits for the number of rows.
    pub(crate) fn change(&self, text: &str, args: &[Value<'_>]) -> Result<usize, StoreError> {
        let change = self.start_change(text, args)?;
        self.wait(async {
            change
                .await
                .map(|rows| usize::try_from(rows).unwrap_or(usize::MAX))
        })
    }

    /// Writes, and does not wait: an error is one of the next wait, or of the commit.
    pub(crate) fn put(&self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        let change = self.start_change(text, args)?;
        self.send(async { change.await.map(drop) })
    }

    /// Sends a statement without parameters, such as `BEGIN`, together with the next one that is waited for.
    pub(crate) fn send_text(&self, text: impl Into<String>) -> Result<(), StoreError> {
        let (client, text) = (Arc::clone(&self.client), text.into());
        self.send(async move {
            client
                .batch_execute(&text)
                .await
                .map_err(|error| store_error(&error))
        })
    }

    /// Runs statements without parameters, and waits for them.
    pub(crate) fn batch(&self, text: &str) -> Result<(), StoreError> {
        self.wait(async {
            self.client
                .batch_execute(text)
                .await
                .map_err(|error| store_error(&error))
        })
    }

    /// Commits. PostgreSQL answers the `COMMIT` of a transaction in which a statement has failed without an error, though it rolls
    /// back. So the answers to all statements are looked at: they have no error exactly if there is something to commit.
    pub(crate) fn commit(&self) -> Result<(), CommitError> {
        let committed = self.batch("COMMIT");
        committed.map_err(|error| {
            let is_broken = self.broken.borrow().is_some();
            if is_broken {
                CommitError::InDoubt(error)
            } else {
                CommitError::RolledBack(error)
            }
        })
    }

    /// Rolls back, whatever the answers to what was sent are.
    pub(crate) fn roll_back(&self) -> Result<(), StoreError> {
        drop(self.sent.take());
        self.batch("ROLLBACK")
    }

    /// Ends a transaction that has only read, without waiting for it.
    pub(crate) fn end_reading(&self) {
        drop(self.sent.take());
        // An error ends the session, which its next user notices.
        let _ = self.send_text("COMMIT");
        let _ = self.is_broken();
    }

    /// Prepares statements, and waits for all together, where one after the other would each take a round trip.
    pub(crate) fn prepare_all(&self, texts: &[&str]) -> Result<(), StoreError> {
        let unknown: Vec<_> = texts
            .iter()
            .filter(|text| !self.statements.borrow().contains_key(**text))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let preparing = unknown.iter().map(|text| {
            let (client, query) = (Arc::clone(&self.client), text.replace('?', "$"));
            async move {
                client
                    .prepare(&query)
                    .await
                    .map_err(|error| store_error(&error))
            }
        });
        let prepared: Vec<Statement> =
            self.wait(async { join_all(preparing).await.into_iter().collect() })?;
        let texts = unknown.iter().map(|text| (**text).to_owned());
        self.statements.borrow_mut().extend(texts.zip(prepared));
        Ok(())
    }

    /// Reads the texts of one row by a query without parameters, which need not be prepared.
    pub(crate) fn texts(&self, query: &str) -> Result<Vec<String>, StoreError> {
        let messages = self.wait(async {
            self.client
                .simple_query(query)
                .await
                .map_err(|error| store_error(&error))
        })?;
        let row = messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.ok_or_else(|| StoreError::Fault("a query has no row".into()))?;
        Ok((0..row.len())
            .map(|column| row.get(column).unwrap_or_default().to_owned())
            .collect())
    }

    fn prepare(&self, text: &str) -> Result<Statement, StoreError> {
        log::trace!("{text}");
        if let Some(known) = self.statements.borrow().get(text) {
            return Ok(known.clone());
        }
        // Numbered parameters are `?1` in the texts, since those of SQLite cannot be `$1`.
        let query = text.replace('?', "$");
        let prepared = self.wait(async {
            self.client
                .prepare(&query)
                .await
                .map_err(|error| store_error(&error))
        })?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() == STATEMENTS {
            statements.clear();
        }
        statements.insert(text.to_owned(), prepared.clone());
        Ok(prepared)
    }

    fn bind(
        &self,
        text: &str,
        args: &[Value<'_>],
    ) -> Result<(Statement, Vec<Parameter>), StoreError> {
        let statement = self.prepare(text)?;
        let types = statement.params();
        if types.len() != args.len() {
            let counts = format!("{} parameters, {} arguments", types.len(), args.len());
            return Err(StoreError::Fault(format!("a statement has {counts}")));
        }
        let parameters = args
            .iter()
            .zip(types)
            .map(|(value, of)| Parameter::new(*value, of))
            .collect::<Result<_, _>>()?;
        Ok((statement, parameters))
    }

    fn start_query(
        &self,
        text: &str,
        args: &[Value<'_>],
    ) -> Result<impl Future<Output = Result<Vec<Row>, StoreError>> + Send + use<>, StoreError> {
        let (statement, parameters) = self.bind(text, args)?;
        let client = Arc::clone(&self.client);
        Ok(async move {
            let parameters: Vec<_> = parameters.iter().map(|parameter| parameter as _).collect();
            client
                .query(&statement, &parameters)
                .await
                .map_err(|error| store_error(&error))
        })
    }

    fn start_change(
        &self,
        text: &str,
        args: &[Value<'_>],
    ) -> Result<impl Future<Output = Result<u64, StoreError>> + Send + use<>, StoreError> {
        let (statement, parameters) = self.bind(text, args)?;
        let client = Arc::clone(&self.client);
        Ok(async move {
            let parameters: Vec<_> = parameters.iter().map(|parameter| parameter as _).collect();
            client
                .execute(&statement, &parameters)
                .await
                .map_err(|error| store_error(&error))
        })
    }

    /// Hands a statement to the connection, which sends it with the next wait.
    fn send(
        &self,
        statement: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) -> Result<(), StoreError> {
        let mut statement: Sent = Box::pin(statement);
        // The first poll queues it.
        match statement
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(result) => result,
            Poll::Pending => {
                self.sent.borrow_mut().push(statement);
                Ok(())
            }
        }
    }

    /// Waits for an answer, and for the answers to what was sent before, whose errors come first.
    fn wait<T>(&self, own: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let sent = self.sent.take();
        let earlier = async {
            for statement in sent {
                statement.await?;
            }
            Ok(())
        };
        let (own, earlier) = self.drive(join(own, earlier))?;
        earlier.and(own)
    }

    /// Runs a future together with the connection.
    fn drive<T>(&self, future: impl Future<Output = T>) -> Result<T, StoreError> {
        self.waits.set(self.waits.get() + 1);
        let mut future = pin!(future);
        let both = poll_fn(|context| {
            if let Poll::Ready(answer) = future.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            self.poll_wire(context);
            future.as_mut().poll(context)
        });
        let answer = self
            .runtime
            .block_on(async { timeout(self.answer_limit.get(), both).await });
        answer.map_err(|_| {
            let cause = format!(
                "PostgreSQL has not answered for {} s",
                self.answer_limit.get().as_secs()
            );
            drop(mem::take(&mut *self.wire.borrow_mut()));
            self.broken.borrow_mut().get_or_insert(cause.clone());
            StoreError::Unavailable(cause)
        })
    }

    fn poll_wire(&self, context: &mut Context<'_>) {
        let mut wire = self.wire.borrow_mut();
        let Some(Poll::Ready(end)) = wire.as_mut().map(|wire| wire.as_mut().poll(context)) else {
            return;
        };
        *wire = None;
        let cause = end
            .err()
            .map_or("the connection was closed".into(), |error| {
                store_error(&error).to_string()
            });
        *self.broken.borrow_mut() = Some(cause);
    }
}

impl Session {
    /// Writes, and does not wait, by a statement that divides by zero once another server has taken over ([`Self::was_fenced`]).
    pub(crate) fn put_fence(&self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        self.put_guard(text, args, &self.fenced, "another server has taken over")
    }

    /// The same, for a statement that divides by zero if the last commit of this lane is gone ([`Self::was_set_back`]).
    pub(crate) fn put_mark(&self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        self.put_guard(
            text,
            args,
            &self.set_back,
            "the last commit of this server is gone",
        )
    }

    /// Whether a statement of [`Self::put_fence`] has failed because another server has taken over.
    pub(crate) fn was_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    /// Forgets that a fence has failed, where the session goes on.
    pub(crate) fn forget_fence(&self) {
        self.fenced.store(false, Ordering::Relaxed);
    }

    /// Whether a statement of [`Self::put_mark`] has failed because an earlier commit is gone.
    pub(crate) fn was_set_back(&self) -> bool {
        self.set_back.load(Ordering::Relaxed)
    }

    /// Writes, and does not wait. A division by zero sets `broken`, and is this error.
    fn put_guard(
        &self,
        text: &str,
        args: &[Value<'_>],
        broken: &Arc<AtomicBool>,
        error: &'static str,
    ) -> Result<(), StoreError> {
        let (statement, parameters) = self.bind(text, args)?;
        let (client, broken) = (Arc::clone(&self.client), Arc::clone(broken));
        self.send(async move {
            let parameters: Vec<_> = parameters.iter().map(|parameter| parameter as _).collect();
            let held = client.execute(&statement, &parameters).await;
            let is_broken = held
                .as_ref()
                .is_err_and(|error| error.code() == Some(&SqlState::DIVISION_BY_ZERO));
            broken.fetch_or(is_broken, Ordering::Relaxed);
            let guarded = || StoreError::Unavailable(error.into());
            held.map(drop).map_err(|error| {
                if is_broken {
                    guarded()
                } else {
                    store_error(&error)
                }
            })
        })
    }
}
