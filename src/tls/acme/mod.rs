//! Certificates by ACME (RFC 8555), from Let's Encrypt or another CA.
//!
//! [`Renewal`] is a task: it sleeps until the time of an attempt in the [`schedule`], makes the attempt (`order`), and publishes the
//! certificate in [`Certificates`](super::Certificates). Account and certificate are files ([`Storage`]), so a restart needs no request to
//! the CA. Without a certificate, and during a validation, the listeners answer only the CA's challenges
//! ([`Challenges`](super::challenge::Challenges)). No failure stops the server.

mod http;
mod order;
mod renewal;
pub mod schedule;
mod storage;

pub use http::AcmeHttp;
pub use renewal::{Renewal, RenewalStatus};
pub use storage::Storage;
