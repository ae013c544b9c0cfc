//! The readers: a pool of threads, each borrowing a read connection for one job at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use actix::{Actor, Addr, Handler, Message, SyncArbiter, SyncContext};
use r2d2::Pool;
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::StoreError;

/// The way to the reader threads.
#[derive(Clone)]
pub(crate) struct Readers {
    threads: Addr<Reader>,
}

struct Reader {
    connections: Pool<SqliteConnectionManager>,
}

type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

/// A read, boxed for the queue. It answers through a channel of its own.
struct Read(Job);

impl Message for Read {
    type Result = ();
}

impl Actor for Reader {
    type Context = SyncContext<Self>;
}

impl Handler<Read> for Reader {
    type Result = ();

    fn handle(&mut self, Read(job): Read, _: &mut SyncContext<Self>) {
        let connection = self.connections.get();
        let connection = connection.as_deref().map_err(|error| StoreError::Unavailable(error.to_string()));
        // A panic would end this thread for good; the job's channel closes and its caller is told.
        if catch_unwind(AssertUnwindSafe(|| job(connection))).is_err() {
            log::error!("a read job panicked");
        }
    }
}

impl Readers {
    /// Starts `threads` threads over a pool of as many connections. Needs a running actix system.
    pub(crate) fn start(connections: Pool<SqliteConnectionManager>, threads: usize) -> Self {
        Self { threads: SyncArbiter::start(threads, move || Reader { connections: connections.clone() }) }
    }

    /// Runs a read on one of the threads.
    pub(crate) async fn read<T, F>(&self, run: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Read(Box::new(move |connection| {
            // Nobody may be waiting any more.
            let _ = reply.send(connection.and_then(run));
        }));
        self.threads.do_send(job);
        answer.await.map_err(|_| StoreError::Fault("a read did not finish".into()))?
    }
}
