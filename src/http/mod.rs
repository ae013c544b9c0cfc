//! The HTTP layer: two listeners, one frame around the operations of the API.
//!
//! ```text
//!  request ─▶ trace ─▶ frame ──────────────▶ operation ─────────────▶ response
//!             id,      credential, origin,   parse, permission,       one read, or one call
//!             panics   rate, size, type,     quota, handler           to the actors
//!                      idempotency
//! ```
//!
//! An operation is declared once ([`api::operation::operation`]): its method, path, credential, error codes and description, and a
//! handler whose types define its input and output. The router, the frame and the OpenAPI description are all derived from the
//! declaration. Each resource has a file in [`api::v1`] with its wire types, its operations and its handlers.
//!
//! - [`app`], [`state`]: routes of the public listeners, and state that requests share.
//! - [`listener`]: connections, and the middleware around every request.
//! - [`frame`], [`api`]: the checks of a request, and the operations.
//! - [`media`], [`files`], [`call`]: paths besides the operations: signalling and encoders, recording files, the call page.
//! - [`admin`], [`console`]: the admin listener, and its pages for operators.
//! - [`resource`], [`derived_keys`], [`erasure`], [`lease`], [`measured`], [`metrics`]: shared parts.

pub mod admin;
pub mod api;
pub mod app;
pub mod call;
pub mod console;
pub mod derived_keys;
pub mod erasure;
pub mod files;
pub mod frame;
pub mod lease;
pub mod listener;
pub mod measured;
pub mod media;
pub mod metrics;
pub mod resource;
pub mod state;
