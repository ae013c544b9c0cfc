//! The API listener of the active node. While it stops, requests wait: those that other nodes have passed on wait there, those of clients
//! here, until another node is active, which they are passed on to.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, web};

use super::PassThrough;
use super::forward::Forwarder;
use crate::http::passed_on::{NotTaken, PassedOnGate};

/// What the API listener of an active node does with the requests that its operations do not take.
pub struct ActiveListener {
    /// Decides which those are.
    pub gate: Arc<PassedOnGate>,
    /// Passes them on.
    pub through: Arc<PassThrough>,
}

impl ActiveListener {
    /// Routes the API listener of an active node to `paths`. Called by each worker.
    pub fn configure(&self, config: &mut web::ServiceConfig, paths: impl FnOnce(&mut web::ServiceConfig)) {
        let gate = Arc::clone(&self.gate);
        let forwarder = Rc::new(Forwarder::new(Arc::clone(&self.through)));
        let gated = from_fn(move |request, next| {
            let (gate, forwarder) = (Arc::clone(&gate), Rc::clone(&forwarder));
            async move { handle(&gate, &forwarder, request, next).await }
        });
        config.service(web::scope("").wrap(gated).configure(paths));
    }
}

async fn handle<B: MessageBody>(
    gate: &PassedOnGate,
    forwarder: &Forwarder,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let not_taken = match gate.admit(request.request()).await {
        Ok(_running) => return next.call(request).await.map(ServiceResponse::map_into_left_body),
        Err(not_taken) => not_taken,
    };
    let (request, payload) = request.into_parts();
    let mut response = match not_taken {
        NotTaken::Refused(not_active) => not_active.to_http(),
        NotTaken::PassedOn => forwarder.respond(request.clone(), payload).await,
    };
    if response.head().connection_type() != ConnectionType::Upgrade {
        // The next request shall find another node.
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(ServiceResponse::new(request, response).map_into_right_body())
}
