//! The HTTP layer: two listeners, one frame around the operations of the API.
//!
//! ```text
//!  request ─▶ trace ─▶ frame ──────────────▶ operation ─────────────▶ response
//!             id,      credential, origin,   parse, permission,       one read, or one call
//!             panics   rate, size, type,     quota, handler           to the actors
//!                      idempotency
//! ```
//!
//! An operation is declared once ([`crate::http::api::operation::operation`]): its method, path, credential, error codes and description, and a
//! handler whose types say what it reads and what it returns. The router, the frame and the OpenAPI description are all made from the
//! declaration. Each resource has a file in [`v1`] with its wire types, its operations and its handlers.

pub mod admin;
pub mod api;
pub mod app;
pub mod call;
pub mod console;
pub mod derived_keys;
pub mod etag;
pub mod files;
pub mod frame;
pub mod lease;
pub mod listener;
pub mod media;
pub mod metrics;
pub mod page;
pub mod redirect;
pub mod resource;
pub mod sdks;
pub mod standby;
pub mod state;
