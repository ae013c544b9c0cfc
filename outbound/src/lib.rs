//! Requests to other servers: webhook receivers, object storage, LiveKit, billing, and the
//! certificate authority.
//!
//! No other crate depends on `ureq`. Rules for all requests are here: [`config`] sets how servers
//! are called, and a [`Client`] reads no more than its bound. Callers add their timeouts and
//! limits. Requests block their thread, so callers send them from the blocking pool or from their
//! own threads.
//!
//! If a project supplied the URL, the client must be [`Client::filtered`]: its [`resolver`] rejects
//! addresses in the operator's network.
//!
//! - [`Client`]: one request with a bounded response. [`RequestFailure`]: the reason if there is
//!   none.
//! - [`roots`]: trusted root certificates.
//! - [`resolver`]: address checks for URLs from projects.
//! - `pool`: threads for slow requests, with separate limits for servers that hang.
//! - [`webhook`]: signed posts to webhook receivers.
//! - [`upload`]: uploads to object storage.

mod client;
mod failure;
mod pool;
pub mod resolver;
pub mod roots;
pub mod upload;
pub mod webhook;

pub use client::{Client, config, config_trusting};
pub use failure::RequestFailure;
pub use roots::TrustedRoots;
pub use ureq::unversioned::resolver::DefaultResolver;
pub use ureq::unversioned::transport;
pub use ureq::{Agent, Error, http};
