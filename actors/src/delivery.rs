//! Delivery of one webhook: what the actor of a webhook endpoint uses to post, and registration to check a url.
//!
//! - [`signature`]: the two signatures of a delivery.
//! - [`resolver`]: resolves a host, checks its addresses and returns the very address that is dialled.
//! - [`sender`]: posts one delivery.
//! - `http_error`: what a request without a response says.
//! - [`pool`]: the threads that post, and how many posts run at once.

pub(crate) mod http_error;
pub mod pool;
pub mod resolver;
pub mod sender;
pub mod signature;
