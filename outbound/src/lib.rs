//! Requests to other servers: receivers of webhooks, object storage, LiveKit, billing, the CA of certificates.
//!
//! No other crate depends on `ureq`. What holds for all requests is here: [`config`] says how servers are called, and a
//! [`Client`] reads no more than it was created for. Callers add their deadlines and limits.
//!
//! Requests block their thread. Callers send them from the blocking pool or from threads of their own.
//!
//! Where a project has supplied the url, the client is [`Client::filtered`]: the [`resolver`] refuses addresses in the operator's
//! network.
//!
//! In reading order:
//!
//! - [`Client`]: one request, with a bound for what is read. [`Failure`]: why it has no response.
//! - [`roots`]: the root certificates that are trusted.
//! - [`resolver`]: the addresses that are dialled for a url that a project has supplied.
//! - `pool`: threads for requests that take long, with lanes.
//! - [`webhook`]: signed posts of events to the receivers of projects.
//! - [`upload`]: uploads of recordings to object storage.

mod client;
mod failure;
mod pool;
pub mod resolver;
pub mod roots;
pub mod upload;
pub mod webhook;

pub use client::{Client, config, config_trusting};
pub use failure::Failure;
pub use roots::TrustedRoots;
pub use ureq::unversioned::resolver::DefaultResolver;
pub use ureq::unversioned::transport;
pub use ureq::{Agent, Error, http};
