//! Asks the active node from time to time whether it answers through this one, for this one's readiness.

use std::sync::{Arc, Weak};
use std::time::Duration;

use actix_http::{Method, RequestHead};
use actix_web::http::Uri;
use conclave_db::lease::LeaseState;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::PassThrough;
use super::body::AttemptBody;
use super::connection::Pool;
use super::headers;
use super::node::Node;
use super::reachability::{LeaseView, Reachability};

/// Pause between two probes.
const PAUSE: Duration = Duration::from_secs(1);
/// Time that the active node has to answer one.
const LIMIT: Duration = Duration::from_secs(2);

/// What the probes have found: [`Reachability`] by the time since the start.
pub(super) struct Readiness {
    started: Instant,
    known: Mutex<Reachability>,
}

impl Readiness {
    /// Nothing is known yet.
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            known: Mutex::default(),
        }
    }

    fn observe(&self, lease: LeaseView) {
        self.known.lock().observe(self.started.elapsed(), lease);
    }

    fn answered(&self) {
        self.known.lock().answered(self.started.elapsed());
    }

    fn is_ready(&self) -> bool {
        self.known.lock().is_ready(self.started.elapsed())
    }
}

impl PassThrough {
    /// Probes the active node for as long as this is used. Its connections stay on this thread.
    pub fn watch_active_node(self: &Arc<Self>, states: watch::Receiver<LeaseState>) {
        actix_web::rt::spawn(watch_active_node(Arc::downgrade(self), states));
    }

    /// Whether what is passed on gets an answer, or waits for a node that is about to become active.
    #[must_use]
    pub fn reaches_active_node(&self) -> bool {
        self.readiness.is_ready()
    }

    /// Sends a request for `/healthz`, and waits for any response: one that refuses it is one, too.
    async fn probe(&self, node: &Node, pool: &Pool) -> std::io::Result<()> {
        let connection = match pool.take(node) {
            Some(connection) => connection,
            None => self.connector.connect(node).await?,
        };
        let mut head = RequestHead::default();
        (head.method, head.uri) = (Method::GET, Uri::from_static("/healthz"));
        headers::mark(&mut head.headers, node.epoch);
        let (_, mut incoming) = connection.send(head, AttemptBody::empty()).await?;
        while incoming.chunk().await?.is_some() {}
        incoming
            .into_connection()
            .into_iter()
            .for_each(|connection| pool.put(connection));
        Ok(())
    }
}

async fn watch_active_node(through: Weak<PassThrough>, states: watch::Receiver<LeaseState>) {
    let pool = Pool::new(LIMIT * 4);
    while let Some(through) = through.upgrade() {
        let known = through.nodes.subscribe().borrow().clone();
        let lease = {
            let state = states.borrow();
            let is_database_answering = state.failure.is_none() && state.renewal_age().is_some();
            LeaseView {
                epoch: known.epoch(),
                is_database_answering,
                silence: state.renewal_age(),
            }
        };
        through.readiness.observe(lease);
        if let Some(node) = known.serving()
            && matches!(timeout(LIMIT, through.probe(node, &pool)).await, Ok(Ok(())))
        {
            through.readiness.answered();
        }
        drop(through);
        sleep(PAUSE).await;
    }
}
