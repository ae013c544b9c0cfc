//! Session with PostgreSQL, used by one thread, which blocks on replies.
//!
//! Statements whose result is not needed at once are sent without waiting ([`Session::put`]); their errors are returned by the next call
//! that waits. So a transaction takes as many round trips as it has queries, not statements. The session has its own runtime, so its thread
//! must not belong to another one.

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

/// Time beyond the server's statement limit after which the session gives up on a reply. A stopped server enforces no limits.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum cached prepared statements.
const STATEMENTS: usize = 512;

type Wire = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;
type Sent = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// Connection to PostgreSQL, its prepared statements and the statements sent ahead.
pub(crate) struct Session {
    client: Arc<Client>,
    /// Future that moves data; `None` once the connection is lost.
    wire: RefCell<Option<Wire>>,
    /// Statements that were sent without waiting, in order.
    sent: RefCell<Vec<Sent>>,
    statements: RefCell<HashMap<String, Statement>>,
    answer_limit: Cell<Duration>,
    #[cfg(feature = "faults")]
    location: String,
    /// Reason why the connection was lost.
    broken: RefCell<Option<String>>,
    waits: Cell<u64>,
    fenced: Arc<AtomicBool>,
    set_back: Arc<AtomicBool>,
    /// Dropped last: the sockets belong to it.
    runtime: Runtime,
}

/// Failed commit.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The transaction was rolled back.
    RolledBack(StoreError),
    /// The connection was lost before the reply, so the outcome is unknown.
    InDoubt(StoreError),
}

impl CommitError {
    /// Returns the error that prevented the commit, or its reply.
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
        // The library's own limit covers only the TCP connection, not the handshake.
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
        // The short timeouts make the server release a stopped process's locks before another server may take over. Not waited for: the
        // first statement returns an error.
        session.send_text(format!(
            "SET statement_timeout = {limit}; SET lock_timeout = 2000; SET idle_in_transaction_session_timeout = 2000;
             SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning'"
        ))?;
        Ok(session)
    }

    /// Returns the location of the database.
    #[cfg(feature = "faults")]
    pub(crate) fn location(&self) -> &str {
        &self.location
    }

    /// Returns whether the connection is lost. Needs no round trip.
    pub(crate) fn is_broken(&self) -> bool {
        self.runtime.block_on(async {
            // The runtime polls its sockets only when it yields.
            yield_now().await;
            poll_fn(|context| {
                self.poll_wire(context);
                Poll::Ready(())
            })
            .await;
        });
        self.broken.borrow().is_some()
    }

    /// Limits the wait for each later reply. After a timeout the session is lost.
    pub(crate) fn limit_answers(&self, limit: Duration) {
        self.answer_limit.set(limit);
    }

    /// Waits for each later reply as long as a statement limited to `limit` may need.
    pub(crate) fn expect_statements(&self, limit: Duration) {
        self.limit_answers(limit + GRACE);
    }

    /// Returns how often this session has waited for replies.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.get()
    }

    /// Checks that a text prepares, with parameter types that can be bound and column types that can be read.
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
            // Parameters and columns have the same few types.
            .find(|of| !super::is_read(of))
        {
            Some(other) => Err(StoreError::Fault(format!("the type {other}"))),
            None => Ok(()),
        }
    }

    /// Reads a query's rows, and waits for the errors of earlier statements.
    pub(crate) fn query(&self, text: &str, args: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let query = self.start_query(text, args)?;
        self.wait(query)
    }

    /// Runs a statement once per row of arguments, and waits for all together. Returns the rows of each.
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

    /// Reads a query's rows, runs another statement once per row of arguments, and waits for all together. Returns the rows of each.
    pub(crate) fn query_and_each<'v>(
        &self,
        (text, args): (&str, &[Value<'_>]),
        each: &str,
        rows: impl IntoIterator<Item = impl AsRef<[Value<'v>]>>,
    ) -> Result<(Vec<Row>, Vec<Vec<Row>>), StoreError> {
        let query = self.start_query(text, args)?;
        let queries = rows
            .into_iter()
            .map(|args| self.start_query(each, args.as_ref()));
        let queries = queries.collect::<Result<Vec<_>, _>>()?;
        self.wait(async {
            let (found, each) = join(query, join_all(queries)).await;
            let each: Result<Vec<Vec<Row>>, StoreError> = each.into_iter().collect();
            // In the order of the statements: an earlier error explains a later one.
            found.and_then(|found| each.map(|each| (found, each)))
        })
    }

    /// Writes, and waits for the row count.
    pub(crate) fn change(&self, text: &str, args: &[Value<'_>]) -> Result<usize, StoreError> {
        let change = self.start_change(text, args)?;
        self.wait(async {
            change
                .await
                .map(|rows| usize::try_from(rows).unwrap_or(usize::MAX))
        })
    }

    /// Writes without waiting: an error is returned by the next wait, or by the commit.
    pub(crate) fn put(&self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        let change = self.start_change(text, args)?;
        self.send(async { change.await.map(drop) })
    }

    /// Sends a statement without parameters, such as `BEGIN`, together with the next statement that is waited for.
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

    /// Commits. If a statement of the transaction has failed, PostgreSQL answers `COMMIT` with a rollback, but without an error. So the
    /// replies to all statements are checked: without an error among them, the transaction is committed.
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

    /// Rolls back, whatever the replies to earlier statements are.
    pub(crate) fn roll_back(&self) -> Result<(), StoreError> {
        // Dropped unread: their errors do not matter, and the library discards their replies.
        drop(self.sent.take());
        self.batch("ROLLBACK")
    }

    /// Ends a read-only transaction without waiting.
    pub(crate) fn end_reading(&self) {
        drop(self.sent.take());
        // An error breaks the session, which its next user notices.
        let _ = self.send_text("COMMIT");
        // Polls the connection, which sends the COMMIT now rather than with the next read: an open transaction would hold its snapshot.
        let _ = self.is_broken();
    }

    /// Prepares statements in one round trip, instead of one each.
    pub(crate) fn prepare_all(&self, texts: &[&str]) -> Result<(), StoreError> {
        let unknown: Vec<_> = texts
            .iter()
            .filter(|text| !self.statements.borrow().contains_key(**text))
            .collect();
        // No round trip if a job of the same kind has run before.
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

    /// Reads the texts of one row, by a query without parameters and without preparing it.
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
        // Texts number their parameters as `?1`, since `$1` is a named parameter in SQLite.
        let query = text.replace('?', "$");
        let prepared = self.wait(async {
            self.client
                .prepare(&query)
                .await
                .map_err(|error| store_error(&error))
        })?;
        // Lists have texts for each combination of filters, so their number is limited, but not small.
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
        // Checked first, so that the error has both counts.
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

    /// Queues a statement on the connection, which sends it with the next wait.
    fn send(
        &self,
        statement: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) -> Result<(), StoreError> {
        let mut statement: Sent = Box::pin(statement);
        // The library queues the statement at the first poll.
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

    /// Waits for a reply, and for the replies to earlier statements, whose errors take precedence.
    fn wait<T>(&self, own: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let sent = self.sent.take();
        let earlier = async {
            for statement in sent {
                statement.await?;
            }
            Ok(())
        };
        // Both are polled to the end: replies arrive in order, and an earlier error explains a later one.
        let (own, earlier) = self.drive(join(own, earlier))?;
        earlier.and(own)
    }

    /// Polls a future together with the connection.
    fn drive<T>(&self, future: impl Future<Output = T>) -> Result<T, StoreError> {
        self.waits.set(self.waits.get() + 1);
        let mut future = pin!(future);
        // The future again after the connection, which may have received its reply.
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
            // Given up: the server may be gone, or may still run the statement.
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
    /// Sends a statement that divides by zero once another server has taken over ([`Self::was_fenced`]), without waiting.
    pub(crate) fn put_fence(&self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        self.put_guard(text, args, &self.fenced, "another server has taken over")
    }

    /// Sends a statement that divides by zero if this session's last commit is gone ([`Self::was_set_back`]), without waiting.
    pub(crate) fn put_mark(&self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        self.put_guard(
            text,
            args,
            &self.set_back,
            "the last commit of this server is gone",
        )
    }

    /// Returns whether a statement of [`Self::put_fence`] has failed because another server has taken over.
    pub(crate) fn was_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    /// Clears a failed fence, for a session that continues.
    pub(crate) fn forget_fence(&self) {
        self.fenced.store(false, Ordering::Relaxed);
    }

    /// Returns whether a statement of [`Self::put_mark`] has failed because an earlier commit is gone.
    pub(crate) fn was_set_back(&self) -> bool {
        self.set_back.load(Ordering::Relaxed)
    }

    /// Sends a statement without waiting. A division by zero sets `broken`, and becomes `error`.
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
