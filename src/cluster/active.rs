//! The API listener of the active node. While it stops, requests wait: those that other nodes have passed on wait there, those of clients
//! here, until another node is active, which they are passed on to.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, HttpResponse, web};
use conclave_db::lease::Lease;

use super::PassThrough;
use super::forward::Forwarder;
use crate::http::api::error::DatabaseFailed;
use crate::http::listener::forwarded::{ForwardingGate, NotAccepted, NotActive, UNCONFIRMED};

/// What the API listener of an active node does with the requests that its operations do not take.
pub struct ActiveListener {
    /// Decides which those are.
    pub gate: Arc<ForwardingGate>,
    /// Passes them on.
    pub through: Arc<PassThrough>,
    /// Tells whether this node is the active one.
    pub lease: Lease,
}

impl ActiveListener {
    /// Routes the API listener of an active node to `paths`. Called by each worker.
    pub fn configure(
        &self,
        config: &mut web::ServiceConfig,
        paths: impl FnOnce(&mut web::ServiceConfig),
    ) {
        let (gate, lease) = (Arc::clone(&self.gate), self.lease.clone());
        let forwarder = Rc::new(Forwarder::new(Arc::clone(&self.through)));
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
        // Before anything is done: another node may be about to take over, where the request then succeeds.
        Ok(_) if is_forwarded && !lease.check().is_valid() => {
            NotAccepted::Refused(NotActive::Unconfirmed)
        }
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
        // The next request shall find another node.
        response
            .head_mut()
            .set_connection_type(ConnectionType::Close);
    }
    Ok(ServiceResponse::new(request, response).map_into_right_body())
}

/// Tells the node that has passed a request on if the database has failed this one alone, as far as it knows: then the next renewal of
/// the lease fails, too.
async fn mark_unconfirmed<B>(lease: &Lease, response: &mut HttpResponse<B>) {
    let has_failed = response.extensions().get::<DatabaseFailed>().is_some();
    if has_failed && !lease.is_renewed().await {
        let name = HeaderName::from_static(UNCONFIRMED);
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static("1"));
    }
}
