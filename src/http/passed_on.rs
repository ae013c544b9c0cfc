//! What the nodes of a cluster say to each other in headers: that a request was passed on, and that its receiver is not active.
//!
//! Both are believed of nodes only, which are trusted proxies. A client that forges the first through another trusted proxy is
//! refused, and nothing else.

use std::time::Duration;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::http::header::HeaderValue;
use actix_web::middleware::Next;
use actix_web::{Error, HttpRequest, HttpResponse};
use conclave_model::{ErrorCode, Problem};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::client_address::TrustedProxies;
use super::error::ApiError;

/// The request header with the epoch of the node that a request was sent to.
pub const PASSED_ON: &str = "conclave-passed-on";
/// The response header of a node that is not active, and has done nothing with the request.
pub const NOT_ACTIVE: &str = "conclave-not-active";

/// More than are ever handled at once.
const MOST_RUNNING: u32 = 1 << 30;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a node does not take a request that was passed on to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotActive {
    /// It is a standby, and may become active.
    Standby,
    /// It has lost the lease, or is about to release it.
    Stopping,
}

impl NotActive {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::Stopping => "stopping",
        }
    }

    /// Parses the value of [`NOT_ACTIVE`].
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        if value == Self::Stopping.as_str().as_bytes() { Self::Stopping } else { Self::Standby }
    }

    /// Returns the response to the node that has passed a request on.
    #[must_use]
    pub fn to_http(self) -> HttpResponse {
        let message = "this server is not the active one; retry with backoff";
        let problem = Problem::new(ErrorCode::DatabaseUnavailable, message).after(RETRY_AFTER);
        let mut response = ApiError::from(problem).to_http();
        let name = actix_web::http::header::HeaderName::from_static(NOT_ACTIVE);
        response.headers_mut().insert(name, HeaderValue::from_static(self.as_str()));
        // The rest of a body is not read, and what comes next finds out where the active node is.
        response.head_mut().set_connection_type(ConnectionType::Close);
        response
    }
}

/// Returns the epoch of the node that a request was sent to, if another node has passed it on.
#[must_use]
pub fn sent_to(request: &HttpRequest, nodes: &TrustedProxies) -> Option<i64> {
    let epoch = request.headers().get(PASSED_ON)?;
    let peer = request.peer_addr()?.ip().to_canonical();
    if nodes.contains(peer) { epoch.to_str().ok()?.parse().ok() } else { None }
}

/// What the active node of a cluster takes: nothing that was sent to a node which it is not any more, and nothing while it stops.
#[derive(Debug)]
pub struct PassedOnGate {
    nodes: TrustedProxies,
    epoch: i64,
    /// A permit for each request that is being handled. The stop takes all of them.
    running: Semaphore,
}

impl PassedOnGate {
    /// The gate of the node of an epoch. The nodes are trusted proxies.
    #[must_use]
    pub fn new(nodes: TrustedProxies, epoch: i64) -> Self {
        Self { nodes, epoch, running: Semaphore::new(MOST_RUNNING as usize) }
    }

    /// Refuses requests from now on, so that they wait at the other nodes, and returns once those that are being handled have ended, or
    /// after the limit.
    pub async fn close(&self, limit: Duration) {
        if let Ok(Ok(all)) = timeout(limit, self.running.acquire_many(MOST_RUNNING)).await {
            all.forget();
        }
        self.running.close();
    }

    /// Admits a request, until the result is dropped.
    fn admit(&self, request: &HttpRequest) -> Result<SemaphorePermit<'_>, NotActive> {
        if sent_to(request, &self.nodes).is_some_and(|epoch| epoch > self.epoch) {
            return Err(NotActive::Stopping);
        }
        self.running.try_acquire().map_err(|_| NotActive::Stopping)
    }

    /// Wraps the requests of the API listener.
    ///
    /// # Errors
    /// Those of what is wrapped.
    pub async fn wrap<B: MessageBody>(
        &self,
        request: ServiceRequest,
        next: Next<B>,
    ) -> Result<ServiceResponse<EitherBody<B>>, Error> {
        match self.admit(request.request()) {
            Ok(_running) => next.call(request).await.map(ServiceResponse::map_into_left_body),
            Err(refused) => Ok(request.into_response(refused.to_http()).map_into_right_body()),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use futures_util::FutureExt;

    use super::*;

    fn request(peer: &str, epoch: &str) -> HttpRequest {
        TestRequest::default().peer_addr(peer.parse().unwrap()).insert_header((PASSED_ON, epoch)).to_http_request()
    }

    #[tokio::test]
    async fn the_active_node_takes_what_was_sent_to_it_until_it_stops() {
        let nodes = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
        let gate = PassedOnGate::new(nodes, 4);
        let refused = |peer: &str, epoch: &str| gate.admit(&request(peer, epoch)).err();
        assert_eq!(refused("10.0.0.2:1", "4"), None);
        assert_eq!(refused("10.0.0.2:1", "3"), None, "it has taken over from itself");
        assert_eq!(refused("10.0.0.2:1", "5"), Some(NotActive::Stopping), "another has taken over");
        assert_eq!(refused("203.0.113.1:1", "5"), None, "a client is not believed");
        let of_client = TestRequest::default().to_http_request();
        let running = gate.admit(&of_client).unwrap();
        let mut closing = Box::pin(gate.close(Duration::from_secs(3_600)));
        assert!((&mut closing).now_or_never().is_none(), "a request is being handled");
        assert_eq!(refused("10.0.0.2:1", "4"), Some(NotActive::Stopping));
        drop(running);
        closing.await;
        assert!(gate.admit(&of_client).is_err());
    }

    #[tokio::test]
    async fn a_stop_waits_no_longer_than_its_limit() {
        let gate = PassedOnGate::new(TrustedProxies::default(), 1);
        let of_client = TestRequest::default().to_http_request();
        let _running = gate.admit(&of_client).unwrap();
        gate.close(Duration::from_millis(1)).await;
        assert!(gate.admit(&of_client).is_err());
    }

    #[test]
    fn a_refusal_is_read_as_it_is_written() {
        for refused in [NotActive::Standby, NotActive::Stopping] {
            let response = refused.to_http();
            assert_eq!(NotActive::parse(response.headers().get(NOT_ACTIVE).unwrap().as_bytes()), refused);
        }
    }
}
