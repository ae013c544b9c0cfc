//! Forwards one request: carries out the steps that [`Forwarding`] decides.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::ResponseHead;
use actix_web::dev::Payload;
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use conclave_model::{ErrorCode, Problem};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::body::RequestBody;
use super::buffer_slots::BufferSlot;
use super::connection::{Connection, Incoming, Pool};
use super::forwarding::{AttemptFailure, ForwardFailure, ForwardStep, Forwarding, Repeat};
use super::metrics::ForwardResult;
use super::node::{ActiveNode, Node};
use super::request::Head;
use super::{Proxy, response, websocket};
use crate::http::api::error::ApiError;
use crate::http::listener::forwarded::{NOT_ACTIVE, NotActive, UNCONFIRMED, forwarded_to};
use crate::http::listener::trace::ForwardedResponse;

/// `Retry-After` of a request that no node has accepted.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Forwards one worker's requests.
pub(super) struct Forwarder {
    shared: Arc<Proxy>,
    pool: Rc<Pool>,
}

/// Request that is being forwarded.
struct ForwardedRequest {
    request: HttpRequest,
    head: Head,
    body: RequestBody,
    /// Payload after a request that opens a WebSocket.
    websocket: Cell<Option<Payload>>,
}

impl Forwarder {
    pub(super) fn new(shared: Arc<Proxy>) -> Self {
        let pool = Rc::new(Pool::new(shared.longest_idle));
        Self { shared, pool }
    }

    /// Responds to a request from a client or from another node.
    pub(super) async fn respond(&self, request: HttpRequest, payload: Payload) -> HttpResponse {
        let known = self.shared.nodes.subscribe();
        let is_misdirected =
            forwarded_to(&request, &self.shared.proxies).is_some() && !known.borrow().is_this();
        let result = if is_misdirected {
            // Another node takes this one for the active one. Forwarding the request could send it in a circle.
            Ok(NotActive::Standby.to_http())
        } else {
            self.pass(request.clone(), payload, known.clone()).await
        };
        let mut response = match result {
            Ok(mut response) => {
                response.extensions_mut().insert(ForwardedResponse);
                response
            }
            // Only the active node applies rate limits, and it has not seen this request.
            Err(problem) => self
                .shared
                .fixed
                .respond(&request, || ApiError::from(problem).to_http()),
        };
        if known.borrow().is_this() && response.head().connection_type() != ConnectionType::Upgrade
        {
            // The client's next request then reaches the active node's own listener.
            response
                .head_mut()
                .set_connection_type(ConnectionType::Close);
        }
        response
    }

    async fn pass(
        &self,
        request: HttpRequest,
        payload: Payload,
        mut known: watch::Receiver<ActiveNode>,
    ) -> Result<HttpResponse, Problem> {
        // Once: all attempts send the same head.
        let head = Head::new(&request, &self.shared.proxies)?;
        // A WebSocket has no body to repeat: its payload is taken by the attempt that opens it.
        let (payload, websocket) = if head.opens_websocket {
            (Payload::None, Some(payload))
        } else {
            (payload, None)
        };
        let body = RequestBody::new(&request, payload, &self.shared.memory);
        let mut forwarding = Forwarding::new(head.repeat, self.shared.max_buffer_time);
        let forwarded = ForwardedRequest {
            request,
            head,
            body,
            websocket: Cell::new(websocket),
        };
        let (started, mut buffer_slot) = (Instant::now(), None);
        loop {
            let node = known.borrow_and_update().serving().cloned();
            match forwarding.step(started.elapsed(), node.as_ref().map(|node| node.epoch)) {
                ForwardStep::GiveUp(failure) => return Ok(self.given_up(failure)),
                ForwardStep::WaitUntil(until) => {
                    // The slot is kept over all attempts, so a request that waits again does not lose it.
                    if buffer_slot.is_none() {
                        buffer_slot = Some(self.buffer_slot(&forwarded.request)?);
                    }
                    wait(&mut known, started + until).await;
                }
                ForwardStep::Send => {
                    // Unreachable: without an active node, the step is to wait.
                    let Some(node) = node else { continue };
                    let sent = self.attempt(&node, &forwarded, known.clone()).await;
                    match sent {
                        // A response from a node that was replaced meanwhile may confirm a change that its successor does not have.
                        Ok(response) if forwarding.counts(known.borrow().epoch()) => {
                            self.shared.metrics.count(ForwardResult::Answered);
                            return Ok(response);
                        }
                        // Neither the attempt nor the node failed: the client disconnected before the end of its body.
                        _ if forwarded.body.is_incomplete() => return Err(incomplete()),
                        Ok(_) => forwarding.failed(
                            started.elapsed(),
                            AttemptFailure::Broken,
                            forwarded.body.is_buffered(),
                        ),
                        Err(outcome) => {
                            forwarding.failed(
                                started.elapsed(),
                                outcome,
                                forwarded.body.is_buffered(),
                            );
                        }
                    }
                    // Counted even if the next step gives the request up.
                    self.shared.metrics.count(ForwardResult::Repeated);
                }
            }
        }
    }

    /// Sends a request once, and receives the response.
    async fn attempt(
        &self,
        node: &Node,
        forwarded: &ForwardedRequest,
        mut known: watch::Receiver<ActiveNode>,
    ) -> Result<HttpResponse, AttemptFailure> {
        let connection = tokio::select! {
            connection = self.connection(node) => connection?,
            () = superseded(&mut known, node.epoch) => return Err(AttemptFailure::NotReached),
        };
        // From here on, the node may have read a part of the request.
        tokio::select! {
            response = async {
                let sent = connection.send(forwarded.head.to_node(node.epoch), forwarded.body.attempt()).await;
                let (head, incoming) = sent.map_err(|_| AttemptFailure::Broken)?;
                self.receive(node, forwarded, head, incoming).await
            } => response,
            () = superseded(&mut known, node.epoch) => Err(AttemptFailure::Broken),
        }
    }

    /// Returns an idle connection, or a new one.
    async fn connection(&self, node: &Node) -> Result<Connection, AttemptFailure> {
        if let Some(connection) = self.pool.take(node) {
            return Ok(connection);
        }
        self.shared.connector.connect(node).await.map_err(|error| {
            log::debug!(epoch = node.epoch; "the active node cannot be reached: {error}");
            AttemptFailure::NotReached
        })
    }

    async fn receive(
        &self,
        node: &Node,
        forwarded: &ForwardedRequest,
        head: ResponseHead,
        mut incoming: Incoming,
    ) -> Result<HttpResponse, AttemptFailure> {
        let refused = head
            .headers
            .get(NOT_ACTIVE)
            .map(|refused| NotActive::parse(refused.as_bytes()));
        // If this node cannot reach the database either, no successor would be seen, so the 503 goes to the client at once.
        let may_be_replaced = !self.shared.nodes.is_cut_off();
        match refused {
            Some(NotActive::Standby) => return Err(AttemptFailure::Refused),
            Some(NotActive::Stopping) => return Err(AttemptFailure::Stopping),
            Some(NotActive::Unconfirmed) if may_be_replaced => return Err(AttemptFailure::Refused),
            _ => {}
        }
        let is_unconfirmed = head.headers.contains_key(UNCONFIRMED);
        // The node cannot confirm its lease, so its 503 may be another node's success. Only repeatable requests may be sent
        // again.
        if is_unconfirmed && may_be_replaced && forwarded.head.repeat == Repeat::Always {
            return Err(AttemptFailure::Broken);
        }
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return self.open_websocket(node, forwarded, &head, incoming);
        }
        let received = response::receive(&head, &mut incoming).await?;
        // The node still reads the rest of an unfinished request, so its connection cannot serve another one.
        let keeper = forwarded.body.is_sent().then(|| Rc::clone(&self.pool));
        if !received.is_whole {
            return Ok(response::streamed(
                &head,
                received.begun,
                incoming,
                &forwarded.request,
                keeper,
            ));
        }
        keeper
            .into_iter()
            .zip(incoming.into_connection())
            .for_each(|(keeper, connection)| keeper.put(connection));
        Ok(response::whole(
            &head,
            received.begun,
            forwarded.head.asks_for_head(),
        ))
    }

    fn open_websocket(
        &self,
        node: &Node,
        forwarded: &ForwardedRequest,
        head: &ResponseHead,
        incoming: Incoming,
    ) -> Result<HttpResponse, AttemptFailure> {
        // Only a request that opens a WebSocket is sent with `Upgrade`.
        let payload = forwarded.websocket.take().ok_or(AttemptFailure::Broken)?;
        let upgraded = incoming.into_upgraded().ok_or(AttemptFailure::Broken)?;
        // One for each direction.
        let ends = [self.close_signal(node), self.close_signal(node)];
        Ok(websocket::open(
            head,
            upgraded,
            &forwarded.request,
            payload,
            ends,
        ))
    }

    /// Resolves when a node's WebSocket has to close: at a takeover or at this node's stop.
    fn close_signal(&self, node: &Node) -> websocket::CloseSignal {
        let (mut known, mut stopping) = (
            self.shared.nodes.subscribe(),
            self.shared.is_stopping.subscribe(),
        );
        let epoch = node.epoch;
        Box::pin(async move {
            tokio::select! {
                () = superseded(&mut known, epoch) => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        })
    }

    fn buffer_slot(&self, request: &HttpRequest) -> Result<BufferSlot, Problem> {
        self.shared.buffer_slots.take(request, &self.shared.proxies).ok_or_else(|| {
            self.shared.metrics.count(ForwardResult::NotBuffered);
            let message = "no server is active now, and too many requests wait for one; retry with backoff";
            Problem::new(ErrorCode::DatabaseUnavailable, message).after(RETRY_AFTER)
        })
    }

    fn given_up(&self, failure: ForwardFailure) -> HttpResponse {
        let unavailable = |message: &'static str| {
            ApiError::from(Problem::new(ErrorCode::DatabaseUnavailable, message).after(RETRY_AFTER))
                .to_http()
        };
        let (result, response) = match failure {
            ForwardFailure::NotTaken => (
                ForwardResult::NotTaken,
                unavailable("no server is active now; retry with backoff"),
            ),
            ForwardFailure::BrokeOff => (
                ForwardResult::BrokeOff,
                unavailable("the active server did not answer; it is safe to retry"),
            ),
            ForwardFailure::NodeLost => (ForwardResult::NodeLost, node_lost()),
        };
        self.shared.metrics.count(result);
        response
    }
}

/// Returns 503 `node_lost`, which is no operation's error code, since only the proxy sends it. The response has no `Retry-After`, since
/// waiting does not show whether the change was made.
fn node_lost() -> HttpResponse {
    let message = "the active server was lost before it answered: the change may have happened; look before you repeat it, or \
                   send changes with an Idempotency-Key";
    HttpResponse::ServiceUnavailable()
        .json(json!({"error": {"code": "node_lost", "message": message}}))
}

fn incomplete() -> Problem {
    Problem::new(
        ErrorCode::InvalidRequest,
        "the body could not be read to its end",
    )
}

/// Resolves when another node is active.
async fn superseded(known: &mut watch::Receiver<ActiveNode>, epoch: i64) {
    let another = known.wait_for(|known| known.epoch().is_some_and(|active| active != epoch));
    if another.await.is_err() {
        // The lease is no longer followed: the process stops.
        std::future::pending::<()>().await;
    }
}

/// Waits until `until`, or until another node may be active.
async fn wait(known: &mut watch::Receiver<ActiveNode>, until: Instant) {
    let changed = async {
        if known.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = changed => {}
        () = sleep_until(until) => {}
    }
}
