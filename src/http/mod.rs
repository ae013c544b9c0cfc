//! The HTTP face: two listeners, one frame.
//!
//! ```text
//!  request ─▶ trace ─▶ gate ─▶ handler ─▶ answer
//!             id,      credential, rate, origin, size,     one read, or one call
//!             panics   media type, idempotency             to the actors
//! ```
//!
//! An operation is a constant ([`operation::Operation`]): its method, path, credential, error codes, handler and
//! description in one place. The router, the gate and the OpenAPI description are all made from it, so that an operation
//! can forget none of the frame. One file a resource holds its wire types and its operations ([`v1`]).

pub mod admin;
pub mod answer;
pub mod app;
pub mod body;
pub mod call;
pub mod egress_address;
pub mod gate;
pub mod intake;
pub mod metrics;
pub mod openapi;
pub mod operation;
pub mod problem;
pub mod query;
pub mod standing;
pub mod state;
pub mod trace;
pub mod v1;
