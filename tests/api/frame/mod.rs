//! Behaviour common to all calls: credentials, rate limits, bodies, origins, idempotency, and the error envelope.

mod admission;
mod bodies;
pub mod connections;
mod credentials;
mod envelope;
mod idempotency;
mod limits;
mod origins;
mod pipelining;
mod precedence;
mod projects;
