//! The active node's API listener. While the node stops, requests wait: forwarded ones at the node that forwarded them, clients' own ones
//! here, until another node is active and this one forwards them to it.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, HttpResponse, web};
use conclave_db::lease::Lease;

use super::Proxy;
use super::forward::Forwarder;
use crate::http::api::error::DatabaseFailed;
use crate::http::listener::forwarded::{ForwardingGate, NotAccepted, NotActive, UNCONFIRMED};

/// An active node's API listener, with the handling of requests that it does not accept.
pub struct ActiveListener {
    /// Decides which requests are accepted.
    pub gate: Arc<ForwardingGate>,
    /// Forwards the others.
    pub proxy: Arc<Proxy>,
    /// Shows whether this node is the active one.
    pub lease: Lease,
}

impl ActiveListener {
    /// Routes an active node's API listener to `paths`. Called by each worker.
    pub fn configure(
        &self,
        config: &mut web::ServiceConfig,
        paths: impl FnOnce(&mut web::ServiceConfig),
    ) {
        let (gate, lease) = (Arc::clone(&self.gate), self.lease.clone());
        let forwarder = Rc::new(Forwarder::new(Arc::clone(&self.proxy)));
        let gated = from_fn(move |request, next| {
            let (gate, lease, forwarder) =
                (Arc::clone(&gate), lease.clone(), Rc::clone(&forwarder));
            async move { handle(&gate, &lease, &forwarder, request, next).await }
        });
        config.service(web::scope("").wrap(gated).configure(paths));
    }
}

async fn handle<B: MessageBody>(
    gate: &ForwardingGate,
    lease: &Lease,
    forwarder: &Forwarder,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let is_forwarded = gate.is_forwarded(request.request());
    let not_taken = match gate.admit(request.request()).await {
        // Checked before the operation starts: another node may be about to take over, and the request then succeeds there.
        Ok(_) if is_forwarded && !lease.check().is_valid() => {
            NotAccepted::Refused(NotActive::Unconfirmed)
        }
        // The permit lives until the response exists, since the stop waits for it.
        Ok(_running) => {
            let mut response = next.call(request).await?;
            if is_forwarded {
                mark_unconfirmed(lease, response.response_mut()).await;
            }
            return Ok(response.map_into_left_body());
        }
        Err(not_taken) => not_taken,
    };
    let (request, payload) = request.into_parts();
    let mut response = match not_taken {
        NotAccepted::Refused(not_active) => not_active.to_http(),
        NotAccepted::Forwarded => forwarder.respond(request.clone(), payload).await,
    };
    if response.head().connection_type() != ConnectionType::Upgrade {
        // A new connection lets the client's next request reach another node.
        response
            .head_mut()
            .set_connection_type(ConnectionType::Close);
    }
    Ok(ServiceResponse::new(request, response).map_into_right_body())
}

/// Marks a response whose operation failed because of the database, if this node cannot renew its lease either. The node that forwarded the
/// request then waits for a successor rather than return the 503.
async fn mark_unconfirmed<B>(lease: &Lease, response: &mut HttpResponse<B>) {
    let has_failed = response.extensions().get::<DatabaseFailed>().is_some();
    if has_failed && !lease.is_renewed().await {
        let name = HeaderName::from_static(UNCONFIRMED);
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static("1"));
    }
}
