//! Delivery of one webhook: what the actor of a webhook endpoint uses to post.
//!
//! - [`signature`]: the two signatures of a delivery.
//! - [`sender`]: posts one delivery.
//! - [`pool`]: the threads that post, and how many posts run at once.

pub mod pool;
pub mod sender;
pub mod signature;
