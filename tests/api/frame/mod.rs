//! What every call stands behind: credentials, limits, bodies, origins, idempotency, and the one envelope.

mod bodies;
mod credentials;
mod envelope;
mod idempotency;
mod limits;
mod origins;
mod precedence;
mod projects;
