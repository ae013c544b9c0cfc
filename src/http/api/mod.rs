//! The API: how an operation is declared, described and run.
//!
//! - [`v1`], [`ext`]: operations in the contract and beyond it, one file per resource.
//! - [`routes`]: the API's parts, and the path tree.
//! - [`operation`]: an operation's declaration, and its execution: declared checks, then the handler.
//! - [`input`], [`response`], [`error`]: types that handlers read, return and fail with. They describe themselves for OpenAPI.
//! - [`context`], [`quota`]: the caller, its permissions, and its project's quota.
//! - [`spec`], [`openapi`]: the declaration as data, and the OpenAPI description rendered from it.
//!
//! From the route to the handler: [`routes::find_route`] finds the operation; [`frame::handle`](super::frame::handle) checks the
//! request and looks for a stored response; [`Operation::run`](operation::Operation::run) parses the input, checks permission and
//! quota, and calls the handler.

pub mod context;
pub mod error;
pub mod ext;
pub mod input;
pub mod openapi;
pub mod operation;
pub mod quota;
pub mod response;
pub mod routes;
pub mod spec;
pub mod v1;
