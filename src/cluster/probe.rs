//! Probes the active node through the proxy's own path, for this node's readiness.

use std::sync::{Arc, Weak};
use std::time::Duration;

use actix_http::{Method, RequestHead};
use actix_web::http::Uri;
use conclave_db::lease::LeaseState;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::Proxy;
use super::body::AttemptBody;
use super::connection::Pool;
use super::headers;
use super::node::Node;
use super::reachability::{LeaseView, Reachability};

/// Pause between two probes.
const PAUSE: Duration = Duration::from_secs(1);
/// Time limit for a probe.
const LIMIT: Duration = Duration::from_secs(2);

/// Probe results: [`Reachability`] by the time since the start.
pub(super) struct Readiness {
    started: Instant,
    known: Mutex<Reachability>,
}

impl Readiness {
    /// Creates the state before the first probe.
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

impl Proxy {
    /// Probes the active node until this proxy is dropped. The probes' connections stay on this thread.
    pub fn watch_active_node(self: &Arc<Self>, states: watch::Receiver<LeaseState>) {
        actix_web::rt::spawn(watch_active_node(Arc::downgrade(self), states));
    }

    /// Returns whether forwarded requests get a response, or wait for a node that is about to become active.
    #[must_use]
    pub fn reaches_active_node(&self) -> bool {
        self.readiness.is_ready()
    }

    /// Sends a request for `/healthz`, and waits for any response: a refusal also shows that the node is reached.
    async fn probe(&self, node: &Node, pool: &Pool) -> std::io::Result<()> {
        let connection = match pool.take(node) {
            Some(connection) => connection,
            None => self.connector.connect(node).await?,
        };
        let mut head = RequestHead::default();
        (head.method, head.uri) = (Method::GET, Uri::from_static("/healthz"));
        headers::mark(&mut head.headers, node.epoch);
        let (_, mut incoming) = connection.send(head, AttemptBody::empty()).await?;
        // Read to the end, so that the connection can be used again.
        while incoming.chunk().await?.is_some() {}
        incoming
            .into_connection()
            .into_iter()
            .for_each(|connection| pool.put(connection));
        Ok(())
    }
}

async fn watch_active_node(proxy: Weak<Proxy>, states: watch::Receiver<LeaseState>) {
    // Longer than a probe's pause and limit, so that its connection is reused.
    let pool = Pool::new(LIMIT * 4);
    // A weak reference, so that the probes do not keep the proxy alive.
    while let Some(proxy) = proxy.upgrade() {
        let known = proxy.nodes.subscribe().borrow().clone();
        let lease = {
            let state = states.borrow();
            LeaseView {
                epoch: known.epoch(),
                is_database_answering: state.is_answered(),
                silence: state.renewal_age(),
            }
        };
        proxy.readiness.observe(lease);
        if let Some(node) = known.serving()
            && matches!(timeout(LIMIT, proxy.probe(node, &pool)).await, Ok(Ok(())))
        {
            proxy.readiness.answered();
        }
        drop(proxy);
        sleep(PAUSE).await;
    }
}
