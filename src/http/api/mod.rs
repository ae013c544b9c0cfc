//! The API.

pub mod acting_role;
pub mod context;
pub mod description;
pub mod endpoint;
pub mod error;
pub mod input;
pub mod openapi;
pub mod operation;
pub mod quota;
pub mod response;
pub mod routes;
pub mod spec;
pub mod v1;
