//! Certificates by ACME (RFC 8555), from Let's Encrypt or another CA.
//!
//! [`Renewal`] is a task: it sleeps until the [`schedule`] says that an attempt is due, makes one (`order`), and hands the
//! certificate to [`Certificates`](super::Certificates). Account and certificate are files ([`Storage`]), so a restart asks the
//! CA for nothing. Until the first certificate is there, and while the CA verifies the domain, the listeners answer the CA only
//! ([`Challenges`](super::challenge::Challenges)). No failure ends the server.

mod http;
mod order;
mod renewal;
pub mod schedule;
mod storage;

pub use http::AcmeHttp;
pub use renewal::{Renewal, RenewalStatus};
pub use storage::Storage;
