//! The HTTP layer: two listeners, one frame around the operations of the API.
//!
//! ```text
//!  request ─▶ trace ─▶ frame ──────────────▶ operation ─────────────▶ response
//!             id,      credential, origin,   parse, permission,       one read, or one call
//!             panics   rate, size, type,     quota, handler           to the actors
//!                      idempotency
//! ```
//!
//! An operation is declared once ([`operation::operation`]): its method, path, credential, error codes and description, and a
//! handler whose types say what it reads and what it returns. The router, the frame and the OpenAPI description are all made from the
//! declaration. Each resource has a file in [`v1`] with its wire types, its operations and its handlers.

pub mod acting_role;
pub mod activity;
pub mod admin;
pub mod admin_token;
pub mod admission;
pub mod app;
pub mod call;
pub mod client_address;
pub mod client_stream;
pub mod connections;
pub mod console;
pub mod context;
pub mod derived_keys;
pub mod description;
pub mod downloads;
pub mod egress_address;
pub mod endpoint;
pub mod error;
pub mod etag;
pub mod event_stream;
pub mod files;
pub mod frame;
pub mod head;
pub mod hosts;
pub mod input;
pub mod key_locks;
pub mod lease;
pub mod limits;
pub mod livekit_webhook;
pub mod media_url;
pub mod metrics;
pub mod open_connections;
pub mod openapi;
pub mod operation;
pub mod origins;
pub mod page;
pub mod passed_on;
pub mod quota;
pub mod readiness;
pub mod redirect;
pub mod request_boundary;
pub mod resource;
pub mod response;
pub mod response_body;
pub mod routes;
pub mod sdks;
pub mod signalling;
pub mod source;
pub mod spec;
pub mod standby;
pub mod state;
pub mod trace;
pub mod v1;
pub mod whip;
