//! Headers between a cluster's nodes, which mark a forwarded request and the response of a node that is not active.
//!
//! Both are trusted only from nodes, which are trusted proxies. If a client forges the request header through another trusted proxy,
//! only its own request is refused.

use std::time::Duration;

use actix_web::http::ConnectionType;
use actix_web::http::header::HeaderValue;
use actix_web::{HttpRequest, HttpResponse};
use conclave_model::{ErrorCode, Problem};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

use super::client_address::TrustedProxies;
use crate::http::api::error::ApiError;

/// Request header with the epoch of the node that the request was forwarded to.
// Named after an earlier term. It stays, because nodes of two versions forward to each other during an upgrade.
pub const FORWARDED_TO: &str = "conclave-passed-on";
/// Response header of a node that is not active and did nothing with the request.
pub const NOT_ACTIVE: &str = "conclave-not-active";

/// Response header of an active node that cannot confirm its lease, since the database is unreachable. If its response is 503,
/// another node may succeed.
pub const UNCONFIRMED: &str = "conclave-unconfirmed";

/// Number of permits: more than the requests ever handled at once.
const MAX_RUNNING: u32 = 1 << 30;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a node does not accept a forwarded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotActive {
    /// Standby, which may become active.
    Standby,
    /// Lost the lease, or is about to release it.
    Stopping,
    /// Has a lease that it could not renew: the node is active again after a renewal, unless another node has taken over.
    Unconfirmed,
}

impl NotActive {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::Stopping => "stopping",
            Self::Unconfirmed => "unconfirmed",
        }
    }

    /// Parses the value of [`NOT_ACTIVE`].
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        let known = [Self::Stopping, Self::Unconfirmed];
        known
            .into_iter()
            .find(|known| known.as_str().as_bytes() == value)
            .unwrap_or(Self::Standby)
    }

    /// Returns the response to the forwarding node.
    #[must_use]
    pub fn to_http(self) -> HttpResponse {
        let message = "this server is not the active one; retry with backoff";
        let problem = Problem::new(ErrorCode::DatabaseUnavailable, message).after(RETRY_AFTER);
        let mut response = ApiError::from(problem).to_http();
        let name = actix_web::http::header::HeaderName::from_static(NOT_ACTIVE);
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(self.as_str()));
        // The rest of the body is not read, so the connection cannot be reused. The sender looks up the active node for its next
        // request.
        response
            .head_mut()
            .set_connection_type(ConnectionType::Close);
        response
    }
}

/// Returns the epoch that a request was forwarded to, if the sender is a node.
#[must_use]
pub fn forwarded_to(request: &HttpRequest, nodes: &TrustedProxies) -> Option<i64> {
    // The peer counts, not `X-Forwarded-For`: a client could write that header.
    let epoch = request.headers().get(FORWARDED_TO)?;
    let peer = request.peer_addr()?.ip().to_canonical();
    if nodes.contains(peer) {
        epoch.to_str().ok()?.parse().ok()
    } else {
        None
    }
}

/// Outcome for a request that the active node does not accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAccepted {
    /// The sender, a node or a client, gets this response.
    Refused(NotActive),
    /// The request waits at this node, and is forwarded to the node that becomes active.
    Forwarded,
}

/// Progress of a node's stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateState {
    // A closed gate never opens again.
    Open,
    /// Nothing is accepted. Clients' requests wait until it is known whether there is another node.
    Closing,
    /// Nothing is accepted; clients' requests get this outcome.
    Closed(NotAccepted),
}

/// Admission at a cluster's active node. A request that was forwarded to a later epoch is not accepted, and no request while the node
/// stops.
#[derive(Debug)]
pub struct ForwardingGate {
    nodes: TrustedProxies,
    epoch: i64,
    /// One permit per request in progress. The stop acquires all of them.
    running: Semaphore,
    state: watch::Sender<GateState>,
}

impl ForwardingGate {
    /// Creates the gate for a node's epoch. `nodes` are the trusted proxies.
    #[must_use]
    pub fn new(nodes: TrustedProxies, epoch: i64) -> Self {
        Self {
            nodes,
            epoch,
            running: Semaphore::new(MAX_RUNNING as usize),
            state: watch::Sender::new(GateState::Open),
        }
    }

    /// Stops accepting requests. Forwarded ones are refused and wait at their sender; clients' requests wait for [`Self::close`].
    pub fn start_closing(&self) {
        self.state.send_if_modified(|state| {
            let was_open = *state == GateState::Open;
            if was_open {
                *state = GateState::Closing;
            }
            was_open
        });
    }

    /// Stops accepting requests. Forwarded ones are refused and wait at their sender; clients' requests get `client_outcome`. Returns
    /// when the requests in progress have ended, or after `limit`.
    pub async fn close(&self, client_outcome: NotAccepted, limit: Duration) {
        self.state.send_replace(GateState::Closed(client_outcome));
        // The permits are forgotten, so that none is available again.
        if let Ok(Ok(all)) = timeout(limit, self.running.acquire_many(MAX_RUNNING)).await {
            all.forget();
        }
        // After the limit, too: a request that passed the check in `admit` must not start after the stop.
        self.running.close();
    }

    /// Returns whether the gate has stopped accepting requests.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.state.borrow() != GateState::Open
    }

    /// Returns whether another node forwarded a request.
    #[must_use]
    pub fn is_forwarded(&self, request: &HttpRequest) -> bool {
        forwarded_to(request, &self.nodes).is_some()
    }

    /// Admits a request until the permit is dropped.
    ///
    /// # Errors
    /// The outcome for a request that is not accepted.
    pub async fn admit(&self, request: &HttpRequest) -> Result<SemaphorePermit<'_>, NotAccepted> {
        let stopping = NotAccepted::Refused(NotActive::Stopping);
        let forwarded_to = forwarded_to(request, &self.nodes);
        // The sender knows a newer lease than this node does, so another node is active.
        if forwarded_to.is_some_and(|epoch| epoch > self.epoch) {
            return Err(stopping);
        }
        // If the gate closes between the check and the permit, closing waits for this request.
        if !self.is_closed()
            && let Ok(permit) = self.running.try_acquire()
        {
            return Ok(permit);
        }
        if forwarded_to.is_some() {
            return Err(stopping);
        }
        let mut state = self.state.subscribe();
        match state
            .wait_for(|state| matches!(state, GateState::Closed(_)))
            .await
            .as_deref()
        {
            Ok(GateState::Closed(client_outcome)) => Err(*client_outcome),
            // Unreachable, since `self` owns the sender.
            _ => Err(stopping),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use futures_util::FutureExt;

    use super::*;

    fn request(peer: &str, epoch: &str) -> HttpRequest {
        TestRequest::default()
            .peer_addr(peer.parse().unwrap())
            .insert_header((FORWARDED_TO, epoch))
            .to_http_request()
    }

    const STOPPING: NotAccepted = NotAccepted::Refused(NotActive::Stopping);

    #[tokio::test]
    async fn the_active_node_takes_what_was_sent_to_it_until_it_stops() {
        let nodes = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
        let gate = ForwardingGate::new(nodes, 4);
        let refused = |peer: &str, epoch: &str| {
            let request = request(peer, epoch);
            gate.admit(&request)
                .now_or_never()
                .expect("it is decided")
                .err()
        };
        assert_eq!(refused("10.0.0.2:1", "4"), None);
        assert_eq!(
            refused("10.0.0.2:1", "3"),
            None,
            "it has taken over from itself"
        );
        assert_eq!(
            refused("10.0.0.2:1", "5"),
            Some(STOPPING),
            "another has taken over"
        );
        assert_eq!(
            refused("203.0.113.1:1", "5"),
            None,
            "a client is not believed"
        );
        let of_client = TestRequest::default().to_http_request();
        let running = gate.admit(&of_client).await.unwrap();
        assert!(!gate.is_closed());
        gate.start_closing();
        assert!(gate.is_closed());
        assert_eq!(
            refused("10.0.0.2:1", "4"),
            Some(STOPPING),
            "it waits at the node that has passed it on"
        );
        let waiting = TestRequest::default().to_http_request();
        let mut undecided = Box::pin(gate.admit(&waiting));
        assert!(
            (&mut undecided).now_or_never().is_none(),
            "it is not known yet where it can go"
        );
        let mut closing = Box::pin(gate.close(NotAccepted::Forwarded, Duration::from_secs(3_600)));
        assert!(
            (&mut closing).now_or_never().is_none(),
            "a request is being handled"
        );
        assert!(gate.is_closed());
        assert_eq!(
            refused("10.0.0.2:1", "4"),
            Some(STOPPING),
            "it waits at the node that has passed it on"
        );
        assert_eq!(
            refused("203.0.113.1:1", "4"),
            Some(NotAccepted::Forwarded),
            "it waits here"
        );
        assert_eq!(undecided.await.err(), Some(NotAccepted::Forwarded));
        drop(running);
        closing.await;
        assert_eq!(
            gate.admit(&of_client).await.err(),
            Some(NotAccepted::Forwarded)
        );
        assert_eq!(refused("10.0.0.2:1", "4"), Some(STOPPING));
    }

    #[tokio::test]
    async fn a_stop_waits_no_longer_than_its_limit() {
        let gate = ForwardingGate::new(TrustedProxies::default(), 1);
        let of_client = TestRequest::default().to_http_request();
        let _running = gate.admit(&of_client).await.unwrap();
        gate.close(STOPPING, Duration::from_millis(1)).await;
        assert_eq!(gate.admit(&of_client).await.err(), Some(STOPPING));
    }

    #[test]
    fn a_refusal_is_read_as_it_is_written() {
        for refused in [
            NotActive::Standby,
            NotActive::Stopping,
            NotActive::Unconfirmed,
        ] {
            let response = refused.to_http();
            assert_eq!(
                NotActive::parse(response.headers().get(NOT_ACTIVE).unwrap().as_bytes()),
                refused
            );
        }
    }
}
