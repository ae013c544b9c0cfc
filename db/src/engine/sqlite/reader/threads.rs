//! Threads that read, each over a connection of its own.

use actix::{Actor, Addr, Handler, Message, SyncArbiter, SyncContext};
use prometheus::IntGauge;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::connection::{Connections, Pooled};
use crate::error::{StoreError, catch_panic};

/// A handle to threads that share a queue.
#[derive(Clone)]
pub(super) struct Threads {
    queue: Addr<Thread>,
    waiting: IntGauge,
}

/// A read, boxed for the queue. It sends its result through its own channel.
struct Job(Box<dyn Run>);

trait Run: FnOnce(Result<&Connection, StoreError>) + Send {}

impl<F: FnOnce(Result<&Connection, StoreError>) + Send> Run for F {}

impl Message for Job {
    type Result = ();
}

struct Thread {
    connections: Connections,
    /// Kept from the first job on.
    connection: Option<Pooled>,
    waiting: IntGauge,
}

impl Actor for Thread {
    type Context = SyncContext<Self>;
}

impl Handler<Job> for Thread {
    type Result = ();

    fn handle(&mut self, Job(run): Job, _: &mut SyncContext<Self>) {
        self.waiting.dec();
        // A panic would end the thread, and the lane with its last one.
        let _ = catch_panic("a read", || {
            run(self.connection());
            Ok(())
        });
    }
}

impl Thread {
    fn connection(&mut self) -> Result<&Connection, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self
                .connections
                .get()
                .map_err(|error| StoreError::Unavailable(error.to_string()))?,
        };
        Ok(self.connection.insert(connection))
    }
}

impl Threads {
    /// Starts threads over a pool that has a connection for each.
    pub(super) fn start(connections: &Connections, count: usize, waiting: IntGauge) -> Self {
        let (connections, gauge) = (connections.clone(), waiting.clone());
        let queue = SyncArbiter::start(count, move || Thread {
            connections: connections.clone(),
            connection: None,
            waiting: gauge.clone(),
        });
        Self { queue, waiting }
    }

    /// Runs a read on one of the threads.
    pub(super) async fn run<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.waiting.inc();
        log::trace!("a read is handed to a thread");
        self.queue.do_send(Job(Box::new(move |connection| {
            // The caller may have stopped waiting.
            let _ = reply.send(connection.and_then(run));
        })));
        answer
            .await
            .map_err(|_| StoreError::Fault("a read did not finish".into()))?
    }
}
