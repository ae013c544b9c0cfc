//! The API: how an operation is declared, described and run.
//!
//! - [`v1`], [`ext`]: the operations of the contract and those beyond it, with a file for each resource.
//! - [`routes`]: the parts of the API, and the tree of their paths.
//! - [`operation`]: the declaration of one, and what runs behind it: the checks that it declares, then its handler.
//! - [`input`], [`response`], [`error`]: what handlers read, return and refuse with. Their types describe themselves.
//! - [`context`], [`quota`]: who calls, and what the caller and its project may do.
//! - [`spec`], [`openapi`]: the declaration as data, and the OpenAPI description that is made from it.
//!
//! From the route to the handler: [`routes::find_route`] finds the operation; [`frame::handle`](super::frame::handle) checks the request and
//! looks for a stored response; [`Operation::run`](operation::Operation::run) parses the input, checks permission and quota, and calls
//! the handler.

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
